//! Malicious reports: each is refused at the wrong place or stored in a readable form, and the server
//! keeps working.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use harness::{Member, ReportBuilder, TestApp, computation, error, event, log_line, task_group, uuid};
use reqwest::{Method, header};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

const STARTED_AT: i64 = 1_795_172_400;

const MINUTE: i64 = STARTED_AT / 60;

/// A placeholder in a report for JSON that no [`Value`] can hold.
const MARK: &str = "\u{1}here";

/// A report with data of every kind.
fn full() -> Value {
    let digest = "a".repeat(64);
    let frame = json!({ "hash": digest, "file": "a.py", "line": 2, "relative_line": 1 });
    let mut computation = computation(1, &[10]);
    computation["span_ids"] = json!([uuid(30)]);
    computation["code"] = json!([[frame]]);
    let mut error = error(20, 10, 1);
    error["origin"] = json!("dask");
    error["retries"] = json!(2);
    error["span_id"] = json!(uuid(30));
    error["worker_id"] = json!(uuid(50));
    let mut line = log_line(6, "started");
    line["worker_id"] = json!(uuid(50));
    line["worker"] = json!("tcp://10.0.0.1:40000");
    let mut counts = json!({});
    for count in ["tasks", "tasks_erred", "retries", "errors", "bytes", "spilled_bytes", "workers"] {
        counts[count] = json!(1);
    }
    for seconds in
        ["thread", "worker", "memory_gib", "compute", "transfer", "cpu", "noncpu", "serialize", "spill"]
    {
        counts[format!("{seconds}_seconds")] = json!(1.5);
    }
    counts["hour"] = json!(STARTED_AT / 3_600);
    counts["functions"] = json!([{ "prefix": "load", "compute_seconds": 1.5, "transfer_seconds": 0.5, "tasks": 1,
        "tasks_erred": 0, "bytes": 8 }]);
    ReportBuilder::new("Scheduler-1", 1)
        .with("/base", 1)
        .with("/cluster/name", "etl")
        .with("/cluster/address", "tcp://10.0.0.1:8786")
        .with("/cluster/dashboard_url", "http://10.0.0.1:8787")
        .with("/cluster/environment_id", uuid(60))
        .with("/cluster/close_reason", "done")
        .with("/cluster/idle_since", STARTED_AT)
        .with("/cluster/memory_limit_bytes", 1_000)
        .with("/computations", json!([computation]))
        .with("/task_groups", json!([task_group(10, "load", 4)]))
        .with("/errors", json!([error]))
        .with("/environments", json!([{ "id": uuid(60), "python": "3.13", "executable": "/bin/python", "os": "Linux",
            "os_release": "6", "machine": "x86_64", "packages": { "dask": "2026.8", "cudf": null } }]))
        .with("/workers", json!([{ "id": uuid(50), "name": "w", "address": "tcp://10.0.0.1:40000", "host": "10.0.0.1",
            "environment_id": uuid(60), "threads": 2, "memory_limit_bytes": 100, "started_at": STARTED_AT,
            "ended_at": STARTED_AT + 9, "end": "lost", "processing_keys": ["load-1"], "processing": 1,
            "lost_results": 1, "last_memory_bytes": 50, "last_seen_at": STARTED_AT + 8 }]))
        .with("/clients", json!([{ "id": "Client-1", "environment_id": uuid(60), "connected_at": STARTED_AT,
            "disconnected_at": STARTED_AT + 9 }]))
        .with("/thread_history", json!([{ "at": STARTED_AT + 1, "threads": 2 }]))
        .with("/samples", json!([{ "worker_id": uuid(50), "at": STARTED_AT + 5, "metrics": { "cpu_cores": 1.5 } },
            { "at": STARTED_AT + 5, "metrics": { "workers": 1, "unheard": 2 } }]))
        .with("/spans", json!([{ "id": uuid(30), "parent_id": uuid(31), "path": ["etl", "load"],
            "enqueued_at": STARTED_AT, "started_at": STARTED_AT + 1, "stopped_at": STARTED_AT + 2, "done": true,
            "collections": ["Array"], "code": [[frame]] }]))
        .with("/fine_metrics", json!([{ "span_id": uuid(30), "cells": [["execute", "load", "thread-cpu", "seconds", 1.5],
            ["gather-dep", null, "transfer", "bytes", 100]] }]))
        .with("/profiles", json!([{ "id": uuid(40), "started_at": STARTED_AT, "stopped_at": STARTED_AT + 10, "workers": 1,
            "samples": 3, "frames": [{ "file": "a.py", "function": "f", "line": 2, "text": "f()" }],
            "nodes": [[-1, 0, 3, 3]] }]))
        .with("/events", json!([event(5, "mine", json!({ "text": "x", "number": 1.5, "list": [null, true] }))]))
        .with("/logs", json!([line]))
        .with("/usage", json!([counts]))
        .with("/function_activity", json!([{ "minute": MINUTE, "other_compute_seconds": [0, 0.5, 0, 0],
            "functions": [{ "prefix": "load", "compute_seconds": [0, 1.5, 15, 0] }] }]))
        .with("/receipt", json!({ "basic": { "sent": 1, "bytes": 100, "withheld": 2 } }))
        .with("/dropped", json!({ "tasks": 1, "logs": 3 }))
        .build()
}

/// The report with raw JSON at a pointer.
fn with(mut report: Value, pointer: &str, json: &str) -> String {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    match report.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}")) {
        Value::Array(items) => items[field.parse::<usize>().unwrap()] = MARK.into(),
        parent => parent[field] = MARK.into(),
    }
    report.to_string().replace(&json!(MARK).to_string(), json)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

async fn send(member: &Member, body: &str) -> (u16, Value) {
    let request = member.request(Method::POST, "/api/v1/reports").body(gzip(body.as_bytes()));
    let request =
        request.header(header::CONTENT_TYPE, "application/json").header(header::CONTENT_ENCODING, "gzip");
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.json().await.unwrap())
}

/// The outcome of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome<'a> {
    Stored,
    /// The value at this place is invalid.
    Refused(&'a str),
    /// It is not JSON.
    Malformed,
    TooLarge,
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn what_nobody_should_send_is_refused_where_it_is_wrong() {
    use Outcome::{Malformed, Refused, Stored, TooLarge};

    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let text = |length: usize| json!("x".repeat(length)).to_string();
    let list = |item: &Value, times: usize| format!("[{}]", vec![item.to_string(); times].join(","));
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let million = text(1_000_000);
    let small = json!({ "id": uuid(1), "name": "a", "prefix": "a", "first_seen_at": 0, "tasks": 0,
        "tasks_succeeded": 0, "tasks_erred": 0, "tasks_blamed": 0, "bytes": 0 });
    let cases = [
        ("100,000 task groups", "/task_groups", list(&small, 100_000), Refused("/task_groups")),
        (
            "5,001 task groups",
            "/task_groups",
            list(&json!(task_group(1, "load", 1)), 5_001),
            Refused("/task_groups"),
        ),
        (
            "100,000 samples",
            "/samples",
            list(&json!({ "at": STARTED_AT, "metrics": {} }), 100_000),
            Refused("/samples"),
        ),
        ("100,000 events", "/events", list(&event(1, "mine", 1), 100_000), Refused("/events")),
        ("a traceback of 10 MB", "/errors/0/traceback", text(10 * MIB), Refused("/errors/0/traceback")),
        ("a message of 10 MB", "/logs/0/message", text(10 * MIB), Refused("/logs/0/message")),
        ("a traceback of 33 MB", "/errors/0/traceback", text(33 * MIB), TooLarge),
        ("a long label", "/fine_metrics/0/cells/0/1", million.clone(), Refused("/fine_metrics/0/cells/0/1")),
        (
            "a long context",
            "/fine_metrics/0/cells/1/0",
            million.clone(),
            Refused("/fine_metrics/0/cells/1/0"),
        ),
        ("a long topic", "/events/0/topic", million.clone(), Refused("/events/0/topic")),
        ("a long logger", "/logs/0/logger", million.clone(), Refused("/logs/0/logger")),
        ("a long tag", "/spans/0/path/1", million.clone(), Refused("/spans/0/path/1")),
        ("long data", "/events/0/data", million.clone(), Refused("/events/0/data")),
        ("a long name of a metric", "/samples/0/metrics", format!("{{{million}: 1}}"), Stored),
        (
            "a long name of a package",
            "/environments/0/packages",
            format!("{{{million}: null}}"),
            Refused("/environments/0/packages"),
        ),
        ("a long name of a class", "/receipt", format!("{{{million}: {{}}}}"), Refused("/receipt")),
        ("NaN", "/samples/0/metrics/cpu_cores", "NaN".into(), Malformed),
        ("NaN in an event", "/events/0/data/number", "NaN".into(), Malformed),
        ("Infinity", "/fine_metrics/0/cells/0/4", "Infinity".into(), Malformed),
        ("a number without end", "/usage/0/compute_seconds", "-Infinity".into(), Malformed),
        (
            "too large a number",
            "/samples/0/metrics/cpu_cores",
            "1e400".into(),
            Refused("/samples/0/metrics/cpu_cores"),
        ),
        (
            "a very large number",
            "/samples/0/metrics/cpu_cores",
            "1e308".into(),
            Refused("/samples/0/metrics/cpu_cores"),
        ),
        ("a very large number in an event", "/events/0/data/number", "1e308".into(), Stored),
        ("digits for ever", "/events/0/data/number", "1".repeat(300), Stored),
        ("more digits", "/errors/0/retries", "1".repeat(30), Refused("/errors/0/retries")),
        ("a negative duration", "/usage/0/thread_seconds", "-0.5".into(), Refused("/usage/0/thread_seconds")),
        ("a negative count", "/receipt/basic/sent", "-1".into(), Refused("/receipt/basic/sent")),
        ("negative zero", "/usage/0/thread_seconds", "-0.0".into(), Stored),
        ("the hour of another unit", "/usage/0/hour", STARTED_AT.to_string(), Refused("/usage/0/hour")),
        (
            "the minute of another unit",
            "/function_activity/0/minute",
            format!("{STARTED_AT}000"),
            Refused("/function_activity/0/minute"),
        ),
        (
            "501 minutes",
            "/function_activity",
            list(&json!({ "minute": MINUTE }), 501),
            Refused("/function_activity"),
        ),
        (
            "51 functions of a minute",
            "/function_activity/0/functions",
            list(&json!({ "prefix": "load", "compute_seconds": [0, 0, 0, 0] }), 51),
            Refused("/function_activity/0/functions"),
        ),
        (
            "a quarter of a minute too few",
            "/function_activity/0/functions/0/compute_seconds",
            "[0, 1, 2]".into(),
            Refused("/function_activity/0/functions/0/compute_seconds"),
        ),
        (
            "a quarter of a minute too many",
            "/function_activity/0/other_compute_seconds",
            "[0, 1, 2, 3, 4]".into(),
            Refused("/function_activity/0/other_compute_seconds"),
        ),
        (
            "a negative quarter of a minute",
            "/function_activity/0/other_compute_seconds/3",
            "-0.01".into(),
            Refused("/function_activity/0/other_compute_seconds/3"),
        ),
        (
            "a long function",
            "/function_activity/0/functions/0/prefix",
            million.clone(),
            Refused("/function_activity/0/functions/0/prefix"),
        ),
        ("milliseconds for seconds", "/errors/0/at", format!("{STARTED_AT}000"), Refused("/errors/0/at")),
        ("a time before all", "/errors/0/at", "-1".into(), Refused("/errors/0/at")),
        ("the beginning of time", "/events/0/at", "0".into(), Stored),
        ("the end of time", "/logs/0/at", "253402300799".into(), Stored),
        ("a name twice", "/cluster/totals/tasks", "1, \"tasks\": 2".into(), Refused("/cluster/totals")),
        ("a name twice in an event", "/events/0/data/number", "1, \"number\": 2".into(), Stored),
        ("a package twice", "/environments/0/packages/dask", "null, \"dask\": \"1\"".into(), Stored),
        ("100 levels", "/events/0/data", nested(100), Stored),
        ("100,000 levels", "/events/0/data", nested(100_000), Refused("/events/0/data")),
        ("100,000 levels nobody reads", "/unheard", nested(100_000), Stored),
        (
            "a hash of something else",
            "/code",
            format!(r#"[{{"hash": "{}", "text": ""}}]"#, "A".repeat(64)),
            Refused("/code/0/hash"),
        ),
        ("half a hash", "/spans/0/code/0/0/hash", text(32), Refused("/spans/0/code/0/0/hash")),
        ("64 levels of spans", "/spans/0/path", list(&json!("level"), 64), Stored),
        ("65 levels of spans", "/spans/0/path", list(&json!("level"), 65), Refused("/spans/0/path")),
        ("no levels of spans", "/spans/0/path", "[]".into(), Stored),
        ("a field nobody knows", "/errors/0/unheard", r#"{"\u0000": ["\ud800"]}"#.into(), Stored),
        ("an error of nobody", "/errors/0/origin", r#""nobody""#.into(), Refused("/errors/0/origin")),
        ("no identifier", "/events/0/id", r#""""#.into(), Refused("/events/0/id")),
        ("half a pair in an identifier", "/events/0/id", r#""\ud800""#.into(), Refused("/events/0/id")),
        ("cut escapes", "/errors/0/key", r#""\ud8""#.into(), Malformed),
        ("a control character", "/errors/0/key", "\"\u{2}\"".into(), Malformed),
    ];
    let mut wrong = Vec::new();
    for (sequence, (what, pointer, json, expected)) in (1..).zip(&cases) {
        let (status, answer) = send(&ada, &with(full(), pointer, json)).await;
        let pointed = answer["pointer"].as_str().unwrap_or_default();
        let found = match (status, answer["code"].as_str()) {
            (200, None) => Stored,
            (400, Some("INVALID_BODY")) => Refused(pointed),
            (400, Some("MALFORMED_BODY")) => Malformed,
            (413, Some("PAYLOAD_TOO_LARGE")) => TooLarge,
            _ => panic!("{what}: {status} {answer}"),
        };
        // A place within the expected one is also correct.
        let lies_within = |place: &str, wide: &str| {
            place.strip_prefix(wide).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let as_expected = match (found, *expected) {
            (Refused(place), Refused(wide)) => lies_within(place, wide),
            (found, expected) => found == expected,
        };
        if !as_expected {
            wrong.push(format!("{what}: {found:?}, not {expected:?}: {answer}"));
        }
        assert!(answer.to_string().len() < 2_000, "{what}: {answer}");
        ada.reported(&ReportBuilder::new("Scheduler-2", sequence).build()).await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    app.stop().await;
}

/// The pointers of all values that are neither lists nor objects.
fn leaves(value: &Value, pointer: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            (0..).zip(items).for_each(|(n, item): (usize, _)| leaves(item, &format!("{pointer}/{n}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| leaves(field, &format!("{pointer}/{name}"), found));
        }
        _ => found.push(pointer.to_owned()),
    }
}

#[tokio::test]
async fn any_value_at_any_place_is_stored_or_named() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (status, answer) = send(&ada, &full().to_string()).await;
    assert_eq!(status, 200, "{answer}");
    let mut places = Vec::new();
    leaves(&full(), "", &mut places);
    assert!(places.len() > 150, "{}", places.len());
    let values = [
        r#""a\u0000b\ud800c\udfff\\u0000""#,
        r#""""#,
        "-1",
        "0.5",
        "9007199254740993",
        "null",
        "true",
        "{}",
        "[[]]",
    ];
    let mut wrong = Vec::new();
    for place in &places {
        // The same scheduler each time, so that identifiers and sequences meet existing ones.
        for value in values {
            let (status, answer) = send(&ada, &with(full(), place, value)).await;
            let named = answer["pointer"].as_str().unwrap_or_default();
            let ok = status == 200 || status == 400 && !named.is_empty() && place.starts_with(named);
            if !ok {
                wrong.push(format!("{value} at {place}: {status} {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    ada.reported(&ReportBuilder::new("Scheduler-2", 1).build()).await;
    app.stop().await;
}

#[tokio::test]
async fn texts_no_database_can_hold_are_replaced() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let odd = r#""a\u0000b\ud800c\ud83d\ude00\\u0000""#;
    let mut report = full();
    for pointer in [
        "/errors/0/key",
        "/errors/0/message",
        "/events/0/topic",
        "/events/0/data",
        "/logs/0/message",
        "/logs/0/level",
    ] {
        *report.pointer_mut(pointer).unwrap() = MARK.into();
    }
    let mark = json!(MARK).to_string();
    let body = report.to_string().replace(&mark, odd);
    let body = body.replace(&format!(r#""data":{odd}"#), &format!(r#""data":{{{odd}:[{odd}]}}"#));
    assert_eq!(send(&ada, &body).await.0, 200);
    let query = "{ viewer { account { clusters { nodes { errors { nodes { key message } }
        events { nodes { topic data } } logs { nodes { level message } } } } } } }";
    let mut answer = ada.query(query, json!({})).await;
    let read = "a\u{fffd}b\u{fffd}c\u{1f600}\\u0000";
    let expected = json!({
        "errors": { "nodes": [{ "key": read, "message": read }] },
        "events": { "nodes": [{ "topic": read, "data": { read: [read] } }] },
        "logs": { "nodes": [{ "level": read, "message": read }] },
    });
    assert_eq!(answer["viewer"]["account"]["clusters"]["nodes"][0].take(), expected);
    app.stop().await;
}

#[tokio::test]
async fn clocks_that_are_wrong_are_kept_apart_from_the_servers() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let noon = STARTED_AT + 3_600;
    for (number, (started, sent)) in (1_i64..).zip([
        (noon + 3_600, noon + 3_600),
        (noon - 7_200, noon - 7_200),
        // Closed before it started.
        (noon + 3_600, noon - 3_600),
    ]) {
        let report = ReportBuilder::new(&format!("Scheduler-{number}"), 1)
            .with("/cluster/started_at", started)
            .with("/sent_at", sent)
            .with("/final", true)
            .build();
        let id = ada.reported(&report).await.to_string();
        let query = "query($id: ID!) { cluster(id: $id) { state startedAt endedAt lastSeenAt } }";
        let time = |seconds: i64| {
            let time = chrono::DateTime::from_timestamp(seconds, 0).unwrap();
            time.to_rfc3339()
        };
        let expected = json!({ "state": "CLOSED", "startedAt": time(started), "endedAt": time(sent),
            "lastSeenAt": time(noon) });
        assert_eq!(ada.query(query, json!({ "id": id })).await["cluster"], expected);
    }
    app.stop().await;
}

#[tokio::test]
async fn small_bodies_that_become_large_are_refused() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let spaces = vec![b' '; 64 * MIB];
    for (what, body) in [("once", gzip(&spaces)), ("twice", gzip(&gzip(&spaces)))] {
        let request = ada.request(Method::POST, "/api/v1/reports").body(body);
        let request =
            request.header(header::CONTENT_TYPE, "application/json").header(header::CONTENT_ENCODING, "gzip");
        let status = request.send().await.unwrap().status().as_u16();
        assert_eq!(status, if what == "once" { 413 } else { 400 }, "{what}");
        ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    }
    app.stop().await;
}

#[tokio::test]
async fn an_address_that_is_no_text_names_nothing() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let described = ada.request(Method::GET, "/api/v1/openapi.json").send().await.unwrap();
    let described: Value = described.json().await.unwrap();
    let mut tried = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let Some((front, _)) = path.split_once('{') else { continue };
        let named = path.split('/').skip(front.split('/').count() - 1);
        let named = named.map(|part| if part.starts_with('{') { "%FF" } else { part });
        let address = format!("{front}{}", named.collect::<Vec<_>>().join("/"));
        for method in methods.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let answer = ada.request(method.clone(), &address).send().await.unwrap();
            let (status, body) = (answer.status().as_u16(), answer.text().await.unwrap());
            let code = serde_json::from_str::<Value>(&body).map(|body| body["code"].clone());
            assert_eq!((status, code.ok()), (404, Some(json!("NOT_FOUND"))), "{method} {address}: {body}");
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
    app.stop().await;
}
