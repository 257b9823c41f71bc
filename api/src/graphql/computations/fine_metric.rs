//! Fine performance metrics: the time that tasks spent on each activity, and other values that Dask
//! counts.

use std::sync::Arc;

use async_graphql::{Object, SimpleObject};
use entity::{cluster, ids::ClusterId};

use super::{
    span::{active_until, validate_count},
    span_loaders::{
        AllSpansKey, ClusterFineMetricsKey, SpanFineMetricsKey, SpanSet, SpanTotalsKey, ThreadHistoryKey,
    },
};
use crate::{
    blocking_work::run_blocking,
    domain::{
        fine_metric::Table,
        span::{self, Spans},
    },
    graphql::engine::{
        error::ApiError,
        projection::{InlineList, inline_members},
        scalar::BigInt,
        scope::{AccountScope, QuotaKind},
    },
    store::TimeRange,
};

/// The default number of rows in one response.
const DEFAULT_ROWS: i32 = 1_000;

/// The maximum number of rows in one response.
const MAX_ROWS: i32 = 5_000;

/// The filter and the limit of the returned values.
pub(crate) struct FineMetricArguments {
    pub(crate) unit: Option<String>,
    pub(crate) first: Option<i32>,
}

/// The spans that fine performance metrics belong to. They determine the idle time.
pub(crate) enum MetricSpans {
    /// All spans of the cluster, and the metrics that belong to no span. The spans are read only for
    /// fields that need them.
    Cluster,
    /// The given spans.
    Spans(Arc<Spans>),
    /// A span without its descendants. Its idle time is not defined.
    SpanAlone,
}

/// Fine performance metrics, summed over spans.
pub(crate) struct FineMetrics {
    scope: AccountScope,
    cluster: ClusterId,
    table: Arc<Table>,
    spans: MetricSpans,
    unit: Option<String>,
    first: usize,
}

impl FineMetrics {
    /// Returns the metrics of all spans of a cluster and those that belong to no span, or only those of spans
    /// whose first tasks arrived in a period; `None` if there are none.
    pub(crate) async fn load_for_cluster(
        scope: &AccountScope,
        row: &cluster::Model,
        enqueued_in: TimeRange,
        arguments: FineMetricArguments,
    ) -> Result<Option<Self>, ApiError> {
        let cluster = row.id;
        if enqueued_in != (None, None) {
            let all_spans = scope.loader.load_one(AllSpansKey(cluster)).await?.unwrap_or_default();
            let spans = Arc::new(all_spans.enqueued_in(enqueued_in));
            scope.charge(QuotaKind::FineMetrics, spans.len())?;
            let found = scope.loader.load_one(SpanFineMetricsKey(SpanSet::new(cluster, &spans))).await?;
            let Some(table) = found.filter(|table| !table.is_empty()) else { return Ok(None) };
            return Self::new(scope, cluster, table, MetricSpans::Spans(spans), arguments).map(Some);
        }
        let Some(table) = scope.loader.load_one(ClusterFineMetricsKey::from(row)).await? else {
            return Ok(None);
        };
        scope.charge(QuotaKind::FineMetrics, table.spans_added())?;
        Self::new(scope, cluster, table, MetricSpans::Cluster, arguments).map(Some)
    }

    pub(crate) fn new(
        scope: &AccountScope,
        cluster: ClusterId,
        table: Arc<Table>,
        spans: MetricSpans,
        arguments: FineMetricArguments,
    ) -> Result<Self, ApiError> {
        let FineMetricArguments { unit, first } = arguments;
        let first = validate_count("first", first.unwrap_or(DEFAULT_ROWS), MAX_ROWS)?;
        Ok(Self { scope: scope.clone(), cluster, table, spans, unit, first })
    }
}

/// Fine performance metrics, summed. Contexts, activities and units are not a fixed set: versions of
/// Dask and user-defined metrics add others.
#[Object]
impl FineMetrics {
    /// The units that occur, regardless of the argument `unit`: `seconds`, `bytes`, `count` or others.
    async fn units(&self) -> Vec<&str> {
        self.table.units().into_iter().collect()
    }

    /// The values, ordered by unit and then by value, the largest first.
    async fn rows(&self) -> InlineList<FineMetric> {
        let rows = self.table.rows(self.unit.as_deref()).into_iter().take(self.first);
        let rows = rows.map(|row| FineMetric {
            context: row.label.context,
            function: row.label.function,
            activity: row.label.activity,
            unit: row.label.unit,
            value: row.value,
            span_attributable: row.span_attributable,
        });
        InlineList(rows.collect())
    }

    /// The number of values in the unit given by the `unit` argument, or in all units.
    async fn row_count(&self) -> BigInt {
        BigInt(i64::try_from(self.table.rows(self.unit.as_deref()).len()).unwrap_or(i64::MAX))
    }

    /// The sum of all values in the unit given by the `unit` argument. Null if no unit is given, because
    /// values in different units cannot be added.
    async fn total(&self) -> Option<f64> {
        let unit = self.unit.as_deref()?;
        // An empty sum is -0.0; adding 0.0 makes it 0.0.
        Some(self.table.rows(Some(unit)).iter().map(|row| row.value).sum::<f64>() + 0.0)
    }

    /// The thread time in which the cluster did not execute these tasks while at least one of the spans
    /// was active, in seconds. Dask calls it "idle or other spans". Never negative. Null if the
    /// cluster's threads or its metrics are unknown, and for a span without its descendants.
    async fn idle_seconds(&self) -> Result<Option<f64>, ApiError> {
        let spans = match &self.spans {
            MetricSpans::Cluster => self.scope.loader.load_one(AllSpansKey(self.cluster)).await?,
            MetricSpans::Spans(spans) => Some(Arc::clone(spans)),
            MetricSpans::SpanAlone => None,
        };
        match spans {
            Some(spans) => idle_seconds(&self.scope, self.cluster, spans, &self.table).await,
            None => Ok(None),
        }
    }
}

/// One value of Dask's fine performance metrics: the seconds, bytes or count of one activity of one function.
#[derive(SimpleObject)]
pub(crate) struct FineMetric {
    /// The part of Dask that measured the value: `execute`, `p2p`, `gather-dep`, `get-data`,
    /// `memory-monitor` or others.
    context: String,
    /// The function or operation, as in `TaskGroup.prefix`. For the context `p2p`, the part of the
    /// shuffle. Null if the value belongs to no function.
    function: Option<String>,
    /// The measured activity: `thread-cpu`, `disk-read` or others.
    activity: String,
    /// The unit of the value: `seconds`, `bytes`, `count` or others.
    unit: String,
    /// The value, in `unit`.
    value: f64,
    /// True if the value belongs to spans. Work that a worker does for no particular task, such as
    /// fetching data, belongs only to the cluster.
    span_attributable: bool,
}

inline_members! { FineMetric: context, function, activity, unit, value, span_attributable }

/// Returns the cluster's threads integrated over the time in which the spans were active, in seconds;
/// `None` if the threads are unknown.
pub(crate) async fn thread_seconds(
    scope: &AccountScope,
    cluster: ClusterId,
    spans: Arc<Spans>,
) -> Result<Option<f64>, ApiError> {
    let Some(threads) = scope.loader.load_one(ThreadHistoryKey(cluster)).await? else { return Ok(None) };
    let until = active_until(scope, cluster).await?;
    let seconds = move || span::thread_seconds(&spans.active(until), &threads);
    Ok(run_blocking(seconds).await)
}

/// Returns the thread time that was not spent executing the spans' tasks, in seconds; `None` if either
/// time is unknown. If a worker died before it reported its metrics, the tasks' compute time exceeds the
/// execute time of the metrics. The larger of the two counts, so that this difference is not idle time.
pub(crate) async fn idle_seconds(
    scope: &AccountScope,
    cluster: ClusterId,
    spans: Arc<Spans>,
    table: &Table,
) -> Result<Option<f64>, ApiError> {
    let Some(execute_seconds) = table.execute_seconds() else { return Ok(None) };
    let sums = scope.loader.load_one(SpanTotalsKey(SpanSet::new(cluster, &spans))).await?.unwrap_or_default();
    let offered_seconds = thread_seconds(scope, cluster, spans).await?;
    let busy_seconds = execute_seconds.max(sums.compute_seconds);
    Ok(offered_seconds.map(|offered_seconds| span::idle_seconds(offered_seconds, busy_seconds)))
}
