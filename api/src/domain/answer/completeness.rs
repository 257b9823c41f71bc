//! Qualification of answers by the known part of a cluster. Every answer passes through this module: the
//! GraphQL layer accepts only a [`Qualified`] answer, and only this module creates one.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use entity::{cluster::Model, data_policy::DataClass};

use super::{
    Answer, Confidence, Verdict, format_time,
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
    pub part: Option<String>,
    /// The number of items that the reporter discarded, by section.
    pub dropped: BTreeMap<String, i64>,
    /// The places of the reports with impossible values, which were cut to possible ones.
    pub cut: Vec<String>,
}

/// An answer that states the known part of its subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Qualified(Answer);

impl KnownPart {
    /// Returns the known part of a cluster. `now` is by the server's clock.
    #[must_use]
    pub fn of(row: &Model, now: DateTime<Utc>) -> Self {
        let until = match row.closed_at {
            Some(closed) => is_imported(row).then_some(closed),
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
            part: row.partial.clone(),
            dropped: row.dropped.0.clone(),
            cut: row.cut.0.clone(),
        }
    }

    /// Describes the known part in words. Returns `None` if everything is known.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        let bounds = self.bounds();
        let said = bounds.is_some() || self.lacks_reports || self.part.is_some();
        said.then(|| {
            let bounds = bounds.map(|bounds| format!("{bounds}."));
            let sentences = bounds.into_iter().chain(self.gaps(None, None));
            sentences.collect::<Vec<_>>().join(" ")
        })
    }

    /// Adds the known part of the cluster to an answer about it.
    #[must_use]
    pub fn qualify(&self, question: Question, answer: Answer) -> Qualified {
        self.qualify_comparison(question, answer, None)
    }

    /// Adds the known parts to an answer that compares the cluster with an earlier one. `earlier` holds
    /// the name and the known part of the latter.
    #[must_use]
    pub fn qualify_comparison(
        &self,
        question: Question,
        answer: Answer,
        earlier: Option<(&str, &Self)>,
    ) -> Qualified {
        let mut sentences = Vec::new();
        let bounds = match question.claim() {
            Claim::Present => Self { until: self.until, ..Self::default() }.bounds_of(&answer),
            Claim::Everything | Claim::Proportion => {
                sentences.extend(self.gaps(None, Some((question, &answer))));
                self.bounds_of(&answer)
            }
        };
        if let Some((name, known)) = earlier {
            sentences.extend(known.bounds().map(|bounds| format!("{} is known {bounds}.", capitalize(name))));
            sentences.extend(known.gaps(Some(name), Some((question, &answer))));
        }
        qualified(question, answer, bounds, sentences)
    }

    /// Returns a clause with the bounds in time, to follow a verb.
    fn bounds(&self) -> Option<String> {
        Some(match (self.since.map(format_time), self.until.map(format_time)) {
            (None, None) => return None,
            (None, Some(until)) => format!("up to {until}; what came after is unknown"),
            (Some(since), None) => format!("from {since} on; what came before is unknown"),
            (Some(since), Some(until)) => {
                format!("from {since} to {until}; what came before and after is unknown")
            }
        })
    }

    /// Returns the bounds in a form that suits the answer.
    fn bounds_of(&self, answer: &Answer) -> Option<Bounds> {
        if has_number(answer) && answer.verdict != Verdict::Unknown {
            return self.bounds().map(Bounds::Clause);
        }
        // The answer makes no claim that a time could limit.
        let unknown = match (self.since.map(format_time), self.until.map(format_time)) {
            (None, None) => return None,
            (None, Some(until)) => format!("What came after {until} is unknown."),
            (Some(since), None) => format!("What came before {since} is unknown."),
            (Some(since), Some(until)) => {
                format!("What came before {since} and after {until} is unknown.")
            }
        };
        Some(Bounds::Sentence(unknown))
    }

    /// Returns sentences about the gaps within the bounds. `name` is the name of the work, or `None` for
    /// the cluster itself. `of` adds the gaps in the data that this answer is based on.
    fn gaps(&self, name: Option<&str>, of: Option<(Question, &Answer)>) -> Vec<String> {
        let sections = of.map(|(question, _)| question.sections()).unwrap_or_default();
        // An answer without a number states the reason itself.
        let is_of_tasks =
            of.is_some_and(|(question, answer)| question.rests_on_tasks() && has_number(answer));
        let mut gaps = Vec::new();
        if self.lacks_reports {
            let whose =
                name.map_or_else(|| "its reports".to_owned(), |name| format!("the reports of {name}"));
            gaps.push(format!("Some of {whose} have not arrived, and what they tell is unknown."));
        }
        if self.lacks_tasks && is_of_tasks {
            let whose = name.unwrap_or("the cluster");
            gaps.push(format!("Data of the class TASKS was kept back: see the privacy receipt of {whose}."));
        }
        let dropped = sections.iter().filter_map(|section| {
            let count = self.dropped.get(*section).copied().filter(|count| *count > 0)?;
            Some((count, more_items_text(section, count)))
        });
        let (counts, items): (Vec<i64>, Vec<String>) = dropped.unzip();
        if !items.is_empty() {
            let of = name.map(|name| format!(" of {name}")).unwrap_or_default();
            let were = if counts == [1] { "was" } else { "were" };
            gaps.push(format!("{}{of} {were} not reported.", join_words(&items)));
        }
        let is_cut =
            |section: &&&str| self.cut.iter().any(|place| place.split('.').next() == Some(**section));
        let cut: Vec<String> = sections.iter().filter(is_cut).map(|name| name.replace('_', " ")).collect();
        if !cut.is_empty() && of.is_some_and(|(_, answer)| has_number(answer)) {
            let of = name.map(|name| format!(" of {name}")).unwrap_or_default();
            gaps.push(format!("Impossible values of the reported {}{of} were cut.", join_words(&cut)));
        }
        // An answer without a number, or about an empty selection, already states the reason.
        let is_new = |part: &&String| {
            of.is_none_or(|(_, answer)| has_number(answer) && !answer.headline.contains(part.as_str()))
        };
        gaps.extend(self.part.as_ref().filter(is_new).cloned());
        gaps
    }
}

/// The bounds in time, as a clause of the answer's sentence or as a sentence behind it.
enum Bounds {
    Clause(String),
    Sentence(String),
}

/// Adds the known parts to an answer that compares two works. Each work is a name and its clusters.
#[must_use]
pub fn qualify_works(question: Question, answer: Answer, works: [(&str, &[KnownPart]); 2]) -> Qualified {
    let sentences = works.into_iter().flat_map(|(name, clusters)| match clusters {
        [known] => {
            let bounds = known.bounds().map(|bounds| format!("{} is known {bounds}.", capitalize(name)));
            bounds.into_iter().chain(known.gaps(Some(name), Some((question, &answer)))).collect()
        }
        clusters => {
            partial_clusters_text(name, clusters, (question, &answer)).into_iter().collect::<Vec<_>>()
        }
    });
    let sentences = sentences.collect();
    qualified(question, answer, None, sentences)
}

/// Returns a sentence with the number of a work's clusters that are known only in part.
fn partial_clusters_text(name: &str, clusters: &[KnownPart], of: (Question, &Answer)) -> Option<String> {
    let in_part = |known: &&KnownPart| known.bounds().is_some() || !known.gaps(None, Some(of)).is_empty();
    let count = clusters.iter().filter(in_part).count();
    let first = clusters.iter().filter_map(|known| known.until).min();
    let first = first.map(|until| format!(", the first of them up to {}", format_time(until)));
    let are = if count == 1 { "is" } else { "are" };
    (count > 0).then(|| {
        let all = clusters.len();
        format!("{count} of {all} clusters of {name} {are} known in part{}.", first.unwrap_or_default())
    })
}

impl Qualified {
    /// The answer.
    #[must_use]
    pub fn into_answer(self) -> Answer {
        self.0
    }
}

/// Creates every qualified answer. If anything is unknown, a measured value becomes an estimate, and a
/// good verdict about everything or about the present becomes unknown.
fn qualified(
    question: Question,
    answer: Answer,
    bounds: Option<Bounds>,
    sentences: Vec<String>,
) -> Qualified {
    if bounds.is_none() && sentences.is_empty() {
        return Qualified(answer);
    }
    let headline = match bounds {
        Some(Bounds::Clause(bounds)) => format!("{}, {bounds}.", answer.headline.trim_end_matches('.')),
        Some(Bounds::Sentence(unknown)) => format!("{} {unknown}", answer.headline),
        None => answer.headline,
    };
    let headline = std::iter::once(headline).chain(sentences).collect::<Vec<_>>().join(" ");
    let verdict = match (question.claim(), answer.verdict) {
        (Claim::Everything | Claim::Present, Verdict::Good) => Verdict::Unknown,
        (_, verdict) => verdict,
    };
    let confidence = match (question.claim(), answer.confidence) {
        (Claim::Everything | Claim::Proportion, Confidence::Measured) => Confidence::Estimated,
        (_, confidence) => confidence,
    };
    Qualified(Answer { verdict, headline, confidence, ..answer })
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

/// Formats a count of further items of a section.
fn more_items_text(section: &str, count: i64) -> String {
    let (one, many) = match section {
        "computations" => ("more computation", "more computations"),
        "usage" => ("more hour of usage", "more hours of usage"),
        "samples" => ("more sample", "more samples"),
        "fine_metrics" => ("more set of fine metrics", "more sets of fine metrics"),
        "environments" => ("more environment", "more environments"),
        "workers" => ("more worker", "more workers"),
        "spans" => ("more span", "more spans"),
        "thread_history" => ("more change of the threads", "more changes of the threads"),
        _ => ("more item", "more items"),
    };
    super::count_text(count, one, many)
}

/// Formats a list in words.
fn join_words(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [item] => item.clone(),
        [items @ .., last] => format!("{} and {last}", items.join(", ")),
    }
}

/// Returns the name with an upper-case first letter, for the beginning of a sentence.
fn capitalize(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_172_400 + seconds, 0).expect("it is a time")
    }

    const QUESTIONS: [Question; 13] = [
        Question::Finished,
        Question::Exceptions,
        Question::Cost,
        Question::TopTime,
        Question::WhyRunning,
        Question::Gil,
        Question::Network,
        Question::Spill,
        Question::EventLoop,
        Question::Cpu,
        Question::WhatChanged,
        Question::Slower,
        Question::Scaling,
    ];

    fn good() -> Answer {
        Answer::measured(Verdict::Good, "All is well.".to_owned()).value(1.0, "tasks").share(Some(0.5))
    }

    #[test]
    fn what_is_wholly_known_stays_as_it_is() {
        for question in QUESTIONS {
            assert_eq!(KnownPart::default().qualify(question, good()).into_answer(), good(), "{question:?}");
        }
    }

    #[test]
    fn nothing_is_good_and_measured_of_which_the_end_or_the_beginning_is_unknown() {
        let cases = [
            (None, Some(5), "All is well, up to 2026-11-20 11:00:05 UTC; what came after is unknown."),
            (Some(3), None, "All is well, from 2026-11-20 11:00:03 UTC on; what came before is unknown."),
            (
                Some(3),
                Some(5),
                "All is well, from 2026-11-20 11:00:03 UTC to 2026-11-20 11:00:05 UTC; what came before and after is \
                 unknown.",
            ),
        ];
        for (since, until, headline) in cases {
            let known = KnownPart { since: since.map(at), until: until.map(at), ..KnownPart::default() };
            for question in QUESTIONS {
                let answer = known.qualify(question, good()).into_answer();
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
                    assert_eq!(answer.headline, headline, "{question:?}");
                }
                assert_eq!((answer.value, answer.share), (good().value, good().share));
            }
        }
    }

    #[test]
    fn what_claims_nothing_names_the_time_in_a_sentence_of_its_own() {
        let known = KnownPart { since: Some(at(3)), until: Some(at(5)), ..KnownPart::default() };
        let nothing = Answer::not_collected("It was not measured.");
        let answer = known.qualify(Question::Gil, nothing.clone()).into_answer();
        let headline = "It was not measured. What came before 2026-11-20 11:00:03 UTC and after \
                        2026-11-20 11:00:05 UTC is unknown.";
        assert_eq!(answer, Answer { headline: headline.to_owned(), ..nothing });
        let bad = Answer::measured(Verdict::Bad, "3 tasks failed.".to_owned());
        let answer = KnownPart { since: None, ..known }.qualify(Question::Exceptions, bad).into_answer();
        assert_eq!(
            answer.headline,
            "3 tasks failed, up to 2026-11-20 11:00:05 UTC; what came after is unknown."
        );
        assert_eq!((answer.verdict, answer.confidence), (Verdict::Bad, Confidence::Estimated));
    }

    #[test]
    fn what_was_given_up_matters_to_what_rests_on_it() {
        let dropped = |of: &[(&str, i64)]| KnownPart {
            dropped: of.iter().map(|(section, count)| ((*section).to_owned(), *count)).collect(),
            ..KnownPart::default()
        };
        let said = |known: &KnownPart, question| {
            let answer = known.qualify(question, good()).into_answer();
            (answer.verdict, answer.confidence, answer.headline)
        };
        let known = dropped(&[("computations", 3), ("fine_metrics", 1), ("usage", 2), ("logs", 9)]);
        let expected = |verdict, rest: &str| (verdict, Confidence::Estimated, format!("All is well. {rest}"));
        let headline = "3 more computations were not reported.";
        assert_eq!(said(&known, Question::Finished), expected(Verdict::Unknown, headline));
        let headline = "1 more set of fine metrics was not reported.";
        assert_eq!(said(&known, Question::Cpu), expected(Verdict::Good, headline));
        let headline = "1 more set of fine metrics and 2 more hours of usage were not reported.";
        assert_eq!(said(&known, Question::Network), expected(Verdict::Good, headline));
        let whole = (Verdict::Good, Confidence::Measured, "All is well.".to_owned());
        assert_eq!(said(&known, Question::Gil), whole);

        let cut = ["usage.total_compute_seconds", "fine_metrics.x", "usages.y", "events.at"];
        let known = KnownPart { cut: cut.map(str::to_owned).to_vec(), ..KnownPart::default() };
        let headline = "Impossible values of the reported usage were cut.";
        assert_eq!(said(&known, Question::Cost), expected(Verdict::Good, headline));
        let headline = "Impossible values of the reported fine metrics and usage were cut.";
        assert_eq!(said(&known, Question::Spill), expected(Verdict::Good, headline));
        assert_eq!(said(&known, Question::Finished), whole);
        let nothing = Answer::not_collected("It was refused.");
        assert_eq!(known.qualify(Question::Cost, nothing.clone()).into_answer(), nothing);

        let known = KnownPart { lacks_tasks: true, ..KnownPart::default() };
        let headline = "Data of the class TASKS was kept back: see the privacy receipt of the cluster.";
        assert_eq!(said(&known, Question::Finished), expected(Verdict::Unknown, headline));
        assert_eq!(said(&known, Question::TopTime), expected(Verdict::Good, headline));
        assert_eq!(said(&known, Question::Spill), whole);
        let nothing = Answer::not_collected("It was refused.");
        assert_eq!(known.qualify(Question::Finished, nothing.clone()).into_answer(), nothing);

        let known =
            KnownPart { lacks_reports: true, part: Some("A file.".to_owned()), ..KnownPart::default() };
        for question in QUESTIONS {
            let found = said(&known, question);
            if question == Question::WhyRunning {
                assert_eq!(found, whole);
                continue;
            }
            let rest = "Some of its reports have not arrived, and what they tell is unknown. A file.";
            assert_eq!(found.2, format!("All is well. {rest}"), "{question:?}");
            assert_eq!(found.1, Confidence::Estimated);
        }
    }

    #[test]
    fn comparisons_say_which_side_is_known_in_part() {
        let whole = KnownPart::default();
        let lost = KnownPart { until: Some(at(5)), ..KnownPart::default() };
        let lossy = KnownPart { dropped: BTreeMap::from([("spans".to_owned(), 2)]), ..KnownPart::default() };
        let earlier = |known| {
            let answer = whole.qualify_comparison(Question::Slower, good(), Some(("cluster 7", known)));
            let Answer { verdict, confidence, headline, .. } = answer.into_answer();
            (verdict, confidence, headline)
        };
        let headline =
            "All is well. Cluster 7 is known up to 2026-11-20 11:00:05 UTC; what came after is unknown.";
        assert_eq!(earlier(&lost), (Verdict::Unknown, Confidence::Estimated, headline.to_owned()));
        let headline = "All is well. 2 more spans of cluster 7 were not reported.";
        assert_eq!(earlier(&lossy).2, headline);
        assert_eq!(earlier(&whole), (Verdict::Good, Confidence::Measured, "All is well.".to_owned()));

        let works = |base: &[KnownPart], head: &[KnownPart]| {
            let works = [("the first work", base), ("the second work", head)];
            qualify_works(Question::Slower, good(), works).into_answer().headline
        };
        let one = std::slice::from_ref(&whole);
        assert_eq!(works(one, &[]), "All is well.");
        let headline = "All is well. The second work is known up to 2026-11-20 11:00:05 UTC; what came after is unknown.";
        assert_eq!(works(one, std::slice::from_ref(&lost)), headline);
        let later = KnownPart { until: Some(at(9)), ..KnownPart::default() };
        let headline = "All is well. 3 of 4 clusters of the first work are known in part, the first of them up to \
                        2026-11-20 11:00:05 UTC.";
        assert_eq!(works(&[later, whole.clone(), lossy, lost.clone()], one), headline);
    }
}
