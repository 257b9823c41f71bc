//! What a cluster is doing, decided in one place: from what is stored of it, and of silence by a clock that is passed in.
//!
//! A cluster that reports has a state that follows from its last report alone, so that a list by states is the same
//! whenever it is asked for. That it is lost is written down once it has been silent for too long, and taken back by its
//! next report. `store/life_cycle.rs` asks the database for the same.

use entity::cluster::{DesiredState, Model, Status};

/// How long a cluster may take to get ready, in milliseconds: one that waits for longer is idle.
pub const STARTING_MS: i64 = 600_000;

/// Intervals without a report after which a cluster is lost.
const SILENT_INTERVALS: f64 = 3.0;

/// The least time after which it is, in milliseconds: a reporter whose request fails tries again after two seconds, four
/// and eight.
pub const LEAST_SILENCE_MS: i64 = 30_000;

/// The longest a reporter waits that found nobody to report to for long, in milliseconds: a minute, and what a request may
/// take.
pub const LONGEST_RETRY_MS: i64 = 75_000;

/// What a cluster is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is young, and no worker has joined or no work has come yet.
    Starting,
    /// It has work.
    Running,
    /// It has none.
    Idle,
    /// It is to stop, and has not said goodbye.
    Closing,
    /// It said goodbye.
    Closed,
    /// Nothing is heard of it any more.
    Lost,
}

/// What a cluster's state follows from.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// What the scheduler last said of itself.
    pub status: Status,
    /// What is wanted of it.
    pub desired_state: DesiredState,
    /// Whether it had no work when it last reported.
    pub is_idle: bool,
    /// How old it was then, by its own clock, in milliseconds.
    pub age_ms: i64,
    /// Workers that ever joined.
    pub workers: i64,
    /// Tasks it was ever given.
    pub tasks: i64,
}

impl State {
    /// All states, in the order of a cluster's life.
    pub const ALL: [Self; 6] =
        [Self::Starting, Self::Running, Self::Idle, Self::Closing, Self::Closed, Self::Lost];

    /// Its name, as people and other programs are told.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Closing => "closing",
            Self::Closed => "closed",
            Self::Lost => "lost",
        }
    }

    /// The state of a cluster of which this is stored.
    #[must_use]
    pub fn of(facts: &Facts) -> Self {
        let is_untried = facts.workers == 0 || (facts.tasks == 0 && facts.is_idle);
        match facts.status {
            Status::Closed => Self::Closed,
            Status::Lost => Self::Lost,
            Status::Running if facts.desired_state == DesiredState::Stopped => Self::Closing,
            Status::Running if is_untried && facts.age_ms < STARTING_MS => Self::Starting,
            Status::Running if facts.is_idle => Self::Idle,
            Status::Running => Self::Running,
        }
    }

    /// What is stored of all clusters in this state.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Starting | Self::Running | Self::Idle | Self::Closing => Status::Running,
            Self::Closed => Status::Closed,
            Self::Lost => Status::Lost,
        }
    }
}

impl From<&Model> for State {
    fn from(row: &Model) -> Self {
        Self::of(&Facts {
            status: row.status,
            desired_state: row.desired_state,
            is_idle: row.idle_since.is_some(),
            age_ms: row.duration_ms,
            workers: row.total_workers,
            tasks: row.total_tasks,
        })
    }
}

/// How long a cluster may be silent that reports so often, in milliseconds.
#[must_use]
pub fn silence_allowed_ms(interval_seconds: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a longer time than there is becomes the longest")]
    let intervals = (SILENT_INTERVALS * interval_seconds * 1e3).ceil() as i64;
    intervals.max(LEAST_SILENCE_MS)
}

/// Whether a cluster is lost that reports so often and was last heard of at a time, all in milliseconds of the server's
/// clock. Reports from before `watching_since` say little of whether it is still there, because nobody could take in any
/// before that: it gets the time in which reporters try again.
#[must_use]
pub fn is_lost(last_seen: i64, interval_seconds: f64, watching_since: i64, now: i64) -> bool {
    let allowed = silence_allowed_ms(interval_seconds);
    if last_seen >= watching_since {
        now - last_seen > allowed
    } else {
        now - watching_since > allowed.max(LONGEST_RETRY_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_follows_from_what_is_stored() {
        use State::{Closed, Closing, Idle, Lost, Running, Starting};
        let young = Facts {
            status: Status::Running,
            desired_state: DesiredState::Running,
            is_idle: true,
            age_ms: STARTING_MS - 1,
            workers: 0,
            tasks: 0,
        };
        let (workers, tasks) = (Facts { workers: 2, ..young }, Facts { tasks: 5, is_idle: false, ..young });
        let both = Facts { workers: 2, tasks: 5, ..young };
        let old = |facts: Facts| Facts { age_ms: STARTING_MS, ..facts };
        let busy = |facts: Facts| Facts { is_idle: false, ..facts };
        let stopped = |facts: Facts| Facts { desired_state: DesiredState::Stopped, ..facts };
        for (facts, state) in [
            (young, Starting),
            // Workers wait for work, or work for workers.
            (workers, Starting),
            (tasks, Starting),
            (busy(workers), Running),
            (busy(both), Running),
            (both, Idle),
            (old(young), Idle),
            (old(workers), Idle),
            (old(tasks), Running),
            (stopped(young), Closing),
            (stopped(busy(both)), Closing),
            (Facts { status: Status::Closed, ..stopped(both) }, Closed),
            (Facts { status: Status::Lost, ..stopped(both) }, Lost),
            (Facts { status: Status::Lost, ..young }, Lost),
        ] {
            assert_eq!(State::of(&facts), state, "{facts:?}");
            assert_eq!(state.status(), facts.status, "{facts:?}");
        }
    }

    #[test]
    fn silence_is_three_intervals_and_no_short_time() {
        for (interval, allowed) in
            [(0.5, 30_000), (10.0, 30_000), (15.0, 45_000), (600.0, 1_800_000), (10.000_1, 30_001)]
        {
            assert_eq!(silence_allowed_ms(interval), allowed, "{interval}");
            assert!(!is_lost(7, interval, 7, 7 + allowed), "{interval}");
            assert!(is_lost(7, interval, 7, 8 + allowed), "{interval}");
        }
        assert_eq!(silence_allowed_ms(f64::MAX), i64::MAX);
        // What was heard of before anybody listened may still come.
        assert!(!is_lost(6, 0.5, 7, 7 + LONGEST_RETRY_MS));
        assert!(is_lost(6, 0.5, 7, 8 + LONGEST_RETRY_MS));
        assert!(!is_lost(6, 60.0, 7, 7 + 180_000));
        assert!(is_lost(6, 60.0, 7, 8 + 180_000));
    }
}
