//! The time, passed in, so that tests can say what it is.

use std::{
    fmt::Debug,
    sync::atomic::{AtomicI64, Ordering},
};

use chrono::{DateTime, SubsecRound, Utc};
use entity::Timestamp;

/// Tells the time.
pub trait Clock: Debug + Send + Sync {
    /// The current time, in whole milliseconds: what is answered of a row that was just made is what is stored.
    fn now(&self) -> DateTime<Utc>;

    /// The current time as it is stored.
    fn timestamp(&self) -> Timestamp {
        self.now().into()
    }
}

/// A time as it is stored, in whole milliseconds.
#[must_use]
pub fn stored(time: DateTime<Utc>) -> Timestamp {
    time.trunc_subsecs(3).into()
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock the others are sent to")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(3)
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: DateTime<Utc>) -> Self {
        Self(AtomicI64::new(now.timestamp_millis()))
    }

    /// Moves the clock.
    pub fn set(&self, now: DateTime<Utc>) {
        self.0.store(now.timestamp_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0.load(Ordering::SeqCst)).expect("it was set from a valid time")
    }
}
