//! Policies of accounts for idle clusters.

use std::ops::RangeInclusive;

use entity::{
    idle_policy::{Mode, Model},
    json_columns::TagPattern,
};

use super::tag::{MAX_PATTERNS, TagError};

/// The accepted idle timeouts, in seconds: a minute to a year.
pub const TIMEOUTS: RangeInclusive<i64> = 60..=31_536_000;

/// The default time between the warning and the end of the timeout, in seconds.
pub const DEFAULT_WARNING_SECONDS: i64 = 300;

/// An account's policy for idle clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// The action on a cluster whose idle timeout has passed.
    pub mode: Mode,
    /// The idle timeout, in seconds. `None` if there is none.
    pub timeout_seconds: Option<i64>,
    /// The time between the warning and the end of the timeout, in seconds.
    pub warn_before_seconds: i64,
    /// Tags that exempt a cluster.
    pub exempt_tags: Vec<TagPattern>,
    /// The time of the last change, in milliseconds of the server's clock. Earlier idleness does not
    /// count.
    pub changed_at: i64,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self {
            mode: Mode::Observe,
            timeout_seconds: None,
            warn_before_seconds: DEFAULT_WARNING_SECONDS,
            exempt_tags: Vec::new(),
            changed_at: 0,
        }
    }
}

impl From<Model> for IdlePolicy {
    fn from(row: Model) -> Self {
        Self {
            mode: row.mode,
            timeout_seconds: row.timeout_seconds,
            warn_before_seconds: row.warn_before_seconds,
            exempt_tags: row.exempt_tags.0,
            changed_at: row.changed_at.timestamp_millis(),
        }
    }
}

/// The reason for rejecting a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdlePolicyError {
    /// The timeout is out of range.
    #[error("must be from {} to {} seconds", TIMEOUTS.start(), TIMEOUTS.end())]
    Timeout,
    /// The mode needs a timeout.
    #[error("is needed to warn or to stop")]
    TimeoutMissing,
    /// The warning period is negative or not shorter than the timeout.
    #[error("must be from 0 seconds to less than the timeout")]
    Warning,
    /// The policy has too many exempt tags.
    #[error("must be at most {MAX_PATTERNS}")]
    TooManyTags,
    /// An exempt tag is not valid.
    #[error(transparent)]
    Tag(TagError),
}

impl IdlePolicy {
    /// Checks the policy.
    ///
    /// # Errors
    /// Returns every violation.
    pub fn check(&self) -> Result<(), Vec<IdlePolicyError>> {
        let end = self.timeout_seconds.unwrap_or(*TIMEOUTS.end());
        let rules = [
            (self.timeout_seconds.is_some_and(|time| !TIMEOUTS.contains(&time)), IdlePolicyError::Timeout),
            (self.timeout_seconds.is_none() && self.mode != Mode::Observe, IdlePolicyError::TimeoutMissing),
            (!(0..end).contains(&self.warn_before_seconds), IdlePolicyError::Warning),
            (self.exempt_tags.len() > MAX_PATTERNS, IdlePolicyError::TooManyTags),
        ];
        let violations: Vec<_> =
            rules.into_iter().filter_map(|(is_violated, error)| is_violated.then_some(error)).collect();
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_account_may_want() {
        use IdlePolicyError::{Timeout, TimeoutMissing, TooManyTags, Warning};
        let policy = |mode, timeout_seconds, warn_before_seconds, tags| IdlePolicy {
            mode,
            timeout_seconds,
            warn_before_seconds,
            exempt_tags: vec![TagPattern { key: "keep".to_owned(), value: None }; tags],
            changed_at: 0,
        };
        for (policy, expected) in [
            (IdlePolicy::default(), vec![]),
            (policy(Mode::Stop, Some(60), 0, 20), vec![]),
            (policy(Mode::Warn, Some(31_536_000), 31_535_999, 0), vec![]),
            (policy(Mode::Warn, None, 0, 0), vec![TimeoutMissing]),
            (policy(Mode::Observe, Some(59), 60, 21), vec![Timeout, Warning, TooManyTags]),
            (policy(Mode::Stop, Some(600), 600, 0), vec![Warning]),
            (policy(Mode::Observe, None, -1, 0), vec![Warning]),
        ] {
            assert_eq!(policy.check().err().unwrap_or_default(), expected, "{policy:?}");
        }
    }
}
