//! What handlers share.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use axum::http::{HeaderMap, HeaderValue, header};
use entity::{api_token::Scope, ids::ApiTokenId};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use super::{problem::Problem, query_budget::QueryBudget};
use crate::{
    app::{ClientSpans, Reports},
    auth::{Authenticator, Viewer},
    clock::Clock,
    config::ServeConfig,
    export::Source,
    graphql::Schema,
    guard::{Guard, PersistedDocuments},
    store::{Store, SystemStore},
};

/// A token may send reports of this many seconds at once, since clusters started together report together.
const BURST_SECONDS: u32 = 10;

/// Reports that are read and stored at one time, at the most; more are told to come back. What waits for the
/// store is held in memory.
const MAX_REPORTS_UNDER_WAY: usize = 64;

/// What handlers share.
#[derive(Clone)]
pub struct AppState {
    pub(super) store: Store,
    pub(super) system: SystemStore,
    pub(super) authenticator: Authenticator,
    pub(super) schema: Schema,
    pub(super) exports: Source,
    pub(super) guard: Guard,
    pub(super) query_budget: Arc<QueryBudget>,
    pub(super) query_timeout: Duration,
    pub(super) body_patience: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reports: Reports,
    pub(super) client_spans: ClientSpans,
    pub(super) report_quota: Arc<DefaultKeyedRateLimiter<ApiTokenId>>,
    pub(super) reports_under_way: Arc<tokio::sync::Semaphore>,
}

impl AppState {
    /// Puts the handlers' parts together.
    #[must_use]
    pub fn new(
        store: Store,
        persisted: PersistedDocuments,
        clock: Arc<dyn Clock>,
        config: &ServeConfig,
    ) -> Self {
        let per_second = NonZeroU32::new(config.reports_per_second).unwrap_or(NonZeroU32::MIN);
        let burst = per_second.saturating_mul(NonZeroU32::new(BURST_SECONDS).unwrap_or(NonZeroU32::MIN));
        let schema = Schema::build();
        let guard = Guard::new(&schema, config.max_query_cost.into(), persisted);
        let exports = Source {
            schema: schema.clone(),
            guard: guard.clone(),
            store: store.clone(),
            clock: Arc::clone(&clock),
            timeout: config.query_timeout,
        };
        Self {
            system: store.system(),
            authenticator: Authenticator::new(store.system(), Arc::clone(&clock)),
            guard,
            schema,
            exports,
            client_spans: ClientSpans::new(store.clone(), Arc::clone(&clock)),
            query_budget: Arc::new(QueryBudget::new(config.query_cost_per_minute)),
            query_timeout: config.query_timeout,
            body_patience: config.patience.body,
            reports: Reports::new(
                store.clone(),
                Arc::clone(&clock),
                config.min_report_interval.as_secs_f64(),
            ),
            report_quota: Arc::new(RateLimiter::keyed(Quota::per_second(per_second).allow_burst(burst))),
            reports_under_way: Arc::new(tokio::sync::Semaphore::new(MAX_REPORTS_UNDER_WAY)),
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
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let authorization = values.next().map(HeaderValue::as_bytes);
        if values.next().is_some() {
            // Which of two would count is a matter of taste, and proxies have others.
            return Err(Problem::unauthenticated("only one Authorization header can be sent"));
        }
        Ok(self.authenticator.viewer(authorization).await?)
    }
}
