//! A period divided into hours, days or weeks, as the time axis of a histogram.

use super::retention::week;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// The largest number of intervals in a histogram.
pub const MAX_INTERVALS: i64 = 1_000;

/// The default number of intervals for a period without a start.
const DEFAULT_INTERVALS: i64 = 30;

/// The length of the intervals. They are aligned to the clock in UTC; weeks begin on Mondays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntervalLength {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days from a Monday on.
    Week,
}

impl IntervalLength {
    /// Returns the length, in milliseconds.
    #[must_use]
    pub fn length(self) -> i64 {
        match self {
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::Week => week::LENGTH,
        }
    }

    /// Returns the offset to add to a time before the division by the length, so that the quotient
    /// changes at the start of an interval. It is not zero for weeks, because the epoch is not the start
    /// of a week.
    #[must_use]
    pub fn offset(self) -> i64 {
        match self {
            Self::Hour | Self::Day => 0,
            Self::Week => -week::start(0),
        }
    }

    fn number(self, time: i64) -> i64 {
        time.saturating_add(self.offset()).div_euclid(self.length())
    }

    fn start(self, number: i64) -> i64 {
        number * self.length() - self.offset()
    }
}

/// A sequence of adjacent intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Intervals {
    step: IntervalLength,
    first: i64,
    last: i64,
}

/// The error for more than [`MAX_INTERVALS`] intervals.
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl Intervals {
    /// Creates the whole intervals from the one that contains `from` to the one that contains the last
    /// millisecond before `to`. Without `from`, it is the default number of intervals with the same end.
    ///
    /// # Errors
    /// Returns [`TooMany`] if there are more than [`MAX_INTERVALS`] intervals.
    pub fn new(step: IntervalLength, from: Option<i64>, to: i64) -> Result<Self, TooMany> {
        let last = step.number(to.saturating_sub(1));
        let first = from.map_or(last - DEFAULT_INTERVALS + 1, |from| step.number(from));
        if last - first >= MAX_INTERVALS { Err(TooMany) } else { Ok(Self { step, first, last }) }
    }

    /// Returns the length of the intervals.
    #[must_use]
    pub fn step(self) -> IntervalLength {
        self.step
    }

    /// Returns the start (inclusive) and the end (exclusive) of all intervals, in milliseconds.
    #[must_use]
    pub fn range(self) -> (Option<i64>, Option<i64>) {
        (Some(self.step.start(self.first)), Some(self.step.start(self.last.max(self.first - 1) + 1)))
    }

    /// Iterates over the number and the start of each interval, in milliseconds.
    pub fn starts(self) -> impl Iterator<Item = (i64, i64)> {
        (self.first..=self.last).map(move |number| (number, self.step.start(number)))
    }

    /// Returns the number of intervals.
    #[must_use]
    pub fn count(self) -> i64 {
        (self.last - self.first + 1).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_begin_with_the_clock_and_weeks_on_mondays() {
        // 2026-11-20T11:00:00Z was a Friday.
        let friday = 1_795_172_400_000;
        let midnight = friday - 11 * HOUR;
        for (step, start) in [
            (IntervalLength::Hour, friday),
            (IntervalLength::Day, midnight),
            (IntervalLength::Week, midnight - 4 * DAY),
        ] {
            let one = Intervals::new(step, Some(friday), friday + 1).expect("one");
            assert_eq!(one.starts().map(|(_, start)| start).collect::<Vec<_>>(), [start], "{step:?}");
            assert_eq!(one.range(), (Some(start), Some(start + step.length())), "{step:?}");
            // The start of an interval does not belong to the previous interval.
            let two = Intervals::new(step, Some(start - 1), start + 1).expect("two");
            assert_eq!(two.count(), 2, "{step:?}");
            assert_eq!(Intervals::new(step, Some(start), start).map(Intervals::count), Ok(0), "{step:?}");
        }
    }

    #[test]
    fn there_are_thirty_unless_said_and_a_thousand_at_the_most() {
        let usual = Intervals::new(IntervalLength::Day, None, 100 * DAY).expect("thirty");
        assert_eq!((usual.count(), usual.range()), (30, (Some(70 * DAY), Some(100 * DAY))));
        assert!(Intervals::new(IntervalLength::Hour, Some(0), 1_000 * HOUR).is_ok());
        assert_eq!(Intervals::new(IntervalLength::Hour, Some(0), 1_000 * HOUR + 1), Err(TooMany));
        assert_eq!(Intervals::new(IntervalLength::Week, Some(i64::MAX), 0).map(Intervals::count), Ok(0));
        assert_eq!(Intervals::new(IntervalLength::Week, Some(i64::MIN), i64::MAX), Err(TooMany));
    }
}
