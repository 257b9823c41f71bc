//! Retention: data past its age is deleted by table and account, and no other data is.

use std::collections::BTreeMap;

use galvo::{encryption::Keys, key_ring::KeySource};
use harness::{Database, Member, ReportBuilder, TestApp, computation, error, task_group};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement, TransactionTrait};
use serde_json::json;

const DAY: i64 = 86_400_000;

/// 2026-11-20T12:00:00Z, a Friday, the time of the tests' clocks.
const NOW: i64 = 1_795_176_000_000;

/// Tables whose rows have an age: the columns after the cluster and the age, with values, where `{n}` is
/// a number that distinguishes rows; and the default retention in days.
const AGED: [(&str, &str, &str, &str, i64); 7] = [
    ("worker_sample_chunks", "started_at", "worker_id, samples, data", "{id}, 1, {blob}", 2),
    ("cluster_sample_chunks", "started_at", "samples, data", "1, {blob}", 90),
    ("function_activity_chunks", "started_at", "functions, data", "1, {blob}", 365),
    (
        "profiles",
        "started_at",
        "id, stopped_at, workers, samples, key_id, sealed",
        "{id}, 0, 1, 1, 0, {blob}",
        30,
    ),
    ("events", "occurred_at", "id, arrived_at, topic, data", "{id}, 0, 'all', '{}'", 30),
    (
        "log_lines",
        "logged_at",
        "id, arrived_at, source, level, logger, repeated, key_id, sealed",
        "{id}, 0, 'worker', 'INFO', 'x', 1, 0, {blob}",
        30,
    ),
    (
        "error_occurrences",
        "occurred_at",
        "id, arrived_at, key, origin, retries, key_id, sealed",
        "{id}, 0, 'x', {origin}, 0, 0, {blob}",
        365,
    ),
];

/// Direct access to a server's database.
struct Rows {
    connection: DatabaseConnection,
    number: u128,
}

impl Rows {
    async fn of(app: &TestApp) -> Self {
        Self { connection: app.database.connection().await, number: 0 }
    }

    fn is_postgres(&self) -> bool {
        self.connection.get_database_backend() == DatabaseBackend::Postgres
    }

    async fn run(&self, sql: &str) {
        self.connection.execute_unprepared(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Adds a row of a table of [`AGED`] to a cluster, at a time.
    async fn add(&mut self, table: &str, cluster: i64, at: i64) {
        self.number += 1;
        let (_, age, columns, values, _) = AGED.iter().find(|(name, ..)| *name == table).unwrap();
        let (id, blob) = if self.is_postgres() {
            (format!("'{}'", harness::uuid(self.number)), "'\\x00'")
        } else {
            (format!("X'{:032x}'", self.number), "X'00'")
        };
        let origin = ["'dask'", "'user'", "'unknown'"][(self.number % 3) as usize];
        let values = values.replace("{id}", &id).replace("{blob}", blob).replace("{origin}", origin);
        self.run(&format!(
            "INSERT INTO {table} (account_id, cluster_id, {age}, {columns}) \
             SELECT account_id, id, {at}, {values} FROM clusters WHERE id = {cluster}"
        ))
        .await;
    }

    /// The numbers in the first column of a query.
    async fn numbers(&self, sql: &str) -> Vec<i64> {
        let statement = Statement::from_string(self.connection.get_database_backend(), sql);
        let rows = self.connection.query_all_raw(statement).await.unwrap();
        rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
    }

    /// The ages of a table's rows in days, for a cluster.
    async fn days(&self, table: &str, cluster: i64) -> Vec<i64> {
        let (_, age, ..) = AGED.iter().find(|(name, ..)| *name == table).unwrap();
        let times = self
            .numbers(&format!("SELECT {age} FROM {table} WHERE cluster_id = {cluster} ORDER BY {age} DESC"))
            .await;
        times.into_iter().map(|time| (NOW - time) / DAY).collect()
    }

    async fn keep(&self, slug: &str, class: &str, days: i64) {
        self.run(&format!(
            "INSERT INTO data_policies (account_id, data_class, accepted, retention_days) \
             SELECT id, '{class}', true, {days} FROM accounts WHERE slug = '{slug}'"
        ))
        .await;
    }
}

async fn cluster_of(member: &Member) -> i64 {
    member.reported(&ReportBuilder::new(&format!("Scheduler-{}", member.slug()), 1).build()).await
}

#[tokio::test]
async fn rows_go_a_day_after_their_time_and_not_a_day_before() {
    let app = TestApp::start().await;
    let cluster = cluster_of(&app.account("ada").await).await;
    let mut rows = Rows::of(&app).await;
    for (table, _, _, _, days) in AGED {
        // Twice, so that errors of all origins are included.
        for minute in 0..2 {
            for days in [days - 1, days + 1] {
                rows.add(table, cluster, NOW - days * DAY - minute * 60_000).await;
            }
        }
    }
    let removed = app.run_jobs().await;
    for (table, _, _, _, days) in AGED {
        assert_eq!(rows.days(table, cluster).await, [days - 1, days - 1], "{table}");
        assert_eq!(removed.get(&format!("retention.{table}")), Some(&2), "{table}");
    }
    assert_eq!(app.run_jobs().await, BTreeMap::new(), "nothing is left to do");
    app.set_clock("2026-11-22T12:00:01Z");
    app.run_jobs().await;
    for (table, ..) in AGED {
        assert_eq!(rows.days(table, cluster).await, Vec::<i64>::new(), "{table}");
    }
    app.stop().await;
}

#[tokio::test]
async fn an_account_keeps_data_for_its_retention() {
    let app = TestApp::start().await;
    let (ada, bob, eve) = (app.account("ada").await, app.account("bob").await, app.account("eve").await);
    let clusters = [cluster_of(&ada).await, cluster_of(&bob).await, cluster_of(&eve).await];
    let mut rows = Rows::of(&app).await;
    rows.keep("ada", "events", 5).await;
    rows.keep("bob", "events", 100).await;
    rows.keep("bob", "basic", 10).await;
    for cluster in clusters {
        for days in [1, 4, 6, 29, 31, 99, 101] {
            rows.add("events", cluster, NOW - days * DAY).await;
            rows.add("cluster_sample_chunks", cluster, NOW - days * DAY).await;
            rows.add("worker_sample_chunks", cluster, NOW - days * DAY).await;
        }
    }
    app.run_jobs().await;
    let [ada, bob, eve] = clusters;
    assert_eq!(rows.days("events", ada).await, [1, 4]);
    assert_eq!(rows.days("events", bob).await, [1, 4, 6, 29, 31, 99]);
    assert_eq!(rows.days("events", eve).await, [1, 4, 6, 29]);
    assert_eq!(rows.days("cluster_sample_chunks", ada).await, [1, 4, 6, 29, 31]);
    assert_eq!(rows.days("cluster_sample_chunks", bob).await, [1, 4, 6]);
    assert_eq!(rows.days("worker_sample_chunks", bob).await, [1]);
    app.stop().await;
}

#[tokio::test]
async fn tasks_go_with_the_year_their_cluster_last_reported_in() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |scheduler: &str, number: u128| {
        ReportBuilder::new(scheduler, 1)
            .with("/task_groups", json!([task_group(number, "x", 1)]))
            .with("/computations", json!([computation(number, &[number])]))
            .with("/errors", json!([error(number, number, number)]))
            .build()
    };
    ada.reported(&report("Scheduler-1", 1)).await;
    app.set_clock("2026-11-22T12:00:00Z");
    ada.reported(&report("Scheduler-2", 2)).await;
    let query = "{ viewer { account { clusters { nodes { schedulerId \
                 taskGroups { nodes { prefix } } computations { nodes { state } } } } } } }";
    app.set_clock("2027-11-21T12:00:00Z");
    let removed = app.run_jobs().await;
    let tables = ["task_groups", "computations", "computation_task_groups", "error_occurrences"];
    let counts = tables.map(|table| removed.get(&format!("retention.{table}")).copied());
    assert_eq!(counts, [Some(1), Some(1), Some(1), Some(2)], "{removed:?}");
    let answer = ada.query(query, json!({})).await;
    let mut nodes = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().clone();
    nodes.sort_by_key(|node| node["schedulerId"].to_string());
    assert_eq!(
        json!(nodes),
        json!([
            { "schedulerId": "Scheduler-1", "taskGroups": { "nodes": [] }, "computations": { "nodes": [] } },
            {
                "schedulerId": "Scheduler-2",
                "taskGroups": { "nodes": [{ "prefix": "x" }] },
                "computations": { "nodes": [{ "state": "FINISHED" }] },
            },
        ])
    );
    // A scheduler that returns after this time has to resend everything, and not only its changes.
    for (scheduler, resend) in [("Scheduler-1", true), ("Scheduler-2", false)] {
        let (_, answer) = ada.report(&ReportBuilder::new(scheduler, 2).with("/base", 1).build()).await;
        assert_eq!(answer["resend"], resend, "{scheduler}");
    }
    app.stop().await;
}

#[tokio::test]
async fn code_and_groups_of_errors_go_by_their_last_use() {
    let app = TestApp::start().await;
    app.account("ada").await;
    let rows = Rows::of(&app).await;
    let blob = if rows.is_postgres() { "'\\x00'::bytea" } else { "X'00'" };
    // Their time is rounded down to the day, so they are kept one day longer.
    for days in [90, 92] {
        rows.run(&format!(
            "INSERT INTO code_snippets (account_id, hash, last_used_at, key_id, sealed) \
             SELECT id, '{days}', {}, 0, {blob} FROM accounts",
            NOW - days * DAY
        ))
        .await;
    }
    let groups = ["user", "dask", "unknown"].into_iter().flat_map(|origin| [(origin, 364), (origin, 366)]);
    for (number, (origin, days)) in (1_u128..).zip(groups) {
        let id = if rows.is_postgres() {
            format!("'{}'::uuid", harness::uuid(number))
        } else {
            format!("X'{number:032x}'")
        };
        rows.run(&format!(
            "INSERT INTO error_groups (account_id, id, origin, first_seen_at, last_seen_at, key_id, sealed, status) \
             SELECT id, {id}, '{origin}', 0, {}, 0, {blob}, 'open' FROM accounts",
            NOW - days * DAY
        ))
        .await;
    }
    let removed = app.run_jobs().await;
    assert_eq!(removed.get("retention.code_snippets"), Some(&1));
    assert_eq!(removed.get("retention.error_groups"), Some(&3));
    let left = rows.numbers("SELECT last_used_at FROM code_snippets").await;
    assert_eq!(left, [NOW - 90 * DAY]);
    let left = rows.numbers("SELECT last_seen_at FROM error_groups").await;
    assert_eq!(left, [NOW - 364 * DAY; 3]);
    app.stop().await;
}

#[tokio::test]
async fn two_servers_may_run_their_rounds_at_once() {
    let app = TestApp::start().await;
    let cluster = cluster_of(&app.account("ada").await).await;
    let rows = Rows::of(&app).await;
    let id = if rows.is_postgres() {
        "lpad(to_hex(n), 32, '0')::uuid"
    } else {
        "CAST(printf('%016d', n) AS BLOB)"
    };
    // One every 72 seconds, from 27 days ago: 3600 of them are younger than 30 days, the others take
    // several batches.
    rows.run(&format!(
        "INSERT INTO events (account_id, cluster_id, occurred_at, id, arrived_at, topic, data) \
         SELECT account_id, c.id, {} - CAST(n AS BIGINT) * 72000, {id}, 0, 'all', '' \
         FROM clusters c, {} WHERE c.id = {cluster}",
        NOW - 27 * DAY + 1,
        harness::numbers(rows.connection.get_database_backend(), 1, 10_000)
    ))
    .await;
    let other = TestApp::start_beside(&app, KeySource::Ring(Keys::generate())).await;
    tokio::join!(app.run_jobs(), other.run_jobs());
    assert_eq!(rows.days("events", cluster).await.len(), 3_600);
    other.stop().await;
    app.stop().await;
}

#[tokio::test]
async fn partitions_are_made_ahead_and_dropped_when_nobody_needs_them() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let cluster = cluster_of(&ada).await;
    cluster_of(&bob).await;
    let mut rows = Rows::of(&app).await;
    if !rows.is_postgres() {
        app.stop().await;
        return;
    }
    // Before today's partition exists, rows are in the default partition.
    rows.add("events", cluster, NOW).await;
    rows.add("events", cluster, NOW - 7 * DAY).await;
    let in_default = "SELECT occurred_at FROM events_default ORDER BY 1";
    assert_eq!(rows.numbers(in_default).await, [NOW - 7 * DAY, NOW]);
    let done = app.run_jobs().await;
    assert_eq!(done.get("partitions.made"), Some(&18), "three weeks of six tables: {done:?}");
    assert_eq!(done.get("partitions.rows_moved"), Some(&1));
    assert_eq!(rows.numbers(in_default).await, [NOW - 7 * DAY]);
    assert_eq!(rows.numbers("SELECT occurred_at FROM events_w20261116").await, [NOW]);
    let partitions = "SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhrelid \
                      WHERE relkind = 'r' AND relname LIKE 'events_w%'";
    assert_eq!(rows.numbers(partitions).await, [3]);
    assert_eq!(app.run_jobs().await, BTreeMap::new());
    // Its rows are deleted with their cluster, like those of any other table.
    let constraints = "SELECT count(*) FROM pg_constraint WHERE contype IN ('f', 'p') \
                       AND conrelid = 'events_w20261116'::regclass";
    assert_eq!(rows.numbers(constraints).await, [2]);

    // The week from the 16th to the 23rd of November: 30 days later, it is the 23rd of December.
    app.set_clock("2026-12-22T23:59:59Z");
    rows.keep("ada", "events", 7).await;
    app.run_jobs().await;
    assert_eq!(rows.numbers("SELECT count(*) FROM events_w20261116").await, [0], "ada keeps it for a week");
    assert_eq!(rows.numbers(partitions).await, [6], "bob may still need it");
    app.set_clock("2026-12-23T00:00:00Z");
    let done = app.run_jobs().await;
    // Worker samples, which are kept for two days only, were dropped in the previous round.
    assert_eq!(done.get("retention.partitions_dropped"), Some(&3), "{done:?}");
    assert_eq!(rows.numbers(partitions).await, [5]);

    // A report this late is accepted, and its rows are deleted in the next round.
    rows.add("events", cluster, NOW).await;
    assert_eq!(rows.numbers(in_default).await, [NOW]);
    app.run_jobs().await;
    assert_eq!(rows.numbers(in_default).await, Vec::<i64>::new());
    app.stop().await;
}

#[tokio::test]
async fn a_query_finds_rows_that_move_to_their_partition_meanwhile() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let cluster = cluster_of(&ada).await;
    let mut rows = Rows::of(&app).await;
    if !rows.is_postgres() {
        app.stop().await;
        return;
    }
    rows.add("events", cluster, NOW).await;
    // The partition cannot be attached while another session has this lock.
    let held = rows.connection.begin().await.unwrap();
    held.execute_unprepared("LOCK TABLE events IN SHARE UPDATE EXCLUSIVE MODE").await.unwrap();
    let watch = Rows::of(&app).await;
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = \
                   (SELECT oid FROM pg_database WHERE datname = current_database())";
    let until = async |count: i64| {
        while watch.numbers(waiting).await[0] < count {
            tokio::task::yield_now().await;
        }
    };
    let query = "query($id: ID!) { cluster(id: $id) { events(first: 5) { nodes { at } } } }";
    let read = async {
        until(1).await;
        ada.query(query, json!({ "id": cluster.to_string() })).await
    };
    let release = async {
        until(2).await;
        held.rollback().await.unwrap();
    };
    let (done, found, ()) = tokio::join!(app.run_jobs(), read, release);
    assert_eq!(done.get("partitions.rows_moved"), Some(&1), "{done:?}");
    assert_eq!(found["cluster"]["events"]["nodes"], json!([{ "at": "2026-11-20T12:00:00+00:00" }]));
    app.stop().await;
}

#[tokio::test]
async fn jobs_run_by_themselves_and_end_with_the_server() {
    let app = TestApp::start().await;
    let cluster = cluster_of(&app.account("ada").await).await;
    let mut rows = Rows::of(&app).await;
    rows.add("events", cluster, NOW - 31 * DAY).await;
    let database: Database = app.stop_keeping().await;
    let app = TestApp::start_on(database, KeySource::Ring(Keys::generate()), |serve| serve.jobs = true).await;
    let gone = async {
        while !rows.days("events", cluster).await.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), gone).await.unwrap();
    app.stop().await;
}
