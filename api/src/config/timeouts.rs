//! The timeouts for clients.

use std::time::Duration;

/// The timeouts for clients. They have no settings; only tests change them, so as not to wait.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time to receive the head of a request, from its first byte or from the start of the connection.
    /// Also limits the TLS handshake.
    pub head: Duration,
    /// Time to receive a body.
    pub body: Duration,
    /// Time to receive each part of a large body, which may take longer than `body` as a whole.
    pub body_progress: Duration,
    /// Time to wait for the next request on a connection. It is longer than the idle timeout of proxies,
    /// which is mostly a minute: a proxy may send a request just as the server closes the connection.
    pub idle: Duration,
    /// Time for the client to read more of a response.
    pub answer: Duration,
    /// Time to authenticate after a WebSocket is opened.
    pub authentication_timeout: Duration,
    /// Time for the closing handshake of a WebSocket.
    pub close_timeout: Duration,
    /// The interval between heartbeats on long-lived responses. Proxies close connections that are
    /// silent for half a minute or a minute.
    pub heartbeat: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(8),
            body: Duration::from_secs(30),
            body_progress: Duration::from_secs(5),
            idle: Duration::from_secs(75),
            answer: Duration::from_secs(30),
            authentication_timeout: Duration::from_secs(5),
            close_timeout: Duration::from_secs(8),
            heartbeat: Duration::from_secs(10),
        }
    }
}
