//! Subscriptions: complete, without duplicates, in order of arrival, and only for authorized members.

mod account;
mod append;
mod fields;
mod replicas;
mod state;

use harness::{Incoming, Member, Socket, TestApp};
use serde_json::{Value, json};

/// A subscription on a separate socket.
struct Watching {
    socket: Socket,
    field: &'static str,
}

impl Watching {
    /// Starts one with a cursor, after all existing rows.
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
        socket.subscribe("live", query, variables).await;
        Self { socket, field }
    }

    /// Returns the field of the next payload.
    async fn next(&mut self) -> Value {
        let mut message = self.socket.message().await;
        assert_eq!((&message["id"], &message["type"]), (&json!("live"), &json!("next")), "{message}");
        assert!(message["payload"].get("errors").is_none(), "{message}");
        message["payload"]["data"][self.field].take()
    }

    /// Waits for a payload whose part is `expected`. A stream of states may repeat an earlier one, if it
    /// catches up while the state changes.
    async fn wait_for(&mut self, pointer: &str, expected: &Value) {
        let mut other = Vec::new();
        while other.len() < 3 {
            let payload = self.next().await;
            let part = payload.pointer(pointer).unwrap_or_else(|| panic!("{pointer} of {payload}"));
            if part == expected {
                return;
            }
            other.push(part.clone());
        }
        panic!("not {expected}, but {other:?}");
    }

    /// True if nothing arrives for a while.
    async fn is_quiet(&mut self) -> bool {
        self.socket.receive_within(std::time::Duration::from_millis(400)).await.is_none()
    }
}

/// The present position of an account's streams.
async fn cursor(member: &Member) -> Value {
    member.query("{ viewer { account { liveCursor } } }", json!({})).await["viewer"]["account"]["liveCursor"]
        .take()
}

/// The error of a subscription that is refused.
async fn refusal(app: &TestApp, member: &Member, query: &str, variables: Value) -> Value {
    let mut socket = app.socket_of(member).await;
    socket.subscribe("live", query, variables).await;
    match socket.receive().await {
        Incoming::Message(message) if message["type"] == "error" => message["payload"].clone(),
        other => panic!("{other:?}"),
    }
}
