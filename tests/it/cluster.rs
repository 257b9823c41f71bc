//! The API's view of a cluster's report.

use harness::{ReportBuilder, TestApp, computation, error, event, task_group, uuid};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

const EVERYTHING: &str = "query($id: ID!) { cluster(id: $id) {
    number schedulerId name address dashboardUrl account { slug } user { name } state desiredState
    startedAt endedAt closeReason lastSeenAt idleSince
    now { at workers threads memoryUsed memoryLimit }
    totals { tasks tasksSucceeded tasksErred errors bytes workers peakWorkers peakThreads
        computeSeconds transferSeconds threadSeconds }
    dropped { computations taskGroups errors }
    computations { totalCount nodes { daskId state startedAt endedAt wallSeconds cluster { schedulerId }
        taskGroups { totalCount nodes { prefix } } errors { totalCount nodes { key } } } }
    taskGroups { totalCount nodes { name prefix firstSeenAt startedAt endedAt tasks tasksSucceeded tasksErred tasksBlamed
        states { state count } durations { action seconds } bytes types dependencies { prefix } cluster { schedulerId } } }
    errors { totalCount nodes { key type message traceback worker at
        cluster { schedulerId } computation { daskId } taskGroup { prefix } } }
} }";

fn report(sequence: i64) -> ReportBuilder {
    let mut divide = task_group(11, "divide", 3);
    divide["states"] = json!({ "erred": 2, "no-worker": 1, "forgotten": 4 });
    divide["tasks_erred"] = json!(1);
    divide["tasks_blamed"] = json!(1);
    divide["durations"] = json!({ "compute": 0.5, "disk-read": 0.125, "unheard-of": 2.0 });
    divide["dependencies"] = json!([uuid(10), uuid(99)]);
    let totals = json!({
        "tasks": 11, "tasks_succeeded": 8, "tasks_erred": 1, "errors": 1, "compute_seconds": 2.0,
        "transfer_seconds": 0.25, "thread_seconds": 480.5, "bytes": 5_600, "workers": 3,
        "peak_workers": 2, "peak_threads": 4,
    });
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/cluster/name", "etl")
        .with("/cluster/address", "tcp://10.0.0.1:8786")
        .with("/cluster/workers", 2)
        .with("/cluster/threads", 4)
        .with("/cluster/memory_limit_bytes", 8_000_000_000_i64)
        .with("/cluster/memory_used_bytes", 123_456)
        .with("/cluster/totals", totals)
        .with("/computations", json!([computation(1, &[10, 11, 98])]))
        .with("/task_groups", json!([task_group(10, "load", 8), divide]))
        .with("/errors", json!([error(20, 11, 1)]))
        .with("/dropped", json!({ "errors": 5 }))
}

#[tokio::test]
async fn everything_reported_is_answered() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report(1).build()).await;
    let mut answer = ada.query(EVERYTHING, json!({ "id": number.to_string() })).await;
    assert_eq!(answer["cluster"]["number"].take(), number);
    insta::assert_json_snapshot!(answer);
    app.stop().await;
}

/// A report that arrives late counts, too.
#[tokio::test]
async fn peak_memory_is_that_of_all_reports() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let peak = "query($id: ID!) { cluster(id: $id) { now { memoryUsed } totals { peakMemory } } }";
    for (sequence, used, now, expected) in
        [(2, 700, 700, 700), (4, 300, 300, 700), (3, 900, 300, 900), (5, 0, 0, 900)]
    {
        let report = ReportBuilder::new("Scheduler-1", sequence).with("/cluster/memory_used_bytes", used);
        let id = ada.reported(&report.build()).await.to_string();
        let found = ada.query(peak, json!({ "id": id })).await["cluster"].take();
        assert_eq!(found["now"]["memoryUsed"], now, "{sequence}");
        assert_eq!(found["totals"]["peakMemory"], expected, "{sequence}");
    }
    // A cluster whose first report is from an earlier release of the server has no peak.
    let database = app.database.connection().await;
    database.execute_unprepared("UPDATE clusters SET peak_memory_bytes = NULL").await.unwrap();
    let report = ReportBuilder::new("Scheduler-1", 6).with("/cluster/memory_used_bytes", 5_000);
    let id = ada.reported(&report.build()).await.to_string();
    let found = ada.query(peak, json!({ "id": id })).await["cluster"]["totals"].take();
    assert_eq!(found, json!({ "peakMemory": null }));
    app.stop().await;
}

/// Numbers of 16 and 17 digits, as Python writes them, are stored exactly and not rounded to a neighbor.
#[tokio::test]
async fn numbers_are_exact() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for (at, number) in [368_934_882.570_955_16, 1_763_812.345_678_901_2, 0.1 + 0.2].into_iter().enumerate() {
        let mut group = task_group(10, "load", 8);
        group["durations"] = json!({ "compute": number });
        let report = ReportBuilder::new(&format!("Scheduler-{at}"), 1)
            .with("/task_groups", json!([group]))
            .with("/events", json!([event(1, "mine", number)]));
        let id = ada.reported(&report.build()).await.to_string();
        let query = "query($id: ID!) { cluster(id: $id) { events { nodes { data } }
            taskGroups { nodes { durations { seconds } } } } }";
        let answer = ada.query(query, json!({ "id": id })).await;
        assert_eq!(answer["cluster"]["taskGroups"]["nodes"][0]["durations"], json!([{ "seconds": number }]));
        assert_eq!(answer["cluster"]["events"]["nodes"], json!([{ "data": number }]));
    }
    app.stop().await;
}

#[tokio::test]
async fn the_final_report_closes_the_cluster() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&report(1).build()).await;
    app.set_clock("2026-11-20T12:30:00Z");
    let last = report(2)
        .with("/final", true)
        .with("/cluster/closed_at", 1_795_176_000.25)
        .with("/cluster/close_reason", "idle-timeout-exceeded");
    let number = ada.reported(&last.build()).await;
    // A late report with an earlier sequence does not reopen it, but counts as a sign of life.
    app.set_clock("2026-11-20T12:31:00Z");
    ada.reported(&report(1).build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { state endedAt closeReason lastSeenAt now { workers } totals { peakWorkers } } }";
    let answer = ada.query(query, json!({ "id": number.to_string() })).await;
    let expected = json!({
        "state": "CLOSED", "endedAt": "2026-11-20T12:00:00.250+00:00", "closeReason": "idle-timeout-exceeded",
        "lastSeenAt": "2026-11-20T12:31:00+00:00", "now": null, "totals": { "peakWorkers": 2 },
    });
    assert_eq!(answer["cluster"], expected);
    app.stop().await;
}

#[tokio::test]
async fn a_task_group_can_serve_several_computations() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/computations", json!([computation(1, &[10]), computation(2, &[10, 11])]))
        .with("/task_groups", json!([task_group(10, "load", 1), task_group(11, "sum", 1)]))
        .build();
    let number = ada.reported(&report).await;
    let query = "query($id: ID!) { cluster(id: $id) { computations { nodes { daskId
        taskGroups { totalCount nodes { prefix } } } } } }";
    let answer = ada.query(query, json!({ "id": number.to_string() })).await;
    let of = |number: u128, prefixes: &[&str]| {
        let nodes: Vec<_> = prefixes.iter().map(|prefix| json!({ "prefix": prefix })).collect();
        json!({ "daskId": uuid(number), "taskGroups": { "totalCount": prefixes.len(), "nodes": nodes } })
    };
    assert_eq!(
        answer["cluster"]["computations"]["nodes"],
        json!([of(2, &["load", "sum"]), of(1, &["load"])])
    );
    app.stop().await;
}

#[tokio::test]
async fn a_computation_counts_its_own_tasks_of_a_group_that_others_use() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let share = |tasks: i64, states: Value, joint: bool| {
        json!([{
            "task_group_id": uuid(10), "joint": joint, "states": states, "tasks": tasks, "tasks_succeeded": tasks - 1,
            "tasks_erred": 1, "tasks_retried": 2, "durations": { "compute": 1.25 }, "bytes": 100 * tasks,
        }])
    };
    let (mut first, mut second) = (computation(1, &[10]), computation(2, &[10, 11]));
    first["task_group_shares"] = share(200, json!({ "memory": 199, "erred": 1 }), true);
    second["task_group_shares"] = share(40, json!({ "memory": 30, "forgotten": 10 }), false);
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/computations", json!([first, second]))
        .with("/task_groups", json!([task_group(10, "load", 240), task_group(11, "sum", 5)]))
        .build();
    let number = ada.reported(&report).await;
    let query = "query($id: ID!) { cluster(id: $id) { computations { nodes { totals { tasks tasksSucceeded tasksErred
        tasksRetried computeSeconds transferSeconds bytes includesOtherComputations states { state count } } } } } }";
    let answer = ada.query(query, json!({ "id": number.to_string() })).await;
    assert_eq!(
        answer["cluster"]["computations"]["nodes"],
        json!([
            { "totals": {
                "tasks": 45, "tasksSucceeded": 44, "tasksErred": 1, "tasksRetried": 2, "computeSeconds": 2.75,
                "transferSeconds": 0.25, "bytes": 8_000, "includesOtherComputations": false,
                "states": [{ "state": "MEMORY", "count": 35 }, { "state": "FORGOTTEN", "count": 10 }],
            } },
            { "totals": {
                "tasks": 200, "tasksSucceeded": 199, "tasksErred": 1, "tasksRetried": 2, "computeSeconds": 1.25,
                "transferSeconds": 0.0, "bytes": 20_000, "includesOtherComputations": true,
                "states": [{ "state": "MEMORY", "count": 199 }, { "state": "ERRED", "count": 1 }],
            } },
        ])
    );
    app.stop().await;
}

#[tokio::test]
async fn a_thing_is_found_by_its_global_identifier() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&report(1).build()).await;
    let query = "{ viewer { user { id } account { id clusters { nodes { id
        computations { nodes { id } } taskGroups { nodes { id } } errors { nodes { id } } } } } } }";
    let answer = ada.query(query, json!({})).await;
    let cluster = &answer["viewer"]["account"]["clusters"]["nodes"][0];
    for (noun, id) in [
        ("User", &answer["viewer"]["user"]["id"]),
        ("Account", &answer["viewer"]["account"]["id"]),
        ("Cluster", &cluster["id"]),
        ("Computation", &cluster["computations"]["nodes"][0]["id"]),
        ("TaskGroup", &cluster["taskGroups"]["nodes"][0]["id"]),
        ("ErrorOccurrence", &cluster["errors"]["nodes"][0]["id"]),
    ] {
        let found =
            ada.query("query($id: ID!) { node(id: $id) { __typename id } }", json!({ "id": id })).await;
        assert_eq!(found["node"], json!({ "__typename": noun, "id": id }));
    }
    // An identifier of another type is not a cluster's.
    let query = "query($id: ID!) { cluster(id: $id) { id } }";
    assert_eq!(ada.query(query, json!({ "id": cluster["id"] })).await["cluster"]["id"], cluster["id"]);
    for id in [&answer["viewer"]["account"]["id"], &json!("nothing"), &json!("12")] {
        assert_eq!(ada.query(query, json!({ "id": id })).await["cluster"], json!(null), "{id}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_computation_comes_to_what_its_task_groups_do() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let group = |number: u128, states: Value, tasks: i64, bytes: i64| {
        let mut group = task_group(number, "load", tasks);
        (group["states"], group["bytes"]) = (states, json!(bytes));
        (group["tasks_succeeded"], group["tasks_erred"], group["tasks_retried"]) =
            (json!(tasks - 1), json!(1), json!(2));
        group["durations"] = json!({ "compute": 1.5, "transfer": 0.25, "disk-read": 7 });
        group
    };
    let groups = [
        group(10, json!({ "memory": 3, "processing": 1 }), 4, 100),
        group(11, json!({ "memory": 2, "waiting": 5, "no-worker": 1 }), 8, 1 << 40),
        group(12, json!({ "forgotten": 9 }), 9, 0),
    ];
    // The second group is used by two, and one uses a group that was never reported.
    let computations = [computation(1, &[10, 11]), computation(2, &[11, 12, 99]), computation(3, &[99])];
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/task_groups", groups)
        .with("/computations", computations)
        .build();
    let number = ada.reported(&report).await;
    // The same identifiers on another cluster, and in another account.
    let other = ReportBuilder::new("Scheduler-2", 1)
        .with("/task_groups", json!([group(10, json!({ "erred": 2 }), 2, 1)]))
        .with("/computations", json!([computation(1, &[10])]))
        .build();
    ada.reported(&other).await;
    app.account("bob").await.reported(&report).await;
    let query = "query($id: ID!) { cluster(id: $id) { computations { nodes { daskId totals {
        tasks states { state count } tasksSucceeded tasksErred tasksRetried computeSeconds transferSeconds bytes } } } } }";
    let before = app.statements();
    let found = ada.query(query, json!({ "id": number.to_string() })).await["cluster"]["computations"].take();
    assert_eq!(app.statements() - before, 4, "the token, the cluster, its computations and their sums");
    let of = |number: u128| {
        let nodes = found["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["daskId"] == uuid(number)).unwrap()["totals"].clone()
    };
    let states = |counts: &[(&str, i64)]| -> Vec<Value> {
        counts.iter().map(|(state, count)| json!({ "state": state, "count": count })).collect()
    };
    assert_eq!(
        of(1),
        json!({ "tasks": 12, "states": states(&[("WAITING", 5), ("NO_WORKER", 1), ("PROCESSING", 1), ("MEMORY", 5)]),
            "tasksSucceeded": 10, "tasksErred": 2, "tasksRetried": 4, "computeSeconds": 3.0, "transferSeconds": 0.5,
            "bytes": 100 + (1_i64 << 40) })
    );
    assert_eq!(
        of(2),
        json!({ "tasks": 17, "states": states(&[("WAITING", 5), ("NO_WORKER", 1), ("MEMORY", 2), ("FORGOTTEN", 9)]),
            "tasksSucceeded": 15, "tasksErred": 2, "tasksRetried": 4, "computeSeconds": 3.0, "transferSeconds": 0.5,
            "bytes": 1_i64 << 40 })
    );
    assert_eq!(
        of(3),
        json!({ "tasks": 0, "states": [], "tasksSucceeded": 0, "tasksErred": 0, "tasksRetried": 0, "computeSeconds": 0.0,
            "transferSeconds": 0.0, "bytes": 0 })
    );
    let both = "{ viewer { account { computations { nodes { cluster { schedulerId } daskId totals { tasks } } } } } }";
    let both = ada.query(both, json!({})).await;
    let nodes = both["viewer"]["account"]["computations"]["nodes"].as_array().unwrap();
    let sums: Vec<i64> = nodes
        .iter()
        .filter(|node| node["daskId"] == uuid(1))
        .map(|node| node["totals"]["tasks"].as_i64().unwrap())
        .collect();
    assert!(sums == [2, 12] || sums == [12, 2], "{sums:?}");
    app.stop().await;
}
