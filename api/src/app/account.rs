//! Accounts, users and tokens, as an operator makes them on the command line.

use std::sync::Arc;

use entity::{
    Timestamp, account,
    api_token::{self, Scope, Scopes},
    ids::{AccountId, ApiTokenId, UserId},
    membership::Role,
    user,
};
use uuid::Uuid;

use crate::{
    clock::Clock,
    domain::{slug::Slug, token::ApiToken},
    store::{StoreError, SystemStore},
};

/// The account, user and token label of a store that was empty.
const DEFAULT_ACCOUNT: Slug = Slug::known("default");
const DEFAULT_USER: Slug = Slug::known("admin");
const DEFAULT_LABEL: &str = "made on first start";

/// Makes accounts, users and tokens.
#[derive(Clone)]
pub struct Accounts {
    store: SystemStore,
    clock: Arc<dyn Clock>,
}

/// Why something was not made.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name is taken.
    #[error("{0} exists already")]
    Taken(String),
    /// Something that was named does not exist.
    #[error("there is no {0}")]
    Missing(String),
    /// The store did not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Accounts {
    /// What it makes goes to `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Makes an account.
    ///
    /// # Errors
    /// [`AccountError::Taken`] when there is one with this slug.
    pub async fn create_account(&self, slug: &Slug) -> Result<AccountId, AccountError> {
        let id = AccountId(Uuid::now_v7());
        let (slug, name) = (slug.to_string(), slug.to_string());
        let account = account::Model { id, slug, name, created_at: self.clock.timestamp() };
        let taken = format!("account '{}'", account.slug);
        self.store.add_account(account).await.map_err(|error| taken_if_conflict(error, taken))?;
        Ok(id)
    }

    /// Makes a user a member of an account, and makes the user first when there is none of that name.
    ///
    /// # Errors
    /// [`AccountError::Missing`] without the account, [`AccountError::Taken`] when the user is a member already.
    pub async fn create_user(&self, name: &Slug, account: &Slug, role: Role) -> Result<UserId, AccountError> {
        let now = self.clock.timestamp();
        let account_id = self.account(account).await?;
        let user = user::Model { id: UserId(Uuid::now_v7()), name: name.to_string(), created_at: now };
        let added = self.store.add_member(account_id, user, role, now).await;
        added.map_err(|error| taken_if_conflict(error, format!("user '{name}' in account '{account}'")))
    }

    /// Makes a token for a member of an account. The answer is the only place its secret is ever in.
    ///
    /// # Errors
    /// [`AccountError::Missing`] without the account, the user, or the membership.
    pub async fn create_token(
        &self,
        user: &Slug,
        account: &Slug,
        scopes: &[Scope],
        label: String,
        expires_at: Option<Timestamp>,
    ) -> Result<ApiToken, AccountError> {
        let account_id = self.account(account).await?;
        let missing = || AccountError::Missing(format!("user '{user}' in account '{account}'"));
        let user = self.store.user_by_name(user.as_str()).await?.ok_or_else(missing)?;
        self.store.membership(account_id, user.id).await?.ok_or_else(missing)?;
        let token = ApiToken::generate(&mut rand::rng());
        let mut scopes = scopes.to_vec();
        scopes.sort_unstable();
        scopes.dedup();
        self.store
            .add_api_token(api_token::Model {
                id: ApiTokenId(Uuid::now_v7()),
                identifier: token.identifier().to_owned(),
                secret_hash: token.secret_hash().to_vec(),
                account_id,
                user_id: user.id,
                label,
                scopes: Scopes(scopes),
                created_at: self.clock.timestamp(),
                expires_at,
                revoked_at: None,
            })
            .await?;
        Ok(token)
    }

    /// Gives an empty store its first account, user and token; does nothing to any other.
    ///
    /// # Errors
    /// When the store did not do its work.
    pub async fn bootstrap(&self) -> Result<Option<ApiToken>, AccountError> {
        if !self.store.is_empty().await? {
            return Ok(None);
        }
        self.create_account(&DEFAULT_ACCOUNT).await?;
        self.create_user(&DEFAULT_USER, &DEFAULT_ACCOUNT, Role::Owner).await?;
        let (scopes, label) = ([Scope::Ingest, Scope::Read, Scope::Admin], DEFAULT_LABEL.to_owned());
        self.create_token(&DEFAULT_USER, &DEFAULT_ACCOUNT, &scopes, label, None).await.map(Some)
    }

    async fn account(&self, slug: &Slug) -> Result<AccountId, AccountError> {
        let found = self.store.account_by_slug(slug).await?;
        found.map(|account| account.id).ok_or_else(|| AccountError::Missing(format!("account '{slug}'")))
    }
}

fn taken_if_conflict(error: StoreError, what: String) -> AccountError {
    match error {
        StoreError::Conflict(_) => AccountError::Taken(what),
        other => other.into(),
    }
}
