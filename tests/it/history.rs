//! A hundred times the history costs the same number of statements, which read few more rows than they
//! return.

use std::{ops::Range, time::Duration};

use entity::{
    computation, computation_share, computation_task_group, error_group, error_occurrence, fine_metric,
    fine_metric_total,
    ids::{ClusterId, ErrorGroupId},
    span, task_group, usage_day,
};
use galvo::{encryption::Keys, key_ring::KeySource};
use harness::{
    Database, Member, ReportBuilder, TestApp, computation as computation_of, error, span as span_of,
    task_group as group_of_tasks, uuid,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ConnectOptions, ConnectionTrait, DatabaseBackend, DatabaseConnection,
    EntityTrait, IdenStatic, IntoActiveModel, Iterable, Statement,
};
use serde_json::{Value, json};

/// 2026-11-20T00:00:00Z, in days since 1970.
const TODAY: i64 = 20_777;
const DAY: i64 = 86_400_000;

/// Rows read besides those returned: the token with its user, account and membership, one row more than
/// a page has, and the index entries with which a plan finds a range.
const BESIDES: i64 = 60;

/// Reports data of every kind for one cluster and the account.
async fn report(member: &Member) -> i64 {
    let groups = |computation: u128| (1_000 * computation..1_000 * computation + 15).collect::<Vec<_>>();
    let cells = json!([
        ["execute", "load", "thread-cpu", "seconds", 2],
        ["execute", "sum", "thread-cpu", "seconds", 1]
    ]);
    let fine_metrics = (0..10).map(|n| json!({ "span_id": uuid(50 + n), "cells": cells }));
    let report = ReportBuilder::new("Scheduler", 1)
        .with("/final", true)
        .with("/computations", (1..=10).map(|n| computation_of(n, &groups(n))).collect::<Vec<_>>())
        .with(
            "/task_groups",
            (1..=10).flat_map(groups).map(|n| group_of_tasks(n, "load", 1)).collect::<Vec<_>>(),
        )
        .with("/errors", (1..=10).map(|n| error(n, 1_000 * n, n)).collect::<Vec<_>>())
        .with("/spans", (0..10).map(|n| span_of(50 + n, None, &["etl"], 1.0, Some(2.0))).collect::<Vec<_>>())
        .with("/fine_metrics", fine_metrics.collect::<Vec<_>>());
    member.reported(&report.build()).await
}

/// Adds earlier clusters that ran one after the other, each with the same work as the reported one, a
/// group of errors of each, and the account's usage on the days they ran, from `from` to before `to`.
async fn fill(database: &DatabaseConnection, from: i64, to: i64) {
    let cluster = entity::cluster::Entity::find().one(database).await.unwrap().unwrap();
    let group = error_group::Entity::find().one(database).await.unwrap().unwrap();
    let earlier = |number: i64, time: entity::Timestamp| {
        entity::Timestamp::from(time.0 - chrono::TimeDelta::milliseconds(number * DAY))
    };
    let clusters = (from..to).map(|number| {
        let mut row = cluster.clone().into_active_model().reset_all();
        row.id = Set(ClusterId(cluster.id.0 + number));
        row.scheduler_id = Set(format!("Scheduler-{number}"));
        row.started_at = Set(earlier(number, cluster.started_at));
        row.closed_at = Set(cluster.closed_at.map(|time| earlier(number, time)));
        row.reported_at = Set(earlier(number, cluster.reported_at));
        row.last_seen_at = Set(earlier(number, cluster.last_seen_at));
        row.ended_key = Set(cluster.ended_key - number * DAY);
        row
    });
    let groups = (from..to).map(|number| {
        let mut row = group.clone().into_active_model().reset_all();
        row.id = Set(ErrorGroupId(uuid::Uuid::from_u128(number.unsigned_abs().into())));
        row.last_seen_at = Set(earlier(number, group.last_seen_at));
        row
    });
    let days = (from..to).map(|number| {
        let day = usage_day::Model {
            account_id: cluster.account_id,
            day: TODAY - number,
            user_id: cluster.user_id.unwrap(),
            clusters: 1,
            thread_us: 4_000_000,
            unobserved_us: 0,
            worker_us: 1_000_000,
            memory_gib_us: 1_000_000,
            compute_us: 1_000_000,
            transfer_us: 0,
            cpu_us: None,
            noncpu_us: None,
            serialize_us: None,
            spill_us: None,
            overhead_us: None,
            failed_us: None,
            idle_us: None,
            tasks: 10,
            tasks_erred: 0,
            retries: 0,
            errors: 0,
            bytes: 0,
            spilled_bytes: 0,
            workers: 1,
            is_cut: false,
        };
        day.into_active_model().reset_all()
    });
    insert::<entity::cluster::Entity>(database, clusters.collect()).await;
    copy::<computation::Entity>(database, cluster.id, from..to).await;
    copy::<computation_task_group::Entity>(database, cluster.id, from..to).await;
    copy::<computation_share::Entity>(database, cluster.id, from..to).await;
    copy::<task_group::Entity>(database, cluster.id, from..to).await;
    copy::<error_occurrence::Entity>(database, cluster.id, from..to).await;
    copy::<span::Entity>(database, cluster.id, from..to).await;
    copy::<fine_metric::Entity>(database, cluster.id, from..to).await;
    copy::<fine_metric_total::Entity>(database, cluster.id, from..to).await;
    insert::<error_group::Entity>(database, groups.collect()).await;
    insert::<usage_day::Entity>(database, days.collect()).await;
    database.execute_unprepared("ANALYZE").await.unwrap();
}

/// Copies the reported cluster's rows of a table to each earlier cluster.
async fn copy<E: EntityTrait>(database: &DatabaseConnection, cluster: ClusterId, numbers: Range<i64>) {
    const TIMES: [&str; 4] = ["started_at", "stopped_at", "occurred_at", "enqueued_at"];
    let columns: Vec<String> = E::Column::iter().map(|column| column.as_str().to_owned()).collect();
    let values = columns.iter().map(|column| match column.as_str() {
        "cluster_id" => format!("{} + n", cluster.0),
        time if TIMES.contains(&time) => format!("{time} - n * {DAY}"),
        column => column.to_owned(),
    });
    let (table, columns, values) =
        (E::default().table_name().to_owned(), columns.join(", "), values.collect::<Vec<_>>().join(", "));
    let Range { start, end } = numbers;
    let sql = format!(
        "INSERT INTO {table} ({columns}) SELECT {values} FROM {table} CROSS JOIN {} WHERE cluster_id = {}",
        harness::numbers(database.get_database_backend(), start, end - 1),
        cluster.0
    );
    database.execute_unprepared(&sql).await.unwrap();
}

async fn insert<E: EntityTrait>(database: &DatabaseConnection, rows: Vec<E::ActiveModel>)
where
    E::ActiveModel: Clone,
{
    for chunk in rows.chunks(500) {
        E::insert_many(chunk.to_vec()).exec_without_returning(database).await.unwrap();
    }
}

async fn number(database: &DatabaseConnection, sql: &str) -> i64 {
    let statement = Statement::from_string(database.get_database_backend(), sql);
    database.query_one_raw(statement).await.unwrap().unwrap().try_get_by_index(0).unwrap()
}

/// The number of rows and index entries read so far by closed connections. Open ones may publish their
/// counters at any later time.
async fn read(database: &DatabaseConnection) -> i64 {
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    while number(database, open).await > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let data = "relname <> 'seaql_migrations'";
    let rows = format!("(SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE {data})");
    let entries = format!("(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE {data})");
    number(database, &format!("SELECT ({rows} + {entries})::bigint")).await
}

/// The cost of an operation.
struct Cost {
    statements: u64,
    answer: Value,
    /// The rows read, if the database reports them.
    read: Option<i64>,
}

async fn start(there: &Database, keys: &Keys) -> TestApp {
    TestApp::start_on(there.again(), KeySource::Ring(keys.clone()), |_| {}).await
}

/// A single connection, without a pool whose other connections would be counted.
async fn alone(there: &Database) -> DatabaseConnection {
    let options = ConnectOptions::new(there.url()).max_connections(1).to_owned();
    sea_orm::Database::connect(options).await.unwrap()
}

/// Queries a new server with cold caches.
async fn cost(there: &Database, keys: &Keys, member: &Member, query: &str, variables: Value) -> Cost {
    let database = &alone(there).await;
    let postgres = database.get_database_backend() == DatabaseBackend::Postgres;
    let before = if postgres { read(database).await } else { 0 };
    let server = start(there, keys).await;
    let statements = server.statements();
    let answer = server.here(member).query(query, variables).await;
    let statements = server.statements() - statements;
    server.stop().await;
    if !postgres {
        return Cost { statements, answer, read: None };
    }
    Cost { statements, answer, read: Some(read(database).await - before) }
}

/// The number of items in a response: objects with a field that only they have.
fn count_items(answer: &Value) -> i64 {
    match answer {
        Value::Array(items) => items.iter().map(count_items).sum(),
        Value::Object(fields) => {
            i64::from(fields.contains_key("row")) + fields.values().map(count_items).sum::<i64>()
        }
        _ => 0,
    }
}

#[tokio::test]
async fn a_long_history_costs_what_a_short_one_does() {
    let keys = Keys::generate();
    let app = start(&Database::migrated().await, &keys).await;
    let ada = app.account("ada").await;
    let id = report(&ada).await;
    // The server counts only reported days; the others are inserted here.
    let there = app.stop_keeping().await;
    let list = |arguments: &str| {
        format!(
            "query($after: String) {{ viewer {{ account {{ clusters(first: 10, after: $after, {arguments}) {{
               nodes {{ row: id totals {{ tasks computeSeconds }} }} pageInfo {{ endCursor }} }} }} }} }}"
        )
    };
    let by_start = list("orderBy: { field: STARTED_AT }");
    let by_end = list("orderBy: { field: ENDED_AT }");
    let drill_down = format!(
        "{{ cluster(id: \"{id}\") {{ row: name state totals {{ tasks }}
           computations(first: 10) {{ nodes {{ row: daskId state
             taskGroups(first: 15) {{ nodes {{ row: name states {{ count }} durations {{ seconds }} }} }} }} }}
           errors(first: 10) {{ nodes {{ row: key type message at }} }} }} }}"
    );
    // Days on which each cluster has one row, and each user one row per day.
    let days = "from: \"2026-11-05\", to: \"2026-11-20\"";
    let statistics = format!(
        "{{ viewer {{ account {{ statistics({days}) {{ clusters users usage {{ threadSeconds }} }} }} }} }}"
    );
    let heat_map = format!(
        "{{ viewer {{ account {{ usageTable({days}, by: [USER, DAY]) {{ row: day user {{ name }}
           usage {{ computeSeconds }} }} }} }} }}"
    );
    let error_groups =
        "{ viewer { account { errorGroups(first: 10) { nodes { row: id type origin lastSeenAt } } } } }";
    let fine_metrics = format!(
        "{{ cluster(id: \"{id}\") {{ fineMetrics(unit: \"seconds\") {{ total rows {{ row: function value }} }} }} }}"
    );
    let of_account = |list: &str, fields: &str| {
        format!("{{ viewer {{ account {{ {list}(first: 10) {{ nodes {{ row: id {fields} }} }} }} }} }}")
    };
    let computations = of_account("computations", "state startedAt");
    let errors = of_account("errors", "at worker");
    let spans = of_account("spans", "tag enqueuedAt");
    // Lists of ten clusters at once.
    let of_clusters = |list: &str, fields: &str| {
        of_account("clusters", &format!("{list}(first: 1) {{ nodes {{ row: __typename {fields} }} }}"))
    };
    let runs =
        of_clusters("computations", "totals { tasks } taskGroups { totalCount } errors { totalCount }");
    let failures = of_clusters("errors", "computation { row: id } taskGroup { row: id }");
    let steps = of_clusters(
        "spans",
        "totals { tasks } children { totalCount } taskGroups { totalCount } fineMetrics(unit: \"seconds\") { total }",
    );
    // The rows read in addition to those returned, because they are summed up or joined.
    let operations = [
        // The token and the page.
        ("clusters by start", by_start.as_str(), 2, 10, 0),
        ("clusters by end", by_end.as_str(), 2, 10, 0),
        // The token, the cluster, its computations, their task groups, and its errors. Each of 150 task
        // groups is found by a link.
        ("drill-down", drill_down.as_str(), 5, 171, 150),
        // The token, clusters, users and usage: 15 clusters by their ends and their rows, and 15 days
        // twice.
        ("statistics", statistics.as_str(), 4, 0, 60),
        // The token, the days, and their member with its user.
        ("heat-map", heat_map.as_str(), 3, 15, 2),
        ("error groups", error_groups, 2, 10, 0),
        // The token and the page.
        ("computations", computations.as_str(), 2, 10, 0),
        ("errors", errors.as_str(), 2, 10, 0),
        ("spans", spans.as_str(), 2, 10, 0),
        // The token, two pages, the sums, and each list with its count. Links and task groups, 15 of
        // each computation, are read for the list, the count and the sums, and errors for the list and
        // the count.
        ("clusters with computations", runs.as_str(), 8, 20, 10 * (3 * 30 + 2)),
        // The token, two pages, and the objects that the errors belong to.
        ("clusters with errors", failures.as_str(), 5, 40, 0),
        // The token, two pages, the spans with their descendants by level, the sums, each list with its
        // count, and metrics.
        ("clusters with spans", steps.as_str(), 11, 20, 0),
        // The token, the cluster and its packed sums.
        ("fine metrics", fine_metrics.as_str(), 3, 2, 0),
    ];
    for (from, to) in [(1, 20), (20, 2_000)] {
        let database = alone(&there).await;
        fill(&database, from, to).await;
        database.close().await.unwrap();
        for (name, query, statements, rows, summed) in operations {
            let cost = cost(&there, &keys, &ada, query, json!({ "after": null })).await;
            assert_eq!(cost.statements, statements, "{name}");
            assert_eq!(count_items(&cost.answer), rows, "{name}: {}", cost.answer);
            if let Some(read) = cost.read {
                assert!(read <= rows + summed + BESIDES, "{name}, {to} clusters: {read} rows were read");
            }
        }
        // A page deep in the list.
        let server = start(&there, &keys).await;
        let mut after = Value::Null;
        for _ in 0..(to - 11) / 10 {
            let answer = server.here(&ada).query(&by_start, json!({ "after": after })).await;
            after = answer["viewer"]["account"]["clusters"]["pageInfo"]["endCursor"].clone();
        }
        server.stop().await;
        let cost = cost(&there, &keys, &ada, &by_start, json!({ "after": after })).await;
        assert_eq!((cost.statements, count_items(&cost.answer)), (2, 10), "{}", cost.answer);
        assert!(
            cost.read.is_none_or(|read| read <= 10 + BESIDES),
            "deep page, {to} clusters: {:?}",
            cost.read
        );
    }
}
