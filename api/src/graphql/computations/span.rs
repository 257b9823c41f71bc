//! Spans: named sections of users' work.

use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};
use entity::{
    client_span,
    ids::{ClusterId, SpanId},
    span::Model,
};

use super::{
    code::CodeFrame,
    fine_metric::{FineMetricArguments, FineMetrics, MetricSpans, idle_seconds, thread_seconds},
    span_loaders::{ClientSpanKey, SpanFineMetricsKey, SpanSet, SpanTotalsKey, SubtreeKey},
    task_group::TaskGroup,
    task_group_list::{TaskGroupFilter, TaskGroupOrder, load_task_groups},
};
use crate::{
    domain::span::{SpanTimes, Spans, Totals},
    graphql::{
        clusters::cluster::Cluster,
        engine::{
            argument::check_text,
            connection::{Connection, PageArguments, load_connection},
            error::{ApiError, NullOnError},
            id::GlobalId,
            projection::inline_fields,
            scalar::BigInt,
            scope::{AccountScope, QuotaKind},
        },
    },
    store::{SpanFilter, SpanParent, SpanSort, TagMatch, TaskGroupParent},
};

/// The maximum number of tags in the filter of a list.
const MAX_TAGS: i32 = 100;

/// A named section of work: one of Dask's `Span` objects.
pub(crate) struct Span {
    scope: AccountScope,
    row: Model,
}

impl Span {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(crate) async fn find(
        scope: &AccountScope,
        id: (ClusterId, SpanId),
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    /// Returns the spans among `ids` that were reported, in the order of `ids`.
    pub(crate) async fn find_all(
        scope: &AccountScope,
        cluster: ClusterId,
        ids: &[SpanId],
    ) -> Result<Vec<Self>, ApiError> {
        let keys = ids.iter().map(|id| (cluster, *id));
        let mut found = scope.loader.load_many(keys.clone()).await?;
        Ok(keys.filter_map(|key| found.remove(&key)).map(|row| Self::new(scope, row)).collect())
    }

    /// Returns this span and its descendants.
    async fn subtree(&self) -> Result<Arc<Spans>, ApiError> {
        let key = SubtreeKey(self.row.cluster_id, self.row.id);
        let spans = self.scope.loader.load_one(key).await?.unwrap_or_default();
        self.scope.charge(QuotaKind::Spans, spans.len())?;
        Ok(spans)
    }

    /// Returns this span, and its descendants if `inclusive` is true.
    async fn spans(&self, inclusive: bool) -> Result<Arc<Spans>, ApiError> {
        if inclusive {
            return self.subtree().await;
        }
        let row = &self.row;
        Ok(Arc::new(Spans::new([SpanTimes {
            id: row.id,
            parent: row.parent_id,
            enqueued: row.enqueued_at.timestamp_millis(),
            started: row.started_at.map(|time| time.timestamp_millis()),
            stopped: row.stopped_at.map(|time| time.timestamp_millis()),
            done: row.done,
        }])))
    }

    async fn client_span(&self) -> Result<Option<client_span::Model>, ApiError> {
        Ok(self.scope.loader.load_one(ClientSpanKey(self.row.cluster_id, self.row.id)).await?)
    }
}

/// A named section of work: one of Dask's `Span` objects, created with `with span("…"):`. Tasks outside
/// of any span belong to a span `default`. A span belongs to the span that encloses it, and includes the
/// work of its descendants; of these, the first 63 levels count.
#[Object]
impl Span {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Span(self.row.account_id, self.row.cluster_id, self.row.id).into()
    }

    /// The number among the cluster's spans, in the order of their creation, from 1. `numbered`
    /// finds it. Null if the reporter does not count: an earlier plugin, or an imported file.
    async fn number(&self) -> Option<BigInt> {
        self.row.number.map(BigInt)
    }

    /// Dask's identifier, a UUID.
    async fn dask_id(&self) -> String {
        self.row.id.to_string()
    }

    /// The tags from the outermost span to this span.
    async fn path(&self) -> &[String] {
        &self.row.path.0
    }

    /// The span's own tag: the last of `path`.
    async fn tag(&self) -> Option<&str> {
        self.row.path.0.last().map(String::as_str)
    }

    /// The cluster that the span ran on.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::load_existing(&self.scope, self.row.cluster_id).await
    }

    /// The enclosing span. Null for an outermost span, and if the enclosing span was not reported.
    async fn parent(&self) -> Result<Option<Span>, ApiError> {
        match self.row.parent_id {
            Some(id) => Self::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// The child spans, in the order in which their tasks arrived.
    async fn children(
        &self,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Span>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let parent = SpanParent::Span(self.row.cluster_id, self.row.id);
        load_connection(&self.scope, parent, SpanSort::OldestFirst, page, Span::new).await
    }

    /// The arrival of the span's first tasks, by the scheduler's clock.
    async fn enqueued_at(&self) -> DateTime<Utc> {
        self.row.enqueued_at.0
    }

    /// The start of the first finished task of the span and its descendants. Null until a task has
    /// finished.
    async fn started_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.subtree().await?.started().and_then(DateTime::from_timestamp_millis))
    }

    /// The end of the last task of the span and its descendants. Null while any of them is unfinished.
    async fn stopped_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.subtree().await?.stopped().and_then(DateTime::from_timestamp_millis))
    }

    /// True if all tasks of the span and its descendants are done. New tasks can make it false again.
    async fn done(&self) -> Result<bool, ApiError> {
        Ok(self.subtree().await?.done())
    }

    /// The start of the span's block in the client's code, by the client's clock. Null if the client did
    /// not report it.
    async fn client_started_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.client_span().await?.map(|span| span.started_at.0))
    }

    /// The end of the span's block in the client's code, by the client's clock. Null if the client did
    /// not report it.
    async fn client_stopped_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.client_span().await?.map(|span| span.stopped_at.0))
    }

    /// Sums over the task groups of the span.
    async fn totals(
        &self,
        #[graphql(desc = "True to include the span's descendants.", default = true)] inclusive: bool,
    ) -> Result<SpanTotals, ApiError> {
        let spans = self.spans(inclusive).await?;
        let set = SpanSet::new(self.row.cluster_id, &spans);
        let sums = self.scope.loader.load_one(SpanTotalsKey(set.clone())).await?.unwrap_or_default();
        Ok(SpanTotals { scope: self.scope.clone(), set, spans, inclusive, sums })
    }

    /// The types of the collections that the span itself computed.
    async fn collections(&self) -> &[String] {
        &self.row.collections.0
    }

    /// The places in the client's code that called Dask: one stack per call, the outermost frame first.
    /// Without those of the span's descendants.
    async fn code(&self) -> Vec<Vec<CodeFrame>> {
        CodeFrame::stacks(&self.scope, &self.row.code)
    }

    /// The stack of the span's block in the client's code, the outermost frame first. Null if the client
    /// did not report the span.
    async fn client_code(&self) -> Result<Option<Vec<CodeFrame>>, ApiError> {
        let span = self.client_span().await?;
        Ok(span.map(|span| CodeFrame::stacks(&self.scope, &span.code).into_iter().flatten().collect()))
    }

    /// The span's own task groups, without those of its descendants, in the order in which they were
    /// first seen.
    #[expect(clippy::too_many_arguments, reason = "they are the arguments of the field")]
    async fn task_groups(
        &self,
        context: &Context<'_>,
        #[graphql(
            desc = "Only task groups that pass this filter. With a filter or an order, all task groups are \
                    examined; one query may request 50 such pages. Null for all task groups."
        )]
        filter: Option<TaskGroupFilter>,
        #[graphql(desc = "The order of the list. Null for the order in which they were first seen.")]
        order_by: Option<TaskGroupOrder>,
        #[graphql(desc = "The number of items from the start, 1 to 100; 20 unless `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only items after this cursor.")] after: Option<String>,
        #[graphql(desc = "The number of items from the end, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only items before this cursor.")] before: Option<String>,
    ) -> Result<Connection<TaskGroup>, ApiError> {
        let page = PageArguments { first, after, last, before }.with_summary_columns::<TaskGroup>(context);
        let parent = TaskGroupParent::Span(self.row.cluster_id, self.row.id);
        load_task_groups(&self.scope, parent, filter, order_by, page).await
    }

    /// Fine performance metrics of the span's tasks. Null if there are none. Null, with the error code
    /// `BAD_USER_INPUT`, if they exceed the limit of one response.
    async fn fine_metrics(
        &self,
        #[graphql(desc = "True to include the span's descendants.", default = true)] inclusive: bool,
        #[graphql(desc = "The unit, such as `seconds` or `bytes`. Null for all units.")] unit: Option<String>,
        #[graphql(desc = "The maximum number of values, 1 to 5,000. Null for 1,000.")] first: Option<i32>,
    ) -> NullOnError<FineMetrics> {
        let found = async {
            let (scope, cluster, spans) = (&self.scope, self.row.cluster_id, self.spans(inclusive).await?);
            scope.charge(QuotaKind::FineMetrics, spans.len())?;
            let found = scope.loader.load_one(SpanFineMetricsKey(SpanSet::new(cluster, &spans))).await?;
            let Some(table) = found.filter(|table| !table.is_empty()) else { return Ok(None) };
            let arguments = FineMetricArguments { unit, first };
            let metric_spans = if inclusive { MetricSpans::Spans(spans) } else { MetricSpans::SpanAlone };
            FineMetrics::new(scope, cluster, table, metric_spans, arguments).map(Some)
        };
        found.await.transpose()
    }
}

inline_fields! { Span: id, number, dask_id, path, tag, enqueued_at, collections }

/// Sums over the task groups of a span.
pub(crate) struct SpanTotals {
    scope: AccountScope,
    set: SpanSet,
    spans: Arc<Spans>,
    inclusive: bool,
    sums: Totals,
}

/// Sums over the task groups of a span, with or without its descendants. Each task group belongs to one
/// span, so the sums of all spans without their descendants add up to those of the cluster. Sums with
/// descendants overlap.
#[Object]
impl SpanTotals {
    /// The number of tasks, over the whole life of the span.
    async fn tasks(&self) -> BigInt {
        BigInt(self.sums.tasks)
    }

    /// The number of times a task reached the state `memory`. A task that is computed again counts
    /// again.
    async fn tasks_succeeded(&self) -> BigInt {
        BigInt(self.sums.tasks_succeeded)
    }

    /// The number of tasks whose own execution failed. Tasks that failed only because of a dependency are not
    /// counted.
    async fn tasks_erred(&self) -> BigInt {
        BigInt(self.sums.tasks_erred)
    }

    /// The number of failed attempts that were retried.
    async fn tasks_retried(&self) -> BigInt {
        BigInt(self.sums.tasks_retried)
    }

    /// The thread time spent computing tasks that succeeded, in seconds.
    async fn compute_seconds(&self) -> f64 {
        self.sums.compute_seconds
    }

    /// The time spent fetching the tasks' inputs from other workers, in seconds.
    async fn transfer_seconds(&self) -> f64 {
        self.sums.transfer_seconds
    }

    /// The size of all results, in bytes, including released results.
    async fn bytes(&self) -> BigInt {
        BigInt(self.sums.bytes)
    }

    /// The thread time of the whole cluster while the span was active, in seconds: the threads
    /// integrated from the arrival of the span's first tasks to the end of its last task, or to the last
    /// report. Other spans may have shared these threads. Null if the cluster's threads are unknown, and
    /// for a span without its descendants.
    async fn thread_seconds(&self) -> Result<Option<f64>, ApiError> {
        if !self.inclusive {
            return Ok(None);
        }
        thread_seconds(&self.scope, self.set.cluster, Arc::clone(&self.spans)).await
    }

    /// The part of `threadSeconds` that was not spent executing the span's tasks, in seconds. Dask calls
    /// it "idle or other spans". Never negative. Null if either time is unknown, and for a span without
    /// its descendants.
    async fn idle_seconds(&self) -> Result<Option<f64>, ApiError> {
        if !self.inclusive {
            return Ok(None);
        }
        self.scope.charge(QuotaKind::FineMetrics, self.spans.len())?;
        match self.scope.loader.load_one(SpanFineMetricsKey(self.set.clone())).await? {
            Some(table) => idle_seconds(&self.scope, self.set.cluster, Arc::clone(&self.spans), &table).await,
            None => Ok(None),
        }
    }
}

/// Returns the filter for the arguments of a list of spans.
pub(crate) fn span_filter(roots: bool, tags: Option<Vec<String>>) -> Result<SpanFilter, ApiError> {
    match tags {
        Some(tags) => {
            validate_count("tags", i32::try_from(tags.len()).unwrap_or(i32::MAX), MAX_TAGS)?;
            tags.iter().try_for_each(|tag| check_text("tags", tag))?;
            Ok(SpanFilter { roots, tags: TagMatch { any: tags, ..TagMatch::default() } })
        }
        None => Ok(SpanFilter { roots, tags: TagMatch::default() }),
    }
}

/// Returns the time until which unfinished spans count as active: the last moment that the cluster
/// reported, because later activity is unknown.
pub(crate) async fn active_until(scope: &AccountScope, cluster: ClusterId) -> Result<i64, ApiError> {
    let row = scope.loader.load_one(cluster).await?.ok_or(ApiError::NotFound("cluster"))?;
    Ok(row.closed_at.unwrap_or(row.reported_at).timestamp_millis())
}

/// Checks an argument that gives a number of items, and returns it.
///
/// # Errors
/// Returns an error if the number is not from 1 to `max`.
pub(crate) fn validate_count(argument: &'static str, number: i32, max: i32) -> Result<usize, ApiError> {
    usize::try_from(number).ok().filter(|_| (1..=max).contains(&number)).ok_or_else(|| {
        ApiError::InvalidArgument { argument, reason: format!("must be between 1 and {max}, not {number}") }
    })
}
