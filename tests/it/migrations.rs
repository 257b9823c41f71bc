//! The database schema: up, down and up again, concurrently, and conforming to its rules.

use std::time::Duration;

use entity::{Timestamp, account, ids::AccountId};
use galvo::{encryption::Keys, key_ring::KeySource, store::Store};
use harness::{Database, ReportBuilder, TestApp};
use migration::{Migrator, MigratorTrait};
use sea_orm::{
    ActiveModelTrait, ConnectionTrait, DatabaseBackend, DatabaseConnection, EntityTrait, IntoActiveModel,
    Statement, TransactionTrait, Value,
};

async fn column(database: &DatabaseConnection, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(database.get_database_backend(), sql);
    let rows = database.query_all_raw(statement).await.unwrap();
    rows.into_iter().map(|row| row.try_get_by_index::<String>(0).unwrap()).collect()
}

async fn tables(database: &DatabaseConnection) -> Vec<String> {
    let sql = match database.get_database_backend() {
        DatabaseBackend::Postgres => {
            "SELECT tablename::text FROM pg_tables JOIN pg_class ON relname = tablename \
             WHERE schemaname = 'public' AND NOT relispartition ORDER BY 1"
        }
        _ => "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY 1",
    };
    let mut tables = column(database, sql).await;
    tables.retain(|table| table != "seaql_migrations");
    tables
}

#[tokio::test]
async fn up_down_and_up_again() {
    let database = Database::empty().await;
    let connection = database.migrating_connection().await;
    Migrator::up(&connection, None).await.unwrap();
    let after_up = tables(&connection).await;
    assert_eq!(
        after_up,
        [
            "account_removals",
            "accounts",
            "alert_deliveries",
            "alert_rules",
            "alerts",
            "api_tokens",
            "audit_entries",
            "client_spans",
            "clients",
            "cluster_controls",
            "cluster_counters",
            "cluster_flags",
            "cluster_notes",
            "cluster_removals",
            "cluster_reporters",
            "cluster_sample_chunks",
            "cluster_tags",
            "clusters",
            "code_snippets",
            "computation_shares",
            "computation_task_groups",
            "computations",
            "cost_rates",
            "data_policies",
            "default_accounts",
            "encryption_keys",
            "environments",
            "error_groups",
            "error_occurrences",
            "events",
            "fine_metric_totals",
            "fine_metrics",
            "flag_mutes",
            "function_activity_chunks",
            "function_usage_days",
            "function_usage_hours",
            "identities",
            "idle_policies",
            "ingest_days",
            "invitations",
            "log_lines",
            "memberships",
            "passwords",
            "performance_report_pieces",
            "performance_reports",
            "profiles",
            "quotas",
            "removed_members",
            "retention_watch",
            "saved_views",
            "sessions",
            "sign_in_links",
            "spans",
            "task_groups",
            "thread_changes",
            "token_policies",
            "token_requests",
            "usage_days",
            "usage_hours",
            "users",
            "worker_sample_chunks",
            "workers",
        ]
    );
    Migrator::down(&connection, None).await.unwrap();
    assert_eq!(tables(&connection).await, Vec::<String>::new());
    Migrator::up(&connection, None).await.unwrap();
    assert_eq!(tables(&connection).await, after_up);
}

#[tokio::test]
async fn texts_of_errors_stored_in_the_open_can_still_be_read() {
    let database = Database::empty().await;
    let connection = database.migrating_connection().await;
    // Up to the step at which texts of errors had their own columns.
    Migrator::up(&connection, Some(9)).await.unwrap();
    let account = uuid::Uuid::from_u128(1);
    let now = Timestamp::from(chrono::DateTime::UNIX_EPOCH);
    let row = account::Model {
        id: AccountId(account),
        slug: "ada".to_owned(),
        name: "ada".to_owned(),
        created_at: now,
    };
    row.into_active_model().reset_all().insert(&connection).await.unwrap();
    let values = |sql: &str, values: Vec<Value>| {
        let placeholders =
            (1..=values.len()).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ");
        Statement::from_sql_and_values(
            connection.get_database_backend(),
            format!("{sql} ({placeholders})"),
            values,
        )
    };
    let cluster = "INSERT INTO clusters (account_id, id, scheduler_id, status, desired_state, sequence, \
        complete_until, reported_at, interval_seconds, first_seen_at, last_seen_at, started_at, workers, threads, \
        memory_used_bytes, total_tasks, total_tasks_succeeded, total_tasks_erred, total_errors, \
        total_compute_seconds, total_transfer_seconds, total_thread_seconds, total_bytes, total_workers, \
        peak_workers, peak_threads, dropped_computations, dropped_task_groups, dropped_errors) VALUES";
    let mut row: Vec<Value> =
        vec![account.into(), 7_i64.into(), "Scheduler-1".into(), "closed".into(), "running".into()];
    row.extend([1_i64, 1, 0].map(Value::from));
    row.push(1.5.into());
    row.extend([0_i64; 10].map(Value::from));
    row.extend([0.5; 3].map(Value::from));
    row.extend([0_i64, 0, 0, 0, 1, 2, 3].map(Value::from));
    connection.execute_raw(values(cluster, row)).await.unwrap();
    let message = "KeyError('\"quoted\" \\ and ünïcode')";
    let error = "INSERT INTO error_occurrences (account_id, cluster_id, id, occurred_at, key, message, traceback) VALUES";
    let row: Vec<Value> = vec![
        account.into(),
        7_i64.into(),
        uuid::Uuid::from_u128(2).into(),
        1_000_i64.into(),
        "x".into(),
        message.into(),
        "line 1\n\tline 2\n".into(),
    ];
    connection.execute_raw(values(error, row)).await.unwrap();

    Migrator::up(&connection, None).await.unwrap();
    let app = TestApp::start_on(database, KeySource::Ring(Keys::generate()), |_| {}).await;
    let ada = app.member("ada", "ada").await;
    let query = "{ account(slug: \"ada\") { clusters { nodes { dropped { computations taskGroups errors } \
                 errors { nodes { message traceback } } } } } }";
    let answer = ada.query(query, serde_json::json!({})).await;
    let cluster = &answer["account"]["clusters"]["nodes"][0];
    let dropped = serde_json::json!({ "computations": 1, "taskGroups": 2, "errors": 3 });
    assert_eq!(cluster["dropped"], dropped);
    assert_eq!(
        cluster["errors"]["nodes"][0],
        serde_json::json!({ "message": message, "traceback": "line 1\n\tline 2\n" })
    );
    // The numbers of later clusters count on from the largest one.
    assert_eq!(ada.reported(&ReportBuilder::new("Scheduler-2", 1).build()).await, 8);
    app.stop().await;
}

#[tokio::test]
async fn what_was_stored_before_bytes_were_counted_by_cluster_still_counts() {
    let database = Database::empty().await;
    let connection = database.migrating_connection().await;
    let migrations = Migrator::migrations();
    let name = "m20261128_000061_count_bytes_by_cluster";
    let before = migrations.iter().position(|migration| migration.name() == name).unwrap();
    let steps = |steps: usize| Some(u32::try_from(steps).unwrap());
    Migrator::up(&connection, steps(before)).await.unwrap();
    let account = AccountId(uuid::Uuid::from_u128(1));
    let now = Timestamp::from(chrono::DateTime::UNIX_EPOCH);
    let row = account::Model { id: account, slug: "ada".to_owned(), name: "ada".to_owned(), created_at: now };
    row.into_active_model().reset_all().insert(&connection).await.unwrap();
    for part in 0..4_i64 {
        // 2026-11-20, which is today.
        let sql = "INSERT INTO ingest_days (account_id, day, part, basic_bytes, task_bytes, error_bytes, code_bytes, \
            profile_bytes, event_bytes, log_bytes, clusters) VALUES ($1, 20777, $2, 0, 0, 0, 0, 0, 0, $3, 1)";
        let values = [account.0.into(), part.into(), (100 + part).into()];
        let backend = connection.get_database_backend();
        connection.execute_raw(Statement::from_sql_and_values(backend, sql, values)).await.unwrap();
    }
    let parts = async || {
        column(&connection, "SELECT CAST(part AS TEXT) FROM ingest_days ORDER BY ingest_days.part").await
    };
    Migrator::up(&connection, None).await.unwrap();
    assert_eq!(parts().await, ["-4", "-3", "-2", "-1"]);
    Migrator::down(&connection, steps(migrations.len() - before)).await.unwrap();
    assert_eq!(parts().await, ["0", "1", "2", "3"]);
    Migrator::up(&connection, None).await.unwrap();
    let app = TestApp::start_on(database, KeySource::Ring(Keys::generate()), |_| {}).await;
    let ada = app.member("ada", "ada").await;
    let query = "{ account(slug: \"ada\") { quota { storedBytes { used } dailyBytes { used } dailyClusters { used } } } }";
    let answer = ada.query(query, serde_json::json!({})).await;
    assert_eq!(
        answer["account"]["quota"],
        serde_json::json!({ "storedBytes": { "used": 406 }, "dailyBytes": { "used": 406 },
            "dailyClusters": { "used": 4 } })
    );
    app.stop().await;
}

#[tokio::test]
async fn several_processes_may_migrate_at_once() {
    let database = Database::empty().await;
    let url = database.store_url();
    let results = futures::future::join_all((0..6).map(|_| Store::migrate(&url))).await;
    for result in results {
        result.unwrap();
    }
    let connection = database.connection().await;
    assert_eq!(
        column(&connection, "SELECT version FROM seaql_migrations").await.len(),
        Migrator::migrations().len()
    );
}

#[tokio::test]
async fn a_migration_waits_for_one_that_takes_longer_than_a_request_may() {
    let database = Database::empty().await;
    let connection = database.connection().await;
    let url = database.store_url();
    // The lock that another process's migration holds.
    let (before, lock) = match connection.get_database_backend() {
        DatabaseBackend::Postgres => ("SELECT 1", "SELECT pg_advisory_xact_lock(113668129189633)"),
        _ => ("PRAGMA journal_mode = WAL", "CREATE TABLE being_made (id INTEGER)"),
    };
    connection.execute_unprepared(before).await.unwrap();
    let other = connection.begin().await.unwrap();
    other.execute_unprepared(lock).await.unwrap();
    let waiting = tokio::spawn(async move { Store::migrate(&url).await });
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!waiting.is_finished());
    other.rollback().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(
        column(&connection, "SELECT version FROM seaql_migrations").await.len(),
        Migrator::migrations().len()
    );
}

#[tokio::test]
async fn every_entity_reads_its_table() {
    let database = Database::migrated().await;
    let connection = database.connection().await;
    macro_rules! reads {
        ($($table:ident),+) => {$(
            assert_eq!(entity::$table::Entity::find().all(&connection).await.unwrap(), Vec::new(), stringify!($table));
        )+};
    }
    reads!(
        account,
        alert,
        alert_delivery,
        alert_rule,
        api_token,
        audit_entry,
        client,
        client_span,
        cluster,
        cluster_control,
        cluster_counter,
        cluster_flag,
        cluster_note,
        cluster_sample_chunk,
        cluster_tag,
        code_snippet,
        computation,
        computation_share,
        computation_task_group,
        cost_rate,
        data_policy,
        default_account,
        encryption_key,
        environment,
        error_group,
        error_occurrence,
        event,
        fine_metric,
        flag_mute,
        function_activity_chunk,
        function_usage_day,
        function_usage_hour,
        identity,
        idle_policy,
        ingest_day,
        invitation,
        log_line,
        membership,
        password,
        profile,
        quota,
        removed_member,
        retention_watch,
        session,
        span,
        task_group,
        thread_change,
        token_policy,
        token_request,
        usage_day,
        usage_hour,
        user,
        worker,
        worker_sample_chunk
    );
}

/// Small, rarely written tables, which are read before an account is known, or belong to none.
const REFERENCE_TABLES: [&str; 12] = [
    "accounts",
    "api_tokens",
    "default_accounts",
    "encryption_keys",
    "identities",
    "invitations",
    "passwords",
    "retention_watch",
    "sessions",
    "sign_in_links",
    "token_requests",
    "users",
];

/// The index by which a user's accounts are found, before one of them is known.
const ACCOUNTS_OF_A_USER: &str = "memberships_user_idx:user_id";

#[tokio::test]
async fn the_account_leads_every_key_of_a_tenant_table() {
    let database = Database::migrated().await;
    let connection = database.connection().await;
    for table in tables(&connection).await {
        if REFERENCE_TABLES.contains(&table.as_str()) {
            continue;
        }
        let sql = match connection.get_database_backend() {
            DatabaseBackend::Postgres => format!(
                "SELECT i.relname || ':' || a.attname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
                 JOIN pg_class t ON t.oid = x.indrelid JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
                 WHERE t.relname = '{table}'"
            ),
            _ => format!(
                "SELECT i.name || ':' || c.name FROM pragma_index_list('{table}') i, pragma_index_info(i.name) c WHERE c.seqno = 0"
            ),
        };
        let indexes = column(&connection, &sql).await;
        assert!(!indexes.is_empty(), "{table} has no primary key");
        for index in indexes {
            assert!(index.ends_with(":account_id") || index == ACCOUNTS_OF_A_USER, "{table}: {index}");
        }
        let foreign = match connection.get_database_backend() {
            DatabaseBackend::Postgres => format!(
                "SELECT c.conname || ':' || a.attname FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
                 JOIN pg_class r ON r.oid = c.confrelid
                 JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1]
                 WHERE c.contype = 'f' AND t.relname = '{table}' AND r.relname NOT IN ('users')"
            ),
            _ => format!(
                "SELECT \"table\" || ':' || \"from\" FROM pragma_foreign_key_list('{table}') WHERE seq = 0 AND \"table\" <> 'users'"
            ),
        };
        let foreign = column(&connection, &foreign).await;
        assert!(!foreign.is_empty(), "{table} does not refer to its account");
        for key in foreign {
            assert!(key.ends_with(":account_id"), "{table}: {key}");
        }
    }
}

#[tokio::test]
async fn there_is_nothing_a_distributed_database_refuses() {
    let database = Database::migrated().await;
    let connection = database.connection().await;
    let queries: &[&str] = match connection.get_database_backend() {
        DatabaseBackend::Postgres => &[
            "SELECT typname::text FROM pg_type WHERE typtype = 'e' AND typnamespace = 'public'::regnamespace",
            "SELECT tgname::text FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
             WHERE NOT tgisinternal AND relnamespace = 'public'::regnamespace",
            "SELECT table_name || '.' || column_name FROM information_schema.columns
             WHERE table_schema = 'public' AND table_name <> 'seaql_migrations' AND column_default IS NOT NULL",
            "SELECT table_name || '.' || column_name FROM information_schema.columns
             WHERE table_schema = 'public' AND table_name <> 'seaql_migrations' AND data_type LIKE 'timestamp%'",
        ],
        _ => &[
            "SELECT name FROM sqlite_master WHERE type = 'trigger'",
            "SELECT m.name || '.' || c.name FROM sqlite_master m, pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name <> 'seaql_migrations' AND c.dflt_value IS NOT NULL",
        ],
    };
    for query in queries {
        assert_eq!(column(&connection, query).await, Vec::<String>::new(), "{query}");
    }
}

#[tokio::test]
async fn a_release_that_is_being_replaced_starts_on_the_schema_of_the_next() {
    let database = Database::migrated().await;
    let connection = database.connection().await;
    let run = async |sql: &str| connection.execute_unprepared(sql).await.unwrap();
    run("INSERT INTO seaql_migrations (version, applied_at) VALUES ('m20990101_000001_next', 1)").await;
    Store::migrate(&database.store_url()).await.unwrap();
    // A database that lacks a step of this release and has an unknown one belongs to no release.
    let last = Migrator::migrations().last().unwrap().name().to_owned();
    run(&format!("DELETE FROM seaql_migrations WHERE version = '{last}'")).await;
    let error = Store::migrate(&database.store_url()).await.unwrap_err();
    assert!(format!("{error:?}").contains("m20990101_000001_next"), "{error:?}");
}
