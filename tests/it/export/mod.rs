//! Exports: each compared with GraphQL's pages, and exports that end early.

mod document;
mod file;
mod stream;

use harness::{
    Member, ReportBuilder, TestApp, computation, error, event, log_line, sample, span, task_group, threads,
    usage, uuid, worker,
};
use reqwest::{StatusCode, header};
use serde_json::{Map, Value, json};

use self::file::{ARROW, CSV, Column, Export, arrow, begin, cell_matches, csv, exports, of_answer, rows};

/// The types with lists, besides accounts and clusters.
const TYPES: [(&str, &str); 3] =
    [("computations", "Computation"), ("error-groups", "ErrorGroup"), ("spans", "Span")];

/// The fields of list columns with objects, which are written as JSON.
const INSIDE: [(&str, &str); 9] = [
    ("causes", "cause seconds"),
    (
        "condition",
        "__typename ... on FlagsCondition { kinds } ... on FailuresCondition { count withinSeconds of }
        ... on CostCondition { amount currency days of } ... on IdleCondition { forSeconds }",
    ),
    ("costs", "amount currency basis"),
    ("dependencies", "id"),
    ("durations", "action seconds"),
    ("spans", "id"),
    ("states", "state count"),
    ("tags", "key value"),
    ("users", "id name"),
];

/// Creates an account's settings before anything is reported: alert rules and access rights.
async fn decide(ada: &Member) {
    let decide = "mutation($until: DateTime!) {
        told: createAlertRule(input: { name: \"failures\", condition: { failures: { count: 1, withinSeconds: 3600 } },
            emails: [\"ada@example.com\"] }) { userErrors { message } }
        flags: createAlertRule(input: { name: \"=flags\", condition: { flags: [VERSION_MISMATCH] },
            tags: [{ key: \"team\", value: \"red\" }], webhooks: [\"https://127.0.0.1:9/\"] }) { userErrors { message } }
        inviteMember(input: { label: \"for a guest\", role: GUEST, until: $until }) { userErrors { message } }
        createSavedView(input: { name: \"=nightly\", page: \"clusters\", parameters: \"tag=nightly\" }) {
            userErrors { message } }
        addMember(input: { name: \"bob\", role: GUEST, until: $until }) { userErrors { message } } }";
    let decided = ada.query(decide, json!({ "until": "2026-12-01T00:00:00Z" })).await;
    for (name, answer) in decided.as_object().unwrap() {
        assert_eq!(answer["userErrors"], json!([]), "{name}");
    }
    let exchange = ada.request(reqwest::Method::POST, "/api/v1/scheduler-tokens");
    let exchange =
        exchange.json(&json!({ "schedulerId": "Scheduler-1", "label": "=gpu" })).send().await.unwrap();
    assert_eq!(exchange.status(), 201);
    ada.stored_report("private", "report.html", "<p>").await;
}

/// Reports data for every list of clusters, with more than a page in some.
async fn world(ada: &Member) -> (i64, i64) {
    let mut line = log_line(700, "=1+1, \"quoted\",\r\nand more");
    (line["level"], line["source"]) = (json!("WARNING"), json!("worker"));
    (line["worker"], line["worker_id"]) = (json!("tcp://10.0.0.1:40030"), json!(uuid(30)));
    let mut dead = worker(31);
    (dead["ended_at"], dead["end"]) = (json!(1_795_172_410.25), json!("lost"));
    let mut there = worker(30);
    there["environment_id"] = json!(uuid(41));
    let environment = |number: u128, dask: &str| json!({ "id": uuid(number), "python": "3.12", "packages": { "dask": dask } });
    let mut divide = task_group(11, "divide", 2);
    divide["span_id"] = json!(uuid(50));
    let mut refused = error(21, 11, 1);
    (refused["message"], refused["traceback"]) = (json!("-1 is too small"), json!(""));
    let events =
        (1..=600).map(|n| event(n, if n % 2 == 0 { "mine" } else { "other" }, json!({ "n": [n, null] })));
    let first = ReportBuilder::new("Scheduler-1", 1)
        .with("/cluster/name", "=HYPERLINK(\"x\")")
        .with("/cluster/totals/tasks", 6)
        .with("/computations", json!([computation(1, &[10, 11]), computation(2, &[11])]))
        .with("/task_groups", json!([task_group(10, "load", 4), divide]))
        .with("/errors", json!([error(20, 11, 1), refused]))
        .with("/usage", json!([usage(1, 2), usage(2, 4)]))
        .with("/workers", json!([there, dead]))
        .with("/clients", json!([{ "id": "Client-1", "connected_at": 1_795_172_400.0 }]))
        .with("/thread_history", (0..9_000).map(|at| threads(f64::from(at), at.into())).collect::<Vec<_>>())
        .with("/environments", json!([environment(40, "2026.8.0"), environment(41, "2026.7.1")]))
        .with("/cluster/environment_id", uuid(40))
        .with("/samples", json!([sample(None, 1, json!({ "cpu_cores": 1 }))]))
        .with(
            "/spans",
            json!([
                span(50, None, &["etl"], 1.0, None),
                span(51, Some(50), &["etl", "load"], 1.5, Some(4.0))
            ]),
        )
        .with(
            "/fine_metrics",
            json!([
                { "span_id": uuid(51), "cells": [["execute", "load", "thread-cpu", "seconds", 2],
                    ["execute", "load", "disk-read", "bytes", 7.5]] },
                { "span_id": null, "cells": [["gather-dep", null, "network", "seconds", 0.25]] },
            ]),
        )
        .with("/events", events.collect::<Vec<_>>())
        .with("/logs", (1..700).map(|n| log_line(n, &format!("line {n}"))).chain([line]).collect::<Vec<_>>());
    let first = ada.reported(&first.build()).await;
    let second = ReportBuilder::new("Scheduler-2", 1)
        .with("/cluster/name", "second")
        .with("/cluster/totals/tasks", 9)
        .with(
            "/events",
            json!([event(601, "mine", "text"), event(602, "mine", -5), event(603, "mine", Value::Null)]),
        )
        .with("/errors", json!([error(22, 1, 1)]))
        .build();
    let second = ada.reported(&second).await;
    let id = "query($id: ID!) { cluster(id: $id) { id } }";
    let id = ada.query(id, json!({ "id": first.to_string() })).await["cluster"]["id"].take();
    let tags = "mutation($id: ID!) { setClusterTags(cluster: $id, tags: [{ key: \"team\", value: \"red\" }, { key: \"x\" }]) {
        userErrors { message } } setClusterNotes(cluster: $id, text: \"@all\") { userErrors { message } } }";
    ada.query(tags, json!({ "id": id })).await;
    (first, second)
}

/// The GraphQL field that an export is named after.
fn field(export: &Export) -> String {
    let mut words = export.name().split('-');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

/// All columns of an export as a selection.
fn selection(export: &Export) -> String {
    let mut tree = Map::new();
    for column in &export.columns {
        let mut at = &mut tree;
        for name in column.name.split('.') {
            at = at.entry(name).or_insert_with(|| json!({})).as_object_mut().unwrap();
        }
    }
    write(&tree, ["spans", "children"].contains(&export.name()))
}

/// A tree of names as a selection.
fn write(tree: &Map<String, Value>, of_span: bool) -> String {
    tree.iter().fold(String::new(), |text, (name, below)| {
        let below = below.as_object().unwrap();
        let inside = INSIDE.iter().find(|(list, _)| list == name).map(|(_, fields)| (*fields).to_owned());
        let inside = if below.is_empty() { inside } else { Some(write(below, false)) };
        let arguments = if of_span && name == "totals" { "(inclusive: false)" } else { "" };
        let inside = inside.map(|inside| format!(" {{ {inside} }}")).unwrap_or_default();
        format!("{text} {name}{arguments}{inside}")
    })
}

/// The nodes of the GraphQL list, read page by page.
async fn walked(ada: &Member, export: &Export, id: &str, arguments: &str) -> Vec<Value> {
    let (field, columns) = (field(export), selection(export));
    let (root, end) = match export.of() {
        None => ("account(slug: \"ada\") {".to_owned(), "}"),
        Some("clusters") => (format!("cluster(id: \"{id}\") {{"), "}"),
        Some(of) => {
            let ty = TYPES.iter().find(|(name, _)| *name == of).unwrap().1;
            (format!("node(id: \"{id}\") {{ ... on {ty} {{"), "} }")
        }
    };
    let whole = matches!(field.as_str(), "functions" | "usageHours" | "usageTable");
    if whole {
        let arguments = if arguments.is_empty() { String::new() } else { format!("({arguments})") };
        let query = format!("{{ of: {root} list: {field}{arguments} {{ {columns} }} {end} }}");
        return ada.query(&query, json!({})).await["of"]["list"].as_array().unwrap().clone();
    }
    let query = format!(
        "query($after: String) {{ of: {root} list: {field}(first: 100, after: $after, {arguments}) {{
            pageInfo {{ hasNextPage endCursor }} nodes {{ {columns} }} }} {end} }}"
    );
    let (mut nodes, mut after) = (Vec::new(), Value::Null);
    loop {
        let answer = ada.query(&query, json!({ "after": after })).await;
        let list = &answer["of"]["list"];
        nodes.extend(list["nodes"].as_array().unwrap().iter().cloned());
        if list["pageInfo"]["hasNextPage"] == false {
            return nodes;
        }
        after = list["pageInfo"]["endCursor"].clone();
    }
}

/// Compares an export in both formats with the GraphQL list, and returns its length.
async fn compare(
    ada: &Member,
    export: &Export,
    id: &str,
    arguments: &str,
    parameters: &[(&str, String)],
) -> usize {
    let path = export.path.replace("{id}", id);
    let nodes = walked(ada, export, id, arguments).await;
    let value = |node: &Value, column: &Column| {
        column.name.split('.').fold(node.clone(), |value, name| value[name].clone())
    };
    let (schema, batches) = arrow(ada, &path, parameters).await;
    for (field, column) in schema.fields().iter().zip(&export.columns) {
        assert_eq!((field.name(), field.is_nullable()), (&column.name, column.nullable), "{path}");
        assert_eq!(field.metadata()["description"], column.description);
    }
    let expected = nodes.iter().map(|node| {
        export.columns.iter().map(|column| of_answer(&value(node, column), &column.kind)).collect::<Vec<_>>()
    });
    let (expected, exported) = (expected.collect::<Vec<_>>(), rows(&batches, &export.columns));
    assert_eq!(exported.len(), expected.len(), "{path} {arguments}");
    for (exported, expected) in exported.iter().zip(&expected) {
        assert_eq!(exported, expected, "{path} {arguments}");
    }
    let (names, lines) = csv(ada, &path, parameters).await;
    assert_eq!(names, export.columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>());
    assert_eq!(lines.len(), nodes.len(), "{path} {arguments}");
    for (line, node) in lines.iter().zip(&nodes) {
        for (cell, column) in line.iter().zip(&export.columns) {
            let value = value(node, column);
            assert!(cell_matches(cell, &value, &column.kind), "{path} {}: {cell} for {value}", column.name);
        }
    }
    nodes.len()
}

#[tokio::test]
async fn every_export_is_what_graphql_returns() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    decide(&ada).await;
    let (first, second) = world(&ada).await;
    app.run_jobs().await;
    app.fold_usage().await;
    let ids =
        "query($id: ID!) { cluster(id: $id) { computations { nodes { id daskId } } errors { nodes { group { id } } }
        spans { nodes { id tag } } } }";
    let within = ada.query(ids, json!({ "id": first.to_string() })).await["cluster"].take();
    let spans = within["spans"]["nodes"].as_array().unwrap();
    let outer = spans.iter().find(|span| span["tag"] == "etl").unwrap();
    let computations = within["computations"]["nodes"].as_array().unwrap();
    let failed = computations.iter().find(|computation| computation["daskId"] == uuid(1)).unwrap();
    let id = |of: &str| match of {
        "clusters" => first.to_string(),
        "computations" => failed["id"].as_str().unwrap().to_owned(),
        "error-groups" => within["errors"]["nodes"][0]["group"]["id"].as_str().unwrap().to_owned(),
        "spans" => outer["id"].as_str().unwrap().to_owned(),
        of => panic!("no identifier for {of}"),
    };
    let mut empty = Vec::new();
    for export in exports() {
        let name = export.name();
        let (arguments, parameters) = if name == "usage-table" {
            let days = [("from", "2026-11-01".to_owned()), ("to", "2026-12-01".to_owned())];
            (r#"from: "2026-11-01", to: "2026-12-01""#, days.to_vec())
        } else {
            ("", vec![])
        };
        if name == "fine-metrics" {
            continue;
        }
        let of = export.of();
        let rows = compare(&ada, &export, &of.map(id).unwrap_or_default(), arguments, &parameters).await;
        assert!(rows > 0, "{} shows nothing", export.path);
        let of_cluster = of == Some("clusters");
        if of_cluster && compare(&ada, &export, &second.to_string(), arguments, &parameters).await == 0 {
            empty.push(export.path);
        }
    }
    assert!(empty.len() > 5, "files without rows have their columns all the same: {empty:?}");
    // An identifier of another type has no such list.
    for (of, list) in
        [("computations", "task-groups"), ("error-groups", "occurrences"), ("spans", "children")]
    {
        let other = if of == "spans" { id("computations") } else { id("spans") };
        let response = begin(&ada, &format!("/api/v1/export/{of}/{other}/{list}"), &[], CSV).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{of}");
    }
    app.stop().await;
}

#[tokio::test]
async fn parameters_are_the_fields_arguments() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (first, _) = world(&ada).await;
    app.fold_usage().await;
    let exports = exports();
    for (path, arguments, parameters, expected) in [
        ("clusters", r#"filter: { search: "second" }"#, vec![("filter", r#"{"search":"second"}"#)], 1),
        (
            "clusters",
            "orderBy: { field: TASKS, direction: ASC }",
            vec![("orderBy", r#"{"field":"TASKS","direction":"ASC"}"#)],
            2,
        ),
        (
            "events",
            r#"topics: ["mine"], at: { to: "2026-11-20T11:00:20Z" }"#,
            vec![("topics", r#"["mine"]"#), ("at", r#"{"to":"2026-11-20T11:00:20Z"}"#)],
            9,
        ),
        ("logs", r#"match: "LINE 12""#, vec![("match", "LINE 12")], 11),
        ("errors", "origin: USER", vec![("origin", "USER")], 3),
        ("spans", "roots: true", vec![("roots", "true")], 1),
        (
            "usage-table",
            r#"from: "2026-11-20", to: "2026-11-21", by: [HOUR, USER]"#,
            vec![("from", "2026-11-20"), ("to", "2026-11-21"), ("by", r#"["HOUR","USER"]"#)],
            2,
        ),
        ("clusters/{id}/workers", "alive: false", vec![("alive", "false")], 1),
        ("clusters/{id}/logs", "sources: [WORKER]", vec![("sources", r#"["WORKER"]"#)], 1),
        ("clusters/{id}/spans", r#"tags: ["load"]"#, vec![("tags", r#"["load"]"#)], 1),
    ] {
        let export = exports.iter().find(|export| export.path == format!("/api/v1/export/{path}")).unwrap();
        let parameters: Vec<_> =
            parameters.into_iter().map(|(name, value)| (name, value.to_owned())).collect();
        let rows = compare(&ada, export, &first.to_string(), arguments, &parameters).await;
        assert_eq!(rows, expected, "{path} {arguments}");
    }
    app.stop().await;
}

#[tokio::test]
async fn fine_metrics_are_exported_span_by_span() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (number, second) = world(&ada).await;
    let ids = "query($id: ID!) { cluster(id: $id) { id spans(tags: [\"load\"]) { nodes { id } } } }";
    let cluster = ada.query(ids, json!({ "id": number.to_string() })).await["cluster"].clone();
    let span = &cluster["spans"]["nodes"][0]["id"];
    let exports = exports();
    let export = exports.iter().find(|export| export.path.ends_with("/fine-metrics")).unwrap();
    let all = [
        json!([null, "gather-dep", null, "network", "seconds", 0.25, false]),
        json!([span, "execute", "load", "disk-read", "bytes", 7.5, true]),
        json!([span, "execute", "load", "thread-cpu", "seconds", 2.0, true]),
    ];
    for (cluster, unit, expected) in [
        // By its number, and by its global identifier.
        (number.to_string(), None, all.to_vec()),
        (cluster["id"].as_str().unwrap().to_owned(), Some("bytes"), vec![all[1].clone()]),
        (second.to_string(), None, vec![]),
    ] {
        let path = export.path.replace("{id}", &cluster);
        let parameters: Vec<_> = unit.map(|unit| ("unit", unit.to_owned())).into_iter().collect();
        let (_, batches) = arrow(&ada, &path, &parameters).await;
        let exported: Vec<_> = rows(&batches, &export.columns).into_iter().map(Value::from).collect();
        assert_eq!(exported, expected);
        let (names, lines) = csv(&ada, &path, &parameters).await;
        assert_eq!(
            names.join(" "),
            "span.id context function activity unit value spanAttributable",
            "one name a column"
        );
        assert_eq!(lines.len(), expected.len());
        for (line, expected) in lines.iter().zip(&expected) {
            for (index, column) in export.columns.iter().enumerate() {
                assert!(
                    cell_matches(&line[index], &expected[index], &column.kind),
                    "{line:?} for {expected}"
                );
            }
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn long_exports_are_several_batches() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (number, _) = world(&ada).await;
    let (_, batches) = arrow(&ada, &format!("/api/v1/export/clusters/{number}/thread-history"), &[]).await;
    let lengths: Vec<_> = batches.iter().map(arrow_array::RecordBatch::num_rows).collect();
    assert_eq!(lengths, [4_000, 4_000, 1_000]);
    // Nine pages of 1,000, each with one statement for the cluster and one for the list, and two for
    // authentication.
    let before = app.statements();
    arrow(&ada, &format!("/api/v1/export/clusters/{number}/thread-history"), &[]).await;
    let statements = app.statements() - before;
    assert!((18..=24).contains(&statements), "{statements} statements");
    app.stop().await;
}

#[tokio::test]
async fn what_cannot_be_decrypted_is_null() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (number, _) = world(&ada).await;
    let stranger =
        TestApp::start_beside(&app, galvo::key_ring::KeySource::Ring(galvo::encryption::Keys::generate()));
    let stranger = stranger.await;
    let there = stranger.here(&ada);
    let path = format!("/api/v1/export/clusters/{number}/logs");
    let (names, lines) = csv(&there, &path, &[]).await;
    let message = names.iter().position(|name| name == "message").unwrap();
    assert_eq!(lines.len(), 700);
    assert!(lines.iter().all(|line| line[message].is_empty()), "without the key there are no messages");
    let (_, lines) = csv(&ada, &path, &[]).await;
    assert_eq!(lines[0][message], "line 1");
    stranger.stop().await;
    app.stop().await;
}

#[tokio::test]
async fn what_cannot_be_exported_is_refused() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let of = |name: &str| format!("/api/v1/export/clusters/{number}/{name}");
    let account = "/api/v1/export/clusters".to_owned();
    for (path, parameters, accept, status, code, named) in [
        (&account, vec![("filter", "{\"state\":")], CSV, 400, "INVALID_PARAMETER", "'filter'"),
        (&account, vec![("filter", "{\"colour\":1}")], CSV, 400, "INVALID_PARAMETER", "colour"),
        (&account, vec![("filter", "{\"search\":\"\\u0000\"}")], CSV, 400, "INVALID_PARAMETER", "search"),
        (&account, vec![("colour", "red")], CSV, 400, "INVALID_PARAMETER", "'colour'"),
        (&account, vec![("first", "5")], CSV, 400, "INVALID_PARAMETER", "'first'"),
        (&account, vec![("_of", "bob")], CSV, 400, "INVALID_PARAMETER", "'_of'"),
        (&account, vec![("filter", "{}"), ("filter", "{}")], CSV, 400, "INVALID_PARAMETER", "once"),
        (&account, vec![("format", "csv"), ("format", "arrow")], CSV, 400, "INVALID_PARAMETER", "once"),
        (&account, vec![("format", "xml")], CSV, 400, "INVALID_PARAMETER", "'format'"),
        (&account, vec![], "application/json", 406, "NOT_ACCEPTABLE", ARROW),
        (&"/api/v1/export/usage-table".to_owned(), vec![], CSV, 400, "INVALID_PARAMETER", "from"),
        (&of("events"), vec![("topics", "mine")], CSV, 400, "INVALID_PARAMETER", "'topics'"),
        (&of("logs"), vec![("sources", "[\"MOON\"]")], ARROW, 400, "INVALID_PARAMETER", "sources"),
        (&of("members"), vec![], CSV, 404, "NOT_FOUND", "no such export"),
        (&"/api/v1/export/clusters/999/events".to_owned(), vec![], ARROW, 404, "NOT_FOUND", "nothing"),
        (&"/api/v1/export/clusters/%FF/fine-metrics".to_owned(), vec![], CSV, 404, "NOT_FOUND", "nothing"),
        (&"/api/v1/export/passwords".to_owned(), vec![], CSV, 404, "NOT_FOUND", "no such export"),
        (&"/api/v1/export/passwords".to_owned(), vec![], CSV, 404, "NOT_FOUND", "audit-log, clusters, "),
        (
            &account,
            vec![],
            "text/csv;q=0, application/vnd.apache.arrow.stream;q=0, */*",
            406,
            "NOT_ACCEPTABLE",
            ARROW,
        ),
        (&"/api/v1/export/spans/1/children".to_owned(), vec![], CSV, 404, "NOT_FOUND", "nothing"),
    ] {
        let parameters: Vec<_> =
            parameters.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let response = begin(&ada, path, &parameters, accept).await;
        let (answered, body) = (response.status().as_u16(), response.json::<Value>().await.unwrap());
        assert_eq!((answered, &body["code"]), (status, &json!(code)), "{path} {parameters:?}: {body}");
        assert!(body["message"].as_str().unwrap().contains(named), "{path} {parameters:?}: {body}");
    }
    let blind = ada.with_token(ada.token(&[entity::api_token::Scope::Ingest], None).await);
    let response = begin(&blind, &account, &[], CSV).await;
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    // The scope `read` does not permit all lists.
    let reader = ada.with_token(ada.token(&[entity::api_token::Scope::Read], None).await);
    for list in [
        "alert-rules",
        "alert-deliveries",
        "audit-log",
        "invitations",
        "members",
        "scheduler-tokens",
        "tokens",
    ] {
        let response = begin(&reader, &format!("/api/v1/export/{list}"), &[], CSV).await;
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "{list}");
    }
    let response = begin(&ada.with_token("nonsense".to_owned()), &account, &[], CSV).await;
    assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
    let response = begin(&ada, &account, &[("format", "arrow".to_owned())], "text/html").await;
    let name = &response.headers()[header::CONTENT_DISPOSITION];
    assert_eq!(name, "attachment; filename=\"clusters.arrows\"");
    app.stop().await;
}
