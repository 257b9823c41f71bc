//! The rate limit of queries.

use async_graphql::SimpleObject;
use chrono::{DateTime, TimeDelta, Utc};
use entity::Timestamp;

use super::scalar::BigInt;

/// The rate limit of requests with the viewer's API token, or of the viewer's requests with other
/// credentials, in points. The points of a request are an upper bound of the fields of its response, with a
/// charge for searches and database time; `extensions.cost` returns them.
#[derive(Clone, Debug, SimpleObject)]
pub struct RateLimit {
    /// The points that queries may cost in a minute. After a pause, all of them can be spent at once.
    limit: BigInt,
    /// The points that this query cost.
    cost: BigInt,
    /// The points that remain after this query.
    remaining: BigInt,
    /// The time at which all points are available again if none are spent, by the server's clock.
    reset_at: DateTime<Utc>,
}

impl RateLimit {
    /// Returns the rate limit after a query. All points are available again `filled_in_milliseconds`
    /// after `now`.
    #[must_use]
    pub(crate) fn new(
        limit: i64,
        cost: u64,
        remaining: i64,
        now: Timestamp,
        filled_in_milliseconds: i64,
    ) -> Self {
        Self {
            limit: BigInt(limit),
            cost: BigInt(i64::try_from(cost).unwrap_or(i64::MAX)),
            remaining: BigInt(remaining),
            reset_at: now.0 + TimeDelta::milliseconds(filled_in_milliseconds),
        }
    }
}
