//! That the server stops, for what would go on for ever otherwise.

use tokio::sync::watch;

/// Says that the server stops: when it is told to, or is gone without.
#[derive(Debug)]
pub struct Drain(watch::Sender<bool>);

/// Knows whether the server stops.
#[derive(Clone, Debug)]
pub struct Draining(watch::Receiver<bool>);

/// A server that goes on, until it is told not to.
#[must_use]
pub fn drain() -> (Drain, Draining) {
    let (drain, draining) = watch::channel(false);
    (Drain(drain), Draining(draining))
}

impl Drain {
    /// Tells all who wait for it.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Draining {
    /// Over when the server stops.
    pub async fn begun(mut self) {
        let _ = self.0.wait_for(|begun| *begun).await;
    }
}
