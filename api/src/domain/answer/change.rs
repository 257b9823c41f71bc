//! What is different from a run that went well, and what that costs.

use super::{
    Answer, Confidence, Evidence, Verdict,
    baseline::Against,
    duration,
    loss::{sentence, uses_cpu, verdict},
    many, percent, share_of,
};
use crate::domain::{
    breakdown::{Key, Part, Table},
    comparison::{Change, Difference, SoftwareChange},
    millionths::Millionths,
};

/// The part of the earlier run's thread time by which a run may grow before that is worth a look, and from when on
/// something is wrong.
const SLOWER: (f64, f64) = (0.1, 0.5);

/// The part of its thread time that a run may lose beyond what the earlier one lost, and from when on it scales badly.
const NEWLY_LOST: (f64, f64) = (0.1, 0.25);

/// Changes a sentence names.
const NAMED: usize = 3;

const THREAD_SECONDS: &str = "thread-seconds";

/// Nothing to compare with.
#[must_use]
pub fn without_baseline() -> Answer {
    Answer::not_collected(
        "There is nothing to compare it with: no earlier cluster of its user closed without errors and has the same \
         name, the same outermost spans or most of its functions; ask with a baseline.",
    )
}

/// What changed since an earlier run.
#[derive(Clone, Debug)]
pub struct WhatChanged<'a> {
    /// The earlier run.
    pub against: &'a Against,
    /// How the software differs.
    pub software: &'a SoftwareChange,
    /// Whether both runs tell of their software.
    pub told: bool,
    /// Whether other code called Dask, if both tell.
    pub code_changed: Option<bool>,
    /// How large the clusters were: what it is, before and now.
    pub sizes: &'a [(&'static str, Option<i64>, Option<i64>)],
}

/// What changed since it worked?
#[must_use]
pub fn what_changed(facts: &WhatChanged<'_>) -> Answer {
    let mut changes: Vec<String> = facts.software.all().map(described).collect();
    if facts.code_changed == Some(true) {
        changes.push("the code that called Dask".to_owned());
    }
    let sizes = facts.sizes.iter().filter_map(|(what, from, to)| match (from, to) {
        (Some(from), Some(to)) if from != to => Some(format!("{what} {from} → {to}")),
        _ => None,
    });
    changes.extend(sizes);
    let count = i64::try_from(changes.len()).unwrap_or(i64::MAX);
    let since = facts.against.name();
    let mut said = vec![if changes.is_empty() {
        format!("Nothing that is known of it changed since {since}, 0 changes")
    } else {
        let named = changes.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = changes.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} since {since}: {named}{more}", many(count, "thing changed", "things changed"))
    }];
    if !facts.told {
        said.push("; what software one of the two ran on is not stored".to_owned());
    }
    let verdict = if changes.is_empty() { Verdict::Good } else { Verdict::Notice };
    let (verdict, confidence) = match (facts.told, changes.is_empty()) {
        (true, _) => (verdict, Confidence::Measured),
        (false, true) => (Verdict::Unknown, Confidence::Estimated),
        (false, false) => (verdict, Confidence::Estimated),
    };
    let evidence = changes.into_iter().map(Evidence::new);
    Answer::new(verdict, confidence, sentence(&said))
        .value(super::number(count), "changes")
        .because(std::iter::once(facts.against.evidence()).chain(evidence))
}

fn described(change: &Change) -> String {
    let versions = |versions: &[String]| versions.join(" and ");
    match (&change.from[..], &change.to[..]) {
        ([], to) => format!("{} {} was added", change.name, versions(to)),
        (from, []) => format!("{} {} was removed", change.name, versions(from)),
        (from, to) => format!("{} {} → {}", change.name, versions(from), versions(to)),
    }
}

/// What two pieces of work spent.
#[derive(Clone, Debug)]
pub struct Slower<'a> {
    /// The first.
    pub base: &'a Table,
    /// The second.
    pub head: &'a Table,
    /// Their parts, those that differ most first.
    pub differences: &'a [Difference],
    /// The run the first one is, if it is one.
    pub against: Option<&'a Against>,
}

/// Where is more time spent than before?
#[must_use]
pub fn slower(facts: &Slower<'_>) -> Answer {
    let (base, head) = (facts.base, facts.head);
    let since = facts.against.map_or_else(|| "the first work".to_owned(), Against::name);
    if let Some(answer) = without_times(base, head, facts.against) {
        return answer;
    }
    let delta = head.total - base.total;
    let (spent, more) = (duration(head.total.value()), delta.value());
    let grown: Vec<&Difference> = facts
        .differences
        .iter()
        .filter(|row| row.delta() > Millionths::default() && spends(&row.key))
        .collect();
    let grew = more / base.total.value();
    let mut said = vec![if delta == Millionths::default() {
        format!("It spent {spent} of thread time, as much as {since}")
    } else if more < 0.0 {
        format!("It spent {spent} of thread time, {} less than {since}", duration(-more))
    } else {
        format!("It spent {spent} of thread time, {} more than {since}, {}", duration(more), percent(grew))
    }];
    if let Some(top) = grown.first() {
        said.push(format!("; {} more in {}", duration(top.delta().value()), part(&top.key)));
    }
    let rows = grown.iter().map(|row| Evidence::of(part(&row.key), row.delta().value(), THREAD_SECONDS));
    Answer::measured(verdict(grew, SLOWER), sentence(&said))
        .value(more, THREAD_SECONDS)
        .share((more > 0.0).then(|| more / head.total.value()))
        .because(facts.against.map(Against::evidence).into_iter().chain(rows))
}

/// Whether time of this part was spent. What was counted more than once is taken off: less of it makes the sum grow, though
/// nothing took longer.
fn spends(key: &Key) -> bool {
    key.part != Part::Overcounted
}

/// Why the times of two pieces of work cannot be compared, if they cannot.
fn without_times(base: &Table, head: &Table, against: Option<&Against>) -> Option<Answer> {
    let known = |table: &Table| {
        table.without_metrics == 0 && table.without_threads == 0 && table.total != Millionths::default()
    };
    let which = match (known(base), known(head)) {
        (true, true) => return None,
        (false, true) => against.map_or_else(|| "the first work".to_owned(), Against::name),
        (true, false) => "it".to_owned(),
        (false, false) => "both".to_owned(),
    };
    let headline = format!(
        "Where the thread time of {which} went is not stored in full: Dask tells of it since 2023.7, once tasks ran, \
         unless the data class TASKS is refused."
    );
    Some(Answer::not_collected(headline).because(against.map(Against::evidence)))
}

/// What a part of the thread time is, for people.
fn part(key: &Key) -> String {
    match key.part {
        Part::Tasks | Part::Beside => {
            let path = key.path.as_ref().map(|path| path.join("/"));
            let names = [path.as_deref(), key.function.as_deref(), key.activity.as_deref()];
            let names: Vec<&str> = names.into_iter().flatten().collect();
            if names.is_empty() { "tasks".to_owned() } else { names.join(", ") }
        }
        Part::Idle => "threads without a task".to_owned(),
        Part::Overcounted => "what was counted more than once".to_owned(),
        Part::NotCollected => "time of which nothing was measured".to_owned(),
    }
}

/// What two runs spent, and how large they were.
#[derive(Clone, Debug)]
pub struct Scaling<'a> {
    /// The earlier run.
    pub against: &'a Against,
    /// What it spent, by function and activity.
    pub base: &'a Table,
    /// What this one spent.
    pub head: &'a Table,
    /// Their parts.
    pub differences: &'a [Difference],
    /// Most threads at one time, of both.
    pub threads: (i64, i64),
}

/// Where did new inefficiency accrue with more, or other, workers? What counts is thread time in which no task used the
/// CPU, beyond what the earlier run had of it for the same time on the CPU.
#[must_use]
pub fn scaling(facts: &Scaling<'_>) -> Answer {
    if let Some(answer) = without_times(facts.base, facts.head, Some(facts.against)) {
        return answer;
    }
    let is_cpu = |key: &Key| key.part == Part::Tasks && key.activity.as_deref().is_some_and(uses_cpu);
    let (mut base_cpu, mut head_cpu) = (0.0, 0.0);
    for row in facts.differences.iter().filter(|row| is_cpu(&row.key)) {
        base_cpu += row.base.unwrap_or_default().value();
        head_cpu += row.head.unwrap_or_default().value();
    }
    if base_cpu <= 0.0 || head_cpu <= 0.0 {
        let headline =
            "How well it scales cannot be told: tasks of one of the two used no CPU, 0 s.".to_owned();
        return Answer::new(Verdict::Unknown, Confidence::NotAttributable, headline)
            .because([facts.against.evidence()]);
    }
    let (base_total, head_total) = (facts.base.total.value(), facts.head.total.value());
    let work = head_cpu / base_cpu;
    let lost = (head_total - head_cpu) - (base_total - base_cpu) * work;
    let mut parts: Vec<(String, f64)> = facts
        .differences
        .iter()
        .filter(|row| !is_cpu(&row.key) && spends(&row.key))
        .map(|row| {
            let (base, head) = (row.base.unwrap_or_default().value(), row.head.unwrap_or_default().value());
            (part(&row.key), head - base * work)
        })
        .filter(|(_, lost)| *lost > 0.0)
        .collect();
    // Stable, so that equal ones keep the order of the differences.
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = share_of(lost, head_total).unwrap_or(0.0);
    let efficiency = |cpu: f64, total: f64| percent(share_of(cpu, total).unwrap_or(0.0));
    let (before, now) = facts.threads;
    let threads = if before == now {
        format!("With {} as before", many(now, "thread", "threads"))
    } else {
        format!("With {} instead of {before}", many(now, "thread", "threads"))
    };
    let mut said = vec![format!(
        "{threads}, tasks used the CPU for {} of the thread time, and for {} in {}",
        efficiency(head_cpu, head_total),
        efficiency(base_cpu, base_total),
        facts.against.name(),
    )];
    let verdict = verdict(share, NEWLY_LOST);
    if lost > 0.0 {
        said.push(format!(": {} were lost beyond what that lost for the same work", duration(lost)));
        if let Some((top, _)) = parts.first() {
            said.push(format!(", most of it to {top}"));
        }
    } else {
        said.push(": nothing was lost anew, 0 s".to_owned());
    }
    let rows = parts.into_iter().map(|(part, lost)| Evidence::of(part, lost, THREAD_SECONDS));
    Answer::measured(verdict, sentence(&said))
        .value(lost.max(0.0), THREAD_SECONDS)
        .share(Some(share))
        .because(std::iter::once(facts.against.evidence()).chain(rows))
}
