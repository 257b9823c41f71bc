//! Measurements over time, summed up in buckets: which buckets a question means, and what lies in them.

use std::collections::BTreeMap;

use super::{
    metric::{Combination, Metric},
    sample_chunk::{CHUNK_MILLISECONDS, Samples},
};

/// How many points a series has at the most.
pub const MAX_POINTS: i64 = 2_000;

/// Bucket widths that people read easily, in seconds; wider ones are whole days.
const WIDTHS: [i64; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];
const DAY: i64 = 86_400;

/// A time divided into buckets, which begin at multiples of their width since 1970. In milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    from: i64,
    to: i64,
    width: i64,
}

/// The width that was asked for makes too many points.
#[derive(Debug, PartialEq, Eq)]
pub struct TooFine {
    /// The least width that does not, in seconds.
    pub least_seconds: i64,
}

impl Window {
    /// From `from` until before `to`, in buckets of so many seconds, or as narrow as may be.
    ///
    /// # Errors
    /// [`TooFine`] when the width that is asked for makes more than [`MAX_POINTS`].
    pub fn new(from: i64, to: i64, bucket_seconds: Option<i64>) -> Result<Self, TooFine> {
        let of = |seconds: i64| Self { from, to, width: seconds.saturating_mul(1_000) };
        let few = |window: &Self| window.buckets() <= MAX_POINTS;
        let widths = WIDTHS.into_iter().chain((1..).map(|days| days * DAY));
        match bucket_seconds.map(of) {
            Some(asked) if few(&asked) => Ok(asked),
            Some(_) => Err(TooFine { least_seconds: (to - from).div_euclid(1_000 * (MAX_POINTS - 2)) + 1 }),
            // The widths do not end before one is wide enough.
            None => Ok(widths.map(of).find(few).unwrap_or(of(i64::MAX))),
        }
    }

    /// From `from` until before `to` in buckets of a second, however many: for what becomes one value.
    #[must_use]
    pub fn of_seconds(from: i64, to: i64) -> Self {
        Self { from, to, width: 1_000 }
    }

    fn buckets(&self) -> i64 {
        if self.is_empty() {
            return 0;
        }
        (self.to - 1).div_euclid(self.width) - self.from.div_euclid(self.width) + 1
    }

    /// Whether nothing can lie in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from >= self.to
    }

    /// The width of its buckets.
    #[must_use]
    pub fn width_seconds(&self) -> i64 {
        self.width / 1_000
    }

    /// How much work it is to answer for so many metrics, in points; a chunk that is read counts as a few.
    #[must_use]
    pub fn cost(&self, metrics: usize) -> i64 {
        let (first, last) = self.chunks();
        let chunks = ((last - first) / CHUNK_MILLISECONDS + 1).max(0);
        self.buckets() * i64::try_from(metrics).unwrap_or(i64::MAX) + 4 * chunks
    }

    /// Where the first and the last chunk begin that can hold samples of this time.
    #[must_use]
    pub fn chunks(&self) -> (i64, i64) {
        let chunk = |time: i64| time.div_euclid(CHUNK_MILLISECONDS) * CHUNK_MILLISECONDS;
        (chunk(self.from), chunk(self.to - 1))
    }
}

/// What was measured within one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    sum: f64,
    count: f64,
    /// The least value.
    pub min: f64,
    /// The greatest value.
    pub max: f64,
}

impl Bucket {
    /// The mean of the values.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum / self.count
    }
}

/// Some metrics of a cluster or worker in the buckets of a window.
#[derive(Clone, Debug)]
pub struct Buckets {
    window: Window,
    metrics: BTreeMap<Metric, BTreeMap<i64, Bucket>>,
}

impl Buckets {
    /// With nothing in them yet.
    #[must_use]
    pub fn new(window: Window, metrics: &[Metric]) -> Self {
        Self { window, metrics: metrics.iter().map(|metric| (*metric, BTreeMap::new())).collect() }
    }

    /// Adds the samples of a chunk that begins at `start`.
    pub fn add(&mut self, start: i64, samples: &Samples) {
        let Window { from, to, width } = self.window;
        for (metric, buckets) in &mut self.metrics {
            for (offset, value) in samples.values(*metric) {
                let at = start + i64::from(offset);
                if !(from..to).contains(&at) {
                    continue;
                }
                let value = written(value);
                let new = Bucket { sum: 0.0, count: 0.0, min: value, max: value };
                let bucket = buckets.entry(at.div_euclid(width) * width).or_insert(new);
                bucket.sum += value;
                bucket.count += 1.0;
                bucket.min = bucket.min.min(value);
                bucket.max = bucket.max.max(value);
            }
        }
    }

    /// All of a metric in one; `None` if there is nothing.
    #[must_use]
    pub fn whole(&self, metric: Metric) -> Option<Bucket> {
        self.of(metric).map(|(_, bucket)| bucket).reduce(|a, b| Bucket {
            sum: a.sum + b.sum,
            count: a.count + b.count,
            min: a.min.min(b.min),
            max: a.max.max(b.max),
        })
    }

    /// The buckets of a metric in which there is something, by the milliseconds they begin at.
    pub fn of(&self, metric: Metric) -> impl Iterator<Item = (i64, Bucket)> {
        self.metrics.get(&metric).into_iter().flatten().map(|(at, bucket)| (*at, *bucket))
    }
}

/// What several clusters come to in one bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    /// The means of all, as [`Metric::combination`] says.
    pub value: f64,
    /// The least of the means.
    pub min: f64,
    /// The greatest of the means.
    pub max: f64,
    /// How many have something in this bucket.
    pub parts: usize,
}

/// A metric of several clusters in the same buckets, by time.
#[must_use]
pub fn together<'a>(metric: Metric, parts: impl Iterator<Item = &'a Buckets>) -> BTreeMap<i64, Together> {
    let mut means: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (at, bucket) in parts.flat_map(|part| part.of(metric)) {
        means.entry(at).or_default().push(bucket.mean());
    }
    let one = |(at, mut means): (i64, Vec<f64>)| {
        // In one order, so that sums of floats do not depend on which cluster was read first.
        means.sort_by(f64::total_cmp);
        let (min, max, sum) = (means[0], means[means.len() - 1], means.iter().sum::<f64>());
        #[expect(clippy::cast_precision_loss, reason = "there are few clusters")]
        let value = match metric.combination() {
            Combination::Sum => sum,
            Combination::Mean => sum / means.len() as f64,
            Combination::Least => min,
            Combination::Greatest => max,
        };
        (at, Together { value, min, max, parts: means.len() })
    };
    means.into_iter().map(one).collect()
}

/// The value as one would write it: the shortest decimal that means the same 32-bit float, so that 0.1 does not
/// come back as 0.10000000149011612.
fn written(value: f64) -> f64 {
    if value.fract() == 0.0 {
        return value;
    }
    #[expect(clippy::cast_possible_truncation, reason = "values that are not whole are kept as such floats")]
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
        // Beginning and ending within a bucket makes one more.
        assert_eq!(Window::new(500, 2_000_500, None).map(|window| window.width_seconds()), Ok(2));
    }

    #[test]
    fn a_width_that_is_too_narrow_is_answered_with_one_that_is_not() {
        let asked = |seconds| Window::new(500, 86_400_500, Some(seconds));
        let TooFine { least_seconds } = asked(43).expect_err("too many");
        assert_eq!(least_seconds, 44);
        assert!(asked(least_seconds).is_ok());
        assert!(asked(i64::MAX).is_ok());
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
        let whole = buckets.whole(Metric::Cpu).map(|b| (b.mean(), b.min, b.max));
        assert_eq!((whole, buckets.whole(Metric::Threads)), (Some((7.6 / 3.0, 0.1, 7.0)), None));
    }
}
