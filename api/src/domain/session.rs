//! Browser sessions: the secret in the cookie, the stored hash, and the expiry.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use entity::{Timestamp, session::Model};
use rand::Rng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The interval after which the use of a session is stored again, instead of with every request.
const USE_STORED_EVERY: TimeDelta = TimeDelta::minutes(5);

/// The secret that proves a browser session: 256 random bits. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret([u8; 32]);

/// The lifetimes of sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionLifetimes {
    /// The lifetime from the login, independent of use.
    pub absolute: TimeDelta,
    /// The lifetime from the last use.
    pub idle: TimeDelta,
}

impl SessionSecret {
    /// Creates a secret.
    pub fn generate(random: &mut impl Rng) -> Self {
        let mut secret = [0; 32];
        random.fill_bytes(&mut secret);
        Self(secret)
    }

    /// Parses the content of a cookie. Returns `None` if it is not a secret.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // The length is checked first, so that longer input is not decoded.
        let plausible = (text.len() == 43).then_some(text)?;
        URL_SAFE_NO_PAD.decode(plausible).ok()?.try_into().ok().map(Self)
    }

    /// Returns the content of the cookie.
    #[must_use]
    pub fn cookie_value(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// Returns the stored hash of the secret, which identifies the session.
    #[must_use]
    pub fn id(&self) -> Vec<u8> {
        Sha256::digest(self.0).to_vec()
    }

    /// Returns the CSRF token. Galvo's own pages and scripts send it to prove that they can read the
    /// responses to this browser, which other origins cannot. The secret cannot be derived from it.
    #[must_use]
    pub fn csrf_token(&self) -> String {
        let token =
            Sha256::new_with_prefix(b"galvo: requests of our own pages\0").chain_update(self.0).finalize();
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Returns true if the text is the CSRF token. The comparison takes constant time.
    #[must_use]
    pub fn csrf_matches(&self, sent: &[u8]) -> bool {
        self.csrf_token().as_bytes().ct_eq(sent).into()
    }
}

/// Returns the public identifier of a session, 16 hexadecimal digits. The stored hash, with which links of
/// a session's pages are made, cannot be derived from it.
#[must_use]
pub fn public_identifier(id: &[u8]) -> String {
    let digest = Sha256::new_with_prefix(b"galvo: identifier of a session\0").chain_update(id).finalize();
    digest[..8].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

impl SessionLifetimes {
    /// Returns the latest end of a session that begins now.
    #[must_use]
    pub fn end(self, now: Timestamp) -> Timestamp {
        now.0.checked_add_signed(self.absolute).unwrap_or(now.0).into()
    }

    /// Returns the time of the last use at or before which a session has expired.
    #[must_use]
    pub fn idle_since(self, now: Timestamp) -> Timestamp {
        now.0.checked_sub_signed(self.idle).unwrap_or(now.0).into()
    }

    /// Returns true if the session has expired.
    #[must_use]
    pub fn is_over(self, session: &Model, now: Timestamp) -> bool {
        session.expires_at.0 <= now.0 || session.used_at.0 <= self.idle_since(now).0
    }

    /// Returns true if the use of the session must be stored.
    #[must_use]
    pub fn should_store_use(self, session: &Model, now: Timestamp) -> bool {
        now.0 - session.used_at.0 >= USE_STORED_EVERY.min(self.idle / 10)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use entity::ids::UserId;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_secret_is_read_back_and_its_tokens_are_its_own() {
        let (one, other) =
            (SessionSecret::generate(&mut rand::rng()), SessionSecret::generate(&mut rand::rng()));
        assert!(SessionSecret::parse(&one.cookie_value()) == Some(one.clone()));
        assert!(one.csrf_matches(one.csrf_token().as_bytes()));
        for wrong in [other.csrf_token(), one.cookie_value(), String::new(), one.csrf_token() + "A"] {
            assert!(!one.csrf_matches(wrong.as_bytes()), "{wrong}");
        }
        for text in ["", "x", &"A".repeat(42), &"A".repeat(44), &"!".repeat(43)] {
            assert!(SessionSecret::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn what_is_stored_is_sha_256() {
        // head -c 32 /dev/zero | sha256sum; the second one with the prefix
        // "galvo: requests of our own pages" and a zero byte.
        let secret = SessionSecret([0; 32]);
        let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(hex(&secret.id()), "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
        assert_ne!(secret.csrf_token(), URL_SAFE_NO_PAD.encode(secret.id()));
        // (printf 'galvo: identifier of a session\0'; head -c 32 /dev/zero) | sha256sum | head -c 16
        assert_eq!(public_identifier(&[0; 32]), "a7cc3081d4047116");
    }

    #[test]
    fn a_session_is_over_when_it_is_old_or_idle() {
        let at = |hours: i64| Timestamp::from(DateTime::UNIX_EPOCH + TimeDelta::hours(hours));
        let life = SessionLifetimes { absolute: TimeDelta::days(30), idle: TimeDelta::days(7) };
        let session = |used: i64| Model {
            id: Vec::new(),
            user_id: UserId(Uuid::nil()),
            created_at: at(0),
            used_at: at(used),
            expires_at: life.end(at(0)),
        };
        for (used, now, over) in [
            (0, 0, false),
            (0, 7 * 24 - 1, false),
            (0, 7 * 24, true),
            (29 * 24, 30 * 24 - 1, false),
            (29 * 24, 30 * 24, true),
        ] {
            assert_eq!(life.is_over(&session(used), at(now)), over, "{used} {now}");
        }
        let noted = |minutes: i64| {
            life.should_store_use(&session(1), Timestamp::from(at(1).0 + TimeDelta::minutes(minutes)))
        };
        assert!(!noted(0) && !noted(4) && noted(5));
    }
}
