//! The compute time of clusters' functions over time. Ten minutes are packed into one row, which each report
//! extends and queries aggregate.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use entity::{
    function_activity_chunk::{Column, Entity, Model},
    ids::{ClusterId, KeyTime},
};
use sea_orm::{ColumnTrait, Condition, QueryFilter, QueryOrder, QuerySelect};

use crate::{
    domain::{
        function_activity::{Activity, ActivityBuckets, TooManyFunctions, locate, pack, unpack},
        report::FunctionActivityReport,
        series::Window,
    },
    store::core::{
        chunk_ranges::ChunkRanges, composite_in::IsOneOf, error::StoreError, read_rows::ReadSelect,
        scoped::AccountStore, upsert::replace,
    },
};

/// The largest number of chunks that one statement reads: a few megabytes, and at most a hundred.
const MAX_CHUNKS: u64 = 1_024;

/// The largest memory for the activity of all clusters of one call, in bytes.
const MAX_BYTES: usize = 32 << 20;

type Ranges = ChunkRanges<ClusterId>;

type Chunk = (ClusterId, KeyTime, Vec<u8>);

/// The activity of a cluster's functions in one window.
type Found = Result<ActivityBuckets, TooManyFunctions>;

impl AccountStore {
    /// Returns the activity of each cluster's functions within its window, in the order of `clusters`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer or a chunk is damaged.
    #[tracing::instrument(name = "store.function_activity.of_clusters", skip_all)]
    pub async fn function_activity(
        &self,
        clusters: &[(ClusterId, Window)],
    ) -> Result<Vec<Found>, StoreError> {
        let mut activities: Vec<Found> =
            clusters.iter().map(|(_, window)| Ok(ActivityBuckets::new(*window))).collect();
        let mut indexes: HashMap<ClusterId, Vec<usize>> = HashMap::new();
        let windows = || clusters.iter().enumerate().filter(|(_, (_, window))| !window.is_empty());
        for (index, (cluster, _)) in windows() {
            indexes.entry(*cluster).or_default().push(index);
        }
        let mut ranges = Ranges::new(windows().map(|(_, (cluster, window))| (*cluster, window.chunks())));
        let mut bytes = 0;
        while !ranges.is_empty() {
            let chunks = self.activity_chunks(&ranges).await?;
            for (cluster, started_at, data) in &chunks {
                let activity = unpack(data).map_err(|damaged| StoreError::damaged(&damaged))?;
                for index in indexes.get(cluster).into_iter().flatten() {
                    let Ok(buckets) = &mut activities[*index] else { continue };
                    let previous_bytes = buckets.bytes();
                    let result = buckets.add(started_at.0, &activity);
                    bytes += buckets.bytes() - previous_bytes;
                    if result.is_err() || bytes > MAX_BYTES {
                        bytes -= buckets.bytes();
                        activities[*index] = Err(TooManyFunctions);
                    }
                }
            }
            let is_full = chunks.len() as u64 == MAX_CHUNKS;
            let Some((cluster, started_at, _)) = chunks.last().filter(|_| is_full) else { break };
            // The next statement reads the chunks after the last one read.
            ranges.remove_through(*cluster, started_at.0);
        }
        Ok(activities)
    }

    /// Returns the first chunks of these ranges, in their order.
    async fn activity_chunks(&self, ranges: &Ranges) -> Result<Vec<Chunk>, StoreError> {
        let (first, last) = ranges.extent();
        // The ranges alone would select the rows, but SQLite uses the index for alternatives only if the
        // single columns are filtered too.
        let select = self
            .select::<Entity>()
            .select_only()
            .columns([Column::ClusterId, Column::StartedAt, Column::Data])
            .filter(
                Column::ClusterId
                    .is_one_of(ranges.iter().map(|(cluster, ..)| cluster).collect::<BTreeSet<_>>()),
            )
            .filter(Column::StartedAt.between(first, last))
            .filter(ranges.iter().fold(Condition::any(), |alternatives, (cluster, first, last)| {
                let range = Column::StartedAt.between(first, last);
                alternatives.add(Condition::all().add(Column::ClusterId.eq(cluster)).add(range))
            }))
            .order_by_asc(Column::ClusterId)
            .order_by_asc(Column::StartedAt)
            .limit(MAX_CHUNKS);
        Ok(select.read_tuples(&self.read_executor()).await?)
    }

    /// Merges the minutes of a report into the stored chunks. The cluster's row is locked, so there is no
    /// concurrent writer.
    pub(crate) async fn record_function_activity(
        &self,
        cluster: ClusterId,
        reports: &[FunctionActivityReport],
    ) -> Result<(), StoreError> {
        let mut reported: BTreeMap<KeyTime, Activity> = BTreeMap::new();
        for report in reports {
            let (start, first_interval) = locate(report.minute.get());
            reported.entry(KeyTime(start)).or_default().add_minute(first_interval, report);
        }
        reported.retain(|_, activity| !activity.is_empty());
        if reported.is_empty() {
            return Ok(());
        }
        let mut stored_chunks = self.stored_activity(cluster, reported.keys().copied().collect()).await?;
        let mut changed_chunks = Vec::new();
        for (started_at, reported) in reported {
            if let Some(activity) = merge(stored_chunks.remove(&started_at).as_deref(), reported) {
                changed_chunks.push(Model {
                    account_id: self.account_id(),
                    cluster_id: cluster,
                    started_at,
                    functions: i32::try_from(activity.len()).unwrap_or(i32::MAX),
                    data: pack(&activity),
                });
            }
        }
        self.insert::<Entity>(changed_chunks, &replace::<Entity>()).await?;
        Ok(())
    }

    /// Returns the packed data of the stored chunks that begin at these times, at most one for each item of a
    /// report.
    async fn stored_activity(
        &self,
        cluster: ClusterId,
        starts: BTreeSet<KeyTime>,
    ) -> Result<HashMap<KeyTime, Vec<u8>>, StoreError> {
        let select = self.select::<Entity>().select_only().columns([Column::StartedAt, Column::Data]);
        let select = select.filter(Column::ClusterId.eq(cluster)).filter(Column::StartedAt.is_one_of(starts));
        let rows: Vec<(KeyTime, Vec<u8>)> = select.into_tuple().all(&self.write_executor()).await?;
        Ok(rows.into_iter().collect())
    }
}

/// Returns the activity of a chunk after merging `reported` into it. `None` if the chunk does not change.
fn merge(stored: Option<&[u8]>, reported: Activity) -> Option<Activity> {
    match stored.map(unpack).transpose() {
        Ok(None) => Some(reported),
        Ok(Some(mut stored_activity)) => stored_activity.merge(&reported).then_some(stored_activity),
        // The damaged chunk is kept for a reader that understands it, such as a newer server, and the
        // report must not fail forever.
        Err(damaged) => {
            tracing::error!(
                error = %damaged,
                "activity of functions dropped, because the stored activity of the same period is damaged"
            );
            None
        }
    }
}
