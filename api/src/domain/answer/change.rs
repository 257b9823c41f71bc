//! Answers about the differences from a successful earlier run and their cost.

use super::{
    Answer, AnswerCode as Code, Confidence, Evidence, Phrase, Value, Verdict,
    baseline::Baseline,
    lost_time::{RELEASE_WITH_METRICS, rate_share, uses_cpu},
    share_of, to_f64,
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
    Answer::not_collected(Code::NoBaseline)
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
    /// The size.
    pub size: Size,
    /// The size in the earlier run.
    pub from: Option<i64>,
    /// The size in this run.
    pub to: Option<i64>,
}

/// A size of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The peak number of workers.
    Workers,
    /// The peak number of threads.
    Threads,
    /// The number of threads of a worker.
    WorkerThreads,
    /// The memory limit of a worker, in bytes.
    WorkerMemory,
}

impl SizeChange {
    /// Returns the change as a phrase. `None` if there is none, or if it is unknown.
    fn describe(&self) -> Option<Phrase> {
        let (from, to) = (self.from?, self.to?);
        if from == to {
            return None;
        }
        let bytes = |count| Value::Bytes(to_f64(count));
        let (code, unit) = match self.size {
            Size::Workers => (Code::PeakWorkersChanged, "workers"),
            Size::Threads => (Code::PeakThreadsChanged, "threads"),
            Size::WorkerThreads => (Code::WorkerThreadsChanged, "threads"),
            Size::WorkerMemory if bytes(from).in_words() == bytes(to).in_words() => {
                (Code::WorkerMemoryChangedSlightly, "bytes")
            }
            Size::WorkerMemory => {
                return Some(Code::WorkerMemoryChanged.with("from", bytes(from)).with("to", bytes(to)));
            }
        };
        Some(code.with("from", Value::Count(from, unit)).with("to", Value::Count(to, unit)))
    }
}

/// Answers what changed since the earlier run.
#[must_use]
pub fn answer_changes(facts: &ChangeFacts<'_>) -> Answer {
    let mut changes: Vec<Phrase> = facts.software.all().map(software_change).collect();
    if facts.code_changed == Some(true) {
        changes.push(Code::CodeChanged.into());
    }
    changes.extend(facts.sizes.iter().filter_map(SizeChange::describe));
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let (all, more) = (count(changes.len()), count(changes.len().saturating_sub(NAMED)));
    let changes_of = |count| Value::Count(count, "changes");
    let phrase = if changes.is_empty() {
        Phrase::from(Code::NothingChanged)
    } else {
        Phrase::from(Code::ThingsChanged).with_any("more", (more > 0).then(|| changes_of(more)))
    };
    let phrase = phrase.with("changes", changes_of(all)).with("cluster", facts.against.as_value());
    let software = (!facts.software_known).then(|| Phrase::from(Code::SoftwareNotStored));
    let verdict = if changes.is_empty() { Verdict::Good } else { Verdict::Notice };
    let (verdict, confidence) = match (facts.software_known, changes.is_empty()) {
        (true, _) => (verdict, Confidence::Measured),
        (false, true) => (Verdict::Unknown, Confidence::Estimated),
        (false, false) => (verdict, Confidence::Estimated),
    };
    Answer::new(verdict, confidence, phrase)
        .qualified(changes.iter().take(NAMED).cloned().chain(software))
        .value(to_f64(all), "changes")
        .with_evidence(
            std::iter::once(facts.against.evidence()).chain(changes.into_iter().map(Evidence::new)),
        )
}

fn software_change(change: &Change) -> Phrase {
    let code = match (&change.from[..], &change.to[..]) {
        ([], _) => Code::SoftwareAdded,
        (_, []) => Code::SoftwareRemoved,
        _ => Code::SoftwareChanged,
    };
    let versions = |versions: &[String]| -> Vec<Value> {
        versions.iter().map(|version| version.as_str().into()).collect()
    };
    code.with("name", change.name.as_str().into())
        .with_any("from", versions(&change.from))
        .with_any("to", versions(&change.to))
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
    if let Some(answer) = refuse_unknown_times(base, head, facts.against) {
        return answer;
    }
    let delta = head.total - base.total;
    let (spent, more) = (head.total.value(), delta.value());
    let grown: Vec<(Phrase, f64)> = facts
        .differences
        .iter()
        .filter(|row| row.delta() > Millionths::default())
        .filter_map(|row| Some((spent_part(&row.key)?, row.delta().value())))
        .collect();
    let grew = more / base.total.value();
    let phrase = if delta == Millionths::default() {
        Phrase::from(Code::AsMuchTime)
    } else if more < 0.0 {
        Code::LessTime.with("less", Value::ThreadSeconds(-more))
    } else {
        Code::MoreTime.with("more", Value::ThreadSeconds(more)).with("growth", Value::Share(grew))
    };
    let top = grown.first().cloned();
    let phrase = phrase
        .with("time", Value::ThreadSeconds(spent))
        .with_any("cluster", facts.against.map(Baseline::as_value))
        .with_any("grown", top.as_ref().map(|(_, grown)| Value::ThreadSeconds(*grown)));
    let rows = grown.into_iter().map(|(part, grown)| Evidence::of(part, grown, THREAD_SECONDS));
    Answer::measured(rate_share(grew, SLOWER), phrase)
        .qualified(top.map(|(part, _)| part))
        .value(more, THREAD_SECONDS)
        .share((more > 0.0).then(|| more / head.total.value()))
        .with_evidence(facts.against.map(Baseline::evidence).into_iter().chain(rows))
}

/// Returns an answer with the reason if the times of the two works cannot be compared.
fn refuse_unknown_times(base: &Table, head: &Table, against: Option<&Baseline>) -> Option<Answer> {
    let known = |table: &Table| {
        table.without_metrics == 0 && table.without_threads == 0 && table.total != Millionths::default()
    };
    let phrase = match (known(base), known(head)) {
        (true, true) => return None,
        (false, true) => {
            Phrase::from(Code::EarlierTimesNotStored).with_any("cluster", against.map(Baseline::as_value))
        }
        (true, false) => Code::TimesNotStored.into(),
        (false, false) => Code::TimesOfBothNotStored.into(),
    };
    let phrase = phrase.with("release", RELEASE_WITH_METRICS.into()).with("class", "TASKS".into());
    Some(Answer::not_collected(phrase).with_evidence(against.map(Baseline::evidence)))
}

/// Returns a part of the thread time as a phrase. `None` for overcounted time, which is subtracted: less
/// of it increases the sum, although nothing took longer.
fn spent_part(key: &RowKey) -> Option<Phrase> {
    Some(match key.part {
        ValueKind::Tasks | ValueKind::OutsideTasks => Phrase::from(Code::TimeOfTasks)
            .with_any("span", key.path.as_ref().map(|path| path.join("/").as_str().into()))
            .with_any("function", key.function.as_deref().map(Value::from))
            .with_any("activity", key.activity.as_deref().map(Value::from)),
        ValueKind::Idle => Code::TimeOfIdleThreads.into(),
        ValueKind::NotCollected => Code::TimeNotMeasured.into(),
        ValueKind::Overcounted => return None,
    })
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
        let phrase = Code::ScalingUnknown.with("time", Value::ThreadSeconds(0.0));
        return Answer::new(Verdict::Unknown, Confidence::NotAttributable, phrase)
            .with_evidence([facts.against.evidence()]);
    }
    let (base_total, head_total) = (facts.base.total.value(), facts.head.total.value());
    let work = head_cpu / base_cpu;
    let lost = (head_total - head_cpu) - (base_total - base_cpu) * work;
    let mut parts: Vec<(Phrase, f64)> = facts
        .differences
        .iter()
        .filter(|row| !is_cpu(&row.key))
        .filter_map(|row| {
            let (base, head) = (row.base.unwrap_or_default().value(), row.head.unwrap_or_default().value());
            Some((spent_part(&row.key)?, head - base * work))
        })
        .filter(|(_, lost)| *lost > 0.0)
        .collect();
    // The sort is stable, so equal parts keep the order of the differences.
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = share_of(lost, head_total).unwrap_or(0.0);
    let efficiency = |cpu: f64, total: f64| Value::Share(share_of(cpu, total).unwrap_or(0.0));
    let (before, now) = facts.threads;
    let threads = |count| Value::Count(count, "threads");
    let code = if lost > 0.0 { Code::MoreTimeLost } else { Code::NoMoreTimeLost };
    let phrase = code
        .with("threads", threads(now))
        .with_any("threadsBefore", (before != now).then(|| threads(before)))
        .with("share", efficiency(head_cpu, head_total))
        .with("shareBefore", efficiency(base_cpu, base_total))
        .with("cluster", facts.against.as_value())
        .with("lost", Value::ThreadSeconds(lost.max(0.0)));
    let top = parts.first().filter(|_| lost > 0.0).map(|(part, _)| part.clone());
    let rows = parts.into_iter().map(|(part, lost)| Evidence::of(part, lost, THREAD_SECONDS));
    Answer::measured(rate_share(share, NEWLY_LOST), phrase)
        .qualified(top)
        .value(lost.max(0.0), THREAD_SECONDS)
        .share(Some(share))
        .with_evidence(std::iter::once(facts.against.evidence()).chain(rows))
}
