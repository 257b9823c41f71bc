//! The bounded work of one query, and responses if a part cannot be read.

use entity::{log_line as line, profile as window};
use harness::{Member, ReportBuilder, TestApp, log_line, profile, span, task_group, uuid};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, sea_query::Expr};
use serde_json::{Value, json};

/// Queries `field` of a cluster several times in one query.
async fn many(member: &Member, number: i64, field: &str, times: usize) -> Value {
    let fields = (0..times).map(|n| format!("f{n}: {field}")).collect::<Vec<_>>().join(" ");
    let query = format!("query($id: ID!) {{ cluster(id: $id) {{ number {fields} }} }}");
    member.ask(&query, json!({ "id": number.to_string() })).await
}

fn assert_refused(answer: &Value, reason: &str) {
    let error = &answer["errors"][0];
    assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT", "{error}");
    assert!(error["message"].as_str().unwrap().contains(reason), "{error}");
}

fn windows(count: u8) -> Vec<Value> {
    let frames = json!([{ "file": "a.py", "function": "main", "line": 1, "text": null }]);
    (0..count).map(|n| profile(n.into(), f64::from(n) * 10.0, 3, &frames, &json!([[-1, 0, 3, 3]]))).collect()
}

#[tokio::test]
async fn one_query_merges_so_many_windows_and_searches_so_many_logs() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/profiles", windows(20))
        .with("/logs", json!([log_line(1, "memory is fine")]));
    let number = ada.reported(&report.build()).await;
    let answer = many(&ada, number, "profile { samples }", 50).await;
    assert_eq!(answer["errors"], Value::Null);
    assert_eq!(answer["data"]["cluster"]["f49"]["samples"], 60);
    let refused = many(&ada, number, "profile { samples }", 51).await;
    assert_refused(&refused, "1000 windows");
    assert_eq!(refused["data"]["cluster"]["number"], number, "the rest is there");

    let search = r#"logs(match: "FINE") { nodes { message } }"#;
    let answer = many(&ada, number, search, 50).await;
    assert_eq!(answer["data"]["cluster"]["f49"]["nodes"][0]["message"], "memory is fine");
    assert_refused(&many(&ada, number, search, 51).await, "'match'");
    app.stop().await;
}

#[tokio::test]
async fn one_query_sums_over_so_many_spans() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let spans: Vec<Value> =
        (1..=2_000_u128).map(|n| span(n, (n > 1).then_some(1), &["etl"], 1.0, Some(2.0))).collect();
    let cells =
        |n: u128| json!({ "span_id": uuid(n), "cells": [["execute", "load", "thread-cpu", "seconds", 0.5]] });
    let cells: Vec<Value> = (1..=2_000_u128).map(cells).collect();
    let report = ReportBuilder::new("Scheduler-1", 1).with("/spans", spans).with("/fine_metrics", cells);
    let number = ada.reported(&report.build()).await;
    let metrics = r#"fineMetrics(unit: "seconds") { total }"#;
    let answer = many(&ada, number, metrics, 100).await;
    assert_eq!(answer["data"]["cluster"]["f99"]["total"], 1_000.0);
    assert_refused(&many(&ada, number, metrics, 101).await, "fine metrics");

    // A document may have 200 aliases, so a fragment has 50, and is used ten times.
    let often = async |more: &str| {
        let fields = (0..50).map(|n| format!("d{n}: done")).collect::<Vec<_>>().join(" ");
        let lists = (0..10).map(|n| format!("f{n}: spans(roots: true) {{ nodes {{ ...D }} }}"));
        let query = format!(
            "query($id: ID!) {{ cluster(id: $id) {{ {} {more} }} }} fragment D on Span {{ {fields} }}",
            lists.collect::<Vec<_>>().join(" ")
        );
        ada.ask(&query, json!({ "id": number.to_string() })).await
    };
    assert_eq!(often("").await["data"]["cluster"]["f9"]["nodes"][0]["d49"], true);
    assert_refused(&often("spans(roots: true) { nodes { done } }").await, "spans of the query");
    app.stop().await;
}

#[tokio::test]
async fn trees_of_spans_end_where_paths_do() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let chain: Vec<Value> =
        (1..=200_u128).map(|n| span(n, (n > 1).then(|| n - 1), &["x"], 1.0, Some(2.0))).collect();
    let groups: Vec<Value> = (1..=200_u128)
        .map(|n| {
            let mut group = task_group(n, "load", 1);
            group["span_id"] = json!(uuid(n));
            group
        })
        .collect();
    let report = ReportBuilder::new("Scheduler-1", 1).with("/spans", chain).with("/task_groups", groups);
    let number = ada.reported(&report.build()).await;
    let before = app.statements();
    let query = "spans(first: 100) { nodes { daskId totals { tasks } } }";
    let answer = many(&ada, number, query, 1).await;
    let statements = app.statements() - before;
    let nodes = answer["data"]["cluster"]["f0"]["nodes"].as_array().unwrap();
    // Each result is independent of the others in the query.
    assert!(nodes.iter().all(|node| node["totals"]["tasks"] == 64), "{answer}");
    assert!(statements < 80, "{statements}");
    app.stop().await;
}

#[tokio::test]
async fn windows_that_cannot_be_read_are_left_out() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number =
        ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/profiles", windows(3)).build()).await;
    let connection = app.database.connection().await;
    let first =
        window::Entity::find().order_by_asc(window::Column::StartedAt).one(&connection).await.unwrap();
    let all_lost = window::Entity::update_many().col_expr(window::Column::KeyId, Expr::value(12_345));
    let one_lost = all_lost.clone().filter(window::Column::StartedAt.eq(first.unwrap().started_at));
    one_lost.exec(&connection).await.unwrap();
    let field = "profile { from windows complete samples nodes { total } }";
    let answer = many(&ada, number, field, 1).await;
    let expected = json!({ "from": "2026-11-20T11:00:10+00:00", "windows": 2, "complete": false, "samples": 6,
        "nodes": [{ "total": 6 }] });
    assert_eq!((&answer["data"]["cluster"]["f0"], &answer["errors"]), (&expected, &Value::Null));

    all_lost.exec(&connection).await.unwrap();
    let answer = many(&ada, number, field, 1).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "KEY_MISSING");
    assert_eq!(answer["data"]["cluster"], json!({ "number": number, "f0": null }));
    app.stop().await;
}

#[tokio::test]
async fn lines_that_cannot_be_read_are_not_found() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let lines = json!([log_line(1, "memory is high"), log_line(2, "memory is fine")]);
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/logs", lines).build()).await;
    let connection = app.database.connection().await;
    let first = line::Entity::find().order_by_asc(line::Column::LoggedAt).one(&connection).await.unwrap();
    let lose = line::Entity::update_many().col_expr(line::Column::KeyId, Expr::value(12_345));
    let lose = lose.filter(line::Column::LoggedAt.eq(first.unwrap().logged_at));
    lose.exec(&connection).await.unwrap();
    let answer = many(&ada, number, r#"logs(match: "memory") { nodes { message } }"#, 1).await;
    assert_eq!(answer["errors"], Value::Null);
    assert_eq!(answer["data"]["cluster"]["f0"]["nodes"], json!([{ "message": "memory is fine" }]));
    app.stop().await;
}
