//! Queries of the operator's command line over all accounts, and the revocation of API tokens.

use entity::{
    account,
    api_token::{self, Column},
    audit_entry::Action,
    ids::{AccountId, UserId},
    membership, user,
};
use sea_orm::{
    ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, TransactionTrait, sea_query::Expr,
};
use serde_json::Value;

use super::{
    api_token::{TokenKind, is_token_or_child},
    audit_entry,
    connect::IMMEDIATE_TRANSACTION,
    error::StoreError,
    system::SystemStore,
};
use crate::domain::audit::{Actor, Entry, Target};

/// The filter for a list of tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenFilter {
    /// The kind of token.
    pub kind: TokenKind,
    /// The account that the tokens give access to. `None` for all accounts.
    pub account: Option<AccountId>,
    /// The user that the tokens act for. `None` for all users.
    pub user: Option<UserId>,
}

#[expect(clippy::disallowed_methods, reason = "an operator sees all accounts")]
impl SystemStore {
    /// Returns all accounts, by slug.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn accounts(&self) -> Result<Vec<account::Model>, StoreError> {
        let ordered = account::Entity::find().order_by_asc(account::Column::Slug);
        Ok(ordered.all(&self.pools.reader).await?)
    }

    /// Returns all users, by name.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn users(&self) -> Result<Vec<user::Model>, StoreError> {
        Ok(user::Entity::find().order_by_asc(user::Column::Name).all(&self.pools.reader).await?)
    }

    /// Returns the memberships of one account or of all accounts, the oldest first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn memberships(
        &self,
        account: Option<AccountId>,
    ) -> Result<Vec<membership::Model>, StoreError> {
        let mut select = membership::Entity::find();
        if let Some(account) = account {
            select = select.filter(membership::Column::AccountId.eq(account));
        }
        let ordered = select
            .order_by_asc(membership::Column::CreatedAt)
            .order_by_asc(membership::Column::AccountId)
            .order_by_asc(membership::Column::UserId);
        Ok(ordered.all(&self.pools.reader).await?)
    }

    /// Returns the tokens that match a filter, revoked and expired ones included, the newest first, at
    /// most `limit`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn api_tokens(
        &self,
        filter: TokenFilter,
        limit: u64,
    ) -> Result<Vec<api_token::Model>, StoreError> {
        let mut select = api_token::Entity::find().filter(filter.kind.filter());
        if let Some(account) = filter.account {
            select = select.filter(Column::AccountId.eq(account));
        }
        if let Some(user) = filter.user {
            select = select.filter(Column::UserId.eq(user));
        }
        let newest = select.order_by_desc(Column::CreatedAt).order_by_desc(Column::Id).limit(limit);
        Ok(newest.all(&self.pools.reader).await?)
    }

    /// Revokes the token with this identifier, its public half, and the tokens it was exchanged for.
    /// Writes an audit entry with the detail that `detail` returns. A token that is already revoked is
    /// left unchanged. Returns false if there is no such token.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn end_api_token(
        &self,
        identifier: &str,
        by: &Actor,
        detail: impl FnOnce(&api_token::Model) -> Value,
    ) -> Result<bool, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let select = api_token::Entity::find().filter(Column::Identifier.eq(identifier));
        let Some(token) = select.one(&transaction).await? else { return Ok(false) };
        let ended = api_token::Entity::update_many()
            .col_expr(Column::RevokedAt, Expr::val(by.at))
            .filter(Column::AccountId.eq(token.account_id))
            .filter(is_token_or_child(token.id))
            .filter(Column::RevokedAt.is_null())
            .exec(&transaction)
            .await?;
        if ended.rows_affected > 0 && token.revoked_at.is_none() {
            let target = Target::ApiToken(token.identifier.clone());
            let entry = Entry::done(Action::RevokeToken, target, detail(&token));
            audit_entry::insert_audit_entry(&transaction, token.account_id, by, entry).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }
}
