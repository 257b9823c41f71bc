//! What was measured at single moments, as far as rules look at it.

use std::collections::BTreeMap;

use crate::domain::{metric::Metric, sample_chunk::Samples};

/// Values by moment, in epoch milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings(BTreeMap<i64, BTreeMap<Metric, f64>>);

impl Readings {
    /// Adds those of the samples of a chunk that begins at `start` which lie between two moments.
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

    /// Adds one value.
    #[must_use]
    pub fn with(mut self, at: i64, metric: Metric, value: f64) -> Self {
        self.0.entry(at).or_default().insert(metric, value);
        self
    }

    /// A metric, where it was measured.
    pub(super) fn of(&self, metric: Metric) -> impl Iterator<Item = (i64, f64)> {
        self.0.iter().filter_map(move |(at, values)| Some((*at, *values.get(&metric)?)))
    }

    /// A metric as a share of another, where both were measured and the other is not nothing.
    pub(super) fn share(&self, part: Metric, whole: Metric) -> impl Iterator<Item = (i64, f64)> {
        self.0.iter().filter_map(move |(at, values)| {
            let whole = values.get(&whole).filter(|whole| **whole > 0.0)?;
            Some((*at, values.get(&part)? / whole))
        })
    }

    /// The sum of those of some metrics that were measured.
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

/// The metrics of clusters that rules look at.
pub(crate) const OF_CLUSTERS: [Metric; 12] = [
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

/// The metrics of workers that rules look at.
pub(crate) const OF_WORKERS: [Metric; 7] = [
    Metric::MemoryProcess,
    Metric::MemoryLimit,
    Metric::DiskFree,
    Metric::DiskTotal,
    Metric::EventLoop,
    Metric::TasksExecuting,
    Metric::TasksReady,
];
