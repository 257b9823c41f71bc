//! The job that removes the rows of deleted clusters and accounts, one batch of one cluster per account
//! in a round.

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
            Ok(piece) => {
                progress.add("rows", piece.rows);
                progress.add("clusters", u64::from(piece.is_done));
                // Another cluster of the account may be next.
                progress.more |= !piece.waits_for_folding;
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
        match jobs.store.for_background_work(account).remove_account_batch(jobs.now()).await {
            Ok(AccountRemovalStep::Rows(rows)) => {
                progress.add("rows", rows);
                progress.more = true;
            }
            Ok(AccountRemovalStep::WaitsForClusters) => {}
            Ok(AccountRemovalStep::All) => {
                jobs.system().remove_account(account).await?;
                progress.add("accounts", 1);
            }
            Err(error) => {
                tracing::warn!(
                    %account,
                    error = %Chain(&error),
                    "failed to remove part of an account; the next run retries"
                );
            }
        }
        if jobs.sleep_or_stop(BATCH_PAUSE).await {
            break;
        }
    }
    Ok(progress)
}
