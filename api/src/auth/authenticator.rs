//! From an `Authorization` value to a [`Viewer`].

use std::sync::Arc;

use entity::{Timestamp, api_token::Scope};

use super::{TokenUses, Viewer, credential::Credential, jwt::JwtVerifier, viewer::Proof};
use crate::{
    clock::Clock,
    domain::{access::is_over, slug::Slug, token::ApiToken},
    store::{Credentials, StoreError, SystemStore, Whose},
};

/// The longest `Authorization` value that is looked at.
pub(super) const MAX_LENGTH: usize = 8 * 1024;

/// Verifies credentials.
#[derive(Clone)]
pub struct Authenticator {
    pub(super) store: SystemStore,
    pub(super) clock: Arc<dyn Clock>,
    jwt: Option<Arc<JwtVerifier>>,
    uses: TokenUses,
}

/// What a request shows of who is asking, and which account it asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shown<'a> {
    /// The value of `Authorization`.
    pub authorization: Option<&'a [u8]>,
    /// The value of `Galvo-Account`: a short name.
    pub account: Option<&'a [u8]>,
}

/// Credentials that are a user's own, after they were verified.
pub(super) struct Admission<'a> {
    /// What was shown.
    pub(super) credential: Credential,
    /// Whose it is.
    pub(super) whose: Whose<'a>,
    /// The accounts it is restricted to; none if it opens all of the user's.
    pub(super) accounts: Option<Vec<Slug>>,
    /// What it is restricted to; none if to nothing.
    pub(super) scopes: Option<Vec<Scope>>,
    /// Until when it is good; none for ever.
    pub(super) expires_at: Option<Timestamp>,
}

/// Why a request has no viewer.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// No credentials were shown.
    #[error("authentication is required: send 'Authorization: Bearer <token>'")]
    Missing,
    /// The credentials are malformed, unknown, revoked or expired; it is not told which.
    #[error("the token is not valid")]
    Invalid,
    /// The session of a browser has ended, or never was; it is not told which.
    #[error("the session is over: sign in again")]
    NoSession,
    /// The credentials are good, but not for the account that is asked for, or for none; whether that exists and whose it
    /// is, is not told.
    #[error("the credentials open no such account")]
    NoAccount,
    /// The credentials are good, but not for this.
    #[error("the token lacks the scope '{}'", scope_name(*.0))]
    MissingScope(Scope),
    /// The store could not be asked.
    #[error("the token cannot be checked now")]
    Store(#[from] StoreError),
}

impl Authenticator {
    /// An authenticator that looks tokens up in `store`.
    #[must_use]
    pub fn new(store: SystemStore, clock: Arc<dyn Clock>) -> Self {
        let uses = TokenUses::new(store.clone());
        Self { store, clock, jwt: None, uses }
    }

    /// One that also believes an issuer of JWTs.
    #[must_use]
    pub fn with_jwt(self, jwt: Option<JwtVerifier>) -> Self {
        Self { jwt: jwt.map(Arc::new), ..self }
    }

    /// When tokens were last used that it verified.
    #[must_use]
    pub fn token_uses(&self) -> &TokenUses {
        &self.uses
    }

    /// The viewer behind what was shown: `Bearer`, `Token` or `ApiToken`, and an API token or a JWT.
    ///
    /// # Errors
    /// [`AuthError`], never telling an unknown token from a revoked or expired one, nor an account that does not exist
    /// from one that is not opened.
    pub async fn viewer(&self, shown: Shown<'_>) -> Result<Viewer, AuthError> {
        let authorization = shown.authorization.ok_or(AuthError::Missing)?;
        let token = match (bearer(authorization).ok_or(AuthError::Invalid)?, &self.jwt) {
            (Bearer::Jwt(token), Some(jwt)) => return self.jwt(jwt, token, shown.account).await,
            (Bearer::Jwt(_), None) => return Err(AuthError::Invalid),
            (Bearer::ApiToken(token), _) => token,
        };
        let proof = self.api_token(&token).await?;
        if let Some(account) = shown.account
            && account != proof.standing.account.slug.as_bytes()
        {
            return Err(AuthError::NoAccount);
        }
        Ok(Viewer::proven(proof))
    }

    async fn api_token(&self, token: &ApiToken) -> Result<Proof, AuthError> {
        let found = self.store.credentials(token.identifier()).await?;
        let now = self.clock.timestamp();
        // The hash is computed and compared in any case, so that the time taken does not tell an unknown
        // identifier from a wrong secret.
        let hash = token.secret_hash();
        let matches =
            hash.matches(found.as_ref().map_or(&[0; 32], |found| found.token.secret_hash.as_slice()));
        match found {
            Some(Credentials { token, standing })
                if matches
                    && token.revoked_at.is_none()
                    && !is_over(token.expires_at, now)
                    && !is_over(standing.membership.ends_at, now) =>
            {
                self.uses.note(token.id, now);
                Ok(Proof {
                    credential: Credential::ApiToken(token.id),
                    standing,
                    accounts: None,
                    scopes: Some(token.scopes.0),
                    expires_at: token.expires_at,
                })
            }
            _ => Err(AuthError::Invalid),
        }
    }

    /// The viewer whom credentials stand for that are a user's own, in the account that is asked for, or otherwise in the
    /// user's default one.
    pub(super) async fn admit(
        &self,
        admission: Admission<'_>,
        account: Option<&[u8]>,
    ) -> Result<Viewer, AuthError> {
        let Admission { credential, whose, accounts, scopes, expires_at } = admission;
        let asked = account.map(|account| asked_for(account, accounts.as_deref())).transpose()?;
        let meant = asked.as_ref().map(std::slice::from_ref).or(accounts.as_deref());
        let standing = self.store.standing(whose, meant, self.clock.timestamp()).await?;
        let standing = standing.ok_or(AuthError::NoAccount)?;
        Ok(Viewer::proven(Proof { credential, standing, accounts, scopes, expires_at }))
    }
}

impl Viewer {
    /// Refuses a viewer whose credentials are not for `scope`.
    ///
    /// # Errors
    /// [`AuthError::MissingScope`].
    pub fn require(&self, scope: Scope) -> Result<(), AuthError> {
        if self.may(scope) { Ok(()) } else { Err(AuthError::MissingScope(scope)) }
    }
}

/// The account that a request asks for, if the credentials are not for others only.
pub(super) fn asked_for(account: &[u8], accounts: Option<&[Slug]>) -> Result<Slug, AuthError> {
    let asked: Option<Slug> = std::str::from_utf8(account).ok().and_then(|account| account.parse().ok());
    let opened = asked.filter(|asked| accounts.is_none_or(|accounts| accounts.contains(asked)));
    opened.ok_or(AuthError::NoAccount)
}

/// What stands behind one of the words that introduce credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bearer<'a> {
    ApiToken(ApiToken),
    /// It has dots, which no token of ours ever had.
    Jwt(&'a str),
}

pub(super) fn bearer(authorization: &[u8]) -> Option<Bearer<'_>> {
    if authorization.len() > MAX_LENGTH {
        return None;
    }
    let (word, token) = std::str::from_utf8(authorization).ok()?.trim().split_once(' ')?;
    let known = ["bearer", "token", "apitoken"].iter().any(|known| word.eq_ignore_ascii_case(known));
    let token = token.trim();
    match known {
        true if token.contains('.') => Some(Bearer::Jwt(token)),
        true => ApiToken::parse(token).map(Bearer::ApiToken),
        false => None,
    }
}

fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Ingest => "ingest",
        Scope::Read => "read",
        Scope::Admin => "admin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_words_introduce_a_token() {
        for text in ["Bearer id-x", "bearer id-x", "Token id-x", "ApiToken id-x", "  Bearer   id-x "] {
            let Some(Bearer::ApiToken(token)) = bearer(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(token.reveal(), "id-x");
        }
        for text in ["", "id-x", "Basic id-x", "Bearer", "Bearer  ", "Bearer idx", "a.b.c", "Basic a.b.c"] {
            assert_eq!(bearer(text.as_bytes()), None, "{text}");
        }
        // The published client says `ApiToken` when there is a dash, wherever it is.
        for text in ["Bearer a.b.c", "ApiToken a-.b.c", "Token a.b.c"] {
            assert!(matches!(bearer(text.as_bytes()), Some(Bearer::Jwt(_))), "{text}");
        }
        assert_eq!(bearer(b"Bearer \xff-x"), None);
        for token in ["id-", "a.b."] {
            assert_eq!(bearer(format!("Bearer {token}{}", "x".repeat(MAX_LENGTH)).as_bytes()), None);
        }
    }
}
