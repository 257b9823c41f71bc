//! API tokens: found by their public identifier, together with whom they stand for; and those of one account.

use entity::{
    Positional, Timestamp, account,
    api_token::{Column, Entity, Model},
    audit_entry::Action,
    ids::{ApiTokenId, UserId},
    membership, user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Statement, TransactionTrait,
    sea_query::{CaseStatement, Expr, ExprTrait, OnConflict},
};
use serde_json::Value;

use super::{
    audit_entry,
    connect::IMMEDIATE,
    error::StoreError,
    identity::SystemStore,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    standing::Standing,
};
use crate::domain::audit::{Actor, Entry, Target};

/// Tokens in one statement at the most.
const USES: usize = 1_000;

/// Finds a token with what it stands for, or another one. Every request asks that, so it is not put together for each; the
/// columns are those of the models, in their order.
const FIND: &str = "SELECT token.id, token.identifier, token.secret_hash, token.account_id, token.user_id, token.label, \
       token.scopes, token.created_at, token.expires_at, token.revoked_at, token.last_used_at, \
       account.id, account.slug, account.name, account.created_at, \
       member.id, member.name, member.created_at, \
       membership.account_id, membership.user_id, membership.role, membership.created_at, membership.ends_at \
     FROM api_tokens token \
     JOIN accounts account ON account.id = token.account_id \
     JOIN users member ON member.id = token.user_id \
     JOIN memberships membership \
       ON membership.account_id = token.account_id AND membership.user_id = token.user_id \
     WHERE token.identifier = COALESCE((SELECT identifier FROM api_tokens WHERE identifier = $1), \
       (SELECT MIN(identifier) FROM api_tokens))";

/// A token's row with the account and user it stands for.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The token.
    pub token: Model,
    /// The account it opens, the user it acts for, and what the user is in the account now.
    pub standing: Standing,
}

impl SystemStore {
    /// The token with this public half, whatever its state, of somebody who is a member. Where there is none, another is read and
    /// not returned: the time it takes does not tell one from the other.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.api_token.credentials", skip_all)]
    pub async fn credentials(&self, identifier: &str) -> Result<Option<Credentials>, StoreError> {
        let reader = &self.pools.reader;
        let values = [identifier.into()];
        let statement = Statement::from_sql_and_values(reader.get_database_backend(), FIND, values);
        let Some(row) = reader.query_one_raw(statement).await? else { return Ok(None) };
        let mut columns = 0..;
        let found = Credentials {
            token: Model::next_of(&row, &mut columns)?,
            standing: Standing {
                account: account::Model::next_of(&row, &mut columns)?,
                user: user::Model::next_of(&row, &mut columns)?,
                membership: membership::Model::next_of(&row, &mut columns)?,
            },
        };
        Ok(Some(found).filter(|found| found.token.identifier == identifier))
    }

    /// Adds a token.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the identifier is taken.
    pub async fn add_api_token(&self, token: Model, by: &Actor, detail: Value) -> Result<(), StoreError> {
        let (account, target) = (token.account_id, Target::ApiToken(token.identifier.clone()));
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        token.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::CreateToken, target, detail);
        audit_entry::add(&transaction, account, by, entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "tokens of all accounts are used")]
impl SystemStore {
    /// Writes down when tokens were last used, in one statement for so many that more are rare. What is written down already
    /// and is later stays: other servers write, too.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.api_token.record_uses", skip_all)]
    pub(crate) async fn record_token_uses(&self, uses: &[(ApiTokenId, Timestamp)]) -> Result<(), StoreError> {
        for some in uses.chunks(USES) {
            let at = || -> Expr {
                let begun = CaseStatement::new();
                let cases =
                    some.iter().fold(begun, |cases, (token, at)| cases.case(Column::Id.eq(*token), *at));
                cases.finally(Expr::col(Column::LastUsedAt)).into()
            };
            let earlier = Column::LastUsedAt.is_null().or(Expr::col(Column::LastUsedAt).lt(at()));
            Entity::update_many()
                .col_expr(Column::LastUsedAt, at())
                .filter(Column::Id.is_in(some.iter().map(|(token, _)| *token)))
                .filter(earlier)
                .exec(&self.pools.writer)
                .await?;
        }
        Ok(())
    }
}

/// The orders tokens can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiTokenSort {
    /// The token that was made last comes first.
    NewestFirst,
}

impl Sort for ApiTokenSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "token_created_at:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::CreatedAt, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.created_at.into(), row.id.into()])
    }
}

impl AccountStore {
    /// A page of the account's tokens, revoked and expired ones among them.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.api_token.page", skip_all)]
    pub async fn api_token_page(
        &self,
        sort: ApiTokenSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.reads(), self.select::<Entity>(), sort, request).await
    }

    /// Some of a user's tokens in the account, the newest first. Whoever pages so reads what lies before again, which for
    /// the tokens of one user is little.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.api_token.of_user", skip_all)]
    pub async fn api_tokens_of(
        &self,
        user: UserId,
        skipped: u64,
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let newest = self
            .select::<Entity>()
            .filter(Column::UserId.eq(user))
            .order_by_desc(Column::CreatedAt)
            .order_by_desc(Column::Id);
        Ok(newest.offset(skipped).limit(limit).all(&self.reads()).await?)
    }

    /// How many tokens the account ever had of those who are members.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.api_token.count", skip_all)]
    pub async fn api_token_count(&self) -> Result<u64, StoreError> {
        Ok(self.select::<Entity>().count(&self.reads()).await?)
    }

    /// How many tokens of the account are good at a time.
    pub(crate) async fn good_api_token_count(&self, now: Timestamp) -> Result<u64, StoreError> {
        let lasts = Column::ExpiresAt.is_null().or(Column::ExpiresAt.gt(now));
        let good = self.select::<Entity>().filter(Column::RevokedAt.is_null()).filter(lasts);
        Ok(good.count(&self.writes()).await?)
    }

    /// The token of the account with this public half.
    pub(crate) async fn api_token(&self, identifier: &str) -> Result<Option<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Identifier.eq(identifier));
        Ok(select.one(&self.writes()).await?)
    }

    /// Adds a token of a member.
    pub(crate) async fn add_own_api_token(&self, token: Model) -> Result<(), StoreError> {
        self.insert::<Entity>(vec![token], &OnConflict::new().do_nothing().to_owned()).await?;
        Ok(())
    }

    /// Ends a token, unless it has been already.
    pub(crate) async fn revoke_api_token(&self, id: ApiTokenId, now: Timestamp) -> Result<(), StoreError> {
        self.update::<Entity>()
            .col_expr(Column::RevokedAt, Expr::val(now))
            .filter(Column::Id.eq(id))
            .filter(Column::RevokedAt.is_null())
            .exec(&self.writes())
            .await?;
        self.announce_access();
        Ok(())
    }
}
