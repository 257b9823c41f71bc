//! GraphQL over WebSockets: the messages, and the close codes.

mod credentials;
mod endurance;
mod subscription;

use std::time::Duration;

use harness::{Incoming, Member, ReportBuilder, Socket, TestApp};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{
    Bytes, Message, Utf8Bytes,
    protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    },
};

const NAME: &str = "{ viewer { user { name } } }";

/// The response to the same query over HTTP.
async fn over_http(member: &Member, query: &str) -> Value {
    let accept = ("Accept", "application/graphql-response+json");
    let request = member.request(Method::POST, "/graphql").header(accept.0, accept.1);
    request.json(&json!({ "query": query })).send().await.unwrap().json().await.unwrap()
}

fn next(id: &str, payload: &Value) -> Value {
    json!({ "id": id, "type": "next", "payload": payload })
}

fn complete(id: &str) -> Value {
    json!({ "id": id, "type": "complete" })
}

#[tokio::test]
async fn a_socket_answers_what_http_answers() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let mut socket = app.socket_of(&ada).await;
    // An identifier can be reused after its operation has ended.
    for query in [NAME, "{ viewer { account { clusters { nodes { schedulerId } } } } }", NAME] {
        socket.subscribe("a", query, json!({})).await;
        assert_eq!(socket.message().await, next("a", &over_http(&ada, query).await), "{query}");
        assert_eq!(socket.message().await, complete("a"));
    }
    // A partial failure is a result.
    let partly =
        "{ cluster(id: \"x\") { schedulerId } viewer { account { baseline(name: \"x\") { name } } } }";
    let wrong = "{ viewer { account { clusters(first: 0) { totalCount } } } }";
    for query in [partly, wrong] {
        let answer = over_http(&ada, query).await;
        socket.subscribe("a", query, json!({})).await;
        let kind = if answer.get("data").is_some() { "next" } else { "error" };
        let payload = if kind == "next" { &answer } else { &answer["errors"] };
        let message = socket.message().await;
        assert_eq!((&message["type"], &message["payload"]), (&json!(kind), payload), "{query}");
        if kind == "next" {
            assert_eq!(socket.message().await, complete("a"));
        }
    }
    let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { id } } }";
    let id = ada.query("query($n: ID!) { cluster(id: $n) { id } }", json!({ "n": number.to_string() })).await;
    socket.subscribe("b", stop, json!({ "id": id["cluster"]["id"] })).await;
    let stopped = socket.message().await;
    assert_eq!(stopped["payload"]["data"]["setDesiredState"]["cluster"], id["cluster"], "{stopped}");
    assert_eq!(socket.message().await, complete("b"));
    let state = ada.query("{ viewer { account { clusters { nodes { desiredState } } } } }", json!({})).await;
    assert_eq!(state["viewer"]["account"]["clusters"]["nodes"][0]["desiredState"], "STOPPED");
    app.stop().await;
}

#[tokio::test]
async fn a_refused_operation_returns_a_list_of_errors_and_nothing_follows() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut socket = app.socket_of(&ada).await;
    for (query, code) in [
        ("{", "GRAPHQL_PARSE_FAILED"),
        ("{ nonsense }", "GRAPHQL_VALIDATION_FAILED"),
        ("query A { __typename } query B { __typename }", "OPERATION_RESOLUTION_FAILURE"),
        ("query($n: Int!) { viewer { account { clusters(first: $n) { totalCount } } } }", "BAD_USER_INPUT"),
        ("", "GRAPHQL_PARSE_FAILED"),
    ] {
        let answer = over_http(&ada, query).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], code, "{query}: {answer}");
        socket.subscribe("a", query, json!({})).await;
        let expected = json!({ "id": "a", "type": "error", "payload": answer["errors"] });
        assert_eq!(socket.message().await, expected, "{query}");
    }
    let by_hash = json!({ "documentId": "sha256:unknown" });
    socket.send_message(&json!({ "type": "subscribe", "id": "a", "payload": by_hash })).await;
    let refused = socket.message().await;
    assert_eq!(refused["payload"][0]["extensions"]["code"], "PERSISTED_QUERY_NOT_SUPPORTED", "{refused}");
    socket.subscribe("a", NAME, json!({})).await;
    assert_eq!(socket.message().await["type"], "next", "nothing was left over");
    app.stop().await;
}

/// Sends a message with or without authentication, and returns the next item.
async fn end_after(app: &TestApp, member: Option<&Member>, message: Message) -> Incoming {
    let mut socket = match member {
        Some(member) => app.socket_of(member).await,
        None => app.socket().await,
    };
    socket.send(message).await;
    socket.receive().await
}

#[tokio::test]
async fn what_the_protocol_does_not_have_ends_the_socket() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let invalid = || Incoming::Closed(4400, "Invalid message received".to_owned());
    for text in [
        "",
        "nonsense",
        "{",
        "null",
        "[]",
        r#"["ping"]"#,
        "{}",
        r#"{"type":null}"#,
        r#"{"type":"nonsense"}"#,
        r#"{"type":"connection_ack"}"#,
        r#"{"type":"next","id":"a","payload":{"data":null}}"#,
        r#"{"type":"error","id":"a","payload":[]}"#,
        r#"{"type":"start","id":"a","payload":{"query":"{ __typename }"}}"#,
        r#"{"type":"stop","id":"a"}"#,
        r#"{"type":"connection_terminate"}"#,
        r#"{"type":"ping","payload":"x"}"#,
        r#"{"type":"pong","payload":[]}"#,
        r#"{"type":"complete"}"#,
        r#"{"type":"complete","id":""}"#,
        r#"{"type":"subscribe","id":"","payload":{"query":"{ __typename }"}}"#,
        r#"{"type":"subscribe","id":1,"payload":{"query":"{ __typename }"}}"#,
        r#"{"type":"subscribe","payload":{"query":"{ __typename }"}}"#,
        r#"{"type":"subscribe","id":"a"}"#,
        r#"{"type":"subscribe","id":"a","payload":{}}"#,
        r#"{"type":"subscribe","id":"a","payload":{"query":{}}}"#,
        r#"{"type":"subscribe","id":"a","payload":{"query":"{ __typename }","variables":"x"}}"#,
        r#"{"type":"subscribe","id":"a","payload":{"query":"{ __typename }","operationName":{}}}"#,
        r#"{"type":"subscribe","id":"a","payload":{"query":"{ __typename }","extensions":[]}}"#,
    ] {
        for member in [None, Some(&ada)] {
            assert_eq!(end_after(&app, member, Message::text(text)).await, invalid(), "{text}");
        }
    }
    // An init payload must be an object.
    for payload in ["\"x\"", "[]", "1"] {
        let text = format!(r#"{{"type":"connection_init","payload":{payload}}}"#);
        assert_eq!(end_after(&app, None, Message::text(text)).await, invalid(), "{payload}");
    }
    let greeting = r#"{"type":"connection_init"}"#;
    assert_eq!(end_after(&app, Some(&ada), Message::binary(greeting)).await, invalid());
    app.stop().await;
}

#[tokio::test]
async fn frames_are_bounded_and_of_the_protocol() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let frame = |bytes: Vec<u8>, data, last| {
        Message::Frame(Frame::message(Bytes::from(bytes), OpCode::Data(data), last))
    };
    let long = || vec![b' '; 300 << 10];
    for (case, message, code) in [
        ("a large message", Message::text(String::from_utf8(long()).unwrap()), 1009),
        ("a large binary one", Message::binary(long()), 1009),
        ("no UTF-8", frame(b"\"\xff\"".to_vec(), Data::Text, true), 1007),
        ("what goes on without having begun", frame(b"{}".to_vec(), Data::Continue, true), 1002),
    ] {
        for member in [None, Some(&ada)] {
            let end = end_after(&app, member, message.clone()).await;
            assert!(matches!(end, Incoming::Closed(found, _) if found == code), "{case}: {end:?}");
        }
    }
    // The size limit applies to the sum of the fragments.
    let mut socket = app.socket_of(&ada).await;
    socket.send(frame(vec![b' '; 200 << 10], Data::Text, false)).await;
    socket.send(frame(vec![b' '; 200 << 10], Data::Continue, true)).await;
    assert_eq!(socket.close_code().await, 1009);

    let mut socket = app.socket_of(&ada).await;
    let payload = json!({ "query": format!("{NAME} #{}", "x".repeat(60_000)), "extensions": { "x": "y".repeat(190_000) } });
    let text = json!({ "type": "subscribe", "id": "a", "payload": payload }).to_string();
    assert!(text.len() < 256 << 10);
    let (begin, rest) = text.split_at(1_000);
    socket.send(frame(begin.into(), Data::Text, false)).await;
    socket.send(Message::Ping(Bytes::from_static(b"between"))).await;
    socket.send(frame(rest.into(), Data::Continue, true)).await;
    assert_eq!(socket.frame().await, Some(Message::Pong(Bytes::from_static(b"between"))));
    assert_eq!(socket.message().await["payload"]["data"]["viewer"]["user"]["name"], "ada");
    app.stop().await;
}

#[tokio::test]
async fn pings_are_answered_before_and_after_the_greeting() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for mut socket in [app.socket().await, app.socket_of(&ada).await] {
        for payload in [json!({}), json!({ "a": [1, "ä"] })] {
            socket.send_message(&json!({ "type": "ping", "payload": payload })).await;
            assert_eq!(socket.message().await, json!({ "type": "pong", "payload": payload }));
        }
        for ping in [json!({ "type": "ping" }), json!({ "type": "ping", "payload": null })] {
            socket.send_message(&ping).await;
            assert_eq!(socket.message().await, json!({ "type": "pong" }));
        }
        // A pong, and a complete message for an unknown operation, get no response.
        socket.send_message(&json!({ "type": "pong" })).await;
        socket.send_message(&json!({ "type": "complete", "id": "a" })).await;
        socket.send_message(&json!({ "type": "ping" })).await;
        assert_eq!(socket.message().await, json!({ "type": "pong" }));
    }
    app.stop().await;
}

#[tokio::test]
async fn a_socket_begins_once_and_soon() {
    let app =
        TestApp::start_with(|serve| serve.timeouts.authentication_timeout = Duration::from_millis(300)).await;
    let ada = app.account("ada").await;
    let mut socket = app.socket_of(&ada).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    socket.subscribe("a", NAME, json!({})).await;
    assert_eq!(socket.message().await["type"], "next", "who has begun has time");
    assert_eq!(socket.message().await, complete("a"));
    socket.send_message(&json!({ "type": "connection_init" })).await;
    let too_many = Incoming::Closed(4429, "Too many initialisation requests".to_owned());
    assert_eq!(socket.receive().await, too_many);

    let mut silent = app.socket().await;
    silent.send_message(&json!({ "type": "ping" })).await;
    assert_eq!(silent.message().await, json!({ "type": "pong" }));
    let timeout = Incoming::Closed(4408, "Connection initialisation timeout".to_owned());
    assert_eq!(silent.receive().await, timeout);

    let mut early = app.socket().await;
    early.subscribe("a", NAME, json!({})).await;
    assert_eq!(early.receive().await, Incoming::Closed(4401, "Unauthorized".to_owned()));
    app.stop().await;
}

#[tokio::test]
async fn the_protocol_is_the_clients_first_choice() {
    let app = TestApp::start().await;
    for (offered, chosen) in [
        ("graphql-transport-ws", "graphql-transport-ws"),
        ("graphql-ws", "graphql-ws"),
        ("graphql-ws, graphql-transport-ws", "graphql-ws"),
        ("graphql-transport-ws, graphql-ws", "graphql-transport-ws"),
        ("mqtt,graphql-transport-ws", "graphql-transport-ws"),
    ] {
        let socket = app.socket_with(&[("Sec-WebSocket-Protocol", offered)]).await.unwrap();
        assert_eq!(socket.protocol.as_deref(), Some(chosen), "{offered}");
    }
    let mut socket = app.socket_with(&[]).await.unwrap();
    assert_eq!(socket.protocol, None);
    assert_eq!(socket.receive().await, Incoming::Closed(4406, "Subprotocol not acceptable".to_owned()));
    app.stop().await;
}

#[tokio::test]
async fn the_older_protocol_has_the_same_messages_under_other_names() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let open = async || app.socket_with(&[("Sec-WebSocket-Protocol", "graphql-ws")]).await.unwrap();
    let mut socket = open().await;
    let credentials = json!({ "Authorization": format!("Bearer {}", ada.secret()) });
    socket.send_message(&json!({ "type": "connection_init", "payload": credentials })).await;
    assert_eq!(socket.message().await, json!({ "type": "connection_ack" }));
    let start = |query: &str| json!({ "type": "start", "id": "a", "payload": { "query": query } });
    socket.send_message(&start(NAME)).await;
    let result = over_http(&ada, NAME).await;
    assert_eq!(socket.message().await, json!({ "id": "a", "type": "data", "payload": result }));
    assert_eq!(socket.message().await, complete("a"));
    socket.send_message(&start("{ nonsense }")).await;
    let refused = over_http(&ada, "{ nonsense }").await;
    assert_eq!(
        socket.message().await,
        json!({ "id": "a", "type": "error", "payload": refused["errors"][0] })
    );
    socket.send_message(&json!({ "type": "connection_terminate" })).await;
    assert_eq!(socket.close_code().await, 1000);

    for text in
        [r#"{"type":"subscribe","id":"a","payload":{"query":"{ __typename }"}}"#, r#"{"type":"ping"}"#]
    {
        let mut socket = open().await;
        socket.send(Message::Text(Utf8Bytes::from_static(text))).await;
        assert_eq!(socket.close_code().await, 4400, "{text}");
    }
    app.stop().await;
}

#[tokio::test]
async fn an_upgrade_that_is_none_of_ours_is_refused() {
    let app = TestApp::start().await;
    let good = [
        ("Connection", "keep-alive, Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let answer = async |headers: &[(&str, &str)]| {
        let mut request = app.anonymous(Method::GET, "/graphql");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    };
    let accepted = answer(&good).await;
    assert_eq!(accepted.status(), 101);
    // The example of RFC 6455.
    assert_eq!(accepted.headers()["Sec-WebSocket-Accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    for (place, value) in [(0, "close"), (1, "h2c"), (2, "12"), (3, "dGhl")] {
        let mut headers = good;
        headers[place].1 = value;
        let refused = answer(&headers).await;
        assert_eq!(refused.status(), 400, "{headers:?}");
        assert_eq!(refused.json::<Value>().await.unwrap()["code"], "UPGRADE", "{headers:?}");
    }
    let posted = app.anonymous(Method::POST, "/graphql").header("Connection", "Upgrade");
    assert_eq!(posted.header("Upgrade", "websocket").send().await.unwrap().status(), 415);
    app.stop().await;
}

/// The global identifier of a member's user.
async fn user(member: &Member, name: &str) -> Value {
    let query = "{ viewer { account { members { nodes { user { id name } } } } } }";
    let answer = member.query(query, json!({})).await;
    let mut members = answer["viewer"]["account"]["members"]["nodes"].as_array().unwrap().iter();
    members.find(|member| member["user"]["name"] == name).unwrap()["user"]["id"].clone()
}

/// Ends a membership.
async fn remove(member: &Member, name: &str) {
    let remove = "mutation($user: ID!) { removeMember(user: $user) { userErrors { code } } }";
    let removed = member.query(remove, json!({ "user": user(member, name).await })).await;
    assert_eq!(removed["removeMember"]["userErrors"], json!([]));
}

/// Checks that a socket has no further messages.
async fn expect_silence(socket: &mut Socket) {
    let received = socket.receive_within(Duration::from_millis(50)).await;
    assert_eq!(received, None);
}
