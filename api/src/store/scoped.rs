//! The database as one account sees it: the only place where statements on tenant tables are born.
#![expect(clippy::disallowed_methods, reason = "this is the place the other modules are sent to")]

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use entity::{AccountOwned, ids::AccountId};
use futures::future::BoxFuture;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseBackend, DatabaseConnection, DatabaseExecutor,
    DatabaseTransaction, DbErr, DeleteMany, IntoActiveModel, QueryFilter, Select, TransactionTrait,
    UpdateMany, sea_query::OnConflict,
};

use super::{
    audit_entry::Decrypted, connect::IMMEDIATE, doubt::Doubt, error::StoreError, identity::SystemStore,
};
use crate::{
    bus::{Bus, Notice},
    domain::audit::Actor,
    key_ring::KeyRing,
    metrics::{StoreMetrics, TransactionOutcome},
};

/// How often a transaction that collided with another is tried in all.
const ATTEMPTS: u32 = 4;

/// How long PostgreSQL may take over a transaction in all. It ends a statement itself that takes longer, and so it is the network that
/// lost the answer.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(90);

/// Rows in one statement at the most: far below what the databases take in values, and more gains nothing.
const MAX_ROWS: usize = 512;

/// Rows that get a statement of their own number: as many as most reports have for a table.
const FEW_ROWS: usize = 8;

/// Where statements go: on SQLite readers have connections of their own.
#[derive(Clone)]
pub(super) struct Pools {
    pub(super) writer: DatabaseConnection,
    pub(super) reader: DatabaseConnection,
    pub(super) doubt: Doubt,
}

/// What one transaction does.
pub type Write<T> = BoxFuture<'static, Result<T, StoreError>>;

#[derive(Clone)]
enum Handle {
    Pools(Pools),
    Transaction(Arc<DatabaseTransaction>),
}

/// The database as one account sees it.
///
/// Its connection is out of reach, so nothing outside the store can run SQL, scoped or not:
/// ```compile_fail,E0616
/// fn reach(store: &galvo::store::AccountStore) {
///     let _ = &store.handle;
/// }
/// ```
#[derive(Clone)]
pub struct AccountStore {
    handle: Handle,
    account: AccountId,
    keys: KeyRing,
    actor: Option<Arc<Actor>>,
    decrypted: Arc<Decrypted>,
    bus: Arc<dyn Bus>,
    metrics: Arc<StoreMetrics>,
    /// What a transaction changed, to be told once it is committed.
    news: Arc<Mutex<News>>,
}

/// What those who watch the account are to be told.
#[derive(Debug, Default)]
struct News {
    clusters: Vec<Notice>,
    access: bool,
}

impl News {
    fn tell(self, account: AccountId, bus: &dyn Bus) {
        for notice in self.clusters {
            bus.publish(account, notice);
        }
        if self.access {
            bus.publish_access(account);
        }
    }
}

impl AccountStore {
    pub(super) fn new(system: &SystemStore, account: AccountId, keys: KeyRing, bus: Arc<dyn Bus>) -> Self {
        let (handle, metrics) = (Handle::Pools(system.pools.clone()), Arc::clone(&system.metrics));
        let (actor, decrypted, news) = (None, Arc::default(), Arc::default());
        Self { handle, account, keys, actor, decrypted, bus, metrics, news }
    }

    /// The same view for somebody who may change the account, or read what is written down when it is read. Without one
    /// there is nobody to write down, and such changes fail.
    #[must_use]
    pub fn acting(self, actor: Actor) -> Self {
        Self { actor: Some(Arc::new(actor)), decrypted: Arc::default(), ..self }
    }

    /// Who acts.
    pub(super) fn actor(&self) -> Option<&Actor> {
        self.actor.as_deref()
    }

    /// What was decrypted for who acts.
    pub(super) fn decrypted(&self) -> &Decrypted {
        &self.decrypted
    }

    /// Tells those who watch the account that one of its clusters changed: after the commit, and only then.
    pub(crate) fn announce(&self, notice: Notice) {
        self.with_news(|news| news.clusters.push(notice));
    }

    /// Tells them that it changed who may see the account.
    pub(crate) fn announce_access(&self) {
        self.with_news(|news| news.access = true);
    }

    fn with_news(&self, add: impl FnOnce(&mut News)) {
        match self.handle {
            Handle::Transaction(_) => add(&mut self.news.lock().unwrap_or_else(PoisonError::into_inner)),
            // There is no transaction: each statement is committed when it returns.
            Handle::Pools(_) => {
                let mut news = News::default();
                add(&mut news);
                news.tell(self.account, &*self.bus);
            }
        }
    }

    /// The account this is the view of.
    #[must_use]
    pub fn account_id(&self) -> AccountId {
        self.account
    }

    /// The keys its texts are encrypted with.
    pub(super) fn keys(&self) -> &KeyRing {
        &self.keys
    }

    /// Runs `operation` in one transaction: all of it is stored, or none. It runs again when it collided with
    /// another transaction, so it must have no other effect than its statements.
    ///
    /// # Errors
    /// What `operation` or the commit reports; nothing is stored then.
    pub async fn write<T: Send + 'static>(
        &self,
        operation: impl Fn(Self) -> Write<T> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        self.write_within(TRANSACTION_TIMEOUT, operation).await
    }

    /// The same, for work that nobody waits for longer than `patience`.
    ///
    /// # Errors
    /// What `operation` or the commit reports, and [`StoreError::Unavailable`] when it took longer. Whether it was committed cannot be
    /// known then.
    pub async fn write_within<T: Send + 'static>(
        &self,
        patience: Duration,
        operation: impl Fn(Self) -> Write<T> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let Handle::Pools(pools) = self.handle.clone() else {
            // Already inside: the outer transaction decides.
            return operation(self.clone()).await;
        };
        let view = self.clone();
        // In a task of its own, because a client may hang up at any time: a transaction that is dropped while
        // it begins would go back to the pool open, and whoever gets that connection next would be inside it.
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
                    let outcome = pools.doubt.within(patience, transaction).await;
                    outcome.unwrap_or_else(|| Err(StoreError::silent()))
                }
                // A file answers, or says why it does not; and a transaction on it must not be dropped.
                _ => transaction.await,
            }
        });
        transaction.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    pub(super) fn reads(&self) -> DatabaseExecutor<'_> {
        match &self.handle {
            Handle::Pools(pools) => DatabaseExecutor::Connection(&pools.reader),
            Handle::Transaction(transaction) => DatabaseExecutor::Transaction(transaction),
        }
    }

    pub(super) fn writes(&self) -> DatabaseExecutor<'_> {
        match &self.handle {
            Handle::Pools(pools) => DatabaseExecutor::Connection(&pools.writer),
            Handle::Transaction(transaction) => DatabaseExecutor::Transaction(transaction),
        }
    }

    pub(super) fn select<E: AccountOwned>(&self) -> Select<E> {
        E::find().filter(E::ACCOUNT_ID.eq(self.account))
    }

    pub(super) fn update<E: AccountOwned>(&self) -> UpdateMany<E> {
        const { assert!(!E::APPEND_ONLY, "rows of this table are only added") };
        E::update_many().filter(E::ACCOUNT_ID.eq(self.account))
    }

    pub(super) fn delete<E: AccountOwned>(&self) -> DeleteMany<E> {
        const { assert!(!E::APPEND_ONLY, "rows of this table are only added") };
        E::delete_many().filter(E::ACCOUNT_ID.eq(self.account))
    }

    /// Inserts rows of this account, whatever account they name, in few statements.
    pub(super) async fn insert<E>(
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
            // Small numbers, and then powers of two, so that there are few different statements: each stays
            // prepared, on the connection and in the database, with all of its placeholders.
            let most =
                if rows.len() <= FEW_ROWS { rows.len() } else { MAX_ROWS.min(1 << rows.len().ilog2()) };
            let chunk = rows.by_ref().take(most).map(|row| {
                let mut row = row.into_active_model().reset_all();
                row.set(E::ACCOUNT_ID, self.account.into());
                row
            });
            let insert = E::insert_many(chunk).on_conflict(on_conflict.clone());
            inserted += insert.exec_without_returning(&self.writes()).await?;
        }
        Ok(inserted)
    }
}

/// Runs `operation` in one transaction, and counts what becomes of it.
async fn in_transaction<T>(
    pools: &Pools,
    view: &AccountStore,
    operation: &(impl Fn(AccountStore) -> Write<T> + Sync),
) -> Result<T, StoreError> {
    let asked = Instant::now();
    let transaction = match pools.writer.begin_with_options(IMMEDIATE).await {
        Ok(transaction) => transaction,
        Err(error) => {
            let error = StoreError::from(error);
            view.metrics.transaction(asked, None, ended(Some(&error)));
            return Err(error);
        }
    };
    let begun = Instant::now();
    let outcome = within(transaction, &pools.doubt, view, operation).await;
    view.metrics.transaction(asked, Some(begun), ended(outcome.as_ref().err()));
    outcome
}

async fn within<T>(
    transaction: DatabaseTransaction,
    doubt: &Doubt,
    view: &AccountStore,
    operation: &(impl Fn(AccountStore) -> Write<T> + Sync),
) -> Result<T, StoreError> {
    let transaction = Arc::new(transaction);
    let news: Arc<Mutex<News>> = Arc::default();
    let scope = AccountStore {
        handle: Handle::Transaction(Arc::clone(&transaction)),
        news: Arc::clone(&news),
        ..view.clone()
    };
    let outcome = operation(scope).await;
    let transaction = Arc::into_inner(transaction).expect("the operation that held the scope has ended");
    match outcome {
        Ok(value) => {
            transaction.commit().await?;
            let news = mem::take(&mut *news.lock().unwrap_or_else(PoisonError::into_inner));
            news.tell(view.account, &*view.bus);
            Ok(value)
        }
        Err(error) => {
            if error.is_of_a_standby() {
                // What was the primary once stays connected, and never takes a change again.
                doubt.raise();
            }
            // The error that led here says more than one of the rollback could.
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}

/// What became of a transaction.
fn ended(error: Option<&StoreError>) -> TransactionOutcome {
    match error {
        None => TransactionOutcome::Committed,
        Some(StoreError::Contention(_)) => TransactionOutcome::Contention,
        Some(StoreError::Conflict(_)) => TransactionOutcome::Conflict,
        Some(StoreError::Unavailable(DbErr::ConnectionAcquire(_))) => TransactionOutcome::NoConnection,
        Some(StoreError::Unavailable(_)) => TransactionOutcome::Unavailable,
        Some(StoreError::Unexpected(_) | StoreError::Sealed(_) | StoreError::TooMuch(_)) => {
            TransactionOutcome::Failed
        }
    }
}
