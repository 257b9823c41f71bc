//! Rules are looked at, and messages are sent.

use super::{Jobs, Progress};
use crate::store::StoreError;

/// Looks at rules, after the flags they may be about.
pub(super) async fn look(jobs: &Jobs) -> Result<Progress, StoreError> {
    let told = jobs.alerts.round(jobs.now()).await?;
    let mut progress = Progress::default();
    progress.add("messages", told.messages);
    progress.add("failed", told.failed);
    Ok(progress)
}

/// Sends messages. Receivers that do not answer are waited for, but not for long.
pub(super) async fn send(jobs: &Jobs) -> Result<Progress, StoreError> {
    let sent = jobs.deliveries.round().await?;
    let mut progress = Progress { more: sent.more, ..Progress::default() };
    progress.add("delivered", sent.delivered);
    progress.add("put_off", sent.put_off);
    progress.add("failed", sent.failed);
    Ok(progress)
}
