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

/// Whether requests can be served, and how.
#[derive(Serialize, ToSchema)]
pub(super) struct Readiness {
    /// Always `ok`: anything else is an error status.
    status: &'static str,
    /// `whole` if all servers of the store hear of one another; `alone` while Redis is away, when subscriptions are sent
    /// what reaches this server, and the rest once Redis is back.
    live: &'static str,
}

/// Tell whether the process lives
#[utoipa::path(get, path = "/healthz", tag = "operations", responses((status = 200, description = "It lives.", body = Health)))]
pub(super) async fn live() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Tell whether requests can be served
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operations",
    responses(
        (status = 200, description = "The store answers.", body = Readiness),
        (status = 503, description = "It does not.", body = ErrorBody),
    )
)]
pub(super) async fn ready(State(state): State<AppState>) -> Result<Json<Readiness>, Problem> {
    state.system.ping().await?;
    let live = if state.store.bus().is_whole() { "whole" } else { "alone" };
    Ok(Json(Readiness { status: "ok", live }))
}
