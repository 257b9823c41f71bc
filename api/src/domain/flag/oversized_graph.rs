//! Rule: the scheduler holds very many tasks.

use super::{
    ClusterFlagKind, Finding, Rule, Verdict,
    level::{cluster_values, evaluate_threshold},
};
use crate::domain::metric::Metric;

/// The metrics that count the tasks in each state.
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
    kind: ClusterFlagKind::OversizedGraph,
    title: "Oversized graph",
    text: "The scheduler holds 200,000 tasks or more at once. Each costs it some hundred microseconds and a few kilobytes, \
           so that workers wait for it. Use larger pieces, or submit the work in parts. `function` is what most of \
           them run.",
    needs: "nothing but samples; the function, the data class TASKS",
    threshold: 200_000.0,
    clear_threshold: 100_000.0,
    unit: "tasks",
    lasting_seconds: 0,
    sentence: |value, name| match name {
        Some(name) => format!("The scheduler held {value} tasks, of {name} most."),
        None => format!("The scheduler held {value} tasks."),
    },
    verdict: |rule, facts, _| match evaluate_threshold(
        rule,
        &cluster_values(facts.cluster.sum(&TASKS)),
        facts.at,
    ) {
        Verdict::Holds(finding) => Verdict::Holds(Finding { name: facts.largest.clone(), ..finding }),
        other => other,
    },
};
