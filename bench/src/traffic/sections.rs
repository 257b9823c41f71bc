//! The sections of a report, and the rows each of them touches.

use std::collections::BTreeSet;

use rand::{RngExt as _, rngs::StdRng};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{
    Cluster, Touched,
    activity::{Computation, Group, Span},
    seconds,
};

const OPERATIONS: [&str; 12] = [
    "read-parquet",
    "getitem",
    "assign",
    "shuffle-transfer",
    "shuffle-unpack",
    "merge",
    "sum-chunk",
    "sum-agg",
    "mean_chunk",
    "random_sample",
    "finalize",
    "to-parquet",
]; // the most frequent ones come first
const TYPES: [&str; 4] = ["pandas.core.frame.DataFrame", "numpy.ndarray", "float", "dict"];
const SPANS: [&str; 5] = ["load", "clean", "train", "score", "export"];
const PACKAGES: [&str; 12] = [
    "dask",
    "distributed",
    "msgpack",
    "cloudpickle",
    "tornado",
    "toolz",
    "numpy",
    "pandas",
    "lz4",
    "pyarrow",
    "bokeh",
    "fsspec",
];
const ACTIVITIES: [(&str, &str); 5] = [
    ("thread-cpu", "seconds"),
    ("thread-noncpu", "seconds"),
    ("deserialize", "seconds"),
    ("executor", "seconds"),
    ("disk-read", "bytes"),
];
/// Activities outside of any span.
pub(crate) const SPANLESS_METRICS: [(&str, &str, &str); 6] = [
    ("gather-dep", "network", "seconds"),
    ("gather-dep", "deserialize", "seconds"),
    ("gather-dep", "decompress", "seconds"),
    ("get-data", "serialize", "seconds"),
    ("get-data", "network", "seconds"),
    ("get-data", "memory-read", "bytes"),
];
const THREADS: i64 = 4;
pub(super) const GIB: i64 = 1 << 30;

/// Source code that called Dask.
pub(crate) struct Snippet {
    pub(crate) hash: String,
    text: String,
}

pub(crate) fn random_uuid(random: &mut StdRng) -> Uuid {
    uuid::Builder::from_random_bytes(random.random()).into_uuid()
}

/// Returns the SHA-256 hash of a text, as 64 hexadecimal digits.
fn sha256_hex(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

/// Returns a UUID as the plugin creates them, sortable by time.
pub(super) fn timed_uuid(random: &mut StdRng, at: i64) -> Uuid {
    let bytes: [u8; 10] = random.random();
    uuid::Builder::from_unix_timestamp_millis(at.unsigned_abs(), &bytes).into_uuid()
}

pub(crate) fn prefixes(random: &mut StdRng) -> Vec<String> {
    let name = |i: usize| format!("{}-{}", OPERATIONS[i % OPERATIONS.len()], random.random_range(0..9));
    (0..24).map(name).collect()
}

pub(crate) fn snippets(random: &mut StdRng) -> Vec<Snippet> {
    let mut snippet = |number: usize| {
        let lines = random.random_range(5..40);
        let line = |i: usize| format!("    frame_{i} = frame_{}.merge(other[{number}])  # step {i}\n", i / 2);
        let text = format!("def step_{number}(frame, other):\n{}", (0..lines).map(line).collect::<String>());
        Snippet { hash: sha256_hex(&text), text }
    };
    (0..8).map(&mut snippet).collect()
}

pub(crate) fn environment(random: &mut StdRng) -> Value {
    let mut version = || {
        format!("{}.{}.{}", random.random_range(0..30), random.random_range(0..20), random.random_range(0..9))
    };
    let packages: Map<String, Value> =
        PACKAGES.iter().map(|name| ((*name).to_owned(), Value::from(version()))).collect();
    json!({
        "id": random_uuid(random), "python": "3.11.7.final.0", "executable": "/opt/conda/bin/python",
        "os": "Linux", "os_release": "6.1.0-28-cloud-amd64", "machine": "x86_64", "packages": packages,
    })
}

/// Returns a random number below `below`. Low numbers are far more frequent.
pub(super) fn skewed(random: &mut StdRng, below: usize) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small and positive"
    )]
    let index = (below as f64 * random.random_range(0.0_f64..1.0).powi(3)) as usize;
    index
}

pub(super) fn truncate(value: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "the fraction is dropped on purpose")]
    let truncated = value as i64;
    truncated
}

pub(super) fn float(value: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let float = value as f64;
    float
}

pub(super) fn touch(touched: &mut Vec<Touched>, table: &'static str, key: &(impl ToString + ?Sized)) {
    touched.push(Touched { table, key: key.to_string() });
}

impl Cluster {
    pub(super) fn environments(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        touch(touched, "environments", self.environment["id"].as_str().unwrap_or_default());
        vec![self.environment.clone()]
    }

    pub(super) fn all_workers(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let describe = |(i, id): (usize, &Uuid)| {
            touch(touched, "workers", &id);
            json!({
                "id": id, "name": format!("worker-{i}"), "address": self.address(i),
                "host": format!("10.0.0.{i}"), "environment_id": self.environment["id"],
                "threads": THREADS, "memory_limit_bytes": 16 * GIB, "started_at": seconds(self.started_at),
                "ended_at": null, "end": null, "processing_keys": [], "processing": 0, "lost_results": 0,
                "last_memory_bytes": null, "peak_memory_bytes": null, "processing_functions": null, "last_seen_at": null,
            })
        };
        self.workers.iter().enumerate().map(describe).collect()
    }

    pub(super) fn clients(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let id = format!("Client-{}", random_uuid(&mut self.random));
        touch(touched, "clients", &id);
        let environment = &self.environment["id"];
        vec![json!({
            "id": id, "environment_id": environment, "connected_at": seconds(self.started_at),
            "disconnected_at": null,
        })]
    }

    pub(super) fn thread_history(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let mut change = |(at, threads): (i64, i64)| {
            touch(touched, "thread_changes", &at);
            json!({ "at": seconds(at), "threads": threads })
        };
        (self.started_at..)
            .zip(1..)
            .take(self.workers.len())
            .map(|(at, n)| change((at, n * THREADS)))
            .collect()
    }

    pub(super) fn code(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let describe = |snippet: &Snippet| {
            touch(touched, "code_snippets", &snippet.hash);
            json!({ "hash": snippet.hash, "text": snippet.text })
        };
        self.snippets.iter().map(describe).collect()
    }

    pub(super) fn live_spans(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        for started_at in self.spans_schedule.take_until(self.now, &mut self.random) {
            let random = &mut self.random;
            let per_prefix = ACTIVITIES.len();
            let prefixes = (0..self.rates.cells_per_span.div_ceil(per_prefix))
                .map(|_| skewed(random, self.prefixes.len()))
                .collect::<BTreeSet<_>>();
            self.spans.push(Span {
                id: random_uuid(random),
                name: SPANS[skewed(random, SPANS.len())],
                number: random.random_range(0..100),
                started_at,
                ends_at: started_at + random.random_range(20_000..180_000),
                snippet: skewed(random, self.snippets.len()),
                cells: vec![0.0; self.rates.cells_per_span],
                prefixes: extend_distinct(&prefixes, self.rates.cells_per_span.div_ceil(per_prefix)),
                is_reported: false,
                is_over: false,
            });
        }
        let (now, snippets) = (self.now, &self.snippets);
        let mut items = Vec::new();
        for span in &mut self.spans {
            span.is_over = span.ends_at <= now;
            if span.is_reported && !span.is_over {
                continue; // only its cells change
            }
            span.is_reported = true;
            touch(touched, "spans", &span.id);
            items.push(json!({
                "id": span.id, "parent_id": null, "path": [span.name, format!("run {}", span.number)],
                "enqueued_at": seconds(span.started_at), "started_at": seconds(span.started_at + 12),
                "stopped_at": span.is_over.then(|| seconds(span.ends_at)), "done": span.is_over,
                "collections": ["dask.dataframe"], "code": [[frame(&snippets[span.snippet])]],
            }));
        }
        items
    }

    pub(super) fn fine_metrics(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let (random, names) = (&mut self.random, &self.prefixes);
        let mut items = Vec::new();
        for span in &mut self.spans {
            for cell in &mut span.cells {
                *cell += random.random_range(0.0..3.0);
            }
            touch(touched, "fine_metrics", &span.id);
            let cell = |(i, value): (usize, &f64)| {
                let (activity, unit) = ACTIVITIES[i % ACTIVITIES.len()];
                json!(["execute", names[span.prefixes[i / ACTIVITIES.len()]], activity, unit, value])
            };
            let cells: Vec<Value> = span.cells.iter().enumerate().map(cell).collect();
            items.push(json!({ "span_id": span.id, "cells": cells }));
        }
        if !self.computations.is_empty() {
            touch(touched, "fine_metrics", &Uuid::nil());
            let cell = |((context, activity, unit), value): (&(&str, &str, &str), &mut f64)| {
                *value += random.random_range(0.0..2.0);
                json!([context, null, activity, unit, *value])
            };
            let cells: Vec<Value> =
                SPANLESS_METRICS.iter().zip(&mut self.spanless_metrics).map(cell).collect();
            items.push(json!({ "cells": cells }));
        }
        items
    }

    fn start_computations(&mut self) {
        for started_at in self.computations_schedule.take_until(self.now, &mut self.random) {
            let random = &mut self.random;
            let duration: i64 = random.random_range(20_000..180_000);
            let number = self.rates.task_groups_per_computation;
            let mut groups: Vec<Group> = Vec::with_capacity(number);
            for i in 0..i64::try_from(number).unwrap_or_default() {
                let prefix = skewed(random, self.prefixes.len());
                let begins_at = started_at + duration * i / (2 * 6);
                groups.push(Group {
                    id: timed_uuid(random, started_at),
                    prefix,
                    name: format!("{}-{}", self.prefixes[prefix], random_uuid(random).simple()),
                    begins_at,
                    ends_at: begins_at + duration / 3,
                    tasks: random.random_range(1..20) * random.random_range(1..40),
                    erred: 0,
                    bytes_per_task: random.random_range(100..50_000_000),
                    seconds_per_task: random.random_range(0.01..2.0),
                    depends_on: groups.last().map(|group| group.id).into_iter().collect(),
                    typename: TYPES[skewed(random, TYPES.len())],
                    last_reported: None,
                });
            }
            self.computations.push(Computation {
                id: random_uuid(random),
                started_at,
                ends_at: started_at + duration,
                span: self.spans.last().map(|span| span.id),
                snippet: skewed(random, self.snippets.len()),
                groups,
                erred: false,
                is_over: false,
            });
        }
    }

    pub(super) fn task_groups(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        self.start_computations();
        let now = self.now;
        let mut items = Vec::new();
        for computation in &mut self.computations {
            computation.is_over = computation.ends_at <= now;
            for group in &mut computation.groups {
                let (last_reported, finished) =
                    (group.last_reported.unwrap_or_default(), group.finished_tasks(now));
                if group.last_reported == Some(finished) {
                    continue;
                }
                group.last_reported = Some(finished);
                let newly_finished = float(finished - last_reported);
                let (compute, transfer) =
                    (newly_finished * group.seconds_per_task, newly_finished * group.seconds_per_task * 0.1);
                let sums =
                    [compute, transfer, newly_finished, 0.0, newly_finished * float(group.bytes_per_task)];
                let function = self.hour.entry(group.prefix).or_default();
                for (sum, increase) in function.iter_mut().zip(sums) {
                    *sum += increase;
                }
                for (total, increase) in self.totals.iter_mut().zip(sums) {
                    *total += increase;
                }
                touch(touched, "task_groups", &group.id);
                let compute_seconds = float(finished) * group.seconds_per_task;
                items.push(json!({
                    "id": group.id, "name": group.name, "prefix": self.prefixes[group.prefix],
                    "first_seen_at": seconds(computation.started_at),
                    "started_at": (finished > 0).then(|| seconds(group.begins_at)),
                    "stopped_at": (finished > 0).then(|| seconds(now.min(group.ends_at))),
                    "states": {
                        "memory": finished - group.erred, "erred": group.erred,
                        "waiting": (group.tasks - finished) / 2,
                        "processing": (group.tasks - finished).div_euclid(2),
                    },
                    "tasks": group.tasks, "tasks_succeeded": finished - group.erred,
                    "tasks_erred": group.erred,
                    "tasks_blamed": 0, "tasks_retried": 0, "span_id": computation.span,
                    "durations": { "compute": compute_seconds, "transfer": compute_seconds * 0.1 },
                    "bytes": finished * group.bytes_per_task, "types": [group.typename],
                    "dependencies": group.depends_on,
                }));
            }
        }
        items
    }

    pub(super) fn live_computations(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let mut items = Vec::new();
        for computation in &self.computations {
            let is_new = computation.started_at > self.now - truncate(1e3 * self.rates.interval_seconds) - 50;
            if !(is_new || computation.is_over) {
                continue;
            }
            touch(touched, "computations", &computation.id);
            for group in &computation.groups {
                touch(touched, "computation_task_groups", &format!("{}/{}", computation.id, group.id));
            }
            let state = match (computation.is_over, computation.erred) {
                (false, _) => "running",
                (true, false) => "finished",
                (true, true) => "erred",
            };
            items.push(json!({
                "id": computation.id, "started_at": seconds(computation.started_at),
                "stopped_at": computation.is_over.then(|| seconds(computation.ends_at)), "state": state,
                "task_group_ids": computation.groups.iter().map(|group| group.id).collect::<Vec<_>>(),
                "code": [[frame(&self.snippets[computation.snippet])]],
                "span_ids": computation.span.into_iter().collect::<Vec<_>>(),
            }));
        }
        items
    }

    pub(super) fn usage(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let hour = self.hour_number();
        let from = (hour * 3_600_000).max(self.started_at);
        let worker_seconds = seconds(self.now - from) * float(i64::try_from(self.workers.len()).unwrap_or(0));
        touch(touched, "usage_hours", &hour);
        let mut sums = [0.0; 5];
        let mut functions = Vec::new();
        for (prefix, function) in &self.hour {
            for (sum, increase) in sums.iter_mut().zip(function) {
                *sum += increase;
            }
            touch(touched, "function_usage_hours", &format!("{hour}/{}", self.prefixes[*prefix]));
            functions.push(json!({
                "prefix": self.prefixes[*prefix], "compute_seconds": function[0], "transfer_seconds": function[1],
                "tasks": truncate(function[2]), "tasks_erred": 0, "bytes": truncate(function[4]),
            }));
        }
        let idle = (worker_seconds * float(THREADS) - sums[0]).max(0.0);
        vec![json!({
            "hour": hour, "thread_seconds": worker_seconds * float(THREADS), "worker_seconds": worker_seconds,
            "memory_gib_seconds": worker_seconds * 16.0, "compute_seconds": sums[0], "transfer_seconds": sums[1],
            "cpu_seconds": sums[0] * 0.7, "noncpu_seconds": sums[0] * 0.2, "serialize_seconds": sums[0] * 0.05,
            "spill_seconds": 0.0, "overhead_seconds": sums[0] * 0.05, "failed_seconds": 0.0, "idle_seconds": idle,
            "tasks": truncate(sums[2]), "tasks_erred": 0, "retries": 0, "errors": 0,
            "bytes": truncate(sums[4]),
            "spilled_bytes": 0, "workers": self.workers.len(), "functions": functions,
        })]
    }

    pub(super) fn describe(&self) -> Value {
        let threads = THREADS * i64::try_from(self.workers.len()).unwrap_or_default();
        let since = seconds(self.now - self.started_at);
        json!({
            "name": format!("cluster-{}", self.number), "address": "tcp://10.0.0.100:8786",
            "dashboard_url": "http://10.0.0.100:8787/status", "started_at": seconds(self.started_at),
            "closed_at": null, "close_reason": null, "idle_since": null, "workers": self.workers.len(),
            "threads": threads, "memory_limit_bytes": 64 * GIB, "memory_used_bytes": 20 * GIB,
            "environment_id": self.environment["id"],
            "totals": {
                "tasks": truncate(self.totals[2]), "tasks_succeeded": truncate(self.totals[2]),
                "tasks_erred": 0,
                "errors": 0, "compute_seconds": self.totals[0], "transfer_seconds": self.totals[1],
                "bytes": truncate(self.totals[4]), "thread_seconds": since * float(threads),
                "workers": self.workers.len(), "peak_workers": self.workers.len(), "peak_threads": threads,
            },
        })
    }

    /// Returns the counts of everything sent so far, by data class.
    pub(super) fn count(&mut self, sections: &Map<String, Value>, touched: &mut Vec<Touched>) -> Value {
        for (name, items) in sections {
            let class = match name.as_str() {
                "computations" | "task_groups" | "spans" | "fine_metrics" => "tasks",
                "errors" => "user_errors",
                "code" => "code",
                "profiles" => "profiles",
                "events" => "events",
                "logs" => "logs",
                _ => "basic",
            };
            let counts = self.receipt.entry(class).or_default();
            counts[0] += items.as_array().map_or(0, Vec::len);
            counts[1] += items.to_string().len();
        }
        touched.sort();
        touched.dedup();
        let count = |(class, counts): (&&str, &[usize; 2])| {
            ((*class).to_owned(), json!({ "sent": counts[0], "bytes": counts[1], "withheld": 0 }))
        };
        Value::Object(self.receipt.iter().map(count).collect())
    }

    pub(super) fn remove_finished(&mut self) {
        self.computations.retain(|computation| !computation.is_over);
        self.spans.retain(|span| !span.is_over);
    }

    pub(super) fn address(&self, worker: usize) -> String {
        format!("tcp://10.0.{}.{worker}:40000", self.number % 250)
    }
}

/// Returns this many distinct numbers, beginning with `first_numbers`.
fn extend_distinct(first_numbers: &BTreeSet<usize>, number: usize) -> Vec<usize> {
    let others = (0..).filter(|prefix| !first_numbers.contains(prefix));
    first_numbers.iter().copied().chain(others).take(number).collect()
}

fn frame(snippet: &Snippet) -> Value {
    json!({ "hash": snippet.hash, "file": "/home/ada/project/pipeline.py", "line": 120, "relative_line": 3 })
}
