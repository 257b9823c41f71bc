//! Time series of measurements, aggregated in buckets.

use std::collections::BTreeMap;

use super::{
    metric::{Combination, Metric},
    sample_chunk::{CHUNK_MILLISECONDS, Samples},
};

/// The largest number of points in a series.
pub const MAX_POINTS: i64 = 2_000;

/// Readable bucket widths, in seconds. Wider ones are whole days.
const WIDTHS: [i64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
const DAY: i64 = 86_400;

/// A period divided into buckets, which begin at multiples of their width since 1970. In milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    from: i64,
    to: i64,
    width: i64,
}

/// The error for a bucket width that results in too many points.
#[derive(Debug, PartialEq, Eq)]
pub struct TooManyPoints {
    /// The smallest accepted width, in seconds.
    pub least_seconds: i64,
}

impl Window {
    /// Creates a window from `from` (inclusive) to `to` (exclusive). The buckets have the given width, or
    /// the smallest accepted one if it is `None`.
    ///
    /// # Errors
    /// Returns [`TooManyPoints`] if the given width results in more than [`MAX_POINTS`].
    pub fn new(from: i64, to: i64, bucket_seconds: Option<i64>) -> Result<Self, TooManyPoints> {
        let Some(seconds) = bucket_seconds else { return Ok(Self::with_at_most(MAX_POINTS, from, to)) };
        let window = Self { from, to, width: seconds.saturating_mul(1_000) };
        if window.buckets() <= MAX_POINTS {
            return Ok(window);
        }
        Err(TooManyPoints { least_seconds: (to - from).div_euclid(1_000 * (MAX_POINTS - 2)) + 1 })
    }

    /// Creates a window from `from` (inclusive) to `to` (exclusive) with the smallest readable width that
    /// results in at most `points` buckets. A window over the boundary of the widest buckets has two.
    #[must_use]
    pub fn with_at_most(points: i64, from: i64, to: i64) -> Self {
        let with_width = |seconds: i64| Self { from, to, width: seconds.saturating_mul(1_000) };
        // A number of days that two buckets cover wherever they begin ends the search.
        let days = (to.saturating_sub(from) / (1_000 * DAY)).max(0) + 2;
        let widths = WIDTHS.into_iter().chain((1..=days).map(|days| days * DAY));
        widths.map(with_width).find(|window| window.buckets() <= points).unwrap_or(with_width(days * DAY))
    }

    /// Creates a window with buckets of one second, in any number, for a later aggregation into one
    /// value.
    #[must_use]
    pub fn of_seconds(from: i64, to: i64) -> Self {
        Self { from, to, width: 1_000 }
    }

    /// Returns the same period with buckets of at least this width.
    #[must_use]
    pub fn at_least_seconds(self, seconds: i64) -> Self {
        Self { width: self.width.max(seconds.saturating_mul(1_000)), ..self }
    }

    /// Returns the period extended to the start of its first bucket.
    #[must_use]
    pub fn from_whole_bucket(self) -> Self {
        Self { from: self.from.div_euclid(self.width) * self.width, ..self }
    }

    /// Returns the start of the bucket that contains an interval, in milliseconds. Returns `None` if no part
    /// of the interval lies in the period. The width of the buckets must be a multiple of its length.
    #[must_use]
    pub fn bucket_of(&self, at: i64, milliseconds: i64) -> Option<i64> {
        let is_in_period = at < self.to && at + milliseconds > self.from && !self.is_empty();
        is_in_period.then(|| at.div_euclid(self.width) * self.width)
    }

    fn buckets(&self) -> i64 {
        if self.is_empty() {
            return 0;
        }
        (self.to - 1).div_euclid(self.width) - self.from.div_euclid(self.width) + 1
    }

    /// Returns true if the period is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    /// Returns the width of the buckets, in seconds.
    #[must_use]
    pub fn width_seconds(&self) -> i64 {
        self.width / 1_000
    }

    /// Returns the cost of a query for a number of metrics, in points. A chunk that must be read costs a
    /// few points.
    #[must_use]
    pub fn cost(&self, metrics: usize) -> i64 {
        let (first, last) = self.chunks();
        let chunks = ((last - first) / CHUNK_MILLISECONDS + 1).max(0);
        self.buckets() * i64::try_from(metrics).unwrap_or(i64::MAX) + 4 * chunks
    }

    /// Returns the starts of the first and the last chunk that can contain samples of this period.
    #[must_use]
    pub fn chunks(&self) -> (i64, i64) {
        let chunk = |time: i64| time.div_euclid(CHUNK_MILLISECONDS) * CHUNK_MILLISECONDS;
        (chunk(self.from), chunk(self.to - 1))
    }
}

/// The aggregate of the values in one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    sum: f64,
    count: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Bucket {
    /// Returns the mean of the values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum / self.count
    }

    /// Creates a bucket with one value.
    #[cfg(test)]
    pub(in crate::domain) fn of(value: f64) -> Self {
        Self { sum: value, count: 1.0, min: value, max: value }
    }
}

/// The buckets of several metrics of one cluster or worker.
#[derive(Clone, Debug)]
pub struct Buckets {
    window: Window,
    metrics: BTreeMap<Metric, BTreeMap<i64, Bucket>>,
}

impl Buckets {
    /// Creates a set of empty buckets.
    #[must_use]
    pub fn new(window: Window, metrics: &[Metric]) -> Self {
        Self { window, metrics: metrics.iter().map(|metric| (*metric, BTreeMap::new())).collect() }
    }

    /// Adds the samples of the chunk that begins at `start`.
    pub fn add(&mut self, start: i64, samples: &Samples) {
        let Window { from, to, width } = self.window;
        for (metric, buckets) in &mut self.metrics {
            for (offset, value) in samples.values(*metric) {
                let at = start + i64::from(offset);
                if !(from..to).contains(&at) {
                    continue;
                }
                let value = shortest_decimal(value);
                let new = Bucket { sum: 0.0, count: 0.0, min: value, max: value };
                let bucket = buckets.entry(at.div_euclid(width) * width).or_insert(new);
                bucket.sum += value;
                bucket.count += 1.0;
                bucket.min = bucket.min.min(value);
                bucket.max = bucket.max.max(value);
            }
        }
    }

    /// Returns the aggregate of all values of a metric. Returns `None` if there are none.
    #[must_use]
    pub fn aggregate_all(&self, metric: Metric) -> Option<Bucket> {
        self.of(metric).map(|(_, bucket)| bucket).reduce(|a, b| Bucket {
            sum: a.sum + b.sum,
            count: a.count + b.count,
            min: a.min.min(b.min),
            max: a.max.max(b.max),
        })
    }

    /// Returns the buckets of a metric from the first to the last that are not empty, with the start of the
    /// first in milliseconds. A bucket without measurements is `None`. Returns `None` if all are empty.
    #[must_use]
    pub fn dense(&self, metric: Metric) -> Option<(i64, Vec<Option<Bucket>>)> {
        let (start, _) = self.of(metric).next()?;
        let mut buckets = Vec::new();
        for (at, bucket) in self.of(metric) {
            let index = usize::try_from((at - start) / self.window.width).unwrap_or_default();
            buckets.resize(index, None);
            buckets.push(Some(bucket));
        }
        Some((start, buckets))
    }

    /// Iterates over the non-empty buckets of a metric, with their starts in milliseconds.
    pub fn of(&self, metric: Metric) -> impl Iterator<Item = (i64, Bucket)> {
        self.metrics.get(&metric).into_iter().flatten().map(|(at, bucket)| (*at, *bucket))
    }
}

/// The aggregate of several clusters in one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CombinedBucket {
    /// The means of all clusters, combined by [`Metric::combination`].
    pub value: f64,
    /// The smallest mean.
    pub min: f64,
    /// The largest mean.
    pub max: f64,
    /// The number of clusters with values in this bucket.
    pub parts: usize,
}

/// Combines a metric of several clusters by bucket.
#[must_use]
pub fn combine_clusters<'a>(
    metric: Metric,
    clusters: impl Iterator<Item = &'a Buckets>,
) -> BTreeMap<i64, CombinedBucket> {
    let mut means: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (at, bucket) in clusters.flat_map(|buckets| buckets.of(metric)) {
        means.entry(at).or_default().push(bucket.mean());
    }
    let combine = |(at, mut means): (i64, Vec<f64>)| {
        // The means are summed in a fixed order, so that the float result does not depend on the order of
        // the clusters.
        means.sort_by(f64::total_cmp);
        let (min, max, sum) = (means[0], means[means.len() - 1], means.iter().sum::<f64>());
        #[expect(clippy::cast_precision_loss, reason = "there are few clusters")]
        let value = match metric.combination() {
            Combination::Sum => sum,
            Combination::Mean => sum / means.len() as f64,
            Combination::Least => min,
            Combination::Greatest => max,
        };
        (at, CombinedBucket { value, min, max, parts: means.len() })
    };
    means.into_iter().map(combine).collect()
}

/// Rounds a mean to seven significant digits, or to an integer above ten million. Integers stay exact.
#[must_use]
pub fn round_mean(mean: f64) -> f64 {
    if mean.abs() >= 1e7 { mean.round() } else { shortest_decimal(mean) }
}

/// Returns the shortest decimal for the same 32-bit float, so that 0.1 does not become
/// 0.10000000149011612.
fn shortest_decimal(value: f64) -> f64 {
    if value.fract() == 0.0 {
        return value;
    }
    #[expect(clippy::cast_possible_truncation, reason = "fractional values are stored as 32-bit floats")]
    let single = value as f32;
    single.to_string().parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::sample_chunk::{pack, unpack};

    #[test]
    fn buckets_are_as_narrow_as_two_thousand_allow() {
        let width = |seconds: i64| Window::new(0, 1_000 * seconds, None).map(|window| window.width_seconds());
        for (seconds, expected) in
            [(0, 1), (2_000, 1), (2_001, 2), (20_000, 10), (86_400, 60), (31 * 86_400, 1_800)]
        {
            assert_eq!(width(seconds), Ok(expected), "{seconds}");
        }
        assert_eq!(width(10_000 * DAY), Ok(5 * DAY));
        // A window that begins and ends within a bucket has one more.
        assert_eq!(Window::new(500, 2_000_500, None).map(|window| window.width_seconds()), Ok(2));
    }

    #[test]
    fn buckets_are_as_narrow_as_a_number_of_points_allows() {
        let width = |points, from, to| Window::with_at_most(points, from, to).width_seconds();
        let hour = 3_600_000;
        for (points, from, to, expected) in [
            (60, 0, hour, 60),
            (59, 0, hour, 120),
            (60, 1, hour + 1, 120),
            (1, 0, hour, 3_600),
            (2, hour - 1, hour + 1, 1),
            (1, 0, 90_000_000, 2 * DAY),
            (2_000, 0, 0, 1),
            (1, hour, 0, 1),
        ] {
            assert_eq!(width(points, from, to), expected, "{points} {from} {to}");
        }
        // Longer than any other width, and not more than two whatever the start.
        let window = Window::with_at_most(2, 20_000 * DAY * 1_000 - 1, 30_000 * DAY * 1_000 + 1);
        assert_eq!(window.buckets(), 2);
    }

    #[test]
    fn a_width_that_is_too_narrow_is_answered_with_one_that_is_not() {
        let window = |seconds| Window::new(500, 86_400_500, Some(seconds));
        let TooManyPoints { least_seconds } = window(43).expect_err("too many");
        assert_eq!(least_seconds, 44);
        assert!(window(least_seconds).is_ok());
        assert!(window(i64::MAX).is_ok());
    }

    #[test]
    fn an_interval_belongs_to_the_bucket_it_begins_in_if_a_part_of_it_lies_in_the_period() {
        let window = Window::with_at_most(MAX_POINTS, 607_000, 661_000).at_least_seconds(15);
        assert_eq!(window.width_seconds(), 15);
        let bucket = |at| window.bucket_of(at, 15_000);
        assert_eq!([585_000, 600_000, 615_000].map(bucket), [None, Some(600_000), Some(615_000)]);
        assert_eq!([660_000, 675_000].map(bucket), [Some(660_000), None]);
        let window = Window::new(607_000, 661_000, Some(30)).expect("few buckets").at_least_seconds(15);
        assert_eq!(window.bucket_of(615_000, 15_000), Some(600_000));
        assert_eq!(Window::with_at_most(2, 607_000, 607_000).bucket_of(600_000, 15_000), None);
    }

    #[test]
    fn values_count_in_their_bucket_alone() {
        let mut samples = Samples::default();
        for (offset, value) in [(0, 9.0), (1_000, 0.1), (4_999, 0.5), (5_000, 7.0), (9_000, 1.0)] {
            samples.add(offset, [(Metric::Cpu, value)]);
        }
        let packed = pack(&samples);
        let window = Window::new(600_001, 609_000, Some(5)).expect("few buckets");
        assert_eq!(window.chunks(), (600_000, 600_000));
        let mut buckets = Buckets::new(window, &[Metric::Cpu, Metric::Threads]);
        buckets.add(600_000, &unpack(&packed).expect("just packed"));
        let of = |metric| {
            let points = buckets.of(metric).map(|(at, b)| (at, b.mean(), b.min, b.max));
            points.collect::<Vec<_>>()
        };
        assert_eq!(of(Metric::Cpu), [(600_000, 0.3, 0.1, 0.5), (605_000, 7.0, 7.0, 7.0)]);
        assert_eq!(of(Metric::Threads), []);
        let dense = buckets.dense(Metric::Cpu).map(|(at, all)| (at, all.len(), all.iter().flatten().count()));
        assert_eq!((dense, buckets.dense(Metric::Threads)), (Some((600_000, 2, 2)), None));
        let whole = buckets.aggregate_all(Metric::Cpu).map(|b| (b.mean(), b.min, b.max));
        assert_eq!((whole, buckets.aggregate_all(Metric::Threads)), (Some((7.6 / 3.0, 0.1, 7.0)), None));
    }
}
