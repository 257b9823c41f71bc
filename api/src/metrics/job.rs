//! Metrics of the background jobs.

use std::{sync::atomic::AtomicU64, time::Duration};

use entity::Timestamp;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

/// The metrics of jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobMetrics {
    runs: Family<JobLabels, Counter>,
    failures: Family<JobLabels, Counter>,
    seconds: Family<JobLabels, Counter<f64, AtomicU64>>,
    last_success: Family<JobLabels, Gauge<f64, AtomicU64>>,
    retention_held: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobLabels {
    /// The job's name. The label is not `job`, because Prometheus uses that label for the scrape target.
    name: &'static str,
}

impl JobMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("runs", "Runs of a job on this server", metrics.runs.clone());
        registry.register("failures", "Failed runs of a job, which are retried", metrics.failures.clone());
        registry.register_with_unit(
            "duration",
            "Total run time of a job",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register(
            "last_success_timestamp_seconds",
            "Time of a job's last successful run on this server; of several servers of a database, only one \
             at a time runs the jobs",
            metrics.last_success.clone(),
        );
        registry.register(
            "retention_held",
            "1 while this server has paused the deletion of old data, because the clock or the number of an \
             account's rows looks wrong; otherwise 0",
            metrics.retention_held.clone(),
        );
        metrics
    }

    /// Sets the gauge: true while the retention job is stopped.
    pub(crate) fn set_retention_held(&self, is_held: bool) {
        self.retention_held.set(is_held.into());
    }

    /// Creates the counters of a job with the value 0.
    pub(crate) fn register_job(&self, job: &'static str) {
        drop(self.runs.get_or_create(&JobLabels { name: job }));
        drop(self.failures.get_or_create(&JobLabels { name: job }));
    }

    /// Records a round of a job. `succeeded_at` is its end, or `None` after a failure.
    pub(crate) fn record_round(
        &self,
        job: &'static str,
        duration: Duration,
        succeeded_at: Option<Timestamp>,
    ) {
        let labels = JobLabels { name: job };
        self.runs.get_or_create(&labels).inc();
        self.seconds.get_or_create(&labels).inc_by(duration.as_secs_f64());
        match succeeded_at {
            #[expect(clippy::cast_precision_loss, reason = "53 bits of milliseconds last for 285,000 years")]
            Some(at) => {
                self.last_success.get_or_create(&labels).set(at.timestamp_millis() as f64 / 1000.0);
            }
            None => {
                self.failures.get_or_create(&labels).inc();
            }
        }
    }
}
