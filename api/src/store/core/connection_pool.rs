//! The pool of connections to the database. sea-orm builds the statements and decodes the rows.
//!
//! A transaction takes a connection of sqlx's pool, as does an unprepared statement. Any other statement
//! takes one at hand, or else one of the pool. Short reads on SQLite have connections of their own.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use entity::Row;
use sea_orm::{
    AccessMode, ConnAcquireErr, ConnectionTrait, DatabaseBackend, DatabaseConnection, DatabaseTransaction,
    DbErr, ExecResult, IsolationLevel, QueryResult, RuntimeErr, SqlxPostgresConnector, SqlxSqliteConnector,
    Statement, TransactionError, TransactionOptions, TransactionTrait, sea_query::Values,
};
use sea_query_sqlx::SqlxValues;
use sqlx::{
    AssertSqlSafe, Database, Executor, IntoArguments, PgPool, Postgres, Sqlite, SqlitePool, query::Query,
};

use tracing::Instrument;

use super::{
    composite_in::compares_constants,
    connections_at_hand::{Claim, ConnectionsAtHand},
    read_rows::{ReadRows, read_by_sqlx},
    short_reads::{ShortReads, use_budget},
    stale_connections::ConnectionEpoch,
    statement_time,
};
use crate::metrics::{Connections, StoreMetrics};

/// The time limit for beginning a transaction, with the time that it waits for a connection. PostgreSQL
/// itself cancels statements that run for longer.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(33);

/// A connection pool of either database. Clones share it.
#[derive(Clone)]
pub(crate) struct ConnectionPool {
    sea_orm: DatabaseConnection,
    at_hand: AtHand,
    /// The connections for short statements, if this pool reads from SQLite.
    short_reads: Option<Arc<ShortReads>>,
    epoch: ConnectionEpoch,
    metrics: Arc<StoreMetrics>,
}

#[derive(Clone)]
enum AtHand {
    Sqlite(Arc<ConnectionsAtHand<Sqlite>>),
    Postgres(Arc<ConnectionsAtHand<Postgres>>),
}

impl ConnectionPool {
    pub(crate) fn from_sqlite(pool: SqlitePool, epoch: ConnectionEpoch, metrics: Arc<StoreMetrics>) -> Self {
        let sea_orm = SqlxSqliteConnector::from_sqlx_sqlite_pool(pool.clone());
        let at_hand = AtHand::Sqlite(ConnectionsAtHand::new(pool, epoch.clone()));
        Self { sea_orm, at_hand, short_reads: None, epoch, metrics }.with_recorded_transactions()
    }

    pub(crate) fn from_postgres(pool: PgPool, epoch: ConnectionEpoch, metrics: Arc<StoreMetrics>) -> Self {
        let sea_orm = SqlxPostgresConnector::from_sqlx_postgres_pool(pool.clone());
        let at_hand = AtHand::Postgres(ConnectionsAtHand::new(pool, epoch.clone()));
        Self { sea_orm, at_hand, short_reads: None, epoch, metrics }.with_recorded_transactions()
    }

    /// Adds connections for short statements to a pool that reads from SQLite.
    pub(super) fn with_short_reads(self, short_reads: ShortReads) -> Self {
        Self { short_reads: Some(Arc::new(short_reads)), ..self }
    }

    /// Records also the statements that sea-orm runs itself, which are those of transactions.
    fn with_recorded_transactions(mut self) -> Self {
        let metrics = Arc::clone(&self.metrics);
        self.sea_orm.set_metric_callback(move |info| {
            record_statement(&metrics, &info.statement.sql, info.elapsed, info.failed);
        });
        self
    }

    /// Closes all connections once their current statements have ended.
    pub(crate) async fn close(&self) {
        if let Some(short_reads) = &self.short_reads {
            short_reads.close();
        }
        // `join!` polls `close` first, which marks the pool as closed. From then on, no connection is put at
        // hand. A failure to close needs no handling, because the process is about to end.
        let close = self.sea_orm.close_by_ref();
        let return_all = async {
            match &self.at_hand {
                AtHand::Sqlite(at_hand) => at_hand.return_all(),
                AtHand::Postgres(at_hand) => at_hand.return_all(),
            }
        };
        let _ = futures::join!(close, return_all);
    }

    /// Returns the current numbers of connections of the pool, which is for `purpose`.
    pub(crate) fn connections(&self, purpose: &'static str) -> Connections {
        match &self.at_hand {
            AtHand::Sqlite(at_hand) => at_hand.connections(purpose),
            AtHand::Postgres(at_hand) => at_hand.connections(purpose),
        }
    }

    fn claim_from_pool(&self) -> Claim<'_> {
        match &self.at_hand {
            AtHand::Sqlite(at_hand) => at_hand.claim_from_pool(),
            AtHand::Postgres(at_hand) => at_hand.claim_from_pool(),
        }
    }

    async fn fetch<DB: Database>(
        &self,
        at_hand: &ConnectionsAtHand<DB>,
        statement: Statement,
    ) -> Result<Vec<QueryResult>, DbErr>
    where
        for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
        SqlxValues: IntoArguments<DB>,
        QueryResult: From<DB::Row>,
    {
        let mut connection = at_hand.take().await.map_err(acquire_error)?;
        let Statement { sql, values, .. } = statement;
        let started_at = Instant::now();
        let rows = prepared::<DB>(&sql, values).fetch_all(connection.as_mut()).await;
        record_statement(&self.metrics, &sql, started_at.elapsed(), rows.is_err());
        let rows = rows.map_err(|error| DbErr::Query(RuntimeErr::SqlxError(Arc::new(error))))?;
        at_hand.put(connection);
        Ok(rows.into_iter().map(QueryResult::from).collect())
    }

    async fn execute<DB: Database>(
        &self,
        at_hand: &ConnectionsAtHand<DB>,
        statement: Statement,
    ) -> Result<ExecResult, DbErr>
    where
        for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
        SqlxValues: IntoArguments<DB>,
        ExecResult: From<DB::QueryResult>,
    {
        let mut connection = at_hand.take().await.map_err(acquire_error)?;
        let Statement { sql, values, .. } = statement;
        let started_at = Instant::now();
        let result = prepared::<DB>(&sql, values).execute(connection.as_mut()).await;
        record_statement(&self.metrics, &sql, started_at.elapsed(), result.is_err());
        let result = result.map_err(|error| DbErr::Exec(RuntimeErr::SqlxError(Arc::new(error))))?;
        at_hand.put(connection);
        Ok(result.into())
    }
}

/// Creates the query. Each connection prepares it once.
fn prepared<'q, DB: Database>(sql: &str, values: Option<Values>) -> Query<'q, DB, SqlxValues>
where
    SqlxValues: IntoArguments<DB>,
{
    // The store composes statements of constants, names and placeholders.
    sqlx::query_with(AssertSqlSafe(sql), SqlxValues(values.unwrap_or(Values(Vec::new()))))
}

/// Records a statement in the metrics, in the statistics of the current request, and in the log if statements
/// are logged.
fn record_statement(metrics: &StoreMetrics, sql: &str, elapsed: Duration, failed: bool) {
    metrics.statement(elapsed, failed);
    statement_time::add_time(elapsed);
    // Only Citus refuses such a statement, so that no test without Citus would detect it.
    debug_assert!(!compares_constants(sql), "{sql}");
    // The text has placeholders, so that values never reach the log.
    tracing::trace!(target: "galvo::statement", sql, seconds = elapsed.as_secs_f64(), failed);
}

/// Classifies the error of acquiring a connection as sea-orm does.
fn acquire_error(error: sqlx::Error) -> DbErr {
    match error {
        sqlx::Error::PoolTimedOut => DbErr::ConnectionAcquire(ConnAcquireErr::Timeout),
        sqlx::Error::PoolClosed => DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed),
        error => DbErr::Conn(RuntimeErr::SqlxError(Arc::new(error))),
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for ConnectionPool {
    fn get_database_backend(&self) -> DatabaseBackend {
        self.sea_orm.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        match &self.at_hand {
            AtHand::Sqlite(at_hand) => self.execute(at_hand, statement).await,
            AtHand::Postgres(at_hand) => self.execute(at_hand, statement).await,
        }
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let _claim = self.claim_from_pool();
        self.sea_orm.execute_unprepared(sql).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        // All rows are read, of which there is one at most. A connection can be used again only after its
        // response was read to the end.
        Ok(self.query_all_raw(statement).await?.into_iter().next())
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        match &self.at_hand {
            AtHand::Sqlite(at_hand) => self.fetch(at_hand, statement).await,
            AtHand::Postgres(at_hand) => self.fetch(at_hand, statement).await,
        }
    }
}

impl ReadRows for ConnectionPool {
    async fn read_rows<T: Send>(
        &self,
        statement: Statement,
        decode: impl Fn(&Row<'_>) -> Result<T, DbErr> + Send + Sync,
    ) -> Result<Vec<T>, DbErr> {
        if let Some(short_reads) = &self.short_reads {
            let started_at = Instant::now();
            let rows = short_reads.read(&statement, &decode);
            let elapsed = started_at.elapsed();
            if let Some(rows) = rows {
                record_statement(&self.metrics, &statement.sql, elapsed, false);
                use_budget(elapsed).await;
                return Ok(rows);
            }
            // The request pays for the attempt as well.
            statement_time::add_time(elapsed);
        }
        read_by_sqlx(self, statement, decode).await
    }
}

#[async_trait::async_trait]
impl TransactionTrait for ConnectionPool {
    type Transaction = DatabaseTransaction;

    async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        self.begin_with_config(None, None).await
    }

    async fn begin_with_config(
        &self,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<DatabaseTransaction, DbErr> {
        let options = TransactionOptions { isolation_level, access_mode, sqlite_transaction_mode: None };
        self.begin_with_options(options).await
    }

    async fn begin_with_options(&self, options: TransactionOptions) -> Result<DatabaseTransaction, DbErr> {
        let pool = self.clone();
        // In a task of its own, because sqlx does not roll back a transaction of PostgreSQL whose caller was
        // dropped while it began. The next statements on its connection would be inside it.
        let transaction = tokio::spawn(
            async move {
                let begin = async {
                    let _claim = pool.claim_from_pool();
                    pool.sea_orm.begin_with_options(options).await
                };
                let transaction = pool.epoch.with_timeout(BEGIN_TIMEOUT, begin).await;
                transaction.unwrap_or(Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)))
            }
            .in_current_span(),
        );
        transaction.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    async fn transaction<F, T, E>(&self, callback: F) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c DatabaseTransaction) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>
            + Send,
        T: Send,
        E: std::fmt::Display + std::fmt::Debug + Send,
    {
        self.transaction_with_config(callback, None, None).await
    }

    async fn transaction_with_config<F, T, E>(
        &self,
        callback: F,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(&'c DatabaseTransaction) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>
            + Send,
        T: Send,
        E: std::fmt::Display + std::fmt::Debug + Send,
    {
        let transaction = self.begin_with_config(isolation_level, access_mode).await?;
        match callback(&transaction).await {
            Ok(value) => {
                transaction.commit().await?;
                Ok(value)
            }
            Err(error) => {
                transaction.rollback().await?;
                Err(TransactionError::Transaction(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use sqlx::sqlite::SqliteConnectOptions;
    use tempfile::TempDir;

    use super::*;
    use crate::store::core::connect::sqlite;

    const PROMPTLY: Duration = Duration::from_secs(2);

    struct TestPool {
        pool: ConnectionPool,
        _directory: TempDir,
    }

    impl TestPool {
        async fn open(connections: u32) -> Self {
            let directory = TempDir::new().expect("a directory");
            let url = format!("sqlite://{}?mode=rwc", directory.path().join("store.db").display());
            let options = SqliteConnectOptions::from_str(&url).expect("a valid URL");
            let pool = sqlite(&options, connections).await.expect("a pool");
            let pool = ConnectionPool::from_sqlite(pool, ConnectionEpoch::default(), Arc::default());
            Self { pool, _directory: directory }
        }

        fn at_hand(&self) -> &ConnectionsAtHand<Sqlite> {
            match &self.pool.at_hand {
                AtHand::Sqlite(at_hand) => at_hand,
                AtHand::Postgres(_) => unreachable!("the pool is of SQLite"),
            }
        }

        fn count_at_hand(&self) -> usize {
            self.at_hand().count()
        }

        async fn select(&self, sql: &str) -> Result<i64, DbErr> {
            let statement = Statement::from_string(DatabaseBackend::Sqlite, sql);
            let row = self.pool.query_one_raw(statement).await?;
            row.expect("a row").try_get_by_index(0)
        }
    }

    #[tokio::test]
    async fn a_transaction_takes_the_connection_that_a_statement_left_at_hand() {
        let test = TestPool::open(1).await;
        for number in 0..3 {
            assert_eq!(test.select(&format!("SELECT {number}")).await, Ok(number));
            assert_eq!(test.count_at_hand(), 1);
        }
        let Connections { idle, in_use, max, .. } = test.pool.connections("all");
        assert_eq!((idle, in_use, max), (1, 0, 1));

        let begin = tokio::time::timeout(PROMPTLY, test.pool.begin()).await;
        let transaction = begin.expect("a connection").expect("a transaction");
        assert_eq!(test.count_at_hand(), 0);
        assert_eq!(test.pool.connections("all").in_use, 1);
        transaction.execute_unprepared("CREATE TABLE numbers (number INTEGER)").await.expect("a table");
        transaction.commit().await.expect("a commit");
        assert_eq!(test.select("SELECT COUNT(*) FROM numbers").await, Ok(0));
        let insert = Statement::from_string(DatabaseBackend::Sqlite, "INSERT INTO numbers VALUES (7), (8)");
        assert_eq!(test.pool.execute_raw(insert).await.expect("rows").rows_affected(), 2);
        assert_eq!(test.count_at_hand(), 1);
        test.pool.execute_unprepared("DELETE FROM numbers").await.expect("an empty table");
        assert_eq!(test.select("SELECT COUNT(*) FROM numbers").await, Ok(0));
    }

    #[tokio::test]
    async fn failed_and_dropped_statements_leave_no_connection_at_hand() {
        let test = TestPool::open(1).await;
        let error = test.select("SELECT missing").await.expect_err("there is no such column");
        assert!(error.to_string().contains("no such column"), "{error}");
        assert_eq!(test.count_at_hand(), 0);
        assert_eq!(test.select("SELECT 1").await, Ok(1));

        let endless = "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers \
                       LIMIT 3000000) SELECT number FROM numbers";
        tokio::time::timeout(Duration::from_millis(20), test.select(endless)).await.expect_err("a timeout");
        assert_eq!(test.count_at_hand(), 0);
        assert_eq!(test.select("SELECT 2").await, Ok(2));
    }

    #[tokio::test]
    async fn a_transaction_whose_caller_was_dropped_while_it_began_is_rolled_back() {
        let test = TestPool::open(1).await;
        let blocking = test.pool.begin().await.expect("a transaction");
        // It waits for the only connection.
        tokio::time::timeout(Duration::from_millis(20), test.pool.begin()).await.expect_err("a timeout");
        blocking.commit().await.expect("a commit");
        let next = tokio::time::timeout(PROMPTLY, test.pool.begin()).await;
        let next = next.expect("a connection").expect("a transaction");
        next.execute_unprepared("CREATE TABLE numbers (number INTEGER)").await.expect("a table");
        next.commit().await.expect("a commit");
        assert_eq!(test.select("SELECT COUNT(*) FROM numbers").await, Ok(0));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn statements_and_transactions_share_few_connections() {
        for connections in [1, 2] {
            let test = Arc::new(TestPool::open(connections).await);
            let tasks = (0..8).map(|task| {
                let test = Arc::clone(&test);
                tokio::spawn(async move {
                    for round in 0..50 {
                        if (task + round) % 3 == 0 {
                            let transaction = test.pool.begin().await.expect("a transaction");
                            transaction.execute_unprepared("SELECT 1").await.expect("an answer");
                            transaction.commit().await.expect("a commit");
                        } else {
                            assert_eq!(test.select(&format!("SELECT {round}")).await, Ok(round));
                        }
                    }
                })
            });
            for task in futures::future::join_all(tasks).await {
                task.expect("each statement got a connection");
            }
            let Connections { idle, in_use, .. } = test.pool.connections("all");
            assert!(idle + in_use <= connections as usize, "{idle} idle and {in_use} used of {connections}");
        }
    }

    #[tokio::test]
    async fn closing_returns_connections_at_hand_and_waits_for_the_others() {
        let test = TestPool::open(2).await;
        let count = "WITH RECURSIVE numbers(number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers \
                     LIMIT 300000) SELECT COUNT(*) FROM numbers";
        let (one, other) = (test.at_hand().take().await, test.at_hand().take().await);
        test.at_hand().put(one.expect("a connection"));
        test.at_hand().put(other.expect("another connection"));
        assert_eq!(test.count_at_hand(), 2);
        let running = async { assert_eq!(test.select(count).await, Ok(300_000)) };
        let close = async {
            tokio::task::yield_now().await;
            tokio::time::timeout(PROMPTLY, test.pool.close()).await.expect("all connections return");
        };
        tokio::join!(running, close);
        assert_eq!(test.count_at_hand(), 0);
        let error = test.select("SELECT 3").await.expect_err("the pool is closed");
        assert!(matches!(error, DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed)), "{error}");
    }

    #[test]
    fn a_pool_may_be_dropped_after_its_runtime() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let test = runtime.block_on(async {
            let test = TestPool::open(1).await;
            assert_eq!(test.select("SELECT 1").await, Ok(1));
            test
        });
        assert_eq!(test.count_at_hand(), 1);
        drop(runtime);
        drop(test);
    }
}
