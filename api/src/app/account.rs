//! Accounts, users and tokens, as an operator manages them on the command line.

use std::sync::Arc;

use entity::{
    Timestamp, account,
    api_token::{self, Scope, Scopes},
    identity,
    ids::{AccountId, ApiTokenId, UserId},
    membership::{self, Role},
    quota, user,
};
use uuid::Uuid;

use super::{
    api_token::token_detail,
    invitation::{invitation_detail, new_invitation},
    quota::{QuotaChange, quota_detail},
};
use crate::{
    blocking_work::run_blocking,
    clock::Clock,
    domain::{
        access::{
            AccessError, CallerAccess, Grant, NewInvitation, NewToken, check_grant, check_invitation,
            check_token,
        },
        audit::Actor,
        base_path::is_reserved,
        password::{Password, PasswordError},
        quota::QuotaStatus,
        role::covers,
        slug::Slug,
        token::ApiToken,
        user::new_user,
    },
    store::{OPERATOR, OperatorChange, StoreError, SystemStore, TokenFilter, TokenKind},
};

/// The account, user and token label that the bootstrap of an empty database creates.
const DEFAULT_ACCOUNT: Slug = Slug::from_static("default");
const DEFAULT_USER: Slug = Slug::from_static("admin");
const DEFAULT_LABEL: &str = "made on first start";

/// The grant of an operator, who can issue everything.
const OPERATOR_GRANT: CallerAccess<'static> =
    CallerAccess { role: Role::Owner, scopes: &[Scope::Ingest, Scope::Read, Scope::Admin], expires_at: None };

/// The operator's view of accounts, users and tokens.
#[derive(Clone)]
pub struct Accounts {
    pub(super) store: SystemStore,
    pub(super) clock: Arc<dyn Clock>,
}

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The name is taken.
    #[error("{0} already exists")]
    Taken(String),
    /// The repeated name does not match.
    #[error("--confirm must repeat the account's name, '{0}'")]
    NotConfirmed(Slug),
    /// The name is the first segment of a path of the server, so the dashboard could not show the account.
    #[error("'{0}' is part of the server's own addresses: choose another name")]
    Reserved(Slug),
    /// A named object does not exist.
    #[error("there is no {0}")]
    Missing(String),
    /// The member's role does not cover a scope.
    #[error("a user with the role {role:?} cannot have a token with the scope {scope:?}")]
    NotCovered {
        /// The member's role.
        role: Role,
        /// The scope.
        scope: Scope,
    },
    /// A rule forbids the operation.
    #[error("{}", all_of(.0))]
    Refused(Vec<AccessError>),
    /// The text is not a valid password.
    #[error("a password {0}")]
    Password(#[from] PasswordError),
    /// The database failed.
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

/// Accounts, users and memberships.
#[derive(Clone, Debug)]
pub struct AccountLists {
    /// All accounts.
    pub accounts: Vec<account::Model>,
    /// All users.
    pub users: Vec<user::Model>,
    /// The memberships.
    pub memberships: Vec<membership::Model>,
}

impl AccountLists {
    /// Returns the short name of an account. Empty if the account is not in the list.
    #[must_use]
    pub fn account(&self, id: AccountId) -> &str {
        self.accounts.iter().find(|account| account.id == id).map_or("", |account| &account.slug)
    }

    /// Returns the name of a user. Empty if the user is not in the list.
    #[must_use]
    pub fn user(&self, id: UserId) -> &str {
        self.users.iter().find(|user| user.id == id).map_or("", |user| &user.name)
    }
}

impl Accounts {
    /// Returns the operator's view of `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Creates an account.
    ///
    /// # Errors
    /// Returns [`AccountError::Taken`] if the short name is taken, and [`AccountError::Reserved`] if the
    /// server uses it.
    pub async fn create_account(&self, slug: &Slug) -> Result<AccountId, AccountError> {
        if is_reserved(slug.as_str()) {
            return Err(AccountError::Reserved(slug.clone()));
        }
        let account = self.account_row(slug);
        let (id, label) = (account.id, format!("account '{slug}'"));
        let actor = Actor::operator(self.clock.timestamp());
        self.store.add_account(account, &actor).await.map_err(|error| map_conflict_to_taken(error, label))?;
        Ok(id)
    }

    /// Returns the quotas of an account's own, if it has any, and the usage of the effective quotas.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account does not exist.
    pub async fn quota(&self, slug: &Slug) -> Result<(Option<quota::Model>, QuotaStatus), AccountError> {
        let account = self.account_id(slug).await?;
        let status = self.store.quota_status_of(account, self.clock.timestamp()).await?;
        Ok((self.store.quota(account).await?, status))
    }

    /// Changes the quotas of an account.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account does not exist.
    pub async fn set_quota(&self, slug: &Slug, change: QuotaChange) -> Result<(), AccountError> {
        let account = self.account_id(slug).await?;
        let now = self.clock.timestamp();
        let current = self.store.quota(account).await?;
        let row = change.apply(account, current.as_ref(), now);
        let detail = quota_detail(&row);
        Ok(self.store.set_quota(row, &Actor::operator(now), detail).await?)
    }

    /// Adds a user to an account. Creates the user if the name is unknown.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account does not exist, [`AccountError::Taken`] if the
    /// user is already a member, and [`AccountError::Refused`] if the role and the end of the membership
    /// do not fit.
    pub async fn create_user(
        &self,
        name: &Slug,
        account: &Slug,
        grant: Grant,
    ) -> Result<UserId, AccountError> {
        let account_id = self.account_id(account).await?;
        let now = self.clock.timestamp();
        check_grant(Role::Owner, grant, now)?;
        let user = new_user(name, &mut rand::rng(), now);
        let actor = Actor::operator(now);
        let addition = self.store.add_member(account_id, user, (grant.role, grant.ends_at), &actor).await;
        addition
            .map_err(|error| map_conflict_to_taken(error, format!("user '{name}' in account '{account}'")))
    }

    /// Changes the role and the end of a membership. Ends the membership if `after` is `None`.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account, the user or the membership does not exist, and
    /// [`AccountError::Refused`] if the role and the end do not fit or the account would have no owner.
    pub async fn change_user(
        &self,
        name: &Slug,
        account: &Slug,
        after: Option<Grant>,
    ) -> Result<(), AccountError> {
        let account_id = self.account_id(account).await?;
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

    /// Ends a membership, and deletes the user's clusters and performance reports. For a user who is no
    /// longer a member, only these are deleted. Returns the number of deleted clusters.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account or the user does not exist, and
    /// [`AccountError::Refused`] if the account would have no owner.
    pub async fn delete_user(&self, name: &Slug, account: &Slug) -> Result<u64, AccountError> {
        let account_id = self.account_id(account).await?;
        let now = self.clock.timestamp();
        let missing = || AccountError::Missing(format!("user '{name}' in account '{account}'"));
        let user = self.store.user_by_name(name.as_str()).await?.ok_or_else(missing)?;
        let actor = Actor::operator(now);
        let change = self.store.change_member(account_id, user.id, None, &actor).await?;
        if change == OperatorChange::LastOwner {
            return Err(vec![AccessError::LastOwner].into());
        }
        let store = self.store.for_operator(account_id, actor);
        let clusters = store.delete_user_clusters(user.id, now).await?;
        store.delete_performance_reports_of(user.id).await?;
        if change == OperatorChange::NoMember && clusters == 0 {
            return Err(missing());
        }
        Ok(clusters)
    }

    /// Deletes an account. Its memberships end at once; a running server removes its data.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account does not exist, and
    /// [`AccountError::NotConfirmed`] if `confirmation` differs from its name.
    pub async fn delete_account(&self, account: &Slug, confirmation: &Slug) -> Result<(), AccountError> {
        let account_id = self.account_id(account).await?;
        if account.as_str() != confirmation.as_str() {
            return Err(AccountError::NotConfirmed(account.clone()));
        }
        let now = self.clock.timestamp();
        self.store.for_operator(account_id, Actor::operator(now)).delete_account(now).await?;
        tracing::warn!(account = %account, "account deletion started from the command line");
        Ok(())
    }

    /// Creates an invitation and returns its secret, which is not stored.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account does not exist, and [`AccountError::Refused`] if
    /// a rule forbids the invitation.
    pub async fn invite(&self, account: &Slug, invitation: NewInvitation) -> Result<ApiToken, AccountError> {
        let account_id = self.account_id(account).await?;
        let now = self.clock.timestamp();
        let expires_at = check_invitation(Role::Owner, &invitation, now)?;
        let (secret, row) = new_invitation((account_id, OPERATOR), invitation, expires_at, now);
        let detail = invitation_detail(&row);
        self.store.add_invitation(row, &Actor::operator(now), detail).await?;
        Ok(secret)
    }

    /// Links a user to a subject of an issuer of credentials.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the user does not exist, and [`AccountError::Taken`] if the
    /// subject is linked already.
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
        let label = format!("'{subject}' of '{issuer}'");
        self.store
            .add_identity(identity, &Actor::operator(now))
            .await
            .map_err(|error| map_conflict_to_taken(error, label))
    }

    /// Creates a token for a member of an account and returns it. Its secret is not stored.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account, the user or the membership does not exist,
    /// [`AccountError::NotCovered`] if the user's role does not cover a scope, and
    /// [`AccountError::Refused`] if a rule forbids the token.
    pub async fn create_token(
        &self,
        user: &Slug,
        account: &Slug,
        scopes: &[Scope],
        label: String,
        expires_at: Option<Timestamp>,
    ) -> Result<ApiToken, AccountError> {
        let account_id = self.account_id(account).await?;
        let missing = || AccountError::Missing(format!("user '{user}' in account '{account}'"));
        let user = self.store.user_by_name(user.as_str()).await?.ok_or_else(missing)?;
        let member = self.store.membership(account_id, user.id).await?.ok_or_else(missing)?;
        let holder = Grant { role: member.role, ends_at: member.ends_at };
        if let Some(scope) = scopes.iter().find(|scope| !covers(holder.role, **scope)) {
            return Err(AccountError::NotCovered { role: holder.role, scope: *scope });
        }
        let now = self.clock.timestamp();
        let request = NewToken { label, scopes: scopes.to_vec(), expires_at };
        check_token(OPERATOR_GRANT, holder, &request, now)?;
        let (token, row) = new_token((account_id, user.id), scopes, request.label, expires_at, now);
        let detail = token_detail(&row);
        self.store.add_api_token(row, &Actor::operator(now), detail).await?;
        Ok(token)
    }

    /// Returns all accounts and users, and the memberships of one account or of all.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account does not exist.
    pub async fn lists(&self, account: Option<&Slug>) -> Result<AccountLists, AccountError> {
        let account = match account {
            Some(account) => Some(self.account_id(account).await?),
            None => None,
        };
        Ok(AccountLists {
            accounts: self.store.accounts().await?,
            users: self.store.users().await?,
            memberships: self.store.memberships(account).await?,
        })
    }

    /// Returns the newest tokens, including ended ones, optionally of one account or one user.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the account or the user does not exist.
    pub async fn tokens(
        &self,
        account: Option<&Slug>,
        user: Option<&Slug>,
        kind: TokenKind,
        limit: u64,
    ) -> Result<Vec<api_token::Model>, AccountError> {
        let mut filter = TokenFilter { kind, account: None, user: None };
        if let Some(account) = account {
            filter.account = Some(self.account_id(account).await?);
        }
        if let Some(user) = user {
            let missing = || AccountError::Missing(format!("user '{user}'"));
            filter.user = Some(self.store.user_by_name(user.as_str()).await?.ok_or_else(missing)?.id);
        }
        Ok(self.store.api_tokens(filter, limit).await?)
    }

    /// Revokes the token with this identifier. A token that has ended does not change.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the token does not exist.
    pub async fn revoke_token(&self, identifier: &str) -> Result<(), AccountError> {
        let actor = Actor::operator(self.clock.timestamp());
        if self.store.end_api_token(identifier, &actor, token_detail).await? {
            Ok(())
        } else {
            Err(AccountError::Missing(format!("token '{identifier}'")))
        }
    }

    pub(super) async fn user_id(&self, name: &Slug) -> Result<UserId, AccountError> {
        let missing = || AccountError::Missing(format!("user '{name}'"));
        Ok(self.store.user_by_name(name.as_str()).await?.ok_or_else(missing)?.id)
    }

    /// Sets the password of a user and ends all sessions of the user.
    ///
    /// # Errors
    /// Returns [`AccountError::Missing`] if the user does not exist, and [`AccountError::Password`] if
    /// the password is not valid.
    pub async fn set_password(&self, user: &Slug, password: String) -> Result<(), AccountError> {
        let missing = || AccountError::Missing(format!("user '{user}'"));
        let user = self.store.user_by_name(user.as_str()).await?.ok_or_else(missing)?;
        let password = Password::new_for(password, &user.name)?;
        let hash = run_blocking(move || password.hash(&mut rand::rng())).await;
        let operator = Actor::operator(self.clock.timestamp());
        Ok(self.store.set_password(user.id, hash, None, &operator).await?)
    }

    /// Creates the first account, user and token in an empty database. Does nothing if the database is
    /// not empty.
    ///
    /// # Errors
    /// Returns an error if the database failed. The database is then still empty.
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
        let owner = (account.id, user.id);
        let (token, row) = new_token(owner, &scopes, DEFAULT_LABEL.to_owned(), None, now);
        match self.store.add_first(account, user, member, row, &Actor::operator(now)).await {
            Ok(()) => Ok(Some(token)),
            // Another process created them first.
            Err(StoreError::Conflict(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn account_row(&self, slug: &Slug) -> account::Model {
        let (slug, name) = (slug.to_string(), slug.to_string());
        account::Model { id: AccountId(Uuid::now_v7()), slug, name, created_at: self.clock.timestamp() }
    }

    async fn account_id(&self, slug: &Slug) -> Result<AccountId, AccountError> {
        let account = self.store.account_by_slug(slug).await?;
        account.map(|account| account.id).ok_or_else(|| AccountError::Missing(format!("account '{slug}'")))
    }
}

/// Returns a new token and its row, which is not stored yet.
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
        is_of_scheduler: false,
        parent_id: None,
        scheduler_id: None,
        renewable_until: None,
        broad_use_at: None,
    };
    (token, row)
}

fn map_conflict_to_taken(error: StoreError, label: String) -> AccountError {
    match error {
        StoreError::Conflict(_) => AccountError::Taken(label),
        other => other.into(),
    }
}
