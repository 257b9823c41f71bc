//! Who is asking.

use async_graphql::{Context, Enum, Object};
use entity::api_token::Scope;

use super::{
    account::Account,
    error::ApiError,
    in_place::Items,
    json::names,
    membership::{self, Membership},
    scope::AccountScope,
    user::User,
};
use crate::auth;

/// What credentials may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Scope")]
pub(super) enum TokenScope {
    /// Send reports.
    Ingest,
    /// Read everything in the account.
    Read,
    /// Change things.
    Admin,
}

names!(TokenScope);

/// Who is asking, and what the credentials allow.
pub(super) struct Viewer {
    pub(super) scope: AccountScope,
    pub(super) viewer: auth::Viewer,
}

/// Who is asking, and what the credentials allow.
#[Object]
impl Viewer {
    /// The user the credentials stand for.
    async fn user(&self) -> User {
        User::new(&self.scope, self.viewer.user().clone())
    }

    /// The account the credentials open.
    async fn account(&self) -> Account {
        Account(self.scope.clone())
    }

    /// The accounts that the credentials open, the default one first, at most 1,000: of an API token the one that it belongs
    /// to, and otherwise all of which the user is a member now.
    async fn memberships(&self, context: &Context<'_>) -> Result<Items<Membership>, ApiError> {
        membership::memberships(context).await
    }

    /// What the credentials may be used for: what the token was made for, as far as the user's role covers it now.
    async fn scopes(&self) -> Vec<TokenScope> {
        self.viewer.scopes().iter().copied().map(TokenScope::from).collect()
    }
}
