//! What is left to an account, and what it has: nothing here is sold.

use axum::{Json, extract::State, http::HeaderMap, response::Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    asked::{Answer, Asked, NO_WORKSPACE, Refusals},
    user::{Program, opened},
};
use crate::http::{
    named::Named,
    problem::{ErrorBody, Problem},
    state::AppState,
};

/// Tell what is left to an account
#[utoipa::path(
    get,
    path = "/api/v2/user/account/{workspace}/usage",
    tag = "coiled",
    security(("token" = [])),
    params(("workspace" = String, Path, description = "The account's short name, or `None`.")),
    responses(
        (status = 200, description = "What is left.", body = Program),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 404, description = "No such account, or not for this token.", body = ErrorBody),
    )
)]
pub(super) async fn usage(
    State(state): State<AppState>,
    Named(workspace): Named<String>,
    headers: HeaderMap,
) -> Result<Json<Program>, Problem> {
    let viewer = state.signed_in(&headers).await?;
    let is_opened = workspace == viewer.account().slug
        || workspace == NO_WORKSPACE
        || opened(&state, &viewer).await?.iter().any(|standing| standing.account.slug == workspace);
    if is_opened { Ok(Json(Program::OPEN)) } else { Err(Problem::not_found()) }
}

/// What the clusters of an account have together that report.
#[derive(Serialize, ToSchema)]
pub(super) struct CoresBody {
    /// Threads of their workers, as of the last report of each.
    cores: i64,
    /// Their workers.
    workers: i64,
    /// How many clusters they are.
    clusters: i64,
}

/// Tell what the clusters of an account have together that report
#[utoipa::path(
    get,
    path = "/api/v1/{workspace}/usage/cores/",
    tag = "coiled",
    security(("token" = ["read"])),
    params(("workspace" = String, Path, description = "The account's short name.")),
    responses(
        (status = 200, description = "What they have.", body = CoresBody),
        Refusals,
    )
)]
pub(super) async fn cores(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let in_use = asked.store.in_use().await?;
            Ok(Answer::one(CoresBody {
                cores: in_use.threads.unwrap_or(0),
                workers: in_use.workers.unwrap_or(0),
                clusters: in_use.clusters,
            }))
        })
        .await
}

/// A page of a bill.
#[derive(Serialize, ToSchema)]
pub(super) struct BillBody {
    /// How much there is on it: nothing, since nothing here is sold.
    count: u64,
    /// The address of the next page; always null.
    next: Option<String>,
    /// What there is on it.
    results: [String; 0],
}

/// Tell what an account has to pay for: nothing
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
pub(super) async fn billing_events(asked: Asked) -> Result<Response, Problem> {
    asked.answer(async |_| Ok(Answer::one(BillBody { count: 0, next: None, results: [] }))).await
}

/// Tell with what Prometheus is read: there is none
#[utoipa::path(
    get,
    path = "/api/v2/user/account/{workspace}/prometheus-read-credentials",
    tag = "coiled",
    security(("token" = ["read"])),
    params(("workspace" = String, Path, description = "The account's short name.")),
    responses(
        (status = 200, description = "None.", body = [Object]),
        Refusals,
    )
)]
pub(super) async fn prometheus_credentials(asked: Asked) -> Result<Response, Problem> {
    asked.answer(async |_| Ok(Answer::one([(); 0]))).await
}

/// How a check came out.
#[derive(Serialize, ToSchema)]
pub(super) struct HealthBody {
    /// Always `ok`: anything else is an error status.
    status: &'static str,
}

/// Tell whether requests can be served
#[utoipa::path(
    get,
    path = "/api/v1/health",
    tag = "coiled",
    responses(
        (status = 200, description = "The store answers.", body = HealthBody),
        (status = 503, description = "It does not.", body = ErrorBody),
    )
)]
pub(super) async fn health(State(state): State<AppState>) -> Result<Json<HealthBody>, Problem> {
    state.system.ping().await?;
    Ok(Json(HealthBody { status: "ok" }))
}
