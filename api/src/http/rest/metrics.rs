//! `GET /metrics`: the metrics for Prometheus.
//!
//! The metrics carry no tenant data, but show how much the server does and of which kind. They require
//! no credentials, so the public address serves them only to the local machine. For remote collectors,
//! an address of their own serves them instead of the public one.

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use crate::http::{
    extract::{
        media_type::Accepted,
        origin::RequestOrigin,
        problem::{ErrorBody, Problem},
    },
    server::state::AppState,
};

/// The format of older collectors.
const TEXT: &str = "text/plain";

/// The format that Prometheus requests.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// Returns true if a proxy passed the request on. Such a request does not come from the local machine,
/// however near the proxy is.
fn is_proxied(headers: &HeaderMap) -> bool {
    let is_proxy_header = |name: &HeaderName| {
        *name == header::FORWARDED
            || *name == header::VIA
            || name.as_str() == "x-real-ip"
            || name.as_str().starts_with("x-forwarded-")
    };
    headers.keys().any(is_proxy_header)
}

/// Get the server's metrics
///
/// Returns all metrics in the text format of Prometheus, or in OpenMetrics 1.0 if the client accepts it.
/// The public address responds only to the local machine, and with status 404 to others. With
/// `GALVO_METRICS_LISTEN`, the metrics are on that address and not here.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "operations",
    responses(
        (status = 200, description = "The metrics.", body = String, content_type = "text/plain"),
        (status = 404, description = "The request comes from another machine, or the metrics have an address of their own.", body = ErrorBody),
        (status = 421, description = "The request's `Host` is not a name of this server.", body = ErrorBody),
    )
)]
pub(crate) async fn get(
    State(state): State<AppState>,
    RequestOrigin(origin): RequestOrigin,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let is_local = origin.address.to_canonical().is_loopback();
    if state.has_separate_metrics_address || !is_local || is_proxied(&headers) {
        return Err(Problem::not_found());
    }
    state.site.hosts.check(&headers)?;
    Ok(render_metrics(&state, &headers))
}

/// Serves the metrics on an address of their own, to every client that reaches it.
pub(crate) async fn get_unrestricted(State(state): State<AppState>, headers: HeaderMap) -> Response {
    render_metrics(&state, &headers)
}

/// Counts a request by its route.
pub(crate) async fn count(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let request_metrics = state.metrics.http.start_request(request.method(), route.map(MatchedPath::as_str));
    let response = next.run(request).await;
    request_metrics.finish(response.status());
    response
}

fn render_metrics(state: &AppState, headers: &HeaderMap) -> Response {
    let metrics = &state.metrics;
    metrics.store.set_pools(&state.system.connections());
    metrics.bus.set_connected(state.store.bus().is_connected());
    // A collector that accepts neither format gets text, because a rejection would not help it.
    let is_open = Accepted::of(headers).best(&[(TEXT, false), (OPEN_METRICS, true)]).unwrap_or_default();
    let (content_type, text) = if is_open {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.open_metrics())
    } else {
        ("text/plain; version=0.0.4; charset=utf-8", metrics.text())
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], text).into_response()
}
