//! Signing in with an OpenID provider: an authorization code with PKCE, for a browser that left from here.
//!
//! What the provider says of itself and its keys is read when somebody signs in, kept for a while, and read anew when it signs
//! with a key that is not known. A provider that does not answer keeps nobody from signing in with a password.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use entity::user;
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

use super::{AuthError, Authenticator, Credential};
use crate::{
    config::OidcConfig,
    domain::{
        claims::{self, ClaimError, ClaimNames, Claimed, Claims},
        public_url::PublicUrl,
        sign_in_attempt::SignInAttempt,
    },
    outgoing::{self, FetchError, Outgoing},
    store::Whose,
};

/// Where the provider sends browsers back to.
pub const CALLBACK: &str = "/sign-in/oidc/callback";

/// How large an answer of the provider may be.
const MAX_BYTES: usize = 256 * 1024;

/// Bytes of a code that is redeemed.
const MAX_CODE: usize = 4_096;

/// How long is believed what the provider said of itself.
const BELIEVED: Duration = Duration::from_mins(10);

/// How often it is asked at the most when it signs with a key that is not known, or does not answer.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// What its signatures are made with: a key it alone has. What is shared with it would sign as well on our side.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 5] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// A provider that people sign in with.
pub struct OidcProvider {
    config: OidcConfig,
    issuer: IssuerUrl,
    redirect: RedirectUrl,
    asking: Asking,
    known: Mutex<Known>,
}

/// What the provider said of itself.
#[derive(Default)]
struct Known {
    metadata: Option<(Instant, Arc<CoreProviderMetadata>)>,
    /// When it did not answer last, since it answered.
    away_at: Option<Instant>,
}

/// Why somebody is not signed in.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The provider does not answer, or not as it should.
    #[error("the provider cannot be asked now")]
    Away(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The browser did not leave from here, or did so too long ago.
    #[error("this sign-in was not begun with this browser, or took too long: begin again")]
    State,
    /// The provider did not sign anybody in.
    #[error("the provider did not sign you in")]
    Denied,
    /// What the provider says of somebody cannot be believed.
    #[error("what the provider says cannot be believed")]
    Unbelievable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What it says names nobody.
    #[error("the provider does not say who you are")]
    Claims(#[from] ClaimError),
}

/// What a provider was asked and did not answer.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error("it would have to be asked in the open")]
    InTheOpen,
    #[error("it has no address")]
    Address(#[from] url::ParseError),
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// Asks a provider one thing at a time, and nothing that others could read or answer.
struct Asking(Outgoing);

impl<'a> AsyncHttpClient<'a> for Asking {
    type Error = AskError;
    type Future = BoxFuture<'a, Result<HttpResponse, AskError>>;

    fn call(&'a self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let url: Url = request.uri().to_string().parse()?;
            if !outgoing::is_private(&url) {
                return Err(AskError::InTheOpen);
            }
            Ok(self.0.send(request, MAX_BYTES).await?)
        })
    }
}

/// What a provider sends a browser back with. It has no `Debug`.
#[derive(Clone, Default)]
pub struct Returned {
    /// What it gets its proof for.
    pub code: String,
    /// What it left with.
    pub state: String,
    /// Who sends it, if the provider says so (RFC 9207).
    pub issuer: String,
}

impl OidcProvider {
    /// A provider that nobody has asked yet.
    ///
    /// # Panics
    /// When the settings are none that were checked.
    #[must_use]
    pub fn new(config: &OidcConfig, public: &PublicUrl) -> Self {
        let redirect = format!("{public}{CALLBACK}");
        Self {
            issuer: IssuerUrl::new(config.issuer.clone()).expect("the setting was checked"),
            redirect: RedirectUrl::new(redirect).expect("the setting was checked"),
            config: config.clone(),
            asking: Asking(Outgoing::new()),
            known: Mutex::default(),
        }
    }

    /// What people call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Asks the provider what it says of itself.
    ///
    /// # Errors
    /// [`OidcError::Away`]
    pub(crate) async fn examine(&self) -> Result<(), OidcError> {
        self.metadata(BELIEVED).await.map(|_| ())
    }

    /// Where a browser goes to sign in.
    ///
    /// # Errors
    /// [`OidcError::Away`]
    pub async fn address(&self, attempt: &SignInAttempt) -> Result<Url, OidcError> {
        let metadata = self.metadata(BELIEVED).await?;
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

    /// Who somebody is, who comes back from the provider with the same browser.
    ///
    /// # Errors
    /// [`OidcError`]
    async fn claimed(
        &self,
        attempt: &SignInAttempt,
        returned: Returned,
        now: DateTime<Utc>,
    ) -> Result<Claimed, OidcError> {
        if !attempt.is_state(&returned.state) {
            return Err(OidcError::State);
        }
        let from_elsewhere = !returned.issuer.is_empty() && returned.issuer != self.config.issuer;
        if from_elsewhere || returned.code.is_empty() || returned.code.len() > MAX_CODE {
            return Err(OidcError::Denied);
        }
        let metadata = self.metadata(BELIEVED).await?;
        let answer = self.redeem(&metadata, returned.code, attempt.verifier()).await?;
        let missing = || OidcError::Unbelievable("there is no ID token".into());
        let token = answer.id_token().ok_or_else(missing)?;
        let claims = match self.verify(&metadata, token, &answer, attempt, now) {
            Err(Unverified::UnknownKey) => {
                // Keys are changed now and then; the new ones are published before.
                let metadata = self.metadata(AT_MOST_EVERY).await?;
                self.verify(&metadata, token, &answer, attempt, now)
            }
            verified => verified,
        };
        let claims = claims.map_err(|reason| OidcError::Unbelievable(Box::new(reason)))?;
        Ok(claims::read(&claims, &self.names())?)
    }

    async fn redeem(
        &self,
        metadata: &CoreProviderMetadata,
        code: String,
        verifier: String,
    ) -> Result<CoreTokenResponse, OidcError> {
        use openidconnect::RequestTokenError;

        let client = self.client(metadata);
        let exchange = client.exchange_code(AuthorizationCode::new(code));
        let exchange = exchange.map_err(|error| OidcError::Away(Box::new(error)))?;
        let answer =
            exchange.set_pkce_verifier(PkceCodeVerifier::new(verifier)).request_async(&self.asking).await;
        answer.map_err(|error| match error {
            // As of a code that was used before. What it answers in words is not repeated anywhere.
            RequestTokenError::ServerResponse(_) => OidcError::Denied,
            RequestTokenError::Request(error) => OidcError::Away(Box::new(error)),
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                OidcError::Away("its answer is none to a code".into())
            }
        })
    }

    /// What an ID token says, if the provider has signed it for us, now, and for this attempt.
    fn verify(
        &self,
        metadata: &CoreProviderMetadata,
        token: &CoreIdToken,
        answer: &CoreTokenResponse,
        attempt: &SignInAttempt,
        now: DateTime<Utc>,
    ) -> Result<Claims, Unverified> {
        let client = self.client(metadata);
        let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS).set_time_fn(move || now);
        let claims = token.claims(&verifier, &Nonce::new(attempt.nonce()))?;
        if let Some(expected) = claims.access_token_hash() {
            let key = token.signing_key(&verifier)?;
            let algorithm = token.signing_alg().map_err(|_| Unverified::Hash)?;
            let hash = AccessTokenHash::from_token(answer.access_token(), algorithm, key);
            if hash.map_err(|_| Unverified::Hash)? != *expected {
                return Err(Unverified::Hash);
            }
        }
        // All of what was signed, also what OpenID has no name for.
        let text = token.to_string();
        let payload = text.split('.').nth(1).and_then(|payload| URL_SAFE_NO_PAD.decode(payload).ok());
        payload.and_then(|payload| serde_json::from_slice(&payload).ok()).ok_or(Unverified::Payload)
    }

    /// What the provider says of itself: what it said before, if that is not older than `age`.
    async fn metadata(&self, age: Duration) -> Result<Arc<CoreProviderMetadata>, OidcError> {
        // Whoever comes meanwhile waits for the same, also when there is no answer.
        let mut known = self.known.lock().await;
        if let Some((at, metadata)) = &known.metadata
            && at.elapsed() < age
        {
            return Ok(Arc::clone(metadata));
        }
        if known.away_at.is_some_and(|at| at.elapsed() < AT_MOST_EVERY) {
            return Err(OidcError::Away("it did not answer just now".into()));
        }
        match CoreProviderMetadata::discover_async(self.issuer.clone(), &self.asking).await {
            Ok(metadata) => {
                let metadata = Arc::new(metadata);
                *known = Known { metadata: Some((Instant::now(), Arc::clone(&metadata))), away_at: None };
                Ok(metadata)
            }
            Err(error) => {
                known.away_at = Some(Instant::now());
                Err(OidcError::Away(Box::new(error)))
            }
        }
    }

    fn client(&self, metadata: &CoreProviderMetadata) -> ClientOf {
        let (id, secret) = (self.config.client_id.clone(), self.config.client_secret.clone());
        CoreClient::from_provider_metadata(
            metadata.clone(),
            openidconnect::ClientId::new(id),
            secret.map(|secret| openidconnect::ClientSecret::new(secret.reveal().to_owned())),
        )
        .set_redirect_uri(self.redirect.clone())
    }

    /// A subject is who somebody is by the rules of OpenID, and nothing else is.
    fn names(&self) -> ClaimNames {
        ClaimNames {
            user: "sub".parse().expect("the name of a claim"),
            accounts: self.config.account_claim.clone(),
            role: self.config.role_claim.clone(),
        }
    }
}

impl Authenticator {
    /// Whom a provider sends with a browser, who becomes a member first if nobody here knows them and that is wanted.
    ///
    /// # Errors
    /// [`AuthError::NoAccount`] when nobody here knows them, or the store's. What is wrong with what the provider sends comes
    /// as a value.
    pub async fn user_of_provider(
        &self,
        provider: &OidcProvider,
        attempt: &SignInAttempt,
        returned: Returned,
    ) -> Result<Result<user::Model, OidcError>, AuthError> {
        let claimed = match provider.claimed(attempt, returned, self.clock.now()).await {
            Ok(claimed) => claimed,
            Err(error) => return Ok(Err(error)),
        };
        let (issuer, subject) = (provider.config.issuer.as_str(), claimed.subject.as_str());
        let standing = self.store.standing(Whose::Identity { issuer, subject }, None, self.clock.timestamp());
        if standing.await?.is_none()
            && let Some(provision) = &provider.config.provision
        {
            self.receive(issuer, Credential::Session, &claimed, provision, None).await?;
        }
        self.store.user_of_identity(issuer, subject).await?.map(Ok).ok_or(AuthError::NoAccount)
    }
}

type ClientOf = CoreClient<
    openidconnect::EndpointSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointNotSet,
    openidconnect::EndpointMaybeSet,
    openidconnect::EndpointMaybeSet,
>;

/// Why an ID token is not believed.
#[derive(Debug, thiserror::Error)]
enum Unverified {
    #[error("it is signed with a key that the provider does not publish")]
    UnknownKey,
    #[error(transparent)]
    Claims(ClaimsVerificationError),
    #[error(transparent)]
    Signature(SignatureVerificationError),
    #[error("it is for another access token")]
    Hash,
    #[error("it says nothing")]
    Payload,
}

impl From<ClaimsVerificationError> for Unverified {
    fn from(error: ClaimsVerificationError) -> Self {
        match error {
            ClaimsVerificationError::SignatureVerification(error) => error.into(),
            other => Self::Claims(other),
        }
    }
}

impl From<SignatureVerificationError> for Unverified {
    fn from(error: SignatureVerificationError) -> Self {
        match error {
            SignatureVerificationError::NoMatchingKey | SignatureVerificationError::CryptoError(_) => {
                Self::UnknownKey
            }
            other => Self::Signature(other),
        }
    }
}
