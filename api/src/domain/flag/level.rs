//! Rules on values that are measured again and again.

use std::collections::BTreeMap;

use entity::ids::WorkerId;

use super::{Finding, Rule, Verdict};

/// Values by moment, each with the worker it is of, if it is of one.
pub(super) type Track = BTreeMap<i64, (f64, Option<WorkerId>)>;

/// The values of a cluster as a whole.
pub(super) fn of_cluster(values: impl Iterator<Item = (i64, f64)>) -> Track {
    values.map(|(at, value)| (at, (value, None))).collect()
}

/// Of each moment the greatest value of a worker.
pub(super) fn worst(values: impl Iterator<Item = (WorkerId, i64, f64)>) -> Track {
    let mut track = Track::new();
    for (worker, at, value) in values {
        let found = track.entry(at).or_insert((value, Some(worker)));
        if value > found.0 {
            *found = (value, Some(worker));
        }
    }
    track
}

/// Whether the value has been at the threshold or above it for long enough, or below where it clears.
pub(super) fn judge(rule: &Rule, track: &Track, at: i64) -> Verdict {
    let lasting = rule.lasting_seconds * 1_000;
    let Some((last, _)) = track.last_key_value() else {
        // What is not measured any more is not so any more, as far as anybody knows.
        return Verdict::Over(at);
    };
    let run = |is_part: &dyn Fn(f64) -> bool| {
        let readings = track.iter().rev().take_while(|(_, (value, _))| is_part(*value));
        let first = readings.map(|(at, _)| *at).last()?;
        (last - first >= lasting).then_some(first)
    };
    if let Some(since) = run(&|value| value >= rule.threshold) {
        let worst = track.range(since..).map(|(_, reading)| *reading);
        let (value, worker) = worst.fold((f64::MIN, None), |a, b| if b.0 > a.0 { b } else { a });
        return Verdict::Holds(Finding { since, value, worker, ..Finding::default() });
    }
    run(&|value| value < rule.clears).map_or(Verdict::Unclear, Verdict::Over)
}
