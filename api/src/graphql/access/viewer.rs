//! The viewer: the user of the request.

use async_graphql::{Context, Enum, Object};
use entity::api_token::Scope;

use super::{
    api_token::{self, ApiToken},
    membership::{self, Membership},
    session::{self, Session},
    user::User,
};
use crate::{
    auth,
    graphql::{
        accounts::account::Account,
        engine::{
            connection::{Connection, PageArguments},
            error::{ApiError, NullOnError},
            json::write_enums_by_name,
            projection::InlineList,
            scope::AccountScope,
        },
    },
    store::TokenKind,
};

/// The permissions of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Scope")]
pub(crate) enum TokenScope {
    /// Send reports.
    Ingest,
    /// Read everything in the account.
    Read,
    /// Make all changes that the role of the user allows. Roles below ADMIN do not cover it: their changes
    /// need all scopes of the role.
    Admin,
}

write_enums_by_name!(TokenScope);

/// The user of the request, and the permissions of its credentials.
pub(crate) struct Viewer {
    pub(crate) scope: AccountScope,
    pub(crate) viewer: auth::Viewer,
}

/// The user of the request, and the permissions of its credentials.
#[Object]
impl Viewer {
    /// The user that the credentials stand for.
    async fn user(&self) -> User {
        User::new(&self.scope, self.viewer.user().clone())
    }

    /// The account of the request.
    async fn account(&self) -> Account {
        Account(self.scope.clone())
    }

    /// The accounts that the credentials open, the default one first, at most 1,000. An API token opens
    /// the account that it belongs to; other credentials open all accounts of which the user is a member
    /// now.
    async fn memberships(&self, context: &Context<'_>) -> Result<InlineList<Membership>, ApiError> {
        membership::load_memberships(context).await
    }

    /// The permissions of the credentials: the scopes of the token, as far as the user's current role
    /// covers them.
    async fn scopes(&self) -> Vec<TokenScope> {
        self.viewer.scopes().iter().copied().map(TokenScope::from).collect()
    }

    /// The sessions of the user's browsers that have not expired, the newest first, at most 50. Null, with
    /// the error code `FORBIDDEN`, for an API token and for other credentials with fewer permissions than
    /// the user.
    async fn sessions(&self, context: &Context<'_>) -> NullOnError<InlineList<Session>> {
        Some(session::load_sessions(context).await)
    }

    /// The user's own tokens in the account, the newest first, including revoked and expired ones. The
    /// tokens of the user's schedulers are not among them.
    async fn tokens(
        &self,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ApiToken>, ApiError> {
        let page = PageArguments { first, after, last, before };
        api_token::load_tokens(&self.scope, TokenKind::Personal, Some(self.viewer.user_id()), page).await
    }
}
