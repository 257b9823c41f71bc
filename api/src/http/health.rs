//! Whether the process lives, and whether it can serve.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    problem::{ErrorBody, Problem},
    state::AppState,
};

/// How a check came out.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`: anything else is an error status.
    status: &'static str,
}

const OK: Health = Health { status: "ok" };

/// Tell whether the process lives
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "It lives.", body = Health)))]
pub(super) async fn live() -> Json<Health> {
    Json(OK)
}

/// Tell whether requests can be served
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses(
        (status = 200, description = "The store answers.", body = Health),
        (status = 503, description = "It does not.", body = ErrorBody),
    )
)]
pub(super) async fn ready(State(state): State<AppState>) -> Result<Json<Health>, Problem> {
    state.system.ping().await?;
    Ok(Json(OK))
}
