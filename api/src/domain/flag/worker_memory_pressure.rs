//! Rule: one worker uses much of its memory.

use super::{
    ClusterFlagKind, Rule,
    level::{evaluate_threshold, worst_worker_values},
};
use crate::domain::{answer::percent, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::WorkerMemoryPressure,
    title: "Memory pressure on a worker",
    text: "A worker uses 80 % of its memory or more, where Dask pauses it. If it is always another one, pieces are too \
           large; if it is the same one, data is spread unevenly.",
    needs: "a memory limit of the worker",
    threshold: 0.8,
    clear_threshold: 0.7,
    unit: "share",
    lasting_seconds: 30,
    sentence: |value, _| format!("A worker used {} of its memory.", percent(value)),
    verdict: |rule, facts, _| {
        let used = facts.workers.iter().flat_map(|(worker, readings)| {
            let shares = readings.share(Metric::MemoryProcess, Metric::MemoryLimit);
            shares.map(|(at, share)| (*worker, at, share))
        });
        evaluate_threshold(rule, &worst_worker_values(used), facts.at)
    },
};
