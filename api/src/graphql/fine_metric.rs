//! Fine performance metrics: what tasks spent their time on, and other things Dask counts.

use std::sync::Arc;

use async_graphql::{Object, SimpleObject};
use entity::ids::ClusterId;

use super::{
    error::ApiError,
    in_place::{Items, in_place_members},
    scalar::BigInt,
    scope::{AccountScope, Costly},
    span::{now_of, range},
    span_loaders::{AllSpansOf, ClusterFineMetrics, ThreadsOf},
};
use crate::{
    blocking::blocking,
    domain::{
        fine_metric::Table,
        span::{self, Spans},
    },
};

/// Rows of one answer, unless the query says.
const DEFAULT_ROWS: i32 = 1_000;

/// Rows of one answer at the most.
const MAX_ROWS: i32 = 5_000;

/// Which values are wanted.
pub(super) struct FineMetricArguments {
    pub(super) unit: Option<String>,
    pub(super) first: Option<i32>,
}

/// What fine performance metrics are of.
pub(super) enum Of {
    /// All spans of the cluster, which are read only for what needs them, and what belongs to none.
    Cluster,
    /// These spans.
    Spans(Arc<Spans>),
    /// A span without those below it, of which idle time cannot be told.
    SpanAlone,
}

/// Fine performance metrics.
pub(super) struct FineMetrics {
    scope: AccountScope,
    cluster: ClusterId,
    table: Arc<Table>,
    of: Of,
    unit: Option<String>,
    first: usize,
}

impl FineMetrics {
    /// Those of all spans of a cluster and of what belongs to none; `None` when there are none.
    pub(super) async fn of_cluster(
        scope: &AccountScope,
        cluster: ClusterId,
        arguments: FineMetricArguments,
    ) -> Result<Option<Self>, ApiError> {
        let Some(table) = scope.loader.load_one(ClusterFineMetrics(cluster)).await? else { return Ok(None) };
        scope.take(Costly::FineMetrics, table.packed())?;
        Self::new(scope, cluster, table, Of::Cluster, arguments).map(Some)
    }

    pub(super) fn new(
        scope: &AccountScope,
        cluster: ClusterId,
        table: Arc<Table>,
        of: Of,
        arguments: FineMetricArguments,
    ) -> Result<Self, ApiError> {
        let FineMetricArguments { unit, first } = arguments;
        let first = range("first", first.unwrap_or(DEFAULT_ROWS), MAX_ROWS)?;
        Ok(Self { scope: scope.clone(), cluster, table, of, unit, first })
    }
}

/// Fine performance metrics, summed. Neither contexts nor activities nor units are fixed: Dask's versions and
/// users' own metrics add others.
#[Object]
impl FineMetrics {
    /// The units that occur, whichever was asked for: `seconds`, `bytes`, `count`, or others.
    async fn units(&self) -> Vec<&str> {
        self.table.units().into_iter().collect()
    }

    /// The values: by unit, the largest first.
    async fn rows(&self) -> Items<FineMetric> {
        let rows = self.table.rows(self.unit.as_deref()).into_iter().take(self.first);
        let rows = rows.map(|row| FineMetric {
            context: row.label.context,
            function: row.label.function,
            activity: row.label.activity,
            unit: row.label.unit,
            value: row.value,
            span_attributable: row.span_attributable,
        });
        Items(rows.collect())
    }

    /// How many values there are in the unit that was asked for, or in all.
    async fn row_count(&self) -> BigInt {
        BigInt(i64::try_from(self.table.rows(self.unit.as_deref()).len()).unwrap_or(i64::MAX))
    }

    /// The sum of all values of the unit that was asked for, in that unit; null when none was, since units do not
    /// add up.
    async fn total(&self) -> Option<f64> {
        let unit = self.unit.as_deref()?;
        // The sum of nothing is -0.0.
        Some(self.table.rows(Some(unit)).iter().map(|row| row.value).sum::<f64>() + 0.0)
    }

    /// Thread-seconds that were not spent executing these tasks while at least one of the spans was active: what
    /// Dask calls "idle or other spans". Never negative. Null when the cluster's threads or its metrics are not
    /// known, and for the values of a span without those below it.
    async fn idle_seconds(&self) -> Result<Option<f64>, ApiError> {
        let spans = match &self.of {
            Of::Cluster => self.scope.loader.load_one(AllSpansOf(self.cluster)).await?,
            Of::Spans(spans) => Some(Arc::clone(spans)),
            Of::SpanAlone => None,
        };
        match spans {
            Some(spans) => idle_seconds(&self.scope, self.cluster, spans, &self.table).await,
            None => Ok(None),
        }
    }
}

/// One fine performance metric.
#[derive(SimpleObject)]
pub(super) struct FineMetric {
    /// Where in Dask it was measured: `execute`, `p2p`, `gather-dep`, `get-data`, `memory-monitor`, or others.
    context: String,
    /// The function or operation, as task groups' `prefix`; for `p2p` where in it. Null when it belongs to none.
    function: Option<String>,
    /// What was done: `thread-cpu`, `disk-read`, or others.
    activity: String,
    /// What the value counts: `seconds`, `bytes`, `count`, or others.
    unit: String,
    /// The value, in `unit`.
    value: f64,
    /// Whether it belongs to spans. What a worker does for no task in particular, such as fetching data, only
    /// belongs to the cluster.
    span_attributable: bool,
}

in_place_members! { FineMetric: context, function, activity, unit, value, span_attributable }

/// The threads of a cluster integrated over the time some spans were active; `None` when they are not known.
pub(super) async fn thread_seconds(
    scope: &AccountScope,
    cluster: ClusterId,
    spans: Arc<Spans>,
) -> Result<Option<f64>, ApiError> {
    let Some(threads) = scope.loader.load_one(ThreadsOf(cluster)).await? else { return Ok(None) };
    let now = now_of(scope, cluster).await?;
    let seconds = move || span::thread_seconds(&spans.active(now), &threads);
    Ok(blocking(seconds).await)
}

/// What the threads did not spend executing the spans' tasks; `None` when one of the two is not known.
pub(super) async fn idle_seconds(
    scope: &AccountScope,
    cluster: ClusterId,
    spans: Arc<Spans>,
    table: &Table,
) -> Result<Option<f64>, ApiError> {
    let Some(execute) = table.execute_seconds() else { return Ok(None) };
    let offered = thread_seconds(scope, cluster, spans).await?;
    Ok(offered.map(|offered| span::idle_seconds(offered, execute)))
}
