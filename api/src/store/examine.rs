//! How the database is: its version, what may be done in it, and whether its tables are those of this version. Nothing is changed.

use std::{collections::BTreeSet, time::Instant};

use migration::{Migrator, MigratorTrait};
use sea_orm::{ConnectionTrait, DatabaseBackend, DbErr, Statement, TransactionTrait};

use super::{
    connect::{IMMEDIATE, step_of_newer_release},
    error::StoreError,
    identity::SystemStore,
};
use crate::{
    clock::{Clock, SystemClock},
    error::Chain,
};

/// How the database is.
#[derive(Clone, Debug)]
pub(crate) struct Examined {
    /// What it calls its version.
    pub(crate) version: String,
    /// Whether it can be written, or why not.
    pub(crate) writable: Result<(), String>,
    /// Whether its tables are those of this version.
    pub(crate) migrations: Migrations,
    /// What a server of its own says; SQLite has none.
    pub(crate) server: Option<DatabaseServer>,
}

/// How the migrations that were applied are to those of this version.
#[derive(Clone, Debug)]
pub(crate) enum Migrations {
    /// They are these, but for those that are missing.
    Missing(Vec<String>),
    /// They are these and more, of a newer release. The newest of them is told.
    Newer(String),
    /// They are others, for the reason that is told.
    Others(String),
}

/// What PostgreSQL says of itself.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseServer {
    /// Its version as a number, 150004 for 15.4.
    pub(crate) version: i32,
    /// Whether nobody may change anything.
    pub(crate) read_only: bool,
    /// Whether the role may change the tables that are there.
    pub(crate) may_change: bool,
    /// Whether the role may make tables.
    pub(crate) may_create: bool,
    /// How texts are encoded.
    pub(crate) encoding: String,
    /// How many connections it has, for everybody.
    pub(crate) max_connections: i32,
    /// How far its clock is ahead of the one here.
    pub(crate) clock_ahead_ms: i64,
}

impl SystemStore {
    /// Looks how the database is.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) async fn examine(&self) -> Result<Examined, StoreError> {
        let reader = &self.pools.reader;
        let backend = reader.get_database_backend();
        let (version, server) = if backend == DatabaseBackend::Postgres {
            let (version, server) = self.examine_server().await?;
            (version, Some(server))
        } else {
            let sql = "SELECT sqlite_version()";
            let row = reader.query_one_raw(Statement::from_string(backend, sql)).await?;
            (row.ok_or_else(no_row)?.try_get_by_index(0)?, None)
        };
        Ok(Examined {
            version,
            writable: match &server {
                None => self.try_to_write().await,
                Some(DatabaseServer { read_only: true, .. }) => {
                    Err("it takes no changes, as a replica does".to_owned())
                }
                Some(DatabaseServer { may_change: false, .. }) => {
                    Err("the role may not change all of its tables".to_owned())
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
                Migrations::Missing(missing.iter().map(|missing| missing.name().to_owned()).collect())
            }
            // Any that is not known here is an error, whatever a server makes of it.
            Err(error) => {
                match self.applied_migrations().await.map(|applied| step_of_newer_release(&applied)) {
                    Ok(Some(newest)) => Migrations::Newer(newest),
                    _ => Migrations::Others(error.to_string()),
                }
            }
        }
    }

    async fn applied_migrations(&self) -> Result<BTreeSet<String>, DbErr> {
        let reader = &self.pools.reader;
        let sql = "SELECT version FROM seaql_migrations";
        let rows = reader.query_all_raw(Statement::from_string(reader.get_database_backend(), sql)).await?;
        rows.iter().map(|row| row.try_get_by_index(0)).collect()
    }

    /// Begins to write, and leaves it at that: SQLite takes the lock of its writer with this.
    async fn try_to_write(&self) -> Result<(), String> {
        let tried = async { self.pools.writer.begin_with_options(IMMEDIATE).await?.rollback().await };
        tried.await.map_err(|error| Chain(&StoreError::from(error)).to_string())
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
        // So that the time that is measured is that of the statement alone.
        self.ping().await?;
        let (begun, before) = (Instant::now(), SystemClock.timestamp());
        let row =
            self.pools.reader.query_one_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await?;
        let half = i64::try_from(begun.elapsed().as_millis() / 2).unwrap_or_default();
        let row = row.ok_or_else(no_row)?;
        let there: i64 = row.try_get_by_index(5)?;
        let server = DatabaseServer {
            version: row.try_get_by_index(1)?,
            read_only: row.try_get_by_index(6)?,
            may_change: row.try_get_by_index(7)?,
            may_create: row.try_get_by_index(2)?,
            encoding: row.try_get_by_index(3)?,
            max_connections: row.try_get_by_index(4)?,
            clock_ahead_ms: there - before.timestamp_millis() - half,
        };
        Ok((row.try_get_by_index(0)?, server))
    }
}

fn no_row() -> StoreError {
    StoreError::from(DbErr::RecordNotFound("the answer is empty".to_owned()))
}
