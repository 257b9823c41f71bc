//! Traces of requests, sent to a collector by OTLP over HTTP.
//!
//! A request with a `traceparent` header becomes part of that trace. Spans contain names, methods and
//! route templates, and no other data of a request.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use axum::{
    body::Bytes,
    extract::{MatchedPath, Request},
    http,
    response::Response,
};
use opentelemetry::{
    Key,
    propagation::TextMapPropagator,
    trace::{Status, TracerProvider},
};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{Resource, propagation::TraceContextPropagator, trace::SdkTracerProvider};
use tokio::{runtime::Handle, task};
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{Layer, filter::filter_fn, registry::LookupSpan};
use url::Url;

use crate::{config::TracesConfig, http_client::OutgoingClient};

/// The default service name. `OTEL_SERVICE_NAME` overrides it.
const SERVICE_NAME: &str = "galvo";

/// The beginning of the SDK's default service name.
const DEFAULT_NAME_PREFIX: &str = "unknown_service";

/// The timeout for sending the remaining spans at the end of the program.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum size of a collector's response, in bytes.
const MAX_RESPONSE: usize = 64 << 10;

/// The export of spans to a collector. Its queue is bounded, and spans are dropped while it is full.
pub(super) struct Traces(SdkTracerProvider);

impl Traces {
    pub(super) fn start(config: &TracesConfig) -> Self {
        let client = Collector { outgoing: OutgoingClient::new(), runtime: Handle::current() };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(traces_url(&config.endpoint))
            .build()
            .expect("the endpoint and the client are set");
        // The standard environment variables determine the sampling and the other resource attributes.
        let default_resource = Resource::builder().build();
        let name = default_resource.get(&Key::from_static_str("service.name")).map(|name| name.to_string());
        let resource = match name {
            Some(name) if !name.starts_with(DEFAULT_NAME_PREFIX) => default_resource,
            _ => Resource::builder().with_service_name(SERVICE_NAME).build(),
        };
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource);
        Self(provider.build())
    }

    /// Returns the layer that records spans.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let tracer = self.0.tracer(SERVICE_NAME);
        let layer =
            tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false);
        layer.with_filter(filter_fn(is_traced))
    }

    pub(super) async fn end(self) {
        let shutdown = task::spawn_blocking(move || self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
        if let Ok(Err(error)) = shutdown.await {
            tracing::warn!(%error, "failed to export the last traces");
        }
    }
}

/// Selects this crate's spans and warnings. Those of dependencies would contain values of requests.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let max_level = if metadata.is_span() { Level::DEBUG } else { Level::WARN };
    *metadata.level() <= max_level && metadata.target().split("::").next() == Some(env!("CARGO_CRATE_NAME"))
}

/// Returns the collector's URL for traces.
fn traces_url(endpoint: &Url) -> String {
    format!("{}/v1/traces", endpoint.as_str().trim_end_matches('/'))
}

/// Joins the trace of the request's `traceparent` header, and sets the attributes of the request.
pub(crate) fn join_trace(span: &Span, request: &Request) {
    if span.is_disabled() {
        return;
    }
    let context = TraceContextPropagator::new().extract(&HeaderExtractor(request.headers()));
    // Fails if traces are not exported.
    if span.set_parent(context).is_err() {
        return;
    }
    let method = request.method().as_str();
    let mut name = method.to_owned();
    if let Some(route) = request.extensions().get::<MatchedPath>() {
        name = format!("{method} {}", route.as_str());
        span.set_attribute("http.route", route.as_str().to_owned());
    }
    span.record("otel.kind", "server");
    span.record("otel.name", name);
    span.set_attribute("http.request.method", method.to_owned());
}

/// Sets the status of the response.
pub(crate) fn record_status(span: &Span, response: &Response) {
    if span.is_disabled() {
        return;
    }
    let status = response.status();
    span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.set_status(Status::error(""));
    }
}

/// The HTTP client for the collector. The exporter runs on a thread without a runtime.
struct Collector {
    outgoing: OutgoingClient,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let outgoing = self.outgoing.clone();
        let response = self
            .runtime
            .spawn(async move { outgoing.send(request.map(|body| body.to_vec()), MAX_RESPONSE).await });
        Ok(response.await??.map(Bytes::from))
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_have_a_place_below_the_collectors_address() {
        for (endpoint, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://collector.example.com/otlp/", "https://collector.example.com/otlp/v1/traces"),
        ] {
            assert_eq!(traces_url(&endpoint.parse().expect(endpoint)), expected);
        }
    }
}
