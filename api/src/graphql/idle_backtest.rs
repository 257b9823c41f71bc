//! What an idle timeout would have done in the stored history.

use std::{collections::BTreeSet, sync::Arc};

use async_graphql::Object;
use chrono::TimeDelta;
use tokio::sync::OnceCell;

use super::{
    cluster_list::TimeRange,
    cluster_tag::{TagPattern, patterns},
    computation::Computation,
    connection::{Connection, PageArguments},
    cost::Cost,
    error::ApiError,
    scalar::BigInt,
    scope::{AccountScope, Costly},
};
use crate::{
    domain::{idle_policy::TIMEOUTS, usage::Usage},
    store::{BacktestQuestion, BacktestScope, ClusterFilter, ComputationSort, IdleStretch, TagFilter},
};

/// Days before now in which clusters started, if no time is given.
const DAYS: i64 = 30;

/// What an idle timeout would have done.
pub(super) struct IdleBacktest {
    scope: AccountScope,
    question: BacktestQuestion,
    stretches: Vec<IdleStretch>,
    looked_at: BacktestScope,
    saved: OnceCell<Arc<Vec<(i64, Usage)>>>,
}

impl IdleBacktest {
    pub(super) async fn find(
        scope: &AccountScope,
        timeout_seconds: i32,
        exempt_tags: &[TagPattern],
        started_in: Option<TimeRange>,
    ) -> Result<Self, ApiError> {
        let timeout = i64::from(timeout_seconds);
        if !TIMEOUTS.contains(&timeout) {
            let (least, most) = (TIMEOUTS.start(), TIMEOUTS.end());
            return Err(ApiError::invalid("timeoutSeconds", format!("must be from {least} to {most}")));
        }
        let none = patterns("exemptTags", exempt_tags)?;
        scope.take(Costly::Analyses, 1)?;
        let newest = (scope.now - TimeDelta::days(DAYS)).timestamp_millis();
        let filter = ClusterFilter {
            started_in: started_in.map_or((Some(newest), None), TimeRange::milliseconds),
            tags: Some(TagFilter { none, ..TagFilter::default() }),
            ..ClusterFilter::default()
        };
        let question = BacktestQuestion { filter, timeout_ms: 1_000 * timeout };
        let looked_at = scope.store.backtest_scope(&question).await?;
        let stretches = scope.store.idle_stretches(&question).await?;
        Ok(Self { scope: scope.clone(), question, stretches, looked_at, saved: OnceCell::new() })
    }

    /// What was used in vain, by day; read once.
    async fn saved(&self) -> Result<Arc<Vec<(i64, Usage)>>, ApiError> {
        let read = async || {
            let days = self.scope.store.idle_usage(&self.question).await?;
            Ok::<_, ApiError>(Arc::new(days.into_iter().collect()))
        };
        self.saved.get_or_try_init(read).await.cloned()
    }
}

/// What an idle timeout would have done in the stored history: a cluster is stopped as soon as it has had nothing to do for
/// so long, and whoever has work later starts another one like it, which is there from then on. So what is saved is the time
/// in which nobody needed the cluster. A cluster is busy while one of its computations runs.
#[Object]
impl IdleBacktest {
    /// How many clusters were looked at.
    async fn clusters(&self) -> BigInt {
        count(self.looked_at.clusters)
    }

    /// Those of them of which it is not known when they had work: they were given tasks, and no computation is stored. None
    /// of them counts as stopped.
    async fn clusters_without_history(&self) -> BigInt {
        count(self.looked_at.without_history)
    }

    /// Whether those are all clusters that were asked for: no more than the 1,000 that started last are looked at.
    async fn is_complete(&self) -> bool {
        self.looked_at.is_complete
    }

    /// How many clusters would have been stopped.
    async fn clusters_stopped(&self) -> BigInt {
        let clusters: BTreeSet<_> = self.stretches.iter().map(|stretch| stretch.cluster_id).collect();
        count(clusters.len() as u64)
    }

    /// How often: once for each time in which a cluster, or another one in its place, had nothing to do for too long.
    async fn stops(&self) -> BigInt {
        count(self.stretches.len() as u64)
    }

    /// Seconds of the clock in which clusters would not have been there, summed over clusters.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
    async fn seconds_saved(&self) -> f64 {
        let timeout = self.question.timeout_ms;
        let saved: i64 = self.stretches.iter().map(|idle| idle.idle_until - idle.idle_from - timeout).sum();
        saved as f64 / 1e3
    }

    /// Thread-seconds that clusters offered in that time. What was used in an hour counts as if it had been used evenly
    /// while the cluster was there.
    #[expect(clippy::cast_precision_loss, reason = "microseconds of centuries are exact enough")]
    async fn cluster_seconds_saved(&self) -> Result<f64, ApiError> {
        let saved: i64 = self.saved().await?.iter().map(|(_, usage)| usage.thread_us).sum();
        Ok(saved as f64 / 1e6)
    }

    /// What that cost, by the account's rates: an amount for each currency and basis.
    async fn costs_saved(&self) -> Result<Vec<Cost>, ApiError> {
        let saved = self.saved().await?;
        let days = saved.iter().map(|(day, usage)| (*day, usage));
        Ok(self.scope.rates().await?.cost(days).into_iter().map(Cost).collect())
    }

    /// The computations that would have found no cluster, the newest first: the first one after each stop. Those after it
    /// would have had the cluster that was started for it.
    async fn interrupted(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Computation>, ApiError> {
        let sort = ComputationSort::NewestOfAllFirst;
        let request = PageArguments { first, after, last, before }.request(&self.scope, sort)?;
        let page = self.scope.store.interrupted_computations(&self.stretches, sort, &request).await?;
        let all = self.stretches.iter().filter(|stretch| stretch.computation_id.is_some()).count();
        let all = i64::try_from(all).unwrap_or(i64::MAX);
        let total = Box::new(move || -> futures::future::BoxFuture<'static, _> {
            Box::pin(std::future::ready(Ok(all)))
        });
        Ok(Connection::new(page, sort, |row| Computation::new(&self.scope, row), total))
    }
}

fn count(number: u64) -> BigInt {
    BigInt(i64::try_from(number).unwrap_or(i64::MAX))
}
