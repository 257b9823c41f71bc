//! What is to be thought of a group of errors: what somebody said of it, and whether that still holds.

use entity::{Timestamp, error_group::Status};

/// What is to be thought of a group of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStatus {
    /// Nobody has said anything else.
    Open,
    /// It was resolved, and one of its errors happened after that.
    Regressed,
    /// It was resolved, and none has happened since.
    Resolved,
    /// It may happen.
    Ignored,
}

impl ErrorStatus {
    /// From what was said, until when errors are covered by that, and when the last one happened. Whoever writes an
    /// error need not know.
    #[must_use]
    pub fn of(said: Status, resolved_until: Option<Timestamp>, last_seen_at: Timestamp) -> Self {
        match said {
            Status::Open => Self::Open,
            Status::Ignored => Self::Ignored,
            Status::Resolved if resolved_until.is_some_and(|until| last_seen_at.0 > until.0) => {
                Self::Regressed
            }
            Status::Resolved => Self::Resolved,
        }
    }
}
