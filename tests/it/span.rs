//! Spans: their totals with descendants, filters, and data sent by clients.

use entity::api_token::Scope;
use harness::{
    Member, ReportBuilder, TestApp, code, code_frame, computation, span, task_group, threads, uuid,
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// 2 threads from second 1 on, 4 from second 10 on, none from second 30 on.
pub(crate) fn history() -> [Value; 4] {
    [threads(0.0, 0), threads(1.0, 2), threads(10.0, 4), threads(30.0, 0)]
}

fn group(number: u128, span: u128, tasks: i64, retried: i64) -> Value {
    let mut group = task_group(number, "load", tasks);
    group["span_id"] = json!(uuid(span));
    group["tasks_retried"] = json!(retried);
    group
}

fn cells(span: Option<u128>, cells: &Value) -> Value {
    json!({ "span_id": span.map(uuid), "cells": cells })
}

/// Five spans on three levels: a parent without tasks, overlapping children, a grandchild that outlives
/// its parent, and a separate one after a pause.
pub(crate) fn nested(sequence: i64) -> ReportBuilder {
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/thread_history", history().to_vec())
        .with(
            "/spans",
            json!([
                span(1, None, &["etl"], 2.0, Some(2.0)),
                span(2, Some(1), &["etl", "load"], 4.0, Some(12.0)),
                span(3, Some(2), &["etl", "load", "parse"], 6.0, Some(20.0)),
                span(4, Some(1), &["etl", "train"], 8.0, Some(16.0)),
                span(5, None, &["default"], 24.0, Some(28.0)),
            ]),
        )
        .with(
            "/task_groups",
            json!([group(10, 2, 4, 0), group(11, 3, 2, 0), group(12, 4, 3, 2), group(13, 5, 1, 0)]),
        )
        .with(
            "/fine_metrics",
            json!([
                cells(
                    Some(2),
                    &json!([
                        ["execute", "load", "thread-cpu", "seconds", 6],
                        ["execute", "load", "other", "seconds", 4],
                        ["execute", "load", "disk-read", "bytes", 1000]
                    ])
                ),
                cells(Some(3), &json!([["execute", "load", "thread-cpu", "seconds", 20.0]])),
                cells(
                    Some(4),
                    &json!([
                        ["execute", "fit", "thread-cpu", "seconds", 12.5],
                        ["p2p", "foreground", "network", "seconds", 3]
                    ])
                ),
                cells(Some(5), &json!([["execute", "load", "thread-cpu", "seconds", 1]])),
                cells(
                    None,
                    &json!([
                        ["gather-dep", null, "network", "seconds", 7],
                        ["get-data", null, "network", "bytes", 50]
                    ])
                ),
            ]),
        )
}

const TOTALS: &str = "query($id: ID!) { cluster(id: $id) { spans(first: 100) { totalCount nodes {
    path tag daskId done stoppedAt parent { tag } children { totalCount nodes { tag } }
    own: totals(inclusive: false) { tasks threadSeconds idleSeconds }
    totals { tasks tasksSucceeded tasksErred tasksRetried computeSeconds transferSeconds bytes threadSeconds idleSeconds }
    taskGroups { totalCount nodes { tasks tasksRetried span { tag } } } } } } }";

async fn spans(member: &Member, number: i64, query: &str) -> Vec<Value> {
    let answer = member.query(query, json!({ "id": number.to_string() })).await;
    answer["cluster"]["spans"]["nodes"].as_array().unwrap().clone()
}

#[tokio::test]
async fn sums_of_a_span_hold_those_below_it_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&nested(30).build()).await;
    let nodes = spans(&ada, number, TOTALS).await;
    let found: Vec<Value> = nodes
        .iter()
        .map(|node| {
            let totals = &node["totals"];
            json!([
                node["tag"],
                node["own"]["tasks"],
                totals["tasks"],
                totals["tasksRetried"],
                totals["computeSeconds"],
                totals["transferSeconds"],
                totals["bytes"],
                totals["threadSeconds"],
                totals["idleSeconds"]
            ])
        })
        .collect();
    // Thread-seconds of `etl`: 8 seconds of 2 threads and 10 of 4, because its last task stopped with
    // `parse`.
    let expected = [
        json!(["etl", 0, 9, 2, 4.5, 0.75, 7200, 56.0, 13.5]),
        json!(["load", 4, 6, 0, 3.0, 0.5, 4800, 52.0, 22.0]),
        json!(["parse", 2, 2, 0, 1.5, 0.25, 1600, 48.0, 28.0]),
        json!(["train", 3, 3, 2, 1.5, 0.25, 2400, 28.0, 15.5]),
        // Its metrics hold one second of the 1.5 computed: the rest is unknown, and not idle.
        json!(["default", 1, 1, 0, 1.5, 0.25, 800, 16.0, 14.5]),
    ];
    assert_eq!(found, expected);
    assert_eq!(nodes[0]["own"]["threadSeconds"], Value::Null);
    assert_eq!(nodes[0]["own"]["idleSeconds"], Value::Null);
    assert_eq!(
        nodes[0]["children"],
        json!({ "totalCount": 2, "nodes": [{ "tag": "load" }, { "tag": "train" }] })
    );
    assert_eq!(nodes[2]["path"], json!(["etl", "load", "parse"]));
    assert_eq!(nodes[2]["parent"], json!({ "tag": "load" }));
    assert_eq!(nodes[0]["stoppedAt"], "2026-11-20T11:00:20+00:00");
    assert_eq!(
        nodes[3]["taskGroups"],
        json!({ "totalCount": 1, "nodes": [{ "tasks": 3, "tasksRetried": 2, "span": { "tag": "train" } }] })
    );

    // Unfinished tasks keep a span and its ancestors active until the last report.
    let running = ReportBuilder::new("Scheduler-1", 40)
        .with("/spans", json!([span(4, Some(1), &["etl", "train"], 8.0, None)]));
    ada.reported(&running.build()).await;
    let nodes = spans(&ada, number, TOTALS).await;
    let of = |index: usize| (nodes[index]["done"].clone(), nodes[index]["stoppedAt"].clone());
    assert_eq!((of(0), of(3)), ((json!(false), Value::Null), (json!(false), Value::Null)));
    assert_eq!(nodes[0]["totals"]["threadSeconds"], 16.0 + 80.0);
    assert_eq!(nodes[3]["totals"]["threadSeconds"], 4.0 + 80.0);
    assert_eq!(nodes[1]["totals"]["threadSeconds"], 52.0);
    app.stop().await;
}

#[tokio::test]
async fn what_is_not_known_is_null() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/spans", json!([span(1, Some(99), &["gone", "here"], 2.0, Some(3.0))]))
        .with("/task_groups", json!([task_group(10, "load", 1)]));
    let number = ada.reported(&report.build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { fineMetrics { total } taskGroups { nodes { span { tag } } } spans { nodes {
        parent { tag } clientStartedAt clientCode { file } code { file } fineMetrics { total }
        totals { tasks threadSeconds idleSeconds } } } } }";
    let answer = ada.query(query, json!({ "id": number.to_string() })).await;
    let expected = json!({ "fineMetrics": null, "taskGroups": { "nodes": [{ "span": null }] }, "spans": { "nodes": [{
        "parent": null, "clientStartedAt": null, "clientCode": null, "code": [], "fineMetrics": null,
        "totals": { "tasks": 0, "threadSeconds": null, "idleSeconds": null } }] } });
    assert_eq!(answer["cluster"], expected);
    app.stop().await;
}

#[tokio::test]
async fn spans_are_found_by_tags_at_any_depth() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&nested(30).build()).await;
    let query =
        "query($id: ID!, $roots: Boolean, $tags: [String!], $first: Int, $after: String) { cluster(id: $id) {
        spans(roots: $roots, tags: $tags, first: $first, after: $after) {
            totalCount nodes { tag } pageInfo { hasNextPage endCursor } } } }";
    for (arguments, expected) in [
        (json!({}), vec!["etl", "load", "parse", "train", "default"]),
        (json!({ "roots": true }), vec!["etl", "default"]),
        (json!({ "tags": ["load"] }), vec!["load", "parse"]),
        (json!({ "tags": ["load"], "roots": true }), vec!["load"]),
        (json!({ "tags": ["parse", "train", "default"] }), vec!["parse", "train", "default"]),
        (json!({ "tags": ["parse", "etl"], "roots": true }), vec!["etl"]),
        (json!({ "tags": ["LOAD", "lo"] }), vec![]),
        (json!({ "tags": ["'\"?$1"] }), vec![]),
    ] {
        let mut variables = arguments.clone();
        variables["id"] = json!(number.to_string());
        // null is not a valid value of a Boolean with a default.
        variables["roots"] = json!(arguments["roots"] == true);
        let (mut found, mut pages) = (Vec::new(), 0);
        variables["first"] = json!(2);
        loop {
            let answer = ada.query(query, variables.clone()).await;
            let list = &answer["cluster"]["spans"];
            assert_eq!(list["totalCount"], expected.len(), "{arguments}");
            found.extend(
                list["nodes"].as_array().unwrap().iter().map(|node| node["tag"].as_str().unwrap().to_owned()),
            );
            pages += 1;
            if list["pageInfo"]["hasNextPage"] == false {
                break;
            }
            variables["after"] = list["pageInfo"]["endCursor"].clone();
        }
        assert_eq!(found, expected, "{arguments}");
        assert_eq!(pages, expected.len().div_ceil(2).max(1));
    }
    let refused = ada.ask(query, json!({ "id": number.to_string(), "roots": false, "tags": [] })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
    app.stop().await;
}

#[tokio::test]
async fn a_page_of_spans_costs_a_statement_a_level() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let spans: Vec<Value> = (0..20_u128)
        .flat_map(|n| {
            let (tag, at) = (format!("job {n}"), f64::from(u8::try_from(n).unwrap()));
            [
                span(100 + n, None, &[&tag], at, Some(at)),
                span(200 + n, Some(100 + n), &[&tag, "load"], at + 1.0, Some(at + 2.0)),
                span(300 + n, Some(200 + n), &[&tag, "load", "parse"], at + 1.0, Some(at + 2.0)),
            ]
        })
        .collect();
    let report = ReportBuilder::new("Scheduler-1", 30).with("/spans", spans);
    let number = ada.reported(&report.with("/thread_history", history().to_vec()).build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { spans(roots: true, first: 20) { nodes { done stoppedAt
        totals { tasks threadSeconds idleSeconds } fineMetrics { total } children { nodes { tag } }
        taskGroups { nodes { name } } clientStartedAt code { snippet { text } } } } } }";
    let before = app.statements();
    assert_eq!(self::spans(&ada, number, query).await.len(), 20);
    // The token, the cluster, the page; the spans themselves, the three levels below them, the last of
    // which is empty; totals, threads, children, task groups, client data; fine metrics, which two
    // fields need.
    let statements = app.statements() - before;
    assert!((13..=14).contains(&statements), "{statements}");
    app.stop().await;
}

#[tokio::test]
async fn computations_name_their_spans_and_code() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let text = "def main():\n    load().compute()\n";
    let mut work = computation(1, &[10]);
    work["span_ids"] = json!([uuid(4), uuid(2), uuid(77)]);
    work["code"] = json!([[code_frame(text, 12, 1)]]);
    let report = nested(30).with("/computations", json!([work])).with("/code", json!([code(text)]));
    let number = ada.reported(&report.build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { computations { nodes { spans { tag }
        code { file line relativeLine snippet { text } } } } } }";
    let answer = ada.query(query, json!({ "id": number.to_string() })).await;
    let expected = json!({ "spans": [{ "tag": "train" }, { "tag": "load" }],
        "code": [[{ "file": "/home/ada/etl.py", "line": 12, "relativeLine": 1, "snippet": { "text": text } }]] });
    assert_eq!(answer["cluster"]["computations"]["nodes"][0], expected);
    app.stop().await;
}

const CLIENT: &str =
    "query($id: ID!) { cluster(id: $id) { spans { nodes { tag clientStartedAt clientStoppedAt
    clientCode { file line relativeLine snippet { hash text } } } } } }";

/// The data that the `coiled` client sends after its block, with a keyword of the user's own.
fn client_span(start: f64) -> Value {
    json!({ "start": start, "stop": start + 2.5, "owner": "ada", "callstack": [
        { "frame_index": 0, "code": "x = 1", "filename": "a.py", "relative_line": 0 },
        { "frame_index": 1, "code": null, "filename": "b.py", "relative_line": null }] })
}

async fn send_span(member: &Member, path: &str, body: &Value) -> (StatusCode, Value) {
    let response = member.request(Method::POST, path).json(body).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    (response.status(), response.json().await.unwrap())
}

#[tokio::test]
async fn clients_send_a_span_before_or_after_it_is_reported() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let path = |span: u128| format!("/api/v2/analytics/ada/cluster/{number}/span/{}", uuid(span));
    assert_eq!(send_span(&ada, &path(4), &client_span(1_795_172_400.0)).await, (StatusCode::OK, json!({})));
    assert_eq!(
        send_span(&ada, &path(4), &client_span(1_795_172_500.0)).await,
        (StatusCode::OK, json!({})),
        "the first one stays"
    );
    ada.reported(&nested(30).build()).await;
    assert_eq!(
        send_span(
            &ada,
            &format!("/{}", path(5)),
            &json!({ "start": 1_795_172_401, "stop": 1_795_172_402.25,
        "callstack": null })
        )
        .await,
        (StatusCode::OK, json!({}))
    );
    let nodes = spans(&ada, number, CLIENT).await;
    let frames = json!([
        { "file": "a.py", "line": null, "relativeLine": 0, "snippet": { "text": "x = 1",
            "hash": code("x = 1")["hash"] } },
        { "file": "b.py", "line": null, "relativeLine": null, "snippet": null }]);
    let expected = json!({ "tag": "train", "clientStartedAt": "2026-11-20T11:00:00+00:00",
        "clientStoppedAt": "2026-11-20T11:00:02.500+00:00", "clientCode": frames });
    assert_eq!(nodes[3], expected);
    let expected = json!({ "tag": "default", "clientStartedAt": "2026-11-20T11:00:01+00:00",
        "clientStoppedAt": "2026-11-20T11:00:02.250+00:00", "clientCode": [] });
    assert_eq!(nodes[4], expected);
    assert_eq!(nodes[0]["clientStartedAt"], Value::Null);
    app.stop().await;
}

#[tokio::test]
async fn what_a_client_cannot_send_is_answered_as_json() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.account("bob").await;
    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    let number = ada.reported(&nested(30).build()).await;
    let path = |account: &str, cluster: i64, span: &str| {
        format!("/api/v2/analytics/{account}/cluster/{cluster}/span/{span}")
    };
    let id = uuid(4);
    let (body, good) = (client_span(1.0), path("ada", number, &id));
    for (member, path, body, status, code) in [
        (&ada, path("bob", number, &id), &body, 404, "NOT_FOUND"),
        (&ada, path("ada", number + 1, &id), &body, 404, "NOT_FOUND"),
        (&ada, path("ada", number, "no-uuid"), &body, 404, "NOT_FOUND"),
        (&bob, path("bob", number, &id), &body, 404, "NOT_FOUND"),
        (&bob, good.clone(), &body, 404, "NOT_FOUND"),
        (&reader, good.clone(), &body, 403, "MISSING_SCOPE"),
        (&ada, good.clone(), &json!({ "start": "soon", "stop": 1 }), 400, "INVALID_BODY"),
        (
            &ada,
            good.clone(),
            &json!({ "start": 1, "stop": 2, "x": "x".repeat(3 << 20) }),
            413,
            "PAYLOAD_TOO_LARGE",
        ),
    ] {
        let (answered, problem) = send_span(member, &path, body).await;
        assert_eq!((answered.as_u16(), &problem["code"]), (status, &json!(code)), "{path}: {problem}");
        assert_eq!(problem["message"], problem["detail"]);
    }
    assert!(spans(&ada, number, CLIENT).await.iter().all(|node| node["clientStartedAt"].is_null()));
    app.stop().await;
}
