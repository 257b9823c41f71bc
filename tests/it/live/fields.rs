//! Fields of the clusters in a payload: flags, usage, spans and series are as new as the payload.

use harness::{ReportBuilder, TestApp, sample, span, usage};
use serde_json::{Value, json};

use super::Watching;

fn samples(seconds: impl IntoIterator<Item = (i64, i64)>) -> Vec<Value> {
    let metrics = |used| json!({ "memory_process_bytes": used, "memory_limit_bytes": 100 });
    seconds.into_iter().map(|(second, used)| sample(None, second * 1_000, metrics(used))).collect()
}

#[tokio::test]
async fn a_flag_reaches_whoever_watches_its_cluster_when_it_begins_gets_worse_and_ends() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let query = "subscription($after: String) { clusters(account: \"ada\", after: $after) {
        matches cluster { flags { nodes { kind value isActive } } } } }";
    let mut watching = Watching::begin(&app, &ada, "clusters", query, json!({})).await;
    for (sequence, used, value, is_active) in
        [(100, 90, 0.9, true), (200, 95, 0.95, true), (400, 10, 0.95, false)]
    {
        let within = (0..5).map(|back| (sequence - 15 * back, used));
        ada.reported(&ReportBuilder::new("one", sequence).with("/samples", samples(within)).build()).await;
        // The payload of the report comes before a job evaluates the flags.
        watching.next().await;
        app.run_jobs().await;
        let flag = json!([{ "kind": "MEMORY_PRESSURE", "value": value, "isActive": is_active }]);
        watching.wait_for("/cluster/flags/nodes", &flag).await;
    }
    assert!(watching.is_quiet().await);
    app.stop().await;
}

#[tokio::test]
async fn snapshots_show_the_usage_and_the_spans_of_the_report_that_they_follow() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let fields = "usage { threadSeconds } account { usage { threadSeconds } } spans { nodes { tag done } }";
    let query = |stream: &str| format!("subscription($after: String) {{ {stream} {{ {fields} }} }} }}");
    let of_snapshots = query("snapshots(account: \"ada\", everySeconds: 1, after: $after) { clusters");
    let of_clusters = query("clusters(account: \"ada\", after: $after) { cluster");
    let mut snapshots = Watching::begin(&app, &ada, "snapshots", &of_snapshots, json!({})).await;
    let mut changes = Watching::begin(&app, &ada, "clusters", &of_clusters, json!({})).await;
    let report = |sequence, hours: Vec<Value>, spans: Value| {
        ReportBuilder::new("one", sequence).with("/usage", hours).with("/spans", spans).build()
    };
    let expected = |hours: f64, of_account: f64, spans: Value| {
        let usage = |hours: f64| json!({ "threadSeconds": 3_600.0 * hours });
        json!({ "usage": usage(hours), "account": { "usage": usage(of_account) }, "spans": { "nodes": spans } })
    };
    for (sequence, hours, spans, payload) in [
        (
            1,
            vec![usage(11, 4)],
            json!([span(30, None, &["etl"], 1.0, None)]),
            expected(4.0, 0.0, json!([{ "tag": "etl", "done": false }])),
        ),
        // The days of the account are folded by a job, once a minute.
        (
            2,
            vec![usage(12, 2)],
            json!([span(30, None, &["etl"], 1.0, Some(2.0)), span(31, None, &["train"], 2.0, None)]),
            expected(6.0, 4.0, json!([{ "tag": "etl", "done": true }, { "tag": "train", "done": false }])),
        ),
    ] {
        ada.reported(&report(sequence, hours, spans)).await;
        snapshots.wait_for("/clusters", &json!([payload])).await;
        changes.wait_for("/cluster", &payload).await;
        app.fold_usage().await;
    }
    app.stop().await;
}

#[tokio::test]
async fn the_last_seconds_of_a_series_are_the_new_points() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let query = "subscription($after: String) { snapshots(account: \"ada\", everySeconds: 1, after: $after) {
        clusters { series(metrics: [MEMORY_PROCESS], bucketSeconds: 10, lastSeconds: 15) { points { at value } } } } }";
    let mut watching = Watching::begin(&app, &ada, "snapshots", query, json!({})).await;
    let mut number = 0;
    let point =
        |second: i64, value: f64| json!({ "at": format!("2026-11-20T11:00:{second}+00:00"), "value": value });
    for (sequence, measured, points) in [
        // The last 15 seconds begin within the bucket from 20 to 30 seconds, of which both values count.
        (35, vec![(10, 1), (20, 2), (21, 4), (30, 5)], vec![point(20, 3.0), point(30, 5.0)]),
        (52, vec![(40, 6), (50, 7)], vec![point(30, 5.0), point(40, 6.0), point(50, 7.0)]),
    ] {
        let report = ReportBuilder::new("one", sequence).with("/samples", samples(measured));
        number = ada.reported(&report.build()).await;
        let expected = json!([{ "series": [{ "points": points }] }]);
        watching.wait_for("/clusters", &expected).await;
    }
    // It is an argument of queries, too.
    let select = |arguments: &str| {
        format!(
            "{{ cluster(id: \"{number}\") {{ series(metrics: [MEMORY_PROCESS], {arguments}) {{ points {{ at }} }} }} }}"
        )
    };
    for (arguments, message) in [
        ("lastSeconds: 0", "argument 'lastSeconds': must be between 1 and 2678400"),
        ("lastSeconds: 2678401", "argument 'lastSeconds': must be between 1 and 2678400"),
        (
            "lastSeconds: 1, from: \"2026-11-20T11:00:00Z\"",
            "argument 'lastSeconds': cannot be used together with 'from'",
        ),
    ] {
        let answer = ada.ask(&select(arguments), json!({})).await;
        assert_eq!(answer["errors"][0]["message"], message, "{arguments}");
    }
    let whole = ada
        .query(&select("lastSeconds: 2678400, to: \"2026-11-20T11:00:25Z\", bucketSeconds: 10"), json!({}))
        .await;
    let at = |second: i64| json!({ "at": format!("2026-11-20T11:00:{second}+00:00") });
    assert_eq!(whole["cluster"]["series"][0]["points"], json!([at(10), at(20)]));
    app.stop().await;
}
