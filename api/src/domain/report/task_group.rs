//! The tasks of one operation.

use std::collections::BTreeMap;

use entity::ids::{SpanId, TaskGroupId};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::super::bounded::{Count, List, Seconds, Text, UnixTime};

/// One of Dask's `TaskGroup` objects.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct TaskGroupReport {
    /// A UUIDv7 the reporter made for this object; the name is no identity, since it recurs.
    #[schema(value_type = uuid::Uuid)]
    pub id: TaskGroupId,
    /// Dask's name of the group.
    pub name: Text<4_096>,
    /// The name without its token: the function or operation.
    pub prefix: Text<4_096>,
    /// The span it was first used in.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub span_id: Option<SpanId>,
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
    /// Attempts that failed and were tried again.
    #[serde(default)]
    pub tasks_retried: Count,
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
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
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
