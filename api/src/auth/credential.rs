//! The kinds of credentials, and in what they differ once they are verified.

use entity::{
    Timestamp, audit_entry,
    ids::{ApiTokenId, UserId},
};

/// What somebody showed to prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// An API token. It belongs to one account, where an admin may have made it for somebody else: in that account it acts
    /// for its user, and of the user's other accounts it tells and changes nothing.
    ApiToken(ApiTokenId),
    /// A session of the user's browser.
    Session,
    /// A JWT of the issuer that is trusted, who says that this is the user.
    Jwt,
}

/// By whom limits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// By this token.
    ApiToken(ApiTokenId),
    /// By this user, over all that was issued for them: who gets new credentials gets no new limits.
    User(UserId),
}

impl Credential {
    /// By whom limits are counted when `user` shows it.
    #[must_use]
    pub fn limit_key(self, user: UserId) -> LimitKey {
        match self {
            Self::ApiToken(token) => LimitKey::ApiToken(token),
            Self::Session | Self::Jwt => LimitKey::User(user),
        }
    }

    /// What is written down of it, and which token it is if it is one.
    #[must_use]
    pub fn audited(self) -> (audit_entry::Credential, Option<ApiTokenId>) {
        match self {
            Self::ApiToken(token) => (audit_entry::Credential::ApiToken, Some(token)),
            Self::Session => (audit_entry::Credential::Session, None),
            Self::Jwt => (audit_entry::Credential::Jwt, None),
        }
    }

    /// Whether it stands for the user in all of their accounts.
    #[must_use]
    pub fn is_the_users_own(self) -> bool {
        match self {
            Self::ApiToken(_) => false,
            Self::Session | Self::Jwt => true,
        }
    }

    /// How long tokens may be good that are made with it when it is good until `expires_at`; none for ever. A kind that
    /// cannot get into other hands by being sent along, as a browser's session, may allow more than its own time.
    #[must_use]
    pub fn grants_until(self, expires_at: Option<Timestamp>) -> Option<Timestamp> {
        match self {
            Self::ApiToken(_) | Self::Jwt => expires_at,
            // Whoever has one proved who they are, and it leaves the browser for nobody else.
            Self::Session => None,
        }
    }
}
