//! Compression of responses: the bytes that clients decode, and the responses that are never compressed.

use std::io::Read;

use flate2::read::GzDecoder;
use harness::{Browser, Member, ReportBuilder, TestApp, sample};
use reqwest::{Method, RequestBuilder, Response, header};
use serde_json::{Value, json};

/// Creates a request, which can be sent once.
type SomeRequest<'a> = Box<dyn Fn() -> RequestBuilder + 'a>;

/// A query with a response of 50 kB or so.
const LARGE: &str = "{ __schema { types { name description fields { name description } } } }";

fn coding(answer: &Response) -> Option<&str> {
    answer.headers().get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap())
}

fn varies(answer: &Response) -> bool {
    let fields = answer.headers().get_all(header::VARY).iter();
    fields.flat_map(|field| field.to_str().unwrap().split(',')).any(|name| name.trim() == "accept-encoding")
}

/// Returns the body of a response as a client decodes it.
async fn decoded(answer: Response) -> Vec<u8> {
    let coding = coding(&answer).map(str::to_owned);
    let length = answer.content_length().unwrap();
    let body = answer.bytes().await.unwrap();
    assert_eq!(body.len() as u64, length);
    match coding.as_deref() {
        Some("gzip") => {
            let mut plain = Vec::new();
            GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
            plain
        }
        Some(other) => panic!("{other}"),
        None => body.into(),
    }
}

async fn send(request: RequestBuilder, accepted: &str) -> Response {
    request.header("Accept-Encoding", accepted).send().await.unwrap()
}

fn graphql_request(ada: &Member, query: &str) -> RequestBuilder {
    ada.request(Method::POST, "/graphql").json(&json!({ "query": query }))
}

#[tokio::test]
async fn a_client_decodes_the_same_bytes_in_each_coding() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let samples: Vec<Value> =
        (0..500).map(|second| sample(None, 1_000 * second, json!({ "cpu_cores": second % 7 }))).collect();
    let report = ReportBuilder::new("Scheduler-1", 1).with("/sent_at", 1_795_173_000.0);
    let number = ada.reported(&report.with("/samples", json!(samples)).build()).await;
    let series = format!(
        "{{ cluster(id: \"{number}\") {{ series(metrics: [CPU], bucketSeconds: 1) {{ points {{ at value }} }} }} }}"
    );
    let unknown: Vec<String> = (0..5).map(|n| format!("{}{n}", "unknown".repeat(20))).collect();
    let requests: [(&str, SomeRequest<'_>); 6] = [
        ("a query", Box::new(|| graphql_request(&ada, LARGE))),
        ("a list that is written in place", Box::new(|| graphql_request(&ada, &series))),
        ("errors", Box::new(|| graphql_request(&ada, &format!("{{ {} }}", unknown.join(" "))))),
        ("the description", Box::new(|| ada.request(Method::GET, "/api/v1/openapi.json"))),
        ("the plugin", Box::new(|| ada.request(Method::GET, "/api/v2/analytics/preload"))),
        ("the metrics", Box::new(|| app.anonymous(Method::GET, "/metrics"))),
    ];
    for (name, request) in &requests {
        let plain = send(request(), "identity").await;
        assert_eq!((coding(&plain), varies(&plain)), (None, true), "{name}");
        let plain = decoded(plain).await;
        assert!(plain.len() > 1_024, "{name}: {}", plain.len());
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", Some("gzip")),
            ("gzip", Some("gzip")),
            ("br, *;q=0.5", Some("gzip")),
            ("gzip;q=0, *", None),
            ("br, zstd", None),
            ("", None),
        ] {
            let answer = send(request(), accepted).await;
            assert_eq!((coding(&answer), varies(&answer)), (expected, true), "{name} {accepted}");
            if expected.is_some() {
                let length = usize::try_from(answer.content_length().unwrap()).unwrap();
                assert!(length < plain.len() * 3 / 4, "{name} {accepted}: {length} of {}", plain.len());
            }
            // The metrics count the requests in between.
            if *name != "the metrics" {
                assert!(decoded(answer).await == plain, "{name} {accepted}");
            }
        }
    }
    drop(requests);
    app.stop().await;
}

#[tokio::test]
async fn a_short_response_is_sent_as_it_is() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let answer = send(graphql_request(&ada, "{ __typename }"), "gzip, zstd").await;
    assert_eq!((coding(&answer), varies(&answer)), (None, true));
    // The bodies of both are JSON without white space around their alias.
    let of_length = async |length: usize| {
        let around = decoded(send(graphql_request(&ada, "{ a: __typename }"), "").await).await.len() - 1;
        let alias = "a".repeat(length - around);
        let answer = send(graphql_request(&ada, &format!("{{ {alias}: __typename }}")), "gzip").await;
        let is_compressed = coding(&answer).is_some();
        assert_eq!(decoded(answer).await.len(), length);
        is_compressed
    };
    assert_eq!((of_length(1_023).await, of_length(1_024).await), (false, true));
    app.stop().await;
}

/// The label of tokens, which is repeated in responses with the token beside it.
fn label() -> String {
    "label ".repeat(30)
}

#[tokio::test]
async fn secrets_are_not_compressed_beside_text_of_the_request() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let all = "gzip, br, zstd";
    // Responses are longer than the threshold, or no response of theirs is compressed at all.
    let create = format!(
        "mutation {{ createToken(input: {{ label: \"{}\", scopes: [READ] }}) {{ secret {} }} }}",
        "x".repeat(200),
        (0..20).fold(String::new(), |text, n| format!("{text}t{n}: token {{ label }} "))
    );
    let created = send(graphql_request(&ada, &create), all).await;
    assert_eq!((coding(&created), varies(&created)), (None, false));
    let created: Value = serde_json::from_slice(&decoded(created).await).unwrap();
    assert!(created.to_string().len() > 2_048, "{created}");
    assert!(created["data"]["createToken"]["secret"].is_string(), "{created}");

    let request = app.anonymous(Method::POST, "/api/v1/api-tokens-no-user/");
    let request = request.header("Content-Type", "application/x-www-form-urlencoded");
    let token_request: Value =
        request.body(format!("label={}", label())).send().await.unwrap().json().await.unwrap();
    let request_id = token_request["identifier"].as_str().unwrap();
    let with_cookie = |method: Method, path: &str| browser.request(method, path);
    let long = "x".repeat(1_500);
    let tokens = ada.request(Method::POST, "/api/v1/api-tokens/").json(&json!({ "label": label() }));
    for (name, request) in [
        ("a token", tokens),
        ("the session", with_cookie(Method::GET, "/api/v1/session")),
        ("the list of tokens", ada.request(Method::GET, "/api/v1/api-tokens/")),
        ("the front page", with_cookie(Method::GET, "/")),
        ("the password", with_cookie(Method::GET, "/password")),
        ("a request for a token", with_cookie(Method::GET, &format!("/activate-token?id={request_id}"))),
        ("sign-in", Browser::new(&app).request(Method::GET, &format!("/sign-in?return_to=/{long}"))),
        ("an invitation", with_cookie(Method::GET, "/sign-in/invitation")),
        ("sign-in by link", Browser::new(&app).request(Method::GET, "/sign-in/link")),
    ] {
        let answer = send(request, all).await;
        assert!(answer.status().is_success(), "{name}: {}", answer.status());
        assert_eq!(coding(&answer), None, "{name}");
    }
    let form = [("username", long.as_str()), ("password", "wrong")];
    let request = browser.request(Method::POST, "/sign-in").header("Origin", app.url(""));
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(form);
    let request = request.header("Content-Type", "application/x-www-form-urlencoded").body(body.finish());
    let answer = send(request, all).await;
    assert_eq!((answer.status().as_u16(), coding(&answer)), (401, None));
    app.stop().await;
}

#[tokio::test]
async fn streams_are_sent_part_by_part() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..40 {
        ada.reported(&ReportBuilder::new(&format!("Scheduler-{number}"), 1).build()).await;
    }
    let export = send(ada.request(Method::GET, "/api/v1/export/clusters"), "gzip, zstd").await;
    assert_eq!((export.status().as_u16(), coding(&export)), (200, None));
    assert!(export.bytes().await.unwrap().len() > 1_024);
    let query = json!({ "query": "subscription { clusters(account: \"ada\") { cursor } }" });
    let events = ada.request(Method::POST, "/graphql").json(&query).header("Accept", "text/event-stream");
    let events = send(events, "gzip, zstd").await;
    assert_eq!((events.status().as_u16(), coding(&events)), (200, None));
    let single = json!({ "query": LARGE });
    let single = ada.request(Method::POST, "/graphql").json(&single).header("Accept", "text/event-stream");
    let single = send(single, "gzip, zstd").await;
    assert_eq!(
        (single.status().as_u16(), coding(&single)),
        (200, None),
        "an event is for a parser of events"
    );
    drop(events);
    app.stop().await;
}

#[tokio::test]
async fn lists_of_the_coiled_client_are_compressed() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..20 {
        ada.reported(&ReportBuilder::new(&format!("Scheduler-{number}"), 1).build()).await;
    }
    let request = || ada.request(Method::GET, "/api/v2/clusters/account/ada/");
    let plain = decoded(send(request(), "").await).await;
    let answer = send(request(), "gzip").await;
    assert_eq!(coding(&answer), Some("gzip"));
    assert_eq!(decoded(answer).await, plain);
    app.stop().await;
}
