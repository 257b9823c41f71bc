//! Properties that hold for every message on a socket.

use serde_json::{Value, json};

use super::message::{ClientMessage, Subprotocol};

/// Checks the text as one message.
pub(crate) fn socket(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let decoded = [Subprotocol::Transport, Subprotocol::Legacy]
        .map(|subprotocol| (subprotocol, subprotocol.decode(text).ok()));
    for (subprotocol, message) in &decoded {
        match message {
            Some(ClientMessage::Start { id, .. }) => {
                assert!((1..=256).contains(&id.len()), "{id:?}");
                let next: Value =
                    serde_json::from_str(&subprotocol.next(id, b"{\"data\":null}")).expect("JSON");
                assert_eq!((&next["id"], &next["payload"]), (&json!(id), &json!({ "data": null })));
                let refusal: Value = serde_json::from_str(&subprotocol.refusal(id, &[])).expect("JSON");
                assert_eq!(refusal["id"], json!(id));
            }
            Some(ClientMessage::Stop { id }) => {
                let completion: Value = serde_json::from_str(&Subprotocol::completion(id)).expect("JSON");
                assert_eq!(completion, json!({ "id": id, "type": "complete" }));
            }
            Some(ClientMessage::Ping(payload)) => {
                let pong: Value = serde_json::from_str(&Subprotocol::pong(payload.clone())).expect("JSON");
                assert_eq!(pong.get("payload"), payload.clone().map(Value::Object).as_ref());
                // The encoded answer is a valid message of its subprotocol.
                let message = subprotocol.decode(&Subprotocol::pong(payload.clone()));
                assert!(matches!(message, Ok(ClientMessage::Pong)), "{message:?}");
            }
            Some(ClientMessage::Init(_) | ClientMessage::Pong | ClientMessage::Terminate) | None => {}
        }
    }
    let [(_, transport), (_, legacy)] = decoded;
    assert!(
        transport.is_none() || legacy.is_none() || matches!(transport, Some(ClientMessage::Init(_))),
        "only the beginning is said in the same words: {text}"
    );
}
