//! The handle for what belongs to no viewer: accounts, users, by which names other issuers know them, and whether the
//! database answers.

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
    QueryFilter, TransactionTrait,
};
use serde_json::json;

use super::{audit_entry, connect::IMMEDIATE, error::StoreError, scoped::Pools};
use crate::{
    domain::{
        audit::{Actor, Entry, Target, membership_detail},
        slug::Slug,
    },
    metrics::StoreMetrics,
};

/// How long the database may take to say that it is there. Its connection may take as long before.
const PING_TIMEOUT: Duration = Duration::from_secs(4);

/// The database as the operator and the sign-in see it. Its methods are few on purpose.
#[derive(Clone)]
pub struct SystemStore {
    pub(super) pools: Pools,
    pub(super) metrics: Arc<StoreMetrics>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "accounts, users and memberships are looked up before an account is known"
)]
impl SystemStore {
    /// Whether the database answers, and soon.
    ///
    /// # Errors
    /// When it does not.
    pub async fn ping(&self) -> Result<(), StoreError> {
        let reader = &self.pools.reader;
        let ask = sea_orm::Statement::from_string(reader.get_database_backend(), "SELECT 1");
        let answer = self.pools.doubt.within(PING_TIMEOUT, reader.query_one_raw(ask)).await;
        answer.ok_or_else(StoreError::silent)??;
        Ok(())
    }

    /// Whether there is no account yet.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn is_empty(&self) -> Result<bool, StoreError> {
        Ok(account::Entity::find().count(&self.pools.reader).await? == 0)
    }

    /// The account with this slug.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn account_by_slug(&self, slug: &Slug) -> Result<Option<account::Model>, StoreError> {
        let select = account::Entity::find().filter(account::Column::Slug.eq(slug.as_str()));
        Ok(select.one(&self.pools.reader).await?)
    }

    /// The user with this name.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn user_by_name(&self, name: &str) -> Result<Option<user::Model>, StoreError> {
        Ok(user::Entity::find().filter(user::Column::Name.eq(name)).one(&self.pools.reader).await?)
    }

    /// Adds an account.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the slug is taken.
    pub async fn add_account(&self, account: account::Model, by: &Actor) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let entry = Entry::done(Action::CreateAccount, Target::Account, json!({ "slug": account.slug }));
        let id = account.id;
        account.into_active_model().reset_all().insert(&transaction).await?;
        audit_entry::add(&transaction, id, by, entry).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Adds the first account with its first member and their token, all or nothing.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when one of them is there already; nothing is added then.
    pub async fn add_first(
        &self,
        account: account::Model,
        user: user::Model,
        member: membership::Model,
        token: api_token::Model,
        by: &Actor,
    ) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
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
            audit_entry::add(&transaction, id, by, entry).await?;
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Makes the user a member, adding the user first when there is none of that name.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the user is a member already; nothing is added then.
    pub async fn add_member(
        &self,
        account: AccountId,
        new_user: user::Model,
        (role, ends_at): (membership::Role, Option<Timestamp>),
        by: &Actor,
    ) -> Result<UserId, StoreError> {
        let mut detail = membership_detail(role, ends_at);
        detail["name"] = new_user.name.clone().into();
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let existing = user::Entity::find()
            .filter(user::Column::Name.eq(new_user.name.as_str()))
            .one(&transaction)
            .await?;
        let user_id = match existing {
            Some(user) => user.id,
            None => new_user.into_active_model().reset_all().insert(&transaction).await?.id,
        };
        let member = membership::Model { account_id: account, user_id, role, created_at: by.at, ends_at };
        member.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::AddMember, Target::User(user_id), detail);
        audit_entry::add(&transaction, account, by, entry).await?;
        transaction.commit().await?;
        Ok(user_id)
    }

    /// The membership of a user in an account.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn membership(
        &self,
        account: AccountId,
        user: UserId,
    ) -> Result<Option<membership::Model>, StoreError> {
        Ok(membership::Entity::find_by_id((account, user)).one(&self.pools.reader).await?)
    }

    /// The user whom an issuer knows by a name.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.identity.user", skip_all)]
    pub async fn user_of_identity(
        &self,
        issuer: &str,
        subject: &str,
    ) -> Result<Option<user::Model>, StoreError> {
        let key = (issuer.to_owned(), subject.to_owned());
        let found = identity::Entity::find_by_id(key).find_also_related(user::Entity);
        Ok(found.one(&self.pools.reader).await?.and_then(|(_, user)| user))
    }

    /// Writes down by which name an issuer knows a user, whom it can sign in to all accounts of the user then.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the issuer knows somebody by it already.
    #[tracing::instrument(name = "store.identity.add", skip_all)]
    pub async fn add_identity(&self, identity: identity::Model, by: &Actor) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let user = identity.user_id;
        let detail = json!({ "issuer": identity.issuer, "subject": identity.subject });
        identity.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::LinkUser, Target::User(user), detail);
        audit_entry::add_of_user(&transaction, user, by, &entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}
