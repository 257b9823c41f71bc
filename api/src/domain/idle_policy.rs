//! What an account may want of clusters that have nothing to do.

use std::ops::RangeInclusive;

use entity::{
    idle_policy::{Mode, Model},
    list::TagPattern,
};

use super::tag::{MAX_PATTERNS, TagError};

/// How long without work can be too long, in seconds: a minute to a year.
pub const TIMEOUTS: RangeInclusive<i64> = 60..=31_536_000;

/// How long before that it is marked, unless the account says otherwise, in seconds.
pub const DEFAULT_WARNING_SECONDS: i64 = 300;

/// What an account wants of clusters that have nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdlePolicy {
    /// What is to become of one that had nothing to do for too long.
    pub mode: Mode,
    /// How long that is, in seconds; none for never.
    pub timeout_seconds: Option<i64>,
    /// How long before it is marked for its user to see, in seconds.
    pub warn_before_seconds: i64,
    /// Clusters with one of these tags are left alone.
    pub exempt_tags: Vec<TagPattern>,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self {
            mode: Mode::Observe,
            timeout_seconds: None,
            warn_before_seconds: DEFAULT_WARNING_SECONDS,
            exempt_tags: Vec::new(),
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
        }
    }
}

/// Why an account cannot want this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdlePolicyError {
    /// Nothing is too long, or nothing is long at all.
    #[error("must be from {} to {} seconds", TIMEOUTS.start(), TIMEOUTS.end())]
    Timeout,
    /// There is no moment to do anything at.
    #[error("is needed to warn or to stop")]
    TimeoutMissing,
    /// The warning would come before the idleness.
    #[error("must be from 0 seconds to less than the timeout")]
    Warning,
    /// What is left alone is named in too many words.
    #[error("must be at most {MAX_PATTERNS}")]
    TooManyTags,
    /// What is left alone is no tag.
    #[error(transparent)]
    Tag(TagError),
}

impl IdlePolicy {
    /// Whether an account may want this.
    ///
    /// # Errors
    /// What is wrong with it, all of it.
    pub fn check(&self) -> Result<(), Vec<IdlePolicyError>> {
        let end = self.timeout_seconds.unwrap_or(*TIMEOUTS.end());
        let wrong = [
            (self.timeout_seconds.is_some_and(|time| !TIMEOUTS.contains(&time)), IdlePolicyError::Timeout),
            (self.timeout_seconds.is_none() && self.mode != Mode::Observe, IdlePolicyError::TimeoutMissing),
            (!(0..end).contains(&self.warn_before_seconds), IdlePolicyError::Warning),
            (self.exempt_tags.len() > MAX_PATTERNS, IdlePolicyError::TooManyTags),
        ];
        let wrong: Vec<_> =
            wrong.into_iter().filter_map(|(is_wrong, error)| is_wrong.then_some(error)).collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
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
        };
        for (policy, wrong) in [
            (IdlePolicy::default(), vec![]),
            (policy(Mode::Stop, Some(60), 0, 20), vec![]),
            (policy(Mode::Warn, Some(31_536_000), 31_535_999, 0), vec![]),
            (policy(Mode::Warn, None, 0, 0), vec![TimeoutMissing]),
            (policy(Mode::Observe, Some(59), 60, 21), vec![Timeout, Warning, TooManyTags]),
            (policy(Mode::Stop, Some(600), 600, 0), vec![Warning]),
            (policy(Mode::Observe, None, -1, 0), vec![Warning]),
        ] {
            assert_eq!(policy.check().err().unwrap_or_default(), wrong, "{policy:?}");
        }
    }
}
