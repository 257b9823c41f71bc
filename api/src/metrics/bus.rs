//! Metrics of the bus between the servers of a store.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// The metrics of the bus.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusMetrics {
    is_connected: Gauge,
    connections: Counter,
    lost_connections: Counter,
    published: Counter,
    received: Counter,
    dropped: Counter,
}

impl BusMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "whole",
            "1 while Redis is connected, or if none is configured; 0 while it is unavailable",
            metrics.is_connected.clone(),
        );
        registry.register("connections", "Established connections to Redis", metrics.connections.clone());
        registry.register(
            "connection_failures",
            "Lost or failed connections to Redis",
            metrics.lost_connections.clone(),
        );
        registry.register(
            "published",
            "Published messages about changes in accounts",
            metrics.published.clone(),
        );
        registry.register(
            "received",
            "Messages about changes in accounts received from other servers",
            metrics.received.clone(),
        );
        registry.register(
            "dropped",
            "Messages that were not published, because there were too many or Redis was unavailable; \
             subscriptions report a gap instead",
            metrics.dropped.clone(),
        );
        metrics
    }

    /// Sets the gauge: true if all servers receive each other's messages.
    pub(crate) fn set_connected(&self, is_connected: bool) {
        self.is_connected.set(is_connected.into());
    }

    /// Counts a new connection.
    pub(crate) fn count_connection(&self) {
        self.connections.inc();
    }

    /// Counts a lost or failed connection.
    pub(crate) fn count_lost_connection(&self) {
        self.lost_connections.inc();
    }

    /// Counts published messages.
    pub(crate) fn count_published(&self, messages: usize) {
        self.published.inc_by(messages as u64);
    }

    /// Counts a message received from another server.
    pub(crate) fn count_received(&self) {
        self.received.inc();
    }

    /// Counts notices that were dropped.
    pub(crate) fn count_dropped(&self, notices: usize) {
        self.dropped.inc_by(notices as u64);
    }
}
