//! Implausible reports: they affect at most their sender's own numbers, and are reported as cut or
//! refused.

use std::collections::{BTreeMap, BTreeSet};

use entity::quota::UNLIMITED;
use galvo::domain::quota::Limits;
use harness::{
    ReportBuilder, STARTED_AT, TestApp, activity, code, computation, error, event, log_line, profile, sample,
    span, task_group, threads, usage, worker,
};
use reqwest::StatusCode;
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement};
use serde_json::{Value, json};

/// 2026-11-20T12:00:00Z, the time of the tests' clocks, in milliseconds; and its hour.
const NOW: i64 = 1_795_176_000_000;
const HOUR: i64 = 498_660;

/// The latest time accepted in a report that arrives now: a day ahead.
const LAST: &str = "2026-11-21T12:00:00+00:00";

/// The last second of the year 9999.
const END_OF_TIME: i64 = 253_402_300_799;

const DAY: i64 = 86_400_000;

/// The rows of a query, each as text.
async fn rows(database: &DatabaseConnection, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(database.get_database_backend(), sql);
    let rows = database.query_all_raw(statement).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

/// The rows about clusters and usage of all users except one.
async fn held(database: &DatabaseConnection, but_user: &str) -> BTreeMap<&'static str, Vec<String>> {
    let user = format!("(SELECT id FROM users WHERE name = '{but_user}')");
    let of_clusters = format!("cluster_id IN (SELECT id FROM clusters WHERE user_id <> {user})");
    let mut held = BTreeMap::new();
    for (table, condition) in [
        ("clusters", format!("user_id <> {user}")),
        ("usage_hours", of_clusters.clone()),
        ("function_usage_hours", of_clusters.clone()),
        ("function_activity_chunks", of_clusters.clone()),
        ("usage_days", format!("user_id <> {user}")),
        ("function_usage_days", format!("user_id <> {user}")),
        ("task_groups", of_clusters.clone()),
        ("events", of_clusters.clone()),
        ("log_lines", of_clusters),
    ] {
        let columns = if database.get_database_backend() == DatabaseBackend::Postgres {
            format!("t::text FROM {table} t")
        } else {
            let names = rows(database, &format!("SELECT name FROM pragma_table_info('{table}')")).await;
            let quoted = names.iter().map(|name| format!("quote({name})")).collect::<Vec<_>>();
            format!("{} FROM {table}", quoted.join(" || ',' || "))
        };
        let found = rows(database, &format!("SELECT {columns} WHERE {condition} ORDER BY 1")).await;
        assert!(!found.is_empty(), "{table} has something to lose");
        held.insert(table, found);
    }
    held
}

/// A report with data of every kind.
pub(super) fn honest(scheduler: &str, sequence: i64) -> ReportBuilder {
    ReportBuilder::new(scheduler, sequence)
        .with("/cluster/totals/peak_threads", 4)
        .with("/cluster/totals/peak_workers", 1)
        .with("/usage", json!([usage(10, 4), usage(11, 2)]))
        .with("/task_groups", json!([task_group(10, "load", 4)]))
        .with("/computations", json!([computation(1, &[10])]))
        .with("/errors", json!([error(20, 10, 1)]))
        .with("/workers", json!([worker(50)]))
        .with("/thread_history", json!([threads(1.0, 4)]))
        .with("/samples", json!([sample(None, 1_000, json!({ "workers": 1 }))]))
        .with("/spans", json!([span(30, None, &["etl"], 1.0, Some(2.0))]))
        .with("/code", json!([code("x = 1")]))
        .with(
            "/profiles",
            json!([profile(
                40,
                1.0,
                1,
                &json!([{ "file": "a.py", "function": "f", "line": 1 }]),
                &json!([[-1, 0, 1, 1]])
            )]),
        )
        .with("/events", json!([event(5, "mine", 1)]))
        .with("/logs", json!([log_line(6, "started")]))
        .with("/function_activity", json!([activity(0, &[("load", [0.0, 60.0, 60.5, 0.0])])]))
}

/// The outcome of an absurd value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is cut to the possible range, and the place is returned.
    Cut(&'static [&'static str]),
    /// The report is refused, and the place is returned.
    Refused,
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
#[tokio::test]
async fn one_absurd_report_of_each_kind_changes_no_other_number() {
    use Outcome::{Cut, Refused};

    let app = TestApp::start().await;
    let ada = app.account("team").await;
    let (bob, eve) = (app.member("bob", "team").await, app.member("eve", "team").await);
    ada.reported(&honest("Scheduler-ada", 1).build()).await;
    bob.reported(&honest("Scheduler-bob", 1).build()).await;
    eve.reported(&honest("Scheduler-eve", 1).build()).await;
    app.fold_usage().await;
    let database = app.database.connection().await;
    let before = held(&database, "eve").await;
    let query = r#"{ viewer { account { usageTable(from: "2026-11-20", to: "2026-11-21", by: [USER]) {
        user { name } usage { threadSeconds isComplete costs { amount } } } } } }"#;
    let of_others = async || {
        let answer = ada.query(query, json!({})).await;
        let rows = answer["viewer"]["account"]["usageTable"].as_array().unwrap().clone();
        rows.into_iter().filter(|row| row["user"]["name"] != "eve").collect::<Vec<_>>()
    };
    let table = of_others().await;
    let hours = |name: &str| {
        json!({ "user": { "name": name },
            "usage": { "threadSeconds": 21_600.0, "isComplete": true, "costs": [{ "amount": 0.3 }] } })
    };
    assert_eq!(table, [hours("bob"), hours("team")]);

    let most = 9_007_199_254_740_991_i64;
    let cases = [
        ("/usage/0/thread_seconds", json!(1e15), Refused),
        ("/usage/0/thread_seconds", json!(3_600_000_000_i64), Cut(&["usage.thread_seconds"])),
        ("/usage/0/thread_seconds", json!(14_500), Cut(&["usage.thread_seconds"])),
        ("/usage/0/idle_seconds", json!(3_600_000_001_i64), Refused),
        ("/usage/0/idle_seconds", json!(20_000), Cut(&["usage.idle_seconds"])),
        ("/usage/0/observed_seconds", json!(20_000), Cut(&["usage.observed_seconds"])),
        ("/usage/0/worker_seconds", json!(1e12), Refused),
        ("/usage/0/memory_gib_seconds", json!(1e12), Refused),
        ("/usage/0/compute_seconds", json!(1e12), Refused),
        ("/usage/0/compute_seconds", json!(1e9), Cut(&["usage.compute_seconds"])),
        ("/usage/0/transfer_seconds", json!(8e9), Cut(&["usage.transfer_seconds"])),
        ("/usage/0/cpu_seconds", json!(8e9), Cut(&["usage.cpu_seconds"])),
        ("/usage/0/functions/0/compute_seconds", json!(8e9), Cut(&["usage.functions.compute_seconds"])),
        ("/usage/0/functions/0/compute_seconds", json!(3_001), Cut(&["usage.functions.compute_seconds"])),
        ("/usage/0/functions/0/transfer_seconds", json!(0.5), Cut(&["usage.functions.transfer_seconds"])),
        ("/usage/0/functions/0/tasks", json!(most), Refused),
        ("/usage/0/tasks", json!(most), Refused),
        ("/usage/0/workers", json!(most), Refused),
        ("/usage/0/hour", json!(0), Cut(&["usage.hour"])),
        ("/usage/0/hour", json!(HOUR + 25), Cut(&["usage.hour"])),
        ("/usage/0/hour", json!(70_389_527), Cut(&["usage.hour"])),
        ("/function_activity/0/minute", json!(0), Cut(&["function_activity.minute"])),
        ("/function_activity/0/minute", json!(60 * HOUR + 1_501), Cut(&["function_activity.minute"])),
        ("/function_activity/0/minute", json!(4_223_371_679_i64), Cut(&["function_activity.minute"])),
        ("/function_activity/0/minute", json!(4_223_371_680_i64), Refused),
        ("/function_activity/0/functions/0/compute_seconds", json!([0, 1, 2]), Refused),
        (
            "/function_activity/0/functions/0/compute_seconds",
            json!([0, 0, 62, 15_000_000]),
            Cut(&["function_activity.functions.compute_seconds"]),
        ),
        (
            "/function_activity/0/other_compute_seconds",
            json!([100, 0, 0, 0]),
            Cut(&["function_activity.other_compute_seconds"]),
        ),
        ("/workers/0/threads", json!(1_000_001), Refused),
        ("/thread_history/0/threads", json!(most), Refused),
        ("/cluster/threads", json!(most), Cut(&["cluster.threads"])),
        ("/cluster/workers", json!(most), Cut(&["cluster.workers"])),
        ("/cluster/totals/peak_threads", json!(most), Cut(&["cluster.totals.peak_threads"])),
        ("/cluster/totals/peak_workers", json!(most), Cut(&["cluster.totals.peak_workers"])),
        ("/cluster/totals/tasks", json!(most), Cut(&["cluster.totals.tasks"])),
        ("/cluster/totals/errors", json!(most), Cut(&["cluster.totals.errors"])),
        ("/cluster/totals/thread_seconds", json!(1e15), Cut(&["cluster.totals.thread_seconds"])),
        ("/cluster/totals/compute_seconds", json!(1e15), Cut(&["cluster.totals.compute_seconds"])),
        ("/cluster/started_at", json!(END_OF_TIME), Cut(&["cluster.started_at"])),
        ("/cluster/idle_since", json!(END_OF_TIME), Cut(&["cluster.idle_since"])),
        ("/sent_at", json!(END_OF_TIME), Cut(&["sent_at"])),
        ("/computations/0/started_at", json!(END_OF_TIME), Cut(&["computations.started_at"])),
        ("/computations/0/stopped_at", json!(END_OF_TIME), Cut(&["computations.stopped_at"])),
        ("/task_groups/0/first_seen_at", json!(END_OF_TIME), Cut(&["task_groups.first_seen_at"])),
        ("/workers/0/started_at", json!(END_OF_TIME), Cut(&["workers.started_at"])),
        ("/thread_history/0/at", json!(END_OF_TIME), Cut(&["thread_history.at"])),
        ("/samples/0/at", json!(END_OF_TIME), Cut(&["samples.at"])),
        ("/spans/0/enqueued_at", json!(END_OF_TIME), Cut(&["spans.enqueued_at"])),
        ("/profiles/0/started_at", json!(END_OF_TIME), Cut(&["profiles.started_at"])),
        ("/errors/0/at", json!(END_OF_TIME), Cut(&["errors.at"])),
        ("/events/0/at", json!(END_OF_TIME), Cut(&["events.at"])),
        ("/logs/0/at", json!(END_OF_TIME), Cut(&["logs.at"])),
    ];
    for (sequence, (pointer, value, outcome)) in (2..).zip(&cases) {
        let mut report = honest("Scheduler-eve", sequence).build();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        report.pointer_mut(parent).unwrap()[field] = value.clone();
        let (status, answer) = eve.report(&report).await;
        let expected = match *outcome {
            Cut(places) => (StatusCode::OK, json!(places), Value::Null, json!(sequence)),
            Refused => (StatusCode::BAD_REQUEST, Value::Null, json!(pointer), Value::Null),
        };
        let found =
            (status, answer["cut"].clone(), answer["pointer"].clone(), answer["acknowledged"].clone());
        assert_eq!(found, expected, "{pointer} {value}: {answer}");
        assert_eq!(app.fold_usage().await.failed, 0, "{pointer} {value}");
        assert_eq!(held(&database, "eve").await, before, "{pointer} {value}");
        assert_eq!(of_others().await, table, "{pointer} {value}");
    }
    // The cluster's list of clamped fields is kept.
    let query = "{ viewer { account { clusters { nodes { schedulerId clampedFields } } } } }";
    let answer = eve.query(query, json!({})).await;
    let nodes = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().clone();
    let of_eve = nodes.into_iter().find(|node| node["schedulerId"] == "Scheduler-eve").unwrap();
    let places: BTreeSet<&str> = cases
        .iter()
        .flat_map(|(_, _, outcome)| match outcome {
            Cut(places) => places.iter().copied(),
            Refused => [].iter().copied(),
        })
        .collect();
    assert_eq!(of_eve["clampedFields"], json!(places));
    app.stop().await;
}

#[expect(clippy::cast_precision_loss, reason = "so does the server")]
fn seconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1e6
}

#[tokio::test]
async fn sums_that_no_integer_holds_neither_stop_the_fold_nor_fail() {
    let limits = Limits { cluster_threads: UNLIMITED, ..Limits::default() };
    let app = TestApp::start_with(|serve| serve.quotas = limits).await;
    let ada = app.account("team").await;
    let mallory = app.member("mallory", "team").await;
    ada.reported(&honest("Scheduler-ada", 1).build()).await;
    app.fold_usage().await;
    // The largest accepted amount: 46 clusters with a day of 9e9 GiB-seconds and 2^53 - 1 bytes per
    // hour.
    let hours: Vec<Value> = (0..24)
        .map(|hour| {
            let mut hour = usage(hour, 1);
            hour["thread_seconds"] = json!(3_600_000_000_i64);
            hour["memory_gib_seconds"] = json!(9_000_000_000_i64);
            hour["bytes"] = json!(9_007_199_254_740_991_i64);
            hour
        })
        .collect();
    for number in 0..46 {
        let scheduler = format!("Scheduler-{number}");
        let report = ReportBuilder::new(&scheduler, 1).with("/usage", hours.clone());
        let groups = (0..1_030).map(|group| task_group(1_000 + group, "load", 9_007_199_254_740_991 / 800));
        let report = match number {
            0 => report
                .with("/task_groups", groups.collect::<Vec<_>>())
                .with("/computations", json!([computation(1, &(1_000..2_030).collect::<Vec<_>>())])),
            _ => report,
        };
        mallory.reported(&report.build()).await;
    }
    let folded = app.fold_usage().await;
    assert_eq!((folded.days, folded.failed), (1, 0));
    // Her colleague's hours still count.
    ada.reported(&honest("Scheduler-ada", 2).with("/usage", json!([usage(12, 4)])).build()).await;
    let folded = app.fold_usage().await;
    assert_eq!((folded.days, folded.failed), (1, 0));

    let query = r#"{ viewer { account {
        usageTable(from: "2026-11-20", to: "2026-11-21", by: [USER]) { user { name } usage { threadSeconds memoryGibSeconds bytes isComplete } }
        usage { threadSeconds memoryGibSeconds isComplete }
        clusters(first: 1) { aggregates { usage { threadSeconds memoryGibSeconds isComplete } } } } } }"#;
    let answer = ada.query(query, json!({})).await;
    let account = &answer["viewer"]["account"];
    let most = seconds(i64::MAX);
    let threads = 46.0 * 24.0 * 3.6e9;
    let expected = json!([
        { "user": { "name": "mallory" }, "usage": {
            "threadSeconds": threads, "memoryGibSeconds": most, "bytes": i64::MAX, "isComplete": false } },
        { "user": { "name": "team" }, "usage": {
            "threadSeconds": 36_000.0, "memoryGibSeconds": 21_600.0, "bytes": 3_000, "isComplete": true } },
    ]);
    assert_eq!(account["usageTable"], expected);
    let all = json!({ "threadSeconds": threads + 36_000.0, "memoryGibSeconds": most, "isComplete": false });
    assert_eq!(account["usage"], all);
    assert_eq!(account["clusters"]["aggregates"]["usage"], all);

    // The state stored by an older version without bounds.
    let database = app.database.connection().await;
    database
        .execute_unprepared(
            "UPDATE usage_hours SET thread_us = 9007199254740991, worker_us = 9007199254740991, compute_us = 9007199254740991, \
             folded = false WHERE memory_gib_us > 7200000000",
        )
        .await
        .unwrap();
    database
        .execute_unprepared(
            "UPDATE function_usage_hours SET compute_us = 9007199254740991 WHERE prefix = 'load'",
        )
        .await
        .unwrap();
    assert_eq!(app.fold_usage().await.failed, 0);
    let query = r"{ viewer { account {
        usage { threadSeconds isComplete } functions { prefix computeSeconds costs { currency } }
        spent: clusters(orderBy: { field: COST, direction: DESC }, first: 1) { nodes { usage { threadSeconds isComplete } } }
                computations(first: 50) { nodes { cluster { schedulerId } totals { bytes } } }
        clusters(first: 50) { aggregates { usage { threadSeconds isComplete } } nodes { functions { prefix computeSeconds } usage { isComplete } } } } } }";
    let answer = ada.query(query, json!({})).await;
    let account = &answer["viewer"]["account"];
    assert_eq!(account["usage"], json!({ "threadSeconds": most, "isComplete": false }));
    let computations = account["computations"]["nodes"].as_array().unwrap().iter();
    let bytes = computations.filter_map(|computation| computation["totals"]["bytes"].as_i64()).max();
    assert_eq!(bytes, Some(i64::MAX), "1,030 task groups of some 9e15 bytes");
    assert_eq!(account["functions"][0]["prefix"], "load");
    assert_eq!(account["functions"][0]["computeSeconds"], most);
    assert_eq!(
        account["spent"]["nodes"],
        json!([{ "usage": { "threadSeconds": seconds(24 * 9_007_199_254_740_991), "isComplete": true } }])
    );
    assert_eq!(
        account["clusters"]["aggregates"]["usage"],
        json!({ "threadSeconds": most, "isComplete": false })
    );
    app.stop().await;
}

#[tokio::test]
async fn times_ahead_of_their_arrival_are_cut_and_those_of_the_past_are_not() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let ahead = |number: u32, seconds: f64| {
        let mut event = event(number, "mine", number);
        event["at"] = json!(STARTED_AT + 3_600.0 + seconds);
        event
    };
    // Less than a day ahead, a second more than a day, and years; and an event that waited for a year to
    // be sent.
    let events = [ahead(1, 86_399.0), ahead(2, 86_401.0), ahead(3, 1e9), ahead(4, -31_536_000.0)];
    let report = ReportBuilder::new("Scheduler-1", 1).with("/events", events.to_vec()).build();
    let (_, first) = ada.report(&report).await;
    assert_eq!(first["cut"], json!(["events.at"]));
    let query = "{ viewer { account { clusters { nodes { clampedFields lastSeenAt events { nodes { at data } } } } } } }";
    let expected = json!({ "clampedFields": ["events.at"], "lastSeenAt": "2026-11-20T12:00:00+00:00", "events": { "nodes": [
        { "at": LAST, "data": 3 }, { "at": LAST, "data": 2 }, { "at": "2026-11-21T11:59:59+00:00", "data": 1 },
        { "at": "2025-11-20T12:00:00+00:00", "data": 4 },
    ] } });
    let node = async || ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0].take();
    let found = node().await;
    let times = |node: &Value| {
        let mut nodes = node["events"]["nodes"].as_array().unwrap().clone();
        nodes.sort_by_key(|event| event["data"].as_i64());
        nodes
    };
    assert_eq!((times(&found), &found["clampedFields"]), (times(&expected), &expected["clampedFields"]));
    // A resend within the hour is the same row, because its time is cut to the same value.
    app.set_clock("2026-11-20T12:59:59Z");
    let (_, again) = ada.report(&report).await;
    assert_eq!(again["cut"], json!(["events.at"]));
    assert_eq!(times(&node().await), times(&expected));
    // A report without absurd values does not change what was recorded for earlier ones.
    let (_, next) = ada.report(&ReportBuilder::new("Scheduler-1", 2).build()).await;
    assert_eq!((&next["cut"], &node().await["clampedFields"]), (&Value::Null, &json!(["events.at"])));
    app.stop().await;
}

#[tokio::test]
async fn an_hour_holds_no_more_than_the_threads_of_its_cluster() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |scheduler: &str, thread_seconds: f64| {
        let mut hour = usage(11, 4);
        hour["thread_seconds"] = json!(thread_seconds);
        ReportBuilder::new(scheduler, 1)
            .with("/cluster/totals/peak_threads", 4)
            .with("/cluster/totals/peak_workers", 1)
            .with("/usage", json!([usage(10, 4), hour]))
            .build()
    };
    for (scheduler, sent, stored, cut) in [
        ("Scheduler-1", 14_400.0, 14_400.0, Value::Null),
        // Sums of floating-point numbers.
        ("Scheduler-2", 14_400.5, 14_400.5, Value::Null),
        ("Scheduler-3", 14_500.0, 14_400.0, json!(["usage.thread_seconds"])),
        ("Scheduler-4", 3.6e9, 14_400.0, json!(["usage.thread_seconds"])),
    ] {
        let (_, answer) = ada.report(&report(scheduler, sent)).await;
        assert_eq!(answer["cut"], cut, "{scheduler}");
        let nodes =
            ada.query("{ viewer { account { clusters { nodes { id schedulerId } } } } }", json!({})).await;
        let nodes = nodes["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().clone();
        let id = nodes.iter().find(|node| node["schedulerId"] == scheduler).unwrap()["id"].clone();
        let query = "query($id: ID!) { cluster(id: $id) {
            usage { threadSeconds isComplete } usageHours { usage { threadSeconds isComplete } } } }";
        let answer = ada.query(query, json!({ "id": id })).await;
        let is_complete = cut.is_null();
        let expected = json!({
            "usage": { "threadSeconds": 14_400.0 + stored, "isComplete": is_complete },
            "usageHours": [
                { "usage": { "threadSeconds": 14_400.0, "isComplete": true } },
                { "usage": { "threadSeconds": stored, "isComplete": is_complete } },
            ],
        });
        assert_eq!(answer["cluster"], expected, "{scheduler}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_sequence_is_of_a_clock_or_follows_the_one_before() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let last = NOW + 366 * DAY;
    let report = |sequence: i64| {
        ReportBuilder::new("Scheduler-1", sequence).with("/sent_at", STARTED_AT + 1.0).build()
    };
    for known in [false, true] {
        let (status, answer) = ada.report(&report(last + 1)).await;
        assert_eq!((status, &answer["code"]), (StatusCode::CONFLICT, &json!("SEQUENCE_TOO_FAR")), "{known}");
        assert_eq!(answer["pointer"], "/sequence");
        assert!(answer["message"].as_str().unwrap().contains(&last.to_string()), "{answer}");
        // Reporters start with the milliseconds of their clock.
        assert_eq!(ada.report(&report(NOW)).await.0, StatusCode::OK);
    }
    assert_eq!(ada.report(&report(last)).await.1["acknowledged"], last);
    let (status, _) = ada.report(&report(last + 1_000_001)).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert_eq!(ada.report(&report(last + 1_000_000)).await.1["acknowledged"], last + 1_000_000);
    let (status, _) = ada.report(&report(9_007_199_254_740_991)).await;
    assert_eq!(status, StatusCode::CONFLICT);
    app.stop().await;
}

#[tokio::test]
async fn what_is_acknowledged_is_stored() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |sequence: i64, tasks: i64| {
        ReportBuilder::new("Scheduler-1", sequence)
            .with("/sent_at", STARTED_AT + 1.0)
            .with("/cluster/totals/tasks", tasks)
            .with("/task_groups", json!([task_group(10, "load", tasks)]))
    };
    let query = "{ viewer { account { clusters { nodes { state totals { tasks } taskGroups { nodes { tasks } } } } } } }";
    let shown =
        async || ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0].take();
    let is = |state: &str, tasks: i64| json!({ "state": state, "totals": { "tasks": tasks }, "taskGroups": { "nodes": [{ "tasks": tasks }] } });
    ada.reported(&report(NOW, 7).build()).await;
    let (_, answer) = ada.report(&report(NOW + 1_000_000, 0).with("/final", true).build()).await;
    assert_eq!((&answer["acknowledged"], &answer["stale"]), (&json!(NOW + 1_000_000), &Value::Null));
    // The scheduler's own next report is older: the response states this, and the acknowledged sequence.
    let (status, answer) = ada.report(&report(NOW + 1, 8).build()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&answer["acknowledged"], &answer["stale"]), (&json!(NOW + 1_000_000), &json!(true)));
    assert_eq!(shown().await, is("CLOSED", 0));
    let (_, answer) = ada.report(&report(NOW + 1_000_001, 8).build()).await;
    assert_eq!((&answer["acknowledged"], &answer["stale"]), (&json!(NOW + 1_000_001), &Value::Null));
    assert_eq!(shown().await["totals"], json!({ "tasks": 8 }));
    assert_eq!(shown().await["taskGroups"], json!({ "nodes": [{ "tasks": 8 }] }));
    app.stop().await;
}

#[tokio::test]
async fn nothing_honest_is_cut() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for sequence in 1..4 {
        let (_, answer) = ada.report(&honest("Scheduler-ada", sequence).build()).await;
        assert_eq!((&answer["cut"], &answer["stale"]), (&Value::Null, &Value::Null), "{answer}");
    }
    app.stop().await;
}
