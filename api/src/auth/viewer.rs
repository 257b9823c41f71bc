//! The person or machine behind a request.

use entity::{
    account,
    api_token::{Scope, Scopes},
    ids::{AccountId, ApiTokenId, UserId},
    user,
};

use crate::store::Credentials;

/// Someone who proved who they are, and the account they signed in to.
#[derive(Clone, Debug)]
pub struct Viewer {
    token_id: ApiTokenId,
    account: account::Model,
    user: user::Model,
    scopes: Scopes,
}

impl Viewer {
    /// Only the authenticator makes viewers, after the credentials were verified.
    pub(super) fn verified(credentials: Credentials) -> Self {
        let Credentials { token, account, user } = credentials;
        Self { token_id: token.id, account, user, scopes: token.scopes }
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

    /// Whether the credentials may be used for `scope`.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.0.contains(&scope)
    }
}
