//! The database as one user sees it, over all accounts: their own memberships, and nothing that lies in an account.

use entity::{
    Timestamp, account,
    audit_entry::Action,
    default_account,
    ids::{AccountId, UserId},
    user,
};
use sea_orm::{
    ActiveModelTrait, DatabaseConnection, EntityTrait, IntoActiveModel, QuerySelect, TransactionTrait,
};
use serde_json::json;

use super::{
    audit_entry,
    connect::IMMEDIATE,
    error::StoreError,
    scoped::Pools,
    standing::{Standing, Whose, current, standing},
    upsert::replace,
};
use crate::domain::{
    audit::{Actor, Entry, Target},
    slug::Slug,
};

/// Accounts of a user that are told, at the most.
const MAX_ACCOUNTS: u64 = 1_000;

/// The database as one user sees it, in the accounts that the credentials open. It comes only from a viewer whose credentials are the user's own, and its connection
/// is out of reach.
#[derive(Clone)]
pub struct UserStore {
    pools: Pools,
    user: UserId,
    accounts: Option<Vec<Slug>>,
}

impl UserStore {
    pub(super) fn new(pools: Pools, user: UserId, accounts: Option<Vec<Slug>>) -> Self {
        Self { pools, user, accounts }
    }

    pub(super) fn user(&self) -> UserId {
        self.user
    }

    pub(super) fn writer(&self) -> &DatabaseConnection {
        &self.pools.writer
    }

    /// What the user is, and where: the default account first, and then in the order in which the user came. Memberships
    /// that are over are not among them.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.user.standings", skip_all)]
    pub async fn standings(&self, now: Timestamp) -> Result<Vec<Standing>, StoreError> {
        let rows = current(Whose::User(self.user), self.accounts.as_deref(), now)
            .limit(MAX_ACCOUNTS)
            .find_also_related(account::Entity)
            .find_also_related(user::Entity)
            .all(&self.pools.reader)
            .await?;
        Ok(rows.into_iter().filter_map(standing).collect())
    }

    /// Says which account is meant when none is named.
    ///
    /// # Errors
    /// [`StoreError::Unexpected`] when the user is no member of it, or the database does not answer; nothing is changed
    /// then.
    #[tracing::instrument(name = "store.user.set_default_account", skip_all)]
    #[expect(clippy::disallowed_methods, reason = "this is the user's own row, which belongs to no account")]
    pub async fn set_default_account(&self, account: AccountId, by: &Actor) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let row = default_account::Model { user_id: self.user, account_id: account };
        default_account::Entity::insert_many([row.into_active_model().reset_all()])
            .on_conflict(replace::<default_account::Entity>())
            .exec_without_returning(&transaction)
            .await?;
        let entry = Entry::done(Action::SetDefaultAccount, Target::User(self.user), json!({}));
        audit_entry::add(&transaction, account, by, entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}
