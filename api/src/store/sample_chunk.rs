//! Samples of clusters and workers: packed ten minutes to a row, merged by every report, summed up when read.

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

use super::{error::StoreError, scoped::AccountStore, upsert::replace};
use crate::domain::{
    metric::Metric,
    report::SampleReport,
    sample_chunk::{Samples, pack, place, unpack},
    series::{Buckets, Window},
};

/// Whose samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SeriesParent {
    /// A cluster's as a whole.
    Cluster(ClusterId),
    /// A worker's.
    Worker(ClusterId, WorkerId),
}

/// Rows looked up by one statement at the most: their key ranges multiply.
const MAX_LOOKUP: usize = 20_000;

/// Chunks read by one statement at the most: a few megabytes.
const MAX_CHUNKS: u64 = 4_096;

/// From which chunk to which of whom.
type Ranges = BTreeMap<SeriesParent, (i64, i64)>;

/// A row of either table that was read.
type Chunk = (SeriesParent, KeyTime, Vec<u8>);

impl AccountStore {
    /// The measurements of each parent within its window, in the order of `parents`.
    ///
    /// # Errors
    /// When the database does not answer, or a chunk is damaged.
    #[tracing::instrument(name = "store.sample_chunk.series", skip_all)]
    pub async fn series(
        &self,
        parents: &[(SeriesParent, Window)],
        metrics: &[Metric],
    ) -> Result<Vec<Buckets>, StoreError> {
        let mut series: Vec<Buckets> =
            parents.iter().map(|(_, window)| Buckets::new(*window, metrics)).collect();
        let mut places: BTreeMap<SeriesParent, Vec<usize>> = BTreeMap::new();
        let mut ranges = Ranges::new();
        for (place, (parent, window)) in parents.iter().enumerate().filter(|(_, (_, w))| !w.is_empty()) {
            places.entry(*parent).or_default().push(place);
            let (first, last) = window.chunks();
            let range = ranges.entry(*parent).or_insert((first, last));
            *range = (range.0.min(first), range.1.max(last));
        }
        let workers = ranges.split_off(&SeriesParent::Worker(ClusterId(i64::MIN), WorkerId(Uuid::nil())));
        for mut ranges in [ranges, workers] {
            while !ranges.is_empty() {
                let chunks = self.chunks(&ranges).await?;
                for (parent, started_at, data) in &chunks {
                    let samples = unpack(data);
                    let samples = samples.map_err(|damaged| StoreError::damaged(&damaged))?;
                    for place in places.get(parent).into_iter().flatten() {
                        series[*place].add(started_at.0, &samples);
                    }
                }
                let Some((parent, started_at, _)) = chunks.last().filter(|_| is_full(&chunks)) else { break };
                // What follows the last one that was read.
                ranges = ranges.split_off(parent);
                ranges.entry(*parent).and_modify(|range| range.0 = started_at.0 + 1);
            }
        }
        Ok(series)
    }

    /// The first chunks of these ranges, which are all of clusters or all of workers, in their order.
    async fn chunks(&self, ranges: &Ranges) -> Result<Vec<Chunk>, StoreError> {
        let mut clusters = BTreeSet::new();
        let mut workers = BTreeSet::new();
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        for (parent, range) in ranges {
            match parent {
                SeriesParent::Cluster(cluster) => clusters.insert(*cluster),
                SeriesParent::Worker(cluster, worker) => clusters.insert(*cluster) | workers.insert(*worker),
            };
            (first, last) = (first.min(range.0), last.max(range.1));
        }
        // The ranges say all, but SQLite looks an alternative up in the index only if what it has to do with stands
        // beside it, too.
        if workers.is_empty() {
            use cluster_chunk::Column::{ClusterId, Data, StartedAt};
            let rows: Vec<(entity::ids::ClusterId, KeyTime, Vec<u8>)> = self
                .select::<cluster_chunk::Entity>()
                .select_only()
                .columns([ClusterId, StartedAt, Data])
                .filter(ClusterId.is_in(clusters))
                .filter(StartedAt.between(first, last))
                .filter(ranges.iter().fold(Condition::any(), |any, (parent, (first, last))| match parent {
                    SeriesParent::Cluster(cluster) => {
                        let range = StartedAt.between(*first, *last);
                        any.add(Condition::all().add(ClusterId.eq(*cluster)).add(range))
                    }
                    SeriesParent::Worker(..) => any,
                }))
                .order_by_asc(ClusterId)
                .order_by_asc(StartedAt)
                .limit(MAX_CHUNKS)
                .into_tuple()
                .all(&self.reads())
                .await?;
            let chunk = |(cluster, start, data)| (SeriesParent::Cluster(cluster), start, data);
            Ok(rows.into_iter().map(chunk).collect())
        } else {
            use worker_chunk::Column::{ClusterId, Data, StartedAt, WorkerId};
            let rows: Vec<(entity::ids::ClusterId, entity::ids::WorkerId, KeyTime, Vec<u8>)> = self
                .select::<worker_chunk::Entity>()
                .select_only()
                .columns([ClusterId, WorkerId, StartedAt, Data])
                .filter(ClusterId.is_in(clusters))
                .filter(WorkerId.is_in(workers))
                .filter(StartedAt.between(first, last))
                .filter(ranges.iter().fold(Condition::any(), |any, (parent, (first, last))| match parent {
                    SeriesParent::Worker(cluster, worker) => {
                        let worker = Condition::all().add(ClusterId.eq(*cluster)).add(WorkerId.eq(*worker));
                        any.add(worker.add(StartedAt.between(*first, *last)))
                    }
                    SeriesParent::Cluster(_) => any,
                }))
                .order_by_asc(ClusterId)
                .order_by_asc(WorkerId)
                .order_by_asc(StartedAt)
                .limit(MAX_CHUNKS)
                .into_tuple()
                .all(&self.reads())
                .await?;
            let chunk = |(cluster, worker, start, data)| (SeriesParent::Worker(cluster, worker), start, data);
            Ok(rows.into_iter().map(chunk).collect())
        }
    }

    /// Merges the samples of a report into what is there. The cluster's row is locked, so nobody else writes.
    pub(crate) async fn record_samples(
        &self,
        cluster: ClusterId,
        reports: &[SampleReport],
    ) -> Result<(), StoreError> {
        if reports.is_empty() {
            return Ok(());
        }
        let mut new: BTreeMap<(Option<WorkerId>, KeyTime), Samples> = BTreeMap::new();
        for report in reports {
            let (start, offset) = place(KeyTime::from(report.at.timestamp()).0);
            let samples = new.entry((report.worker_id, KeyTime(start))).or_default();
            samples.add(offset, report.metrics.0.iter().map(|(metric, value)| (*metric, *value)));
        }
        let mut stored = self.stored_chunks(cluster, new.keys().copied()).await?;
        let (mut of_cluster, mut of_workers) = (Vec::new(), Vec::new());
        for ((worker, started_at), new) in new {
            let known = stored.remove(&(worker, started_at));
            let Some((samples, data)) = merge(known.as_deref(), new) else {
                continue;
            };
            let (account_id, cluster_id) = (self.account_id(), cluster);
            match worker {
                None => of_cluster.push(cluster_chunk::Model {
                    account_id,
                    cluster_id,
                    started_at,
                    samples,
                    data,
                }),
                Some(worker_id) => of_workers.push(worker_chunk::Model {
                    account_id,
                    cluster_id,
                    worker_id,
                    started_at,
                    samples,
                    data,
                }),
            }
        }
        self.insert::<cluster_chunk::Entity>(of_cluster, &replace::<cluster_chunk::Entity>()).await?;
        self.insert::<worker_chunk::Entity>(of_workers, &replace::<worker_chunk::Entity>()).await?;
        Ok(())
    }

    /// What is stored under these keys, and perhaps some others; a few hundred are read by one statement.
    async fn stored_chunks(
        &self,
        cluster: ClusterId,
        keys: impl Iterator<Item = (Option<WorkerId>, KeyTime)>,
    ) -> Result<HashMap<(Option<WorkerId>, KeyTime), Vec<u8>>, StoreError> {
        let (of_cluster, of_workers): (Vec<_>, Vec<_>) = keys.partition(|(worker, _)| worker.is_none());
        let of_workers = of_workers.into_iter().filter_map(|(worker, start)| Some((worker?, start)));
        let mut of_cluster = of_cluster.chunks(MAX_LOOKUP);
        let mut of_workers = lookups(of_workers).into_iter();
        let mut stored = HashMap::new();
        loop {
            let of_cluster = of_cluster.next().map(|keys| {
                use cluster_chunk::Column::{ClusterId, Data, StartedAt};
                let select = self.select::<cluster_chunk::Entity>().select_only();
                let select = select.expr(Expr::cust("CAST(NULL AS uuid)")).columns([StartedAt, Data]);
                let select = select.filter(ClusterId.eq(cluster));
                select.filter(StartedAt.is_in(keys.iter().map(|(_, start)| *start))).into_query()
            });
            let of_workers = of_workers.next().map(|(workers, starts)| {
                use worker_chunk::Column::{ClusterId, Data, StartedAt, WorkerId};
                let select = self.select::<worker_chunk::Entity>().select_only();
                let select = select.columns([WorkerId, StartedAt, Data]).filter(ClusterId.eq(cluster));
                select.filter(WorkerId.is_in(workers)).filter(StartedAt.is_in(starts)).into_query()
            });
            let select = match (of_cluster, of_workers) {
                (Some(mut one), Some(other)) => one.union(UnionType::All, other).take(),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return Ok(stored),
            };
            for row in self.writes().query_all(&select).await? {
                let (worker, start, data) = row.try_get_many_by_index()?;
                stored.insert((worker, start), data);
            }
        }
    }
}

/// Whether there may be more to read.
fn is_full(chunks: &[Chunk]) -> bool {
    chunks.len() as u64 == MAX_CHUNKS
}

/// What a chunk has to become, if it has to: how many samples, and these packed.
fn merge(stored: Option<&[u8]>, new: Samples) -> Option<(i32, Vec<u8>)> {
    let samples = match stored.map(unpack).transpose() {
        Ok(None) => new,
        Ok(Some(mut known)) => {
            if !known.merge(&new) {
                return None;
            }
            known
        }
        // It is kept for whoever can read it, a newer server perhaps; a report must not fail for ever.
        Err(damaged) => {
            tracing::error!(error = %damaged, "samples are given up because of what is stored for their time");
            return None;
        }
    };
    let count = i32::try_from(samples.len()).unwrap_or(i32::MAX);
    (count > 0).then(|| (count, pack(&samples)))
}

/// Keys by workers and times whose combinations hold them all, in few groups that are not too large.
fn lookups(keys: impl Iterator<Item = (WorkerId, KeyTime)>) -> Vec<(BTreeSet<WorkerId>, BTreeSet<KeyTime>)> {
    let mut by_time: Vec<(KeyTime, WorkerId)> = keys.map(|(worker, start)| (start, worker)).collect();
    by_time.sort_unstable();
    let mut groups: Vec<(BTreeSet<WorkerId>, BTreeSet<KeyTime>)> = Vec::new();
    for (start, worker) in by_time {
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
