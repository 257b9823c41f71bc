//! The sections of a report for events without a duration.

use rand::RngExt as _;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Cluster, Touched, seconds,
    sections::{GIB, float, skewed, timed_uuid, touch, truncate},
};

impl Cluster {
    pub(super) fn errors(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let mut items = Vec::new();
        for at in self.errors_schedule.take_until(self.now, &mut self.random) {
            let id = timed_uuid(&mut self.random, at);
            touch(touched, "error_occurrences", &id);
            let lines = self.random.random_range(4..20);
            let line = |i| {
                format!(
                    "  File \"/opt/conda/lib/python3.11/site-packages/step{i}.py\", line {i}, in f{i}\n    return f{}(x, y)\n",
                    i + 1
                )
            };
            let traceback: String = (0..lines).map(line).collect();
            let worker = self.random.random_range(0..self.workers.len());
            let (group, computation, span) = match self.computations.last_mut() {
                Some(computation) => {
                    computation.erred = true;
                    (Some(computation.groups[0].id), Some(computation.id), computation.span)
                }
                None => (None, None, None),
            };
            items.push(json!({
                "id": id, "at": seconds(at), "key": format!("('merge-{}', {lines})", id.simple()),
                "task_group_id": group, "computation_id": computation, "span_id": span, "origin": "user",
                "retries": 0, "type": "ValueError", "message": "ValueError('could not convert string to float')",
                "traceback": traceback, "worker": self.address(worker), "worker_id": self.workers[worker],
            }));
        }
        items
    }

    pub(super) fn samples(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let (now, chunk) = (self.now, self.now - self.now.rem_euclid(600_000));
        touch(touched, "cluster_sample_chunks", &chunk);
        let is_busy = !self.computations.is_empty();
        let mut metrics = self.measure(is_busy);
        let random = &mut self.random;
        for (name, value) in [
            ("workers", 4.0),
            ("threads", 16.0),
            ("gil_contention_min", 0.0),
            ("gil_contention_max", random.random_range(0.0..0.4)),
            ("event_loop_seconds_min", 0.02),
            ("event_loop_seconds_max", random.random_range(0.02..0.2)),
            ("scheduler_cpu_cores", random.random_range(0.01..0.4)),
            ("scheduler_memory_bytes", float(random.random_range(200_000_000..230_000_000_i64))),
            ("scheduler_event_loop_seconds", random.random_range(0.02..0.06)),
            ("tasks_processing", float(if is_busy { random.random_range(0..64) } else { 0 })),
            ("tasks_waiting", float(if is_busy { random.random_range(0..900) } else { 0 })),
            ("tasks_queued", 0.0),
            ("tasks_no_worker", 0.0),
            ("tasks_erred", 0.0),
            ("tasks_released", 0.0),
        ] {
            metrics[name] = json!(value);
        }
        let mut items = vec![json!({ "at": seconds(now), "metrics": metrics })];
        if self.rates.worker_samples {
            for i in 0..self.workers.len() {
                let mut metrics = self.measure(is_busy);
                for name in ["tasks_executing", "tasks_ready", "tasks_in_flight"] {
                    metrics[name] = json!(if is_busy { self.random.random_range(0..8) } else { 0 });
                }
                touch(touched, "worker_sample_chunks", &format!("{}/{chunk}", self.workers[i]));
                items.push(json!({ "worker_id": self.workers[i], "at": seconds(now), "metrics": metrics }));
            }
        }
        items
    }

    fn measure(&mut self, is_busy: bool) -> Value {
        let random = &mut self.random;
        let load = if is_busy { random.random_range(0.3..1.0) } else { random.random_range(0.0..0.04) };
        let process = truncate(4e9 + 1e10 * load);
        let managed = truncate(8e9 * load);
        json!({
            "memory_process_bytes": process, "memory_managed_bytes": managed,
            "memory_unmanaged_bytes": process - managed, "memory_spilled_bytes": 0,
            "memory_limit_bytes": 16 * GIB, "cpu_cores": (400.0 * load).round() / 100.0,
            "network_read_bytes_per_second": 1e7 * load * random.random_range(0.5..1.0),
            "network_write_bytes_per_second": 1e7 * load * random.random_range(0.5..1.0),
            "disk_read_bytes_per_second": if is_busy { 1e6 * random.random_range(0.0..1.0) } else { 0.0 },
            "disk_write_bytes_per_second": 1e4 * random.random_range(0.0..1.0),
            "disk_free_bytes": 80_000_000_000_i64 - 4096 * random.random_range(0..200_i64),
            "disk_total_bytes": 100_000_000_000_i64, "gil_contention": load * 0.2,
            "event_loop_seconds": random.random_range(0.02..0.03), "tasks_memory": truncate(200.0 * load),
        })
    }

    pub(super) fn events(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let mut items = Vec::new();
        for at in self.events_schedule.take_until(self.now, &mut self.random) {
            let id = timed_uuid(&mut self.random, at);
            touch(touched, "events", &id);
            let worker = self.random.random_range(0..self.workers.len());
            let (address, worker_id) = (self.address(worker), self.workers[worker]);
            let random = &mut self.random;
            let (topic, data) = match skewed(random, 4) {
                0 => (
                    address.clone(),
                    json!({
                        "action": "worker-status-change", "prev-status": "running", "status": "paused",
                        "worker": address, "stimulus_id": format!("worker-status-change-{}", seconds(at)),
                    }),
                ),
                1 => (
                    "all".to_owned(),
                    json!({
                        "action": "gather", "count": random.random_range(1..50), "client": "Client-6b2f1c9d",
                        "stimulus_id": format!("gather-{}", seconds(at)),
                    }),
                ),
                2 => (
                    "scores".to_owned(),
                    json!({
                        "epoch": random.random_range(1..500), "loss": random.random_range(0.0..4.0),
                        "accuracy": random.random_range(0.0..1.0), "worker": address,
                    }),
                ),
                _ => (
                    "scheduler".to_owned(),
                    json!({
                        "action": "update-graph", "metrics": {
                            "tasks": random.random_range(1..5_000), "new_tasks": random.random_range(1..5_000),
                            "key_collisions": 0, "start_timestamp_seconds": seconds(at),
                            "duration_seconds": random.random_range(0.0..1.0),
                            "materialization_duration_seconds": random.random_range(0.0..1.0),
                        },
                    }),
                ),
            };
            items.push(json!({
                "id": id, "at": seconds(at), "topic": topic, "worker_id": worker_id, "data": data,
            }));
        }
        items
    }

    pub(super) fn logs(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let mut items = Vec::new();
        for at in self.logs_schedule.take_until(self.now, &mut self.random) {
            let id = timed_uuid(&mut self.random, at);
            touch(touched, "log_lines", &id);
            let worker = self.random.random_range(0..self.workers.len());
            let blocked_seconds = self.random.random_range(3.0..20.0);
            items.push(json!({
                "id": id, "at": seconds(at), "source": "worker", "worker_id": self.workers[worker],
                "worker": self.address(worker), "level": "INFO", "logger": "distributed.core", "repeated": 1,
                "message": format!("Event loop was unresponsive in Worker for {blocked_seconds:.2}s. This \
                    is often caused by long-running GIL-holding functions or moving large chunks of data."),
            }));
        }
        items
    }

    pub(super) fn profiles(&mut self, touched: &mut Vec<Touched>) -> Vec<Value> {
        let mut items = Vec::new();
        for at in self.profiles_schedule.take_until(self.now, &mut self.random) {
            let id: Uuid = timed_uuid(&mut self.random, at);
            touch(touched, "profiles", &id);
            let number = self.rates.profile_nodes;
            let frame = |i: usize| {
                json!({
                    "file": format!("/opt/conda/lib/python3.11/site-packages/pandas/core/module_{}.py", i % 37),
                    "function": format!("_function_{i}"), "line": 10 + 7 * i,
                    "text": format!("        result = self._function_{}(values, axis={})", i * 3 % 150, i % 2),
                })
            };
            let frames: Vec<Value> = (0..150.min(number)).map(frame).collect();
            // Deep stacks with occasional branches. Totals include the samples of child nodes.
            let mut parents: Vec<Option<usize>> = vec![None];
            for i in 1..number {
                let distance =
                    if self.random.random_bool(0.8) { 1 } else { skewed(&mut self.random, i.min(23)) + 1 };
                parents.push(Some(i - distance.min(i)));
            }
            let own_samples: Vec<u64> = (0..number)
                .map(|_| u64::from(self.random.random_bool(0.4)) * self.random.random_range(0..4))
                .collect();
            let mut totals = own_samples.clone();
            for i in (1..number).rev() {
                if let Some(parent) = parents[i] {
                    totals[parent] += totals[i];
                }
            }
            let node = |i: usize| {
                json!([
                    parents[i].map_or(-1, |parent| i64::try_from(parent).unwrap_or(-1)),
                    i % frames.len(),
                    own_samples[i],
                    totals[i],
                ])
            };
            let nodes: Vec<Value> = (0..number).map(node).collect();
            items.push(json!({
                "id": id, "started_at": seconds(at - truncate(1e3 * self.rates.profile_seconds)),
                "stopped_at": seconds(at), "workers": self.workers.len(), "samples": totals[0],
                "frames": frames, "nodes": nodes,
            }));
        }
        items
    }
}
