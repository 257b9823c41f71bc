//! Verification of credentials: turns an `Authorization` value into a [`Viewer`].

use std::sync::Arc;

use entity::{Timestamp, api_token::Scope};

use super::{TokenUses, Viewer, credential::Credential, jwt::JwtVerifier, viewer::AuthenticatedMember};
use crate::{
    clock::Clock,
    domain::{
        access::{has_ended, scope_name},
        scheduler_token::Binding,
        slug::Slug,
        token::ApiToken,
    },
    store::{Credentials, StoreError, SystemStore, UserRef},
};

/// The maximum length of an `Authorization` value, in bytes.
pub(super) const MAX_LENGTH: usize = 8 * 1024;

/// The verifier of credentials.
#[derive(Clone)]
pub struct Authenticator {
    pub(super) store: SystemStore,
    pub(super) clock: Arc<dyn Clock>,
    jwt: Option<Arc<JwtVerifier>>,
    uses: TokenUses,
}

/// The credentials and the account in a request's headers.
#[derive(Clone, Copy, Debug, Default)]
pub struct PresentedCredentials<'a> {
    /// The value of `Authorization`.
    pub authorization: Option<&'a [u8]>,
    /// The value of `Galvo-Account`: the short name of an account.
    pub account: Option<&'a [u8]>,
}

/// Verified credentials that represent a user in all of the user's accounts.
pub(super) struct VerifiedIdentity<'a> {
    /// The kind of the credentials.
    pub(super) credential: Credential,
    /// The user.
    pub(super) user_ref: UserRef<'a>,
    /// The accounts the credentials are restricted to. `None` if they are valid for all of the user's
    /// accounts.
    pub(super) accounts: Option<Vec<Slug>>,
    /// The scopes the credentials are restricted to. `None` if they are not restricted.
    pub(super) scopes: Option<Vec<Scope>>,
    /// The expiry. `None` if the credentials do not expire.
    pub(super) expires_at: Option<Timestamp>,
}

/// The reason why a request has no viewer.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The request has no credentials.
    #[error("authentication is required: send 'Authorization: Bearer <token>'")]
    Missing,
    /// The credentials are malformed, unknown, revoked or expired. The error does not reveal which.
    #[error("the token is not valid")]
    Invalid,
    /// The browser session has ended or never existed. The error does not reveal which.
    #[error("the session has ended: sign in again")]
    NoSession,
    /// The credentials are valid, but not for the requested account, or for no account. The error does
    /// not reveal whether the account exists.
    #[error("the credentials give no access to this account")]
    NoAccount,
    /// The credentials are valid, but lack a scope.
    #[error("the token lacks the scope '{}'", scope_name(*.0))]
    MissingScope(Scope),
    /// The credentials belong to a scheduler and are valid only for its reports.
    #[error("this is a scheduler token: it can only be used for the reports of its scheduler")]
    SchedulerToken,
    /// The database does not answer.
    #[error("the token cannot be verified at the moment: try again later")]
    Store(#[from] StoreError),
}

impl Authenticator {
    /// Returns an authenticator for the tokens in `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        let uses = TokenUses::new(store.clone());
        Self { store, clock, jwt: None, uses }
    }

    /// Returns a copy that also accepts the JWTs of an issuer.
    #[must_use]
    pub fn with_jwt(self, jwt: Option<JwtVerifier>) -> Self {
        Self { jwt: jwt.map(Arc::new), ..self }
    }

    /// Returns the recorder of token uses.
    #[must_use]
    pub fn token_uses(&self) -> &TokenUses {
        &self.uses
    }

    /// Returns the viewer of a request. The scheme is `Bearer`, `Token` or `ApiToken`, followed by an
    /// API token or a JWT.
    ///
    /// # Errors
    /// Returns [`AuthError`]. It does not distinguish an unknown token from a revoked or expired one, or
    /// a missing account from one without access.
    pub async fn viewer(&self, presented: PresentedCredentials<'_>) -> Result<Viewer, AuthError> {
        let authorization = presented.authorization.ok_or(AuthError::Missing)?;
        let token = match (parse_bearer(authorization).ok_or(AuthError::Invalid)?, &self.jwt) {
            (Bearer::Jwt(token), Some(jwt)) => {
                return self.authenticate_jwt(jwt, token, presented.account).await;
            }
            (Bearer::Jwt(_), None) => return Err(AuthError::Invalid),
            (Bearer::ApiToken(token), _) => token,
        };
        let member = self.authenticate_api_token(&token).await?;
        if let Some(account) = presented.account
            && account != member.current.account.slug.as_bytes()
        {
            return Err(AuthError::NoAccount);
        }
        Ok(Viewer::from_member(member))
    }

    async fn authenticate_api_token(&self, token: &ApiToken) -> Result<AuthenticatedMember, AuthError> {
        let stored = self.store.credentials(token.identifier()).await?;
        let now = self.clock.timestamp();
        // The hash is computed and compared in any case, so that the response time does not distinguish
        // an unknown identifier from a wrong secret.
        let hash = token.secret_hash();
        let matches =
            hash.matches(stored.as_ref().map_or(&[0; 32], |stored| stored.token.secret_hash.as_slice()));
        match stored {
            Some(Credentials { token, current, refuses_broad_tokens })
                if matches
                    && token.revoked_at.is_none()
                    && !has_ended(token.expires_at, now)
                    && !has_ended(current.membership.ends_at, now) =>
            {
                self.uses.record_use(token.id, now);
                Ok(AuthenticatedMember {
                    credential: Credential::ApiToken(token.id),
                    current,
                    accounts: None,
                    binding: Binding::of(&token),
                    scopes: Some(token.scopes.0),
                    expires_at: token.expires_at,
                    refuses_broad_tokens: Some(refuses_broad_tokens),
                })
            }
            _ => Err(AuthError::Invalid),
        }
    }

    /// Returns the viewer for a user's own credentials, in the requested account or in the user's
    /// default account.
    pub(super) async fn resolve_viewer(
        &self,
        identity: VerifiedIdentity<'_>,
        account: Option<&[u8]>,
    ) -> Result<Viewer, AuthError> {
        let VerifiedIdentity { credential, user_ref, accounts, scopes, expires_at } = identity;
        let requested_account =
            account.map(|account| parse_requested_account(account, accounts.as_deref())).transpose()?;
        let candidate_accounts = requested_account.as_ref().map(std::slice::from_ref).or(accounts.as_deref());
        let current =
            self.store.find_current_membership(user_ref, candidate_accounts, self.clock.timestamp()).await?;
        let current = current.ok_or(AuthError::NoAccount)?;
        Ok(Viewer::from_member(AuthenticatedMember {
            credential,
            current,
            accounts,
            scopes,
            expires_at,
            binding: None,
            refuses_broad_tokens: None,
        }))
    }
}

impl Viewer {
    /// Checks that the viewer's credentials have `scope`.
    ///
    /// # Errors
    /// Returns [`AuthError::MissingScope`] if they lack it.
    pub fn require(&self, scope: Scope) -> Result<(), AuthError> {
        if self.may(scope) { Ok(()) } else { Err(AuthError::MissingScope(scope)) }
    }
}

/// Parses the requested account, and checks that the credentials are not restricted to others.
pub(super) fn parse_requested_account(account: &[u8], accounts: Option<&[Slug]>) -> Result<Slug, AuthError> {
    let requested_account: Option<Slug> =
        std::str::from_utf8(account).ok().and_then(|account| account.parse().ok());
    let permitted_account = requested_account
        .filter(|requested_account| accounts.is_none_or(|accounts| accounts.contains(requested_account)));
    permitted_account.ok_or(AuthError::NoAccount)
}

/// The credentials after the authentication scheme.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bearer<'a> {
    ApiToken(ApiToken),
    /// A JWT. It contains dots, which API tokens never do.
    Jwt(&'a str),
}

pub(super) fn parse_bearer(authorization: &[u8]) -> Option<Bearer<'_>> {
    if authorization.len() > MAX_LENGTH {
        return None;
    }
    let (scheme, token) = std::str::from_utf8(authorization).ok()?.trim().split_once(' ')?;
    let is_supported =
        ["bearer", "token", "apitoken"].iter().any(|supported| scheme.eq_ignore_ascii_case(supported));
    let token = token.trim();
    match is_supported {
        true if token.contains('.') => Some(Bearer::Jwt(token)),
        true => ApiToken::parse(token).map(Bearer::ApiToken),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_words_introduce_a_token() {
        for text in ["Bearer id-x", "bearer id-x", "Token id-x", "ApiToken id-x", "  Bearer   id-x "] {
            let Some(Bearer::ApiToken(token)) = parse_bearer(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(token.reveal(), "id-x");
        }
        for text in ["", "id-x", "Basic id-x", "Bearer", "Bearer  ", "Bearer idx", "a.b.c", "Basic a.b.c"] {
            assert_eq!(parse_bearer(text.as_bytes()), None, "{text}");
        }
        // The published client uses `ApiToken` if the token has a dash at any position.
        for text in ["Bearer a.b.c", "ApiToken a-.b.c", "Token a.b.c"] {
            assert!(matches!(parse_bearer(text.as_bytes()), Some(Bearer::Jwt(_))), "{text}");
        }
        assert_eq!(parse_bearer(b"Bearer \xff-x"), None);
        for token in ["id-", "a.b."] {
            assert_eq!(parse_bearer(format!("Bearer {token}{}", "x".repeat(MAX_LENGTH)).as_bytes()), None);
        }
    }
}
