//! The routes by which the `coiled` client obtains a token, and lists, creates and revokes the tokens of
//! its user.
//!
//! They cover only the user's own tokens: the client's "revoke all" iterates over the list, and an
//! account's manager does not intend to revoke the tokens of all members.

use axum::{
    Json,
    body::Body,
    extract::{Extension, RawQuery, State},
    http::{HeaderMap, StatusCode},
};
use chrono::{DateTime, SecondsFormat, Utc};
use entity::{
    Timestamp,
    api_token::{Model, Scope},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::{
        api_token,
        member::Refusal,
        token_request::{self, RequestRefusal},
    },
    auth::Viewer,
    clock::to_stored,
    domain::{
        access::{AccessError, NewToken, NoScope},
        time,
        token::ApiToken,
    },
    http::{
        extract::{
            body::{self, Limits},
            form::{Form, parameter},
            origin::{RequestOrigin, UntrustedForwardedFor},
            path::PathParams,
            problem::{ErrorBody, Problem},
        },
        server::state::AppState,
    },
};

/// The size limits of a body that creates a token.
const LIMITS: Limits = Limits { sent: 16 << 10, inflated: 16 << 10 };

/// The page size of the list.
const PAGE: u64 = 100;

/// The number of the last possible page. No user has that many tokens.
const LAST_PAGE: u64 = 10_000;

/// The retry delay after too many token requests, in seconds.
const RETRY_AFTER_SECONDS: u64 = 60;

/// The request of a program for a token, before a user has signed in.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form, which is read field by field")]
pub(crate) struct TokenRequestForm {
    /// The label of the token, at most 200 characters. It usually names the machine of the program.
    label: Option<String>,
    /// The scopes of the token, separated by spaces: `ingest`, `read` and `admin`. Default: all scopes
    /// of the user who activates the token.
    scope: Option<String>,
}

/// A token that awaits activation by a user.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenRequestBody {
    /// The token's public identifier, for the page `/activate-token?id=…`.
    identifier: String,
    /// The whole token. Requests with it fail with status 401 until it is activated.
    token: String,
}

/// A token to be created.
#[derive(Deserialize, ToSchema)]
pub(crate) struct NewTokenBody {
    /// The label of the token, at most 200 characters.
    #[serde(default)]
    label: Option<String>,
    /// The expiry, in RFC 3339. Default: the expiry of the token that sends the request.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default, deserialize_with = "time::deserialize_optional")]
    expiry: Option<DateTime<Utc>>,
}

/// A token without its secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokenBody {
    /// The token's public identifier.
    identifier: String,
    /// The label of the token.
    label: String,
    /// True if the token was revoked.
    revoked: bool,
    /// True if the token has expired.
    expired: bool,
    /// The time of creation, in RFC 3339 and UTC.
    created: String,
    /// The expiry. Null for a token without one.
    expiry: Option<String>,
}

/// A new token.
#[derive(Serialize, ToSchema)]
pub(crate) struct MadeTokenBody {
    #[serde(flatten)]
    made: TokenBody,
    /// The whole token. Only this response contains it.
    token: String,
}

/// A page of a user's tokens.
#[derive(Serialize, ToSchema)]
pub(crate) struct TokensBody {
    /// The tokens, newest first, including revoked and expired ones.
    results: Vec<TokenBody>,
    /// The URL of the next page. Null on the last page.
    next: Option<String>,
}

impl TokenBody {
    fn of(token: Model, now: Timestamp) -> Self {
        let text = |at: Timestamp| at.0.to_rfc3339_opts(SecondsFormat::Millis, true);
        Self {
            identifier: token.identifier,
            label: token.label,
            revoked: token.revoked_at.is_some(),
            expired: token.expires_at.is_some_and(|end| end.0 <= now.0),
            created: text(token.created_at),
            expiry: token.expires_at.map(text),
        }
    }
}

/// Request a token that a user activates in a browser
///
/// The token is invalid until a user who is signed in activates it on the page
/// `/activate-token?id=<identifier>`. It can be activated once, within 10 minutes.
#[utoipa::path(
    post,
    path = "/api/v1/api-tokens-no-user/",
    tag = "coiled",
    request_body(content = TokenRequestForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 201, description = "The token, which awaits activation.", body = TokenRequestBody),
        (status = 400, description = "The label is too long, or a scope does not exist.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "The body is not a form.", body = ErrorBody),
        (status = 429, description = "Too many tokens await activation, from this address or in total. See `Retry-After`.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The database is unavailable. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(crate) async fn ask(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    forwarded: Option<Extension<UntrustedForwardedFor>>,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<TokenRequestBody>), Problem> {
    let mut form = Form::receive(&headers, body, state.timeouts.body_timeout).await?;
    let (label, scopes, now) = (form.take("label"), form.take("scope"), state.clock.timestamp());
    let requester = token_request::Requester {
        address: origin.address,
        forwarded_address: forwarded.map(|Extension(UntrustedForwardedFor(address))| address),
    };
    let outcome = token_request::request_token(&state.system, label, &scopes, requester, now).await?;
    let token = outcome.map_err(|refusal| match refusal {
        RequestRefusal::Label => Problem::invalid("/label".to_owned(), AccessError::Label.to_string()),
        RequestRefusal::Scope => Problem::invalid("/scope".to_owned(), NoScope.to_string()),
        RequestRefusal::TooMany => {
            Problem::rate_limited(RETRY_AFTER_SECONDS, "too many tokens await activation: try again later")
        }
    })?;
    let body = TokenRequestBody { identifier: token.identifier().to_owned(), token: token.reveal() };
    Ok((StatusCode::CREATED, Json(body)))
}

/// List the user's own tokens
#[utoipa::path(
    get,
    path = "/api/v1/api-tokens/",
    tag = "coiled",
    security(("token" = ["read"])),
    params(("page" = Option<u64>, Query, description = "The number of the page, from 1 to 10,000. Default: 1.")),
    responses(
        (status = 200, description = "A page of tokens.", body = TokensBody),
        (status = 400, description = "The page number is invalid.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `read`.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The database is unavailable. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Json<TokensBody>, Problem> {
    let viewer = state.viewer(&headers, Scope::Read).await?;
    let page = match parameter(query.as_deref(), "page").as_str() {
        "" => Some(1),
        text => text.parse::<u64>().ok().filter(|page| (1..=LAST_PAGE).contains(page)),
    };
    let page = page.ok_or_else(|| {
        Problem::invalid("/page".to_owned(), format!("must be a whole number between 1 and {LAST_PAGE}"))
    })?;
    let store = state.store.for_viewer(&viewer);
    let mut tokens = store.list_user_api_tokens(viewer.user_id(), (page - 1) * PAGE, PAGE + 1).await?;
    let has_next = tokens.len() as u64 > PAGE;
    tokens.truncate(usize::try_from(PAGE).unwrap_or(usize::MAX));
    let now = state.clock.timestamp();
    Ok(Json(TokensBody {
        results: tokens.into_iter().map(|token| TokenBody::of(token, now)).collect(),
        next: has_next.then(|| state.site.base.address(&format!("/api/v1/api-tokens/?page={}", page + 1))),
    }))
}

/// Create another token for the same user
///
/// The new token has the scopes of the token that sends the request, which must include all scopes of
/// its user.
#[utoipa::path(
    post,
    path = "/api/v1/api-tokens/",
    tag = "coiled",
    security(("token" = ["ingest", "read", "admin"])),
    request_body = NewTokenBody,
    responses(
        (status = 201, description = "The token, including its secret.", body = MadeTokenBody),
        (status = 400, description = "A value of the body is invalid. `pointer` locates it.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token has fewer scopes than its user.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 409, description = "The account has reached its limit of tokens.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "The body is not JSON, or has a content encoding other than gzip.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The database is unavailable. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<MadeTokenBody>), Problem> {
    let viewer = require_every_scope(state.authenticate_user(&headers).await?)?;
    let received = body::check_headers(&headers, LIMITS)?.receive(body, state.timeouts.body_timeout).await?;
    let requested: NewTokenBody = received.parse().await?;
    let new_token = NewToken {
        label: requested.label.unwrap_or_default(),
        scopes: viewer.scopes().to_vec(),
        expires_at: requested.expiry.map(to_stored).or(viewer.max_token_expiry()),
    };
    let (store, now) = (state.audited_store(&viewer, origin), state.clock.timestamp());
    match api_token::create(&store, &viewer, viewer.user_id(), new_token, now).await? {
        Ok((token, row)) => {
            let body = MadeTokenBody { made: TokenBody::of(row, now), token: token.reveal() };
            Ok((StatusCode::CREATED, Json(body)))
        }
        Err(refusal) => Err(refusal_problem(refusal)),
    }
}

/// Revoke one of the user's own tokens
///
/// A token that is already revoked remains unchanged.
#[utoipa::path(
    delete,
    path = "/api/v1/api-tokens/{identifier}/revoke",
    tag = "coiled",
    security(("token" = ["ingest", "read", "admin"])),
    params(("identifier" = String, Path, description = "The token's public identifier.")),
    responses(
        (status = 200, description = "The revoked token.", body = TokenBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token has fewer scopes than its user.", body = ErrorBody),
        (status = 404, description = "The user has no token with this identifier.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The database is unavailable. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(crate) async fn revoke(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    PathParams(identifier): PathParams<String>,
    headers: HeaderMap,
) -> Result<Json<TokenBody>, Problem> {
    let viewer = require_every_scope(state.authenticate_user(&headers).await?)?;
    if !ApiToken::is_identifier(&identifier) {
        return Err(Problem::not_found());
    }
    let (store, now) = (state.audited_store(&viewer, origin), state.clock.timestamp());
    let revoker = (viewer.user_id(), Some(viewer.user_id()));
    let result = api_token::revoke(&store, revoker, identifier, now).await?;
    result.map(|token| Json(TokenBody::of(token, now))).map_err(refusal_problem)
}

/// Returns an error if the credentials have fewer scopes than their user.
fn require_every_scope(viewer: Viewer) -> Result<Viewer, Problem> {
    if viewer.has_every_scope() {
        Ok(viewer)
    } else {
        Err(Problem::forbidden("MISSING_SCOPE", "the token has fewer scopes than its user"))
    }
}

fn refusal_problem(refusal: Refusal) -> Problem {
    let errors = match refusal {
        Refusal::NotFound => return Problem::not_found(),
        Refusal::NoMember => return Problem::unauthenticated("the token is not valid"),
        Refusal::Rules(errors) => errors,
    };
    let Some(error) = errors.first() else { return Problem::not_found() };
    match error {
        AccessError::Label => Problem::invalid("/label".to_owned(), error.to_string()),
        AccessError::ExpiryPast | AccessError::OutlivesOwn => {
            Problem::invalid("/expiry".to_owned(), error.to_string())
        }
        AccessError::TooMany => Problem::conflict(error.to_string()),
        _ => Problem::forbidden("FORBIDDEN", error.to_string()),
    }
}
