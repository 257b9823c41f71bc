//! Clusters are looked at for flags.

use super::{Jobs, Progress};
use crate::store::StoreError;

pub(super) async fn run(jobs: &Jobs) -> Result<Progress, StoreError> {
    let looked = jobs.flags.round(jobs.now()).await?;
    let mut progress = Progress::default();
    progress.add("changed", looked.changed);
    progress.add("failed", looked.failed);
    Ok(progress)
}
