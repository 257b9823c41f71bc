//! Fine performance metrics, profiles and series of a whole account: summed over clusters, users and
//! spans, and compared with values computed by hand.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp, profile, sample, span, threads, usage, uuid};
use serde_json::{Value, json};

use crate::span::nested;

const ROWS: &str =
    "unit units clusters clustersWithoutMetrics clustersWithoutThreads total idleSeconds rowCount
    rows { value share key { part function activity context path tag cluster { schedulerId } user { name }
        spanAttributable } }";

/// A cluster with 3 threads for its whole lifetime, and a span of 10 seconds.
pub(crate) fn small(scheduler: &str) -> ReportBuilder {
    ReportBuilder::new(scheduler, 20)
        .with("/thread_history", json!([threads(0.0, 3)]))
        .with("/spans", json!([span(1, None, &["etl", "load"], 0.0, Some(10.0))]))
        .with(
            "/fine_metrics",
            json!([{ "span_id": uuid(1), "cells": [
                ["execute", "load", "thread-cpu", "seconds", 20.1],
                ["execute", "load", "disk-read", "seconds", 0.3],
                ["execute", "load", "disk-read", "bytes", 500]
            ] }]),
        )
}

/// The fine metrics of a member's account.
async fn ask(member: &Member, arguments: &str) -> Value {
    let query = format!("{{ viewer {{ account {{ fineMetrics({arguments}) {{ {ROWS} }} }} }} }}");
    member.query(&query, json!({})).await["viewer"]["account"]["fineMetrics"].take()
}

/// Each row as its part, one of its names, and its value.
fn rows(table: &Value, name: &str) -> Vec<(String, Value, f64)> {
    let row = |row: &Value| {
        let part = row["key"]["part"].as_str().unwrap().to_owned();
        (part, row["key"].pointer(name).cloned().unwrap_or_default(), row["value"].as_f64().unwrap())
    };
    table["rows"].as_array().unwrap().iter().map(row).collect()
}

fn row(part: &str, name: impl Into<Value>, value: f64) -> (String, Value, f64) {
    (part.to_owned(), name.into(), value)
}

/// `ada` with the spans of `nested`, and `eve` of the same account with a small cluster.
async fn two_users(app: &TestApp) -> (Member, Member, [i64; 2]) {
    let ada = app.account("ada").await;
    let eve = app.member("eve", "ada").await;
    let first = ada.reported(&nested(30).build()).await;
    let second = eve.reported(&small("Scheduler-2").build()).await;
    (ada, eve, [first, second])
}

#[tokio::test]
async fn thread_time_of_all_clusters_adds_up_by_any_dimension() {
    let app = TestApp::start().await;
    let (ada, ..) = two_users(&app).await;
    // Of the first, 56 thread-seconds with `etl` and 16 with `default`; of the second, 10 seconds of 3
    // threads.
    let total = 56.0 + 16.0 + 30.0;
    let all = ask(&ada, "by: [FUNCTION, ACTIVITY]").await;
    let names: Vec<_> = all["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let key = &row["key"];
            json!([key["part"], key["function"], key["activity"], row["value"]])
        })
        .collect();
    // 27 + 20.1 on the CPU, and of 102 the remainder of 43.5 + 20.4.
    let expected = json!([
        ["TASKS", "load", "thread-cpu", 47.1],
        ["IDLE", null, null, 38.1],
        ["TASKS", "fit", "thread-cpu", 12.5],
        ["OUTSIDE_TASKS", null, "network", 7.0],
        ["TASKS", "load", "other", 4.0],
        ["OUTSIDE_TASKS", "foreground", "network", 3.0],
        ["TASKS", "load", "disk-read", 0.3],
    ]);
    assert_eq!(json!(names), expected);
    assert_eq!((&all["total"], &all["idleSeconds"]), (&json!(total), &json!(38.1)));
    assert_eq!((&all["units"], &all["clusters"]), (&json!(["bytes", "seconds"]), &json!(2)));
    assert_eq!((&all["clustersWithoutMetrics"], &all["clustersWithoutThreads"]), (&json!(0), &json!(0)));
    assert_eq!(all["rows"][0]["share"], 47.1 / 102.0);
    assert_eq!(all["rows"][3]["share"], Value::Null, "it is beside the threads' time");
    assert_eq!(all["rows"][3]["key"]["spanAttributable"], false);
    assert_eq!(all["rows"][5]["key"]["spanAttributable"], true);

    let by_user = ask(&ada, "by: [USER]").await;
    let expected = [
        row("TASKS", "ada", 43.5),
        row("IDLE", "ada", 28.5),
        row("TASKS", "eve", 20.4),
        row("IDLE", "eve", 9.6),
        row("OUTSIDE_TASKS", "ada", 7.0),
        row("OUTSIDE_TASKS", "ada", 3.0),
    ];
    assert_eq!(rows(&by_user, "/user/name"), expected);
    let by_cluster = ask(&ada, "by: [CLUSTER, FUNCTION], first: 3").await;
    let expected = [
        row("TASKS", "Scheduler-1", 31.0),
        row("IDLE", "Scheduler-1", 28.5),
        row("TASKS", "Scheduler-2", 20.4),
    ];
    assert_eq!(rows(&by_cluster, "/cluster/schedulerId"), expected);
    assert_eq!((&by_cluster["rowCount"], &by_cluster["total"]), (&json!(7), &json!(total)));
    let by_context = ask(&ada, "by: [CONTEXT]").await;
    let expected = [
        row("TASKS", "execute", 63.9),
        row("IDLE", Value::Null, 38.1),
        row("OUTSIDE_TASKS", "gather-dep", 7.0),
        row("OUTSIDE_TASKS", "p2p", 3.0),
    ];
    assert_eq!(rows(&by_context, "/context"), expected);
    let by_span = ask(&ada, "by: [SPAN]").await;
    let expected = [
        row("IDLE", Value::Null, 38.1),
        row("TASKS", json!(["etl", "load"]), 30.4),
        row("TASKS", json!(["etl", "load", "parse"]), 20.0),
        row("TASKS", json!(["etl", "train"]), 12.5),
        row("OUTSIDE_TASKS", Value::Null, 7.0),
        row("OUTSIDE_TASKS", json!(["etl", "train"]), 3.0),
        row("TASKS", json!(["default"]), 1.0),
    ];
    assert_eq!(rows(&by_span, "/path"), expected);
    // Time in `etl` counts for it and for the tags below it, but only once in the total.
    let by_tag = ask(&ada, "by: [TAG]").await;
    let expected = [
        row("TASKS", "etl", 62.9),
        row("TASKS", "load", 50.4),
        row("IDLE", Value::Null, 38.1),
        row("TASKS", "parse", 20.0),
        row("TASKS", "train", 12.5),
        row("OUTSIDE_TASKS", Value::Null, 7.0),
        row("OUTSIDE_TASKS", "etl", 3.0),
        row("OUTSIDE_TASKS", "train", 3.0),
        row("TASKS", "default", 1.0),
    ];
    assert_eq!(rows(&by_tag, "/tag"), expected);
    assert_eq!(by_tag["total"], total);
    let bytes = ask(&ada, "by: [CONTEXT], unit: \"bytes\"").await;
    let expected = [row("TASKS", "execute", 1_500.0), row("OUTSIDE_TASKS", "get-data", 50.0)];
    assert_eq!(rows(&bytes, "/context"), expected);
    assert_eq!((&bytes["total"], &bytes["idleSeconds"]), (&json!(1_550.0), &Value::Null));
    assert_eq!(bytes["rows"][1]["share"], 50.0 / 1_550.0);
    app.stop().await;
}

#[tokio::test]
async fn a_scope_is_what_passes_all_of_its_conditions() {
    let app = TestApp::start().await;
    let (ada, eve, [first, second]) = two_users(&app).await;
    let of = async |scope: &str| {
        let table = ask(&ada, &format!("scope: {{ {scope} }}, by: []")).await;
        json!([table["clusters"], table["total"], table["idleSeconds"]])
    };
    assert_eq!(of("").await, json!([2, 102.0, 38.1]));
    assert_eq!(of(&format!("clusterIds: [\"{second}\"]")).await, json!([1, 30.0, 9.6]));
    assert_eq!(
        of(&format!("clusterIds: [\"{first}\", \"{second}\", \"{first}\"]")).await,
        json!([2, 102.0, 38.1])
    );
    assert_eq!(of("clusters: { search: \"scheduler-1\" }").await, json!([1, 72.0, 28.5]));
    let both = format!("clusterIds: [\"{second}\"], clusters: {{ search: \"scheduler-1\" }}");
    assert_eq!(of(&both).await, json!([0, 0.0, null]));
    // `load` and the spans below it: from second 4 on with 2 threads and from second 10 to 20 with 4,
    // less 30; and all of the second cluster.
    assert_eq!(of("spanTags: [\"load\", \"nothing\"]").await, json!([2, 52.0 + 30.0, 22.0 + 9.6]));
    assert_eq!(of("spanTags: [\"nothing\"]").await, json!([2, 0.0, null]));
    // Time of threads without a task belongs to no function.
    assert_eq!(of("functions: [\"fit\"]").await, json!([2, 12.5, null]));
    assert_eq!(of("functions: [\"load\"], spanTags: [\"parse\"]").await, json!([2, 20.0, null]));
    // Spans enqueued in seconds 5 to 8: from second 6 on with 2 threads, and from 10 to 20 with 4, less
    // 32.5.
    let time = "from: \"2026-11-20T11:00:05Z\", to: \"2026-11-20T11:00:08.001Z\"";
    assert_eq!(of(time).await, json!([2, 48.0, 15.5]));
    assert_eq!(of("from: \"2026-11-20T11:00:21Z\"").await, json!([1, 16.0, 15.0]));
    assert_eq!(of("to: \"2026-11-20T11:00:00Z\"").await, json!([0, 0.0, null]));
    let id = "{ viewer { user { id } } }";
    let user = eve.query(id, json!({})).await["viewer"]["user"]["id"].as_str().unwrap().to_owned();
    assert_eq!(of(&format!("clusters: {{ users: [\"{user}\"] }}")).await, json!([1, 30.0, 9.6]));

    let refused = async |arguments: &str| {
        let query = format!("{{ viewer {{ account {{ fineMetrics({arguments}) {{ total }} }} }} }}");
        let mut answer = ada.ask(&query, json!({})).await;
        let error = answer["errors"][0].take();
        assert!(
            ["BAD_USER_INPUT", "NOT_FOUND"].contains(&error["extensions"]["code"].as_str().unwrap()),
            "{error}"
        );
        error["message"].as_str().unwrap().to_owned()
    };
    for (arguments, message) in [
        ("scope: { clusterIds: [] }", "argument 'scope': 'clusterIds' must have 1 to 200 items"),
        ("scope: { clusterIds: [\"1\"] }", "argument 'scope': there is no such cluster"),
        ("scope: { spanTags: [] }", "argument 'scope': 'spanTags' must have 1 to 100 items"),
        ("scope: { functions: [] }", "argument 'scope': 'functions' must have 1 to 100 items"),
        (
            "scope: { from: \"2026-11-20T11:00:01Z\", to: \"2026-11-20T11:00:00Z\" }",
            "argument 'scope': 'from' must not be later than 'to'",
        ),
        ("first: 0", "argument 'first': must be between 1 and 5000, not 0"),
    ] {
        assert_eq!(refused(arguments).await, message);
    }
    let many = (0..21).map(|n| format!("a{n}: fineMetrics {{ total }}")).collect::<Vec<_>>().join(" ");
    let answer = ada.ask(&format!("{{ viewer {{ account {{ {many} }} }} }}"), json!({})).await;
    let message = answer["errors"][0]["message"].as_str().unwrap();
    assert!(message.contains("more than 20 scopes"), "{message}");
    app.stop().await;
}

#[tokio::test]
async fn what_was_not_collected_is_said_and_never_idle() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // One of a release without spans, which had 40 thread-seconds in all; one that was idle; one with
    // spans and threads but without metrics; one with metrics but without threads; and one whose metrics
    // exceed its threads.
    let old = ReportBuilder::new("old", 1)
        .with("/cluster/totals/tasks", 5)
        .with("/cluster/totals/thread_seconds", 40);
    let unused = ReportBuilder::new("unused", 1).with("/cluster/totals/thread_seconds", 1_000);
    for report in [
        old,
        unused,
        small("unmeasured").without("/fine_metrics"),
        small("uncounted")
            .without("/thread_history")
            .with("/fine_metrics/0/cells", json!([["execute", "load", "thread-cpu", "seconds", 25]])),
        small("overcounted").with("/thread_history", json!([threads(0.0, 2)])),
    ] {
        ada.reported(&report.build()).await;
    }
    let table = ask(&ada, "by: [CLUSTER]").await;
    let expected = [
        row("NOT_COLLECTED", "old", 40.0),
        row("NOT_COLLECTED", "unmeasured", 30.0),
        row("TASKS", "uncounted", 25.0),
        row("TASKS", "overcounted", 20.4),
        row("OVERCOUNTED", "overcounted", -0.4),
    ];
    assert_eq!(rows(&table, "/cluster/schedulerId"), expected);
    assert_eq!(table["total"], 40.0 + 30.0 + 25.0 + 20.0);
    assert_eq!(table["idleSeconds"], 0.0);
    assert_eq!((&table["clustersWithoutMetrics"], &table["clustersWithoutThreads"]), (&json!(2), &json!(1)));
    assert_eq!(table["rows"][4]["share"], -0.4 / 115.0);
    let only = async |search: &str| {
        let scope = format!("scope: {{ clusters: {{ search: \"{search}\" }} }}, by: []");
        ask(&ada, &scope).await["idleSeconds"].take()
    };
    for search in ["old", "unused", "unmeasured", "uncounted"] {
        assert_eq!(only(search).await, Value::Null, "{search}");
    }
    app.stop().await;
}

#[tokio::test]
async fn more_clusters_than_a_scope_has_are_refused_and_others_cost_few_statements() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let cost = async |query: &str| {
        let before = app.statements();
        let answer = ada.query(query, json!({})).await;
        (app.statements() - before, answer["viewer"]["account"].clone())
    };
    let query = |scope: &str| {
        format!(
            "{{ viewer {{ account {{ fineMetrics(scope: {{ {scope} }}, by: [CLUSTER, SPAN]) {{ total }} }} }} }}"
        )
    };
    for number in 1..=201 {
        ada.reported(&small(&format!("Scheduler-{number}")).build()).await;
        if number == 2 || number == 200 {
            // The token, the clusters, their spans, threads and metrics.
            let (statements, answer) = cost(&query("")).await;
            assert_eq!(answer["fineMetrics"]["total"], 30.0 * f64::from(number));
            assert_eq!(statements, 1 + 4, "{number}");
        }
    }
    let answer = ada.ask(&query(""), json!({})).await;
    assert_eq!(
        answer["errors"][0]["message"],
        "argument 'scope': has more than 200 clusters: narrow it by 'clusters', 'clusterIds', 'from' or 'to'"
    );
    let (_, some) = cost(&query("clusters: { search: \"scheduler-20\" }")).await;
    assert_eq!(some["fineMetrics"]["total"], 30.0 * 3.0);
    app.stop().await;
}

fn frame(line: i64) -> Value {
    json!({ "file": "etl.py", "function": "load", "line": line, "text": null })
}

#[tokio::test]
async fn profiles_merge_over_clusters_and_users() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let eve = app.member("eve", "ada").await;
    let windows = |lines: &[(i64, i64)]| -> Vec<Value> {
        let windows = lines.iter().zip(1..).map(|((line, samples), number): (_, u8)| {
            let nodes = json!([[-1, 0, samples, samples]]);
            profile(number.into(), f64::from(number) * 10.0, *samples, &json!([frame(*line)]), &nodes)
        });
        windows.collect()
    };
    let report = |scheduler: &str, windows: Vec<Value>| {
        ReportBuilder::new(scheduler, 60).with("/profiles", windows).build()
    };
    let first = ada.reported(&report("Scheduler-1", windows(&[(1, 30), (2, 10), (1, 5)]))).await;
    eve.reported(&report("Scheduler-2", windows(&[(1, 4), (3, 1)]))).await;
    let of = async |arguments: &str| {
        let query = format!(
            "{{ viewer {{ account {{ profile{arguments} {{ windows complete samples frames {{ line }}
                nodes {{ parent frame self total }} }} }} }} }}"
        );
        ada.ask(&query, json!({})).await
    };
    let profile = async |arguments: &str| of(arguments).await["data"]["viewer"]["account"]["profile"].take();
    let node = |frame: i64, samples: i64| json!({ "parent": null, "frame": frame, "self": samples, "total": samples });
    let all = json!({ "windows": 5, "complete": true, "samples": 50, "frames": [{ "line": 1 }, { "line": 2 }, { "line": 3 }],
        "nodes": [node(0, 39), node(1, 10), node(2, 1)] });
    assert_eq!(profile("").await, all);
    let cut = profile("(minShare: 0.1)").await;
    assert_eq!(cut["nodes"], json!([node(0, 39), node(1, 10)]));
    let of_first = profile(&format!("(scope: {{ clusterIds: [\"{first}\"] }})")).await;
    assert_eq!((&of_first["samples"], &of_first["windows"]), (&json!(45), &json!(3)));
    let late = profile("(scope: { from: \"2026-11-20T11:00:20Z\", to: \"2026-11-20T11:00:30Z\" })").await;
    assert_eq!((&late["samples"], &late["windows"]), (&json!(11), &json!(2)));
    assert_eq!(profile("(scope: { from: \"2026-11-20T11:00:59Z\" })").await, Value::Null);
    let partial = of("(scope: { spanTags: [\"etl\"] })").await;
    assert_eq!(partial["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");

    // Of many windows, the same number per cluster: of two clusters the newest 250 of each.
    for part in 0..13_u16 {
        let many: Vec<Value> = (0..20_u16)
            .map(|n| {
                let number = 100 + 20 * part + n;
                profile_at(number, f64::from(number) * 10.0)
            })
            .collect();
        let report = ReportBuilder::new("Scheduler-1", 3_700 + i64::from(part)).with("/profiles", many);
        ada.reported(&report.build()).await;
    }
    let most = profile("").await;
    assert_eq!((&most["windows"], &most["complete"]), (&json!(252), &json!(false)));
    assert_eq!(most["samples"], 250 + 5);
    app.stop().await;
}

/// A window with one sample.
fn profile_at(number: u16, at: f64) -> Value {
    profile(number.into(), at, 1, &json!([frame(1)]), &json!([[-1, 0, 1, 1]]))
}

#[tokio::test]
async fn series_of_clusters_become_one_as_the_metric_asks() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |scheduler: &str, seconds: f64, samples: Value| {
        let report = ReportBuilder::new(scheduler, 1).with("/sent_at", STARTED_AT + seconds);
        report.with("/samples", samples).build()
    };
    let at = |seconds: i64, workers: i64, gil: f64, least: f64, free: i64| {
        let metrics = json!({ "workers": workers, "gil_contention": gil, "gil_contention_min": least,
            "gil_contention_max": gil + 0.25, "disk_free_bytes": free });
        sample(None, 1_000 * seconds, metrics)
    };
    // Two samples in one minute, and one in the next.
    let first = json!([at(0, 2, 0.5, 0.25, 70), at(30, 4, 0.5, 0.25, 70), at(60, 8, 0.5, 0.5, 50)]);
    ada.reported(&report("Scheduler-1", 100.0, first)).await;
    ada.reported(&report("Scheduler-2", 100.0, json!([at(10, 10, 0.25, 0.125, 20)]))).await;
    let of = async |arguments: &str| {
        let query = format!(
            "{{ viewer {{ account {{ series({arguments}) {{ metric unit combination bucketSeconds
                points {{ at value min max clusters }} }} }} }} }}"
        );
        ada.ask(&query, json!({})).await
    };
    let found =
        of("metrics: [WORKERS, GIL_CONTENTION, GIL_CONTENTION_MIN, GIL_CONTENTION_MAX, DISK_FREE]").await;
    let found = found["data"]["viewer"]["account"]["series"].clone();
    let point = |minute: i64, value: f64, min: f64, max: f64, clusters: i64| {
        json!({ "at": format!("2026-11-20T11:0{minute}:00+00:00"), "value": value, "min": min, "max": max,
            "clusters": clusters })
    };
    let series = |metric: &str, unit: &str, combination: &str, points: Value| json!({ "metric": metric, "unit": unit, "combination": combination, "bucketSeconds": 60, "points": points });
    // The means of the first minute are 3 and 10 workers.
    let expected = json!([
        series("WORKERS", "COUNT", "SUM", json!([point(0, 13.0, 3.0, 10.0, 2), point(1, 8.0, 8.0, 8.0, 1)])),
        series(
            "GIL_CONTENTION",
            "SHARE",
            "MEAN",
            json!([point(0, 0.375, 0.25, 0.5, 2), point(1, 0.5, 0.5, 0.5, 1)])
        ),
        series(
            "GIL_CONTENTION_MIN",
            "SHARE",
            "LEAST",
            json!([point(0, 0.125, 0.125, 0.25, 2), point(1, 0.5, 0.5, 0.5, 1)])
        ),
        series(
            "GIL_CONTENTION_MAX",
            "SHARE",
            "GREATEST",
            json!([point(0, 0.75, 0.5, 0.75, 2), point(1, 0.75, 0.75, 0.75, 1)])
        ),
        series(
            "DISK_FREE",
            "BYTES",
            "LEAST",
            json!([point(0, 20.0, 20.0, 70.0, 2), point(1, 50.0, 50.0, 50.0, 1)])
        ),
    ]);
    assert_eq!(found, expected);
    let day = "from: \"2026-11-01T00:00:00Z\", to: \"2026-11-21T00:00:00Z\"";
    let wide = of(&format!("metrics: [WORKERS], scope: {{ {day} }}")).await;
    let wide = &wide["data"]["viewer"]["account"]["series"][0];
    // 20 days in at most 2,000 buckets; the first cluster had 14 / 3 workers on average.
    assert_eq!(
        (&wide["bucketSeconds"], &wide["points"][0]["value"]),
        (&json!(900), &json!(14.0 / 3.0 + 10.0))
    );
    // The server's clock is at 12:00, and nothing was measured in its last half hour.
    let late = of("metrics: [WORKERS], scope: { from: \"2026-11-20T11:30:00Z\" }").await;
    assert_eq!(late["data"]["viewer"]["account"]["series"][0]["points"], json!([]));
    for (arguments, argument) in [
        ("metrics: [CPU], bucketSeconds: 59", "bucketSeconds"),
        ("metrics: [CPU], scope: { from: \"2026-10-01T00:00:00Z\" }", "scope"),
        ("metrics: [CPU], scope: { functions: [\"load\"] }", "scope"),
    ] {
        let refused = of(arguments).await;
        let message = refused["errors"][0]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("argument '{argument}'")), "{message}");
    }
    app.stop().await;
}

#[tokio::test]
async fn the_benefit_of_a_faster_network_has_bounds() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let of = async |report: ReportBuilder| {
        let number = ada.reported(&report.build()).await;
        let query =
            "query($id: ID!) { cluster(id: $id) { answers { network { value benefit { low high } } } } }";
        let answer = ada.query(query, json!({ "id": number.to_string() })).await;
        answer["cluster"]["answers"]["network"].clone()
    };
    let receiving = |scheduler: &str, seconds: i64| {
        ReportBuilder::new(scheduler, 1)
            .with("/usage", vec![usage(23, 4)])
            .with("/cluster/totals/peak_workers", 3)
            .with("/cluster/totals/peak_threads", 4)
            .with(
                "/fine_metrics",
                json!([{ "cells": [["gather-dep", null, "network", "seconds", seconds]] }]),
            )
    };
    // A worker has 2 threads if 3 workers have 4 in total: they waited for at most 100 seconds.
    let expected = json!({ "value": 100.0, "benefit": { "low": 0.0, "high": 200.0 } });
    assert_eq!(of(receiving("Scheduler-1", 100)).await, expected);
    // Three of four threads were idle for an hour, which bounds the gain.
    let expected = json!({ "value": 9_000.0, "benefit": { "low": 0.0, "high": 10_800.0 } });
    assert_eq!(of(receiving("Scheduler-2", 9_000)).await, expected);
    app.stop().await;
}
