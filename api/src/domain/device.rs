//! A browser in which a user signed in before. Its cookie distinguishes it from other browsers, so that
//! failed attempts from the same address do not lock its user out.
//!
//! The cookie grants no access. The server's keys encrypt it (`http/extract/encrypted_text.rs`), and it is
//! valid for the sign-ins of one user.

use chrono::TimeDelta;
use entity::Timestamp;
use uuid::Uuid;

/// The time after the last sign-in for which a browser stays known. Browsers keep no cookie for longer.
pub const KNOWN_DEVICE_LIFETIME: TimeDelta = TimeDelta::days(400);

/// A browser in which a user signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// The id of the browser.
    pub id: Uuid,
    /// The name of the user.
    pub user: String,
    /// The time of the user's last sign-in, in epoch milliseconds.
    pub since: i64,
}

impl Device {
    /// Encodes the content of the cookie, before encryption.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{} {} {}", self.id, self.since, self.user)
    }

    /// Decodes the decrypted content of a cookie. Returns `None` if it is not valid or too old.
    #[must_use]
    pub fn decode(text: &str, now: Timestamp) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let device = Self {
            id: parts.next()?.parse().ok()?,
            since: parts.next()?.parse().ok()?,
            user: parts.next()?.to_owned(),
        };
        let age = now.0.timestamp_millis().checked_sub(device.since)?;
        (age <= KNOWN_DEVICE_LIFETIME.num_milliseconds()).then_some(device)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    #[test]
    fn a_browser_is_known_for_some_time() {
        let device = Device { id: Uuid::from_u128(7), user: "ada".to_owned(), since: 0 };
        let at = |milliseconds| DateTime::from_timestamp_millis(milliseconds).expect("a time").into();
        let end = KNOWN_DEVICE_LIFETIME.num_milliseconds();
        assert_eq!(Device::decode(&device.encode(), at(end)), Some(device.clone()));
        assert_eq!(Device::decode(&device.encode(), at(end + 1)), None);
        for wrong in ["", "x", "x 0 ada", &format!("{} x ada", device.id), &device.id.to_string()] {
            assert_eq!(Device::decode(wrong, at(0)), None, "{wrong}");
        }
    }
}
