//! What the requests of one token may cost in a minute, or those of one user who signs in otherwise.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use entity::Timestamp;

use super::problem::Problem;
use crate::{auth::LimitKey, graphql::RateLimit};

/// Points that a request costs that is refused: it was read all the same, which can take as long as answering a query of
/// so many fields.
const REFUSED: u64 = 1_000;

/// Buckets that are kept before those are looked for that are full again, as the missing ones are.
const MANY: usize = 1_000;

const MINUTE: Duration = Duration::from_mins(1);

/// A bucket of points for each of them, which holds a minute's points and fills all the time.
pub(super) struct QueryBudget {
    per_minute: u64,
    /// When each bucket is full again.
    full_at: Mutex<HashMap<LimitKey, Instant>>,
}

impl QueryBudget {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { per_minute: u64::from(per_minute.max(1)), full_at: Mutex::default() }
    }

    /// Refuses whoever has an empty bucket, before anything is read for them.
    pub(super) fn check(&self, key: LimitKey) -> Result<(), Problem> {
        let missing = self.missing(&self.buckets(), key, Instant::now());
        if missing < self.per_minute { Ok(()) } else { Err(self.refusal(1, missing)) }
    }

    /// Takes what a query costs from a bucket.
    pub(super) fn take(&self, key: LimitKey, cost: u64, now: Timestamp) -> Result<RateLimit, Problem> {
        let (mut buckets, instant) = (self.buckets(), Instant::now());
        let missing = self.missing(&buckets, key, instant);
        // A single request cannot cost more than a minute's points, which the settings make sure of.
        if missing.saturating_add(cost) > self.per_minute {
            return Err(self.refusal(cost, missing));
        }
        self.pour(&mut buckets, key, cost, instant);
        Ok(self.left(missing + cost, cost, now))
    }

    /// Takes what a page of an export cost, however much there is: the next one waits for it.
    pub(super) fn charge(&self, key: LimitKey, cost: u64, now: Timestamp) -> RateLimit {
        let (mut buckets, instant) = (self.buckets(), Instant::now());
        let missing = self.missing(&buckets, key, instant);
        self.pour(&mut buckets, key, cost, instant);
        self.left(missing + cost, cost, now)
    }

    /// How long an export waits before its next page. It leaves half of the bucket to those who ask meanwhile.
    pub(super) fn pause(&self, key: LimitKey) -> Duration {
        let missing = self.missing(&self.buckets(), key, Instant::now());
        self.time_to_fill(missing.saturating_sub(self.per_minute / 2))
    }

    fn left(&self, missing: u64, cost: u64, now: Timestamp) -> RateLimit {
        let signed = |points| i64::try_from(points).unwrap_or(i64::MAX);
        let (limit, missing) = (signed(self.per_minute), signed(missing));
        RateLimit::new(limit, cost, limit - missing, now, missing.saturating_mul(60_000) / limit)
    }

    /// Begins to read a request, which costs what a refused one does unless it turns out to be none.
    pub(super) fn reading(&self, key: LimitKey) -> Reading<'_> {
        Reading { budget: self, key, refused: true }
    }

    fn buckets(&self) -> MutexGuard<'_, HashMap<LimitKey, Instant>> {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Points that the bucket lacks, begun ones included.
    fn missing(&self, buckets: &HashMap<LimitKey, Instant>, key: LimitKey, now: Instant) -> u64 {
        let fills = buckets.get(&key).map_or(Duration::ZERO, |full| full.saturating_duration_since(now));
        let points = (fills.as_nanos() * u128::from(self.per_minute)).div_ceil(MINUTE.as_nanos());
        u64::try_from(points).unwrap_or(u64::MAX)
    }

    fn pour(&self, buckets: &mut HashMap<LimitKey, Instant>, key: LimitKey, points: u64, now: Instant) {
        if buckets.len() >= MANY && !buckets.contains_key(&key) {
            buckets.retain(|_, full| *full > now);
        }
        let full = buckets.entry(key).or_insert(now);
        *full = now.max(*full) + self.time_to_fill(points);
    }

    fn time_to_fill(&self, points: u64) -> Duration {
        let nanoseconds = u128::from(points) * MINUTE.as_nanos() / u128::from(self.per_minute);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    fn refusal(&self, cost: u64, missing: u64) -> Problem {
        let excess = missing.saturating_add(cost).saturating_sub(self.per_minute);
        let message = format!(
            "of the {} points that requests with this token may cost in a minute, fewer than {cost} are left",
            self.per_minute
        );
        Problem::rate_limited(self.time_to_fill(excess).as_secs() + 1, message)
    }
}

/// A request that is read. Also one whose sender hangs up meanwhile has made work.
pub(super) struct Reading<'a> {
    budget: &'a QueryBudget,
    key: LimitKey,
    refused: bool,
}

impl Reading<'_> {
    /// The request is not refused.
    pub(super) fn accepted(mut self) {
        self.refused = false;
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if self.refused {
            // More than there is has to be waited for longer.
            self.budget.pour(&mut self.budget.buckets(), self.key, REFUSED, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use entity::ids::ApiTokenId;
    use uuid::Uuid;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn token(number: u128) -> LimitKey {
        LimitKey::ApiToken(ApiTokenId(Uuid::from_u128(number)))
    }

    #[test]
    fn refusals_empty_the_bucket_and_no_other() {
        let (budget, now) = (QueryBudget::new(10_000), SystemClock.timestamp());
        assert!(budget.take(token(1), 9_000, now).is_ok());
        assert!(budget.take(token(1), 1_500, now).is_err(), "what is refused so takes nothing");
        budget.reading(token(1)).accepted();
        assert!(budget.check(token(1)).is_ok());
        drop(budget.reading(token(1)));
        drop(budget.reading(token(1)));
        assert!(budget.check(token(1)).is_err() && budget.take(token(1), 1, now).is_err());
        assert!(budget.check(token(2)).is_ok() && budget.take(token(2), 10_000, now).is_ok());
    }

    #[test]
    fn a_bucket_fills_again() {
        let budget = QueryBudget::new(6_000);
        let (mut buckets, now) = (budget.buckets(), Instant::now());
        budget.pour(&mut buckets, token(1), 6_000, now);
        let missing =
            |milliseconds| budget.missing(&buckets, token(1), now + Duration::from_millis(milliseconds));
        assert_eq!((missing(0), missing(10), missing(15), missing(60_000)), (6_000, 5_999, 5_999, 0));
    }

    #[test]
    fn full_buckets_are_forgotten() {
        let budget = QueryBudget::new(1_000);
        let (mut buckets, now) = (budget.buckets(), Instant::now());
        for number in 0..MANY as u128 {
            budget.pour(&mut buckets, token(number), 1, now);
        }
        budget.pour(&mut buckets, token(MANY as u128), 1, now + MINUTE);
        assert_eq!(buckets.len(), 1);
    }
}
