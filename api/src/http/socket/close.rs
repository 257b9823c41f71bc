//! Why a socket ends, as its client is told.

use axum::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, frame::coding::CloseCode};

use crate::{http::problem::Problem, live::End};

/// Why a socket ends. Clients come back by themselves after some of these and not after others, which is what decides
/// between two that would both be true: nobody comes back after 4401, since the credentials are no good, and everybody
/// after 4403, since others may change what they are good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Close {
    /// The client said what the protocol does not have.
    Invalid,
    /// The credentials are not good, or no longer; or something was asked for before any were shown.
    Unauthorized,
    /// The credentials are good, and not for this.
    Forbidden,
    /// The client speaks no protocol of ours.
    Subprotocol,
    /// The client said nothing for too long.
    InitialisationTimeout,
    /// An operation has the identifier of one that is under way.
    IdentifierTaken,
    /// The client began twice.
    TooManyInitialisations,
    /// A message is larger than any may be.
    TooLarge,
    /// A text is none.
    NotText,
    /// What came is not of WebSockets.
    NotFrames,
    /// The server stops, and another may go on.
    GoingAway,
    /// The store does not answer.
    Unavailable,
    /// A defect of ours, which stands in the log.
    Failed,
    /// The client is done.
    Done,
    /// Nobody is there any more to be told anything.
    Lost,
}

impl Close {
    /// What the client is told, with a reason that holds nothing it sent: a frame takes 123 bytes.
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

    /// Whether a problem ends more than the operation that met with it, and how.
    pub(super) fn of(problem: &Problem) -> Option<Self> {
        match problem.status() {
            StatusCode::UNAUTHORIZED => Some(Self::Unauthorized),
            StatusCode::FORBIDDEN => Some(Self::Forbidden),
            _ => None,
        }
    }
}

impl From<End> for Close {
    fn from(end: End) -> Self {
        match end {
            End::Unauthenticated => Self::Unauthorized,
            End::Forbidden => Self::Forbidden,
            End::GoingAway => Self::GoingAway,
        }
    }
}

/// Why nobody gets in.
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
            let frame = close.frame().expect("it is told");
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
