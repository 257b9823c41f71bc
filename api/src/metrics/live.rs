//! Metrics of subscriptions and WebSockets.

use std::time::Duration;

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::{GaugeGuard, seconds};

/// The metrics of subscriptions.
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
        registry.register("sockets", "Open WebSockets", metrics.sockets.clone());
        registry.register("subscriptions", "Active subscriptions", metrics.subscriptions.clone());
        registry.register(
            "groups",
            "Groups of identical subscriptions, which share their queries and payloads",
            metrics.groups.clone(),
        );
        registry.register(
            "round_seconds",
            "Time that a group needs to read a change and to serialize its payload",
            metrics.rounds.clone(),
        );
        registry.register(
            "round_failures",
            "Polls that failed and were retried",
            metrics.round_failures.clone(),
        );
        registry.register("payloads_written", "Serialized payloads", metrics.written.clone());
        registry.register(
            "payloads_delivered",
            "Payloads delivered to subscriptions",
            metrics.delivered.clone(),
        );
        registry.register("gaps", "Payloads that report a gap before them", metrics.gaps.clone());
        metrics
    }

    /// Counts an open WebSocket until the result is dropped.
    pub(crate) fn track_socket(&self) -> GaugeGuard {
        GaugeGuard::new(&self.sockets)
    }

    /// Counts an active subscription until the result is dropped.
    pub(crate) fn track_subscription(&self) -> GaugeGuard {
        GaugeGuard::new(&self.subscriptions)
    }

    /// Counts an active group until the result is dropped.
    pub(crate) fn track_group(&self) -> GaugeGuard {
        GaugeGuard::new(&self.groups)
    }

    /// Records the duration of a round.
    pub(crate) fn record_round(&self, duration: Duration) {
        self.rounds.observe(duration.as_secs_f64());
    }

    /// Counts a failed round.
    pub(crate) fn count_round_failure(&self) {
        self.round_failures.inc();
    }

    /// Counts a written payload.
    pub(crate) fn count_written(&self) {
        self.written.inc();
    }

    /// Counts a delivered payload.
    pub(crate) fn count_delivered(&self) {
        self.delivered.inc();
    }

    /// Counts a reported gap.
    pub(crate) fn count_gap(&self) {
        self.gaps.inc();
    }
}
