//! Reports as a scheduler would send them, but small enough to read.

use galvo::domain::validated::Digest;
use serde_json::{Value, json};

/// The start time of all schedulers in tests: 2026-11-20T11:00:00Z.
pub const STARTED_AT: f64 = 1_795_172_400.0;

/// A UUID with this numeric value.
#[must_use]
pub fn uuid(number: u128) -> String {
    uuid::Uuid::from_u128(number).to_string()
}

/// Builds a report.
#[derive(Clone)]
pub struct ReportBuilder(Value);

impl ReportBuilder {
    /// A report of an idle scheduler.
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

/// The usage in an hour of 2026-11-20, given as hours since its midnight: `threads` threads all the
/// time, of which one computed. Fine metrics show where its time went.
#[must_use]
pub fn usage(hour: i64, threads: i64) -> Value {
    json!({
        "hour": 498_648 + hour, "thread_seconds": 3_600 * threads, "worker_seconds": 3_600.0,
        "memory_gib_seconds": 7_200.0, "compute_seconds": 3_600.0, "transfer_seconds": 1.5,
        "cpu_seconds": 3_000.0, "noncpu_seconds": 600.0, "serialize_seconds": 0.0, "spill_seconds": 0.0,
        "overhead_seconds": 0.0, "failed_seconds": 0.0, "idle_seconds": 3_600 * (threads - 1),
        "tasks": 100, "tasks_erred": 1, "retries": 2, "errors": 1, "bytes": 1_000, "spilled_bytes": 10, "workers": 1,
        "functions": [
            { "prefix": "load", "compute_seconds": 3_000.5, "transfer_seconds": 0.0, "tasks": 60, "tasks_erred": 0, "bytes": 600 },
            { "prefix": "divide", "compute_seconds": 599.5, "transfer_seconds": 1.5, "tasks": 40, "tasks_erred": 1, "bytes": 400 },
        ],
    })
}

/// The compute time of functions in the four intervals of a minute, which is counted from the start of all
/// schedulers in tests.
#[must_use]
pub fn activity(minute: i64, functions: &[(&str, [f64; 4])]) -> Value {
    let function =
        |(prefix, seconds): &(&str, [f64; 4])| json!({ "prefix": prefix, "compute_seconds": seconds });
    let functions: Vec<Value> = functions.iter().map(function).collect();
    json!({ "minute": 29_919_540 + minute, "functions": functions })
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

/// A live worker.
#[must_use]
pub fn worker(number: u128) -> Value {
    json!({
        "id": uuid(number), "name": format!("worker-{number}"), "address": format!("tcp://10.0.0.1:{}", 40_000 + number),
        "host": "10.0.0.1", "threads": 4, "memory_limit_bytes": 4_000_000_000_i64,
        "started_at": STARTED_AT + 1.0,
    })
}

/// A sample of the cluster or a worker, this many milliseconds after the start.
#[must_use]
pub fn sample(worker: Option<u128>, milliseconds: i64, metrics: impl Into<Value>) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "tests are short")]
    let at = STARTED_AT + milliseconds as f64 / 1000.0;
    json!({ "worker_id": worker.map(uuid), "at": at, "metrics": metrics.into() })
}

/// A span, with times in seconds after the scheduler's start. Without a stop time it is not done.
#[must_use]
pub fn span(number: u128, parent: Option<u128>, path: &[&str], enqueued: f64, stopped: Option<f64>) -> Value {
    json!({
        "id": uuid(number), "parent_id": parent.map(uuid), "path": path,
        "enqueued_at": STARTED_AT + enqueued, "started_at": STARTED_AT + enqueued + 0.5,
        "stopped_at": stopped.map(|stopped| STARTED_AT + stopped), "done": stopped.is_some(),
        "collections": ["Array"], "code": [],
    })
}

/// A change in the number of threads, in seconds after the scheduler's start.
#[must_use]
pub fn threads(at: f64, threads: i64) -> Value {
    json!({ "at": STARTED_AT + at, "threads": threads })
}

/// A snippet of code with its hash.
#[must_use]
pub fn code(text: &str) -> Value {
    json!({ "hash": Digest::of(text).as_str(), "text": text })
}

/// A frame in a snippet of code.
#[must_use]
pub fn code_frame(text: &str, line: i64, relative_line: i64) -> Value {
    json!({ "hash": Digest::of(text).as_str(), "file": "/home/ada/etl.py", "line": line, "relative_line": relative_line })
}

/// A profile window of ten seconds, with times in seconds after the scheduler's start.
#[must_use]
pub fn profile(number: u128, started: f64, samples: i64, frames: &Value, nodes: &Value) -> Value {
    json!({
        "id": uuid(number), "started_at": STARTED_AT + started, "stopped_at": STARTED_AT + started + 10.0,
        "workers": 2, "samples": samples, "frames": frames, "nodes": nodes,
    })
}

/// An event. Higher numbers happened later.
#[must_use]
pub fn event(number: u32, topic: &str, data: impl Into<Value>) -> Value {
    json!({
        "id": uuid(number.into()), "at": STARTED_AT + f64::from(number), "topic": topic, "data": data.into(),
    })
}

/// A line of the scheduler's log. Higher numbers were written later.
#[must_use]
pub fn log_line(number: u32, message: &str) -> Value {
    json!({
        "id": uuid(number.into()), "at": STARTED_AT + f64::from(number), "source": "scheduler", "level": "INFO",
        "logger": "distributed.scheduler", "message": message, "repeated": 1,
    })
}
