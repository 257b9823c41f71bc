//! Activities with a duration: computations and spans, and the schedule of their starts.

use rand::{RngExt as _, rngs::StdRng};
use uuid::Uuid;

/// A schedule of events with a mean rate, at irregular times.
pub(crate) struct Schedule {
    mean_interval_ms: f64,
    next_at: f64,
}

impl Schedule {
    pub(crate) fn new(per_hour: f64, from: i64, random: &mut StdRng) -> Self {
        let mean_interval_ms = 3_600_000.0 / per_hour;
        #[expect(clippy::cast_precision_loss, reason = "times of this millennium are exact")]
        let next_at = from as f64 + mean_interval_ms * random.random_range(0.0..1.0);
        Self { mean_interval_ms, next_at }
    }

    /// Returns the times of the events until `now`, in epoch milliseconds.
    pub(crate) fn take_until(&mut self, now: i64, random: &mut StdRng) -> Vec<i64> {
        let mut times = Vec::new();
        #[expect(clippy::cast_precision_loss, reason = "times of this millennium are exact")]
        while self.next_at <= now as f64 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the fraction of a millisecond is dropped on purpose"
            )]
            times.push(self.next_at as i64);
            self.next_at += self.mean_interval_ms * random.random_range(0.5..1.5);
        }
        times
    }
}

/// A computation and its task groups, each of which runs for a part of the time.
pub(crate) struct Computation {
    pub(crate) id: Uuid,
    pub(crate) started_at: i64,
    pub(crate) ends_at: i64,
    pub(crate) span: Option<Uuid>,
    pub(crate) snippet: usize,
    pub(crate) groups: Vec<Group>,
    pub(crate) erred: bool,
    /// True if the current report contains its end.
    pub(crate) is_over: bool,
}

/// A task group.
pub(crate) struct Group {
    pub(crate) id: Uuid,
    pub(crate) prefix: usize,
    pub(crate) name: String,
    pub(crate) begins_at: i64,
    pub(crate) ends_at: i64,
    pub(crate) tasks: i64,
    pub(crate) erred: i64,
    pub(crate) bytes_per_task: i64,
    pub(crate) seconds_per_task: f64,
    pub(crate) depends_on: Vec<Uuid>,
    pub(crate) typename: &'static str,
    /// The number of finished tasks in the last report. `None` before the first report.
    pub(crate) last_reported: Option<i64>,
}

impl Group {
    /// Returns the number of tasks finished by `now`.
    pub(crate) fn finished_tasks(&self, now: i64) -> i64 {
        let (elapsed, duration) = (now - self.begins_at, (self.ends_at - self.begins_at).max(1));
        (self.tasks * elapsed / duration).clamp(0, self.tasks)
    }
}

/// A span. Its cells grow while it is active.
pub(crate) struct Span {
    pub(crate) id: Uuid,
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) started_at: i64,
    pub(crate) ends_at: i64,
    pub(crate) snippet: usize,
    pub(crate) cells: Vec<f64>,
    pub(crate) prefixes: Vec<usize>,
    pub(crate) is_reported: bool,
    pub(crate) is_over: bool,
}
