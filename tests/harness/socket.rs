//! A WebSocket as a test holds it: it says what it is told to say and shows what it hears.

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

/// How long is waited for what has to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A WebSocket.
pub struct Socket {
    stream: WebSocketStream<TcpStream>,
    /// What was chosen of what it offered.
    pub protocol: Option<String>,
}

/// What comes by a socket, apart from the pings and pongs of WebSockets themselves.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// A message of the protocol.
    Message(Value),
    /// The end, with its code and reason.
    Closed(u16, String),
    /// The end without a word.
    Gone,
}

impl TestApp {
    /// Opens a socket with these headers, or returns the status with which that is refused.
    ///
    /// # Errors
    /// The status.
    pub async fn socket_with(&self, headers: &[(&str, &str)]) -> Result<Socket, u16> {
        let address = self.url("/graphql").replacen("http", "ws", 1);
        let mut request = address.into_client_request().unwrap();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, HeaderValue::from_str(value).unwrap());
        }
        let stream = TcpStream::connect(self.url("").strip_prefix("http://").unwrap()).await.unwrap();
        match client_async(request, stream).await {
            Ok((stream, response)) => {
                let protocol = response.headers().get("sec-websocket-protocol");
                Ok(Socket { stream, protocol: protocol.map(|name| name.to_str().unwrap().to_owned()) })
            }
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Opens a socket of today's protocol that shows nothing of who it is.
    pub async fn socket(&self) -> Socket {
        self.socket_with(&[("Sec-WebSocket-Protocol", "graphql-transport-ws")]).await.unwrap()
    }

    /// Opens a socket with which a member has signed in.
    pub async fn socket_of(&self, member: &Member) -> Socket {
        let mut socket = self.socket().await;
        let payload = json!({ "Authorization": format!("Bearer {}", member.secret()) });
        socket.say(&json!({ "type": "connection_init", "payload": payload })).await;
        assert_eq!(socket.hear().await, Heard::Message(json!({ "type": "connection_ack" })));
        socket
    }
}

impl Socket {
    /// Says something.
    pub async fn say(&mut self, message: &Value) {
        self.send(Message::text(message.to_string())).await;
    }

    /// Sends a frame. What becomes of it shows by what comes back.
    pub async fn send(&mut self, message: Message) {
        let _ = self.stream.send(message).await;
    }

    /// Asks for an operation.
    pub async fn ask(&mut self, id: &str, query: &str, variables: Value) {
        let payload = json!({ "query": query, "variables": variables });
        self.say(&json!({ "type": "subscribe", "id": id, "payload": payload })).await;
    }

    /// What comes next.
    pub async fn hear(&mut self) -> Heard {
        self.hear_within(PATIENCE).await.expect("something comes")
    }

    /// What comes next, if it comes so soon.
    pub async fn hear_within(&mut self, patience: Duration) -> Option<Heard> {
        let heard = async {
            loop {
                match self.stream.next().await {
                    Some(Ok(Message::Text(text))) => {
                        return Heard::Message(serde_json::from_str(&text).unwrap());
                    }
                    Some(Ok(Message::Close(Some(frame)))) => {
                        return Heard::Closed(frame.code.into(), frame.reason.to_string());
                    }
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(other)) => panic!("nobody sends {other}"),
                    Some(Err(_)) | None => return Heard::Gone,
                }
            }
        };
        timeout(patience, heard).await.ok()
    }

    /// The next message, which is one of the protocol.
    pub async fn message(&mut self) -> Value {
        match self.hear().await {
            Heard::Message(message) => message,
            end => panic!("{end:?}"),
        }
    }

    /// The code with which it ends, whatever comes before.
    pub async fn close_code(&mut self) -> u16 {
        loop {
            match self.hear().await {
                Heard::Message(_) => {}
                Heard::Closed(code, _) => return code,
                Heard::Gone => panic!("it ended without a word"),
            }
        }
    }

    /// The next frame of any kind.
    pub async fn frame(&mut self) -> Option<Message> {
        timeout(PATIENCE, self.stream.next()).await.expect("something comes").and_then(Result::ok)
    }
}
