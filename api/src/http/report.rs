//! `POST /api/v1/reports`: where the plugin reports.

use std::time::{Duration, Instant};

use axum::{
    Json,
    body::Body,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use governor::clock::{Clock, DefaultClock};

use super::{
    address::Source,
    body::{self, Limits},
    budget::Taker,
    problem::{ErrorBody, Problem},
    state::AppState,
};
use crate::{
    auth::Viewer,
    domain::report::{Acknowledgement, Report},
};

/// How large a report may be.
pub(super) const LIMITS: Limits = Limits { sent: 8 << 20, inflated: 32 << 20 };

/// How many task groups the computations of a report may name together. A reporter that is told so sends fewer
/// computations at once.
const MAX_LINKS: usize = 50_000;

/// Take a report of a scheduler
///
/// The answer comes after the report is stored whole. A report that was not answered may be sent again, and so
/// may any other: values are cumulative, and a row keeps those of the highest `sequence`.
/// The body may be compressed (`Content-Encoding: gzip`); at most 8 MiB as sent and 32 MiB decompressed.
#[utoipa::path(
    post,
    path = "/api/v1/reports",
    tag = "ingest",
    security(("token" = ["ingest"])),
    request_body = Report,
    responses(
        (status = 200, description = "Stored.", body = Acknowledgement),
        (status = 400, description = "A value is wrong; `pointer` names it. Nothing was stored.", body = ErrorBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `ingest` or opens another account.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large, as sent or decompressed.", body = ErrorBody),
        (status = 415, description = "Not JSON, or a content encoding other than gzip.", body = ErrorBody),
        (status = 429, description = "Too many reports with this token; see Retry-After.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "The store or the server is busy or away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn post(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let arrival = state.metrics.reports.arrive();
    let (taker, outcome) = match state.reporter(&headers).await {
        Ok(viewer) => {
            let taker = Taker::new(viewer.limit_key(), origin.address);
            (Some(taker), take(&state, &viewer, taker, &headers, body).await)
        }
        Err(problem) => (None, Err(problem)),
    };
    arrival.answered(outcome.as_ref().map(|_| ()).map_err(Problem::code));
    let response = outcome.map(Json).into_response();
    match taker {
        Some(taker) => state.report_budget.tell(taker, response),
        None => response,
    }
}

async fn take(
    state: &AppState,
    viewer: &Viewer,
    taker: Taker,
    headers: &HeaderMap,
    body: Body,
) -> Result<Acknowledgement, Problem> {
    state.report_quota.check_key(&viewer.limit_key()).map_err(|busy| {
        let wait = busy.wait_time_from(DefaultClock::default().now());
        Problem::rate_limited(wait.as_secs() + 1, "too many reports with this token")
    })?;
    state.report_budget.check(taker)?;
    let received = body::announced(headers, LIMITS)?.receive(body, state.patience.body).await?;
    let (came, came_at) = (Instant::now(), state.clock.timestamp());
    state.report_budget.overdraw(taker, received.size());
    state.metrics.reports.received(received.size());
    // Taken when all is there, or those who send slowly would keep the places.
    let _place = state.reports_under_way.try_acquire().map_err(|_| Problem::too_many_reports())?;
    let report: Report = received.parse_checked(Report::check).await?;
    if report.links() > MAX_LINKS {
        return Err(Problem::too_much(format!(
            "more than {MAX_LINKS} task groups of computations in one report"
        )));
    }
    let underway = came_at.timestamp_millis() - report.sent_at.timestamp().timestamp_millis();
    let acknowledgement = state.reports.record(viewer, report).await?;
    state.metrics.reports.stored(came, Duration::from_millis(underway.try_into().unwrap_or_default()));
    Ok(acknowledgement)
}
