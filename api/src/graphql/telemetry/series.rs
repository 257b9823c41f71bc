//! Series: measurements of a cluster or a worker over time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::{Enum, SimpleObject, dataloader::Loader};
use chrono::{DateTime, Utc};

use crate::{
    domain::{
        metric::{Metric, Unit},
        series::{Bucket, Buckets, MAX_POINTS, TooManyPoints, Window, round_mean},
    },
    graphql::engine::{
        error::ApiError,
        loaders::StoreReader,
        projection::{Inline, InlineList, inline_members},
        scalar::ShortFloat,
        scope::AccountScope,
    },
    store::{SeriesParent, StoreError},
};

const DAY: i64 = 86_400_000;

/// The longest period of a cluster's measurements in one response, in milliseconds.
pub(crate) const MAX_CLUSTER_PERIOD: i64 = 31 * DAY;

/// The minimum number of points that can be requested. One bucket may not cover a short period, because
/// buckets begin at multiples of their width.
const MIN_POINTS: i64 = 2;

/// Returns the longest period that one response covers, in milliseconds.
fn max_period(parent: SeriesParent) -> i64 {
    match parent {
        SeriesParent::Cluster(_) => MAX_CLUSTER_PERIOD,
        // Shorter, because a cluster has many workers.
        SeriesParent::Worker(..) => 7 * DAY,
    }
}

/// The arguments of a field that returns series, as received.
pub(crate) struct SeriesArguments {
    pub(crate) metrics: Vec<SampleMetric>,
    pub(crate) window: WindowArguments,
}

/// The arguments for a period and its buckets, as received.
pub(crate) struct WindowArguments {
    pub(crate) from: Option<DateTime<Utc>>,
    pub(crate) last_seconds: Option<i32>,
    pub(crate) to: Option<DateTime<Utc>>,
    pub(crate) bucket_seconds: Option<i32>,
    pub(crate) max_points: Option<i32>,
}

impl SeriesArguments {
    /// Loads the series of a cluster or worker that lived from `life.0` to `life.1`, batched with those
    /// of others.
    pub(crate) async fn load(
        self,
        scope: &AccountScope,
        parent: SeriesParent,
        life: (DateTime<Utc>, DateTime<Utc>),
    ) -> Result<Vec<Series>, ApiError> {
        let window = self.window.check(max_period(parent), life, 1)?;
        let requested: Vec<Metric> = self.metrics.into_iter().map(Into::into).collect();
        let metrics: BTreeSet<Metric> = requested.iter().copied().collect();
        if !scope.charge_points(window.cost(requested.len())) {
            return Err(ApiError::InvalidArgument {
                argument: "metrics",
                reason: "the series of the query have too many points for one response".to_owned(),
            });
        }
        let buckets = if metrics.is_empty() || window.is_empty() {
            Arc::new(Buckets::new(window, &[]))
        } else {
            let key = SeriesKey { parent, window, metrics: metrics.into_iter().collect() };
            let no_buckets = || Arc::new(Buckets::new(window, &[]));
            scope.loader.load_one(key).await?.unwrap_or_else(no_buckets)
        };
        Ok(requested.into_iter().map(|metric| new_series(metric, window, &buckets)).collect())
    }
}

impl WindowArguments {
    /// Returns the window of at most `max_period` milliseconds for a cluster or worker that lived from
    /// `life.0` to `life.1`. The width of its buckets is a multiple of `width_unit` seconds, which is 1 or
    /// 15.
    pub(crate) fn check(
        &self,
        max_period: i64,
        life: (DateTime<Utc>, DateTime<Utc>),
        width_unit: i64,
    ) -> Result<Window, ApiError> {
        let invalid = |argument, reason: String| ApiError::InvalidArgument { argument, reason };
        // The end is exclusive, and a measurement at the last moment belongs to the series.
        let to = self.to.map_or(life.1.timestamp_millis() + 1, |to| to.timestamp_millis());
        if let Some(seconds) = self.last_seconds.map(i64::from) {
            if self.from.is_some() {
                return Err(invalid("lastSeconds", "cannot be used together with 'from'".to_owned()));
            }
            if !(1..=max_period / 1_000).contains(&seconds) {
                return Err(invalid("lastSeconds", format!("must be between 1 and {}", max_period / 1_000)));
            }
            let from = life.0.timestamp_millis().max(to.saturating_sub(seconds * 1_000));
            return Ok(self.divide(from, to, width_unit)?.from_whole_bucket());
        }
        let from = match self.from.map(|from| from.timestamp_millis()) {
            Some(from) if self.to.is_some() && from > to => {
                return Err(invalid("from", "must not be later than 'to'".to_owned()));
            }
            Some(from) if to.saturating_sub(from) > max_period => {
                let days = max_period / DAY;
                return Err(invalid("from", format!("must not be more than {days} days before the end")));
            }
            Some(from) => from,
            None => life.0.timestamp_millis().max(to.saturating_sub(max_period)),
        };
        self.divide(from, to, width_unit)
    }

    /// Divides a period into buckets.
    fn divide(&self, from: i64, to: i64, width_unit: i64) -> Result<Window, ApiError> {
        let invalid = |argument, reason: String| ApiError::InvalidArgument { argument, reason };
        if let Some(points) = self.max_points.map(i64::from) {
            if self.bucket_seconds.is_some() {
                return Err(invalid("maxPoints", "cannot be used together with 'bucketSeconds'".to_owned()));
            }
            if !(MIN_POINTS..=MAX_POINTS).contains(&points) {
                return Err(invalid("maxPoints", format!("must be between {MIN_POINTS} and {MAX_POINTS}")));
            }
            return Ok(Window::with_at_most(points, from, to).at_least_seconds(width_unit));
        }
        let width = self.bucket_seconds.map(i64::from);
        if width.is_some_and(|seconds| seconds < 1) {
            return Err(invalid("bucketSeconds", format!("must be at least {width_unit}")));
        }
        if width.is_some_and(|seconds| seconds % width_unit != 0) {
            return Err(invalid("bucketSeconds", format!("must be a multiple of {width_unit}")));
        }
        // All widths that are chosen here are multiples of 15 s if they are not shorter.
        Window::new(from, to, width).map(|window| window.at_least_seconds(width_unit)).map_err(
            |TooManyPoints { least_seconds }| {
                let min_width = (least_seconds + width_unit - 1) / width_unit * width_unit;
                invalid("bucketSeconds", format!("must be at least {min_width} for this period"))
            },
        )
    }
}

/// Returns the measurements of a cluster or worker between two times, batched with those of others.
pub(crate) async fn load_measurements(
    scope: &AccountScope,
    parent: impl Into<SeriesParent>,
    range: (DateTime<Utc>, DateTime<Utc>),
    bucket_seconds: i64,
    metrics: &[Metric],
) -> Result<Arc<Buckets>, ApiError> {
    let mut found = load_measurements_of(scope, vec![parent.into()], range, bucket_seconds, metrics).await?;
    Ok(found.pop().expect("each parent has measurements"))
}

/// The same as [`load_measurements`] for several clusters or workers, in the order of `parents`.
pub(crate) async fn load_measurements_of(
    scope: &AccountScope,
    parents: Vec<SeriesParent>,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
    bucket_seconds: i64,
    metrics: &[Metric],
) -> Result<Vec<Arc<Buckets>>, ApiError> {
    let limit_error = ApiError::LimitExceeded(
        "the series and answers of the query are too much for one response: request fewer clusters or workers",
    );
    // The end is exclusive, and a measurement at the last moment belongs to the series.
    let (from, to) = (from.timestamp_millis(), until.timestamp_millis() + 1);
    let window = Window::new(from, to, Some(bucket_seconds)).map_err(|_| limit_error.clone())?;
    if !parents.iter().all(|_| scope.charge_points(window.cost(metrics.len()))) {
        return Err(limit_error);
    }
    let key = |parent: &SeriesParent| SeriesKey { parent: *parent, window, metrics: metrics.to_vec() };
    let mut found = scope.loader.load_many(parents.iter().map(key)).await?;
    let no_buckets = || Arc::new(Buckets::new(window, &[]));
    Ok(parents.iter().map(|parent| found.remove(&key(parent)).unwrap_or_else(no_buckets)).collect())
}

fn new_series(metric: Metric, window: Window, buckets: &Buckets) -> Series {
    let step_seconds = i32::try_from(window.width_seconds()).unwrap_or(i32::MAX);
    let time = |at: i64| DateTime::from_timestamp_millis(at).unwrap_or_default();
    let point = |(at, bucket): (i64, Bucket)| SeriesPoint {
        at: time(at),
        value: bucket.mean(),
        min: bucket.min,
        max: bucket.max,
    };
    Series {
        metric: metric.into(),
        unit: metric.unit().into(),
        bucket_seconds: step_seconds,
        points: InlineList(buckets.of(metric).map(point).collect()),
        columns: Inline(new_columns(step_seconds, buckets.dense(metric))),
    }
}

fn new_columns(step_seconds: i32, dense: Option<(i64, Vec<Option<Bucket>>)>) -> SeriesColumns {
    let (started_at, buckets) = match dense {
        Some((at, buckets)) => (DateTime::from_timestamp_millis(at), buckets),
        None => (None, Vec::new()),
    };
    let column =
        |value: fn(Bucket) -> f64| buckets.iter().map(|bucket| bucket.map(value).map(ShortFloat)).collect();
    SeriesColumns {
        started_at,
        step_seconds,
        values: column(|bucket| round_mean(bucket.mean())),
        min: column(|bucket| bucket.min),
        max: column(|bucket| bucket.max),
    }
}

/// The measurements of one metric over time.
#[derive(SimpleObject)]
pub(crate) struct Series {
    /// The metric.
    metric: SampleMetric,
    /// The unit of the values.
    unit: SampleUnit,
    /// The width of a bucket, in seconds: as requested, or as chosen by the server. Each bucket with
    /// measurements is one point.
    bucket_seconds: i32,
    /// The points, in the order of time. A bucket without measurements has no point. Integers are exact,
    /// other values have seven significant digits.
    points: InlineList<SeriesPoint>,
    /// The same measurements as lists of numbers, for charts. They take a third of the space.
    columns: Inline<SeriesColumns>,
}

/// The measurements of a series as lists with one number for each bucket, from the first to the last bucket
/// with measurements. The bucket with the index `i` starts `i * stepSeconds` after `startedAt`. In all lists,
/// null stands for a bucket without measurements.
#[derive(SimpleObject)]
pub(crate) struct SeriesColumns {
    /// The start of the first bucket: a multiple of `stepSeconds` since 1970-01-01 UTC. Null if there are
    /// no measurements.
    started_at: Option<DateTime<Utc>>,
    /// The width of a bucket, in seconds: always equal to `Series.bucketSeconds`.
    step_seconds: i32,
    /// The means of the measurements, in the unit of the series. Means that are no integers are rounded to
    /// seven significant digits, those above 10,000,000 to integers.
    values: Vec<Option<ShortFloat>>,
    /// The minima of the measurements, in the unit of the series.
    min: Vec<Option<ShortFloat>>,
    /// The maxima of the measurements, in the unit of the series.
    max: Vec<Option<ShortFloat>>,
}

inline_members! { SeriesColumns: started_at, step_seconds, values, min, max }

/// The measurements in one bucket.
#[derive(SimpleObject)]
pub(crate) struct SeriesPoint {
    /// The start of the bucket: a multiple of `bucketSeconds` since 1970-01-01 UTC.
    at: DateTime<Utc>,
    /// The mean of the measurements, in the unit of the series.
    value: f64,
    /// The minimum of the measurements, in the unit of the series.
    min: f64,
    /// The maximum of the measurements, in the unit of the series.
    max: f64,
}

inline_members! { SeriesPoint: at, value, min, max }

/// The units of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Unit")]
pub(crate) enum SampleUnit {
    /// A count.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// CPU cores. 1 is one core that is always busy.
    Cores,
    /// Seconds.
    Seconds,
    /// A share from 0 to 1.
    Share,
}

/// The metrics of series. `TASKS_EXECUTING`, `TASKS_READY` and `TASKS_IN_FLIGHT` exist for workers only;
/// `WORKERS`, `THREADS`, those of the scheduler, and those that end in `_MIN` or `_MAX` for clusters only. A
/// metric that Dask does not provide has no points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Metric")]
pub(crate) enum SampleMetric {
    /// The number of connected workers.
    Workers,
    /// The number of threads of the connected workers.
    Threads,
    /// The memory of the worker processes, in bytes.
    MemoryProcess,
    /// The part of `MEMORY_PROCESS` that holds results managed by Dask, in bytes.
    MemoryManaged,
    /// The part of `MEMORY_PROCESS` that Dask does not manage, in bytes.
    MemoryUnmanaged,
    /// The size of results spilled to disk, in bytes.
    MemorySpilled,
    /// The sum of the workers' memory limits, in bytes.
    MemoryLimit,
    /// The CPU usage of the worker processes, in cores. 1 is one core that is always busy.
    Cpu,
    /// The data rate received by the hosts, in bytes per second.
    NetworkRead,
    /// The data rate sent by the hosts, in bytes per second.
    NetworkWrite,
    /// The data rate read from the hosts' disks, in bytes per second.
    DiskRead,
    /// The data rate written to the hosts' disks, in bytes per second.
    DiskWrite,
    /// The free space of the disk that data is spilled to, in bytes; for a cluster, of the fullest disk.
    DiskFree,
    /// The size of that disk, in bytes.
    DiskTotal,
    /// The minimum GIL contention of the workers, as a share of time from 0 to 1.
    GilContentionMin,
    /// The share of time in which the GIL was busy, from 0 to 1; for a cluster, the median of its workers.
    GilContention,
    /// The maximum GIL contention of the workers, as a share of time from 0 to 1.
    GilContentionMax,
    /// The minimum time between two ticks of a worker's event loop, over the workers, in seconds.
    EventLoopMin,
    /// The time between two ticks of the event loop, in seconds; for a cluster, the median of its
    /// workers.
    EventLoop,
    /// The maximum time between two ticks of a worker's event loop, over the workers, in seconds.
    EventLoopMax,
    /// The CPU usage of the scheduler, in cores. 1 is one core that is always busy.
    SchedulerCpu,
    /// The memory of the scheduler, in bytes.
    SchedulerMemory,
    /// The time between two ticks of the scheduler's event loop, in seconds.
    SchedulerEventLoop,
    /// The number of tasks assigned to a worker.
    TasksProcessing,
    /// The number of tasks that wait for other tasks.
    TasksWaiting,
    /// The number of tasks queued until a thread is free.
    TasksQueued,
    /// The number of tasks that no worker may run.
    TasksNoWorker,
    /// The number of results held in memory.
    TasksMemory,
    /// The number of tasks that failed, or that depend on a failed task.
    TasksErred,
    /// The number of tasks that are not needed now.
    TasksReleased,
    /// The number of tasks that a worker executes.
    TasksExecuting,
    /// The number of tasks that a worker could start at once.
    TasksReady,
    /// The number of results that a worker is fetching.
    TasksInFlight,
}

/// The loader key of the series of one cluster or worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey {
    parent: SeriesParent,
    window: Window,
    metrics: Vec<Metric>,
}

impl SeriesKey {
    pub(crate) fn new(parent: SeriesParent, window: Window, metrics: Vec<Metric>) -> Self {
        Self { parent, window, metrics }
    }
}

impl Loader<SeriesKey> for StoreReader {
    type Value = Arc<Buckets>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[SeriesKey]) -> Result<HashMap<SeriesKey, Self::Value>, Self::Error> {
        // Series of the same metrics are read in one statement, even if their periods differ.
        let mut keys_by_metrics: HashMap<&[Metric], Vec<&SeriesKey>> = HashMap::new();
        for key in keys {
            keys_by_metrics.entry(&key.metrics).or_default().push(key);
        }
        let mut found = HashMap::new();
        for (metrics, keys) in keys_by_metrics {
            let parents: Vec<_> = keys.iter().map(|key| (key.parent, key.window)).collect();
            let series = self.0.series(&parents, metrics).await?;
            found.extend(keys.into_iter().cloned().zip(series.into_iter().map(Arc::new)));
        }
        Ok(found)
    }
}
