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
    pub baseline: &'a Baseline,
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
    let (total, unnamed) = (count(changes.len()), count(changes.len().saturating_sub(NAMED)));
    let changes_of = |count| Value::Count(count, "changes");
    let phrase = if changes.is_empty() {
        Phrase::from(Code::NothingChanged)
    } else {
        Phrase::from(Code::ThingsChanged).with_any("more", (unnamed > 0).then(|| changes_of(unnamed)))
    };
    let phrase = phrase.with("changes", changes_of(total)).with("cluster", facts.baseline.as_value());
    let software = (!facts.software_known).then(|| Phrase::from(Code::SoftwareNotStored));
    let verdict = if changes.is_empty() { Verdict::Good } else { Verdict::Notice };
    let (verdict, confidence) = match (facts.software_known, changes.is_empty()) {
        (true, _) => (verdict, Confidence::Measured),
        (false, true) => (Verdict::Unknown, Confidence::Estimated),
        (false, false) => (verdict, Confidence::Estimated),
    };
    Answer::new(verdict, confidence, phrase)
        .qualified(changes.iter().take(NAMED).cloned().chain(software))
        .value(to_f64(total), "changes")
        .with_evidence(
            std::iter::once(facts.baseline.evidence()).chain(changes.into_iter().map(Evidence::new)),
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
    pub baseline: Option<&'a Baseline>,
}

/// Answers where more time is spent than before.
#[must_use]
pub fn answer_slower(facts: &Slower<'_>) -> Answer {
    let (base, head) = (facts.base, facts.head);
    if let Some(answer) = refuse_unknown_times(base, head, facts.baseline) {
        return answer;
    }
    let delta = head.total - base.total;
    let (spent_seconds, additional_seconds) = (head.total.value(), delta.value());
    let increases: Vec<(Phrase, f64)> = facts
        .differences
        .iter()
        .filter(|row| row.delta() > Millionths::default())
        .filter_map(|row| Some((spent_part(&row.key)?, row.delta().value())))
        .collect();
    let growth = additional_seconds / base.total.value();
    let phrase = if delta == Millionths::default() {
        Phrase::from(Code::AsMuchTime)
    } else if additional_seconds < 0.0 {
        Code::LessTime.with("less", Value::ThreadSeconds(-additional_seconds))
    } else {
        Code::MoreTime
            .with("more", Value::ThreadSeconds(additional_seconds))
            .with("growth", Value::Share(growth))
    };
    let top = increases.first().cloned();
    let phrase = phrase
        .with("time", Value::ThreadSeconds(spent_seconds))
        .with_any("cluster", facts.baseline.map(Baseline::as_value))
        .with_any("grown", top.as_ref().map(|(_, increase)| Value::ThreadSeconds(*increase)));
    let rows = increases.into_iter().map(|(phrase, increase)| Evidence::of(phrase, increase, THREAD_SECONDS));
    Answer::measured(rate_share(growth, SLOWER), phrase)
        .qualified(top.map(|(phrase, _)| phrase))
        .value(additional_seconds, THREAD_SECONDS)
        .share((additional_seconds > 0.0).then(|| additional_seconds / head.total.value()))
        .with_evidence(facts.baseline.map(Baseline::evidence).into_iter().chain(rows))
}

/// Returns an answer with the reason if the times of the two works cannot be compared.
fn refuse_unknown_times(base: &Table, head: &Table, baseline: Option<&Baseline>) -> Option<Answer> {
    let is_known = |table: &Table| {
        table.without_metrics == 0 && table.without_threads == 0 && table.total != Millionths::default()
    };
    let phrase = match (is_known(base), is_known(head)) {
        (true, true) => return None,
        (false, true) => {
            Phrase::from(Code::EarlierTimesNotStored).with_any("cluster", baseline.map(Baseline::as_value))
        }
        (true, false) => Code::TimesNotStored.into(),
        (false, false) => Code::TimesOfBothNotStored.into(),
    };
    let phrase = phrase.with("release", RELEASE_WITH_METRICS.into()).with("class", "TASKS".into());
    Some(Answer::not_collected(phrase).with_evidence(baseline.map(Baseline::evidence)))
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
    pub baseline: &'a Baseline,
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
    if let Some(answer) = refuse_unknown_times(facts.base, facts.head, Some(facts.baseline)) {
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
            .with_evidence([facts.baseline.evidence()]);
    }
    let (base_total, head_total) = (facts.base.total.value(), facts.head.total.value());
    let work = head_cpu / base_cpu;
    let lost_seconds = (head_total - head_cpu) - (base_total - base_cpu) * work;
    let mut lost_times: Vec<(Phrase, f64)> = facts
        .differences
        .iter()
        .filter(|row| !is_cpu(&row.key))
        .filter_map(|row| {
            let (base, head) = (row.base.unwrap_or_default().value(), row.head.unwrap_or_default().value());
            Some((spent_part(&row.key)?, head - base * work))
        })
        .filter(|(_, lost_seconds)| *lost_seconds > 0.0)
        .collect();
    // The sort is stable, so equal times keep the order of the differences.
    lost_times.sort_by(|a, b| b.1.total_cmp(&a.1));
    let share = share_of(lost_seconds, head_total).unwrap_or(0.0);
    let efficiency = |cpu: f64, total: f64| Value::Share(share_of(cpu, total).unwrap_or(0.0));
    let (earlier_threads, current_threads) = facts.threads;
    let threads = |count| Value::Count(count, "threads");
    let code = if lost_seconds > 0.0 { Code::MoreTimeLost } else { Code::NoMoreTimeLost };
    let phrase = code
        .with("threads", threads(current_threads))
        .with_any("threadsBefore", (earlier_threads != current_threads).then(|| threads(earlier_threads)))
        .with("share", efficiency(head_cpu, head_total))
        .with("shareBefore", efficiency(base_cpu, base_total))
        .with("cluster", facts.baseline.as_value())
        .with("lost", Value::ThreadSeconds(lost_seconds.max(0.0)));
    let top = lost_times.first().filter(|_| lost_seconds > 0.0).map(|(phrase, _)| phrase.clone());
    let rows = lost_times
        .into_iter()
        .map(|(phrase, lost_seconds)| Evidence::of(phrase, lost_seconds, THREAD_SECONDS));
    Answer::measured(rate_share(share, NEWLY_LOST), phrase)
        .qualified(top)
        .value(lost_seconds.max(0.0), THREAD_SECONDS)
        .share(Some(share))
        .with_evidence(std::iter::once(facts.baseline.evidence()).chain(rows))
}
