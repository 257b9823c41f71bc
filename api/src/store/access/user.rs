//! The database as one user sees it, over all accounts: the user's own memberships, and no data of an
//! account.

use entity::{
    Timestamp, account,
    audit_entry::Action,
    default_account,
    ids::{AccountId, UserId},
    user,
};
use sea_orm::{ActiveModelTrait, EntityTrait, IntoActiveModel, QuerySelect, TransactionTrait};
use serde_json::json;

use super::current_membership::{CurrentMembership, UserRef, current_membership, select_current};
use crate::{
    auth::{Session, Viewer},
    domain::{
        audit::{Actor, Entry, Target},
        slug::Slug,
    },
    store::core::{
        audit_log,
        connect::{IMMEDIATE_TRANSACTION, Store},
        connection_pool::ConnectionPool,
        error::StoreError,
        scoped::Pools,
        upsert::replace,
    },
};

/// The largest number of a user's accounts that are listed.
const MAX_ACCOUNTS: u64 = 1_000;

/// The database as one user sees it, in the accounts that the credentials give access to. It is created
/// only for a session or a viewer with the user's own credentials, and its connection is private.
#[derive(Clone)]
pub struct UserStore {
    pools: Pools,
    user: UserId,
    accounts: Option<Vec<Slug>>,
}

impl Store {
    /// Returns the view of the viewer's user on their own accounts, as far as the credentials permit.
    /// `None` if the credentials are not the user's own.
    #[must_use]
    pub fn for_viewer_user(&self, viewer: &Viewer) -> Option<UserStore> {
        let accounts = viewer.accounts().map(<[_]>::to_vec);
        let is_own_credential = viewer.credential().covers_all_accounts();
        is_own_credential.then(|| UserStore::new(self.system().pools, viewer.user_id(), accounts))
    }
}

impl UserStore {
    pub(crate) fn new(pools: Pools, user: UserId, accounts: Option<Vec<Slug>>) -> Self {
        Self { pools, user, accounts }
    }

    /// Returns the view of a session's user. The user may have no account.
    #[must_use]
    pub fn of_session(store: &Store, session: &Session) -> Self {
        Self::new(store.system().pools, session.user().id, None)
    }

    pub(crate) fn user(&self) -> UserId {
        self.user
    }

    pub(crate) fn reader(&self) -> &ConnectionPool {
        &self.pools.reader
    }

    pub(crate) fn writer(&self) -> &ConnectionPool {
        &self.pools.writer
    }

    /// Returns the user's current memberships, the one in the default account first, then the oldest
    /// first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.user.current_memberships", skip_all)]
    pub async fn current_memberships(&self, now: Timestamp) -> Result<Vec<CurrentMembership>, StoreError> {
        let rows = select_current(UserRef::User(self.user), self.accounts.as_deref(), now)
            .limit(MAX_ACCOUNTS)
            .find_also_related(account::Entity)
            .find_also_related(user::Entity)
            .all(&self.pools.reader)
            .await?;
        Ok(rows.into_iter().filter_map(current_membership).collect())
    }

    /// Sets the account that applies if a request names none.
    ///
    /// # Errors
    /// Returns [`StoreError::Unexpected`] if the user is not a member of it, or an error if the database
    /// does not answer. Nothing is changed in either case.
    #[tracing::instrument(name = "store.user.set_default_account", skip_all)]
    #[expect(clippy::disallowed_methods, reason = "this is the user's own row, which belongs to no account")]
    pub async fn set_default_account(&self, account: AccountId, actor: &Actor) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let row = default_account::Model { user_id: self.user, account_id: account };
        default_account::Entity::insert_many([row.into_active_model().reset_all()])
            .on_conflict(replace::<default_account::Entity>())
            .exec_without_returning(&transaction)
            .await?;
        let entry = Entry::done(Action::SetDefaultAccount, Target::User(self.user), json!({}));
        audit_log::insert_audit_entry(&transaction, account, actor, entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}
