//! The person or machine behind a request.

use entity::{
    Timestamp, account,
    api_token::{Scope, Scopes},
    ids::{AccountId, ApiTokenId, UserId},
    user,
};

use crate::{domain::role::covers, store::Credentials};

/// Someone who proved who they are, and the account they signed in to.
#[derive(Clone, Debug)]
pub struct Viewer {
    token_id: ApiTokenId,
    account: account::Model,
    user: user::Model,
    scopes: Scopes,
    expires_at: Option<Timestamp>,
}

impl Viewer {
    /// Only the authenticator makes viewers, after the credentials were verified. A token is good for no more than its
    /// user's role covers now, whatever it covered when the token was made.
    pub(super) fn verified(credentials: Credentials) -> Self {
        let Credentials { token, account, user, role } = credentials;
        let mut scopes = token.scopes;
        scopes.0.retain(|scope| covers(role, *scope));
        Self { token_id: token.id, account, user, scopes, expires_at: token.expires_at }
    }

    /// The token that was shown.
    #[must_use]
    pub fn token_id(&self) -> ApiTokenId {
        self.token_id
    }

    /// The account.
    #[must_use]
    pub fn account(&self) -> &account::Model {
        &self.account
    }

    /// The account's identifier.
    #[must_use]
    pub fn account_id(&self) -> AccountId {
        self.account.id
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &user::Model {
        &self.user
    }

    /// The user's identifier.
    #[must_use]
    pub fn user_id(&self) -> UserId {
        self.user.id
    }

    /// What the credentials may be used for.
    #[must_use]
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes.0
    }

    /// Until when the credentials are good; none for ever.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// Whether the credentials may be used for `scope`.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.0.contains(&scope)
    }
}
