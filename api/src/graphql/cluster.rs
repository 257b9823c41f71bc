//! Clusters: one per scheduler process.

use async_graphql::{Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    cluster::{self, Model, Status},
    ids::ClusterId,
};

use super::{
    account::Account,
    computation::Computation,
    connection::{Connection, PageArguments, connect},
    error::ApiError,
    error_occurrence::ErrorOccurrence,
    id::GlobalId,
    scalar::BigInt,
    scope::AccountScope,
    task_group::TaskGroup,
    user::User,
};
use crate::store::{ComputationSort, ErrorParent, ErrorSort, TaskGroupParent, TaskGroupSort};

/// A Dask cluster: everything one scheduler process did, live or long gone.
pub(super) struct Cluster {
    scope: AccountScope,
    row: Model,
}

impl Cluster {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(scope: &AccountScope, id: ClusterId) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    /// The cluster a row of this scope refers to.
    pub(super) async fn of(scope: &AccountScope, id: ClusterId) -> Result<Self, ApiError> {
        Self::find(scope, id).await?.ok_or(ApiError::NotFound("cluster"))
    }
}

/// A Dask cluster: everything one scheduler process did, live or long gone.
#[Object]
impl Cluster {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::Cluster(self.row.account_id, self.row.id).into()
    }

    /// The identifier as an integer, unique in the account and growing with time. REST routes and the `coiled`
    /// client use it.
    async fn number(&self) -> BigInt {
        BigInt(self.row.id.0)
    }

    /// Dask's own identifier of the scheduler process.
    async fn scheduler_id(&self) -> &str {
        &self.row.scheduler_id
    }

    /// The name the cluster manager gave it; null for a scheduler started by itself.
    async fn name(&self) -> Option<&str> {
        self.row.name.as_deref()
    }

    /// Where the scheduler listens.
    async fn address(&self) -> Option<&str> {
        self.row.address.as_deref()
    }

    /// Where Dask's own dashboard is while the cluster lives.
    async fn dashboard_url(&self) -> Option<&str> {
        self.row.dashboard_url.as_deref()
    }

    /// The account it belongs to.
    async fn account(&self) -> Account {
        Account(self.scope.clone())
    }

    /// The user whose token it reports with; null when the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.row.user_id {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// What the scheduler last said of itself.
    async fn state(&self) -> ClusterState {
        self.row.status.into()
    }

    /// What the account wants of it; the scheduler learns it with the answer to its next report.
    async fn desired_state(&self) -> DesiredState {
        self.row.desired_state.into()
    }

    /// When the scheduler process started, by its own clock.
    async fn started_at(&self) -> DateTime<Utc> {
        self.row.started_at.0
    }

    /// When it closed, by its own clock; null while it runs.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.row.closed_at.map(|time| time.0)
    }

    /// Why it closed, if the scheduler said so.
    async fn close_reason(&self) -> Option<&str> {
        self.row.close_reason.as_deref()
    }

    /// When the server last heard of it, by the server's clock.
    async fn last_seen_at(&self) -> DateTime<Utc> {
        self.row.last_seen_at.0
    }

    /// Since when it had no work, as of the last report; null while it had some.
    async fn idle_since(&self) -> Option<DateTime<Utc>> {
        self.row.idle_since.map(|time| time.0)
    }

    /// The state of the last report; null once it closed.
    async fn now(&self) -> Option<ClusterSnapshot> {
        (self.row.status == Status::Running).then(|| ClusterSnapshot {
            at: self.row.reported_at.0,
            workers: BigInt(self.row.workers),
            threads: BigInt(self.row.threads),
            memory_used: BigInt(self.row.memory_used_bytes),
            memory_limit: self.row.memory_limit_bytes.map(BigInt),
        })
    }

    /// Sums over its whole life.
    async fn totals(&self) -> ClusterTotals {
        let row = &self.row;
        ClusterTotals {
            tasks: BigInt(row.total_tasks),
            tasks_succeeded: BigInt(row.total_tasks_succeeded),
            tasks_erred: BigInt(row.total_tasks_erred),
            errors: BigInt(row.total_errors),
            bytes: BigInt(row.total_bytes),
            workers: BigInt(row.total_workers),
            peak_workers: BigInt(row.peak_workers),
            peak_threads: BigInt(row.peak_threads),
            compute_seconds: row.total_compute_seconds,
            transfer_seconds: row.total_transfer_seconds,
            cluster_seconds: row.total_thread_seconds,
        }
    }

    /// What the reporter had to give up because there was too much of it at once.
    async fn dropped(&self) -> DroppedItems {
        DroppedItems {
            computations: BigInt(self.row.dropped_computations),
            task_groups: BigInt(self.row.dropped_task_groups),
            errors: BigInt(self.row.dropped_errors),
        }
    }

    /// What was submitted to it, the newest first.
    async fn computations(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Computation>, ApiError> {
        let page = PageArguments { first, after, last, before };
        connect(&self.scope, self.row.id, ComputationSort::NewestFirst, page, Computation::new).await
    }

    /// Its groups of tasks with the same name, in the order they were first seen.
    async fn task_groups(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<TaskGroup>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let parent = TaskGroupParent::Cluster(self.row.id);
        connect(&self.scope, parent, TaskGroupSort::OldestFirst, page, TaskGroup::new).await
    }

    /// The tasks of it that erred, the newest first.
    async fn errors(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let parent = ErrorParent::Cluster(self.row.id);
        connect(&self.scope, parent, ErrorSort::NewestFirst, page, ErrorOccurrence::new).await
    }
}

/// What a cluster last said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Status")]
pub(super) enum ClusterState {
    /// It reports; `lastSeenAt` tells when it last did.
    Running,
    /// It said goodbye.
    Closed,
}

/// What the account wants of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "cluster::DesiredState")]
pub(super) enum DesiredState {
    /// Carry on.
    Running,
    /// Close the scheduler, and with it its workers.
    Stopped,
}

/// A cluster at one moment.
#[derive(SimpleObject)]
pub(super) struct ClusterSnapshot {
    /// The moment, by the scheduler's clock.
    at: DateTime<Utc>,
    /// Connected workers.
    workers: BigInt,
    /// Their threads.
    threads: BigInt,
    /// Memory of their processes, in bytes.
    memory_used: BigInt,
    /// Sum of their memory limits, in bytes; null when one has no limit or there is no worker.
    memory_limit: Option<BigInt>,
}

/// Sums over a cluster's whole life.
#[derive(SimpleObject)]
pub(super) struct ClusterTotals {
    /// Tasks the scheduler was given.
    tasks: BigInt,
    /// Times a task came to be in memory; a task computed again counts again.
    tasks_succeeded: BigInt,
    /// Tasks that erred themselves, without those that only depend on one.
    tasks_erred: BigInt,
    /// Errors recorded.
    errors: BigInt,
    /// Bytes of all results produced.
    bytes: BigInt,
    /// Workers that ever joined.
    workers: BigInt,
    /// Most workers at one time.
    peak_workers: BigInt,
    /// Most threads at one time.
    peak_threads: BigInt,
    /// Thread-seconds spent computing tasks that succeeded.
    compute_seconds: f64,
    /// Seconds spent fetching inputs from other workers.
    transfer_seconds: f64,
    /// Thread-seconds the cluster offered, busy or idle: threads integrated over time.
    cluster_seconds: f64,
}

/// What a reporter had to give up.
#[derive(SimpleObject)]
pub(super) struct DroppedItems {
    /// Computations.
    computations: BigInt,
    /// Task groups.
    task_groups: BigInt,
    /// Errors.
    errors: BigInt,
}
