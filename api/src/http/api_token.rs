//! The routes by which the `coiled` client comes to a token, and lists, makes and ends those of its user.
//!
//! They are of one's own tokens alone: the client's "revoke all" goes through the list, and whoever manages an account
//! does not mean everybody's.

use axum::{
    Json,
    body::Body,
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
};
use chrono::{DateTime, SecondsFormat, Utc};
use entity::{
    Timestamp,
    api_token::{Model, Scope},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    address::Source,
    body::{self, Limits},
    form::{Form, parameter},
    named::Named,
    problem::{ErrorBody, Problem},
    state::AppState,
};
use crate::{
    app::{
        api_token,
        member::Refusal,
        token_request::{self, AskRefusal},
    },
    auth::Viewer,
    clock::stored,
    domain::{
        access::{AccessError, TokenWish},
        token::ApiToken,
    },
};

/// How large a body may be that asks for a token.
const LIMITS: Limits = Limits { sent: 16 << 10, inflated: 16 << 10 };

/// Tokens on a page of the list.
const PAGE: u64 = 100;

/// The last page there can be. Nobody has so many tokens.
const LAST_PAGE: u64 = 10_000;

/// Seconds after which who asked for too many tokens is told to come back.
const RETRY_AFTER_SECONDS: u64 = 60;

/// What a program asks for a token with, before anybody is signed in.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes a form, which is read field by field")]
pub(super) struct TokenRequestForm {
    /// What the token is to be called, at most 200 characters: where the program runs, mostly.
    label: Option<String>,
}

/// A token that waits for somebody to make it theirs.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenRequestBody {
    /// Its public half, for the page `/activate-token?id=…`.
    identifier: String,
    /// The whole token. Until it is activated it is answered 401.
    token: String,
}

/// A token to be made.
#[derive(Deserialize, ToSchema)]
pub(super) struct NewTokenBody {
    /// What it is called, at most 200 characters.
    #[serde(default)]
    label: Option<String>,
    /// When it ends, RFC 3339; with the one that asks if not given.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(default)]
    expiry: Option<DateTime<Utc>>,
}

/// A token without its secret.
#[derive(Serialize, ToSchema)]
pub(super) struct TokenBody {
    /// Its public half.
    identifier: String,
    /// What it is called.
    label: String,
    /// Whether somebody ended it.
    revoked: bool,
    /// Whether its time is over.
    expired: bool,
    /// When it was made: RFC 3339, in UTC.
    created: String,
    /// When it ends; null for never.
    expiry: Option<String>,
}

/// A token that was just made.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeTokenBody {
    #[serde(flatten)]
    made: TokenBody,
    /// The whole token. It is shown here and never again.
    token: String,
}

/// A page of a user's tokens.
#[derive(Serialize, ToSchema)]
pub(super) struct TokensBody {
    /// The tokens, the newest first, with those that were revoked or have expired.
    results: Vec<TokenBody>,
    /// The address of the next page; null on the last one.
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

/// Ask for a token that somebody activates in a browser
///
/// What is answered is good for nothing until somebody who is signed in activates it on the page
/// `/activate-token?id=<identifier>`, within 10 minutes and once.
#[utoipa::path(
    post,
    path = "/api/v1/api-tokens-no-user/",
    tag = "coiled",
    request_body(content = TokenRequestForm, content_type = "application/x-www-form-urlencoded"),
    responses(
        (status = 201, description = "A token that waits.", body = TokenRequestBody),
        (status = 400, description = "The label is too long.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "Not a form.", body = ErrorBody),
        (status = 429, description = "Too many tokens wait, of this address or in all; see Retry-After.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "The store is away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn ask(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<TokenRequestBody>), Problem> {
    let mut form = Form::receive(&headers, body, state.patience.body).await?;
    let asked =
        token_request::ask(&state.system, form.take("label"), origin.address, state.clock.timestamp())
            .await?;
    let token = asked.map_err(|refusal| match refusal {
        AskRefusal::Label => Problem::invalid("/label".to_owned(), AccessError::Label.to_string()),
        AskRefusal::TooMany => Problem::rate_limited(
            RETRY_AFTER_SECONDS,
            "too many tokens wait to be activated, try again later",
        ),
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
    params(("page" = Option<u64>, Query, description = "Which page, from 1 on.")),
    responses(
        (status = 200, description = "A page of tokens.", body = TokensBody),
        (status = 400, description = "There is no such page.", body = ErrorBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `read`.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "The store is away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn list(
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
    let mut tokens = store.api_tokens_of(viewer.user_id(), (page - 1) * PAGE, PAGE + 1).await?;
    let has_next = tokens.len() as u64 > PAGE;
    tokens.truncate(usize::try_from(PAGE).unwrap_or(usize::MAX));
    let now = state.clock.timestamp();
    Ok(Json(TokensBody {
        results: tokens.into_iter().map(|token| TokenBody::of(token, now)).collect(),
        next: has_next.then(|| format!("/api/v1/api-tokens/?page={}", page + 1)),
    }))
}

/// Make another token of the same user
///
/// It is good for what the one that asks is good for, which has to be all that its user may do.
#[utoipa::path(
    post,
    path = "/api/v1/api-tokens/",
    tag = "coiled",
    security(("token" = ["ingest", "read", "admin"])),
    request_body = NewTokenBody,
    responses(
        (status = 201, description = "The token, with its secret.", body = MadeTokenBody),
        (status = 400, description = "A value is wrong; `pointer` names it.", body = ErrorBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 403, description = "The token is not good for all that its user may do.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 409, description = "The account has as many tokens as it may have.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "Not JSON, or a content encoding other than gzip.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "The store is away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn create(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<MadeTokenBody>), Problem> {
    let viewer = whole(state.signed_in(&headers).await?)?;
    let received = body::announced(&headers, LIMITS)?.receive(body, state.patience.body).await?;
    let wanted: NewTokenBody = received.parse().await?;
    let wish = TokenWish {
        label: wanted.label.unwrap_or_default(),
        scopes: viewer.scopes().to_vec(),
        expires_at: wanted.expiry.map(stored).or(viewer.grants_until()),
    };
    let (store, now) = (state.acting(&viewer, origin), state.clock.timestamp());
    match api_token::create(&store, &viewer, viewer.user_id(), wish, now).await? {
        Ok((token, row)) => {
            let body = MadeTokenBody { made: TokenBody::of(row, now), token: token.reveal() };
            Ok((StatusCode::CREATED, Json(body)))
        }
        Err(refusal) => Err(refused(refusal)),
    }
}

/// End a token of the user's own
///
/// One that has ended already stays as it is.
#[utoipa::path(
    delete,
    path = "/api/v1/api-tokens/{identifier}/revoke",
    tag = "coiled",
    security(("token" = ["ingest", "read", "admin"])),
    params(("identifier" = String, Path, description = "The public half of the token.")),
    responses(
        (status = 200, description = "The token as it is now.", body = TokenBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 403, description = "The token is not good for all that its user may do.", body = ErrorBody),
        (status = 404, description = "The user has no such token.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "The store is away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn revoke(
    State(state): State<AppState>,
    Source(origin): Source,
    Named(identifier): Named<String>,
    headers: HeaderMap,
) -> Result<Json<TokenBody>, Problem> {
    let viewer = whole(state.signed_in(&headers).await?)?;
    if !ApiToken::is_identifier(&identifier) {
        return Err(Problem::not_found());
    }
    let (store, now) = (state.acting(&viewer, origin), state.clock.timestamp());
    let revoked = api_token::revoke_own(&store, viewer.user_id(), identifier, now).await?;
    revoked.map(|token| Json(TokenBody::of(token, now))).map_err(refused)
}

/// Refuses whose credentials are good for less than their user may do.
fn whole(viewer: Viewer) -> Result<Viewer, Problem> {
    if viewer.has_every_scope() {
        Ok(viewer)
    } else {
        Err(Problem::forbidden("MISSING_SCOPE", "the token is not good for all that its user may do"))
    }
}

fn refused(refusal: Refusal) -> Problem {
    let errors = match refusal {
        Refusal::NotFound => return Problem::not_found(),
        Refusal::NoMember => return Problem::unauthenticated("the token is not valid"),
        Refusal::Rules(errors) => errors,
    };
    let Some(error) = errors.first() else { return Problem::not_found() };
    match error {
        AccessError::Label => Problem::invalid("/label".to_owned(), error.to_string()),
        AccessError::Past | AccessError::OutlivesOwn => {
            Problem::invalid("/expiry".to_owned(), error.to_string())
        }
        AccessError::TooMany => Problem::conflict(error.to_string()),
        _ => Problem::forbidden("FORBIDDEN", error.to_string()),
    }
}
