//! Results lie on disk for want of memory.

use super::{
    Kind, Rule,
    level::{judge, of_cluster},
};
use crate::domain::{answer::percent, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: Kind::Spilling,
    title: "Spilling to disk",
    text: "Workers hold results on disk that are as large as 5 % of the memory there is, or larger. Reading them again \
           takes time; `answers.spill` tells how much. Add memory, or release what is not needed any more.",
    needs: "a memory limit of every worker",
    threshold: 0.05,
    clears: 0.02,
    unit: "share",
    lasting_seconds: 60,
    say: |value, _| format!("Results as large as {} of the workers' memory lay on disk.", percent(value)),
    verdict: |rule, facts, _| {
        let spilled = facts.cluster.share(Metric::MemorySpilled, Metric::MemoryLimit);
        judge(rule, &of_cluster(spilled), facts.at)
    },
};
