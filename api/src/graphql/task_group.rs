//! Task groups: the tasks of one operation.

use async_graphql::{Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    ids::{ClusterId, TaskGroupId},
    task_group::Model,
};

use super::{
    cluster::Cluster,
    connection::Listed,
    error::ApiError,
    id::GlobalId,
    in_place::{Items, in_place, in_place_members},
    json::names,
    scalar::BigInt,
    scope::AccountScope,
    span::Span,
};

/// The tasks of one operation: one of Dask's `TaskGroup` objects.
pub(super) struct TaskGroup {
    scope: AccountScope,
    row: Model,
}

impl TaskGroup {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(
        scope: &AccountScope,
        id: (ClusterId, TaskGroupId),
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }
}

/// The tasks of one operation: one of Dask's `TaskGroup` objects. Durations count tasks that succeeded; Dask
/// keeps no time of failed ones.
#[Object]
impl TaskGroup {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::TaskGroup(self.row.account_id, self.row.cluster_id, self.row.id).into()
    }

    /// Dask's name of the group. It is no identity: it comes again when the operation does.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// The operation or function: the name without its token.
    async fn prefix(&self) -> &str {
        &self.row.prefix
    }

    /// The cluster it ran on.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::of(&self.scope, self.row.cluster_id).await
    }

    /// When the scheduler first knew of it, by the scheduler's clock.
    async fn first_seen_at(&self) -> DateTime<Utc> {
        self.row.first_seen_at.0
    }

    /// When the first of its finished tasks started; null before one finished.
    async fn started_at(&self) -> Option<DateTime<Utc>> {
        self.row.started_at.map(|time| time.0)
    }

    /// When the last of its finished tasks stopped; null before one finished.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.row.stopped_at.map(|time| time.0)
    }

    /// Tasks by state as of the last report, without states that have none. Forgotten tasks may have succeeded
    /// or failed: `tasksSucceeded` and `tasksErred` remember that.
    async fn states(&self) -> Items<StateCount> {
        let row = &self.row;
        StateCount::of([
            (TaskState::Released, row.released),
            (TaskState::Waiting, row.waiting),
            (TaskState::NoWorker, row.no_worker),
            (TaskState::Queued, row.queued),
            (TaskState::Processing, row.processing),
            (TaskState::Memory, row.memory),
            (TaskState::Erred, row.erred),
            (TaskState::Forgotten, row.forgotten),
        ])
    }

    /// Tasks it ever had.
    async fn tasks(&self) -> BigInt {
        BigInt(self.row.tasks)
    }

    /// Times one of them came to be in memory; a task computed again counts again.
    async fn tasks_succeeded(&self) -> BigInt {
        BigInt(self.row.tasks_succeeded)
    }

    /// Tasks that erred themselves.
    async fn tasks_erred(&self) -> BigInt {
        BigInt(self.row.tasks_erred)
    }

    /// Tasks that erred only because one they depend on did.
    async fn tasks_blamed(&self) -> BigInt {
        BigInt(self.row.tasks_blamed)
    }

    /// Attempts that failed and were tried again.
    async fn tasks_retried(&self) -> BigInt {
        BigInt(self.row.tasks_retried)
    }

    /// The span it belongs to: the first it was used in. Null when none was reported.
    async fn span(&self) -> Result<Option<Span>, ApiError> {
        match self.row.span_id {
            Some(id) => Span::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// Seconds by action, summed over the tasks that succeeded, without actions that took none.
    async fn durations(&self) -> Items<ActionDuration> {
        let row = &self.row;
        let actions = [
            (TaskAction::Compute, Some(row.compute_seconds)),
            (TaskAction::Transfer, Some(row.transfer_seconds)),
            (TaskAction::DiskRead, row.disk_read_seconds),
            (TaskAction::DiskWrite, row.disk_write_seconds),
            (TaskAction::Serialize, row.serialize_seconds),
            (TaskAction::Deserialize, row.deserialize_seconds),
            (TaskAction::Other, row.other_seconds),
        ];
        let durations = actions
            .into_iter()
            .filter_map(|(action, seconds)| Some((action, seconds.filter(|seconds| *seconds > 0.0)?)))
            .map(|(action, seconds)| ActionDuration { action, seconds });
        Items(durations.collect())
    }

    /// Bytes of all results it ever produced, also of those released since.
    async fn bytes(&self) -> BigInt {
        BigInt(self.row.bytes)
    }

    /// Type names of its results.
    async fn types(&self) -> &[String] {
        &self.row.types.0
    }

    /// The task groups it depends on, as far as they were reported.
    async fn dependencies(&self) -> Result<Items<TaskGroup>, ApiError> {
        let keys = self.row.dependencies.0.iter().map(|id| (self.row.cluster_id, *id));
        let mut found = self.scope.loader.load_many(keys.clone()).await?;
        let rows = keys.filter_map(|key| found.remove(&key));
        Ok(Items(rows.map(|row| Self::new(&self.scope, row)).collect()))
    }
}

in_place! {
    TaskGroup: id, name, prefix, first_seen_at, started_at, ended_at, tasks, tasks_succeeded, tasks_erred, tasks_blamed,
        tasks_retried, bytes, types;
        states: Items<StateCount>, durations: Items<ActionDuration>
}

impl Listed for TaskGroup {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "name",
        "prefix",
        "cluster",
        "firstSeenAt",
        "startedAt",
        "endedAt",
        "states",
        "tasks",
        "tasksSucceeded",
        "tasksErred",
        "durations",
        "bytes",
    ];
}

/// Tasks in one state.
#[derive(SimpleObject)]
pub(super) struct StateCount {
    /// The state.
    state: TaskState,
    /// How many tasks.
    count: BigInt,
}

in_place_members! { StateCount: state, count }

impl StateCount {
    /// Those states that some tasks are in.
    pub(super) fn of(states: [(TaskState, Option<i64>); 8]) -> Items<Self> {
        let counts = states.into_iter();
        Items(counts.filter_map(|(state, count)| Some(Self { state, count: BigInt(count?) })).collect())
    }
}

/// A task's state on the scheduler, as Dask names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum TaskState {
    /// Known, not needed now.
    Released,
    /// Waiting for dependencies.
    Waiting,
    /// Ready, but no worker may run it.
    NoWorker,
    /// Ready, held back until a thread is free.
    Queued,
    /// Assigned to a worker.
    Processing,
    /// Its result is held by a worker.
    Memory,
    /// It failed, or depends on one that did.
    Erred,
    /// The scheduler forgot it, whatever became of it.
    Forgotten,
}

names!(TaskState);

/// Seconds spent on one action.
#[derive(SimpleObject)]
pub(super) struct ActionDuration {
    /// The action.
    action: TaskAction,
    /// Seconds, summed over tasks.
    seconds: f64,
}

in_place_members! { ActionDuration: action, seconds }

/// What a worker spends a task's time on, as Dask names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(super) enum TaskAction {
    /// Running the task.
    Compute,
    /// Fetching inputs from other workers.
    Transfer,
    /// Reading spilled data.
    DiskRead,
    /// Spilling data.
    DiskWrite,
    /// Turning results into bytes.
    Serialize,
    /// Turning bytes into inputs.
    Deserialize,
    /// Anything else.
    Other,
}

names!(TaskAction);
