//! Lists read only the columns that the selection needs, with identical responses.

use harness::{
    Member, ReportBuilder, STARTED_AT, TestApp, activity, code_frame, computation, error, span, task_group,
    usage, uuid, worker,
};
use serde_json::{Value, json};

use crate::sdl::{Sdl, innermost, required};

/// Fields without a value in this test, because they are not in the row.
const SILENT: [(&str, &[&str]); 4] = [
    (
        "Cluster",
        &[
            "idleWarnedAt",
            "keptAliveUntil",
            "stopRequest",
            "lostAttempts",
            "tags",
            "notes",
            "clampedFields",
            "flags",
            "events",
            "logs",
            "threadHistory",
            "fineMetrics",
            "profile",
        ],
    ),
    ("Computation", &[]),
    ("TaskGroup", &[]),
    ("ErrorOccurrence", &[]),
];

/// A cluster with all data known.
fn known(scheduler: &str) -> ReportBuilder {
    let mut group = task_group(11, "load", 4);
    (group["dependencies"], group["span_id"]) = (json!([uuid(10)]), json!(uuid(50)));
    for (name, tasks) in [("tasks_erred", 1), ("tasks_blamed", 2), ("tasks_retried", 3)] {
        group[name] = json!(tasks);
    }
    let mut submitted = computation(1, &[10, 11]);
    (submitted["span_ids"], submitted["code"]) =
        (json!([uuid(50)]), json!([[code_frame("df.sum().compute()", 12, 0)]]));
    let mut failed = error(20, 11, 1);
    failed["number"] = json!(1);
    failed["source"] = json!({ "file": "a.py", "line": 1, "first_line": 1, "lines": ["x"] });
    (failed["worker_id"], failed["span_id"], failed["retries"]) =
        (json!(uuid(30)), json!(uuid(50)), json!(1));
    let totals = json!({ "tasks": 40, "tasks_succeeded": 37, "tasks_erred": 3, "errors": 2, "compute_seconds": 1.5,
        "transfer_seconds": 0.5, "thread_seconds": 40.0, "bytes": 400, "workers": 5, "peak_workers": 4,
        "peak_threads": 16 });
    let environment =
        |id: u128, dask: &str| json!({ "id": uuid(id), "python": "3.13.0", "packages": { "dask": dask } });
    let client = json!({ "id": "Client-1", "environment_id": uuid(61), "connected_at": STARTED_AT });
    ReportBuilder::new(scheduler, 1)
        .with("/base", 0)
        .with("/cluster/name", "etl")
        .with("/cluster/address", "tcp://10.0.0.1:8786")
        .with("/cluster/dashboard_url", "http://10.0.0.1:8787/status")
        .with("/cluster/idle_since", STARTED_AT + 0.5)
        .with("/cluster/idle_timeout_seconds", 1_200.0)
        .with("/cluster/graph_updates", 1)
        .with("/cluster/workers", 3)
        .with("/cluster/threads", 12)
        .with("/cluster/memory_limit_bytes", 4_000)
        .with("/cluster/memory_used_bytes", 1_000)
        .with("/cluster/environment_id", uuid(60))
        .with("/cluster/totals", totals)
        .with("/environments", json!([environment(60, "2026.8.0"), environment(61, "2026.1.0")]))
        .with("/clients", json!([client]))
        .with("/workers", json!([worker(30)]))
        .with("/spans", json!([span(50, None, &["etl"], 1.0, Some(2.0))]))
        .with("/task_groups", json!([task_group(10, "read", 2), group]))
        .with("/computations", json!([submitted]))
        .with("/errors", json!([failed]))
        .with("/usage", json!([usage(0, 4)]))
        .with("/function_activity", json!([activity(0, &[("load", [1.5, 0.0, 0.0, 0.0])])]))
        .with("/receipt", json!({ "basic": { "sent": 1, "bytes": 100, "withheld": 2 } }))
        .with("/dropped", json!({ "task_groups": 1, "logs": 3 }))
}

/// A selection of all fields without arguments, this many levels deep.
fn selection(sdl: &Sdl, of: &str, depth: usize) -> String {
    let mut selection = vec!["__typename".to_owned()];
    for field in sdl.fields(of).filter(|field| required(field).next().is_none()) {
        let (name, ty) = (field.name.node.as_str(), innermost(&field.ty.node));
        if !sdl.is_composite(ty) {
            selection.push(name.to_owned());
        } else if depth > 0 && !ty.ends_with("Connection") && !["Account", "Cluster"].contains(&ty) {
            selection.push(format!("{name} {{ {} }}", self::selection(sdl, ty, depth - 1)));
        }
    }
    selection.join(" ")
}

/// True if a value equals the default of an unread column.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(says_nothing),
        Value::Object(fields) => {
            fields.iter().all(|(name, value)| name == "__typename" || says_nothing(value))
        }
    }
}

/// A list's nodes for one form of the query.
async fn nodes(member: &Member, query: &str, path: &str, id: &str) -> Vec<Value> {
    let mut answer = member.query(query, json!({ "id": id })).await;
    let list = answer.pointer_mut(path).unwrap_or_else(|| panic!("no {path}: {query}"));
    match list["edges"].as_array_mut() {
        Some(edges) => edges.iter_mut().map(|edge| edge["node"].take()).collect(),
        None => list["nodes"].as_array().unwrap().clone(),
    }
}

#[tokio::test]
async fn each_field_is_the_same_in_a_list() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let closed = known("closed").with("/final", true).with("/cluster/closed_at", STARTED_AT + 2.0);
    ada.reported(&closed.with("/cluster/close_reason", "done").build()).await;
    let id = ada.reported(&known("open").build()).await.to_string();
    let computations =
        |list: &str| format!("cluster(id: $id) {{ computations(first: 1) {{ nodes {{ {list} }} }} }}");
    let lists = [
        (
            "Cluster",
            "viewer { account { clusters(first: 2) { LIST } } }".to_owned(),
            "/viewer/account/clusters",
        ),
        (
            "Computation",
            "cluster(id: $id) { computations(first: 2) { LIST } }".to_owned(),
            "/cluster/computations",
        ),
        ("TaskGroup", "cluster(id: $id) { taskGroups(first: 2) { LIST } }".to_owned(), "/cluster/taskGroups"),
        (
            "TaskGroup",
            computations("taskGroups(first: 2) { LIST }"),
            "/cluster/computations/nodes/0/taskGroups",
        ),
        (
            "TaskGroup",
            "cluster(id: $id) { spans(first: 1) { nodes { taskGroups(first: 2) { LIST } } } }".to_owned(),
            "/cluster/spans/nodes/0/taskGroups",
        ),
        ("ErrorOccurrence", "cluster(id: $id) { errors(first: 2) { LIST } }".to_owned(), "/cluster/errors"),
        (
            "ErrorOccurrence",
            computations("errors(first: 2) { LIST }"),
            "/cluster/computations/nodes/0/errors",
        ),
        (
            "ErrorOccurrence",
            "viewer { account { errorGroups(first: 1) { nodes { occurrences(first: 2) { LIST } } } } }"
                .to_owned(),
            "/viewer/account/errorGroups/nodes/0/occurrences",
        ),
    ];
    let sdl = Sdl::read();
    for (noun, list, path) in lists {
        let mut silent = Vec::new();
        for field in sdl.fields(noun).filter(|field| required(field).next().is_none()) {
            let (name, ty) = (field.name.node.as_str(), innermost(&field.ty.node));
            let inside = match ty {
                ty if !sdl.is_composite(ty) => String::new(),
                ty if ty.ends_with("Connection") => "{ totalCount }".to_owned(),
                "Account" => "{ slug }".to_owned(),
                "Cluster" => "{ schedulerId address }".to_owned(),
                ty => format!("{{ {} }}", selection(&sdl, ty, 1)),
            };
            // Each field by itself, because another selected field might load it, too.
            let field = format!("id {name} {inside}");
            let mut alone = Vec::new();
            for (list, fragment) in [
                (list.replace("LIST", "nodes { FIELD }"), ""),
                (list.replace("LIST", "edges { cursor node { FIELD } }"), ""),
                (list.replace("LIST", "nodes { ...F }"), "fragment F on NOUN { FIELD }"),
                (
                    list.replace("LIST", "...F"),
                    "fragment F on NOUNConnection { pageInfo { endCursor } nodes { FIELD } }",
                ),
            ] {
                let query = format!("query($id: ID!) {{ cluster(id: $id) {{ id }} {list} }} {fragment}");
                // Two selections of one cluster would be merged, and those are read whole.
                let query = query.replace("cluster(id: $id) { id } cluster", "cluster");
                let query = query.replace("NOUN", noun).replace("FIELD", &field);
                let nodes = nodes(&ada, &query, path, &id).await;
                assert!(!nodes.is_empty(), "{query}");
                if alone.is_empty() {
                    for node in &nodes {
                        let one =
                            format!("query($id: ID!) {{ node(id: $id) {{ ... on {noun} {{ {field} }} }} }}");
                        alone.push(ada.query(&one, json!({ "id": node["id"] })).await["node"].take());
                    }
                }
                assert_eq!(nodes, alone, "{query}");
            }
            if alone.iter().all(|node| says_nothing(&node[name])) {
                silent.push(name);
            }
        }
        let expected = SILENT.iter().find(|(of, _)| *of == noun).map(|(_, fields)| *fields);
        assert_eq!(Some(&silent[..]), expected, "{noun} by {path}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_list_that_is_selected_twice_is_read_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = ada.reported(&known("open").build()).await.to_string();
    let ask = async |query: &str| {
        let before = app.statements();
        let mut answer = ada.query(query, json!({ "id": id })).await;
        (app.statements() - before, answer["cluster"]["errors"]["nodes"].take())
    };
    let (once, _) = ask("query($id: ID!) { cluster(id: $id) { errors { nodes { id key } } } }").await;
    let twice = "query($id: ID!) { cluster(id: $id) { ...A ...B } }
        fragment A on Cluster { errors { nodes { key } } }
        fragment B on Cluster { errors { nodes { message } } }";
    let (statements, nodes) = ask(twice).await;
    assert_eq!(nodes, json!([{ "key": "divide-1", "message": "ZeroDivisionError('division by zero')" }]));
    // Another page might have other errors.
    assert_eq!(statements, once);
    app.stop().await;
}
