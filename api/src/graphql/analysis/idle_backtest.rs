//! The effect that an idle timeout would have had on the stored history.

use std::{collections::BTreeSet, sync::Arc};

use async_graphql::Object;
use chrono::TimeDelta;
use tokio::sync::OnceCell;

use crate::{
    domain::{idle_policy::TIMEOUTS, usage::Usage},
    graphql::{
        clusters::{
            cluster_list::TimeRange,
            cluster_tag::{TagPattern, check_patterns},
        },
        computations::computation::Computation,
        costs::cost::Cost,
        engine::{
            connection::{Connection, PageArguments},
            error::ApiError,
            scalar::BigInt,
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{BacktestParameters, BacktestScope, ClusterFilter, ComputationSort, IdleStretch, TagFilter},
};

/// The default length of the range of start times, which ends now, in days.
const DEFAULT_DAYS: i64 = 30;

/// The effect that an idle timeout would have had.
pub(crate) struct IdleBacktest {
    scope: AccountScope,
    parameters: BacktestParameters,
    stretches: Vec<IdleStretch>,
    examined_clusters: BacktestScope,
    saved_usage: OnceCell<Arc<Vec<(i64, Usage)>>>,
}

impl IdleBacktest {
    pub(crate) async fn find(
        scope: &AccountScope,
        timeout_seconds: i32,
        exempt_tags: &[TagPattern],
        started_in: Option<TimeRange>,
    ) -> Result<Self, ApiError> {
        let timeout = i64::from(timeout_seconds);
        if !TIMEOUTS.contains(&timeout) {
            let (min, max) = (TIMEOUTS.start(), TIMEOUTS.end());
            return Err(ApiError::invalid("timeoutSeconds", format!("must be from {min} to {max}")));
        }
        let exempt_tags = check_patterns("exemptTags", exempt_tags)?;
        scope.charge(QuotaKind::Analyses, 1)?;
        let started_in = match started_in {
            Some(_) => Some(TimeRange::range_of_argument("startedIn", started_in)?),
            None => None,
        };
        let earliest = (scope.now - TimeDelta::days(DEFAULT_DAYS)).timestamp_millis();
        let filter = ClusterFilter {
            started_in: started_in.unwrap_or((Some(earliest), None)),
            tags: Some(TagFilter { none: exempt_tags, ..TagFilter::default() }),
            ..ClusterFilter::default()
        };
        let parameters = BacktestParameters { filter, timeout_ms: 1_000 * timeout };
        let examined_clusters = scope.store.backtest_scope(&parameters).await?;
        let stretches = scope.store.idle_stretches(&parameters).await?;
        Ok(Self {
            scope: scope.clone(),
            parameters,
            stretches,
            examined_clusters,
            saved_usage: OnceCell::new(),
        })
    }

    /// Returns the usage that the timeout would have saved, by day. Read once.
    async fn load_saved_usage(&self) -> Result<Arc<Vec<(i64, Usage)>>, ApiError> {
        let load = async || {
            let days = self.scope.store.idle_usage(&self.parameters).await?;
            Ok::<_, ApiError>(Arc::new(days.into_iter().collect()))
        };
        self.saved_usage.get_or_try_init(load).await.cloned()
    }
}

/// The effect that an idle timeout would have had on the stored history. The model: a cluster is stopped
/// as soon as it has been idle for the timeout. When the next computation begins, an equal cluster is
/// started and keeps running. The saved time is therefore the time after a stop in which the cluster was
/// not needed. A cluster is busy while one of its computations runs.
#[Object]
impl IdleBacktest {
    /// The number of clusters that were examined.
    async fn clusters(&self) -> BigInt {
        to_big_int(self.examined_clusters.clusters)
    }

    /// The number of examined clusters whose busy times are unknown: they had tasks, but no computation
    /// is stored. None of them counts as stopped.
    async fn clusters_without_history(&self) -> BigInt {
        to_big_int(self.examined_clusters.without_history)
    }

    /// True if all clusters that pass the filter were examined. At most the 1,000 that started last are
    /// examined.
    async fn is_complete(&self) -> bool {
        self.examined_clusters.is_complete
    }

    /// The number of clusters that would have been stopped.
    async fn clusters_stopped(&self) -> BigInt {
        let clusters: BTreeSet<_> = self.stretches.iter().map(|stretch| stretch.cluster_id).collect();
        to_big_int(clusters.len() as u64)
    }

    /// The number of stops. Each period in which a cluster, or the cluster started in its place, was
    /// idle for longer than the timeout counts once.
    async fn stops(&self) -> BigInt {
        to_big_int(self.stretches.len() as u64)
    }

    /// The time for which clusters would have been stopped, in seconds of wall-clock time, summed over
    /// clusters.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
    async fn seconds_saved(&self) -> f64 {
        let timeout = self.parameters.timeout_ms;
        let saved: i64 = self.stretches.iter().map(|idle| idle.idle_until - idle.idle_from - timeout).sum();
        saved as f64 / 1e3
    }

    /// The thread time of the clusters in the saved time, in thread-seconds. The usage of an hour counts as
    /// evenly distributed over the part of the hour in which the cluster existed.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of centuries are exact enough")]
    async fn thread_seconds_saved(&self) -> Result<f64, ApiError> {
        let saved = self.load_saved_usage().await?;
        let saved = saved.iter().fold(0, |sum: i64, (_, usage)| sum.saturating_add(usage.thread_us));
        Ok(saved as f64 / 1e6)
    }

    /// The cost of the saved usage at the account's rates, one amount for each currency and basis.
    async fn costs_saved(&self) -> Result<Vec<Cost>, ApiError> {
        let saved = self.load_saved_usage().await?;
        let days = saved.iter().map(|(day, usage)| (*day, usage));
        Ok(self.scope.rates().await?.cost(days).into_iter().map(Cost).collect())
    }

    /// The computations that would have found no cluster, the newest first: the first computation after
    /// each stop. Later computations would have found the cluster that was started for it.
    async fn affected_computations(
        &self,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Computation>, ApiError> {
        let sort = ComputationSort::NewestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.scope, sort)?;
        let page = self.scope.store.affected_computations(&self.stretches, sort, &request).await?;
        let affected_count = self.stretches.iter().filter(|stretch| stretch.computation_id.is_some()).count();
        let affected_count = i64::try_from(affected_count).unwrap_or(i64::MAX);
        let total = Box::new(move || -> futures::future::BoxFuture<'static, _> {
            Box::pin(std::future::ready(Ok(affected_count)))
        });
        Ok(Connection::new(page, sort, |row| Computation::new(&self.scope, row), total))
    }
}

fn to_big_int(number: u64) -> BigInt {
    BigInt(i64::try_from(number).unwrap_or(i64::MAX))
}
