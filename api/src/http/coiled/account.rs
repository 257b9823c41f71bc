//! The quota and the usage of an account. The server sells nothing, so the quota is unlimited.

use axum::{Json, extract::State, http::HeaderMap, response::Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    request::{CoiledRequest, CoiledResponse, NO_WORKSPACE, Refusals},
    user::{Program, accessible_memberships},
};
use crate::http::{
    extract::{
        path::PathParams,
        problem::{ErrorBody, Problem},
    },
    server::state::AppState,
};

/// Get the quota of an account
#[utoipa::path(
    get,
    path = "/api/v2/user/account/{workspace}/usage",
    tag = "coiled",
    security(("token" = [])),
    params(("workspace" = String, Path, description = "The account's short name, or `None`.")),
    responses(
        (status = 200, description = "The quota.", body = Program),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 404, description = "The account does not exist, or the token gives no access to it.", body = ErrorBody),
    )
)]
pub(super) async fn usage(
    State(state): State<AppState>,
    PathParams(workspace): PathParams<String>,
    headers: HeaderMap,
) -> Result<Json<Program>, Problem> {
    let viewer = state.authenticate_user(&headers).await?;
    let is_accessible = workspace == viewer.account().slug
        || workspace == NO_WORKSPACE
        || accessible_memberships(&state, &viewer)
            .await?
            .iter()
            .any(|current| current.account.slug == workspace);
    if is_accessible { Ok(Json(Program::OPEN)) } else { Err(Problem::not_found()) }
}

/// The totals of the account's running clusters.
#[derive(Serialize, ToSchema)]
pub(super) struct CoresBody {
    /// The number of threads of their workers, as of the last report of each cluster.
    cores: i64,
    /// The number of their workers.
    workers: i64,
    /// The number of clusters.
    clusters: i64,
}

/// Get the totals of an account's running clusters
#[utoipa::path(
    get,
    path = "/api/v1/{workspace}/usage/cores/",
    tag = "coiled",
    security(("token" = ["read"])),
    params(("workspace" = String, Path, description = "The account's short name.")),
    responses(
        (status = 200, description = "The totals.", body = CoresBody),
        Refusals,
    )
)]
pub(super) async fn cores(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let totals = request.store.load_running_totals().await?;
            Ok(CoiledResponse::one(CoresBody {
                cores: totals.threads.unwrap_or(0),
                workers: totals.workers.unwrap_or(0),
                clusters: totals.clusters,
            }))
        })
        .await
}

/// A page of billing events.
#[derive(Serialize, ToSchema)]
pub(super) struct BillBody {
    /// The number of billing events. Always 0: the server sells nothing.
    count: u64,
    /// The URL of the next page. Always null.
    next: Option<String>,
    /// The billing events. Always empty.
    results: [String; 0],
}

/// List the billing events of an account
///
/// The list is always empty: the server sells nothing.
#[utoipa::path(
    get,
    path = "/api/v1/{workspace}/billing-events/",
    tag = "coiled",
    security(("token" = ["read"])),
    params(("workspace" = String, Path, description = "The account's short name.")),
    responses(
        (status = 200, description = "An empty page.", body = BillBody),
        Refusals,
    )
)]
pub(super) async fn billing_events(request: CoiledRequest) -> Result<Response, Problem> {
    request.answer(async |_| Ok(CoiledResponse::one(BillBody { count: 0, next: None, results: [] }))).await
}

/// Get credentials for reading Prometheus
///
/// The list is always empty: there are no such credentials.
#[utoipa::path(
    get,
    path = "/api/v2/user/account/{workspace}/prometheus-read-credentials",
    tag = "coiled",
    security(("token" = ["read"])),
    params(("workspace" = String, Path, description = "The account's short name.")),
    responses(
        (status = 200, description = "An empty list.", body = [Object]),
        Refusals,
    )
)]
pub(super) async fn prometheus_credentials(request: CoiledRequest) -> Result<Response, Problem> {
    request.answer(async |_| Ok(CoiledResponse::one([(); 0]))).await
}

/// The result of a health check.
#[derive(Serialize, ToSchema)]
pub(super) struct HealthBody {
    /// Always `ok`: a failed check has an error status.
    status: &'static str,
}

/// Check that requests can be served
#[utoipa::path(
    get,
    path = "/api/v1/health",
    tag = "coiled",
    responses(
        (status = 200, description = "The database responds.", body = HealthBody),
        (status = 503, description = "The database does not respond.", body = ErrorBody),
    )
)]
pub(super) async fn health(State(state): State<AppState>) -> Result<Json<HealthBody>, Problem> {
    state.system.ping().await?;
    Ok(Json(HealthBody { status: "ok" }))
}
