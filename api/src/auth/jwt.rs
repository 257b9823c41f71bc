//! JSON Web Tokens (RFC 7519) of one issuer, and the checks before their claims are used.

use chrono::{DateTime, Utc};
use entity::{Timestamp, audit_entry};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};

use super::{
    AuthError, Authenticator, Viewer,
    authenticator::{VerifiedIdentity, parse_requested_account},
    credential::Credential,
    jwks::{Jwks, JwksError},
};
use crate::{
    config::{JwtConfig, Provision},
    domain::claims::{self, ClaimError, ClaimNames, ClaimedIdentity, Claims},
    store::UserRef,
};

/// The verifier of one issuer's JWTs.
pub struct JwtVerifier {
    issuer: String,
    audience: String,
    secret: Option<DecodingKey>,
    jwks: Option<Jwks>,
    claim_names: ClaimNames,
    provision: Option<Provision>,
}

/// The content of a verified JWT.
pub(super) struct VerifiedJwt {
    /// The user, the accounts, the role and the scopes.
    pub(super) identity: ClaimedIdentity,
    /// The expiry.
    pub(super) expires_at: Timestamp,
}

/// The reason why a JWT is rejected. It is logged, not returned to the client.
#[derive(Debug, thiserror::Error)]
pub(super) enum JwtError {
    #[error("it is not a JWT, or its signature is invalid")]
    Token(#[from] jsonwebtoken::errors::Error),
    #[error("it requires an unsupported extension")]
    Critical,
    #[error("no key matches its algorithm and key identifier")]
    NoKey,
    #[error(transparent)]
    Claims(#[from] ClaimError),
}

impl JwtVerifier {
    /// Returns a verifier with the current keys, and starts refreshing them.
    ///
    /// # Errors
    /// Returns an error if a key file cannot be read.
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
            claim_names: config.claims.clone(),
            provision: config.provision.clone(),
        })
    }

    /// Returns the issuer.
    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the provisioning of unknown users. `None` if they are rejected.
    pub(super) fn provision(&self) -> Option<&Provision> {
        self.provision.as_ref()
    }

    /// Verifies a JWT. The caller has limited its length.
    pub(super) async fn verify(&self, token: &str, now: DateTime<Utc>) -> Result<VerifiedJwt, JwtError> {
        let header = decode_header(token)?;
        if header.crit.is_some() {
            return Err(JwtError::Critical);
        }
        // Only keys for the token's algorithm are candidates, so that no key is used with another algorithm.
        // Keys that the token embeds or references are ignored: anyone could have made them.
        let key = match (header.alg, &self.jwks) {
            (Algorithm::HS256, _) => self.secret.clone(),
            (Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA, Some(jwks)) => {
                jwks.find(header.kid.as_deref(), header.alg).await
            }
            _ => None,
        };
        let claims =
            decode::<Claims>(token, &key.ok_or(JwtError::NoKey)?, &signature_validation(header.alg))?.claims;
        let expires_at = claims::check(&claims, &self.issuer, &self.audience, now)?;
        Ok(VerifiedJwt { identity: claims::read(&claims, &self.claim_names)?, expires_at })
    }
}

impl Authenticator {
    /// Returns the viewer of a JWT.
    pub(super) async fn authenticate_jwt(
        &self,
        jwt: &JwtVerifier,
        token: &str,
        account: Option<&[u8]>,
    ) -> Result<Viewer, AuthError> {
        let VerifiedJwt { identity, expires_at } =
            jwt.verify(token, self.clock.now()).await.map_err(|reason| {
                tracing::debug!(%reason, "JWT rejected");
                if matches!(reason, JwtError::Claims(ClaimError::Role)) {
                    AuthError::NoAccount
                } else {
                    AuthError::Invalid
                }
            })?;
        let verified_identity = || VerifiedIdentity {
            credential: Credential::Jwt,
            user_ref: UserRef::Identity { issuer: jwt.issuer(), subject: &identity.subject },
            accounts: identity.accounts.clone(),
            scopes: identity.scopes.clone(),
            expires_at: Some(expires_at),
        };
        match (self.resolve_viewer(verified_identity(), account).await, jwt.provision()) {
            (Err(AuthError::NoAccount), Some(provision)) => {
                let requested_account = account
                    .map(|account| parse_requested_account(account, identity.accounts.as_deref()))
                    .transpose()?;
                let credential = audit_entry::Credential::Jwt;
                self.provision_user(jwt.issuer(), credential, &identity, provision, requested_account)
                    .await?;
                self.resolve_viewer(verified_identity(), account).await
            }
            (result, _) => result,
        }
    }
}

/// Limits the library's validation to the signature. The other checks use this server's clock, and the
/// same parsed claims that are used later.
fn signature_validation(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation
}
