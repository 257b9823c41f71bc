//! Quantiles of measurements.

/// Returns the quantile of values for a share from 0 to 1, interpolated linearly between the two nearest
/// values, as Prometheus and `numpy` do. The values are in ascending order. `None` if there are none.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last_index = sorted.len().checked_sub(1)?;
    #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53 values")]
    let position = share.clamp(0.0, 1.0) * last_index as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the position is an index of a value, or between two"
    )]
    let lower_index = position.floor() as usize;
    let upper_value = sorted.get(lower_index + 1).copied().unwrap_or(sorted[lower_index]);
    Some(sorted[lower_index] + (upper_value - sorted[lower_index]) * position.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values are those of `numpy.quantile`.
    #[test]
    fn quantiles_are_interpolated() {
        let values = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (share, expected) in [(0.0, 1.0), (0.1, 1.4), (0.25, 2.0), (0.5, 4.0), (0.9, 12.8), (1.0, 16.0)] {
            let result = quantile(&values, share).expect("there are values");
            assert!((result - expected).abs() < 1e-9, "{share}: {result}");
        }
        assert_eq!(quantile(&[7.0], 0.3), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
        // Shares out of range, which no caller passes, are the nearest one.
        assert_eq!([quantile(&values, -1.0), quantile(&values, 2.0)], [Some(1.0), Some(16.0)]);
    }
}
