//! Workers, clients and the size of a cluster: participants, and how they ended.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp, error, event, log_line, uuid, worker};
use serde_json::{Value, json};

const WORKERS: &str = "query($id: ID!, $alive: Boolean, $first: Int, $after: String) { cluster(id: $id) {
    workers(first: $first, after: $after, alive: $alive) { totalCount pageInfo { hasNextPage endCursor } nodes {
        daskId name address host threads memoryLimit startedAt endedAt environment { python } cluster { schedulerId }
        end { at kind processingKeys processing processingFunctions { prefix tasks } lostResults lastMemory peakMemory lastMemoryShare lastSeenAt } } } } }";

async fn workers(member: &Member, variables: Value) -> Value {
    member.query(WORKERS, variables).await["cluster"]["workers"].take()
}

/// A worker with changed fields.
fn with(mut worker: Value, changes: &Value) -> Value {
    worker.as_object_mut().unwrap().append(&mut changes.as_object().unwrap().clone());
    worker
}

#[tokio::test]
async fn workers_are_listed_with_how_they_ended() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let killed = with(
        worker(2),
        &json!({ "started_at": STARTED_AT + 2.0, "ended_at": STARTED_AT + 60.5, "end": "memory",
            "processing_keys": ["sum-1", "sum-2"], "processing": 150, "processing_functions": { "load": 40, "sum": 110 }, "lost_results": 7,
            "last_memory_bytes": 3_900_000_000_i64, "peak_memory_bytes": 3_950_000_000_i64,
            "last_seen_at": STARTED_AT + 60.0 }),
    );
    let retired = with(
        worker(1),
        &json!({ "started_at": STARTED_AT + 3.0, "ended_at": STARTED_AT + 70.0, "end": "retired",
            "memory_limit_bytes": null, "last_memory_bytes": 5, "host": null }),
    );
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/workers", json!([killed, retired, worker(3)]))
        .with("/workers/2/environment_id", uuid(77))
        .build();
    let id = ada.reported(&report).await.to_string();
    let all = workers(&ada, json!({ "id": id })).await;
    let cluster = json!({ "schedulerId": "Scheduler-1" });
    assert_eq!(
        all["nodes"],
        json!([
            { "daskId": uuid(3), "name": "worker-3", "address": "tcp://10.0.0.1:40003", "host": "10.0.0.1",
              "threads": 4, "memoryLimit": 4_000_000_000_i64, "startedAt": "2026-11-20T11:00:01+00:00", "endedAt": null,
              // The environment it refers to was never reported.
              "environment": null, "cluster": cluster, "end": null },
            { "daskId": uuid(2), "name": "worker-2", "address": "tcp://10.0.0.1:40002", "host": "10.0.0.1",
              "threads": 4, "memoryLimit": 4_000_000_000_i64, "startedAt": "2026-11-20T11:00:02+00:00",
              "endedAt": "2026-11-20T11:01:00.500+00:00", "environment": null, "cluster": cluster,
              "end": { "at": "2026-11-20T11:01:00.500+00:00", "kind": "MEMORY", "processingKeys": ["sum-1", "sum-2"],
                "processing": 150, "processingFunctions": [{ "prefix": "sum", "tasks": 110 },
                    { "prefix": "load", "tasks": 40 }], "lostResults": 7, "lastMemory": 3_900_000_000_i64, "lastMemoryShare": 0.975,
                "peakMemory": 3_950_000_000_i64, "lastSeenAt": "2026-11-20T11:01:00+00:00" } },
            { "daskId": uuid(1), "name": "worker-1", "address": "tcp://10.0.0.1:40001", "host": null,
              "threads": 4, "memoryLimit": null, "startedAt": "2026-11-20T11:00:03+00:00",
              "endedAt": "2026-11-20T11:01:10+00:00", "environment": null, "cluster": cluster,
              "end": { "at": "2026-11-20T11:01:10+00:00", "kind": "RETIRED", "processingKeys": [], "processing": 0,
                "processingFunctions": null, "lostResults": 0, "lastMemory": 5, "peakMemory": null, "lastMemoryShare": null, "lastSeenAt": null } },
        ])
    );
    let lost = "query($id: ID!) { cluster(id: $id) { lostAttempts { prefix attempts workers } } }";
    let found = ada.query(lost, json!({ "id": id })).await["cluster"]["lostAttempts"].take();
    let of = |prefix: &str, attempts: i64, workers: i64| json!({ "prefix": prefix, "attempts": attempts, "workers": workers });
    assert_eq!(found, json!([of("sum", 110, 1), of("load", 40, 1)]));
    let names = |page: &Value| -> Vec<String> {
        let nodes = page["nodes"].as_array().unwrap();
        nodes.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(all["totalCount"], 3);
    let alive = workers(&ada, json!({ "id": id, "alive": true })).await;
    assert_eq!((names(&alive), &alive["totalCount"]), (vec!["worker-3".to_owned()], &json!(1)));
    let gone = workers(&ada, json!({ "id": id, "alive": false, "first": 1 })).await;
    assert_eq!((names(&gone), &gone["totalCount"]), (vec!["worker-2".to_owned()], &json!(2)));
    assert_eq!(gone["pageInfo"]["hasNextPage"], true);
    let after = &gone["pageInfo"]["endCursor"];
    let rest = workers(&ada, json!({ "id": id, "alive": false, "first": 1, "after": after })).await;
    assert_eq!(
        (names(&rest), &rest["pageInfo"]["hasNextPage"]),
        (vec!["worker-1".to_owned()], &json!(false))
    );
    app.stop().await;
}

#[tokio::test]
async fn what_failed_was_logged_or_published_leads_to_the_worker() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let killed =
        with(worker(2), &json!({ "ended_at": STARTED_AT + 60.5, "end": "memory", "lost_results": 7 }));
    let of = |mut row: Value, worker: Option<u128>| {
        row["worker_id"] = json!(worker.map(uuid));
        row
    };
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/workers", json!([killed, worker(3)]))
        // Of the killed worker, of one that was never reported, and of none.
        .with(
            "/errors",
            json!([of(error(3, 11, 1), Some(2)), of(error(2, 11, 1), Some(9)), of(error(1, 11, 1), None)]),
        )
        .with("/events", json!([of(event(1, "mine", json!(1)), Some(3)), event(2, "mine", json!(2))]))
        .with("/logs", json!([of(log_line(1, "a line"), Some(2)), log_line(2, "a line")]))
        .build();
    let id = ada.reported(&report).await.to_string();
    let process = "nodes { workerId workerProcess { name end { kind lostResults } } }";
    let query = format!(
        "query($id: ID!) {{ cluster(id: $id) {{ errors {{ {process} }} events {{ {process} }} logs {{ {process} }} }} }}"
    );
    let before = app.statements();
    let found = ada.query(&query, json!({ "id": id })).await["cluster"].take();
    // The token, the cluster, its lists, and at most the workers of each of them.
    let statements = app.statements() - before;
    assert!((2 + 3 + 1..=2 + 3 + 3).contains(&statements), "{statements}");
    let killed = json!({ "name": "worker-2", "end": { "kind": "MEMORY", "lostResults": 7 } });
    let there = json!({ "name": "worker-3", "end": null });
    let node = |worker: Option<u128>, process: &Value| json!({ "workerId": worker.map(uuid), "workerProcess": process });
    let nothing = Value::Null;
    assert_eq!(
        found["errors"]["nodes"],
        json!([node(Some(2), &killed), node(Some(9), &nothing), node(None, &nothing)])
    );
    assert_eq!(found["events"]["nodes"], json!([node(Some(3), &there), node(None, &nothing)]));
    assert_eq!(found["logs"]["nodes"], json!([node(Some(2), &killed), node(None, &nothing)]));
    app.stop().await;
}

#[tokio::test]
async fn the_newest_report_of_a_worker_or_client_counts_in_any_order() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |sequence: i64, changes: &Value, disconnected_at: Value| {
        ReportBuilder::new("Scheduler-1", sequence)
            .with("/workers", json!([with(worker(1), changes)]))
            .with(
                "/clients",
                json!([{ "id": "Client-1", "connected_at": STARTED_AT, "disconnected_at": disconnected_at }]),
            )
            .build()
    };
    let ended = json!({ "ended_at": STARTED_AT + 9.0, "end": "lost" });
    ada.reported(&report(2, &ended, json!(STARTED_AT + 8.0))).await;
    let id = ada.reported(&report(1, &json!({}), Value::Null)).await.to_string();
    let query = "query($id: ID!) { cluster(id: $id) { workers { nodes { end { kind } } }
        clients { totalCount nodes { daskId connectedAt disconnectedAt } } } }";
    let expected = json!({ "cluster": {
        "workers": { "nodes": [{ "end": { "kind": "LOST" } }] },
        "clients": { "totalCount": 1, "nodes": [{ "daskId": "Client-1", "connectedAt": "2026-11-20T11:00:00+00:00",
            "disconnectedAt": "2026-11-20T11:00:08+00:00" }] },
    } });
    assert_eq!(ada.query(query, json!({ "id": id })).await, expected);
    app.stop().await;
}

#[tokio::test]
async fn clients_and_changes_of_size_are_paged_by_time() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let clients: Vec<Value> = (0..5_i32)
        .map(|n| json!({ "id": format!("Client-{n}"), "connected_at": STARTED_AT + f64::from(9 - n) }))
        .collect();
    let changes = |threads: i64| {
        let change = |n: i32, threads: i64| json!({ "at": STARTED_AT + f64::from(n), "threads": threads });
        let mut changes: Vec<Value> = (0..5).map(|n| change(n, threads + i64::from(n))).collect();
        // Three workers leave within a millisecond: the last number is stored.
        changes.splice(4..4, [change(4, 7), change(4, 5)]);
        changes[5]["at"] = json!(STARTED_AT + 4.000_001);
        changes[6]["at"] = json!(STARTED_AT + 4.000_002);
        changes
    };
    let report = |sequence, threads| {
        ReportBuilder::new("Scheduler-1", sequence)
            .with("/clients", clients.clone())
            .with("/thread_history", changes(threads))
            .build()
    };
    ada.reported(&report(1, 10)).await;
    // History entries are immutable: the first version remains.
    let id = ada.reported(&report(2, 90)).await.to_string();
    let query = "query($id: ID!, $a: String, $b: String) { cluster(id: $id) {
        clients(first: 2, after: $a) { totalCount nodes { daskId } pageInfo { hasNextPage endCursor } }
        threadHistory(first: 2, after: $b) { totalCount nodes { at threads } pageInfo { hasNextPage endCursor } } } }";
    let (mut found, mut history, mut a, mut b) = (Vec::new(), Vec::new(), Value::Null, Value::Null);
    for page in 0..3 {
        let answer = ada.query(query, json!({ "id": id, "a": a, "b": b })).await;
        let (clients, changes) = (&answer["cluster"]["clients"], &answer["cluster"]["threadHistory"]);
        for list in [clients, changes] {
            assert_eq!(list["totalCount"], 5);
            assert_eq!(list["pageInfo"]["hasNextPage"], page < 2);
        }
        found.extend(clients["nodes"].as_array().unwrap().iter().map(|node| node["daskId"].clone()));
        history.extend(changes["nodes"].as_array().unwrap().iter().cloned());
        (a, b) = (clients["pageInfo"]["endCursor"].clone(), changes["pageInfo"]["endCursor"].clone());
    }
    assert_eq!(found, ["Client-4", "Client-3", "Client-2", "Client-1", "Client-0"]);
    let expected: Vec<Value> =
        (0..5).map(|n| json!({ "at": format!("2026-11-20T11:00:0{n}+00:00"), "threads": 10 + n })).collect();
    assert_eq!(history, expected);
    app.stop().await;
}

#[tokio::test]
async fn lists_of_many_clusters_cost_one_statement_each() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..10 {
        let report = ReportBuilder::new(&format!("Scheduler-{number}"), 1)
            .with("/workers", (1..=3).map(worker).collect::<Vec<_>>())
            .with("/clients", json!([{ "id": "Client-1", "connected_at": STARTED_AT }]))
            .with("/thread_history", json!([{ "at": STARTED_AT, "threads": 12 }]));
        ada.reported(&report.build()).await;
    }
    let query =
        "{ viewer { account { clusters { nodes { workers { totalCount nodes { name cluster { name } } }
        clients { totalCount nodes { daskId } } threadHistory { totalCount nodes { threads } } } } } } }";
    let before = app.statements();
    let answer = ada.query(query, json!({})).await;
    let clusters = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
    assert_eq!(clusters.len(), 10);
    for cluster in clusters {
        assert_eq!(cluster["workers"]["totalCount"], 3);
        assert_eq!(cluster["clients"]["nodes"], json!([{ "daskId": "Client-1" }]));
        assert_eq!(cluster["threadHistory"]["nodes"], json!([{ "threads": 12 }]));
    }
    // The token, the clusters, the cluster of each worker; each list and its count.
    assert_eq!(app.statements() - before, 3 + 2 * 3);
    app.stop().await;
}
