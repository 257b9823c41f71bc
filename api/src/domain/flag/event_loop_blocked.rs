//! An event loop does not get to its work.

use super::{
    Kind, Rule,
    level::{judge, worst},
};
use crate::domain::{answer::duration, metric::Metric};

pub(super) const RULE: Rule = Rule {
    kind: Kind::EventLoopBlocked,
    title: "Event loop blocked",
    text: "On the scheduler or a worker an event loop takes half a second or more from one tick to the next, and not 20 ms. \
           Heartbeats and transfers wait meanwhile. Code that holds the GIL does this, and very many tasks do it to the \
           scheduler.",
    needs: "nothing but samples",
    threshold: 0.5,
    clears: 0.2,
    unit: "seconds",
    lasting_seconds: 30,
    say: |value, _| format!("An event loop took {} for a tick.", duration(value)),
    verdict: |rule, facts, _| {
        let ticks = facts.workers.iter().flat_map(|(worker, readings)| {
            readings.of(Metric::EventLoop).map(|(at, tick)| (*worker, at, tick))
        });
        let mut track = worst(ticks);
        for (at, tick) in facts.cluster.of(Metric::SchedulerEventLoop) {
            let found = track.entry(at).or_insert((tick, None));
            if tick > found.0 {
                *found = (tick, None);
            }
        }
        judge(rule, &track, facts.at)
    },
};
