//! The measurements that rules evaluate.

use std::collections::BTreeMap;

use crate::domain::{metric::Metric, sample_chunk::Samples};

/// Values by time, in epoch milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings(BTreeMap<i64, BTreeMap<Metric, f64>>);

impl Readings {
    /// Adds the samples between two times from the chunk that begins at `start`.
    pub fn add(&mut self, start: i64, samples: &Samples, metrics: &[Metric], (from, to): (i64, i64)) {
        for metric in metrics {
            for (offset, value) in samples.values(*metric) {
                let at = start + i64::from(offset);
                if (from..=to).contains(&at) {
                    self.0.entry(at).or_default().insert(*metric, value);
                }
            }
        }
    }

    /// Adds a value.
    #[must_use]
    pub fn with(mut self, at: i64, metric: Metric, value: f64) -> Self {
        self.0.entry(at).or_default().insert(metric, value);
        self
    }

    /// Iterates over the values of a metric.
    pub(super) fn values_of(&self, metric: Metric) -> impl Iterator<Item = (i64, f64)> {
        self.0.iter().filter_map(move |(at, values)| Some((*at, *values.get(&metric)?)))
    }

    /// Iterates over the ratio of two metrics, at the times at which both were measured and the whole is
    /// not zero.
    pub(super) fn share(&self, part: Metric, whole: Metric) -> impl Iterator<Item = (i64, f64)> {
        self.0.iter().filter_map(move |(at, values)| {
            let whole = values.get(&whole).filter(|whole| **whole > 0.0)?;
            Some((*at, values.get(&part)? / whole))
        })
    }

    /// Iterates over the sum of the measured ones among several metrics.
    pub(super) fn sum(&self, metrics: &[Metric]) -> impl Iterator<Item = (i64, f64)> {
        self.0.iter().filter_map(move |(at, values)| {
            metrics
                .iter()
                .filter_map(|metric| values.get(metric).copied())
                .reduce(|a, b| a + b)
                .map(|sum| (*at, sum))
        })
    }
}

/// The metrics of clusters that rules evaluate.
pub(crate) const CLUSTER_METRICS: [Metric; 12] = [
    Metric::MemoryProcess,
    Metric::MemorySpilled,
    Metric::MemoryLimit,
    Metric::GilContention,
    Metric::SchedulerEventLoop,
    Metric::TasksProcessing,
    Metric::TasksWaiting,
    Metric::TasksQueued,
    Metric::TasksNoWorker,
    Metric::TasksMemory,
    Metric::TasksErred,
    Metric::TasksReleased,
];

/// The metrics of workers that rules evaluate.
pub(crate) const WORKER_METRICS: [Metric; 7] = [
    Metric::MemoryProcess,
    Metric::MemoryLimit,
    Metric::DiskFree,
    Metric::DiskTotal,
    Metric::EventLoop,
    Metric::TasksExecuting,
    Metric::TasksReady,
];
