//! API tokens: the lookup by public identifier with the account and the user, and the tokens of one
//! account.

use entity::{
    DecodeByIndex, Row, Timestamp, account,
    api_token::{Column, Entity, Model},
    audit_entry::Action,
    ids::{ApiTokenId, UserId},
    membership, user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Statement, TransactionTrait,
    sea_query::{CaseStatement, Expr, ExprTrait, OnConflict},
};
use serde_json::Value;

use super::current_membership::CurrentMembership;
use crate::{
    bus::ChangeKinds,
    domain::{
        access::NEW_TOKEN_AGE,
        audit::{Actor, Entry, Target},
    },
    store::core::{
        audit_log,
        composite_in::IsOneOf,
        connect::IMMEDIATE_TRANSACTION,
        error::StoreError,
        page::{self, Key, KeyPart, Page, PageRequest, Sort},
        read_rows::{ReadRows, ReadSelect},
        scoped::AccountStore,
        system::SystemStore,
    },
};

/// The largest number of tokens in one statement.
const USES: usize = 1_000;

/// Finds a token by its identifier with its account and user, or any other token if there is none. The
/// statement is a constant, because every request runs it. The columns are those of the models, in their
/// order.
const FIND: &str = "SELECT token.id, token.identifier, token.secret_hash, token.account_id, token.user_id, token.label, \
       token.scopes, token.created_at, token.expires_at, token.revoked_at, token.last_used_at, \
       token.is_of_scheduler, token.parent_id, token.scheduler_id, token.renewable_until, token.broad_use_at, \
       account.id, account.slug, account.name, account.created_at, \
       member.id, member.name, member.created_at, \
       membership.account_id, membership.user_id, membership.role, membership.created_at, membership.ends_at, \
       CASE WHEN policy.refuses_broad_tokens THEN 1 ELSE 0 END \
     FROM api_tokens token \
     JOIN accounts account ON account.id = token.account_id \
     JOIN users member ON member.id = token.user_id \
     JOIN memberships membership \
       ON membership.account_id = token.account_id AND membership.user_id = token.user_id \
     LEFT JOIN token_policies policy ON policy.account_id = token.account_id \
     WHERE token.identifier = COALESCE((SELECT identifier FROM api_tokens WHERE identifier = $1), \
       (SELECT MIN(identifier) FROM api_tokens))";

/// A token with the account that it opens and the user that it acts for.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The token.
    pub token: Model,
    /// The account, the user, and the user's current membership in the account.
    pub current: CurrentMembership,
    /// True if the account refuses tokens from schedulers that allow more than reports.
    pub refuses_broad_tokens: bool,
}

/// The kind of a token's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenUse {
    /// Any use.
    Any,
    /// A use by a scheduler although the token allows more than reports.
    Broad,
}

/// The tokens of an account that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Tokens that people and programs hold.
    Personal,
    /// Short-lived tokens of schedulers.
    OfSchedulers,
}

impl TokenKind {
    pub(crate) fn filter(self) -> Expr {
        Column::IsOfScheduler.eq(self == Self::OfSchedulers)
    }
}

impl SystemStore {
    /// Returns the token with this identifier, whatever its state, if its user is a member of the account.
    /// If there is no such token, another one is read and discarded, so that the response time does not
    /// reveal which identifiers exist.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.api_token.credentials", skip_all)]
    pub async fn credentials(&self, identifier: &str) -> Result<Option<Credentials>, StoreError> {
        let reader = &self.pools.reader;
        let values = [identifier.into()];
        let statement = Statement::from_sql_and_values(reader.get_database_backend(), FIND, values);
        let decode = |row: &Row<'_>| {
            let mut columns = 0..;
            Ok(Credentials {
                token: Model::next_of(row, &mut columns)?,
                current: CurrentMembership {
                    account: account::Model::next_of(row, &mut columns)?,
                    user: user::Model::next_of(row, &mut columns)?,
                    membership: membership::Model::next_of(row, &mut columns)?,
                },
                refuses_broad_tokens: row.get::<i32>(columns.start)? == 1,
            })
        };
        let credentials = reader.read_rows(statement, decode).await?.into_iter().next();
        Ok(credentials.filter(|credentials| credentials.token.identifier == identifier))
    }

    /// Adds a token and records it in the audit log.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the identifier is taken, and an error if the database does not
    /// answer.
    pub async fn add_api_token(&self, token: Model, actor: &Actor, detail: Value) -> Result<(), StoreError> {
        let (account, target) = (token.account_id, Target::ApiToken(token.identifier.clone()));
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        token.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::CreateToken, target, detail);
        audit_log::insert_audit_entry(&transaction, account, actor, entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the uses of all accounts' tokens are recorded together")]
impl SystemStore {
    /// Records the last uses of tokens, up to 1,000 in one statement, which more tokens rarely exceed. A
    /// later time that is already stored stays, because other servers write as well.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.api_token.record_uses", skip_all)]
    pub(crate) async fn record_token_uses(
        &self,
        kind: TokenUse,
        uses: &[(ApiTokenId, Timestamp)],
    ) -> Result<(), StoreError> {
        let column = match kind {
            TokenUse::Any => Column::LastUsedAt,
            TokenUse::Broad => Column::BroadUseAt,
        };
        for chunk in uses.chunks(USES) {
            let used_at = || -> Expr {
                let empty_case = CaseStatement::new();
                let cases = chunk
                    .iter()
                    .fold(empty_case, |cases, (token, used_at)| cases.case(Column::Id.eq(*token), *used_at));
                cases.finally(Expr::col(column)).into()
            };
            let is_earlier = column.is_null().or(Expr::col(column).lt(used_at()));
            Entity::update_many()
                .col_expr(column, used_at())
                .filter(Column::Id.is_one_of(chunk.iter().map(|(token, _)| *token)))
                .filter(is_earlier)
                .exec(&self.pools.writer)
                .await?;
        }
        Ok(())
    }
}

/// The orders tokens can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApiTokenSort {
    /// The newest token comes first.
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
    /// Returns a page of the tokens of a kind, of one user or of all, including revoked and expired ones.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.api_token.page", skip_all)]
    pub async fn api_token_page(
        &self,
        kind: TokenKind,
        user: Option<UserId>,
        sort: ApiTokenSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let tokens = self.select::<Entity>().filter(list_filter(kind, user));
        page::fetch(&self.read_executor(), tokens, sort, request).await
    }

    /// Returns some of a user's tokens in the account, the newest first, without those of schedulers. The
    /// `skipped` tokens are read again for each page, which is cheap for the tokens of one user.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.api_token.of_user", skip_all)]
    pub async fn list_user_api_tokens(
        &self,
        user: UserId,
        skipped: u64,
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        let newest = self
            .select::<Entity>()
            .filter(Column::UserId.eq(user))
            .filter(TokenKind::Personal.filter())
            .order_by_desc(Column::CreatedAt)
            .order_by_desc(Column::Id);
        Ok(newest.offset(skipped).limit(limit).read_models(&self.read_executor()).await?)
    }

    /// Returns the token with the identifier of its row, of either kind.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.api_token.get", skip_all)]
    pub async fn api_token_by_id(&self, id: ApiTokenId) -> Result<Option<Model>, StoreError> {
        Ok(self.select::<Entity>().filter(Column::Id.eq(id)).one(&self.read_executor()).await?)
    }

    /// Counts the tokens of a kind, of one user or of all. Tokens of former members do not exist.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.api_token.count", skip_all)]
    pub async fn api_token_count(&self, kind: TokenKind, user: Option<UserId>) -> Result<u64, StoreError> {
        Ok(self.select::<Entity>().filter(list_filter(kind, user)).count(&self.read_executor()).await?)
    }

    /// Counts the tokens of the account that are valid at a time or [new](NEW_TOKEN_AGE), without those of
    /// schedulers.
    pub(crate) async fn count_valid_or_new_api_tokens(&self, now: Timestamp) -> Result<u64, StoreError> {
        let is_new = Column::CreatedAt.gt(Timestamp::from(now.0 - NEW_TOKEN_AGE));
        let tokens = self.select::<Entity>().filter(TokenKind::Personal.filter());
        let tokens = tokens.filter(is_valid_at(now).or(is_new));
        Ok(tokens.count(&self.write_executor()).await?)
    }

    /// Returns the account's token with this public half.
    pub(crate) async fn api_token(&self, identifier: &str) -> Result<Option<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Identifier.eq(identifier));
        Ok(select.one(&self.write_executor()).await?)
    }

    /// Adds a token of a member.
    pub(crate) async fn insert_api_token(&self, token: Model) -> Result<(), StoreError> {
        self.insert::<Entity>(vec![token], &OnConflict::new().do_nothing().to_owned()).await?;
        Ok(())
    }

    /// Revokes a token and the tokens it was exchanged for, unless they are revoked already.
    pub(crate) async fn revoke_api_token(&self, id: ApiTokenId, now: Timestamp) -> Result<(), StoreError> {
        self.update::<Entity>()
            .col_expr(Column::RevokedAt, Expr::val(now))
            .filter(is_token_or_child(id))
            .filter(Column::RevokedAt.is_null())
            .exec(&self.write_executor())
            .await?;
        self.announce_account(ChangeKinds::ACCESS);
        Ok(())
    }
}

/// Returns the condition for the tokens of a kind, of one user or of all.
fn list_filter(kind: TokenKind, user: Option<UserId>) -> Condition {
    Condition::all().add(kind.filter()).add_option(user.map(|user| Column::UserId.eq(user)))
}

/// Returns the condition for a token and the tokens it was exchanged for.
pub(crate) fn is_token_or_child(id: ApiTokenId) -> Expr {
    Column::Id.eq(id).or(Column::ParentId.eq(id))
}

/// Returns the condition that a token is valid at a time.
pub(crate) fn is_valid_at(now: Timestamp) -> Expr {
    Column::RevokedAt.is_null().and(Column::ExpiresAt.is_null().or(Column::ExpiresAt.gt(now)))
}
