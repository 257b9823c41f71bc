//! Opening the database, and bringing its schema up to date.
//!
//! SQLite gets one writing connection and a pool of read-only ones, so that writers queue instead of failing
//! and readers never wait; PostgreSQL gets one pool for both.

use std::{
    collections::BTreeSet,
    fmt,
    fs::OpenOptions,
    future::Future,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use entity::ids::AccountId;
use migration::{IntoSchemaManagerConnection, Migrator, MigratorTrait};
use sea_orm::{
    ConnectionTrait, DatabaseBackend, DatabaseConnection, DbErr, SqliteTransactionMode,
    SqlxPostgresConnector, SqlxSqliteConnector, TransactionOptions, TransactionTrait,
};
use sqlx::{
    ConnectOptions, Connection, PgPool, SqlitePool,
    error::DatabaseError,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{
    doubt::Doubt,
    error::StoreError,
    identity::SystemStore,
    scoped::{AccountStore, Pools},
    user::UserStore,
};
use crate::{
    auth::Viewer,
    bus::{Bus, InProcess},
    key_ring::KeyRing,
    metrics::{Connections, StoreMetrics},
};

/// How long a request waits for a connection before it is told to come back later: for less long than a reporter waits for the
/// answer, or it would not be told.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a migration waits for the one of another process on the same SQLite file: for longer than building an index takes.
const MIGRATION_PATIENCE: Duration = Duration::from_hours(1);

/// What SQLite answers while another connection holds a lock, and how soon it is asked again.
const SQLITE_BUSY: &str = "5";
const LOCKED_PAUSE: Duration = Duration::from_millis(20);

/// How long closing the store may take. Connections that are not answered would not end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection idle for longer is tried before it is used; the server may have gone away meanwhile.
const IDLE_BEFORE_PING: Duration = Duration::from_secs(1);

/// How long its answer is waited for. Another one is opened then, and there has to be time for that.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a store that does not open may take to say why.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections SQLite reads with.
const SQLITE_READERS: u32 = 4;

/// Statements that stay prepared on each connection: those that reports write, in their usual numbers of rows, and those
/// that the usual queries read.
const PREPARED_STATEMENTS: usize = 300;

/// Any number no other application on the same PostgreSQL is likely to lock.
const MIGRATION_LOCK: i64 = 0x6761_6c76_6f01;

/// Where the database is. `Debug` and `Display` leave the password out.
#[derive(Clone)]
pub enum StoreUrl {
    /// An SQLite file, and whether it may be made.
    Sqlite { options: Box<SqliteConnectOptions>, path: PathBuf, create: bool },
    /// A PostgreSQL server.
    Postgres(Box<PgConnectOptions>),
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        // The parsers' own messages can repeat the URL, password included.
        if url.starts_with("sqlite:") {
            let options =
                SqliteConnectOptions::from_str(url).map_err(|_| "not a valid sqlite URL".to_owned())?;
            let path = options.get_filename().to_path_buf();
            if url.contains(":memory:") || url.contains("mode=memory") {
                return Err("an SQLite store must be a file, because several connections share it".to_owned());
            }
            Ok(Self::Sqlite { options: Box::new(options), path, create: url.contains("mode=rwc") })
        } else if url.starts_with("postgres:") || url.starts_with("postgresql:") {
            let options =
                PgConnectOptions::from_str(url).map_err(|_| "not a valid postgres URL".to_owned())?;
            Ok(Self::Postgres(Box::new(options)))
        } else {
            Err("must begin with sqlite:// or postgres://".to_owned())
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite { path, .. } => write!(f, "SQLite file {}", path.display()),
            Self::Postgres(options) => write!(
                f,
                "PostgreSQL {}:{}/{}",
                options.get_host(),
                options.get_port(),
                options.get_database().unwrap_or_default()
            ),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The database of all accounts. It runs no statement itself; it hands out the handles that do.
#[derive(Clone)]
pub struct Store {
    system: SystemStore,
    keys: KeyRing,
    bus: Arc<dyn Bus>,
}

/// Why the schema could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[error("cannot migrate the {url}")]
pub struct MigrationError {
    url: StoreUrl,
    #[source]
    source: StoreError,
}

impl Store {
    /// Opens the database; `connections` bounds the PostgreSQL pool, and `keys` encrypt what must not lie in it in
    /// the open.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when it cannot be reached or opened.
    pub async fn connect(
        url: &StoreUrl,
        connections: u32,
        keys: impl Into<KeyRing>,
    ) -> Result<Self, StoreError> {
        Ok(SystemStore::connect(url, connections).await?.with_keys(keys))
    }

    /// Applies the migrations that are missing. Several processes may do so at once: one works, the others
    /// wait and find nothing left to do.
    ///
    /// # Errors
    /// When the database cannot be reached or a migration fails; a failed migration leaves nothing behind.
    pub async fn migrate(url: &StoreUrl) -> Result<(), MigrationError> {
        let migrated = match url {
            StoreUrl::Sqlite { options, path, create } => {
                if *create {
                    create_private(path);
                }
                migrate_sqlite(options).await
            }
            StoreUrl::Postgres(options) => migrate_postgres(options).await,
        };
        migrated.map_err(|source| MigrationError { url: url.clone(), source })
    }

    /// The view of the account the viewer signed in to. What answers somebody has no other way to get one.
    #[must_use]
    pub fn for_viewer(&self, viewer: &Viewer) -> AccountStore {
        AccountStore::new(&self.system, viewer.account_id(), self.keys.clone(), Arc::clone(&self.bus))
    }

    /// The view of an account for work the server does by itself, which nobody asked for and nobody is answered.
    #[must_use]
    pub(crate) fn for_work_of(&self, account: AccountId) -> AccountStore {
        AccountStore::new(&self.system, account, self.keys.clone(), Arc::clone(&self.bus))
    }

    /// The view of the viewer's user on their own accounts, as far as the credentials open them; none if these are not the
    /// user's own.
    #[must_use]
    pub fn for_user_of(&self, viewer: &Viewer) -> Option<UserStore> {
        let accounts = viewer.accounts().map(<[_]>::to_vec);
        let own = viewer.credential().is_the_users_own();
        own.then(|| UserStore::new(self.system.pools.clone(), viewer.user_id(), accounts))
    }

    /// The handle for what belongs to no viewer: signing in, and what operators do on the command line.
    #[must_use]
    pub fn system(&self) -> SystemStore {
        self.system.clone()
    }

    /// The same database, whose changes are told on a bus.
    #[must_use]
    pub fn with_bus(self, bus: Arc<dyn Bus>) -> Self {
        Self { bus, ..self }
    }

    /// Where its changes are told.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    /// The keys its texts are encrypted with.
    #[must_use]
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Statements sent to the database since it was opened.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.system.metrics.statements()
    }

    /// What `work` with the store comes to, unless it takes longer than `patience`. Connections that are open then are not used again:
    /// they may be those of a network that was cut.
    pub async fn within<T>(&self, patience: Duration, work: impl Future<Output = T>) -> Option<T> {
        self.system.pools.doubt.within(patience, work).await
    }

    /// Closes all connections after the statements under way.
    pub async fn close(self) {
        // A failure to close leaves nothing to do: the process is about to end.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, async {
            let _ = self.system.pools.reader.close_by_ref().await;
            let _ = self.system.pools.writer.close_by_ref().await;
        })
        .await;
    }
}

impl SystemStore {
    /// Opens the database for what needs no keys; `connections` bounds the PostgreSQL pool.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when it cannot be reached or opened.
    pub async fn connect(url: &StoreUrl, connections: u32) -> Result<Self, StoreError> {
        let doubt = Doubt::default();
        let (mut writer, mut reader) = match url {
            StoreUrl::Sqlite { options, .. } => {
                let writer = sqlite(options, 1).await?;
                let reader = sqlite(&options.clone().read_only(true), SQLITE_READERS).await?;
                (writer, reader)
            }
            StoreUrl::Postgres(options) => {
                let pool = postgres(options, connections, doubt.clone()).await?;
                (pool.clone(), pool)
            }
        };
        let metrics = Arc::new(StoreMetrics::default());
        for connection in [&mut writer, &mut reader] {
            let metrics = Arc::clone(&metrics);
            connection.set_metric_callback(move |info| {
                metrics.statement(info.elapsed, info.failed);
                // The text has placeholders: values never reach the log.
                let (sql, seconds) = (info.statement.sql.as_str(), info.elapsed.as_secs_f64());
                tracing::trace!(target: "galvo::statement", sql, seconds, failed = info.failed);
            });
        }
        Ok(Self { pools: Pools { writer, reader, doubt }, metrics })
    }

    /// What is counted of it.
    pub(crate) fn metrics(&self) -> &Arc<StoreMetrics> {
        &self.metrics
    }

    /// Its connections, as they are now.
    pub(crate) fn connections(&self) -> Vec<Connections> {
        let Pools { writer, reader, .. } = &self.pools;
        match writer.get_database_backend() {
            DatabaseBackend::Sqlite => vec![
                pooled("writer", writer.get_sqlite_connection_pool()),
                pooled("reader", reader.get_sqlite_connection_pool()),
            ],
            _ => vec![pooled("all", writer.get_postgres_connection_pool())],
        }
    }

    /// The same database for accounts, whose texts these keys encrypt.
    #[must_use]
    pub fn with_keys(self, keys: impl Into<KeyRing>) -> Store {
        Store { system: self, keys: keys.into(), bus: Arc::new(InProcess::default()) }
    }
}

fn pooled<D: sqlx::Database>(pool: &'static str, connections: &sqlx::Pool<D>) -> Connections {
    let (all, idle) = (connections.size() as usize, connections.num_idle());
    let max = connections.options().get_max_connections() as usize;
    Connections { pool, idle, in_use: all.saturating_sub(idle), max }
}

pub(super) async fn sqlite(
    options: &SqliteConnectOptions,
    connections: u32,
) -> Result<DatabaseConnection, StoreError> {
    let options = options
        .clone()
        .journal_mode(SqliteJournalMode::Wal)
        // What was acknowledged survives a power cut, too, not only the end of the process.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(ACQUIRE_TIMEOUT)
        .pragma("cache_size", "-65536")
        .pragma("mmap_size", "268435456")
        .pragma("temp_store", "memory")
        // One channel hop per this many rows between SQLite's thread and ours.
        .row_buffer_size(1000)
        .statement_cache_capacity(PREPARED_STATEMENTS)
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // Where a disk is full SQLite ends a transaction by itself, and rolling it back fails. The connection would count as being
        // inside one from then on: the next would be nested in it, and their commits would commit nothing.
        .after_release(|connection, _| {
            Box::pin(async move {
                if connection.is_in_transaction() {
                    // A rollback that was asked for when the transaction was dropped comes before the answer.
                    connection.ping().await?;
                }
                Ok(!connection.is_in_transaction())
            })
        });
    let pool = open_sqlite(pool, options).await.map_err(unreachable_database)?;
    Ok(SqlxSqliteConnector::from_sqlx_sqlite_pool(pool))
}

/// Opens a pool. A new file becomes one with a write-ahead log when it is opened first, and whoever opens it at that moment is
/// told that it is locked: SQLite does not apply the busy timeout to that.
async fn open_sqlite(pool: SqlitePoolOptions, options: SqliteConnectOptions) -> sqlx::Result<SqlitePool> {
    let end = Instant::now() + ACQUIRE_TIMEOUT;
    loop {
        match pool.clone().connect_with(options.clone()).await {
            Err(error) if is_locked(&error) && Instant::now() < end => tokio::time::sleep(LOCKED_PAUSE).await,
            opened => return opened,
        }
    }
}

fn is_locked(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == SQLITE_BUSY)
}

async fn postgres(
    options: &PgConnectOptions,
    connections: u32,
    doubt: Doubt,
) -> Result<DatabaseConnection, StoreError> {
    let options =
        options.clone().application_name("galvo").statement_cache_capacity(PREPARED_STATEMENTS).options([
            // A request that was given up keeps running on the server; this ends it.
            ("statement_timeout", "30s"),
            ("idle_in_transaction_session_timeout", "30s"),
            // Longer than a reporter waits, nobody needs the lock any more.
            ("lock_timeout", "5s"),
            // What the connection of a server that vanished holds, the job lock above all, is let go of within a minute, and
            // not after the two hours that systems wait by themselves.
            ("tcp_keepalives_idle", "30"),
            ("tcp_keepalives_interval", "10"),
            ("tcp_keepalives_count", "3"),
            // A plan for any account takes each for one of average size. Where that is small, it would read all rows
            // of a large one and sort them, instead of the page that an index has in order.
            ("enable_bitmapscan", "off"),
            // Reading by an index costs little more than reading in order where rows are cached or on a solid-state disk.
            // By the default, which is for disks that turn, a range of days would cost a whole table.
            ("random_page_cost", "1.1"),
        ]);
    // The program logs statements itself, and only when it is asked to; sqlx would log slow ones at their full
    // length.
    let options = options.disable_statement_logging();
    let doubted = doubt.clone();
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .after_release(move |_, meta| {
            let believed = !doubted.is_about(meta.age);
            Box::pin(async move { Ok(believed) })
        })
        .before_acquire(move |connection, meta| {
            let doubt = doubt.clone();
            Box::pin(async move {
                if doubt.is_about(meta.age) {
                    return Ok(false);
                }
                if meta.idle_for > IDLE_BEFORE_PING {
                    return match doubt.within(PING_TIMEOUT, connection.ping()).await {
                        Some(answer) => answer.map(|()| true),
                        None => Ok(false),
                    };
                }
                Ok(true)
            })
        });
    Ok(SqlxPostgresConnector::from_sqlx_postgres_pool(open(pool, options).await?))
}

/// Opens a pool. While connections are refused, or the server starts, it tries until its time is over and tells of that alone:
/// one more connection tells why.
async fn open(pool: PgPoolOptions, options: PgConnectOptions) -> Result<PgPool, StoreError> {
    match pool.connect_with(options.clone()).await {
        Err(sqlx::Error::PoolTimedOut) => Err(unreachable_database(reason(&options).await)),
        opened => opened.map_err(unreachable_database),
    }
}

/// Why no connection was had in time.
async fn reason(options: &PgConnectOptions) -> sqlx::Error {
    match tokio::time::timeout(REASON_TIMEOUT, options.connect()).await {
        Ok(Err(error)) => error,
        // It would have come a moment later.
        Ok(Ok(_)) => sqlx::Error::PoolTimedOut,
        Err(_) => sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()),
    }
}

/// SQLite's write lock is the migration lock: one transaction holds it over all steps.
async fn migrate_sqlite(options: &SqliteConnectOptions) -> Result<(), StoreError> {
    let database = sqlite(options, 1).await?;
    // Another process's migration takes as long as it takes.
    database.execute_unprepared(&format!("PRAGMA busy_timeout = {}", MIGRATION_PATIENCE.as_millis())).await?;
    let transaction = database.begin_with_options(IMMEDIATE).await?;
    apply_missing(&transaction).await?;
    transaction.commit().await?;
    database.close().await?;
    Ok(())
}

/// An advisory lock of the session serializes processes; it goes with the connection, whatever happens.
async fn migrate_postgres(options: &PgConnectOptions) -> Result<(), StoreError> {
    // Waiting for another process's migration, or building an index, takes as long as it takes.
    let patient = options.clone().options([("statement_timeout", "0"), ("lock_timeout", "0")]);
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE_TIMEOUT);
    let database = SqlxPostgresConnector::from_sqlx_postgres_pool(open(pool, patient).await?);
    database.execute_unprepared(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})")).await?;
    apply_missing(&database).await?;
    database.close().await?;
    Ok(())
}

/// Makes the file, if there is none, for its owner alone: it holds what programs wrote into exceptions.
/// SQLite gives the files beside it the same mode.
fn create_private(path: &Path) {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if let Err(error) = made
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        // Opening the store will fail as well, and says more.
        tracing::debug!(%error, "the file of the store could not be made");
    }
}

async fn apply_missing<'c, C>(connection: &'c C) -> Result<(), StoreError>
where
    C: ConnectionTrait,
    &'c C: IntoSchemaManagerConnection<'c>,
{
    let applied = Migrator::get_migration_models(connection).await?;
    let applied: BTreeSet<String> = applied.into_iter().map(|step| step.version).collect();
    if let Some(newest) = step_of_newer_release(&applied) {
        tracing::warn!(step = newest.as_str(), "the schema is that of a newer release");
        return Ok(());
    }
    let missing = Migrator::get_pending_migrations(connection).await?;
    Migrator::up(connection, None).await?;
    for migration in missing {
        tracing::info!(migration = migration.name(), "migrated");
    }
    Ok(())
}

/// The newest of these steps, if they are those of a newer release. That only adds to what this one reads and writes: while it
/// replaces this one, this one may have to start once more. Of steps that neither of them knows all, nobody can say what they
/// mean together.
pub(super) fn step_of_newer_release(applied: &BTreeSet<String>) -> Option<String> {
    let known: BTreeSet<String> = Migrator::migrations().iter().map(|step| step.name().to_owned()).collect();
    applied.difference(&known).last().filter(|_| applied.is_superset(&known)).cloned()
}

pub(super) fn unreachable_database(error: sqlx::Error) -> StoreError {
    StoreError::Unavailable(DbErr::Conn(sea_orm::RuntimeErr::SqlxError(Arc::new(error))))
}

/// Take SQLite's write lock at the beginning: a transaction that reads first and writes later would fail at
/// once when another wrote in between. PostgreSQL ignores it.
pub(super) const IMMEDIATE: TransactionOptions = TransactionOptions {
    isolation_level: None,
    access_mode: None,
    sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
};
