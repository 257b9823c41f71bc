//! Answers about the differences from a successful earlier run and their cost.

use super::{
    Answer, Confidence, Evidence, Verdict,
    baseline::Baseline,
    bytes, count_text, format_duration,
    lost_time::{join_clauses, rate_share, uses_cpu},
    percent, share_of,
};
use crate::domain::{
    breakdown::{RowKey, Table, ValueKind},
    comparison::{Change, Difference, SoftwareChange},
    fixed_point::Millionths,
};

/// The relative growth of thread time from which a slowdown is notable, and from which it is bad.
const SLOWER: (f64, f64) = (0.1, 0.5);

/// The newly lost share of thread time from which the loss is notable, and from which the run scales
/// badly.
const NEWLY_LOST: (f64, f64) = (0.1, 0.25);

/// The number of changes that a headline lists.
const NAMED: usize = 3;

const THREAD_SECONDS: &str = "thread-seconds";

/// Returns the answer for a cluster without a comparable earlier run.
#[must_use]
pub fn without_baseline() -> Answer {
    Answer::not_collected(
        "There is nothing to compare it with: no earlier cluster of its user closed without errors and has the same \
         name, the same outermost spans or most of its functions; ask with a baseline.",
    )
}

/// The facts for the question about changes since an earlier run.
#[derive(Clone, Debug)]
pub struct ChangeFacts<'a> {
    /// The earlier run.
    pub against: &'a Baseline,
    /// The differences in software.
    pub software: &'a SoftwareChange,
    /// True if the software of both runs is known.
    pub software_known: bool,
    /// True if the code that called Dask differs. `None` unless it is known for both runs.
    pub code_changed: Option<bool>,
    /// The sizes of the clusters.
    pub sizes: &'a [SizeChange],
}

/// A size of a cluster in the earlier run and in this one. `None` is unknown.
#[derive(Clone, Copy, Debug)]
pub struct SizeChange {
    /// The name of the size.
    pub name: &'static str,
    /// The size in the earlier run.
    pub from: Option<i64>,
    /// The size in this run.
    pub to: Option<i64>,
    /// True if the sizes are bytes.
    pub in_bytes: bool,
}

impl SizeChange {
    /// Describes the change. `None` if there is none, or if it is unknown.
    fn describe(&self) -> Option<String> {
        let (from, to) = (self.from?, self.to?);
        if from == to {
            return None;
        }
        let (name, rounded) = (self.name, |count| bytes(super::to_f64(count)));
        Some(if !self.in_bytes {
            format!("{name} {from} → {to}")
        } else if rounded(from) == rounded(to) {
            format!("{name} {from} → {to} bytes")
        } else {
            format!("{name} {} → {}", rounded(from), rounded(to))
        })
    }
}

/// Answers what changed since the earlier run.
#[must_use]
pub fn answer_changes(facts: &ChangeFacts<'_>) -> Answer {
    let mut changes: Vec<String> = facts.software.all().map(described).collect();
    if facts.code_changed == Some(true) {
        changes.push("the code that called Dask".to_owned());
    }
    changes.extend(facts.sizes.iter().filter_map(SizeChange::describe));
    let count = i64::try_from(changes.len()).unwrap_or(i64::MAX);
    let since = facts.against.name();
    let mut said = vec![if changes.is_empty() {
        format!("Nothing that is known of it changed since {since}, 0 changes")
    } else {
        let named = changes.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let more = changes.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} since {since}: {named}{more}", count_text(count, "thing changed", "things changed"))
    }];
    if !facts.software_known {
        said.push("; what software one of the two ran on is not stored".to_owned());
    }
    let verdict = if changes.is_empty() { Verdict::Good } else { Verdict::Notice };
    let (verdict, confidence) = match (facts.software_known, changes.is_empty()) {
        (true, _) => (verdict, Confidence::Measured),
        (false, true) => (Verdict::Unknown, Confidence::Estimated),
        (false, false) => (verdict, Confidence::Estimated),
    };
    let evidence = changes.into_iter().map(Evidence::new);
    Answer::new(verdict, confidence, join_clauses(&said))
        .value(super::to_f64(count), "changes")
        .with_evidence(std::iter::once(facts.against.evidence()).chain(evidence))
}

fn described(change: &Change) -> String {
    let versions = |versions: &[String]| versions.join(" and ");
    match (&change.from[..], &change.to[..]) {
        ([], to) => format!("{} {} was added", change.name, versions(to)),
        (from, []) => format!("{} {} was removed", change.name, versions(from)),
        (from, to) => format!("{} {} → {}", change.name, versions(from), versions(to)),
    }
}

/// The facts for the question about slower work.
#[derive(Clone, Debug)]
pub struct Slower<'a> {
    /// The first work.
    pub base: &'a Table,
    /// The second work.
    pub head: &'a Table,
    /// The differences between their parts, the largest first.
    pub differences: &'a [Difference],
    /// The earlier run, if the first work is one.
    pub against: Option<&'a Baseline>,
}

/// Answers where more time is spent than before.
#[must_use]
pub fn answer_slower(facts: &Slower<'_>) -> Answer {
    let (base, head) = (facts.base, facts.head);
    let since = facts.against.map_or_else(|| "the first work".to_owned(), Baseline::name);
    if let Some(answer) = refuse_unknown_times(base, head, facts.against) {
        return answer;
    }
    let delta = head.total - base.total;
    let (spent, more) = (format_duration(head.total.value()), delta.value());
    let grown: Vec<&Difference> = facts
        .differences
        .iter()
        .filter(|row| row.delta() > Millionths::default() && is_spent_time(&row.key))
        .collect();
    let grew = more / base.total.value();
    let mut said = vec![if delta == Millionths::default() {
        format!("It spent {spent} of thread time, as much as {since}")
    } else if more < 0.0 {
        format!("It spent {spent} of thread time, {} less than {since}", format_duration(-more))
    } else {
        format!(
            "It spent {spent} of thread time, {} more than {since}, {}",
            format_duration(more),
            percent(grew)
        )
    }];
    if let Some(top) = grown.first() {
        said.push(format!("; {} more in {}", format_duration(top.delta().value()), part_text(&top.key)));
    }
    let rows = grown.iter().map(|row| Evidence::of(part_text(&row.key), row.delta().value(), THREAD_SECONDS));
    Answer::measured(rate_share(grew, SLOWER), join_clauses(&said))
        .value(more, THREAD_SECONDS)
        .share((more > 0.0).then(|| more / head.total.value()))
        .with_evidence(facts.against.map(Baseline::evidence).into_iter().chain(rows))
}

/// Returns true if this part is time that was spent. Overcounted time is subtracted: less of it increases
/// the sum, although nothing took longer.
fn is_spent_time(key: &RowKey) -> bool {
    key.part != ValueKind::Overcounted
}

/// Returns an answer with the reason if the times of the two works cannot be compared.
fn refuse_unknown_times(base: &Table, head: &Table, against: Option<&Baseline>) -> Option<Answer> {
    let known = |table: &Table| {
        table.without_metrics == 0 && table.without_threads == 0 && table.total != Millionths::default()
    };
    let which = match (known(base), known(head)) {
        (true, true) => return None,
        (false, true) => against.map_or_else(|| "the first work".to_owned(), Baseline::name),
        (true, false) => "it".to_owned(),
        (false, false) => "both".to_owned(),
    };
    let headline = format!(
        "Where the thread time of {which} went is not stored in full: Dask tells of it since 2023.7, once tasks ran, \
         unless the data class TASKS is refused."
    );
    Some(Answer::not_collected(headline).with_evidence(against.map(Baseline::evidence)))
}

/// Describes a part of the thread time in words.
fn part_text(key: &RowKey) -> String {
    match key.part {
        ValueKind::Tasks | ValueKind::OutsideTasks => {
            let path = key.path.as_ref().map(|path| path.join("/"));
            let names = [path.as_deref(), key.function.as_deref(), key.activity.as_deref()];
            let names: Vec<&str> = names.into_iter().flatten().collect();
            if names.is_empty() { "tasks".to_owned() } else { names.join(", ") }
        }
        ValueKind::Idle => "threads without a task".to_owned(),
        ValueKind::Overcounted => "what was counted more than once".to_owned(),
        ValueKind::NotCollected => "time of which nothing was measured".to_owned(),
    }
}

/// The facts for the question about scaling.
#[derive(Clone, Debug)]
pub struct Scaling<'a> {
    /// The earlier run.
    pub against: &'a Baseline,
    /// The thread time of the earlier run, by function and activity.
    pub base: &'a Table,
    /// The thread time of this run.
    pub head: &'a Table,
    /// The differences between their parts.
    pub differences: &'a [Difference],
    /// The peak numbers of threads of both runs.
    pub threads: (i64, i64),
}

/// Answers where new inefficiency arose with more or other workers. Inefficiency is thread time in which
/// no task used the CPU. It is new as far as it exceeds the earlier run's inefficiency, scaled by the
/// ratio of CPU time.
#[must_use]
pub fn answer_scaling(facts: &Scaling<'_>) -> Answer {
    if let Some(answer) = refuse_unknown_times(facts.base, facts.head, Some(facts.against)) {
        return answer;
    }
    let is_cpu = |key: &RowKey| key.part == ValueKind::Tasks && key.activity.as_deref().is_some_and(uses_cpu);
    let (mut base_cpu, mut head_cpu) = (0.0, 0.0);
    for row in facts.differences.iter().filter(|row| is_cpu(&row.key)) {
        base_cpu += row.base.unwrap_or_default().value();
        head_cpu += row.head.unwrap_or_default().value();
    }
    if base_cpu <= 0.0 || head_cpu <= 0.0 {
        let headline =
            "How well it scales cannot be told: tasks of one of the two used no CPU, 0 s.".to_owned();
        return Answer::new(Verdict::Unknown, Confidence::NotAttributable, headline)
            .with_evidence([facts.against.evidence()]);
    }
    let (base_total, head_total) = (facts.base.total.value(), facts.head.total.value());
    let work = head_cpu / base_cpu;
    let lost = (head_total - head_cpu) - (base_total - base_cpu) * work;
    let mut parts: Vec<(String, f64)> = facts
        .differences
        .iter()
        .filter(|row| !is_cpu(&row.key) && is_spent_time(&row.key))
        .map(|row| {
            let (base, head) = (row.base.unwrap_or_default().value(), row.head.unwrap_or_default().value());
            (part_text(&row.key), head - base * work)
        })
        .filter(|(_, lost)| *lost > 0.0)
        .collect();
    // The sort is stable, so equal parts keep the order of the differences.
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = share_of(lost, head_total).unwrap_or(0.0);
    let efficiency = |cpu: f64, total: f64| percent(share_of(cpu, total).unwrap_or(0.0));
    let (before, now) = facts.threads;
    let threads = if before == now {
        format!("With {} as before", count_text(now, "thread", "threads"))
    } else {
        format!("With {} instead of {before}", count_text(now, "thread", "threads"))
    };
    let mut said = vec![format!(
        "{threads}, tasks used the CPU for {} of the thread time, and for {} in {}",
        efficiency(head_cpu, head_total),
        efficiency(base_cpu, base_total),
        facts.against.name(),
    )];
    let verdict = rate_share(share, NEWLY_LOST);
    if lost > 0.0 {
        said.push(format!(": {} were lost beyond what that lost for the same work", format_duration(lost)));
        if let Some((top, _)) = parts.first() {
            said.push(format!(", most of it to {top}"));
        }
    } else {
        said.push(": nothing was lost anew, 0 s".to_owned());
    }
    let rows = parts.into_iter().map(|(part, lost)| Evidence::of(part, lost, THREAD_SECONDS));
    Answer::measured(verdict, join_clauses(&said))
        .value(lost.max(0.0), THREAD_SECONDS)
        .share(Some(share))
        .with_evidence(std::iter::once(facts.against.evidence()).chain(rows))
}
