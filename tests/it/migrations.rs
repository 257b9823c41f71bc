//! The schema: up, down and up again, by several at once, and true to its rules.

use galvo::store::Store;
use harness::Database;
use migration::{Migrator, MigratorTrait};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, EntityTrait, Statement};

async fn column(database: &DatabaseConnection, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(database.get_database_backend(), sql);
    let rows = database.query_all_raw(statement).await.unwrap();
    rows.into_iter().map(|row| row.try_get_by_index::<String>(0).unwrap()).collect()
}

async fn tables(database: &DatabaseConnection) -> Vec<String> {
    let sql = match database.get_database_backend() {
        DatabaseBackend::Postgres => {
            "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
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
    let connection = database.connection().await;
    Migrator::up(&connection, None).await.unwrap();
    let after_up = tables(&connection).await;
    assert_eq!(
        after_up,
        [
            "accounts",
            "api_tokens",
            "clusters",
            "computation_task_groups",
            "computations",
            "error_occurrences",
            "memberships",
            "task_groups",
            "users",
        ]
    );
    Migrator::down(&connection, None).await.unwrap();
    assert_eq!(tables(&connection).await, Vec::<String>::new());
    Migrator::up(&connection, None).await.unwrap();
    assert_eq!(tables(&connection).await, after_up);
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
        api_token,
        cluster,
        computation,
        computation_task_group,
        error_occurrence,
        membership,
        task_group,
        user
    );
}

/// Tables that are few and written rarely: they are looked up before an account is known.
const REFERENCE_TABLES: [&str; 3] = ["accounts", "api_tokens", "users"];

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
            assert!(index.ends_with(":account_id"), "{table}: {index}");
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
            "SELECT typname::text FROM pg_type WHERE typtype = 'e'",
            "SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal",
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
