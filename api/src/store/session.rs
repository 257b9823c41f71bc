//! The sessions of users, who belong to no account.

use entity::{
    Timestamp,
    audit_entry::Action,
    ids::UserId,
    session::{Column, Entity, Model},
    user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
    TransactionTrait,
    sea_query::{Expr, ExprTrait},
};
use serde_json::{Value, json};

use super::{audit_entry, connect::IMMEDIATE, error::StoreError, identity::SystemStore};
use crate::domain::audit::{Actor, Entry, Target};

/// Sessions of one user at the most. With one more the oldest ends.
const MAX_SESSIONS: u64 = 50;

#[expect(clippy::disallowed_methods, reason = "a session is looked up before an account is known")]
impl SystemStore {
    /// A session with whose it is, whether it is over or not.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.session.by_id", skip_all)]
    pub async fn session(&self, id: Vec<u8>) -> Result<Option<(Model, user::Model)>, StoreError> {
        let row = Entity::find_by_id(id).find_also_related(user::Entity).one(&self.pools.reader).await?;
        Ok(row.and_then(|(session, user)| Some((session, user?))))
    }

    /// Adds a session, and removes those that are over: of anybody by their end or by when they were used last, and of
    /// this user the oldest of too many. `detail` is what is written down of how they signed in.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.session.add", skip_all)]
    pub async fn add_session(
        &self,
        session: Model,
        idle_since: Timestamp,
        by: &Actor,
        detail: Value,
    ) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let over = Column::ExpiresAt.lte(session.created_at).or(Column::UsedAt.lte(idle_since));
        Entity::delete_many().filter(over).exec(&transaction).await?;
        let too_many: Vec<Vec<u8>> = Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(Column::UserId.eq(session.user_id))
            .order_by_desc(Column::CreatedAt)
            .order_by_desc(Column::Id)
            .offset(MAX_SESSIONS - 1)
            .limit(MAX_SESSIONS)
            .into_tuple()
            .all(&transaction)
            .await?;
        if !too_many.is_empty() {
            Entity::delete_many().filter(Column::Id.is_in(too_many)).exec(&transaction).await?;
        }
        let user = session.user_id;
        session.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::SignIn, Target::User(user), detail);
        audit_entry::add_of_user(&transaction, user, by, &entry).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Writes down that a session was used.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.session.use", skip_all)]
    pub async fn note_use_of_session(&self, id: Vec<u8>, now: Timestamp) -> Result<(), StoreError> {
        Entity::update_many()
            .col_expr(Column::UsedAt, Expr::val(now))
            .filter(Column::Id.eq(id))
            .filter(Column::UsedAt.lt(now))
            .exec(&self.pools.writer)
            .await?;
        Ok(())
    }

    /// Ends a session.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.session.end", skip_all)]
    pub async fn end_session(&self, id: Vec<u8>) -> Result<(), StoreError> {
        Entity::delete_by_id(id).exec(&self.pools.writer).await?;
        Ok(())
    }

    /// Ends all sessions of a user.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.session.end_all", skip_all)]
    pub async fn end_sessions(&self, user: UserId, by: &Actor) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        Entity::delete_many().filter(Column::UserId.eq(user)).exec(&transaction).await?;
        let entry = Entry::done(Action::SignOutEverywhere, Target::User(user), json!({}));
        audit_entry::add_of_user(&transaction, user, by, &entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}
