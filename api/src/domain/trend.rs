//! A time divided into hours, days or weeks, in each of which something is counted.

use super::retention::week;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// How many stretches of time a trend has at the most.
pub const MAX_STRETCHES: i64 = 1_000;

/// How many it has unless it is said when it begins.
const USUAL_STRETCHES: i64 = 30;

/// How long each of them is. They begin with the clock, in UTC; weeks on Mondays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// An hour.
    Hour,
    /// A day.
    Day,
    /// Seven days from a Monday on.
    Week,
}

impl Step {
    /// Milliseconds.
    #[must_use]
    pub fn length(self) -> i64 {
        match self {
            Self::Hour => HOUR,
            Self::Day => DAY,
            Self::Week => week::LENGTH,
        }
    }

    /// What has to be added to a time before it is divided by the length, so that the result grows where a stretch
    /// begins: the epoch lay within a week.
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

/// Stretches of time that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stretches {
    step: Step,
    first: i64,
    last: i64,
}

/// There are more than [`MAX_STRETCHES`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooMany;

impl Stretches {
    /// Whole ones from that in which `from` lies to that in which the last moment before `to` does, in milliseconds. Some
    /// that end there if it is not said when they begin.
    ///
    /// # Errors
    /// [`TooMany`].
    pub fn new(step: Step, from: Option<i64>, to: i64) -> Result<Self, TooMany> {
        let last = step.number(to.saturating_sub(1));
        let first = from.map_or(last - USUAL_STRETCHES + 1, |from| step.number(from));
        if last - first >= MAX_STRETCHES { Err(TooMany) } else { Ok(Self { step, first, last }) }
    }

    /// How long each is.
    #[must_use]
    pub fn step(self) -> Step {
        self.step
    }

    /// From when to before when they reach, in milliseconds.
    #[must_use]
    pub fn range(self) -> (Option<i64>, Option<i64>) {
        (Some(self.step.start(self.first)), Some(self.step.start(self.last.max(self.first - 1) + 1)))
    }

    /// The number of each and when it begins, in milliseconds.
    pub fn each(self) -> impl Iterator<Item = (i64, i64)> {
        (self.first..=self.last).map(move |number| (number, self.step.start(number)))
    }

    /// How many there are.
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
        for (step, start) in [(Step::Hour, friday), (Step::Day, midnight), (Step::Week, midnight - 4 * DAY)] {
            let one = Stretches::new(step, Some(friday), friday + 1).expect("one");
            assert_eq!(one.each().map(|(_, start)| start).collect::<Vec<_>>(), [start], "{step:?}");
            assert_eq!(one.range(), (Some(start), Some(start + step.length())), "{step:?}");
            // What begins with it is not in the one before.
            let two = Stretches::new(step, Some(start - 1), start + 1).expect("two");
            assert_eq!(two.count(), 2, "{step:?}");
            assert_eq!(Stretches::new(step, Some(start), start).map(Stretches::count), Ok(0), "{step:?}");
        }
    }

    #[test]
    fn there_are_thirty_unless_said_and_a_thousand_at_the_most() {
        let usual = Stretches::new(Step::Day, None, 100 * DAY).expect("thirty");
        assert_eq!((usual.count(), usual.range()), (30, (Some(70 * DAY), Some(100 * DAY))));
        assert!(Stretches::new(Step::Hour, Some(0), 1_000 * HOUR).is_ok());
        assert_eq!(Stretches::new(Step::Hour, Some(0), 1_000 * HOUR + 1), Err(TooMany));
        assert_eq!(Stretches::new(Step::Week, Some(i64::MAX), 0).map(Stretches::count), Ok(0));
        assert_eq!(Stretches::new(Step::Week, Some(i64::MIN), i64::MAX), Err(TooMany));
    }
}
