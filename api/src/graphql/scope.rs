//! One account as a request sees it: the store's view of it and the loaders that share its statements.

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

use super::{audit_entry::Refusals, batch::Batches, connection::MAX_LIMIT, error::ApiError, loaders::Reader};
use crate::{
    auth::{LimitKey, Viewer},
    domain::cost::RateCard,
    store::AccountStore,
};

/// What every node holds to find its relatives; nodes are many, so all of them share one. Made per request, so nothing loaded
/// outlives one or is shared by two viewers.
#[derive(Clone)]
pub(super) struct AccountScope(Arc<Shared>);

/// What an [`AccountScope`] has.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) account: Arc<account::Model>,
    pub(super) store: AccountStore,
    pub(super) loader: Arc<Loader>,
    /// When the request came, by the server's clock.
    pub(super) now: DateTime<Utc>,
    /// How many items a page has at most.
    pub(super) max_page: i32,
    rates: Arc<OnceCell<RateCard>>,
    /// How many points of series may still be asked for.
    points: Arc<AtomicI64>,
    work: Arc<Work>,
    /// By whom limits are counted.
    pub(super) limit_key: LimitKey,
    /// What was refused lately.
    pub(super) refusals: Arc<Refusals>,
}

/// Lists or rows read by one statement at the most: as many as a page has.
const MAX_BATCH: usize = 100;

/// Points of series in one answer at the most; each takes some hundred bytes until it is sent.
const MAX_POINTS: i64 = 1_000_000;

/// What a request may still ask for that costs the server much, each in its own unit.
struct Work {
    profile_windows: AtomicI64,
    searches: AtomicI64,
    fine_metrics: AtomicI64,
    spans: AtomicI64,
    analyses: AtomicI64,
}

impl Default for Work {
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

/// What costs the server much.
#[derive(Clone, Copy, Debug)]
pub(super) enum Costly {
    /// Windows of profiles to be merged.
    ProfileWindows,
    /// Pages that look through rows: of lists over all clusters up to 10,000, of logs up to 1,000 that are read.
    Searches,
    /// Spans whose fine metrics are summed.
    FineMetrics,
    /// Spans something is computed of.
    Spans,
    /// Scopes that are analysed, and clusters that are compared with another run.
    Analyses,
}

/// Remembers what it read, so that nothing is read twice for one request.
pub(super) type Loader = Batches<Reader>;

impl AccountScope {
    pub(super) fn new(
        viewer: &Viewer,
        store: AccountStore,
        refusals: Arc<Refusals>,
        now: DateTime<Utc>,
    ) -> Self {
        let (account, loader) = (Arc::new(viewer.account().clone()), loader(&store));
        let points = Arc::new(AtomicI64::new(MAX_POINTS));
        let limit_key = viewer.limit_key();
        let (rates, work) = (Arc::default(), Arc::default());
        let max_page = MAX_LIMIT;
        Self::of(Shared { account, store, loader, now, max_page, rates, points, work, limit_key, refusals })
    }

    fn of(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// The same account for a request of the server's own, whose pages have so many items at most.
    pub(super) fn with_pages_of(self, max_page: i32) -> Self {
        Self::of(Shared { max_page, ..Arc::unwrap_or_clone(self.0) })
    }

    /// The account's rates, read once for a request.
    pub(super) async fn rates(&self) -> Result<&RateCard, ApiError> {
        let read = async || Ok(RateCard::new(self.store.cost_rates().await?));
        self.rates.get_or_try_init(read).await
    }

    /// Takes so many points from what one answer may hold. Returns whether there were as many left.
    pub(super) fn take_points(&self, points: i64) -> bool {
        self.points.fetch_sub(points, Ordering::Relaxed) >= points
    }

    /// Takes `count` of what the request may still ask for.
    pub(super) fn take(&self, what: Costly, count: usize) -> Result<(), ApiError> {
        let (left, refusal) = match what {
            Costly::ProfileWindows => (
                &self.work.profile_windows,
                "the profiles of the query merge more than 1000 windows: ask for fewer, or for less time",
            ),
            Costly::Searches => (
                &self.work.searches,
                "more than 50 pages are searched, of lists over all clusters or of logs with 'match': ask for fewer",
            ),
            Costly::FineMetrics => (
                &self.work.fine_metrics,
                "the fine metrics of the query sum those of more than 200000 spans: ask for fewer spans or \
                 clusters, or with 'inclusive: false'",
            ),
            Costly::Spans => (
                &self.work.spans,
                "the spans of the query have too many below them: ask for fewer spans or fields, or for totals \
                 with 'inclusive: false'",
            ),
            Costly::Analyses => (
                &self.work.analyses,
                "the query analyses more than 20 scopes, or clusters and what they are compared with: ask for fewer",
            ),
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if left.fetch_sub(count, Ordering::Relaxed) < count {
            Err(ApiError::TooMuch(refusal))
        } else {
            Ok(())
        }
    }

    /// The same account for what is read after a change.
    pub(super) fn after_change(&self) -> Self {
        Self::of(Shared { loader: loader(&self.store), rates: Arc::default(), ..Shared::clone(&self.0) })
    }
}

impl Deref for AccountScope {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

fn loader(store: &AccountStore) -> Arc<Loader> {
    Arc::new(Batches::new(Reader(store.clone()), MAX_BATCH))
}
