//! Spans, listed by cluster, by the span above or over all clusters, and what the arithmetic of whole subtrees needs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use entity::{
    Timestamp,
    ids::{ClusterId, KeyTime, SpanId},
    list::Names,
    span::{Column, Entity, Model},
    task_group, thread_change,
};
use sea_orm::{
    ColumnTrait, Condition, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    sea_query::{Alias, ExprTrait},
};

use super::{
    account_list::{TimeRange, unsaid},
    cluster_filter::ClusterFilter,
    code_snippet::stacks,
    error::StoreError,
    lists,
    one_of::one_of,
    page::{Key, Page, PageRequest, Sort},
    scoped::AccountStore,
    search::search,
    span_tag::TagMatch,
    upsert::newest_wins,
};
use crate::{
    blocking::blocking,
    domain::{
        bounded::{Text, UnixTime},
        report::SpanReport,
        span::{SpanTimes, Spans, Totals},
    },
};

/// Identifiers in one statement at the most.
const MAX_IDS: usize = 5_000;

/// Levels of a tree: a path has at most so many tags.
const MAX_LEVELS: usize = 64;

/// Spans that are read at once at the most, for all the trees that are asked for together.
const MAX_SPANS: usize = 200_000;

/// A span's sums as they are selected.
type SumRow = (ClusterId, SpanId, i64, i64, i64, i64, f64, f64, i64);

/// The orders spans can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanSort {
    /// The span whose tasks arrived first comes first.
    OldestFirst,
    /// The span whose tasks arrived last comes first, over all clusters.
    NewestOfAllFirst,
}

impl Sort for SpanSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        match self {
            Self::OldestFirst => "enqueued_at:asc",
            Self::NewestOfAllFirst => "enqueued_at,cluster_id:desc",
        }
    }

    fn columns(self) -> Vec<Column> {
        match self {
            Self::OldestFirst => vec![Column::EnqueuedAt, Column::Id],
            Self::NewestOfAllFirst => vec![Column::EnqueuedAt, Column::ClusterId, Column::Id],
        }
    }

    fn descending(self) -> bool {
        self == Self::NewestOfAllFirst
    }

    fn accepts(self, key: &Key) -> bool {
        match self {
            Self::OldestFirst => key.is_time_in_cluster(),
            Self::NewestOfAllFirst => key.is_time_in_account(),
        }
    }

    fn key(self, row: &Model) -> Key {
        match self {
            Self::OldestFirst => Key::time_in_cluster(row.enqueued_at, row.id),
            Self::NewestOfAllFirst => Key::time_in_account(row.enqueued_at, row.cluster_id, row.id),
        }
    }
}

/// Whose spans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SpanParent {
    /// Some of a cluster's.
    Cluster(ClusterId, SpanFilter),
    /// Those directly below a span.
    Span(ClusterId, SpanId),
}

/// Which spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpanFilter {
    /// Only those that lie in no other one of the list.
    pub roots: bool,
    /// Only those with these tags on their path.
    pub tags: TagMatch,
}

/// Which spans of an account.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountSpans {
    /// Of which clusters.
    pub clusters: ClusterFilter,
    /// Whose first tasks arrived when.
    pub enqueued_in: TimeRange,
    /// Of which of their spans.
    pub filter: SpanFilter,
}

impl AccountStore {
    /// The same page of the spans of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span.pages", skip_all)]
    pub async fn span_pages(
        &self,
        parents: &[SpanParent],
        sort: SpanSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let selects = parents.iter().map(|parent| self.spans_of(parent)).collect();
        lists::fetch_each(&self.reads(), selects, sort, request).await
    }

    fn spans_of(&self, parent: &SpanParent) -> Select<Entity> {
        match parent {
            SpanParent::Cluster(cluster, filter) => {
                self.filtered(filter).filter(Column::ClusterId.eq(*cluster))
            }
            SpanParent::Span(cluster, span) => self
                .select::<Entity>()
                .filter(Column::ClusterId.eq(*cluster))
                .filter(Column::ParentId.eq(*span)),
        }
    }

    fn filtered(&self, filter: &SpanFilter) -> Select<Entity> {
        self.select::<Entity>().filter(self.passes(filter))
    }

    fn passes(&self, filter: &SpanFilter) -> Condition {
        filter.tags.condition(filter.roots, self.is_postgres())
    }

    /// A page of the spans of all clusters that a filter passes.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span.page", skip_all)]
    pub async fn account_span_page(
        &self,
        of: &AccountSpans,
        sort: SpanSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.during(Column::EnqueuedAt, unsaid(of.enqueued_in, sort.descending(), request));
        search(&self.reads(), select, self.account_spans(of), sort, request).await
    }

    /// How many spans of all clusters a filter passes.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span.count", skip_all)]
    pub async fn account_span_count(&self, of: &AccountSpans) -> Result<u64, StoreError> {
        let all = self.during::<Entity>(Column::EnqueuedAt, of.enqueued_in).filter(self.account_spans(of));
        Ok(all.count(&self.reads()).await?)
    }

    fn account_spans(&self, of: &AccountSpans) -> Condition {
        self.passes(&of.filter).add_option(self.of_clusters(&of.clusters, Column::ClusterId))
    }

    /// How many spans each parent has; parents without any may be missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span.counts", skip_all)]
    pub async fn span_counts(&self, parents: &[SpanParent]) -> Result<HashMap<SpanParent, i64>, StoreError> {
        let mut filters: HashMap<&SpanFilter, Vec<ClusterId>> = HashMap::new();
        let mut spans: Vec<(ClusterId, SpanId)> = Vec::new();
        for parent in parents {
            match parent {
                SpanParent::Cluster(cluster, filter) => filters.entry(filter).or_default().push(*cluster),
                SpanParent::Span(cluster, span) => spans.push((*cluster, *span)),
            }
        }
        let mut counts = HashMap::new();
        // One statement for each filter of the query, however many clusters it is asked for.
        for (filter, clusters) in filters {
            let rows: Vec<(ClusterId, i64)> = self
                .filtered(filter)
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_in(clusters))
                .group_by(Column::ClusterId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            let parent = |cluster| SpanParent::Cluster(cluster, filter.clone());
            counts.extend(rows.into_iter().map(|(cluster, count)| (parent(cluster), count)));
        }
        if !spans.is_empty() {
            let rows: Vec<(ClusterId, SpanId, i64)> = self
                .select::<Entity>()
                .select_only()
                .columns([Column::ClusterId, Column::ParentId])
                .column_as(Column::Id.count(), "count")
                .filter(one_of(Column::ClusterId, Column::ParentId, &spans))
                .group_by(Column::ClusterId)
                .group_by(Column::ParentId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            counts.extend(
                rows.into_iter().map(|(cluster, span, count)| (SpanParent::Span(cluster, span), count)),
            );
        }
        Ok(counts)
    }

    /// The spans that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span.by_id", skip_all)]
    pub async fn spans_by_id(&self, ids: &[(ClusterId, SpanId)]) -> Result<Vec<Model>, StoreError> {
        Ok(self
            .select::<Entity>()
            .filter(one_of(Column::ClusterId, Column::Id, ids))
            .all(&self.reads())
            .await?)
    }

    /// Each of `roots` with the spans below it, as far as a bound on their number. One statement for each level of the
    /// deepest.
    ///
    /// # Errors
    /// When the database does not answer, or [`StoreError::TooMuch`].
    #[tracing::instrument(name = "store.span.subtrees", skip_all)]
    pub async fn span_subtrees(
        &self,
        roots: &[(ClusterId, SpanId)],
    ) -> Result<HashMap<(ClusterId, SpanId), Spans>, StoreError> {
        let mut known: HashMap<(ClusterId, SpanId), SpanTimes> = HashMap::new();
        let mut level = self.span_times(Column::Id, roots).await?;
        for deeper in (0..MAX_LEVELS).rev() {
            level.retain(|(cluster, span)| known.insert((*cluster, span.id), *span).is_none());
            if level.is_empty() || deeper == 0 {
                break;
            }
            if known.len() > MAX_SPANS {
                return Err(StoreError::TooMuch("there are too many spans below these: ask for fewer"));
            }
            let above: Vec<_> = level.iter().map(|(cluster, span)| (*cluster, span.id)).collect();
            level = self.span_times(Column::ParentId, &above).await?;
        }
        let roots = roots.to_vec();
        Ok(blocking(move || subtrees(&roots, &known)).await)
    }

    /// All spans of each cluster.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span.of_clusters", skip_all)]
    pub async fn spans_of_clusters(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Spans>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_in(clusters.iter().copied()));
        let mut found: HashMap<ClusterId, Vec<SpanTimes>> = HashMap::new();
        for (cluster, span) in self.read_times(select).await? {
            found.entry(cluster).or_default().push(span);
        }
        Ok(found.into_iter().map(|(cluster, spans)| (cluster, Spans::new(spans))).collect())
    }

    async fn span_times(
        &self,
        column: Column,
        ids: &[(ClusterId, SpanId)],
    ) -> Result<Vec<(ClusterId, SpanTimes)>, StoreError> {
        let mut found = Vec::new();
        for ids in ids.chunks(MAX_IDS) {
            let select = self.select::<Entity>().filter(one_of(Column::ClusterId, column, ids));
            found.extend(self.read_times(select).await?);
        }
        Ok(found)
    }

    async fn read_times(&self, select: Select<Entity>) -> Result<Vec<(ClusterId, SpanTimes)>, StoreError> {
        type Row = (ClusterId, SpanId, Option<SpanId>, Timestamp, Option<Timestamp>, Option<Timestamp>, bool);
        let columns = [
            Column::ClusterId,
            Column::Id,
            Column::ParentId,
            Column::EnqueuedAt,
            Column::StartedAt,
            Column::StoppedAt,
            Column::Done,
        ];
        let rows: Vec<Row> = select.select_only().columns(columns).into_tuple().all(&self.reads()).await?;
        let milliseconds = |time: Timestamp| time.timestamp_millis();
        let times = rows.into_iter().map(|(cluster, id, parent, enqueued, started, stopped, done)| {
            let (started, stopped) = (started.map(milliseconds), stopped.map(milliseconds));
            (cluster, SpanTimes { id, parent, enqueued: milliseconds(enqueued), started, stopped, done })
        });
        Ok(times.collect())
    }

    /// Sums over each span's own task groups; spans without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span.totals", skip_all)]
    pub async fn span_totals(
        &self,
        ids: &[(ClusterId, SpanId)],
    ) -> Result<HashMap<(ClusterId, SpanId), Totals>, StoreError> {
        use task_group::Column as Group;
        let whole = |column: Group| column.sum().cast_as(Alias::new("BIGINT"));
        let mut found = HashMap::new();
        for ids in ids.chunks(MAX_IDS) {
            let rows: Vec<SumRow> = self
                .select::<task_group::Entity>()
                .select_only()
                .columns([Group::ClusterId, Group::SpanId])
                .column_as(whole(Group::Tasks), "sum_tasks")
                .column_as(whole(Group::TasksSucceeded), "sum_succeeded")
                .column_as(whole(Group::TasksErred), "sum_erred")
                .column_as(whole(Group::TasksRetried), "sum_retried")
                .column_as(Group::ComputeSeconds.sum(), "sum_compute")
                .column_as(Group::TransferSeconds.sum(), "sum_transfer")
                .column_as(whole(Group::Bytes), "sum_bytes")
                .filter(one_of(Group::ClusterId, Group::SpanId, ids))
                .group_by(Group::ClusterId)
                .group_by(Group::SpanId)
                .into_tuple()
                .all(&self.reads())
                .await?;
            found.extend(rows.into_iter().map(|row| {
                let (cluster, span, tasks, tasks_succeeded, tasks_erred, tasks_retried, ..) = row;
                let (.., compute_seconds, transfer_seconds, bytes) = row;
                let totals = Totals {
                    tasks,
                    tasks_succeeded,
                    tasks_erred,
                    tasks_retried,
                    compute_seconds,
                    transfer_seconds,
                    bytes,
                };
                ((cluster, span), totals)
            }));
        }
        Ok(found)
    }

    /// Since when each cluster had how many threads, in order; clusters of which nothing is known are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.span.threads", skip_all)]
    pub async fn threads_over_time(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Vec<(i64, i64)>>, StoreError> {
        use thread_change::Column as Change;
        let rows: Vec<(ClusterId, KeyTime, i64)> = self
            .select::<thread_change::Entity>()
            .select_only()
            .columns([Change::ClusterId, Change::ChangedAt, Change::Threads])
            .filter(Change::ClusterId.is_in(clusters.iter().copied()))
            .order_by_asc(Change::ClusterId)
            .order_by_asc(Change::ChangedAt)
            .into_tuple()
            .all(&self.reads())
            .await?;
        let mut found: HashMap<ClusterId, Vec<(i64, i64)>> = HashMap::new();
        for (cluster, at, threads) in rows {
            found.entry(cluster).or_default().push((at.0, threads));
        }
        Ok(found)
    }

    /// Writes what a report says of spans.
    pub(crate) async fn record_spans(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[SpanReport],
    ) -> Result<(), StoreError> {
        // By identifier: a statement must not meet a row twice, and transactions must lock in one order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.id, report)).collect();
        let names = |texts: &mut dyn Iterator<Item = String>| Names(texts.collect());
        let rows = reports.values().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            id: report.id,
            sequence,
            parent_id: report.parent_id,
            path: names(&mut report.path.iter().cloned().map(Text::into_string)),
            enqueued_at: report.enqueued_at.timestamp(),
            started_at: report.started_at.map(UnixTime::timestamp),
            stopped_at: report.stopped_at.map(UnixTime::timestamp),
            done: report.done,
            collections: names(&mut report.collections.iter().cloned().map(Text::into_string)),
            code: stacks(&report.code),
        });
        self.insert::<Entity>(rows.collect(), &newest_wins::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}

/// Each of `roots` with what `known` has below it, the same whatever else was asked for with it.
fn subtrees(
    roots: &[(ClusterId, SpanId)],
    known: &HashMap<(ClusterId, SpanId), SpanTimes>,
) -> HashMap<(ClusterId, SpanId), Spans> {
    let mut children: HashMap<(ClusterId, SpanId), Vec<SpanId>> = HashMap::new();
    for ((cluster, id), span) in known {
        if let Some(parent) = span.parent {
            children.entry((*cluster, parent)).or_default().push(*id);
        }
    }
    let subtree = |root: &(ClusterId, SpanId)| {
        let (mut found, mut level) = (BTreeSet::from([root.1]), vec![root.1]);
        for _ in 1..MAX_LEVELS {
            let below = level.iter().filter_map(|id| children.get(&(root.0, *id))).flatten().copied();
            level = below.collect();
            level.retain(|id| found.insert(*id));
            if level.is_empty() {
                break;
            }
        }
        Spans::new(found.into_iter().filter_map(|id| known.get(&(root.0, id)).copied()))
    };
    roots.iter().map(|root| (*root, subtree(root))).collect()
}
