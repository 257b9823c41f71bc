//! Metrics of the bus between the servers of a store.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// The metrics of the bus.
#[derive(Clone, Debug, Default)]
pub(crate) struct BusMetrics {
    whole: Gauge,
    connected: Counter,
    lost: Counter,
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
            metrics.whole.clone(),
        );
        registry.register("connections", "Established connections to Redis", metrics.connected.clone());
        registry.register("connection_failures", "Lost or failed connections to Redis", metrics.lost.clone());
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
    pub(crate) fn set_connected(&self, whole: bool) {
        self.whole.set(whole.into());
    }

    /// Counts a new connection.
    pub(crate) fn connected(&self) {
        self.connected.inc();
    }

    /// Counts a lost or failed connection.
    pub(crate) fn lost(&self) {
        self.lost.inc();
    }

    /// Counts published messages.
    pub(crate) fn published(&self, messages: usize) {
        self.published.inc_by(messages as u64);
    }

    /// Counts a message received from another server.
    pub(crate) fn received(&self) {
        self.received.inc();
    }

    /// Counts notices that were dropped.
    pub(crate) fn dropped(&self, notices: usize) {
        self.dropped.inc_by(notices as u64);
    }
}
