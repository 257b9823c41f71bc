//! What may be taken in a minute with one token, or by one user who signs in otherwise, and from one address: of queries in
//! points, of reports in bytes.

use std::{net::IpAddr, time::Duration};

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue},
    response::Response,
};
use entity::Timestamp;

use super::{
    bucket::{Buckets, Level},
    problem::Problem,
};
use crate::{auth::LimitKey, domain::address, graphql::RateLimit};

/// Points that a request costs that is refused: it was read all the same, which can take as long as answering a query of
/// so many fields.
const REFUSED: u64 = 1_000;

/// What is left, and what there is when nothing was taken (draft-ietf-httpapi-ratelimit-headers-10).
pub(super) const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(super) const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Whose buckets something is taken from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taker {
    key: LimitKey,
    address: IpAddr,
}

impl Taker {
    /// Who signed in with what counts as `key`, from an address. Of an IPv6 address the network counts, since whoever has one
    /// has all others of it.
    pub(super) fn new(key: LimitKey, address: IpAddr) -> Self {
        Self { key, address: address::limited(address) }
    }
}

/// What may be taken in a minute.
pub(super) struct Budget {
    /// What is counted, as the headers say it.
    unit: &'static str,
    /// What the requests are called.
    what: &'static str,
    of_key: Buckets<LimitKey>,
    of_address: Buckets<IpAddr>,
}

impl Budget {
    /// Of queries, in points.
    pub(super) fn of_queries(of_key: u32, of_address: u32) -> Self {
        let (of_key, of_address) = (Buckets::new(of_key.into()), Buckets::new(of_address.into()));
        Self { unit: "points", what: "requests", of_key, of_address }
    }

    /// Of reports, in bytes as they are sent.
    pub(super) fn of_reports(of_key: u64, of_address: u64) -> Self {
        let (of_key, of_address) = (Buckets::new(of_key), Buckets::new(of_address));
        Self { unit: "content-bytes", what: "reports", of_key, of_address }
    }

    /// Refuses whoever has an empty bucket, before anything is read for them.
    pub(super) fn check(&self, taker: Taker) -> Result<(), Problem> {
        let (key, address) = self.levels(taker);
        if key.remaining() == 0 {
            return Err(self.refusal("with this token", key, self.of_key.wait(key, 1), 1));
        }
        if address.remaining() == 0 {
            return Err(self.refusal("from this address", address, self.of_address.wait(address, 1), 1));
        }
        Ok(())
    }

    /// Takes what a query costs.
    pub(super) fn take(&self, taker: Taker, cost: u64, now: Timestamp) -> Result<RateLimit, Problem> {
        // A single request cannot cost more than a minute's points, which the settings make sure of.
        let address = self.of_address.level(&taker.address);
        if address.remaining() < cost {
            let wait = self.of_address.wait(address, cost);
            return Err(self.refusal("from this address", address, wait, cost));
        }
        let outcome = self.of_key.take(&taker.key, cost);
        let level = outcome
            .map_err(|level| self.refusal("with this token", level, self.of_key.wait(level, cost), cost))?;
        self.of_address.overdraw(&taker.address, cost);
        Ok(left(level, cost, now))
    }

    /// Takes what a page of an export cost, however much there is: the next one waits for it.
    pub(super) fn charge(&self, taker: Taker, cost: u64, now: Timestamp) -> RateLimit {
        self.overdraw(taker, cost);
        left(self.of_key.level(&taker.key), cost, now)
    }

    /// How long an export waits before its next page. It leaves half of each bucket to those who ask meanwhile.
    pub(super) fn pause(&self, taker: Taker) -> Duration {
        let (key, address) = self.levels(taker);
        self.of_key.wait(key, key.limit / 2).max(self.of_address.wait(address, address.limit / 2))
    }

    /// Takes what is there by now, however much it is.
    pub(super) fn overdraw(&self, taker: Taker, amount: u64) {
        self.of_key.overdraw(&taker.key, amount);
        self.of_address.overdraw(&taker.address, amount);
    }

    /// Begins to read a request, which costs what a refused one does unless it turns out to be none.
    pub(super) fn reading(&self, taker: Taker) -> Reading<'_> {
        Reading { budget: self, taker, refused: true }
    }

    /// The answer, which says what is left.
    pub(super) fn tell(&self, taker: Taker, mut response: Response) -> Response {
        let (key, address) = self.levels(taker);
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

    fn levels(&self, taker: Taker) -> (Level, Level) {
        (self.of_key.level(&taker.key), self.of_address.level(&taker.address))
    }

    fn refusal(&self, whose: &str, level: Level, wait: Duration, cost: u64) -> Problem {
        let (limit, unit, what) = (level.limit, self.unit, self.what);
        let unit = if unit == "points" { unit } else { "bytes" };
        let message = format!(
            "of the {limit} {unit} that {what} {whose} may cost in a minute, fewer than {cost} are left"
        );
        Problem::rate_limited(wait.as_secs() + 1, message)
    }
}

fn left(level: Level, cost: u64, now: Timestamp) -> RateLimit {
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

/// A request that is read. Also one whose sender hangs up meanwhile has made work.
pub(super) struct Reading<'a> {
    budget: &'a Budget,
    taker: Taker,
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
            self.budget.overdraw(self.taker, REFUSED);
        }
    }
}

#[cfg(test)]
mod tests {
    use entity::ids::ApiTokenId;
    use uuid::Uuid;

    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn taker(token: u128, address: &str) -> Taker {
        let key = LimitKey::ApiToken(ApiTokenId(Uuid::from_u128(token)));
        Taker::new(key, address.parse().expect(address))
    }

    #[test]
    fn refusals_empty_the_buckets_and_no_others() {
        let (budget, now) = (Budget::of_queries(10_000, 100_000), SystemClock.timestamp());
        let (ada, bob) = (taker(1, "192.0.2.1"), taker(2, "192.0.2.1"));
        assert!(budget.take(ada, 9_000, now).is_ok());
        assert!(budget.take(ada, 1_500, now).is_err(), "what is refused so takes nothing");
        budget.reading(ada).accepted();
        assert!(budget.check(ada).is_ok());
        drop(budget.reading(ada));
        drop(budget.reading(ada));
        assert!(budget.check(ada).is_err() && budget.take(ada, 1, now).is_err());
        assert!(budget.check(bob).is_ok() && budget.take(bob, 10_000, now).is_ok());
    }

    #[test]
    fn an_address_has_a_bucket_of_its_own() {
        let (budget, now) = (Budget::of_queries(10_000, 15_000), SystemClock.timestamp());
        assert!(budget.take(taker(1, "2001:db8::1"), 10_000, now).is_ok());
        let network = taker(2, "2001:db8::2");
        assert!(budget.take(network, 6_000, now).is_err(), "it is in the same network");
        assert!(budget.take(taker(2, "2001:db8:0:1::1"), 6_000, now).is_ok());
        assert!(budget.take(network, 4_000, now).is_ok());
    }
}
