//! The work that is analysed: some clusters, some of their spans, and what is stored of those.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use entity::{
    Timestamp,
    cluster::{self, Model},
    fine_metric,
    ids::{ClusterId, SpanId},
    list::{CodeStacks, Names},
    span, worker,
};
use sea_orm::{ColumnTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect, Select};

use super::{
    account_list::TimeRange, cluster_filter::ClusterFilter, error::StoreError, fine_metric::NO_SPAN,
    one_of::one_of, scoped::AccountStore,
};
use crate::{
    blocking::blocking,
    domain::{
        breakdown::{Breakdown, SpanChoice, Work},
        fine_metric::{Labels, Unreadable},
        span::SpanTimes,
    },
};

/// Rows, and identifiers of rows, of one statement at the most.
const MAX_ROWS: usize = 2_000;

/// Rows of spans, and of their metrics, that are read for one piece of work at the most.
const MAX_READ: usize = 100_000;

/// Spans whose code is looked at, at the most.
const MAX_CODE: usize = 10_000;

/// Why work is not analysed.
const TOO_MANY_SPANS: &str =
    "the clusters of the scope have more than 100000 spans: ask for fewer clusters or for less time";

/// A span of some work: what it needs for arithmetic, and its path.
#[derive(Clone, Debug)]
pub struct WorkSpan {
    /// Its cluster.
    pub cluster: ClusterId,
    /// Its times.
    pub times: SpanTimes,
    /// The tags from the outermost span to its own.
    pub path: Arc<[String]>,
}

/// How large the workers of a cluster were at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerSize {
    /// Threads.
    pub threads: i64,
    /// Memory limit in bytes; none when no worker had one.
    pub memory_limit_bytes: Option<i64>,
}

impl AccountStore {
    /// The clusters that pass a filter, that are among `ids` if there are any, and that are known to have been there at a
    /// time from `from` to before `to`: the first so many by when they started.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.work.clusters", skip_all)]
    pub async fn work_clusters(
        &self,
        filter: &ClusterFilter,
        ids: Option<&BTreeSet<ClusterId>>,
        range: TimeRange,
        limit: u64,
    ) -> Result<Vec<Model>, StoreError> {
        use cluster::Column::{Id, StartedAt};
        let mut select = self.clusters_during(filter, range);
        if let Some(ids) = ids {
            select = select.filter(Id.is_in(ids.iter().copied()));
        }
        Ok(select.order_by_asc(StartedAt).order_by_asc(Id).limit(limit).all(&self.reads()).await?)
    }

    /// The spans of clusters that are chosen.
    ///
    /// # Errors
    /// When the database does not answer, or [`StoreError::TooMuch`].
    #[tracing::instrument(name = "store.work.spans", skip_all)]
    pub async fn work_spans(
        &self,
        clusters: &[ClusterId],
        choice: SpanChoice,
    ) -> Result<Vec<WorkSpan>, StoreError> {
        use span::Column::{
            ClusterId as OfCluster, Done, EnqueuedAt, Id, ParentId, Path, StartedAt, StoppedAt,
        };
        type Row =
            (ClusterId, SpanId, Option<SpanId>, Names, Timestamp, Option<Timestamp>, Option<Timestamp>, bool);
        let columns = [OfCluster, Id, ParentId, Path, EnqueuedAt, StartedAt, StoppedAt, Done];
        let mut select = self.select::<span::Entity>().filter(OfCluster.is_in(clusters.iter().copied()));
        for (bound, is_from) in [(choice.from, true), (choice.to, false)] {
            if let Some(at) = bound {
                select = select.filter(if is_from { EnqueuedAt.gte(at) } else { EnqueuedAt.lt(at) });
            }
        }
        let select = select.select_only().columns(columns).limit(MAX_READ as u64 + 1);
        let rows: Vec<Row> = select.into_tuple().all(&self.reads()).await?;
        if rows.len() > MAX_READ {
            return Err(StoreError::TooMuch(TOO_MANY_SPANS));
        }
        let milliseconds = |time: Timestamp| time.timestamp_millis();
        let spans = rows.into_iter().filter_map(move |row| {
            let (cluster, id, parent, Names(path), enqueued, started, stopped, done) = row;
            let enqueued = milliseconds(enqueued);
            let (started, stopped) = (started.map(milliseconds), stopped.map(milliseconds));
            choice.has(&path, enqueued).then(|| WorkSpan {
                cluster,
                times: SpanTimes { id, parent, enqueued, started, stopped, done },
                path: path.into(),
            })
        });
        Ok(blocking(|| spans.collect()).await)
    }

    /// Adds the fine performance metrics of some work to a breakdown, and tells how many rows were read.
    ///
    /// # Errors
    /// When the database does not answer, or [`StoreError::TooMuch`].
    #[tracing::instrument(name = "store.work.break_down", skip_all)]
    pub async fn break_down(
        &self,
        work: Arc<Work>,
        mut breakdown: Breakdown,
    ) -> Result<(Breakdown, usize), StoreError> {
        use fine_metric::Column::{ClusterId, SpanId};
        let (mut labels, mut read) = (Labels::default(), 0);
        for part in self.metrics_of(&work) {
            let mut page = part.clone();
            loop {
                let rows = page.all(&self.reads()).await?;
                let last = rows.last().map(|row| (row.cluster_id, row.span_id));
                let whole = rows.len() < MAX_ROWS;
                read += rows.len();
                if read > MAX_READ {
                    return Err(StoreError::TooMuch(TOO_MANY_SPANS));
                }
                let of = Arc::clone(&work);
                (labels, breakdown) = blocking(move || -> Result<_, Unreadable> {
                    for row in rows {
                        let span = Some(row.span_id).filter(|span| *span != NO_SPAN);
                        let cells = labels.read(&row.cells, span.is_some())?;
                        breakdown.add(&of, row.cluster_id, span, &cells)?;
                    }
                    Ok((labels, breakdown))
                })
                .await?;
                let Some((cluster, span)) = last.filter(|_| !whole) else { break };
                let same_cluster = ClusterId.eq(cluster).and(SpanId.gt(span));
                page = part.clone().filter(ClusterId.gt(cluster).or(same_cluster));
            }
        }
        Ok((breakdown, read))
    }

    /// The rows of metrics of some work, by parts: those of its spans if it is some of them alone, and all of its
    /// clusters otherwise.
    fn metrics_of(&self, work: &Work) -> Vec<Select<fine_metric::Entity>> {
        use fine_metric::Column::{ClusterId, SpanId};
        let part = || {
            let select = self.select::<fine_metric::Entity>();
            select.order_by_asc(ClusterId).order_by_asc(SpanId).limit(MAX_ROWS as u64)
        };
        match &work.spans {
            Some(spans) if work.spans_alone => {
                let ids: BTreeSet<_> = spans.keys().copied().collect();
                let ids = Vec::from_iter(ids);
                ids.chunks(MAX_ROWS).map(|ids| part().filter(one_of(ClusterId, SpanId, ids))).collect()
            }
            _ if work.clusters.is_empty() => Vec::new(),
            _ => vec![part().filter(ClusterId.is_in(work.clusters.keys().copied()))],
        }
    }

    /// The hashes of the code that called Dask for the spans of each cluster; clusters without any are missing. None of
    /// very many spans, whose code would take long to be read.
    ///
    /// # Errors
    /// When the database does not answer.
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
            .filter(OfCluster.is_in(clusters.iter().copied()))
            .limit(MAX_CODE as u64 + 1)
            .into_tuple()
            .all(&self.reads())
            .await?;
        if rows.len() > MAX_CODE {
            return Ok(HashMap::new());
        }
        let mut found: HashMap<ClusterId, BTreeSet<String>> = HashMap::new();
        for (cluster, CodeStacks(stacks)) in rows {
            let hashes = stacks.into_iter().flatten().filter_map(|frame| frame.hash);
            let mut hashes = hashes.peekable();
            if hashes.peek().is_some() {
                found.entry(cluster).or_default().extend(hashes);
            }
        }
        Ok(found)
    }

    /// How large the workers of each cluster were; clusters without any are missing.
    ///
    /// # Errors
    /// When the database does not answer.
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
            .filter(OfCluster.is_in(clusters.iter().copied()))
            .group_by(OfCluster)
            .into_tuple()
            .all(&self.reads())
            .await?;
        let size =
            |(cluster, threads, memory_limit_bytes)| (cluster, WorkerSize { threads, memory_limit_bytes });
        Ok(rows.into_iter().map(size).collect())
    }
}
