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
        chunk_ranges::ChunkRanges, composite_in::IsOneOf, error::StoreError, scoped::AccountStore,
        upsert::replace,
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
        let mut found: Vec<Found> =
            clusters.iter().map(|(_, window)| Ok(ActivityBuckets::new(*window))).collect();
        let mut places: HashMap<ClusterId, Vec<usize>> = HashMap::new();
        let windows = || clusters.iter().enumerate().filter(|(_, (_, window))| !window.is_empty());
        for (place, (cluster, _)) in windows() {
            places.entry(*cluster).or_default().push(place);
        }
        let mut ranges = Ranges::new(windows().map(|(_, (cluster, window))| (*cluster, window.chunks())));
        let mut bytes = 0;
        while !ranges.is_empty() {
            let chunks = self.activity_chunks(&ranges).await?;
            for (cluster, started_at, data) in &chunks {
                let activity = unpack(data).map_err(|damaged| StoreError::damaged(&damaged))?;
                for place in places.get(cluster).into_iter().flatten() {
                    let Ok(buckets) = &mut found[*place] else { continue };
                    let before = buckets.bytes();
                    let added = buckets.add(started_at.0, &activity);
                    bytes += buckets.bytes() - before;
                    if added.is_err() || bytes > MAX_BYTES {
                        bytes -= buckets.bytes();
                        found[*place] = Err(TooManyFunctions);
                    }
                }
            }
            let is_full = chunks.len() as u64 == MAX_CHUNKS;
            let Some((cluster, started_at, _)) = chunks.last().filter(|_| is_full) else { break };
            // The next statement reads the chunks after the last one read.
            ranges.remove_through(*cluster, started_at.0);
        }
        Ok(found)
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
            .filter(ranges.iter().fold(Condition::any(), |any, (cluster, first, last)| {
                let range = Column::StartedAt.between(first, last);
                any.add(Condition::all().add(Column::ClusterId.eq(cluster)).add(range))
            }))
            .order_by_asc(Column::ClusterId)
            .order_by_asc(Column::StartedAt)
            .limit(MAX_CHUNKS);
        Ok(select.into_tuple().all(&self.read_executor()).await?)
    }

    /// Merges the minutes of a report into the stored chunks. The cluster's row is locked, so there is no
    /// concurrent writer.
    pub(crate) async fn record_function_activity(
        &self,
        cluster: ClusterId,
        reports: &[FunctionActivityReport],
    ) -> Result<(), StoreError> {
        let mut new: BTreeMap<KeyTime, Activity> = BTreeMap::new();
        for report in reports {
            let (start, first) = locate(report.minute.get());
            new.entry(KeyTime(start)).or_default().add_minute(first, report);
        }
        new.retain(|_, activity| !activity.is_empty());
        if new.is_empty() {
            return Ok(());
        }
        let mut stored = self.stored_activity(cluster, new.keys().copied().collect()).await?;
        let mut changed = Vec::new();
        for (started_at, new) in new {
            if let Some(activity) = merge(stored.remove(&started_at).as_deref(), new) {
                changed.push(Model {
                    account_id: self.account_id(),
                    cluster_id: cluster,
                    started_at,
                    functions: i32::try_from(activity.len()).unwrap_or(i32::MAX),
                    data: pack(&activity),
                });
            }
        }
        self.insert::<Entity>(changed, &replace::<Entity>()).await?;
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

/// Returns the activity of a chunk after merging `new` into it. `None` if the chunk does not change.
fn merge(stored: Option<&[u8]>, new: Activity) -> Option<Activity> {
    match stored.map(unpack).transpose() {
        Ok(None) => Some(new),
        Ok(Some(mut known)) => known.merge(&new).then_some(known),
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
