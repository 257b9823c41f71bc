//! What is older than its account keeps it goes.

use super::{BREATH, Jobs, Progress};
use crate::{
    domain::retention::{RULES, Rule, cutoff},
    error::Chain,
    store::{StoreError, retention::BATCH},
};

/// Batches of one table in one round at the most.
const BATCHES: u32 = 50;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let (mut progress, mut failure) = (Progress::default(), None);
    for rule in &RULES {
        // One rule that cannot be kept must not keep the others from it.
        if let Err(error) = apply(jobs, rule, &mut progress).await {
            tracing::warn!(table = rule.table, error = %Chain(&error), "what is too old was not removed");
            failure = Some(error);
        }
    }
    failure.map_or(Ok(progress), Err)
}

async fn apply(jobs: &Jobs, rule: &Rule, progress: &mut Progress) -> Result<(), StoreError> {
    let (store, now) = (jobs.system(), jobs.now());
    for keeps in store.retention_of(rule.class).await? {
        let cutoff = cutoff(now, rule.days(keeps.days()));
        for batch in 1.. {
            let removed = store.remove_older(rule, keeps, cutoff).await?;
            progress.add(rule.table, removed);
            if removed < BATCH {
                break;
            }
            if batch == BATCHES || jobs.rest(BREATH).await {
                progress.more = true;
                break;
            }
        }
    }
    Ok(())
}
