//! The job that adds up hourly usage to daily totals.

use tokio::time::Instant;

use super::{Jobs, Progress, ROUND_BUDGET};
use crate::store::StoreError;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let round = jobs.rollups.run_round(jobs.now(), Instant::now() + ROUND_BUDGET).await?;
    let mut progress = Progress { has_more: round.has_more, ..Progress::default() };
    progress.add("days", round.days as u64);
    progress.add("failed days", round.failed as u64);
    Ok(progress)
}
