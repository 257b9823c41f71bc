//! Times in RFC 3339 notation with a time zone. A text without a required part is ambiguous, and the
//! error names this part.

use chrono::{DateTime, NaiveDate, NaiveDateTime, ParseError, Utc, format::ParseErrorKind};
use serde::{Deserialize, Deserializer, de::Error as _};

/// The reason why a text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// The text is a date. Time of day and zone are missing.
    #[error("the time of day and the zone are missing: write 2026-11-20T08:00:00Z, or +01:00 for Z")]
    Day,
    /// The zone is missing.
    #[error("the zone is missing: write 2026-11-20T08:00:00Z, or +01:00 for Z")]
    Zone,
    /// The end is missing.
    #[error("is incomplete: write 2026-11-20T08:00:00Z")]
    Short,
    /// The text is not a time in any form.
    #[error("is not a time as in 2026-11-20T08:00:00Z")]
    Other,
}

/// Parses a time.
///
/// # Errors
/// Returns [`TimeError`] with the missing part.
pub fn parse(text: &str) -> Result<DateTime<Utc>, TimeError> {
    text.parse().map_err(|error: ParseError| {
        let local = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
        if NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() {
            TimeError::Day
        } else if local.iter().any(|format| NaiveDateTime::parse_from_str(text, format).is_ok()) {
            TimeError::Zone
        } else if error.kind() == ParseErrorKind::TooShort {
            TimeError::Short
        } else {
            TimeError::Other
        }
    })
}

/// Deserializes an optional time.
///
/// # Errors
/// Returns the error of [`parse`].
pub fn deserialize_optional<'de, D: Deserializer<'de>>(json: D) -> Result<Option<DateTime<Utc>>, D::Error> {
    let text = Option::<String>::deserialize(json)?;
    text.map(|text| parse(&text).map_err(D::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_a_day_a_time_and_a_zone() {
        // The second text is an example from RFC 3339, section 5.8, which states that it is the same time
        // as the first.
        for (text, seconds) in [
            ("1996-12-20T00:39:57Z", 851_042_397),
            ("1996-12-19T16:39:57-08:00", 851_042_397),
            ("1970-01-01T00:00:00.999+00:00", 0),
        ] {
            assert_eq!(parse(text).map(|time| time.timestamp()), Ok(seconds), "{text}");
        }
        for (text, missing) in [
            ("2026-12-24", TimeError::Day),
            ("2026-12-24T08:00:00", TimeError::Zone),
            ("2026-12-24T08:00:00.5", TimeError::Zone),
            ("2026-12-24 08:00", TimeError::Zone),
            ("2026-13-24", TimeError::Other),
            ("2026-12-24T25:00:00Z", TimeError::Other),
            ("08:00:00Z", TimeError::Other),
            ("2026-12-24T08", TimeError::Short),
            ("2026-12", TimeError::Short),
            ("tomorrow", TimeError::Other),
            ("", TimeError::Short),
        ] {
            assert_eq!(parse(text), Err(missing), "{text}");
        }
    }
}
