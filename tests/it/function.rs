//! Functions and operations: their usage and cost.

use harness::{ReportBuilder, TestApp, usage};
use serde_json::{Value, json};

const FUNCTIONS: &str = "prefix computeSeconds transferSeconds tasks tasksErred bytes
    costs { amount currency basis }";

/// Creates an account with rates from the 21st and the 22nd on: four threads, a worker and two GiB for
/// an hour of each of three days, in which `load` computed 3,000.5 s and `divide` 599.5 s.
async fn three_days(app: &TestApp) -> (harness::Member, i64) {
    app.set_clock("2026-11-22T12:00:00Z");
    let ada = app.account("ada").await;
    let set = "mutation($input: CostRateInput!) { setCostRate(input: $input) { userErrors { field } } }";
    for (day, thread, gib, worker) in [("2026-11-21", 0.1, 0.01, 0.5), ("2026-11-22", 0.2, 0.0, 0.0)] {
        let rate = json!({ "validFrom": day, "currency": "EUR", "perThreadHour": thread, "perGibHour": gib,
            "perWorkerHour": worker });
        let answer = ada.query(set, json!({ "input": rate })).await;
        assert_eq!(answer["setCostRate"]["userErrors"], json!([]));
    }
    let report = |scheduler| {
        let hours = vec![usage(23, 4), usage(24, 4), usage(48, 4)];
        ReportBuilder::new(scheduler, 1).with("/usage", hours).build()
    };
    let number = ada.reported(&report("Scheduler-1")).await;
    ada.reported(&report("Scheduler-2")).await;
    app.fold_usage().await;
    (ada, number)
}

fn function(prefix: &str, totals: [f64; 2], counts: [i64; 3], costs: [f64; 2]) -> Value {
    json!({ "prefix": prefix, "computeSeconds": totals[0], "transferSeconds": totals[1],
        "tasks": counts[0], "tasksErred": counts[1], "bytes": counts[2],
        "costs": [
            { "amount": costs[0], "currency": "EUR", "basis": "RATE_CARD" },
            { "amount": costs[1], "currency": "USD", "basis": "ESTIMATED" },
        ] })
}

#[tokio::test]
async fn an_operation_costs_its_part_of_the_time_it_computed_in() {
    let app = TestApp::start().await;
    let (ada, _) = three_days(&app).await;
    // Of `load`, 3,000.5 s of 14,400 s of threads a day: on the 20th 3,000.5 / 3,600 x 0.05 USD; on the
    // 21st that share of 4 x 0.1 + 2 x 0.01 + 0.5 = 0.92 EUR, which is 0.083347222 + 0.004167361 +
    // 0.104184028; on the 22nd of 0.8 EUR. Of `divide` the same with 599.5 s.
    let of_one = json!([
        function("load", [9_001.5, 0.0], [180, 0, 1_800], [0.358_393_055, 0.041_673_611]),
        function("divide", [1_798.5, 4.5], [120, 3, 1_200], [0.071_606_945, 0.008_326_389]),
    ]);
    let query =
        format!("{{ viewer {{ account {{ clusters {{ nodes {{ functions {{ {FUNCTIONS} }} }} }} }} }} }}");
    let before = app.statements();
    let answer = ada.query(&query, json!({})).await;
    assert_eq!(app.statements() - before, 5, "sign-in, clusters, functions, what was paid for, and rates");
    assert_eq!(
        answer["viewer"]["account"]["clusters"]["nodes"],
        json!([{ "functions": of_one }, { "functions": of_one }])
    );

    // Twice the amounts. Time at one rate is rounded once: of `load` on the 21st 0.166694444 +
    // 0.008334722 + 0.208368056, on the 22nd 0.333388889.
    let query = format!(
        r#"{{ viewer {{ account {{ functions {{ {FUNCTIONS} }} first: functions(first: 1, to: "2026-11-21") {{
            prefix costs {{ amount currency }} }} }} }} }}"#
    );
    let before = app.statements();
    let answer = ada.query(&query, json!({})).await;
    assert_eq!(app.statements() - before, 6, "sign-in, rates, and functions with what was paid for, twice");
    let account = &answer["viewer"]["account"];
    assert_eq!(
        account["functions"],
        json!([
            function("load", [18_003.0, 0.0], [360, 0, 3_600], [0.716_786_111, 0.083_347_222]),
            function("divide", [3_597.0, 9.0], [240, 6, 2_400], [0.143_213_889, 0.016_652_778]),
        ])
    );
    let first = json!([{ "prefix": "load", "costs": [{ "amount": 0.083_347_222, "currency": "USD" }] }]);
    assert_eq!(account["first"], first);
    app.stop().await;
}

#[tokio::test]
async fn the_functions_that_computed_longest_come_first() {
    let app = TestApp::start().await;
    let (ada, number) = three_days(&app).await;
    let query = "query($cluster: ID!, $first: Int!) { cluster(id: $cluster) { functions(first: $first) { prefix } } }";
    let answer = ada.query(query, json!({ "cluster": number, "first": 1 })).await;
    assert_eq!(answer["cluster"]["functions"], json!([{ "prefix": "load" }]));
    for first in [0, -1, 1_001] {
        let answer = ada.ask(query, json!({ "cluster": number, "first": first })).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{first}: {answer}");
    }
    let bob = app.account("bob").await;
    let theirs = "{ viewer { account { functions { prefix costs { amount } } } } }";
    assert_eq!(bob.query(theirs, json!({})).await["viewer"]["account"]["functions"], json!([]));
    app.stop().await;
}
