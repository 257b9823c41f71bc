//! What clusters used, over any time.

use std::collections::BTreeMap;

use async_graphql::{Object, SimpleObject};
use chrono::{DateTime, Utc};

use super::{
    cost::Cost,
    error::ApiError,
    in_place::{Items, Placed, in_place, in_place_members},
    loaders::ClusterHours,
    scalar::{BigInt, Date},
    scope::AccountScope,
};
use crate::domain::usage;

/// Hours of usage read at once, over all clusters that are asked for.
pub(super) const MAX_HOURS: u64 = 10_000;

/// Days after which there are none, far in the future.
pub(super) const FOREVER: i64 = 4_000_000;

/// What was used, and what it cost.
pub(super) struct Usage {
    scope: AccountScope,
    /// By day, since rates change from day to day.
    days: BTreeMap<i64, usage::Usage>,
    sum: usage::Usage,
}

impl Usage {
    /// What was used in some days.
    pub(super) fn of_days(scope: &AccountScope, days: BTreeMap<i64, usage::Usage>) -> Self {
        let mut sum = usage::Usage::default();
        for usage in days.values() {
            sum += *usage;
        }
        Self { scope: scope.clone(), days, sum }
    }
}

/// What was used, and what it cost. Null is what Dask did not tell, as releases before 2023.7 do not.
#[Object]
impl Usage {
    /// Thread-seconds that were there, busy or idle: threads integrated over time.
    async fn cluster_seconds(&self) -> f64 {
        seconds(self.sum.thread_us)
    }

    /// Thread-seconds spent computing tasks that succeeded.
    async fn compute_seconds(&self) -> f64 {
        seconds(self.sum.compute_us)
    }

    /// Seconds spent fetching inputs from other workers.
    async fn transfer_seconds(&self) -> f64 {
        seconds(self.sum.transfer_us)
    }

    /// Worker-seconds: workers integrated over time.
    async fn worker_seconds(&self) -> f64 {
        seconds(self.sum.worker_us)
    }

    /// The workers' memory limits in GiB, integrated over seconds; workers without a limit count nothing.
    async fn memory_gib_seconds(&self) -> f64 {
        seconds(self.sum.memory_gib_us)
    }

    /// Thread-seconds without a task; null where Dask does not tell. A task is known when it ends: the hours before count its
    /// thread as idle, and a sum over them and its own hour takes that off again.
    async fn idle_seconds(&self) -> Option<f64> {
        self.sum.idle().map(seconds)
    }

    /// Thread-seconds spent moving data between memory and disk; null where Dask does not tell.
    async fn spill_seconds(&self) -> Option<f64> {
        self.sum.spill_us.map(seconds)
    }

    /// Share of the cluster's seconds that computed something, from 0 to 1; null if there were none. What a task computed
    /// counts when it ends.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    async fn utilization(&self) -> Option<f64> {
        let whole = self.sum.thread_us;
        (whole > 0).then(|| (self.sum.compute_us as f64 / whole as f64).min(1.0))
    }

    /// The thread-seconds by what the threads were doing; adds up to `clusterSeconds`.
    async fn causes(&self) -> Items<CauseUsage> {
        let causes = self.sum.causes().into_iter();
        Items(
            causes.map(|(cause, time)| CauseUsage { cause: cause.into(), seconds: seconds(time) }).collect(),
        )
    }

    /// Times a task came to be in memory.
    async fn tasks(&self) -> BigInt {
        BigInt(self.sum.tasks)
    }

    /// Tasks that erred themselves.
    async fn tasks_erred(&self) -> BigInt {
        BigInt(self.sum.tasks_erred)
    }

    /// Failed attempts that were tried again.
    async fn retries(&self) -> BigInt {
        BigInt(self.sum.retries)
    }

    /// Errors recorded.
    async fn errors(&self) -> BigInt {
        BigInt(self.sum.errors)
    }

    /// Bytes of results.
    async fn bytes(&self) -> BigInt {
        BigInt(self.sum.bytes)
    }

    /// Bytes written to disk for want of memory.
    async fn spilled_bytes(&self) -> BigInt {
        BigInt(self.sum.spilled_bytes)
    }

    /// Workers that joined.
    async fn workers(&self) -> BigInt {
        BigInt(self.sum.workers)
    }

    /// What it cost: one amount for each currency and basis, empty if nothing was used.
    async fn costs(&self) -> Result<Vec<Cost>, ApiError> {
        let rates = self.scope.rates().await?;
        let costs = rates.cost(self.days.iter().map(|(day, usage)| (*day, usage)));
        Ok(costs.into_iter().map(Cost).collect())
    }
}

in_place! {
    Usage: cluster_seconds, compute_seconds, transfer_seconds, worker_seconds, memory_gib_seconds, idle_seconds,
        spill_seconds, utilization, tasks, tasks_erred, retries, errors, bytes, spilled_bytes, workers;
        causes: Items<CauseUsage>
}

/// Thread-seconds by what the threads were doing.
#[derive(SimpleObject)]
struct CauseUsage {
    /// What they were doing.
    cause: super::cost::UsageCause,
    /// Thread-seconds.
    seconds: f64,
}

in_place_members! { CauseUsage: cause, seconds }

/// What a cluster used in one hour.
#[derive(SimpleObject)]
pub(super) struct UsageHour {
    /// When the hour begins.
    start: DateTime<Utc>,
    /// What was used.
    usage: Placed<Usage>,
}

in_place_members! { UsageHour: start; usage: Placed<Usage> }

/// The days from `from` to before `to`, either of which may be open.
pub(super) fn days(from: Option<Date>, to: Option<Date>) -> (i64, i64) {
    (from.map_or(0, Date::number), to.map_or(FOREVER, Date::number))
}

/// What an account used in some days.
pub(super) async fn of_account(scope: &AccountScope, days: (i64, i64)) -> Result<Usage, ApiError> {
    Ok(Usage::of_days(scope, scope.store.usage_days(days).await?))
}

/// When a day begins.
pub(super) fn start_of(day: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(day * 86_400, 0)
}

/// What a cluster used in the hours that begin from `from` to before `to`.
pub(super) async fn hours(
    scope: &AccountScope,
    cluster: entity::ids::ClusterId,
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
) -> Result<Vec<UsageHour>, ApiError> {
    // The first hour that begins at a time or later.
    let begins =
        |time: DateTime<Utc>| time.timestamp().div_euclid(3600) + i64::from(time.timestamp() % 3600 > 0);
    let range = (from.map_or(0, begins), to.map_or(FOREVER * 24, begins));
    let Some(found) = scope.loader.load_one(ClusterHours { cluster, range }).await? else {
        let reason = format!("there are more than {MAX_HOURS} hours, ask for less time or fewer clusters");
        return Err(ApiError::InvalidArgument { argument: "to", reason });
    };
    Ok(found
        .into_iter()
        .map(|(hour, usage)| UsageHour {
            start: DateTime::from_timestamp(hour * 3600, 0).unwrap_or_default(),
            usage: Placed(Usage::of_days(scope, BTreeMap::from([(hour / 24, usage)]))),
        })
        .collect())
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of centuries are exact")]
pub(super) fn seconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1e6
}
