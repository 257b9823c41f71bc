//! What a token's queries may cost in a minute.

use std::num::NonZeroU32;

use entity::{Timestamp, ids::ApiTokenId};
use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    middleware::StateInformationMiddleware,
    state::keyed::DefaultKeyedStateStore,
};

use super::problem::Problem;
use crate::graphql::RateLimit;

type Limiter =
    RateLimiter<ApiTokenId, DefaultKeyedStateStore<ApiTokenId>, DefaultClock, StateInformationMiddleware>;

/// A bucket of points for each token, which holds a minute's points and fills all the time.
pub(super) struct QueryBudget {
    buckets: Limiter,
    per_minute: NonZeroU32,
}

impl QueryBudget {
    pub(super) fn new(per_minute: u32) -> Self {
        let per_minute = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
        let buckets =
            RateLimiter::keyed(Quota::per_minute(per_minute)).with_middleware::<StateInformationMiddleware>();
        Self { buckets, per_minute }
    }

    /// Takes what a query costs from the token's bucket.
    pub(super) fn take(&self, token: ApiTokenId, cost: u64, now: Timestamp) -> Result<RateLimit, Problem> {
        let refused = |seconds| {
            let message = format!(
                "the query costs {cost} of the {} points that queries with this token may cost in a minute, and fewer \
                 are left",
                self.per_minute
            );
            Problem::rate_limited(seconds, message)
        };
        let cells = u32::try_from(cost).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        // A single request cannot cost more than a minute's points, which the settings make sure of.
        let answer = self.buckets.check_key_n(&token, cells).map_err(|_| refused(60))?;
        let snapshot = answer.map_err(|busy| {
            let wait = busy.wait_time_from(DefaultClock::default().now());
            refused(wait.as_secs() + 1)
        })?;
        let (limit, remaining) =
            (i64::from(self.per_minute.get()), snapshot.remaining_burst_capacity().into());
        let filled_in_milliseconds = (limit - remaining) * 60_000 / limit;
        Ok(RateLimit::new(limit, cost, remaining, now, filled_in_milliseconds))
    }
}
