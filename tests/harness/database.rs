//! A database of its own for each test: an SQLite file, or one on the PostgreSQL server that
//! `GALVO_TEST_DATABASE_URL` names. If that has Citus to offer (`GALVO_TEST_CITUS_URL` in `make test`), each database is
//! a distributed one, whose only machine that server is.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use galvo::store::{Store, StoreUrl};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// Where PostgreSQL is, when the suite runs on it.
const VARIABLE: &str = "GALVO_TEST_DATABASE_URL";

/// What a file of SQLite is called.
const FILE_NAME: &str = "galvo.db";

/// A migrated, empty database.
pub struct Database {
    url: String,
    /// Holds the SQLite file until the test is over.
    directory: Option<Arc<TempDir>>,
}

impl Database {
    /// A migrated, empty database.
    pub async fn migrated() -> Self {
        static FILE: OnceCell<Vec<u8>> = OnceCell::const_new();
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let Ok(server) = std::env::var(VARIABLE) else {
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
        Self { url: create(&server, Some(template)).await, directory: None }
    }

    /// A database without any table.
    pub async fn empty() -> Self {
        if let Ok(server) = std::env::var(VARIABLE) {
            return Self { url: create(&server, None).await, directory: None };
        }
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}?mode=rwc", directory.path().join(FILE_NAME).display());
        Self { url, directory: Some(Arc::new(directory)) }
    }

    /// Where SQLite has it.
    fn path(&self) -> PathBuf {
        self.directory.as_ref().expect("it is SQLite's").path().join(FILE_NAME)
    }

    /// The same database once more.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { url: self.url.clone(), directory: self.directory.clone() }
    }

    /// Its address, as `--database-url` takes it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its address, parsed.
    #[must_use]
    pub fn store_url(&self) -> StoreUrl {
        self.url.parse().unwrap()
    }

    /// Makes it refuse writes, as a database does that is away or busy for too long.
    pub async fn go_away(&self) -> Outage {
        let Ok(server) = std::env::var(VARIABLE) else {
            let connection = self.connection().await;
            connection.execute_unprepared("BEGIN IMMEDIATE").await.unwrap();
            return Outage { connection, end: "ROLLBACK".to_owned() };
        };
        let admin = sea_orm::Database::connect(server).await.unwrap();
        let name = self.url.rsplit('/').next().unwrap().to_owned();
        for statement in [
            format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"),
            format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"),
        ] {
            admin.execute_unprepared(&statement).await.unwrap();
        }
        Outage { connection: admin, end: format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true") }
    }

    /// A connection past the server, to compare what it says with what is there.
    pub async fn connection(&self) -> DatabaseConnection {
        sea_orm::Database::connect(&self.url).await.unwrap()
    }
}

/// A database that is away until this ends.
pub struct Outage {
    connection: DatabaseConnection,
    end: String,
}

impl Outage {
    /// Brings the database back.
    pub async fn end(self) {
        self.connection.execute_unprepared(&self.end).await.unwrap();
    }
}

/// All bytes of a migrated, empty file of SQLite.
async fn migrated_file() -> Vec<u8> {
    let database = Database::empty().await;
    Store::migrate(&database.store_url()).await.unwrap();
    // Where changes may still lie beside the file, a copy is whole.
    let copy = database.path().with_extension("copy");
    let connection = database.connection().await;
    connection.execute_unprepared(&format!("VACUUM INTO '{}'", copy.display())).await.unwrap();
    connection.close().await.unwrap();
    fs::read(copy).unwrap()
}

async fn migrated_template(server: &str) -> String {
    let url = create(server, None).await;
    Store::migrate(&url.parse::<StoreUrl>().unwrap()).await.unwrap();
    url.rsplit('/').next().unwrap().to_owned()
}

async fn create(server: &str, template: Option<&str>) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("galvo_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
    let admin = sea_orm::Database::connect(server).await.unwrap();
    assert_eq!(
        admin.get_database_backend(),
        DatabaseBackend::Postgres,
        "{VARIABLE} must name a PostgreSQL server"
    );
    let template = template.map(|template| format!(" TEMPLATE {template}")).unwrap_or_default();
    let create = format!("CREATE DATABASE {name}{template}");
    // PostgreSQL copies a template only while nobody else does.
    let lock = "SELECT pg_advisory_lock(7)";
    admin.execute_raw(Statement::from_string(DatabaseBackend::Postgres, lock)).await.unwrap();
    admin.execute_raw(Statement::from_string(DatabaseBackend::Postgres, create)).await.unwrap();
    admin.close().await.unwrap();
    let (address, _) = server.rsplit_once('/').unwrap();
    let url = format!("{address}/{name}");
    if is_citus(server).await {
        distribute(&url).await;
    }
    url
}

/// Whether the server has Citus. Its databases cannot be copied, because rows of theirs lie elsewhere.
async fn is_citus(server: &str) -> bool {
    static IS_CITUS: OnceCell<bool> = OnceCell::const_new();
    let ask = async || {
        let admin = sea_orm::Database::connect(server).await.unwrap();
        let extension = "SELECT 1 FROM pg_available_extensions WHERE name = 'citus'";
        let found = admin.query_one_raw(Statement::from_string(DatabaseBackend::Postgres, extension)).await;
        admin.close().await.unwrap();
        found.unwrap().is_some()
    };
    *IS_CITUS.get_or_init(ask).await
}

/// Makes a database a distributed one.
async fn distribute(url: &str) {
    let database = sea_orm::Database::connect(url).await.unwrap();
    for statement in [
        "CREATE EXTENSION citus",
        "SELECT citus_set_coordinator_host('localhost', current_setting('port')::int)",
        // A table of a test has few rows.
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET citus.shard_count = 2', current_database()); END $$",
    ] {
        database.execute_unprepared(statement).await.unwrap();
    }
    database.close().await.unwrap();
}
