//! Accepts connections, and survives a system without free resources.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

/// The delay after a failure. Other connections release the missing resources.
const PAUSE: Duration = Duration::from_millis(250);

/// The interval between two log messages about failures.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// A listener that retries while the system lacks resources such as file descriptors.
pub(crate) struct Acceptor {
    listener: TcpListener,
    logged_at: Option<Instant>,
    /// The number of failures since the last log message.
    failures: u64,
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, logged_at: None, failures: 0 }
    }

    /// Returns the next connection.
    pub(crate) async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                // The client has already disconnected.
                Err(error) if is_connection_error(&error) => {}
                Err(error) => {
                    self.log_failure(&error);
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Logs the first failure at once, and then the number of failures once per interval: a flood of
    /// connections must not fill the disk.
    fn log_failure(&mut self, error: &io::Error) {
        self.failures += 1;
        if self.logged_at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            return;
        }
        tracing::error!(
            %error,
            failures = self.failures,
            "failed to accept connections; logged at most once a minute"
        );
        (self.logged_at, self.failures) = (Some(Instant::now()), 0);
    }
}

fn is_connection_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}
