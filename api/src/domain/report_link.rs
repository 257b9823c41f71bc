//! Links to the content of a performance report, for an iframe with an opaque origin.
//!
//! Browsers send no cookie to such an iframe, so the link itself names the session for which it was made.
//! The link is valid for a short time, and only while that session is. The server's keys encrypt it
//! (`http/extract/encrypted_text.rs`), so that it reveals nothing.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use entity::{Timestamp, ids::PerformanceReportId};

/// The validity of a link. A browser follows it as soon as it has loaded the page.
pub const LINK_VALIDITY: TimeDelta = TimeDelta::minutes(1);

/// The separator between the parts of a link. It occurs in none of them.
const SEPARATOR: char = ' ';

/// The content of a link, before encryption and after decryption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportLink {
    /// The report.
    pub report: PerformanceReportId,
    /// The stored id of the session whose page has the link.
    pub session: Vec<u8>,
    /// The slug of the account.
    pub account: String,
    /// The time at which it was made, in epoch milliseconds.
    pub made_at: i64,
}

impl ReportLink {
    /// Encodes the link as text.
    #[must_use]
    pub fn encode(&self) -> String {
        let session = URL_SAFE_NO_PAD.encode(&self.session);
        format!("{}{SEPARATOR}{session}{SEPARATOR}{}{SEPARATOR}{}", self.report, self.account, self.made_at)
    }

    /// Decodes a link. Returns `None` if the text is not a link that is valid now.
    #[must_use]
    pub fn decode(text: &str, now: Timestamp) -> Option<Self> {
        let mut parts = text.split(SEPARATOR);
        let link = Self {
            report: parts.next()?.parse().ok()?,
            session: URL_SAFE_NO_PAD.decode(parts.next()?).ok()?,
            account: parts.next()?.to_owned(),
            made_at: parts.next()?.parse().ok()?,
        };
        let age = TimeDelta::milliseconds(now.0.timestamp_millis().checked_sub(link.made_at)?);
        // The clock of another server may be slightly behind.
        let is_valid = age <= LINK_VALIDITY && age >= -LINK_VALIDITY && parts.next().is_none();
        is_valid.then_some(link)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_link_is_good_for_a_minute() {
        let link = ReportLink {
            report: PerformanceReportId(Uuid::from_u128(7)),
            session: vec![0, 255, 32],
            account: "ada".to_owned(),
            made_at: 1_000_000,
        };
        let text = link.encode();
        let at = |milliseconds| DateTime::from_timestamp_millis(milliseconds).expect("a time").into();
        for (now, good) in [(1_000_000, true), (1_060_000, true), (1_060_001, false), (939_999, false)] {
            assert_eq!(ReportLink::decode(&text, at(now)), good.then(|| link.clone()), "{now}");
        }
        for wrong in ["", "x", &text[1..], &format!("{text} x"), &text[..text.len() - 8]] {
            assert_eq!(ReportLink::decode(wrong, at(1_000_000)), None, "{wrong}");
        }
    }
}
