//! Answers to common questions about a cluster: a verdict, a headline, and a number with its confidence.
//! If nothing was measured, the answer says so and names the remedy; it never shows a zero that was not
//! counted. If the start, the end or a part of the cluster is unknown, the answer states this too.

mod baseline;
mod change;
mod completeness;
mod lost_time;
mod outcome;
mod question;
mod run_reason;

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use entity::ids::{ClusterId, ComputationId, ErrorGroupId, WorkerId};

pub use self::{
    baseline::{Baseline, BaselineReason, EarlierRun, Workload, last_good_run},
    change::{
        ChangeFacts, Scaling, SizeChange, Slower, answer_changes, answer_scaling, answer_slower,
        without_baseline,
    },
    completeness::{KnownPart, Qualified, qualify_works},
    lost_time::{
        EventLoop, FunctionTime, Gil, MetricTimes, Network, NonCpu, Spill, TopTime, answer_cpu,
        answer_event_loop, answer_gil, answer_network, answer_spill, answer_top_time,
    },
    outcome::{
        ClusterNow, ComputationStates, DeadWorker, ErrorKind, Exceptions, FinishedFacts, RunEvidence,
        WhyRunning, answer_exceptions, answer_finished, answer_why_running, cost, deciding_state,
    },
    question::Question,
    run_reason::{RunFacts, RunReason, RunReasonCode, run_reasons},
};

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
    /// A sentence that states the result.
    pub headline: String,
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
    pub label: String,
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
    KeptBack,
    /// Nothing is known to be withheld.
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

    fn with_evidence(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
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

/// Describes the remedy for missing data, as the end of a sentence.
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
fn count_text(count: i64, one: &str, more: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {more}") }
}

pub(in crate::domain) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Formats a duration in words.
pub(in crate::domain) fn format_duration(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "far below 2^63 for every possible time")]
    let whole = |seconds: f64| seconds.round() as i64;
    let minutes = whole(seconds / 60.0);
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
        format!("{} days", whole(seconds / 86_400.0))
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
        assert_eq!(durations.map(format_duration), expected);
        assert_eq!(
            [0.0, 0.004, 0.0099, 0.01, 0.625, 1.0].map(percent),
            ["0 %", "0.4 %", "1.0 %", "1 %", "62 %", "100 %"]
        );
        assert_eq!(
            [0.0, 999.0, 1_500.0, 667e6, 2e18].map(bytes),
            ["0 bytes", "999 bytes", "1.5 KiB", "636.1 MiB", "1776.4 PiB"]
        );
        assert_eq!(
            (count_text(1, "task", "tasks"), count_text(0, "task", "tasks")),
            ("1 task".into(), "0 tasks".into())
        );
    }

    #[test]
    fn an_answer_from_a_part_of_the_work_is_an_estimate_that_says_so() {
        let known = KnownPart { part: Some("The rest is not known.".to_owned()), ..KnownPart::default() };
        let part = |answer: Answer| known.qualify(Question::TopTime, answer).into_answer();
        let counted = Answer::measured(Verdict::Good, "3 tasks failed.".to_owned()).value(3.0, "tasks");
        let whole = KnownPart::default().qualify(Question::TopTime, counted.clone()).into_answer();
        assert_eq!(whole, counted);
        let told = part(counted.clone());
        assert_eq!(told.headline, "3 tasks failed. The rest is not known.");
        assert_eq!((told.confidence, told.value), (Confidence::Estimated, counted.value));
        // The answer has no number that could be partial.
        let nothing = Answer::not_collected("No rates are set.");
        assert_eq!(part(nothing.clone()), nothing);
    }

    #[test]
    fn an_answer_has_few_pieces_of_evidence_and_no_share_above_one() {
        let answer = Answer::measured(Verdict::Good, "x".to_owned()).share(Some(1.5));
        let answer = answer.with_evidence((0..9).map(|n| Evidence::new(n.to_string())));
        assert_eq!((answer.evidence.len(), answer.share), (MAX_EVIDENCE, Some(1.0)));
    }
}
