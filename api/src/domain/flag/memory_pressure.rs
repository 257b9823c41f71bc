//! Rule: all workers together use much of their memory.

use super::{
    ClusterFlagKind, Rule,
    level::{cluster_values, evaluate_threshold},
};
use crate::domain::{answer::percent, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::MemoryPressure,
    title: "Memory pressure",
    text: "The workers together use 80 % of their memory or more. From there on Dask pauses workers, and kills them at \
           95 %. Add workers or memory, or work on smaller pieces.",
    needs: "a memory limit of every worker",
    threshold: 0.8,
    clear_threshold: 0.7,
    unit: "share",
    lasting_seconds: 60,
    sentence: |value, _| format!("The workers used {} of their memory.", percent(value)),
    verdict: |rule, facts, _| {
        let used = facts.cluster.share(Metric::MemoryProcess, Metric::MemoryLimit);
        evaluate_threshold(rule, &cluster_values(used), facts.at)
    },
};
