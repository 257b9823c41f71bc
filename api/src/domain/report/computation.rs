//! Computations: tasks that a client submitted together.

use entity::{
    computation::State,
    ids::{ComputationId, SpanId, TaskGroupId},
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    super::validated::{Count, List, UnixTime},
    code::{CodeFrame, CodeStacks},
    task_group::{Durations, States},
};

/// A computation, one of Dask's `Computation` objects.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ComputationReport {
    /// Dask's identifier of the computation.
    #[schema(value_type = uuid::Uuid)]
    pub id: ComputationId,
    /// The time at which the graph arrived.
    pub started_at: UnixTime,
    /// The time at which its last task finished. Absent while it runs.
    #[serde(default)]
    pub stopped_at: Option<UnixTime>,
    /// Its state.
    pub state: ComputationState,
    /// The task groups that it uses, as far as known.
    #[serde(default)]
    #[schema(value_type = Vec<uuid::Uuid>, max_items = 5_000)]
    pub task_group_ids: List<TaskGroupId, 5_000>,
    /// The computation's share of each task group that other computations use too. All tasks of a task
    /// group without an entry belong to this computation.
    #[serde(default)]
    #[schema(value_type = Vec<ComputationShareReport>, max_items = 1_000)]
    pub task_group_shares: List<ComputationShareReport, 1_000>,
    /// The spans of its task groups.
    #[serde(default)]
    #[schema(value_type = Vec<uuid::Uuid>, max_items = 100)]
    pub span_ids: List<SpanId, 100>,
    /// The places in the client's code that called Dask: one stack per call, the outermost frame first.
    #[serde(default)]
    #[schema(value_type = Vec<Vec<CodeFrame>>, max_items = 20)]
    pub code: CodeStacks,
}

/// The tasks of one task group that one computation submitted.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ComputationShareReport {
    /// The task group.
    #[schema(value_type = uuid::Uuid)]
    pub task_group_id: TaskGroupId,
    /// True if the values include tasks of other computations. Tasks from before the start of the
    /// reporter cannot be separated.
    #[serde(default)]
    pub joint: bool,
    /// The current number of tasks by state.
    #[serde(default)]
    pub states: States,
    /// The number of submitted tasks.
    pub tasks: Count,
    /// The number of times that a task produced a result in memory.
    pub tasks_succeeded: Count,
    /// The number of tasks that failed by an exception of their own.
    pub tasks_erred: Count,
    /// The number of failed attempts that were retried.
    pub tasks_retried: Count,
    /// The time of tasks that succeeded, in seconds by action.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, f64>)]
    pub durations: Durations,
    /// The bytes of all their results.
    pub bytes: Count,
}

/// The state of a computation.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComputationState {
    /// Some tasks are unfinished.
    Running,
    /// All tasks are done, and none failed.
    Finished,
    /// At least one task failed.
    Erred,
    /// It ended before all of its tasks were done: they were cancelled, the client's program was
    /// interrupted, or the scheduler closed.
    Cancelled,
}

impl From<ComputationState> for State {
    fn from(state: ComputationState) -> Self {
        match state {
            ComputationState::Running => Self::Running,
            ComputationState::Finished => Self::Finished,
            ComputationState::Erred => Self::Erred,
            ComputationState::Cancelled => Self::Cancelled,
        }
    }
}
