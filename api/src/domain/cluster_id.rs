//! Generation of cluster ids.

use chrono::{DateTime, Utc};
use entity::ids::ClusterId;

/// 2026-01-01T00:00:00Z in milliseconds: the zero of the time part, which covers 69 years.
const EPOCH_MILLISECONDS: i64 = 1_767_225_600_000;

/// The number of random bits below the time part. Two clusters first seen in the same millisecond in the
/// same account collide once in 4,096 cases, and the later one then gets another id.
const RANDOM_BITS: u32 = 12;

/// Creates an id below 2^53 that increases with `now`.
#[must_use]
pub fn cluster_id(now: DateTime<Utc>, random: u16) -> ClusterId {
    let elapsed = (now.timestamp_millis() - EPOCH_MILLISECONDS).clamp(1, (1 << 41) - 1);
    ClusterId((elapsed << RANDOM_BITS) | (i64::from(random) & ((1 << RANDOM_BITS) - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_ordered_by_time_and_stay_below_two_to_the_53() {
        let at = |milliseconds| DateTime::from_timestamp_millis(milliseconds).expect("in range");
        assert_eq!(cluster_id(at(EPOCH_MILLISECONDS + 1), 0), ClusterId(1 << 12));
        assert!(cluster_id(at(EPOCH_MILLISECONDS + 5), u16::MAX) < cluster_id(at(EPOCH_MILLISECONDS + 6), 0));
        let last = cluster_id(at(EPOCH_MILLISECONDS + (1 << 41)), u16::MAX);
        assert_eq!(last, ClusterId((1 << 53) - 1));
        assert!(cluster_id(at(0), 7).0 > 0);
    }
}
