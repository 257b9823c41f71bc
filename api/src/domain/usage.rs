//! What clusters use: sums that add up exactly, and where thread time went.

use std::ops::AddAssign;

/// What was used in some time by some clusters. Times are microseconds, so that sums are exact in any order;
/// what Dask did not tell is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Threads integrated over time.
    pub thread_us: i64,
    /// Workers integrated over time.
    pub worker_us: i64,
    /// Memory limits in GiB, integrated over time.
    pub memory_gib_us: i64,
    /// Computing tasks that succeeded.
    pub compute_us: i64,
    /// Fetching their inputs.
    pub transfer_us: i64,
    /// Threads whose task used the CPU.
    pub cpu_us: Option<i64>,
    /// Threads whose task did not.
    pub noncpu_us: Option<i64>,
    /// Turning data into bytes and back.
    pub serialize_us: Option<i64>,
    /// Moving data between memory and disk.
    pub spill_us: Option<i64>,
    /// Dask's own work round the tasks.
    pub overhead_us: Option<i64>,
    /// Attempts that failed or were cancelled.
    pub failed_us: Option<i64>,
    /// Threads without a task.
    pub idle_us: Option<i64>,
    /// Times a task came to be in memory.
    pub tasks: i64,
    /// Tasks that erred themselves.
    pub tasks_erred: i64,
    /// Failed attempts that were tried again.
    pub retries: i64,
    /// Errors recorded.
    pub errors: i64,
    /// Bytes of results.
    pub bytes: i64,
    /// Bytes written to disk for want of memory.
    pub spilled_bytes: i64,
    /// Workers that joined.
    pub workers: i64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.thread_us = self.thread_us.saturating_add(more.thread_us);
        self.worker_us = self.worker_us.saturating_add(more.worker_us);
        self.memory_gib_us = self.memory_gib_us.saturating_add(more.memory_gib_us);
        self.compute_us = self.compute_us.saturating_add(more.compute_us);
        self.transfer_us = self.transfer_us.saturating_add(more.transfer_us);
        self.cpu_us = sum(self.cpu_us, more.cpu_us);
        self.noncpu_us = sum(self.noncpu_us, more.noncpu_us);
        self.serialize_us = sum(self.serialize_us, more.serialize_us);
        self.spill_us = sum(self.spill_us, more.spill_us);
        self.overhead_us = sum(self.overhead_us, more.overhead_us);
        self.failed_us = sum(self.failed_us, more.failed_us);
        self.idle_us = sum(self.idle_us, more.idle_us);
        self.tasks = self.tasks.saturating_add(more.tasks);
        self.tasks_erred = self.tasks_erred.saturating_add(more.tasks_erred);
        self.retries = self.retries.saturating_add(more.retries);
        self.errors = self.errors.saturating_add(more.errors);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.spilled_bytes = self.spilled_bytes.saturating_add(more.spilled_bytes);
        self.workers = self.workers.saturating_add(more.workers);
    }
}

impl Usage {
    /// Where the thread time went. The parts add up to `thread_us` exactly: what no cause is known of comes last,
    /// and where causes overlap (a clock that jumped) the later ones are cut.
    #[must_use]
    pub fn causes(&self) -> Vec<(Cause, i64)> {
        let known = [
            (Cause::Cpu, self.cpu_us),
            (Cause::Waiting, self.noncpu_us),
            (Cause::Serialization, self.serialize_us),
            (Cause::Spill, self.spill_us),
            (Cause::Overhead, self.overhead_us),
            (Cause::Failed, self.failed_us),
            (Cause::Idle, self.idle_us),
        ];
        let mut left = self.thread_us.max(0);
        let mut causes: Vec<(Cause, i64)> = known
            .into_iter()
            .filter_map(|(cause, time)| {
                let time = time?.clamp(0, left);
                left -= time;
                Some((cause, time))
            })
            .collect();
        causes.push((Cause::Unaccounted, left));
        causes
    }

    /// The thread time without a task, as [`causes`](Self::causes) tell it; none where Dask does not tell. What a task used is
    /// known when it ends, so that the hours before count its thread as idle, and a sum over them must not.
    #[must_use]
    pub fn idle(&self) -> Option<i64> {
        self.idle_us?;
        self.causes().into_iter().find_map(|(cause, time)| (cause == Cause::Idle).then_some(time))
    }
}

/// What a thread was doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A task used the CPU.
    Cpu,
    /// A task occupied the thread without using the CPU.
    Waiting,
    /// Data was turned into bytes or back.
    Serialization,
    /// Data was moved between memory and disk.
    Spill,
    /// Dask worked round the task.
    Overhead,
    /// An attempt failed or was cancelled.
    Failed,
    /// There was no task.
    Idle,
    /// Nothing is known.
    Unaccounted,
}

/// What is known of either is known of the sum.
fn sum(a: Option<i64>, b: Option<i64>) -> Option<i64> {
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
        assert_eq!([known, unknown, too_much].map(|usage| usage.idle()), [Some(30), None, Some(10)]);
    }

    #[test]
    fn what_one_part_knows_the_sum_knows() {
        let mut sum = Usage { cpu_us: Some(5), tasks: 1, ..Usage::default() };
        sum += Usage { idle_us: Some(7), tasks: 2, ..Usage::default() };
        assert_eq!(sum, Usage { cpu_us: Some(5), idle_us: Some(7), tasks: 3, ..Usage::default() });
    }
}
