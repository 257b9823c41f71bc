//! Many, slow, silent and broken sockets, and sockets during a shutdown.

use std::time::{Duration, Instant};

use galvo::config::Timeouts;
use harness::{Incoming, TestApp};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_tungstenite::tungstenite::Message;

use super::NAME;

/// A raw upgrade by a client that does not respond to pings.
async fn raw_socket(app: &TestApp) -> TcpStream {
    let mut stream = TcpStream::connect(app.url("").strip_prefix("http://").unwrap()).await.unwrap();
    let head = "GET /graphql HTTP/1.1\r\nHost: galvo\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&answer));
    stream
}

/// A text in a client frame with a zero mask.
fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81];
    match u8::try_from(text.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length),
        _ => {
            frame.push(0xFE);
            frame.extend_from_slice(&u16::try_from(text.len()).unwrap().to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    frame
}

fn greeting(token: &str) -> String {
    json!({ "type": "connection_init", "payload": { "Authorization": format!("Bearer {token}") } })
        .to_string()
}

#[tokio::test]
async fn who_answers_no_heartbeat_is_gone() {
    let heartbeat = Duration::from_millis(50);
    let app = TestApp::start_with(|serve| serve.timeouts.heartbeat_interval = heartbeat).await;
    let ada = app.account("ada").await;
    let mut dead = raw_socket(&app).await;
    dead.write_all(&frame(&greeting(ada.secret()))).await.unwrap();
    let mut bytes = Vec::new();
    let _ = timeout(Duration::from_secs(20), dead.read_to_end(&mut bytes)).await.expect("it ends");
    // The acknowledgment, and three unanswered pings.
    let acknowledgement = br#"{"type":"connection_ack"}"#;
    assert_eq!(bytes[2..2 + acknowledgement.len()], *acknowledgement);
    assert_eq!(bytes[2 + acknowledgement.len()..], [0x89, 0, 0x89, 0, 0x89, 0]);
    let mut there = app.socket_of(&ada).await;
    for _ in 0..6 {
        assert_eq!(there.frame().await, Some(Message::Ping(Vec::new().into())), "who answers stays");
    }
    there.subscribe("a", NAME, json!({})).await;
    assert_eq!(there.message().await["type"], "next");
    app.stop().await;
}

#[tokio::test]
async fn who_takes_nothing_is_not_waited_for_for_ever() {
    let app = TestApp::start_with(|serve| {
        serve.timeouts.response_timeout = Duration::from_millis(300);
        serve.max_connections = 1;
    })
    .await;
    let ada = app.account("ada").await;
    let mut paused = raw_socket(&app).await;
    paused.write_all(&frame(&greeting(ada.secret()))).await.unwrap();
    // Megabytes of responses, which exceed all buffers.
    let all =
        "{ __schema { types { name description fields { name description args { name description } } } } }";
    let mut sent = 0;
    let written = async {
        loop {
            let payload = json!({ "query": all });
            let message =
                json!({ "type": "subscribe", "id": sent.to_string(), "payload": payload }).to_string();
            paused.write_all(&frame(&message)).await?;
            sent += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended: Result<std::io::Result<()>, _> = timeout(Duration::from_mins(1), written).await;
    assert!(ended.expect("it ends").is_err());
    // Its resources are available to others.
    let mut socket = timeout(Duration::from_secs(20), app.socket_of(&ada)).await.expect("there is a place");
    socket.subscribe("a", NAME, json!({})).await;
    assert_eq!(socket.message().await["type"], "next");
    app.stop().await;
}

#[tokio::test]
async fn a_socket_is_one_of_the_connections_there_may_be() {
    let app = TestApp::start_with(|serve| serve.max_connections = 2).await;
    let ada = app.account("ada").await;
    let (first, mut second) = (app.socket_of(&ada).await, app.socket_of(&ada).await);
    let mut third = Box::pin(app.socket_of(&ada));
    assert!(timeout(Duration::from_millis(300), &mut third).await.is_err(), "there is no place for it");
    second.subscribe("a", NAME, json!({})).await;
    assert_eq!(second.message().await["type"], "next");
    // However it ends: here without a close frame.
    drop(first);
    let mut third = timeout(Duration::from_secs(20), third).await.expect("its place is free");
    third.subscribe("a", NAME, json!({})).await;
    assert_eq!(third.message().await["type"], "next");
    app.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_closes_its_sockets_at_once() {
    let app = TestApp::start_with(|serve| serve.timeouts = Timeouts::default()).await;
    let ada = app.account("ada").await;
    let (mut greeted, mut silent) = (app.socket_of(&ada).await, app.socket().await);
    let mut deaf = raw_socket(&app).await;
    deaf.write_all(&frame(&greeting(ada.secret()))).await.unwrap();
    let closing = async {
        let going = || Incoming::Closed(1001, "Server is shutting down".to_owned());
        let began = Instant::now();
        assert_eq!(greeted.receive().await, going());
        assert_eq!(silent.receive().await, going());
        // They acknowledge the close frame, which ends the connection.
        assert_eq!((greeted.receive().await, silent.receive().await), (Incoming::Gone, Incoming::Gone));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        // A client that does not acknowledge is disconnected, and the server still ends.
        let mut rest = Vec::new();
        let _ = deaf.read_to_end(&mut rest).await;
        assert!(rest.windows(2).any(|bytes| bytes == 1001_u16.to_be_bytes()));
    };
    let (began, ()) = (Instant::now(), tokio::join!(app.stop(), closing).1);
    assert!(began.elapsed() < Duration::from_secs(19), "{:?}", began.elapsed());
}
