//! Which connections are not believed any more.
//!
//! A network that was cut tells nobody: a connection over it waits for its answer until the system gives it up, which takes a quarter of an
//! hour or for ever. So whoever waited for an answer in vain says so, and what was open then is closed when it comes back to the
//! pool, or before it is taken from it, instead of being asked whether it still lives.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// When an answer was last waited for in vain.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt(Arc<Mutex<Option<Instant>>>);

impl Doubt {
    /// Connections that are open now are not to be used again.
    pub(super) fn raise(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether a connection of this age was open then.
    pub(super) fn is_about(&self, age: Duration) -> bool {
        let raised = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        raised.is_some_and(|raised| raised.elapsed() <= age)
    }

    /// What `work` comes to, unless it takes longer than `patience`.
    pub(super) async fn within<T>(&self, patience: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            outcome = &mut work => Some(outcome),
            () = tokio::time::sleep(patience) => {
                // Before its connections come back.
                self.raise();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_open_when_an_answer_did_not_come_is_doubted() {
        let doubt = Doubt::default();
        assert!(!doubt.is_about(Duration::from_hours(1)));
        assert_eq!(doubt.within(Duration::from_secs(5), async { 7 }).await, Some(7));
        assert!(!doubt.is_about(Duration::from_hours(1)));

        assert_eq!(doubt.within(Duration::from_millis(5), std::future::pending::<()>()).await, None);
        assert!(doubt.is_about(Duration::from_secs(60)));
        std::thread::sleep(Duration::from_millis(2));
        assert!(!doubt.is_about(Duration::from_millis(1)));
    }
}
