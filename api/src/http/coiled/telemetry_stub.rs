//! The client's telemetry about the commands that its users run. The server accepts it and stores
//! nothing.

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::{
    extract::{
        body::{self, Limits},
        problem::{ErrorBody, Problem},
    },
    server::state::AppState,
};

/// The size limits of such a body.
const INTERACTION: Limits = Limits { sent: 256 << 10, inflated: 1 << 20 };

/// The client's telemetry about a command. Nothing of it is stored.
#[derive(Deserialize, ToSchema)]
#[expect(dead_code, reason = "only deserialized to validate the body")]
pub(super) struct InteractionBody {
    /// The command.
    action: String,
}

/// The response to the client's telemetry.
#[derive(Serialize, ToSchema)]
pub(super) struct InteractionAnswer {
    /// True if the telemetry is stored. Always false: the commands of users are private.
    kept: bool,
}

/// Accept the client's telemetry about a command, and store nothing
#[utoipa::path(
    post,
    path = "/api/v2/interactions/interaction",
    tag = "coiled",
    security(("token" = [])),
    request_body = InteractionBody,
    responses(
        (status = 200, description = "The request was received. Nothing is stored.", body = InteractionAnswer),
        (status = 400, description = "A value of the body is invalid. `pointer` locates it.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "The body is not JSON, or has a content encoding other than gzip.", body = ErrorBody),
    )
)]
pub(super) async fn post(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<InteractionAnswer>, Problem> {
    state.authenticate_user(&headers).await?;
    let received =
        body::check_headers(&headers, INTERACTION)?.receive(body, state.timeouts.body_timeout).await?;
    let _: InteractionBody = received.parse().await?;
    Ok(Json(InteractionAnswer { kept: false }))
}

/// Get the telemetry of a user
///
/// The list is always empty: the server stores no telemetry.
#[utoipa::path(
    get,
    path = "/api/v2/interactions/user-interactions/hello",
    tag = "coiled",
    security(("token" = [])),
    responses(
        (status = 200, description = "An empty list.", body = [Object]),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
    )
)]
pub(super) async fn hello(
    State(state): State<AppState>,
    headers: HeaderMap,
) -> Result<Json<[(); 0]>, Problem> {
    state.authenticate_user(&headers).await?;
    Ok(Json([]))
}
