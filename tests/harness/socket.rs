//! A WebSocket client for tests: it sends what a test specifies and returns what arrives.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        http::{HeaderName, HeaderValue},
    },
};

use crate::{Member, TestApp};

/// The timeout for an expected message.
const PATIENCE: Duration = Duration::from_secs(20);

/// A WebSocket.
pub struct Socket {
    stream: WebSocketStream<TcpStream>,
    /// The subprotocol that the server chose.
    pub protocol: Option<String>,
}

/// The next item from a socket, except for the pings and pongs of WebSocket itself.
#[derive(Debug, PartialEq)]
pub enum Incoming {
    /// A message of the protocol.
    Message(Value),
    /// A close frame, with its code and reason.
    Closed(u16, String),
    /// The end of the connection without a close frame.
    Gone,
}

impl TestApp {
    /// Opens a socket with these headers.
    ///
    /// # Errors
    /// Returns the HTTP status if the server refuses the upgrade.
    pub async fn socket_with(&self, headers: &[(&str, &str)]) -> Result<Socket, u16> {
        Socket::open(&self.url("/graphql"), headers).await
    }

    /// Opens a socket of the current protocol without credentials.
    pub async fn socket(&self) -> Socket {
        self.socket_with(&[("Sec-WebSocket-Protocol", "graphql-transport-ws")]).await.unwrap()
    }

    /// Opens a socket that is authenticated as a member.
    pub async fn socket_of(&self, member: &Member) -> Socket {
        let mut socket = self.socket().await;
        let payload = json!({ "Authorization": format!("Bearer {}", member.secret()) });
        socket.send_message(&json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(socket.receive().await, Incoming::Message(json!({ "type": "connection_ack" })));
        socket
    }
}

impl Socket {
    /// Opens a socket at an address that begins with `http:`.
    ///
    /// # Errors
    /// Returns the HTTP status if the server refuses the upgrade.
    pub async fn open(address: &str, headers: &[(&str, &str)]) -> Result<Self, u16> {
        let mut request = address.replacen("http", "ws", 1).into_client_request().unwrap();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
        }
        let stream = TcpStream::connect(request.uri().authority().unwrap().as_str()).await.unwrap();
        match client_async(request, stream).await {
            Ok((stream, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol");
                Ok(Self { stream, protocol: protocol.map(|name| name.to_str().unwrap().to_owned()) })
            }
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends a message of the protocol.
    pub async fn send_message(&mut self, message: &Value) {
        self.send(Message::text(message.to_string())).await;
    }

    /// Sends a frame. Errors are ignored; the next frame received shows the effect.
    pub async fn send(&mut self, message: Message) {
        let _ = self.stream.send(message).await;
    }

    /// Starts an operation.
    pub async fn subscribe(&mut self, id: &str, query: &str, variables: Value) {
        let payload = json!({ "query": query, "variables": variables });
        self.send_message(&json!({ "type": "subscribe", "id": id, "payload": payload })).await;
    }

    /// Returns the next item, and fails after the timeout.
    pub async fn receive(&mut self) -> Incoming {
        self.receive_within(PATIENCE).await.expect("something comes")
    }

    /// Returns the next item, or `None` after the timeout.
    pub async fn receive_within(&mut self, limit: Duration) -> Option<Incoming> {
        let item = async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Incoming::Message(serde_json::from_str(&text).unwrap());
                    }
                    Some(Ok(Message::Close(Some(frame)))) => {
                        return Incoming::Closed(frame.code.into(), frame.reason.to_string());
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(other)) => panic!("nobody sends {other}"),
                    Some(Err(_)) | None => return Incoming::Gone,
                }
            }
        };
        timeout(limit, item).await.ok()
    }

    /// Returns the next item, which must be a message of the protocol.
    pub async fn message(&mut self) -> Value {
        match self.receive().await {
            Incoming::Message(message) => message,
            end => panic!("{end:?}"),
        }
    }

    /// Returns the close code, ignoring earlier messages.
    pub async fn close_code(&mut self) -> u16 {
        loop {
            match self.receive().await {
                Incoming::Message(_) => {}
                Incoming::Closed(code, _) => return code,
                Incoming::Gone => panic!("it ended without a word"),
            }
        }
    }

    /// Returns the next frame of any kind.
    pub async fn frame(&mut self) -> Option<Message> {
        timeout(PATIENCE, self.stream.next()).await.expect("something comes").and_then(Result::ok)
    }
}
