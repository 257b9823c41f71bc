//! Rule: some workers are idle while tasks are ready on others.

use std::collections::BTreeMap;

use entity::ids::WorkerId;

use super::{
    ClusterFlagKind, Rule,
    level::{ValuesByTime, evaluate_threshold},
    readings::Readings,
};
use crate::domain::{answer::percent, metric::Metric};

/// The number of ready tasks on a worker from which the distribution counts as unbalanced. Fewer tasks
/// would finish before they could be moved.
const MANY_READY: f64 = 10.0;

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::UnbalancedWorkers,
    title: "Unbalanced workers",
    text: "Half of the workers or more have no task, while 10 or more are ready on another one. Its data may be there \
           alone, tasks may be tied to it, or too few large pieces cannot be shared out.",
    needs: "2 workers at least",
    threshold: 0.5,
    clear_threshold: 0.25,
    unit: "share",
    lasting_seconds: 60,
    sentence: |value, _| {
        format!("{} of the workers had no task, while many were ready on one.", percent(value))
    },
    verdict: |rule, facts, _| evaluate_threshold(rule, &idle_workers(&facts.workers), facts.at),
};

/// The work of all workers at one time.
#[derive(Default)]
struct Moment {
    workers: f64,
    idle: f64,
    busiest: Option<(f64, WorkerId)>,
}

/// Returns the share of idle workers by time. It is zero while no worker has many ready tasks.
fn idle_workers(workers: &[(WorkerId, Readings)]) -> ValuesByTime {
    let mut moments = BTreeMap::<i64, Moment>::new();
    for (worker, readings) in workers {
        let ready: BTreeMap<i64, f64> = readings.values_of(Metric::TasksReady).collect();
        for (at, executing) in readings.values_of(Metric::TasksExecuting) {
            let Some(ready) = ready.get(&at).copied() else { continue };
            let moment = moments.entry(at).or_default();
            moment.workers += 1.0;
            if executing + ready == 0.0 {
                moment.idle += 1.0;
            }
            if moment.busiest.is_none_or(|(most_ready, _)| ready > most_ready) {
                moment.busiest = Some((ready, *worker));
            }
        }
    }
    let balanced = (0.0, None);
    let track = moments.into_iter().map(|(at, moment)| match moment.busiest {
        Some((ready, worker)) if ready >= MANY_READY => (at, (moment.idle / moment.workers, Some(worker))),
        _ => (at, balanced),
    });
    track.collect()
}
