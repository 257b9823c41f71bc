//! Stops of clusters: the origin and the reason, as the scheduler reports them when it closes.

use std::fmt;

use entity::cluster_control::StopOrigin;

/// The largest length of a reason, in characters.
pub const MAX_REASON: usize = 200;

/// The error for a text that is not a valid reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have at most {MAX_REASON} characters, none of them a control character")]
pub struct ReasonError;

/// The reason of a stop, in the words of its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopReason(String);

impl StopReason {
    /// Creates a reason without the surrounding white space. Returns `None` if nothing is left.
    ///
    /// # Errors
    /// Returns [`ReasonError`] if the text is too long or contains control characters.
    pub fn new(text: &str) -> Result<Option<Self>, ReasonError> {
        let text = text.trim();
        if text.chars().count() > MAX_REASON || text.chars().any(char::is_control) {
            return Err(ReasonError);
        }
        Ok(Some(Self(text.to_owned())).filter(|reason| !reason.0.is_empty()))
    }

    /// Shortens a text to a valid reason, for sources whose authors cannot shorten it themselves.
    #[must_use]
    pub fn truncate(text: &str) -> Option<Self> {
        let words = text.split(|character: char| character.is_control() || character.is_whitespace());
        let text = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let cut: String = text.chars().take(MAX_REASON).collect();
        Some(Self(cut.trim_end().to_owned())).filter(|reason| !reason.0.is_empty())
    }

    /// Creates the reason for the stop of a cluster that had no work for this time.
    #[must_use]
    pub fn idle_for(milliseconds: i64) -> Self {
        Self(format!("no work for {} seconds", milliseconds / 1_000))
    }

    /// Returns the text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// A stop as a sentence.
#[derive(Clone, Copy, Debug)]
pub struct StopSentence<'a> {
    /// The origin of the stop. `None` if it is not known.
    pub origin: Option<StopOrigin>,
    /// The name of the user. `None` unless the origin is a current member.
    pub user: Option<&'a str>,
    /// The reason, if one was given.
    pub reason: Option<&'a str>,
}

impl fmt::Display for StopSentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requested through Galvo")?;
        match (self.origin, self.user) {
            (Some(StopOrigin::IdlePolicy), _) => f.write_str(" by the idle policy")?,
            (Some(StopOrigin::Operator), _) => f.write_str(" by an operator")?,
            (Some(StopOrigin::User), Some(user)) => write!(f, " by {user}")?,
            _ => {}
        }
        match self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_short_and_stops_are_sentences() {
        let reason = |text: &str| StopReason::new(text).map(|reason| reason.map(StopReason::into_string));
        assert_eq!(reason(" too dear \n"), Ok(Some("too dear".to_owned())));
        assert_eq!(reason("  "), Ok(None));
        assert_eq!(reason("a\nb"), Err(ReasonError));
        assert_eq!(reason(&"é".repeat(MAX_REASON)), Ok(Some("é".repeat(MAX_REASON))));
        assert_eq!(reason(&"é".repeat(MAX_REASON + 1)), Err(ReasonError));
        let cut = |text: &str| StopReason::truncate(text).map(StopReason::into_string);
        assert_eq!(cut(" too\n\tdear \0"), Some("too dear".to_owned()));
        assert_eq!(cut(" \n "), None);
        assert_eq!(cut(&"é".repeat(6_000)), Some("é".repeat(MAX_REASON)));
        let idle = StopReason::idle_for(61_999).into_string();
        for (origin, user, reason, sentence) in [
            (None, None, None, "requested through Galvo"),
            (Some(StopOrigin::User), Some("ada"), None, "requested through Galvo by ada"),
            (Some(StopOrigin::User), None, Some("why"), "requested through Galvo: why"),
            (Some(StopOrigin::Operator), None, Some("why"), "requested through Galvo by an operator: why"),
            (
                Some(StopOrigin::IdlePolicy),
                None,
                Some(idle.as_str()),
                "requested through Galvo by the idle policy: no work for 61 seconds",
            ),
        ] {
            assert_eq!(StopSentence { origin, user, reason }.to_string(), sentence);
        }
    }
}
