//! The reasons for closing a socket.

use axum::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};

use crate::{http::extract::problem::Problem, live::EndReason};

/// The reason for closing a socket. Clients reconnect after some codes and not after others, which
/// decides where two codes would apply: no client reconnects after 4401, because its credentials are
/// invalid, and every client does after 4403, because their permissions may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// The client sent a message that is not part of the protocol.
    Invalid,
    /// The credentials are invalid or have expired, or the client started an operation before it sent
    /// any.
    Unauthorized,
    /// The credentials are valid but do not permit this.
    Forbidden,
    /// The client offered no supported subprotocol.
    Subprotocol,
    /// The client did not initialize the connection in time.
    InitialisationTimeout,
    /// An operation has the identifier of another running operation.
    IdentifierTaken,
    /// The client initialized the connection twice.
    TooManyInitialisations,
    /// A message exceeds the size limit.
    TooLarge,
    /// A text message is not UTF-8.
    NotText,
    /// The data violates the WebSocket protocol.
    NotFrames,
    /// The server is shutting down. Another server may continue.
    GoingAway,
    /// The store is unavailable.
    Unavailable,
    /// An internal error, which the log describes.
    Failed,
    /// The client has finished.
    Done,
    /// The client is gone, so no close frame can be sent.
    Lost,
}

impl Close {
    /// Returns the close frame. Its reason contains nothing that the client sent, and fits in 123 bytes.
    pub(super) fn frame(self) -> Option<CloseFrame> {
        let (code, reason) = match self {
            Self::Invalid => (4400, "Invalid message received"),
            Self::Unauthorized => (4401, "Unauthorized"),
            Self::Forbidden => (4403, "Forbidden"),
            Self::Subprotocol => (4406, "Subprotocol not acceptable"),
            Self::InitialisationTimeout => (4408, "Connection initialisation timeout"),
            Self::IdentifierTaken => (4409, "Subscriber for this id already exists"),
            Self::TooManyInitialisations => (4429, "Too many initialisation requests"),
            Self::TooLarge => (1009, "Message too large"),
            Self::NotText => (1007, "Text is not UTF-8"),
            Self::NotFrames => (1002, "Protocol error"),
            Self::GoingAway => (1001, "Server is shutting down"),
            Self::Unavailable => (1013, "Try again later"),
            Self::Failed => (1011, "Internal error"),
            Self::Done => (1000, "Normal closure"),
            Self::Lost => return None,
        };
        Some(CloseFrame { code: CloseCode::from(code), reason: reason.into() })
    }

    /// Returns the reason for closing the socket if a problem affects more than its own operation.
    pub(super) fn of(problem: &Problem) -> Option<Self> {
        match problem.status() {
            StatusCode::UNAUTHORIZED => Some(Self::Unauthorized),
            StatusCode::FORBIDDEN => Some(Self::Forbidden),
            _ => None,
        }
    }
}

impl From<EndReason> for Close {
    fn from(end: EndReason) -> Self {
        match end {
            EndReason::Unauthenticated => Self::Unauthorized,
            EndReason::Forbidden => Self::Forbidden,
            EndReason::GoingAway => Self::GoingAway,
        }
    }
}

/// The reason for rejecting a connection.
impl From<Problem> for Close {
    fn from(problem: Problem) -> Self {
        Self::of(&problem).unwrap_or_else(|| match problem.status() {
            StatusCode::SERVICE_UNAVAILABLE => Self::Unavailable,
            status if status.is_client_error() => Self::Invalid,
            _ => Self::Failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_every_reason() {
        for close in [
            Close::Invalid,
            Close::Unauthorized,
            Close::Forbidden,
            Close::Subprotocol,
            Close::InitialisationTimeout,
            Close::IdentifierTaken,
            Close::TooManyInitialisations,
            Close::TooLarge,
            Close::NotText,
            Close::NotFrames,
            Close::GoingAway,
            Close::Unavailable,
            Close::Failed,
            Close::Done,
        ] {
            let frame = close.frame().expect("it is sent");
            assert!(frame.reason.len() <= 123 && frame.code.is_allowed(), "{close:?}");
        }
        assert!(Close::Lost.frame().is_none());
    }

    #[test]
    fn problems_of_one_operation_do_not_end_the_others() {
        for (problem, of_operation, at_the_beginning) in [
            (Problem::unauthenticated(""), Some(Close::Unauthorized), Close::Unauthorized),
            (Problem::forbidden("", ""), Some(Close::Forbidden), Close::Forbidden),
            (Problem::rate_limited(1, ""), None, Close::Invalid),
            (Problem::malformed(""), None, Close::Invalid),
            (Problem::unavailable(""), None, Close::Unavailable),
        ] {
            assert_eq!(Close::of(&problem), of_operation, "{problem:?}");
            assert_eq!(Close::from(problem), at_the_beginning);
        }
    }
}
