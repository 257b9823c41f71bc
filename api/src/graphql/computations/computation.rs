//! The GraphQL type of a computation: work that a client submitted at once.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    computation::{self, Model},
    ids::{ClusterId, ComputationId},
};

use super::{
    code::CodeFrame,
    span::Span,
    task_group::{StateCount, TaskGroup, TaskState},
    task_group_list::{TaskGroupFilter, TaskGroupOrder, load_task_groups},
};
use crate::{
    graphql::{
        clusters::cluster::Cluster,
        engine::{
            connection::{Connection, PageArguments, SummaryFields, load_connection},
            error::{ApiError, NullOnError},
            id::GlobalId,
            json::write_enums_by_name,
            loaders::ComputationTotalsKey,
            projection::{Inline, InlineList, inline_fields, inline_members},
            row_fields::row_fields,
            scalar::BigInt,
            scope::AccountScope,
        },
        errors::error_occurrence::ErrorOccurrence,
    },
    store::{self, ErrorParent, ErrorSort, TaskGroupParent},
};

/// Work submitted to a cluster: Dask's `Computation`. Graphs that arrive while the scheduler is busy
/// join the running computation.
pub(crate) struct Computation {
    scope: AccountScope,
    row: Model,
}

impl Computation {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(crate) async fn find(
        scope: &AccountScope,
        id: (ClusterId, ComputationId),
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    /// Returns the global identifier, as the resolver of the interface `Node` requires it.
    pub(crate) async fn id(&self, context: &Context<'_>) -> async_graphql::Result<ID> {
        ComputationFields(&self.row).id(context).await
    }
}

row_fields! {
    /// The fields of a computation that follow from its row.
    pub(crate) struct ComputationFields of computation;

    /// The global identifier.
    id(account_id, cluster_id, id): ID = GlobalId::Computation(*account_id, *cluster_id, *id).into();

    /// Dask's own identifier, a UUID.
    dask_id(id): String = id.to_string();

    /// The state of the computation.
    state(state): RunState = (*state).into();

    /// The time at which the computation was submitted, by the scheduler's clock.
    started_at(started_at): DateTime<Utc> = started_at.0;

    /// The time at which its last task finished or, if the cluster is `LOST`, of the cluster's last
    /// report, by the scheduler's clock. Null before.
    ended_at(stopped_at): Option<DateTime<Utc>> = stopped_at.map(|time| time.0);

    /// The duration from `startedAt` to `endedAt`, in seconds. Null before the end.
    wall_seconds(started_at, stopped_at): Option<f64> =
        stopped_at.map(|stop| (stop.0 - started_at.0).as_seconds_f64());
}

/// Work submitted to a cluster: Dask's `Computation`. Graphs that arrive while the scheduler is busy
/// join the running computation.
#[Object]
impl Computation {
    #[graphql(flatten)]
    #[expect(clippy::unused_async, reason = "the code that the macro generates awaits it")]
    async fn row_fields(&self) -> ComputationFields<'_> {
        ComputationFields(&self.row)
    }

    /// The cluster of the computation.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// The totals over the tasks that were submitted with the computation. A task group that other
    /// computations also use counts with this computation's own tasks only, except as in
    /// `includesOtherComputations`. Null only with an error, if the totals cannot be read.
    async fn totals(&self) -> NullOnError<Inline<ComputationTotals>> {
        let key = ComputationTotalsKey((self.row.cluster_id, self.row.id));
        let totals = self.scope.loader.load_one(key).await.map_err(ApiError::from);
        Some(totals.map(|totals| Inline(totals.unwrap_or_default().into())))
    }

    /// The spans of the computation's task groups, if they were reported.
    async fn spans(&self) -> Result<InlineList<Span>, ApiError> {
        Span::find_all(&self.scope, self.row.cluster_id, &self.row.span_ids.0).await.map(InlineList)
    }

    /// The call stacks of the client's code that called Dask for the computation: one for each call, the
    /// outermost frame first.
    async fn code(&self) -> Vec<Vec<CodeFrame>> {
        CodeFrame::stacks(&self.scope, &self.row.code)
    }

    /// The task groups of the computation, in the order in which they were first seen. A task group that
    /// other computations also use counts all of its tasks here; `totals` counts this computation's own
    /// tasks only.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn task_groups(
        &self,
        context: &Context<'_>,
        #[graphql(
            desc = "Only task groups that pass this filter. With a filter or an order, all task groups are \
                    examined; one query may request 50 such pages. Null for all task groups."
        )]
        filter: Option<TaskGroupFilter>,
        #[graphql(desc = "The order of the list. Null for the order in which they were first seen.")]
        order_by: Option<TaskGroupOrder>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<TaskGroup>, ApiError> {
        let page = PageArguments { first, after, last, before }.with_summary_columns::<TaskGroup>(context);
        let parent = TaskGroupParent::Computation(self.row.cluster_id, self.row.id);
        load_task_groups(&self.scope, parent, filter, order_by, page).await
    }

    /// The failed tasks of the computation, the newest first.
    async fn errors(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<ErrorOccurrence>, ApiError> {
        let parent = ErrorParent::Computation(self.row.cluster_id, self.row.id);
        let page =
            PageArguments { first, after, last, before }.with_summary_columns::<ErrorOccurrence>(context);
        load_connection(&self.scope, parent, ErrorSort::NewestFirst, page, ErrorOccurrence::new).await
    }
}

inline_fields! { Computation, rows row as ComputationFields: }

impl SummaryFields for Computation {
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

/// The totals over the tasks of a computation.
#[derive(SimpleObject)]
pub(crate) struct ComputationTotals {
    /// The number of submitted tasks.
    tasks: BigInt,
    /// The number of tasks by state, as of the last report. States without tasks are omitted. Forgotten
    /// tasks may have succeeded or failed, and stay counted in `tasksSucceeded` and `tasksErred`.
    states: InlineList<StateCount>,
    /// The number of times a task reached the state `memory`. A task that is computed again counts again.
    tasks_succeeded: BigInt,
    /// The number of tasks whose own execution failed. Tasks that failed only because of a dependency are not
    /// counted.
    tasks_erred: BigInt,
    /// The number of failed attempts that were retried.
    tasks_retried: BigInt,
    /// The compute time of tasks that succeeded, in thread-seconds.
    compute_seconds: f64,
    /// The time spent fetching inputs from other workers, in seconds.
    transfer_seconds: f64,
    /// The size of all results produced, including released ones, in bytes.
    bytes: BigInt,
    /// True if the totals include tasks of other computations. The tasks of several computations that
    /// used the same task group before the cluster was registered cannot be distinguished.
    includes_other_computations: bool,
}

inline_members! {
    ComputationTotals: tasks, tasks_succeeded, tasks_erred, tasks_retried, compute_seconds, transfer_seconds, bytes,
        includes_other_computations;
        states: InlineList<StateCount>
}

impl From<store::ComputationTotals> for ComputationTotals {
    fn from(totals: store::ComputationTotals) -> Self {
        // The stored totals have a number for each state, even if it is 0.
        let positive = |count: Option<i64>| count.filter(|count| *count > 0);
        Self {
            tasks: BigInt(totals.tasks),
            states: InlineList(StateCount::list([
                (TaskState::Released, positive(totals.released)),
                (TaskState::Waiting, positive(totals.waiting)),
                (TaskState::NoWorker, positive(totals.no_worker)),
                (TaskState::Queued, positive(totals.queued)),
                (TaskState::Processing, positive(totals.processing)),
                (TaskState::Memory, positive(totals.memory)),
                (TaskState::Erred, positive(totals.erred)),
                (TaskState::Forgotten, positive(totals.forgotten)),
            ])),
            tasks_succeeded: BigInt(totals.tasks_succeeded),
            tasks_erred: BigInt(totals.tasks_erred),
            tasks_retried: BigInt(totals.tasks_retried),
            compute_seconds: totals.compute_seconds,
            transfer_seconds: totals.transfer_seconds,
            bytes: BigInt(totals.bytes),
            includes_other_computations: totals.joint > 0,
        }
    }
}

/// The state of a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "computation::State")]
pub(crate) enum RunState {
    /// Some tasks are not finished.
    Running,
    /// All tasks finished, and none failed.
    Finished,
    /// At least one task failed, and no task is running any more.
    Erred,
    /// The computation ended before all of its tasks finished: they were cancelled, the client program
    /// was interrupted, or the scheduler closed.
    Cancelled,
    /// The computation was running at the last report of its cluster, which is `LOST`, or closed without
    /// reporting the outcome.
    Lost,
}

write_enums_by_name!(RunState);
