//! Samples of clusters and workers. Ten minutes are packed into one row, which each report extends and
//! queries aggregate.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use entity::{
    cluster_sample_chunk as cluster_chunk,
    ids::{ClusterId, KeyTime, WorkerId},
    worker_sample_chunk as worker_chunk,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Expr, UnionType},
};
use uuid::Uuid;

use crate::{
    domain::{
        metric::Metric,
        report::SampleReport,
        sample_chunk::{Samples, locate, pack, unpack},
        series::{Buckets, Window},
    },
    store::core::{
        chunk_ranges::ChunkRanges, composite_in::IsOneOf, error::StoreError, read_rows::ReadSelect,
        scoped::AccountStore, upsert::replace,
    },
};

/// The cluster or worker that samples belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SeriesParent {
    /// A cluster as a whole.
    Cluster(ClusterId),
    /// A worker.
    Worker(ClusterId, WorkerId),
}

impl From<ClusterId> for SeriesParent {
    fn from(cluster: ClusterId) -> Self {
        Self::Cluster(cluster)
    }
}

/// The largest number of index lookups of one statement: its lists of workers and times multiply.
const MAX_LOOKUP: usize = 20_000;

/// The largest number of chunks that one statement reads: a few megabytes.
const MAX_CHUNKS: u64 = 4_096;

type Ranges = ChunkRanges<SeriesParent>;

/// A row of either table.
type Chunk = (SeriesParent, KeyTime, Vec<u8>);

impl AccountStore {
    /// Returns the measurements of each parent within its window, in the order of `parents`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer or a chunk is damaged.
    #[tracing::instrument(name = "store.sample_chunk.series", skip_all)]
    pub async fn series(
        &self,
        parents: &[(SeriesParent, Window)],
        metrics: &[Metric],
    ) -> Result<Vec<Buckets>, StoreError> {
        let mut series: Vec<Buckets> =
            parents.iter().map(|(_, window)| Buckets::new(*window, metrics)).collect();
        let mut indexes: BTreeMap<SeriesParent, Vec<usize>> = BTreeMap::new();
        let windows = || parents.iter().enumerate().filter(|(_, (_, window))| !window.is_empty());
        for (index, (parent, _)) in windows() {
            indexes.entry(*parent).or_default().push(index);
        }
        let mut ranges = Ranges::new(windows().map(|(_, (parent, window))| (*parent, window.chunks())));
        let workers = ranges.split_off(SeriesParent::Worker(ClusterId(i64::MIN), WorkerId(Uuid::nil())));
        for mut ranges in [ranges, workers] {
            while !ranges.is_empty() {
                let chunks = self.chunks(&ranges).await?;
                for (parent, started_at, data) in &chunks {
                    let samples = unpack(data);
                    let samples = samples.map_err(|damaged| StoreError::damaged(&damaged))?;
                    for index in indexes.get(parent).into_iter().flatten() {
                        series[*index].add(started_at.0, &samples);
                    }
                }
                let Some((parent, started_at, _)) = chunks.last().filter(|_| is_full(&chunks)) else { break };
                // The next statement reads the chunks after the last one read.
                ranges.remove_through(*parent, started_at.0);
            }
        }
        Ok(series)
    }

    /// Returns the first chunks of these ranges, in their order. The ranges are all of clusters or all
    /// of workers.
    async fn chunks(&self, ranges: &Ranges) -> Result<Vec<Chunk>, StoreError> {
        let mut clusters = BTreeSet::new();
        let mut workers = BTreeSet::new();
        for (parent, ..) in ranges.iter() {
            match parent {
                SeriesParent::Cluster(cluster) => clusters.insert(cluster),
                SeriesParent::Worker(cluster, worker) => clusters.insert(cluster) | workers.insert(worker),
            };
        }
        let (first, last) = ranges.extent();
        // The ranges alone would select the rows, but SQLite uses the index for alternatives only if the
        // single columns are filtered too.
        if workers.is_empty() {
            use cluster_chunk::Column::{ClusterId, Data, StartedAt};
            let rows: Vec<(entity::ids::ClusterId, KeyTime, Vec<u8>)> = self
                .select::<cluster_chunk::Entity>()
                .select_only()
                .columns([ClusterId, StartedAt, Data])
                .filter(ClusterId.is_one_of(clusters))
                .filter(StartedAt.between(first, last))
                .filter(ranges.iter().fold(Condition::any(), |alternatives, (parent, first, last)| {
                    match parent {
                        SeriesParent::Cluster(cluster) => {
                            let range = StartedAt.between(first, last);
                            alternatives.add(Condition::all().add(ClusterId.eq(cluster)).add(range))
                        }
                        SeriesParent::Worker(..) => alternatives,
                    }
                }))
                .order_by_asc(ClusterId)
                .order_by_asc(StartedAt)
                .limit(MAX_CHUNKS)
                .read_tuples(&self.read_executor())
                .await?;
            let chunk = |(cluster, start, data)| (SeriesParent::Cluster(cluster), start, data);
            Ok(rows.into_iter().map(chunk).collect())
        } else {
            use worker_chunk::Column::{ClusterId, Data, StartedAt, WorkerId};
            let rows: Vec<(entity::ids::ClusterId, entity::ids::WorkerId, KeyTime, Vec<u8>)> = self
                .select::<worker_chunk::Entity>()
                .select_only()
                .columns([ClusterId, WorkerId, StartedAt, Data])
                .filter(ClusterId.is_one_of(clusters))
                .filter(WorkerId.is_one_of(workers))
                .filter(StartedAt.between(first, last))
                .filter(ranges.iter().fold(Condition::any(), |alternatives, (parent, first, last)| {
                    match parent {
                        SeriesParent::Worker(cluster, worker) => {
                            let worker = Condition::all().add(ClusterId.eq(cluster)).add(WorkerId.eq(worker));
                            alternatives.add(worker.add(StartedAt.between(first, last)))
                        }
                        SeriesParent::Cluster(_) => alternatives,
                    }
                }))
                .order_by_asc(ClusterId)
                .order_by_asc(WorkerId)
                .order_by_asc(StartedAt)
                .limit(MAX_CHUNKS)
                .read_tuples(&self.read_executor())
                .await?;
            let chunk = |(cluster, worker, start, data)| (SeriesParent::Worker(cluster, worker), start, data);
            Ok(rows.into_iter().map(chunk).collect())
        }
    }

    /// Merges the samples of a report into the stored chunks. The cluster's row is locked, so there is
    /// no concurrent writer.
    pub(crate) async fn record_samples(
        &self,
        cluster: ClusterId,
        reports: &[SampleReport],
    ) -> Result<(), StoreError> {
        if reports.is_empty() {
            return Ok(());
        }
        let mut reported: BTreeMap<(Option<WorkerId>, KeyTime), Samples> = BTreeMap::new();
        for report in reports {
            let (start, offset) = locate(KeyTime::from(report.at.timestamp()).0);
            let samples = reported.entry((report.worker_id, KeyTime(start))).or_default();
            samples.add(offset, report.metrics.0.iter().map(|(metric, value)| (*metric, *value)));
        }
        let mut stored = self.stored_chunks(cluster, reported.keys().copied()).await?;
        let (mut cluster_rows, mut worker_rows) = (Vec::new(), Vec::new());
        for ((worker, started_at), reported) in reported {
            let stored_data = stored.remove(&(worker, started_at));
            let Some((samples, data)) = merge(stored_data.as_deref(), reported) else {
                continue;
            };
            let (account_id, cluster_id) = (self.account_id(), cluster);
            match worker {
                None => cluster_rows.push(cluster_chunk::Model {
                    account_id,
                    cluster_id,
                    started_at,
                    samples,
                    data,
                }),
                Some(worker_id) => worker_rows.push(worker_chunk::Model {
                    account_id,
                    cluster_id,
                    worker_id,
                    started_at,
                    samples,
                    data,
                }),
            }
        }
        self.insert::<cluster_chunk::Entity>(cluster_rows, &replace::<cluster_chunk::Entity>()).await?;
        self.insert::<worker_chunk::Entity>(worker_rows, &replace::<worker_chunk::Entity>()).await?;
        Ok(())
    }

    /// Returns the stored chunks with these keys, and perhaps some others. A few hundred keys need one
    /// statement.
    async fn stored_chunks(
        &self,
        cluster: ClusterId,
        keys: impl Iterator<Item = (Option<WorkerId>, KeyTime)>,
    ) -> Result<HashMap<(Option<WorkerId>, KeyTime), Vec<u8>>, StoreError> {
        let (cluster_keys, worker_keys): (Vec<_>, Vec<_>) = keys.partition(|(worker, _)| worker.is_none());
        let worker_keys = worker_keys.into_iter().filter_map(|(worker, start)| Some((worker?, start)));
        let mut cluster_keys = cluster_keys.chunks(MAX_LOOKUP);
        let mut worker_keys = lookups(worker_keys).into_iter();
        let mut stored = HashMap::new();
        loop {
            let cluster_keys = cluster_keys.next().map(|keys| {
                use cluster_chunk::Column::{ClusterId, Data, StartedAt};
                let select = self.select::<cluster_chunk::Entity>().select_only();
                let select = select.expr(Expr::cust("CAST(NULL AS uuid)")).columns([StartedAt, Data]);
                let select = select.filter(ClusterId.eq(cluster));
                select.filter(StartedAt.is_one_of(keys.iter().map(|(_, start)| *start))).into_query()
            });
            let worker_keys = worker_keys.next().map(|(workers, starts)| {
                use worker_chunk::Column::{ClusterId, Data, StartedAt, WorkerId};
                let select = self.select::<worker_chunk::Entity>().select_only();
                let select = select.columns([WorkerId, StartedAt, Data]).filter(ClusterId.eq(cluster));
                select.filter(WorkerId.is_one_of(workers)).filter(StartedAt.is_one_of(starts)).into_query()
            });
            let select = match (cluster_keys, worker_keys) {
                (Some(mut one), Some(other)) => one.union(UnionType::All, other).take(),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return Ok(stored),
            };
            for row in self.write_executor().query_all(&select).await? {
                let (worker, start, data) = row.try_get_many_by_index()?;
                stored.insert((worker, start), data);
            }
        }
    }
}

/// Returns true if there may be more chunks to read.
fn is_full(chunks: &[Chunk]) -> bool {
    chunks.len() as u64 == MAX_CHUNKS
}

/// Returns the number of samples and the packed data of a chunk after merging `reported` into it. `None` if
/// the chunk does not change.
fn merge(stored: Option<&[u8]>, reported: Samples) -> Option<(i32, Vec<u8>)> {
    let samples = match stored.map(unpack).transpose() {
        Ok(None) => reported,
        Ok(Some(mut stored_samples)) => {
            if !stored_samples.merge(&reported) {
                return None;
            }
            stored_samples
        }
        // The damaged chunk is kept for a reader that understands it, such as a newer server, and the
        // report must not fail forever.
        Err(damaged) => {
            tracing::error!(
                error = %damaged,
                "samples dropped, because the stored samples of the same period are damaged"
            );
            return None;
        }
    };
    let count = i32::try_from(samples.len()).unwrap_or(i32::MAX);
    (count > 0).then(|| (count, pack(&samples)))
}

/// Returns groups of workers and times whose combinations contain all the keys. The groups are few and
/// bounded in size.
fn lookups(keys: impl Iterator<Item = (WorkerId, KeyTime)>) -> Vec<(BTreeSet<WorkerId>, BTreeSet<KeyTime>)> {
    let mut keys_by_time: Vec<(KeyTime, WorkerId)> = keys.map(|(worker, start)| (start, worker)).collect();
    keys_by_time.sort_unstable();
    let mut groups: Vec<(BTreeSet<WorkerId>, BTreeSet<KeyTime>)> = Vec::new();
    for (start, worker) in keys_by_time {
        let (workers, starts) = match groups.last_mut() {
            Some(group) if (group.0.len() + 1) * (group.1.len() + 1) <= MAX_LOOKUP => group,
            _ => {
                groups.push(Default::default());
                groups.last_mut().expect("one was just added")
            }
        };
        workers.insert(worker);
        starts.insert(start);
    }
    groups
}
