//! The authentication of requests: each waits for one of few slots, in the share of its sender.

use std::{net::IpAddr, time::Duration};

use crate::{
    auth::{AuthError, Authenticator, LimitKey, PresentedCredentials, Sessions, Viewer},
    domain::client_ip::rate_limit_address,
    http::extract::{credentials::Credentials, known_credentials::KnownCredentials},
    shares::{FairShares, HeldSlot, Holder, Refused, Slots, current_holder},
    store::{Store, StoreError},
};

/// The timeout for authenticating a request: one or two statements and, rarely, a request for an
/// issuer's keys.
const TIMEOUT: Duration = Duration::from_secs(8);

/// The number of requests that are authenticated at the same time, and that of one credential while
/// others are active: unknown credentials cost a statement each, however many are sent.
const MAX_AUTHENTICATIONS: usize = 64;
const MAX_CONTENDED_AUTHENTICATIONS: usize = 1;

/// The authentication of requests.
pub(crate) struct Authentication {
    store: Store,
    /// The verifier of tokens and sessions.
    pub(crate) authenticator: Authenticator,
    sessions: Sessions,
    known_credentials: KnownCredentials,
    slots: Slots,
}

impl Authentication {
    /// Creates the authentication with all its slots free.
    pub(crate) fn new(
        store: Store,
        authenticator: Authenticator,
        sessions: Sessions,
        shares: &FairShares,
    ) -> Self {
        let slots = shares.work_slots("authentications", MAX_AUTHENTICATIONS, MAX_CONTENDED_AUTHENTICATIONS);
        Self { store, authenticator, sessions, known_credentials: KnownCredentials::default(), slots }
    }

    /// Returns the holder and the rate limiter's key of credentials that were valid recently.
    pub(crate) fn find_known(&self, credentials: &Credentials) -> Option<(Holder, LimitKey)> {
        self.known_credentials.find(credentials)
    }

    /// Returns the holder for a client at an address whose credentials are not verified.
    pub(crate) fn unauthenticated_holder(&self, address: IpAddr, credentials: &Credentials) -> Holder {
        Holder::for_unauthenticated(rate_limit_address(address), self.known_credentials.hash(credentials))
    }

    /// Authenticates credentials with any scope, unless they belong to a scheduler.
    pub(crate) async fn authenticate_user(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
        let holder = self.known_credentials.find(credentials).map(|(holder, _)| holder);
        let slot = self.reserve(holder, TIMEOUT).await;
        let _slot = slot.map_err(|_| StoreError::timed_out())?;
        let viewer = self.verify(credentials).await?;
        if viewer.binding().is_some() { Err(AuthError::SchedulerToken) } else { Ok(viewer) }
    }

    /// Waits for a slot for the verification of credentials, of the given holder, or else of the
    /// current request. Returns `None` for the server's own tasks.
    pub(crate) async fn reserve(
        &self,
        holder: Option<Holder>,
        time_limit: Duration,
    ) -> Result<Option<HeldSlot>, Refused> {
        let Some(holder) = holder.or_else(current_holder) else { return Ok(None) };
        self.slots.take(holder, time_limit).await.map(Some)
    }

    /// Verifies credentials of any kind. The caller has reserved a slot.
    pub(crate) async fn verify(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
        // Boxed, because the future of the authentication would enlarge every caller.
        let viewer = self.store.with_timeout(TIMEOUT, Box::pin(self.find_viewer(credentials))).await;
        let viewer = viewer.unwrap_or_else(|| Err(AuthError::Store(StoreError::timed_out())));
        match &viewer {
            Ok(viewer) => self.known_credentials.remember(credentials, viewer),
            Err(AuthError::Invalid | AuthError::NoSession) => self.known_credentials.remove(credentials),
            Err(_) => {}
        }
        viewer
    }

    async fn find_viewer(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
        let Credentials { authorization, account, session } = credentials;
        let (authorization, account) = (authorization.as_deref(), account.as_deref());
        // A cookie is ignored beside other credentials, even if those are invalid.
        if authorization.is_none()
            && let Some(secret) = session
        {
            let session = self.sessions.find(secret.clone()).await?.ok_or(AuthError::NoSession)?;
            return self.authenticator.viewer_of(&session, account).await;
        }
        self.authenticator.viewer(PresentedCredentials { authorization, account }).await
    }
}
