//! JSON Web Tokens (RFC 7519) of one issuer: what is checked before anything in them is believed.

use chrono::{DateTime, Utc};
use entity::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};

use super::{
    AuthError, Authenticator, Viewer,
    authenticator::{Admission, asked_for},
    credential::Credential,
    jwks::{Jwks, JwksError},
};
use crate::{
    config::{JwtConfig, Provision},
    domain::claims::{self, ClaimError, ClaimNames, Claimed, Claims},
    store::Whose,
};

/// Verifies the JWTs of one issuer.
pub struct JwtVerifier {
    issuer: String,
    audience: String,
    secret: Option<DecodingKey>,
    jwks: Option<Jwks>,
    names: ClaimNames,
    provision: Option<Provision>,
}

/// What a JWT says that was verified.
pub(super) struct Verified {
    /// Who it is of, where, and as what.
    pub(super) claimed: Claimed,
    /// Until when it is good.
    pub(super) expires_at: Timestamp,
}

/// Why a JWT is not believed. Whoever sent it is not told.
#[derive(Debug, thiserror::Error)]
pub(super) enum JwtError {
    #[error("it is no JWT, or has no signature that fits")]
    Token(#[from] jsonwebtoken::errors::Error),
    #[error("it asks for an extension to be understood")]
    Critical,
    #[error("there is no key for its algorithm, or not with its identifier")]
    NoKey,
    #[error(transparent)]
    Claims(#[from] ClaimError),
}

impl JwtVerifier {
    /// A verifier with the keys that are there now, and keeps up with them.
    ///
    /// # Errors
    /// When the keys in a file cannot be read.
    pub async fn start(config: &JwtConfig) -> Result<Self, JwksError> {
        let jwks = match &config.jwks {
            Some(source) => Some(Jwks::start(source, config.jwks_timing).await?),
            None => None,
        };
        Ok(Self {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            secret: config.secret.as_ref().map(|secret| DecodingKey::from_secret(secret.reveal())),
            jwks,
            names: config.claims.clone(),
            provision: config.provision.clone(),
        })
    }

    /// Who issues them.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// What becomes of somebody who is not known yet.
    pub(super) fn provision(&self) -> Option<&Provision> {
        self.provision.as_ref()
    }

    /// What a JWT says, which is not longer than a header may be.
    pub(super) async fn verify(&self, token: &str, now: DateTime<Utc>) -> Result<Verified, JwtError> {
        let header = decode_header(token)?;
        if header.crit.is_some() {
            return Err(JwtError::Critical);
        }
        // The algorithm chooses among the keys that are for it, so that none is ever used with another. Keys that the
        // token itself brings or points to are nobody's.
        let key = match (header.alg, &self.jwks) {
            (Algorithm::HS256, _) => self.secret.clone(),
            (Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA, Some(jwks)) => {
                jwks.find(header.kid.as_deref(), header.alg).await
            }
            _ => None,
        };
        let claims =
            decode::<Claims>(token, &key.ok_or(JwtError::NoKey)?, &signature_alone(header.alg))?.claims;
        let expires_at = claims::check(&claims, &self.issuer, &self.audience, now)?;
        Ok(Verified { claimed: claims::read(&claims, &self.names)?, expires_at })
    }
}

impl Authenticator {
    /// The viewer whom a JWT stands for.
    pub(super) async fn jwt(
        &self,
        jwt: &JwtVerifier,
        token: &str,
        account: Option<&[u8]>,
    ) -> Result<Viewer, AuthError> {
        let Verified { claimed, expires_at } =
            jwt.verify(token, self.clock.now()).await.map_err(|reason| {
                tracing::debug!(%reason, "a JWT is not believed");
                if matches!(reason, JwtError::Claims(ClaimError::Role)) {
                    AuthError::NoAccount
                } else {
                    AuthError::Invalid
                }
            })?;
        let admission = || Admission {
            credential: Credential::Jwt,
            whose: Whose::Identity { issuer: jwt.issuer(), subject: &claimed.subject },
            accounts: claimed.accounts.clone(),
            scopes: claimed.scopes.clone(),
            expires_at: Some(expires_at),
        };
        match (self.admit(admission(), account).await, jwt.provision()) {
            (Err(AuthError::NoAccount), Some(provision)) => {
                let asked =
                    account.map(|account| asked_for(account, claimed.accounts.as_deref())).transpose()?;
                self.receive(jwt.issuer(), Credential::Jwt, &claimed, provision, asked).await?;
                self.admit(admission(), account).await
            }
            (admitted, _) => admitted,
        }
    }
}

/// The rest is checked by our own clock, and on the same reading of the claims from which they are believed.
fn signature_alone(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}
