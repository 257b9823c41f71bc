//! Plausibility limits of reports: no times far after their arrival, and no more usage in an hour, or
//! compute time in an interval, than the cluster's threads can produce, nor than those that the account's
//! quota allows. Implausible values are clamped, and the report records the places. So one absurd value
//! neither costs the rest of the report nor distorts any sums.
//!
//! Past times are not changed: a report may have waited for days, and an imported file may be years old.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use entity::Timestamp;

use super::{
    super::{
        compute_limit::counted_part,
        function_activity::INTERVAL_SECONDS,
        validated::{Count, MAX_THREADS, Seconds, UnixTime},
    },
    Report, Totals, UsageReport,
    function_activity::MinuteSeconds,
};

/// The tolerated lead of clocks, in milliseconds.
const AHEAD_MS: i64 = 86_400_000;

/// The longest time for which hours of usage and minutes of activity may precede the start of the cluster,
/// in milliseconds.
const BEFORE_MS: i64 = 7 * AHEAD_MS;

/// Milliseconds of an hour, and of a minute.
const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

/// Seconds of an hour, and of a day.
const HOUR: f64 = 3_600.0;
const DAY: f64 = 86_400.0;

/// The largest number of tasks of one scheduler: thousands in each second of ten years.
const MAX_TASKS: i64 = 1_000_000_000_000;

/// The largest memory of one worker, in GiB: twice that of the largest machine for rent.
const WORKER_GIB: f64 = 65_536.0;

/// The number of parallel transfers per thread. The time of each of them counts.
const TRANSFERS: f64 = 64.0;

/// The tolerance above a limit, for rounding in sums and for clock changes.
const TOLERANCE: f64 = 1.001;

/// The place for hours of a cluster whose compute times add up to more than its thread time. It depends
/// on all reports of the cluster (`domain/compute_limit.rs`).
pub const COMPUTE_BEYOND_THREADS: &str = "usage.total_compute_seconds";

/// The places of a report whose values were clamped.
pub type ClampedPlaces = BTreeSet<&'static str>;

/// Returns the latest accepted time in a report: a day after its arrival, rounded to whole hours. So a
/// retried report gets the same clamped time.
#[must_use]
pub fn latest_accepted_time(arrival: Timestamp) -> Timestamp {
    let hour = arrival.timestamp_millis().div_euclid(HOUR_MS) * HOUR_MS;
    let limit = chrono::DateTime::from_timestamp_millis(hour.saturating_add(AHEAD_MS));
    limit.map_or(arrival, Timestamp::from)
}

/// Returns the highest accepted sequence of a report. `newest` is that of the newest report. Reporters
/// start with the milliseconds of their clock, which may be a year ahead, and count up from there.
#[must_use]
pub fn highest_accepted_sequence(arrival: Timestamp, newest: i64) -> i64 {
    const YEAR_MS: i64 = 366 * 86_400_000;
    const REPORTS: i64 = 1_000_000;
    arrival.timestamp_millis().saturating_add(YEAR_MS).max(newest.saturating_add(REPORTS))
}

impl Report {
    /// Clamps the implausible values of a report and records the paths of their fields. `quota_threads` is
    /// the number of threads whose usage counts, by the account's quota.
    pub fn bound(&mut self, arrival: Timestamp, quota_threads: i64) {
        let mut bounds = Bounds { latest_time: latest_accepted_time(arrival), clamped: ClampedPlaces::new() };
        self.bound_times(&mut bounds);
        self.bound_totals(&mut bounds);
        self.bound_usage(quota_threads, &mut bounds);
        self.bound_function_activity(quota_threads, &mut bounds);
        self.clamped = bounds.clamped;
    }

    fn bound_times(&mut self, bounds: &mut Bounds) {
        bounds.time("sent_at", &mut self.sent_at);
        let cluster = &mut self.cluster;
        bounds.time("cluster.started_at", &mut cluster.started_at);
        bounds.bound_optional_time("cluster.closed_at", &mut cluster.closed_at);
        bounds.bound_optional_time("cluster.idle_since", &mut cluster.idle_since);
        for computation in self.computations.items_mut() {
            bounds.time("computations.started_at", &mut computation.started_at);
            bounds.bound_optional_time("computations.stopped_at", &mut computation.stopped_at);
        }
        for group in self.task_groups.items_mut() {
            bounds.time("task_groups.first_seen_at", &mut group.first_seen_at);
            bounds.bound_optional_time("task_groups.started_at", &mut group.started_at);
            bounds.bound_optional_time("task_groups.stopped_at", &mut group.stopped_at);
        }
        for worker in self.workers.items_mut() {
            bounds.time("workers.started_at", &mut worker.started_at);
            bounds.bound_optional_time("workers.ended_at", &mut worker.ended_at);
            bounds.bound_optional_time("workers.last_seen_at", &mut worker.last_seen_at);
        }
        for client in self.clients.items_mut() {
            bounds.time("clients.connected_at", &mut client.connected_at);
            bounds.bound_optional_time("clients.disconnected_at", &mut client.disconnected_at);
        }
        for span in self.spans.items_mut() {
            bounds.time("spans.enqueued_at", &mut span.enqueued_at);
            bounds.bound_optional_time("spans.started_at", &mut span.started_at);
            bounds.bound_optional_time("spans.stopped_at", &mut span.stopped_at);
        }
        for profile in self.profiles.items_mut() {
            bounds.time("profiles.started_at", &mut profile.started_at);
            bounds.time("profiles.stopped_at", &mut profile.stopped_at);
        }
        self.errors.items_mut().iter_mut().for_each(|error| bounds.time("errors.at", &mut error.at));
        self.events.items_mut().iter_mut().for_each(|event| bounds.time("events.at", &mut event.at));
        self.logs.items_mut().iter_mut().for_each(|line| bounds.time("logs.at", &mut line.at));
        self.samples.items_mut().iter_mut().for_each(|sample| bounds.time("samples.at", &mut sample.at));
        for change in self.thread_history.items_mut() {
            bounds.time("thread_history.at", &mut change.at);
        }
    }

    fn bound_totals(&mut self, bounds: &mut Bounds) {
        // The limit includes one more day than the cluster's life, to allow for clock changes.
        let lifetime_seconds = seconds_between(self.cluster.started_at, self.sent_at).max(0.0) + DAY;
        let cluster = &mut self.cluster;
        bounds.count("cluster.workers", &mut cluster.workers, MAX_THREADS);
        bounds.count("cluster.threads", &mut cluster.threads, MAX_THREADS);
        let Totals {
            tasks,
            tasks_succeeded,
            tasks_erred,
            errors,
            compute_seconds,
            transfer_seconds,
            thread_seconds,
            workers,
            peak_workers,
            peak_threads,
            bytes: _,
        } = &mut cluster.totals;
        bounds.count("cluster.totals.peak_workers", peak_workers, MAX_THREADS);
        bounds.count("cluster.totals.peak_threads", peak_threads, MAX_THREADS);
        bounds.count("cluster.totals.tasks", tasks, MAX_TASKS);
        bounds.count("cluster.totals.tasks_succeeded", tasks_succeeded, MAX_TASKS);
        bounds.count("cluster.totals.tasks_erred", tasks_erred, MAX_TASKS);
        bounds.count("cluster.totals.errors", errors, MAX_TASKS);
        bounds.count("cluster.totals.workers", workers, MAX_TASKS);
        let max_thread_seconds = to_f64(MAX_THREADS) * lifetime_seconds;
        bounds.seconds("cluster.totals.thread_seconds", thread_seconds, max_thread_seconds);
        bounds.seconds("cluster.totals.compute_seconds", compute_seconds, max_thread_seconds);
        bounds.seconds("cluster.totals.transfer_seconds", transfer_seconds, TRANSFERS * max_thread_seconds);
    }

    fn bound_usage(&mut self, quota_threads: i64, bounds: &mut Bounds) {
        // A worker has a thread at least, so the limit of threads is one of workers, too.
        let max_threads = to_f64(quota_threads);
        let (threads, workers) = (self.thread_limit().min(max_threads), self.worker_limit().min(max_threads));
        let (cluster_start, hours) = (millis(self.cluster.started_at), self.usage.len());
        // The values of another hour cannot be moved: each hour has values of its own.
        self.usage.retain(|hour| {
            bounds.is_plausible_period(hour.hour.get().saturating_mul(HOUR_MS), cluster_start)
        });
        if self.usage.len() < hours {
            bounds.clamped.insert("usage.hour");
        }
        for hour in self.usage.items_mut() {
            let hour_start = hour.hour.get().saturating_mul(HOUR_MS);
            let seconds_since_start =
                (to_f64(hour_start.saturating_add(HOUR_MS).saturating_sub(cluster_start)) / 1e3).max(HOUR);
            hour.bound(threads, workers, seconds_since_start, &mut bounds.clamped);
        }
    }

    fn bound_function_activity(&mut self, quota_threads: i64, bounds: &mut Bounds) {
        let max_seconds = to_f64(INTERVAL_SECONDS) * self.thread_limit().min(to_f64(quota_threads));
        let (cluster_start, minutes) = (millis(self.cluster.started_at), self.function_activity.len());
        self.function_activity.retain(|minute| {
            bounds.is_plausible_period(minute.minute.get().saturating_mul(MINUTE_MS), cluster_start)
        });
        if self.function_activity.len() < minutes {
            bounds.clamped.insert("function_activity.minute");
        }
        for minute in self.function_activity.items_mut() {
            for function in minute.functions.items_mut() {
                for seconds in function.compute_seconds.values_mut() {
                    bounds.seconds("function_activity.functions.compute_seconds", seconds, max_seconds);
                }
            }
            for seconds in minute.other_compute_seconds.iter_mut().flat_map(MinuteSeconds::values_mut) {
                bounds.seconds("function_activity.other_compute_seconds", seconds, max_seconds);
            }
        }
    }

    /// Returns the limit of the cluster's threads at one time, according to the report. Without a peak it
    /// is the general limit, because the history may contain only the last changes of a few workers.
    fn thread_limit(&self) -> f64 {
        let Self { cluster, thread_history, .. } = self;
        let peak = cluster.totals.peak_threads.get().max(cluster.threads.get());
        let history = thread_history.iter().map(|change| change.threads.get()).max().unwrap_or(0);
        limit_or_default(if peak > 0 { peak.max(history) } else { 0 })
    }

    /// Returns the limit of the cluster's workers at one time, according to the report.
    fn worker_limit(&self) -> f64 {
        limit_or_default(self.cluster.totals.peak_workers.get().max(self.cluster.workers.get()))
    }
}

impl UsageReport {
    /// Clamps usage beyond the capacity of the threads and workers. The capacity is that of the hour, or
    /// that of the time since the cluster's start for usage that becomes known at its end.
    fn bound(&mut self, threads: f64, workers: f64, seconds_since_start: f64, clamped: &mut ClampedPlaces) {
        let mut bounds = Bounds {
            latest_time: Timestamp::from(chrono::DateTime::UNIX_EPOCH),
            clamped: ClampedPlaces::new(),
        };
        let (thread_capacity, work_capacity) = (threads * HOUR, threads * seconds_since_start);
        bounds.seconds("usage.thread_seconds", &mut self.thread_seconds, thread_capacity);
        bounds.bound_optional_seconds("usage.observed_seconds", &mut self.observed_seconds, thread_capacity);
        bounds.bound_optional_seconds("usage.idle_seconds", &mut self.idle_seconds, thread_capacity);
        bounds.seconds("usage.worker_seconds", &mut self.worker_seconds, workers * HOUR);
        let memory_capacity = workers * WORKER_GIB * HOUR;
        bounds.seconds("usage.memory_gib_seconds", &mut self.memory_gib_seconds, memory_capacity);
        bounds.seconds("usage.compute_seconds", &mut self.compute_seconds, work_capacity);
        bounds.seconds("usage.transfer_seconds", &mut self.transfer_seconds, TRANSFERS * work_capacity);
        for (path, seconds) in [
            ("usage.cpu_seconds", &mut self.cpu_seconds),
            ("usage.noncpu_seconds", &mut self.noncpu_seconds),
            ("usage.serialize_seconds", &mut self.serialize_seconds),
            ("usage.spill_seconds", &mut self.spill_seconds),
            ("usage.overhead_seconds", &mut self.overhead_seconds),
            ("usage.failed_seconds", &mut self.failed_seconds),
        ] {
            // One thread can have several of these at once, because data is written while tasks run.
            bounds.bound_optional_seconds(path, seconds, TRANSFERS * work_capacity);
        }
        let (compute, transfer) = ("usage.functions.compute_seconds", "usage.functions.transfer_seconds");
        for function in self.functions.items_mut() {
            bounds.seconds(compute, &mut function.compute_seconds, work_capacity);
            bounds.seconds(transfer, &mut function.transfer_seconds, TRANSFERS * work_capacity);
        }
        let functions = self.functions.items_mut();
        let function_seconds = functions.iter_mut().map(|function| &mut function.compute_seconds);
        bounds.sum(compute, function_seconds.collect(), self.compute_seconds);
        let function_seconds = functions.iter_mut().map(|function| &mut function.transfer_seconds);
        bounds.sum(transfer, function_seconds.collect(), self.transfer_seconds);
        self.is_cut = !bounds.clamped.is_empty();
        clamped.append(&mut bounds.clamped);
    }
}

/// The limits for times, and the paths of the fields that were clamped.
struct Bounds {
    latest_time: Timestamp,
    clamped: ClampedPlaces,
}

impl Bounds {
    /// Returns true if a period with values of its own can belong to a cluster that started at
    /// `cluster_start`. Both times are in milliseconds.
    fn is_plausible_period(&self, period_start: i64, cluster_start: i64) -> bool {
        period_start.saturating_add(BEFORE_MS) >= cluster_start
            && period_start <= self.latest_time.timestamp_millis()
    }

    fn time(&mut self, path: &'static str, time: &mut UnixTime) {
        let bounded = time.at_most(self.latest_time);
        if bounded != *time {
            *time = bounded;
            self.clamped.insert(path);
        }
    }

    fn bound_optional_time(&mut self, path: &'static str, time: &mut Option<UnixTime>) {
        if let Some(time) = time {
            self.time(path, time);
        }
    }

    fn count<const MAX: i64>(&mut self, path: &'static str, count: &mut Count<MAX>, limit: i64) {
        if count.get() > limit {
            *count = count.at_most(limit);
            self.clamped.insert(path);
        }
    }

    fn seconds<const MAX: u64>(&mut self, path: &'static str, seconds: &mut Seconds<MAX>, limit: f64) {
        if seconds.get() > limit * TOLERANCE + 1.0 {
            *seconds = seconds.at_most(limit);
            self.clamped.insert(path);
        }
    }

    /// Reduces parts, all by the same factor, so that they add up to no more than their total.
    fn sum<const MAX: u64>(
        &mut self,
        path: &'static str,
        parts: Vec<&mut Seconds<MAX>>,
        total: Seconds<MAX>,
    ) {
        let limit_us = total.microseconds();
        let sum_us = parts.iter().fold(0_i64, |sum, part| sum.saturating_add(part.microseconds()));
        // Each part can be rounded up.
        let rounding_us = i64::try_from(parts.len()).unwrap_or(i64::MAX);
        if sum_us <= limit_us.saturating_add(rounding_us) {
            return;
        }
        for part in parts {
            *part = part.at_most(to_f64(counted_part(part.microseconds(), limit_us, sum_us)) / 1e6);
        }
        self.clamped.insert(path);
    }

    fn bound_optional_seconds<const MAX: u64>(
        &mut self,
        path: &'static str,
        seconds: &mut Option<Seconds<MAX>>,
        limit: f64,
    ) {
        if let Some(seconds) = seconds {
            self.seconds(path, seconds, limit);
        }
    }
}

/// Returns the limit for a known number of threads or workers, or the general limit if the number is
/// unknown.
fn limit_or_default(reported: i64) -> f64 {
    to_f64(if reported > 0 { reported.min(MAX_THREADS) } else { MAX_THREADS })
}

fn seconds_between(from: UnixTime, to: UnixTime) -> f64 {
    let time: TimeDelta = to.timestamp().0 - from.timestamp().0;
    to_f64(time.num_milliseconds()) / 1e3
}

fn millis(time: UnixTime) -> i64 {
    time.timestamp().timestamp_millis()
}

#[expect(clippy::cast_precision_loss, reason = "bounds need no more digits")]
fn to_f64(number: i64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        chrono::DateTime::from_timestamp_millis(milliseconds).expect("a time").into()
    }

    #[test]
    fn the_last_moment_is_less_than_a_day_ahead_and_the_same_within_an_hour() {
        for (arrival, last) in [
            (0, AHEAD_MS),
            (HOUR_MS - 1, AHEAD_MS),
            (HOUR_MS, AHEAD_MS + HOUR_MS),
            (1_795_176_000_000, 1_795_262_400_000),
        ] {
            assert_eq!(latest_accepted_time(at(arrival)), at(last), "{arrival}");
        }
    }

    #[test]
    fn sequences_are_those_of_a_clock_or_follow_the_one_before() {
        let arrival = at(1_795_176_000_000);
        let by_clock = 1_795_176_000_000 + 366 * 86_400_000;
        assert_eq!(highest_accepted_sequence(arrival, 0), by_clock);
        assert_eq!(highest_accepted_sequence(arrival, 1_795_176_000_007), by_clock);
        assert_eq!(highest_accepted_sequence(arrival, by_clock), by_clock + 1_000_000);
        assert_eq!(highest_accepted_sequence(arrival, i64::MAX), i64::MAX);
    }
}
