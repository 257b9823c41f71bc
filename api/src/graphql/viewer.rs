//! The viewer: the user of the request.

use async_graphql::{Context, Enum, Object};
use entity::api_token::Scope;

use super::{
    account::Account,
    error::ApiError,
    json::write_enums_by_name,
    membership::{self, Membership},
    projection::InlineList,
    scope::AccountScope,
    user::User,
};
use crate::auth;

/// The permissions of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Scope")]
pub(super) enum TokenScope {
    /// Send reports.
    Ingest,
    /// Read everything in the account.
    Read,
    /// Make changes.
    Admin,
}

write_enums_by_name!(TokenScope);

/// The user of the request, and the permissions of its credentials.
pub(super) struct Viewer {
    pub(super) scope: AccountScope,
    pub(super) viewer: auth::Viewer,
}

/// The user of the request, and the permissions of its credentials.
#[Object]
impl Viewer {
    /// The user that the credentials stand for.
    async fn user(&self) -> User {
        User::new(&self.scope, self.viewer.user().clone())
    }

    /// The account that the credentials open.
    async fn account(&self) -> Account {
        Account(self.scope.clone())
    }

    /// The accounts that the credentials open, the default one first, at most 1,000. An API token opens
    /// the account that it belongs to; other credentials open all accounts of which the user is a member
    /// now.
    async fn memberships(&self, context: &Context<'_>) -> Result<InlineList<Membership>, ApiError> {
        membership::memberships(context).await
    }

    /// The permissions of the credentials: the scopes of the token, as far as the user's current role
    /// covers them.
    async fn scopes(&self) -> Vec<TokenScope> {
        self.viewer.scopes().iter().copied().map(TokenScope::from).collect()
    }
}
