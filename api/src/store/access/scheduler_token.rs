//! Scheduler tokens of an account, and their removal after they have ended.

use entity::{
    Timestamp,
    api_token::{Column, Entity},
    ids::{ApiTokenId, UserId},
};
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Expr, ExprTrait},
};

use super::api_token::{TokenKind, is_valid_at};
use crate::store::core::{
    composite_in::IsOneOf, error::StoreError, scoped::AccountStore, system::SystemStore,
};

/// The largest number of tokens that one call removes.
pub(crate) const BATCH: u64 = 1_000;

impl AccountStore {
    /// Returns the number of a user's scheduler tokens in the account, including those that have ended, and
    /// the number of those exchanged for the token `parent`; with `None`, for a session or a JWT.
    pub(crate) async fn count_scheduler_tokens(
        &self,
        user: UserId,
        parent: Option<ApiTokenId>,
    ) -> Result<(u64, u64), StoreError> {
        let is_of_parent = match parent {
            Some(parent) => Column::ParentId.eq(parent),
            None => Column::ParentId.is_null(),
        };
        let tokens_of_parent = self.scheduler_tokens_of(user).filter(is_of_parent);
        let tokens_of_parent = tokens_of_parent.count(&self.write_executor()).await?;
        Ok((self.scheduler_tokens_of(user).count(&self.write_executor()).await?, tokens_of_parent))
    }

    /// Deletes the tokens of a user's schedulers that ended at or before `latest_end`.
    pub(crate) async fn remove_scheduler_tokens(
        &self,
        user: UserId,
        latest_end: Timestamp,
    ) -> Result<(), StoreError> {
        self.delete::<Entity>()
            .filter(Column::UserId.eq(user))
            .filter(TokenKind::OfSchedulers.filter())
            .filter(has_ended(latest_end))
            .exec(&self.write_executor())
            .await?;
        Ok(())
    }

    /// Returns true if the token that a scheduler token is to be exchanged for is still valid. The caller's
    /// transaction holds a lock on the member.
    pub(crate) async fn is_valid_api_token(
        &self,
        id: ApiTokenId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let valid_tokens = self.select::<Entity>().filter(Column::Id.eq(id)).filter(is_valid_at(now));
        Ok(valid_tokens.count(&self.write_executor()).await? > 0)
    }

    /// Binds a token to the first scheduler that uses it. Returns false if it is bound to another one.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.scheduler_token.bind", skip_all)]
    pub async fn bind_scheduler_token(&self, id: ApiTokenId, scheduler_id: &str) -> Result<bool, StoreError> {
        let update = self
            .update::<Entity>()
            .col_expr(Column::SchedulerId, Expr::val(scheduler_id))
            .filter(Column::Id.eq(id))
            .filter(Column::SchedulerId.is_null().or(Column::SchedulerId.eq(scheduler_id)))
            .exec(&self.write_executor())
            .await?;
        Ok(update.rows_affected == 1)
    }

    /// Extends a token's lifetime to `end`. A token that was revoked or already ends at or after `end`
    /// is left unchanged.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.scheduler_token.renew", skip_all)]
    pub async fn renew_scheduler_token(&self, id: ApiTokenId, end: Timestamp) -> Result<(), StoreError> {
        self.update::<Entity>()
            .col_expr(Column::ExpiresAt, Expr::val(end))
            .filter(Column::Id.eq(id))
            .filter(Column::RevokedAt.is_null())
            .filter(Column::ExpiresAt.lt(end))
            .exec(&self.write_executor())
            .await?;
        Ok(())
    }

    fn scheduler_tokens_of(&self, user: UserId) -> Select<Entity> {
        self.select::<Entity>().filter(Column::UserId.eq(user)).filter(TokenKind::OfSchedulers.filter())
    }
}

#[expect(clippy::disallowed_methods, reason = "ended tokens of all accounts are deleted")]
impl SystemStore {
    /// Deletes up to [`BATCH`] scheduler tokens that ended at or before `latest_end`. Returns the number
    /// of deleted tokens.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.scheduler_token.remove", skip_all)]
    pub(crate) async fn remove_scheduler_tokens(&self, latest_end: Timestamp) -> Result<u64, StoreError> {
        let ids: Vec<ApiTokenId> = Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(TokenKind::OfSchedulers.filter())
            .filter(has_ended(latest_end))
            .order_by_asc(Column::Id)
            .limit(BATCH)
            .into_tuple()
            .all(&self.pools.reader)
            .await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let removed =
            Entity::delete_many().filter(Column::Id.is_one_of(ids)).exec(&self.pools.writer).await?;
        Ok(removed.rows_affected)
    }
}

fn has_ended(time: Timestamp) -> Condition {
    Condition::any().add(Column::ExpiresAt.lte(time)).add(Column::RevokedAt.lte(time))
}
