//! Evaluation of rules on measured values.

use std::collections::BTreeMap;

use entity::ids::WorkerId;

use super::{Finding, Rule, Verdict};

/// Values by time, each with its worker, or `None` for the cluster as a whole.
pub(super) type ValuesByTime = BTreeMap<i64, (f64, Option<WorkerId>)>;

/// Collects the values of the cluster as a whole.
pub(super) fn cluster_values(values: impl Iterator<Item = (i64, f64)>) -> ValuesByTime {
    values.map(|(at, value)| (at, (value, None))).collect()
}

/// Collects the largest value of any worker by time.
pub(super) fn worst_worker_values(values: impl Iterator<Item = (WorkerId, i64, f64)>) -> ValuesByTime {
    let mut track = ValuesByTime::new();
    for (worker, at, value) in values {
        let worst = track.entry(at).or_insert((value, Some(worker)));
        if value > worst.0 {
            *worst = (value, Some(worker));
        }
    }
    track
}

/// Evaluates a rule. It holds if the value has been at or above the threshold for long enough, and it is
/// over if the value has been below `clear_threshold` for as long.
pub(super) fn evaluate_threshold(rule: &Rule, track: &ValuesByTime, at: i64) -> Verdict {
    let min_duration_ms = rule.lasting_seconds * 1_000;
    let Some((last_time, _)) = track.last_key_value() else {
        // Without measurements the problem counts as over.
        return Verdict::Over(at);
    };
    let find_run_start = |is_in_run: &dyn Fn(f64) -> bool| {
        let readings = track.iter().rev().take_while(|(_, (value, _))| is_in_run(*value));
        let start = readings.map(|(at, _)| *at).last()?;
        (last_time - start >= min_duration_ms).then_some(start)
    };
    if let Some(since) = find_run_start(&|value| value >= rule.threshold) {
        let worst = track.range(since..).map(|(_, reading)| *reading);
        let (value, worker) = worst.fold((f64::MIN, None), |a, b| if b.0 > a.0 { b } else { a });
        return Verdict::Holds(Finding { since, value, worker, ..Finding::default() });
    }
    find_run_start(&|value| value < rule.clear_threshold).map_or(Verdict::Unclear, Verdict::Over)
}
