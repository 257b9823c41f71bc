//! The usage of clusters, over any period.

use async_graphql::{Context, Lookahead, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::ids::UserId;

use super::cost::Cost;
use crate::{
    domain::usage,
    graphql::{
        clusters::cluster_list::ClusterFilter,
        engine::{
            argument::check_range,
            error::ApiError,
            loaders::{MAX_HOURS, UsageHoursKey},
            projection::{Inline, InlineList, inline_fields, inline_members},
            scalar::{BigInt, Date},
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{self, DAY_LIMIT, HourRange, UsageClusters, UsageColumns},
};

/// The number of searches that a sum over the hours of selected clusters counts as.
const SEARCHES_PER_SUM: usize = 10;

/// Usage, with its cost.
pub(crate) struct Usage {
    scope: AccountScope,
    /// The usage by day, in the order of the days, because rates change from day to day.
    days: Vec<(i64, usage::Usage)>,
    sum: usage::Usage,
}

impl Usage {
    /// Returns the usage of days, which must be distinct and in ascending order.
    pub(crate) fn from_days(
        scope: &AccountScope,
        days: impl IntoIterator<Item = (i64, usage::Usage)>,
    ) -> Self {
        let days: Vec<_> = days.into_iter().collect();
        let mut sum = usage::Usage::default();
        for (_, usage) in &days {
            sum += *usage;
        }
        Self { scope: scope.clone(), days, sum }
    }

    /// Returns the stored columns that the fields selected inside some fields of type `Usage` need.
    pub(crate) fn selected_columns(usages: &Lookahead<'_>) -> UsageColumns {
        let mut columns = UsageColumns::NONE;
        for usage in usages.selection_fields() {
            for field in usage.selection_set() {
                columns = columns.union(columns_of_field(field.name()));
            }
        }
        columns
    }
}

/// Returns the stored columns that a field of [`Usage`] is computed from.
fn columns_of_field(field: &str) -> UsageColumns {
    const NONE: UsageColumns = UsageColumns::NONE;
    match field {
        "__typename" => NONE,
        "threadSeconds" => UsageColumns { thread_us: true, ..NONE },
        "unobservedSeconds" => UsageColumns { thread_us: true, unobserved_us: true, ..NONE },
        "computeSeconds" => UsageColumns { compute_us: true, ..NONE },
        "transferSeconds" => UsageColumns { transfer_us: true, ..NONE },
        "workerSeconds" => UsageColumns { worker_us: true, ..NONE },
        "memoryGibSeconds" => UsageColumns { memory_gib_us: true, ..NONE },
        "spillSeconds" => UsageColumns { spill_us: true, ..NONE },
        "utilization" => UsageColumns { thread_us: true, unobserved_us: true, compute_us: true, ..NONE },
        // The other causes limit the idle time.
        "idleSeconds" | "causes" => UsageColumns {
            thread_us: true,
            unobserved_us: true,
            compute_us: true,
            cpu_us: true,
            noncpu_us: true,
            serialize_us: true,
            spill_us: true,
            overhead_us: true,
            failed_us: true,
            idle_us: true,
            ..NONE
        },
        "tasks" => UsageColumns { tasks: true, ..NONE },
        "tasksErred" => UsageColumns { tasks_erred: true, ..NONE },
        "retries" => UsageColumns { retries: true, ..NONE },
        "errors" => UsageColumns { errors: true, ..NONE },
        "bytes" => UsageColumns { bytes: true, ..NONE },
        "spilledBytes" => UsageColumns { spilled_bytes: true, ..NONE },
        "workers" => UsageColumns { workers: true, ..NONE },
        // A sum of any column can be incomplete, and the basis of a rate decides what a cost depends on.
        _ => UsageColumns::ALL,
    }
}

/// Usage, with its cost. Values that Dask does not report are null, as with releases before 2023.7.
#[Object]
impl Usage {
    /// The thread time that the clusters offered, in seconds: the threads integrated over time, whether
    /// busy, idle or unobserved.
    async fn thread_seconds(&self) -> f64 {
        to_seconds(self.sum.thread_us)
    }

    /// The part of `threadSeconds` before the clusters were registered, in seconds. It is neither idle
    /// nor busy, because the threads were not observed. 0 for clusters that were registered when they
    /// started.
    async fn unobserved_seconds(&self) -> f64 {
        to_seconds(self.sum.thread_us - self.sum.observed_us())
    }

    /// The thread time spent computing tasks that succeeded, in seconds.
    async fn compute_seconds(&self) -> f64 {
        to_seconds(self.sum.compute_us)
    }

    /// The time spent fetching inputs from other workers, in seconds.
    async fn transfer_seconds(&self) -> f64 {
        to_seconds(self.sum.transfer_us)
    }

    /// The worker time, in seconds: the workers integrated over time.
    async fn worker_seconds(&self) -> f64 {
        to_seconds(self.sum.worker_us)
    }

    /// The workers' memory limits in GiB, integrated over time in seconds. Workers without a limit count
    /// as 0.
    async fn memory_gib_seconds(&self) -> f64 {
        to_seconds(self.sum.memory_gib_us)
    }

    /// The thread time without a task, in seconds. The time of a task that still runs, and of a worker
    /// that ended before it reported, is neither idle nor busy but UNACCOUNTED in `causes`. Null if Dask
    /// does not report it.
    async fn idle_seconds(&self) -> Option<f64> {
        self.sum.idle_thread_us().map(to_seconds)
    }

    /// The thread time spent moving data between memory and disk, in seconds. Null if Dask does not
    /// report it.
    async fn spill_seconds(&self) -> Option<f64> {
        self.sum.spill_us.map(to_seconds)
    }

    /// The share of the observed thread time that computed something, from 0 to 1. The observed thread
    /// time is `threadSeconds` without `unobservedSeconds`. The compute time of a task counts when it
    /// ends. Null if no thread time was observed.
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    async fn utilization(&self) -> Option<f64> {
        let observed_us = self.sum.observed_us();
        (observed_us > 0).then(|| (self.sum.compute_us as f64 / observed_us as f64).min(1.0))
    }

    /// The thread time by cause. The parts add up to `threadSeconds`.
    async fn causes(&self) -> InlineList<CauseUsage> {
        let causes = self.sum.causes().into_iter();
        InlineList(
            causes
                .map(|(cause, time)| CauseUsage { cause: cause.into(), seconds: to_seconds(time) })
                .collect(),
        )
    }

    /// The number of times a task reached the state `memory`.
    async fn tasks(&self) -> BigInt {
        BigInt(self.sum.tasks)
    }

    /// The number of tasks whose own execution failed. Tasks that failed only because of a dependency are not
    /// counted.
    async fn tasks_erred(&self) -> BigInt {
        BigInt(self.sum.tasks_erred)
    }

    /// The number of failed attempts that were retried.
    async fn retries(&self) -> BigInt {
        BigInt(self.sum.retries)
    }

    /// The number of recorded errors.
    async fn errors(&self) -> BigInt {
        BigInt(self.sum.errors)
    }

    /// The size of results, in bytes.
    async fn bytes(&self) -> BigInt {
        BigInt(self.sum.bytes)
    }

    /// The data spilled to disk because memory was short, in bytes.
    async fn spilled_bytes(&self) -> BigInt {
        BigInt(self.sum.spilled_bytes)
    }

    /// The number of workers that joined.
    async fn workers(&self) -> BigInt {
        BigInt(self.sum.workers)
    }

    /// True if no reported value was limited. False if a scheduler reported impossible values for an hour,
    /// such as more than 3,600 s for one of its threads; if a cluster had more threads than
    /// `AccountQuota.clusterThreads`; if the compute time of a cluster exceeded its thread time up to that
    /// hour; and if a sum exceeds the largest storable number.
    async fn is_complete(&self) -> bool {
        !self.sum.is_cut
    }

    /// The cost, one amount for each currency and basis. Empty if nothing was used.
    async fn costs(&self) -> Result<Vec<Cost>, ApiError> {
        let rates = self.scope.rates().await?;
        let costs = rates.cost(self.days.iter().map(|(day, usage)| (*day, usage)));
        Ok(costs.into_iter().map(Cost).collect())
    }
}

inline_fields! {
    Usage: thread_seconds, unobserved_seconds, compute_seconds, transfer_seconds, worker_seconds, memory_gib_seconds, idle_seconds,
        spill_seconds, utilization, tasks, tasks_erred, retries, errors, bytes, spilled_bytes, workers, is_complete;
        causes: InlineList<CauseUsage>
}

/// The thread time of one cause.
#[derive(SimpleObject)]
struct CauseUsage {
    /// The cause.
    cause: super::cost::UsageCause,
    /// The thread time, in seconds.
    seconds: f64,
}

inline_members! { CauseUsage: cause, seconds }

/// The usage of a cluster in one hour.
#[derive(SimpleObject)]
pub(crate) struct UsageHour {
    /// The start of the hour.
    start: DateTime<Utc>,
    /// The usage.
    usage: Inline<Usage>,
}

inline_members! { UsageHour: start; usage: Inline<Usage> }

/// Returns the range of days from `from` to before `to`, either of which may be open.
///
/// # Errors
/// Returns an error if `from` lies after `to`.
pub(crate) fn day_range(from: Option<Date>, to: Option<Date>) -> Result<(i64, i64), ApiError> {
    check_range(from, to)?;
    Ok((from.map_or(0, Date::number), to.map_or(DAY_LIMIT, Date::number)))
}

/// Days, and the clusters whose usage on these days is read.
#[derive(Clone)]
pub(crate) struct UsageScope {
    /// The first day, and the day after the last.
    pub(crate) days: (i64, i64),
    /// The filter of the clusters.
    pub(crate) filter: store::ClusterFilter,
    /// The same clusters, in the form in which their usage is read.
    pub(crate) clusters: UsageClusters,
}

impl UsageScope {
    /// Returns the usage of selected clusters on some days. If their hours have to be read, charges the
    /// request's quota of searches.
    ///
    /// # Errors
    /// Returns an error if the hours of more than 10,000 clusters would have to be read.
    pub(crate) async fn resolve(
        scope: &AccountScope,
        days: (i64, i64),
        clusters: Option<ClusterFilter>,
        user: Option<UserId>,
    ) -> Result<Self, ApiError> {
        let mut filter = clusters.unwrap_or_default().check(scope).await?;
        if let Some(user) = user {
            let is_included = filter.users.as_ref().is_none_or(|users| users.contains(&user));
            filter.users = Some(is_included.then_some(user).into_iter().collect());
        }
        Self::from_filter(scope, days, filter).await
    }

    /// Returns the usage, as in [`Self::resolve`], for a checked filter.
    pub(crate) async fn from_filter(
        scope: &AccountScope,
        days: (i64, i64),
        filter: store::ClusterFilter,
    ) -> Result<Self, ApiError> {
        let clusters = UsageClusters::from(filter.clone());
        Self::create(scope, days, filter, clusters).await
    }

    /// Returns the usage of all days, summed from the hours of the clusters. The hours contain the newest
    /// reports, which the daily sums may lack.
    pub(crate) async fn from_hours(
        scope: &AccountScope,
        filter: store::ClusterFilter,
    ) -> Result<Self, ApiError> {
        let clusters = UsageClusters::Passing(Box::new(filter.clone()));
        Self::create(scope, (0, DAY_LIMIT), filter, clusters).await
    }

    /// Creates the scope, and charges the request's quota of searches if hours have to be read.
    async fn create(
        scope: &AccountScope,
        days: (i64, i64),
        filter: store::ClusterFilter,
        clusters: UsageClusters,
    ) -> Result<Self, ApiError> {
        if matches!(clusters, UsageClusters::Passing(_)) {
            scope.charge(QuotaKind::Searches, SEARCHES_PER_SUM)?;
            scope.store.check_usage_clusters(&clusters, days).await?;
        }
        Ok(Self { days, filter, clusters })
    }

    /// Returns the usage, with the columns that the field of `context` selects.
    pub(crate) async fn load(&self, scope: &AccountScope, context: &Context<'_>) -> Result<Usage, ApiError> {
        let columns = Usage::selected_columns(&context.look_ahead());
        Ok(Usage::from_days(scope, scope.store.usage_by_day(&self.clusters, self.days, columns).await?))
    }
}

/// Returns the start of a day.
pub(crate) fn start_of_day(day: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(day * 86_400, 0)
}

/// Returns the range of the hours that begin from `from` to before `to`.
///
/// # Errors
/// Returns an error if `from` lies after `to`.
pub(crate) fn hour_range(
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
) -> Result<HourRange, ApiError> {
    check_range(from, to)?;
    // The first hour that begins at `time` or later.
    let first_hour =
        |time: DateTime<Utc>| time.timestamp().div_euclid(3600) + i64::from(time.timestamp() % 3600 > 0);
    Ok((from.map(first_hour), to.map(first_hour)))
}

/// Returns the usage of a cluster in the hours that begin from `from` to before `to`.
///
/// # Errors
/// Returns an error if there are more than [`MAX_HOURS`] hours.
pub(crate) async fn load_usage_hours(
    scope: &AccountScope,
    cluster: entity::ids::ClusterId,
    from: Option<DateTime<Utc>>,
    to: Option<DateTime<Utc>>,
) -> Result<Vec<UsageHour>, ApiError> {
    let (from, to) = hour_range(from, to)?;
    let range = (from.unwrap_or(0), to.unwrap_or(DAY_LIMIT * 24));
    let Some(hours) = scope.loader.load_one(UsageHoursKey { cluster, range }).await? else {
        let reason =
            format!("there are more than {MAX_HOURS} hours: request a shorter period or fewer clusters");
        return Err(ApiError::InvalidArgument { argument: "to", reason });
    };
    Ok(hours
        .into_iter()
        .map(|(hour, usage)| UsageHour {
            start: DateTime::from_timestamp(hour * 3600, 0).unwrap_or_default(),
            usage: Inline(Usage::from_days(scope, [(hour / 24, usage)])),
        })
        .collect())
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of centuries are exact")]
pub(crate) fn to_seconds(microseconds: i64) -> f64 {
    microseconds as f64 / 1e6
}
