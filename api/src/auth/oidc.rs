//! Signing in through an OpenID provider: the authorization code flow with PKCE, for a browser that
//! started here.
//!
//! The provider's metadata and keys are fetched when a user signs in, cached, and fetched again for an
//! unknown signing key. A provider that does not answer does not affect signing in with a password.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use entity::{audit_entry, user};
use futures::future::BoxFuture;
use openidconnect::{
    AccessTokenHash, AsyncHttpClient, AuthorizationCode, ClaimsVerificationError, CsrfToken, HttpRequest,
    HttpResponse, IssuerUrl, Nonce, OAuth2TokenResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl,
    Scope, SignatureVerificationError, TokenResponse,
    core::{
        CoreAuthenticationFlow, CoreClient, CoreIdToken, CoreJwsSigningAlgorithm, CoreProviderMetadata,
        CoreTokenResponse,
    },
};
use tokio::sync::Mutex;
use url::Url;

use super::{AuthError, Authenticator};
use crate::{
    config::OidcConfig,
    domain::{
        claims::{self, ClaimError, ClaimNames, ClaimedIdentity, Claims},
        public_url::PublicUrl,
        sign_in_attempt::SignInAttempt,
    },
    http_client::{self, FetchError, OutgoingClient},
    store::UserRef,
};

/// The path that the provider redirects browsers to.
pub const CALLBACK: &str = "/sign-in/oidc/callback";

/// The maximum size of a response of the provider, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// The maximum length of an authorization code, in bytes.
const MAX_CODE: usize = 4_096;

/// The lifetime of cached metadata.
const METADATA_TTL: Duration = Duration::from_mins(10);

/// The minimum interval between fetches after an unknown signing key or a failed fetch.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(1);

/// The accepted signature algorithms, all asymmetric. With a shared secret, this server could sign as
/// well.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 5] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// An OpenID provider for signing in.
pub struct OidcProvider {
    config: OidcConfig,
    issuer: IssuerUrl,
    redirect: RedirectUrl,
    http_client: ProviderClient,
    cache: Mutex<MetadataCache>,
}

/// The cached metadata of the provider.
#[derive(Default)]
struct MetadataCache {
    metadata: Option<(Instant, Arc<CoreProviderMetadata>)>,
    /// The time of the last failed fetch. `None` after a successful one.
    failed_at: Option<Instant>,
}

/// The reason why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The provider does not answer, or its response is malformed.
    #[error("the provider is unavailable")]
    ProviderUnavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The browser did not start the sign-in here, or started it too long ago.
    #[error("this sign-in was not started in this browser, or has expired: start again")]
    State,
    /// The provider refused the sign-in.
    #[error("the provider refused the sign-in")]
    Denied,
    /// The provider's ID token is not valid.
    #[error("the provider's response is not valid")]
    InvalidIdToken(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The claims do not identify a user.
    #[error("the provider's response does not identify a user")]
    Claims(#[from] ClaimError),
}

/// The reason why a request to the provider failed.
#[derive(Debug, thiserror::Error)]
enum ProviderRequestError {
    #[error("the URL is not encrypted")]
    Unencrypted,
    #[error("the URL is malformed")]
    Address(#[from] url::ParseError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// An HTTP client for the provider. It refuses URLs whose traffic third parties could read or forge.
struct ProviderClient(OutgoingClient);

impl<'a> AsyncHttpClient<'a> for ProviderClient {
    type Error = ProviderRequestError;
    type Future = BoxFuture<'a, Result<HttpResponse, ProviderRequestError>>;

    fn call(&'a self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let url: Url = request.uri().to_string().parse()?;
            if !http_client::is_confidential(&url) {
                return Err(ProviderRequestError::Unencrypted);
            }
            Ok(self.0.send(request, MAX_BYTES).await?)
        })
    }
}

/// The parameters of the provider's redirect. It has no `Debug`.
#[derive(Clone, Default)]
pub struct RedirectParameters {
    /// The authorization code.
    pub code: String,
    /// The state that this server created.
    pub state: String,
    /// The issuer, if the provider sends it (RFC 9207).
    pub issuer: String,
}

impl OidcProvider {
    /// Returns a provider without cached metadata.
    ///
    /// # Panics
    /// Panics if the settings were not validated.
    #[must_use]
    pub fn new(config: &OidcConfig, public_url: &PublicUrl) -> Self {
        let redirect = public_url.url_of(CALLBACK);
        Self {
            issuer: IssuerUrl::new(config.issuer.clone()).expect("the setting was checked"),
            redirect: RedirectUrl::new(redirect).expect("the setting was checked"),
            config: config.clone(),
            http_client: ProviderClient(OutgoingClient::new()),
            cache: Mutex::default(),
        }
    }

    /// Returns the provider's name on the sign-in page.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Fetches the provider's metadata as a health check.
    ///
    /// # Errors
    /// [`OidcError::ProviderUnavailable`]
    pub(crate) async fn check_health(&self) -> Result<(), OidcError> {
        self.metadata(METADATA_TTL).await.map(|_| ())
    }

    /// Returns the URL of the provider's sign-in page for an attempt.
    ///
    /// # Errors
    /// [`OidcError::ProviderUnavailable`]
    pub async fn authorization_url(&self, attempt: &SignInAttempt) -> Result<Url, OidcError> {
        let metadata = self.metadata(METADATA_TTL).await?;
        let (state, nonce) = (attempt.state(), attempt.nonce());
        let challenge =
            PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(attempt.verifier()));
        let client = self.client(&metadata);
        let mut request = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                move || CsrfToken::new(state),
                move || Nonce::new(nonce),
            )
            .set_pkce_challenge(challenge);
        for scope in &self.config.scopes {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        Ok(request.url().0)
    }

    /// Verifies the provider's redirect, and returns the claims of the user who signed in.
    ///
    /// # Errors
    /// [`OidcError`]
    async fn verify_redirect(
        &self,
        attempt: &SignInAttempt,
        parameters: RedirectParameters,
        now: DateTime<Utc>,
    ) -> Result<ClaimedIdentity, OidcError> {
        if !attempt.is_state(&parameters.state) {
            return Err(OidcError::State);
        }
        let is_other_issuer = !parameters.issuer.is_empty() && parameters.issuer != self.config.issuer;
        if is_other_issuer || parameters.code.is_empty() || parameters.code.len() > MAX_CODE {
            return Err(OidcError::Denied);
        }
        let metadata = self.metadata(METADATA_TTL).await?;
        let token_response = self.exchange_code(&metadata, parameters.code, attempt.verifier()).await?;
        let missing = || OidcError::InvalidIdToken("there is no ID token".into());
        let token = token_response.id_token().ok_or_else(missing)?;
        let claims = match self.verify_id_token(&metadata, token, &token_response, attempt, now) {
            Err(IdTokenError::InvalidSignature) => {
                // Providers rotate their keys and publish new ones before they use them.
                let metadata = self.metadata(MIN_FETCH_INTERVAL).await?;
                self.verify_id_token(&metadata, token, &token_response, attempt, now)
            }
            verified => verified,
        };
        let claims = claims.map_err(|reason| OidcError::InvalidIdToken(Box::new(reason)))?;
        Ok(claims::read(&claims, &self.claim_names())?)
    }

    async fn exchange_code(
        &self,
        metadata: &CoreProviderMetadata,
        code: String,
        verifier: String,
    ) -> Result<CoreTokenResponse, OidcError> {
        use openidconnect::RequestTokenError;

        let client = self.client(metadata);
        let exchange = client.exchange_code(AuthorizationCode::new(code));
        let exchange = exchange.map_err(|error| OidcError::ProviderUnavailable(Box::new(error)))?;
        let token_response = exchange
            .set_pkce_verifier(PkceCodeVerifier::new(verifier))
            .request_async(&self.http_client)
            .await;
        token_response.map_err(|error| match error {
            // For example for a code that was used before. The provider's error text is not repeated
            // anywhere.
            RequestTokenError::ServerResponse(_) => OidcError::Denied,
            RequestTokenError::Request(error) => OidcError::ProviderUnavailable(Box::new(error)),
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                OidcError::ProviderUnavailable("its response is not a token response".into())
            }
        })
    }

    /// Returns the claims of an ID token, if the provider signed it for this server and this attempt,
    /// and it is valid now.
    fn verify_id_token(
        &self,
        metadata: &CoreProviderMetadata,
        token: &CoreIdToken,
        token_response: &CoreTokenResponse,
        attempt: &SignInAttempt,
        now: DateTime<Utc>,
    ) -> Result<Claims, IdTokenError> {
        let client = self.client(metadata);
        let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS).set_time_fn(move || now);
        let claims = token.claims(&verifier, &Nonce::new(attempt.nonce()))?;
        if let Some(expected) = claims.access_token_hash() {
            let key = token.signing_key(&verifier)?;
            let algorithm = token.signing_alg().map_err(|_| IdTokenError::Hash)?;
            let hash = AccessTokenHash::from_token(token_response.access_token(), algorithm, key);
            if hash.map_err(|_| IdTokenError::Hash)? != *expected {
                return Err(IdTokenError::Hash);
            }
        }
        // The payload is parsed again to get all signed claims, including nonstandard ones.
        let text = token.to_string();
        let payload = text.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
        payload.and_then(|payload| serde_json::from_slice(&payload).ok()).ok_or(IdTokenError::Payload)
    }

    /// Returns the provider's metadata, from the cache if it is younger than `max_age`.
    async fn metadata(&self, max_age: Duration) -> Result<Arc<CoreProviderMetadata>, OidcError> {
        // The lock is held during the fetch, so that concurrent callers share its result, including a
        // failure.
        let mut cache = self.cache.lock().await;
        if let Some((at, metadata)) = &cache.metadata
            && at.elapsed() < max_age
        {
            return Ok(Arc::clone(metadata));
        }
        if cache.failed_at.is_some_and(|at| at.elapsed() < MIN_FETCH_INTERVAL) {
            return Err(OidcError::ProviderUnavailable("it did not respond to a recent request".into()));
        }
        match CoreProviderMetadata::discover_async(self.issuer.clone(), &self.http_client).await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *cache = MetadataCache {
                    metadata: Some((Instant::now(), Arc::clone(&metadata))),
                    failed_at: None,
                };
                Ok(metadata)
            }
            Err(error) => {
                cache.failed_at = Some(Instant::now());
                Err(OidcError::ProviderUnavailable(Box::new(error)))
            }
        }
    }

    fn client(&self, metadata: &CoreProviderMetadata) -> ConfiguredClient {
        let (id, secret) = (self.config.client_id.clone(), self.config.client_secret.clone());
        CoreClient::from_provider_metadata(
            metadata.clone(),
            openidconnect::ClientId::new(id),
            secret.map(|secret| openidconnect::ClientSecret::new(secret.reveal().to_owned())),
        )
        .set_redirect_uri(self.redirect.clone())
    }

    /// Returns the claim names. OpenID identifies a user by `sub` and nothing else.
    fn claim_names(&self) -> ClaimNames {
        ClaimNames {
            user: "sub".parse().expect("the name of a claim"),
            accounts: self.config.account_claim.clone(),
            role: self.config.role_claim.clone(),
        }
    }
}

impl Authenticator {
    /// Returns the user that a provider's redirect identifies. Provisions an unknown user first if the
    /// settings allow it.
    ///
    /// # Errors
    /// Returns [`AuthError::NoAccount`] if the user is unknown, or an error of the store. Errors in the
    /// provider's redirect are in the inner result.
    pub async fn authenticate_oidc_user(
        &self,
        provider: &OidcProvider,
        attempt: &SignInAttempt,
        parameters: RedirectParameters,
    ) -> Result<Result<user::Model, OidcError>, AuthError> {
        let identity = match provider.verify_redirect(attempt, parameters, self.clock.now()).await {
            Ok(identity) => identity,
            Err(error) => return Ok(Err(error)),
        };
        let (issuer, subject) = (provider.config.issuer.as_str(), identity.subject.as_str());
        let current = self.store.find_current_membership(
            UserRef::Identity { issuer, subject },
            None,
            self.clock.timestamp(),
        );
        if current.await?.is_none()
            && let Some(provision) = &provider.config.provision
        {
            let credential = audit_entry::Credential::Session;
            self.provision_user(issuer, credential, &identity, provision, None).await?;
        }
        self.store.user_of_identity(issuer, subject).await?.map(Ok).ok_or(AuthError::NoAccount)
    }
}

type ConfiguredClient = CoreClient<
    openidconnect::EndpointSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointMaybeSet,
    openidconnect::EndpointMaybeSet,
>;

/// The reason why an ID token is rejected.
#[derive(Debug, thiserror::Error)]
enum IdTokenError {
    #[error("its signature matches no key that the provider publishes")]
    InvalidSignature,
    #[error(transparent)]
    Claims(ClaimsVerificationError),
    #[error(transparent)]
    Signature(SignatureVerificationError),
    #[error("it belongs to another access token")]
    Hash,
    #[error("its claims cannot be read")]
    Payload,
}

impl From<ClaimsVerificationError> for IdTokenError {
    fn from(error: ClaimsVerificationError) -> Self {
        match error {
            ClaimsVerificationError::SignatureVerification(error) => error.into(),
            other => Self::Claims(other),
        }
    }
}

impl From<SignatureVerificationError> for IdTokenError {
    fn from(error: SignatureVerificationError) -> Self {
        match error {
            SignatureVerificationError::NoMatchingKey | SignatureVerificationError::CryptoError(_) => {
                Self::InvalidSignature
            }
            other => Self::Signature(other),
        }
    }
}
