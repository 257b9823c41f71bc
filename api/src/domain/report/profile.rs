//! Data of Dask's statistical profiler.

use entity::ids::{ProfileId, WorkerId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::validated::{Count, List, Text, UnixTime};

/// A time window of the statistical profile, merged over some workers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ProfileReport {
    /// A UUIDv7 that the reporter generated.
    #[schema(value_type = uuid::Uuid)]
    pub id: ProfileId,
    /// The start of the window.
    pub started_at: UnixTime,
    /// The end of the window.
    pub stopped_at: UnixTime,
    /// The number of workers that were queried.
    pub workers: Count,
    /// The total number of samples.
    pub samples: Count,
    /// The lines of code that occur in the profile.
    #[schema(value_type = Vec<ProfileFrame>, max_items = 20_000)]
    pub frames: List<ProfileFrame, 20_000>,
    /// The nodes of the call tree. Parents precede their children.
    #[schema(value_type = Vec<ProfileNode>, max_items = 50_000)]
    pub nodes: List<ProfileNode, 50_000>,
    /// The functions whose tasks were sampled, each with its outermost nodes. Absent if they are unknown.
    #[serde(default)]
    #[schema(value_type = Vec<ProfileFunction>, max_items = 100)]
    pub functions: List<ProfileFunction, 100>,
    /// The sampled workers, each with its outermost nodes. Absent if the reporter does not tell them apart.
    #[serde(default)]
    #[schema(value_type = Vec<ProfileWorker>, max_items = 100)]
    pub by_worker: List<ProfileWorker, 100>,
}

/// The part of a profile that was sampled in tasks of one function.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ProfileFunction {
    /// The function or operation: the `prefix` of a task group.
    pub prefix: Text<4_096>,
    /// The indices of its outermost nodes in `nodes`.
    #[schema(value_type = Vec<i64>, max_items = 1_000)]
    pub roots: List<Count, 1_000>,
}

/// The part of a profile that was sampled on one worker.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ProfileWorker {
    /// The worker.
    #[schema(value_type = uuid::Uuid)]
    pub worker: WorkerId,
    /// The indices of its outermost nodes in `nodes`.
    #[schema(value_type = Vec<i64>, max_items = 1_000)]
    pub roots: List<Count, 1_000>,
}

/// A line of code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, ToSchema)]
pub struct ProfileFrame {
    /// The file.
    pub file: Text<2_048>,
    /// The function.
    pub function: Text<1_024>,
    /// The line number.
    pub line: Count,
    /// The text of the line. Absent if code is not sent.
    #[serde(default)]
    pub text: Option<Text<2_000>>,
}

/// A node of the call tree as `[parent, frame, self, total]`: the index into `nodes` (-1 for a root), the
/// index into `frames`, the number of samples in which it was innermost, and the number of samples that
/// contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct ProfileNode(pub i64, pub Count, pub Count, pub Count);
