//! The messages of the two GraphQL subprotocols. This module handles text only.
//!
//! Current clients use `graphql-transport-ws`. The older `graphql-ws`, of subscriptions-transport-ws,
//! has the same messages under other names. Python's gql offers both and assumes the older one whatever
//! the server chooses.

use std::borrow::Cow;

use async_graphql::ServerError;
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::http::{extract::lone_surrogates::replace_lone_surrogates, graphql::operation::Parameters};

/// The size limit of an operation's identifier, in bytes. Each message of the server repeats it.
const MAX_IDENTIFIER: usize = 256;

/// The subprotocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subprotocol {
    /// `graphql-transport-ws`.
    Transport,
    /// `graphql-ws`.
    Legacy,
}

/// A message of a client.
#[derive(Debug)]
pub(super) enum ClientMessage {
    /// Initializes the connection. It may contain credentials.
    Init(Map<String, Value>),
    /// Requests a pong.
    Ping(Option<Map<String, Value>>),
    /// Answers a ping.
    Pong,
    /// Starts an operation.
    Start { id: Box<str>, parameters: Parameters },
    /// Stops an operation.
    Stop { id: Box<str> },
    /// Ends the connection.
    Terminate,
}

/// A message before its payload is decoded.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    id: Option<Box<str>>,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
}

/// The error of a text that is not a message of the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DecodeError;

impl From<serde_json::Error> for DecodeError {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

impl Envelope<'_> {
    fn id(&mut self) -> Result<Box<str>, DecodeError> {
        self.id.take().filter(|id| (1..=MAX_IDENTIFIER).contains(&id.len())).ok_or(DecodeError)
    }

    /// Decodes the payload as an object. Returns None without a payload.
    fn object(&self) -> Result<Option<Map<String, Value>>, DecodeError> {
        Ok(self.payload.map(|payload| serde_json::from_str(payload.get())).transpose()?)
    }

    fn parameters(&self) -> Result<Parameters, DecodeError> {
        let payload = self.payload.ok_or(DecodeError)?.get();
        is_object(payload.as_bytes())?;
        let parameters: Parameters = serde_json::from_str(payload)?;
        if parameters.has_document() { Ok(parameters) } else { Err(DecodeError) }
    }
}

impl Subprotocol {
    /// Returns the first supported subprotocol that a client offers. The client's order counts, because
    /// Python's gql assumes its first offer.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let mut offered = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        offered.find_map(|name| match name.trim() {
            "graphql-transport-ws" => Some(Self::Transport),
            "graphql-ws" => Some(Self::Legacy),
            _ => None,
        })
    }

    /// Returns the name in the headers of an upgrade.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Transport => "graphql-transport-ws",
            Self::Legacy => "graphql-ws",
        }
    }

    /// Decodes a message.
    pub(super) fn decode(self, text: &str) -> Result<ClientMessage, DecodeError> {
        let text = replace_lone_surrogates(text.as_bytes());
        is_object(&text)?;
        let mut envelope: Envelope = serde_json::from_slice(&text)?;
        let kind = std::mem::take(&mut envelope.kind);
        Ok(match (self, &*kind) {
            (_, "connection_init") => ClientMessage::Init(envelope.object()?.unwrap_or_default()),
            (Self::Transport, "ping") => ClientMessage::Ping(envelope.object()?),
            (Self::Transport, "pong") => {
                envelope.object()?;
                ClientMessage::Pong
            }
            (Self::Transport, "subscribe") | (Self::Legacy, "start") => {
                ClientMessage::Start { id: envelope.id()?, parameters: envelope.parameters()? }
            }
            (Self::Transport, "complete") | (Self::Legacy, "stop") => {
                ClientMessage::Stop { id: envelope.id()? }
            }
            (Self::Legacy, "connection_terminate") => ClientMessage::Terminate,
            _ => return Err(DecodeError),
        })
    }

    /// Encodes the acknowledgement of an initialized connection.
    pub(super) fn acknowledgement() -> Utf8Bytes {
        Utf8Bytes::from_static(r#"{"type":"connection_ack"}"#)
    }

    /// Encodes the answer to a ping, with the ping's payload.
    pub(super) fn pong(payload: Option<Map<String, Value>>) -> Utf8Bytes {
        match payload {
            Some(payload) => format!(r#"{{"type":"pong","payload":{}}}"#, Value::Object(payload)).into(),
            None => Utf8Bytes::from_static(r#"{"type":"pong"}"#),
        }
    }

    /// Encodes a result of an operation. The result is JSON.
    pub(super) fn next(self, id: &str, result: &[u8]) -> Utf8Bytes {
        let kind = match self {
            Self::Transport => "next",
            Self::Legacy => "data",
        };
        message(kind, id, Some(result))
    }

    /// Encodes the errors of an operation that was not executed. No further message of the operation
    /// follows.
    pub(super) fn refusal(self, id: &str, errors: &[ServerError]) -> Utf8Bytes {
        let payload = match self {
            Self::Transport => serde_json::to_string(errors),
            Self::Legacy => serde_json::to_string(&errors.first()),
        };
        message("error", id, Some(payload.expect("errors are texts and numbers").as_bytes()))
    }

    /// Encodes the end of an operation.
    pub(super) fn completion(id: &str) -> Utf8Bytes {
        message("complete", id, None)
    }

    /// Returns true if a client that stops an operation expects a message about its end.
    pub(super) fn confirms_stop(self) -> bool {
        self == Self::Legacy
    }

    /// Encodes a heartbeat. The newer subprotocol leaves heartbeats to WebSocket pings.
    pub(super) fn heartbeat_message(self) -> Option<Utf8Bytes> {
        (self == Self::Legacy).then(|| Utf8Bytes::from_static(r#"{"type":"ka"}"#))
    }
}

/// Returns an error unless the JSON is an object. A list would be accepted as the values of its fields
/// in order.
fn is_object(json: &[u8]) -> Result<(), DecodeError> {
    if json.trim_ascii_start().starts_with(b"{") { Ok(()) } else { Err(DecodeError) }
}

fn message(kind: &str, id: &str, payload: Option<&[u8]>) -> Utf8Bytes {
    let mut text = Vec::with_capacity(id.len() + payload.map_or(0, <[u8]>::len) + 48);
    text.extend_from_slice(br#"{"id":"#);
    serde_json::to_writer(&mut text, id).expect("memory does not refuse");
    for piece in [r#","type":""#, kind, "\""] {
        text.extend_from_slice(piece.as_bytes());
    }
    if let Some(payload) = payload {
        text.extend_from_slice(br#","payload":"#);
        text.extend_from_slice(payload);
    }
    text.push(b'}');
    String::from_utf8(text).expect("it consists of texts").into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_clients_first_choice_counts() {
        for (lines, expected) in [
            (&["graphql-transport-ws"][..], Some(Subprotocol::Transport)),
            (&["graphql-ws"], Some(Subprotocol::Legacy)),
            (&["graphql-ws, graphql-transport-ws"], Some(Subprotocol::Legacy)),
            (&["graphql-transport-ws,graphql-ws"], Some(Subprotocol::Transport)),
            (&["mqtt , graphql-transport-ws"], Some(Subprotocol::Transport)),
            (&["mqtt", "graphql-ws"], Some(Subprotocol::Legacy)),
            (&["GRAPHQL-WS"], None),
            (&["mqtt"], None),
            (&[], None),
        ] {
            let headers = lines
                .iter()
                .map(|line| (header::SEC_WEBSOCKET_PROTOCOL, axum::http::HeaderValue::from_static(line)));
            assert_eq!(Subprotocol::of(&headers.collect()), expected, "{lines:?}");
        }
    }

    #[test]
    fn what_the_protocol_has_is_heard_in_its_dialect() {
        let ask = json!({ "query": "{ __typename }", "variables": null, "operationName": null, "x": 1 });
        for (transport, legacy, message) in [
            (true, true, json!({ "type": "connection_init" })),
            (true, true, json!({ "type": "connection_init", "payload": null })),
            (true, true, json!({ "type": "connection_init", "payload": { "a": 1 } })),
            (true, false, json!({ "type": "ping", "payload": {} })),
            (true, false, json!({ "type": "pong" })),
            (true, false, json!({ "type": "subscribe", "id": "1", "payload": ask })),
            (true, false, json!({ "type": "subscribe", "id": "1", "payload": { "documentId": "x" } })),
            (false, true, json!({ "type": "start", "id": "1", "payload": ask })),
            (true, false, json!({ "type": "complete", "id": "1", "more": [] })),
            (false, true, json!({ "type": "stop", "id": "1" })),
            (false, true, json!({ "type": "connection_terminate" })),
        ] {
            let text = message.to_string();
            assert_eq!(Subprotocol::Transport.decode(&text).is_ok(), transport, "{text}");
            assert_eq!(Subprotocol::Legacy.decode(&text).is_ok(), legacy, "{text}");
        }
    }

    #[test]
    fn all_else_is_not_heard() {
        let deep = format!(r#"{{"type":"ping","payload":{}{}}}"#, "{\"a\":".repeat(9_000), "}".repeat(9_000));
        let long = json!({ "type": "complete", "id": "x".repeat(257) }).to_string();
        for text in [
            "",
            "{",
            "[]",
            r#"["ping"]"#,
            "1",
            "\"ping\"",
            "null",
            "{}",
            r#"{"type":1}"#,
            r#"{"type":"nonsense"}"#,
            r#"{"type":"connection_ack"}"#,
            r#"{"type":"next","id":"1","payload":{}}"#,
            r#"{"type":"error","id":"1","payload":[]}"#,
            r#"{"type":"connection_init","payload":"x"}"#,
            r#"{"type":"connection_init","payload":[]}"#,
            r#"{"type":"connection_init","type":"ping"}"#,
            r#"{"type":"ping","payload":1}"#,
            r#"{"type":"pong","payload":[]}"#,
            r#"{"type":"complete"}"#,
            r#"{"type":"complete","id":""}"#,
            r#"{"type":"complete","id":1}"#,
            r#"{"type":"subscribe","id":"1"}"#,
            r#"{"type":"subscribe","id":"1","payload":null}"#,
            r#"{"type":"subscribe","id":"1","payload":[]}"#,
            r#"{"type":"subscribe","id":"1","payload":["{a}"]}"#,
            r#"{"type":"subscribe","id":"1","payload":{}}"#,
            r#"{"type":"subscribe","id":"1","payload":{"query":"{a}","extensions":[]}}"#,
            r#"{"type":"subscribe","id":"1","payload":{"query":1}}"#,
            r#"{"type":"subscribe","id":"1","payload":{"query":"{a}","variables":[]}}"#,
            r#"{"type":"subscribe","id":"1","payload":{"query":"{a}","operationName":1}}"#,
            r#"{"type":"subscribe","payload":{"query":"{a}"}}"#,
            r#"{"type":"ping"} x"#,
            &deep,
            &long,
        ] {
            assert!(Subprotocol::Transport.decode(text).is_err(), "{text}");
            assert!(Subprotocol::Legacy.decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn texts_survive() {
        let heard =
            Subprotocol::Transport.decode(r#"{"type":"subscribe","id":"\"\ud800ä","payload":{"query":""}}"#);
        let Ok(ClientMessage::Start { id, .. }) = heard else { panic!("{heard:?}") };
        let message: Value =
            serde_json::from_str(&Subprotocol::Transport.next(&id, b"{\"a\":1}")).expect("JSON");
        assert_eq!(message, json!({ "id": "\"\u{fffd}ä", "type": "next", "payload": { "a": 1 } }));
        let errors = [ServerError::new("no", None)];
        let refusals = [Subprotocol::Transport, Subprotocol::Legacy].map(|subprotocol| {
            serde_json::from_str::<Value>(&subprotocol.refusal("1", &errors)).expect("JSON")
        });
        let error = json!({ "message": "no" });
        assert_eq!(
            refusals,
            [
                json!({ "id": "1", "type": "error", "payload": [error] }),
                json!({ "id": "1", "type": "error", "payload": error }),
            ]
        );
        let completion: Value = serde_json::from_str(&Subprotocol::completion("1")).expect("JSON");
        assert_eq!(completion, json!({ "id": "1", "type": "complete" }));
    }
}
