//! `POST /api/v1/scheduler-tokens`: exchanges a user's credentials for a scheduler token.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use chrono::{DateTime, SecondsFormat, Utc};
use entity::api_token::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::{
        member::Refusal,
        scheduler_token::{self, NewSchedulerToken},
    },
    domain::{access::AccessError, scheduler_token::LifetimeSeconds, validated::Text},
    guard::AUDIT_ENTRY_COST,
    http::{
        extract::{
            body::{self, Limits},
            caller::Caller,
            origin::RequestOrigin,
            problem::{ErrorBody, Problem},
        },
        server::state::AppState,
    },
};

/// The size limits of a body that requests a token.
const LIMITS: Limits = Limits { sent: 16 << 10, inflated: 16 << 10 };

/// The cost of an exchange in points, as of other changes: it stores a token and an entry of the audit log.
const COST: u64 = AUDIT_ENTRY_COST;

/// The request for a scheduler token.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSchedulerTokenBody {
    /// Dask's `Scheduler.id`, if the request comes from the scheduler itself, which then holds the
    /// credentials: the token is bound to it immediately. Otherwise the token is bound to the first
    /// scheduler that uses it.
    #[serde(default)]
    scheduler_id: Option<Text<256>>,
    /// The label of the token, at most 200 characters.
    #[serde(default)]
    label: Option<String>,
    /// The time after which the token is not renewed any more, in seconds, at least 1 and at most 72 hours.
    /// Default: renewals have no limit but the expiry of the exchanged credentials.
    #[serde(default)]
    lifetime_seconds: Option<LifetimeSeconds>,
}

/// A new scheduler token.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SchedulerTokenBody {
    /// The whole token. Only this response contains it.
    token: String,
    /// The token's public identifier.
    identifier: String,
    /// The expiry unless the token is renewed, which each report does, in RFC 3339 and UTC.
    expires_at: String,
    /// The latest expiry after renewals: that of the exchanged credentials, or an earlier one if the
    /// request limits the lifetime. Null without a limit.
    renewable_until: Option<String>,
    /// The scheduler that the token is bound to. Null until the token is used.
    scheduler_id: Option<String>,
    /// The short name of the account that the token reports to.
    account: String,
    /// The scopes of the token: only `ingest`.
    #[schema(value_type = Vec<String>)]
    scopes: Vec<Scope>,
    /// The scopes of the exchanged credentials.
    #[schema(value_type = Vec<String>)]
    exchanged_scopes: Vec<Scope>,
}

/// Exchange credentials for a scheduler token
///
/// The token is valid only for reports of a single scheduler, the first one that uses it. It expires 72
/// hours after the last report with it, and never later than the exchanged credentials. A program that
/// sends stored reports exchanges its credentials in the same way.
#[utoipa::path(
    post,
    path = "/api/v1/scheduler-tokens",
    tag = "ingest",
    security(("token" = ["ingest"])),
    request_body = NewSchedulerTokenBody,
    responses(
        (status = 201, description = "The token, including its secret.", body = SchedulerTokenBody),
        (status = 400, description = "A value of the body is invalid. `pointer` locates it.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `ingest`, is itself a scheduler token (`TOKEN_BOUND`), or the request comes from a scheduler, the token has more scopes than `ingest`, and the account refuses such tokens (`BROAD_TOKEN`).", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 409, description = "The user has 1,000 scheduler tokens, or the credentials hold as many of them as are still free. Those that ended within the last day count as well.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "The body is not JSON, or has a content encoding other than gzip.", body = ErrorBody),
        (status = 429, description = "Too many reports and exchanges with this token, or fewer than 1,000 points are left. See `Retry-After`.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The database is unavailable. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(crate) async fn post(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<SchedulerTokenBody>), Problem> {
    let caller = Caller::new(state.viewer(&headers, Scope::Ingest).await?, origin);
    let viewer = &caller.viewer;
    state.report_admission.count(viewer, "reports and tokens")?;
    state.query_limiter.take(caller.limit_keys, COST, state.clock.timestamp())?;
    let received = body::check_headers(&headers, LIMITS)?.receive(body, state.timeouts.body_timeout).await?;
    let body: NewSchedulerTokenBody = received.parse().await?;
    if body.scheduler_id.is_some() {
        // A user with access to the scheduler has access to the credentials that it held.
        state.check_token_scopes(viewer).await?;
    }
    let lifetime_seconds = body.lifetime_seconds.map(LifetimeSeconds::get);
    if lifetime_seconds == Some(0) {
        return Err(Problem::invalid("/lifetimeSeconds".to_owned(), "must be at least 1"));
    }
    let new_token = NewSchedulerToken {
        label: body.label.unwrap_or_default(),
        scheduler_id: body.scheduler_id.map(|id| id.as_str().to_owned()),
        lifetime_seconds,
    };
    let (store, now) = (caller.store(&state), state.clock.timestamp());
    let (token, row) =
        scheduler_token::exchange(&store, viewer, new_token, now).await?.map_err(refusal_problem)?;
    let text = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
    let body = SchedulerTokenBody {
        token: token.reveal(),
        identifier: row.identifier,
        expires_at: row.expires_at.map(|end| text(end.0)).unwrap_or_default(),
        renewable_until: row.renewable_until.map(|end| text(end.0)),
        scheduler_id: row.scheduler_id,
        account: viewer.account().slug.clone(),
        scopes: row.scopes.0,
        exchanged_scopes: viewer.scopes().to_vec(),
    };
    Ok((StatusCode::CREATED, Json(body)))
}

fn refusal_problem(refusal: Refusal) -> Problem {
    let errors = match refusal {
        Refusal::NotFound | Refusal::NoMember => return Problem::unauthenticated("the token is not valid"),
        Refusal::Rules(errors) => errors,
    };
    match errors.first() {
        Some(error @ AccessError::Label) => Problem::invalid("/label".to_owned(), error.to_string()),
        Some(AccessError::TooMany) => Problem::conflict(
            "you have reached the limit of scheduler tokens: wait until a day after some have ended, or use \
             another token",
        ),
        Some(error) => Problem::forbidden("FORBIDDEN", error.to_string()),
        None => Problem::unauthenticated("the token is not valid"),
    }
}
