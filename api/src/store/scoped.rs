//! The database as one account sees it: the only place where statements on tenant tables are born.
#![expect(clippy::disallowed_methods, reason = "this is the place the other modules are sent to")]

use std::sync::Arc;

use entity::{AccountOwned, ids::AccountId};
use futures::future::BoxFuture;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseConnection, DatabaseExecutor, DatabaseTransaction, DeleteMany,
    IntoActiveModel, QueryFilter, Select, TransactionTrait, UpdateMany, sea_query::OnConflict,
};

use super::{audit_entry::Decrypted, connect::IMMEDIATE, error::StoreError};
use crate::{domain::audit::Actor, key_ring::KeyRing};

/// How often a transaction that collided with another is tried in all.
const ATTEMPTS: u32 = 4;

/// Rows in one statement at the most: far below what the databases take in values, and more gains nothing.
const MAX_ROWS: usize = 512;

/// Rows that get a statement of their own number: as many as most reports have for a table.
const FEW_ROWS: usize = 8;

/// Where statements go: on SQLite readers have connections of their own.
#[derive(Clone)]
pub(super) struct Pools {
    pub(super) writer: DatabaseConnection,
    pub(super) reader: DatabaseConnection,
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
}

impl AccountStore {
    pub(super) fn new(pools: Pools, account: AccountId, keys: KeyRing) -> Self {
        Self { handle: Handle::Pools(pools), account, keys, actor: None, decrypted: Arc::default() }
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
        let Handle::Pools(pools) = self.handle.clone() else {
            // Already inside: the outer transaction decides.
            return operation(self.clone()).await;
        };
        let view = self.clone();
        // In a task of its own, because a client may hang up at any time: a transaction that is dropped while
        // it begins would go back to the pool open, and whoever gets that connection next would be inside it.
        let transaction = tokio::spawn(async move {
            let mut attempt = 1;
            loop {
                match in_transaction(&pools.writer, &view, &operation).await {
                    Err(StoreError::Contention(_)) if attempt < ATTEMPTS => attempt += 1,
                    outcome => return outcome,
                }
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

async fn in_transaction<T>(
    writer: &DatabaseConnection,
    view: &AccountStore,
    operation: &(impl Fn(AccountStore) -> Write<T> + Sync),
) -> Result<T, StoreError> {
    let transaction = Arc::new(writer.begin_with_options(IMMEDIATE).await?);
    let scope = AccountStore { handle: Handle::Transaction(Arc::clone(&transaction)), ..view.clone() };
    let outcome = operation(scope).await;
    let transaction = Arc::into_inner(transaction).expect("the operation that held the scope has ended");
    match outcome {
        Ok(value) => {
            transaction.commit().await?;
            Ok(value)
        }
        Err(error) => {
            // The error that led here says more than one of the rollback could.
            let _ = transaction.rollback().await;
            Err(error)
        }
    }
}
