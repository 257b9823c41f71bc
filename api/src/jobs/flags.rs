//! The job that evaluates clusters for flags.

use tokio::time::Instant;

use super::{Jobs, Progress, ROUND_BUDGET};
use crate::store::StoreError;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let round = jobs.flags.run_round(jobs.now(), Instant::now() + ROUND_BUDGET).await?;
    let mut progress = Progress { has_more: round.has_more, ..Progress::default() };
    progress.add("changed", round.changed);
    progress.add("failed", round.failed);
    Ok(progress)
}
