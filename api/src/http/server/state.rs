//! The state that handlers share.

use std::{ops::Deref, sync::Arc, time::Duration};

use axum::http::HeaderMap;
use entity::api_token::Scope;
use futures::FutureExt;

use super::site::Site;
use crate::{
    app::{ClientSpans, Reports},
    auth::{Authenticator, Credential, Session, Viewer},
    blocking_work::cores,
    clock::Clock,
    config::{ServeConfig, Timeouts},
    domain::audit::Origin,
    export::Source,
    guard::PersistedDocuments,
    http::{
        coiled::PagePrefetcher,
        extract::{authentication::Authentication, credentials::Credentials, problem::Problem},
        graphql::operations::{Operations, max_operations},
        middleware::{
            rate_limit::RateLimiter,
            report_admission::ReportAdmission,
            request_slot::{OccupiedSlot, RequestSlots},
        },
        pages::{dashboard::Dashboard, sign_in_services::SignInServices},
    },
    live::{SessionHandle, SubscriptionHub},
    metrics::Metrics,
    shares::Slots,
    shutdown_signal::ShutdownSignal,
    store::{AccountStore, Store, StoreError, SystemStore},
};

/// The longest wait of a report's sender for authentication. It takes one statement, so a slot is free
/// soon.
const REPORTER_SIGN_IN_WAIT: Duration = Duration::from_secs(1);

/// The timeout for authenticating a report.
const REPORTER_SIGN_IN_TIMEOUT: Duration = Duration::from_secs(4);

/// The limit of performance reports that are received at the same time. Each holds up to 50 MiB until it
/// is stored.
const MAX_CONCURRENT_PERFORMANCE_REPORTS: usize = 6;

/// The state that handlers share. Each request and each socket has a copy, so it is only a pointer.
#[derive(Clone)]
pub struct AppState(Arc<SharedState>);

/// The fields of the shared state.
pub struct SharedState {
    pub(crate) store: Store,
    pub(crate) system: SystemStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timeouts: Timeouts,
    pub(crate) draining: ShutdownSignal,
    pub(crate) site: Site,
    pub(crate) request_slots: RequestSlots,
    pub(crate) authentication: Authentication,
    pub(crate) sign_in: SignInServices,
    pub(crate) report_admission: ReportAdmission,
    pub(crate) reports: Reports,
    pub(crate) client_spans: ClientSpans,
    pub(crate) performance_report_slots: Slots,
    pub(crate) operations: Operations,
    pub(crate) query_limiter: RateLimiter,
    pub(crate) live: SubscriptionHub,
    pub(crate) exports: Source,
    pub(crate) cluster_prefetcher: PagePrefetcher,
    pub(crate) metrics: Arc<Metrics>,
    /// True if the metrics have an address of their own.
    pub(crate) has_separate_metrics_address: bool,
}

/// The files that the server reads once, at its start.
#[derive(Default)]
pub(crate) struct LoadedFiles {
    pub(crate) persisted: PersistedDocuments,
    pub(crate) dashboard: Option<Dashboard>,
}

impl Deref for AppState {
    type Target = SharedState;

    fn deref(&self) -> &SharedState {
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
        let LoadedFiles { mut persisted, dashboard } = files;
        if let Some(dashboard) = &dashboard {
            persisted = persisted.with_dashboard(dashboard.documents());
        }
        let site = Site::new(config, dashboard);
        let operations = Operations::new(config, &site.base, persisted, &shares);
        let exports = Source {
            schema: operations.schema.clone(),
            guard: operations.guard.clone(),
            store: store.clone(),
            clock: Arc::clone(&clock),
            timeout: config.query_timeout,
        };
        let live = SubscriptionHub::new(
            operations.schema.clone(),
            store.clone(),
            Arc::clone(&clock),
            config.query_timeout,
            metrics.live.clone(),
        );
        let interval = config.min_report_interval.as_secs_f64();
        let reports = Reports::new(store.clone(), Arc::clone(&clock), interval);
        let sign_in = SignInServices::new(config, &store.system(), &clock);
        let authentication =
            Authentication::new(store.clone(), authenticator, sign_in.sessions.clone(), &shares);
        Self(Arc::new(SharedState {
            system: store.system(),
            timeouts: config.timeouts,
            draining,
            site,
            request_slots: RequestSlots::new(&shares, config.max_connections),
            authentication,
            sign_in,
            report_admission: ReportAdmission::new(config, &shares),
            client_spans: ClientSpans::new(store.clone(), Arc::clone(&clock), reports.quotas().clone()),
            reports,
            performance_report_slots: shares.slots("performance_reports", MAX_CONCURRENT_PERFORMANCE_REPORTS),
            operations,
            query_limiter: RateLimiter::for_queries(
                config.query_cost_per_minute,
                config.network.query_cost_per_minute_of_address,
            ),
            live,
            exports,
            cluster_prefetcher: PagePrefetcher::new(config.query_timeout),
            metrics,
            has_separate_metrics_address: config.metrics_listen.is_some(),
            clock,
            store,
        }))
    }

    /// Returns the source of subscriptions.
    #[must_use]
    pub fn live(&self) -> &SubscriptionHub {
        &self.live
    }

    /// Authenticates the sender of a report. If the report could not be stored now, the sender is
    /// rejected before any query.
    pub(crate) async fn authenticate_reporter(&self, headers: &HeaderMap) -> Result<Viewer, Problem> {
        self.report_admission.check_free()?;
        let credentials = Credentials::of(&self.site.cookies, headers)?;
        let known_sender = self.authentication.find_known(&credentials);
        self.report_admission.check_share(known_sender)?;
        let holder = known_sender.map(|(holder, _)| holder);
        let slot = self.authentication.reserve(holder, REPORTER_SIGN_IN_WAIT).await;
        let _slot = slot.map_err(|_| Problem::too_many_reports())?;
        // The sender does not wait any longer.
        let verification = self.authentication.verify(&credentials);
        let viewer = self.store.with_timeout(REPORTER_SIGN_IN_TIMEOUT, verification).await;
        let viewer = viewer.unwrap_or_else(|| Err(StoreError::timed_out().into()))?;
        viewer.require(Scope::Ingest)?;
        OccupiedSlot::move_to_viewer(&viewer)
            .map_err(|_| self.report_admission.refusal(viewer.limit_key()))?;
        Ok(viewer)
    }

    /// Rejects a scheduler whose token has more scopes than `ingest` if the account refuses such tokens.
    /// Otherwise records that such a token was used.
    pub(crate) async fn check_token_scopes(&self, viewer: &Viewer) -> Result<(), Problem> {
        if !viewer.has_broad_scopes() {
            return Ok(());
        }
        let is_refused = match viewer.refuses_broad_tokens() {
            Some(refuses) => refuses,
            None => self.store.for_viewer(viewer).refuses_broad_tokens().await?,
        };
        if let Credential::ApiToken(token) = viewer.credential() {
            self.authentication.authenticator.token_uses().record_broad_use(token, self.clock.timestamp());
        }
        if is_refused { Err(Problem::broad_token()) } else { Ok(()) }
    }

    /// Authenticates a request whose credentials must include `scope`.
    pub(crate) async fn viewer(&self, headers: &HeaderMap, scope: Scope) -> Result<Viewer, Problem> {
        self.viewer_with(&Credentials::of(&self.site.cookies, headers)?, scope).await
    }

    /// Authenticates credentials that must include `scope`.
    pub(crate) async fn viewer_with(
        &self,
        credentials: &Credentials,
        scope: Scope,
    ) -> Result<Viewer, Problem> {
        let viewer = self.authentication.authenticate_user(credentials).await?;
        viewer.require(scope)?;
        OccupiedSlot::transfer_to(self, &viewer)?;
        Ok(viewer)
    }

    /// Creates the session state of a viewer, which is valid as long as the credentials are.
    pub(crate) fn open_session(&self, viewer: Viewer, credentials: &Credentials) -> SessionHandle {
        let (state, own_credentials) = (self.clone(), credentials.clone());
        let reauthenticate = move || {
            let (state, credentials) = (state.clone(), own_credentials.clone());
            async move { state.authentication.authenticate_user(&credentials).await }.boxed()
        };
        self.live.open_session(viewer, credentials.digest(), Arc::new(reauthenticate))
    }

    /// Returns the account's store on behalf of the viewer, whose changes are audited.
    pub(crate) fn audited_store(&self, viewer: &Viewer, origin: Origin) -> AccountStore {
        self.store.for_viewer(viewer).on_behalf_of(viewer.actor(origin, self.clock.timestamp()))
    }

    /// Returns the valid session of the browser that sent a request.
    pub(crate) async fn session(&self, headers: &HeaderMap) -> Result<Option<Session>, Problem> {
        match self.site.cookies.session(headers) {
            Some(secret) => Ok(self.sign_in.sessions.find(secret).await?),
            None => Ok(None),
        }
    }

    /// Authenticates a request with any scope.
    pub(crate) async fn authenticate_user(&self, headers: &HeaderMap) -> Result<Viewer, Problem> {
        let viewer =
            self.authentication.authenticate_user(&Credentials::of(&self.site.cookies, headers)?).await?;
        OccupiedSlot::transfer_to(self, &viewer)?;
        Ok(viewer)
    }
}

/// Returns the number of threads that serve requests. There are more threads than concurrent operations,
/// each of which occupies one while it produces its response. The system therefore shares the cores
/// among all requests, and a probe does not wait for a query.
#[must_use]
pub fn threads() -> usize {
    max_operations() + 2 * cores()
}
