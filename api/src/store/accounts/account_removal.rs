//! The removal of accounts: all memberships end at once, and a job deletes the account's rows in batches.

use entity::{
    AccountOwned, Timestamp, account, account_removal, alert, alert_delivery, audit_entry::Action, cluster,
    cluster_removal, code_snippet, error_group, function_usage_day, ids::AccountId, invitation, membership,
    performance_report, usage_day,
};
use sea_orm::{
    ColumnTrait, EntityTrait, Iterable, PaginatorTrait, PrimaryKeyToColumn, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait},
};
use serde_json::json;

use crate::{
    bus::ChangeKinds,
    domain::audit::{Entry, Target},
    store::{
        core::{error::StoreError, scoped::AccountStore, system::SystemStore, upsert::keep_existing_row},
        maintenance::retention::BATCH,
    },
};

/// The largest number of performance reports that one statement deletes. Their pieces are deleted with
/// them.
const REPORTS: u64 = 20;

/// The largest number of accounts that one round of the job handles.
const ACCOUNTS: u64 = 1_000;

/// The outcome of one step of an account's removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountRemovalStep {
    /// This number of rows was deleted, or of clusters was marked for removal.
    Rows(u64),
    /// Nothing was deleted, because the account's clusters must be deleted first.
    WaitsForClusters,
    /// Only the account itself is left.
    All,
}

impl AccountStore {
    /// Marks the account for removal. All memberships end at once, and with them all tokens and
    /// invitations.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed then.
    #[tracing::instrument(name = "store.account_removal.request", skip_all)]
    pub async fn delete_account(&self, now: Timestamp) -> Result<(), StoreError> {
        self.write(move |store| {
            Box::pin(async move {
                store
                    .record_audit_entry(Entry::done(Action::DeleteAccount, Target::Account, json!({})))
                    .await?;
                let row = account_removal::Model { account_id: store.account_id(), requested_at: now };
                let keep_existing = keep_existing_row::<account_removal::Entity>();
                store.insert::<account_removal::Entity>(vec![row], &keep_existing).await?;
                store.delete::<invitation::Entity>().exec(&store.write_executor()).await?;
                store.delete::<membership::Entity>().exec(&store.write_executor()).await?;
                store.announce_account(ChangeKinds::ACCESS);
                Ok(())
            })
        })
        .await
    }

    /// Removes a bounded part of an account that is marked for removal.
    #[tracing::instrument(name = "store.account_removal.remove", skip_all)]
    pub(crate) async fn remove_account_batch(
        &self,
        now: Timestamp,
    ) -> Result<AccountRemovalStep, StoreError> {
        use cluster_removal::{Column, State};
        self.write(move |store| {
            Box::pin(async move {
                let marked_clusters =
                    store.mark_batch_for_removal(store.select::<cluster::Entity>(), now).await?;
                if marked_clusters > 0 {
                    return Ok(AccountRemovalStep::Rows(marked_clusters));
                }
                store
                    .update::<cluster_removal::Entity>()
                    .col_expr(Column::State, Expr::val(State::Removing))
                    .filter(Column::State.eq(State::Quarantined))
                    .exec(&store.write_executor())
                    .await?;
                if store.select_with_hidden::<cluster::Entity>().count(&store.write_executor()).await? > 0 {
                    return Ok(AccountRemovalStep::WaitsForClusters);
                }
                let rows = store.remove_rows_of_account().await?;
                Ok(if rows == 0 { AccountRemovalStep::All } else { AccountRemovalStep::Rows(rows) })
            })
        })
        .await
    }

    /// Deletes one batch of the account's rows. Tables that are not named here have few rows or are
    /// append-only; their rows are deleted with the account.
    async fn remove_rows_of_account(&self) -> Result<u64, StoreError> {
        let mut rows = self.remove_some::<performance_report::Entity>(REPORTS).await?;
        macro_rules! remove {
            ($($noun:ident),+ $(,)?) => {$(
                if rows > 0 {
                    return Ok(rows);
                }
                rows = self.remove_some::<$noun::Entity>(BATCH).await?;
            )+};
        }
        remove!(code_snippet, error_group, usage_day, function_usage_day, alert_delivery, alert);
        Ok(rows)
    }

    async fn remove_some<E: AccountOwned>(&self, limit: u64) -> Result<u64, StoreError> {
        let key = || E::PrimaryKey::iter().map(PrimaryKeyToColumn::into_column);
        let batch_keys =
            self.select_with_hidden::<E>().select_only().columns(key()).limit(limit).into_query();
        let names = Expr::tuple(key().map(|column| Expr::col(column.as_column_ref())));
        let remove = self.delete_with_hidden::<E>().filter(names.in_subquery(batch_keys));
        Ok(remove.exec(&self.write_executor()).await?.rows_affected)
    }
}

#[expect(clippy::disallowed_methods, reason = "no member removes an account")]
impl SystemStore {
    /// Returns the accounts that are marked for removal, the oldest request first, at most 1,000.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.account_removal.due", skip_all)]
    pub async fn accounts_to_remove(&self) -> Result<Vec<AccountId>, StoreError> {
        use account_removal::Column;
        let removals = account_removal::Entity::find().select_only().column(Column::AccountId);
        let removals =
            removals.order_by_asc(Column::RequestedAt).order_by_asc(Column::AccountId).limit(ACCOUNTS);
        Ok(removals.into_tuple().all(&self.pools.reader).await?)
    }

    /// Deletes an account that has no other rows left.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.account_removal.end", skip_all)]
    pub async fn remove_account(&self, account: AccountId) -> Result<(), StoreError> {
        let deletion = account::Entity::delete_many().filter(account::Column::Id.eq(account));
        deletion.exec(&self.pools.writer).await?;
        Ok(())
    }
}
