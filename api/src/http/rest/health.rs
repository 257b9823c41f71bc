//! The liveness and the readiness of the process.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::{
    extract::problem::{ErrorBody, Problem},
    server::state::AppState,
};

/// The result of a health check.
#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// Always `ok`: a failed check has an error status.
    status: &'static str,
}

/// The result of the readiness check.
#[derive(Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// Always `ok`: a failed check has an error status.
    status: &'static str,
    /// The state of live updates: `whole` if all servers of the store receive one another's notices,
    /// `alone` while Redis is unavailable. Subscriptions then receive the changes that reach this
    /// server, and the others once Redis is back.
    live: &'static str,
}

/// Check that the process is alive
#[utoipa::path(
    get,
    path = "/healthz",
    tag = "operations",
    responses((status = 200, description = "The process is alive.", body = Health))
)]
pub(crate) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Check that requests can be served
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses(
        (status = 200, description = "The database responds.", body = Readiness),
        (status = 503, description = "The database does not respond.", body = ErrorBody),
    )
)]
pub(crate) async fn ready(State(state): State<AppState>) -> Result<Json<Readiness>, Problem> {
    state.system.ping().await?;
    let live = if state.store.bus().is_connected() { "whole" } else { "alone" };
    Ok(Json(Readiness { status: "ok", live }))
}
