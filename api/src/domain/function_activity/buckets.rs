//! The activity of functions over a period, aggregated in buckets.

use std::collections::BTreeMap;

use super::{Activity, INTERVAL_MILLISECONDS, OTHERS};
use crate::domain::series::{Window, round_mean};

/// The largest memory for the functions of one period, in bytes. All functions of the longest period take
/// less if their names are of the usual length.
const MAX_BYTES: usize = 16 << 20;

/// The memory for a function besides its name, and for one of its buckets, in bytes.
const FUNCTION_BYTES: usize = 100;
const BUCKET_BYTES: usize = 24;

/// The error for a period with too many functions, or with names that are too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the period has too many functions")]
pub struct TooManyFunctions;

/// The activity of a cluster's functions in the buckets of a window.
#[derive(Clone, Debug)]
pub struct ActivityBuckets {
    window: Window,
    /// The hundredths of seconds of each function, by the start of the bucket in milliseconds. Empty
    /// buckets are absent.
    functions: BTreeMap<String, BTreeMap<i64, u64>>,
    bytes: usize,
}

impl ActivityBuckets {
    /// Creates a set of empty buckets. Their width must be a multiple of an interval.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self { window, functions: BTreeMap::new(), bytes: 0 }
    }

    /// Returns the memory that the functions take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the activity of the chunk that begins at `start`, in milliseconds. Intervals count whole, even
    /// if only a part of them lies in the window.
    ///
    /// # Errors
    /// Returns [`TooManyFunctions`] if the functions take too much memory.
    pub fn add(&mut self, start: i64, activity: &Activity) -> Result<(), TooManyFunctions> {
        for (function, values) in activity.functions() {
            let times = (0_i64..).map(|index| start + index * INTERVAL_MILLISECONDS);
            let active = times.zip(values).filter(|(_, value)| **value > 0).filter_map(|(at, value)| {
                Some((self.window.bucket_of(at, INTERVAL_MILLISECONDS)?, u64::from(*value)))
            });
            let active: Vec<(i64, u64)> = active.collect();
            if active.is_empty() {
                continue;
            }
            if !self.functions.contains_key(function) {
                self.bytes += FUNCTION_BYTES + function.len();
            }
            let buckets = self.functions.entry(function.to_owned()).or_default();
            let previous_count = buckets.len();
            for (bucket, value) in active {
                *buckets.entry(bucket).or_default() += value;
            }
            self.bytes += BUCKET_BYTES * (buckets.len() - previous_count);
            if self.bytes > MAX_BYTES {
                return Err(TooManyFunctions);
            }
        }
        Ok(())
    }

    /// Returns the buckets as columns of numbers: those of the `count` functions with the most compute time,
    /// and one of all others.
    #[must_use]
    pub fn columns(&self, count: usize) -> ActivityColumns {
        let mut ranked: Vec<(&str, u64, &BTreeMap<i64, u64>)> = self
            .functions
            .iter()
            .filter(|(function, _)| *function != OTHERS)
            .map(|(function, buckets)| (function.as_str(), buckets.values().sum(), buckets))
            .collect();
        ranked.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        let unlisted = ranked.split_off(count.min(ranked.len()));
        let mut others = self.functions.get(OTHERS).cloned().unwrap_or_default();
        for (bucket, value) in unlisted.iter().flat_map(|(_, _, buckets)| buckets.iter()) {
            *others.entry(*bucket).or_default() += value;
        }
        let extent = self.extent();
        let threads = |buckets: &BTreeMap<i64, u64>| {
            extent.map_or_else(Vec::new, |extent| self.threads(extent, buckets))
        };
        let function = |(prefix, sum, buckets): (&str, u64, &BTreeMap<i64, u64>)| FunctionColumn {
            prefix: prefix.to_owned(),
            threads: threads(buckets),
            compute_seconds: to_seconds(sum),
        };
        ActivityColumns {
            started_at: extent.map(|(first, _)| first),
            functions: ranked.into_iter().map(function).collect(),
            others: threads(&others),
            compute_seconds: to_seconds(self.functions.values().flat_map(BTreeMap::values).sum()),
        }
    }

    /// Returns the starts of the first and the last bucket with activity, in milliseconds.
    fn extent(&self) -> Option<(i64, i64)> {
        let first = self.functions.values().filter_map(BTreeMap::first_key_value).map(|(at, _)| *at).min();
        let last = self.functions.values().filter_map(BTreeMap::last_key_value).map(|(at, _)| *at).max();
        first.zip(last)
    }

    /// Returns the mean number of occupied threads in each bucket from the first to the last one.
    fn threads(&self, (first, last): (i64, i64), buckets: &BTreeMap<i64, u64>) -> Vec<f64> {
        let width = self.window.width_seconds();
        let index = |at: i64| usize::try_from((at - first) / (1_000 * width)).unwrap_or_default();
        let mut threads = vec![0.0; index(last) + 1];
        for (at, value) in buckets {
            threads[index(*at)] = round_mean(to_seconds(*value) / to_seconds(100 * width.unsigned_abs()));
        }
        threads
    }
}

/// The activity of functions as lists of numbers, one of each for each bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityColumns {
    /// The start of the first bucket, in milliseconds. `None` without activity.
    pub started_at: Option<i64>,
    /// The functions with the most compute time, the longest first.
    pub functions: Vec<FunctionColumn>,
    /// The mean number of threads that all other functions occupied.
    pub others: Vec<f64>,
    /// The compute time of all functions together, in seconds.
    pub compute_seconds: f64,
}

/// The activity of one function.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionColumn {
    /// The function.
    pub prefix: String,
    /// The mean number of occupied threads.
    pub threads: Vec<f64>,
    /// The compute time, in seconds.
    pub compute_seconds: f64,
}

#[expect(clippy::cast_precision_loss, reason = "exact for the time of all clusters in centuries")]
fn to_seconds(hundredths: u64) -> f64 {
    hundredths as f64 / 100.0
}
