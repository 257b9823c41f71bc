//! One report of one scheduler, as sent by the plugin: version 1 of the wire format.
//!
//! Every value is cumulative or current, never an increment. A row remembers the sequence of the report it
//! was last written from and only a higher one overwrites it; errors and links are only ever added. So
//! repeats, gaps and reordering end in the same rows, and a lost report needs no repair.

use std::collections::BTreeMap;

use entity::{
    cluster::DesiredState,
    computation::State,
    ids::{ComputationId, ErrorOccurrenceId, TaskGroupId},
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use utoipa::ToSchema;

use super::bounded::{Count, List, Seconds, Text, UnixTime};

/// A report: what a scheduler has to say since the last report that was acknowledged.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Report {
    /// The version of this format: 1.
    #[schema(value_type = u32, minimum = 1, maximum = 1)]
    pub version: Version,
    /// Slug of the account the reporter believes to report to; absent means the token's own.
    #[serde(default)]
    pub account: Option<Text<63>>,
    /// Dask's `Scheduler.id`, new for every scheduler process: the cluster's identity.
    pub scheduler_id: Text<256>,
    /// Grows with every report a scheduler makes, also over replaced plugins.
    pub sequence: Count,
    /// The highest sequence the reporter has seen acknowledged: the report holds what changed since.
    #[serde(default)]
    pub base: Option<Count>,
    /// The scheduler's clock when the report was made.
    pub sent_at: UnixTime,
    /// How long the reporter means to wait before its next report.
    pub interval_seconds: Seconds,
    /// Whether this is the last report: the scheduler closes.
    #[serde(default, rename = "final")]
    pub is_final: bool,
    /// The cluster as a whole, always complete.
    pub cluster: ClusterReport,
    /// Computations that changed.
    #[serde(default)]
    #[schema(value_type = Vec<ComputationReport>, max_items = 1_000)]
    pub computations: List<ComputationReport, 1_000>,
    /// Task groups that changed.
    #[serde(default)]
    #[schema(value_type = Vec<TaskGroupReport>, max_items = 5_000)]
    pub task_groups: List<TaskGroupReport, 5_000>,
    /// Errors that happened.
    #[serde(default)]
    #[schema(value_type = Vec<ErrorReport>, max_items = 500)]
    pub errors: List<ErrorReport, 500>,
    /// What the reporter gave up because of its own bounds.
    #[serde(default)]
    pub dropped: Dropped,
}

impl Report {
    /// How many task groups its computations name together.
    #[must_use]
    pub fn links(&self) -> usize {
        self.computations.iter().map(|computation| computation.task_group_ids.len()).sum()
    }
}

/// The version of the wire format.
#[derive(Clone, Copy, Debug)]
pub struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            1 => Ok(Self),
            other => Err(D::Error::custom(format_args!("version {other} is not supported, only 1 is"))),
        }
    }
}

/// The cluster as a whole.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ClusterReport {
    /// The name the cluster manager gave it.
    #[serde(default)]
    pub name: Option<Text<2_048>>,
    /// Where the scheduler listens.
    #[serde(default)]
    pub address: Option<Text<2_048>>,
    /// Where Dask's own dashboard is.
    #[serde(default)]
    pub dashboard_url: Option<Text<2_048>>,
    /// When the scheduler process started.
    pub started_at: UnixTime,
    /// When it closed; with the final report only.
    #[serde(default)]
    pub closed_at: Option<UnixTime>,
    /// Why it closed, if it is known.
    #[serde(default)]
    pub close_reason: Option<Text<2_048>>,
    /// Since when no task runs or waits; absent while there is work.
    #[serde(default)]
    pub idle_since: Option<UnixTime>,
    /// Workers connected now.
    pub workers: Count,
    /// Threads of those workers.
    pub threads: Count,
    /// Sum of their memory limits in bytes; absent when one of them has no limit.
    #[serde(default)]
    pub memory_limit_bytes: Option<Count>,
    /// Sum of their process memory in bytes.
    pub memory_used_bytes: Count,
    /// Sums over the scheduler's whole life.
    pub totals: Totals,
}

/// Sums over a scheduler's whole life, up to this report.
#[derive(Debug, Deserialize, ToSchema)]
pub struct Totals {
    /// Tasks in all task groups ever seen.
    pub tasks: Count,
    /// Times a task came to be in memory; a task computed again counts again.
    pub tasks_succeeded: Count,
    /// Tasks that erred themselves, not those that only depend on one.
    pub tasks_erred: Count,
    /// Errors recorded, including those the reporter had to drop.
    pub errors: Count,
    /// Thread-seconds spent computing tasks that succeeded.
    pub compute_seconds: Seconds,
    /// Seconds spent fetching those tasks' inputs from other workers.
    pub transfer_seconds: Seconds,
    /// Threads integrated over time: what the cluster offered, busy or idle.
    pub thread_seconds: Seconds,
    /// Bytes of all results ever produced.
    pub bytes: Count,
    /// Workers that ever joined.
    pub workers: Count,
    /// Most workers at one time.
    pub peak_workers: Count,
    /// Most threads at one time.
    pub peak_threads: Count,
}

/// One of Dask's `Computation` objects.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ComputationReport {
    /// Dask's own identifier.
    #[schema(value_type = uuid::Uuid)]
    pub id: ComputationId,
    /// When the graph arrived.
    pub started_at: UnixTime,
    /// When its last task finished; absent while it runs.
    #[serde(default)]
    pub stopped_at: Option<UnixTime>,
    /// How far it is.
    pub state: ComputationState,
    /// The task groups it uses, as far as known.
    #[serde(default)]
    #[schema(value_type = Vec<uuid::Uuid>, max_items = 5_000)]
    pub task_group_ids: List<TaskGroupId, 5_000>,
}

/// How far a computation is.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComputationState {
    /// Some tasks are unfinished.
    Running,
    /// All tasks are done, none erred.
    Finished,
    /// At least one task erred.
    Erred,
    /// The scheduler closed before it was done.
    Cancelled,
}

impl From<ComputationState> for State {
    fn from(state: ComputationState) -> Self {
        match state {
            ComputationState::Running => Self::Running,
            ComputationState::Finished => Self::Finished,
            ComputationState::Erred => Self::Erred,
            ComputationState::Cancelled => Self::Cancelled,
        }
    }
}

/// One of Dask's `TaskGroup` objects.
#[derive(Debug, Deserialize, ToSchema)]
pub struct TaskGroupReport {
    /// A UUIDv7 the reporter made for this object; the name is no identity, since it recurs.
    #[schema(value_type = uuid::Uuid)]
    pub id: TaskGroupId,
    /// Dask's name of the group.
    pub name: Text<4_096>,
    /// The name without its token: the function or operation.
    pub prefix: Text<4_096>,
    /// When the reporter first saw it.
    pub first_seen_at: UnixTime,
    /// When its first finished task started; absent before.
    #[serde(default)]
    pub started_at: Option<UnixTime>,
    /// When its last finished task stopped; absent before.
    #[serde(default)]
    pub stopped_at: Option<UnixTime>,
    /// Tasks by state, now.
    #[serde(default)]
    pub states: States,
    /// Tasks it ever had.
    pub tasks: Count,
    /// Times one of them came to be in memory.
    pub tasks_succeeded: Count,
    /// Those that erred themselves.
    pub tasks_erred: Count,
    /// Those that erred only because a dependency did.
    pub tasks_blamed: Count,
    /// Seconds by action, of tasks that succeeded: `compute`, `transfer`, `disk-read`, and others.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, f64>)]
    pub durations: Durations,
    /// Bytes of all results it ever produced.
    pub bytes: Count,
    /// Type names of its results.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 100)]
    pub types: List<Text<512>, 100>,
    /// The task groups it depends on.
    #[serde(default)]
    #[schema(value_type = Vec<uuid::Uuid>, max_items = 1_000)]
    pub dependencies: List<TaskGroupId, 1_000>,
}

/// Tasks by Dask's state; a state that is not named has none.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, rename_all = "kebab-case")]
pub struct States {
    /// Not needed now.
    pub released: Count,
    /// Waiting for dependencies.
    pub waiting: Count,
    /// Ready, but no worker may run it.
    pub no_worker: Count,
    /// Ready, held back until a thread is free.
    pub queued: Count,
    /// Assigned to a worker.
    pub processing: Count,
    /// Result held by a worker.
    pub memory: Count,
    /// Failed, or depending on one that did.
    pub erred: Count,
    /// Forgotten by the scheduler, whatever became of it.
    pub forgotten: Count,
}

/// Seconds by action; actions without a field of their own are summed in `other`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Durations {
    /// Running the task.
    pub compute: f64,
    /// Fetching inputs from other workers.
    pub transfer: f64,
    /// Reading spilled data.
    pub disk_read: f64,
    /// Spilling data.
    pub disk_write: f64,
    /// Turning results into bytes.
    pub serialize: f64,
    /// Turning bytes into inputs.
    pub deserialize: f64,
    /// Everything else.
    pub other: f64,
}

impl<'de> Deserialize<'de> for Durations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut durations = Self::default();
        for (action, seconds) in BTreeMap::<String, Seconds>::deserialize(deserializer)? {
            *match action.as_str() {
                "compute" => &mut durations.compute,
                "transfer" => &mut durations.transfer,
                "disk-read" => &mut durations.disk_read,
                "disk-write" => &mut durations.disk_write,
                "serialize" => &mut durations.serialize,
                "deserialize" => &mut durations.deserialize,
                _ => &mut durations.other,
            } += seconds.get();
        }
        Ok(durations)
    }
}

/// One task that itself erred.
#[derive(Debug, Deserialize, ToSchema)]
pub struct ErrorReport {
    /// A UUIDv7 the reporter made for it.
    #[schema(value_type = uuid::Uuid)]
    pub id: ErrorOccurrenceId,
    /// When the scheduler learnt of it.
    pub at: UnixTime,
    /// The task's key as text.
    pub key: Text<4_096>,
    /// The task's group, if it is known.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub task_group_id: Option<TaskGroupId>,
    /// The computation the group belonged to, if it is known.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub computation_id: Option<ComputationId>,
    /// The exception's class, if it can be told.
    #[serde(default, rename = "type")]
    pub exception_type: Option<Text<256>>,
    /// The exception's text as Dask gives it.
    pub message: Text<20_000>,
    /// The traceback as Dask gives it; empty when there is none.
    pub traceback: Text<100_000>,
    /// Address of the worker it happened on, if it is known.
    #[serde(default)]
    pub worker: Option<Text<2_048>>,
}

/// How much the reporter gave up because of its own bounds, over its life.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub struct Dropped {
    /// Computations.
    pub computations: Count,
    /// Task groups.
    pub task_groups: Count,
    /// Errors.
    pub errors: Count,
}

/// The answer to a report that is stored: what was taken, and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Acknowledgement {
    /// The sequence of the report this answers.
    pub acknowledged: i64,
    /// The cluster's identifier, an integer below 2^53.
    pub cluster_id: i64,
    /// Seconds to wait before the next report.
    pub interval_seconds: f64,
    /// What the account wants of the cluster.
    pub desired_state: Directive,
    /// The server lacks what `base` claims (a new or restored store): send everything still known again.
    pub resend: bool,
}

/// What the account wants of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Directive {
    /// Carry on.
    Running,
    /// Close the scheduler.
    Stopped,
}

impl From<DesiredState> for Directive {
    fn from(state: DesiredState) -> Self {
        match state {
            DesiredState::Running => Self::Running,
            DesiredState::Stopped => Self::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_actions_are_summed_as_other() {
        let json = r#"{"compute": 1.5, "disk-read": 0.25, "juggling": 2, "dreaming": 3}"#;
        let expected = Durations { compute: 1.5, disk_read: 0.25, other: 5.0, ..Durations::default() };
        assert_eq!(serde_json::from_str::<Durations>(json).expect("durations"), expected);
    }

    #[test]
    fn states_have_dasks_names() {
        let states: States = serde_json::from_str(r#"{"no-worker": 2, "memory": 3}"#).expect("states");
        assert_eq!((states.no_worker.get(), states.memory.get(), states.erred.get()), (2, 3, 0));
    }
}
