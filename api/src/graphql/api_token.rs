//! The tokens of an account.

use async_graphql::{ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    api_token::{Model, Scope},
    audit_entry::Action,
};

use super::{
    connection::{Connection, PageArguments, counted},
    error::ApiError,
    in_place::in_place,
    member::AccessUserError,
    scope::AccountScope,
    user::User,
    viewer::TokenScope,
};
use crate::{
    app::api_token,
    auth,
    clock::stored,
    domain::{
        access::{AccessError, TokenWish},
        audit::Target,
        token,
    },
    store::ApiTokenSort,
};

/// What a script or scheduler signs in with, without its secret.
pub(super) struct ApiToken {
    scope: AccountScope,
    row: Model,
}

impl ApiToken {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// What a script or scheduler signs in with, without its secret: nobody can read that again, the server least of all.
#[Object]
impl ApiToken {
    /// The public half: what stands in front of the dash. It proves nothing.
    async fn identifier(&self) -> &str {
        &self.row.identifier
    }

    /// What it is called.
    async fn label(&self) -> &str {
        &self.row.label
    }

    /// What it was made for. It is good for what the user's role covers of this.
    async fn scopes(&self) -> Vec<TokenScope> {
        self.row.scopes.0.iter().copied().map(TokenScope::from).collect()
    }

    /// Whom it stands for.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.user_id).await
    }

    /// When it was made, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// When it ends, or ended; null for never.
    async fn expires_at(&self) -> Option<DateTime<Utc>> {
        self.row.expires_at.map(|end| end.0)
    }

    /// When it was last used, by the server's clock; null if it never was. It is written down once a minute and when the
    /// server stops, so it may be that much earlier than what was last.
    async fn last_used_at(&self) -> Option<DateTime<Utc>> {
        self.row.last_used_at.map(|at| at.0)
    }

    /// When somebody ended it; null for one that nobody did.
    async fn revoked_at(&self) -> Option<DateTime<Utc>> {
        self.row.revoked_at.map(|end| end.0)
    }
}

in_place! { ApiToken: identifier, label, scopes, created_at, expires_at, last_used_at, revoked_at }

/// A token to be made.
#[derive(InputObject)]
pub(super) struct CreateTokenInput {
    /// What it is called, at most 200 characters.
    #[graphql(default)]
    label: String,
    /// What it is good for: at least one, all of which the token that asks has itself and the user's role covers.
    scopes: Vec<TokenScope>,
    /// When it ends; never if not given. A token that ends cannot make one that ends later.
    expires_at: Option<DateTime<Utc>>,
    /// The member it stands for, whose role must not be above that of whoever asks; who asks if not given.
    user: Option<ID>,
}

/// The outcome of `createToken`.
#[derive(SimpleObject)]
pub(super) struct CreateTokenPayload {
    /// The whole token, as it is sent in `Authorization`. It is shown here and never again; null when none was made.
    secret: Option<String>,
    /// The token; null when none was made.
    token: Option<ApiToken>,
    /// Why none was made; empty when one was.
    user_errors: Vec<AccessUserError>,
}

/// The outcome of `revokeToken`.
#[derive(SimpleObject)]
pub(super) struct RevokeTokenPayload {
    /// The token as it is now; null when it was not ended.
    token: Option<ApiToken>,
    /// Why it was not ended; empty when it was.
    user_errors: Vec<AccessUserError>,
}

/// A page of the account's tokens.
pub(super) async fn tokens(
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<ApiToken>, ApiError> {
    let sort = ApiTokenSort::NewestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.api_token_page(sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let store = store.clone();
        async move { store.api_token_count().await }
    });
    Ok(Connection::new(page, sort, |row| ApiToken::new(scope, row), total))
}

pub(super) async fn create_token(
    scope: &AccountScope,
    viewer: &auth::Viewer,
    input: CreateTokenInput,
) -> Result<CreateTokenPayload, ApiError> {
    let holder = match &input.user {
        Some(user) => User::identified(scope, "user", user)?,
        None => viewer.user_id(),
    };
    let wish = TokenWish {
        label: input.label,
        scopes: input.scopes.into_iter().map(Scope::from).collect(),
        expires_at: input.expires_at.map(stored),
    };
    match api_token::create(&scope.store, viewer, holder, wish, scope.now.into()).await? {
        Ok((secret, row)) => Ok(CreateTokenPayload {
            secret: Some(secret.reveal()),
            token: Some(ApiToken::new(scope, row)),
            user_errors: Vec::new(),
        }),
        Err(refusal) => {
            let about = |error| match error {
                AccessError::Label => "label",
                AccessError::Past | AccessError::OutlivesOwn => "expiresAt",
                AccessError::MemberAbove | AccessError::Over => "user",
                _ => "scopes",
            };
            let attempt = (Action::CreateToken, Target::User(holder));
            let user_errors = scope.refused_by(attempt, refusal, "user", about).await?;
            Ok(CreateTokenPayload { secret: None, token: None, user_errors })
        }
    }
}

pub(super) async fn revoke_token(
    scope: &AccountScope,
    viewer: &auth::Viewer,
    identifier: String,
) -> Result<RevokeTokenPayload, ApiError> {
    // Nothing else is one, and not everything can be asked for.
    if !token::ApiToken::is_identifier(&identifier) {
        return Err(ApiError::NotFound("token"));
    }
    let attempt = (Action::RevokeToken, Target::ApiToken(identifier.clone()));
    match api_token::revoke(&scope.store, viewer.user_id(), identifier, scope.now.into()).await? {
        Ok(row) => Ok(RevokeTokenPayload { token: Some(ApiToken::new(scope, row)), user_errors: Vec::new() }),
        Err(refusal) => {
            let user_errors = scope.refused_by(attempt, refusal, "token", |_| "identifier").await?;
            Ok(RevokeTokenPayload { token: None, user_errors })
        }
    }
}
