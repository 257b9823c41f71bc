//! `POST /api/v2/analytics/{workspace}/cluster/{id}/span/{identifier}`: where the `coiled` client tells how long
//! a span's block took.

use axum::{Json, body::Body, extract::State, http::HeaderMap};
use entity::ids::{ClusterId, SpanId};
use governor::clock::{Clock, DefaultClock};
use serde_json::{Map, Value};

use super::{
    address::Source,
    body::{self, Limits},
    budget::Taker,
    named::Named,
    problem::{ErrorBody, Problem},
    state::AppState,
};
use crate::domain::client_span::ClientSpanReport;

/// How large such a body may be: callers may add keywords of their own.
const LIMITS: Limits = Limits { sent: 2 << 20, inflated: 8 << 20 };

/// Take what a client tells of a span
///
/// The span is named by Dask's identifier and may be reported later. What was told first is kept. Keys that are
/// not known are ignored, since a refusal raises an exception in the client's program.
#[utoipa::path(
    post,
    path = "/api/v2/analytics/{workspace}/cluster/{id}/span/{identifier}",
    tag = "coiled",
    security(("token" = ["ingest"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("identifier" = String, Path, description = "Dask's identifier of the span, a UUID."),
    ),
    request_body = ClientSpanReport,
    responses(
        (status = 200, description = "Stored, or known already.", body = Object),
        (status = 400, description = "A value is wrong; `pointer` names it.", body = ErrorBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `ingest`.", body = ErrorBody),
        (status = 404, description = "No such account, cluster or identifier, or not for this token.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large, as sent or decompressed.", body = ErrorBody),
        (status = 415, description = "Not JSON, or a content encoding other than gzip.", body = ErrorBody),
        (status = 429, description = "Too many requests with this token; see Retry-After.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "The store or the server is busy or away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn post(
    State(state): State<AppState>,
    Named((workspace, cluster, span)): Named<(String, String, String)>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Map<String, Value>>, Problem> {
    // The program that opens a span registered the plugin with the same token, which reports.
    let viewer = state.reporter(&headers).await?;
    state.report_quota.check_key(&viewer.limit_key()).map_err(|busy| {
        let wait = busy.wait_time_from(DefaultClock::default().now());
        Problem::rate_limited(wait.as_secs() + 1, "too many requests with this token")
    })?;
    let (Ok(cluster), Ok(span), true) =
        (cluster.parse::<ClusterId>(), span.parse::<SpanId>(), workspace == viewer.account().slug)
    else {
        return Err(Problem::not_found());
    };
    let taker = Taker::new(viewer.limit_key(), origin.address);
    state.report_budget.check(taker)?;
    let received = body::announced(&headers, LIMITS)?.receive(body, state.patience.body).await?;
    state.report_budget.overdraw(taker, received.size());
    let _place = state.reports_under_way.try_acquire().map_err(|_| Problem::too_many_reports())?;
    let report: ClientSpanReport = received.parse().await?;
    if !state.client_spans.record(&viewer, cluster, span, report).await? {
        return Err(Problem::not_found());
    }
    Ok(Json(Map::new()))
}
