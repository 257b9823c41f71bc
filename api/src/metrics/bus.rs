//! The bus: what servers of one store tell one another.

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};

/// What is counted of the bus.
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
            "1 if all servers of the store hear of one another, or there is no Redis through which they would; 0 while it is away",
            metrics.whole.clone(),
        );
        registry.register("connections", "Connections to Redis that were made", metrics.connected.clone());
        registry.register(
            "connection_failures",
            "Connections to Redis that were lost or could not be made",
            metrics.lost.clone(),
        );
        registry.register(
            "published",
            "Messages about accounts that were published",
            metrics.published.clone(),
        );
        registry.register(
            "received",
            "Messages about accounts that were heard of other servers",
            metrics.received.clone(),
        );
        registry.register(
            "dropped",
            "Notices that were not published, because there were too many or Redis was away; a gap is told instead",
            metrics.dropped.clone(),
        );
        metrics
    }

    /// Takes down whether all servers hear of one another now.
    pub(crate) fn take_down(&self, whole: bool) {
        self.whole.set(whole.into());
    }

    /// A connection is there.
    pub(crate) fn connected(&self) {
        self.connected.inc();
    }

    /// It is gone, or was not made.
    pub(crate) fn lost(&self) {
        self.lost.inc();
    }

    /// So many messages were published.
    pub(crate) fn published(&self, messages: usize) {
        self.published.inc_by(messages as u64);
    }

    /// A message of another server was heard.
    pub(crate) fn received(&self) {
        self.received.inc();
    }

    /// So many notices are published no more.
    pub(crate) fn dropped(&self, notices: usize) {
        self.dropped.inc_by(notices as u64);
    }
}
