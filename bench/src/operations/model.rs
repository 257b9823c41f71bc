//! The model cluster: 10 computations of 15 task groups, 10 errors, and as many spans of 20 fine metrics
//! as a usual cluster has in four hours.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::traffic::seconds;

const COMPUTATIONS: u128 = 10;
const GROUPS: u128 = 15;
const SPANS: u128 = 60;
const OPERATIONS: [&str; 5] = ["read-parquet", "shuffle-transfer", "merge", "sum-chunk", "to-parquet"];
const ACTIVITIES: [(&str, &str); 4] = [
    ("thread-cpu", "seconds"),
    ("thread-noncpu", "seconds"),
    ("deserialize", "seconds"),
    ("disk-read", "bytes"),
];

/// Returns the report of the cluster.
pub(super) fn report(started_at: i64) -> Value {
    let at = |minutes: u128| seconds(started_at) + 60.0 * number(minutes);
    let computation = |n: u128| {
        json!({
            "id": id(1, n), "started_at": at(5 * n), "stopped_at": at(5 * n + 4), "state": "finished",
            "task_group_ids": (0..GROUPS).map(|group| id(2, GROUPS * n + group)).collect::<Vec<_>>(),
            "code": [], "span_ids": [id(4, n)],
        })
    };
    let group = |n: u128| {
        let prefix = OPERATIONS[usize::try_from(n).unwrap_or_default() % OPERATIONS.len()];
        let depends_on: Vec<Uuid> = (!n.is_multiple_of(GROUPS)).then(|| id(2, n - 1)).into_iter().collect();
        json!({
            "id": id(2, n), "name": format!("{prefix}-{}", id(2, n).simple()), "prefix": prefix,
            "first_seen_at": at(5 * (n / GROUPS)), "started_at": at(5 * (n / GROUPS)),
            "stopped_at": at(5 * (n / GROUPS) + 1),
            "states": { "memory": 90, "erred": 1, "forgotten": 9 }, "tasks": 100, "tasks_succeeded": 99,
            "tasks_erred": 1, "tasks_blamed": 0, "tasks_retried": 0,
            "durations": { "compute": 12.5 + number(n), "transfer": 0.25, "disk-read": 0.5, "serialize": 0.125 },
            "bytes": 800_000 * n, "types": ["pandas.core.frame.DataFrame"], "dependencies": depends_on,
            "span_id": id(4, n / GROUPS),
        })
    };
    let error = |n: u128| {
        json!({
            "id": id(3, n), "at": at(5 * n + 3), "key": format!("('merge-{}', {n})", id(3, n).simple()),
            "task_group_id": id(2, GROUPS * n), "computation_id": id(1, n), "span_id": id(4, n), "origin": "user",
            "retries": 2, "type": "ValueError", "message": "ValueError('could not convert string to float')",
            "traceback": "  File \"/opt/conda/lib/python3.11/site-packages/step.py\", line 1, in step\n",
            "worker": "tcp://10.0.0.1:40000",
        })
    };
    let span = |n: u128| {
        json!({
            "id": id(4, n), "parent_id": null, "path": ["etl", format!("run {n}")], "enqueued_at": at(n),
            "started_at": at(n), "stopped_at": at(n + 1), "done": true, "collections": ["dask.dataframe"],
            "code": [],
        })
    };
    let cells = |n: u128| {
        let cells = cells().into_iter().filter(|cell| cell.0 == id(4, n));
        let cells = cells.map(|(_, context, function, activity, unit, value)| {
            json!([context, function, activity, unit, value])
        });
        json!({ "span_id": id(4, n), "cells": cells.collect::<Vec<_>>() })
    };
    json!({
        "version": 1, "scheduler_id": "Scheduler-model", "sequence": 1, "sent_at": at(60), "interval_seconds": 15.0,
        "final": true,
        "cluster": {
            "name": "pipeline", "address": "tcp://10.0.0.100:8786", "started_at": at(0), "closed_at": at(60),
            "close_reason": "the client asked for it", "workers": 4, "threads": 16, "memory_limit_bytes": 1_i64 << 36,
            "memory_used_bytes": 1_i64 << 34,
            "totals": {
                "tasks": 15_000, "tasks_succeeded": 14_850, "tasks_erred": 150, "errors": 10,
                "compute_seconds": 1_875.5, "transfer_seconds": 37.5, "thread_seconds": 57_600.0,
                "bytes": 120_000_000, "workers": 4, "peak_workers": 4, "peak_threads": 16,
            },
        },
        "computations": (0..COMPUTATIONS).map(computation).collect::<Vec<_>>(),
        "task_groups": (0..COMPUTATIONS * GROUPS).map(group).collect::<Vec<_>>(),
        "errors": (0..COMPUTATIONS).map(error).collect::<Vec<_>>(),
        "spans": (0..SPANS).map(span).collect::<Vec<_>>(),
        "fine_metrics": (0..SPANS).map(cells).collect::<Vec<_>>(),
    })
}

/// A fine metric of a span: span, context, function, activity, unit and value.
pub(super) type Cell = (Uuid, &'static str, Option<&'static str>, &'static str, &'static str, f64);

/// Returns the fine metrics of all spans.
pub(super) fn cells() -> Vec<Cell> {
    let span_cells = |n: u128| {
        OPERATIONS.into_iter().flat_map(move |function| {
            let cell = move |(activity, unit): (&'static str, &'static str)| {
                (id(4, n), "execute", Some(function), activity, unit, 0.125 * number(n + 1))
            };
            ACTIVITIES.into_iter().map(cell)
        })
    };
    (0..SPANS).flat_map(span_cells).collect()
}

fn id(kind: u128, n: u128) -> Uuid {
    Uuid::from_u128((kind << 64) + n + 1)
}

fn number(n: u128) -> f64 {
    f64::from(u32::try_from(n).unwrap_or_default())
}
