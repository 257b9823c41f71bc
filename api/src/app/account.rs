//! Accounts, users and tokens, as an operator makes them on the command line.

use std::sync::Arc;

use entity::{
    Timestamp, account,
    api_token::{self, Scope, Scopes},
    identity,
    ids::{AccountId, ApiTokenId, UserId},
    membership::{self, Role},
};
use uuid::Uuid;

use super::{
    api_token::token_detail,
    invitation::{invitation_detail, new_invitation},
};
use crate::{
    blocking::blocking,
    clock::Clock,
    domain::{
        access::{
            AccessError, Grant, InvitationWish, Own, TokenWish, check_grant, check_invitation, check_token,
        },
        audit::Actor,
        password::{Password, PasswordError},
        role::covers,
        slug::Slug,
        token::ApiToken,
        user::new_user,
    },
    store::{OPERATOR, OperatorChange, StoreError, SystemStore},
};

/// The account, user and token label of a store that was empty.
const DEFAULT_ACCOUNT: Slug = Slug::known("default");
const DEFAULT_USER: Slug = Slug::known("admin");
const DEFAULT_LABEL: &str = "made on first start";

/// What an operator has, who gives whatever there is.
const EVERYTHING: Own<'static> =
    Own { role: Role::Owner, scopes: &[Scope::Ingest, Scope::Read, Scope::Admin], expires_at: None };

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
    /// The member's role does not cover a scope.
    #[error("a user with the role {role:?} cannot have a token with the scope {scope:?}")]
    NotCovered {
        /// The role.
        role: Role,
        /// The scope.
        scope: Scope,
    },
    /// A rule speaks against it.
    #[error("{}", all_of(.0))]
    Refused(Vec<AccessError>),
    /// The text cannot become a password.
    #[error("a password {0}")]
    Password(#[from] PasswordError),
    /// The store did not do its work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Vec<AccessError>> for AccountError {
    fn from(errors: Vec<AccessError>) -> Self {
        Self::Refused(errors)
    }
}

fn all_of(errors: &[AccessError]) -> String {
    let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
    all.join("; ")
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
        let account = self.account_row(slug);
        let (id, taken) = (account.id, format!("account '{slug}'"));
        let by = Actor::operator(self.clock.timestamp());
        self.store.add_account(account, &by).await.map_err(|error| taken_if_conflict(error, taken))?;
        Ok(id)
    }

    /// Makes a user a member of an account, and makes the user first when there is none of that name.
    ///
    /// # Errors
    /// [`AccountError::Missing`] without the account, [`AccountError::Taken`] when the user is a member already,
    /// [`AccountError::Refused`] when nobody can be a member so.
    pub async fn create_user(
        &self,
        name: &Slug,
        account: &Slug,
        grant: Grant,
    ) -> Result<UserId, AccountError> {
        let account_id = self.account(account).await?;
        let now = self.clock.timestamp();
        check_grant(Role::Owner, grant, now)?;
        let user = new_user(name, &mut rand::rng(), now);
        let by = Actor::operator(now);
        let added = self.store.add_member(account_id, user, (grant.role, grant.ends_at), &by).await;
        added.map_err(|error| taken_if_conflict(error, format!("user '{name}' in account '{account}'")))
    }

    /// Makes something else of a member of an account, or ends the membership if there is nothing else.
    ///
    /// # Errors
    /// [`AccountError::Missing`] without the account, the user, or the membership; [`AccountError::Refused`] when nobody
    /// can be a member so, or the account would be left without an owner.
    pub async fn change_user(
        &self,
        name: &Slug,
        account: &Slug,
        after: Option<Grant>,
    ) -> Result<(), AccountError> {
        let account_id = self.account(account).await?;
        let now = self.clock.timestamp();
        if let Some(grant) = after {
            check_grant(Role::Owner, grant, now)?;
        }
        let missing = || AccountError::Missing(format!("user '{name}' in account '{account}'"));
        let user = self.store.user_by_name(name.as_str()).await?.ok_or_else(missing)?;
        match self.store.change_member(account_id, user.id, after, &Actor::operator(now)).await? {
            OperatorChange::Done => Ok(()),
            OperatorChange::NoMember => Err(missing()),
            OperatorChange::LastOwner => Err(vec![AccessError::LastOwner].into()),
        }
    }

    /// Makes an invitation to an account. The answer is the only place its secret is ever in.
    ///
    /// # Errors
    /// [`AccountError::Missing`] without the account, [`AccountError::Refused`] when there can be no such invitation.
    pub async fn invite(&self, account: &Slug, wish: InvitationWish) -> Result<ApiToken, AccountError> {
        let account_id = self.account(account).await?;
        let now = self.clock.timestamp();
        let expires_at = check_invitation(Role::Owner, &wish, now)?;
        let (secret, row) = new_invitation((account_id, OPERATOR), wish, expires_at, now);
        let detail = invitation_detail(&row);
        self.store.add_invitation(row, &Actor::operator(now), detail).await?;
        Ok(secret)
    }

    /// Says by which name an issuer of credentials knows a user.
    ///
    /// # Errors
    /// [`AccountError::Missing`] without the user; [`AccountError::Taken`] when the issuer knows somebody by it already.
    pub async fn link_user(&self, name: &Slug, issuer: &str, subject: &str) -> Result<(), AccountError> {
        let missing = || AccountError::Missing(format!("user '{name}'"));
        let user = self.store.user_by_name(name.as_str()).await?.ok_or_else(missing)?;
        let now = self.clock.timestamp();
        let identity = identity::Model {
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            user_id: user.id,
            created_at: now,
        };
        let taken = format!("'{subject}' of '{issuer}'");
        self.store
            .add_identity(identity, &Actor::operator(now))
            .await
            .map_err(|error| taken_if_conflict(error, taken))
    }

    /// Makes a token for a member of an account. The answer is the only place its secret is ever in.
    ///
    /// # Errors
    /// [`AccountError::Missing`] without the account, the user, or the membership; [`AccountError::NotCovered`]
    /// when the user's role does not cover a scope; [`AccountError::Refused`] when there can be no such token.
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
        let member = self.store.membership(account_id, user.id).await?.ok_or_else(missing)?;
        let holder = Grant { role: member.role, ends_at: member.ends_at };
        if let Some(scope) = scopes.iter().find(|scope| !covers(holder.role, **scope)) {
            return Err(AccountError::NotCovered { role: holder.role, scope: *scope });
        }
        let now = self.clock.timestamp();
        let wish = TokenWish { label, scopes: scopes.to_vec(), expires_at };
        check_token(EVERYTHING, holder, &wish, now)?;
        let (token, row) = new_token((account_id, user.id), scopes, wish.label, expires_at, now);
        let detail = token_detail(&row);
        self.store.add_api_token(row, &Actor::operator(now), detail).await?;
        Ok(token)
    }

    /// Sets the password of a user, whose sessions all end.
    ///
    /// # Errors
    /// [`AccountError::Missing`] without the user, [`AccountError::Password`] when it cannot be one.
    pub async fn set_password(&self, user: &Slug, password: String) -> Result<(), AccountError> {
        let missing = || AccountError::Missing(format!("user '{user}'"));
        let user = self.store.user_by_name(user.as_str()).await?.ok_or_else(missing)?;
        let password = Password::chosen(password, &user.name)?;
        let hash = blocking(move || password.hash(&mut rand::rng())).await;
        let operator = Actor::operator(self.clock.timestamp());
        Ok(self.store.set_password(user.id, hash, None, &operator).await?)
    }

    /// Gives an empty store its first account, user and token; does nothing to any other.
    ///
    /// # Errors
    /// When the store did not do its work; it is still empty then.
    pub async fn bootstrap(&self) -> Result<Option<ApiToken>, AccountError> {
        if !self.store.is_empty().await? {
            return Ok(None);
        }
        let now = self.clock.timestamp();
        let account = self.account_row(&DEFAULT_ACCOUNT);
        let user = new_user(&DEFAULT_USER, &mut rand::rng(), now);
        let member = membership::Model {
            account_id: account.id,
            user_id: user.id,
            role: Role::Owner,
            created_at: now,
            ends_at: None,
        };
        let scopes = [Scope::Ingest, Scope::Read, Scope::Admin];
        let of = (account.id, user.id);
        let (token, row) = new_token(of, &scopes, DEFAULT_LABEL.to_owned(), None, now);
        match self.store.add_first(account, user, member, row, &Actor::operator(now)).await {
            Ok(()) => Ok(Some(token)),
            // Another process was faster.
            Err(StoreError::Conflict(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn account_row(&self, slug: &Slug) -> account::Model {
        let (slug, name) = (slug.to_string(), slug.to_string());
        account::Model { id: AccountId(Uuid::now_v7()), slug, name, created_at: self.clock.timestamp() }
    }

    async fn account(&self, slug: &Slug) -> Result<AccountId, AccountError> {
        let found = self.store.account_by_slug(slug).await?;
        found.map(|account| account.id).ok_or_else(|| AccountError::Missing(format!("account '{slug}'")))
    }
}

/// A token that is not stored yet, for a user in an account.
pub(super) fn new_token(
    (account_id, user_id): (AccountId, UserId),
    scopes: &[Scope],
    label: String,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> (ApiToken, api_token::Model) {
    let token = ApiToken::generate(&mut rand::rng());
    let mut scopes = scopes.to_vec();
    scopes.sort_unstable();
    scopes.dedup();
    let row = api_token::Model {
        id: ApiTokenId(Uuid::now_v7()),
        identifier: token.identifier().to_owned(),
        secret_hash: token.secret_hash().to_vec(),
        account_id,
        user_id,
        label,
        scopes: Scopes(scopes),
        created_at: now,
        expires_at,
        revoked_at: None,
        last_used_at: None,
    };
    (token, row)
}

fn taken_if_conflict(error: StoreError, what: String) -> AccountError {
    match error {
        StoreError::Conflict(_) => AccountError::Taken(what),
        other => other.into(),
    }
}
