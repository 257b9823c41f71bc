//! The cost of usage, with rates that change.

use harness::{ReportBuilder, TestApp, usage};
use serde_json::{Value, json};

const SET: &str = "mutation($input: CostRateInput!) { setCostRate(input: $input) {
    account { costRates { validFrom currency perThreadHour perGibHour perWorkerHour } } userErrors { field code message } } }";

#[tokio::test]
async fn each_day_costs_what_it_cost_then() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.set_clock("2026-11-22T12:00:00Z");
    // Four threads, a worker and two GiB for the last hour of the 20th and the first hours of the 21st
    // and 22nd.
    let hours = vec![usage(23, 4), usage(24, 4), usage(48, 4)];
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/usage", hours).build()).await;
    app.fold_usage().await;

    let rate = json!({ "validFrom": "2026-11-21", "currency": "EUR", "perThreadHour": 0.1, "perGibHour": 0.01, "perWorkerHour": 0.5 });
    let answer = ada.query(SET, json!({ "input": rate })).await;
    assert_eq!(answer["setCostRate"], json!({ "account": { "costRates": [rate] }, "userErrors": [] }));
    let later = json!({ "validFrom": "2026-11-22", "currency": "EUR", "perThreadHour": 0.2, "perGibHour": 0.0, "perWorkerHour": 0.0 });
    ada.query(SET, json!({ "input": later })).await;

    let query = "{ viewer { account { usage { costs { amount currency basis causes { cause amount } } }
        clusters { nodes { usage { costs { amount currency basis causes { cause amount } } } } } } } }";
    let answer = ada.query(query, json!({})).await;
    let causes = |cpu: f64, waiting: f64, idle: f64| {
        json!([
            { "cause": "CPU", "amount": cpu }, { "cause": "WAITING", "amount": waiting },
            { "cause": "SERIALIZATION", "amount": 0.0 }, { "cause": "SPILL", "amount": 0.0 },
            { "cause": "OVERHEAD", "amount": 0.0 }, { "cause": "FAILED", "amount": 0.0 },
            { "cause": "IDLE", "amount": idle }, { "cause": "UNACCOUNTED", "amount": 0.0 },
        ])
    };
    // The 21st: 4 x 0.1 + 2 x 0.01 + 0.5 = 0.92; the 22nd: 4 x 0.2 = 0.8. Of four thread-hours 3,000 s
    // used the CPU, 600 s waited and three hours were idle: 5/24, 1/24 and 3/4 of the amount.
    let expected = json!([
        { "amount": 1.72, "currency": "EUR", "basis": "RATE_CARD",
          "causes": causes(0.358_333_334, 0.071_666_666, 1.29) },
        { "amount": 0.2, "currency": "USD", "basis": "ESTIMATED",
          "causes": causes(0.041_666_667, 0.008_333_333, 0.15) },
    ]);
    assert_eq!(answer["viewer"]["account"]["usage"]["costs"], expected);
    assert_eq!(answer["viewer"]["account"]["clusters"]["nodes"][0]["usage"]["costs"], expected);

    let delete = r#"mutation { deleteCostRate(validFrom: "2026-11-22") { account { costRates { validFrom } usage { costs { amount } } } userErrors { field code } } }"#;
    let answer = ada.query(delete, json!({})).await;
    let expected = json!({
        "account": { "costRates": [{ "validFrom": "2026-11-21" }], "usage": { "costs": [{ "amount": 1.84 }, { "amount": 0.2 }] } },
        "userErrors": [],
    });
    assert_eq!(answer["deleteCostRate"], expected);
    let answer = ada.query(delete, json!({})).await;
    assert_eq!(
        answer["deleteCostRate"]["userErrors"],
        json!([{ "field": "validFrom", "code": "NOT_FOUND" }])
    );
    app.stop().await;
}

#[tokio::test]
async fn a_running_cluster_has_a_price_per_hour() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |sequence| {
        ReportBuilder::new("Scheduler-1", sequence)
            .with("/cluster/workers", 2)
            .with("/cluster/threads", 8)
            .with("/cluster/memory_limit_bytes", 3_i64 << 29)
    };
    let number = ada.reported(&report(1).build()).await;
    let price = async || {
        let query = "query($id: ID!) { cluster(id: $id) { costPerHour { amount currency basis } } }";
        ada.query(query, json!({ "id": number.to_string() })).await["cluster"]["costPerHour"].take()
    };
    assert_eq!(price().await, json!({ "amount": 0.4, "currency": "USD", "basis": "ESTIMATED" }));
    let rate = |from, per_gib| json!({ "validFrom": from, "currency": "EUR", "perThreadHour": 0.1, "perGibHour": per_gib, "perWorkerHour": 0.5 });
    for (from, per_gib) in [("2026-11-20", 0.01), ("2026-11-21", 2.0)] {
        ada.query(SET, json!({ "input": rate(from, per_gib) })).await;
    }
    // 8 x 0.1, 2 x 0.5 and 1.5 GiB x 0.01, by the rate of today.
    assert_eq!(price().await, json!({ "amount": 1.815, "currency": "EUR", "basis": "RATE_CARD" }));
    ada.reported(&report(2).with("/cluster/memory_limit_bytes", Value::Null).build()).await;
    assert_eq!(price().await, Value::Null, "a worker without a memory limit");
    ada.query(SET, json!({ "input": rate("2026-11-20", 0.0) })).await;
    assert_eq!(price().await["amount"], 1.8);
    ada.reported(&report(3).with("/final", true).with("/cluster/closed_at", 1_795_176_000.25).build()).await;
    assert_eq!(price().await, Value::Null, "it closed");
    app.stop().await;
}

#[tokio::test]
async fn a_wrong_rate_is_refused_with_every_field_named() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let fields = |answer: &Value| -> Vec<String> {
        let errors = answer["setCostRate"]["userErrors"].as_array().unwrap();
        let describe = |error: &Value| format!("{} {}", error["field"], error["code"]).replace('"', "");
        errors.iter().map(describe).collect()
    };
    for (change, wrong) in [
        (json!({ "currency": "usd" }), vec!["currency INVALID"]),
        (
            json!({ "currency": "EURO", "perGibHour": -0.1 }),
            vec!["currency INVALID", "perGibHour OUT_OF_RANGE"],
        ),
        (
            json!({ "perThreadHour": 1_000_001, "perWorkerHour": 1e300 }),
            vec!["perThreadHour OUT_OF_RANGE", "perWorkerHour OUT_OF_RANGE"],
        ),
    ] {
        let mut input = json!({ "validFrom": "2026-11-21" });
        input.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = ada.query(SET, json!({ "input": input })).await;
        assert_eq!(fields(&answer), wrong, "{input}");
        assert_eq!(answer["setCostRate"]["account"]["costRates"], json!([]), "{input}");
    }
    for day in ["2026-11-31", "20261120", "1969-12-31", "10000-01-01", "2026-1-1", "tomorrow"] {
        let answer = ada.ask(SET, json!({ "input": { "validFrom": day } })).await;
        assert!(answer["errors"][0]["message"].is_string() && answer["data"].is_null(), "{day}: {answer}");
    }
    let reader = ada.with_token(ada.token(&[entity::api_token::Scope::Read], None).await);
    let answer = reader.ask(SET, json!({ "input": { "validFrom": "2026-11-21" } })).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN");
    app.stop().await;
}
