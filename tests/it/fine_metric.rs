//! Fine performance metrics: summed over spans and over the cluster.

use std::ops::Range;

use entity::fine_metric_total;
use harness::{Member, ReportBuilder, STARTED_AT, TestApp, threads, uuid};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use crate::span::{history, nested};

const METRICS: &str =
    "units rowCount total idleSeconds rows { context function activity unit value spanAttributable }";

async fn cluster(member: &Member, number: i64, field: &str) -> Value {
    let query = format!("query($id: ID!) {{ cluster(id: $id) {{ {field} }} }}");
    member.query(&query, json!({ "id": number.to_string() })).await["cluster"].clone()
}

fn row(
    context: &str,
    function: Option<&str>,
    activity: &str,
    unit: &str,
    value: f64,
    of_spans: bool,
) -> Value {
    json!({ "context": context, "function": function, "activity": activity, "unit": unit, "value": value,
        "spanAttributable": of_spans })
}

#[tokio::test]
async fn metrics_of_a_cluster_are_those_of_its_spans_and_of_none() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&nested(30).without("/thread_history").build()).await;
    let all = cluster(&ada, number, &format!("fineMetrics {{ {METRICS} }}")).await["fineMetrics"].clone();
    let expected = [
        row("execute", Some("load"), "disk-read", "bytes", 1000.0, true),
        row("get-data", None, "network", "bytes", 50.0, false),
        row("execute", Some("load"), "thread-cpu", "seconds", 27.0, true),
        row("execute", Some("fit"), "thread-cpu", "seconds", 12.5, true),
        row("gather-dep", None, "network", "seconds", 7.0, false),
        row("execute", Some("load"), "other", "seconds", 4.0, true),
        row("p2p", Some("foreground"), "network", "seconds", 3.0, true),
    ];
    assert_eq!(all["rows"], json!(expected));
    assert_eq!(all["units"], json!(["bytes", "seconds"]));
    assert_eq!((&all["rowCount"], &all["total"]), (&json!(7), &Value::Null));
    assert_eq!(all["idleSeconds"], Value::Null, "nothing is known of threads");

    let with_threads = ReportBuilder::new("Scheduler-1", 31).with("/thread_history", history().to_vec());
    ada.reported(&with_threads.build()).await;
    let seconds =
        cluster(&ada, number, &format!("fineMetrics(unit: \"seconds\", first: 1) {{ {METRICS} }}")).await;
    let seconds = &seconds["fineMetrics"];
    assert_eq!(seconds["rows"], json!([expected[2]]));
    assert_eq!((&seconds["rowCount"], &seconds["total"]), (&json!(5), &json!(53.5)));
    let none = cluster(&ada, number, "fineMetrics(unit: \"furlongs\") { total }").await;
    assert_eq!(none["fineMetrics"]["total"].to_string(), "0.0", "and not -0.0");
    assert_eq!(seconds["units"], json!(["bytes", "seconds"]));
    // 56 thread-seconds while `etl` was active and 16 with `default`, less 43.5 spent executing.
    assert_eq!(seconds["idleSeconds"], 28.5);
    app.stop().await;
}

#[tokio::test]
async fn metrics_of_a_span_are_told_with_and_without_those_below_it() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = nested(30).with("/thread_history", json!([threads(0.0, 2)]));
    let number = ada.reported(&report.build()).await;
    let metrics = "{ total idleSeconds rows { activity value } }";
    let field = format!(
        "spans(tags: [\"load\"], roots: true) {{ nodes {{ all: fineMetrics(unit: \"seconds\") {metrics}
            own: fineMetrics(unit: \"seconds\", inclusive: false) {metrics} none: fineMetrics(unit: \"furlongs\") {metrics} }} }}"
    );
    let answer = cluster(&ada, number, &field).await;
    let node = &answer["spans"]["nodes"][0];
    // Active for 16 seconds with 2 threads.
    let rows = json!([{ "activity": "thread-cpu", "value": 26.0 }, { "activity": "other", "value": 4.0 }]);
    assert_eq!(node["all"], json!({ "total": 30.0, "idleSeconds": 2.0, "rows": rows }));
    let rows = json!([{ "activity": "thread-cpu", "value": 6.0 }, { "activity": "other", "value": 4.0 }]);
    assert_eq!(node["own"], json!({ "total": 10.0, "idleSeconds": null, "rows": rows }));
    assert_eq!(node["none"]["rows"], json!([]));
    app.stop().await;
}

#[tokio::test]
async fn only_the_latest_values_of_a_span_count() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let with = |sequence: i64, value: f64| {
        let cells = json!([["execute", "load", "thread-cpu", "seconds", value]]);
        ReportBuilder::new("Scheduler-1", sequence)
            .with("/fine_metrics", json!([{ "span_id": uuid(2), "cells": cells }]))
            .build()
    };
    let number = ada.reported(&with(2, 5.0)).await;
    for (sequence, value, total) in [(1, 1.0, 5.0), (2, 5.0, 5.0), (3, 8.0, 8.0)] {
        ada.reported(&with(sequence, value)).await;
        let answer = cluster(&ada, number, "fineMetrics(unit: \"seconds\") { total }").await;
        assert_eq!(answer["fineMetrics"]["total"], total, "{sequence}");
    }
    app.stop().await;
}

/// The number of stored sums.
async fn stored_sums(app: &TestApp) -> u64 {
    fine_metric_total::Entity::find().count(&app.database.connection().await).await.unwrap()
}

#[tokio::test]
async fn sums_stored_at_the_end_follow_each_later_report() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |sequence: i64, is_closed: bool, spans: &[(Option<u128>, f64)]| {
        let metrics = spans.iter().map(|(span, value)| {
            json!({ "span_id": span.map(uuid), "cells": [["execute", "load", "thread-cpu", "seconds", value]] })
        });
        let report =
            ReportBuilder::new("Scheduler-1", sequence).with("/fine_metrics", metrics.collect::<Vec<_>>());
        let closed_at = STARTED_AT + 9.0;
        if is_closed {
            report.with("/final", true).with("/cluster/closed_at", closed_at).build()
        } else {
            report.build()
        }
    };
    // The reports, the sums of the spans and of metrics without one, and the number of stored sums.
    let steps = [
        (report(2, false, &[(Some(1), 5.0), (Some(2), 2.0), (None, 0.5)]), 7.0, 0.5, 0),
        // The end, with another value of a span.
        (report(4, true, &[(Some(1), 6.0)]), 8.0, 0.5, 1),
        // The same report again, and one that does not change the metrics.
        (report(4, true, &[(Some(1), 6.0)]), 8.0, 0.5, 1),
        (report(5, true, &[]), 8.0, 0.5, 1),
        // Reports that arrive late, with an older value and with another span.
        (report(3, false, &[(Some(1), 4.0)]), 8.0, 0.5, 1),
        (report(1, false, &[(Some(3), 1.0)]), 9.0, 0.5, 1),
        // The scheduler reports again, and then ends for good.
        (report(6, false, &[]), 9.0, 0.5, 0),
        (report(7, false, &[(Some(2), 4.0)]), 11.0, 0.5, 0),
        (report(8, true, &[(None, 1.0)]), 11.0, 1.0, 1),
    ];
    for (report, of_spans, of_none, stored) in steps {
        let number = ada.reported(&report).await;
        let answer = cluster(&ada, number, "fineMetrics { rows { value spanAttributable } }").await;
        let expected = json!([
            { "value": of_spans, "spanAttributable": true },
            { "value": of_none, "spanAttributable": false },
        ]);
        assert_eq!(answer["fineMetrics"]["rows"], expected, "{report}");
        assert_eq!(stored_sums(&app).await, stored, "{report}");
    }
    app.stop().await;
}

#[tokio::test]
async fn sums_of_very_many_spans_are_not_stored() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |sequence: i64, spans: Range<u128>| {
        let cells = json!([["execute", "load", "thread-cpu", "seconds", 1]]);
        let metrics = spans.map(|span| json!({ "span_id": uuid(span), "cells": cells }));
        ReportBuilder::new("Scheduler-1", sequence)
            .with("/fine_metrics", metrics.collect::<Vec<_>>())
            .with("/final", true)
            .build()
    };
    for (sequence, spans, stored) in
        [(1, 1..2_001, 1), (2, 2_001..4_001, 1), (3, 4_001..5_001, 1), (4, 5_001..5_002, 0)]
    {
        let total = f64::from(u32::try_from(spans.end - 1).unwrap());
        let number = ada.reported(&report(sequence, spans)).await;
        let answer = cluster(&ada, number, "fineMetrics(unit: \"seconds\") { total }").await;
        assert_eq!(answer["fineMetrics"]["total"], total);
        assert_eq!(stored_sums(&app).await, stored, "{sequence}");
    }
    app.stop().await;
}
