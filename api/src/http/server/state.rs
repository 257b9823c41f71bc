//! The state that handlers share.

use std::{net::IpAddr, ops::Deref, sync::Arc, time::Duration};

use axum::http::{HeaderMap, HeaderValue};
use entity::api_token::Scope;
use futures::FutureExt;

use crate::{
    app::{AccountSizes, ClientSpans, Reports, SignInLinks, SignIns},
    auth::{
        AuthError, Authenticator, Credential, LimitKey, OidcProvider, PresentedCredentials, Session,
        Sessions, Viewer,
    },
    blocking_work::cores,
    clock::Clock,
    config::{ServeConfig, Timeouts},
    domain::{
        audit::Origin,
        base_path::BasePath,
        client_ip::{TrustedProxies, rate_limit_address},
        public_url::PublicUrl,
        session::SessionLifetimes,
    },
    export::Source,
    graphql::Schema,
    guard::{Guard, PersistedDocuments},
    http::{
        coiled::PagePrefetcher,
        extract::{
            cookie::Cookies, credentials::Credentials, known_credentials::KnownCredentials, problem::Problem,
        },
        middleware::{
            host::Hosts,
            rate_limit::RateLimiter,
            request_slot::{OccupiedSlot, RequestSlots},
            token_bucket::TokenBuckets,
        },
        pages::dashboard::Dashboard,
    },
    live::{SessionHandle, SubscriptionHub},
    metrics::Metrics,
    shares::{HeldSlot, Holder, Refused, Slots, current_holder},
    shutdown_signal::ShutdownSignal,
    store::{AccountStore, Store, StoreError, SystemStore},
};

/// The burst of reports per token, in seconds of its rate: clusters that start together report together.
const BURST_SECONDS: u64 = 10;

/// The timeout for authenticating a request: one or two statements and, rarely, a request for an
/// issuer's keys.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(8);

/// The timeout for authenticating a report.
const REPORTER_SIGN_IN_TIMEOUT: Duration = Duration::from_secs(4);

/// The limit of reports that are read and stored at the same time. Further reports are rejected with a
/// retry delay. Reports that wait for the store are held in memory until those before them are stored.
/// One token gets half of these slots, which is as many as the store processes at once.
const MAX_REPORTS_UNDER_WAY: usize = 64;

/// The number of queries and mutations that run at the same time: per core, and the minimum.
const OPERATIONS_OF_CORE: usize = 2;
const FEWEST_OPERATIONS: usize = 4;

/// The number of requests that are authenticated at the same time, and that of one credential while
/// others are active: unknown credentials cost a statement each, however many are sent.
const MAX_AUTHENTICATIONS: usize = 64;
const MAX_CONTENDED_AUTHENTICATIONS: usize = 1;

/// The longest wait of a report's sender for authentication. It takes one statement, so a slot is free
/// soon.
const REPORTER_SIGN_IN_WAIT: Duration = Duration::from_secs(1);

/// The charge for a rejected report, in reports: the sender has to wait before it sends again.
const REFUSED_REPORTS: u64 = 4;

/// The limit of performance reports that are received at the same time. Each holds up to 50 MiB until it
/// is stored.
const MAX_PERFORMANCE_REPORTS_UNDER_WAY: usize = 6;

/// The state that handlers share. Each request and each socket has a copy, so it is only a pointer.
#[derive(Clone)]
pub struct AppState(Arc<Parts>);

/// The fields of the shared state.
pub struct Parts {
    pub(crate) store: Store,
    pub(crate) system: SystemStore,
    pub(crate) authenticator: Authenticator,
    pub(crate) schema: Schema,
    pub(crate) exports: Source,
    pub(crate) live: SubscriptionHub,
    pub(crate) guard: Guard,
    pub(crate) account_sizes: AccountSizes,
    pub(crate) query_budget: RateLimiter,
    pub(crate) report_budget: RateLimiter,
    pub(crate) query_timeout: Duration,
    pub(crate) timeouts: Timeouts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) draining: ShutdownSignal,
    pub(crate) reports: Reports,
    pub(crate) client_spans: ClientSpans,
    pub(crate) clusters_ahead: PagePrefetcher,
    pub(crate) report_quota: TokenBuckets<LimitKey>,
    pub(crate) request_slots: RequestSlots,
    pub(crate) known_credentials: KnownCredentials,
    pub(crate) operations_under_way: Slots,
    pub(crate) reports_under_way: Slots,
    authentications: Slots,
    pub(crate) performance_reports_under_way: Slots,
    pub(crate) proxies: Arc<TrustedProxies>,
    pub(crate) cors_origins: Arc<[HeaderValue]>,
    pub(crate) public_url: Option<PublicUrl>,
    /// The origin of the contents of performance reports. None if they have no origin of their own.
    pub(crate) reports_url: Option<PublicUrl>,
    pub(crate) hosts: Hosts,
    /// The prefix of the server's own paths in every URL that it emits.
    pub(crate) base: BasePath,
    pub(crate) cookies: Cookies,
    pub(crate) sessions: Sessions,
    pub(crate) session_life: SessionLifetimes,
    pub(crate) sign_ins: SignIns,
    pub(crate) sign_in_links: SignInLinks,
    /// None if the server has no dashboard.
    pub(crate) dashboard: Option<Dashboard>,
    pub(crate) oidc: Option<OidcProvider>,
    pub(crate) metrics: Arc<Metrics>,
    /// True if the metrics have an address of their own.
    pub(crate) metrics_are_elsewhere: bool,
}

/// The files that the server reads once, at its start.
#[derive(Default)]
pub(crate) struct LoadedFiles {
    pub(crate) persisted: PersistedDocuments,
    pub(crate) dashboard: Option<Dashboard>,
}

impl Deref for AppState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AppState {
    /// Assembles the state from its parts.
    #[must_use]
    pub(crate) fn new(
        store: Store,
        authenticator: Authenticator,
        files: LoadedFiles,
        clock: Arc<dyn Clock>,
        config: &ServeConfig,
        draining: ShutdownSignal,
        metrics: Arc<Metrics>,
    ) -> Self {
        let shares = store.shares().clone();
        let burst = u64::from(config.reports_per_second) * BURST_SECONDS;
        let base = config.public_url.as_ref().map(PublicUrl::base).cloned().unwrap_or_default();
        let schema = Schema::new(base.clone());
        let LoadedFiles { mut persisted, dashboard } = files;
        if let Some(dashboard) = &dashboard {
            persisted = persisted.with_dashboard(dashboard.documents());
        }
        let guard = Guard::new(config.max_query_cost.into(), persisted);
        let exports = Source {
            schema: schema.clone(),
            guard: guard.clone(),
            store: store.clone(),
            clock: Arc::clone(&clock),
            timeout: config.query_timeout,
        };
        let (timeout, counted) = (config.query_timeout, metrics.live.clone());
        let live = SubscriptionHub::new(schema.clone(), store.clone(), Arc::clone(&clock), timeout, counted);
        let interval = config.min_report_interval.as_secs_f64();
        let reports = Reports::new(store.clone(), Arc::clone(&clock), interval);
        Self(Arc::new(Parts {
            system: store.system(),
            live,
            authenticator,
            guard,
            schema,
            exports,
            clusters_ahead: PagePrefetcher::new(config.query_timeout),
            client_spans: ClientSpans::new(store.clone(), Arc::clone(&clock), reports.quotas().clone()),
            account_sizes: AccountSizes::default(),
            query_budget: RateLimiter::of_queries(
                config.query_cost_per_minute,
                config.perimeter.query_cost_per_minute_of_address,
            ),
            report_budget: RateLimiter::of_reports(
                config.perimeter.report_bytes_per_minute,
                config.perimeter.report_bytes_per_minute_of_address,
            ),
            query_timeout: config.query_timeout,
            timeouts: config.timeouts,
            reports,
            report_quota: TokenBuckets::filling(burst, Duration::from_secs(BURST_SECONDS)),
            cookies: Cookies { secure: config.is_behind_tls(), base: base.clone() },
            base,
            public_url: config.public_url.clone(),
            reports_url: config.reports_url.clone(),
            hosts: Hosts::new(config),
            sessions: Sessions::new(store.system(), Arc::clone(&clock), config.session_life),
            session_life: config.session_life,
            sign_ins: SignIns::new(store.system(), Arc::clone(&clock)),
            sign_in_links: SignInLinks::new(store.system(), Arc::clone(&clock)),
            dashboard,
            oidc: config
                .oidc
                .as_ref()
                .zip(config.public_url.as_ref())
                .map(|(oidc, public)| OidcProvider::new(oidc, public)),
            request_slots: RequestSlots::new(&shares, config.max_connections),
            known_credentials: KnownCredentials::default(),
            operations_under_way: shares.places("operations", operations()),
            reports_under_way: shares.places("reports", MAX_REPORTS_UNDER_WAY),
            authentications: shares.places_for_work(
                "authentications",
                MAX_AUTHENTICATIONS,
                MAX_CONTENDED_AUTHENTICATIONS,
            ),
            performance_reports_under_way: shares
                .places("performance_reports", MAX_PERFORMANCE_REPORTS_UNDER_WAY),
            cors_origins: config.perimeter.cors_origins.clone().into(),
            proxies: Arc::new(config.perimeter.proxies.clone()),
            metrics,
            metrics_are_elsewhere: config.metrics_listen.is_some(),
            clock,
            draining,
            store,
        }))
    }

    /// Returns the source of subscriptions.
    #[must_use]
    pub fn live(&self) -> &SubscriptionHub {
        &self.live
    }

    /// Authenticates the sender of a report. If the report could not be stored now, the sender is
    /// rejected before any query: the store is busy then, and rejections must cost next to nothing so
    /// that they are not a load themselves.
    pub(crate) async fn authenticate_reporter(&self, headers: &HeaderMap) -> Result<Viewer, Problem> {
        if self.reports_under_way.is_full() {
            return Err(Problem::too_many_reports());
        }
        let shown = Credentials::of(&self.cookies, headers)?;
        let known = self.known_credentials.find(&shown);
        if let Some((holder, key)) = known
            && !self.reports_under_way.would_take(holder)
        {
            return Err(self.refused_report(key));
        }
        let known = known.map(|(holder, _)| holder);
        let slot = self.authentication_slot(known, REPORTER_SIGN_IN_WAIT).await;
        let _slot = slot.map_err(|_| Problem::too_many_reports())?;
        // The sender does not wait any longer.
        let found = self.store.with_timeout(REPORTER_SIGN_IN_TIMEOUT, self.verify(&shown)).await;
        let viewer = found.unwrap_or_else(|| Err(StoreError::timed_out().into()))?;
        viewer.require(Scope::Ingest)?;
        OccupiedSlot::hand_to(&viewer).map_err(|_| self.refused_report(viewer.limit_key()))?;
        Ok(viewer)
    }

    /// Returns the holder for a client at an address whose credentials are not verified.
    pub(crate) fn stranger(&self, address: IpAddr, shown: &Credentials) -> Holder {
        Holder::for_unauthenticated(rate_limit_address(address), self.known_credentials.hash(shown))
    }

    /// Charges a viewer's request to the report rate limiter. Returns an error with the name `what`
    /// beyond the limit.
    pub(crate) fn count_report(&self, viewer: &Viewer, what: &str) -> Result<(), Problem> {
        let taken = self.report_quota.take(&viewer.limit_key(), 1);
        taken.map(drop).map_err(|level| {
            let wait = self.report_quota.wait(level, 1);
            Problem::rate_limited(wait.as_secs() + 1, format!("too many {what} with this token"))
        })
    }

    /// Reserves a slot for a viewer's report. A rejection counts as several reports, so that immediate
    /// retries wait.
    pub(crate) fn report_place(&self, viewer: &Viewer) -> Result<HeldSlot, Problem> {
        let place = self.reports_under_way.try_take(viewer.holder());
        place.map_err(|_| self.refused_report(viewer.limit_key()))
    }

    fn refused_report(&self, key: LimitKey) -> Problem {
        let level = self.report_quota.level(&key);
        if level.remaining() == 0 {
            let wait = self.report_quota.wait(level, 1);
            return Problem::rate_limited(wait.as_secs() + 1, "too many reports with this token");
        }
        self.report_quota.overdraw(&key, REFUSED_REPORTS);
        Problem::too_many_reports()
    }

    /// Rejects a scheduler whose token has more scopes than `ingest` if the account refuses such tokens.
    /// Otherwise records that such a token was used.
    pub(crate) async fn check_token_scopes(&self, viewer: &Viewer) -> Result<(), Problem> {
        if !viewer.has_broad_scopes() {
            return Ok(());
        }
        let is_refused = match viewer.refuses_broad_tokens() {
            Some(known) => known,
            None => self.store.for_viewer(viewer).refuses_broad_tokens().await?,
        };
        if let Credential::ApiToken(token) = viewer.credential() {
            self.authenticator.token_uses().record_broad_use(token, self.clock.timestamp());
        }
        if is_refused { Err(Problem::broad_token()) } else { Ok(()) }
    }

    /// Authenticates a request whose credentials must include `scope`.
    pub(crate) async fn viewer(&self, headers: &HeaderMap, scope: Scope) -> Result<Viewer, Problem> {
        self.viewer_with(&Credentials::of(&self.cookies, headers)?, scope).await
    }

    /// Authenticates credentials that must include `scope`.
    pub(crate) async fn viewer_with(
        &self,
        credentials: &Credentials,
        scope: Scope,
    ) -> Result<Viewer, Problem> {
        let viewer = self.signed_in_with(credentials).await?;
        viewer.require(scope)?;
        OccupiedSlot::transfer_to(self, &viewer)?;
        Ok(viewer)
    }

    /// Creates the session state of a viewer, which is valid as long as the credentials are.
    pub(crate) fn admit(&self, viewer: Viewer, shown: &Credentials) -> SessionHandle {
        let (state, credentials) = (self.clone(), shown.clone());
        let again = move || {
            let (state, credentials) = (state.clone(), credentials.clone());
            async move { state.signed_in_with(&credentials).await }.boxed()
        };
        self.live.open_session(viewer, shown.digest(), Arc::new(again))
    }

    /// Returns the account's store on behalf of the viewer, whose changes are audited.
    pub(crate) fn audited_store(&self, viewer: &Viewer, origin: Origin) -> AccountStore {
        self.store.for_viewer(viewer).on_behalf_of(viewer.actor(origin, self.clock.timestamp()))
    }

    /// Returns the valid session of the browser that sent a request.
    pub(crate) async fn session(&self, headers: &HeaderMap) -> Result<Option<Session>, Problem> {
        match self.cookies.session(headers) {
            Some(secret) => Ok(self.sessions.find(secret).await?),
            None => Ok(None),
        }
    }

    /// Authenticates a request with any scope.
    pub(crate) async fn signed_in(&self, headers: &HeaderMap) -> Result<Viewer, Problem> {
        let viewer = self.signed_in_with(&Credentials::of(&self.cookies, headers)?).await?;
        OccupiedSlot::transfer_to(self, &viewer)?;
        Ok(viewer)
    }

    /// Authenticates credentials with any scope, unless they belong to a scheduler.
    pub(crate) async fn signed_in_with(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
        let viewer = self.authenticate(credentials).await?;
        if viewer.binding().is_some() { Err(AuthError::SchedulerToken) } else { Ok(viewer) }
    }

    async fn authenticate(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
        let known = self.known_credentials.find(credentials).map(|(holder, _)| holder);
        let slot = self.authentication_slot(known, SIGN_IN_TIMEOUT).await;
        let _slot = slot.map_err(|_| StoreError::timed_out())?;
        self.verify(credentials).await
    }

    /// Waits for a slot for the verification of credentials, of their holder if it is known, or else of the
    /// current request. Returns `None` for the server's own tasks.
    async fn authentication_slot(
        &self,
        known: Option<Holder>,
        patience: Duration,
    ) -> Result<Option<HeldSlot>, Refused> {
        let Some(holder) = known.or_else(current_holder) else { return Ok(None) };
        self.authentications.take(holder, patience).await.map(Some)
    }

    async fn verify(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
        // Boxed, because the future of the authentication would enlarge every caller.
        let signed_in = self.store.with_timeout(SIGN_IN_TIMEOUT, Box::pin(self.look_up(credentials))).await;
        let signed_in = signed_in.unwrap_or_else(|| Err(AuthError::Store(StoreError::timed_out())));
        match &signed_in {
            Ok(viewer) => self.known_credentials.remember(credentials, viewer),
            Err(AuthError::Invalid | AuthError::NoSession) => self.known_credentials.forget(credentials),
            Err(_) => {}
        }
        signed_in
    }

    async fn look_up(&self, credentials: &Credentials) -> Result<Viewer, AuthError> {
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

/// Returns the number of threads that serve requests. There are more threads than concurrent operations,
/// each of which occupies one while it produces its response. The system therefore shares the cores
/// among all requests, and a probe does not wait for a query.
#[must_use]
pub fn threads() -> usize {
    operations() + 2 * cores()
}

/// Returns the number of queries and mutations that run at the same time.
fn operations() -> usize {
    (OPERATIONS_OF_CORE * cores()).max(FEWEST_OPERATIONS)
}
