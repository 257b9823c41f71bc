//! That a cluster is to stop: who says so, and why, as its scheduler gives it when it closes.

use std::fmt;

use entity::cluster_control::StopOrigin;

/// Characters of a reason at the most.
pub const MAX_REASON: usize = 200;

/// Why a text cannot be a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have at most {MAX_REASON} characters, none of them a control character")]
pub struct ReasonError;

/// Why somebody wants a cluster to stop, in their words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// A reason as it came, without the white space round it; none if there is nothing else.
    ///
    /// # Errors
    /// [`ReasonError`]
    pub fn new(text: &str) -> Result<Option<Self>, ReasonError> {
        let text = text.trim();
        if text.chars().count() > MAX_REASON || text.chars().any(char::is_control) {
            return Err(ReasonError);
        }
        Ok(Some(Self(text.to_owned())).filter(|reason| !reason.0.is_empty()))
    }

    /// As much of a text as a reason can be, of one that comes from where nobody can write a shorter one.
    #[must_use]
    pub fn cut(text: &str) -> Option<Self> {
        let words = text.split(|character: char| character.is_control() || character.is_whitespace());
        let text = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let cut: String = text.chars().take(MAX_REASON).collect();
        Some(Self(cut.trim_end().to_owned())).filter(|reason| !reason.0.is_empty())
    }

    /// Of a cluster that had no work for so many milliseconds.
    #[must_use]
    pub fn idle_for(milliseconds: i64) -> Self {
        Self(format!("no work for {} seconds", milliseconds / 1_000))
    }

    /// The text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

/// A stop as a sentence.
#[derive(Clone, Copy, Debug)]
pub struct Sentence<'a> {
    /// Who wants it; none where that is not known.
    pub origin: Option<StopOrigin>,
    /// What the member is called, if it is one who is there.
    pub user: Option<&'a str>,
    /// Why.
    pub reason: Option<&'a str>,
}

impl fmt::Display for Sentence<'_> {
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
        let reason = |text: &str| Reason::new(text).map(|reason| reason.map(Reason::into_string));
        assert_eq!(reason(" too dear \n"), Ok(Some("too dear".to_owned())));
        assert_eq!(reason("  "), Ok(None));
        assert_eq!(reason("a\nb"), Err(ReasonError));
        assert_eq!(reason(&"é".repeat(MAX_REASON)), Ok(Some("é".repeat(MAX_REASON))));
        assert_eq!(reason(&"é".repeat(MAX_REASON + 1)), Err(ReasonError));
        let cut = |text: &str| Reason::cut(text).map(Reason::into_string);
        assert_eq!(cut(" too\n\tdear \0"), Some("too dear".to_owned()));
        assert_eq!(cut(" \n "), None);
        assert_eq!(cut(&"é".repeat(6_000)), Some("é".repeat(MAX_REASON)));
        let idle = Reason::idle_for(61_999).into_string();
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
            assert_eq!(Sentence { origin, user, reason }.to_string(), sentence);
        }
    }
}
