//! All workers together use much of their memory.

use super::{
    Kind, Rule,
    level::{judge, of_cluster},
};
use crate::domain::{answer::percent, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: Kind::MemoryPressure,
    title: "Memory pressure",
    text: "The workers together use 80 % of their memory or more. From there on Dask pauses workers, and kills them at \
           95 %. Add workers or memory, or work on smaller pieces.",
    needs: "a memory limit of every worker",
    threshold: 0.8,
    clears: 0.7,
    unit: "share",
    lasting_seconds: 60,
    say: |value, _| format!("The workers used {} of their memory.", percent(value)),
    verdict: |rule, facts, _| {
        let used = facts.cluster.share(Metric::MemoryProcess, Metric::MemoryLimit);
        judge(rule, &of_cluster(used), facts.at)
    },
};
