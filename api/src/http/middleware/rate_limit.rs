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

/// The cost of a rejected request, in points. The server has read the request before, which can take as
/// long as a query of that many fields.
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
    credentials: LimitKey,
    address: IpAddr,
}

impl LimitKeys {
    /// Creates the keys of an authenticated caller. An IPv6 address counts by its network, because its
    /// owner controls all addresses of the network.
    pub(crate) fn new(credentials: LimitKey, address: IpAddr) -> Self {
        Self { credentials, address: client_ip::rate_limit_address(address) }
    }
}

/// The limits per minute.
pub(crate) struct RateLimiter {
    /// The unit, as in the headers.
    unit: &'static str,
    /// The name of the requests in error messages.
    request_name: &'static str,
    credential_buckets: TokenBuckets<LimitKey>,
    address_buckets: TokenBuckets<IpAddr>,
}

impl RateLimiter {
    /// Creates the limits of queries, in points.
    pub(crate) fn for_queries(credential_limit: u32, address_limit: u32) -> Self {
        let (credential_buckets, address_buckets) =
            (TokenBuckets::new(credential_limit.into()), TokenBuckets::new(address_limit.into()));
        Self { unit: "points", request_name: "requests", credential_buckets, address_buckets }
    }

    /// Creates the limits of reports, in bytes as sent.
    pub(crate) fn for_reports(credential_limit: u64, address_limit: u64) -> Self {
        let (credential_buckets, address_buckets) =
            (TokenBuckets::new(credential_limit), TokenBuckets::new(address_limit));
        Self { unit: "content-bytes", request_name: "reports", credential_buckets, address_buckets }
    }

    /// Returns an error if a bucket is empty. It is called before the request is read.
    pub(crate) fn check(&self, keys: LimitKeys) -> Result<(), Problem> {
        let (credentials, address) = self.levels(keys);
        if credentials.remaining() == 0 {
            let wait = self.credential_buckets.wait(credentials, 1);
            return Err(self.refusal("with this token", credentials, wait, 1));
        }
        if address.remaining() == 0 {
            let wait = self.address_buckets.wait(address, 1);
            return Err(self.refusal("from this address", address, wait, 1));
        }
        Ok(())
    }

    /// Charges the cost of a query. Returns an error if the quota does not suffice.
    pub(crate) fn take(&self, keys: LimitKeys, cost: u64, now: Timestamp) -> Result<RateLimit, Problem> {
        // The settings guarantee that a single request never costs more than the quota of a minute.
        let address = self.address_buckets.level(&keys.address);
        if address.remaining() < cost {
            let wait = self.address_buckets.wait(address, cost);
            return Err(self.refusal("from this address", address, wait, cost));
        }
        let outcome = self.credential_buckets.take(&keys.credentials, cost);
        let level = outcome.map_err(|level| {
            self.refusal("with this token", level, self.credential_buckets.wait(level, cost), cost)
        })?;
        self.address_buckets.overdraw(&keys.address, cost);
        Ok(remaining_quota(level, cost, now))
    }

    /// Charges a cost even beyond the quota, and returns the remaining quota. An export's next page waits
    /// until the quota has recovered.
    pub(crate) fn charge(&self, keys: LimitKeys, cost: u64, now: Timestamp) -> RateLimit {
        self.overdraw(keys, cost);
        remaining_quota(self.credential_buckets.level(&keys.credentials), cost, now)
    }

    /// Returns the wait before an export's next page. It leaves half of each bucket to other requests.
    pub(crate) fn export_delay(&self, keys: LimitKeys) -> Duration {
        let (credentials, address) = self.levels(keys);
        let credentials_wait = self.credential_buckets.wait(credentials, credentials.limit / 2);
        credentials_wait.max(self.address_buckets.wait(address, address.limit / 2))
    }

    /// Charges an amount even beyond the quota.
    pub(crate) fn overdraw(&self, keys: LimitKeys, amount: u64) {
        self.credential_buckets.overdraw(&keys.credentials, amount);
        self.address_buckets.overdraw(&keys.address, amount);
    }

    /// Charges a request that was rejected for lack of a slot.
    pub(crate) fn charge_refusal(&self, keys: LimitKeys) {
        self.overdraw(keys, REFUSAL_COST);
    }

    /// Starts the reading of a request. Unless it is accepted, it costs as much as a rejected request.
    pub(crate) fn begin_reading(&self, keys: LimitKeys) -> RefusalCharge<'_> {
        RefusalCharge { limiter: self, keys, is_refused: true }
    }

    /// Starts an operation whose cost is charged. Its additional database time is charged at its end,
    /// even if the client disconnects.
    pub(crate) fn begin_operation(&self, keys: LimitKeys, cost: u64) -> DatabaseTimeCharge<'_> {
        let (started_at, time) = (Instant::now(), StatementStats::default());
        DatabaseTimeCharge { limiter: self, keys, cost, started_at, time, is_finished: false }
    }

    /// Adds the headers with the remaining quota to the response.
    pub(crate) fn set_headers(&self, keys: LimitKeys, mut response: Response) -> Response {
        let (credentials, address) = self.levels(keys);
        let headers = response.headers_mut();
        let unit = self.unit;
        set_header(
            headers,
            RATE_LIMIT_POLICY,
            |name, level: Level| format!("\"{name}\";q={};w=60;qu=\"{unit}\"", level.limit),
            credentials,
            address,
        );
        set_header(
            headers,
            RATE_LIMIT,
            |name, level: Level| {
                format!("\"{name}\";r={};t={}", level.remaining(), round_up_to_seconds(level.full_in))
            },
            credentials,
            address,
        );
        response
    }

    fn levels(&self, keys: LimitKeys) -> (Level, Level) {
        (self.credential_buckets.level(&keys.credentials), self.address_buckets.level(&keys.address))
    }

    fn refusal(&self, sender: &str, level: Level, wait: Duration, cost: u64) -> Problem {
        let (limit, unit, request_name) = (level.limit, self.unit, self.request_name);
        let unit = if unit == "points" { unit } else { "bytes" };
        let message = format!(
            "rate limit exceeded: fewer than {cost} of {limit} {unit} per minute are left for {request_name} \
             {sender}"
        );
        Problem::rate_limited(wait.as_secs() + 1, message)
    }
}

fn remaining_quota(level: Level, cost: u64, now: Timestamp) -> RateLimit {
    let to_i64 = |points| i64::try_from(points).unwrap_or(i64::MAX);
    let full_in = to_i64(u64::try_from(level.full_in.as_millis()).unwrap_or(u64::MAX));
    RateLimit::new(to_i64(level.limit), cost, to_i64(level.remaining()), now, full_in)
}

fn set_header(
    headers: &mut HeaderMap,
    header: HeaderName,
    format_item: impl Fn(&str, Level) -> String,
    credentials: Level,
    address: Level,
) {
    let value = format!("{}, {}", format_item("credentials", credentials), format_item("address", address));
    if let Ok(value) = HeaderValue::from_str(&value) {
        headers.insert(header, value);
    }
}

fn round_up_to_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// The charge for a rejected request. It is made on drop, unless the request was accepted: also if the
/// client disconnects, because the request caused work.
pub(crate) struct RefusalCharge<'a> {
    limiter: &'a RateLimiter,
    keys: LimitKeys,
    is_refused: bool,
}

impl RefusalCharge<'_> {
    /// Marks the request as accepted.
    pub(crate) fn accept(mut self) {
        self.is_refused = false;
    }
}

impl Drop for RefusalCharge<'_> {
    fn drop(&mut self) {
        if self.is_refused {
            // An overdrawn bucket makes the caller wait longer.
            self.limiter.overdraw(self.keys, REFUSAL_COST);
        }
    }
}

/// The charge for the database time of an operation. It is made when the operation ends or is dropped.
pub(crate) struct DatabaseTimeCharge<'a> {
    limiter: &'a RateLimiter,
    keys: LimitKeys,
    cost: u64,
    started_at: Instant,
    time: StatementStats,
    is_finished: bool,
}

impl DatabaseTimeCharge<'_> {
    /// Returns the counter of the operation's database time.
    pub(crate) fn time(&self) -> &StatementStats {
        &self.time
    }

    /// Charges the database time beyond the operation's cost. Returns the charged points.
    pub(crate) fn finish(mut self) -> u64 {
        self.is_finished = true;
        self.charge(self.time.statement_time())
    }

    fn charge(&self, time: Duration) -> u64 {
        let entries = self.time.audit_entries().saturating_mul(AUDIT_ENTRY_COST);
        let added_points = uncovered_points(self.cost, time).max(entries.saturating_sub(self.cost));
        if added_points > 0 {
            self.limiter.overdraw(self.keys, added_points);
        }
        added_points
    }
}

impl Drop for DatabaseTimeCharge<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // The counter does not include the interrupted statement, which may be all of the work. The
            // elapsed time counts instead.
            self.charge(self.started_at.elapsed());
        }
    }
}

/// Returns the points of the database time that a cost does not cover.
fn uncovered_points(cost: u64, time: Duration) -> u64 {
    let milliseconds = u64::try_from(time.saturating_sub(INCLUDED_TIME).as_millis()).unwrap_or(u64::MAX);
    milliseconds.saturating_mul(POINTS_PER_MILLISECOND).saturating_sub(cost)
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
        let (limiter, now) = (RateLimiter::for_queries(10_000, 100_000), SystemClock.timestamp());
        let (ada, bob) = (keys(1, "192.0.2.1"), keys(2, "192.0.2.1"));
        assert!(limiter.take(ada, 9_000, now).is_ok());
        assert!(limiter.take(ada, 1_500, now).is_err(), "a rejected request takes no points");
        limiter.begin_reading(ada).accept();
        assert!(limiter.check(ada).is_ok());
        drop(limiter.begin_reading(ada));
        drop(limiter.begin_reading(ada));
        assert!(limiter.check(ada).is_err() && limiter.take(ada, 1, now).is_err());
        assert!(limiter.check(bob).is_ok() && limiter.take(bob, 10_000, now).is_ok());
    }

    #[test]
    fn an_address_has_a_bucket_of_its_own() {
        let (limiter, now) = (RateLimiter::for_queries(10_000, 15_000), SystemClock.timestamp());
        assert!(limiter.take(keys(1, "2001:db8::1"), 10_000, now).is_ok());
        let network = keys(2, "2001:db8::2");
        assert!(limiter.take(network, 6_000, now).is_err(), "it is in the same network");
        assert!(limiter.take(keys(2, "2001:db8:0:1::1"), 6_000, now).is_ok());
        assert!(limiter.take(network, 4_000, now).is_ok());
    }

    #[test]
    fn time_in_the_database_costs_what_the_price_does_not_cover() {
        let uncovered = |cost, milliseconds| uncovered_points(cost, Duration::from_millis(milliseconds));
        assert_eq!((uncovered(62, 0), uncovered(62, 100), uncovered(0, 101)), (0, 0, 100));
        // 2.7 s beyond the included time are 270,000 points.
        assert_eq!(
            (uncovered(62, 2_800), uncovered(269_999, 2_800), uncovered(270_000, 2_800)),
            (269_938, 1, 0)
        );
        assert_eq!(uncovered(1, u64::MAX), u64::MAX - 1);
    }

    #[test]
    fn an_operation_is_charged_also_when_its_sender_hangs_up() {
        let (limiter, ada) = (RateLimiter::for_queries(1_000, 100_000), keys(1, "192.0.2.1"));
        let finished = limiter.begin_operation(ada, 5);
        assert_eq!(finished.finish(), 0);
        assert_eq!(limiter.levels(ada).0.remaining(), 1_000);
        let mut abandoned = limiter.begin_operation(ada, 5);
        abandoned.started_at -= Duration::from_secs(2);
        drop(abandoned);
        assert_eq!(limiter.levels(ada).0.remaining(), 0);
    }
}
