//! Answers to common questions about a cluster: a verdict, a phrase, and a number with its confidence.
//! If nothing was measured, the answer says so and names the remedy; it never shows a zero that was not
//! counted. If the start, the end or a part of the cluster is unknown, the answer states this too.

mod baseline;
mod change;
mod code;
mod completeness;
mod lost_time;
mod outcome;
mod phrase;
mod question;
mod run_reason;
mod why_running;

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use entity::ids::{ClusterId, ComputationId, ErrorGroupId, WorkerId};

pub use self::{
    baseline::{Baseline, BaselineReason, EarlierRun, Workload, last_good_run},
    change::{
        ChangeFacts, Scaling, Size, SizeChange, Slower, answer_changes, answer_scaling, answer_slower,
        without_baseline,
    },
    code::AnswerCode,
    completeness::{KnownPart, Qualified, qualify_works},
    lost_time::{
        EventLoop, FunctionTime, Gil, MetricTimes, Network, NonCpu, Spill, TopTime, answer_cpu,
        answer_event_loop, answer_gil, answer_network, answer_spill, answer_top_time,
    },
    outcome::{
        ComputationEvidence, ComputationStateCount, DeadWorker, ErrorKind, ExceptionFacts, FinishedFacts,
        answer_cost, answer_exceptions, answer_finished, deciding_state,
    },
    phrase::{Argument, Phrase, Value},
    question::Question,
    run_reason::{RunFacts, RunReason, RunReasonCode, run_reasons},
    why_running::{ClusterNow, WhyRunning, answer_why_running},
};
pub(crate) use code::answer_codes;

/// The largest number of pieces of evidence in an answer: as many as a reader grasps at a glance.
pub const MAX_EVIDENCE: usize = 5;

/// The rating of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No action is needed.
    Good,
    /// The result deserves attention.
    Notice,
    /// Something is wrong.
    Bad,
    /// The result cannot be rated.
    Unknown,
}

/// The confidence in the number of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// The number was counted or measured.
    Measured,
    /// The number is based on an assumption, or on a part of the data.
    Estimated,
    /// The activity ran in parallel to other work, so its cost cannot be separated.
    NotAttributable,
    /// The number was not measured, or not stored.
    NotCollected,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The rating.
    pub verdict: Verdict,
    /// The result.
    pub phrase: Phrase,
    /// The parts that the phrase lists, and the clauses and sentences that qualify it, in the order of
    /// the headline.
    pub qualifications: Vec<Phrase>,
    /// The number, with its unit.
    pub value: Option<(f64, Cow<'static, str>)>,
    /// The number as a share, from 0 to 1.
    pub share: Option<f64>,
    /// The least and the largest possible gain, in thread-seconds.
    pub benefit: Option<(f64, f64)>,
    /// The confidence in the number.
    pub confidence: Confidence,
    /// The supporting facts, at most [`MAX_EVIDENCE`].
    pub evidence: Vec<Evidence>,
}

/// A fact that supports an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The description.
    pub phrase: Phrase,
    /// The number, with its unit.
    pub value: Option<(f64, Cow<'static, str>)>,
    /// The object concerned.
    pub subject: Option<Subject>,
}

/// An object to which an answer refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A computation.
    Computation(ClusterId, ComputationId),
    /// A group of similar errors.
    ErrorGroup(ErrorGroupId),
    /// A worker process.
    Worker(ClusterId, WorkerId),
    /// A cluster.
    Cluster(ClusterId),
}

/// The reason for the absence of a data class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The account refuses the class.
    Refused,
    /// The account accepts the class now, but the scheduler withheld some items or the server dropped
    /// some earlier.
    Withheld,
    /// Nothing is known to be withheld or dropped.
    NotReported,
}

impl Answer {
    fn new(verdict: Verdict, confidence: Confidence, phrase: impl Into<Phrase>) -> Self {
        Self {
            verdict,
            phrase: phrase.into(),
            qualifications: Vec::new(),
            value: None,
            share: None,
            benefit: None,
            confidence,
            evidence: Vec::new(),
        }
    }

    fn measured(verdict: Verdict, phrase: impl Into<Phrase>) -> Self {
        Self::new(verdict, Confidence::Measured, phrase)
    }

    fn not_collected(phrase: impl Into<Phrase>) -> Self {
        Self::new(Verdict::Unknown, Confidence::NotCollected, phrase)
    }

    /// Returns the result in words: the phrase with its qualifications.
    #[must_use]
    pub fn headline(&self) -> String {
        let (clauses, parts): (Vec<_>, Vec<_>) =
            self.qualifications.iter().partition(|qualification| qualification.is_clause());
        let phrase = self.phrase.text_with_parts(parts.into_iter());
        clauses.into_iter().fold(phrase, |text, clause| clause.qualify(&text)) + "."
    }

    fn qualified(mut self, qualifications: impl IntoIterator<Item = Phrase>) -> Self {
        self.qualifications.extend(qualifications);
        self
    }

    fn value(self, value: f64, unit: impl Into<Cow<'static, str>>) -> Self {
        Self { value: Some((value, unit.into())), ..self }
    }

    fn share(self, share: Option<f64>) -> Self {
        Self { share: share.map(|share| share.clamp(0.0, 1.0)), ..self }
    }

    fn benefit(self, min: f64, max: f64) -> Self {
        Self { benefit: Some((min, max)), ..self }
    }

    fn with_evidence(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self.evidence.truncate(MAX_EVIDENCE);
        self
    }
}

impl Evidence {
    fn new(phrase: impl Into<Phrase>) -> Self {
        Self { phrase: phrase.into(), value: None, subject: None }
    }

    fn of(phrase: impl Into<Phrase>, value: f64, unit: impl Into<Cow<'static, str>>) -> Self {
        Self { value: Some((value, unit.into())), ..Self::new(phrase) }
    }

    fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }
}

/// Returns the reason why data of a class is missing, and the remedy if there is one.
fn remedy(missing: Missing, class: &str) -> Phrase {
    match missing {
        Missing::Refused => AnswerCode::ClassRefused.with("class", class.into()),
        Missing::Withheld => AnswerCode::ClassWithheld.with("class", class.into()),
        Missing::NotReported => AnswerCode::NoneWithheld.into(),
    }
}

/// Returns the reason why the reports hold only a part of the work. The reporter ends it with a full stop,
/// which a headline adds itself.
fn part_of_the_work(reason: &str) -> Phrase {
    AnswerCode::PartOfTheWork.with("reason", reason.strip_suffix('.').unwrap_or(reason).into())
}

#[expect(clippy::cast_precision_loss, reason = "counts and microseconds of centuries are exact below 2^53")]
fn to_f64(count: i64) -> f64 {
    count as f64
}

/// Converts microseconds to seconds.
fn seconds(microseconds: i64) -> f64 {
    to_f64(microseconds) / 1e6
}

/// Returns a part as a share of the whole. Returns `None` if the whole is zero.
fn share_of(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| (part / whole).clamp(0.0, 1.0))
}

/// Formats a count with its noun.
fn count_text(count: i64, singular: &str, plural: &str) -> String {
    if count == 1 { format!("1 {singular}") } else { format!("{count} {plural}") }
}

pub(in crate::domain) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Formats a duration in words.
pub(in crate::domain) fn format_duration(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^63 for every possible time")]
    let round = |seconds: f64| seconds.round() as i64;
    let minutes = round(seconds / 60.0);
    // One digit more where the difference of two durations would be as large as the rounding.
    let precise = |value: f64, unit: &str| {
        let text = format!("{value:.1}");
        format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
    };
    if seconds < 59.95 {
        precise(seconds, "s")
    } else if seconds < 597.0 {
        precise(seconds / 60.0, "min")
    } else if minutes < 60 {
        format!("{minutes} min")
    } else if minutes < 48 * 60 {
        format!("{} h {} min", minutes / 60, minutes % 60)
    } else {
        format!("{} days", round(seconds / 86_400.0))
    }
}

/// Formats a number of bytes with a unit, as Dask does.
fn bytes(count: f64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1_024.0 {
        return format!("{count:.0} bytes");
    }
    let mut value = count / 1_024.0;
    let mut unit = 0;
    while value >= 1_024.0 && unit + 1 < units.len() {
        value /= 1_024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

/// Formats a time.
fn format_time(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests;
