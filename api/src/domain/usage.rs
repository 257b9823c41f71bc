//! Resource usage of clusters: exact sums, and the division of thread time by cause.

use std::ops::AddAssign;

/// The usage of some clusters in a period. Times are in microseconds, so that sums are exact in any
/// order. A time that Dask did not report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of threads integrated over time.
    pub thread_us: i64,
    /// The part of the thread time before the start of the reporter. It is neither idle nor busy.
    pub unobserved_us: i64,
    /// The number of workers integrated over time.
    pub worker_us: i64,
    /// The memory limits in GiB, integrated over time.
    pub memory_gib_us: i64,
    /// The compute time of tasks that succeeded.
    pub compute_us: i64,
    /// The time to fetch their inputs.
    pub transfer_us: i64,
    /// The thread time in which a task used the CPU.
    pub cpu_us: Option<i64>,
    /// The thread time in which a task did not use the CPU.
    pub noncpu_us: Option<i64>,
    /// The thread time for serialization and deserialization.
    pub serialize_us: Option<i64>,
    /// The thread time for moving data between memory and disk.
    pub spill_us: Option<i64>,
    /// The thread time for Dask's own work around the tasks.
    pub overhead_us: Option<i64>,
    /// The thread time of attempts that failed or were cancelled.
    pub failed_us: Option<i64>,
    /// The thread time without a task.
    pub idle_us: Option<i64>,
    /// The number of times that a task produced a result in memory.
    pub tasks: i64,
    /// The number of tasks that failed by an exception of their own.
    pub tasks_erred: i64,
    /// The number of failed attempts that were retried.
    pub retries: i64,
    /// The number of recorded errors.
    pub errors: i64,
    /// The bytes of results.
    pub bytes: i64,
    /// The bytes written to disk because memory was full.
    pub spilled_bytes: i64,
    /// The number of workers that joined.
    pub workers: i64,
    /// True if a value is lower than the real one: a report had an implausible value that was clamped, or
    /// a sum saturated.
    pub is_cut: bool,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.thread_us = self.thread_us.saturating_add(other.thread_us);
        self.unobserved_us = self.unobserved_us.saturating_add(other.unobserved_us);
        self.worker_us = self.worker_us.saturating_add(other.worker_us);
        self.memory_gib_us = self.memory_gib_us.saturating_add(other.memory_gib_us);
        self.compute_us = self.compute_us.saturating_add(other.compute_us);
        self.transfer_us = self.transfer_us.saturating_add(other.transfer_us);
        self.cpu_us = sum_known(self.cpu_us, other.cpu_us);
        self.noncpu_us = sum_known(self.noncpu_us, other.noncpu_us);
        self.serialize_us = sum_known(self.serialize_us, other.serialize_us);
        self.spill_us = sum_known(self.spill_us, other.spill_us);
        self.overhead_us = sum_known(self.overhead_us, other.overhead_us);
        self.failed_us = sum_known(self.failed_us, other.failed_us);
        self.idle_us = sum_known(self.idle_us, other.idle_us);
        self.tasks = self.tasks.saturating_add(other.tasks);
        self.tasks_erred = self.tasks_erred.saturating_add(other.tasks_erred);
        self.retries = self.retries.saturating_add(other.retries);
        self.errors = self.errors.saturating_add(other.errors);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.spilled_bytes = self.spilled_bytes.saturating_add(other.spilled_bytes);
        self.workers = self.workers.saturating_add(other.workers);
        self.is_cut |= other.is_cut || self.is_saturated();
    }
}

/// The value at which sums saturate.
pub const SATURATED: i64 = i64::MAX;

impl Usage {
    /// Returns the thread time in which the threads were observed. Shares of usage refer to this time.
    #[must_use]
    pub fn observed_us(&self) -> i64 {
        let thread_us = self.thread_us.max(0);
        thread_us - self.unobserved_us.clamp(0, thread_us)
    }

    /// Returns true if one of the sums is saturated.
    fn is_saturated(&self) -> bool {
        let sums = [
            self.thread_us,
            self.unobserved_us,
            self.worker_us,
            self.memory_gib_us,
            self.compute_us,
            self.transfer_us,
            self.tasks,
            self.tasks_erred,
            self.retries,
            self.errors,
            self.bytes,
            self.spilled_bytes,
            self.workers,
        ];
        let optional_sums = [
            self.cpu_us,
            self.noncpu_us,
            self.serialize_us,
            self.spill_us,
            self.overhead_us,
            self.failed_us,
            self.idle_us,
        ];
        sums.contains(&SATURATED) || optional_sums.contains(&Some(SATURATED))
    }

    /// Sets `is_cut` if one of the sums is saturated.
    #[must_use]
    pub fn mark_saturated(self) -> Self {
        Self { is_cut: self.is_cut || self.is_saturated(), ..self }
    }

    /// Divides the thread time by cause. The parts add up to `thread_us` exactly: the unknown rest is
    /// last, and where causes overlap (after a clock jump) the later ones are reduced. Idle time is
    /// limited to the time that computing leaves, even if workers died before they reported what their
    /// tasks did.
    #[must_use]
    pub fn causes(&self) -> Vec<(Cause, i64)> {
        let observed = self.observed_us();
        let max_idle = (observed - self.compute_us).max(0);
        let times = [
            (Cause::Unobserved, (self.unobserved_us > 0).then_some(self.thread_us.max(0) - observed)),
            (Cause::Cpu, self.cpu_us),
            (Cause::Waiting, self.noncpu_us),
            (Cause::Serialization, self.serialize_us),
            (Cause::Spill, self.spill_us),
            (Cause::Overhead, self.overhead_us),
            (Cause::Failed, self.failed_us),
            (Cause::Idle, self.idle_us.map(|idle| idle.min(max_idle))),
        ];
        let mut remaining = self.thread_us.max(0);
        let mut causes: Vec<(Cause, i64)> = times
            .into_iter()
            .filter_map(|(cause, time)| {
                let time = time?.clamp(0, remaining);
                remaining -= time;
                Some((cause, time))
            })
            .collect();
        causes.push((Cause::Unaccounted, remaining));
        causes
    }

    /// Returns the thread time without a task, as in [`causes`](Self::causes). Returns `None` if Dask
    /// does not report it. The usage of a task becomes known at its end, so the hours before count its
    /// thread as idle. A sum over these hours must not.
    #[must_use]
    pub fn idle_thread_us(&self) -> Option<i64> {
        self.idle_us?;
        self.causes().into_iter().find_map(|(cause, time)| (cause == Cause::Idle).then_some(time))
    }
}

/// The activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A task used the CPU.
    Cpu,
    /// A task occupied the thread without using the CPU.
    Waiting,
    /// Data was serialized or deserialized.
    Serialization,
    /// Data was moved between memory and disk.
    Spill,
    /// Dask did its own work around the task.
    Overhead,
    /// An attempt failed or was cancelled.
    Failed,
    /// There was no task.
    Idle,
    /// The time before the start of the reporter.
    Unobserved,
    /// The cause is unknown.
    Unaccounted,
}

/// Adds two values. The sum is known if either of them is.
fn sum_known(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (known, None) | (None, known) => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_add_up_to_the_thread_time() {
        let known = Usage {
            thread_us: 100,
            cpu_us: Some(40),
            noncpu_us: Some(10),
            idle_us: Some(30),
            ..Usage::default()
        };
        let expected = [(Cause::Cpu, 40), (Cause::Waiting, 10), (Cause::Idle, 30), (Cause::Unaccounted, 20)];
        assert_eq!(known.causes(), expected);
        let unknown = Usage { thread_us: 100, compute_us: 60, ..Usage::default() };
        assert_eq!(unknown.causes(), [(Cause::Unaccounted, 100)]);
        let too_much = Usage { thread_us: 100, cpu_us: Some(90), idle_us: Some(30), ..Usage::default() };
        assert_eq!(too_much.causes(), [(Cause::Cpu, 90), (Cause::Idle, 10), (Cause::Unaccounted, 0)]);
        assert_eq!(
            [known, unknown, too_much].map(|usage| usage.idle_thread_us()),
            [Some(30), None, Some(10)]
        );
    }

    #[test]
    fn what_one_part_knows_the_sum_knows() {
        let mut sum = Usage { cpu_us: Some(5), tasks: 1, ..Usage::default() };
        sum += Usage { idle_us: Some(7), tasks: 2, ..Usage::default() };
        assert_eq!(sum, Usage { cpu_us: Some(5), idle_us: Some(7), tasks: 3, ..Usage::default() });
    }

    #[test]
    fn a_sum_that_is_too_large_says_so() {
        let half = Usage { idle_us: Some(i64::MAX / 2 + 1), ..Usage::default() };
        let mut sum = half;
        sum += Usage { tasks: 1, ..Usage::default() };
        assert!(!sum.is_cut);
        sum += half;
        assert_eq!(sum, Usage { idle_us: Some(i64::MAX), tasks: 1, is_cut: true, ..Usage::default() });
    }
}
