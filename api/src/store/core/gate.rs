//! Fair access to the database connections. Each statement of an account outside a transaction, and each
//! transaction, waits for a permit.
//!
//! Statements inside a transaction run on the transaction's connection and need no permit of their own.

use entity::Row;
use sea_orm::{
    ConnAcquireErr, ConnectionTrait, DatabaseBackend, DatabaseTransaction, DbErr, ExecResult, QueryResult,
    Statement,
};

use super::{connect::ACQUIRE_TIMEOUT, connection_pool::ConnectionPool, read_rows::ReadRows};
use crate::shares::{FairShares, HeldSlot, Holder, Refused, Slots};

/// The largest number of profiles and breakdowns that are computed at once, because their rows are held in
/// memory.
const ANALYSES: usize = 4;

/// The divisor for the PostgreSQL connections of one credential while others are active. By default it
/// has two of the twelve for accounts, which keeps a database on a small machine responsive to others.
const CONTENDED_DIVISOR: usize = 6;

/// Permits that bound how many statements and transactions of accounts run at a time.
#[derive(Clone)]
pub(crate) struct QueryPermits {
    pub(crate) writers: Slots,
    pub(crate) readers: Slots,
    pub(crate) analyses: Slots,
}

impl QueryPermits {
    /// Creates the permits for a SQLite file with one writer and this many readers.
    pub(crate) fn for_sqlite(shares: &FairShares, readers: usize) -> Self {
        Self {
            writers: shares.slots("database_writer", 1),
            readers: shares.slots("database_readers", readers),
            analyses: shares.slots("analyses", ANALYSES),
        }
    }

    /// Creates the permits for this many PostgreSQL connections.
    pub(crate) fn for_postgres(shares: &FairShares, connections: usize) -> Self {
        let permits = shares.work_slots("database_connections", connections, connections / CONTENDED_DIVISOR);
        Self { writers: permits.clone(), readers: permits, analyses: shares.slots("analyses", ANALYSES) }
    }
}

/// The executor for the statements of an account.
pub(crate) enum Executor<'a> {
    /// Runs each statement on any connection of the pool, once it has a permit.
    Gated {
        /// The connection pool.
        connection: &'a ConnectionPool,
        /// The permits for the pool.
        gate: &'a Slots,
        /// The holder that the permit is charged to.
        holder: Holder,
    },
    /// Runs each statement on the transaction's connection.
    Transaction(&'a DatabaseTransaction),
}

impl<'a> Executor<'a> {
    pub(crate) fn gated(connection: &'a ConnectionPool, gate: &'a Slots, holder: Holder) -> Self {
        Self::Gated { connection, gate, holder }
    }
}

/// Returns the error for a permit that was not granted in time.
pub(crate) fn permit_timeout_error(_: Refused) -> DbErr {
    DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)
}

async fn acquire_permit(gate: &Slots, holder: Holder) -> Result<HeldSlot, DbErr> {
    gate.take(holder, ACQUIRE_TIMEOUT).await.map_err(permit_timeout_error)
}

#[async_trait::async_trait]
impl ConnectionTrait for Executor<'_> {
    fn get_database_backend(&self) -> DatabaseBackend {
        match self {
            Self::Gated { connection, .. } => connection.get_database_backend(),
            Self::Transaction(transaction) => transaction.get_database_backend(),
        }
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        match self {
            Self::Gated { connection, gate, holder } => {
                let _permit = acquire_permit(gate, *holder).await?;
                connection.execute_raw(statement).await
            }
            Self::Transaction(transaction) => transaction.execute_raw(statement).await,
        }
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        match self {
            Self::Gated { connection, gate, holder } => {
                let _permit = acquire_permit(gate, *holder).await?;
                connection.execute_unprepared(sql).await
            }
            Self::Transaction(transaction) => transaction.execute_unprepared(sql).await,
        }
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        match self {
            Self::Gated { connection, gate, holder } => {
                let _permit = acquire_permit(gate, *holder).await?;
                connection.query_one_raw(statement).await
            }
            Self::Transaction(transaction) => transaction.query_one_raw(statement).await,
        }
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        match self {
            Self::Gated { connection, gate, holder } => {
                let _permit = acquire_permit(gate, *holder).await?;
                connection.query_all_raw(statement).await
            }
            Self::Transaction(transaction) => transaction.query_all_raw(statement).await,
        }
    }
}

impl ReadRows for Executor<'_> {
    async fn read_rows<T: Send>(
        &self,
        statement: Statement,
        decode: impl Fn(&Row<'_>) -> Result<T, DbErr> + Send + Sync,
    ) -> Result<Vec<T>, DbErr> {
        match self {
            Self::Gated { connection, gate, holder } => {
                let _permit = acquire_permit(gate, *holder).await?;
                connection.read_rows(statement, decode).await
            }
            Self::Transaction(transaction) => transaction.read_rows(statement, decode).await,
        }
    }
}
