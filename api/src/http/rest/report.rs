//! `POST /api/v1/reports`: the route to which the plugin reports.

use std::time::{Duration, Instant};

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};

use entity::quota::UNLIMITED;

use crate::{
    app::ReportError,
    auth::Viewer,
    domain::{
        quota::{Quota, QuotaUse},
        report::{Acknowledgement, Report},
        section_bytes::SectionBytes,
    },
    http::{
        extract::{
            body::{self, Limits},
            caller::Caller,
            origin::RequestOrigin,
            problem::{ErrorBody, Problem},
        },
        pages::dashboard,
        server::state::AppState,
    },
};

/// The header with the remaining storage quota of the account.
const QUOTA: HeaderName = HeaderName::from_static("galvo-quota");

/// The size limits of a report.
pub(crate) const LIMITS: Limits = Limits { sent: 8 << 20, inflated: 32 << 20 };

/// The limit of the rows of a report besides those of its items. Others wait for the writer of an SQLite
/// store until all are written. A reporter that exceeds it sends fewer items at once.
const MAX_NESTED_ROWS: usize = 20_000;

/// The limit of the fine metrics of a report, which takes the memory of a request.
const MAX_FINE_METRICS: usize = 200_000;

/// Store a report of a scheduler
///
/// The response follows after the whole report is stored. A report without a response may be sent again,
/// and so may any other report: values are cumulative, and a row keeps the values of the highest
/// `sequence`. The body may be compressed with `Content-Encoding: gzip`. Its size limit is 8 MiB as sent
/// and 32 MiB decompressed.
#[utoipa::path(
    post,
    path = "/api/v1/reports",
    tag = "ingest",
    security(("token" = ["ingest"])),
    request_body = Report,
    responses(
        (status = 200, description = "The report is stored.", body = Acknowledgement),
        (status = 400, description = "A value of the body is invalid. `pointer` locates it. Nothing was stored.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `ingest`, belongs to another account, is bound to another scheduler (`TOKEN_BOUND`), or has more scopes than `ingest` and the account refuses such tokens (`BROAD_TOKEN`).", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 409, description = "The cluster accepts no reports: it belongs to another user of the account \
         (`NOT_CLUSTER_OWNER`), is quarantined (`CLUSTER_QUARANTINED`) or was deleted (`CLUSTER_DELETED`). Or `sequence` is \
         implausibly high (`SEQUENCE_TOO_FAR`). Nothing was stored.", body = ErrorBody),
        (status = 413, description = "The body is too large, either compressed or decompressed.", body = ErrorBody),
        (status = 415, description = "The body is not JSON, or has a content encoding other than gzip.", body = ErrorBody),
        (status = 429, description = "Too many reports with this token. See `Retry-After`.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The server or its database is overloaded or unavailable. See `Retry-After`.", body = ErrorBody),
        (status = 507, description = "The account's storage quota is used up. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(crate) async fn post(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let measurement = state.metrics.reports.start_report();
    let (caller, outcome) = match state.authenticate_reporter(&headers).await {
        Ok(viewer) => {
            let caller = Caller::new(viewer, origin);
            let outcome = store_report(&state, &caller, &headers, body).await;
            (Some(caller), outcome)
        }
        Err(problem) => (None, Err(problem)),
    };
    measurement.finish(outcome.as_ref().map(|_| ()).map_err(Problem::code));
    let response = outcome.map(Json).into_response();
    match caller {
        Some(Caller { viewer, limit_keys, .. }) => {
            with_quota_header(&state, &viewer, state.report_admission.bytes.set_headers(limit_keys, response))
        }
        None => response,
    }
}

/// Adds the remaining storage quota of the account, as far as the credential can use it, to the
/// response, in the notation of `RateLimit`. Without a known quota, the response stays unchanged.
fn with_quota_header(state: &AppState, viewer: &Viewer, mut response: Response) -> Response {
    let Some(status) = state.reports.quotas().cached_usage_of(viewer) else { return response };
    let limited =
        Quota::ALL.map(|quota| status.usage_of(quota)).into_iter().filter(|usage| usage.limit != UNLIMITED);
    let item = |usage: QuotaUse| {
        format!("\"{}\";q={};r={}", usage.quota.name(), usage.limit, status.remaining(usage.quota))
    };
    let items: Vec<String> = limited.map(item).collect();
    if let Ok(value) = HeaderValue::from_str(&items.join(", "))
        && !items.is_empty()
    {
        response.headers_mut().insert(QUOTA, value);
    }
    response
}

/// Converts the error of a rejected report. For an exceeded quota, it includes the retry delay.
fn refusal(state: &AppState, error: ReportError) -> Problem {
    match error {
        ReportError::Quota(exceeded) => {
            Problem::quota_exceeded(state.reports.quotas().retry_after(&exceeded), exceeded.refusal())
        }
        error => error.into(),
    }
}

async fn store_report(
    state: &AppState,
    Caller { viewer, limit_keys, .. }: &Caller,
    headers: &HeaderMap,
    body: Body,
) -> Result<Acknowledgement, Problem> {
    state.report_admission.count(viewer, "reports")?;
    state.check_token_scopes(viewer).await?;
    state.report_admission.bytes.check(*limit_keys)?;
    let quotas = state.reports.quotas();
    if let Some(exceeded) = quotas.cached_usage_of(viewer).and_then(|status| status.exceeded()) {
        return Err(refusal(state, ReportError::Quota(exceeded)));
    }
    let received = body::check_headers(headers, LIMITS)?.receive(body, state.timeouts.body_timeout).await?;
    let (received_instant, received_at) = (Instant::now(), state.clock.timestamp());
    state.report_admission.bytes.overdraw(*limit_keys, received.size());
    state.metrics.reports.count_received_bytes(received.size());
    // The slot is reserved after the body has arrived, because slow senders would otherwise occupy the
    // slots.
    let _report_slot = state.report_admission.reserve(viewer)?;
    let (report, bytes) = received.parse_measured(Report::check, SectionBytes::count_sections).await?;
    if report.count_nested_rows() > MAX_NESTED_ROWS {
        return Err(Problem::too_much(format!(
            "more than {MAX_NESTED_ROWS} task groups of computations and functions of hours in one report"
        )));
    }
    if report.count_fine_metrics() > MAX_FINE_METRICS {
        return Err(Problem::too_much(format!("more than {MAX_FINE_METRICS} fine metrics in one report")));
    }
    let lag_ms = received_at.timestamp_millis() - report.sent_at.timestamp().timestamp_millis();
    let acknowledgement =
        state.reports.record(viewer, report, bytes).await.map_err(|error| refusal(state, error))?;
    let path = dashboard::cluster_page_path(state, &viewer.account().slug, acknowledgement.cluster_id);
    let url = state.site.public_url.as_ref().map(|public| format!("{public}{path}"));
    state
        .metrics
        .reports
        .record_stored(received_instant, Duration::from_millis(lag_ms.try_into().unwrap_or_default()));
    Ok(Acknowledgement { path, url, ..acknowledgement })
}
