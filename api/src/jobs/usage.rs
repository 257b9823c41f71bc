//! The job that folds hourly usage into daily totals.

use tokio::time::Instant;

use super::{Jobs, Progress, ROUND_BUDGET};
use crate::store::StoreError;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let folded = jobs.rollups.round(jobs.now(), Instant::now() + ROUND_BUDGET).await?;
    let mut progress = Progress { more: folded.more, ..Progress::default() };
    progress.add("days", folded.days as u64);
    progress.add("failed days", folded.failed as u64);
    Ok(progress)
}
