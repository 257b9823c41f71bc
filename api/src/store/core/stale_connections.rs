//! Connections that are presumed dead.
//!
//! A connection over a network that was cut gets no error: it waits for its response until the operating
//! system gives up, after a quarter of an hour or never. A caller whose response does not arrive in time
//! therefore invalidates all connections that are open at that moment. They are closed when they return to
//! the pool or before they are taken from it, without a ping.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The time at which a response last timed out.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionEpoch(Arc<Mutex<Option<Instant>>>);

impl ConnectionEpoch {
    /// Invalidates all connections that are open now.
    pub(crate) fn invalidate(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns true if a connection of this age was open at the last timeout.
    pub(crate) fn includes_connection(&self, age: Duration) -> bool {
        let raised = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.is_some_and(|raised| raised.elapsed() <= age)
    }

    /// Runs `work`. Invalidates the open connections and returns `None` if it takes longer than `timeout`.
    pub(crate) async fn with_timeout<T>(
        &self,
        timeout: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            outcome = &mut work => Some(outcome),
            () = tokio::time::sleep(timeout) => {
                // Before `work` is dropped and returns its connections to the pool.
                self.invalidate();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_of_a_missing_answer_are_stale() {
        let epoch = ConnectionEpoch::default();
        assert!(!epoch.includes_connection(Duration::from_hours(1)));
        assert_eq!(epoch.with_timeout(Duration::from_secs(5), async { 7 }).await, Some(7));
        assert!(!epoch.includes_connection(Duration::from_hours(1)));

        assert_eq!(epoch.with_timeout(Duration::from_millis(5), std::future::pending::<()>()).await, None);
        assert!(epoch.includes_connection(Duration::from_mins(1)));
        std::thread::sleep(Duration::from_millis(2));
        assert!(!epoch.includes_connection(Duration::from_millis(1)));
    }
}
