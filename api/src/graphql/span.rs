//! Spans: what users name their work.

use std::sync::Arc;

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};
use entity::{
    client_span,
    ids::{ClusterId, SpanId},
    span::Model,
};

use super::{
    argument::storable,
    cluster::Cluster,
    code::CodeFrame,
    connection::{Connection, PageArguments, connect},
    error::{Alone, ApiError},
    fine_metric::{FineMetricArguments, FineMetrics, Of, idle_seconds, thread_seconds},
    id::GlobalId,
    in_place::in_place,
    scalar::BigInt,
    scope::{AccountScope, Costly},
    span_loaders::{ClientSpanOf, FineMetricsOf, SpanSet, SubtreeOf, TotalsOf},
    task_group::TaskGroup,
};
use crate::{
    domain::span::{SpanTimes, Spans, Totals},
    store::{SpanFilter, SpanParent, SpanSort, TagMatch, TaskGroupParent, TaskGroupSort},
};

/// Tags a list can be filtered by at once.
const MAX_TAGS: i32 = 100;

/// Work with a name: one of Dask's `Span` objects.
pub(super) struct Span {
    scope: AccountScope,
    row: Model,
}

impl Span {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }

    pub(super) async fn find(
        scope: &AccountScope,
        id: (ClusterId, SpanId),
    ) -> Result<Option<Self>, ApiError> {
        Ok(scope.loader.load_one(id).await?.map(|row| Self::new(scope, row)))
    }

    /// The spans among `ids` that were reported, in their order.
    pub(super) async fn find_all(
        scope: &AccountScope,
        cluster: ClusterId,
        ids: &[SpanId],
    ) -> Result<Vec<Self>, ApiError> {
        let keys = ids.iter().map(|id| (cluster, *id));
        let mut found = scope.loader.load_many(keys.clone()).await?;
        Ok(keys.filter_map(|key| found.remove(&key)).map(|row| Self::new(scope, row)).collect())
    }

    /// This span and all below it.
    async fn subtree(&self) -> Result<Arc<Spans>, ApiError> {
        let key = SubtreeOf(self.row.cluster_id, self.row.id);
        let spans = self.scope.loader.load_one(key).await?.unwrap_or_default();
        self.scope.take(Costly::Spans, spans.len())?;
        Ok(spans)
    }

    /// This span, with or without those below it.
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
        Ok(self.scope.loader.load_one(ClientSpanOf(self.row.cluster_id, self.row.id)).await?)
    }
}

/// Work with a name: one of Dask's `Span` objects, made by `with span("…"):`. Tasks outside of any belong to a
/// span `default`. A span lies in those opened round it and includes what was done in those below it, of which
/// the first 63 levels count.
#[Object]
impl Span {
    /// The global identifier.
    pub(super) async fn id(&self) -> ID {
        GlobalId::Span(self.row.account_id, self.row.cluster_id, self.row.id).into()
    }

    /// Dask's own identifier, a UUID.
    async fn dask_id(&self) -> String {
        self.row.id.to_string()
    }

    /// The tags from the outermost span to this one's own.
    async fn path(&self) -> &[String] {
        &self.row.path.0
    }

    /// Its own tag: the last of `path`.
    async fn tag(&self) -> Option<&str> {
        self.row.path.0.last().map(String::as_str)
    }

    /// The cluster it ran on.
    async fn cluster(&self) -> Result<Cluster, ApiError> {
        Cluster::of(&self.scope, self.row.cluster_id).await
    }

    /// The span it lies in; null for an outermost one, and when that one was not reported.
    async fn parent(&self) -> Result<Option<Span>, ApiError> {
        match self.row.parent_id {
            Some(id) => Self::find(&self.scope, (self.row.cluster_id, id)).await,
            None => Ok(None),
        }
    }

    /// The spans directly below it, in the order their tasks arrived.
    async fn children(
        &self,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<Span>, ApiError> {
        let page = PageArguments { first, after, last, before };
        let parent = SpanParent::Span(self.row.cluster_id, self.row.id);
        connect(&self.scope, parent, SpanSort::OldestFirst, page, Span::new).await
    }

    /// When its first tasks arrived, by the scheduler's clock.
    async fn enqueued_at(&self) -> DateTime<Utc> {
        self.row.enqueued_at.0
    }

    /// When the first of the finished tasks of it and the spans below it started; null before one finished.
    async fn started_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.subtree().await?.started().and_then(DateTime::from_timestamp_millis))
    }

    /// When the last task of it and the spans below it stopped; null while they are not done.
    async fn stopped_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.subtree().await?.stopped().and_then(DateTime::from_timestamp_millis))
    }

    /// Whether all tasks of it and the spans below it are done. It may become false again.
    async fn done(&self) -> Result<bool, ApiError> {
        Ok(self.subtree().await?.done())
    }

    /// When the block that the client called the span began, by the client's clock; null when it did not tell.
    async fn client_started_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.client_span().await?.map(|told| told.started_at.0))
    }

    /// When that block ended, by the client's clock; null when the client did not tell.
    async fn client_stopped_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.client_span().await?.map(|told| told.stopped_at.0))
    }

    /// Sums over the task groups.
    async fn totals(
        &self,
        #[graphql(desc = "Whether with those of the spans below it.", default = true)] inclusive: bool,
    ) -> Result<SpanTotals, ApiError> {
        let spans = self.spans(inclusive).await?;
        let set = SpanSet::new(self.row.cluster_id, &spans);
        let sums = self.scope.loader.load_one(TotalsOf(set.clone())).await?.unwrap_or_default();
        Ok(SpanTotals { scope: self.scope.clone(), set, spans, inclusive, sums })
    }

    /// Types of the collections it computed itself.
    async fn collections(&self) -> &[String] {
        &self.row.collections.0
    }

    /// Where the client's code called Dask for it: one stack per call, the outermost frame first. Without those of
    /// the spans below it.
    async fn code(&self) -> Vec<Vec<CodeFrame>> {
        CodeFrame::stacks(&self.scope, &self.row.code)
    }

    /// The code the client named for it, the outermost frame first; null when it told nothing of the span.
    async fn client_code(&self) -> Result<Option<Vec<CodeFrame>>, ApiError> {
        let told = self.client_span().await?;
        Ok(told.map(|told| CodeFrame::stacks(&self.scope, &told.code).into_iter().flatten().collect()))
    }

    /// Its own task groups, without those of the spans below it, in the order they were first seen.
    async fn task_groups(
        &self,
        context: &Context<'_>,
        #[graphql(desc = "The first so many, 1 to 100; 20 if neither `first` nor `last` is given.")]
        first: Option<i32>,
        #[graphql(desc = "Only what follows this cursor.")] after: Option<String>,
        #[graphql(desc = "The last so many, 1 to 100.")] last: Option<i32>,
        #[graphql(desc = "Only what lies before this cursor.")] before: Option<String>,
    ) -> Result<Connection<TaskGroup>, ApiError> {
        let page = PageArguments { first, after, last, before }.listed::<TaskGroup>(context);
        let parent = TaskGroupParent::Span(self.row.cluster_id, self.row.id);
        connect(&self.scope, parent, TaskGroupSort::OldestFirst, page, TaskGroup::new).await
    }

    /// Fine performance metrics of its tasks; null when there are none, and null, with an error, where they would be too much
    /// for one answer.
    async fn fine_metrics(
        &self,
        #[graphql(desc = "Whether with those of the spans below it.", default = true)] inclusive: bool,
        #[graphql(desc = "Only values in this unit, such as `seconds` or `bytes`.")] unit: Option<String>,
        #[graphql(desc = "At most so many values, 1 to 5000; 1000 unless given.")] first: Option<i32>,
    ) -> Alone<FineMetrics> {
        let found = async {
            let (scope, cluster, spans) = (&self.scope, self.row.cluster_id, self.spans(inclusive).await?);
            scope.take(Costly::FineMetrics, spans.len())?;
            let found = scope.loader.load_one(FineMetricsOf(SpanSet::new(cluster, &spans))).await?;
            let Some(table) = found.filter(|table| !table.is_empty()) else { return Ok(None) };
            let arguments = FineMetricArguments { unit, first };
            let of = if inclusive { Of::Spans(spans) } else { Of::SpanAlone };
            FineMetrics::new(scope, cluster, table, of, arguments).map(Some)
        };
        found.await.transpose()
    }
}

in_place! { Span: id, dask_id, path, tag, enqueued_at, collections }

/// Sums over the task groups of a span.
pub(super) struct SpanTotals {
    scope: AccountScope,
    set: SpanSet,
    spans: Arc<Spans>,
    inclusive: bool,
    sums: Totals,
}

/// Sums over the task groups of a span, with or without those of the spans below it. Every task group belongs to
/// one span, so the own sums of all spans add up to the cluster's; inclusive ones count what lies below again.
#[Object]
impl SpanTotals {
    /// Tasks they ever had.
    async fn tasks(&self) -> BigInt {
        BigInt(self.sums.tasks)
    }

    /// Times one of them came to be in memory; a task computed again counts again.
    async fn tasks_succeeded(&self) -> BigInt {
        BigInt(self.sums.tasks_succeeded)
    }

    /// Tasks that erred themselves.
    async fn tasks_erred(&self) -> BigInt {
        BigInt(self.sums.tasks_erred)
    }

    /// Attempts that failed and were tried again.
    async fn tasks_retried(&self) -> BigInt {
        BigInt(self.sums.tasks_retried)
    }

    /// Thread-seconds spent computing tasks that succeeded.
    async fn compute_seconds(&self) -> f64 {
        self.sums.compute_seconds
    }

    /// Seconds spent fetching their inputs from other workers.
    async fn transfer_seconds(&self) -> f64 {
        self.sums.transfer_seconds
    }

    /// Bytes of all results they ever produced.
    async fn bytes(&self) -> BigInt {
        BigInt(self.sums.bytes)
    }

    /// Thread-seconds the whole cluster offered from when the span's first tasks arrived until its last one stopped,
    /// or until the last report: threads integrated over that time, however many spans shared them. Null when the
    /// cluster's threads are not known, and for a span without those below it.
    async fn thread_seconds(&self) -> Result<Option<f64>, ApiError> {
        if !self.inclusive {
            return Ok(None);
        }
        thread_seconds(&self.scope, self.set.cluster, Arc::clone(&self.spans)).await
    }

    /// Those of `threadSeconds` that were not spent executing the span's tasks: what Dask calls "idle or other
    /// spans". Never negative. Null when one of the two is not known, and for a span without those below it.
    async fn idle_seconds(&self) -> Result<Option<f64>, ApiError> {
        if !self.inclusive {
            return Ok(None);
        }
        self.scope.take(Costly::FineMetrics, self.spans.len())?;
        match self.scope.loader.load_one(FineMetricsOf(self.set.clone())).await? {
            Some(table) => idle_seconds(&self.scope, self.set.cluster, Arc::clone(&self.spans), &table).await,
            None => Ok(None),
        }
    }
}

/// Which spans of a cluster are wanted.
pub(super) fn filter(roots: bool, tags: Option<Vec<String>>) -> Result<SpanFilter, ApiError> {
    match tags {
        Some(tags) => {
            range("tags", i32::try_from(tags.len()).unwrap_or(i32::MAX), MAX_TAGS)?;
            tags.iter().try_for_each(|tag| storable("tags", tag))?;
            Ok(SpanFilter { roots, tags: TagMatch { any: tags, ..TagMatch::default() } })
        }
        None => Ok(SpanFilter { roots, tags: TagMatch::default() }),
    }
}

/// Until when what is not done was active, as far as it was reported: time that no report told of is not made up.
pub(super) async fn now_of(scope: &AccountScope, cluster: ClusterId) -> Result<i64, ApiError> {
    let row = scope.loader.load_one(cluster).await?.ok_or(ApiError::NotFound("cluster"))?;
    Ok(row.closed_at.unwrap_or(row.reported_at).timestamp_millis())
}

/// An argument that says how many.
pub(super) fn range(argument: &'static str, number: i32, most: i32) -> Result<usize, ApiError> {
    usize::try_from(number).ok().filter(|_| (1..=most).contains(&number)).ok_or_else(|| {
        ApiError::InvalidArgument { argument, reason: format!("must be between 1 and {most}, not {number}") }
    })
}
