//! Workers: the processes that run tasks, and how they ended.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Enum, ID, Object, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::{
    cluster::Status,
    ids::{ClusterId, WorkerId},
    worker::{End, Model},
};

use super::{
    cluster::Cluster,
    environment::Environment,
    latest_value::{LatestValue, load_latest_values_of},
};
use crate::{
    domain::life_cycle,
    graphql::{
        computations::lost_attempt::ProcessingFunction,
        engine::{
            error::{ApiError, NullOnError},
            id::GlobalId,
            loaders::{ParentList, StoreReader},
            projection::inline_fields,
            scalar::BigInt,
            scope::AccountScope,
        },
        telemetry::series::{SampleMetric, Series, SeriesArguments, WindowArguments},
    },
    store::{
        AccountStore, SeriesParent, StoreError, WorkerParent, WorkerSort,
        core::page::{Page, PageRequest},
    },
};

/// A worker process, from its start to its end. A restarted worker is a new worker.
pub(crate) struct Worker {
    scope: AccountScope,
    row: Model,
}

impl Worker {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(crate) async fn find(
        scope: &AccountScope,
        id: (ClusterId, WorkerId),
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    /// Parses an argument that is the global identifier or the UUID of a worker of this cluster.
    pub(crate) fn parse_id(
        scope: &AccountScope,
        cluster: ClusterId,
        argument: &'static str,
        id: &ID,
    ) -> Result<WorkerId, ApiError> {
        match GlobalId::parse(id) {
            Some(GlobalId::Worker(account, worker_cluster, worker))
                if account == scope.account.id && worker_cluster == cluster =>
            {
                Ok(worker)
            }
            Some(_) => Err(ApiError::unknown(argument, "worker")),
            None => {
                let invalid = |_| ApiError::invalid(argument, "not the identifier or UUID of a worker");
                id.parse().map_err(invalid)
            }
        }
    }

    /// Returns the worker that a row refers to; `None` if it refers to none, or if the worker was not
    /// reported.
    pub(crate) async fn find_optional(
        scope: &AccountScope,
        cluster: ClusterId,
        worker: Option<WorkerId>,
    ) -> Result<Option<Self>, ApiError> {
        match worker {
            Some(worker) => Self::find(scope, (cluster, worker)).await,
            None => Ok(None),
        }
    }
}

/// A worker process, from the time it joined the cluster to the time it left. A restarted worker is a
/// new worker, although its name and address may be the same.
#[Object]
impl Worker {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Worker(self.row.account_id, self.row.cluster_id, self.row.id).into()
    }

    /// The number among the cluster's workers, in the order in which they joined, from 1. `numbered`
    /// finds it. Null if the reporter does not count: an earlier plugin, or an imported file.
    async fn number(&self) -> Option<BigInt> {
        self.row.number.map(BigInt)
    }

    /// The UUID in Dask's own identifier of the process.
    async fn dask_id(&self) -> String {
        self.row.id.to_string()
    }

    /// The cluster that the worker belongs to.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// Dask's name of the worker.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// The address that the worker listens on.
    async fn address(&self) -> &str {
        &self.row.address
    }

    /// The host that the worker runs on. Null if unknown.
    async fn host(&self) -> Option<&str> {
        self.row.host.as_deref()
    }

    /// The number of threads.
    async fn threads(&self) -> BigInt {
        BigInt(self.row.threads)
    }

    /// The memory limit, in bytes. Null if there is none.
    async fn memory_limit(&self) -> Option<BigInt> {
        self.row.memory_limit_bytes.map(BigInt)
    }

    /// The time at which the worker joined, by the scheduler's clock.
    async fn started_at(&self) -> DateTime<Utc> {
        self.row.started_at.0
    }

    /// The time at which the worker left, by the scheduler's clock. Null while it is connected, and if
    /// the scheduler was killed before it reported the end.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.row.ended_at.map(|time| time.0)
    }

    /// The software environment of the worker. Null if it did not report one.
    async fn environment(&self) -> Result<Option<Environment>, ApiError> {
        Environment::find(&self.scope, self.row.cluster_id, self.row.environment_id).await
    }

    /// The end of the worker. Null while it is connected, as of the last report.
    async fn end(&self) -> Option<WorkerDeath<'_>> {
        Some(WorkerDeath { at: self.row.ended_at?.0, row: &self.row })
    }

    /// The last measurements of the worker. Null once it left, and once its cluster closed or is `LOST`.
    async fn latest_values(
        &self,
        #[graphql(desc = "The metrics. The result has one value for each of them, in this order.")]
        metrics: Vec<SampleMetric>,
    ) -> NullOnError<Vec<LatestValue>> {
        let values = async {
            let cluster = self.scope.loader.load_one(self.row.cluster_id).await?;
            let running_cluster = cluster.filter(|cluster| cluster.status == Status::Running);
            let Some(cluster) = running_cluster.filter(|_| self.row.ended_at.is_none()) else {
                return Ok(None);
            };
            let parents = vec![SeriesParent::Worker(self.row.cluster_id, self.row.id)];
            let until = life_cycle::last_reported_at(&cluster);
            let found = load_latest_values_of(&self.scope, parents, until, &metrics).await?;
            Ok(found.into_iter().next())
        };
        values.await.transpose()
    }

    /// The measurements of the worker over time. Null, with the error code `BAD_USER_INPUT`, if they
    /// exceed the limit of one response.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn series(
        &self,
        #[graphql(desc = "The metrics to return. The response has one series for each, in this order.")]
        metrics: Vec<SampleMetric>,
        #[graphql(
            desc = "The start of the period, by the scheduler's clock. If null, the start of the worker, but \
                    at most 7 days before the end."
        )]
        from: Option<DateTime<Utc>>,
        #[graphql(
            desc = "The length of the period before `to`, in seconds, 1 to 604,800 (7 days). The period is \
                    extended to the start of its first bucket. Not with `from`."
        )]
        last_seconds: Option<i32>,
        #[graphql(
            desc = "The exclusive end of the period, by the scheduler's clock. If null, the end of the \
                    worker, or its cluster's last report."
        )]
        to: Option<DateTime<Utc>>,
        #[graphql(
            desc = "The width of a bucket, in seconds, at least 1. If null, the smallest width that gives at \
                    most `maxPoints` points."
        )]
        bucket_seconds: Option<i32>,
        #[graphql(
            desc = "The maximum number of points, from 2 to 2,000. If null, 2,000. Cannot be used together \
                    with `bucketSeconds`."
        )]
        max_points: Option<i32>,
    ) -> NullOnError<Vec<Series>> {
        let series = async {
            let window = WindowArguments { from, last_seconds, to, bucket_seconds, max_points };
            let arguments = SeriesArguments { metrics, window };
            let end = match self.row.ended_at {
                Some(end) => end.0,
                None => match self.scope.loader.load_one(self.row.cluster_id).await? {
                    Some(cluster) => life_cycle::last_reported_at(&cluster),
                    None => self.row.started_at.0,
                },
            };
            let parent = SeriesParent::Worker(self.row.cluster_id, self.row.id);
            arguments.load(&self.scope, parent, (self.row.started_at.0, end)).await
        };
        Some(series.await)
    }
}

inline_fields! { Worker: id, number, dask_id, name, address, host, threads, memory_limit, started_at, ended_at }

/// The end of a worker of any kind, with its open tasks and lost results.
pub(crate) struct WorkerDeath<'a> {
    at: DateTime<Utc>,
    row: &'a Model,
}

/// The end of a worker of any kind, from a normal close to a crash, with its open tasks and lost results.
#[Object]
impl WorkerDeath<'_> {
    /// The time of the end, by the scheduler's clock.
    async fn at(&self) -> DateTime<Utc> {
        self.at
    }

    /// The kind of end, which tells a normal close from a crash.
    async fn kind(&self) -> WorkerEndKind {
        self.row.end_kind.map_or(WorkerEndKind::Unknown, Into::into)
    }

    /// The keys of the tasks that the worker was processing, at most 100.
    async fn processing_keys(&self) -> &[String] {
        &self.row.processing_keys.0
    }

    /// The number of tasks that the worker was processing.
    async fn processing(&self) -> BigInt {
        BigInt(self.row.processing)
    }

    /// The functions of these tasks, the one with the most tasks first, at most 20. Null if the plugin did
    /// not report them.
    async fn processing_functions(&self) -> Option<Vec<ProcessingFunction>> {
        self.row.processing_functions.as_ref().map(ProcessingFunction::list)
    }

    /// The number of results that existed only on the worker and are lost.
    async fn lost_results(&self) -> BigInt {
        BigInt(self.row.lost_results)
    }

    /// The last reported memory of the process, in bytes. Null if none was reported.
    async fn last_memory(&self) -> Option<BigInt> {
        self.row.last_memory_bytes.map(BigInt)
    }

    /// The largest memory of the process that the reporter saw at a report, in bytes. Null if it was not
    /// reported.
    async fn peak_memory(&self) -> Option<BigInt> {
        self.row.peak_memory_bytes.map(BigInt)
    }

    /// `lastMemory` as a share of the memory limit, where 1 is the limit. Null if either is unknown.
    async fn last_memory_share(&self) -> Option<f64> {
        let limit = self.row.memory_limit_bytes.filter(|limit| *limit > 0)?;
        #[expect(clippy::cast_precision_loss, reason = "bytes below 2^53")]
        let share = self.row.last_memory_bytes? as f64 / limit as f64;
        Some(share)
    }

    /// The time of the last message from the worker to the scheduler, by the scheduler's clock. Null if
    /// there was none.
    async fn last_seen_at(&self) -> Option<DateTime<Utc>> {
        self.row.last_seen_at.map(|time| time.0)
    }
}

/// The kinds of ends of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "End")]
pub(crate) enum WorkerEndKind {
    /// Retired because the cluster no longer needed it. Its results were moved to other workers first.
    Retired,
    /// Closed normally.
    Closed,
    /// Killed by its nanny because it used too much memory.
    Memory,
    /// Disappeared without notice.
    Lost,
    /// Left the cluster in an unknown way.
    Unknown,
}

impl Loader<(ClusterId, WorkerId)> for StoreReader {
    type Value = Model;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[(ClusterId, WorkerId)],
    ) -> Result<HashMap<(ClusterId, WorkerId), Model>, Self::Error> {
        let rows = self.0.workers_by_id(keys).await?;
        Ok(rows.into_iter().map(|row| ((row.cluster_id, row.id), row)).collect())
    }
}

impl ParentList<WorkerParent, WorkerSort> for AccountStore {
    type Row = Model;

    async fn pages(
        &self,
        parents: &[WorkerParent],
        sort: WorkerSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        self.worker_pages(parents, sort, request).await
    }

    async fn counts(&self, parents: &[WorkerParent]) -> Result<HashMap<WorkerParent, i64>, StoreError> {
        self.worker_counts(parents).await
    }
}
