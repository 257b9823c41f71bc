//! GraphQL over WebSockets: `GET /graphql` with an upgrade. The protocol is spoken here and nowhere else; what an operation
//! may do and costs is as over HTTP.
//!
//! Each operation has a task of its own, and all of them one queue to the socket, which is short and takes turns: a
//! subscription that always has something to tell cannot keep others from telling theirs, and where the client takes
//! nothing, all of them wait. What waits is as new as it can be when it is taken, because subscriptions make their results
//! when they are asked for the next.

mod close;
mod connection;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod message;
mod operations;

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header, request},
    response::{IntoResponse, Response},
};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use self::{connection::Client, message::Dialect};
use super::{credentials::Credentials, problem::Problem, state::AppState};
use crate::domain::audit::Origin;

/// Whether a request asks for another protocol than HTTP.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
}

/// Opens a socket.
pub(super) fn open(state: AppState, origin: Origin, request: request::Parts) -> Response {
    let request::Parts { headers, mut extensions, .. } = request;
    match accepted(&state, &headers) {
        Ok((key, shown)) => {
            let dialect = Dialect::of(&headers);
            let Some(upgrade) = extensions.remove::<OnUpgrade>() else {
                return Problem::upgrade("this connection cannot be upgraded").into_response();
            };
            tokio::spawn(Client { state, origin, shown, dialect }.serve(upgrade));
            let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
            let answer = response.headers_mut();
            answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            answer.insert(header::SEC_WEBSOCKET_ACCEPT, key);
            if let Some(dialect) = dialect {
                answer.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(dialect.name()));
            }
            response
        }
        Err(problem) => problem.into_response(),
    }
}

/// The answer to the key of a request that asks for a socket as RFC 6455 has it, and the credentials it shows.
fn accepted(state: &AppState, headers: &HeaderMap) -> Result<(HeaderValue, Credentials), Problem> {
    let names = |name, token: &str| {
        let values = headers.get_all(name).iter().filter_map(|value: &HeaderValue| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|found| found.trim().eq_ignore_ascii_case(token))
    };
    if !names(header::UPGRADE, "websocket") || !names(header::CONNECTION, "upgrade") {
        return Err(Problem::upgrade("the only upgrade is to a WebSocket"));
    }
    if !names(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(Problem::upgrade("the version of WebSockets is 13"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    if key.len() != KEY {
        return Err(Problem::upgrade("the header 'Sec-WebSocket-Key' must hold 16 bytes in base64"));
    }
    let key = HeaderValue::try_from(derive_accept_key(key)).expect("base64 is ASCII");
    let shown = Credentials::of(state.cookies, headers)?;
    // That the origin is ours was seen to before anything else of a request with a session. But here it has to be told, which
    // browsers do of each socket: it takes the place of the token that changes carry elsewhere.
    if shown.authorization.is_none() && shown.session.is_some() && !headers.contains_key(header::ORIGIN) {
        return Err(Problem::forgery("with a session, a socket is opened by a page of this server"));
    }
    Ok((key, shown))
}

/// Characters of 16 bytes in base64.
const KEY: usize = 24;
