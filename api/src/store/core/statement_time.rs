//! Counters of one piece of work: the time of its SQL statements, and the entries that it adds to the audit
//! log.
//!
//! The counters are task-local, since the statements of a request run in the task of the request. The time
//! in which a statement waits for a connection does not count, since other requests cause it.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

tokio::task_local! {
    static STATEMENT_STATS: StatementStats;
}

/// The counters of one piece of work. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatementStats(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    microseconds: AtomicU64,
    audit_entries: AtomicU64,
}

impl StatementStats {
    /// Runs `work` and counts the time of its statements and its audit entries.
    pub(crate) async fn count<T>(&self, work: impl Future<Output = T>) -> T {
        STATEMENT_STATS.scope(self.clone(), work).await
    }

    /// Returns the time of the statements that have ended.
    pub(crate) fn statement_time(&self) -> Duration {
        Duration::from_micros(self.0.microseconds.load(Ordering::Relaxed))
    }

    /// Returns the number of entries that were added to the audit log.
    pub(crate) fn audit_entries(&self) -> u64 {
        self.0.audit_entries.load(Ordering::Relaxed)
    }
}

/// Adds a statement's time to the counter of the current task, if it has one.
pub(crate) fn add_time(elapsed: Duration) {
    let microseconds = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    // Background work of the server has no counter.
    let _ = STATEMENT_STATS.try_with(|stats| stats.0.microseconds.fetch_add(microseconds, Ordering::Relaxed));
}

/// Adds an audit entry to the counter of the current task, if it has one.
pub(crate) fn add_audit_entry() {
    let _ = STATEMENT_STATS.try_with(|stats| stats.0.audit_entries.fetch_add(1, Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_statement_counts_for_the_work_that_sent_it() {
        let (one, two) = (StatementStats::default(), StatementStats::default());
        let send = |milliseconds| async move {
            tokio::task::yield_now().await;
            add_time(Duration::from_millis(milliseconds));
        };
        tokio::join!(one.count(send(3)), two.count(send(5)), one.count(send(4)), send(100));
        assert_eq!((one.statement_time().as_millis(), two.statement_time().as_millis()), (7, 5));
    }
}
