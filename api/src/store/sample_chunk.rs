//! Samples of clusters and workers: packed ten minutes to a row, merged by every report, summed up when read.

use std::collections::{BTreeMap, BTreeSet};

use entity::{
    cluster_sample_chunk as cluster_chunk,
    ids::{ClusterId, KeyTime, WorkerId},
    worker_sample_chunk as worker_chunk,
};
use sea_orm::{ColumnTrait, Condition, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use super::{error::StoreError, scoped::AccountStore, upsert::replace};
use crate::domain::{
    metric::Metric,
    report::SampleReport,
    sample_chunk::{Codec, Samples, place},
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
        let mut codec = Codec::default();
        for mut ranges in [ranges, workers] {
            while !ranges.is_empty() {
                let chunks = self.chunks(&ranges).await?;
                for (parent, started_at, data) in &chunks {
                    let columns = codec.columns(data).map_err(|damaged| StoreError::damaged(&damaged))?;
                    for place in places.get(parent).into_iter().flatten() {
                        series[*place].add(started_at.0, &columns);
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
        let mut of_cluster: BTreeMap<KeyTime, Samples> = BTreeMap::new();
        let mut of_workers: BTreeMap<(WorkerId, KeyTime), Samples> = BTreeMap::new();
        for report in reports {
            let (start, offset) = place(KeyTime::from(report.at.timestamp()).0);
            let samples = match report.worker_id {
                None => of_cluster.entry(KeyTime(start)).or_default(),
                Some(worker) => of_workers.entry((worker, KeyTime(start))).or_default(),
            };
            samples.add(offset, report.metrics.0.iter().map(|(metric, value)| (*metric, *value)));
        }
        let mut codec = Codec::default();
        self.merge_cluster_chunks(cluster, of_cluster, &mut codec).await?;
        self.merge_worker_chunks(cluster, of_workers, &mut codec).await
    }

    async fn merge_cluster_chunks(
        &self,
        cluster: ClusterId,
        new: BTreeMap<KeyTime, Samples>,
        codec: &mut Codec,
    ) -> Result<(), StoreError> {
        use cluster_chunk::Column::{ClusterId, Data, StartedAt};
        let starts: Vec<KeyTime> = new.keys().copied().collect();
        let mut stored = BTreeMap::new();
        for starts in starts.chunks(MAX_LOOKUP) {
            let rows: Vec<(KeyTime, Vec<u8>)> = self
                .select::<cluster_chunk::Entity>()
                .select_only()
                .columns([StartedAt, Data])
                .filter(ClusterId.eq(cluster))
                .filter(StartedAt.is_in(starts.iter().copied()))
                .into_tuple()
                .all(&self.writes())
                .await?;
            stored.extend(rows);
        }
        let merged = new.into_iter().filter_map(|(started_at, samples)| {
            let (samples, data) = merge(codec, stored.get(&started_at), samples)?;
            let account_id = self.account_id();
            Some(cluster_chunk::Model { account_id, cluster_id: cluster, started_at, samples, data })
        });
        self.insert::<cluster_chunk::Entity>(merged.collect(), &replace::<cluster_chunk::Entity>()).await?;
        Ok(())
    }

    async fn merge_worker_chunks(
        &self,
        cluster: ClusterId,
        new: BTreeMap<(WorkerId, KeyTime), Samples>,
        codec: &mut Codec,
    ) -> Result<(), StoreError> {
        use worker_chunk::Column::{ClusterId, Data, StartedAt, WorkerId};
        let mut stored = BTreeMap::new();
        for (workers, starts) in lookups(new.keys().copied()) {
            let rows: Vec<(entity::ids::WorkerId, KeyTime, Vec<u8>)> = self
                .select::<worker_chunk::Entity>()
                .select_only()
                .columns([WorkerId, StartedAt, Data])
                .filter(ClusterId.eq(cluster))
                .filter(WorkerId.is_in(workers))
                .filter(StartedAt.is_in(starts))
                .into_tuple()
                .all(&self.writes())
                .await?;
            stored.extend(rows.into_iter().map(|(worker, start, data)| ((worker, start), data)));
        }
        let merged = new.into_iter().filter_map(|((worker_id, started_at), samples)| {
            let (samples, data) = merge(codec, stored.get(&(worker_id, started_at)), samples)?;
            let (account_id, cluster_id) = (self.account_id(), cluster);
            Some(worker_chunk::Model { account_id, cluster_id, worker_id, started_at, samples, data })
        });
        self.insert::<worker_chunk::Entity>(merged.collect(), &replace::<worker_chunk::Entity>()).await?;
        Ok(())
    }
}

/// Whether there may be more to read.
fn is_full(chunks: &[Chunk]) -> bool {
    chunks.len() as u64 == MAX_CHUNKS
}

/// What a chunk has to become, if it has to: how many samples, and these packed.
fn merge(codec: &mut Codec, stored: Option<&Vec<u8>>, new: Samples) -> Option<(i32, Vec<u8>)> {
    let samples = match stored.map(|data| codec.unpack(data)).transpose() {
        Ok(None) => new,
        Ok(Some(known)) => {
            let mut samples = known.clone();
            samples.merge(&new);
            if samples == known {
                return None;
            }
            samples
        }
        // It is kept for whoever can read it, a newer server perhaps; a report must not fail for ever.
        Err(damaged) => {
            tracing::error!(error = %damaged, "samples are given up because of what is stored for their time");
            return None;
        }
    };
    let count = i32::try_from(samples.len()).unwrap_or(i32::MAX);
    (count > 0).then(|| (count, codec.pack(&samples)))
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
