//! What the client tells of commands that were run. Nothing of it is kept.

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::{
    body::{self, Limits},
    problem::{ErrorBody, Problem},
    state::AppState,
};

/// How large what a client tells of itself may be.
const INTERACTION: Limits = Limits { sent: 256 << 10, inflated: 1 << 20 };

/// What the client tells of a command that was run. Nothing of it is kept.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "only read to see whether it is one")]
pub(super) struct InteractionBody {
    /// What was run.
    action: String,
}

/// What became of what a client told.
#[derive(Serialize, ToSchema)]
pub(super) struct InteractionAnswer {
    /// Whether it is kept: never. What people run is theirs.
    kept: bool,
}

/// Take what a client tells of a command that was run, and keep nothing of it
#[utoipa::path(
    post,
    path = "/api/v2/interactions/interaction",
    tag = "coiled",
    security(("token" = [])),
    request_body = InteractionBody,
    responses(
        (status = 200, description = "Heard.", body = InteractionAnswer),
        (status = 400, description = "A value is wrong; `pointer` names it.", body = ErrorBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "Not JSON, or a content encoding other than gzip.", body = ErrorBody),
    )
)]
pub(super) async fn post(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<InteractionAnswer>, Problem> {
    state.signed_in(&headers).await?;
    let received = body::announced(&headers, INTERACTION)?.receive(body, state.patience.body).await?;
    let _: InteractionBody = received.parse().await?;
    Ok(Json(InteractionAnswer { kept: false }))
}

/// Tell what the client told of itself: nothing was kept
#[utoipa::path(
    get,
    path = "/api/v2/interactions/user-interactions/hello",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "Nothing.", body = [Object]),
        (status = 401, description = "No valid token.", body = ErrorBody),
    )
)]
pub(super) async fn hello(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<[(); 0]>, Problem> {
    state.signed_in(&headers).await?;
    Ok(Json([]))
}
