//! GraphQL over WebSockets: `GET /graphql` with an upgrade. Only this module knows the protocol;
//! permissions and costs of operations are the same as over HTTP.
//!
//! Each operation has its own task, and all tasks of a socket share one short, fair queue: a
//! subscription with a constant stream of results cannot block the others. If the client takes nothing,
//! all of them wait. The queued results are as recent as possible, because a subscription produces a
//! result only when the next one is requested.

mod close;
mod connection;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod message;
mod operations;

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header, request},
    response::{IntoResponse, Response},
};
use entity::api_token::Scope;
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use self::{connection::Client, message::Subprotocol};
use crate::{
    domain::audit::Origin,
    http::{
        extract::{credentials::Credentials, problem::Problem},
        middleware::request_slot::OccupiedSlot,
        server::state::AppState,
    },
};

/// Returns true if a request asks for a protocol upgrade.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
}

/// Opens a socket.
pub(crate) async fn open(state: AppState, origin: Origin, request: request::Parts) -> Response {
    let request::Parts { headers, mut extensions, .. } = request;
    let accepted = match accepted(&state, &headers) {
        Ok((key, shown)) => verify_upgrade(&state, &shown).await.map(|()| (key, shown)),
        Err(problem) => Err(problem),
    };
    match accepted {
        Ok((key, shown)) => {
            let dialect = Subprotocol::of(&headers);
            let Some(upgrade) = extensions.remove::<OnUpgrade>() else {
                return Problem::upgrade("this connection cannot be upgraded").into_response();
            };
            let serving = Client { state, origin, shown, dialect }.serve(upgrade);
            // The socket outlasts the request and keeps its slot. If it has to give way before it is
            // initialized, it ends without a close frame, which its client might not read.
            let held = extensions.remove::<OccupiedSlot>();
            tokio::spawn(async move {
                match held {
                    Some(held) => held.keep(serving).await.unwrap_or_default(),
                    None => serving.await,
                }
            });
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

/// Verifies the credentials of the upgrade request, so that the socket waits for its initialization in a
/// slot of their owner. Rejects an invalid `Authorization`. The initialization decides on sessions,
/// because browsers do not show the status of an upgrade to their pages, and on permissions, because its
/// payload may select another account.
async fn verify_upgrade(state: &AppState, shown: &Credentials) -> Result<(), Problem> {
    if shown.authorization.is_none() && shown.session.is_none() {
        return Ok(());
    }
    match Box::pin(state.viewer_with(shown, Scope::Read)).await {
        Err(problem) if problem.status() == StatusCode::FORBIDDEN => Ok(()),
        Err(problem) if problem.is_unauthenticated() && shown.authorization.is_none() => Ok(()),
        verified => verified.map(drop),
    }
}

/// Checks the upgrade request according to RFC 6455. Returns the answer to its key, and its credentials.
fn accepted(state: &AppState, headers: &HeaderMap) -> Result<(HeaderValue, Credentials), Problem> {
    let names = |name, token: &str| {
        let values = headers.get_all(name).iter().filter_map(|value: &HeaderValue| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|found| found.trim().eq_ignore_ascii_case(token))
    };
    if !names(header::UPGRADE, "websocket") || !names(header::CONNECTION, "upgrade") {
        return Err(Problem::upgrade("only the upgrade to a WebSocket is supported"));
    }
    if !names(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(Problem::upgrade("only version 13 of WebSocket is supported"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    if key.len() != KEY {
        return Err(Problem::upgrade("the header 'Sec-WebSocket-Key' must hold 16 bytes in base64"));
    }
    let key = HeaderValue::try_from(derive_accept_key(key)).expect("base64 is ASCII");
    let shown = Credentials::of(&state.site.cookies, headers)?;
    // The CSRF middleware has already checked the origin of a request with a session. Here the `Origin`
    // header is also required, which browsers send for every socket: it replaces the CSRF token of other
    // state-changing requests.
    if shown.authorization.is_none() && shown.session.is_some() && !headers.contains_key(header::ORIGIN) {
        return Err(Problem::forgery("with a session, only a page of this server can open a WebSocket"));
    }
    Ok((key, shown))
}

/// The length of 16 bytes in base64, in characters.
const KEY: usize = 24;
