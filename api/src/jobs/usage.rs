//! Hours of usage become part of their days.

use super::{Jobs, Progress};
use crate::{app::usage::Rollups, store::StoreError};

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let folded = Rollups::new(jobs.system().clone()).fold().await?;
    let mut progress = Progress::default();
    progress.add("days", folded.days as u64);
    progress.add("failed days", folded.failed as u64);
    Ok(progress)
}
