//! The sessions of users. Users belong to no account.

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

use super::{sign_in_link::delete_sign_in_links, user::UserStore};
use crate::{
    domain::{
        audit::{Actor, Entry, Target},
        session::public_identifier,
    },
    store::core::{
        audit_log, composite_in::IsOneOf, connect::IMMEDIATE_TRANSACTION, connection_pool::ConnectionPool,
        error::StoreError, system::SystemStore,
    },
};

/// The largest number of sessions per user. A new session beyond it ends the oldest one.
const MAX_SESSIONS: u64 = 50;

#[expect(clippy::disallowed_methods, reason = "a session is looked up before an account is known")]
impl SystemStore {
    /// Returns a session and its user, even if the session has expired.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.session.by_id", skip_all)]
    pub async fn session(&self, id: Vec<u8>) -> Result<Option<(Model, user::Model)>, StoreError> {
        let row = Entity::find_by_id(id).find_also_related(user::Entity).one(&self.pools.reader).await?;
        Ok(row.and_then(|(session, user)| Some((session, user?))))
    }

    /// Adds a session and an audit entry with `detail`. Deletes the sessions of all users that have
    /// expired or were last used before `idle_since`, and this user's oldest sessions beyond the limit.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.session.add", skip_all)]
    pub async fn add_session(
        &self,
        session: Model,
        idle_since: Timestamp,
        actor: &Actor,
        detail: Value,
    ) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let has_ended = Column::ExpiresAt.lte(session.created_at).or(Column::UsedAt.lte(idle_since));
        Entity::delete_many().filter(has_ended).exec(&transaction).await?;
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
            Entity::delete_many().filter(Column::Id.is_one_of(too_many)).exec(&transaction).await?;
        }
        let user = session.user_id;
        session.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::SignIn, Target::User(user), detail);
        audit_log::insert_user_audit_entries(&transaction, user, actor, &entry).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Records the use of a session.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.session.use", skip_all)]
    pub async fn record_session_use(&self, id: Vec<u8>, now: Timestamp) -> Result<(), StoreError> {
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
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.session.end", skip_all)]
    pub async fn end_session(&self, id: Vec<u8>) -> Result<(), StoreError> {
        Entity::delete_by_id(id).exec(&self.pools.writer).await?;
        Ok(())
    }

    /// Returns the sessions of one user or of all users that have not expired, the newest first, at most
    /// `limit`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn sessions(
        &self,
        user: Option<UserId>,
        now: Timestamp,
        limit: u64,
    ) -> Result<Vec<(Model, user::Model)>, StoreError> {
        let mut select = Entity::find().find_also_related(user::Entity).filter(Column::ExpiresAt.gt(now));
        if let Some(user) = user {
            select = select.filter(Column::UserId.eq(user));
        }
        let newest = select.order_by_desc(Column::CreatedAt).order_by_desc(Column::Id).limit(limit);
        let rows = newest.all(&self.pools.reader).await?;
        Ok(rows.into_iter().filter_map(|(session, user)| Some((session, user?))).collect())
    }

    /// Ends the session of a user with a public identifier. Returns false if there is none.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.session.end_one", skip_all)]
    pub async fn end_session_of(
        &self,
        user: UserId,
        identifier: &str,
        actor: &Actor,
    ) -> Result<bool, StoreError> {
        end_session_of(&self.pools.writer, user, identifier, actor).await
    }

    /// Ends all sessions of a user, and deletes the user's link for signing in. Returns the number of ended
    /// sessions.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.session.end_all", skip_all)]
    pub async fn end_sessions(&self, user: UserId, actor: &Actor) -> Result<u64, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let ended_sessions = Entity::delete_many().filter(Column::UserId.eq(user)).exec(&transaction).await?;
        delete_sign_in_links(&transaction, user).await?;
        let entry = Entry::done(Action::SignOutEverywhere, Target::User(user), json!({}));
        audit_log::insert_user_audit_entries(&transaction, user, actor, &entry).await?;
        transaction.commit().await?;
        Ok(ended_sessions.rows_affected)
    }
}

#[expect(clippy::disallowed_methods, reason = "these are the user's own rows, which belong to no account")]
impl UserStore {
    /// Returns the user's sessions that have not expired, the newest first, at most 50.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.session.of_user", skip_all)]
    pub async fn sessions(&self, now: Timestamp) -> Result<Vec<Model>, StoreError> {
        let newest = Entity::find()
            .filter(Column::UserId.eq(self.user()))
            .filter(Column::ExpiresAt.gt(now))
            .order_by_desc(Column::CreatedAt)
            .order_by_desc(Column::Id);
        Ok(newest.limit(MAX_SESSIONS).all(self.reader()).await?)
    }

    /// Ends the user's session with a public identifier. Returns false if there is none.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.session.end_own", skip_all)]
    pub async fn end_session(&self, identifier: &str, actor: &Actor) -> Result<bool, StoreError> {
        end_session_of(self.writer(), self.user(), identifier, actor).await
    }
}

#[expect(clippy::disallowed_methods, reason = "sessions belong to a user and to no account")]
async fn end_session_of(
    writer: &ConnectionPool,
    user: UserId,
    identifier: &str,
    actor: &Actor,
) -> Result<bool, StoreError> {
    let transaction = writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
    let session_ids = Entity::find().select_only().column(Column::Id).filter(Column::UserId.eq(user));
    // A user has at most this many sessions, and a few that began at the same time.
    let ids: Vec<Vec<u8>> = session_ids.limit(2 * MAX_SESSIONS).into_tuple().all(&transaction).await?;
    let Some(id) = ids.into_iter().find(|id| public_identifier(id) == identifier) else {
        return Ok(false);
    };
    let ended_sessions = Entity::delete_by_id(id).exec(&transaction).await?;
    if ended_sessions.rows_affected == 0 {
        return Ok(false);
    }
    let entry = Entry::done(Action::EndSession, Target::User(user), json!({ "session": identifier }));
    audit_log::insert_user_audit_entries(&transaction, user, actor, &entry).await?;
    transaction.commit().await?;
    Ok(true)
}
