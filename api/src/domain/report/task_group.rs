//! Task groups: the tasks of one operation.

use std::collections::BTreeMap;

use entity::ids::{SpanId, TaskGroupId};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::super::validated::{Count, List, Seconds, Text, UnixTime};

/// A task group, one of Dask's `TaskGroup` objects.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TaskGroupReport {
    /// A UUIDv7 that the reporter generated for this object. The name does not identify it, because names
    /// recur.
    #[schema(value_type = uuid::Uuid)]
    pub id: TaskGroupId,
    /// The name of the group in Dask.
    pub name: Text<4_096>,
    /// The name without its token: the function or operation.
    pub prefix: Text<4_096>,
    /// The span in which it was first used.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub span_id: Option<SpanId>,
    /// The time at which the reporter first saw it.
    pub first_seen_at: UnixTime,
    /// The time at which its first finished task started. Absent before that.
    #[serde(default)]
    pub started_at: Option<UnixTime>,
    /// The time at which its last finished task stopped. Absent before that.
    #[serde(default)]
    pub stopped_at: Option<UnixTime>,
    /// The current number of tasks by state.
    #[serde(default)]
    pub states: States,
    /// The number of tasks.
    pub tasks: Count,
    /// The number of times that a task produced a result in memory.
    pub tasks_succeeded: Count,
    /// The number of tasks that failed by an exception of their own.
    pub tasks_erred: Count,
    /// The number of tasks that failed only because a dependency failed.
    pub tasks_blamed: Count,
    /// The number of failed attempts that were retried.
    #[serde(default)]
    pub tasks_retried: Count,
    /// The time of tasks that succeeded, in seconds by action: `compute`, `transfer`, `disk-read`, and
    /// others.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, f64>)]
    pub durations: Durations,
    /// The bytes of all results so far.
    pub bytes: Count,
    /// The type names of its results.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 100)]
    pub types: List<Text<512>, 100>,
    /// The task groups on which it depends.
    #[serde(default)]
    #[schema(value_type = Vec<uuid::Uuid>, max_items = 1_000)]
    pub dependencies: List<TaskGroupId, 1_000>,
}

/// The number of tasks by their state in Dask. An absent state counts as 0.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, rename_all = "kebab-case")]
pub struct States {
    /// Tasks that are not needed now.
    pub released: Count,
    /// Tasks that wait for dependencies.
    pub waiting: Count,
    /// Tasks that are ready, but that no worker may run.
    pub no_worker: Count,
    /// Tasks that are ready, and queued until a thread is free.
    pub queued: Count,
    /// Tasks assigned to a worker.
    pub processing: Count,
    /// Tasks whose result a worker holds.
    pub memory: Count,
    /// Tasks that failed, or that depend on a failed one.
    pub erred: Count,
    /// Tasks that the scheduler has forgotten, whatever their outcome.
    pub forgotten: Count,
}

/// The time by action, in seconds. Actions without a field are summed in `other`.
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
    /// Serializing results.
    pub serialize: f64,
    /// Deserializing inputs.
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
