//! GraphQL over WebSockets: `GET /graphql` with an upgrade. Only this module knows the protocol;
//! permissions and costs of operations are the same as over HTTP.
//!
//! Each operation has its own task, and all tasks of a socket share one short, fair queue: a
//! subscription with a constant stream of results cannot block the others. If the client stops reading,
//! all tasks wait. A subscription produces its next result only after the previous one is queued, so the
//! queue holds no outdated results.

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
pub(crate) fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE)
}

/// Opens a socket.
pub(crate) async fn open(state: AppState, origin: Origin, request: request::Parts) -> Response {
    let request::Parts { headers, mut extensions, .. } = request;
    let checked = match check_upgrade(&state, &headers) {
        Ok((accept_key, credentials)) => {
            verify_upgrade(&state, &credentials).await.map(|()| (accept_key, credentials))
        }
        Err(problem) => Err(problem),
    };
    match checked {
        Ok((accept_key, credentials)) => {
            let subprotocol = Subprotocol::of(&headers);
            let Some(upgrade) = extensions.remove::<OnUpgrade>() else {
                return Problem::upgrade("this connection cannot be upgraded").into_response();
            };
            let connection_future = Client { state, origin, credentials, subprotocol }.serve(upgrade);
            // The socket outlasts the request and keeps its slot. If it is evicted before it is
            // initialized, it ends without a close frame, because its client might not read one.
            let slot = extensions.remove::<OccupiedSlot>();
            tokio::spawn(async move {
                match slot {
                    Some(slot) => slot.hold_during(connection_future).await.unwrap_or_default(),
                    None => connection_future.await,
                }
            });
            let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
            let response_headers = response.headers_mut();
            response_headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            response_headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            response_headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept_key);
            if let Some(subprotocol) = subprotocol {
                response_headers
                    .insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol.name()));
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
async fn verify_upgrade(state: &AppState, credentials: &Credentials) -> Result<(), Problem> {
    if credentials.authorization.is_none() && credentials.session.is_none() {
        return Ok(());
    }
    match Box::pin(state.viewer_with(credentials, Scope::Read)).await {
        Err(problem) if problem.status() == StatusCode::FORBIDDEN => Ok(()),
        Err(problem) if problem.is_unauthenticated() && credentials.authorization.is_none() => Ok(()),
        result => result.map(drop),
    }
}

/// Checks the upgrade request according to RFC 6455. Returns the value of `Sec-WebSocket-Accept`, and the
/// credentials of the request.
fn check_upgrade(state: &AppState, headers: &HeaderMap) -> Result<(HeaderValue, Credentials), Problem> {
    let has_token = |name, token: &str| {
        let values = headers.get_all(name).iter().filter_map(|value: &HeaderValue| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
    };
    if !has_token(header::UPGRADE, "websocket") || !has_token(header::CONNECTION, "upgrade") {
        return Err(Problem::upgrade("only the upgrade to a WebSocket is supported"));
    }
    if !has_token(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(Problem::upgrade("only version 13 of WebSocket is supported"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    if key.len() != KEY_LENGTH {
        return Err(Problem::upgrade("the header 'Sec-WebSocket-Key' must hold 16 bytes in base64"));
    }
    let accept_key = HeaderValue::try_from(derive_accept_key(key)).expect("base64 is ASCII");
    let credentials = Credentials::of(&state.site.cookies, headers)?;
    // The CSRF middleware has already checked the origin of a request with a session. Here the `Origin`
    // header is also required, which browsers send for every socket: it replaces the CSRF token of other
    // state-changing requests.
    if credentials.authorization.is_none()
        && credentials.session.is_some()
        && !headers.contains_key(header::ORIGIN)
    {
        return Err(Problem::forgery("with a session, only a page of this server can open a WebSocket"));
    }
    Ok((accept_key, credentials))
}

/// The length of 16 bytes in base64, in characters.
const KEY_LENGTH: usize = 24;
