//! Spans, listed by cluster, by parent span or over all clusters, and the sums over whole subtrees.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use entity::{
    Timestamp,
    ids::{ClusterId, KeyTime, SpanId},
    json_columns::Names,
    span::{Column, Entity, Model},
    task_group, thread_change,
};
use sea_orm::{ColumnTrait, Condition, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select};

use super::{code_snippet::to_stored_stacks, span_tag::TagMatch};
use crate::{
    blocking_work::run_blocking,
    domain::{
        report::SpanReport,
        span::{SpanTimes, Spans, Totals},
        validated::{Count, Text, UnixTime},
    },
    store::{
        clusters::{
            cluster_filter::ClusterFilter,
            cross_cluster::{TimeRange, lies_in, remaining_range},
        },
        core::{
            composite_in::{IsOneOf, one_of},
            error::StoreError,
            multi_list,
            page::{Key, Page, PageRequest, Sort},
            read_rows::ReadSelect,
            scoped::AccountStore,
            search::scan_page,
            upsert::keep_newest_row,
        },
        costs::usage_hour::sum_of,
    },
};

/// The largest number of identifiers in one statement.
const MAX_IDS: usize = 5_000;

/// The largest number of levels of a tree, which is the largest number of tags of a path.
const MAX_LEVELS: usize = 64;

/// The largest number of spans read at once, for all the trees of one request.
const MAX_SPANS: usize = 200_000;

/// The selected columns of a span's sums.
type SumRow = (ClusterId, SpanId, i64, i64, i64, i64, f64, f64, i64);

/// The sort orders of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanSort {
    /// By the arrival of a span's first tasks, the oldest first, within one cluster.
    OldestFirst,
    /// By the arrival of a span's first tasks, the newest first, over all clusters.
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

/// The parent of a list of spans.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SpanParent {
    /// The spans of a cluster that match a filter and whose first tasks arrived in a period.
    Cluster(ClusterId, SpanFilter, TimeRange),
    /// The direct children of a span.
    Span(ClusterId, SpanId),
}

/// A filter for spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpanFilter {
    /// True to leave out spans that lie within another span of the list.
    pub roots: bool,
    /// The tags that the path of a span must match.
    pub tags: TagMatch,
}

/// The spans of an account that match a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountSpans {
    /// The clusters.
    pub clusters: ClusterFilter,
    /// The time range of the arrival of a span's first tasks.
    pub enqueued_in: TimeRange,
    /// The filter for the spans.
    pub filter: SpanFilter,
}

impl AccountStore {
    /// Returns the same page of the spans of each parent, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.span.pages", skip_all)]
    pub async fn span_pages(
        &self,
        parents: &[SpanParent],
        sort: SpanSort,
        request: &PageRequest,
    ) -> Result<Vec<Page<Model>>, StoreError> {
        let selects = parents.iter().map(|parent| self.spans_of(parent, sort, request)).collect();
        multi_list::fetch_pages(&self.read_executor(), selects, sort, request).await
    }

    fn spans_of(&self, parent: &SpanParent, sort: SpanSort, request: &PageRequest) -> Select<Entity> {
        match parent {
            SpanParent::Cluster(cluster, filter, enqueued_in) => {
                self.filtered(filter).filter(Column::ClusterId.eq(*cluster)).filter(lies_in(
                    Column::EnqueuedAt,
                    remaining_range(*enqueued_in, sort.descending(), request),
                ))
            }
            SpanParent::Span(cluster, span) => self
                .select::<Entity>()
                .filter(Column::ClusterId.eq(*cluster))
                .filter(Column::ParentId.eq(*span)),
        }
    }

    fn filtered(&self, filter: &SpanFilter) -> Select<Entity> {
        self.select::<Entity>().filter(self.filter_condition(filter))
    }

    fn filter_condition(&self, filter: &SpanFilter) -> Condition {
        filter.tags.condition(filter.roots, self.is_postgres())
    }

    /// Returns a page of the spans of all clusters that match a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.span.page", skip_all)]
    pub async fn account_span_page(
        &self,
        filter: &AccountSpans,
        sort: SpanSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        let select = self.select_in_range(
            Column::EnqueuedAt,
            remaining_range(filter.enqueued_in, sort.descending(), request),
        );
        scan_page(&self.read_executor(), select, self.account_spans(filter), sort, request).await
    }

    /// Returns the number of spans of all clusters that match a filter.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.span.count", skip_all)]
    pub async fn account_span_count(&self, filter: &AccountSpans) -> Result<u64, StoreError> {
        let spans = self
            .select_in_range::<Entity>(Column::EnqueuedAt, filter.enqueued_in)
            .filter(self.account_spans(filter));
        Ok(spans.count(&self.read_executor()).await?)
    }

    fn account_spans(&self, filter: &AccountSpans) -> Condition {
        self.filter_condition(&filter.filter)
            .add_option(self.cluster_condition(&filter.clusters, Column::ClusterId))
    }

    /// Returns the number of spans of each parent. Parents without spans may be missing from the map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.span.counts", skip_all)]
    pub async fn span_counts(&self, parents: &[SpanParent]) -> Result<HashMap<SpanParent, i64>, StoreError> {
        let mut filters: HashMap<(&SpanFilter, TimeRange), Vec<ClusterId>> = HashMap::new();
        let mut spans: Vec<(ClusterId, SpanId)> = Vec::new();
        for parent in parents {
            match parent {
                SpanParent::Cluster(cluster, filter, enqueued_in) => {
                    filters.entry((filter, *enqueued_in)).or_default().push(*cluster);
                }
                SpanParent::Span(cluster, span) => spans.push((*cluster, *span)),
            }
        }
        let mut counts = HashMap::new();
        // Clusters with the same filter share one statement.
        for ((filter, enqueued_in), clusters) in filters {
            let rows: Vec<(ClusterId, i64)> = self
                .filtered(filter)
                .select_only()
                .column(Column::ClusterId)
                .column_as(Column::Id.count(), "count")
                .filter(Column::ClusterId.is_one_of(clusters))
                .filter(lies_in(Column::EnqueuedAt, enqueued_in))
                .group_by(Column::ClusterId)
                .read_tuples(&self.read_executor())
                .await?;
            let parent = |cluster| SpanParent::Cluster(cluster, filter.clone(), enqueued_in);
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
                .read_tuples(&self.read_executor())
                .await?;
            counts.extend(
                rows.into_iter().map(|(cluster, span, count)| (SpanParent::Span(cluster, span), count)),
            );
        }
        Ok(counts)
    }

    /// Returns the spans that exist among `ids`, in no particular order.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.span.by_id", skip_all)]
    pub async fn spans_by_id(&self, ids: &[(ClusterId, SpanId)]) -> Result<Vec<Model>, StoreError> {
        Ok(self
            .select::<Entity>()
            .filter(one_of(Column::ClusterId, Column::Id, ids))
            .read_models(&self.read_executor())
            .await?)
    }

    /// Returns each of `roots` with its descendants. It runs one statement for each level of the deepest
    /// tree.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, or [`StoreError::TooLarge`] if there are more
    /// than 200,000 spans.
    #[tracing::instrument(name = "store.span.subtrees", skip_all)]
    pub async fn span_subtrees(
        &self,
        roots: &[(ClusterId, SpanId)],
    ) -> Result<HashMap<(ClusterId, SpanId), Spans>, StoreError> {
        let mut spans: HashMap<(ClusterId, SpanId), SpanTimes> = HashMap::new();
        let mut level = self.span_times(Column::Id, roots).await?;
        for deeper in (0..MAX_LEVELS).rev() {
            level.retain(|(cluster, span)| spans.insert((*cluster, span.id), *span).is_none());
            if level.is_empty() || deeper == 0 {
                break;
            }
            if spans.len() > MAX_SPANS {
                return Err(StoreError::TooLarge(
                    "these spans have too many descendants: request fewer spans",
                ));
            }
            let parents: Vec<_> = level.iter().map(|(cluster, span)| (*cluster, span.id)).collect();
            level = self.span_times(Column::ParentId, &parents).await?;
        }
        let roots = roots.to_vec();
        Ok(run_blocking(move || subtrees(&roots, &spans)).await)
    }

    /// Returns all spans of each cluster.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.span.of_clusters", skip_all)]
    pub async fn spans_of_clusters(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, Spans>, StoreError> {
        let select = self.select::<Entity>().filter(Column::ClusterId.is_one_of(clusters.iter().copied()));
        let mut spans_by_cluster: HashMap<ClusterId, Vec<SpanTimes>> = HashMap::new();
        for (cluster, span) in self.read_times(select).await? {
            spans_by_cluster.entry(cluster).or_default().push(span);
        }
        Ok(spans_by_cluster.into_iter().map(|(cluster, spans)| (cluster, Spans::new(spans))).collect())
    }

    async fn span_times(
        &self,
        column: Column,
        ids: &[(ClusterId, SpanId)],
    ) -> Result<Vec<(ClusterId, SpanTimes)>, StoreError> {
        let mut times = Vec::new();
        for ids in ids.chunks(MAX_IDS) {
            let select = self.select::<Entity>().filter(one_of(Column::ClusterId, column, ids));
            times.extend(self.read_times(select).await?);
        }
        Ok(times)
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
        let rows: Vec<Row> = select.select_only().columns(columns).read_tuples(&self.read_executor()).await?;
        let milliseconds = |time: Timestamp| time.timestamp_millis();
        let times = rows.into_iter().map(|(cluster, id, parent, enqueued, started, stopped, done)| {
            let (started, stopped) = (started.map(milliseconds), stopped.map(milliseconds));
            (cluster, SpanTimes { id, parent, enqueued: milliseconds(enqueued), started, stopped, done })
        });
        Ok(times.collect())
    }

    /// Returns the sums over each span's own task groups. Spans without task groups are missing from the
    /// map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.span.totals", skip_all)]
    pub async fn span_totals(
        &self,
        ids: &[(ClusterId, SpanId)],
    ) -> Result<HashMap<(ClusterId, SpanId), Totals>, StoreError> {
        use task_group::Column as Group;
        let sum_column = |column: Group| sum_of(self.backend(), column);
        let mut totals = HashMap::new();
        for ids in ids.chunks(MAX_IDS) {
            let rows: Vec<SumRow> = self
                .select::<task_group::Entity>()
                .select_only()
                .columns([Group::ClusterId, Group::SpanId])
                .column_as(sum_column(Group::Tasks), "sum_tasks")
                .column_as(sum_column(Group::TasksSucceeded), "sum_succeeded")
                .column_as(sum_column(Group::TasksErred), "sum_erred")
                .column_as(sum_column(Group::TasksRetried), "sum_retried")
                .column_as(Group::ComputeSeconds.sum(), "sum_compute")
                .column_as(Group::TransferSeconds.sum(), "sum_transfer")
                .column_as(sum_column(Group::Bytes), "sum_bytes")
                .filter(one_of(Group::ClusterId, Group::SpanId, ids))
                .group_by(Group::ClusterId)
                .group_by(Group::SpanId)
                .read_tuples(&self.read_executor())
                .await?;
            totals.extend(rows.into_iter().map(|row| {
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
        Ok(totals)
    }

    /// Returns the number of threads of each cluster over time, as pairs of a time in milliseconds and a
    /// number, in order. Clusters without data are missing from the map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
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
            .filter(Change::ClusterId.is_one_of(clusters.iter().copied()))
            .order_by_asc(Change::ClusterId)
            .order_by_asc(Change::ChangedAt)
            .read_tuples(&self.read_executor())
            .await?;
        let mut changes_by_cluster: HashMap<ClusterId, Vec<(i64, i64)>> = HashMap::new();
        for (cluster, changed_at, threads) in rows {
            changes_by_cluster.entry(cluster).or_default().push((changed_at.0, threads));
        }
        Ok(changes_by_cluster)
    }

    /// Upserts the spans of a report.
    pub(crate) async fn record_spans(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[SpanReport],
    ) -> Result<(), StoreError> {
        // The rows are sorted by identifier, since a statement must not contain a row twice and all
        // transactions must lock in the same order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.id, report)).collect();
        let names = |texts: &mut dyn Iterator<Item = String>| Names(texts.collect());
        let rows = reports.values().map(|report| Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            id: report.id,
            sequence,
            number: report.number.map(Count::get),
            parent_id: report.parent_id,
            path: names(&mut report.path.iter().cloned().map(Text::into_string)),
            enqueued_at: report.enqueued_at.timestamp(),
            started_at: report.started_at.map(UnixTime::timestamp),
            stopped_at: report.stopped_at.map(UnixTime::timestamp),
            done: report.done,
            collections: names(&mut report.collections.iter().cloned().map(Text::into_string)),
            code: to_stored_stacks(&report.code),
        });
        self.insert::<Entity>(rows.collect(), &keep_newest_row::<Entity>(Column::Sequence)).await?;
        Ok(())
    }
}

/// Returns each of `roots` with its descendants in `spans`. The result does not depend on the other
/// roots.
fn subtrees(
    roots: &[(ClusterId, SpanId)],
    spans: &HashMap<(ClusterId, SpanId), SpanTimes>,
) -> HashMap<(ClusterId, SpanId), Spans> {
    let mut children: HashMap<(ClusterId, SpanId), Vec<SpanId>> = HashMap::new();
    for ((cluster, id), span) in spans {
        if let Some(parent) = span.parent {
            children.entry((*cluster, parent)).or_default().push(*id);
        }
    }
    let subtree = |root: &(ClusterId, SpanId)| {
        let (mut subtree_ids, mut level) = (BTreeSet::from([root.1]), vec![root.1]);
        for _ in 1..MAX_LEVELS {
            let child_ids = level.iter().filter_map(|id| children.get(&(root.0, *id))).flatten().copied();
            level = child_ids.collect();
            level.retain(|id| subtree_ids.insert(*id));
            if level.is_empty() {
                break;
            }
        }
        Spans::new(subtree_ids.into_iter().filter_map(|id| spans.get(&(root.0, id)).copied()))
    };
    roots.iter().map(|root| (*root, subtree(root))).collect()
}
