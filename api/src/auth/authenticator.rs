//! From an `Authorization` value to a [`Viewer`].

use std::sync::Arc;

use entity::api_token::Scope;

use super::Viewer;
use crate::{
    clock::Clock,
    domain::token::ApiToken,
    store::{StoreError, SystemStore},
};

/// The longest `Authorization` value that is looked at.
const MAX_LENGTH: usize = 8 * 1024;

/// Verifies credentials.
#[derive(Clone)]
pub struct Authenticator {
    store: SystemStore,
    clock: Arc<dyn Clock>,
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
        Self { store, clock }
    }

    /// The viewer behind an `Authorization` value: `Bearer`, `Token` or `ApiToken`, and an API token.
    ///
    /// # Errors
    /// [`AuthError`], never telling an unknown token from a revoked or expired one.
    pub async fn viewer(&self, authorization: Option<&[u8]>) -> Result<Viewer, AuthError> {
        let authorization = authorization.ok_or(AuthError::Missing)?;
        let token = token(authorization).ok_or(AuthError::Invalid)?;
        let found = self.store.credentials(token.identifier()).await?;
        let now = self.clock.now();
        // The hash is computed and compared in any case, so that the time taken does not tell an unknown
        // identifier from a wrong secret.
        let hash = token.secret_hash();
        let matches =
            hash.matches(found.as_ref().map_or(&[0; 32], |found| found.token.secret_hash.as_slice()));
        match found {
            Some(found)
                if matches
                    && found.token.revoked_at.is_none()
                    && found.token.expires_at.is_none_or(|end| end.0 > now) =>
            {
                Ok(Viewer::verified(found))
            }
            _ => Err(AuthError::Invalid),
        }
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

fn token(authorization: &[u8]) -> Option<ApiToken> {
    if authorization.len() > MAX_LENGTH {
        return None;
    }
    let (word, token) = std::str::from_utf8(authorization).ok()?.trim().split_once(' ')?;
    let known = ["bearer", "token", "apitoken"].iter().any(|known| word.eq_ignore_ascii_case(known));
    if known { ApiToken::parse(token.trim()) } else { None }
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
            let token = token(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(token.reveal(), "id-x");
        }
        for text in ["", "id-x", "Basic id-x", "Bearer", "Bearer  ", "Bearer idx"] {
            assert_eq!(token(text.as_bytes()), None, "{text}");
        }
        assert_eq!(token(b"Bearer \xff-x"), None);
        assert_eq!(token(format!("Bearer id-{}", "x".repeat(MAX_LENGTH)).as_bytes()), None);
    }
}
