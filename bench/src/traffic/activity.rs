//! What goes on for a while: computations and spans, and when the next ones come.

use rand::{RngExt as _, rngs::StdRng};
use uuid::Uuid;

/// Things that happen so often in the mean, at irregular times.
pub(crate) struct Due {
    every: f64,
    next: f64,
}

impl Due {
    pub(crate) fn new(per_hour: f64, from: i64, random: &mut StdRng) -> Self {
        let every = 3_600_000.0 / per_hour;
        #[expect(clippy::cast_precision_loss, reason = "times of this millennium are exact")]
        let next = from as f64 + every * random.random_range(0.0..1.0);
        Self { every, next }
    }

    /// The times at which it has happened until now.
    pub(crate) fn until(&mut self, now: i64, random: &mut StdRng) -> Vec<i64> {
        let mut times = Vec::new();
        #[expect(clippy::cast_precision_loss, reason = "times of this millennium are exact")]
        while self.next <= now as f64 {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the fraction of a millisecond is meant to go"
            )]
            times.push(self.next as i64);
            self.next += self.every * random.random_range(0.5..1.5);
        }
        times
    }
}

/// A computation with its task groups, of which one after the other works for a part of the time.
pub(crate) struct Computation {
    pub(crate) id: Uuid,
    pub(crate) started_at: i64,
    pub(crate) ends_at: i64,
    pub(crate) span: Option<Uuid>,
    pub(crate) snippet: usize,
    pub(crate) groups: Vec<Group>,
    pub(crate) erred: bool,
    /// Whether the report that is being made tells its end.
    pub(crate) over: bool,
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
    /// Tasks done when it was last told; none before the first time.
    pub(crate) told: Option<i64>,
}

impl Group {
    /// Tasks done by now.
    pub(crate) fn done(&self, now: i64) -> i64 {
        let (past, whole) = (now - self.begins_at, (self.ends_at - self.begins_at).max(1));
        (self.tasks * past / whole).clamp(0, self.tasks)
    }
}

/// A span, whose cells grow while it goes on.
pub(crate) struct Span {
    pub(crate) id: Uuid,
    pub(crate) name: &'static str,
    pub(crate) number: u32,
    pub(crate) started_at: i64,
    pub(crate) ends_at: i64,
    pub(crate) snippet: usize,
    pub(crate) cells: Vec<f64>,
    pub(crate) prefixes: Vec<usize>,
    pub(crate) told: bool,
    pub(crate) over: bool,
}
