//! Traces as a collector receives them.

use std::{process::Stdio, time::Duration};

use harness::{Answer, Program, Received, WebhookReceiver};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind},
};
use prost::Message;
use serde_json::json;

/// The trace of W3C Trace Context's own example, and the calling span in it.
const TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const PARENT_SPAN: u128 = 0x00f0_67aa_0ba9_02b7;

/// Starts a server that exports traces, and returns its first token.
async fn traced(endpoint: &str, more: &[(&str, &str)]) -> (tempfile::TempDir, Program, String) {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", directory.path().join("galvo.db").display());
    let arguments = ["serve", "--database-url", &url, "--listen", "127.0.0.1:0", "--bootstrap"];
    let mut command = Program::command(&arguments);
    command.stderr(Stdio::null()).env("GALVO_TRACES_ENDPOINT", endpoint).envs(more.iter().copied());
    let mut server = Program::spawn(&mut command).await;
    let token = server.bootstrap_token().await;
    (directory, server, token)
}

/// Queries the viewer's name as part of a trace.
async fn send_query(server: &Program, token: &str, flags: &str) {
    let request = server.client().post(server.url("/graphql")).bearer_auth(token);
    let request = request.header("traceparent", format!("00-{TRACE:032x}-{PARENT_SPAN:016x}-{flags}"));
    let answer = request.json(&json!({ "query": "{ viewer { user { name } } }" })).send().await.unwrap();
    let answer: serde_json::Value = answer.json().await.unwrap();
    assert_eq!(answer["data"]["viewer"]["user"]["name"], "admin");
}

/// The resource attributes of the program, and its spans.
fn decode_spans(requests: Vec<Received>) -> (Vec<KeyValue>, Vec<Span>) {
    let (mut resource, mut spans) = (Vec::new(), Vec::new());
    for request in requests {
        assert_eq!(request.target, "POST /v1/traces");
        assert_eq!(request.header("content-type"), "application/x-protobuf");
        for of in ExportTraceServiceRequest::decode(&*request.body).unwrap().resource_spans {
            resource = of.resource.unwrap().attributes;
            spans.extend(of.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    (resource, spans)
}

fn text(attributes: &[KeyValue], name: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == name)?.value.as_ref()?.value.as_ref()?;
    Some(match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => panic!("{name}: {other:?}"),
    })
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// A request that is part of a trace is a span in it, with its database reads as child spans.
#[tokio::test]
async fn a_request_is_a_span_of_the_trace_it_belongs_to() {
    let collector = WebhookReceiver::start().await;
    let (_directory, server, token) = traced(&collector.origin(), &[]).await;
    send_query(&server, &token, "01").await;
    // Unsent spans are exported before the program ends.
    assert_eq!(server.terminate().await, Some(0));

    let (resource, spans) = decode_spans(collector.received());
    assert_eq!(text(&resource, "service.name").as_deref(), Some("galvo"));
    let of_trace: Vec<&Span> = spans.iter().filter(|span| number(&span.trace_id) == TRACE).collect();
    let requests: Vec<&&Span> =
        of_trace.iter().filter(|span| number(&span.parent_span_id) == PARENT_SPAN).collect();
    let [request] = *requests else { panic!("{spans:?}") };
    assert_eq!(request.name, "POST /graphql");
    assert_eq!(request.kind(), SpanKind::Server);
    assert_eq!(text(&request.attributes, "http.request.method").as_deref(), Some("POST"));
    assert_eq!(text(&request.attributes, "http.route").as_deref(), Some("/graphql"));
    assert_eq!(text(&request.attributes, "http.response.status_code").as_deref(), Some("200"));
    assert!(request.start_time_unix_nano < request.end_time_unix_nano);
    // Every other span of the trace is below it, and store spans are among them.
    let parent = |span: &Span| of_trace.iter().find(|other| other.span_id == span.parent_span_id).copied();
    for span in &of_trace {
        let mut span = *span;
        while let Some(above) = parent(span) {
            span = above;
        }
        assert_eq!(span.name, "POST /graphql");
    }
    let of_store = of_trace.iter().filter(|span| span.name.starts_with("store."));
    assert!(of_store.count() >= 1, "{of_trace:?}");
}

/// The standard variables set the service name, the sampling, and the collector's headers.
#[tokio::test]
async fn the_usual_variables_are_read() {
    let collector = WebhookReceiver::start().await;
    let usual = [
        ("OTEL_SERVICE_NAME", "galvo-of-the-laboratory"),
        ("OTEL_TRACES_SAMPLER", "parentbased_always_off"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-laboratory=7"),
    ];
    let (_directory, server, token) = traced(&collector.origin(), &usual).await;
    send_query(&server, &token, "00").await;
    send_query(&server, &token, "01").await;
    assert_eq!(server.terminate().await, Some(0));

    let received = collector.received();
    assert!(received.iter().all(|request| request.header("x-laboratory") == "7"));
    let (resource, spans) = decode_spans(received);
    assert_eq!(text(&resource, "service.name").as_deref(), Some("galvo-of-the-laboratory"));
    // Of the two requests, only the one with a sampled trace was kept.
    let requests = spans.iter().filter(|span| span.name == "POST /graphql");
    assert_eq!(requests.count(), 1);
    assert!(spans.iter().all(|span| number(&span.trace_id) == TRACE), "{spans:?}");
}

/// A collector that is unavailable or unresponsive delays neither responses nor the shutdown.
#[tokio::test]
async fn a_collector_that_is_away_hinders_nothing() {
    let silent = WebhookReceiver::start().await;
    silent.answer(&[Answer::Silence; 64]);
    for endpoint in ["http://127.0.0.1:9".to_owned(), silent.origin()] {
        let (_directory, server, token) = traced(&endpoint, &[]).await;
        send_query(&server, &token, "01").await;
        let ended = tokio::time::timeout(Duration::from_secs(20), server.terminate()).await;
        assert_eq!(ended.expect("it ends"), Some(0));
    }
    silent.wait_for(1).await;
}
