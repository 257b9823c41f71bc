//! Clusters of which nothing is heard any more are lost.

use super::{BREATH, Jobs, Progress};
use crate::{
    bus::{Changed, Notice},
    domain::life_cycle::is_lost,
    store::{SILENT_BATCH, StoreError},
};

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let lost = lose(jobs).await;
    if lost.is_err() {
        // While the store was away, nobody could report.
        jobs.watch_anew();
    }
    lost
}

async fn lose(jobs: &Jobs) -> Result<Progress, StoreError> {
    let (store, watching_since) = (jobs.system(), jobs.watching_since());
    let mut progress = Progress::default();
    let now = jobs.now();
    let since = watching_since.timestamp_millis();
    let silent = store.silent_clusters(now).await?;
    let found = silent.len();
    for cluster in silent {
        let seen = cluster.last_seen_at.timestamp_millis();
        // Most often this says no, of those that nobody could have heard of.
        if is_lost(seen, cluster.interval_seconds, since, now.timestamp_millis())
            && let Some(arrival) = store.lose_cluster(cluster, watching_since, jobs.now()).await?
        {
            let changed = Changed::FIGURES | Changed::COMPUTATIONS;
            let (cluster_id, after) = (cluster.id, arrival - 1);
            let notice = Notice { cluster: cluster_id, changed, arrival, after, since: None };
            jobs.store.bus().publish(cluster.account_id, notice);
            progress.add("lost", 1);
        }
        if jobs.is_stopping() {
            return Ok(progress);
        }
    }
    progress.more = found == SILENT_BATCH && !progress.figures.is_empty() && !jobs.rest(BREATH).await;
    Ok(progress)
}
