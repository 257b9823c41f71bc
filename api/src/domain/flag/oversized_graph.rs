//! The scheduler holds very many tasks.

use super::{
    Finding, Kind, Rule, Verdict,
    level::{judge, of_cluster},
};
use crate::domain::metric::Metric;

/// Each state a task can be in.
const TASKS: [Metric; 7] = [
    Metric::TasksProcessing,
    Metric::TasksWaiting,
    Metric::TasksQueued,
    Metric::TasksNoWorker,
    Metric::TasksMemory,
    Metric::TasksErred,
    Metric::TasksReleased,
];

pub(super) const RULE: Rule = Rule {
    kind: Kind::OversizedGraph,
    title: "Oversized graph",
    text: "The scheduler holds 200,000 tasks or more at once. Each costs it some hundred microseconds and a few kilobytes, \
           so that workers wait for it. Use larger pieces, or submit the work in parts. `function` is what most of \
           them run.",
    needs: "nothing but samples; the function, the data class TASKS",
    threshold: 200_000.0,
    clears: 100_000.0,
    unit: "tasks",
    lasting_seconds: 0,
    say: |value, name| match name {
        Some(name) => format!("The scheduler held {value} tasks, of {name} most."),
        None => format!("The scheduler held {value} tasks."),
    },
    verdict: |rule, facts, _| match judge(rule, &of_cluster(facts.cluster.sum(&TASKS)), facts.at) {
        Verdict::Holds(finding) => Verdict::Holds(Finding { name: facts.largest.clone(), ..finding }),
        other => other,
    },
};
