//! The lock that lets one server at a time run the background jobs of a store.

use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseTransaction, Statement, TransactionTrait};

use crate::store::core::{error::StoreError, system::SystemStore};

/// The key of the advisory lock: any number that no other application on the same PostgreSQL is likely
/// to use.
const JOB_LOCK: i64 = 0x6761_6c76_6f02;

/// The right to run the background jobs. It ends with the connection that holds the lock.
pub struct JobLock(Option<DatabaseTransaction>);

impl SystemStore {
    /// Takes the right to run the background jobs. Returns `None` if another server has it. Always
    /// succeeds on SQLite, which has one server only.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn lock_jobs(&self) -> Result<Option<JobLock>, StoreError> {
        if self.pools.writer.get_database_backend() != DatabaseBackend::Postgres {
            return Ok(Some(JobLock(None)));
        }
        // The lock belongs to a transaction and not to a session, since connection poolers keep only
        // transactions apart.
        let transaction = self.pools.writer.begin().await?;
        // The jobs run on other connections and this one stays idle, so it must not time out.
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
    /// Returns true if the connection that holds the lock is still open.
    pub async fn is_held(&self) -> bool {
        match &self.0 {
            Some(transaction) => transaction.execute_unprepared("SELECT 1").await.is_ok(),
            None => true,
        }
    }

    /// Releases the lock to other servers.
    pub async fn release(self) {
        if let Some(transaction) = self.0 {
            // If the connection is gone, so is the lock.
            let _ = transaction.rollback().await;
        }
    }
}
