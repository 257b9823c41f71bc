//! Comparisons of two sets of clusters, and of clusters with earlier runs: differences that add up,
//! compared with values computed by hand.

use harness::{
    Member, ReportBuilder, STARTED_AT, TestApp, code, code_frame, computation, profile, span, threads, usage,
    uuid, worker,
};
use serde_json::{Value, json};

use crate::{breakdown::small, phrase, span::nested};

/// Compares two clusters.
async fn compare(member: &Member, [base, head]: [i64; 2], arguments: &str, fields: &str) -> Value {
    let query = format!(
        "{{ viewer {{ account {{ compare(base: {{ clusterIds: [\"{base}\"] }}, head: {{ clusterIds: [\"{head}\"] }}{arguments})
            {{ {fields} }} }} }} }}"
    );
    member.query(&query, json!({})).await["viewer"]["account"]["compare"].take()
}

/// A decimal number in millionths.
fn millionths(decimal: &Value) -> i64 {
    let text = decimal.as_str().unwrap();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}{part:0<6}").parse().unwrap()
}

/// A cluster with 3 threads whose span lasted 20 seconds.
fn other() -> ReportBuilder {
    ReportBuilder::new("Scheduler-2", 30)
        .with("/thread_history", json!([threads(0.0, 3)]))
        .with(
            "/spans",
            json!([span(1, None, &["etl"], 0.0, Some(0.0)), span(2, Some(1), &["etl", "load"], 0.0, Some(20.0))]),
        )
        .with(
            "/fine_metrics",
            json!([
                { "span_id": uuid(2), "cells": [
                    ["execute", "load", "thread-cpu", "seconds", 6.1],
                    ["execute", "load", "other", "seconds", 4],
                    ["execute", "load", "disk-read", "seconds", 0.7],
                    ["execute", "load", "disk-read", "bytes", 400]
                ] },
                { "cells": [["gather-dep", null, "network", "seconds", 99], ["get-data", null, "network", "bytes", 60]] }
            ]),
        )
}

/// One thread for 20 seconds, of which tasks used this much.
fn of_one_thread(scheduler: &str, seconds: f64) -> Value {
    ReportBuilder::new(scheduler, 30)
        .with("/thread_history", json!([threads(0.0, 1)]))
        .with("/spans", json!([span(1, None, &["etl"], 0.0, Some(20.0))]))
        .with(
            "/fine_metrics",
            json!([{ "span_id": uuid(1), "cells": [["execute", "load", "thread-cpu", "seconds", seconds]] }]),
        )
        .build()
}

#[tokio::test]
async fn less_that_was_counted_twice_is_not_more_time() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let clusters = [
        ada.reported(&of_one_thread("Scheduler-1", 20.5)).await,
        ada.reported(&of_one_thread("Scheduler-2", 15.0)).await,
    ];
    let fields = "rows { base head key { part } } verdict { headline evidence { label value } }";
    let compared = compare(&ada, clusters, ", by: []", fields).await;
    let row = |part: &str, base: Option<f64>, head: Option<f64>| json!({ "base": base, "head": head, "key": { "part": part } });
    let rows = [
        row("TASKS", Some(20.5), Some(15.0)),
        row("IDLE", None, Some(5.0)),
        row("OVERCOUNTED", Some(-0.5), None),
    ];
    assert_eq!(compared["rows"], json!(rows));
    let headline =
        "It spent 20 s of thread time, as much as the first work; 5 s more in threads without a task.";
    let evidence = [json!({ "label": "threads without a task", "value": 5.0 })];
    assert_eq!(compared["verdict"], json!({ "headline": headline, "evidence": evidence }));
    app.stop().await;
}

#[tokio::test]
async fn differences_of_thread_time_add_up_exactly() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let clusters = [ada.reported(&nested(30).build()).await, ada.reported(&other().build()).await];
    let fields = "unit delta deltaDecimal rowCount rows { base head delta deltaDecimal shareOfDelta kind
        key { part path function activity } } remaining { rows base head delta deltaDecimal }
        base { clusters total idleSeconds } head { total idleSeconds clustersWithoutMetrics }
        verdict { verdict headline value unit share confidence evidence { label value } }";
    let all = compare(&ada, clusters, "", fields).await;
    // 72 thread-seconds as computed in `tests/it/breakdown.rs`, and 20 seconds of 3 threads.
    assert_eq!(all["base"], json!({ "clusters": 1, "total": 72.0, "idleSeconds": 28.5 }));
    assert_eq!(all["head"], json!({ "total": 60.0, "idleSeconds": 49.2, "clustersWithoutMetrics": 0 }));
    assert_eq!(
        (&all["delta"], &all["deltaDecimal"], &all["rowCount"]),
        (&json!(-12.0), &json!("-12"), &json!(7))
    );
    let rows = all["rows"].as_array().unwrap();
    let found: Vec<Value> = rows
        .iter()
        .map(|row| {
            let key = &row["key"];
            json!([
                key["part"],
                key["path"],
                key["function"],
                key["activity"],
                row["base"],
                row["head"],
                row["delta"],
                row["kind"]
            ])
        })
        .collect();
    let load = json!(["etl", "load"]);
    let expected = json!([
        ["IDLE", null, null, null, 28.5, 49.2, 20.7, "CHANGED"],
        ["TASKS", ["etl", "load", "parse"], "load", "thread-cpu", 20.0, null, -20.0, "REMOVED"],
        ["TASKS", ["etl", "train"], "fit", "thread-cpu", 12.5, null, -12.5, "REMOVED"],
        ["TASKS", ["default"], "load", "thread-cpu", 1.0, null, -1.0, "REMOVED"],
        ["TASKS", load, "load", "disk-read", null, 0.7, 0.7, "ADDED"],
        ["TASKS", load, "load", "thread-cpu", 6.0, 6.1, 0.1, "CHANGED"],
        ["TASKS", load, "load", "other", 4.0, 4.0, 0.0, "UNCHANGED"],
    ]);
    assert_eq!(json!(found), expected);
    assert_eq!(rows.iter().map(|row| millionths(&row["deltaDecimal"])).sum::<i64>(), -12_000_000);
    // The floating-point quotient, which differs slightly from -1.725.
    assert_eq!(rows[0]["shareOfDelta"], 20.7 / -12.0);
    assert_eq!(
        all["remaining"],
        json!({ "rows": 0, "base": 0.0, "head": 0.0, "delta": 0.0, "deltaDecimal": "0" })
    );
    let expected = json!({
        "verdict": "GOOD", "value": -12.0, "unit": "thread-seconds", "share": null, "confidence": "MEASURED",
        "headline": "It spent 1 min of thread time, 12 s less than the first work; 20.7 s more in threads without a task.",
        "evidence": [{ "label": "threads without a task", "value": 20.7 },
            { "label": "etl/load, load, disk-read", "value": 0.7 }, { "label": "etl/load, load, thread-cpu", "value": 0.1 }],
    });
    assert_eq!(all["verdict"], expected);

    // The remaining rows are summed up in one, and the total is unchanged.
    let few = compare(&ada, clusters, ", first: 2", fields).await;
    assert_eq!(few["rows"].as_array().unwrap().len(), 2);
    let rest = json!({ "rows": 5, "base": 23.5, "head": 10.8, "delta": -12.7, "deltaDecimal": "-12.7" });
    assert_eq!((&few["remaining"], &few["delta"]), (&rest, &json!(-12.0)));
    let by_function =
        compare(&ada, clusters, ", by: [FUNCTION]", "delta rows { delta key { function } }").await;
    let expected = json!({ "delta": -12.0, "rows": [{ "delta": 20.7, "key": { "function": null } },
        { "delta": -20.2, "key": { "function": "load" } }, { "delta": -12.5, "key": { "function": "fit" } }] });
    assert_eq!(by_function, expected);
    let bytes = compare(
        &ada,
        clusters,
        ", unit: \"bytes\", by: [FUNCTION]",
        "delta verdict { headline }
        rows { delta key { part function } }",
    )
    .await;
    let expected = json!({ "delta": -590.0, "verdict": null, "rows": [
        { "delta": -600.0, "key": { "part": "TASKS", "function": "load" } },
        { "delta": 10.0, "key": { "part": "OUTSIDE_TASKS", "function": null } }] });
    assert_eq!(bytes, expected);
    app.stop().await;
}

#[tokio::test]
async fn any_values_add_up_to_the_last_millionth() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // 300 values without round lengths, which floats would not add up exactly.
    let report = |scheduler: &str, seed: i64| {
        let cells = |span: i64| -> Vec<Value> {
            let cell = |n: i64| {
                let microseconds = (n * 7_919 + span * 104_729 + seed * 15_485_863) % 9_999_991;
                #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
                let seconds = microseconds as f64 / 1e6;
                json!(["execute", format!("f{}", n % 10), format!("a{}", n % 7), "seconds", seconds])
            };
            (0..100).map(cell).collect()
        };
        let spans = (1..=3_u8).map(|n| span(n.into(), None, &[&format!("s{n}")], 0.0, Some(333.333)));
        let metrics = (1..=3_u8).map(|n| json!({ "span_id": uuid(n.into()), "cells": cells(n.into()) }));
        ReportBuilder::new(scheduler, 400)
            .with("/thread_history", json!([threads(0.001, 7)]))
            .with("/spans", spans.collect::<Vec<_>>())
            .with("/fine_metrics", metrics.collect::<Vec<_>>())
            .build()
    };
    let clusters =
        [ada.reported(&report("Scheduler-1", 1)).await, ada.reported(&report("Scheduler-2", 2)).await];
    let fields =
        "deltaDecimal base { total } head { total } rows { deltaDecimal } remaining { deltaDecimal rows }";
    for first in [1_000, 50] {
        let found = compare(&ada, clusters, &format!(", first: {first}"), fields).await;
        let rows =
            found["rows"].as_array().unwrap().iter().map(|row| millionths(&row["deltaDecimal"])).sum::<i64>();
        assert_eq!(
            rows + millionths(&found["remaining"]["deltaDecimal"]),
            millionths(&found["deltaDecimal"])
        );
        // 333.332 seconds of 7 threads in both.
        assert_eq!(
            (&found["base"]["total"], &found["head"]["total"]),
            (&json!(2_333.324), &json!(2_333.324))
        );
    }
    app.stop().await;
}

fn frame(line: i64) -> Value {
    json!({ "file": "etl.py", "function": "load", "line": line, "text": null })
}

#[tokio::test]
async fn profiles_stand_in_one_tree() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let with = |scheduler: &str, lines: [i64; 2], samples: i64| {
        let frames = json!([frame(lines[0]), frame(lines[1])]);
        let nodes = json!([[-1, 0, 0, samples], [0, 1, samples, samples]]);
        ReportBuilder::new(scheduler, 20)
            .with("/profiles", json!([profile(1, 0.0, samples, &frames, &nodes)]))
            .build()
    };
    let clusters = [
        ada.reported(&with("Scheduler-1", [1, 2], 40)).await,
        ada.reported(&with("Scheduler-2", [1, 3], 10)).await,
    ];
    let fields = "profile { baseSamples headSamples baseWindows headWindows complete frames { line }
        nodes { parent frame baseSelf baseTotal headSelf headTotal } }";
    let node = |parent: Value, frame: i64, [own, total]: [i64; 2], [head_own, head_total]: [i64; 2]| {
        json!({ "parent": parent, "frame": frame, "baseSelf": own, "baseTotal": total,
            "headSelf": head_own, "headTotal": head_total })
    };
    let expected = json!({ "profile": {
        "baseSamples": 40, "headSamples": 10, "baseWindows": 1, "headWindows": 1, "complete": true,
        "frames": [{ "line": 1 }, { "line": 2 }, { "line": 3 }],
        "nodes": [node(Value::Null, 0, [0, 40], [0, 10]), node(json!(0), 1, [40, 40], [0, 0]),
            node(json!(0), 2, [0, 0], [10, 10])],
    } });
    assert_eq!(compare(&ada, clusters, "", fields).await, expected);
    let bare = ada.reported(&ReportBuilder::new("Scheduler-3", 1).build()).await;
    assert_eq!(compare(&ada, [bare, bare], "", "profile { complete }").await, json!({ "profile": null }));
    let added = compare(&ada, [bare, clusters[1]], "", "profile { baseSamples nodes { headTotal } }").await;
    let expected =
        json!({ "profile": { "baseSamples": 0, "nodes": [{ "headTotal": 10 }, { "headTotal": 10 }] } });
    assert_eq!(added, expected);
    app.stop().await;
}

/// A successful run of ten seconds that began this many minutes after the first one: 80 seconds of
/// thread time with 8 threads, of which 60 seconds on the CPU.
fn run(scheduler: &str, minutes: i32) -> ReportBuilder {
    let started_at = STARTED_AT + 60.0 * f64::from(minutes);
    let mut span = span(1, None, &["etl"], 0.0, Some(10.0));
    span["code"] = json!([[code_frame("x = 1", 1, 0)]]);
    let mut worker = worker(1);
    worker["environment_id"] = json!(uuid(1));
    ReportBuilder::new(scheduler, 1)
        .with("/cluster/started_at", started_at)
        .with("/sent_at", started_at + 20.0)
        .with("/cluster/closed_at", started_at + 20.0)
        .with("/final", true)
        .with("/cluster/totals/tasks", 10)
        .with("/cluster/totals/peak_workers", 2)
        .with("/cluster/totals/peak_threads", 8)
        .with("/thread_history", json!([threads(0.0, 8)]))
        .with("/spans", json!([span]))
        .with("/code", json!([code("x = 1"), code("x = 2")]))
        .with("/workers", json!([worker]))
        .with(
            "/environments",
            json!([environment("3.11", json!({ "dask": "2026.1.0", "numpy": "1.26.4", "lz4": "4.3" }))]),
        )
        .with("/cluster/environment_id", uuid(1))
        .with("/fine_metrics", json!([{ "span_id": uuid(1), "cells": spent(8) }]))
}

/// A minute on the CPU, and this many seconds of tasks off the CPU.
fn spent(without: i64) -> Value {
    json!([
        ["execute", "load", "thread-cpu", "seconds", 60],
        ["execute", "load", "thread-noncpu", "seconds", without]
    ])
}

fn environment(python: &str, packages: impl Into<Value>) -> Value {
    json!({ "id": uuid(1), "python": python, "os": "Linux", "os_release": "6.1", "machine": "x86_64",
        "packages": packages.into() })
}

/// The same with twice the threads, other packages and other code.
fn larger(scheduler: &str, minutes: i32) -> ReportBuilder {
    let packages = json!({ "dask": "2026.1.0", "numpy": "2.0.0", "lz4": null, "pandas": "2.2" });
    run(scheduler, minutes)
        .with("/cluster/totals/peak_workers", 4)
        .with("/cluster/totals/peak_threads", 16)
        .with("/thread_history", json!([threads(0.0, 16)]))
        .with("/workers/0/memory_limit_bytes", 8_000_000_000_i64)
        .with("/environments", json!([environment("3.12", packages)]))
        .with("/spans/0/code", json!([[code_frame("x = 2", 1, 0)]]))
        .with("/fine_metrics/0/cells", spent(20))
}

#[tokio::test]
async fn software_and_size_are_distinguished() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let clusters = [
        ada.reported(&run("Scheduler-1", 0).build()).await,
        ada.reported(&larger("Scheduler-2", 9).build()).await,
    ];
    let change = "{ name from to }";
    let size = "{ peakWorkers peakThreads workerThreads workerMemoryLimit }";
    let fields = format!(
        "environment {{ known codeChanged added {change} removed {change} changed {change} python {change} os {change}
            machine {change} baseSize {size} headSize {size} }}"
    );
    let of = |name: &str, from: &[&str], to: &[&str]| json!({ "name": name, "from": from, "to": to });
    let expected = json!({ "environment": {
        "known": true, "codeChanged": true,
        "added": [of("pandas", &[], &["2.2"])], "removed": [of("lz4", &["4.3"], &[])],
        "changed": [of("numpy", &["1.26.4"], &["2.0.0"])], "python": of("Python", &["3.11"], &["3.12"]),
        "os": null, "machine": null,
        "baseSize": { "peakWorkers": 2, "peakThreads": 8, "workerThreads": 4, "workerMemoryLimit": 4_000_000_000_i64 },
        "headSize": { "peakWorkers": 4, "peakThreads": 16, "workerThreads": 4, "workerMemoryLimit": 8_000_000_000_i64 },
    } });
    assert_eq!(compare(&ada, clusters, "", &fields).await, expected);
    let nothing = ada.reported(&ReportBuilder::new("Scheduler-3", 1).build()).await;
    let fields =
        "environment { known codeChanged changed { name } python { name } headSize { workerThreads } }";
    let unknown = compare(&ada, [clusters[0], nothing], "", fields).await;
    let expected = json!({ "known": false, "codeChanged": null, "changed": [], "python": null,
        "headSize": { "workerThreads": null } });
    assert_eq!(unknown["environment"], expected);
    app.stop().await;
}

const ANSWER: &str = "verdict headline value unit share confidence evidence { label value node { __typename ... on Cluster { schedulerId } } }";

async fn get_answer(member: &Member, number: i64, question: &str) -> Value {
    let field = question.split('(').next().unwrap();
    let inside = format!("{ANSWER} {}", phrase::fields_with_evidence());
    let query =
        format!("query($id: ID!) {{ cluster(id: $id) {{ answers {{ {question} {{ {inside} }} }} }} }}");
    let mut data = member.query(&query, json!({ "id": number.to_string() })).await;
    phrase::checked(field, data["cluster"]["answers"][field].take())
}

fn seconds(label: &str, value: f64) -> Value {
    json!({ "label": label, "value": value, "node": null })
}

#[tokio::test]
async fn a_cluster_is_measured_by_a_run_that_went_well() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let named = |report: ReportBuilder| report.with("/cluster/name", "nightly").build();
    let computing = |scheduler: &str, minutes: i32, states: [&str; 2]| {
        let one = |(number, state): (u32, &str)| {
            let mut computation = computation(number.into(), &[]);
            let started_at = STARTED_AT + f64::from(60 * minutes) + f64::from(number);
            (computation["started_at"], computation["state"]) = (json!(started_at), json!(state));
            computation["stopped_at"] = json!(started_at + 1.0);
            computation
        };
        run(scheduler, minutes).with("/computations", (1..).zip(states).map(one).collect::<Vec<_>>())
    };
    let base = ada.reported(&named(computing("good", 0, ["cancelled", "finished"]))).await;
    ada.reported(&named(run("failed", 10).with("/cluster/totals/tasks_erred", 1))).await;
    ada.reported(&named(computing("given up", 20, ["finished", "cancelled"]))).await;
    let head = ada.reported(&named(larger("head", 60))).await;
    let against = json!({ "value": null, "node": { "__typename": "Cluster", "schedulerId": "good" },
        "label": format!("Compared with cluster {base} of 2026-11-20 11:00:00 UTC, the last good run with the same name") });

    let changed = |what: &str| json!({ "label": what, "value": null, "node": null });
    let expected = json!({
        "verdict": "NOTICE", "value": 8.0, "unit": "changes", "share": null, "confidence": "MEASURED",
        "headline": format!("8 things changed since cluster {base}: Python 3.11 → 3.12, numpy 1.26.4 → 2.0.0, \
                             pandas 2.2 was added and 5 more."),
        "evidence": [against, changed("Python 3.11 → 3.12"), changed("numpy 1.26.4 → 2.0.0"),
            changed("pandas 2.2 was added"), changed("lz4 4.3 was removed")],
    });
    assert_eq!(get_answer(&ada, head, "whatChanged").await, expected);

    // 80 and 160 thread-seconds, of which tasks used 68 and 80.
    let rows = [seconds("threads without a task", 68.0), seconds("load, thread-noncpu", 12.0)];
    let expected = json!({
        "verdict": "BAD", "value": 80.0, "unit": "thread-seconds", "share": 0.5, "confidence": "MEASURED",
        "headline": format!("It spent 2.7 min of thread time, 1.3 min more than cluster {base}, 100 %; \
                             1.1 min more in threads without a task."),
        "evidence": [against, rows[0], rows[1]],
    });
    assert_eq!(get_answer(&ada, head, "slower").await, expected);

    // 20 and 100 thread-seconds off the CPU for 60 on it in both.
    let expected = json!({
        "verdict": "BAD", "value": 80.0, "unit": "thread-seconds", "share": 0.5, "confidence": "MEASURED",
        "headline": format!("With 16 threads instead of 8, tasks used the CPU for 38 % of the thread time, and for 75 % in \
                             cluster {base}: 1.3 min more were lost than there for the same work, most of it to \
                             threads without a task."),
        "evidence": [against, rows[0], rows[1]],
    });
    assert_eq!(get_answer(&ada, head, "scaling").await, expected);

    // The other way round, with an explicit baseline. Half the work would have lost half as much.
    let with_baseline = |question: &str| format!("{question}(baseline: \"{head}\")");
    let less = get_answer(&ada, base, &with_baseline("slower")).await;
    let headline = format!("It spent 1.3 min of thread time, 1.3 min less than cluster {head}.");
    assert_eq!(
        (&less["headline"], &less["verdict"], &less["value"]),
        (&json!(headline), &json!("GOOD"), &json!(-80.0))
    );
    let label = format!("Compared with cluster {head} of 2026-11-20 12:00:00 UTC, as requested");
    assert_eq!(less["evidence"][0]["label"], label);
    let scales = get_answer(&ada, base, &with_baseline("scaling")).await;
    assert_eq!(
        (&scales["verdict"], &scales["value"], &scales["share"]),
        (&json!("GOOD"), &json!(0.0), &json!(0.0))
    );
    let twin = ada.reported(&named(run("twin", 5))).await;
    let same = get_answer(&ada, twin, "whatChanged").await;
    let headline = format!("No known property changed since cluster {base}: 0 changes.");
    assert_eq!((&same["headline"], &same["verdict"]), (&json!(headline), &json!("GOOD")));

    let query = "query($id: ID!, $baseline: ID) { cluster(id: $id) { answers { slower(baseline: $baseline) { verdict } } } }";
    for (baseline, code) in [(head.to_string(), "BAD_USER_INPUT"), ("1".to_owned(), "NOT_FOUND")] {
        let variables = json!({ "id": head.to_string(), "baseline": baseline });
        let refused = ada.ask(query, variables).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], code, "{refused}");
    }
    app.stop().await;
}

#[tokio::test]
async fn without_a_name_the_same_work_counts() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let eve = app.member("eve", "ada").await;
    let by_function = |scheduler: &str, minutes: i32, functions: &[&str]| {
        let mut hour = usage(23, 1);
        let function = |name: &&str| {
            json!({ "prefix": name, "compute_seconds": 1.0, "transfer_seconds": 0, "tasks": 1,
            "tasks_erred": 0, "bytes": 0 })
        };
        hour["functions"] = functions.iter().map(function).collect();
        run(scheduler, minutes).with("/spans/0/path", json!(["default"])).with("/usage", vec![hour]).build()
    };
    let first = ada.reported(&run("spans", 0).build()).await;
    eve.reported(&run("of another user", 5).build()).await;
    let functions = ada.reported(&by_function("functions", 10, &["load", "fit"])).await;
    ada.reported(&run("running", 15).with("/final", false).build()).await;
    let label = async |number: i64| get_answer(&ada, number, "slower").await["evidence"][0]["label"].clone();
    let like_spans = ada.reported(&run("like spans", 20).build()).await;
    let expected = format!(
        "Compared with cluster {first} of 2026-11-20 11:00:00 UTC, the last good run with the same outermost spans"
    );
    assert_eq!(label(like_spans).await, expected);
    let like_functions = ada.reported(&by_function("like functions", 30, &["fit"])).await;
    let expected = format!(
        "Compared with cluster {functions} of 2026-11-20 11:10:00 UTC, the last good run with most of its functions"
    );
    assert_eq!(label(like_functions).await, expected);

    let unlike = ada.reported(&by_function("unlike", 40, &["sort"])).await;
    for question in ["whatChanged", "slower", "scaling"] {
        let found = get_answer(&ada, unlike, question).await;
        assert_eq!(
            (&found["confidence"], &found["verdict"], &found["value"], &found["evidence"]),
            (&json!("NOT_COLLECTED"), &json!("UNKNOWN"), &Value::Null, &json!([])),
            "{question}"
        );
    }
    // With a baseline, but without the required data.
    let nothing = ada.reported(&small("nothing").without("/fine_metrics").build()).await;
    let found = get_answer(&ada, nothing, &format!("scaling(baseline: \"{first}\")")).await;
    assert_eq!((&found["confidence"], &found["value"]), (&json!("NOT_COLLECTED"), &Value::Null));
    let found = get_answer(&ada, nothing, &format!("whatChanged(baseline: \"{first}\")")).await;
    let headline = format!(
        "2 things changed since cluster {first}: workers at most 2 → 0, threads at most 8 → 0; \
         what software one of the two ran on is not stored."
    );
    assert_eq!((&found["headline"], &found["confidence"]), (&json!(headline), &json!("ESTIMATED")));
    app.stop().await;
}

#[tokio::test]
async fn comparisons_cost_the_same_statements_for_any_number_of_clusters() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..8 {
        ada.reported(&run(&format!("Scheduler-{number}"), number).build()).await;
    }
    let cost = async |query: String| {
        let before = app.statements();
        let answer = ada.query(&query, json!({})).await;
        (app.statements() - before, answer)
    };
    let answers_query = |question: &str, first: usize| {
        let nodes = format!("nodes {{ answers {{ {question} {{ verdict }} }} }}");
        format!("{{ viewer {{ account {{ clusters(first: {first}) {{ {nodes} }} }} }} }}")
    };
    // The token and the page. Then the clusters, earlier runs, their spans and functions, and the rows
    // of those found; then for both clusters spans, threads and metrics, or clusters, software in three,
    // code and workers.
    for clusters in [1, 5, 8] {
        let (statements, _) = cost(answers_query("slower", clusters)).await;
        assert!(statements <= 2 + 4 + 1 + 4, "{clusters}: {statements}");
        let (statements, _) = cost(answers_query("whatChanged", clusters)).await;
        assert!(statements <= 2 + 4 + 1 + 6, "{clusters}: {statements}");
    }
    let compare = |filter: &str| {
        format!(
            "{{ viewer {{ account {{ compare(base: {{ clusters: {{ search: \"{filter}\" }} }}, head: {{}}) {{
                delta environment {{ known }} profile {{ complete }} }} }} }} }}"
        )
    };
    // The token; for each side clusters, spans, threads and metrics; software in three, code and
    // workers; and the windows of each side.
    for filter in ["scheduler-1", "scheduler"] {
        assert_eq!(cost(compare(filter)).await.0, 1 + 2 * 4 + 5 + 2, "{filter}");
    }
    app.stop().await;
}
