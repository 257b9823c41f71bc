//! The comparison with an earlier run.

use std::collections::BTreeSet;

use super::Case;
use crate::domain::{
    answer::{why_running::tests::at, *},
    breakdown::{Row, RowKey, Table, ValueKind},
    comparison::{Change, SoftwareChange, differences},
    fixed_point::Millionths,
};

pub(super) fn changes() -> Vec<Case> {
    let change = |name: &str, from: &[&str], to: &[&str]| {
        let list = |versions: &[&str]| versions.iter().map(|version| (*version).to_owned()).collect();
        Change { name: name.to_owned(), from: list(from), to: list(to) }
    };
    let baseline = Baseline { id: ClusterId(5), started_at: at(0), likeness: BaselineReason::Requested };
    let software = SoftwareChange {
        python: Some(change("Python", &["3.11"], &["3.12", "3.13"])),
        added: vec![change("pandas", &[], &["2.2"])],
        removed: vec![change("lz4", &["4.3"], &[])],
        ..SoftwareChange::default()
    };
    let none = SoftwareChange::default();
    let case = |software: &SoftwareChange, software_known, code_changed, sizes: &[SizeChange], headline| {
        let facts = ChangeFacts { baseline: &baseline, software, software_known, code_changed, sizes };
        (Question::WhatChanged, answer_changes(&facts), headline)
    };
    let size = |size, from, to| SizeChange { size, from: Some(from), to: Some(to) };
    let gib = 1 << 30;
    vec![
        (
            Question::WhatChanged,
            without_baseline(),
            "No earlier run can be compared with it: no earlier cluster of its user closed without errors and has the same \
             name, the same outermost spans or most of its functions; ask with a baseline.",
        ),
        case(
            &none,
            true,
            None,
            &[size(Size::Workers, 2, 2)],
            "No known property changed since cluster 5: 0 changes.",
        ),
        case(
            &software,
            true,
            Some(true),
            &[],
            "4 things changed since cluster 5: Python 3.11 → 3.12 and 3.13, pandas 2.2 was added, lz4 4.3 was removed and \
             1 more.",
        ),
        case(
            &none,
            false,
            Some(true),
            &[],
            "1 thing changed since cluster 5: the code that called Dask; what software one of the two ran on is not \
             stored.",
        ),
        case(
            &none,
            true,
            None,
            &[size(Size::Workers, 2, 4), size(Size::Threads, 8, 16), size(Size::WorkerThreads, 4, 1)],
            "3 things changed since cluster 5: workers at most 2 → 4, threads at most 8 → 16, threads of a worker 4 → 1.",
        ),
        case(
            &none,
            true,
            None,
            &[size(Size::WorkerMemory, gib, 2 * gib)],
            "1 thing changed since cluster 5: memory limit of a worker 1.0 GiB → 2.0 GiB.",
        ),
        case(
            &none,
            true,
            None,
            &[size(Size::WorkerMemory, gib, gib + 1)],
            "1 thing changed since cluster 5: memory limit of a worker 1073741824 → 1073741825 bytes.",
        ),
    ]
}

/// A table with thread time on the CPU and off it, without a task, and without measurements.
fn table([cpu, noncpu, idle, unmeasured]: [f64; 4]) -> Table {
    let key = |part, activity: Option<&str>| RowKey {
        part,
        span_attributable: true,
        path: None,
        tag: None,
        context: None,
        function: activity.map(|_| "f7".to_owned()),
        activity: activity.map(str::to_owned),
        cluster: None,
        user: None,
    };
    let rows = [
        (key(ValueKind::Tasks, Some("thread-cpu")), cpu),
        (key(ValueKind::Tasks, Some("thread-noncpu")), noncpu),
        (key(ValueKind::Idle, None), idle),
        (key(ValueKind::NotCollected, None), unmeasured),
    ];
    let rows: Vec<Row> = rows
        .into_iter()
        .filter(|(_, value)| *value > 0.0)
        .map(|(key, value)| Row { key, value: Millionths::of(value) })
        .collect();
    Table {
        unit: "seconds".to_owned(),
        units: BTreeSet::new(),
        total: rows.iter().map(|row| row.value).sum(),
        idle: Some(Millionths::of(idle)),
        without_metrics: 0,
        without_threads: 0,
        rows,
    }
}

pub(super) fn comparisons() -> Vec<Case> {
    let baseline = |likeness| Baseline { id: ClusterId(5), started_at: at(0), likeness };
    let [by_name, by_spans, by_functions] =
        [BaselineReason::Name, BaselineReason::Spans, BaselineReason::Functions].map(baseline);
    let slower = |base: [f64; 4], head: [f64; 4], baseline: Option<&Baseline>, headline| {
        let (base, head) = (table(base), table(head));
        let differences = differences(&base, &head);
        let facts = Slower { base: &base, head: &head, differences: &differences, baseline };
        (Question::Slower, answer_slower(&facts), headline)
    };
    let scaling = |base: [f64; 4], head: [f64; 4], threads, baseline: &Baseline, headline| {
        let (base, head) = (table(base), table(head));
        let differences = differences(&base, &head);
        let facts = Scaling { baseline, base: &base, head: &head, differences: &differences, threads };
        (Question::Scaling, answer_scaling(&facts), headline)
    };
    let (busy, idle, nothing) = ([60.0, 20.0, 0.0, 0.0], [60.0, 20.0, 80.0, 0.0], [0.0; 4]);
    vec![
        slower(busy, busy, None, "It spent 1.3 min of thread time, as much as the first work."),
        slower(idle, busy, Some(&by_name), "It spent 1.3 min of thread time, 1.3 min less than cluster 5."),
        slower(
            busy,
            idle,
            Some(&by_spans),
            "It spent 2.7 min of thread time, 1.3 min more than cluster 5, 100 %; 1.3 min more in threads without a task.",
        ),
        slower(
            [60.0, 20.0, 90.0, 0.0],
            [60.0, 50.0, 0.0, 60.0],
            Some(&by_spans),
            "It spent 2.8 min of thread time, as much as cluster 5; 1 min more in time of which nothing was measured.",
        ),
        slower(
            busy,
            nothing,
            Some(&by_name),
            "Where the thread time of it went is not stored in full: Dask 2023.7 and newer report it once tasks ran, unless the account refuses the data class TASKS.",
        ),
        slower(
            nothing,
            busy,
            None,
            "Where the thread time of the first work went is not stored in full: Dask 2023.7 and newer report it once tasks ran, unless the account refuses the data class TASKS.",
        ),
        slower(
            nothing,
            nothing,
            Some(&by_name),
            "Where the thread time of both went is not stored in full: Dask 2023.7 and newer report it once tasks ran, unless the account refuses the data class TASKS.",
        ),
        scaling(
            [0.0, 20.0, 0.0, 0.0],
            busy,
            (8, 8),
            &by_name,
            "How well it scales is not known: the tasks of one of the two used no CPU, 0 s.",
        ),
        scaling(
            busy,
            busy,
            (1, 1),
            &by_functions,
            "With 1 thread as before, tasks used the CPU for 75 % of the thread time, and for 75 % in cluster 5: no more time was lost, 0 s.",
        ),
        scaling(
            busy,
            [60.0, 100.0, 0.0, 0.0],
            (8, 16),
            &by_functions,
            "With 16 threads instead of 8, tasks used the CPU for 38 % of the thread time, and for 75 % in cluster 5: \
             1.3 min more were lost than there for the same work, most of it to f7, thread-noncpu.",
        ),
    ]
}
