//! Diagnostics of the database: its version, the privileges of the role, and its migrations compared with
//! those of this release. Nothing is changed.

use std::{collections::BTreeSet, time::Instant};

use migration::{Migrator, MigratorTrait};
use sea_orm::{ConnectionTrait, DatabaseBackend, DbErr, Statement, TransactionTrait};

use crate::{
    clock::{Clock, SystemClock},
    error::Chain,
    store::core::{
        connect::{IMMEDIATE_TRANSACTION, newest_unknown_migration},
        error::StoreError,
        system::SystemStore,
    },
};

/// The result of the diagnostics.
#[derive(Clone, Debug)]
pub(crate) struct Diagnostics {
    /// The version as the database reports it.
    pub(crate) version: String,
    /// `Ok` if the database can be written, and the reason otherwise.
    pub(crate) writable: Result<(), String>,
    /// The applied migrations compared with those of this release.
    pub(crate) migrations: Migrations,
    /// The properties of a PostgreSQL server. `None` for SQLite.
    pub(crate) server: Option<DatabaseServer>,
}

/// The applied migrations compared with those of this release.
#[derive(Clone, Debug)]
pub(crate) enum Migrations {
    /// None was applied: there are no tables yet. The value lists all migrations of this release.
    NoneApplied(Vec<String>),
    /// All applied migrations belong to this release. The value lists those that are missing.
    Missing(Vec<String>),
    /// All migrations of this release were applied, and some of a newer release. The value is the newest
    /// of them.
    Newer(String),
    /// The applied migrations do not match those of this release, for the given reason.
    Mismatched(String),
}

/// The properties of a PostgreSQL server.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseServer {
    /// The version as a number, 150004 for 15.4.
    pub(crate) version: i32,
    /// True if no transaction may write.
    pub(crate) read_only: bool,
    /// True if the role may change the existing tables.
    pub(crate) may_change_tables: bool,
    /// True if the role may create tables.
    pub(crate) may_create_tables: bool,
    /// The encoding of texts.
    pub(crate) encoding: String,
    /// The server's limit of connections, for all clients.
    pub(crate) max_connections: i32,
    /// The time by which the server's clock is ahead of the local clock, in milliseconds.
    pub(crate) clock_ahead_ms: i64,
}

impl SystemStore {
    /// Runs the diagnostics.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub(crate) async fn run_diagnostics(&self) -> Result<Diagnostics, StoreError> {
        let reader = &self.pools.reader;
        let backend = reader.get_database_backend();
        let (version, server) = if backend == DatabaseBackend::Postgres {
            let (version, server) = self.examine_server().await?;
            (version, Some(server))
        } else {
            let sql = "SELECT sqlite_version()";
            let row = reader.query_one_raw(Statement::from_string(backend, sql)).await?;
            (row.ok_or_else(no_row_error)?.try_get_by_index(0)?, None)
        };
        Ok(Diagnostics {
            version,
            writable: match &server {
                None => self.check_writable().await,
                Some(DatabaseServer { read_only: true, .. }) => {
                    Err("it is read-only, as a replica is".to_owned())
                }
                Some(DatabaseServer { may_change_tables: false, .. }) => {
                    Err("the role cannot change all of its tables".to_owned())
                }
                Some(_) => Ok(()),
            },
            migrations: self.examine_migrations().await,
            server,
        })
    }

    async fn examine_migrations(&self) -> Migrations {
        match Migrator::get_pending_migrations_read_only(&self.pools.reader).await {
            Ok(missing) => {
                let missing: Vec<String> =
                    missing.iter().map(|migration| migration.name().to_owned()).collect();
                if missing.len() == Migrator::migrations().len() {
                    Migrations::NoneApplied(missing)
                } else {
                    Migrations::Missing(missing)
                }
            }
            // The migrator reports any unknown migration as an error, although a server accepts those of a
            // newer release.
            Err(error) => {
                match self.applied_migrations().await.map(|applied| newest_unknown_migration(&applied)) {
                    Ok(Some(newest)) => Migrations::Newer(newest),
                    _ => Migrations::Mismatched(error.to_string()),
                }
            }
        }
    }

    /// Returns true if any migration was applied. Without one there are no tables.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub(crate) async fn is_migrated(&self) -> Result<bool, StoreError> {
        let reader = &self.pools.reader;
        let migration_count = Migrator::migrations().len();
        match Migrator::get_pending_migrations_read_only(reader).await {
            Ok(missing) => Ok(missing.len() < migration_count),
            // The migrator fails if this release does not know an applied migration, and if the list of
            // applied migrations cannot be read. The second read fails only in the latter case.
            Err(_) => Ok(!self.applied_migrations().await?.is_empty()),
        }
    }

    async fn applied_migrations(&self) -> Result<BTreeSet<String>, DbErr> {
        let reader = &self.pools.reader;
        let sql = "SELECT version FROM seaql_migrations";
        let rows = reader.query_all_raw(Statement::from_string(reader.get_database_backend(), sql)).await?;
        rows.iter().map(|row| row.try_get_by_index(0)).collect()
    }

    /// Creates a table in SQLite and rolls it back. SQLite opens even a file that it cannot write, and
    /// silently makes the connection read-only.
    async fn check_writable(&self) -> Result<(), String> {
        let attempt = async {
            let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
            transaction.execute_unprepared("CREATE TABLE galvo_doctor (id INTEGER)").await?;
            transaction.rollback().await
        };
        attempt.await.map_err(|error| Chain(&StoreError::from(error)).to_string())
    }

    async fn examine_server(&self) -> Result<(String, DatabaseServer), StoreError> {
        let sql = "SELECT current_setting('server_version'), current_setting('server_version_num')::int, \
                   coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), \
                   current_setting('server_encoding'), current_setting('max_connections')::int, \
                   (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
                   current_setting('transaction_read_only') = 'on', \
                   (SELECT coalesce(bool_and(has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') AND \
                   has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')), true) FROM pg_class \
                   WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p'))";
        // The connection is open after the ping, so that the measured time is that of the statement alone.
        self.ping().await?;
        let (started, local_time) = (Instant::now(), SystemClock.timestamp());
        let row =
            self.pools.reader.query_one_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await?;
        let one_way_ms = i64::try_from(started.elapsed().as_millis() / 2).unwrap_or_default();
        let row = row.ok_or_else(no_row_error)?;
        let server_ms: i64 = row.try_get_by_index(5)?;
        let server = DatabaseServer {
            version: row.try_get_by_index(1)?,
            read_only: row.try_get_by_index(6)?,
            may_change_tables: row.try_get_by_index(7)?,
            may_create_tables: row.try_get_by_index(2)?,
            encoding: row.try_get_by_index(3)?,
            max_connections: row.try_get_by_index(4)?,
            clock_ahead_ms: server_ms - local_time.timestamp_millis() - one_way_ms,
        };
        Ok((row.try_get_by_index(0)?, server))
    }
}

fn no_row_error() -> StoreError {
    StoreError::from(DbErr::RecordNotFound("the answer is empty".to_owned()))
}
