//! Task groups: the tasks of one operation.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    ids::{ClusterId, TaskGroupId},
    task_group::{self, Model},
};

use super::span::Span;
use crate::graphql::{
    clusters::cluster::Cluster,
    engine::{
        connection::SummaryFields,
        error::ApiError,
        id::GlobalId,
        json::write_enums_by_name,
        projection::{InlineList, inline_fields},
        row_fields::{row_fields, row_item},
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

    /// Returns the global identifier, as the resolver of the interface `Node` requires it.
    pub(crate) async fn id(&self, context: &Context<'_>) -> async_graphql::Result<ID> {
        TaskGroupFields(&self.row).id(context).await
    }
}

row_fields! {
    /// The fields of a task group that follow from its row.
    pub(crate) struct TaskGroupFields of task_group;

    /// The global identifier.
    id(account_id, cluster_id, id): ID = GlobalId::TaskGroup(*account_id, *cluster_id, *id).into();

    /// Dask's name of the task group. It is not unique: it occurs again when the operation is repeated.
    name(name): &str = name;

    /// The operation or function: Dask's task prefix, the name without its token.
    prefix(prefix): &str = prefix;

    /// The time at which the scheduler first knew the task group, by the scheduler's clock.
    first_seen_at(first_seen_at): DateTime<Utc> = first_seen_at.0;

    /// The start of its first finished task. Null until a task has finished.
    started_at(started_at): Option<DateTime<Utc>> = started_at.map(|time| time.0);

    /// The end of its last finished task. Null until a task has finished.
    ended_at(stopped_at): Option<DateTime<Utc>> = stopped_at.map(|time| time.0);

    /// The number of tasks, over the whole life of the task group.
    tasks(tasks): BigInt = BigInt(*tasks);

    /// The number of times a task reached the state `memory`. A task that is computed again counts
    /// again.
    tasks_succeeded(tasks_succeeded): BigInt = BigInt(*tasks_succeeded);

    /// The number of tasks whose own execution failed.
    tasks_erred(tasks_erred): BigInt = BigInt(*tasks_erred);

    /// The number of tasks that failed only because of a failed dependency.
    tasks_blamed(tasks_blamed): BigInt = BigInt(*tasks_blamed);

    /// The number of failed attempts that were retried.
    tasks_retried(tasks_retried): BigInt = BigInt(*tasks_retried);

    /// The size of all results, in bytes, including released results.
    bytes(bytes): BigInt = BigInt(*bytes);

    /// The type names of the results.
    types(types): &[String] = &types.0;

    @lists {
        /// The number of tasks in each state, as of the last report. States without tasks are left out. A
        /// forgotten task may have succeeded or failed; `tasksSucceeded` and `tasksErred` still count it.
        states(released, waiting, no_worker, queued, processing, memory, erred, forgotten): StateCount =
            StateCount::list([
                (TaskState::Released, *released),
                (TaskState::Waiting, *waiting),
                (TaskState::NoWorker, *no_worker),
                (TaskState::Queued, *queued),
                (TaskState::Processing, *processing),
                (TaskState::Memory, *memory),
                (TaskState::Erred, *erred),
                (TaskState::Forgotten, *forgotten),
            ]);

        /// The time spent on each action, summed over the tasks that succeeded. Actions without time are
        /// left out.
        durations(
            compute_seconds,
            transfer_seconds,
            disk_read_seconds,
            disk_write_seconds,
            serialize_seconds,
            deserialize_seconds,
            other_seconds,
        ): ActionDuration = ActionDuration::list([
            (TaskAction::Compute, Some(*compute_seconds)),
            (TaskAction::Transfer, Some(*transfer_seconds)),
            (TaskAction::DiskRead, *disk_read_seconds),
            (TaskAction::DiskWrite, *disk_write_seconds),
            (TaskAction::Serialize, *serialize_seconds),
            (TaskAction::Deserialize, *deserialize_seconds),
            (TaskAction::Other, *other_seconds),
        ]);
    }
}

/// The tasks of one operation: one of Dask's `TaskGroup` objects. Durations cover tasks that succeeded;
/// Dask records no durations of failed tasks.
#[Object]
impl TaskGroup {
    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn row_fields(&self) -> TaskGroupFields<'_> {
        TaskGroupFields(&self.row)
    }

    /// The cluster that the task group ran on.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// The span that the task group was first used in. Null if none was reported.
    async fn span(&self) -> Result<Option<Span>, ApiError> {
        match self.row.span_id {
            Some(id) => Span::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// The task groups that it depends on, as far as they were reported.
    async fn dependencies(&self) -> Result<InlineList<TaskGroup>, ApiError> {
        let keys = self.row.dependencies.0.iter().map(|id| (self.row.cluster_id, *id));
        let mut found = self.scope.loader.load_many(keys.clone()).await?;
        let rows = keys.filter_map(|key| found.remove(&key));
        Ok(InlineList(rows.map(|row| Self::new(&self.scope, row)).collect()))
    }
}

inline_fields! { TaskGroup, rows row as TaskGroupFields: }

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

row_item! { StateCount: state, count }

impl StateCount {
    /// Returns the states that have tasks.
    pub(crate) fn list(states: [(TaskState, Option<i64>); 8]) -> Vec<Self> {
        let counts = states.into_iter();
        counts.filter_map(|(state, count)| Some(Self { state, count: BigInt(count?) })).collect()
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

row_item! { ActionDuration: action, seconds }

impl ActionDuration {
    /// Returns the actions that took time.
    fn list(actions: [(TaskAction, Option<f64>); 7]) -> Vec<Self> {
        let durations = actions.into_iter().filter_map(|(action, seconds)| {
            Some(Self { action, seconds: seconds.filter(|seconds| *seconds > 0.0)? })
        });
        durations.collect()
    }
}

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
