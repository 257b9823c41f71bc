//! The jobs that evaluate alert rules and deliver messages.

use tokio::time::Instant;

use super::{Jobs, Progress, ROUND_BUDGET};
use crate::store::StoreError;

/// Evaluates the alert rules. Runs after the flags, which rules may refer to.
pub(super) async fn evaluate(jobs: &Jobs) -> Result<Progress, StoreError> {
    let round = jobs.alerts.run_round(jobs.now(), Instant::now() + ROUND_BUDGET).await?;
    let mut progress = Progress { has_more: round.has_more, ..Progress::default() };
    progress.add("messages", round.messages);
    progress.add("failed", round.failed);
    Ok(progress)
}

/// Sends messages. A short timeout limits the wait for a receiver that does not answer.
pub(super) async fn send(jobs: &Jobs) -> Result<Progress, StoreError> {
    let round = jobs.deliveries.run_round().await?;
    let mut progress = Progress { has_more: round.has_more, ..Progress::default() };
    progress.add("delivered", round.delivered);
    progress.add("put_off", round.retried_messages);
    progress.add("failed", round.failed);
    Ok(progress)
}
