//! Triage status of error groups: the user's decision, and the errors since then.

use entity::{Timestamp, error_group::Status};

/// The triage status of an error group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorStatus {
    /// No decision was made.
    Open,
    /// It was resolved, and an error occurred after that.
    Regressed,
    /// It was resolved, and no error has occurred since.
    Resolved,
    /// Errors of this group are accepted.
    Ignored,
}

impl ErrorStatus {
    /// Derives the status from the decision, the end of its validity for resolved groups, and the time of
    /// the last error. So storing an error requires no knowledge of the decision.
    #[must_use]
    pub fn derive(stored: Status, resolved_until: Option<Timestamp>, last_seen_at: Timestamp) -> Self {
        match stored {
            Status::Open => Self::Open,
            Status::Ignored => Self::Ignored,
            Status::Resolved if resolved_until.is_some_and(|until| last_seen_at.0 > until.0) => {
                Self::Regressed
            }
            Status::Resolved => Self::Resolved,
        }
    }
}
