//! Series: what was measured of a cluster or a worker, over time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::{Enum, SimpleObject, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::ids::ClusterId;

use super::{
    error::ApiError,
    in_place::{Items, in_place_members},
    loaders::Reader,
    scope::AccountScope,
};
use crate::{
    domain::{
        metric::{Metric, Unit},
        series::{Buckets, TooFine, Window},
    },
    store::{SeriesParent, StoreError},
};

const DAY: i64 = 86_400_000;

/// The longest time one answer looks at, in milliseconds.
fn longest(parent: SeriesParent) -> i64 {
    match parent {
        SeriesParent::Cluster(_) => 31 * DAY,
        // There are many of them.
        SeriesParent::Worker(..) => 7 * DAY,
    }
}

/// The arguments of a field that gives series, as they came.
pub(super) struct SeriesArguments {
    pub(super) metrics: Vec<SampleMetric>,
    pub(super) from: Option<DateTime<Utc>>,
    pub(super) to: Option<DateTime<Utc>>,
    pub(super) bucket_seconds: Option<i32>,
}

impl SeriesArguments {
    /// Reads the series of what lived from `life.0` to `life.1`, together with those of others.
    pub(super) async fn read(
        self,
        scope: &AccountScope,
        parent: SeriesParent,
        life: (DateTime<Utc>, DateTime<Utc>),
    ) -> Result<Vec<Series>, ApiError> {
        let window = self.window(longest(parent), life)?;
        let asked: Vec<Metric> = self.metrics.into_iter().map(Into::into).collect();
        let metrics: BTreeSet<Metric> = asked.iter().copied().collect();
        if !scope.take_points(window.cost(asked.len())) {
            return Err(ApiError::InvalidArgument {
                argument: "metrics",
                reason: "this and the other series of the query are too much for one answer".to_owned(),
            });
        }
        let buckets = if metrics.is_empty() || window.is_empty() {
            Arc::new(Buckets::new(window, &[]))
        } else {
            let key = SeriesOf { parent, window, metrics: metrics.into_iter().collect() };
            let nothing = || Arc::new(Buckets::new(window, &[]));
            scope.loader.load_one(key).await?.unwrap_or_else(nothing)
        };
        Ok(asked.into_iter().map(|metric| series(metric, window, &buckets)).collect())
    }

    fn window(&self, longest: i64, life: (DateTime<Utc>, DateTime<Utc>)) -> Result<Window, ApiError> {
        let refused = |argument, reason: String| ApiError::InvalidArgument { argument, reason };
        // What was measured at its last moment belongs to it.
        let to = self.to.map_or(life.1.timestamp_millis() + 1, |to| to.timestamp_millis());
        let from = match self.from.map(|from| from.timestamp_millis()) {
            Some(from) if self.to.is_some() && from > to => {
                return Err(refused("from", "must not lie after 'to'".to_owned()));
            }
            Some(from) if to.saturating_sub(from) > longest => {
                let days = longest / DAY;
                return Err(refused("from", format!("must not lie more than {days} days before the end")));
            }
            Some(from) => from,
            None => life.0.timestamp_millis().max(to.saturating_sub(longest)),
        };
        let bucket = self.bucket_seconds.map(i64::from);
        if bucket.is_some_and(|seconds| seconds < 1) {
            return Err(refused("bucketSeconds", "must be at least 1".to_owned()));
        }
        Window::new(from, to, bucket).map_err(|TooFine { least_seconds }| {
            refused("bucketSeconds", format!("must be at least {least_seconds} for this time"))
        })
    }
}

/// What was measured of a cluster between two times, read together with that of others.
pub(super) async fn measured(
    scope: &AccountScope,
    cluster: ClusterId,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
    bucket_seconds: i64,
    metrics: &[Metric],
) -> Result<Arc<Buckets>, ApiError> {
    let too_much =
        ApiError::TooMuch("the series and answers of the query are too much for one: ask for fewer clusters");
    // What was measured at the last moment belongs to it.
    let (from, to) = (from.timestamp_millis(), until.timestamp_millis() + 1);
    let window = Window::new(from, to, Some(bucket_seconds)).map_err(|_| too_much.clone())?;
    if !scope.take_points(window.cost(metrics.len())) {
        return Err(too_much);
    }
    let key = SeriesOf { parent: SeriesParent::Cluster(cluster), window, metrics: metrics.to_vec() };
    let nothing = || Arc::new(Buckets::new(window, &[]));
    Ok(scope.loader.load_one(key).await?.unwrap_or_else(nothing))
}

fn series(metric: Metric, window: Window, buckets: &Buckets) -> Series {
    let point = |(at, bucket): (i64, crate::domain::series::Bucket)| SeriesPoint {
        at: DateTime::from_timestamp_millis(at).unwrap_or_default(),
        value: bucket.mean(),
        min: bucket.min,
        max: bucket.max,
    };
    Series {
        metric: metric.into(),
        unit: metric.unit().into(),
        bucket_seconds: i32::try_from(window.width_seconds()).unwrap_or(i32::MAX),
        points: Items(buckets.of(metric).map(point).collect()),
    }
}

/// What was measured of one metric, over time.
#[derive(SimpleObject)]
pub(super) struct Series {
    /// The metric.
    metric: SampleMetric,
    /// What its values count.
    unit: SampleUnit,
    /// Seconds summed up in one point.
    bucket_seconds: i32,
    /// What was measured, by time. Where nothing was, there is no point. Whole numbers are exact, others have
    /// seven digits.
    points: Items<SeriesPoint>,
}

/// What was measured in a short time.
#[derive(SimpleObject)]
pub(super) struct SeriesPoint {
    /// Where the time begins, a multiple of `bucketSeconds` since 1970-01-01 UTC.
    at: DateTime<Utc>,
    /// The mean of what was measured, in the unit of the series.
    value: f64,
    /// The least of it, in the unit of the series.
    min: f64,
    /// The greatest of it, in the unit of the series.
    max: f64,
}

in_place_members! { SeriesPoint: at, value, min, max }

/// What the values of a series count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Unit")]
pub(super) enum SampleUnit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// CPU cores: 1 for one that is always busy.
    Cores,
    /// Seconds.
    Seconds,
    /// A share from 0 to 1.
    Share,
}

/// What is measured again and again. Clusters have all of these but those of workers alone; what Dask does not give
/// is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Metric")]
pub(super) enum SampleMetric {
    /// Connected workers; a count.
    Workers,
    /// Their threads; a count.
    Threads,
    /// Memory of the worker processes; in bytes.
    MemoryProcess,
    /// Of that, results Dask manages; in bytes.
    MemoryManaged,
    /// Of that, what Dask does not know of; in bytes.
    MemoryUnmanaged,
    /// Results moved to disk; in bytes.
    MemorySpilled,
    /// Sum of the memory limits; in bytes.
    MemoryLimit,
    /// CPU used by the worker processes; in CPU cores, 1 for one that is always busy.
    Cpu,
    /// Received by the hosts; in bytes per second.
    NetworkRead,
    /// Sent by the hosts; in bytes per second.
    NetworkWrite,
    /// Read from the hosts' disks; in bytes per second.
    DiskRead,
    /// Written to the hosts' disks; in bytes per second.
    DiskWrite,
    /// Free on the disk data is spilled to; of a cluster, on the fullest; in bytes.
    DiskFree,
    /// Size of that disk; in bytes.
    DiskTotal,
    /// The least GIL contention of a worker; a share of time from 0 to 1.
    GilContentionMin,
    /// Share of time threads waited for the GIL; of a cluster, the median of its workers; a share of time from 0 to 1.
    GilContention,
    /// The greatest GIL contention of a worker; a share of time from 0 to 1.
    GilContentionMax,
    /// The least delay of a worker's event loop; in seconds.
    EventLoopMin,
    /// Time between two ticks of the event loop; of a cluster, the median of its workers; in seconds.
    EventLoop,
    /// The greatest delay of a worker's event loop; in seconds.
    EventLoopMax,
    /// CPU used by the scheduler; in CPU cores, 1 for one that is always busy.
    SchedulerCpu,
    /// Memory of the scheduler; in bytes.
    SchedulerMemory,
    /// Time between two ticks of the scheduler's event loop; in seconds.
    SchedulerEventLoop,
    /// Tasks assigned to a worker; a count.
    TasksProcessing,
    /// Tasks waiting for others; a count.
    TasksWaiting,
    /// Tasks held back until a thread is free; a count.
    TasksQueued,
    /// Tasks no worker may run; a count.
    TasksNoWorker,
    /// Results held; a count.
    TasksMemory,
    /// Tasks that failed, or depend on one that did; a count.
    TasksErred,
    /// Tasks not needed now; a count.
    TasksReleased,
    /// Tasks a worker runs; a count.
    TasksExecuting,
    /// Tasks a worker could run at once; a count.
    TasksReady,
    /// Results a worker is fetching; a count.
    TasksInFlight,
}

/// The key of the series of one parent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct SeriesOf {
    parent: SeriesParent,
    window: Window,
    metrics: Vec<Metric>,
}

impl SeriesOf {
    pub(super) fn new(parent: SeriesParent, window: Window, metrics: Vec<Metric>) -> Self {
        Self { parent, window, metrics }
    }
}

impl Loader<SeriesOf> for Reader {
    type Value = Arc<Buckets>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[SeriesOf]) -> Result<HashMap<SeriesOf, Self::Value>, Self::Error> {
        // Together what asks for the same metrics, whatever the time.
        let mut alike: HashMap<&[Metric], Vec<&SeriesOf>> = HashMap::new();
        for key in keys {
            alike.entry(&key.metrics).or_default().push(key);
        }
        let mut found = HashMap::new();
        for (metrics, keys) in alike {
            let parents: Vec<_> = keys.iter().map(|key| (key.parent, key.window)).collect();
            let series = self.0.series(&parents, metrics).await?;
            found.extend(keys.into_iter().cloned().zip(series.into_iter().map(Arc::new)));
        }
        Ok(found)
    }
}
