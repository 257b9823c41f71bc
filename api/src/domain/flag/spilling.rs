//! Rule: results are on disk because memory is full.

use super::{
    ClusterFlagKind, Rule,
    level::{cluster_values, evaluate_threshold},
};
use crate::domain::{answer::percent, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::Spilling,
    title: "Spilling to disk",
    text: "Workers hold results on disk that are as large as 5 % of the memory there is, or larger. Reading them again \
           takes time; `answers.spill` tells how much. Add memory, or release what is not needed any more.",
    needs: "a memory limit of every worker",
    threshold: 0.05,
    clear_threshold: 0.02,
    unit: "share",
    lasting_seconds: 60,
    sentence: |value, _| {
        format!("Results as large as {} of the workers' memory lay on disk.", percent(value))
    },
    verdict: |rule, facts, _| {
        let spilled = facts.cluster.share(Metric::MemorySpilled, Metric::MemoryLimit);
        evaluate_threshold(rule, &cluster_values(spilled), facts.at)
    },
};
