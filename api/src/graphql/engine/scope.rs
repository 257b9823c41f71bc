//! The account of a request: the store's view of it, the loaders that share its statements, and the
//! request's quotas.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use chrono::{DateTime, Utc};
use entity::account;
use tokio::sync::OnceCell;

use super::{
    batch::BatchLoader, connection::MAX_ITEMS, error::ApiError, loaders::StoreReader,
    recent_refusals::RecentRefusals,
};
use crate::{
    auth::{LimitKey, Viewer},
    domain::{base_path::BasePath, cost::RateCard, permission::Rights},
    store::AccountStore,
};

/// The context that every node holds to find related nodes. The many nodes of a response share it. It is
/// created per request, so no loaded data outlives a request or is shared by two viewers.
#[derive(Clone)]
pub(crate) struct AccountScope(Arc<ScopeData>);

/// The contents of an [`AccountScope`].
#[derive(Clone)]
pub(crate) struct ScopeData {
    pub(crate) account: Arc<account::Model>,
    pub(crate) store: AccountStore,
    pub(crate) loader: Arc<Loader>,
    /// The time of arrival of the request, by the server's clock.
    pub(crate) now: DateTime<Utc>,
    /// The maximum number of items of a page.
    pub(crate) max_page: i32,
    /// The path prefix of all URLs of the server.
    pub(crate) base: BasePath,
    rates: Arc<OnceCell<RateCard>>,
    /// The number of points of series that may still be requested.
    remaining_points: Arc<AtomicI64>,
    quotas: Arc<RequestQuotas>,
    /// The viewer to whom rate limits and repeated refusals are attributed.
    pub(crate) limit_key: LimitKey,
    /// The rights of the viewer.
    pub(crate) rights: Rights,
    /// The refusals that were recorded recently.
    pub(crate) refusals: Arc<RecentRefusals>,
}

/// The maximum number of lists or rows read by one statement: the size of a page.
const MAX_BATCH: usize = 100;

/// The maximum number of points of series in one response. Each point takes some hundred bytes of memory
/// until the response is sent.
const MAX_POINTS: i64 = 1_000_000;

/// The remaining quotas of a request for expensive operations, each in its own unit.
struct RequestQuotas {
    profile_windows: AtomicI64,
    searches: AtomicI64,
    fine_metrics: AtomicI64,
    spans: AtomicI64,
    analyses: AtomicI64,
}

impl Default for RequestQuotas {
    fn default() -> Self {
        Self {
            profile_windows: AtomicI64::new(1_000),
            searches: AtomicI64::new(50),
            fine_metrics: AtomicI64::new(200_000),
            spans: AtomicI64::new(1_000_000),
            analyses: AtomicI64::new(20),
        }
    }
}

/// The expensive operations that have a quota per request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QuotaKind {
    /// Windows of profiles that are merged.
    ProfileWindows,
    /// Pages that search rows: up to 10,000 rows of lists over all clusters, up to 1,000 lines of logs, all
    /// task groups of a cluster.
    Searches,
    /// Spans whose fine metrics are summed.
    FineMetrics,
    /// Spans that are read to compute times and totals.
    Spans,
    /// Scopes that are analyzed, and clusters that are compared with another run.
    Analyses,
}

/// The batch loader of a request. It caches the rows it read, so that no row is read twice.
pub(crate) type Loader = BatchLoader<StoreReader>;

impl AccountScope {
    pub(crate) fn new(
        viewer: &Viewer,
        store: AccountStore,
        refusals: Arc<RecentRefusals>,
        now: DateTime<Utc>,
        base: BasePath,
    ) -> Self {
        let (account, loader) = (Arc::new(viewer.account().clone()), new_loader(&store));
        let remaining_points = Arc::new(AtomicI64::new(MAX_POINTS));
        let limit_key = viewer.limit_key();
        let (rates, quotas) = (Arc::default(), Arc::default());
        let max_page = MAX_ITEMS;
        Self::from_data(ScopeData {
            account,
            store,
            loader,
            now,
            max_page,
            base,
            rates,
            remaining_points,
            quotas,
            limit_key,
            rights: viewer.rights(),
            refusals,
        })
    }

    fn from_data(data: ScopeData) -> Self {
        Self(Arc::new(data))
    }

    /// Returns the same account for a request of the server itself, with pages of up to `max_page`
    /// items.
    pub(crate) fn with_max_page(self, max_page: i32) -> Self {
        Self::from_data(ScopeData { max_page, ..Arc::unwrap_or_clone(self.0) })
    }

    /// Returns the account's rates, read once per request.
    pub(crate) async fn rates(&self) -> Result<&RateCard, ApiError> {
        let load_rates = async || Ok(RateCard::new(self.store.cost_rates().await?));
        self.rates.get_or_try_init(load_rates).await
    }

    /// Subtracts `points` from the points that the response may still hold. Returns true if enough were
    /// left.
    pub(crate) fn charge_points(&self, points: i64) -> bool {
        self.remaining_points.fetch_sub(points, Ordering::Relaxed) >= points
    }

    /// Subtracts `count` from the request's quota for an operation.
    ///
    /// # Errors
    /// Returns an error if less than `count` was left.
    pub(crate) fn charge(&self, kind: QuotaKind, count: usize) -> Result<(), ApiError> {
        let (remaining, refusal) = match kind {
            QuotaKind::ProfileWindows => (
                &self.quotas.profile_windows,
                "the profiles of the query merge more than 1000 windows: request fewer profiles, or a \
                 shorter period",
            ),
            QuotaKind::Searches => (
                &self.quotas.searches,
                "the query requests more than 50 searches: pages of lists over all clusters, of logs with \
                 'match' or of task groups with a filter or an order. Some facets count as 5 searches, the \
                 usage of selected clusters as 10: request fewer",
            ),
            QuotaKind::FineMetrics => (
                &self.quotas.fine_metrics,
                "the fine metrics of the query sum those of more than 200000 spans: request fewer spans or \
                 clusters, or 'inclusive: false'",
            ),
            QuotaKind::Spans => (
                &self.quotas.spans,
                "the spans of the query have too many descendants: request fewer spans or fields, or totals \
                 with 'inclusive: false'",
            ),
            QuotaKind::Analyses => (
                &self.quotas.analyses,
                "the query analyses more than 20 scopes, clusters and baselines: request fewer",
            ),
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if remaining.fetch_sub(count, Ordering::Relaxed) < count {
            Err(ApiError::LimitExceeded(refusal))
        } else {
            Ok(())
        }
    }

    /// Returns the same account with empty caches, for reads after a change.
    pub(crate) fn with_empty_caches(&self) -> Self {
        Self::from_data(ScopeData {
            loader: new_loader(&self.store),
            rates: Arc::default(),
            ..ScopeData::clone(&self.0)
        })
    }
}

impl Deref for AccountScope {
    type Target = ScopeData;

    fn deref(&self) -> &ScopeData {
        &self.0
    }
}

fn new_loader(store: &AccountStore) -> Arc<Loader> {
    Arc::new(BatchLoader::new(StoreReader(store.clone()), MAX_BATCH))
}
