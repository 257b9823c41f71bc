//! Rule: an event loop is blocked.

use super::{
    ClusterFlagKind, Rule,
    level::{evaluate_threshold, worst_worker_values},
};
use crate::domain::{answer::format_duration, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: ClusterFlagKind::EventLoopBlocked,
    title: "Event loop blocked",
    text: "On the scheduler or a worker an event loop takes half a second or more from one tick to the next, and not 20 ms. \
           Heartbeats and transfers wait meanwhile. Code that holds the GIL does this, and very many tasks do it to the \
           scheduler.",
    needs: "nothing but samples",
    threshold: 0.5,
    clear_threshold: 0.2,
    unit: "seconds",
    lasting_seconds: 30,
    sentence: |value, _| format!("An event loop took {} for a tick.", format_duration(value)),
    verdict: |rule, facts, _| {
        let ticks = facts.workers.iter().flat_map(|(worker, readings)| {
            readings.values_of(Metric::EventLoop).map(|(at, tick)| (*worker, at, tick))
        });
        let mut track = worst_worker_values(ticks);
        for (at, tick) in facts.cluster.values_of(Metric::SchedulerEventLoop) {
            let slowest_tick = track.entry(at).or_insert((tick, None));
            if tick > slowest_tick.0 {
                *slowest_tick = (tick, None);
            }
        }
        evaluate_threshold(rule, &track, facts.at)
    },
};
