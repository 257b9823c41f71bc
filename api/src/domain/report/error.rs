//! Tasks that erred, and failures of Dask itself.

use entity::ids::{ComputationId, ErrorOccurrenceId, SpanId, TaskGroupId, WorkerId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::bounded::{Count, Text, UnixTime};

/// One task that itself erred.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ErrorReport {
    /// A UUIDv7 the reporter made for it.
    #[schema(value_type = uuid::Uuid)]
    pub id: ErrorOccurrenceId,
    /// When the scheduler learnt of it.
    pub at: UnixTime,
    /// The task's key as text.
    pub key: Text<4_096>,
    /// The task's group, if it is known.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub task_group_id: Option<TaskGroupId>,
    /// The computation the group belonged to, if it is known.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub computation_id: Option<ComputationId>,
    /// The span of the group, if it is known.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub span_id: Option<SpanId>,
    /// Whose failure it is.
    #[serde(default)]
    pub origin: ErrorOrigin,
    /// Attempts that failed before this one and were tried again.
    #[serde(default)]
    pub retries: Count,
    /// The exception's class, if it can be told.
    #[serde(default, rename = "type")]
    pub exception_type: Option<Text<256>>,
    /// The exception's text as Dask gives it.
    pub message: Text<20_000>,
    /// The traceback as Dask gives it; empty when there is none.
    pub traceback: Text<100_000>,
    /// Address of the worker it happened on, if it is known.
    #[serde(default)]
    pub worker: Option<Text<2_048>>,
    /// That worker, if it is one of those reported.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub worker_id: Option<WorkerId>,
}

/// Whose failure an error is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorOrigin {
    /// The computation's own code raised it.
    #[default]
    User,
    /// Dask raised it: a worker was killed, a state was invalid.
    Dask,
}

impl From<ErrorOrigin> for entity::error_group::Origin {
    fn from(origin: ErrorOrigin) -> Self {
        match origin {
            ErrorOrigin::User => Self::User,
            ErrorOrigin::Dask => Self::Dask,
        }
    }
}
