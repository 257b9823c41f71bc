//! The job that evaluates clusters for flags.

use tokio::time::Instant;

use super::{Jobs, Progress, ROUND_BUDGET};
use crate::store::StoreError;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let looked = jobs.flags.round(jobs.now(), Instant::now() + ROUND_BUDGET).await?;
    let mut progress = Progress { more: looked.more, ..Progress::default() };
    progress.add("changed", looked.changed);
    progress.add("failed", looked.failed);
    Ok(progress)
}
