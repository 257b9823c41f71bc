//! One case for each code: the facts that lead to it, and the headline, written by hand.

mod comparison;
mod lost_time;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};

use super::{why_running::tests::at, *};

/// A question, its answer, and the headline.
type Case = (Question, Answer, &'static str);

/// An hour in microseconds.
const HOUR: i64 = 3_600_000_000;

/// Answers about clusters that are known in part.
fn partial_answers() -> Vec<Case> {
    let answer = || lost_time::contention().swap_remove(1).1;
    let unmeasured = || lost_time::contention().swap_remove(0).1;
    let qualify =
        |known_part: KnownPart, question, answer: Answer| known_part.qualify(question, answer).into_answer();
    let bounded = KnownPart { until: Some(at(5)), ..KnownPart::default() };
    let dropped = |count| BTreeMap::from([("samples".to_owned(), count)]);
    let lossy = KnownPart {
        lacks_reports: true,
        lacks_tasks: true,
        dropped: BTreeMap::from([("fine_metrics".to_owned(), 1), ("usage".to_owned(), 2)]),
        clamped: vec!["usage.x".to_owned(), "fine_metrics.x".to_owned()],
        ..KnownPart::default()
    };
    let network = || {
        lost_time::lost_times().into_iter().find(|case| case.2.ends_with("for it.")).expect("it is there").1
    };
    let slower = || comparison::comparisons().swap_remove(0).1;
    let compare_works = |base: &[KnownPart], head: &[KnownPart]| {
        qualify_works(Question::Slower, slower(), [base, head]).into_answer()
    };
    vec![
        (
            Question::Gil,
            qualify(KnownPart { dropped: dropped(1), ..bounded.clone() }, Question::Gil, answer()),
            "The GIL was busy 38 % of the last 10 min, up to 2026-11-20 11:00:05 UTC; the time after is unknown. 1 more \
             sample was not reported.",
        ),
        (
            Question::Gil,
            qualify(bounded.clone(), Question::Gil, unmeasured()),
            "GIL contention was not measured: install gilknocker on the workers, and Dask 2023.4.1 or newer measures it. \
             The time after 2026-11-20 11:00:05 UTC is unknown.",
        ),
        (
            Question::Network,
            qualify(lossy.clone(), Question::Network, network()),
            "Workers received data for 30 min, and threads were idle 75 % of the time, which they may have spent waiting \
             for it. Some of its reports have not arrived, and their content is unknown. Data of the class TASKS was withheld or dropped: see the privacy receipt of the cluster. 1 more set of fine metrics and 2 more hours of usage were not \
             reported. Impossible values of the reported fine metrics and usage were clamped.",
        ),
        (
            Question::Slower,
            compare_works(
                std::slice::from_ref(&bounded),
                &[KnownPart { lacks_reports: true, ..bounded.clone() }, lossy],
            ),
            "It spent 1.3 min of thread time, as much as the first work. The first work is known up to 2026-11-20 11:00:05 \
             UTC; the time after is unknown. 2 of 2 clusters of the second work are known in part, the first of them up \
             to 2026-11-20 11:00:05 UTC.",
        ),
    ]
}

fn cases() -> Vec<Case> {
    let lost_time_cases = [lost_time::contention(), lost_time::lost_times()];
    let comparison_cases = [comparison::changes(), comparison::comparisons()];
    [outcome::outcomes(), lost_time_cases.concat(), comparison_cases.concat(), partial_answers()].concat()
}

#[test]
fn every_code_has_a_case_with_its_text() {
    let mut tested_codes: Vec<AnswerCode> = Vec::new();
    for (question, answer, headline) in cases() {
        assert_eq!(answer.headline(), headline);
        let code = answer.phrase.code;
        assert!(code.questions().contains(&question), "{code:?} does not answer {question:?}");
        tested_codes.push(code);
        tested_codes.extend(answer.qualifications.iter().map(|qualification| qualification.code));
        tested_codes.extend(answer.evidence.iter().map(|evidence| evidence.phrase.code));
    }
    let untested_codes: Vec<_> = AnswerCode::ALL.iter().filter(|code| !tested_codes.contains(code)).collect();
    assert!(untested_codes.is_empty(), "no case leads to {untested_codes:?}");
}

/// A client that knows the codes needs no headline, because each digit and name in it is an argument.
#[test]
fn texts_have_no_numbers_of_their_own_and_no_two_are_the_same() {
    let mut texts = BTreeSet::new();
    for code in AnswerCode::ALL {
        let text = code.template();
        assert!(!text.contains(|letter: char| letter.is_ascii_digit()), "{code:?} has a number: {text}");
        assert!(texts.insert(text), "{code:?} has the text of another code");
        for (open, close) in [('{', '}'), ('[', ']')] {
            assert_eq!(text.matches(open).count(), text.matches(close).count(), "{code:?}: {text}");
        }
        assert!(!text.ends_with('.'), "{code:?}: {text}");
    }
    for question in Question::ALL {
        assert!(AnswerCode::ALL.iter().any(|code| code.questions().contains(&question)), "{question:?}");
    }
}

#[test]
fn numbers_are_written_for_people() {
    let durations = [0.0, 0.25, 1.0, 59.9, 60.0, 3_569.0, 3_600.0, 7_500.0, 172_800.0, 864_000.0];
    let expected =
        ["0 s", "0.2 s", "1 s", "59.9 s", "1 min", "59 min", "1 h 0 min", "2 h 5 min", "2 days", "10 days"];
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
    let known_part =
        KnownPart { partial_reason: Some("The rest is not known.".to_owned()), ..KnownPart::default() };
    let qualify = |answer: Answer| known_part.qualify(Question::Gil, answer).into_answer();
    let busy = AnswerCode::GilBusy.with("share", Value::Share(0.5)).with("period", Value::Seconds(60.0));
    let counted = Answer::measured(Verdict::Good, busy).value(30.0, "seconds");
    let unqualified = KnownPart::default().qualify(Question::Gil, counted.clone()).into_answer();
    assert_eq!(unqualified, counted);
    let qualified = qualify(counted.clone());
    assert_eq!(qualified.headline(), "The GIL was busy 50 % of the last 1 min. The rest is not known.");
    assert_eq!((qualified.confidence, qualified.value), (Confidence::Estimated, counted.value));
    // The answer has no number that could be partial.
    let unanswered = Answer::not_collected(AnswerCode::EventLoopsNotMeasured);
    assert_eq!(qualify(unanswered.clone()), unanswered);
}

#[test]
fn an_answer_has_few_pieces_of_evidence_and_no_share_above_one() {
    let answer = Answer::measured(Verdict::Good, AnswerCode::NoBaseline).share(Some(1.5));
    let answer = answer.with_evidence((0..9).map(|_| Evidence::new(AnswerCode::ThreadTime)));
    assert_eq!((answer.evidence.len(), answer.share), (MAX_EVIDENCE, Some(1.0)));
}
