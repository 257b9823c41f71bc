//! Errors of tasks, and failures of Dask itself.

use entity::ids::{ComputationId, ErrorOccurrenceId, SpanId, TaskGroupId, WorkerId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::validated::{Count, List, Text, UnixTime};

/// A task that failed by an exception of its own.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ErrorReport {
    /// A UUIDv7 that the reporter generated.
    #[schema(value_type = uuid::Uuid)]
    pub id: ErrorOccurrenceId,
    /// Its number among the cluster's errors, in the order in which the reporter saw them, from 1.
    /// Absent if the reporter does not count them.
    #[serde(default)]
    pub number: Option<Count>,
    /// The time at which the scheduler was notified.
    pub at: UnixTime,
    /// The task's key in text form.
    pub key: Text<4_096>,
    /// The task group, if it is known.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub task_group_id: Option<TaskGroupId>,
    /// The computation of the task group, if it is known.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub computation_id: Option<ComputationId>,
    /// The span of the task group, if it is known.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub span_id: Option<SpanId>,
    /// The origin of the failure. `user` without type, message and traceback counts as `unknown`.
    #[serde(default)]
    pub origin: ErrorOrigin,
    /// The number of failed attempts that were retried before this one.
    #[serde(default)]
    pub retries: Count,
    /// The class of the exception, if it is known.
    #[serde(default, rename = "type")]
    pub exception_type: Option<Text<256>>,
    /// The text of the exception, as provided by Dask.
    pub message: Text<20_000>,
    /// The traceback, as provided by Dask. Empty if there is none.
    pub traceback: Text<100_000>,
    /// The source around the failing line. Absent if it is unknown, or if code is not sent.
    #[serde(default)]
    pub source: Option<SourceExcerpt>,
    /// The address of the worker, if it is known.
    #[serde(default)]
    pub worker: Option<Text<2_048>>,
    /// The worker, if it is one of the reported workers.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub worker_id: Option<WorkerId>,
}

impl ErrorReport {
    /// Returns the origin as far as it is known. Reporters of all versions send `user` as a fallback.
    #[must_use]
    pub fn origin(&self) -> ErrorOrigin {
        let exception = self.exception_type.as_ref().map_or("", Text::as_str);
        let says_nothing =
            [exception, self.message.as_str(), self.traceback.as_str()].iter().all(|text| text.is_empty());
        if self.origin == ErrorOrigin::User && says_nothing { ErrorOrigin::Unknown } else { self.origin }
    }
}

/// Lines of a source file around the line at which a task failed.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SourceExcerpt {
    /// The path of the file on the worker.
    pub file: Text<2_048>,
    /// The number of the failing line, from 1.
    pub line: Count,
    /// The number of the first of `lines`.
    pub first_line: Count,
    /// The texts of the lines, without line ends.
    #[schema(value_type = Vec<String>, max_items = 11)]
    pub lines: List<Text<2_000>, 11>,
}

/// The origin of an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorOrigin {
    /// The user's code raised it.
    #[default]
    User,
    /// Dask raised it: a worker was killed, or a state was invalid.
    Dask,
    /// The origin is unknown.
    Unknown,
}

impl From<ErrorOrigin> for entity::error_group::Origin {
    fn from(origin: ErrorOrigin) -> Self {
        match origin {
            ErrorOrigin::User => Self::User,
            ErrorOrigin::Dask => Self::Dask,
            ErrorOrigin::Unknown => Self::Unknown,
        }
    }
}
