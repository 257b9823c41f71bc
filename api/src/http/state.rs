//! What handlers share.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use entity::api_token::Scope;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::{budget::Budget, problem::Problem};
use crate::{
    app::{ClientSpans, Reports},
    auth::{Authenticator, LimitKey, Shown, Viewer},
    clock::Clock,
    config::ServeConfig,
    domain::address::Proxies,
    graphql::Schema,
    guard::{Guard, PersistedDocuments},
    store::{Store, SystemStore},
};

/// A token may send reports of this many seconds at once, since clusters started together report together.
const BURST_SECONDS: u32 = 10;

/// Reports that are read and stored at one time, at the most; more are told to come back. What waits for the
/// store is held in memory.
const MAX_REPORTS_UNDER_WAY: usize = 64;

/// Names the account a request asks for, by its short name. Whoever is a member of one only has no need of it.
const ACCOUNT: HeaderName = HeaderName::from_static("galvo-account");

/// What handlers share.
#[derive(Clone)]
pub struct AppState {
    pub(super) store: Store,
    pub(super) system: SystemStore,
    pub(super) authenticator: Authenticator,
    pub(super) schema: Schema,
    pub(super) guard: Guard,
    pub(super) query_budget: Arc<Budget>,
    pub(super) report_budget: Arc<Budget>,
    pub(super) query_timeout: Duration,
    pub(super) body_patience: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reports: Reports,
    pub(super) client_spans: ClientSpans,
    pub(super) report_quota: Arc<DefaultKeyedRateLimiter<LimitKey>>,
    pub(super) reports_under_way: Arc<tokio::sync::Semaphore>,
    pub(super) proxies: Arc<Proxies>,
    pub(super) cors_origins: Arc<[HeaderValue]>,
}

impl AppState {
    /// Puts the handlers' parts together.
    #[must_use]
    pub fn new(
        store: Store,
        authenticator: Authenticator,
        persisted: PersistedDocuments,
        clock: Arc<dyn Clock>,
        config: &ServeConfig,
    ) -> Self {
        let per_second = NonZeroU32::new(config.reports_per_second).unwrap_or(NonZeroU32::MIN);
        let burst = per_second.saturating_mul(NonZeroU32::new(BURST_SECONDS).unwrap_or(NonZeroU32::MIN));
        let schema = Schema::build();
        Self {
            system: store.system(),
            authenticator,
            guard: Guard::new(&schema, config.max_query_cost.into(), persisted),
            schema,
            client_spans: ClientSpans::new(store.clone(), Arc::clone(&clock)),
            query_budget: Arc::new(Budget::of_queries(
                config.query_cost_per_minute,
                config.perimeter.query_cost_per_minute_of_address,
            )),
            report_budget: Arc::new(Budget::of_reports(
                config.perimeter.report_bytes_per_minute,
                config.perimeter.report_bytes_per_minute_of_address,
            )),
            query_timeout: config.query_timeout,
            body_patience: config.patience.body,
            reports: Reports::new(
                store.clone(),
                Arc::clone(&clock),
                config.min_report_interval.as_secs_f64(),
            ),
            report_quota: Arc::new(RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst))),
            reports_under_way: Arc::new(tokio::sync::Semaphore::new(MAX_REPORTS_UNDER_WAY)),
            cors_origins: config.perimeter.cors_origins.clone().into(),
            proxies: Arc::new(config.perimeter.proxies.clone()),
            clock,
            store,
        }
    }

    /// The viewer behind a request, if the credentials are for `scope`.
    pub(super) async fn viewer(&self, headers: &HeaderMap, scope: Scope) -> Result<Viewer, Problem> {
        let viewer = self.signed_in(headers).await?;
        viewer.require(scope)?;
        Ok(viewer)
    }

    /// The viewer behind a request, whatever the credentials are for.
    pub(super) async fn signed_in(&self, headers: &HeaderMap) -> Result<Viewer, Problem> {
        let several = |_| Problem::unauthenticated("only one Authorization header can be sent");
        let authorization = only(headers, &header::AUTHORIZATION).map_err(several)?;
        let several = |_| Problem::malformed("only one Galvo-Account header can be sent");
        let account = only(headers, &ACCOUNT).map_err(several)?;
        Ok(self.authenticator.viewer(Shown { authorization, account }).await?)
    }
}

/// There are several headers of one name. Which of them would count is a matter of taste, and proxies have others.
struct Several;

fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, Several> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().map(HeaderValue::as_bytes);
    if values.next().is_none() { Ok(value) } else { Err(Several) }
}
