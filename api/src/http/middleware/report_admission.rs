//! The admission of reports: their rate by token, their bytes by minute, and slots for storing them.

use std::time::Duration;

use crate::{
    auth::{LimitKey, Viewer},
    config::ServeConfig,
    http::{
        extract::problem::Problem,
        middleware::{rate_limit::RateLimiter, token_bucket::TokenBuckets},
    },
    shares::{FairShares, HeldSlot, Holder, Slots},
};

/// The burst of reports per token, in seconds of its rate: clusters that start together report together.
const BURST_SECONDS: u64 = 10;

/// The limit of reports that are read and stored at the same time. Further reports are rejected with a
/// retry delay. Reports that wait for the store are held in memory until those before them are stored.
/// One token gets half of these slots, which is as many as the store processes at once.
const MAX_CONCURRENT_REPORTS: usize = 64;

/// The charge for a rejected report, in reports: the sender has to wait before it sends again.
const REFUSED_REPORTS: u64 = 4;

/// The limits of reports.
pub(crate) struct ReportAdmission {
    /// The bytes of reports by minute.
    pub(crate) bytes: RateLimiter,
    count: TokenBuckets<LimitKey>,
    slots: Slots,
}

impl ReportAdmission {
    /// Creates the configured limits, all unused.
    pub(crate) fn new(config: &ServeConfig, shares: &FairShares) -> Self {
        let burst = u64::from(config.reports_per_second) * BURST_SECONDS;
        Self {
            bytes: RateLimiter::for_reports(
                config.network.report_bytes_per_minute,
                config.network.report_bytes_per_minute_of_address,
            ),
            count: TokenBuckets::with_refill_time(burst, Duration::from_secs(BURST_SECONDS)),
            slots: shares.slots("reports", MAX_CONCURRENT_REPORTS),
        }
    }

    /// Rejects a report if all slots are taken, before anything of it is read. The store is busy then, and
    /// rejections must cost next to nothing, so that they are not a load themselves.
    pub(crate) fn check_free(&self) -> Result<(), Problem> {
        self.slots.check_free().map_err(|_| Problem::too_many_reports())
    }

    /// Rejects a report beyond its sender's share of the slots, before the sender is authenticated.
    /// `known_sender` is the sender if the credentials were valid recently.
    pub(crate) fn check_share(&self, known_sender: Option<(Holder, LimitKey)>) -> Result<(), Problem> {
        let Some((holder, key)) = known_sender else { return Ok(()) };
        self.slots.check_available(holder).map_err(|_| self.refusal(key))
    }

    /// Counts a viewer's request. Returns an error with the name `request_name` beyond the limit.
    pub(crate) fn count(&self, viewer: &Viewer, request_name: &str) -> Result<(), Problem> {
        let result = self.count.take(&viewer.limit_key(), 1);
        result.map(drop).map_err(|level| {
            let wait = self.count.wait(level, 1);
            Problem::rate_limited(wait.as_secs() + 1, format!("too many {request_name} with this token"))
        })
    }

    /// Reserves a slot for a viewer's report. A rejection counts as several reports, so that immediate
    /// retries wait.
    pub(crate) fn reserve(&self, viewer: &Viewer) -> Result<HeldSlot, Problem> {
        self.slots.try_take(viewer.holder()).map_err(|_| self.refusal(viewer.limit_key()))
    }

    /// Returns the rejection of a report for lack of a slot, and counts it.
    pub(crate) fn refusal(&self, key: LimitKey) -> Problem {
        let level = self.count.level(&key);
        if level.remaining() == 0 {
            let wait = self.count.wait(level, 1);
            return Problem::rate_limited(wait.as_secs() + 1, "too many reports with this token");
        }
        self.count.overdraw(&key, REFUSED_REPORTS);
        Problem::too_many_reports()
    }
}
