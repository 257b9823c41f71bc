//! What Dask's statistical profiler saw.

use entity::ids::ProfileId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::bounded::{Count, List, Text, UnixTime};

/// One window of the statistical profile, merged over some workers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ProfileReport {
    /// A UUIDv7 the reporter made.
    #[schema(value_type = uuid::Uuid)]
    pub id: ProfileId,
    /// Where the window begins.
    pub started_at: UnixTime,
    /// Where it ends.
    pub stopped_at: UnixTime,
    /// How many workers were asked.
    pub workers: Count,
    /// Samples in all.
    pub samples: Count,
    /// The lines of code that occur.
    #[schema(value_type = Vec<ProfileFrame>, max_items = 20_000)]
    pub frames: List<ProfileFrame, 20_000>,
    /// The tree, parents before their children.
    #[schema(value_type = Vec<ProfileNode>, max_items = 50_000)]
    pub nodes: List<ProfileNode, 50_000>,
}

/// A line of code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, ToSchema)]
pub struct ProfileFrame {
    /// The file.
    pub file: Text<2_048>,
    /// The function.
    pub function: Text<1_024>,
    /// The line's number.
    pub line: Count,
    /// The line; absent when code is not sent.
    #[serde(default)]
    pub text: Option<Text<2_000>>,
}

/// A node of the tree as `[parent, frame, self, total]`: indexes into `nodes` (-1 for a root) and `frames`,
/// samples in which it was innermost, and samples it was part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
pub struct ProfileNode(pub i64, pub Count, pub Count, pub Count);
