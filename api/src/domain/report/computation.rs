//! What was submitted at once.

use entity::{
    computation::State,
    ids::{ComputationId, SpanId, TaskGroupId},
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    super::bounded::{List, UnixTime},
    code::{CodeFrame, CodeStacks},
};

/// One of Dask's `Computation` objects.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ComputationReport {
    /// Dask's own identifier.
    #[schema(value_type = uuid::Uuid)]
    pub id: ComputationId,
    /// When the graph arrived.
    pub started_at: UnixTime,
    /// When its last task finished; absent while it runs.
    #[serde(default)]
    pub stopped_at: Option<UnixTime>,
    /// How far it is.
    pub state: ComputationState,
    /// The task groups it uses, as far as known.
    #[serde(default)]
    #[schema(value_type = Vec<uuid::Uuid>, max_items = 5_000)]
    pub task_group_ids: List<TaskGroupId, 5_000>,
    /// The spans its task groups belong to.
    #[serde(default)]
    #[schema(value_type = Vec<uuid::Uuid>, max_items = 100)]
    pub span_ids: List<SpanId, 100>,
    /// Where the client's code called Dask, one stack per call, the outermost frame first.
    #[serde(default)]
    #[schema(value_type = Vec<Vec<CodeFrame>>, max_items = 20)]
    pub code: CodeStacks,
}

/// How far a computation is.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComputationState {
    /// Some tasks are unfinished.
    Running,
    /// All tasks are done, none erred.
    Finished,
    /// At least one task erred.
    Erred,
    /// It ended before all of its tasks were done: they were cancelled, its program was interrupted, or the
    /// scheduler closed.
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
