//! Sessions of browsers: what the cookie holds, what is stored of it, and when one is over.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::TimeDelta;
use entity::{Timestamp, session::Model};
use rand::Rng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A session that was used is written down as used again after this long, and not with every request.
const WRITTEN_EVERY: TimeDelta = TimeDelta::minutes(5);

/// What a browser proves its session with: 256 random bits. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSecret([u8; 32]);

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionLife {
    /// From when it began, however much it is used.
    pub absolute: TimeDelta,
    /// From when it was last used.
    pub idle: TimeDelta,
}

impl SessionSecret {
    /// A new one.
    pub fn generate(random: &mut impl Rng) -> Self {
        let mut secret = [0; 32];
        random.fill_bytes(&mut secret);
        Self(secret)
    }

    /// Reads what a cookie holds; `None` when it cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // More than this is not decoded to find out.
        let plausible = (text.len() == 43).then_some(text)?;
        URL_SAFE_NO_PAD.decode(plausible).ok()?.try_into().ok().map(Self)
    }

    /// What the cookie holds.
    #[must_use]
    pub fn reveal(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// What is stored of it, and found by.
    #[must_use]
    pub fn id(&self) -> Vec<u8> {
        Sha256::digest(self.0).to_vec()
    }

    /// What pages and scripts of ours send along to show that they could read what was sent to this browser, which
    /// those of others cannot. It does not lead back to the secret.
    #[must_use]
    pub fn csrf_token(&self) -> String {
        let token =
            Sha256::new_with_prefix(b"galvo: requests of our own pages\0").chain_update(self.0).finalize();
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Whether a text is that token, in a time that does not tell how much agrees.
    #[must_use]
    pub fn csrf_matches(&self, sent: &[u8]) -> bool {
        self.csrf_token().as_bytes().ct_eq(sent).into()
    }
}

impl SessionLife {
    /// When a session that begins now ends at the latest.
    #[must_use]
    pub fn end(self, now: Timestamp) -> Timestamp {
        now.0.checked_add_signed(self.absolute).unwrap_or(now.0).into()
    }

    /// Before when a session must have been used last to be over now.
    #[must_use]
    pub fn idle_since(self, now: Timestamp) -> Timestamp {
        now.0.checked_sub_signed(self.idle).unwrap_or(now.0).into()
    }

    /// Whether a session is over.
    #[must_use]
    pub fn is_over(self, session: &Model, now: Timestamp) -> bool {
        session.expires_at.0 <= now.0 || session.used_at.0 <= self.idle_since(now).0
    }

    /// Whether it is to be written down that a session is used.
    #[must_use]
    pub fn is_to_be_noted(self, session: &Model, now: Timestamp) -> bool {
        now.0 - session.used_at.0 >= WRITTEN_EVERY.min(self.idle / 10)
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
        assert!(SessionSecret::parse(&one.reveal()) == Some(one.clone()));
        assert!(one.csrf_matches(one.csrf_token().as_bytes()));
        for wrong in [other.csrf_token(), one.reveal(), String::new(), one.csrf_token() + "A"] {
            assert!(!one.csrf_matches(wrong.as_bytes()), "{wrong}");
        }
        for text in ["", "x", &"A".repeat(42), &"A".repeat(44), &"!".repeat(43)] {
            assert!(SessionSecret::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn what_is_stored_is_sha_256() {
        // head -c 32 /dev/zero | sha256sum; the second with "galvo: requests of our own pages" and a zero in front
        let secret = SessionSecret([0; 32]);
        let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        assert_eq!(hex(&secret.id()), "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
        assert_ne!(secret.csrf_token(), URL_SAFE_NO_PAD.encode(secret.id()));
    }

    #[test]
    fn a_session_is_over_when_it_is_old_or_idle() {
        let at = |hours: i64| Timestamp::from(DateTime::UNIX_EPOCH + TimeDelta::hours(hours));
        let life = SessionLife { absolute: TimeDelta::days(30), idle: TimeDelta::days(7) };
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
            life.is_to_be_noted(&session(1), Timestamp::from(at(1).0 + TimeDelta::minutes(minutes)))
        };
        assert!(!noted(0) && !noted(4) && noted(5));
    }
}
