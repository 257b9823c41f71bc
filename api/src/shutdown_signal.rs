//! The shutdown signal for tasks that would otherwise run forever.

use tokio::sync::watch;

/// The sender of the shutdown signal. Dropping it also signals the shutdown.
#[derive(Debug)]
pub struct ShutdownSender(watch::Sender<bool>);

/// A receiver of the shutdown signal.
#[derive(Clone, Debug)]
pub struct ShutdownSignal(watch::Receiver<bool>);

/// Returns the two ends of a new shutdown signal.
#[must_use]
pub fn shutdown_channel() -> (ShutdownSender, ShutdownSignal) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownSender(sender), ShutdownSignal(receiver))
}

impl ShutdownSender {
    /// Signals the shutdown to all receivers.
    pub fn signal_shutdown(&self) {
        self.0.send_replace(true);
    }
}

impl ShutdownSignal {
    /// Waits until the server shuts down.
    pub async fn wait_for_shutdown(mut self) {
        let _ = self.0.wait_for(|is_signalled| *is_signalled).await;
    }
}
