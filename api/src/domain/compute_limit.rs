//! The limit of a cluster's compute time: until the end of each hour, tasks computed for no longer than
//! there were threads.
//!
//! The compute time of a task counts in the hour of its end, so one hour may have more of it than thread
//! time. The sum over the cluster's life until then may not: such reports contradict themselves. Damaged
//! files do, and so do tasks that leave their worker's thread pool, whose thread counts twice.

/// The tolerance for the clocks of workers, which time the tasks: a share, and microseconds.
const TOLERANCE: (i64, i64) = (100, 250_000);

/// The sums of a cluster's hours up to a point, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComputeLimit {
    observed_us: i64,
    compute_us: i64,
}

impl ComputeLimit {
    /// Returns the limit after hours with these sums of observed thread time and of compute time that
    /// counts.
    #[must_use]
    pub fn after(observed_us: i64, compute_us: i64) -> Self {
        Self { observed_us, compute_us }
    }

    /// Adds the next hour. Returns the part of its reported compute time that counts: all of it, unless
    /// the sum exceeds the observed thread time by more than the tolerance.
    #[must_use]
    pub fn add_hour(&mut self, observed_us: i64, reported_us: i64) -> i64 {
        self.observed_us = self.observed_us.saturating_add(observed_us);
        let (share, offset) = TOLERANCE;
        let tolerated_us = self.observed_us.saturating_add(self.observed_us / share).saturating_add(offset);
        let counted_us = if self.compute_us.saturating_add(reported_us) > tolerated_us {
            (self.observed_us - self.compute_us).clamp(0, reported_us)
        } else {
            reported_us
        };
        self.compute_us = self.compute_us.saturating_add(counted_us);
        counted_us
    }
}

/// Returns the part of a function's compute time that counts if of its hour's compute time
/// `reported_us` only `counted_us` counts. The parts of several functions add up to no more than that.
#[must_use]
pub fn counted_part(function_us: i64, counted_us: i64, reported_us: i64) -> i64 {
    if reported_us <= 0 {
        return function_us;
    }
    let counted_part_us = i128::from(function_us) * i128::from(counted_us) / i128::from(reported_us);
    i64::try_from(counted_part_us).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3_600_000_000;

    /// Returns the counted compute time of hours of one thread with these reported ones.
    fn counted(reported: &[i64]) -> Vec<i64> {
        let mut limit = ComputeLimit::default();
        reported.iter().map(|reported| limit.add_hour(HOUR, *reported)).collect()
    }

    #[test]
    fn a_long_task_counts_in_the_hour_of_its_end() {
        assert_eq!(counted(&[0, 0, 3 * HOUR]), [0, 0, 3 * HOUR]);
        assert_eq!(counted(&[0, 0, 4 * HOUR]), [0, 0, 3 * HOUR]);
        // An hour without work restores nothing that was cut, and leaves its own time.
        assert_eq!(counted(&[2 * HOUR, 0, 2 * HOUR]), [HOUR, 0, 2 * HOUR]);
        assert_eq!(counted(&[HOUR, HOUR, HOUR]), [HOUR, HOUR, HOUR]);
    }

    #[test]
    fn clocks_may_differ_by_a_hundredth() {
        let tolerated = HOUR + HOUR / 100 + 250_000;
        assert_eq!(counted(&[tolerated]), [tolerated]);
        assert_eq!(counted(&[tolerated + 1]), [HOUR]);
        // The tolerance does not apply a second time.
        assert_eq!(counted(&[tolerated, tolerated]), [tolerated, 2 * HOUR - tolerated]);
        let mut limit = ComputeLimit::after(HOUR, tolerated);
        assert_eq!(limit.add_hour(0, 5), 0);
    }

    #[test]
    fn functions_are_cut_in_proportion() {
        assert_eq!([10, 20, 0].map(|function_us| counted_part(function_us, 15, 30)), [5, 10, 0]);
        assert_eq!([1, 1, 1].map(|function_us| counted_part(function_us, 2, 3)), [0, 0, 0]);
        assert_eq!(counted_part(7, 0, 0), 7);
        assert_eq!(counted_part(i64::MAX, i64::MAX - 1, i64::MAX), i64::MAX - 1);
    }

    proptest! {
        #[test]
        fn no_sum_exceeds_the_thread_time(hours in prop::collection::vec((0..HOUR, 0..4 * HOUR), 1..30)) {
            let mut limit = ComputeLimit::default();
            let (mut threads, mut sum) = (0, 0);
            for (observed, reported) in hours {
                let counted_us = limit.add_hour(observed, reported);
                prop_assert!((0..=reported).contains(&counted_us));
                prop_assert!(counted_us == reported || reported > observed);
                (threads, sum) = (threads + observed, sum + counted_us);
                prop_assert!(sum <= threads + threads / 100 + 250_000);
            }
        }
    }
}
