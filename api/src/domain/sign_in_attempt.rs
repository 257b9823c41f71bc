//! An attempt to sign in with a provider elsewhere, while the browser is there: what only this browser knows, and what is
//! told the provider of it.
//!
//! All of it follows from a secret in a cookie, so that nothing has to be kept here for whoever never comes back.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use rand::Rng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::return_path::ReturnPath;

/// How long somebody may take at the provider.
pub const GOOD_FOR: TimeDelta = TimeDelta::minutes(10);

/// Bytes of a cookie that is looked at: the path to return to is the longest part.
const MAX_LENGTH: usize = 4_096;

/// An attempt that was begun. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInAttempt {
    secret: [u8; 32],
    /// Seconds since 1970.
    begun_at: i64,
    return_path: ReturnPath,
}

impl SignInAttempt {
    /// A new one.
    pub fn begin(random: &mut impl Rng, return_path: ReturnPath, now: DateTime<Utc>) -> Self {
        let mut secret = [0; 32];
        random.fill_bytes(&mut secret);
        Self { secret, begun_at: now.timestamp(), return_path }
    }

    /// Reads what a cookie holds; `None` when it cannot be one, or the browser was away for too long.
    #[must_use]
    pub fn parse(text: &str, now: DateTime<Utc>) -> Option<Self> {
        let mut parts = (text.len() <= MAX_LENGTH).then(|| text.split('.'))?;
        let (secret, begun_at, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = String::from_utf8(URL_SAFE_NO_PAD.decode(path).ok()?).ok()?;
        let attempt = Self {
            secret: URL_SAFE_NO_PAD.decode(secret).ok()?.try_into().ok()?,
            begun_at: begun_at.parse().ok()?,
            return_path: ReturnPath::of(&path),
        };
        let age = now.timestamp().checked_sub(attempt.begun_at)?;
        (parts.next().is_none() && (0..GOOD_FOR.num_seconds()).contains(&age)).then_some(attempt)
    }

    /// What the cookie holds.
    #[must_use]
    pub fn reveal(&self) -> String {
        let path = URL_SAFE_NO_PAD.encode(self.return_path.as_str());
        format!("{}.{}.{path}", URL_SAFE_NO_PAD.encode(self.secret), self.begun_at)
    }

    /// Where the browser wants to go.
    #[must_use]
    pub fn return_path(&self) -> &ReturnPath {
        &self.return_path
    }

    /// What comes back with the browser, which shows that it left from here.
    #[must_use]
    pub fn state(&self) -> String {
        self.derive("state")
    }

    /// Whether a text is that, in a time that does not tell how much agrees.
    #[must_use]
    pub fn is_state(&self, sent: &str) -> bool {
        self.state().as_bytes().ct_eq(sent.as_bytes()).into()
    }

    /// What the provider has to say it was told, so that nothing it said before is good.
    #[must_use]
    pub fn nonce(&self) -> String {
        self.derive("nonce")
    }

    /// What shows the provider that whoever has its code is who asked for it.
    #[must_use]
    pub fn verifier(&self) -> String {
        self.derive("verifier")
    }

    /// A value for one purpose, of which the secret and the others do not follow. Time and path are part of it: with others
    /// than the attempt began with nothing fits.
    fn derive(&self, purpose: &str) -> String {
        let value = Sha256::new_with_prefix(b"galvo: signing in elsewhere\0")
            .chain_update(self.secret)
            .chain_update(self.begun_at.to_be_bytes())
            .chain_update(purpose)
            .chain_update([0])
            .chain_update(self.return_path.as_str())
            .finalize();
        URL_SAFE_NO_PAD.encode(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).expect("a time")
    }

    #[test]
    fn an_attempt_is_read_back_for_ten_minutes() {
        let attempt = SignInAttempt::begin(&mut rand::rng(), ReturnPath::of("/a?b=c"), at(1_000));
        let cookie = attempt.reveal();
        for (now, good) in [(999, false), (1_000, true), (1_599, true), (1_600, false)] {
            assert_eq!(SignInAttempt::parse(&cookie, at(now)).is_some(), good, "{now}");
        }
        let read = SignInAttempt::parse(&cookie, at(1_001)).expect("our own notation");
        assert!(
            read == attempt && read.is_state(&attempt.state()) && read.return_path().as_str() == "/a?b=c"
        );
        for wrong in ["", "a.b.c", &format!("{cookie}.x"), &cookie[1..], &"x".repeat(5_000)] {
            assert!(SignInAttempt::parse(wrong, at(1_001)).is_none(), "{wrong}");
        }
    }

    #[test]
    fn what_is_told_fits_one_attempt_alone() {
        let attempt = SignInAttempt::begin(&mut rand::rng(), ReturnPath::of("/"), at(1_000));
        let later = SignInAttempt { begun_at: 1_001, ..attempt.clone() };
        let elsewhere = SignInAttempt { return_path: ReturnPath::of("/x"), ..attempt.clone() };
        let other = SignInAttempt::begin(&mut rand::rng(), ReturnPath::of("/"), at(1_000));
        for other in [&later, &elsewhere, &other] {
            assert!(!attempt.is_state(&other.state()) && attempt.nonce() != other.nonce());
        }
        let all = [attempt.state(), attempt.nonce(), attempt.verifier()];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
        // RFC 7636 asks for 43 characters at least.
        assert!(all.iter().all(|text| text.len() == 43));
    }
}
