//! Metrics of report ingest: accepted and rejected reports, and their durations.

use std::time::{Duration, Instant};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use super::{GaugeGuard, seconds};

/// The buckets of the report lag, in seconds. The largest ones exceed the longest report interval, because a
/// scheduler without a connection reports later.
const LAG_BUCKETS: [f64; 11] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0];

/// The metrics of reports.
#[derive(Clone, Debug)]
pub(crate) struct ReportMetrics {
    accepted: Counter,
    refused: Family<RefusalLabels, Counter>,
    bytes: Counter,
    in_flight: Gauge,
    commit_durations: Histogram,
    lags: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    reason: String,
}

impl ReportMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            accepted: Counter::default(),
            refused: Family::default(),
            bytes: Counter::default(),
            in_flight: Gauge::default(),
            commit_durations: seconds(),
            lags: Histogram::new(LAG_BUCKETS),
        };
        registry.register("reports_taken", "Reports stored and acknowledged", metrics.accepted.clone());
        registry.register(
            "reports_refused",
            "Rejected reports by the code of the response; `CANCELLED` if the sender disconnected before \
             the response",
            metrics.refused.clone(),
        );
        registry.register_with_unit(
            "report",
            "Size of the bodies of reports, as sent",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register(
            "reports_in_flight",
            "Reports being received or processed",
            metrics.in_flight.clone(),
        );
        registry.register(
            "report_commit_seconds",
            "Time from the last byte of a stored report to its commit",
            metrics.commit_durations.clone(),
        );
        registry.register(
            "report_lag_seconds",
            "Time from the creation of a report, by the scheduler's clock, to its storage, by the server's; \
             0 if negative",
            metrics.lags.clone(),
        );
        metrics
    }

    /// Starts the measurement of a report.
    pub(crate) fn start_report(&self) -> ReportMeasurement {
        let in_flight = GaugeGuard::new(&self.in_flight);
        ReportMeasurement { metrics: self.clone(), outcome: Err("CANCELLED"), _in_flight: in_flight }
    }

    /// Counts the bytes of a received body.
    pub(crate) fn count_received_bytes(&self, bytes: u64) {
        self.bytes.inc_by(bytes);
    }

    /// Records a stored report that was received at `received_at`. `lag` is the age of the report then.
    pub(crate) fn record_stored(&self, received_at: Instant, lag: Duration) {
        self.commit_durations.observe(received_at.elapsed().as_secs_f64());
        self.lags.observe(lag.as_secs_f64());
    }
}

/// The measurement of a report. Dropping it without an outcome records a cancellation.
#[derive(Debug)]
pub(crate) struct ReportMeasurement {
    metrics: ReportMetrics,
    outcome: Result<(), &'static str>,
    _in_flight: GaugeGuard,
}

impl ReportMeasurement {
    /// Sets the outcome: the error code if the report was rejected.
    pub(crate) fn finish(mut self, outcome: Result<(), &'static str>) {
        self.outcome = outcome;
    }
}

impl Drop for ReportMeasurement {
    fn drop(&mut self) {
        match self.outcome {
            Ok(()) => {
                self.metrics.accepted.inc();
            }
            Err(code) => {
                let labels = RefusalLabels { reason: code.to_lowercase() };
                self.metrics.refused.get_or_create(&labels).inc();
            }
        }
    }
}
