//! What holds of what is said on a socket, whatever it is.

use serde_json::{Value, json};

use super::message::{Dialect, Said};

/// The text is one message.
pub(crate) fn socket(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let heard = [Dialect::Transport, Dialect::Legacy].map(|dialect| (dialect, dialect.hear(text).ok()));
    for (dialect, said) in &heard {
        match said {
            Some(Said::Ask { id, .. }) => {
                assert!((1..=256).contains(&id.len()), "{id:?}");
                let next: Value = serde_json::from_str(&dialect.next(id, b"{\"data\":null}")).expect("JSON");
                assert_eq!((&next["id"], &next["payload"]), (&json!(id), &json!({ "data": null })));
                let refusal: Value = serde_json::from_str(&dialect.refusal(id, &[])).expect("JSON");
                assert_eq!(refusal["id"], json!(id));
            }
            Some(Said::Enough { id }) => {
                let completion: Value = serde_json::from_str(&Dialect::completion(id)).expect("JSON");
                assert_eq!(completion, json!({ "id": id, "type": "complete" }));
            }
            Some(Said::Ping(payload)) => {
                let pong: Value = serde_json::from_str(&Dialect::pong(payload.clone())).expect("JSON");
                assert_eq!(pong.get("payload"), payload.clone().map(Value::Object).as_ref());
                // What is answered is understood where it is said.
                let said = dialect.hear(&Dialect::pong(payload.clone()));
                assert!(matches!(said, Ok(Said::Pong)), "{said:?}");
            }
            Some(Said::Begin(_) | Said::Pong | Said::Bye) | None => {}
        }
    }
    let [(_, transport), (_, legacy)] = heard;
    assert!(
        transport.is_none() || legacy.is_none() || matches!(transport, Some(Said::Begin(_))),
        "only the beginning is said in the same words: {text}"
    );
}
