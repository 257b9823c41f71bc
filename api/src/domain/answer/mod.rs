//! Answers to the questions people have about a cluster: from what is known to a verdict, one sentence, and a number
//! with how far it can be trusted. Where nothing was measured the answer says so, and what would have to be done;
//! it never shows a zero that nobody counted.

mod baseline;
mod change;
mod loss;
mod outcome;
mod run_reason;

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use entity::ids::{ClusterId, ComputationId, ErrorGroupId, WorkerId};

pub use self::{
    baseline::{Against, EarlierRun, Likeness, Workload, last_good_run},
    change::{Scaling, Slower, WhatChanged, scaling, slower, what_changed, without_baseline},
    loss::{
        EventLoop, FunctionTime, Gil, MetricTimes, Network, NonCpu, Spill, TopTime, cpu, event_loop, gil,
        network, spill, top_time,
    },
    outcome::{
        ComputationStates, DeadWorker, ErrorKind, Exceptions, Finished, Now, RunEvidence, WhyRunning, cost,
        deciding_state, exceptions, finished, why_running,
    },
    run_reason::{RunReason, RunReasonCode, Situation, run_reasons},
};

/// Pieces of evidence an answer has at the most: as many as one takes in at a glance.
pub const MAX_EVIDENCE: usize = 5;

/// What to make of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is nothing to do.
    Good,
    /// Worth a look.
    Notice,
    /// Something is wrong.
    Bad,
    /// It cannot be told.
    Unknown,
}

/// How far the number of an answer can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// It was counted or measured.
    Measured,
    /// It rests on an assumption, or on a part of the data.
    Estimated,
    /// It happened beside other work, and what it cost cannot be told apart.
    NotAttributable,
    /// Nobody measured it, or it was not stored.
    NotCollected,
}

/// What a question is answered with.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What to make of it.
    pub verdict: Verdict,
    /// One sentence.
    pub headline: String,
    /// The number of it, with what it counts.
    pub value: Option<(f64, Cow<'static, str>)>,
    /// The number as a share, from 0 to 1.
    pub share: Option<f64>,
    /// Thread-seconds that could be won at the least and at the most.
    pub benefit: Option<(f64, f64)>,
    /// How far the number can be trusted.
    pub confidence: Confidence,
    /// What it rests on, at most [`MAX_EVIDENCE`].
    pub evidence: Vec<Evidence>,
}

/// Something an answer rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// What it is.
    pub label: String,
    /// Its number, with what that counts.
    pub value: Option<(f64, Cow<'static, str>)>,
    /// The thing it is about.
    pub subject: Option<Subject>,
}

/// A thing of which an answer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Work that was submitted.
    Computation(ClusterId, ComputationId),
    /// Errors that look alike.
    ErrorGroup(ErrorGroupId),
    /// A worker process.
    Worker(ClusterId, WorkerId),
    /// A cluster.
    Cluster(ClusterId),
}

/// Why nothing of a class of data is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The account refuses the class.
    Refused,
    /// The account accepts it now, but something was kept back by the scheduler or dropped here before.
    KeptBack,
    /// Nothing was kept back, as far as is known.
    NotReported,
}

impl Answer {
    fn new(verdict: Verdict, confidence: Confidence, headline: String) -> Self {
        Self { verdict, headline, value: None, share: None, benefit: None, confidence, evidence: Vec::new() }
    }

    fn measured(verdict: Verdict, headline: String) -> Self {
        Self::new(verdict, Confidence::Measured, headline)
    }

    fn not_collected(headline: impl Into<String>) -> Self {
        Self::new(Verdict::Unknown, Confidence::NotCollected, headline.into())
    }

    fn value(self, value: f64, unit: impl Into<Cow<'static, str>>) -> Self {
        Self { value: Some((value, unit.into())), ..self }
    }

    fn share(self, share: Option<f64>) -> Self {
        Self { share: share.map(|share| share.clamp(0.0, 1.0)), ..self }
    }

    fn benefit(self, least: f64, most: f64) -> Self {
        Self { benefit: Some((least, most)), ..self }
    }

    fn because(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self.evidence.truncate(MAX_EVIDENCE);
        self
    }
}

impl Evidence {
    fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), value: None, subject: None }
    }

    fn of(label: impl Into<String>, value: f64, unit: impl Into<Cow<'static, str>>) -> Self {
        Self { value: Some((value, unit.into())), ..Self::new(label) }
    }

    fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }
}

/// What the account would have to do to have what is missing, as the end of a sentence.
fn remedy(missing: Missing, class: &str) -> String {
    match missing {
        Missing::Refused => {
            format!("because the account refuses the data class {class}: setDataPolicy accepts it")
        }
        Missing::KeptBack => {
            format!("because data of the class {class} was kept back: see the cluster's privacy receipt")
        }
        Missing::NotReported => "and none was kept back: it may be older than such data is kept".to_owned(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and microseconds of centuries are exact below 2^53")]
fn number(count: i64) -> f64 {
    count as f64
}

/// Microseconds in seconds.
fn seconds(microseconds: i64) -> f64 {
    number(microseconds) / 1e6
}

/// A part as a share; none of nothing.
fn share_of(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (part / whole).clamp(0.0, 1.0))
}

/// A count with its noun.
fn many(count: i64, one: &str, more: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
}

pub(in crate::domain) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// A length of time as people say it.
pub(in crate::domain) fn duration(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^63 for any time there is")]
    let whole = |seconds: f64| seconds.round() as i64;
    let minutes = whole(seconds / 60.0);
    if seconds < 59.95 {
        let text = format!("{seconds:.1}");
        format!("{} s", text.strip_suffix(".0").unwrap_or(&text))
    } else if minutes < 60 {
        format!("{minutes} min")
    } else if minutes < 48 * 60 {
        format!("{} h {} min", minutes / 60, minutes % 60)
    } else {
        format!("{} days", whole(seconds / 86_400.0))
    }
}

/// Bytes as people say them.
fn bytes(count: f64) -> String {
    let units = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1_000.0 {
        return format!("{count:.0} bytes");
    }
    let mut value = count / 1_000.0;
    let mut unit = 0;
    while value >= 1_000.0 && unit + 1 < units.len() {
        value /= 1_000.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// A moment as people write it.
fn moment(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_for_people() {
        let durations = [0.0, 0.25, 1.0, 59.9, 60.0, 3_569.0, 3_600.0, 7_500.0, 172_800.0, 864_000.0];
        let expected = [
            "0 s",
            "0.2 s",
            "1 s",
            "59.9 s",
            "1 min",
            "59 min",
            "1 h 0 min",
            "2 h 5 min",
            "2 days",
            "10 days",
        ];
        assert_eq!(durations.map(duration), expected);
        assert_eq!(
            [0.0, 0.004, 0.0099, 0.01, 0.625, 1.0].map(percent),
            ["0 %", "0.4 %", "1.0 %", "1 %", "62 %", "100 %"]
        );
        assert_eq!(
            [0.0, 999.0, 1_500.0, 667e6, 2e18].map(bytes),
            ["0 bytes", "999 bytes", "1.5 kB", "667.0 MB", "2000.0 PB"]
        );
        assert_eq!((many(1, "task", "tasks"), many(0, "task", "tasks")), ("1 task".into(), "0 tasks".into()));
    }

    #[test]
    fn an_answer_has_few_pieces_of_evidence_and_no_share_above_one() {
        let answer = Answer::measured(Verdict::Good, "x".to_owned()).share(Some(1.5));
        let answer = answer.because((0..9).map(|n| Evidence::new(n.to_string())));
        assert_eq!((answer.evidence.len(), answer.share), (MAX_EVIDENCE, Some(1.0)));
    }
}
