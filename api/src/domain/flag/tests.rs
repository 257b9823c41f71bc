use super::*;
use crate::domain::{
    answer::{format_duration, percent},
    metric::Metric,
};

const AT: i64 = 1_000_000_000;

fn worker(number: u128) -> WorkerId {
    WorkerId(uuid::Uuid::from_u128(number))
}

/// Creates readings of a metric every fifteen seconds up to now, as a share of a hundred.
fn share(part: Metric, whole: Metric, values: &[f64]) -> Readings {
    (0_i64..).zip(values.iter().rev()).fold(Readings::default(), |readings, (back, value)| {
        let at = AT - back * 15_000;
        readings.with(at, part, *value).with(at, whole, 100.0)
    })
}

fn memory(values: &[f64]) -> FlagFacts {
    let cluster = share(Metric::MemoryProcess, Metric::MemoryLimit, values);
    FlagFacts { at: AT, cluster, ..FlagFacts::default() }
}

/// Returns the flags after each step. Each step sees the flags that the steps before left.
fn history(steps: &[FlagFacts]) -> Vec<Vec<(i64, i64, f64)>> {
    let mut stored_flags: Vec<Flag> = Vec::new();
    let mut ids = 1_u128..;
    let steps = steps.iter().map(|facts| {
        for mut flag in decide(facts, &stored_flags).changed {
            flag.id = flag.id.or_else(|| ids.next().map(|id| FlagId(uuid::Uuid::from_u128(id))));
            stored_flags.retain(|stored| stored.id != flag.id);
            stored_flags.push(flag);
        }
        assert!(decide(facts, &stored_flags).is_empty(), "the same again changes nothing: {facts:?}");
        stored_flags.iter().map(|flag| (flag.since - AT, flag.ended_key, flag.value)).collect()
    });
    steps.collect()
}

#[test]
fn each_kind_has_one_rule_with_a_lower_end() {
    use sea_orm::Iterable;
    let kinds: Vec<ClusterFlagKind> = ClusterFlagKind::iter().collect();
    assert_eq!(RULES.map(|rule| rule.kind).to_vec(), kinds);
    for rule in RULES {
        assert!(rule.clear_threshold <= rule.threshold, "{:?}", rule.kind);
        assert!(rule.text.ends_with('.') && rule.describe(1.0, None).ends_with('.'), "{:?}", rule.kind);
        assert_eq!(Rule::of(rule.kind).title, rule.title);
    }
}

/// A client that knows the kinds needs no text, because its numbers and names have fields of their own.
#[test]
fn a_text_says_no_more_than_the_fields() {
    for rule in RULES {
        for name in [None, Some("load-7")] {
            let text = rule.describe(0.75, name);
            let value = match rule.unit {
                "share" => percent(0.75),
                "seconds" => format_duration(0.75),
                _ => "0.75".to_owned(),
            };
            let has_value = rule.kind != ClusterFlagKind::VersionMismatch;
            assert_eq!(text.matches(&value).count(), usize::from(has_value), "{text}");
            let has_name =
                [ClusterFlagKind::VersionMismatch, ClusterFlagKind::OversizedGraph].contains(&rule.kind);
            let names = name.map_or(0, |name| text.matches(name).count());
            assert_eq!(names, usize::from(has_name && name.is_some()), "{text}");
            let rest = text.replace(&value, "").replace("load-7", "");
            let digits =
                |text: &str| text.matches(|letter: char| letter.is_ascii_digit()).collect::<String>();
            assert_eq!(digits(&rest), digits(rule.unit), "{text}");
        }
    }
}

#[test]
fn a_value_has_to_last_and_to_fall_for_long_enough() {
    for (values, expected, case) in [
        (vec![80.0; 5], Some((-60_000, NOT_ENDED_KEY, 0.8)), "at the threshold for a minute"),
        (vec![80.0; 4], None, "for less"),
        (vec![79.9; 9], None, "below"),
        (vec![90.0, 79.9, 80.0, 80.0, 80.0, 80.0], None, "not all the time"),
        (vec![10.0, 80.0, 80.0, 95.0, 80.0, 85.0], Some((-60_000, NOT_ENDED_KEY, 0.95)), "the worst counts"),
    ] {
        let flags = history(&[memory(&values)]).remove(0);
        assert_eq!(flags, expected.into_iter().collect::<Vec<_>>(), "{case}");
    }
    let facts_after = |seconds: i64, values: &[f64]| {
        let mut facts = memory(values);
        facts.at += seconds * 1_000;
        let shares = facts
            .cluster
            .share(Metric::MemoryProcess, Metric::MemoryLimit)
            .map(|(at, share)| (at, 100.0 * share));
        facts.cluster = shares.fold(Readings::default(), |readings, (at, value)| {
            let at = at + seconds * 1_000;
            readings.with(at, Metric::MemoryProcess, value).with(at, Metric::MemoryLimit, 100.0)
        });
        facts
    };
    let high = vec![90.0; 5];
    let steps = [
        memory(&high),
        facts_after(60, &[90.0, 70.0, 70.0, 75.0, 79.0]),
        facts_after(120, &[69.0, 71.0, 69.0, 69.0, 69.0]),
        facts_after(180, &[69.0, 69.0, 69.0, 69.0, 69.0]),
        // Within ten minutes the flag reopens. After that a new one is created.
        facts_after(700, &[95.0; 5]),
        facts_after(1_000, &[60.0; 5]),
        facts_after(2_000, &[85.0; 5]),
    ];
    let end = |seconds: i64| AT + seconds * 1_000;
    let history = history(&steps);
    assert_eq!(history[1], [(-60_000, NOT_ENDED_KEY, 0.9)], "between the two it stays");
    assert_eq!(history[2], [(-60_000, NOT_ENDED_KEY, 0.9)], "not for long enough");
    assert_eq!(history[3], [(-60_000, end(120), 0.9)]);
    assert_eq!(history[4], [(-60_000, NOT_ENDED_KEY, 0.95)]);
    assert_eq!(history[5], [(-60_000, end(940), 0.95)]);
    assert_eq!(history[6], [(-60_000, end(940), 0.95), (1_940_000, NOT_ENDED_KEY, 0.85)]);
}

#[test]
fn what_closes_or_falls_silent_has_no_flags_that_last() {
    let closed = FlagFacts { is_over: true, ..memory(&[90.0; 5]) };
    assert_eq!(history(std::slice::from_ref(&closed)), [[(-60_000, AT, 0.9)]]);
    assert_eq!(
        history(&[memory(&[90.0; 5]), closed, memory(&[90.0; 5])])[2],
        [(-60_000, NOT_ENDED_KEY, 0.9)]
    );
    let silent = FlagFacts { at: AT, is_over: true, ..FlagFacts::default() };
    assert_eq!(history(&[memory(&[90.0; 5]), silent])[1], [(-60_000, AT, 0.9)]);
}

fn only(facts: &FlagFacts) -> Flag {
    let mut changed = decide(facts, &[]).changed;
    assert_eq!(changed.len(), 1, "{changed:?}");
    changed.remove(0)
}

#[test]
fn the_worst_worker_is_named() {
    let worker_readings =
        |number, values: &[f64]| (worker(number), share(Metric::MemoryProcess, Metric::MemoryLimit, values));
    let facts = |workers| FlagFacts { at: AT, workers, ..FlagFacts::default() };
    let flag = only(&facts(vec![
        worker_readings(1, &[10.0, 10.0, 10.0]),
        worker_readings(2, &[81.0, 85.0, 82.0]),
        worker_readings(3, &[80.0, 80.0, 80.0]),
    ]));
    assert_eq!(
        (flag.kind, flag.worker, flag.since),
        (ClusterFlagKind::WorkerMemoryPressure, Some(worker(2)), AT - 30_000)
    );
    assert!((flag.value - 0.85).abs() < 1e-12);
    assert_eq!(decide(&facts(vec![worker_readings(1, &[80.0, 79.0, 80.0])]), &[]), Decision::default());
}

#[test]
fn half_of_the_workers_without_a_task_are_too_many() {
    let worker_readings = |number, executing: f64, ready: f64| {
        let readings = (0..5).fold(Readings::default(), |readings, back| {
            let at = AT - back * 15_000;
            readings.with(at, Metric::TasksExecuting, executing).with(at, Metric::TasksReady, ready)
        });
        (worker(number), readings)
    };
    let kinds = |workers: Vec<_>| {
        let facts = FlagFacts { at: AT, workers, ..FlagFacts::default() };
        decide(&facts, &[])
            .changed
            .into_iter()
            .map(|flag| (flag.kind, flag.value, flag.worker))
            .collect::<Vec<_>>()
    };
    let unbalanced = |value, number| vec![(ClusterFlagKind::UnbalancedWorkers, value, Some(worker(number)))];
    assert_eq!(kinds(vec![worker_readings(1, 0.0, 0.0), worker_readings(2, 4.0, 10.0)]), unbalanced(0.5, 2));
    assert_eq!(
        kinds(vec![
            worker_readings(1, 0.0, 0.0),
            worker_readings(2, 4.0, 20.0),
            worker_readings(3, 0.0, 0.0)
        ]),
        unbalanced(2.0 / 3.0, 2)
    );
    assert_eq!(
        kinds(vec![worker_readings(1, 0.0, 0.0), worker_readings(2, 4.0, 9.0)]),
        [],
        "that is soon done"
    );
    assert_eq!(
        kinds(vec![worker_readings(1, 1.0, 0.0), worker_readings(2, 4.0, 90.0)]),
        [],
        "all have something"
    );
    assert_eq!(
        kinds(vec![
            worker_readings(1, 0.0, 0.0),
            worker_readings(2, 4.0, 90.0),
            worker_readings(3, 4.0, 0.0)
        ]),
        [],
        "most have something"
    );
}

#[test]
fn a_cluster_keeps_so_many_flags_and_the_newest() {
    let ended = |number: usize| Flag {
        id: Some(FlagId(uuid::Uuid::from_u128(number as u128 + 1))),
        kind: ClusterFlagKind::Idle,
        since: 0,
        ended_key: i64::try_from(number).expect("few") * 1_000,
        threshold: 1.0,
        value: 1.0,
        worker: None,
        error_group: None,
        name: None,
    };
    let stored_flags: Vec<Flag> = (0..MAX_FLAGS).map(ended).collect();
    assert_eq!(decide(&memory(&[10.0; 5]), &stored_flags), Decision::default());
    let decision = decide(&memory(&[90.0; 5]), &stored_flags);
    assert_eq!(decision.changed.len(), 1);
    assert_eq!(decision.removed, [stored_flags[0].id.expect("it has one")]);
}

#[test]
fn versions_are_compared_where_they_are_told() {
    use std::collections::BTreeMap;
    /// Packages by name, with their versions.
    type Packages<'a> = &'a [(&'a str, Option<&'a str>)];
    let packages = |list: Packages| -> BTreeMap<String, Option<String>> {
        list.iter().map(|(name, version)| ((*name).to_owned(), version.map(str::to_owned))).collect()
    };
    let differing = |versions: &[(Option<&str>, Packages)]| {
        let packages: Vec<_> = versions.iter().map(|(_, list)| packages(list)).collect();
        let processes = versions.iter().zip(&packages);
        super::mismatched_packages(
            processes.map(|((python, _), packages)| Process { python: *python, packages }),
        )
    };
    let dask: &[_] = &[("dask", Some("2026.8.0")), ("numpy", None)];
    assert_eq!(differing(&[(Some("3.12.1"), dask), (None, &[("numpy", Some("2"))])]), Vec::<String>::new());
    assert_eq!(
        differing(&[(Some("3.12.1"), dask), (Some("3.12.2"), &[("dask", Some("2026.7.0"))])]),
        ["dask", "python"]
    );
    assert_eq!(
        differing(&[(None, &[("black", Some("1"))]), (None, &[("black", Some("2"))])]),
        Vec::<String>::new()
    );
}
