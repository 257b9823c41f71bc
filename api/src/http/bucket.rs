//! Buckets of what may be taken in a minute. Each is full at first, fills all the time, and can be overdrawn.

use std::{
    hash::Hash,
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lru::LruCache;

/// Buckets that are remembered at the most. One that is forgotten is full again: those that were not used for the longest.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(100_000).expect("it is more than none");

const MINUTE: Duration = Duration::from_mins(1);

/// A bucket for each of them, which holds what may be taken in a minute.
pub(super) struct Buckets<K: Hash + Eq> {
    per_minute: u64,
    /// When each bucket is full again.
    full_at: Mutex<LruCache<K, Instant>>,
}

/// What a bucket holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// What it holds when it is full.
    pub(super) limit: u64,
    /// What is missing, begun ones included; more than there can be if it is overdrawn.
    pub(super) missing: u64,
    /// When it is full again.
    pub(super) full_in: Duration,
}

impl Level {
    /// What can be taken.
    pub(super) fn remaining(self) -> u64 {
        self.limit.saturating_sub(self.missing)
    }
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    pub(super) fn new(per_minute: u64) -> Self {
        Self { per_minute: per_minute.max(1), full_at: Mutex::new(LruCache::new(REMEMBERED)) }
    }

    /// What there is.
    pub(super) fn level(&self, key: &K) -> Level {
        self.level_at(key, Instant::now())
    }

    /// Takes what may be more than there is, which then has to be waited for longer.
    pub(super) fn overdraw(&self, key: &K, amount: u64) {
        self.pour(&mut self.buckets(), key, amount, Instant::now());
    }

    /// Takes something if there is as much. Returns what was there before if there is not.
    pub(super) fn take(&self, key: &K, amount: u64) -> Result<Level, Level> {
        let (mut buckets, now) = (self.buckets(), Instant::now());
        let level = self.level_of(&mut buckets, key, now);
        if level.missing.saturating_add(amount) > self.per_minute {
            return Err(level);
        }
        self.pour(&mut buckets, key, amount, now);
        Ok(self.level_of(&mut buckets, key, now))
    }

    /// How long it takes until `amount` is there, when so much is missing.
    pub(super) fn wait(&self, level: Level, amount: u64) -> Duration {
        self.time_to_fill(level.missing.saturating_add(amount).saturating_sub(self.per_minute))
    }

    fn level_at(&self, key: &K, now: Instant) -> Level {
        self.level_of(&mut self.buckets(), key, now)
    }

    fn level_of(&self, buckets: &mut LruCache<K, Instant>, key: &K, now: Instant) -> Level {
        let full_in = buckets.get(key).map_or(Duration::ZERO, |full| full.saturating_duration_since(now));
        let points = (full_in.as_nanos() * u128::from(self.per_minute)).div_ceil(MINUTE.as_nanos());
        Level { limit: self.per_minute, missing: u64::try_from(points).unwrap_or(u64::MAX), full_in }
    }

    fn pour(&self, buckets: &mut LruCache<K, Instant>, key: &K, amount: u64, now: Instant) {
        let full = buckets.get(key).copied().unwrap_or(now);
        buckets.put(key.clone(), now.max(full) + self.time_to_fill(amount));
    }

    fn time_to_fill(&self, amount: u64) -> Duration {
        let nanoseconds = u128::from(amount) * MINUTE.as_nanos() / u128::from(self.per_minute);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn buckets(&self) -> MutexGuard<'_, LruCache<K, Instant>> {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_again() {
        let (buckets, now) = (Buckets::new(6_000), Instant::now());
        buckets.pour(&mut buckets.buckets(), &1, 6_000, now);
        let missing = |milliseconds| buckets.level_at(&1, now + Duration::from_millis(milliseconds)).missing;
        assert_eq!((missing(0), missing(10), missing(15), missing(60_000)), (6_000, 5_999, 5_999, 0));
    }

    #[test]
    fn what_is_refused_takes_nothing_and_others_have_their_own() {
        let buckets = Buckets::new(10_000);
        assert_eq!(buckets.take(&1, 9_000).map(Level::remaining), Ok(1_000));
        assert!(buckets.take(&1, 2_000).is_err());
        assert!(buckets.level(&1).remaining() >= 1_000);
        buckets.overdraw(&1, 20_000);
        assert_eq!(buckets.level(&1).remaining(), 0);
        assert!(buckets.wait(buckets.level(&1), 1) > Duration::from_mins(1));
        assert_eq!(buckets.take(&2, 10_000).map(Level::remaining), Ok(0));
    }

    #[test]
    fn no_more_buckets_are_remembered_than_fit() {
        let buckets = Buckets::new(1_000);
        for number in 0..=REMEMBERED.get() {
            buckets.overdraw(&number, 1);
        }
        assert_eq!(buckets.buckets().len(), REMEMBERED.get());
        assert_eq!(buckets.level(&0).missing, 0, "what was used longest ago is full again");
    }
}
