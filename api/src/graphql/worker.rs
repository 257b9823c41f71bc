//! Workers: the processes that compute, and how they ended.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{Enum, ID, Object, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::{
    ids::{ClusterId, WorkerId},
    worker::{End, Model},
};

use super::{
    cluster::Cluster,
    environment::Environment,
    error::{Alone, ApiError},
    id::GlobalId,
    in_place::in_place,
    loaders::{ParentList, Reader},
    scalar::BigInt,
    scope::AccountScope,
    series::{SampleMetric, Series, SeriesArguments},
};
use crate::store::{
    AccountStore, SeriesParent, StoreError, WorkerParent, WorkerSort,
    page::{Page, PageRequest},
};

/// One worker process, from when it joined to when it left. A worker that is restarted is another one.
pub(super) struct Worker {
    scope: AccountScope,
    row: Model,
}

impl Worker {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(
        scope: &AccountScope,
        id: (ClusterId, WorkerId),
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    /// The worker that a row tells of, if it does and the worker was reported.
    pub(super) async fn of(
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

/// One worker process, from when it joined to when it left. A worker that is restarted is another one, although
/// name and address may stay.
#[Object]
impl Worker {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::Worker(self.row.account_id, self.row.cluster_id, self.row.id).into()
    }

    /// The UUID in Dask's own identifier of the process.
    async fn dask_id(&self) -> String {
        self.row.id.to_string()
    }

    /// The cluster it belongs to.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::of(&self.scope, self.row.cluster_id).await
    }

    /// Dask's name of it.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// Where it listens.
    async fn address(&self) -> &str {
        &self.row.address
    }

    /// The host it runs on; null when that is not known.
    async fn host(&self) -> Option<&str> {
        self.row.host.as_deref()
    }

    /// Its threads.
    async fn threads(&self) -> BigInt {
        BigInt(self.row.threads)
    }

    /// Its memory limit in bytes; null when it has none.
    async fn memory_limit(&self) -> Option<BigInt> {
        self.row.memory_limit_bytes.map(BigInt)
    }

    /// When it joined, by the scheduler's clock.
    async fn started_at(&self) -> DateTime<Utc> {
        self.row.started_at.0
    }

    /// When it left, by the scheduler's clock; null while it is there, and when the scheduler was killed before it
    /// could tell.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.row.ended_at.map(|time| time.0)
    }

    /// The software it runs on; null when it did not tell.
    async fn environment(&self) -> Result<Option<Environment>, ApiError> {
        Environment::find(&self.scope, self.row.cluster_id, self.row.environment_id).await
    }

    /// How it ended; null while it is there, as of the last report.
    async fn end(&self) -> Option<WorkerDeath<'_>> {
        Some(WorkerDeath { at: self.row.ended_at?.0, row: &self.row })
    }

    /// What was measured of it, over time; null, with an error, where it would be too much for one answer.
    async fn series(
        &self,
        #[graphql(desc = "What was measured; the answer has one series for each, in this order.")]
        metrics: Vec<SampleMetric>,
        #[graphql(
            desc = "From when on, by the scheduler's clock; from the start if not given, but at most 7 days."
        )]
        from: Option<DateTime<Utc>>,
        #[graphql(
            desc = "Until before when, by the scheduler's clock; until the end, or the last report, if not given."
        )]
        to: Option<DateTime<Utc>>,
        #[graphql(
            desc = "Seconds summed up in one point, at least 1; as few as make at most 2,000 points if not given."
        )]
        bucket_seconds: Option<i32>,
    ) -> Alone<Vec<Series>> {
        let series = async {
            let arguments = SeriesArguments { metrics, from, to, bucket_seconds };
            let end = match self.row.ended_at {
                Some(end) => end.0,
                None => match self.scope.loader.load_one(self.row.cluster_id).await? {
                    Some(cluster) => Cluster::last_known(&cluster),
                    None => self.row.started_at.0,
                },
            };
            let parent = SeriesParent::Worker(self.row.cluster_id, self.row.id);
            arguments.read(&self.scope, parent, (self.row.started_at.0, end)).await
        };
        Some(series.await)
    }
}

in_place! { Worker: id, dask_id, name, address, host, threads, memory_limit, started_at, ended_at }

/// How a worker ended, and what was lost with it.
pub(super) struct WorkerDeath<'a> {
    at: DateTime<Utc>,
    row: &'a Model,
}

/// How a worker ended, and what was lost with it.
#[Object]
impl WorkerDeath<'_> {
    /// When, by the scheduler's clock.
    async fn at(&self) -> DateTime<Utc> {
        self.at
    }

    /// How.
    async fn kind(&self) -> WorkerEndKind {
        self.row.end_kind.map_or(WorkerEndKind::Unknown, Into::into)
    }

    /// Keys of tasks it was processing; not all of them when there were more than 100.
    async fn processing_keys(&self) -> &[String] {
        &self.row.processing_keys.0
    }

    /// How many tasks it was processing.
    async fn processing(&self) -> BigInt {
        BigInt(self.row.processing)
    }

    /// Results that existed only there, and are lost.
    async fn lost_results(&self) -> BigInt {
        BigInt(self.row.lost_results)
    }

    /// Memory of its process in bytes, as it last told; null when it never did.
    async fn last_memory(&self) -> Option<BigInt> {
        self.row.last_memory_bytes.map(BigInt)
    }

    /// That memory as a share of its limit, 1 at the limit; null when either is not known.
    async fn last_memory_share(&self) -> Option<f64> {
        let limit = self.row.memory_limit_bytes.filter(|limit| *limit > 0)?;
        #[expect(clippy::cast_precision_loss, reason = "bytes below 2^53")]
        let share = self.row.last_memory_bytes? as f64 / limit as f64;
        Some(share)
    }

    /// When the scheduler last heard of it, by its clock; null when it never did.
    async fn last_seen_at(&self) -> Option<DateTime<Utc>> {
        self.row.last_seen_at.map(|time| time.0)
    }
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "End")]
pub(super) enum WorkerEndKind {
    /// The cluster had no more need of it, and its results were moved away first.
    Retired,
    /// It closed in good order.
    Closed,
    /// Its nanny killed it because it used too much memory.
    Memory,
    /// It vanished without a word.
    Lost,
    /// It left, and nothing tells how.
    Unknown,
}

impl Loader<(ClusterId, WorkerId)> for Reader {
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
