//! Queries of the operator's command line over all accounts, and the revocation of API tokens.

use entity::{
    Timestamp, account, alert_delivery,
    api_token::{self, Column},
    audit_entry::Action,
    cluster,
    ids::{AccountId, UserId},
    membership, user,
};
use sea_orm::{
    ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, TransactionTrait,
    sea_query::{Expr, ExprTrait},
};
use serde_json::Value;

use crate::{
    domain::audit::{Actor, Entry, Target},
    store::{
        access::api_token::{TokenKind, is_token_or_child},
        core::{audit_log, connect::IMMEDIATE_TRANSACTION, error::StoreError, system::SystemStore},
    },
};

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

/// The content of all accounts, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstallationTotals {
    /// The number of accounts.
    pub accounts: u64,
    /// The number of users.
    pub users: u64,
    /// The number of API tokens that are neither revoked nor expired.
    pub valid_tokens: u64,
    /// The number of clusters, ended ones included.
    pub clusters: u64,
    /// The number of clusters that report.
    pub reporting_clusters: u64,
    /// The time of the last report, by the server's clock. `None` without a cluster.
    pub last_report_at: Option<Timestamp>,
    /// The number of messages of alerts that are still to be sent.
    pub pending_deliveries: u64,
}

#[expect(clippy::disallowed_methods, reason = "an operator sees all accounts")]
impl SystemStore {
    /// Returns the content of all accounts, in numbers.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn installation_totals(&self, now: Timestamp) -> Result<InstallationTotals, StoreError> {
        let reader = &self.pools.reader;
        let is_valid =
            Column::RevokedAt.is_null().and(Column::ExpiresAt.is_null().or(Column::ExpiresAt.gt(now)));
        let reporting = cluster::Column::Status.eq(cluster::Status::Running);
        let pending = alert_delivery::Column::State.eq(alert_delivery::State::Pending);
        let last_seen_at = cluster::Entity::find()
            .select_only()
            .column_as(cluster::Column::LastSeenAt.max(), "last")
            .into_tuple::<Option<Timestamp>>();
        Ok(InstallationTotals {
            accounts: account::Entity::find().count(reader).await?,
            users: user::Entity::find().count(reader).await?,
            valid_tokens: api_token::Entity::find().filter(is_valid).count(reader).await?,
            clusters: cluster::Entity::find().count(reader).await?,
            reporting_clusters: cluster::Entity::find().filter(reporting).count(reader).await?,
            last_report_at: last_seen_at.one(reader).await?.flatten(),
            pending_deliveries: alert_delivery::Entity::find().filter(pending).count(reader).await?,
        })
    }

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
        actor: &Actor,
        detail: impl FnOnce(&api_token::Model) -> Value,
    ) -> Result<bool, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let select = api_token::Entity::find().filter(Column::Identifier.eq(identifier));
        let Some(token) = select.one(&transaction).await? else { return Ok(false) };
        let revocation = api_token::Entity::update_many()
            .col_expr(Column::RevokedAt, Expr::val(actor.at))
            .filter(Column::AccountId.eq(token.account_id))
            .filter(is_token_or_child(token.id))
            .filter(Column::RevokedAt.is_null())
            .exec(&transaction)
            .await?;
        if revocation.rows_affected > 0 && token.revoked_at.is_none() {
            let target = Target::ApiToken(token.identifier.clone());
            let entry = Entry::done(Action::RevokeToken, target, detail(&token));
            audit_log::insert_audit_entry(&transaction, token.account_id, actor, entry).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }
}
