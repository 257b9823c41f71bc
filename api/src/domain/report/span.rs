//! Spans, which users define to name their work, and Dask's fine performance metrics of each.

use entity::ids::SpanId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    super::validated::{Count, Finite, List, Text, UnixTime},
    code::{CodeFrame, CodeStacks},
};

/// A span, one of Dask's `Span` objects. The values exclude its child spans.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct SpanReport {
    /// Dask's identifier of the span.
    #[schema(value_type = uuid::Uuid)]
    pub id: SpanId,
    /// Its number among the cluster's spans, in the order of their creation, from 1.
    /// Absent if the reporter does not count them.
    #[serde(default)]
    pub number: Option<Count>,
    /// The parent span. Absent for an outermost span.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub parent_id: Option<SpanId>,
    /// The tags from the outermost span to this span.
    #[schema(value_type = Vec<String>, max_items = 64)]
    pub path: List<Text<512>, 64>,
    /// The time at which its first tasks arrived.
    pub enqueued_at: UnixTime,
    /// The time at which the first of its finished tasks started. Absent before that.
    #[serde(default)]
    pub started_at: Option<UnixTime>,
    /// The time at which its last task stopped. Absent while it is not done.
    #[serde(default)]
    pub stopped_at: Option<UnixTime>,
    /// True if all of its tasks are done.
    pub done: bool,
    /// The types of the collections that it computed.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 100)]
    pub collections: List<Text<256>, 100>,
    /// The places in the client's code that called Dask: one stack per call, the outermost frame first.
    #[serde(default)]
    #[schema(value_type = Vec<Vec<CodeFrame>>, max_items = 20)]
    pub code: CodeStacks,
}

/// All fine performance metrics of one span, or of work that Dask attributes to no span.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FineMetricsReport {
    /// The span. Absent for the contexts without a span: `gather-dep`, `get-data`, `memory-monitor`.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub span_id: Option<SpanId>,
    /// All values, cumulative.
    #[schema(value_type = Vec<FineMetricCell>, max_items = 5_000)]
    pub cells: List<FineMetricCell, 5_000>,
}

/// A fine performance metric as `[context, function or null, activity, unit, value]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, ToSchema)]
pub struct FineMetricCell(
    pub Text<1_024>,
    pub Option<Text<1_024>>,
    pub Text<1_024>,
    pub Text<1_024>,
    pub Finite,
);
