//! The job that marks clusters as lost once they stop reporting.

use super::{BATCH_PAUSE, Jobs, Progress};
use crate::{
    bus::{ChangeKinds, Notice},
    domain::life_cycle::is_lost,
    store::{SILENT_BATCH, StoreError},
};

/// The maximum number of clusters of one account that a round marks as lost. The rest follows in the
/// next round.
const CLUSTERS_OF_ACCOUNT: usize = 100;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let lost = lose(jobs).await;
    if lost.is_err() {
        // While the database was unavailable, clusters could not report, so the silence starts again.
        jobs.restart_watch();
    }
    lost
}

async fn lose(jobs: &Jobs) -> Result<Progress, StoreError> {
    let (store, watching_since) = (jobs.system(), jobs.watching_since());
    let mut progress = Progress::default();
    let now = jobs.now();
    let since = watching_since.timestamp_millis();
    let mut after = jobs.last_silent_account.lock().await;
    let silent = store.silent_clusters(now, *after).await?;
    let is_last = silent.len() < SILENT_BATCH;
    *after = silent.last().map(|cluster| cluster.account_id).filter(|_| !is_last);
    let mut left = false;
    for of_account in silent.chunk_by(|one, other| one.account_id == other.account_id) {
        let lost = progress.figures.get("lost").copied().unwrap_or_default();
        for cluster in of_account.iter().take(CLUSTERS_OF_ACCOUNT) {
            let seen = cluster.last_seen_at.timestamp_millis();
            // A cluster that last reported before this server accepted reports gets additional time to report
            // again.
            if is_lost(seen, cluster.interval_seconds, since, now.timestamp_millis())
                && let Some(arrival) = store.mark_cluster_lost(*cluster, watching_since, jobs.now()).await?
            {
                let changed = ChangeKinds::STATE | ChangeKinds::COMPUTATIONS;
                let (cluster_id, before) = (cluster.id, arrival - 1);
                let notice = Notice { cluster: cluster_id, changed, arrival, after: before, since: None };
                jobs.store.bus().publish(cluster.account_id, notice);
                progress.add("lost", 1);
            }
            if jobs.is_stopping() {
                return Ok(progress);
            }
        }
        // Clusters that cannot be marked as lost yet are no reason for another round at once.
        let lost = progress.figures.get("lost").copied().unwrap_or_default() - lost;
        left |= of_account.len() > CLUSTERS_OF_ACCOUNT && lost > 0;
    }
    progress.more = (!is_last || left) && !jobs.sleep_or_stop(BATCH_PAUSE).await;
    Ok(progress)
}
