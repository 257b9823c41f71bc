//! Reports as a scheduler would send them, small enough to be read.

use serde_json::{Value, json};

/// When all schedulers of the tests started: 2026-11-20T11:00:00Z.
const STARTED_AT: f64 = 1_795_172_400.0;

/// A UUID that is its number.
#[must_use]
pub fn uuid(number: u128) -> String {
    uuid::Uuid::from_u128(number).to_string()
}

/// Builds a report.
#[derive(Clone)]
pub struct ReportBuilder(Value);

impl ReportBuilder {
    /// A report of a scheduler that does nothing.
    #[must_use]
    pub fn new(scheduler_id: &str, sequence: i64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "tests have few reports")]
        let sent_at = STARTED_AT + sequence as f64;
        Self(json!({
            "version": 1,
            "scheduler_id": scheduler_id,
            "sequence": sequence,
            "sent_at": sent_at,
            "interval_seconds": 15.0,
            "cluster": {
                "started_at": STARTED_AT,
                "workers": 0,
                "threads": 0,
                "memory_used_bytes": 0,
                "totals": {
                    "tasks": 0, "tasks_succeeded": 0, "tasks_erred": 0, "errors": 0,
                    "compute_seconds": 0.0, "transfer_seconds": 0.0, "thread_seconds": 0.0,
                    "bytes": 0, "workers": 0, "peak_workers": 0, "peak_threads": 0,
                },
            },
        }))
    }

    /// Sets the value at a JSON pointer, whose parent must exist.
    #[must_use]
    pub fn with(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        self.0.pointer_mut(parent).unwrap()[field] = value.into();
        self
    }

    /// Removes the value at a JSON pointer.
    #[must_use]
    pub fn without(mut self, pointer: &str) -> Self {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        self.0.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(field).unwrap();
        self
    }

    /// The report.
    #[must_use]
    pub fn build(self) -> Value {
        self.0
    }
}

/// A finished computation with its task groups.
#[must_use]
pub fn computation(number: u128, task_groups: &[u128]) -> Value {
    let task_groups: Vec<String> = task_groups.iter().map(|number| uuid(*number)).collect();
    json!({
        "id": uuid(number), "started_at": STARTED_AT + 1.0, "stopped_at": STARTED_AT + 3.5,
        "state": "finished", "task_group_ids": task_groups,
    })
}

/// A task group whose tasks all succeeded.
#[must_use]
pub fn task_group(number: u128, prefix: &str, tasks: i64) -> Value {
    json!({
        "id": uuid(number), "name": format!("{prefix}-{number:032x}"), "prefix": prefix,
        "first_seen_at": STARTED_AT + 1.0, "started_at": STARTED_AT + 2.0, "stopped_at": STARTED_AT + 3.5,
        "states": { "memory": tasks }, "tasks": tasks,
        "tasks_succeeded": tasks, "tasks_erred": 0, "tasks_blamed": 0,
        "durations": { "compute": 1.5, "transfer": 0.25 }, "bytes": 800 * tasks, "types": ["int"],
        "dependencies": [],
    })
}

/// An error of a task.
#[must_use]
pub fn error(number: u128, task_group: u128, computation: u128) -> Value {
    json!({
        "id": uuid(number), "at": STARTED_AT + 3.0, "key": "divide-1",
        "task_group_id": uuid(task_group), "computation_id": uuid(computation), "type": "ZeroDivisionError",
        "message": "ZeroDivisionError('division by zero')", "traceback": "  File \"x.py\", line 1, in divide\n",
        "worker": "tcp://127.0.0.1:40000",
    })
}
