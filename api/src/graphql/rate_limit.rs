//! What a token's queries may still cost.

use async_graphql::SimpleObject;
use chrono::{DateTime, TimeDelta, Utc};
use entity::Timestamp;

use super::scalar::BigInt;

/// What queries with the viewer's token may cost, in points: one is a field of an answer, as `extensions.cost` counts
/// them.
#[derive(Clone, Debug, SimpleObject)]
pub struct RateLimit {
    /// Points that queries may cost in a minute. So many can be spent at once after a pause.
    limit: BigInt,
    /// Points that this query cost.
    cost: BigInt,
    /// Points that are left after it.
    remaining: BigInt,
    /// When all points are there again, if none are spent meanwhile; by the server's clock.
    reset_at: DateTime<Utc>,
}

impl RateLimit {
    /// What is left after a query, when all would be there again `filled_in_milliseconds` after `now`.
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
