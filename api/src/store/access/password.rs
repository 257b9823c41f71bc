//! The passwords of users. Users belong to no account.

use entity::{
    audit_entry::Action,
    ids::UserId,
    password::{Column, Entity, Model},
    session, user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, TransactionTrait,
    sea_query::OnConflict,
};
use serde_json::json;
use uuid::Uuid;

use super::sign_in_link::delete_sign_in_links;
use crate::{
    domain::audit::{Actor, Entry, Target},
    store::core::{audit_log, connect::IMMEDIATE_TRANSACTION, error::StoreError, system::SystemStore},
};

#[expect(clippy::disallowed_methods, reason = "a password is checked before an account is known")]
impl SystemStore {
    /// Returns the user with this name and the user's password hash, if there is one.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.password.by_name", skip_all)]
    pub async fn password_by_name(
        &self,
        name: &str,
    ) -> Result<Option<(user::Model, Option<String>)>, StoreError> {
        let user = self.user_by_name(name).await?;
        // The query runs for an unknown name too, so that the response time does not reveal if the user
        // exists.
        let id = user.as_ref().map_or(UserId(Uuid::nil()), |user| user.id);
        let password = Entity::find_by_id(id).one(&self.pools.reader).await?;
        Ok(user.map(|user| (user, password.map(|password| password.hash))))
    }

    /// Sets a user's password hash, ends all of the user's sessions except the session `but`, and deletes
    /// the user's link for signing in.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.password.set", skip_all)]
    pub async fn set_password(
        &self,
        user: UserId,
        hash: String,
        but: Option<&[u8]>,
        actor: &Actor,
    ) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let row = Model { user_id: user, hash, changed_at: actor.at }.into_active_model().reset_all();
        let replace =
            OnConflict::column(Column::UserId).update_columns([Column::Hash, Column::ChangedAt]).to_owned();
        Entity::insert_many([row]).on_conflict(replace).exec_without_returning(&transaction).await?;
        let mut other_sessions = session::Entity::delete_many().filter(session::Column::UserId.eq(user));
        if let Some(session) = but {
            other_sessions = other_sessions.filter(session::Column::Id.ne(session.to_vec()));
        }
        other_sessions.exec(&transaction).await?;
        delete_sign_in_links(&transaction, user).await?;
        let entry = Entry::done(Action::SetPassword, Target::User(user), json!({}));
        audit_log::insert_user_audit_entries(&transaction, user, actor, &entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}
