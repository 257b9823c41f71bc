//! The links with which users sign in once. Users belong to no account.

use entity::{
    Timestamp,
    audit_entry::Action,
    ids::UserId,
    membership,
    sign_in_link::{Column, Entity, Model},
    user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, TransactionTrait,
};
use serde_json::Value;

use crate::{
    domain::audit::{Actor, Entry, Target},
    store::core::{audit_log, connect::IMMEDIATE_TRANSACTION, error::StoreError, system::SystemStore},
};

#[expect(clippy::disallowed_methods, reason = "a link is used before an account is known")]
impl SystemStore {
    /// Adds a link and an audit entry with `detail`. Deletes the links of all users that have expired, and
    /// the user's previous link.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.sign_in_link.add", skip_all)]
    pub async fn add_sign_in_link(
        &self,
        link: Model,
        actor: &Actor,
        detail: Value,
    ) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let expired = Entity::delete_many().filter(Column::ExpiresAt.lte(link.created_at));
        expired.exec(&transaction).await?;
        let user = link.user_id;
        delete_sign_in_links(&transaction, user).await?;
        link.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::CreateSignInLink, Target::User(user), detail);
        audit_log::insert_user_audit_entries(&transaction, user, actor, &entry).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Deletes a link that has not expired at `now`, and returns its user. Of two requests with one link,
    /// one receives the user.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.sign_in_link.take", skip_all)]
    pub async fn take_sign_in_link(
        &self,
        id: Vec<u8>,
        now: Timestamp,
    ) -> Result<Option<user::Model>, StoreError> {
        // Guesses do not occupy the writer.
        let link = Entity::find_by_id(id.clone()).find_also_related(user::Entity);
        let Some((link, Some(user))) = link.one(&self.pools.reader).await? else { return Ok(None) };
        if link.expires_at.0 <= now.0 {
            return Ok(None);
        }
        let deleted = Entity::delete_by_id(id).exec(&self.pools.writer).await?;
        Ok((deleted.rows_affected == 1).then_some(user))
    }

    /// Deletes all links.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.sign_in_link.delete_all", skip_all)]
    pub async fn delete_all_sign_in_links(&self) -> Result<(), StoreError> {
        Entity::delete_many().exec(&self.pools.writer).await?;
        Ok(())
    }

    /// Returns the user who was the first to become an owner of an account, and still is one.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn first_owner(&self) -> Result<Option<user::Model>, StoreError> {
        let owner = membership::Entity::find()
            .filter(membership::Column::Role.eq(membership::Role::Owner))
            .order_by_asc(membership::Column::CreatedAt)
            .order_by_asc(membership::Column::UserId)
            .find_also_related(user::Entity)
            .one(&self.pools.reader)
            .await?;
        Ok(owner.and_then(|(_, user)| user))
    }
}

/// Deletes the links of a user.
#[expect(clippy::disallowed_methods, reason = "links belong to no account")]
pub(crate) async fn delete_sign_in_links(
    transaction: &DatabaseTransaction,
    user: UserId,
) -> Result<(), StoreError> {
    Entity::delete_many().filter(Column::UserId.eq(user)).exec(transaction).await?;
    Ok(())
}
