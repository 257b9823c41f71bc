//! What handlers share.

use std::{num::NonZeroU32, ops::Deref, sync::Arc, time::Duration};

use axum::http::{HeaderMap, HeaderValue};
use entity::api_token::Scope;
use futures::FutureExt;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tokio::sync::Semaphore;

use super::{budget::Budget, coiled::Ahead, cookie::Cookies, credentials::Credentials, problem::Problem};
use crate::{
    app::{ClientSpans, Reports, SignIns},
    auth::{AuthError, Authenticator, LimitKey, OidcProvider, Session, Sessions, Shown, Viewer},
    clock::Clock,
    config::{Patience, ServeConfig},
    domain::{address::Proxies, audit::Origin, public_url::PublicUrl, session::SessionLife},
    draining::Draining,
    export::Source,
    graphql::Schema,
    guard::{Guard, PersistedDocuments},
    live::{Live, Pass},
    metrics::Metrics,
    store::{AccountStore, Store, StoreError, SystemStore},
};

/// A token may send reports of this many seconds at once, since clusters started together report together.
const BURST_SECONDS: u32 = 10;

/// How long finding out who asks may take. It is a statement or two, and before them, now and then, the keys of an issuer.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(8);

/// The same for reporters.
const REPORTER_SIGN_IN_TIMEOUT: Duration = Duration::from_secs(4);

/// Reports that are read and stored at one time, at the most; more are told to come back. What waits for the
/// store is held in memory, and waits for as long as those before it take: these are as many as the store is busy with.
const MAX_REPORTS_UNDER_WAY: usize = 32;

/// Senders of reports that are looked up at one time, at the most.
const MAX_REPORTERS_SIGNING_IN: usize = 32;

/// Performance reports that are taken in at one time, at the most. Of each up to 50 MiB are held until they are stored.
const MAX_PERFORMANCE_REPORTS_UNDER_WAY: usize = 2;

/// What handlers share. Each request and each socket has one, which is why it is only a pointer.
#[derive(Clone)]
pub struct AppState(Arc<Parts>);

/// What there is to share.
pub struct Parts {
    pub(super) store: Store,
    pub(super) system: SystemStore,
    pub(super) authenticator: Authenticator,
    pub(super) schema: Schema,
    pub(super) exports: Source,
    pub(super) live: Live,
    pub(super) guard: Guard,
    pub(super) query_budget: Budget,
    pub(super) report_budget: Budget,
    pub(super) query_timeout: Duration,
    pub(super) patience: Patience,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) draining: Draining,
    pub(super) reports: Reports,
    pub(super) client_spans: ClientSpans,
    pub(super) clusters_ahead: Ahead,
    pub(super) report_quota: DefaultKeyedRateLimiter<LimitKey>,
    pub(super) reports_under_way: Semaphore,
    pub(super) reporters_signing_in: Semaphore,
    pub(super) performance_reports_under_way: Semaphore,
    pub(super) proxies: Arc<Proxies>,
    pub(super) cors_origins: Arc<[HeaderValue]>,
    pub(super) public_url: Option<PublicUrl>,
    pub(super) cookies: Cookies,
    pub(super) sessions: Sessions,
    pub(super) session_life: SessionLife,
    pub(super) sign_ins: SignIns,
    pub(super) oidc: Option<OidcProvider>,
    pub(super) metrics: Arc<Metrics>,
    /// Whether they are read on an address of their own.
    pub(super) metrics_are_elsewhere: bool,
}

impl Deref for AppState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AppState {
    /// Puts the handlers' parts together.
    #[must_use]
    pub(crate) fn new(
        store: Store,
        authenticator: Authenticator,
        persisted: PersistedDocuments,
        clock: Arc<dyn Clock>,
        config: &ServeConfig,
        draining: Draining,
        metrics: Arc<Metrics>,
    ) -> Self {
        let per_second = NonZeroU32::new(config.reports_per_second).unwrap_or(NonZeroU32::MIN);
        let burst = per_second.saturating_mul(NonZeroU32::new(BURST_SECONDS).unwrap_or(NonZeroU32::MIN));
        let schema = Schema::new();
        let guard = Guard::new(config.max_query_cost.into(), persisted);
        let exports = Source {
            schema: schema.clone(),
            guard: guard.clone(),
            store: store.clone(),
            clock: Arc::clone(&clock),
            timeout: config.query_timeout,
        };
        let (timeout, counted) = (config.query_timeout, metrics.live.clone());
        let live = Live::new(schema.clone(), store.clone(), Arc::clone(&clock), timeout, counted);
        Self(Arc::new(Parts {
            system: store.system(),
            live,
            authenticator,
            guard,
            schema,
            exports,
            clusters_ahead: Ahead::new(config.query_timeout),
            client_spans: ClientSpans::new(store.clone(), Arc::clone(&clock)),
            query_budget: Budget::of_queries(
                config.query_cost_per_minute,
                config.perimeter.query_cost_per_minute_of_address,
            ),
            report_budget: Budget::of_reports(
                config.perimeter.report_bytes_per_minute,
                config.perimeter.report_bytes_per_minute_of_address,
            ),
            query_timeout: config.query_timeout,
            patience: config.patience,
            reports: Reports::new(
                store.clone(),
                Arc::clone(&clock),
                config.min_report_interval.as_secs_f64(),
            ),
            report_quota: RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst)),
            cookies: Cookies { secure: config.is_behind_tls() },
            public_url: config.public_url.clone(),
            sessions: Sessions::new(store.system(), Arc::clone(&clock), config.session_life),
            session_life: config.session_life,
            sign_ins: SignIns::new(store.system(), Arc::clone(&clock)),
            oidc: config
                .oidc
                .as_ref()
                .zip(config.public_url.as_ref())
                .map(|(oidc, public)| OidcProvider::new(oidc, public)),
            reports_under_way: Semaphore::new(MAX_REPORTS_UNDER_WAY),
            reporters_signing_in: Semaphore::new(MAX_REPORTERS_SIGNING_IN),
            performance_reports_under_way: Semaphore::new(MAX_PERFORMANCE_REPORTS_UNDER_WAY),
            cors_origins: config.perimeter.cors_origins.clone().into(),
            proxies: Arc::new(config.perimeter.proxies.clone()),
            metrics,
            metrics_are_elsewhere: config.metrics_listen.is_some(),
            clock,
            draining,
            store,
        }))
    }

    /// What makes subscriptions.
    #[must_use]
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The viewer behind a report. One that could not be stored now is refused before anything is asked of the store, which has enough
    /// to do then: what is refused must cost next to nothing, or refusing would be the load.
    pub(super) async fn reporter(&self, headers: &HeaderMap) -> Result<Viewer, Problem> {
        if self.reports_under_way.available_permits() == 0 {
            return Err(Problem::too_many_reports());
        }
        let _place = self.reporters_signing_in.try_acquire().map_err(|_| Problem::too_many_reports())?;
        // A reporter does not wait for longer.
        let found = self.store.within(REPORTER_SIGN_IN_TIMEOUT, self.viewer(headers, Scope::Ingest)).await;
        found.unwrap_or_else(|| Err(StoreError::silent().into()))
    }

    /// The viewer behind a request, if the credentials are for `scope`.
    pub(super) async fn viewer(&self, headers: &HeaderMap, scope: Scope) -> Result<Viewer, Problem> {
        self.viewer_with(&Credentials::of(self.cookies, headers)?, scope).await
    }

    /// The viewer behind credentials, if they are for `scope`.
    pub(super) async fn viewer_with(
        &self,
        credentials: &Credentials,
        scope: Scope,
    ) -> Result<Viewer, Problem> {
        let viewer = self.signed_in_with(credentials).await?;
        viewer.require(scope)?;
        Ok(viewer)
    }

    /// Lets a viewer in for longer than a request, for as long as what was shown is good.
    pub(super) fn admit(&self, viewer: Viewer, shown: &Credentials) -> Pass {
        let (state, credentials) = (self.clone(), shown.clone());
        let again = move || {
            let (state, credentials) = (state.clone(), credentials.clone());
            async move { state.signed_in_with(&credentials).await }.boxed()
        };
        self.live.admit(viewer, shown.digest(), Arc::new(again))
    }

    /// The view of somebody's account in which what they change is written down.
    pub(super) fn acting(&self, viewer: &Viewer, origin: Origin) -> AccountStore {
        self.store.for_viewer(viewer).acting(viewer.actor(origin, self.clock.timestamp()))
    }

    /// The session of the browser behind a request, if it has one that is not over.
    pub(super) async fn session(&self, headers: &HeaderMap) -> Result<Option<Session>, Problem> {
        match self.cookies.session(headers) {
            Some(secret) => Ok(self.sessions.find(secret).await?),
            None => Ok(None),
        }
    }

    /// The viewer behind a request, whatever the credentials are for.
    pub(super) async fn signed_in(&self, headers: &HeaderMap) -> Result<Viewer, Problem> {
        Ok(self.signed_in_with(&Credentials::of(self.cookies, headers)?).await?)
    }

    /// The viewer behind credentials, whatever they are for.
    pub(super) async fn signed_in_with(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
        // In a box, or each of those who ask would be larger by what signing in may take.
        let signed_in = self.store.within(SIGN_IN_TIMEOUT, Box::pin(self.look_up(credentials))).await;
        signed_in.unwrap_or_else(|| Err(AuthError::Store(StoreError::silent())))
    }

    async fn look_up(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
        let Credentials { authorization, account, session } = credentials;
        let (authorization, account) = (authorization.as_deref(), account.as_deref());
        // Where there are credentials the cookie does not count: not even when they are wrong.
        if authorization.is_none()
            && let Some(secret) = session
        {
            let session = self.sessions.find(secret.clone()).await?.ok_or(AuthError::NoSession)?;
            return self.authenticator.viewer_of(&session, account).await;
        }
        self.authenticator.viewer(Shown { authorization, account }).await
    }
}
