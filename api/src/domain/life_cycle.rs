//! States of clusters, decided in one place: from the stored row, and for silence from a clock that the
//! caller passes.
//!
//! The state of a reporting cluster follows from its last report alone, so a list filtered by state does
//! not change with time. A cluster is stored as lost after too long a silence, and its next report
//! reverts this. `store/clusters/life_cycle.rs` expresses the same rules in SQL.

use chrono::{DateTime, Utc};
use entity::{
    Timestamp,
    cluster::{DesiredState, Model, Status},
};

/// The time within which a cluster becomes ready, in milliseconds. A cluster that waits longer counts as
/// idle.
pub const STARTING_MS: i64 = 600_000;

/// The number of report intervals without a report after which a cluster is lost.
const SILENT_INTERVALS: f64 = 3.0;

/// The shortest silence after which a cluster is lost, in milliseconds. The reporter retries a failed
/// request after two, four and eight seconds.
pub const LEAST_SILENCE_MS: i64 = 30_000;

/// The longest retry delay of a reporter that cannot reach the server, in milliseconds: a minute plus the
/// duration of a request.
pub const LONGEST_RETRY_MS: i64 = 75_000;

/// The state of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is young, and has no worker or no work yet.
    Starting,
    /// It has work.
    Running,
    /// It has no work.
    Idle,
    /// A stop is requested, and the final report has not arrived.
    Closing,
    /// The final report has arrived.
    Closed,
    /// No reports arrive any more.
    Lost,
}

/// The facts from which the state of a cluster follows.
#[derive(Clone, Copy, Debug)]
pub struct StateFacts {
    /// The stored status.
    pub status: Status,
    /// The state that the account requests.
    pub desired_state: DesiredState,
    /// True if it had no work at its last report.
    pub is_idle: bool,
    /// Its age at the last report, by the scheduler's clock, in milliseconds.
    pub age_ms: i64,
    /// The number of workers that ever joined.
    pub workers: i64,
    /// The number of tasks it ever received.
    pub tasks: i64,
}

impl State {
    /// All states, in the order of a cluster's life.
    pub const ALL: [Self; 6] =
        [Self::Starting, Self::Running, Self::Idle, Self::Closing, Self::Closed, Self::Lost];

    /// Returns the name of the state in texts and external formats.
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

    /// Returns the state of a cluster.
    #[must_use]
    pub fn of(facts: &StateFacts) -> Self {
        let has_not_worked = facts.workers == 0 || (facts.tasks == 0 && facts.is_idle);
        match facts.status {
            Status::Closed => Self::Closed,
            Status::Lost => Self::Lost,
            Status::Running if facts.desired_state == DesiredState::Stopped => Self::Closing,
            Status::Running if has_not_worked && facts.age_ms < STARTING_MS => Self::Starting,
            Status::Running if facts.is_idle => Self::Idle,
            Status::Running => Self::Running,
        }
    }

    /// Returns the stored status of all clusters in this state.
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
        Self::of(&StateFacts {
            status: row.status,
            desired_state: row.desired_state,
            is_idle: row.idle_since.is_some(),
            age_ms: row.duration_ms,
            workers: row.total_workers,
            tasks: row.total_tasks,
        })
    }
}

/// Returns the time up to which the scheduler reported, by its own clock.
#[must_use]
pub fn last_reported_at(row: &Model) -> DateTime<Utc> {
    row.closed_at.map_or(row.reported_at.0, |closed_at| closed_at.0.max(row.reported_at.0))
}

/// Returns the allowed silence of a cluster with this report interval, in milliseconds.
#[must_use]
pub fn silence_allowed_ms(interval_seconds: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates at the longest time")]
    let intervals = (SILENT_INTERVALS * interval_seconds * 1e3).ceil() as i64;
    intervals.max(LEAST_SILENCE_MS)
}

/// Returns true if the cluster is lost, or has been silent for long enough to become lost.
#[must_use]
pub fn is_silent(row: &Model, now: Timestamp) -> bool {
    let silence = now.timestamp_millis() - row.last_seen_at.timestamp_millis();
    row.status == Status::Lost || silence > silence_allowed_ms(row.interval_seconds)
}

/// Returns true if a cluster with this report interval and last report is lost. Times are milliseconds of
/// the server's clock. If the last report arrived before `watching_since`, it is weak evidence, because
/// the server accepted no reports in between. Such a cluster gets the time in which reporters retry.
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
        let new_cluster = StateFacts {
            status: Status::Running,
            desired_state: DesiredState::Running,
            is_idle: true,
            age_ms: STARTING_MS - 1,
            workers: 0,
            tasks: 0,
        };
        let (workers, tasks) = (
            StateFacts { workers: 2, ..new_cluster },
            StateFacts { tasks: 5, is_idle: false, ..new_cluster },
        );
        let workers_and_tasks = StateFacts { workers: 2, tasks: 5, ..new_cluster };
        let past_start = |facts: StateFacts| StateFacts { age_ms: STARTING_MS, ..facts };
        let busy = |facts: StateFacts| StateFacts { is_idle: false, ..facts };
        let stopped = |facts: StateFacts| StateFacts { desired_state: DesiredState::Stopped, ..facts };
        for (facts, state) in [
            (new_cluster, Starting),
            // Workers wait for work, or work for workers.
            (workers, Starting),
            (tasks, Starting),
            (busy(workers), Running),
            (busy(workers_and_tasks), Running),
            (workers_and_tasks, Idle),
            (past_start(new_cluster), Idle),
            (past_start(workers), Idle),
            (past_start(tasks), Running),
            (stopped(new_cluster), Closing),
            (stopped(busy(workers_and_tasks)), Closing),
            (StateFacts { status: Status::Closed, ..stopped(workers_and_tasks) }, Closed),
            (StateFacts { status: Status::Lost, ..stopped(workers_and_tasks) }, Lost),
            (StateFacts { status: Status::Lost, ..new_cluster }, Lost),
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
        // A cluster whose last report is from before the start of the watch may still report.
        assert!(!is_lost(6, 0.5, 7, 7 + LONGEST_RETRY_MS));
        assert!(is_lost(6, 0.5, 7, 8 + LONGEST_RETRY_MS));
        assert!(!is_lost(6, 60.0, 7, 7 + 180_000));
        assert!(is_lost(6, 60.0, 7, 8 + 180_000));
    }
}
