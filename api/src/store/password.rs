//! The passwords of users, who belong to no account.

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

use super::{audit_entry, connect::IMMEDIATE, error::StoreError, identity::SystemStore};
use crate::domain::audit::{Actor, Entry, Target};

#[expect(clippy::disallowed_methods, reason = "a password is asked for before an account is known")]
impl SystemStore {
    /// The user of a name, and what is kept of the password if there is one.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.password.by_name", skip_all)]
    pub async fn password_by_name(
        &self,
        name: &str,
    ) -> Result<Option<(user::Model, Option<String>)>, StoreError> {
        let user = self.user_by_name(name).await?;
        // Asked for nobody as well, so that the time taken does not tell whether there is such a user.
        let id = user.as_ref().map_or(UserId(Uuid::nil()), |user| user.id);
        let password = Entity::find_by_id(id).one(&self.pools.reader).await?;
        Ok(user.map(|user| (user, password.map(|password| password.hash))))
    }

    /// Sets what is kept of a user's password, and ends all sessions of the user but one.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.password.set", skip_all)]
    pub async fn set_password(
        &self,
        user: UserId,
        hash: String,
        but: Option<&[u8]>,
        by: &Actor,
    ) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let row = Model { user_id: user, hash, changed_at: by.at }.into_active_model().reset_all();
        let replace =
            OnConflict::column(Column::UserId).update_columns([Column::Hash, Column::ChangedAt]).to_owned();
        Entity::insert_many([row]).on_conflict(replace).exec_without_returning(&transaction).await?;
        let mut others = session::Entity::delete_many().filter(session::Column::UserId.eq(user));
        if let Some(session) = but {
            others = others.filter(session::Column::Id.ne(session.to_vec()));
        }
        others.exec(&transaction).await?;
        let entry = Entry::done(Action::SetPassword, Target::User(user), json!({}));
        audit_entry::add_of_user(&transaction, user, by, &entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}
