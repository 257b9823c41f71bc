//! `GET /metrics`: what operators watch, as Prometheus reads it.
//!
//! Nothing in it is of any account, but it tells how much the server does and of what. So there are no credentials for it, and on the
//! address that everybody reaches it is there for this machine alone; where it is to be read from elsewhere it has an address of
//! its own, and is not on that one.

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{
    address::Source,
    media_type::ranges,
    problem::{ErrorBody, Problem},
    state::AppState,
};

/// The format that Prometheus asks for.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// What proxies add. Whoever comes over one is not on this machine, however near the proxy is.
const OF_PROXIES: [HeaderName; 4] = [
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// Tell how much the server does
///
/// All metrics, in the text format of Prometheus, or in that of OpenMetrics 1.0 for who accepts it. On the address that everybody
/// reaches it answers this machine alone, and 404 to everybody else; with `GALVO_METRICS_LISTEN` it is on that address and not here.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses(
        (status = 200, description = "The metrics.", body = String, content_type = "text/plain"),
        (status = 404, description = "Asked from elsewhere, or it is on another address.", body = ErrorBody),
    )
)]
pub(super) async fn get(
    State(state): State<AppState>,
    Source(origin): Source,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let is_here = origin.address.to_canonical().is_loopback();
    if state.metrics_are_elsewhere || !is_here || OF_PROXIES.iter().any(|name| headers.contains_key(name)) {
        return Err(Problem::not_found());
    }
    Ok(told(&state, &headers))
}

/// The same for all who reach an address of its own.
pub(super) async fn get_of_everybody(State(state): State<AppState>, headers: HeaderMap) -> Response {
    told(&state, &headers)
}

/// Counts a request by the route that takes it.
pub(super) async fn count(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let counted = state.metrics.http.request(request.method(), route.map(MatchedPath::as_str));
    let response = next.run(request).await;
    counted.answered(response.status());
    response
}

fn told(state: &AppState, headers: &HeaderMap) -> Response {
    let metrics = &state.metrics;
    metrics.store.take_down(&state.system.connections());
    metrics.bus.take_down(state.store.bus().is_whole());
    let accepts = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let (content_type, text) = if ranges(accepts).any(|range| range == OPEN_METRICS) {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.open_metrics())
    } else {
        ("text/plain; version=0.0.4; charset=utf-8", metrics.text())
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], text).into_response()
}
