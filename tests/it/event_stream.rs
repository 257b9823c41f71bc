//! GraphQL over server-sent events.

use std::time::Duration;

use entity::api_token::Scope;
use harness::{Member, ReportBuilder, TestApp};
use reqwest::{Method, RequestBuilder, Response, header};
use serde_json::{Value, json};

const NAME: &str = "{ viewer { user { name } } }";

const CLUSTERS: &str =
    "subscription { clusters(account: \"ada\") { cursor gap cluster { schedulerId now { workers } } } }";

/// The events of a stream.
struct Events {
    response: Response,
    rest: Vec<u8>,
}

#[derive(Debug, PartialEq)]
enum Event {
    /// A result.
    Next(Value),
    /// The end of the results.
    Complete,
    /// A keep-alive comment.
    Comment,
    /// The end of the connection, without a partial event.
    Ended,
}

impl Events {
    /// Sends a request whose response is a stream of events.
    async fn of(request: RequestBuilder) -> Self {
        let response = request.header(header::ACCEPT, "text/event-stream").send().await.unwrap();
        let status = response.status();
        let content_type = response.headers()[header::CONTENT_TYPE].clone();
        assert_eq!(
            (status.as_u16(), content_type.to_str().unwrap()),
            (200, "text/event-stream; charset=utf-8")
        );
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
        Self { response, rest: Vec::new() }
    }

    async fn next(&mut self) -> Event {
        loop {
            if let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.rest.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                let lines: Vec<&str> = event.trim_end().lines().collect();
                return match lines[..] {
                    [":"] => Event::Comment,
                    ["event: next", data] => {
                        Event::Next(serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap())
                    }
                    ["event: complete", "data:"] => Event::Complete,
                    _ => panic!("{event}"),
                };
            }
            let chunk = tokio::time::timeout(Duration::from_secs(20), self.response.chunk()).await;
            let Some(chunk) = chunk.expect("something comes").unwrap() else {
                assert_eq!(self.rest, b"");
                return Event::Ended;
            };
            self.rest.extend_from_slice(&chunk);
        }
    }

    /// The next result.
    async fn result(&mut self) -> Value {
        loop {
            match self.next().await {
                Event::Comment => {}
                Event::Next(result) => return result,
                other => panic!("{other:?}"),
            }
        }
    }
}

fn post(member: &Member, query: &str) -> RequestBuilder {
    member.request(Method::POST, "/graphql").json(&json!({ "query": query }))
}

fn get(member: &Member, query: &str) -> RequestBuilder {
    member.request(Method::GET, "/graphql").query(&[("query", query)])
}

fn code(answer: &Value) -> &str {
    answer["errors"][0]["extensions"]["code"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn what_is_answered_once_is_one_event() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for query in [NAME, "{ viewer { account { clusters(first: 0) { totalCount } } } }", "{ nonsense }", "{"] {
        let answer = ada.ask(query, json!({})).await;
        for request in [post(&ada, query), get(&ada, query)] {
            let mut events = Events::of(request).await;
            assert_eq!(events.next().await, Event::Next(answer.clone()), "{query}");
            assert_eq!((events.next().await, events.next().await), (Event::Complete, Event::Ended));
        }
    }
    let mutation = "mutation { setDesiredState(cluster: \"x\", state: STOPPED) { cluster { id } } }";
    let mut events = Events::of(post(&ada, mutation)).await;
    assert_eq!(code(&events.result().await), "NOT_FOUND");
    app.stop().await;
}

#[tokio::test]
async fn what_is_no_request_has_a_status() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mutation = "mutation { setDesiredState(cluster: \"x\", state: STOPPED) { cluster { id } } }";
    let ingest = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let nobody = app.bearer("nonsense".to_owned(), None);
    let text = ada.request(Method::POST, "/graphql").header(header::CONTENT_TYPE, "text/plain").body("{}");
    for (request, status, expected) in [
        (get(&ada, mutation), 405, "METHOD_NOT_ALLOWED"),
        (get(&nobody, CLUSTERS), 401, "UNAUTHENTICATED"),
        (post(&ingest, CLUSTERS), 403, "MISSING_SCOPE"),
        (text, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (ada.request(Method::POST, "/graphql").json(&json!({})), 400, "INVALID_BODY"),
    ] {
        let refused = request.header(header::ACCEPT, "text/event-stream").send().await.unwrap();
        assert_eq!(refused.status(), status, "{expected}");
        assert_eq!(refused.headers()[header::CONTENT_TYPE], "application/json; charset=utf-8");
        assert_eq!(code(&refused.json().await.unwrap()), expected);
    }
    // A subscription has no single response.
    for request in [post(&ada, CLUSTERS), get(&ada, CLUSTERS)] {
        let refused = request.header(header::ACCEPT, "application/json").send().await.unwrap();
        assert_eq!(refused.status(), 406);
        assert_eq!(code(&refused.json().await.unwrap()), "NOT_ACCEPTABLE");
    }
    // The first supported media type is chosen.
    for (accept, content_type) in [
        ("text/event-stream, multipart/mixed", "text/event-stream; charset=utf-8"),
        ("application/json, text/event-stream", "application/json; charset=utf-8"),
    ] {
        let answer = post(&ada, NAME).header(header::ACCEPT, accept).send().await.unwrap();
        assert_eq!(answer.headers()[header::CONTENT_TYPE], content_type);
    }
    app.stop().await;
}

#[tokio::test]
async fn a_session_needs_its_token_to_post_and_none_to_read() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let accept = (header::ACCEPT, "text/event-stream");
    let read = browser.request(Method::GET, "/graphql").query(&[("query", NAME)]);
    assert_eq!(Events::of(read).await.result().await["data"]["viewer"]["user"]["name"], "ada");
    let read = browser.request(Method::GET, "/graphql").query(&[("query", CLUSTERS)]);
    let from_elsewhere =
        read.header(header::ORIGIN, "https://evil.example").header(accept.0.clone(), accept.1);
    assert_eq!(from_elsewhere.send().await.unwrap().status(), 403);
    let post = || browser.request(Method::POST, "/graphql").json(&json!({ "query": NAME }));
    assert_eq!(post().header(accept.0, accept.1).send().await.unwrap().status(), 403);
    let mut events = Events::of(post().header("Galvo-CSRF", browser.csrf().await)).await;
    assert_eq!(events.result().await["data"]["viewer"]["user"]["name"], "ada");
    app.stop().await;
}

#[tokio::test]
async fn a_subscription_goes_on_until_its_credentials_end() {
    let app =
        TestApp::start_with(|serve| serve.timeouts.heartbeat_interval = Duration::from_millis(50)).await;
    let ada = app.account("ada").await;
    let token = ada.token(&[Scope::Read], None).await;
    let reader = ada.with_token(token.clone());
    let (mut by_post, mut by_get) =
        (Events::of(post(&reader, CLUSTERS)).await, Events::of(get(&ada, CLUSTERS)).await);
    for _ in 0..3 {
        // The first one arrives at once, and more follow.
        assert_eq!((by_post.next().await, by_get.next().await), (Event::Comment, Event::Comment));
    }
    for sequence in 1..3 {
        let report = ReportBuilder::new("Scheduler-1", sequence).with("/cluster/workers", sequence).build();
        ada.reported(&report).await;
        for events in [&mut by_post, &mut by_get] {
            let mut result = events.result().await;
            let change = &mut result["data"]["clusters"];
            assert!(change["cursor"].take().is_string());
            let cluster = json!({ "schedulerId": "Scheduler-1", "now": { "workers": sequence } });
            assert_eq!(*change, json!({ "cursor": null, "gap": false, "cluster": cluster }));
        }
    }
    let revoke =
        "mutation($identifier: String!) { revokeToken(identifier: $identifier) { userErrors { code } } }";
    let (identifier, _) = token.split_once('-').unwrap();
    ada.query(revoke, json!({ "identifier": identifier })).await;
    assert_eq!(code(&by_post.result().await), "UNAUTHENTICATED");
    assert_eq!((by_post.next().await, by_post.next().await), (Event::Complete, Event::Ended));

    // A server that stops ends the stream without a final event, and clients reconnect.
    let end = async {
        loop {
            match by_get.next().await {
                Event::Comment => {}
                end => break end,
            }
        }
    };
    assert_eq!(tokio::join!(app.stop(), end).1, Event::Ended);
}
