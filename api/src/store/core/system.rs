//! The handle for data that belongs to no viewer: accounts, users, and the identities that other issuers
//! know users by. It also checks that the database answers.

use std::{sync::Arc, time::Duration};

use entity::{
    Timestamp, account, api_token,
    audit_entry::Action,
    identity,
    ids::{AccountId, UserId},
    membership, user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, TransactionTrait,
};
use serde_json::json;

use super::{audit_log, connect::IMMEDIATE_TRANSACTION, error::StoreError, scoped::Pools};
use crate::{
    domain::{
        audit::{Actor, Entry, Target, membership_detail},
        quota::Limits,
        slug::Slug,
    },
    metrics::StoreMetrics,
    shares::FairShares,
};

/// The time limit for the database's answer to a ping. Acquiring a connection may take as long again
/// before that.
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// The database as the operator and the sign-in see it. The list of its methods is kept short on
/// purpose.
#[derive(Clone)]
pub struct SystemStore {
    pub(crate) pools: Pools,
    pub(crate) metrics: Arc<StoreMetrics>,
    pub(crate) shares: FairShares,
    /// The storage limits of accounts without limits of their own.
    pub(crate) limits: Limits,
}

#[expect(
    clippy::disallowed_methods,
    reason = "accounts, users and memberships are looked up before an account is known"
)]
impl SystemStore {
    /// Checks that the database answers within 4 seconds.
    ///
    /// # Errors
    /// Returns an error if the database does not answer in time.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let reader = &self.pools.reader;
        let statement = sea_orm::Statement::from_string(reader.get_database_backend(), "SELECT 1");
        let answer = self.pools.epoch.with_timeout(PING_TIMEOUT, reader.query_one_raw(statement)).await;
        answer.ok_or_else(StoreError::timed_out)??;
        Ok(())
    }

    /// Returns the identifiers of the accounts after `after`, in ascending order, at most `limit`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub(crate) async fn accounts_after(
        &self,
        after: Option<AccountId>,
        limit: u64,
    ) -> Result<Vec<AccountId>, StoreError> {
        let mut select = account::Entity::find().select_only().column(account::Column::Id);
        if let Some(after) = after {
            select = select.filter(account::Column::Id.gt(after));
        }
        let select = select.order_by_asc(account::Column::Id).limit(limit);
        Ok(select.into_tuple().all(&self.pools.reader).await?)
    }

    /// Returns true if no account exists yet.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(account::Entity::find().count(&self.pools.reader).await? == 0)
    }

    /// Returns the account with this slug.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn account_by_slug(&self, slug: &Slug) -> Result<Option<account::Model>, StoreError> {
        let select = account::Entity::find().filter(account::Column::Slug.eq(slug.as_str()));
        Ok(select.one(&self.pools.reader).await?)
    }

    /// Returns the user with this name.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn user_by_name(&self, name: &str) -> Result<Option<user::Model>, StoreError> {
        Ok(user::Entity::find().filter(user::Column::Name.eq(name)).one(&self.pools.reader).await?)
    }

    /// Adds an account and its audit entry in one transaction.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the slug is taken.
    pub async fn add_account(&self, account: account::Model, actor: &Actor) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let entry = Entry::done(Action::CreateAccount, Target::Account, json!({ "slug": account.slug }));
        let id = account.id;
        account.into_active_model().reset_all().insert(&transaction).await?;
        audit_log::insert_audit_entry(&transaction, id, actor, entry).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Adds the first account with its first member and the member's token, in one transaction.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if one of them already exists. Nothing is added in that case.
    pub async fn add_first(
        &self,
        account: account::Model,
        user: user::Model,
        member: membership::Model,
        token: api_token::Model,
        actor: &Actor,
    ) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let id = account.id;
        let mut membership = membership_detail(member.role, member.ends_at);
        membership["name"] = user.name.clone().into();
        let scopes = json!({ "user": user.id, "label": token.label, "scopes": token.scopes });
        let entries = [
            Entry::done(Action::CreateAccount, Target::Account, json!({ "slug": account.slug })),
            Entry::done(Action::AddMember, Target::User(user.id), membership),
            Entry::done(Action::CreateToken, Target::ApiToken(token.identifier.clone()), scopes),
        ];
        account.into_active_model().reset_all().insert(&transaction).await?;
        user.into_active_model().reset_all().insert(&transaction).await?;
        member.into_active_model().reset_all().insert(&transaction).await?;
        token.into_active_model().reset_all().insert(&transaction).await?;
        for entry in entries {
            audit_log::insert_audit_entry(&transaction, id, actor, entry).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Makes the user a member of the account. Adds the user first if no user has that name.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the user is already a member. Nothing is added in that case.
    pub async fn add_member(
        &self,
        account: AccountId,
        new_user: user::Model,
        (role, ends_at): (membership::Role, Option<Timestamp>),
        actor: &Actor,
    ) -> Result<UserId, StoreError> {
        let mut detail = membership_detail(role, ends_at);
        detail["name"] = new_user.name.clone().into();
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let existing = user::Entity::find()
            .filter(user::Column::Name.eq(new_user.name.as_str()))
            .one(&transaction)
            .await?;
        let user_id = match existing {
            Some(user) => user.id,
            None => new_user.into_active_model().reset_all().insert(&transaction).await?.id,
        };
        let member = membership::Model { account_id: account, user_id, role, created_at: actor.at, ends_at };
        member.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::AddMember, Target::User(user_id), detail);
        audit_log::insert_audit_entry(&transaction, account, actor, entry).await?;
        transaction.commit().await?;
        Ok(user_id)
    }

    /// Returns the membership of a user in an account.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn membership(
        &self,
        account: AccountId,
        user: UserId,
    ) -> Result<Option<membership::Model>, StoreError> {
        Ok(membership::Entity::find_by_id((account, user)).one(&self.pools.reader).await?)
    }

    /// Returns the user with this subject at an issuer.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.identity.user", skip_all)]
    pub async fn user_of_identity(
        &self,
        issuer: &str,
        subject: &str,
    ) -> Result<Option<user::Model>, StoreError> {
        let key = (issuer.to_owned(), subject.to_owned());
        let identity = identity::Entity::find_by_id(key).find_also_related(user::Entity);
        Ok(identity.one(&self.pools.reader).await?.and_then(|(_, user)| user))
    }

    /// Links a subject of an issuer to a user. From then on the issuer can sign the user in to all of
    /// the user's accounts.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the issuer's subject is already linked to a user.
    #[tracing::instrument(name = "store.identity.add", skip_all)]
    pub async fn add_identity(&self, identity: identity::Model, actor: &Actor) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let user = identity.user_id;
        let detail = json!({ "issuer": identity.issuer, "subject": identity.subject });
        identity.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::LinkUser, Target::User(user), detail);
        audit_log::insert_user_audit_entries(&transaction, user, actor, &entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}
