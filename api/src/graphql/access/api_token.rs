//! The GraphQL types and mutations of the API tokens of an account.

use async_graphql::{ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    api_token::{Model, Scope},
    audit_entry::Action,
    ids::UserId,
};

use super::{member::AccessUserError, user::User, viewer::TokenScope};
use crate::{
    app::{api_token, member::Refusal},
    auth,
    clock::to_stored,
    domain::{
        access::{AccessError, NewToken},
        audit::Target,
        permission::Denial,
        token,
    },
    graphql::engine::{
        connection::{Connection, PageArguments, total_count_by},
        error::ApiError,
        id::GlobalId,
        projection::inline_fields,
        scope::AccountScope,
    },
    store::{ApiTokenSort, TokenKind},
};

/// A credential of a script or a scheduler, without its secret.
pub(crate) struct ApiToken {
    scope: AccountScope,
    row: Model,
}

impl ApiToken {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A credential of a script or a scheduler, without its secret. The server stores no readable secret, so
/// that nobody can read it again.
#[Object]
impl ApiToken {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::ApiToken(self.scope.account.id, self.row.id).into()
    }

    /// The identifier: the part of the token before the dash. It grants no access.
    async fn identifier(&self) -> &str {
        &self.row.identifier
    }

    /// The label of the token.
    async fn label(&self) -> &str {
        &self.row.label
    }

    /// The scopes that the token was created with. It is valid for those of them that the user's role
    /// covers.
    async fn scopes(&self) -> Vec<TokenScope> {
        self.row.scopes.0.iter().copied().map(TokenScope::from).collect()
    }

    /// The user that the token authenticates. Null if the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.user_id).await
    }

    /// The time at which the token was created, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// The time at which the token expires. Null if it never expires.
    async fn expires_at(&self) -> Option<DateTime<Utc>> {
        self.row.expires_at.map(|end| end.0)
    }

    /// The time of the last use, by the server's clock. Null if the token was never used. The time is
    /// stored once a minute and when the server stops, and may lag behind by that much.
    async fn last_used_at(&self) -> Option<DateTime<Utc>> {
        self.row.last_used_at.map(|at| at.0)
    }

    /// The scheduler whose reports the token is restricted to, by Dask's `Scheduler.id`. Null until a
    /// scheduler uses the token, and for tokens that are not for schedulers.
    async fn scheduler_id(&self) -> Option<&str> {
        self.row.scheduler_id.as_deref()
    }

    /// The time at which a scheduler last used the token although its scopes cover more than reports, by
    /// the server's clock and at most one minute late. Anyone who runs code on that scheduler can read
    /// such a token. Null if no scheduler did.
    async fn broad_use_at(&self) -> Option<DateTime<Utc>> {
        self.row.broad_use_at.map(|at| at.0)
    }

    /// The time at which the token was revoked. Null if it was not revoked.
    async fn revoked_at(&self) -> Option<DateTime<Utc>> {
        self.row.revoked_at.map(|end| end.0)
    }

    /// True if the viewer may revoke the token with `revokeToken`. It stays true after that.
    async fn viewer_can_revoke(&self) -> Result<bool, ApiError> {
        self.scope.can_revoke(self.row.user_id).await
    }
}

inline_fields! { ApiToken: id, identifier, label, scopes, created_at, expires_at, last_used_at, scheduler_id, broad_use_at, revoked_at }

/// The properties of a new token.
#[derive(InputObject)]
pub(crate) struct CreateTokenInput {
    /// The label of the token, at most 200 characters.
    #[graphql(default)]
    label: String,
    /// The scopes of the token, at least one. The token of this request has to hold each of them, and
    /// the role of the user has to cover it.
    scopes: Vec<TokenScope>,
    /// The time at which the new token expires. Null if it never expires. If the caller's token expires, this
    /// time is required and must not be later than that of the caller's token.
    expires_at: Option<DateTime<Utc>>,
    /// The member that the token authenticates. Only owners and admins can name another member, and that
    /// member's role must not be higher than their own. Null for the viewer.
    user: Option<ID>,
}

/// The outcome of `createToken`.
#[derive(SimpleObject)]
pub(crate) struct CreateTokenPayload {
    /// The whole token, as sent in the header `Authorization`. It is returned here only. Null if no
    /// token was created.
    secret: Option<String>,
    /// The new token. Null if no token was created.
    token: Option<ApiToken>,
    /// The reasons why no token was created. Empty if one was.
    user_errors: Vec<AccessUserError>,
}

/// The outcome of `revokeToken`.
#[derive(SimpleObject)]
pub(crate) struct RevokeTokenPayload {
    /// The token after the change. Null if it was not revoked.
    token: Option<ApiToken>,
    /// The reasons why the token was not revoked. Empty if it was.
    user_errors: Vec<AccessUserError>,
}

/// Returns a page of the account's tokens of one kind, of one user or of all.
pub(crate) async fn load_tokens(
    scope: &AccountScope,
    kind: TokenKind,
    user: Option<UserId>,
    page: PageArguments,
) -> Result<Connection<ApiToken>, ApiError> {
    let sort = ApiTokenSort::NewestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.api_token_page(kind, user, sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let store = store.clone();
        async move { store.api_token_count(kind, user).await }
    });
    Ok(Connection::new(page, sort, |row| ApiToken::new(scope, row), total))
}

pub(crate) async fn create_token(
    scope: &AccountScope,
    viewer: &auth::Viewer,
    input: CreateTokenInput,
) -> Result<CreateTokenPayload, ApiError> {
    let holder = match &input.user {
        Some(user) => User::parse_id(scope, "user", user)?,
        None => viewer.user_id(),
    };
    let action = Action::CreateToken;
    if scope.required_owner(action).is_some_and(|owner| owner != holder) {
        return Err(scope.deny_other_owner(action, Target::User(holder)).await?);
    }
    let new_token = NewToken {
        label: input.label,
        scopes: input.scopes.into_iter().map(Scope::from).collect(),
        expires_at: input.expires_at.map(to_stored),
    };
    match api_token::create(&scope.store, viewer, holder, new_token, scope.now.into()).await? {
        Ok((secret, row)) => Ok(CreateTokenPayload {
            secret: Some(secret.reveal()),
            token: Some(ApiToken::new(scope, row)),
            user_errors: Vec::new(),
        }),
        Err(refusal) => {
            let error_field = |error| match error {
                AccessError::Label => "label",
                AccessError::ExpiryPast | AccessError::OutlivesOwn => "expiresAt",
                AccessError::MemberAbove | AccessError::MembershipEnded => "user",
                _ => "scopes",
            };
            let attempt = (action, Target::User(holder));
            let user_errors = scope.refusal_errors(attempt, refusal, "user", error_field).await?;
            Ok(CreateTokenPayload { secret: None, token: None, user_errors })
        }
    }
}

pub(crate) async fn revoke_token(
    scope: &AccountScope,
    viewer: &auth::Viewer,
    identifier: String,
) -> Result<RevokeTokenPayload, ApiError> {
    // Any other text names no token, and may contain characters that the database refuses.
    if !token::ApiToken::is_identifier(&identifier) {
        return Err(ApiError::NotFound("token"));
    }
    let (action, target) = (Action::RevokeToken, Target::ApiToken(identifier.clone()));
    let owner = scope.required_owner(action);
    let revoked =
        api_token::revoke(&scope.store, (viewer.user_id(), owner), identifier, scope.now.into()).await?;
    if owner.is_some() && matches!(revoked, Err(Refusal::NotFound)) {
        // The response does not reveal whether another user has such a token.
        scope.record_denial(action, target.clone(), Denial::NotOwner).await?;
    }
    match revoked {
        Ok(row) => Ok(RevokeTokenPayload { token: Some(ApiToken::new(scope, row)), user_errors: Vec::new() }),
        Err(refusal) => {
            let user_errors =
                scope.refusal_errors((action, target), refusal, "token", |_| "identifier").await?;
            Ok(RevokeTokenPayload { token: None, user_errors })
        }
    }
}
