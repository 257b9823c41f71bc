//! The current time as a dependency, so that tests can control it.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use chrono::{DateTime, SubsecRound, Utc};
use entity::Timestamp;

/// A source of the current time.
pub trait Clock: Debug + Send + Sync {
    /// Returns the current time in whole milliseconds, so that a response about a new row shows the
    /// stored value.
    fn now(&self) -> DateTime<Utc>;

    /// Returns the time of the monotonic clock, which changes of the system time do not affect.
    fn instant(&self) -> Instant {
        Instant::now()
    }

    /// Returns the current time as stored in the database.
    fn timestamp(&self) -> Timestamp {
        self.now().into()
    }
}

/// Converts a time to the stored form, truncated to whole milliseconds.
#[must_use]
pub fn to_stored(time: DateTime<Utc>) -> Timestamp {
    time.trunc_subsecs(3).into()
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only reader of the system clock")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(3)
    }
}

/// A clock that moves only when a test sets it.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicI64,
    /// Total of the changes by `set_without_elapsing`, in milliseconds. They do not count as elapsed time.
    clock_error_ms: AtomicI64,
    start_ms: i64,
    started_at: Instant,
}

impl ManualClock {
    /// Returns a clock that shows `now`.
    #[must_use]
    pub fn at(now: DateTime<Utc>) -> Self {
        let start_ms = now.timestamp_millis();
        let (now, clock_error_ms) = (AtomicI64::new(start_ms), AtomicI64::new(0));
        Self { now, clock_error_ms, start_ms, started_at: Instant::now() }
    }

    /// Sets the clock and lets the same time elapse on the monotonic clock.
    pub fn set(&self, now: DateTime<Utc>) {
        self.now.store(now.timestamp_millis(), Ordering::SeqCst);
    }

    /// Sets the clock without any time elapsing on the monotonic clock.
    pub fn set_without_elapsing(&self, now: DateTime<Utc>) {
        let before = self.now.swap(now.timestamp_millis(), Ordering::SeqCst);
        self.clock_error_ms.fetch_add(now.timestamp_millis() - before, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        let now = self.now.load(Ordering::SeqCst);
        DateTime::from_timestamp_millis(now).expect("it was set from a valid time")
    }

    fn instant(&self) -> Instant {
        let elapsed_ms =
            self.now.load(Ordering::SeqCst) - self.start_ms - self.clock_error_ms.load(Ordering::SeqCst);
        self.started_at + Duration::from_millis(elapsed_ms.try_into().unwrap_or(0))
    }
}
