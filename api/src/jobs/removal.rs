//! The job that removes the rows of deleted clusters and accounts, one batch of one cluster per account
//! in a round.

use entity::ids::AccountId;

use super::{BATCH_PAUSE, Jobs, Progress};
use crate::{
    error::Chain,
    store::{AccountRemovalStep, StoreError},
};

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let mut progress = Progress::default();
    for due in jobs.system().removals_due().await? {
        let store = jobs.store.for_background_work(due.account_id);
        match store.remove_cluster_batch(due.cluster_id, jobs.now()).await {
            Ok(step) => {
                progress.add("rows", step.rows);
                progress.add("clusters", u64::from(step.is_done));
                // Another cluster of the account may be next.
                progress.has_more |= !step.waits_for_daily_totals;
            }
            // A failure in one account must not stop the others.
            Err(error) => {
                let (account, cluster) = (due.account_id, due.cluster_id.0);
                tracing::warn!(
                    %account,
                    cluster,
                    error = %Chain(&error),
                    "failed to remove part of a cluster; the next run retries"
                );
            }
        }
        if jobs.sleep_or_stop(BATCH_PAUSE).await {
            return Ok(progress);
        }
    }
    for account in jobs.system().accounts_to_remove().await? {
        // A failure in one account must not stop the others.
        if let Err(error) = remove_account_step(jobs, account, &mut progress).await {
            tracing::warn!(
                %account,
                error = %Chain(&error),
                "failed to remove part of an account; the next run retries"
            );
        }
        if jobs.sleep_or_stop(BATCH_PAUSE).await {
            break;
        }
    }
    Ok(progress)
}

/// Removes one batch of a deleted account's rows, and the account itself after the last one.
async fn remove_account_step(
    jobs: &Jobs,
    account: AccountId,
    progress: &mut Progress,
) -> Result<(), StoreError> {
    match jobs.store.for_background_work(account).remove_account_batch(jobs.now()).await? {
        AccountRemovalStep::Rows(rows) => {
            progress.add("rows", rows);
            progress.has_more = true;
        }
        AccountRemovalStep::WaitsForClusters => {}
        AccountRemovalStep::All => {
            jobs.system().remove_account(account).await?;
            progress.add("accounts", 1);
        }
    }
    Ok(())
}
