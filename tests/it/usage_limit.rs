//! Limits of what counts as usage: the threads of a quota, the time of arrival, and the thread time that
//! a cluster had until then.

use harness::{Member, Program, ReportBuilder, TestApp, usage};
use serde_json::{Value, json};

/// The hour of the tests' clocks, counted from the midnight before.
const NOON: i64 = 12;

const CLUSTER: &str = "query($id: ID!) { cluster(id: $id) {
    clampedFields usage { threadSeconds workerSeconds computeSeconds idleSeconds isComplete costs { amount currency } }
    usageHours { start usage { threadSeconds computeSeconds isComplete } }
    functions { prefix computeSeconds }
    answers { cost { headline confidence } topTime { headline confidence } } } }";

async fn shown(member: &Member, cluster: i64) -> Value {
    member.query(CLUSTER, json!({ "id": cluster.to_string() })).await["cluster"].take()
}

/// A report of a cluster that had so many threads at its peak.
fn threads(sequence: i64, threads: i64, hours: &[Value]) -> Value {
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/cluster/totals/peak_threads", threads)
        .with("/cluster/totals/peak_workers", threads)
        .with("/usage", hours.to_vec())
        .build()
}

/// An hour of so many workers with one thread each.
fn workers(hour: i64, threads: i64) -> Value {
    let mut hour = usage(hour, threads);
    hour["worker_seconds"] = json!(3_600 * threads);
    hour
}

#[tokio::test]
async fn threads_beyond_the_quota_are_neither_counted_nor_priced() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (_, answer) = ada.report(&threads(1, 1_000_000, &[workers(11, 1_000_000)])).await;
    let cut = json!(["usage.idle_seconds", "usage.thread_seconds", "usage.worker_seconds"]);
    assert_eq!(answer["cut"], cut);
    let cluster = answer["cluster_id"].as_i64().unwrap();
    let found = shown(&ada, cluster).await;
    assert_eq!(found["clampedFields"], cut);
    // 100,000 threads for an hour, at 0.05 USD each.
    let usage = &found["usage"];
    assert_eq!((&usage["threadSeconds"], &usage["workerSeconds"]), (&json!(3.6e8), &json!(3.6e8)));
    assert_eq!(usage["isComplete"], false);
    assert_eq!(usage["costs"], json!([{ "amount": 5_000.0, "currency": "USD" }]));
    let cost = &found["answers"]["cost"];
    assert_eq!(cost["confidence"], "ESTIMATED");
    assert!(
        cost["headline"].as_str().unwrap().ends_with("Impossible values of the reported usage were clamped.")
    );
    app.fold_usage().await;
    let query = "{ viewer { account { quota { clusterThreads } usage { threadSeconds isComplete costs { amount } } } } }";
    let account = ada.query(query, json!({})).await["viewer"]["account"].take();
    let expected = json!({ "quota": { "clusterThreads": 100_000 },
        "usage": { "threadSeconds": 3.6e8, "isComplete": false, "costs": [{ "amount": 5_000.0 }] } });
    assert_eq!(account, expected);

    let run = async |threads: &str| {
        let store = ["--database-url", app.database.url(), "--log", "warn"];
        let arguments = [&["account", "quota", "ada", "--threads", threads][..], &store[..]].concat();
        assert_eq!(Program::run(&arguments).await.0, Some(0), "{threads}");
    };
    let quota = async || ada.query(query, json!({})).await["viewer"]["account"]["quota"].take();
    run("50").await;
    assert_eq!(quota().await, json!({ "clusterThreads": 50 }));
    // A server applies it within a minute. An hour that fits is complete.
    app.set_clock("2026-11-20T12:01:00Z");
    ada.reported(&threads(2, 60, &[workers(9, 60), workers(10, 50)])).await;
    run("none").await;
    assert_eq!(quota().await, json!({ "clusterThreads": null }));
    app.set_clock("2026-11-20T12:02:00Z");
    ada.reported(&threads(3, 1_000_000, &[workers(8, 1_000_000)])).await;
    let hour = |hour: i64, seconds: f64, is_complete: bool| {
        json!({ "start": format!("2026-11-20T{hour:02}:00:00+00:00"),
            "usage": { "threadSeconds": seconds, "computeSeconds": 3_600.0, "isComplete": is_complete } })
    };
    let expected = json!([
        hour(8, 3.6e9, true),
        hour(9, 180_000.0, false),
        hour(10, 180_000.0, true),
        hour(11, 3.6e8, false)
    ]);
    assert_eq!(shown(&ada, cluster).await["usageHours"], expected);
    app.stop().await;
}

#[tokio::test]
async fn hours_more_than_a_day_ahead_are_omitted() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for ahead in [25, 48, 24 * 99, 24 * 365] {
        let hours = [usage(NOON + 24, 2), usage(NOON + ahead, 2)];
        let (_, answer) = ada.report(&threads(ahead, 4, &hours)).await;
        assert_eq!(answer["cut"], json!(["usage.hour"]), "{ahead}");
        let found = shown(&ada, answer["cluster_id"].as_i64().unwrap()).await;
        let hour = json!({ "start": "2026-11-21T12:00:00+00:00",
            "usage": { "threadSeconds": 7_200.0, "computeSeconds": 3_600.0, "isComplete": true } });
        assert_eq!(
            (&found["usageHours"], &found["clampedFields"]),
            (&json!([hour]), &json!(["usage.hour"])),
            "{ahead}"
        );
        let headline = found["answers"]["cost"]["headline"].as_str().unwrap();
        assert!(headline.ends_with("Impossible values of the reported usage were clamped."), "{headline}");
    }
    app.stop().await;
}

/// An hour in which tasks ended that had computed for so many seconds.
fn computed(hour: i64, threads: i64, seconds: f64) -> Value {
    let mut hour = usage(hour, threads);
    hour["compute_seconds"] = json!(seconds);
    (hour["cpu_seconds"], hour["noncpu_seconds"]) = (json!(seconds), json!(0));
    hour["functions"][0]["compute_seconds"] = json!(seconds * 0.75);
    hour["functions"][1]["compute_seconds"] = json!(seconds * 0.25);
    hour
}

/// The totals of the account, by its stored days and by its hours.
async fn sums(app: &TestApp, member: &Member) -> Value {
    app.fold_usage().await;
    let query = r#"{ viewer { account {
        usage { threadSeconds computeSeconds idleSeconds isComplete } functions { prefix computeSeconds }
        hours: usageTable(from: "2026-11-20", to: "2026-11-21", by: [HOUR]) { usage { computeSeconds isComplete } }
        users: usageTable(from: "2026-11-20", to: "2026-11-21", by: [USER, DAY]) { usage { computeSeconds isComplete } }
        clusters { aggregates { usage { computeSeconds isComplete } } } } } }"#;
    member.query(query, json!({})).await["viewer"]["account"].take()
}

#[tokio::test]
async fn tasks_compute_no_longer_than_there_were_threads() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let place = json!(["usage.total_compute_seconds"]);
    // Three hours of compute time, by one thread in one hour; then an hour of four threads.
    let (_, answer) = ada.report(&threads(1, 4, &[computed(10, 1, 10_800.0), usage(11, 4)])).await;
    assert_eq!(answer["cut"], place);
    let cluster = answer["cluster_id"].as_i64().unwrap();
    let hour = |hour: i64, threads: f64, seconds: f64, is_complete: bool| {
        json!({ "start": format!("2026-11-20T{hour:02}:00:00+00:00"),
            "usage": { "threadSeconds": threads * 3_600.0, "computeSeconds": seconds, "isComplete": is_complete } })
    };
    let function = |prefix: &str, seconds: f64| json!({ "prefix": prefix, "computeSeconds": seconds });
    let found = shown(&ada, cluster).await;
    assert_eq!(found["clampedFields"], place);
    assert_eq!(found["usageHours"], json!([hour(10, 1.0, 3_600.0, false), hour(11, 4.0, 3_600.0, true)]));
    assert_eq!(
        (&found["usage"]["computeSeconds"], &found["usage"]["isComplete"]),
        (&json!(7_200.0), &json!(false))
    );
    // A third of 8,100 and 2,700 seconds, and those of the second hour.
    assert_eq!(found["functions"], json!([function("load", 5_700.5), function("divide", 1_499.5)]));
    for question in ["cost", "topTime"] {
        let answer = &found["answers"][question];
        assert_eq!(answer["confidence"], "ESTIMATED");
        let headline = answer["headline"].as_str().unwrap();
        assert!(headline.ends_with("Impossible values of the reported usage were clamped."), "{headline}");
    }
    let found = sums(&app, &ada).await;
    let of =
        |seconds: f64, is_complete: bool| json!({ "computeSeconds": seconds, "isComplete": is_complete });
    assert_eq!(found["usage"]["computeSeconds"], 7_200.0);
    assert_eq!(found["usage"]["isComplete"], false);
    assert_eq!(found["functions"], json!([function("load", 5_700.5), function("divide", 1_499.5)]));
    assert_eq!(found["hours"], json!([{ "usage": of(3_600.0, false) }, { "usage": of(3_600.0, true) }]));
    assert_eq!(found["users"], json!([{ "usage": of(7_200.0, false) }]));
    assert_eq!(found["clusters"]["aggregates"]["usage"], of(7_200.0, false));

    // An hour that was lost shows that there were threads enough before.
    let mut before = computed(9, 2, 0.0);
    before["idle_seconds"] = json!(7_200);
    let (_, answer) = ada.report(&threads(2, 4, &[before.clone()])).await;
    assert_eq!(answer["cut"], Value::Null);
    let found = shown(&ada, cluster).await;
    assert_eq!(found["clampedFields"], json!([]));
    let hours = json!([hour(9, 2.0, 0.0, true), hour(10, 1.0, 10_800.0, true), hour(11, 4.0, 3_600.0, true)]);
    assert_eq!(found["usageHours"], hours);
    let complete = sums(&app, &ada).await;
    assert_eq!(complete["usage"]["computeSeconds"], 14_400.0);
    assert_eq!(complete["usage"]["isComplete"], true);
    // The same hours in the order of time.
    bob.reported(&threads(1, 4, &[before])).await;
    bob.reported(&threads(2, 4, &[computed(10, 1, 10_800.0), usage(11, 4)])).await;
    assert_eq!(sums(&app, &bob).await, complete);
    app.stop().await;
}

#[tokio::test]
async fn clocks_of_workers_may_differ_a_little() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // A hundredth of the hour, and a quarter of a second.
    for (sequence, reported, counted, is_complete) in
        [(1, 3_636.25, 3_636.25, true), (2, 3_636.26, 3_600.0, false)]
    {
        let cluster = ada.reported(&threads(sequence, 4, &[computed(10, 1, reported)])).await;
        let found = shown(&ada, cluster).await;
        assert_eq!(found["usage"]["computeSeconds"], counted);
        assert_eq!(found["usage"]["isComplete"], is_complete);
        assert_eq!(found["usage"]["idleSeconds"], 0.0);
    }
    app.stop().await;
}

#[tokio::test]
async fn functions_compute_for_no_longer_than_their_hour() {
    let app = TestApp::start().await;
    let ada = app.account("team").await;
    // One hour of one thread: `load` computes for a third of it or for years, `divide` for the rest or more.
    for (sequence, load, divide, expected) in [
        (1, 1_200.0, 2_400.0, [1_200.0, 2_400.0]),
        (2, 5_400.0, 1_800.0, [2_700.0, 900.0]),
        (3, 8e9, 8e9, [1_800.0, 1_800.0]),
        // Each part may be rounded up.
        (4, 1_200.000_000_6, 2_399.999_999_6, [1_200.000_001, 2_400.0]),
    ] {
        let mut hour = usage(12, 1);
        hour["functions"][0]["compute_seconds"] = json!(load);
        hour["functions"][1]["compute_seconds"] = json!(divide);
        let report = ReportBuilder::new("Scheduler-1", sequence).with("/usage", json!([hour]));
        let (_, answer) = ada.report(&report.build()).await;
        let is_cut = load + divide > 3_601.0;
        let places = if is_cut { json!(["usage.functions.compute_seconds"]) } else { Value::Null };
        assert_eq!(answer["cut"], places, "{sequence}: {answer}");
        let query = "{ viewer { account { clusters { nodes {
            usage { computeSeconds } functions { prefix computeSeconds }
        } } } } }";
        let found = ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0].take();
        assert_eq!(found["usage"]["computeSeconds"], 3_600.0, "{sequence}");
        let of = |name: &str| {
            let functions = found["functions"].as_array().unwrap();
            functions.iter().find(|function| function["prefix"] == name).unwrap()["computeSeconds"].clone()
        };
        assert_eq!([of("load"), of("divide")], expected.map(|seconds| json!(seconds)), "{sequence}");
    }
    app.stop().await;
}
