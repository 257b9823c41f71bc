//! Rule: the disk to which a worker spills is nearly full.

use super::{
    ClusterFlagKind, Rule,
    level::{evaluate_threshold, worst_worker_values},
};
use crate::domain::{answer::percent, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::DiskNearlyFull,
    title: "Disk nearly full",
    text: "95 % or more of the disk that a worker spills to is in use. When it is full, tasks fail that have to spill. \
           Use larger disks or workers with more memory, or remove what others left there.",
    needs: "the plugin on the workers, which Dask allows unless its setting `galvo.workers.plugin` is off",
    threshold: 0.95,
    clear_threshold: 0.9,
    unit: "share",
    lasting_seconds: 0,
    sentence: |value, _| format!("{} of a worker's disk were in use.", percent(value)),
    verdict: |rule, facts, _| {
        let used = facts.workers.iter().flat_map(|(worker, readings)| {
            let free = readings.share(Metric::DiskFree, Metric::DiskTotal);
            free.map(|(at, free)| (*worker, at, 1.0 - free))
        });
        evaluate_threshold(rule, &worst_worker_values(used), facts.at)
    },
};
