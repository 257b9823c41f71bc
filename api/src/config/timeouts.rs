//! The timeouts of connections and requests.

use std::time::Duration;

/// The timeouts for clients. No setting changes them; tests use shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time to receive the head of a request, from its first byte or from the start of the connection.
    /// Also limits the TLS handshake.
    pub head_timeout: Duration,
    /// Time to receive a body.
    pub body_timeout: Duration,
    /// Time to receive each part of a large body, which may take longer than `body_timeout` as a whole.
    pub body_progress_timeout: Duration,
    /// Time to wait for the next request on a connection. It is longer than the usual idle timeout of
    /// proxies, a minute. Otherwise a proxy could send a request while the server closes the connection.
    pub idle_timeout: Duration,
    /// Time for the client to read more of a response.
    pub response_timeout: Duration,
    /// Time to authenticate after a WebSocket is opened.
    pub authentication_timeout: Duration,
    /// Time for the closing handshake of a WebSocket.
    pub close_timeout: Duration,
    /// Interval between heartbeats on long-lived responses. Proxies close connections without data after
    /// half a minute or a minute.
    pub heartbeat_interval: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(8),
            body_timeout: Duration::from_secs(30),
            body_progress_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(75),
            response_timeout: Duration::from_secs(30),
            authentication_timeout: Duration::from_secs(5),
            close_timeout: Duration::from_secs(8),
            heartbeat_interval: Duration::from_secs(10),
        }
    }
}
