//! The kinds of credentials, and their differences after verification.

use std::fmt;

use entity::{
    Timestamp, audit_entry,
    ids::{ApiTokenId, UserId},
};

/// The stored hash of a session's secret, which identifies the session. Its `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SessionHash([u8; 32]);

impl SessionHash {
    pub(super) fn new(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// Returns true if the session is stored under `id`.
    #[must_use]
    pub fn identifies(self, id: &[u8]) -> bool {
        self.0 == id
    }
}

impl fmt::Debug for SessionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionHash")
    }
}

/// The kind of credentials of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An API token. It is valid for one account, where an admin may have created it for another user.
    /// In that account it represents its user; it neither reveals nor changes anything of the user's
    /// other accounts.
    ApiToken(ApiTokenId),
    /// A session of the user's browser, by the stored hash of its secret.
    Session(SessionHash),
    /// A JWT of the trusted issuer, which identifies the user.
    Jwt,
}

/// The key by which rate limits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// Counts per API token.
    ApiToken(ApiTokenId),
    /// Counts per user, over all credentials issued for the user. New credentials do not bring new
    /// limits.
    User(UserId),
}

impl Credential {
    /// Returns the key by which rate limits count when `user` presents these credentials.
    #[must_use]
    pub fn limit_key(self, user: UserId) -> LimitKey {
        match self {
            Self::ApiToken(token) => LimitKey::ApiToken(token),
            Self::Session(_) | Self::Jwt => LimitKey::User(user),
        }
    }

    /// Returns the kind and the token for the audit log.
    #[must_use]
    pub fn audit_kind(self) -> (audit_entry::Credential, Option<ApiTokenId>) {
        match self {
            Self::ApiToken(token) => (audit_entry::Credential::ApiToken, Some(token)),
            Self::Session(_) => (audit_entry::Credential::Session, None),
            Self::Jwt => (audit_entry::Credential::Jwt, None),
        }
    }

    /// Returns true if the credentials represent the user in all of the user's accounts.
    #[must_use]
    pub fn covers_all_accounts(self) -> bool {
        match self {
            Self::ApiToken(_) => false,
            Self::Session(_) | Self::Jwt => true,
        }
    }

    /// Returns the latest expiry of tokens created with credentials that expire at `expires_at`. `None`
    /// means no limit. Credentials that are never sent to third parties, such as a browser session,
    /// allow tokens that outlive them.
    #[must_use]
    pub fn max_token_expiry(self, expires_at: Option<Timestamp>) -> Option<Timestamp> {
        match self {
            Self::ApiToken(_) | Self::Jwt => expires_at,
            // A session proves who the user is, and never leaves the browser.
            Self::Session(_) => None,
        }
    }
}
