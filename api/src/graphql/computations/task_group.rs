//! Task groups: the tasks of one operation.

use async_graphql::{Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    ids::{ClusterId, TaskGroupId},
    task_group::Model,
};

use super::span::Span;
use crate::graphql::{
    clusters::cluster::Cluster,
    engine::{
        connection::SummaryFields,
        error::ApiError,
        id::GlobalId,
        json::write_enums_by_name,
        projection::{InlineList, inline_fields, inline_members},
        scalar::BigInt,
        scope::AccountScope,
    },
};

/// The tasks of one operation: one of Dask's `TaskGroup` objects.
pub(crate) struct TaskGroup {
    scope: AccountScope,
    row: Model,
}

impl TaskGroup {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(crate) async fn find(
        scope: &AccountScope,
        id: (ClusterId, TaskGroupId),
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }
}

/// The tasks of one operation: one of Dask's `TaskGroup` objects. Durations cover tasks that succeeded;
/// Dask records no durations of failed tasks.
#[Object]
impl TaskGroup {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::TaskGroup(self.row.account_id, self.row.cluster_id, self.row.id).into()
    }

    /// Dask's name of the task group. It is not unique: it occurs again when the operation is repeated.
    async fn name(&self) -> &str {
        &self.row.name
    }

    /// The operation or function: Dask's task prefix, the name without its token.
    async fn prefix(&self) -> &str {
        &self.row.prefix
    }

    /// The cluster that the task group ran on.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// The time at which the scheduler first knew the task group, by the scheduler's clock.
    async fn first_seen_at(&self) -> DateTime<Utc> {
        self.row.first_seen_at.0
    }

    /// The start of its first finished task. Null until a task has finished.
    async fn started_at(&self) -> Option<DateTime<Utc>> {
        self.row.started_at.map(|time| time.0)
    }

    /// The end of its last finished task. Null until a task has finished.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.row.stopped_at.map(|time| time.0)
    }

    /// The number of tasks in each state, as of the last report. States without tasks are left out. A
    /// forgotten task may have succeeded or failed; `tasksSucceeded` and `tasksErred` still count it.
    async fn states(&self) -> InlineList<StateCount> {
        let row = &self.row;
        StateCount::list([
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

    /// The number of tasks, over the whole life of the task group.
    async fn tasks(&self) -> BigInt {
        BigInt(self.row.tasks)
    }

    /// The number of times a task reached the state `memory`. A task that is computed again counts
    /// again.
    async fn tasks_succeeded(&self) -> BigInt {
        BigInt(self.row.tasks_succeeded)
    }

    /// The number of tasks whose own execution failed.
    async fn tasks_erred(&self) -> BigInt {
        BigInt(self.row.tasks_erred)
    }

    /// The number of tasks that failed only because of a failed dependency.
    async fn tasks_blamed(&self) -> BigInt {
        BigInt(self.row.tasks_blamed)
    }

    /// The number of failed attempts that were retried.
    async fn tasks_retried(&self) -> BigInt {
        BigInt(self.row.tasks_retried)
    }

    /// The span that the task group was first used in. Null if none was reported.
    async fn span(&self) -> Result<Option<Span>, ApiError> {
        match self.row.span_id {
            Some(id) => Span::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// The time spent on each action, summed over the tasks that succeeded. Actions without time are
    /// left out.
    async fn durations(&self) -> InlineList<ActionDuration> {
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
        InlineList(durations.collect())
    }

    /// The size of all results, in bytes, including released results.
    async fn bytes(&self) -> BigInt {
        BigInt(self.row.bytes)
    }

    /// The type names of the results.
    async fn types(&self) -> &[String] {
        &self.row.types.0
    }

    /// The task groups that it depends on, as far as they were reported.
    async fn dependencies(&self) -> Result<InlineList<TaskGroup>, ApiError> {
        let keys = self.row.dependencies.0.iter().map(|id| (self.row.cluster_id, *id));
        let mut found = self.scope.loader.load_many(keys.clone()).await?;
        let rows = keys.filter_map(|key| found.remove(&key));
        Ok(InlineList(rows.map(|row| Self::new(&self.scope, row)).collect()))
    }
}

inline_fields! {
    TaskGroup: id, name, prefix, first_seen_at, started_at, ended_at, tasks, tasks_succeeded, tasks_erred, tasks_blamed,
        tasks_retried, bytes, types;
        states: InlineList<StateCount>, durations: InlineList<ActionDuration>
}

impl SummaryFields for TaskGroup {
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

/// The number of tasks in one state.
#[derive(SimpleObject)]
pub(crate) struct StateCount {
    /// The state.
    state: TaskState,
    /// The number of tasks.
    count: BigInt,
}

inline_members! { StateCount: state, count }

impl StateCount {
    /// Returns the states that have tasks.
    pub(crate) fn list(states: [(TaskState, Option<i64>); 8]) -> InlineList<Self> {
        let counts = states.into_iter();
        InlineList(counts.filter_map(|(state, count)| Some(Self { state, count: BigInt(count?) })).collect())
    }
}

/// The states of a task on the scheduler, with Dask's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum TaskState {
    /// Known to the scheduler, but not needed now.
    Released,
    /// Waiting for dependencies.
    Waiting,
    /// Ready, but no worker may run it.
    NoWorker,
    /// Ready, and queued until a thread is free.
    Queued,
    /// Assigned to a worker.
    Processing,
    /// Succeeded. A worker holds the result.
    Memory,
    /// Failed, or dependent on a failed task.
    Erred,
    /// Forgotten by the scheduler, after any outcome.
    Forgotten,
}

write_enums_by_name!(TaskState);

/// The time spent on one action.
#[derive(SimpleObject)]
pub(crate) struct ActionDuration {
    /// The action.
    action: TaskAction,
    /// The time in seconds, summed over tasks.
    seconds: f64,
}

inline_members! { ActionDuration: action, seconds }

/// The actions of a worker on a task, with Dask's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
pub(crate) enum TaskAction {
    /// Running the task.
    Compute,
    /// Fetching inputs from other workers.
    Transfer,
    /// Reading spilled data.
    DiskRead,
    /// Spilling data.
    DiskWrite,
    /// Serializing results.
    Serialize,
    /// Deserializing inputs.
    Deserialize,
    /// Any other action.
    Other,
}

write_enums_by_name!(TaskAction);
