//! The jobs that evaluate alert rules and deliver messages.

use tokio::time::Instant;

use super::{Jobs, Progress, ROUND_BUDGET};
use crate::store::StoreError;

/// Evaluates the alert rules. Runs after the flags, which rules may refer to.
pub(super) async fn look(jobs: &Jobs) -> Result<Progress, StoreError> {
    let round = jobs.alerts.round(jobs.now(), Instant::now() + ROUND_BUDGET).await?;
    let mut progress = Progress { more: round.more, ..Progress::default() };
    progress.add("messages", round.messages);
    progress.add("failed", round.failed);
    Ok(progress)
}

/// Sends messages. Receivers that do not answer are subject to a short timeout.
pub(super) async fn send(jobs: &Jobs) -> Result<Progress, StoreError> {
    let sent = jobs.deliveries.round().await?;
    let mut progress = Progress { more: sent.more, ..Progress::default() };
    progress.add("delivered", sent.delivered);
    progress.add("put_off", sent.retried_messages);
    progress.add("failed", sent.failed);
    Ok(progress)
}
