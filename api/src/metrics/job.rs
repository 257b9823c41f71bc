//! What the server does by itself.

use std::{sync::atomic::AtomicU64, time::Duration};

use entity::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

/// What is counted of jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobMetrics {
    runs: Family<Named, Counter>,
    failures: Family<Named, Counter>,
    seconds: Family<Named, Counter<f64, AtomicU64>>,
    last_success: Family<Named, Gauge<f64, AtomicU64>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Named {
    /// What it is called. Prometheus itself calls what it reads from a job.
    name: &'static str,
}

impl JobMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("runs", "Times that a job ran, on this server", metrics.runs.clone());
        registry.register("failures", "Times that it failed, and is tried again", metrics.failures.clone());
        registry.register_with_unit(
            "duration",
            "Time that a job took, in all",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register(
            "last_success_timestamp_seconds",
            "When a job last did its work on this server; of several servers of a store, one does it at a time",
            metrics.last_success.clone(),
        );
        metrics
    }

    /// There is a job of this name.
    pub(crate) fn know(&self, job: &'static str) {
        drop(self.runs.get_or_create(&Named { name: job }));
        drop(self.failures.get_or_create(&Named { name: job }));
    }

    /// A job ran: it did its work at a time, or failed.
    pub(crate) fn ran(&self, job: &'static str, took: Duration, succeeded: Option<Timestamp>) {
        let named = Named { name: job };
        self.runs.get_or_create(&named).inc();
        self.seconds.get_or_create(&named).inc_by(took.as_secs_f64());
        match succeeded {
            #[expect(clippy::cast_precision_loss, reason = "53 bits of milliseconds last for 285,000 years")]
            Some(at) => {
                self.last_success.get_or_create(&named).set(at.timestamp_millis() as f64 / 1000.0);
            }
            None => {
                self.failures.get_or_create(&named).inc();
            }
        }
    }
}
