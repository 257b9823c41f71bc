//! GraphQL over server-sent events, in the mode in which each operation has a connection of its own.
//!
//! What is wrong with a document is told by an event, since browsers show their scripts no more of another status than that it
//! is one. A stream that ends without saying so is to be begun again.

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
use crate::live::{Delivered, End, Subscription};

/// A comment. The first one makes browsers believe that there is a stream, others that there still is.
const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// The last event. Browsers pass over events without data.
const COMPLETE: &[u8] = b"event: complete\ndata:\n\n";

/// One result, or what is wrong.
pub(super) fn once(rendered: Rendered) -> Response {
    answer(Body::from(match rendered {
        Rendered::Executed(json) => [&next(json.as_bytes()), COMPLETE].concat(),
        Rendered::Refused(wrong) => refusal(&wrong),
    }))
}

/// Results as they come, and a comment when none has come for so long.
pub(super) fn lasting(subscription: Subscription, heartbeat: Duration) -> Response {
    answer(Body::from_stream(events(subscription, heartbeat)))
}

fn events(
    subscription: Subscription,
    heartbeat: Duration,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    let begun = stream::iter([Ok(COMMENT)]);
    let results = stream::unfold(Some(subscription), move |subscription: Option<Subscription>| async move {
        let mut subscription = subscription?;
        let event = match timeout(heartbeat, subscription.next()).await {
            Ok(Delivered::Payload(json)) => next(&json).into(),
            Ok(Delivered::Ended(end)) => return Some((Ok(refusal(&[reason(end)?]).into()), None)),
            Err(_) => COMMENT,
        };
        Some((Ok(event), Some(subscription)))
    });
    stream::StreamExt::chain(begun, results)
}

/// A result. Nothing of it is a line break: in texts they are escaped, and there are none beside them.
fn next(json: &[u8]) -> Vec<u8> {
    [b"event: next\ndata: ", json, b"\n\n"].concat()
}

fn refusal(wrong: &[ServerError]) -> Vec<u8> {
    [&next(errors(wrong).to_string().as_bytes()), COMPLETE].concat()
}

/// Why there are no more results: none if there may be, and the stream is to be begun again.
fn reason(end: End) -> Option<ServerError> {
    let (message, code) = match end {
        End::Unauthenticated => ("the token is no longer valid", "UNAUTHENTICATED"),
        End::Forbidden => ("the token may no longer be used for this", "FORBIDDEN"),
        End::GoingAway => return None,
    };
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code);
    Some(error)
}

fn answer(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // Some proxies wait for more otherwise.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, body).into_response()
}
