//! Subscriptions on a socket: their identifiers, their fairness, and their end.

use std::time::Duration;

use entity::membership::Role;
use harness::{Incoming, Member, ReportBuilder, Socket, TestApp, event};
use serde_json::{Value, json};

use super::{complete, expect_silence, remove, user};

const CLUSTERS: &str = "subscription($ids: [ID!]) { clusters(account: \"ada\", ids: $ids) {
    cursor cluster { id schedulerId now { workers } } } }";

const EVENTS: &str = "subscription($after: String) { events(account: \"ada\", after: $after) {
    cursor events { at topic } } }";

/// A report of a cluster with this number of workers.
fn report(scheduler: &str, sequence: i64) -> Value {
    ReportBuilder::new(scheduler, sequence).with("/cluster/workers", sequence).build()
}

/// The global identifier of a cluster that has reported once.
async fn cluster(member: &Member, scheduler: &str) -> Value {
    let number = member.reported(&report(scheduler, 1)).await;
    let query = "query($n: ID!) { cluster(id: $n) { id } }";
    member.query(query, json!({ "n": number.to_string() })).await["cluster"]["id"].take()
}

/// Reports until the socket receives a message, because nothing signals that a subscription has started.
/// Returns the message and the sequence of the last report.
async fn first_of(socket: &mut Socket, member: &Member, scheduler: &str) -> (Value, i64) {
    for sequence in 2..200 {
        member.reported(&report(scheduler, sequence)).await;
        if let Some(item) = socket.receive_within(Duration::from_millis(200)).await {
            let Incoming::Message(message) = item else { panic!("{item:?}") };
            return (message, sequence);
        }
    }
    panic!("nothing was received");
}

#[tokio::test]
async fn a_name_has_one_operation_at_a_time() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    cluster(&ada, "Scheduler-1").await;
    let mut socket = app.socket_of(&ada).await;
    socket.subscribe("a", CLUSTERS, json!({})).await;
    let (message, sequence) = first_of(&mut socket, &ada, "Scheduler-1").await;
    assert_eq!((&message["id"], &message["type"]), (&json!("a"), &json!("next")), "{message}");
    let change = &message["payload"]["data"]["clusters"];
    assert_eq!(change["cluster"]["now"]["workers"], sequence);
    assert!(change["cursor"].is_string(), "{message}");

    // A subscription that the client ends gets no confirmation, and its identifier is free.
    socket.send_message(&complete("a")).await;
    ada.reported(&report("Scheduler-1", sequence + 1)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    while let Some(item) = socket.receive_within(Duration::from_millis(50)).await {
        // A message that was in flight when the client ended it.
        assert!(matches!(&item, Incoming::Message(message) if message["type"] == "next"), "{item:?}");
    }
    ada.reported(&report("Scheduler-1", sequence + 2)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    expect_silence(&mut socket).await;
    socket.subscribe("a", CLUSTERS, json!({})).await;
    socket.subscribe("b", CLUSTERS, json!({})).await;
    socket.subscribe("a", "{ __typename }", json!({})).await;
    let taken = Incoming::Closed(4409, "Subscriber for this id already exists".to_owned());
    assert_eq!(socket.receive().await, taken);
    app.stop().await;
}

#[tokio::test]
async fn the_older_protocol_receives_the_end_of_what_it_stopped() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    cluster(&ada, "Scheduler-1").await;
    let mut socket = app.socket_with(&[("Sec-WebSocket-Protocol", "graphql-ws")]).await.unwrap();
    let credentials = json!({ "Authorization": format!("Bearer {}", ada.secret()) });
    socket.send_message(&json!({ "type": "connection_init", "payload": credentials })).await;
    assert_eq!(socket.message().await, json!({ "type": "connection_ack" }));
    socket.send_message(&json!({ "type": "start", "id": "1", "payload": { "query": CLUSTERS } })).await;
    let (message, _) = first_of(&mut socket, &ada, "Scheduler-1").await;
    assert_eq!((&message["id"], &message["type"]), (&json!("1"), &json!("data")), "{message}");
    socket.send_message(&json!({ "type": "stop", "id": "1" })).await;
    loop {
        match socket.message().await {
            message if message["type"] == "data" => {}
            message => break assert_eq!(message, complete("1")),
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn a_subscription_that_is_refused_is_refused_as_any_operation() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let of_bob = cluster(&bob, "Scheduler-1").await;
    let mut socket = app.socket_of(&ada).await;
    let two = "subscription { clusters(account: \"ada\") { cursor } events(account: \"ada\") { cursor } }";
    let fast = "subscription { snapshots(account: \"ada\", everySeconds: 0.5) { cursor } }";
    for (query, variables, code) in [
        (two, json!({}), "GRAPHQL_VALIDATION_FAILED"),
        ("subscription { nonsense }", json!({}), "GRAPHQL_VALIDATION_FAILED"),
        ("subscription { clusters(account: \"bob\") { cursor } }", json!({}), "NOT_FOUND"),
        (CLUSTERS, json!({ "ids": [of_bob] }), "NOT_FOUND"),
        (EVENTS, json!({ "after": "nonsense" }), "BAD_USER_INPUT"),
        (fast, json!({}), "BAD_USER_INPUT"),
    ] {
        socket.subscribe("a", query, variables).await;
        let refused = socket.message().await;
        assert_eq!((&refused["type"], &refused["id"]), (&json!("error"), &json!("a")), "{query}: {refused}");
        assert_eq!(refused["payload"][0]["extensions"]["code"], code, "{query}: {refused}");
    }
    expect_silence(&mut socket).await;
    app.stop().await;
}

#[tokio::test]
async fn two_hundred_operations_are_enough() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut socket = app.socket_of(&ada).await;
    for number in 0..200 {
        socket.subscribe(&number.to_string(), CLUSTERS, json!({})).await;
    }
    socket.subscribe("one more", "{ __typename }", json!({})).await;
    let refused = socket.message().await;
    assert_eq!((&refused["type"], &refused["id"]), (&json!("error"), &json!("one more")), "{refused}");
    assert_eq!(refused["payload"][0]["extensions"]["code"], "TOO_MANY_OPERATIONS");
    socket.send_message(&complete("17")).await;
    // The server may be busy with the start of the others, which is another error.
    let answer = loop {
        socket.subscribe("one more", "{ __typename }", json!({})).await;
        let message = socket.message().await;
        if message["type"] != "error" {
            break message;
        }
        assert_ne!(message["payload"][0]["extensions"]["code"], "TOO_MANY_OPERATIONS", "{message}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(answer["payload"]["data"], json!({ "__typename": "Query" }), "{answer}");
    assert_eq!(socket.message().await, complete("one more"));
    // Their total size is bounded, too.
    let long = format!("{CLUSTERS} #{}", "x".repeat(60_000));
    let mut socket = app.socket_of(&ada).await;
    for number in 0..18 {
        socket.subscribe(&number.to_string(), &long, json!({})).await;
    }
    let refused = socket.message().await;
    assert_eq!(refused["payload"][0]["extensions"]["code"], "TOO_MANY_OPERATIONS", "{refused}");
    assert_eq!(refused["id"], "17", "1,048,576 bytes hold 17 of them");
    app.stop().await;
}

#[tokio::test]
async fn a_stream_that_always_has_something_keeps_no_other_from_its_turn() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut quiet = Vec::new();
    for number in 0..3 {
        quiet.push(cluster(&ada, &format!("Quiet-{number}")).await);
    }
    let live = ada.query("{ viewer { account { liveCursor } } }", json!({})).await;
    let cursor = &live["viewer"]["account"]["liveCursor"];
    for sequence in 1..=10 {
        let events: Vec<Value> = (0..500).map(|n| event(sequence * 500 + n, "busy", json!({}))).collect();
        ada.reported(&ReportBuilder::new("Busy", sequence.into()).with("/events", events).build()).await;
    }
    // Streams with fifty payloads each to send at once.
    let mut socket = app.socket_of(&ada).await;
    for (number, id) in quiet.iter().enumerate() {
        socket.subscribe(&format!("quiet {number}"), CLUSTERS, json!({ "ids": [id] })).await;
    }
    for number in 0..4 {
        socket.subscribe(&format!("busy {number}"), EVENTS, json!({ "after": cursor })).await;
    }
    while !socket.message().await["id"].as_str().unwrap().starts_with("busy") {}
    for number in 0..3 {
        ada.reported(&report(&format!("Quiet-{number}"), 2)).await;
    }
    let (mut arrived, mut busy) = ([false; 3], 0);
    while arrived.iter().any(|arrived| !arrived) {
        let message = socket.message().await;
        let id = message["id"].as_str().unwrap();
        match id.strip_prefix("quiet ") {
            Some(number) => {
                arrived[number.parse::<usize>().unwrap()] = true;
                assert_eq!(
                    message["payload"]["data"]["clusters"]["cluster"]["now"]["workers"], 2,
                    "{message}"
                );
            }
            None => busy += 1,
        }
    }
    // They are due long before the busy streams are through, in numbers that no machine's speed changes.
    assert!(busy < 4 * 50, "the busy streams were through before: {busy}");
    app.stop().await;
}

#[tokio::test]
async fn a_subscription_ends_with_what_it_was_begun_with() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    cluster(&ada, "Scheduler-1").await;
    let subscribed = async |member: &Member| {
        let mut socket = app.socket_of(member).await;
        socket.subscribe("a", CLUSTERS, json!({})).await;
        socket
    };
    let reader = app.member_with("rea", "ada", Role::Viewer).await;
    let guest = app.member_with("gil", "ada", Role::Viewer).await;
    let (mut of_reader, mut of_guest) = (subscribed(&reader).await, subscribed(&guest).await);
    let until = "2026-11-20T13:00:00Z".parse().unwrap();
    let expiring = ada.with_token(ada.token(&[entity::api_token::Scope::Read], Some(until)).await);
    let mut of_expiring = subscribed(&expiring).await;
    let mut of_ada = subscribed(&ada).await;

    let change = "mutation($user: ID!) { setMemberRole(user: $user, role: MEMBER) { userErrors { code } } }";
    let changed = ada.query(change, json!({ "user": user(&ada, "rea").await })).await;
    assert_eq!(changed["setMemberRole"]["userErrors"], json!([]));
    // Other subscriptions would now show more, or less, than before.
    assert_eq!(of_reader.close_code().await, 4403);
    remove(&ada, "gil").await;
    assert_eq!(of_guest.close_code().await, 4401);
    app.set_clock("2026-11-20T13:00:00Z");
    assert_eq!(of_expiring.close_code().await, 4401);
    let (message, _) = first_of(&mut of_ada, &ada, "Scheduler-1").await;
    assert_eq!(message["type"], "next");
    let ((), code) = tokio::join!(app.stop(), of_ada.close_code());
    assert_eq!(code, 1001);
}
