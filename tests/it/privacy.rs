//! Refused data classes are not stored, whoever sends them, and source code is never stored unencrypted.

use entity::api_token::Scope;
use harness::{
    Database, Member, ReportBuilder, TestApp, activity, computation, error, event, log_line, task_group,
    uuid, worker,
};
use reqwest::{Method, StatusCode};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

const SET: &str = "mutation($input: SetDataPolicyInput!) { setDataPolicy(input: $input) {
    dataPolicy { class required accepted retentionDays } userErrors { field code message } } }";

/// A line of source, and the hash of the text that contains it.
const SOURCE: &str = "launch_codes = read_secret(alpha)";
const HASH: &str = "a7df3caa3a0a9b86f2a2365a7539981298b66e040cb1bb2e6f2ab39f6e8ffda6";

const CLASSES: [&str; 8] =
    ["BASIC", "TASKS", "DASK_ERRORS", "USER_ERRORS", "CODE", "PROFILES", "EVENTS", "LOGS"];

/// Tables that are empty if a class is refused.
const TABLES: [(&str, &[&str]); 6] = [
    (
        "TASKS",
        &[
            "task_groups",
            "computations",
            "computation_shares",
            "computation_task_groups",
            "spans",
            "client_spans",
            "fine_metrics",
            "function_activity_chunks",
            "function_usage_hours",
            "function_usage_days",
        ],
    ),
    ("USER_ERRORS", &["error_occurrences", "error_groups"]),
    ("CODE", &["code_snippets"]),
    ("PROFILES", &["profiles"]),
    ("EVENTS", &["events"]),
    ("LOGS", &["log_lines"]),
];

/// A report with data of every kind, with a line of source wherever possible.
fn report(sequence: i64) -> Value {
    let traceback = format!("Traceback:\n  File \"a.py\", line 2, in launch\n    {SOURCE}\nValueError: no");
    let frame = json!({ "hash": HASH, "file": "a.py", "line": 2, "relative_line": 1 });
    let mut computation = computation(1, &[10]);
    computation["code"] = json!([[frame]]);
    let mut error = error(20, 10, 1);
    error["traceback"] = json!(traceback);
    error["message"] = json!(format!("RemoteError({traceback:?})"));
    error["source"] =
        json!({ "file": "a.py", "line": 2, "first_line": 1, "lines": ["def launch():", SOURCE] });
    let mut ended = worker(50);
    ended["ended_at"] = json!(1_795_172_410);
    ended["end"] = json!("lost");
    ended["processing_keys"] = json!(["launch-1"]);
    ended["processing_functions"] = json!({ "launch": 3 });
    ended["processing"] = json!(3);
    let hour = 1_795_172_400 / 3_600;
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/computations", json!([computation]))
        .with("/task_groups", json!([task_group(10, "launch", 4)]))
        .with("/errors", json!([error]))
        .with("/spans", json!([{ "id": uuid(30), "path": ["default"], "enqueued_at": 1_795_172_401, "done": false, "code": [[frame]] }]))
        .with("/fine_metrics", json!([{ "span_id": uuid(30), "cells": [["execute", "launch", "thread-cpu", "seconds", 1.5]] }]))
        .with("/workers", json!([ended]))
        .with("/code", json!([{ "hash": HASH, "text": format!("def launch():\n    {SOURCE}\n") }]))
        .with("/profiles", json!([{ "id": uuid(40), "started_at": 1_795_172_401, "stopped_at": 1_795_172_411,
            "workers": 1, "samples": 3, "frames": [{ "file": "a.py", "function": "launch", "line": 2, "text": SOURCE }],
            "nodes": [[-1, 0, 3, 3]], "functions": [{ "prefix": "launch", "roots": [0] }] }]))
        .with("/events", json!([event(5, "failed", json!({ "text": traceback, "repr": format!("{traceback:?}"), "lines":
            traceback.lines().collect::<Vec<_>>(), "rows": [["a.py", 2, "launch", SOURCE]] })),
            event(8, "failed", json!({ "rows": [["a.py", 2, "launch", SOURCE]] }))]))
        .with("/logs", json!([log_line(6, &traceback), log_line(7, &format!("failed: {traceback:?}")),
            log_line(9, &format!("SyntaxError('invalid syntax', ('<string>', 1, 5, '{SOURCE}\\n', 1, 6))"))]))
        .with("/function_activity", json!([activity(0, &[("launch", [0.0, 1.0, 0.0, 0.0])])]))
        .with("/usage", json!([{ "hour": hour, "thread_seconds": 1, "worker_seconds": 1, "memory_gib_seconds": 0,
            "compute_seconds": 1, "transfer_seconds": 0, "tasks": 1, "tasks_erred": 0, "retries": 0, "errors": 0,
            "bytes": 0, "spilled_bytes": 0, "workers": 1, "functions": [{ "prefix": "launch", "compute_seconds": 1,
            "transfer_seconds": 0, "tasks": 1, "tasks_erred": 0, "bytes": 0 }] }]))
        .build()
}

/// Sends a client's span data, with code.
async fn send_span(member: &Member, cluster: i64, span: u128) {
    let path = format!("/api/v2/analytics/{}/cluster/{cluster}/span/{}", member.slug(), uuid(span));
    let body = json!({ "start": 1, "stop": 2, "callstack": [{ "code": format!("def launch():\n    {SOURCE}\n"), "filename": "told.py" }] });
    let response = member.request(Method::POST, &path).json(&body).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.json::<Value>().await.unwrap(), json!({}));
}

async fn set(member: &Member, class: &str, accepted: bool) {
    let input = json!({ "input": { "class": class, "accepted": accepted } });
    let answer = member.query(SET, input).await;
    assert_eq!(answer["setDataPolicy"]["userErrors"], json!([]), "{class}");
}

async fn strings(database: &Database, sql: &str) -> Vec<String> {
    let connection = database.connection().await;
    let statement = Statement::from_string(connection.get_database_backend(), sql);
    let rows = connection.query_all_raw(statement).await.unwrap();
    rows.into_iter().map(|row| row.try_get_by_index::<String>(0).unwrap()).collect()
}

async fn rows(database: &Database, table: &str) -> usize {
    strings(database, &format!("SELECT 'x' FROM {table}")).await.len()
}

/// True if the database contains a text unencrypted.
async fn holds(database: &Database, text: &str) -> bool {
    if let Some(path) = database.url().strip_prefix("sqlite://") {
        let path = path.split('?').next().unwrap();
        let files = ["", "-wal"].map(|suffix| std::fs::read(format!("{path}{suffix}")).unwrap_or_default());
        assert!(!files[0].is_empty(), "{path} is not the database");
        return files.iter().any(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()));
    }
    let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
    let hex = text.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    for table in strings(database, tables).await {
        let found = format!(
            "SELECT 'x' FROM {table} AS whole WHERE whole::text LIKE '%{text}%' OR whole::text LIKE '%{hex}%'"
        );
        if !strings(database, &found).await.is_empty() {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn an_account_decides_what_it_accepts() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let query = "{ viewer { account { dataPolicies { class required accepted retentionDays } } } }";
    let policies = async |member: &Member| -> Vec<Value> {
        let answer = member.query(query, json!({})).await;
        answer["viewer"]["account"]["dataPolicies"].as_array().unwrap().clone()
    };
    let usual = CLASSES.map(|class| {
        let required = ["BASIC", "DASK_ERRORS"].contains(&class);
        json!({ "class": class, "required": required, "accepted": true, "retentionDays": null })
    });
    assert_eq!(policies(&ada).await, usual);

    let logs = json!({ "class": "LOGS", "required": false, "accepted": false, "retentionDays": 7 });
    let input = json!({ "class": "LOGS", "accepted": false, "retentionDays": 7 });
    let answer = ada.query(SET, json!({ "input": input })).await;
    assert_eq!(answer["setDataPolicy"], json!({ "dataPolicy": logs, "userErrors": [] }));
    let mut expected = usual.to_vec();
    expected[7] = logs;
    assert_eq!(policies(&ada).await, expected);
    assert_eq!(policies(&bob).await, usual);
    let (_, answer) = ada.report(&report(1)).await;
    let classes = ["basic", "tasks", "dask_errors", "user_errors", "code", "profiles", "events"];
    assert_eq!(answer["accepts"], json!(classes));
    // The whole policy of a class is set at once.
    set(&ada, "LOGS", true).await;
    assert_eq!(policies(&ada).await, usual);
    let (_, answer) = ada.report(&report(2)).await;
    assert_eq!(answer["accepts"].as_array().unwrap().len(), 8);

    let required = json!({ "field": "accepted", "code": "CLASS_REQUIRED",
        "message": "this class is required and cannot be refused" });
    let retention = json!({ "field": "retentionDays", "code": "RETENTION_OUT_OF_RANGE",
        "message": "must be between 1 and 36500 days" });
    for (input, errors) in [
        (json!({ "class": "BASIC", "accepted": false }), json!([required])),
        (json!({ "class": "LOGS", "accepted": true, "retentionDays": 0 }), json!([retention])),
        (
            json!({ "class": "DASK_ERRORS", "accepted": false, "retentionDays": 36_501 }),
            json!([required, retention]),
        ),
    ] {
        let answer = ada.query(SET, json!({ "input": input })).await;
        assert_eq!(answer["setDataPolicy"], json!({ "dataPolicy": null, "userErrors": errors }), "{input}");
    }
    assert_eq!(policies(&ada).await, usual);
    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    let refused = reader.ask(SET, json!({ "input": { "class": "LOGS", "accepted": false } })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN", "{refused}");
    app.stop().await;
}

#[tokio::test]
async fn what_is_refused_is_not_stored() {
    let everything = TestApp::start().await;
    let ada = everything.account("ada").await;
    send_span(&ada, ada.reported(&report(1)).await, 30).await;
    let all: Vec<&str> = TABLES.iter().flat_map(|(_, tables)| tables.iter().copied()).collect();
    for (class, empty) in TABLES {
        let app = TestApp::start().await;
        let ada = app.account("ada").await;
        set(&ada, class, false).await;
        let cluster = ada.reported(&report(1)).await;
        send_span(&ada, cluster, 30).await;
        let files = strings(&app.database, "SELECT CAST(code AS TEXT) FROM client_spans").await;
        let expected: &[bool] = match class {
            "TASKS" => &[],
            "CODE" => &[false],
            _ => &[true],
        };
        assert_eq!(
            files.iter().map(|code| code.contains("told.py")).collect::<Vec<_>>(),
            expected,
            "{class}"
        );
        let keys = strings(&app.database, "SELECT CAST(processing_keys AS TEXT) FROM workers").await;
        assert_eq!(keys[0].contains("launch-1"), class != "TASKS", "{keys:?} without {class}");
        let functions = "SELECT COALESCE(CAST(processing_functions AS TEXT), '') FROM workers";
        let functions = strings(&app.database, functions).await;
        assert_eq!(functions[0].contains("launch"), class != "TASKS", "{functions:?} without {class}");
        let query = "query($id: ID!) { cluster(id: $id) { profile { functions { prefix } } } }";
        let profile =
            ada.query(query, json!({ "id": cluster.to_string() })).await["cluster"]["profile"].take();
        let expected = match class {
            "TASKS" => json!({ "functions": [] }),
            "PROFILES" => Value::Null,
            _ => json!({ "functions": [{ "prefix": "launch" }] }),
        };
        assert_eq!(profile, expected, "without {class}");
        let processing = "SELECT 'x' FROM workers WHERE processing = 3";
        assert_eq!(strings(&app.database, processing).await.len(), 1, "the count stays");
        for table in &all {
            let expected = if empty.contains(table) { 0 } else { rows(&everything.database, table).await };
            assert_eq!(rows(&app.database, table).await, expected, "{table} without {class}");
        }
        // Failures of Dask itself are always reported.
        let mut of_dask = report(2);
        of_dask["errors"][0]["origin"] = json!("dask");
        of_dask["errors"][0]["id"] = json!(uuid(21));
        let before = rows(&app.database, "error_occurrences").await;
        ada.reported(&of_dask).await;
        assert_eq!(rows(&app.database, "error_occurrences").await, before + 1, "{class}");
        app.stop().await;
    }
    for table in ["task_groups", "computations", "error_occurrences", "error_groups", "events", "log_lines"] {
        assert!(rows(&everything.database, table).await > 0, "{table}");
    }
    everything.stop().await;
}

#[tokio::test]
async fn source_code_lies_nowhere_in_the_open() {
    let query = "{ viewer { account { clusters { nodes { errors { nodes { message traceback
        source { file line firstLine lines } group { title } } }
        logs { nodes { message } } events { nodes { data } } } } } } }";
    for accepted in [true, false] {
        let app = TestApp::start().await;
        let ada = app.account("ada").await;
        set(&ada, "CODE", accepted).await;
        ada.reported(&report(1)).await;
        assert!(holds(&app.database, "Scheduler-1").await, "the search finds nothing at all");
        assert!(!holds(&app.database, SOURCE).await, "with code accepted: {accepted}");
        let mut answer = ada.query(query, json!({})).await;
        let cluster = answer["viewer"]["account"]["clusters"]["nodes"][0].take();
        let count = |value: &Value| value.to_string().matches(SOURCE).count();
        let found = ["errors", "logs", "events"].map(|noun| count(&cluster[noun]));
        // In message, traceback and excerpt and in three lines; events are not encrypted.
        assert_eq!(found, if accepted { [3, 3, 0] } else { [0, 0, 0] }, "{cluster}");
        let source = json!({ "file": "a.py", "line": 2, "firstLine": 1, "lines": ["def launch():", SOURCE] });
        let excerpt = &cluster["errors"]["nodes"][0]["source"];
        assert_eq!(*excerpt, if accepted { source } else { Value::Null });
        let traceback = cluster["errors"]["nodes"][0]["traceback"].as_str().unwrap();
        let expected = "Traceback:\n  File \"a.py\", line 2, in launch\nValueError: no";
        assert_eq!(traceback == expected, !accepted, "{traceback}");
        assert_eq!(cluster["events"]["nodes"][0]["data"]["text"], expected);
        app.stop().await;
    }
}

#[tokio::test]
async fn error_messages_are_stored_nowhere_in_the_open() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut failure = error(20, 10, 1);
    failure["message"] = json!("ZeroDivisionError('patient Jane Doe has nobody')");
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/errors", json!([failure])).build()).await;
    assert!(!holds(&app.database, "Jane Doe").await);
    let query = "{ viewer { account { errorGroups { nodes { title } } } } }";
    let groups = &ada.query(query, json!({})).await["viewer"]["account"]["errorGroups"]["nodes"];
    assert_eq!(groups, &json!([{ "title": "patient Jane Doe has nobody" }]));
    app.stop().await;
}

#[tokio::test]
async fn a_receipt_lists_what_became_of_each_class() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let send = async |sequence: i64, sent: i64| {
        let receipt = json!({
            "basic": { "sent": sequence, "bytes": 100 * sequence, "withheld": 0 },
            "logs": { "sent": sent, "bytes": 10 * sent, "withheld": 1 },
        });
        ada.reported(&ReportBuilder::new("Scheduler-1", sequence).with("/receipt", receipt).build()).await;
        let query = "{ viewer { account { clusters { nodes { privacy { classes {
            class sent bytes withheld dropped accepted } } } } } } }";
        let mut answer = ada.query(query, json!({})).await;
        let classes = answer["viewer"]["account"]["clusters"]["nodes"][0]["privacy"]["classes"].take();
        assert_eq!(classes.as_array().unwrap().len(), 8);
        assert_eq!(
            classes[1],
            json!({ "class": "TASKS", "sent": null, "bytes": null, "withheld": null,
            "dropped": null, "accepted": true })
        );
        (classes[0].clone(), classes[7].clone())
    };
    let logs = |sent: i64, dropped: i64, accepted: bool| {
        json!({ "class": "LOGS", "sent": sent, "bytes": 10 * sent, "withheld": 1, "dropped": dropped,
            "accepted": accepted })
    };
    let basic =
        json!({ "class": "BASIC", "sent": 1, "bytes": 100, "withheld": 0, "dropped": 0, "accepted": true });
    assert_eq!(send(1, 5).await, (basic, logs(5, 0, true)));
    set(&ada, "LOGS", false).await;
    assert_eq!(send(2, 8).await.1, logs(8, 3, false));
    assert_eq!(send(2, 8).await.1, logs(8, 3, false), "a repeat");
    assert_eq!(send(4, 10).await.1, logs(10, 5, false));
    assert_eq!(send(3, 9).await.1, logs(10, 5, false), "one that came late");
    assert_eq!(send(5, 2).await.1, logs(2, 7, false), "a reporter that started again");
    set(&ada, "LOGS", true).await;
    assert_eq!(send(6, 20).await.1, logs(20, 7, true));
    app.stop().await;
}

#[tokio::test]
async fn a_class_can_be_requested_alone() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let store = app.store_of(&ada).await;
    let tasks = entity::data_policy::DataClass::Tasks;
    assert!(store.accepted().await.unwrap().accepts(tasks));
    set(&ada, "TASKS", false).await;
    assert!(!store.accepted().await.unwrap().accepts(tasks));
    app.stop().await;
}
