//! Computations: what was submitted at once.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    computation::{self, Model},
    ids::{ClusterId, ComputationId},
};

use super::{
    cluster::Cluster,
    code::CodeFrame,
    connection::{Connection, Listed, PageArguments, connect},
    error::{Alone, ApiError},
    error_occurrence::ErrorOccurrence,
    id::GlobalId,
    in_place::{Items, Placed, in_place, in_place_members},
    json::names,
    loaders::ComputationTotalsOf,
    scalar::BigInt,
    scope::AccountScope,
    span::Span,
    task_group::{StateCount, TaskGroup, TaskState},
};
use crate::store::{self, ErrorParent, ErrorSort, TaskGroupParent, TaskGroupSort};

/// Work submitted to a cluster: Dask's `Computation`. Graphs that arrive while the scheduler is busy join the
/// computation under way.
pub(super) struct Computation {
    scope: AccountScope,
    row: Model,
}

impl Computation {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(
        scope: &AccountScope,
        id: (ClusterId, ComputationId),
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }
}

/// Work submitted to a cluster: Dask's `Computation`. Graphs that arrive while the scheduler is busy join the
/// computation under way.
#[Object]
impl Computation {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::Computation(self.row.account_id, self.row.cluster_id, self.row.id).into()
    }

    /// Dask's own identifier, a UUID.
    async fn dask_id(&self) -> String {
        self.row.id.to_string()
    }

    /// The cluster it was submitted to.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::of(&self.scope, self.row.cluster_id).await
    }

    /// How far it is.
    async fn state(&self) -> RunState {
        self.row.state.into()
    }

    /// When it was submitted, by the scheduler's clock.
    async fn started_at(&self) -> DateTime<Utc> {
        self.row.started_at.0
    }

    /// When its last task finished, or its LOST cluster reported last, by the scheduler's clock; null before.
    async fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.row.stopped_at.map(|time| time.0)
    }

    /// Seconds from submission until then; null before.
    async fn wall_seconds(&self) -> Option<f64> {
        self.row.stopped_at.map(|stop| (stop.0 - self.row.started_at.0).as_seconds_f64())
    }

    /// Sums over its task groups, as Dask's own `Computation` has them. A group that other computations use, too, counts all
    /// of its tasks. Null, with an error, where they cannot be summed.
    async fn totals(&self) -> Alone<Placed<ComputationTotals>> {
        let key = ComputationTotalsOf((self.row.cluster_id, self.row.id));
        let totals = self.scope.loader.load_one(key).await.map_err(ApiError::from);
        Some(totals.map(|totals| Placed(totals.unwrap_or_default().into())))
    }

    /// The spans its task groups belong to, as far as they were reported.
    async fn spans(&self) -> Result<Items<Span>, ApiError> {
        Span::find_all(&self.scope, self.row.cluster_id, &self.row.span_ids.0).await.map(Items)
    }

    /// Where the client's code called Dask for it: one stack per call, the outermost frame first.
    async fn code(&self) -> Vec<Vec<CodeFrame>> {
        CodeFrame::stacks(&self.scope, &self.row.code)
    }

    /// The task groups it uses, in the order they were first seen. One that other computations use, too, counts
    /// all of its tasks.
    async fn task_groups(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<TaskGroup>, ApiError> {
        let parent = TaskGroupParent::Computation(self.row.cluster_id, self.row.id);
        let page = PageArguments { first, after, last, before }.listed::<TaskGroup>(context);
        connect(&self.scope, parent, TaskGroupSort::OldestFirst, page, TaskGroup::new).await
    }

    /// The tasks of it that erred, the newest first.
    async fn errors(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let parent = ErrorParent::Computation(self.row.cluster_id, self.row.id);
        let page = PageArguments { first, after, last, before }.listed::<ErrorOccurrence>(context);
        connect(&self.scope, parent, ErrorSort::NewestFirst, page, ErrorOccurrence::new).await
    }
}

in_place! { Computation: id, dask_id, state, started_at, ended_at, wall_seconds }

impl Listed for Computation {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "daskId",
        "cluster",
        "state",
        "startedAt",
        "endedAt",
        "wallSeconds",
        "totals",
        "taskGroups",
        "errors",
    ];
}

/// Sums over the task groups of a computation.
#[derive(SimpleObject)]
pub(super) struct ComputationTotals {
    /// Tasks they ever had.
    tasks: BigInt,
    /// Tasks by state as of the last report, without states that have none. Forgotten tasks may have succeeded or failed:
    /// `tasksSucceeded` and `tasksErred` remember that.
    states: Items<StateCount>,
    /// Times one of them came to be in memory; a task computed again counts again.
    tasks_succeeded: BigInt,
    /// Tasks that erred themselves.
    tasks_erred: BigInt,
    /// Attempts that failed and were tried again.
    tasks_retried: BigInt,
    /// Thread-seconds spent computing tasks that succeeded.
    compute_seconds: f64,
    /// Seconds spent fetching their inputs from other workers.
    transfer_seconds: f64,
    /// Bytes of all results they ever produced, also of those released since.
    bytes: BigInt,
}

in_place_members! {
    ComputationTotals: tasks, tasks_succeeded, tasks_erred, tasks_retried, compute_seconds, transfer_seconds, bytes;
        states: Items<StateCount>
}

impl From<store::ComputationTotals> for ComputationTotals {
    fn from(totals: store::ComputationTotals) -> Self {
        Self {
            tasks: BigInt(totals.tasks),
            states: StateCount::of([
                (TaskState::Released, totals.released),
                (TaskState::Waiting, totals.waiting),
                (TaskState::NoWorker, totals.no_worker),
                (TaskState::Queued, totals.queued),
                (TaskState::Processing, totals.processing),
                (TaskState::Memory, totals.memory),
                (TaskState::Erred, totals.erred),
                (TaskState::Forgotten, totals.forgotten),
            ]),
            tasks_succeeded: BigInt(totals.tasks_succeeded),
            tasks_erred: BigInt(totals.tasks_erred),
            tasks_retried: BigInt(totals.tasks_retried),
            compute_seconds: totals.compute_seconds,
            transfer_seconds: totals.transfer_seconds,
            bytes: BigInt(totals.bytes),
        }
    }
}

/// How far a computation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "computation::State")]
pub(super) enum RunState {
    /// Some tasks are unfinished.
    Running,
    /// All tasks are done and none erred.
    Finished,
    /// At least one task erred, and nothing runs any more.
    Erred,
    /// It ended before all of its tasks were done: they were cancelled, its program was interrupted, or the
    /// scheduler closed.
    Cancelled,
    /// It was running when its cluster was last heard of, which is LOST or closed without telling what became of it.
    Lost,
}

names!(RunState);
