//! Qualification of answers by the known part of a cluster. Every answer passes through this module: the
//! GraphQL layer accepts only a [`Qualified`] answer, and only this module creates one.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use entity::{cluster::Model, data_policy::DataClass, ids::ClusterId};

use super::{
    Answer, AnswerCode, Confidence, Phrase, Value, Verdict, part_of_the_work,
    question::{Claim, Question},
};
use crate::domain::life_cycle::is_silent;

/// The prefix of scheduler ids that stand for imported files.
const IMPORTED: &str = "import-";

/// The known part of a cluster: its bounds in time and the gaps between them. Times are by the
/// scheduler's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownPart {
    /// The start of the observation. `None` if it is the cluster's start, or unknown.
    pub since: Option<DateTime<Utc>>,
    /// The end of the observation. `None` if it is the cluster's end, or the present.
    pub until: Option<DateTime<Utc>>,
    /// True if reports older than the newest one are missing.
    pub lacks_reports: bool,
    /// True if the scheduler withheld data of the class `TASKS`, or the server dropped some.
    pub lacks_tasks: bool,
    /// A sentence with the reason why the reports hold only a part of the work. `None` if they hold all
    /// of it, or if this is unknown.
    pub partial_reason: Option<String>,
    /// The number of items that the reporter discarded, by section.
    pub dropped: BTreeMap<String, i64>,
    /// The paths of the fields with impossible values, which were clamped to possible ones.
    pub clamped: Vec<String>,
}

/// An answer that states the known part of its subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Qualified(Answer);

impl KnownPart {
    /// Returns the known part of a cluster. `now` is by the server's clock.
    #[must_use]
    pub fn of(row: &Model, now: DateTime<Utc>) -> Self {
        let until = match row.closed_at {
            Some(closed_at) => is_imported(row).then_some(closed_at),
            None => is_silent(row, now.into()).then_some(row.reported_at),
        };
        let tasks = row.receipt.0.get(&DataClass::Tasks).copied().unwrap_or_default();
        Self {
            // No column states when the reporter began to observe, and the server's first report may be
            // late.
            since: None,
            until: until.map(|until| until.0),
            lacks_reports: row.complete_until < row.sequence,
            lacks_tasks: tasks.withheld > 0 || tasks.dropped > 0,
            partial_reason: row.partial.clone(),
            dropped: row.dropped.0.clone(),
            clamped: row.cut.0.clone(),
        }
    }

    /// Returns a description of the known part. Returns `None` if everything is known.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        let phrases = self.period(AnswerCode::KnownPeriod).into_iter().chain(self.gaps(None, None));
        let text = phrases.fold(String::new(), |text, phrase| phrase.qualify(&text));
        // The phrases are made to follow a sentence.
        let text = text.trim_start_matches([',', '.', ' ']);
        (!text.is_empty()).then(|| format!("{text}."))
    }

    /// Adds the known part of the cluster to an answer about it.
    #[must_use]
    pub fn qualify(&self, question: Question, answer: Answer) -> Qualified {
        self.qualify_comparison(question, answer, None)
    }

    /// Adds the known parts to an answer that compares the cluster with an earlier one. `earlier` holds
    /// the id and the known part of the latter.
    #[must_use]
    pub fn qualify_comparison(
        &self,
        question: Question,
        answer: Answer,
        earlier: Option<(ClusterId, &Self)>,
    ) -> Qualified {
        let mut phrases = Vec::new();
        match question.claim() {
            Claim::Present => {
                phrases.extend(Self { until: self.until, ..Self::default() }.period_of(&answer));
            }
            Claim::Everything | Claim::Proportion => {
                phrases.extend(self.period_of(&answer));
                phrases.extend(self.gaps(None, Some((question, &answer))));
            }
        }
        if let Some((cluster, known_part)) = earlier {
            phrases.extend(known_part.of_work(Work::Cluster(cluster), (question, &answer)));
        }
        qualified(question, answer, phrases)
    }

    /// Returns the bounds in time as a phrase. `None` if there are none.
    fn period(&self, code: AnswerCode) -> Option<Phrase> {
        let is_bounded = self.since.is_some() || self.until.is_some();
        is_bounded.then(|| {
            Phrase::from(code)
                .with_any("since", self.since.map(Value::Time))
                .with_any("until", self.until.map(Value::Time))
        })
    }

    /// Returns the bounds in a form that suits the answer.
    fn period_of(&self, answer: &Answer) -> Option<Phrase> {
        if has_number(answer) && answer.verdict != Verdict::Unknown {
            return self.period(AnswerCode::KnownPeriod);
        }
        // The answer makes no claim that a time could limit.
        self.period(AnswerCode::UnknownOutside)
    }

    /// Returns the bounds and the gaps of one of two compared works.
    fn of_work(&self, work: Work, qualified_answer: (Question, &Answer)) -> Vec<Phrase> {
        let period = self.period(AnswerCode::WorkKnownPeriod).map(|period| work.name_in(period));
        period.into_iter().chain(self.gaps(Some(work), Some(qualified_answer))).collect()
    }

    /// Returns the gaps within the bounds. `work` is the compared work, or `None` for the cluster itself.
    /// `qualified_answer` adds the gaps in the data that the answer is based on.
    fn gaps(&self, work: Option<Work>, qualified_answer: Option<(Question, &Answer)>) -> Vec<Phrase> {
        let name_work = |phrase: Phrase| match work {
            Some(work) => work.name_in(phrase),
            None => phrase,
        };
        let sections = qualified_answer.map(|(question, _)| question.sections()).unwrap_or_default();
        // An answer without a number states the reason itself.
        let is_of_tasks = qualified_answer
            .is_some_and(|(question, answer)| question.rests_on_tasks() && has_number(answer));
        let mut gaps = Vec::new();
        if self.lacks_reports {
            gaps.push(name_work(AnswerCode::ReportsMissing.into()));
        }
        if self.lacks_tasks && is_of_tasks {
            gaps.push(name_work(AnswerCode::SomeWithheld.with("class", "TASKS".into())));
        }
        let dropped = sections.iter().filter_map(|section| {
            let count = self.dropped.get(*section).copied().filter(|count| *count > 0)?;
            Some(Value::Items(count, section))
        });
        let dropped: Vec<Value> = dropped.collect();
        if !dropped.is_empty() {
            gaps.push(name_work(Phrase::from(AnswerCode::ItemsNotReported).with_any("items", dropped)));
        }
        let is_clamped =
            |section: &&&str| self.clamped.iter().any(|path| path.split('.').next() == Some(**section));
        let clamped: Vec<Value> =
            sections.iter().filter(is_clamped).map(|section| Value::Section(section)).collect();
        if !clamped.is_empty() && qualified_answer.is_some_and(|(_, answer)| has_number(answer)) {
            gaps.push(name_work(Phrase::from(AnswerCode::ValuesClamped).with_any("sections", clamped)));
        }
        // An answer without a number, or about an empty selection, already states the reason.
        let is_new = qualified_answer.is_none_or(|(_, answer)| has_number(answer));
        gaps.extend(self.partial_reason.as_deref().filter(|_| is_new).map(part_of_the_work));
        gaps
    }
}

/// One of two compared works, as phrases name it.
#[derive(Clone, Copy)]
enum Work {
    /// A cluster.
    Cluster(ClusterId),
    /// The first or the second selection.
    Selection(&'static str),
}

impl Work {
    fn name_in(self, phrase: Phrase) -> Phrase {
        match self {
            Self::Cluster(id) => phrase.with("cluster", Value::Cluster(id.0)),
            Self::Selection(position) => phrase.with("work", position.into()),
        }
    }
}

/// Adds the known parts of the first and the second work to an answer that compares them. Each work is its
/// clusters.
#[must_use]
pub fn qualify_works(question: Question, answer: Answer, works: [&[KnownPart]; 2]) -> Qualified {
    let works = [Work::Selection("first"), Work::Selection("second")].into_iter().zip(works);
    let phrases = works.flat_map(|(work, clusters)| match clusters {
        [known_part] => known_part.of_work(work, (question, &answer)),
        clusters => clusters_known_in_part(work, clusters, (question, &answer)).into_iter().collect(),
    });
    let phrases = phrases.collect();
    qualified(question, answer, phrases)
}

/// Returns a phrase with the number of a work's clusters that are known only in part.
fn clusters_known_in_part(
    work: Work,
    clusters: &[KnownPart],
    qualified_answer: (Question, &Answer),
) -> Option<Phrase> {
    let is_partly_known = |known_part: &&KnownPart| {
        known_part.period(AnswerCode::KnownPeriod).is_some()
            || !known_part.gaps(None, Some(qualified_answer)).is_empty()
    };
    let count = |count: usize| Value::Count(i64::try_from(count).unwrap_or(i64::MAX), "clusters");
    let partly_known_count = clusters.iter().filter(is_partly_known).count();
    let first_end = clusters.iter().filter_map(|known_part| known_part.until).min();
    (partly_known_count > 0).then(|| {
        let phrase = AnswerCode::ClustersKnownInPart.with("known", count(partly_known_count));
        let phrase = phrase.with("clusters", count(clusters.len()));
        work.name_in(phrase).with_any("until", first_end.map(Value::Time))
    })
}

impl Qualified {
    /// Returns the answer.
    #[must_use]
    pub fn into_answer(self) -> Answer {
        self.0
    }
}

/// Creates every qualified answer. If anything is unknown, a measured value becomes an estimate, and a
/// good verdict about everything or about the present becomes unknown.
fn qualified(question: Question, answer: Answer, phrases: Vec<Phrase>) -> Qualified {
    if phrases.is_empty() {
        return Qualified(answer);
    }
    let verdict = match (question.claim(), answer.verdict) {
        (Claim::Everything | Claim::Present, Verdict::Good) => Verdict::Unknown,
        (_, verdict) => verdict,
    };
    let confidence = match (question.claim(), answer.confidence) {
        (Claim::Everything | Claim::Proportion, Confidence::Measured) => Confidence::Estimated,
        (_, confidence) => confidence,
    };
    Qualified(Answer { verdict, confidence, ..answer }.qualified(phrases))
}

/// Returns true if the answer has a number, exact or estimated.
fn has_number(answer: &Answer) -> bool {
    matches!(answer.confidence, Confidence::Measured | Confidence::Estimated)
}

/// Returns true if the cluster is an imported file. Such a cluster closes at the end of the file, even if
/// the real cluster continued.
fn is_imported(row: &Model) -> bool {
    row.scheduler_id.starts_with(IMPORTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_172_400 + seconds, 0).expect("it is a time")
    }

    fn good_answer() -> Answer {
        let all = AnswerCode::AllComputationsFinished.with("computations", Value::Count(1, "computations"));
        Answer::measured(Verdict::Good, all).value(1.0, "tasks").share(Some(0.5))
    }

    #[test]
    fn what_is_wholly_known_stays_as_it_is() {
        for question in Question::ALL {
            assert_eq!(
                KnownPart::default().qualify(question, good_answer()).into_answer(),
                good_answer(),
                "{question:?}"
            );
        }
    }

    #[test]
    fn nothing_is_good_and_measured_of_which_the_end_or_the_beginning_is_unknown() {
        let cases = [
            (
                None,
                Some(5),
                "The 1 computation finished, up to 2026-11-20 11:00:05 UTC; the time after is unknown.",
            ),
            (
                Some(3),
                None,
                "The 1 computation finished, from 2026-11-20 11:00:03 UTC on; the time before is unknown.",
            ),
            (
                Some(3),
                Some(5),
                "The 1 computation finished, from 2026-11-20 11:00:03 UTC to 2026-11-20 11:00:05 UTC; the time before and after is unknown.",
            ),
        ];
        for (since, until, headline) in cases {
            let known_part = KnownPart { since: since.map(at), until: until.map(at), ..KnownPart::default() };
            for question in Question::ALL {
                let answer = known_part.qualify(question, good_answer()).into_answer();
                let expected = match question {
                    // The first observation does not matter for a cluster that is running.
                    Question::WhyRunning if until.is_none() => (Verdict::Good, Confidence::Measured),
                    Question::WhyRunning => (Verdict::Unknown, Confidence::Measured),
                    Question::Finished | Question::Exceptions | Question::WhatChanged | Question::Slower => {
                        (Verdict::Unknown, Confidence::Estimated)
                    }
                    _ => (Verdict::Good, Confidence::Estimated),
                };
                assert_eq!((answer.verdict, answer.confidence), expected, "{question:?}");
                if question != Question::WhyRunning {
                    assert_eq!(answer.headline(), headline, "{question:?}");
                }
                assert_eq!((answer.value, answer.share), (good_answer().value, good_answer().share));
            }
        }
    }

    #[test]
    fn what_claims_nothing_names_the_time_in_a_sentence_of_its_own() {
        let known_part = KnownPart { since: Some(at(3)), until: Some(at(5)), ..KnownPart::default() };
        let unanswered = Answer::not_collected(AnswerCode::FailuresUnknown);
        let answer = known_part.qualify(Question::Exceptions, unanswered.clone()).into_answer();
        let headline = "Whether tasks failed is not known. The time before 2026-11-20 11:00:03 UTC and after \
                        2026-11-20 11:00:05 UTC is unknown.";
        assert_eq!(answer.headline(), headline);
        assert_eq!(Answer { qualifications: Vec::new(), ..answer }, unanswered);
        let failed = AnswerCode::ExceptionsOfDask.with("exceptions", Value::Count(3, "exceptions"));
        let bad = Answer::measured(Verdict::Bad, failed);
        let answer = KnownPart { since: None, ..known_part }.qualify(Question::Exceptions, bad).into_answer();
        assert_eq!(
            answer.headline(),
            "3 exceptions, all of Dask itself, up to 2026-11-20 11:00:05 UTC; the time after is unknown."
        );
        assert_eq!((answer.verdict, answer.confidence), (Verdict::Bad, Confidence::Estimated));
    }

    #[test]
    fn what_was_given_up_matters_to_what_rests_on_it() {
        let with_dropped = |counts: &[(&str, i64)]| KnownPart {
            dropped: counts.iter().map(|(section, count)| ((*section).to_owned(), *count)).collect(),
            ..KnownPart::default()
        };
        let outcome = |known_part: &KnownPart, question| {
            let answer = known_part.qualify(question, good_answer()).into_answer();
            (answer.verdict, answer.confidence, answer.headline())
        };
        let known_part = with_dropped(&[("computations", 3), ("fine_metrics", 1), ("usage", 2), ("logs", 9)]);
        let expected = |verdict, qualification: &str| {
            (verdict, Confidence::Estimated, format!("The 1 computation finished. {qualification}"))
        };
        let headline = "3 more computations were not reported.";
        assert_eq!(outcome(&known_part, Question::Finished), expected(Verdict::Unknown, headline));
        let headline = "1 more set of fine metrics was not reported.";
        assert_eq!(outcome(&known_part, Question::Cpu), expected(Verdict::Good, headline));
        let headline = "1 more set of fine metrics and 2 more hours of usage were not reported.";
        assert_eq!(outcome(&known_part, Question::Network), expected(Verdict::Good, headline));
        let unqualified = (Verdict::Good, Confidence::Measured, "The 1 computation finished.".to_owned());
        assert_eq!(outcome(&known_part, Question::Gil), unqualified);

        let clamped = ["usage.total_compute_seconds", "fine_metrics.x", "usages.y", "events.at"];
        let known_part = KnownPart { clamped: clamped.map(str::to_owned).to_vec(), ..KnownPart::default() };
        let headline = "Impossible values of the reported usage were clamped.";
        assert_eq!(outcome(&known_part, Question::Cost), expected(Verdict::Good, headline));
        let headline = "Impossible values of the reported fine metrics and usage were clamped.";
        assert_eq!(outcome(&known_part, Question::Spill), expected(Verdict::Good, headline));
        assert_eq!(outcome(&known_part, Question::Finished), unqualified);
        let unanswered = Answer::not_collected(AnswerCode::CpuTimeNotStored);
        assert_eq!(known_part.qualify(Question::Cost, unanswered.clone()).into_answer(), unanswered);

        let known_part = KnownPart { lacks_tasks: true, ..KnownPart::default() };
        let headline =
            "Data of the class TASKS was withheld or dropped: see the privacy receipt of the cluster.";
        assert_eq!(outcome(&known_part, Question::Finished), expected(Verdict::Unknown, headline));
        assert_eq!(outcome(&known_part, Question::TopTime), expected(Verdict::Good, headline));
        assert_eq!(outcome(&known_part, Question::Spill), unqualified);
        let unanswered = Answer::not_collected(AnswerCode::CpuTimeNotStored);
        assert_eq!(known_part.qualify(Question::Finished, unanswered.clone()).into_answer(), unanswered);

        let known_part = KnownPart {
            lacks_reports: true,
            partial_reason: Some("A file.".to_owned()),
            ..KnownPart::default()
        };
        for question in Question::ALL {
            let actual = outcome(&known_part, question);
            if question == Question::WhyRunning {
                assert_eq!(actual, unqualified);
                continue;
            }
            let qualification = "Some of its reports have not arrived, and their content is unknown. A file.";
            assert_eq!(actual.2, format!("The 1 computation finished. {qualification}"), "{question:?}");
            assert_eq!(actual.1, Confidence::Estimated);
        }
    }

    #[test]
    fn a_cluster_is_described_by_what_is_known_of_it() {
        let complete =
            KnownPart { dropped: BTreeMap::from([("spans".to_owned(), 2)]), ..KnownPart::default() };
        assert_eq!(complete.in_words(), None);
        let incomplete = KnownPart { lacks_reports: true, ..complete };
        let gaps = "Some of its reports have not arrived, and their content is unknown.";
        assert_eq!(incomplete.in_words().as_deref(), Some(gaps));
        let file = KnownPart { until: Some(at(5)), partial_reason: Some("A file.".to_owned()), ..incomplete };
        let gaps = format!("up to 2026-11-20 11:00:05 UTC; the time after is unknown. {gaps} A file.");
        assert_eq!(file.in_words(), Some(gaps));
    }

    #[test]
    fn comparisons_say_which_side_is_known_in_part() {
        let complete = KnownPart::default();
        let truncated = KnownPart { until: Some(at(5)), ..KnownPart::default() };
        let lossy = KnownPart { dropped: BTreeMap::from([("spans".to_owned(), 2)]), ..KnownPart::default() };
        let compare_with = |known_part| {
            let answer = complete.qualify_comparison(
                Question::Slower,
                good_answer(),
                Some((ClusterId(7), known_part)),
            );
            let answer = answer.into_answer();
            (answer.verdict, answer.confidence, answer.headline())
        };
        let headline = "The 1 computation finished. Cluster 7 is known up to 2026-11-20 11:00:05 UTC; the time after is unknown.";
        assert_eq!(compare_with(&truncated), (Verdict::Unknown, Confidence::Estimated, headline.to_owned()));
        let headline = "The 1 computation finished. 2 more spans of cluster 7 were not reported.";
        assert_eq!(compare_with(&lossy).2, headline);
        assert_eq!(
            compare_with(&complete),
            (Verdict::Good, Confidence::Measured, "The 1 computation finished.".to_owned())
        );

        let compare_works = |base: &[KnownPart], head: &[KnownPart]| {
            qualify_works(Question::Slower, good_answer(), [base, head]).into_answer().headline()
        };
        let complete_work = std::slice::from_ref(&complete);
        assert_eq!(compare_works(complete_work, &[]), "The 1 computation finished.");
        let headline = "The 1 computation finished. The second work is known up to 2026-11-20 11:00:05 UTC; the time after is unknown.";
        assert_eq!(compare_works(complete_work, std::slice::from_ref(&truncated)), headline);
        let truncated_later = KnownPart { until: Some(at(9)), ..KnownPart::default() };
        let headline = "The 1 computation finished. 3 of 4 clusters of the first work are known in part, the first of them up to \
                        2026-11-20 11:00:05 UTC.";
        assert_eq!(
            compare_works(&[truncated_later, complete.clone(), lossy, truncated.clone()], complete_work),
            headline
        );
    }
}
