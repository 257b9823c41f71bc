//! A separate database for each test: an SQLite file, or one on the PostgreSQL server that
//! `GALVO_TEST_DATABASE_URL` names. If that runs Citus (`GALVO_TEST_CITUS_URL` in `make test`), each
//! database is distributed with that server as its only node.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use galvo::store::{Store, StoreUrl};
use sea_orm::{ConnectOptions, ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// The URL of PostgreSQL, if the suite runs on it.
const URL_VARIABLE: &str = "GALVO_TEST_DATABASE_URL";

/// The name of the SQLite file.
const FILE_NAME: &str = "galvo.db";

/// A migrated, empty database.
pub struct Database {
    url: String,
    /// Holds the SQLite file until the test is over.
    directory: Option<Arc<TempDir>>,
    /// Drops a distributed database after the test.
    drop_guard: Option<Arc<DropGuard>>,
}

/// A database that is dropped with this value. Each distributed one occupies a background process, of
/// which a server has a limited number.
struct DropGuard {
    server: String,
    url: String,
}

impl Drop for DropGuard {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), name_in(&self.url).to_owned());
        // Drop is not async and must not block the test's runtime.
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let admin = sea_orm::Database::connect(server).await.unwrap();
                let drop = format!("DROP DATABASE {name} WITH (FORCE)");
                admin.execute_unprepared(&drop).await.unwrap();
                admin.close().await.unwrap();
            });
        });
        let ended = dropping.join().is_ok();
        assert!(ended || thread::panicking(), "{} was not dropped", name_in(&self.url));
    }
}

impl Database {
    /// A migrated, empty database.
    pub async fn migrated() -> Self {
        static FILE: OnceCell<Vec<u8>> = OnceCell::const_new();
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let Ok(server) = std::env::var(URL_VARIABLE) else {
            let database = Self::empty().await;
            fs::write(database.path(), FILE.get_or_init(migrated_file).await).unwrap();
            return database;
        };
        if is_citus(&server).await {
            let database = Self::empty().await;
            Store::migrate(&database.store_url()).await.unwrap();
            return database;
        }
        let template = TEMPLATE.get_or_init(|| migrated_template(&server)).await;
        Self::created(create(&server, Some(template)).await)
    }

    /// A migrated, empty database that is not distributed, even on Citus.
    pub async fn on_one_machine() -> Self {
        match std::env::var(URL_VARIABLE) {
            Ok(server) if is_citus(&server).await => {
                let database = Self::created(create(&server, None).await);
                Store::migrate(&database.store_url()).await.unwrap();
                database
            }
            _ => Self::migrated().await,
        }
    }

    /// A database without any table.
    pub async fn empty() -> Self {
        if let Ok(server) = std::env::var(URL_VARIABLE) {
            let mut database = Self::created(create(&server, None).await);
            if is_citus(&server).await {
                distribute(&database.url).await;
                database.drop_guard = Some(Arc::new(DropGuard { server, url: database.url.clone() }));
            }
            return database;
        }
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", directory.path().join(FILE_NAME).display());
        Self { url, directory: Some(Arc::new(directory)), drop_guard: None }
    }

    /// A database of PostgreSQL, which remains until the server is discarded.
    fn created(url: String) -> Self {
        Self { url, directory: None, drop_guard: None }
    }

    /// The path of the SQLite file.
    fn path(&self) -> PathBuf {
        self.directory.as_ref().expect("it is SQLite's").path().join(FILE_NAME)
    }

    /// Another handle to the same database.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { url: self.url.clone(), directory: self.directory.clone(), drop_guard: self.drop_guard.clone() }
    }

    /// Its URL, as `--database-url` takes it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its parsed URL.
    #[must_use]
    pub fn store_url(&self) -> StoreUrl {
        self.url.parse().unwrap()
    }

    /// Makes it reject writes, like a database that is down or busy for too long.
    pub async fn go_away(&self) -> Outage {
        let Ok(server) = std::env::var(URL_VARIABLE) else {
            let connection = self.connection().await;
            connection.execute_unprepared("BEGIN IMMEDIATE").await.unwrap();
            return Outage { connection, end: "ROLLBACK".to_owned() };
        };
        let admin = sea_orm::Database::connect(server).await.unwrap();
        let name = name_in(&self.url);
        for statement in [
            format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"),
            format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"),
        ] {
            admin.execute_unprepared(&statement).await.unwrap();
        }
        Outage { connection: admin, end: format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true") }
    }

    /// A connection that bypasses the server, to compare its responses with the rows.
    pub async fn connection(&self) -> DatabaseConnection {
        sea_orm::Database::connect(&self.url).await.unwrap()
    }

    /// A single connection with the settings that migrations need, for tests that run single steps.
    pub async fn migrating_connection(&self) -> DatabaseConnection {
        let mut options = ConnectOptions::new(&self.url);
        options.max_connections(1);
        let connection = sea_orm::Database::connect(options).await.unwrap();
        if connection.get_database_backend() == DatabaseBackend::Postgres {
            let sequential = "SET citus.multi_shard_modify_mode = 'sequential'";
            connection.execute_unprepared(sequential).await.unwrap();
        }
        connection
    }

    /// True if Citus distributes its rows.
    pub async fn is_citus(&self) -> bool {
        match std::env::var(URL_VARIABLE) {
            Ok(server) => is_citus(&server).await,
            Err(_) => false,
        }
    }
}

/// An SQL source of the numbers from `first` to `last` as the column `n`. PostgreSQL has a function for
/// this, and Citus supports no recursive query over all accounts.
#[must_use]
pub fn numbers(backend: DatabaseBackend, first: i64, last: i64) -> String {
    match backend {
        DatabaseBackend::Postgres => {
            format!("generate_series(CAST({first} AS BIGINT), CAST({last} AS BIGINT)) AS numbers(n)")
        }
        _ => format!(
            "(WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
              SELECT n FROM numbers) AS numbers"
        ),
    }
}

/// A database outage that lasts until `end`.
pub struct Outage {
    connection: DatabaseConnection,
    end: String,
}

impl Outage {
    /// Ends the outage.
    pub async fn end(self) {
        self.connection.execute_unprepared(&self.end).await.unwrap();
    }
}

/// All bytes of a migrated, empty file of SQLite.
async fn migrated_file() -> Vec<u8> {
    let database = Database::empty().await;
    Store::migrate(&database.store_url()).await.unwrap();
    // Recent changes may be in the WAL file, so a complete copy is needed.
    let copy = database.path().with_extension("copy");
    let connection = database.connection().await;
    connection.execute_unprepared(&format!("VACUUM INTO '{}'", copy.display())).await.unwrap();
    connection.close().await.unwrap();
    fs::read(copy).unwrap()
}

async fn migrated_template(server: &str) -> String {
    let url = create(server, None).await;
    Store::migrate(&url.parse::<StoreUrl>().unwrap()).await.unwrap();
    name_in(&url).to_owned()
}

async fn create(server: &str, template: Option<&str>) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("galvo_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let admin = sea_orm::Database::connect(server).await.unwrap();
    assert_eq!(
        admin.get_database_backend(),
        DatabaseBackend::Postgres,
        "{URL_VARIABLE} must name a PostgreSQL server"
    );
    let template = template.map(|template| format!(" TEMPLATE {template}")).unwrap_or_default();
    let create = format!("CREATE DATABASE {name}{template}");
    // PostgreSQL copies a template only while no other session uses it.
    let lock = "SELECT pg_advisory_lock(7)";
    admin.execute_raw(Statement::from_string(DatabaseBackend::Postgres, lock)).await.unwrap();
    admin.execute_raw(Statement::from_string(DatabaseBackend::Postgres, create)).await.unwrap();
    admin.close().await.unwrap();
    let (address, _) = server.rsplit_once('/').unwrap();
    format!("{address}/{name}")
}

fn name_in(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

/// True if the server runs Citus, and not only has it installed. Its databases cannot be copied, because
/// some of their rows are elsewhere.
async fn is_citus(server: &str) -> bool {
    static IS_CITUS: OnceCell<bool> = OnceCell::const_new();
    let ask = async || {
        let admin = sea_orm::Database::connect(server).await.unwrap();
        let libraries = "SELECT current_setting('shared_preload_libraries')";
        let found = admin.query_one_raw(Statement::from_string(DatabaseBackend::Postgres, libraries)).await;
        admin.close().await.unwrap();
        let libraries: String = found.unwrap().unwrap().try_get_by_index(0).unwrap();
        libraries.split(',').any(|library| library.trim() == "citus")
    };
    *IS_CITUS.get_or_init(ask).await
}

/// Distributes a database with Citus.
async fn distribute(url: &str) {
    let database = sea_orm::Database::connect(url).await.unwrap();
    for statement in [
        "CREATE EXTENSION citus",
        "SELECT citus_set_coordinator_host('localhost', current_setting('port')::int)",
        // A coordinator takes no shards by default.
        "SELECT citus_set_node_property('localhost', current_setting('port')::int, 'shouldhaveshards', true)",
        // Tables in tests have few rows.
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET citus.shard_count = 2', current_database()); END $$",
    ] {
        database.execute_unprepared(statement).await.unwrap();
    }
    database.close().await.unwrap();
}
