//! Reports: how many were taken, why others were not, and how long they took.

use std::time::{Duration, Instant};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use super::{Counted, seconds};

/// Seconds that reports may be on their way: as far as the longest time between two, and further, because a scheduler that could
/// not report does when it can.
const LAG: [f64; 11] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0];

/// What is counted of reports.
#[derive(Clone, Debug)]
pub(crate) struct ReportMetrics {
    taken: Counter,
    refused: Family<Refused, Counter>,
    bytes: Counter,
    in_flight: Gauge,
    commit: Histogram,
    lag: Histogram,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    reason: String,
}

impl ReportMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            taken: Counter::default(),
            refused: Family::default(),
            bytes: Counter::default(),
            in_flight: Gauge::default(),
            commit: seconds(),
            lag: Histogram::new(LAG),
        };
        registry.register(
            "reports_taken",
            "Reports that were stored and acknowledged",
            metrics.taken.clone(),
        );
        registry.register(
            "reports_refused",
            "Reports of which nothing was stored, by the code of the answer; cancelled are those whose sender went before \
             it was told",
            metrics.refused.clone(),
        );
        registry.register_with_unit(
            "report",
            "Bytes of the bodies of reports, as they were sent",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register(
            "reports_in_flight",
            "Reports that were announced and are not answered",
            metrics.in_flight.clone(),
        );
        registry.register(
            "report_commit_seconds",
            "Time from the last byte of a report to its commit, of those that were taken",
            metrics.commit.clone(),
        );
        registry.register(
            "report_lag_seconds",
            "Time from when a scheduler made a report, by its clock, to when it was taken, by the server's; 0 if that lies ahead",
            metrics.lag.clone(),
        );
        metrics
    }

    /// A report was announced.
    pub(crate) fn arrive(&self) -> Arrival {
        let in_flight = Counted::by(&self.in_flight);
        Arrival { metrics: self.clone(), outcome: Err("CANCELLED"), _in_flight: in_flight }
    }

    /// A body of so many bytes has come.
    pub(crate) fn received(&self, bytes: u64) {
        self.bytes.inc_by(bytes);
    }

    /// A report was stored that had come at `received`, and was under way for so long before.
    pub(crate) fn stored(&self, received: Instant, lag: Duration) {
        self.commit.observe(received.elapsed().as_secs_f64());
        self.lag.observe(lag.as_secs_f64());
    }
}

/// A report that is not answered yet. If it is dropped before, nobody waits for the answer.
#[derive(Debug)]
pub(crate) struct Arrival {
    metrics: ReportMetrics,
    outcome: Result<(), &'static str>,
    _in_flight: Counted,
}

impl Arrival {
    /// What it is answered with: the code of the problem if it was refused.
    pub(crate) fn answered(mut self, outcome: Result<(), &'static str>) {
        self.outcome = outcome;
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        match self.outcome {
            Ok(()) => {
                self.metrics.taken.inc();
            }
            Err(code) => {
                let refused = Refused { reason: code.to_lowercase() };
                self.metrics.refused.get_or_create(&refused).inc();
            }
        }
    }
}
