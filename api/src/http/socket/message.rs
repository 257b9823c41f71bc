//! What is said on a socket, in the two dialects that clients speak. It knows texts only.
//!
//! Clients of today speak `graphql-transport-ws`. The older `graphql-ws`, of subscriptions-transport-ws, says the same in
//! other words. Python's gql offers both and takes whatever is chosen for the older one.

use std::borrow::Cow;

use async_graphql::ServerError;
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::http::{operation::Parameters, surrogate::replace_lone_surrogates};

/// Bytes of an identifier that a client gives an operation. Each of the server's messages repeats it.
const MAX_IDENTIFIER: usize = 256;

/// The words a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `graphql-transport-ws`.
    Transport,
    /// `graphql-ws`.
    Legacy,
}

/// What a client says.
#[derive(Debug)]
pub(super) enum Said {
    /// It wants to begin, and may show credentials.
    Begin(Map<String, Value>),
    /// It asks whether anybody is there.
    Ping(Option<Map<String, Value>>),
    /// It answers such a question.
    Pong,
    /// It asks for something.
    Ask { id: Box<str>, parameters: Parameters },
    /// It wants to hear no more of that.
    Enough { id: Box<str> },
    /// It is done.
    Bye,
}

/// A message, before it is known what it has to hold.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    id: Option<Box<str>>,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
}

/// The text is not of the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unheard;

impl From<serde_json::Error> for Unheard {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

impl Envelope<'_> {
    fn id(&mut self) -> Result<Box<str>, Unheard> {
        self.id.take().filter(|id| (1..=MAX_IDENTIFIER).contains(&id.len())).ok_or(Unheard)
    }

    /// An object, if there is a payload at all.
    fn object(&self) -> Result<Option<Map<String, Value>>, Unheard> {
        Ok(self.payload.map(|payload| serde_json::from_str(payload.get())).transpose()?)
    }

    fn parameters(&self) -> Result<Parameters, Unheard> {
        let payload = self.payload.ok_or(Unheard)?.get();
        is_object(payload.as_bytes())?;
        let parameters: Parameters = serde_json::from_str(payload)?;
        if parameters.name_a_document() { Ok(parameters) } else { Err(Unheard) }
    }
}

impl Dialect {
    /// The first of ours that a client offers: Python's gql takes what it offered first for what was chosen.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let lines = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
        let mut offered = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        offered.find_map(|name| match name.trim() {
            "graphql-transport-ws" => Some(Self::Transport),
            "graphql-ws" => Some(Self::Legacy),
            _ => None,
        })
    }

    /// Its name in the headers of an upgrade.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Transport => "graphql-transport-ws",
            Self::Legacy => "graphql-ws",
        }
    }

    /// What a text says.
    pub(super) fn hear(self, text: &str) -> Result<Said, Unheard> {
        let text = replace_lone_surrogates(text.as_bytes());
        is_object(&text)?;
        let mut envelope: Envelope = serde_json::from_slice(&text)?;
        let kind = std::mem::take(&mut envelope.kind);
        Ok(match (self, &*kind) {
            (_, "connection_init") => Said::Begin(envelope.object()?.unwrap_or_default()),
            (Self::Transport, "ping") => Said::Ping(envelope.object()?),
            (Self::Transport, "pong") => {
                envelope.object()?;
                Said::Pong
            }
            (Self::Transport, "subscribe") | (Self::Legacy, "start") => {
                Said::Ask { id: envelope.id()?, parameters: envelope.parameters()? }
            }
            (Self::Transport, "complete") | (Self::Legacy, "stop") => Said::Enough { id: envelope.id()? },
            (Self::Legacy, "connection_terminate") => Said::Bye,
            _ => return Err(Unheard),
        })
    }

    /// The client may ask.
    pub(super) fn acknowledgement() -> Utf8Bytes {
        Utf8Bytes::from_static(r#"{"type":"connection_ack"}"#)
    }

    /// The answer to a ping, with what it brought.
    pub(super) fn pong(payload: Option<Map<String, Value>>) -> Utf8Bytes {
        match payload {
            Some(payload) => format!(r#"{{"type":"pong","payload":{}}}"#, Value::Object(payload)).into(),
            None => Utf8Bytes::from_static(r#"{"type":"pong"}"#),
        }
    }

    /// A result of an operation, which is JSON.
    pub(super) fn next(self, id: &str, result: &[u8]) -> Utf8Bytes {
        let kind = match self {
            Self::Transport => "next",
            Self::Legacy => "data",
        };
        message(kind, id, Some(result))
    }

    /// Why an operation did not begin. Nothing follows.
    pub(super) fn refusal(self, id: &str, errors: &[ServerError]) -> Utf8Bytes {
        let payload = match self {
            Self::Transport => serde_json::to_string(errors),
            Self::Legacy => serde_json::to_string(&errors.first()),
        };
        message("error", id, Some(payload.expect("errors are texts and numbers").as_bytes()))
    }

    /// An operation is over.
    pub(super) fn completion(id: &str) -> Utf8Bytes {
        message("complete", id, None)
    }

    /// Whether a client that stops an operation waits to be told that it is over.
    pub(super) fn confirms_the_end(self) -> bool {
        self == Self::Legacy
    }

    /// What tells a client now and then that the server is there. The newer dialect leaves that to the socket itself.
    pub(super) fn beat(self) -> Option<Utf8Bytes> {
        (self == Self::Legacy).then(|| Utf8Bytes::from_static(r#"{"type":"ka"}"#))
    }
}

/// Refuses a list, which would be taken for the values of an object's fields in their order.
fn is_object(json: &[u8]) -> Result<(), Unheard> {
    if json.trim_ascii_start().starts_with(b"{") { Ok(()) } else { Err(Unheard) }
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
            (&["graphql-transport-ws"][..], Some(Dialect::Transport)),
            (&["graphql-ws"], Some(Dialect::Legacy)),
            (&["graphql-ws, graphql-transport-ws"], Some(Dialect::Legacy)),
            (&["graphql-transport-ws,graphql-ws"], Some(Dialect::Transport)),
            (&["mqtt , graphql-transport-ws"], Some(Dialect::Transport)),
            (&["mqtt", "graphql-ws"], Some(Dialect::Legacy)),
            (&["GRAPHQL-WS"], None),
            (&["mqtt"], None),
            (&[], None),
        ] {
            let headers = lines
                .iter()
                .map(|line| (header::SEC_WEBSOCKET_PROTOCOL, axum::http::HeaderValue::from_static(line)));
            assert_eq!(Dialect::of(&headers.collect()), expected, "{lines:?}");
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
            assert_eq!(Dialect::Transport.hear(&text).is_ok(), transport, "{text}");
            assert_eq!(Dialect::Legacy.hear(&text).is_ok(), legacy, "{text}");
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
            assert!(Dialect::Transport.hear(text).is_err(), "{text}");
            assert!(Dialect::Legacy.hear(text).is_err(), "{text}");
        }
    }

    #[test]
    fn texts_survive() {
        let heard =
            Dialect::Transport.hear(r#"{"type":"subscribe","id":"\"\ud800ä","payload":{"query":""}}"#);
        let Ok(Said::Ask { id, .. }) = heard else { panic!("{heard:?}") };
        let message: Value = serde_json::from_str(&Dialect::Transport.next(&id, b"{\"a\":1}")).expect("JSON");
        assert_eq!(message, json!({ "id": "\"\u{fffd}ä", "type": "next", "payload": { "a": 1 } }));
        let errors = [ServerError::new("no", None)];
        let refusals = [Dialect::Transport, Dialect::Legacy]
            .map(|dialect| serde_json::from_str::<Value>(&dialect.refusal("1", &errors)).expect("JSON"));
        let error = json!({ "message": "no" });
        assert_eq!(
            refusals,
            [
                json!({ "id": "1", "type": "error", "payload": [error] }),
                json!({ "id": "1", "type": "error", "payload": error }),
            ]
        );
        let completion: Value = serde_json::from_str(&Dialect::completion("1")).expect("JSON");
        assert_eq!(completion, json!({ "id": "1", "type": "complete" }));
    }
}
