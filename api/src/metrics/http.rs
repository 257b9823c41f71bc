//! Metrics of HTTP requests, by route template.

use std::time::Instant;

use axum::http::{Method, StatusCode};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{GaugeGuard, seconds};

/// The metrics of requests and connections.
#[derive(Clone, Debug)]
pub(crate) struct HttpMetrics {
    requests: Family<ResponseLabels, Counter>,
    durations: Family<RequestLabels, Histogram>,
    in_flight: Gauge,
    connections: Gauge,
    max_connections: Gauge,
    untrusted_proxy_requests: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    method: &'static str,
    route: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
}

impl HttpMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(seconds),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            max_connections: Gauge::default(),
            untrusted_proxy_requests: Counter::default(),
        };
        registry.register(
            "requests",
            "Requests by method, route and class of status; `cancelled` if the client disconnected before \
             the response",
            metrics.requests.clone(),
        );
        registry.register(
            "request_duration_seconds",
            "Time from the headers of a request to the headers of its response",
            metrics.durations.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Requests waiting for the headers of their response",
            metrics.in_flight.clone(),
        );
        registry.register(
            "connections",
            "Open connections, including WebSockets",
            metrics.connections.clone(),
        );
        registry.register(
            "connections_max",
            "Limit of open connections; more wait",
            metrics.max_connections.clone(),
        );
        registry.register(
            "requests_by_unnamed_proxy",
            "Requests through a proxy on this machine or a private network that is not in \
             GALVO_TRUSTED_PROXIES",
            metrics.untrusted_proxy_requests.clone(),
        );
        metrics
    }

    /// Counts a request through an untrusted proxy.
    pub(crate) fn count_untrusted_proxy(&self) {
        self.untrusted_proxy_requests.inc();
    }

    /// Sets the maximum number of connections.
    pub(crate) fn set_max_connections(&self, max: usize) {
        self.max_connections.set(i64::try_from(max).unwrap_or(i64::MAX));
    }

    /// Counts an open connection until the result is dropped.
    pub(crate) fn track_connection(&self) -> GaugeGuard {
        GaugeGuard::new(&self.connections)
    }

    /// Starts the measurement of a request. `route` is the template of the matching route, if any.
    pub(crate) fn start_request(&self, method: &Method, route: Option<&str>) -> RequestMeasurement {
        RequestMeasurement {
            metrics: self.clone(),
            labels: RequestLabels { method: method_label(method), route: route.unwrap_or("none").to_owned() },
            started_at: Instant::now(),
            status: None,
            _in_flight: GaugeGuard::new(&self.in_flight),
        }
    }
}

/// The measurement of a request. Dropping it without a status records a cancellation.
#[derive(Debug)]
pub(crate) struct RequestMeasurement {
    metrics: HttpMetrics,
    labels: RequestLabels,
    started_at: Instant,
    status: Option<StatusCode>,
    _in_flight: GaugeGuard,
}

impl RequestMeasurement {
    /// Sets the status and ends the measurement.
    pub(crate) fn finish(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for RequestMeasurement {
    fn drop(&mut self) {
        let RequestLabels { method, ref route } = self.labels;
        let status = self.status.map_or("cancelled", status_class);
        let durations = self.metrics.durations.get_or_create(&self.labels);
        durations.observe(self.started_at.elapsed().as_secs_f64());
        drop(durations);
        self.metrics.requests.get_or_create(&ResponseLabels { method, route: route.clone(), status }).inc();
    }
}

/// Returns the name of a standard method. Others become one label value, because clients can invent
/// methods.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

fn status_class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500.. => "5xx",
    }
}
