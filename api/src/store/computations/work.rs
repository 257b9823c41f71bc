//! The data of an analysis: some clusters, some of their spans, and the metrics stored for those.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use entity::{
    Timestamp,
    cluster::{self, Model},
    fine_metric,
    ids::{ClusterId, SpanId},
    json_columns::{CodeStacks, Names},
    span, worker,
};
use sea_orm::{ColumnTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect, Select};

use super::fine_metric::NO_SPAN;
use crate::{
    blocking_work::run_blocking,
    domain::{
        breakdown::{Breakdown, SpanFilter, WorkSelection},
        fine_metric::{CellReader, ReadCellsError},
        span::SpanTimes,
    },
    store::{
        clusters::{cluster_filter::ClusterFilter, cross_cluster::TimeRange},
        core::{
            composite_in::{IsOneOf, one_of},
            error::StoreError,
            read_rows::ReadSelect,
            scoped::AccountStore,
        },
    },
};

/// The largest number of rows, and of identifiers, of one statement.
const MAX_ROWS: usize = 2_000;

/// The largest number of spans, and of rows of metrics, read for one analysis.
const MAX_READ: usize = 100_000;

/// The largest number of spans whose code is read.
const MAX_CODE: usize = 10_000;

/// The reason for refusing an analysis.
const TOO_MANY_SPANS: &str =
    "the clusters of the scope have more than 100000 spans: request fewer clusters or a shorter period";

/// A span of an analysis: its times and its path.
#[derive(Clone, Debug)]
pub struct AnalysisSpan {
    /// The cluster.
    pub cluster: ClusterId,
    /// The times.
    pub times: SpanTimes,
    /// The tags from the outermost span to its own.
    pub path: Arc<[String]>,
}

/// The largest size of a cluster's workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSize {
    /// The number of threads.
    pub threads: i64,
    /// The memory limit, in bytes. `None` if no worker had one.
    pub memory_limit_bytes: Option<i64>,
}

impl AccountStore {
    /// Returns the clusters that match a filter, are among `ids` if it is given, and are known to have
    /// existed at some time from `from` to before `to`. They are sorted by their start, at most `limit`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.work.clusters", skip_all)]
    pub async fn work_clusters(
        &self,
        filter: &ClusterFilter,
        ids: Option<&BTreeSet<ClusterId>>,
        range: TimeRange,
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        use cluster::Column::{Id, StartedAt};
        let mut select = self.select_clusters_in_range(filter, range);
        if let Some(ids) = ids {
            select = select.filter(Id.is_one_of(ids.iter().copied()));
        }
        Ok(select
            .order_by_asc(StartedAt)
            .order_by_asc(Id)
            .limit(limit)
            .read_models(&self.read_executor())
            .await?)
    }

    /// Returns the spans of clusters that match a choice.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, or [`StoreError::TooLarge`] if there are more
    /// than 100,000 spans.
    #[tracing::instrument(name = "store.work.spans", skip_all)]
    pub async fn analysis_spans(
        &self,
        clusters: &[ClusterId],
        filter: SpanFilter,
    ) -> Result<Vec<AnalysisSpan>, StoreError> {
        use span::Column::{
            ClusterId as OfCluster, Done, EnqueuedAt, Id, ParentId, Path, StartedAt, StoppedAt,
        };
        type Row =
            (ClusterId, SpanId, Option<SpanId>, Names, Timestamp, Option<Timestamp>, Option<Timestamp>, bool);
        let columns = [OfCluster, Id, ParentId, Path, EnqueuedAt, StartedAt, StoppedAt, Done];
        let mut select = self.select::<span::Entity>().filter(OfCluster.is_one_of(clusters.iter().copied()));
        for (time, is_start) in [(filter.from, true), (filter.to, false)] {
            if let Some(time) = time {
                select = select.filter(if is_start { EnqueuedAt.gte(time) } else { EnqueuedAt.lt(time) });
            }
        }
        let select = select.select_only().columns(columns).limit(MAX_READ as u64 + 1);
        let rows: Vec<Row> = select.read_tuples(&self.read_executor()).await?;
        if rows.len() > MAX_READ {
            return Err(StoreError::TooLarge(TOO_MANY_SPANS));
        }
        let milliseconds = |time: Timestamp| time.timestamp_millis();
        let spans = rows.into_iter().filter_map(move |row| {
            let (cluster, id, parent, Names(path), enqueued, started, stopped, done) = row;
            let enqueued = milliseconds(enqueued);
            let (started, stopped) = (started.map(milliseconds), stopped.map(milliseconds));
            filter.has(&path, enqueued).then(|| AnalysisSpan {
                cluster,
                times: SpanTimes { id, parent, enqueued, started, stopped, done },
                path: path.into(),
            })
        });
        Ok(run_blocking(|| spans.collect()).await)
    }

    /// Adds the fine performance metrics of an analysis to a breakdown. Returns the breakdown and the
    /// number of rows read.
    ///
    /// # Errors
    /// Returns an error if the database does not answer, or [`StoreError::TooLarge`] if there are more
    /// than 100,000 rows.
    #[tracing::instrument(name = "store.work.break_down", skip_all)]
    pub async fn break_down(
        &self,
        work: Arc<WorkSelection>,
        mut breakdown: Breakdown,
    ) -> Result<(Breakdown, usize), StoreError> {
        use fine_metric::Column::{ClusterId, SpanId};
        let (mut labels, mut rows_read) = (CellReader::default(), 0);
        for batch in self.metrics_of(&work) {
            let mut page = batch.clone();
            loop {
                let rows = page.read_models(&self.read_executor()).await?;
                let last = rows.last().map(|row| (row.cluster_id, row.span_id));
                let is_last_page = rows.len() < MAX_ROWS;
                rows_read += rows.len();
                if rows_read > MAX_READ {
                    return Err(StoreError::TooLarge(TOO_MANY_SPANS));
                }
                let work = Arc::clone(&work);
                (labels, breakdown) = run_blocking(move || -> Result<_, ReadCellsError> {
                    for row in rows {
                        let span = Some(row.span_id).filter(|span| *span != NO_SPAN);
                        let cells = labels.read(&row.cells, span.is_some())?;
                        breakdown.add(&work, row.cluster_id, span, &cells)?;
                    }
                    Ok((labels, breakdown))
                })
                .await?;
                let Some((cluster, span)) = last.filter(|_| !is_last_page) else { break };
                let same_cluster = ClusterId.eq(cluster).and(SpanId.gt(span));
                page = batch.clone().filter(ClusterId.gt(cluster).or(same_cluster));
            }
        }
        Ok((breakdown, rows_read))
    }

    /// Returns the statements for the metrics of an analysis: one for each batch of its spans if it
    /// covers these alone, or one for all of its clusters.
    fn metrics_of(&self, work: &WorkSelection) -> Vec<Select<fine_metric::Entity>> {
        use fine_metric::Column::{ClusterId, SpanId};
        let select_metrics = || {
            let select = self.select::<fine_metric::Entity>();
            select.order_by_asc(ClusterId).order_by_asc(SpanId).limit(MAX_ROWS as u64)
        };
        match &work.spans {
            Some(spans) if work.only_selected_spans => {
                let ids: BTreeSet<_> = spans.keys().copied().collect();
                let ids = Vec::from_iter(ids);
                ids.chunks(MAX_ROWS)
                    .map(|ids| select_metrics().filter(one_of(ClusterId, SpanId, ids)))
                    .collect()
            }
            _ if work.clusters.is_empty() => Vec::new(),
            _ => vec![select_metrics().filter(ClusterId.is_one_of(work.clusters.keys().copied()))],
        }
    }

    /// Returns the hashes of the code that called Dask for the spans of each cluster. Clusters without
    /// code are missing from the map. The map is empty for more than 10,000 spans, whose code would take
    /// too long to read.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.work.code", skip_all)]
    pub async fn code_of_clusters(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, BTreeSet<String>>, StoreError> {
        use span::Column::{ClusterId as OfCluster, Code};
        let rows: Vec<(ClusterId, CodeStacks)> = self
            .select::<span::Entity>()
            .select_only()
            .columns([OfCluster, Code])
            .filter(OfCluster.is_one_of(clusters.iter().copied()))
            .limit(MAX_CODE as u64 + 1)
            .read_tuples(&self.read_executor())
            .await?;
        if rows.len() > MAX_CODE {
            return Ok(HashMap::new());
        }
        let mut hashes_by_cluster: HashMap<ClusterId, BTreeSet<String>> = HashMap::new();
        for (cluster, CodeStacks(stacks)) in rows {
            let hashes = stacks.into_iter().flatten().filter_map(|frame| frame.hash);
            let mut hashes = hashes.peekable();
            if hashes.peek().is_some() {
                hashes_by_cluster.entry(cluster).or_default().extend(hashes);
            }
        }
        Ok(hashes_by_cluster)
    }

    /// Returns the largest size of the workers of each cluster. Clusters without workers are missing
    /// from the map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.work.worker_sizes", skip_all)]
    pub async fn worker_sizes(
        &self,
        clusters: &[ClusterId],
    ) -> Result<BTreeMap<ClusterId, WorkerSize>, StoreError> {
        use worker::Column::{ClusterId as OfCluster, MemoryLimitBytes, Threads};
        let rows: Vec<(ClusterId, i64, Option<i64>)> = self
            .select::<worker::Entity>()
            .select_only()
            .column(OfCluster)
            .column_as(Threads.max(), "threads")
            .column_as(MemoryLimitBytes.max(), "memory")
            .filter(OfCluster.is_one_of(clusters.iter().copied()))
            .group_by(OfCluster)
            .read_tuples(&self.read_executor())
            .await?;
        let size =
            |(cluster, threads, memory_limit_bytes)| (cluster, WorkerSize { threads, memory_limit_bytes });
        Ok(rows.into_iter().map(size).collect())
    }
}
