//! Requests, by the template of their route.

use std::time::Instant;

use axum::http::{Method, StatusCode};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{Counted, seconds};

/// What is counted of requests and connections.
#[derive(Clone, Debug)]
pub(crate) struct HttpMetrics {
    requests: Family<Answered, Counter>,
    durations: Family<Asked, Histogram>,
    in_flight: Gauge,
    connections: Gauge,
    max_connections: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
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
        };
        registry.register(
            "requests",
            "Requests by method, route and class of status; cancelled are those whose client went before there was an answer",
            metrics.requests.clone(),
        );
        registry.register(
            "request_duration_seconds",
            "Time from a request's head to that of its answer",
            metrics.durations.clone(),
        );
        registry.register(
            "requests_in_flight",
            "Requests that wait for the head of their answer",
            metrics.in_flight.clone(),
        );
        registry.register(
            "connections",
            "Connections that are open, sockets among them",
            metrics.connections.clone(),
        );
        registry.register(
            "connections_max",
            "Connections that may be open; more wait",
            metrics.max_connections.clone(),
        );
        metrics
    }

    /// How many connections there may be.
    pub(crate) fn allow_connections(&self, max: usize) {
        self.max_connections.set(i64::try_from(max).unwrap_or(i64::MAX));
    }

    /// A connection, as long as what is returned lives.
    pub(crate) fn connection(&self) -> Counted {
        Counted::by(&self.connections)
    }

    /// A request has come: `route` is the template of the route that takes it, if one does.
    pub(crate) fn request(&self, method: &Method, route: Option<&str>) -> Request {
        Request {
            metrics: self.clone(),
            asked: Asked { method: known(method), route: route.unwrap_or("none").to_owned() },
            begun: Instant::now(),
            status: None,
            _in_flight: Counted::by(&self.in_flight),
        }
    }
}

/// A request that waits for its answer. If it is dropped before, there is nobody any more who waits.
#[derive(Debug)]
pub(crate) struct Request {
    metrics: HttpMetrics,
    asked: Asked,
    begun: Instant,
    status: Option<StatusCode>,
    _in_flight: Counted,
}

impl Request {
    /// The answer is there.
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.status = Some(status);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let Asked { method, ref route } = self.asked;
        let status = self.status.map_or("cancelled", class);
        let durations = self.metrics.durations.get_or_create(&self.asked);
        durations.observe(self.begun.elapsed().as_secs_f64());
        drop(durations);
        self.metrics.requests.get_or_create(&Answered { method, route: route.clone(), status }).inc();
    }
}

/// The method, if it is one of those that everybody knows: anybody can make up others.
fn known(method: &Method) -> &'static str {
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

fn class(status: StatusCode) -> &'static str {
    match status.as_u16() {
        ..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500.. => "5xx",
    }
}
