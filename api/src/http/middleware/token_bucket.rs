//! Token buckets. Each bucket is full at first, refills continuously, and can be overdrawn.

use std::{
    hash::Hash,
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lru::LruCache;

/// The limit of remembered buckets. Beyond it, the least recently used bucket is dropped, and is full
/// again.
const MAX_BUCKETS: NonZeroUsize = NonZeroUsize::new(100_000).expect("it is more than none");

const MINUTE: Duration = Duration::from_mins(1);

/// A token bucket for each key. Each refills from empty to full within `refill_time`.
pub(crate) struct TokenBuckets<K: Hash + Eq> {
    limit: u64,
    refill_time: Duration,
    /// The time at which each bucket is full again.
    full_at: Mutex<LruCache<K, Instant>>,
}

/// The fill level of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    /// The capacity of the bucket.
    pub(crate) limit: u64,
    /// The missing amount, rounded up. Exceeds the capacity if the bucket is overdrawn.
    pub(crate) missing: u64,
    /// The time until the bucket is full.
    pub(crate) full_in: Duration,
}

impl Level {
    /// Returns the available amount.
    pub(crate) fn remaining(self) -> u64 {
        self.limit.saturating_sub(self.missing)
    }
}

impl<K: Hash + Eq + Clone> TokenBuckets<K> {
    pub(crate) fn new(per_minute: u64) -> Self {
        Self::with_refill_time(per_minute, MINUTE)
    }

    /// Creates buckets with this capacity and this time to refill.
    pub(crate) fn with_refill_time(limit: u64, refill_time: Duration) -> Self {
        Self { limit: limit.max(1), refill_time, full_at: Mutex::new(LruCache::new(MAX_BUCKETS)) }
    }

    /// Returns the level of a bucket.
    pub(crate) fn level(&self, key: &K) -> Level {
        self.level_at(key, Instant::now())
    }

    /// Takes an amount that may exceed the level. The wait for the next one grows accordingly.
    pub(crate) fn overdraw(&self, key: &K, amount: u64) {
        self.deduct(&mut self.lock_buckets(), key, amount, Instant::now());
    }

    /// Takes an amount if it is available, and returns the level after it. Returns the unchanged level
    /// as the error otherwise.
    pub(crate) fn take(&self, key: &K, amount: u64) -> Result<Level, Level> {
        let (mut buckets, now) = (self.lock_buckets(), Instant::now());
        let level = self.level_of(&mut buckets, key, now);
        if level.missing.saturating_add(amount) > self.limit {
            return Err(level);
        }
        self.deduct(&mut buckets, key, amount, now);
        Ok(self.level_of(&mut buckets, key, now))
    }

    /// Returns the time until `amount` is available.
    pub(crate) fn wait(&self, level: Level, amount: u64) -> Duration {
        level.full_in.saturating_sub(self.time_to_fill(self.limit.saturating_sub(amount)))
    }

    fn level_at(&self, key: &K, now: Instant) -> Level {
        self.level_of(&mut self.lock_buckets(), key, now)
    }

    fn level_of(&self, buckets: &mut LruCache<K, Instant>, key: &K, now: Instant) -> Level {
        let full_in = buckets.get(key).map_or(Duration::ZERO, |full| full.saturating_duration_since(now));
        let points = (full_in.as_nanos() * u128::from(self.limit)).div_ceil(self.refill_time.as_nanos());
        Level { limit: self.limit, missing: u64::try_from(points).unwrap_or(u64::MAX), full_in }
    }

    fn deduct(&self, buckets: &mut LruCache<K, Instant>, key: &K, amount: u64, now: Instant) {
        let full = buckets.get(key).copied().unwrap_or(now);
        buckets.put(key.clone(), now.max(full) + self.time_to_fill(amount));
    }

    fn time_to_fill(&self, amount: u64) -> Duration {
        let nanoseconds = u128::from(amount) * self.refill_time.as_nanos() / u128::from(self.limit);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn lock_buckets(&self) -> MutexGuard<'_, LruCache<K, Instant>> {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_again() {
        let (buckets, now) = (TokenBuckets::new(6_000), Instant::now());
        buckets.deduct(&mut buckets.lock_buckets(), &1, 6_000, now);
        let missing = |milliseconds| buckets.level_at(&1, now + Duration::from_millis(milliseconds)).missing;
        assert_eq!((missing(0), missing(10), missing(15), missing(60_000)), (6_000, 5_999, 5_999, 0));
    }

    #[test]
    fn what_is_refused_takes_nothing_and_others_have_their_own() {
        let buckets = TokenBuckets::new(10_000);
        assert_eq!(buckets.take(&1, 9_000).map(Level::remaining), Ok(1_000));
        assert!(buckets.take(&1, 2_000).is_err());
        assert!(buckets.level(&1).remaining() >= 1_000);
        buckets.overdraw(&1, 20_000);
        assert_eq!(buckets.level(&1).remaining(), 0);
        assert!(buckets.wait(buckets.level(&1), 1) > Duration::from_mins(1));
        assert_eq!(buckets.take(&2, 10_000).map(Level::remaining), Ok(0));
    }

    #[test]
    fn a_bucket_may_fill_in_another_time_than_a_minute() {
        // 3 per second, 30 at once.
        let (buckets, now) = (TokenBuckets::with_refill_time(30, Duration::from_secs(10)), Instant::now());
        buckets.deduct(&mut buckets.lock_buckets(), &1, 30, now);
        let left = |milliseconds| buckets.level_at(&1, now + Duration::from_millis(milliseconds)).remaining();
        assert_eq!((left(0), left(333), left(334), left(1_000), left(10_000)), (0, 0, 1, 3, 30));
        let empty = buckets.level_at(&1, now);
        assert_eq!(buckets.wait(empty, 1).as_millis(), 333);
    }

    #[test]
    fn no_more_buckets_are_remembered_than_fit() {
        let buckets = TokenBuckets::new(1_000);
        for number in 0..=MAX_BUCKETS.get() {
            buckets.overdraw(&number, 1);
        }
        assert_eq!(buckets.lock_buckets().len(), MAX_BUCKETS.get());
        assert_eq!(buckets.level(&0).missing, 0, "what was used longest ago is full again");
    }
}
