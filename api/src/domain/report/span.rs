//! Spans: what users name their work, and the fine metrics Dask keeps for each.

use entity::ids::SpanId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    super::bounded::{Finite, List, Text, UnixTime},
    code::{CodeFrame, CodeStacks},
};

/// One of Dask's `Span` objects. Values are its own, without those of the spans below it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SpanReport {
    /// Dask's own identifier.
    #[schema(value_type = uuid::Uuid)]
    pub id: SpanId,
    /// The span it lies in.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub parent_id: Option<SpanId>,
    /// The tags from the outermost span to this one's own.
    #[schema(value_type = Vec<String>, max_items = 64)]
    pub path: List<Text<512>, 64>,
    /// When its first tasks arrived.
    pub enqueued_at: UnixTime,
    /// When the first of its finished tasks started; absent before.
    #[serde(default)]
    pub started_at: Option<UnixTime>,
    /// When its last task stopped; absent while it is not done.
    #[serde(default)]
    pub stopped_at: Option<UnixTime>,
    /// Whether all of its tasks are done.
    pub done: bool,
    /// Types of the collections it computed.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 100)]
    pub collections: List<Text<256>, 100>,
    /// Where the client's code called Dask, one stack per call, the outermost frame first.
    #[serde(default)]
    #[schema(value_type = Vec<Vec<CodeFrame>>, max_items = 20)]
    pub code: CodeStacks,
}

/// All fine performance metrics of one span, or of what Dask attributes to no span.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FineMetricsReport {
    /// The span; absent for what belongs to none: `gather-dep`, `get-data`, `memory-monitor`.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub span_id: Option<SpanId>,
    /// Every value, cumulative.
    #[schema(value_type = Vec<FineMetricCell>, max_items = 5_000)]
    pub cells: List<FineMetricCell, 5_000>,
}

/// One fine metric as `[context, function or null, activity, unit, value]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, ToSchema)]
pub struct FineMetricCell(
    pub Text<1_024>,
    pub Option<Text<1_024>>,
    pub Text<1_024>,
    pub Text<1_024>,
    pub Finite,
);
