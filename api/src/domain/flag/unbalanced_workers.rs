//! Some workers have nothing to do while tasks wait for others.

use std::collections::BTreeMap;

use entity::ids::WorkerId;

use super::{
    Kind, Rule,
    level::{Track, judge},
    readings::Readings,
};
use crate::domain::{answer::percent, metric::Metric};

/// Tasks that have to be ready on a worker for others to miss them: fewer are run before they could be moved.
const MANY_READY: f64 = 10.0;

pub(super) const RULE: Rule = Rule {
    kind: Kind::UnbalancedWorkers,
    title: "Unbalanced workers",
    text: "Half of the workers or more have no task, while 10 or more are ready on another one. Its data may be there \
           alone, tasks may be tied to it, or too few large pieces cannot be shared out.",
    needs: "2 workers at least",
    threshold: 0.5,
    clears: 0.25,
    unit: "share",
    lasting_seconds: 60,
    say: |value, _| format!("{} of the workers had no task, while many were ready on one.", percent(value)),
    verdict: |rule, facts, _| judge(rule, &idle_workers(&facts.workers), facts.at),
};

/// What there is to do at a moment.
#[derive(Default)]
struct Moment {
    workers: f64,
    idle: f64,
    busiest: Option<(f64, WorkerId)>,
}

/// The share of workers without a task, where there is a worker with too many, by moment.
fn idle_workers(workers: &[(WorkerId, Readings)]) -> Track {
    let mut moments = BTreeMap::<i64, Moment>::new();
    for (worker, readings) in workers {
        let ready: BTreeMap<i64, f64> = readings.of(Metric::TasksReady).collect();
        for (at, executing) in readings.of(Metric::TasksExecuting) {
            let Some(ready) = ready.get(&at).copied() else { continue };
            let moment = moments.entry(at).or_default();
            moment.workers += 1.0;
            if executing + ready == 0.0 {
                moment.idle += 1.0;
            }
            if moment.busiest.is_none_or(|(most, _)| ready > most) {
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
