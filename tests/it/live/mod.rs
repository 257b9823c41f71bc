//! What subscriptions bring: all of it, once, in the order in which it arrived, to whoever may see it.

mod append;
mod replicas;
mod state;

use harness::{Heard, Member, Socket, TestApp};
use serde_json::{Value, json};

/// A subscription on a socket of its own.
struct Watching {
    socket: Socket,
    field: &'static str,
}

impl Watching {
    /// Begins one that takes a cursor, behind all there is.
    async fn begin(
        app: &TestApp,
        member: &Member,
        field: &'static str,
        query: &str,
        mut variables: Value,
    ) -> Self {
        if variables.get("after").is_none() {
            variables["after"] = cursor(member).await;
        }
        let mut socket = app.socket_of(member).await;
        socket.ask("live", query, variables).await;
        Self { socket, field }
    }

    /// The next payload's field.
    async fn next(&mut self) -> Value {
        let mut message = self.socket.message().await;
        assert_eq!((&message["id"], &message["type"]), (&json!("live"), &json!("next")), "{message}");
        assert!(message["payload"].get("errors").is_none(), "{message}");
        message["payload"]["data"][self.field].take()
    }

    /// Whether nothing comes for a while.
    async fn is_quiet(&mut self) -> bool {
        self.socket.hear_within(std::time::Duration::from_millis(400)).await.is_none()
    }
}

/// Where the streams of a member's account are now.
async fn cursor(member: &Member) -> Value {
    member.query("{ viewer { account { liveCursor } } }", json!({})).await["viewer"]["account"]["liveCursor"]
        .take()
}

/// The answer to a subscription that does not begin.
async fn refusal(app: &TestApp, member: &Member, query: &str, variables: Value) -> Value {
    let mut socket = app.socket_of(member).await;
    socket.ask("live", query, variables).await;
    match socket.hear().await {
        Heard::Message(message) if message["type"] == "error" => message["payload"].clone(),
        other => panic!("{other:?}"),
    }
}
