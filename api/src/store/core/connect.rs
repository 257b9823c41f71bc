//! Opens the database and applies missing migrations.
//!
//! SQLite has one writing connection and a pool of read-only ones, so that writers queue instead of failing
//! and readers never wait. PostgreSQL has one pool for both.

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
    ConnectionTrait, DatabaseBackend, DbErr, SqliteTransactionMode, SqlxPostgresConnector,
    SqlxSqliteConnector, TransactionOptions, TransactionTrait,
};
use sqlx::{
    ConnectOptions, Connection, PgPool, SqlitePool,
    error::DatabaseError,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{
    connection_pool::ConnectionPool,
    error::StoreError,
    gate::QueryPermits,
    scoped::{AccountStore, Pools},
    short_reads::ShortReads,
    stale_connections::ConnectionEpoch,
    system::SystemStore,
    userinfo,
};
use crate::{
    auth::Viewer,
    blocking_work::cores,
    bus::{Bus, InProcess},
    domain::{audit::Actor, quota::Limits},
    encryption::Keys,
    key_ring::KeyRing,
    metrics::{Connections, StoreMetrics},
    shares::{FairShares, Holder},
};

/// The time that a request waits for a connection before it fails with a retryable error. It is shorter
/// than the time that a reporter waits for a response, because the reporter would not receive the error
/// otherwise.
pub(crate) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// The time that a migration waits for the migration of another process on the same SQLite file. It is
/// longer than building an index takes.
const MIGRATION_PATIENCE: Duration = Duration::from_hours(1);

/// SQLite's result code while another connection holds a lock, and the delay before the next attempt.
const SQLITE_BUSY: &str = "5";
const LOCKED_PAUSE: Duration = Duration::from_millis(20);

/// The time limit for closing the store. Connections to a server that does not respond would not close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection that was idle for longer is pinged before it is used, because the server may have gone away
/// meanwhile.
const IDLE_BEFORE_PING: Duration = Duration::from_secs(1);

/// The time limit of that ping. It leaves time to open another connection afterwards.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// The time limit for finding the reason why a store cannot be opened.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);

/// The number of connections that read from SQLite, in addition to one per processor. SQLite reads without
/// waiting for anything but the processor and the disk, so more readers would only slow each other down.
const MORE_SQLITE_READERS: usize = 3;

/// The divisor of the share of connections that is reserved for signing in, for probes and for work of the
/// server that concerns no account. On PostgreSQL at least one connection is reserved if there are several.
const OWN: u32 = 5;

/// The number of statements that stay prepared on each connection: those that reports write, in their usual
/// numbers of rows, and those that the usual queries read.
const PREPARED_STATEMENTS: usize = 300;

/// The number of bytes of an SQLite file that a connection maps into memory.
pub(super) const SQLITE_MMAP_BYTES: i64 = 256 << 20;

/// The key of the advisory lock. It is an arbitrary number that other applications on the same PostgreSQL
/// are unlikely to lock.
const MIGRATION_LOCK: i64 = 0x6761_6c76_6f01;

/// The location of the database. `Debug` and `Display` leave the password out.
#[derive(Clone)]
pub enum StoreUrl {
    /// An SQLite file. `create` is true if the file may be created.
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
            if userinfo::has_unencoded_password(url) {
                let message =
                    "a '/', '?' or '#' in the user name or password must be written as %2F, %3F or %23";
                return Err(message.to_owned());
            }
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
            Self::Sqlite { path, .. } => {
                let absolute = std::path::absolute(path);
                write!(f, "SQLite file {}", absolute.as_ref().unwrap_or(path).display())
            }
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

/// The database of all accounts. It runs no statement itself, but hands out the handles that do.
#[derive(Clone)]
pub struct Store {
    system: SystemStore,
    keys: KeyRing,
    bus: Arc<dyn Bus>,
}

/// The error of a schema that could not be brought up to date.
#[derive(Debug, thiserror::Error)]
#[error("cannot migrate the {url}")]
pub struct MigrationError {
    url: StoreUrl,
    #[source]
    source: StoreError,
}

impl Store {
    /// Opens the database. `connections` bounds the PostgreSQL pool, and `keys` encrypt the texts that must
    /// not be stored in the clear.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] if the database cannot be reached or opened.
    pub async fn connect(
        url: &StoreUrl,
        connections: u32,
        keys: impl Into<KeyRing>,
    ) -> Result<Self, StoreError> {
        Ok(SystemStore::connect(url, connections).await?.with_keys(keys))
    }

    /// Applies the missing migrations. Several processes may do so at once: one applies them, and the
    /// others wait and find nothing left to do.
    ///
    /// # Errors
    /// Returns an error if the database cannot be reached or a migration fails. A failed migration leaves
    /// no changes behind.
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

    /// Returns the view of the viewer's account. Code that serves a request has no other way to obtain a
    /// view.
    #[must_use]
    pub fn for_viewer(&self, viewer: &Viewer) -> AccountStore {
        let (holder, keys) = (viewer.holder(), self.keys.clone());
        AccountStore::new(&self.system, viewer.account_id(), holder, keys, Arc::clone(&self.bus))
    }

    /// Returns the view of an account for the server's own background work, which serves no request.
    #[must_use]
    pub(crate) fn for_background_work(&self, account: AccountId) -> AccountStore {
        let (holder, keys) = (Holder::server(account), self.keys.clone());
        AccountStore::new(&self.system, account, holder, keys, Arc::clone(&self.bus))
    }

    /// Returns the handle for work that belongs to no viewer: signing in, and commands of operators.
    #[must_use]
    pub fn system(&self) -> SystemStore {
        self.system.clone()
    }

    /// Returns the same database with another bus, on which its changes are published.
    #[must_use]
    pub fn with_bus(self, bus: Arc<dyn Bus>) -> Self {
        Self { bus, ..self }
    }

    /// Returns the fair-share limits of the server's bounded resources.
    pub(crate) fn shares(&self) -> &FairShares {
        self.system.shares()
    }

    /// Returns the bus on which changes are published.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    /// Returns the keys that texts are encrypted with.
    #[must_use]
    pub fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Returns the number of statements that were sent to the database since it was opened.
    #[must_use]
    pub fn statements(&self) -> u64 {
        self.system.metrics.statements()
    }

    /// Runs `work` with the store. `None` if it takes longer than `timeout`. Connections that are open
    /// then are not used again, because they may belong to a network that was cut.
    pub async fn with_timeout<T>(&self, timeout: Duration, work: impl Future<Output = T>) -> Option<T> {
        self.system.pools.epoch.with_timeout(timeout, work).await
    }

    /// Closes all connections once their current statements have ended.
    pub async fn close(self) {
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, async {
            self.system.pools.reader.close().await;
            self.system.pools.writer.close().await;
        })
        .await;
    }
}

impl SystemStore {
    /// Opens the database for work that needs no keys. `connections` bounds the PostgreSQL pool.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] if the database cannot be reached or opened.
    pub async fn connect(url: &StoreUrl, connections: u32) -> Result<Self, StoreError> {
        let (epoch, shares) = (ConnectionEpoch::default(), FairShares::default());
        let metrics = Arc::new(StoreMetrics::default());
        let (writer, reader, gates) = match url {
            StoreUrl::Sqlite { options, path, .. } => {
                let from_pool = |pool| ConnectionPool::from_sqlite(pool, epoch.clone(), Arc::clone(&metrics));
                let writer = from_pool(sqlite(options, 1).await?);
                let readers = sqlite_readers();
                let reader = from_pool(sqlite(&options.clone().read_only(true), readers).await?);
                let reader =
                    reader.with_short_reads(ShortReads::new(path, readers as usize, PREPARED_STATEMENTS));
                let gates = QueryPermits::for_sqlite(&shares, for_accounts(readers));
                (writer, reader, gates)
            }
            StoreUrl::Postgres(options) => {
                let pool = postgres(options, connections, epoch.clone()).await?;
                let pool = ConnectionPool::from_postgres(pool, epoch.clone(), Arc::clone(&metrics));
                let gates = QueryPermits::for_postgres(&shares, for_accounts(connections));
                (pool.clone(), pool, gates)
            }
        };
        Ok(Self { pools: Pools { writer, reader, epoch, gates }, metrics, shares, limits: Limits::default() })
    }

    /// Returns the fair-share limits of the server's bounded resources.
    pub(crate) fn shares(&self) -> &FairShares {
        &self.shares
    }

    /// Returns the view of an account for an operator who changes it. It has no keys, and is for work that
    /// encrypts and decrypts nothing.
    #[must_use]
    pub(crate) fn for_operator(&self, account: AccountId, actor: Actor) -> AccountStore {
        let (keys, bus) = (Keys::generate().into(), Arc::new(InProcess::default()));
        AccountStore::new(self, account, Holder::server(account), keys, bus).on_behalf_of(actor)
    }

    /// Returns the metrics of the store.
    pub(crate) fn metrics(&self) -> &Arc<StoreMetrics> {
        &self.metrics
    }

    /// Returns the current state of the connection pools.
    pub(crate) fn connections(&self) -> Vec<Connections> {
        let Pools { writer, reader, .. } = &self.pools;
        match writer.get_database_backend() {
            DatabaseBackend::Sqlite => vec![writer.connections("writer"), reader.connections("reader")],
            _ => vec![writer.connections("all")],
        }
    }

    /// Returns the same database with the default quotas of accounts that have none of their own.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the same database for accounts, with the keys that their texts are encrypted with.
    #[must_use]
    pub fn with_keys(self, keys: impl Into<KeyRing>) -> Store {
        Store { system: self, keys: keys.into(), bus: Arc::new(InProcess::default()) }
    }
}

/// Returns the number of connections that read from SQLite.
fn sqlite_readers() -> u32 {
    u32::try_from(cores() + MORE_SQLITE_READERS).unwrap_or(u32::MAX)
}

/// Returns the number of connections that accounts may use. The others are reserved for signing in, for
/// probes and for work that concerns no account.
fn for_accounts(connections: u32) -> usize {
    let reserved = (connections / OWN).max(1);
    connections.saturating_sub(reserved).max(1) as usize
}

pub(crate) async fn sqlite(
    options: &SqliteConnectOptions,
    connections: u32,
) -> Result<SqlitePool, StoreError> {
    let options = options
        .clone()
        .journal_mode(SqliteJournalMode::Wal)
        // Acknowledged data survives a power failure, not only the end of the process.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(ACQUIRE_TIMEOUT)
        .pragma("cache_size", "-65536")
        .pragma("mmap_size", SQLITE_MMAP_BYTES.to_string())
        .pragma("temp_store", "memory")
        // SQLite's thread sends rows over a channel, in batches of this size.
        .row_buffer_size(1000)
        .statement_cache_capacity(PREPARED_STATEMENTS)
        .disable_statement_logging();
    let pool = SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A connection is pinged when it returns, and no network fails meanwhile.
        .test_before_acquire(false)
        // If the disk is full, SQLite ends a transaction by itself, and the rollback fails. sqlx would then
        // count the connection as being inside a transaction: the next transaction would be nested in it,
        // and its commit would commit nothing.
        .after_release(|connection, _| {
            Box::pin(async move {
                if connection.is_in_transaction() {
                    // A rollback that was queued when the transaction was dropped runs before the ping.
                    connection.ping().await?;
                }
                Ok(!connection.is_in_transaction())
            })
        });
    open_sqlite(pool, options).await.map_err(unreachable_database)
}

/// Opens a pool. The first connection to a new file switches it to a write-ahead log. Another process that
/// opens the file at that moment gets an error that it is locked, because SQLite does not apply the busy
/// timeout to the switch.
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
    epoch: ConnectionEpoch,
) -> Result<PgPool, StoreError> {
    let options =
        options.clone().application_name("galvo").statement_cache_capacity(PREPARED_STATEMENTS).options([
            // An abandoned request's statement keeps running on the server. The timeout ends it.
            ("statement_timeout", "30s"),
            ("idle_in_transaction_session_timeout", "30s"),
            // A reporter does not wait longer than this, and nothing uses the lock afterwards.
            ("lock_timeout", "5s"),
            // The server releases what the connection of a vanished process holds, above all the job lock,
            // within a minute and not after the default keepalive time of two hours.
            ("tcp_keepalives_idle", "30"),
            ("tcp_keepalives_interval", "10"),
            ("tcp_keepalives_count", "3"),
            // A generic plan assumes accounts of average size. A bitmap scan would read and sort all rows of
            // a large one, instead of the page that an index has in order.
            ("enable_bitmapscan", "off"),
            // On a solid-state disk, an index scan costs little more than a sequential one. With the default,
            // which is for spinning disks, a range of days would cost a whole table.
            ("random_page_cost", "1.1"),
            // Planning a page of a list again each time takes longer than reading it.
            ("plan_cache_mode", "force_generic_plan"),
        ]);
    // The program logs statements itself, and only on request. sqlx would log slow statements at their full
    // length.
    let options = options.disable_statement_logging();
    let epoch_at_release = epoch.clone();
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .test_before_acquire(false)
        .after_release(move |_, meta| {
            let is_current = !epoch_at_release.includes_connection(meta.age);
            Box::pin(async move { Ok(is_current) })
        })
        .before_acquire(move |connection, meta| {
            let epoch = epoch.clone();
            Box::pin(async move {
                if epoch.includes_connection(meta.age) {
                    return Ok(false);
                }
                if meta.idle_for > IDLE_BEFORE_PING {
                    return match epoch.with_timeout(PING_TIMEOUT, connection.ping()).await {
                        Some(answer) => answer.map(|()| true),
                        None => Ok(false),
                    };
                }
                Ok(true)
            })
        });
    open_postgres(pool, options).await
}

/// Opens a pool. While connections are refused or the server starts, the pool retries until its timeout and
/// reports only the timeout. One more connection finds the reason.
async fn open_postgres(pool: PgPoolOptions, options: PgConnectOptions) -> Result<PgPool, StoreError> {
    match pool.connect_with(options.clone()).await {
        Err(sqlx::Error::PoolTimedOut) => Err(unreachable_database(find_connect_error(&options).await)),
        opened => opened.map_err(unreachable_database),
    }
}

/// Returns the reason why no connection was available in time.
async fn find_connect_error(options: &PgConnectOptions) -> sqlx::Error {
    match tokio::time::timeout(REASON_TIMEOUT, options.connect()).await {
        Ok(Err(error)) => error,
        // This connection succeeded, so that the pool's attempt would have succeeded a moment later.
        Ok(Ok(_)) => sqlx::Error::PoolTimedOut,
        Err(_) => sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()),
    }
}

/// Applies the missing migrations. SQLite's write lock is the migration lock: one transaction holds it over
/// all of them.
async fn migrate_sqlite(options: &SqliteConnectOptions) -> Result<(), StoreError> {
    let database = SqlxSqliteConnector::from_sqlx_sqlite_pool(sqlite(options, 1).await?);
    // The migration of another process may take any time.
    database.execute_unprepared(&format!("PRAGMA busy_timeout = {}", MIGRATION_PATIENCE.as_millis())).await?;
    let transaction = database.begin_with_options(IMMEDIATE_TRANSACTION).await?;
    apply_missing(&transaction).await?;
    transaction.commit().await?;
    database.close().await?;
    Ok(())
}

/// Applies the missing migrations. An advisory lock of the session serializes processes. It is released
/// with the connection in every case.
async fn migrate_postgres(options: &PgConnectOptions) -> Result<(), StoreError> {
    // Waiting for another process's migration and building an index may take any time.
    let patient = options.clone().options([
        ("statement_timeout", "0"),
        ("lock_timeout", "0"),
        // Tables refer to reference tables, which are stored on all nodes. Citus changes those over one
        // connection per node, and the shards of other tables over several, which would not see the change.
        // PostgreSQL without Citus ignores the setting.
        ("citus.multi_shard_modify_mode", "sequential"),
    ]);
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE_TIMEOUT);
    let database = SqlxPostgresConnector::from_sqlx_postgres_pool(open_postgres(pool, patient).await?);
    database.execute_unprepared(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})")).await?;
    apply_missing(&database).await?;
    database.close().await?;
    Ok(())
}

/// Creates the file, if there is none, with access for its owner only, because it holds the texts of
/// exceptions. SQLite gives the files beside it the same mode.
fn create_private(path: &Path) {
    let creation = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    if let Err(error) = creation
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        // Opening the store will fail as well, with a more specific error.
        tracing::debug!(%error, "failed to create the database file");
    }
}

async fn apply_missing<'c, C>(connection: &'c C) -> Result<(), StoreError>
where
    C: ConnectionTrait,
    &'c C: IntoSchemaManagerConnection<'c>,
{
    let applied = Migrator::get_migration_models(connection).await?;
    let applied: BTreeSet<String> = applied.into_iter().map(|step| step.version).collect();
    if let Some(newest) = newest_unknown_migration(&applied) {
        tracing::warn!(step = newest.as_str(), "the database schema is newer than this release");
        return Ok(());
    }
    let missing = Migrator::get_pending_migrations(connection).await?;
    Migrator::up(connection, None).await?;
    for migration in &missing {
        tracing::debug!(migration = migration.name(), "migrated");
    }
    match missing.len() {
        0 => {}
        1 => tracing::info!("1 migration applied"),
        count => tracing::info!("{count} migrations applied"),
    }
    Ok(())
}

/// Returns the newest of the applied migrations if they are those of a newer release. A newer release only
/// adds to the tables that this release reads and writes, and during an upgrade this release may have to
/// start once more. If this release and the applied migrations each have some that the other lacks, their
/// combination is undefined, and the result is `None`.
pub(crate) fn newest_unknown_migration(applied: &BTreeSet<String>) -> Option<String> {
    let known_migrations: BTreeSet<String> =
        Migrator::migrations().iter().map(|step| step.name().to_owned()).collect();
    applied.difference(&known_migrations).last().filter(|_| applied.is_superset(&known_migrations)).cloned()
}

pub(crate) fn unreachable_database(error: sqlx::Error) -> StoreError {
    StoreError::Unavailable(DbErr::Conn(sea_orm::RuntimeErr::SqlxError(Arc::new(error))))
}

/// Takes SQLite's write lock at the beginning. A transaction that reads first and writes later would fail
/// at once if another one wrote in between. PostgreSQL ignores the option.
pub(crate) const IMMEDIATE_TRANSACTION: TransactionOptions = TransactionOptions {
    isolation_level: None,
    access_mode: None,
    sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
};
