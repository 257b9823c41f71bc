//! Fine performance metrics: summed over spans and over the cluster.

use harness::{Member, ReportBuilder, TestApp, threads};
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
            .with("/fine_metrics", json!([{ "span_id": harness::uuid(2), "cells": cells }]))
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
