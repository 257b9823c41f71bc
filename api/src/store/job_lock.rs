//! One server at a time does the background work of a store.

use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseTransaction, Statement, TransactionTrait};

use super::{error::StoreError, identity::SystemStore};

/// Any number no other application on the same PostgreSQL is likely to lock.
const JOB_LOCK: i64 = 0x6761_6c76_6f02;

/// The right to do the background work. It ends with the connection it is held by, whatever happens.
pub struct JobLock(Option<DatabaseTransaction>);

impl SystemStore {
    /// The right to do the background work, unless another server has it. SQLite has one server only.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn lock_jobs(&self) -> Result<Option<JobLock>, StoreError> {
        if self.pools.writer.get_database_backend() != DatabaseBackend::Postgres {
            return Ok(Some(JobLock(None)));
        }
        // A lock of a transaction and not of a session, since poolers of connections keep only the former apart.
        let transaction = self.pools.writer.begin().await?;
        // The work goes on in other connections; this one waits.
        transaction.execute_unprepared("SET LOCAL idle_in_transaction_session_timeout = 0").await?;
        let sql = format!("SELECT pg_try_advisory_xact_lock({JOB_LOCK})");
        let row = transaction.query_one_raw(Statement::from_string(DatabaseBackend::Postgres, sql)).await?;
        let locked = match row {
            Some(row) => row.try_get_by_index(0)?,
            None => false,
        };
        Ok(locked.then_some(JobLock(Some(transaction))))
    }
}

impl JobLock {
    /// Lets another server do the work.
    pub async fn release(self) {
        if let Some(transaction) = self.0 {
            // If the connection is gone, so is the lock.
            let _ = transaction.rollback().await;
        }
    }
}
