//! The job that marks clusters as lost once they stop reporting.

use super::{BATCH_PAUSE, Jobs, Progress};
use crate::{
    bus::{ChangeKinds, Notice},
    domain::life_cycle::is_lost,
    store::{SILENT_BATCH, StoreError},
};

/// The maximum number of clusters of one account that a round marks as lost. The rest follows in the
/// next round.
const MAX_CLUSTERS_PER_ACCOUNT: usize = 100;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let result = mark_lost_clusters(jobs).await;
    if result.is_err() {
        // While the database was unavailable, clusters could not report. Their silence counts from now on.
        jobs.reset_watching_since();
    }
    result
}

async fn mark_lost_clusters(jobs: &Jobs) -> Result<Progress, StoreError> {
    let (store, watching_since) = (jobs.system(), jobs.watching_since());
    let mut progress = Progress::default();
    let now = jobs.now();
    let watching_since_ms = watching_since.timestamp_millis();
    let mut last_account = jobs.last_silent_account.lock().await;
    let silent = store.silent_clusters(now, *last_account).await?;
    let is_last_batch = silent.len() < SILENT_BATCH;
    *last_account = silent.last().map(|cluster| cluster.account_id).filter(|_| !is_last_batch);
    let mut has_remaining = false;
    for account_clusters in silent.chunk_by(|one, other| one.account_id == other.account_id) {
        let lost_before = progress.counts.get("lost").copied().unwrap_or_default();
        for cluster in account_clusters.iter().take(MAX_CLUSTERS_PER_ACCOUNT) {
            let last_seen = cluster.last_seen_at.timestamp_millis();
            // A cluster that last reported before this server accepted reports gets additional time to report
            // again.
            if is_lost(last_seen, cluster.interval_seconds, watching_since_ms, now.timestamp_millis())
                && let Some(arrival) = store.mark_cluster_lost(*cluster, watching_since, jobs.now()).await?
            {
                let changed = ChangeKinds::STATE | ChangeKinds::COMPUTATIONS;
                let (cluster_id, previous_arrival) = (cluster.id, arrival - 1);
                let notice =
                    Notice { cluster: cluster_id, changed, arrival, previous_arrival, oldest_item_ms: None };
                jobs.store.bus().publish(cluster.account_id, notice);
                progress.add("lost", 1);
            }
            if jobs.is_stopping() {
                return Ok(progress);
            }
        }
        // If no cluster could be marked as lost, an immediate further round would find the same ones.
        let lost = progress.counts.get("lost").copied().unwrap_or_default() - lost_before;
        has_remaining |= account_clusters.len() > MAX_CLUSTERS_PER_ACCOUNT && lost > 0;
    }
    progress.has_more = (!is_last_batch || has_remaining) && !jobs.sleep_or_stop(BATCH_PAUSE).await;
    Ok(progress)
}
