//! GraphQL over server-sent events, in the mode with one connection per operation.
//!
//! Errors of a document are sent as an event, because browsers hide the body of a response with an error
//! status from their scripts. After a stream without a final event, the client reconnects.

use std::{convert::Infallible, time::Duration};

use async_graphql::ServerError;
use axum::{
    body::{Body, Bytes},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use futures::{Stream, stream};
use tokio::time::timeout;

use super::operation::{Rendered, errors};
use crate::live::{EndReason, Subscription, SubscriptionItem};

/// A comment. The first one makes browsers report an open stream, and later ones show that it still is.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The final event. Browsers ignore events without data.
const COMPLETE: &[u8] = b"event: complete\ndata:\n\n";

/// Returns a stream with a single result, or with errors.
pub(crate) fn single_result(rendered: Rendered) -> Response {
    event_response(Body::from(match rendered {
        Rendered::Executed(json) => [&encode_result(json.as_bytes()), COMPLETE].concat(),
        Rendered::Refused(query_errors) => encode_refusal(&query_errors),
    }))
}

/// Returns a stream of results. A comment is sent after each heartbeat interval without a result.
pub(crate) fn result_stream(subscription: Subscription, heartbeat: Duration) -> Response {
    event_response(Body::from_stream(events(subscription, heartbeat)))
}

fn events(
    subscription: Subscription,
    heartbeat: Duration,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let opening = stream::iter([Ok(COMMENT)]);
    let results = stream::unfold(Some(subscription), move |subscription: Option<Subscription>| async move {
        let mut subscription = subscription?;
        let event = match timeout(heartbeat, subscription.next()).await {
            Ok(SubscriptionItem::Payload(json)) => encode_result(&json).into(),
            Ok(SubscriptionItem::Ended(end)) => {
                return Some((Ok(encode_refusal(&[reason(end)?]).into()), None));
            }
            Err(_) => COMMENT,
        };
        Some((Ok(event), Some(subscription)))
    });
    stream::StreamExt::chain(opening, results)
}

/// Encodes a result as an event. JSON contains no line breaks: strings escape them, and the encoder adds
/// none.
fn encode_result(json: &[u8]) -> Vec<u8> {
    [b"event: next\ndata: ", json, b"\n\n"].concat()
}

fn encode_refusal(query_errors: &[ServerError]) -> Vec<u8> {
    [&encode_result(errors(query_errors).to_string().as_bytes()), COMPLETE].concat()
}

/// Returns the error for the end of a stream. Returns None if the client should reconnect.
fn reason(end: EndReason) -> Option<ServerError> {
    let (message, code) = match end {
        EndReason::Unauthenticated => ("the token is no longer valid", "UNAUTHENTICATED"),
        EndReason::Forbidden => ("the token may no longer be used for this", "FORBIDDEN"),
        EndReason::GoingAway => return None,
    };
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code);
    Some(error)
}

fn event_response(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Without this header, some proxies buffer the stream.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}
