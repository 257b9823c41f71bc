//! Credentials on sockets: the ways to present them, and sockets whose credentials become invalid.

use entity::{api_token::Scope, membership::Role};
use harness::{Browser, Incoming, Member, ReportBuilder, Socket, TestApp};
use serde_json::{Value, json};

use super::{NAME, complete, expect_silence, remove};

const PROTOCOL: (&str, &str) = ("Sec-WebSocket-Protocol", "graphql-transport-ws");

/// Opens a socket with headers and an init payload, and returns its first response.
async fn greeted(app: &TestApp, headers: &[(&str, &str)], payload: Value) -> (Socket, Incoming) {
    let mut socket = app.socket_with(&[&[PROTOCOL], headers].concat()).await.unwrap();
    socket.send_message(&json!({ "type": "connection_init", "payload": payload })).await;
    let received = socket.receive().await;
    (socket, received)
}

fn ended(code: u16) -> Incoming {
    let reason = match code {
        4401 => "Unauthorized",
        4403 => "Forbidden",
        _ => "Invalid message received",
    };
    Incoming::Closed(code, reason.to_owned())
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// The account and the user of a socket.
async fn who(socket: &mut Socket) -> Value {
    socket.subscribe("who", "{ viewer { user { name } account { slug } } }", json!({})).await;
    let answer = socket.message().await;
    assert_eq!(socket.message().await, complete("who"));
    let viewer = &answer["payload"]["data"]["viewer"];
    json!([viewer["user"]["name"], viewer["account"]["slug"]])
}

#[tokio::test]
async fn a_token_is_shown_by_the_upgrade_or_by_the_greeting() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let (of_ada, of_bob) = (bearer(ada.secret()), bearer(bob.secret()));
    let acknowledged = Incoming::Message(json!({ "type": "connection_ack" }));
    for (headers, payload) in [
        (vec![("Authorization", of_ada.as_str())], json!({})),
        (vec![], json!({ "Authorization": of_ada })),
        (vec![], json!({ "authorization": of_ada, "Galvo-Account": "ada", "other": [1] })),
        (vec![], json!({ "AUTHORIZATION": of_ada.replace("Bearer", "ApiToken") })),
        (vec![("Authorization", of_ada.as_str())], json!({ "authorization": of_ada })),
        (
            vec![("Authorization", of_ada.as_str()), ("Galvo-Account", "ada")],
            json!({ "galvo-account": "ada" }),
        ),
    ] {
        let (mut socket, received) = greeted(&app, &headers, payload.clone()).await;
        assert_eq!(received, acknowledged, "{headers:?} {payload}");
        assert_eq!(who(&mut socket).await, json!(["ada", "ada"]));
    }
    let ingest = bearer(&ada.token(&[Scope::Ingest], None).await);
    for (headers, payload, code) in [
        (vec![], json!({}), 4401),
        (vec![], json!({ "Authorization": "Bearer nonsense" }), 4401),
        (vec![], json!({ "Authorization": 1 }), 4401),
        // If two of them differ, neither is accepted.
        (vec![("Authorization", of_bob.as_str())], json!({ "authorization": of_ada }), 4401),
        (vec![], json!({ "Authorization": of_ada, "authorization": of_bob }), 4401),
        (vec![], json!({ "Authorization": ingest }), 4403),
        (vec![], json!({ "Authorization": of_ada, "Galvo-Account": "bob" }), 4403),
        (vec![], json!({ "Authorization": of_ada, "Galvo-Account": "nobody" }), 4403),
    ] {
        let (_, received) = greeted(&app, &headers, payload.clone()).await;
        assert_eq!(received, ended(code), "{headers:?} {payload}");
    }
    // Of the headers, invalid credentials are refused before the upgrade. The payload may select the
    // account.
    for authorizations in [
        vec!["Basic YTpi"],
        vec!["Bearer nonsense"],
        vec!["Bearer aaaaaaaaaaaaaaaaaaaaaa-nonsense"],
        vec![of_ada.as_str(), of_ada.as_str()],
    ] {
        let headers: Vec<_> =
            authorizations.iter().map(|value| ("Authorization", *value)).chain([PROTOCOL]).collect();
        assert_eq!(app.socket_with(&headers).await.err(), Some(401), "{authorizations:?}");
    }
    let headers = [("Authorization", of_ada.as_str()), ("Galvo-Account", "bob")];
    assert_eq!(greeted(&app, &headers, json!({})).await.1, ended(4403));
    app.stop().await;
}

/// The headers of a socket that a page opens.
fn of_page<'a>(cookie: &'a str, origin: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let origin = origin.map(|origin| ("Origin", origin));
    [PROTOCOL, ("Cookie", cookie)].into_iter().chain(origin).collect()
}

fn cookie(browser: &Browser) -> String {
    format!("galvo_session={}", browser.cookie("galvo_session").unwrap())
}

#[tokio::test]
async fn a_session_opens_a_socket_for_our_own_pages_alone() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let browser = app.browser(&ada).await;
    let (cookie, here) = (cookie(&browser), app.url(""));
    let other = here.replace("127.0.0.1", "localhost");
    for origin in [None, Some("https://evil.example"), Some("null"), Some(other.as_str())] {
        let refused = app.socket_with(&of_page(&cookie, origin)).await;
        assert_eq!(refused.err(), Some(403), "{origin:?}");
    }
    let mut from_elsewhere = of_page(&cookie, Some(&here));
    from_elsewhere.push(("Sec-Fetch-Site", "same-site"));
    assert_eq!(app.socket_with(&from_elsewhere).await.err(), Some(403));

    let mut socket = app.socket_with(&of_page(&cookie, Some(&here))).await.unwrap();
    socket.send_message(&json!({ "type": "connection_init" })).await;
    assert_eq!(socket.message().await, json!({ "type": "connection_ack" }));
    assert_eq!(who(&mut socket).await, json!(["ada", "ada"]));
    let mutation = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { id } } }";
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let query = "query($n: ID!) { cluster(id: $n) { id } }";
    let id = ada.query(query, json!({ "n": number.to_string() })).await["cluster"]["id"].take();
    socket.subscribe("a", mutation, json!({ "id": id })).await;
    let changed = socket.message().await;
    assert_eq!(changed["payload"]["data"]["setDesiredState"]["cluster"]["id"], id, "{changed}");

    // A token takes precedence over the session, whoever owns it.
    let mut socket = app.socket_with(&of_page(&cookie, Some(&here))).await.unwrap();
    socket
        .send_message(
            &json!({ "type": "connection_init", "payload": { "Authorization": bearer(bob.secret()) } }),
        )
        .await;
    assert_eq!(socket.message().await, json!({ "type": "connection_ack" }));
    assert_eq!(who(&mut socket).await, json!(["bob", "bob"]));
    let mut socket = app.socket_with(&of_page(&cookie, Some(&here))).await.unwrap();
    socket
        .send_message(
            &json!({ "type": "connection_init", "payload": { "Authorization": "Bearer nonsense" } }),
        )
        .await;
    assert_eq!(socket.receive().await, ended(4401));
    app.stop().await;
}

#[tokio::test]
async fn a_socket_ends_with_its_credentials() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let until = "2026-11-20T13:00:00Z".parse().unwrap();
    let expiring = ada.with_token(ada.token(&[Scope::Read], Some(until)).await);
    let mut socket = app.socket_of(&expiring).await;
    let mut lasting = app.socket_of(&ada).await;
    app.set_clock("2026-11-20T12:59:59Z");
    expect_silence(&mut socket).await;
    app.set_clock("2026-11-20T13:00:00Z");
    assert_eq!(socket.receive().await, ended(4401));

    let token = ada.token(&[Scope::Read], None).await;
    let revoked = ada.with_token(token.clone());
    let mut socket = app.socket_of(&revoked).await;
    revoke(&ada, &token).await;
    assert_eq!(socket.receive().await, ended(4401));

    let guest = app.member_with("gil", "ada", Role::Viewer).await;
    let mut socket = app.socket_of(&guest).await;
    remove(&ada, "gil").await;
    assert_eq!(socket.receive().await, ended(4401));

    let browser = app.browser(&ada).await;
    let (cookie, here) = (cookie(&browser), app.url(""));
    let mut socket = app.socket_with(&of_page(&cookie, Some(&here))).await.unwrap();
    socket.send_message(&json!({ "type": "connection_init" })).await;
    assert_eq!(socket.message().await, json!({ "type": "connection_ack" }));
    browser.submit("/sign-out", &[("csrf", &browser.csrf().await)]).await;
    assert_eq!(socket.receive().await, ended(4401));

    expect_silence(&mut lasting).await;
    assert_eq!(who(&mut lasting).await, json!(["ada", "ada"]));
    app.stop().await;
}

/// Revokes a token. The part before the dash is its identifier.
async fn revoke(member: &Member, token: &str) {
    let revoke =
        "mutation($identifier: String!) { revokeToken(identifier: $identifier) { userErrors { code } } }";
    let (identifier, _) = token.split_once('-').unwrap();
    let revoked = member.query(revoke, json!({ "identifier": identifier })).await;
    assert_eq!(revoked["revokeToken"]["userErrors"], json!([]));
}

#[tokio::test]
async fn each_operation_begins_with_good_credentials() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let token = ada.token(&[Scope::Read], None).await;
    let mut socket = app.socket_of(&ada.with_token(token.clone())).await;
    assert_eq!(who(&mut socket).await, json!(["ada", "ada"]));
    revoke(&ada, &token).await;
    socket.subscribe("a", NAME, json!({})).await;
    assert_eq!(socket.receive().await, ended(4401));
    app.stop().await;
}

#[tokio::test]
async fn operations_cost_what_they_cost_over_http() {
    let app = TestApp::start_with(|serve| {
        serve.max_query_cost = 1_000;
        serve.query_cost_per_minute = 2_003;
    })
    .await;
    let ada = app.account("ada").await;
    let mut socket = app.socket_of(&ada).await;
    socket.subscribe("a", "{ rateLimit { cost remaining } }", json!({})).await;
    let first = socket.message().await;
    let rate_limit = |remaining| json!({ "rateLimit": { "cost": 3, "remaining": remaining } });
    assert_eq!(first["payload"]["data"], rate_limit(2_000), "{first}");
    assert_eq!(socket.message().await, complete("a"));
    // A refusal costs a thousand points, even if fewer remain: two are paid for, and a third one if the
    // bucket has gained a point by then, which takes 30 milliseconds.
    let mut refusals = 0;
    let last = loop {
        socket.subscribe("a", "{ nonsense }", json!({})).await;
        let refused = socket.message().await;
        assert_eq!(refused["type"], "error", "{refused}");
        match refused["payload"][0]["extensions"]["code"].as_str().unwrap() {
            "GRAPHQL_VALIDATION_FAILED" => refusals += 1,
            other => break other.to_owned(),
        }
    };
    assert_eq!(last, "RATE_LIMITED");
    assert!((2..=3).contains(&refusals), "{refusals}");
    // The same bucket applies to all transports, and an empty one closes no socket.
    assert_eq!(ada.ask(NAME, json!({})).await["errors"][0]["extensions"]["code"], "RATE_LIMITED");
    expect_silence(&mut socket).await;
    app.stop().await;
}
