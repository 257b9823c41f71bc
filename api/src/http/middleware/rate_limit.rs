//! The rate limiter: limits queries in points and reports in bytes, per minute. One bucket belongs to
//! the token, or to the user of other credentials, and one to the IP address.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue},
    response::Response,
};
use entity::Timestamp;

use super::token_bucket::{Level, TokenBuckets};
use crate::{
    auth::LimitKey, domain::client_ip, graphql::RateLimit, guard::AUDIT_ENTRY_COST,
    http::extract::problem::Problem, store::StatementStats,
};

/// The cost of a rejected request, in points: the server reads it all the same, which can take as long
/// as a query of that many fields.
const REFUSAL_COST: u64 = 1_000;

/// The cost of a millisecond of database time, in points. The points of a minute buy 50 seconds of one
/// connection.
const POINTS_PER_MILLISECOND: u64 = 100;

/// The database time that is included in every cost: a busy machine needs that long for little work.
const INCLUDED_TIME: Duration = Duration::from_millis(100);

/// The headers with the remaining quota and its limit (draft-ietf-httpapi-ratelimit-headers-10).
pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The keys of the rate limiter for one caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitKeys {
    key: LimitKey,
    address: IpAddr,
}

impl LimitKeys {
    /// Creates the keys of an authenticated caller. An IPv6 address counts by its network, because its
    /// owner controls all addresses of the network.
    pub(crate) fn new(key: LimitKey, address: IpAddr) -> Self {
        Self { key, address: client_ip::rate_limit_address(address) }
    }
}

/// The limits per minute.
pub(crate) struct RateLimiter {
    /// The unit, as in the headers.
    unit: &'static str,
    /// The name of the requests in error messages.
    what: &'static str,
    of_key: TokenBuckets<LimitKey>,
    of_address: TokenBuckets<IpAddr>,
}

impl RateLimiter {
    /// Creates the limits of queries, in points.
    pub(crate) fn of_queries(of_key: u32, of_address: u32) -> Self {
        let (of_key, of_address) = (TokenBuckets::new(of_key.into()), TokenBuckets::new(of_address.into()));
        Self { unit: "points", what: "requests", of_key, of_address }
    }

    /// Creates the limits of reports, in bytes as sent.
    pub(crate) fn of_reports(of_key: u64, of_address: u64) -> Self {
        let (of_key, of_address) = (TokenBuckets::new(of_key), TokenBuckets::new(of_address));
        Self { unit: "content-bytes", what: "reports", of_key, of_address }
    }

    /// Returns an error if a bucket is empty, before anything of the request is read.
    pub(crate) fn check(&self, keys: LimitKeys) -> Result<(), Problem> {
        let (key, address) = self.levels(keys);
        if key.remaining() == 0 {
            return Err(self.refusal("with this token", key, self.of_key.wait(key, 1), 1));
        }
        if address.remaining() == 0 {
            return Err(self.refusal("from this address", address, self.of_address.wait(address, 1), 1));
        }
        Ok(())
    }

    /// Charges the cost of a query. Returns an error if the quota does not suffice.
    pub(crate) fn take(&self, keys: LimitKeys, cost: u64, now: Timestamp) -> Result<RateLimit, Problem> {
        // The settings guarantee that a single request never costs more than the quota of a minute.
        let address = self.of_address.level(&keys.address);
        if address.remaining() < cost {
            let wait = self.of_address.wait(address, cost);
            return Err(self.refusal("from this address", address, wait, cost));
        }
        let outcome = self.of_key.take(&keys.key, cost);
        let level = outcome
            .map_err(|level| self.refusal("with this token", level, self.of_key.wait(level, cost), cost))?;
        self.of_address.overdraw(&keys.address, cost);
        Ok(remaining_quota(level, cost, now))
    }

    /// Charges a cost even beyond the quota, and returns the remaining quota. An export's next page waits
    /// until the quota has recovered.
    pub(crate) fn charge(&self, keys: LimitKeys, cost: u64, now: Timestamp) -> RateLimit {
        self.overdraw(keys, cost);
        remaining_quota(self.of_key.level(&keys.key), cost, now)
    }

    /// Returns the wait before an export's next page. It leaves half of each bucket to other requests.
    pub(crate) fn export_delay(&self, keys: LimitKeys) -> Duration {
        let (key, address) = self.levels(keys);
        self.of_key.wait(key, key.limit / 2).max(self.of_address.wait(address, address.limit / 2))
    }

    /// Charges an amount even beyond the quota.
    pub(crate) fn overdraw(&self, keys: LimitKeys, amount: u64) {
        self.of_key.overdraw(&keys.key, amount);
        self.of_address.overdraw(&keys.address, amount);
    }

    /// Charges a request that was rejected for lack of a slot.
    pub(crate) fn charge_refusal(&self, keys: LimitKeys) {
        self.overdraw(keys, REFUSAL_COST);
    }

    /// Starts the reading of a request. Unless it is accepted, it costs as much as a rejected request.
    pub(crate) fn begin_reading(&self, keys: LimitKeys) -> RefusalCharge<'_> {
        RefusalCharge { budget: self, keys, refused: true }
    }

    /// Starts an operation whose cost is charged. Its additional database time is charged at its end,
    /// even if the client disconnects.
    pub(crate) fn begin_operation(&self, keys: LimitKeys, price: u64) -> DatabaseTimeCharge<'_> {
        let (began, time) = (Instant::now(), StatementStats::default());
        DatabaseTimeCharge { budget: self, keys, price, began, time, ended: false }
    }

    /// Adds the headers with the remaining quota to the response.
    pub(crate) fn set_headers(&self, keys: LimitKeys, mut response: Response) -> Response {
        let (key, address) = self.levels(keys);
        let headers = response.headers_mut();
        let unit = self.unit;
        set(
            headers,
            RATE_LIMIT_POLICY,
            |name, level: Level| format!("\"{name}\";q={};w=60;qu=\"{unit}\"", level.limit),
            key,
            address,
        );
        set(
            headers,
            RATE_LIMIT,
            |name, level: Level| {
                format!("\"{name}\";r={};t={}", level.remaining(), whole_seconds(level.full_in))
            },
            key,
            address,
        );
        response
    }

    fn levels(&self, keys: LimitKeys) -> (Level, Level) {
        (self.of_key.level(&keys.key), self.of_address.level(&keys.address))
    }

    fn refusal(&self, whose: &str, level: Level, wait: Duration, cost: u64) -> Problem {
        let (limit, unit, what) = (level.limit, self.unit, self.what);
        let unit = if unit == "points" { unit } else { "bytes" };
        let message = format!(
            "rate limit exceeded: fewer than {cost} of {limit} {unit} per minute are left for {what} {whose}"
        );
        Problem::rate_limited(wait.as_secs() + 1, message)
    }
}

fn remaining_quota(level: Level, cost: u64, now: Timestamp) -> RateLimit {
    let signed = |points| i64::try_from(points).unwrap_or(i64::MAX);
    let full_in = signed(u64::try_from(level.full_in.as_millis()).unwrap_or(u64::MAX));
    RateLimit::new(signed(level.limit), cost, signed(level.remaining()), now, full_in)
}

fn set(
    headers: &mut HeaderMap,
    header: HeaderName,
    item: impl Fn(&str, Level) -> String,
    key: Level,
    address: Level,
) {
    let value = format!("{}, {}", item("credentials", key), item("address", address));
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(header, value);
    }
}

fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The charge for a rejected request, when it is dropped without being accepted. It is charged even if the
/// client disconnects, because it caused work.
pub(crate) struct RefusalCharge<'a> {
    budget: &'a RateLimiter,
    keys: LimitKeys,
    refused: bool,
}

impl RefusalCharge<'_> {
    /// Marks the request as accepted.
    pub(crate) fn accepted(mut self) {
        self.refused = false;
    }
}

impl Drop for RefusalCharge<'_> {
    fn drop(&mut self) {
        if self.refused {
            // An overdrawn bucket makes the caller wait longer.
            self.budget.overdraw(self.keys, REFUSAL_COST);
        }
    }
}

/// The charge for the database time of an operation, when it ends or is dropped.
pub(crate) struct DatabaseTimeCharge<'a> {
    budget: &'a RateLimiter,
    keys: LimitKeys,
    price: u64,
    began: Instant,
    time: StatementStats,
    ended: bool,
}

impl DatabaseTimeCharge<'_> {
    /// Returns the counter of the operation's database time.
    pub(crate) fn time(&self) -> &StatementStats {
        &self.time
    }

    /// Charges the database time beyond the operation's cost. Returns the charged points.
    pub(crate) fn ended(mut self) -> u64 {
        self.ended = true;
        self.charge(self.time.total())
    }

    fn charge(&self, time: Duration) -> u64 {
        let entries = self.time.audit_entries().saturating_mul(AUDIT_ENTRY_COST);
        let added = uncovered_points(self.price, time).max(entries.saturating_sub(self.price));
        if added > 0 {
            self.budget.overdraw(self.keys, added);
        }
        added
    }
}

impl Drop for DatabaseTimeCharge<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // The counter does not include the statement that was interrupted, which may be the whole
            // work: the elapsed time counts instead.
            self.charge(self.began.elapsed());
        }
    }
}

/// Returns the points of the database time that a cost does not cover.
fn uncovered_points(price: u64, time: Duration) -> u64 {
    let milliseconds = u64::try_from(time.saturating_sub(INCLUDED_TIME).as_millis()).unwrap_or(u64::MAX);
    milliseconds.saturating_mul(POINTS_PER_MILLISECOND).saturating_sub(price)
}

#[cfg(test)]
mod tests {
    use entity::ids::ApiTokenId;
    use uuid::Uuid;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn keys(token: u128, address: &str) -> LimitKeys {
        let key = LimitKey::ApiToken(ApiTokenId(Uuid::from_u128(token)));
        LimitKeys::new(key, address.parse().expect(address))
    }

    #[test]
    fn refusals_empty_the_buckets_and_no_others() {
        let (budget, now) = (RateLimiter::of_queries(10_000, 100_000), SystemClock.timestamp());
        let (ada, bob) = (keys(1, "192.0.2.1"), keys(2, "192.0.2.1"));
        assert!(budget.take(ada, 9_000, now).is_ok());
        assert!(budget.take(ada, 1_500, now).is_err(), "what is refused so takes nothing");
        budget.begin_reading(ada).accepted();
        assert!(budget.check(ada).is_ok());
        drop(budget.begin_reading(ada));
        drop(budget.begin_reading(ada));
        assert!(budget.check(ada).is_err() && budget.take(ada, 1, now).is_err());
        assert!(budget.check(bob).is_ok() && budget.take(bob, 10_000, now).is_ok());
    }

    #[test]
    fn an_address_has_a_bucket_of_its_own() {
        let (budget, now) = (RateLimiter::of_queries(10_000, 15_000), SystemClock.timestamp());
        assert!(budget.take(keys(1, "2001:db8::1"), 10_000, now).is_ok());
        let network = keys(2, "2001:db8::2");
        assert!(budget.take(network, 6_000, now).is_err(), "it is in the same network");
        assert!(budget.take(keys(2, "2001:db8:0:1::1"), 6_000, now).is_ok());
        assert!(budget.take(network, 4_000, now).is_ok());
    }

    #[test]
    fn time_in_the_database_costs_what_the_price_does_not_cover() {
        let beyond = |price, milliseconds| uncovered_points(price, Duration::from_millis(milliseconds));
        assert_eq!((beyond(62, 0), beyond(62, 100), beyond(0, 101)), (0, 0, 100));
        // 2.7 s beyond the included time are 270,000 points.
        assert_eq!((beyond(62, 2_800), beyond(269_999, 2_800), beyond(270_000, 2_800)), (269_938, 1, 0));
        assert_eq!(beyond(1, u64::MAX), u64::MAX - 1);
    }

    #[test]
    fn an_operation_is_charged_also_when_its_sender_hangs_up() {
        let (budget, ada) = (RateLimiter::of_queries(1_000, 100_000), keys(1, "192.0.2.1"));
        let running = budget.begin_operation(ada, 5);
        assert_eq!(running.ended(), 0);
        assert_eq!(budget.levels(ada).0.remaining(), 1_000);
        let mut abandoned = budget.begin_operation(ada, 5);
        abandoned.began -= Duration::from_secs(2);
        drop(abandoned);
        assert_eq!(budget.levels(ada).0.remaining(), 0);
    }
}
