//! Values in whole millionths of their unit. Their sums are exact and independent of the order.

use std::{
    iter::Sum,
    ops::{Add, AddAssign, Sub},
};

/// The number of millionths in one unit.
const MILLION: i128 = 1_000_000;

/// The largest magnitude of a single value, in units. It keeps all sums within range.
const MAX_UNITS: f64 = 1e24;

/// The bound up to which a float represents whole numbers exactly.
const EXACT: u128 = 1 << 53;

/// A value in whole millionths of its unit, such as microseconds for seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millionths(i128);

impl Millionths {
    /// Rounds a value to the nearest millionth. NaN becomes zero.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "both parts have been bounded")]
    pub fn of(value: f64) -> Self {
        // The parts are converted separately, because the product of a large value and a million is not
        // exact.
        let integral = value.clamp(-MAX_UNITS, MAX_UNITS).trunc();
        Self(integral as i128 * MILLION + (value.fract() * 1e6).round() as i128)
    }

    /// Converts a number of thousandths.
    #[must_use]
    pub fn of_thousandths(thousandths: i128) -> Self {
        Self(thousandths.saturating_mul(1_000))
    }

    /// Returns the nearest float. It is the float of the decimal number as long as a float can represent
    /// the millionths exactly.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "larger values may be rounded")]
    pub fn value(self) -> f64 {
        if self.0.unsigned_abs() <= EXACT {
            self.0 as f64 / 1e6
        } else {
            (self.0 / MILLION) as f64 + (self.0 % MILLION) as f64 / 1e6
        }
    }

    /// Returns the decimal number without trailing zeros.
    #[must_use]
    pub fn decimal(self) -> String {
        let (sign, digits) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let million = MILLION.unsigned_abs();
        let text = format!("{sign}{}.{:06}", digits / million, digits % million);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// Returns the absolute value, in millionths.
    #[must_use]
    pub fn magnitude(self) -> u128 {
        self.0.unsigned_abs()
    }

    /// Returns the value as a share of a whole. Returns `None` if the whole is zero.
    #[must_use]
    pub fn share_of(self, whole: Self) -> Option<f64> {
        (whole.0 != 0).then(|| self.value() / whole.value())
    }
}

impl Add for Millionths {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Millionths {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Millionths {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Millionths {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        values.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_to_the_millionth_and_given_back() {
        for (value, decimal) in [
            (0.0, "0"),
            (12.1, "12.1"),
            (-0.25, "-0.25"),
            (1e-6, "0.000001"),
            (1e-7, "0"),
            (123_456_789.123_456, "123456789.123456"),
            (1e15, "1000000000000000"),
        ] {
            assert_eq!(Millionths::of(value).decimal(), decimal);
        }
        for value in [12.1, -0.3, 1e15, 9_007_199_254_740_992.0, 123_456_789.123_456] {
            assert_eq!(Millionths::of(value).value().to_bits(), value.to_bits(), "{value}");
        }
        assert_eq!(Millionths::of(f64::NAN), Millionths::default());
        assert_eq!(Millionths::of(f64::MAX), Millionths::of(MAX_UNITS));
    }

    #[test]
    fn sums_do_not_depend_on_their_order() {
        let values = [0.1, 1e12, 0.2, -1e12, 0.3];
        let sum = |values: &[f64]| values.iter().map(|value| Millionths::of(*value)).sum::<Millionths>();
        let mut reversed = values;
        reversed.reverse();
        assert_eq!((sum(&values), sum(&reversed)), (Millionths::of(0.6), Millionths::of(0.6)));
        assert_eq!(Millionths::of_thousandths(1_500) - Millionths::of(2.0), Millionths::of(-0.5));
        assert_eq!(Millionths::of(1.0).share_of(Millionths::of(4.0)), Some(0.25));
        assert_eq!(Millionths::of(1.0).share_of(Millionths::default()), None);
    }
}
