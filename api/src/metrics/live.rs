//! Subscriptions, and the sockets they come over.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{Counted, seconds};

/// What is counted of subscriptions.
#[derive(Clone, Debug)]
pub(crate) struct LiveMetrics {
    sockets: Gauge,
    subscriptions: Gauge,
    groups: Gauge,
    rounds: Histogram,
    round_failures: Counter,
    written: Counter,
    delivered: Counter,
    gaps: Counter,
}

impl LiveMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            sockets: Gauge::default(),
            subscriptions: Gauge::default(),
            groups: Gauge::default(),
            rounds: seconds(),
            round_failures: Counter::default(),
            written: Counter::default(),
            delivered: Counter::default(),
            gaps: Counter::default(),
        };
        registry.register("sockets", "WebSockets that are open", metrics.sockets.clone());
        registry.register("subscriptions", "Subscriptions that go on", metrics.subscriptions.clone());
        registry.register(
            "groups",
            "Groups of subscriptions that ask for the same, and are read and written once",
            metrics.groups.clone(),
        );
        registry.register(
            "round_seconds",
            "Time that a group took to read what changed and to write it",
            metrics.rounds.clone(),
        );
        registry.register(
            "round_failures",
            "Rounds that failed and were begun again",
            metrics.round_failures.clone(),
        );
        registry.register("payloads_written", "Payloads that were written", metrics.written.clone());
        registry.register(
            "payloads_delivered",
            "Payloads that subscriptions took",
            metrics.delivered.clone(),
        );
        registry.register(
            "gaps",
            "Payloads that told their reader that something in front of them may be missing",
            metrics.gaps.clone(),
        );
        metrics
    }

    /// A socket, as long as what is returned lives.
    pub(crate) fn socket(&self) -> Counted {
        Counted::by(&self.sockets)
    }

    /// A subscription, as long as what is returned lives.
    pub(crate) fn subscription(&self) -> Counted {
        Counted::by(&self.subscriptions)
    }

    /// A group, as long as what is returned lives.
    pub(crate) fn group(&self) -> Counted {
        Counted::by(&self.groups)
    }

    /// A round ended.
    pub(crate) fn round(&self, took: Duration) {
        self.rounds.observe(took.as_secs_f64());
    }

    /// A round failed.
    pub(crate) fn round_failed(&self) {
        self.round_failures.inc();
    }

    /// A payload was written.
    pub(crate) fn written(&self) {
        self.written.inc();
    }

    /// A payload was taken.
    pub(crate) fn delivered(&self) {
        self.delivered.inc();
    }

    /// A gap was told.
    pub(crate) fn gap(&self) {
        self.gaps.inc();
    }
}
