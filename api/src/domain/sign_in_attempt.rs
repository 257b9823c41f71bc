//! An attempt to sign in with an external provider: the browser's secret, and the values derived from it
//! for the provider.
//!
//! All values are derived from a secret in a cookie, so that the server keeps no state for attempts that
//! are never completed.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, TimeDelta, Utc};
use rand::Rng;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::return_path::ReturnPath;

/// The longest duration of an attempt.
pub const ATTEMPT_LIFETIME: TimeDelta = TimeDelta::minutes(10);

/// The largest accepted length of a cookie, in bytes. The return path is its longest part.
const MAX_LENGTH: usize = 4_096;

/// An attempt in progress. It has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SignInAttempt {
    secret: [u8; 32],
    /// The start, in seconds since 1970.
    begun_at: i64,
    return_path: ReturnPath,
}

impl SignInAttempt {
    /// Creates an attempt.
    pub fn begin(random: &mut impl Rng, return_path: ReturnPath, now: DateTime<Utc>) -> Self {
        let mut secret = [0; 32];
        random.fill_bytes(&mut secret);
        Self { secret, begun_at: now.timestamp(), return_path }
    }

    /// Parses the content of a cookie. Returns `None` if it is not an attempt, or if the attempt has
    /// expired.
    #[must_use]
    pub fn parse(text: &str, now: DateTime<Utc>) -> Option<Self> {
        let mut parts = (text.len() <= MAX_LENGTH).then(|| text.split('.'))?;
        let (secret, begun_at, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = String::from_utf8(URL_SAFE_NO_PAD.decode(path).ok()?).ok()?;
        let attempt = Self {
            secret: URL_SAFE_NO_PAD.decode(secret).ok()?.try_into().ok()?,
            begun_at: begun_at.parse().ok()?,
            return_path: ReturnPath::sanitize(&path),
        };
        let age = now.timestamp().checked_sub(attempt.begun_at)?;
        (parts.next().is_none() && (0..ATTEMPT_LIFETIME.num_seconds()).contains(&age)).then_some(attempt)
    }

    /// Returns the content of the cookie.
    #[must_use]
    pub fn reveal(&self) -> String {
        let path = URL_SAFE_NO_PAD.encode(self.return_path.as_str());
        format!("{}.{}.{path}", URL_SAFE_NO_PAD.encode(self.secret), self.begun_at)
    }

    /// Returns the page to which the browser returns.
    #[must_use]
    pub fn return_path(&self) -> &ReturnPath {
        &self.return_path
    }

    /// Returns the OAuth `state`. The browser returns it to prove that the attempt started in this
    /// browser.
    #[must_use]
    pub fn state(&self) -> String {
        self.derive("state")
    }

    /// Returns true if the text is the `state`. The comparison takes constant time.
    #[must_use]
    pub fn is_state(&self, sent: &str) -> bool {
        self.state().as_bytes().ct_eq(sent.as_bytes()).into()
    }

    /// Returns the OpenID Connect nonce. The provider's ID token must contain it, which rules out
    /// replayed tokens.
    #[must_use]
    pub fn nonce(&self) -> String {
        self.derive("nonce")
    }

    /// Returns the PKCE verifier. It proves to the provider that the sender of the code started the
    /// attempt.
    #[must_use]
    pub fn verifier(&self) -> String {
        self.derive("verifier")
    }

    /// Derives a value for one purpose. Neither the secret nor the other values can be derived from it.
    /// It depends on the start and the return path, so that a changed cookie matches no value.
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
        let attempt = SignInAttempt::begin(&mut rand::rng(), ReturnPath::sanitize("/a?b=c"), at(1_000));
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
        let attempt = SignInAttempt::begin(&mut rand::rng(), ReturnPath::sanitize("/"), at(1_000));
        let later = SignInAttempt { begun_at: 1_001, ..attempt.clone() };
        let elsewhere = SignInAttempt { return_path: ReturnPath::sanitize("/x"), ..attempt.clone() };
        let other = SignInAttempt::begin(&mut rand::rng(), ReturnPath::sanitize("/"), at(1_000));
        for other in [&later, &elsewhere, &other] {
            assert!(!attempt.is_state(&other.state()) && attempt.nonce() != other.nonce());
        }
        let all = [attempt.state(), attempt.nonce(), attempt.verifier()];
        assert!(all[0] != all[1] && all[1] != all[2] && all[0] != all[2]);
        // RFC 7636 requires at least 43 characters.
        assert!(all.iter().all(|text| text.len() == 43));
    }
}
