//! The database as one account sees it: the only place where statements on tenant tables are created.
#![expect(clippy::disallowed_methods, reason = "other modules use this one instead")]

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use entity::{AccountOwned, ids::AccountId};
use futures::future::BoxFuture;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, DatabaseBackend, DatabaseTransaction, DbErr,
    DeleteMany, IntoActiveModel, QueryFilter, Select, TransactionTrait, UpdateMany, sea_query::OnConflict,
};

use super::{
    audit_log::DecryptionCounts,
    connect::{ACQUIRE_TIMEOUT, IMMEDIATE_TRANSACTION},
    connection_pool::ConnectionPool,
    error::StoreError,
    gate::{self, Executor, QueryPermits},
    shown_clusters::is_shown,
    stale_connections::ConnectionEpoch,
    system::SystemStore,
};
use crate::{
    bus::{Bus, ChangeKinds, Notice},
    domain::{audit::Actor, quota::Limits},
    key_ring::KeyRing,
    metrics::{StoreMetrics, TransactionOutcome},
    shares::{HeldSlot, Holder},
};

/// The total number of attempts for a transaction that conflicts with others.
const ATTEMPTS: u32 = 4;

/// The time limit for acquiring an analysis permit. A query has the same time limit, and so ends first.
const ANALYSIS_PERMIT_TIMEOUT: Duration = Duration::from_mins(10);

/// The time limit for a whole transaction on PostgreSQL. PostgreSQL itself cancels statements that run
/// for longer, so at this limit the response was lost in the network.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(90);

/// The largest number of rows in one statement. It is far below the databases' limits on bound values,
/// and more rows gain nothing.
const MAX_ROWS: usize = 512;

/// The largest number of rows for which a statement of exactly that size is prepared. Most reports have
/// no more rows than this for a table.
const FEW_ROWS: usize = 8;

/// The connection pools. On SQLite, readers have connections of their own.
#[derive(Clone)]
pub(crate) struct Pools {
    pub(crate) writer: ConnectionPool,
    pub(crate) reader: ConnectionPool,
    pub(crate) epoch: ConnectionEpoch,
    pub(crate) gates: QueryPermits,
}

/// The future of the work of one transaction.
pub type Write<T> = BoxFuture<'static, Result<T, StoreError>>;

#[derive(Clone)]
enum Handle {
    Pools(Pools),
    Transaction(Arc<DatabaseTransaction>),
}

/// The database as one account sees it.
///
/// Its connection is private, so nothing outside the store can run SQL, scoped or not:
/// ```compile_fail,E0616
/// fn reach(store: &galvo::store::AccountStore) {
///     let _ = &store.handle;
/// }
/// ```
#[derive(Clone)]
pub struct AccountStore {
    handle: Handle,
    account: AccountId,
    holder: Holder,
    keys: KeyRing,
    actor: Option<Arc<Actor>>,
    decrypted: Arc<DecryptionCounts>,
    bus: Arc<dyn Bus>,
    metrics: Arc<StoreMetrics>,
    /// The outbox of the transaction: the changes to publish after the commit.
    outbox: Arc<Mutex<Outbox>>,
    /// The storage limits of an account without a quota of its own.
    limits: Limits,
}

/// The changes to publish to the account's subscribers.
#[derive(Debug, Default)]
struct Outbox {
    clusters: Vec<Notice>,
    account: ChangeKinds,
}

impl Outbox {
    fn publish_all(self, account: AccountId, bus: &dyn Bus) {
        for notice in self.clusters {
            bus.publish(account, notice);
        }
        if self.account != ChangeKinds::NOTHING {
            bus.publish_account(account, self.account);
        }
    }
}

impl AccountStore {
    pub(crate) fn new(
        system: &SystemStore,
        account: AccountId,
        holder: Holder,
        keys: KeyRing,
        bus: Arc<dyn Bus>,
    ) -> Self {
        let (handle, metrics) = (Handle::Pools(system.pools.clone()), Arc::clone(&system.metrics));
        let (actor, decrypted, outbox) = (None, Arc::default(), Arc::default());
        Self { handle, account, holder, keys, actor, decrypted, bus, metrics, outbox, limits: system.limits }
    }

    /// Returns the same view on behalf of an actor, for changes and reads that need an audit entry.
    /// Without an actor, such operations fail.
    #[must_use]
    pub fn on_behalf_of(self, actor: Actor) -> Self {
        Self { actor: Some(Arc::new(actor)), decrypted: Arc::default(), ..self }
    }

    /// Returns the actor, if there is one.
    pub(crate) fn actor(&self) -> Option<&Actor> {
        self.actor.as_deref()
    }

    /// Returns the record of the rows decrypted for the actor.
    pub(crate) fn decrypted(&self) -> &DecryptionCounts {
        &self.decrypted
    }

    /// Publishes a change of one of the account's clusters. In a transaction, it is published after the
    /// commit.
    pub(crate) fn announce(&self, notice: Notice) {
        self.with_outbox(|outbox| outbox.clusters.push(notice));
    }

    /// Publishes changes of the account itself, in the same way.
    pub(crate) fn announce_account(&self, changed: ChangeKinds) {
        self.with_outbox(|outbox| outbox.account = outbox.account | changed);
    }

    fn with_outbox(&self, add: impl FnOnce(&mut Outbox)) {
        match self.handle {
            Handle::Transaction(_) => add(&mut self.outbox.lock().unwrap_or_else(PoisonError::into_inner)),
            // Without a transaction, each statement is committed when it returns.
            Handle::Pools(_) => {
                let mut outbox = Outbox::default();
                add(&mut outbox);
                outbox.publish_all(self.account, &*self.bus);
            }
        }
    }

    /// Returns the account of this view.
    #[must_use]
    pub fn account_id(&self) -> AccountId {
        self.account
    }

    /// Returns the storage limits of an account without a quota of its own.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns the keys that encrypt the account's data.
    pub(crate) fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Runs `operation` in one transaction. It runs again after a conflict with another transaction, so
    /// it must have no side effects other than its statements.
    ///
    /// # Errors
    /// Returns the error of `operation` or of the commit. Nothing is stored in that case.
    pub async fn write<T: Send + 'static>(
        &self,
        operation: impl Fn(Self) -> Write<T> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        self.write_with_timeout(TRANSACTION_TIMEOUT, operation).await
    }

    /// The same as [`Self::write`], with the time limit `timeout`. SQLite has no time limit.
    ///
    /// # Errors
    /// Returns the error of `operation` or of the commit, or [`StoreError::Unavailable`] after the time
    /// limit. In the latter case, the transaction may or may not have been committed.
    pub async fn write_with_timeout<T: Send + 'static>(
        &self,
        timeout: Duration,
        operation: impl Fn(Self) -> Write<T> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let Handle::Pools(pools) = self.handle.clone() else {
            // Inside a transaction, the outer transaction commits.
            return operation(self.clone()).await;
        };
        let view = self.clone();
        // The transaction runs in a task of its own, because a client may disconnect at any time.
        let transaction = tokio::spawn(async move {
            let transaction = async {
                let mut attempt = 1;
                loop {
                    match in_transaction(&pools, &view, &operation).await {
                        Err(StoreError::Contention(_)) if attempt < ATTEMPTS => attempt += 1,
                        outcome => return outcome,
                    }
                }
            };
            match pools.writer.get_database_backend() {
                DatabaseBackend::Postgres => {
                    let outcome = pools.epoch.with_timeout(timeout, transaction).await;
                    outcome.unwrap_or_else(|| Err(StoreError::timed_out()))
                }
                // A SQLite file answers or fails without a network, and a transaction on it must not be
                // dropped.
                _ => transaction.await,
            }
        });
        transaction.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    pub(crate) fn read_executor(&self) -> Executor<'_> {
        match &self.handle {
            Handle::Pools(pools) => Executor::gated(&pools.reader, &pools.gates.readers, self.holder),
            Handle::Transaction(transaction) => Executor::Transaction(transaction),
        }
    }

    pub(crate) fn write_executor(&self) -> Executor<'_> {
        match &self.handle {
            Handle::Pools(pools) => Executor::gated(&pools.writer, &pools.gates.writers, self.holder),
            Handle::Transaction(transaction) => Executor::Transaction(transaction),
        }
    }

    /// Waits for a permit for an analysis, which needs memory and a processor core for a while. Returns
    /// `None` inside a transaction, which needs no permit.
    ///
    /// # Errors
    /// Returns [`StoreError::Unavailable`] if too many are waiting already.
    pub(crate) async fn acquire_analysis_permit(&self) -> Result<Option<HeldSlot>, StoreError> {
        match &self.handle {
            Handle::Pools(pools) => {
                let permit = pools.gates.analyses.take(self.holder, ANALYSIS_PERMIT_TIMEOUT).await;
                permit.map(Some).map_err(|refused| gate::permit_timeout_error(refused).into())
            }
            Handle::Transaction(_) => Ok(None),
        }
    }

    /// Returns the kind of database, where statements differ.
    pub(crate) fn backend(&self) -> DatabaseBackend {
        self.read_executor().get_database_backend()
    }

    /// Selects the account's rows, without those of hidden clusters.
    pub(crate) fn select<E: AccountOwned>(&self) -> Select<E> {
        self.select_with_hidden::<E>().filter(self.visibility_condition::<E>())
    }

    pub(crate) fn update<E: AccountOwned>(&self) -> UpdateMany<E> {
        self.update_with_hidden::<E>().filter(self.visibility_condition::<E>())
    }

    pub(crate) fn delete<E: AccountOwned>(&self) -> DeleteMany<E> {
        self.delete_with_hidden::<E>().filter(self.visibility_condition::<E>())
    }

    /// Selects the account's rows, including those of hidden clusters. It is meant for hiding, restoring
    /// and deleting clusters, and for reports, which must learn that their cluster is hidden.
    pub(crate) fn select_with_hidden<E: AccountOwned>(&self) -> Select<E> {
        E::find().filter(E::ACCOUNT_ID.eq(self.account))
    }

    /// The same as [`Self::select_with_hidden`] for updates.
    pub(crate) fn update_with_hidden<E: AccountOwned>(&self) -> UpdateMany<E> {
        const { assert!(!E::APPEND_ONLY, "rows of this table are only added") };
        E::update_many().filter(E::ACCOUNT_ID.eq(self.account))
    }

    /// The same as [`Self::select_with_hidden`] for deletions.
    pub(crate) fn delete_with_hidden<E: AccountOwned>(&self) -> DeleteMany<E> {
        const { assert!(!E::APPEND_ONLY, "rows of this table are only added") };
        E::delete_many().filter(E::ACCOUNT_ID.eq(self.account))
    }

    /// Returns the condition for a visible row: the row itself and its cluster are not hidden.
    fn visibility_condition<E: AccountOwned>(&self) -> Condition {
        let is_cluster_shown =
            E::CLUSTER_ID.map(|cluster| is_shown(cluster.into_expr(), self.account, self.backend()));
        Condition::all().add_option(is_cluster_shown).add_option(E::HIDDEN_AT.map(|column| column.is_null()))
    }

    /// Inserts rows in few statements. The account of each row is set to this view's account.
    pub(crate) async fn insert<E>(
        &self,
        rows: Vec<E::Model>,
        on_conflict: &OnConflict,
    ) -> Result<u64, StoreError>
    where
        E: AccountOwned,
        E::Model: IntoActiveModel<E::ActiveModel>,
        E::ActiveModel: Send,
    {
        let mut inserted = 0;
        let mut rows = rows.into_iter();
        while rows.len() > 0 {
            // The sizes are small numbers and then powers of two, so that there are few different
            // statements: each one stays prepared, on the connection and in the database, with all of
            // its placeholders.
            let chunk_size =
                if rows.len() <= FEW_ROWS { rows.len() } else { MAX_ROWS.min(1 << rows.len().ilog2()) };
            let chunk = rows.by_ref().take(chunk_size).map(|row| {
                let mut row = row.into_active_model().reset_all();
                row.set(E::ACCOUNT_ID, self.account.into());
                row
            });
            let insert = E::insert_many(chunk).on_conflict(on_conflict.clone());
            inserted += insert.exec_without_returning(&self.write_executor()).await?;
        }
        Ok(inserted)
    }
}

/// Runs `operation` in one transaction and records its outcome in the metrics.
async fn in_transaction<T>(
    pools: &Pools,
    view: &AccountStore,
    operation: &(impl Fn(AccountStore) -> Write<T> + Sync),
) -> Result<T, StoreError> {
    let requested_at = Instant::now();
    // The permit is held until the end of the transaction, which returns the connection to the pool.
    let begin = async {
        let permit = pools
            .gates
            .writers
            .take(view.holder, ACQUIRE_TIMEOUT)
            .await
            .map_err(gate::permit_timeout_error)?;
        Ok((permit, pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?))
    };
    let (_permit, transaction) = match begin.await {
        Ok(permit_and_transaction) => permit_and_transaction,
        Err(error) => {
            let error: DbErr = error;
            let error = StoreError::from(error);
            view.metrics.transaction(requested_at, None, transaction_outcome(Some(&error)));
            return Err(error);
        }
    };
    let begun_at = Instant::now();
    let outcome = run_and_commit(transaction, &pools.epoch, view, operation).await;
    view.metrics.transaction(requested_at, Some(begun_at), transaction_outcome(outcome.as_ref().err()));
    outcome
}

async fn run_and_commit<T>(
    transaction: DatabaseTransaction,
    epoch: &ConnectionEpoch,
    view: &AccountStore,
    operation: &(impl Fn(AccountStore) -> Write<T> + Sync),
) -> Result<T, StoreError> {
    let transaction = Arc::new(transaction);
    let outbox: Arc<Mutex<Outbox>> = Arc::default();
    let scope = AccountStore {
        handle: Handle::Transaction(Arc::clone(&transaction)),
        outbox: Arc::clone(&outbox),
        ..view.clone()
    };
    let outcome = operation(scope).await;
    let transaction = Arc::into_inner(transaction).expect("the operation that held the scope has ended");
    match outcome {
        Ok(value) => {
            transaction.commit().await?;
            let outbox = mem::take(&mut *outbox.lock().unwrap_or_else(PoisonError::into_inner));
            outbox.publish_all(view.account, &*view.bus);
            Ok(value)
        }
        Err(error) => {
            if error.is_read_only() {
                // A former primary stays connected and never accepts a write again.
                epoch.invalidate();
            }
            // The original error is more informative than an error of the rollback.
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}

/// Returns the outcome of a transaction for the metrics.
fn transaction_outcome(error: Option<&StoreError>) -> TransactionOutcome {
    match error {
        None => TransactionOutcome::Committed,
        Some(StoreError::Contention(_)) => TransactionOutcome::Contention,
        Some(StoreError::Conflict(_)) => TransactionOutcome::Conflict,
        Some(StoreError::Unavailable(DbErr::ConnectionAcquire(_))) => TransactionOutcome::NoConnection,
        Some(StoreError::Unavailable(_)) => TransactionOutcome::Unavailable,
        Some(StoreError::Unexpected(_) | StoreError::Decryption(_) | StoreError::TooLarge(_)) => {
            TransactionOutcome::Failed
        }
    }
}
