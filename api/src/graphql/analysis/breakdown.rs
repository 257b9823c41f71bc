//! Breakdowns of fine performance metrics: the resources that selected work used, grouped by any
//! dimensions.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use async_graphql::{Enum, Object, SimpleObject, dataloader::Loader};
use entity::{cluster::Model, ids::ClusterId};

use super::analysis_scope::WorkScope;
use crate::{
    blocking_work::run_blocking,
    domain::{
        breakdown::{
            self, AvailableThreadTime, Breakdown, BreakdownQuery, Dimension, RowKey, SpanFilter,
            WorkSelection,
        },
        fine_metric::SECONDS,
        fixed_point::Millionths,
        span::{Spans, thread_milliseconds},
    },
    graphql::{
        access::user::User,
        clusters::cluster::Cluster,
        computations::span::validate_count,
        engine::{
            error::ApiError,
            json::write_enums_by_name,
            loaders::StoreReader,
            projection::{Inline, InlineList, inline_fields, inline_members},
            scalar::BigInt,
            scope::AccountScope,
        },
    },
    store::{AccountStore, AnalysisSpan, StoreError},
};

/// The default number of rows.
const DEFAULT_ROWS: i32 = 1_000;

/// The maximum number of rows.
const MAX_ROWS: i32 = 5_000;

/// A breakdown, and the number of rows read for it.
pub(crate) struct BreakdownResult {
    pub(crate) table: breakdown::Table,
    /// The number of spans read.
    pub(crate) spans: usize,
    /// The number of spans whose metrics were read.
    pub(crate) metrics: usize,
}

/// Returns the breakdown of the selected spans of several clusters.
pub(crate) async fn break_down_clusters(
    store: &AccountStore,
    clusters: &[Model],
    span_filter: SpanFilter,
    query: BreakdownQuery,
) -> Result<BreakdownResult, StoreError> {
    let _permit = store.acquire_analysis_permit().await?;
    let ids: Vec<ClusterId> = clusters.iter().map(|row| row.id).collect();
    let only_selected_spans = span_filter.is_some();
    let is_thread_time = query.unit == SECONDS && query.functions.is_none();
    let groups_by_span =
        [Dimension::Span, Dimension::Tag].iter().any(|dimension| query.by.contains(dimension));
    let spans = if only_selected_spans || is_thread_time || groups_by_span {
        Some(store.analysis_spans(&ids, span_filter).await?)
    } else {
        None
    };
    let threads = if is_thread_time { store.threads_over_time(&ids).await? } else { HashMap::new() };
    let lives: Vec<ClusterLifetime> = clusters.iter().map(ClusterLifetime::from_row).collect();
    let users = clusters.iter().map(|row| (row.id, row.user_id)).collect();
    let (work, thread_time) = run_blocking(move || {
        let thread_time = spans.as_ref().filter(|_| is_thread_time);
        let thread_time =
            thread_time.map(|spans| available_thread_time(&lives, spans, &threads, only_selected_spans));
        let paths = |spans: Vec<AnalysisSpan>| {
            spans.into_iter().map(|span| ((span.cluster, span.times.id), span.path)).collect()
        };
        let work = WorkSelection { clusters: users, spans: spans.map(paths), only_selected_spans };
        (Arc::new(work), thread_time.unwrap_or_default())
    })
    .await;
    let (breakdown, metrics) = store.break_down(Arc::clone(&work), Breakdown::new(query)).await?;
    let spans = work.spans.as_ref().map_or(0, HashMap::len);
    let table = run_blocking(move || breakdown.table(&work, &thread_time)).await;
    Ok(BreakdownResult { table, spans, metrics })
}

/// The lifetime of a cluster, as far as it is known.
struct ClusterLifetime {
    cluster: ClusterId,
    /// The end of activity that is not finished, in milliseconds. No activity is assumed after the last
    /// report.
    until: i64,
    /// The thread time that the cluster offered in total, in seconds. `None` if it had no tasks.
    offered_seconds: Option<f64>,
}

impl ClusterLifetime {
    fn from_row(row: &Model) -> Self {
        Self {
            cluster: row.id,
            until: row.closed_at.unwrap_or(row.reported_at).timestamp_millis(),
            offered_seconds: (row.total_tasks > 0).then_some(row.total_thread_seconds),
        }
    }
}

/// Returns the thread time that each cluster offered while one of its spans was active.
fn available_thread_time(
    lives: &[ClusterLifetime],
    spans: &[AnalysisSpan],
    threads: &HashMap<ClusterId, Vec<(i64, i64)>>,
    only_selected_spans: bool,
) -> HashMap<ClusterId, AvailableThreadTime> {
    let mut spans_by_cluster: HashMap<ClusterId, Vec<_>> = HashMap::new();
    for span in spans {
        spans_by_cluster.entry(span.cluster).or_default().push(span.times);
    }
    let mut thread_time_of = |life: &ClusterLifetime| match spans_by_cluster.remove(&life.cluster) {
        Some(spans) => {
            let active = Spans::new(spans).active(life.until);
            let history = threads.get(&life.cluster).map_or(&[][..], Vec::as_slice);
            let milliseconds = thread_milliseconds(&active, history);
            milliseconds.map_or(AvailableThreadTime::Unknown, |time| {
                AvailableThreadTime::Known(Millionths::of_thousandths(time))
            })
        }
        // Releases of Dask without spans report no metrics either.
        None => match life.offered_seconds.filter(|_| !only_selected_spans) {
            Some(seconds) => AvailableThreadTime::WholeLife(Millionths::of(seconds)),
            None => AvailableThreadTime::NoSuchWork,
        },
    };
    lives.iter().map(|life| (life.cluster, thread_time_of(life))).collect()
}

/// A dimension by which fine performance metrics are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "FineMetricDimension", remote = "Dimension")]
pub(crate) enum FineMetricDimension {
    /// The function or operation.
    Function,
    /// The activity: `thread-cpu`, `disk-read`, or others.
    Activity,
    /// The part of Dask that measured the value: `execute`, `p2p`, `gather-dep`, or others.
    Context,
    /// The path of the span's tags. All spans with the same tags are one group.
    Span,
    /// Each tag on that path. A value counts for each of its tags, so these rows do not add up.
    Tag,
    /// The cluster.
    Cluster,
    /// The owner of the cluster: the user with whose credentials it reports.
    User,
}

/// The part of the measurement to which a value belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(name = "FineMetricPart", remote = "breakdown::ValueKind")]
pub(crate) enum FineMetricPart {
    /// A value measured while threads executed tasks: the context `execute`.
    Tasks,
    /// A value measured outside of tasks, such as transfers between workers and the memory monitor. These
    /// seconds do not count as thread time. Those of `p2p` also count in `TASKS`.
    OutsideTasks,
    /// The thread-seconds without a task of this work while at least one of its spans was active. Dask
    /// calls this "idle or other spans".
    Idle,
    /// A correction below 0: the measured task time that exceeds the thread time, for example because of
    /// custom metrics, is subtracted so that the rows add up.
    Overcounted,
    /// The thread-seconds of clusters without measurements: while the work was present, or over the
    /// cluster's whole life if it does not report spans.
    NotCollected,
}

write_enums_by_name!(FineMetricPart);

/// Fine performance metrics of selected work, summed and grouped by dimensions.
pub(crate) struct FineMetricTable {
    scope: AccountScope,
    clusters: usize,
    table: breakdown::Table,
    first: usize,
}

impl FineMetricTable {
    pub(crate) async fn find(
        scope: &AccountScope,
        work: WorkScope,
        by: &[FineMetricDimension],
        unit: String,
        first: Option<i32>,
    ) -> Result<Self, ApiError> {
        let first = validate_count("first", first.unwrap_or(DEFAULT_ROWS), MAX_ROWS)?;
        let work = work.find(scope, "scope").await?;
        let by = by.iter().map(|dimension| (*dimension).into()).collect();
        let table = work.load_table(scope, by, unit).await?;
        Ok(Self { scope: scope.clone(), clusters: work.clusters.len(), table, first })
    }
}

/// Fine performance metrics of selected work, summed and grouped by dimensions. In seconds, the time of
/// tasks and the idle time of threads add up exactly to the threads integrated over the time in which
/// the work was present.
#[Object]
impl FineMetricTable {
    /// The unit of the values.
    async fn unit(&self) -> &str {
        &self.table.unit
    }

    /// All units that occur, regardless of the requested one: `seconds`, `bytes`, `count`, or others.
    async fn units(&self) -> Vec<&str> {
        self.table.units.iter().map(String::as_str).collect()
    }

    /// The number of clusters in the scope.
    async fn clusters(&self) -> BigInt {
        count_value(self.clusters)
    }

    /// The number of clusters with the work but without measurements. In seconds, their time is
    /// `NOT_COLLECTED`. 0 in other units, and if functions are selected.
    async fn clusters_without_metrics(&self) -> BigInt {
        count_value(self.table.without_metrics)
    }

    /// The number of clusters with the work whose threads during that time are unknown. They have no
    /// `IDLE` part. 0 in other units, and if functions are selected.
    async fn clusters_without_threads(&self) -> BigInt {
        count_value(self.table.without_threads)
    }

    /// The sum of all rows, in `unit`. In seconds, it excludes `OUTSIDE_TASKS`; it equals the threads
    /// integrated over the time in which the work was present, if all clusters report their threads and
    /// no functions are selected.
    async fn total(&self) -> f64 {
        self.table.total.value()
    }

    /// The part of the total in which threads had no task, in thread-seconds. Null if no cluster reports
    /// its threads, if functions are selected, and in other units.
    async fn idle_seconds(&self) -> Option<f64> {
        self.table.idle.map(Millionths::value)
    }

    /// The number of rows, including those beyond `first`.
    async fn row_count(&self) -> BigInt {
        count_value(self.table.rows.len())
    }

    /// The rows, the largest value first.
    async fn rows(&self) -> InlineList<FineMetricSum> {
        let sum = |row: &breakdown::Row| FineMetricSum {
            key: Inline(BreakdownKey::new(&self.scope, row.key.clone())),
            value: row.value.value(),
            share: row.value.share_of(self.table.total).filter(|_| self.table.is_part_of_total(row.key.part)),
        };
        InlineList(self.table.rows.iter().take(self.first).map(sum).collect())
    }
}

/// One row: a sum of fine performance metrics.
#[derive(SimpleObject)]
struct FineMetricSum {
    /// The group of the row.
    key: Inline<BreakdownKey>,
    /// The value, in the table's unit.
    value: f64,
    /// The share of the table's total, from 0 to 1; below 0 for `OVERCOUNTED`. Null if the row is no
    /// part of the total, or the total is 0.
    share: Option<f64>,
}

inline_members! { FineMetricSum: value, share; key: Inline<BreakdownKey> }

/// One group of a breakdown.
#[derive(Clone)]
pub(crate) struct BreakdownKey {
    scope: AccountScope,
    key: RowKey,
}

impl BreakdownKey {
    pub(crate) fn new(scope: &AccountScope, key: RowKey) -> Self {
        Self { scope: scope.clone(), key }
    }
}

/// One group of a breakdown. A field is null if `by` does not name it, or if the group has no such
/// value.
#[Object]
impl BreakdownKey {
    /// The kind of value.
    async fn part(&self) -> FineMetricPart {
        self.key.part.into()
    }

    /// The function or operation. For `p2p`, the stage of the operation.
    async fn function(&self) -> Option<&str> {
        self.key.function.as_deref()
    }

    /// The activity.
    async fn activity(&self) -> Option<&str> {
        self.key.activity.as_deref()
    }

    /// The part of Dask that measured the value.
    async fn context(&self) -> Option<&str> {
        self.key.context.as_deref()
    }

    /// The tags from the outermost span to the innermost. Also null if the value belongs to no reported
    /// span.
    async fn path(&self) -> Option<&[String]> {
        self.key.path.as_deref()
    }

    /// One tag of the path.
    async fn tag(&self) -> Option<&str> {
        self.key.tag.as_deref()
    }

    /// The cluster.
    async fn cluster(&self) -> Result<Option<Cluster>, ApiError> {
        match self.key.cluster {
            Some(cluster) => Cluster::find(&self.scope, cluster).await,
            None => Ok(None),
        }
    }

    /// The user. Also null if the user left the account.
    async fn user(&self) -> Result<Option<User>, ApiError> {
        match self.key.user {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// True if the value belongs to spans. Work that a worker does for no particular task, such as
    /// fetching data, and idle time of threads belong only to the cluster.
    async fn span_attributable(&self) -> bool {
        self.key.span_attributable
    }
}

inline_fields! { BreakdownKey: part, function, activity, context, path, tag, span_attributable }

/// Returns a number of items in memory as a GraphQL value.
pub(crate) fn count_value(number: usize) -> BigInt {
    BigInt(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The key of the time that a cluster spent, by function and activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeByActivityKey(pub(crate) ClusterId);

impl Loader<TimeByActivityKey> for StoreReader {
    type Value = Arc<breakdown::Table>;
    type Error = Arc<StoreError>;

    async fn load(
        &self,
        keys: &[TimeByActivityKey],
    ) -> Result<HashMap<TimeByActivityKey, Self::Value>, Self::Error> {
        let ids: Vec<ClusterId> = keys.iter().map(|key| key.0).collect();
        let clusters = self.0.clusters_by_id(&ids).await?;
        let by = BTreeSet::from([Dimension::Cluster, Dimension::Function, Dimension::Activity]);
        let query = BreakdownQuery { by, unit: SECONDS.to_owned(), functions: None };
        let table = break_down_clusters(&self.0, &clusters, SpanFilter::default(), query).await?.table;
        let cluster_table = |cluster| (TimeByActivityKey(cluster), Arc::new(table.of_cluster(cluster)));
        Ok(ids.into_iter().map(cluster_table).collect())
    }
}
