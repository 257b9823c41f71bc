//! Answers about the outcome of the work and its cost.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use entity::{
    computation::State,
    error_group::Origin,
    ids::{ClusterId, ComputationId, ErrorGroupId, WorkerId},
    worker::End,
};

use super::{
    Answer, AnswerCode as Code, ClusterNow, Confidence, Evidence, Missing, Phrase, Subject, Value, Verdict,
    part_of_the_work, remedy, seconds, share_of, to_f64,
};
use crate::domain::{
    cost::{Basis, Cost, Rate, RateCard},
    usage::{Cause, Usage},
};

/// The share of the cost for idle threads from which the verdict is [`Verdict::Notice`].
const NOTABLE_IDLE_SHARE: f64 = 0.5;

/// The number of computations of a cluster in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputationStateCount {
    /// The state.
    pub state: State,
    /// The number of computations in this state.
    pub count: i64,
    /// The time at which the last of them was submitted.
    pub last_started_at: DateTime<Utc>,
}

/// A computation as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputationEvidence {
    /// The id of the computation.
    pub id: (ClusterId, ComputationId),
    /// Its state.
    pub state: State,
    /// The time at which it was submitted.
    pub started_at: DateTime<Utc>,
    /// The time at which its last task ended.
    pub stopped_at: Option<DateTime<Utc>>,
}

/// The facts for the question whether a cluster's work finished.
#[derive(Clone, Debug)]
pub struct FinishedFacts<'a> {
    /// The counts of all computations by state.
    pub states: &'a [ComputationStateCount],
    /// The newest computations in the deciding state, see [`deciding_state`].
    pub evidence: &'a [ComputationEvidence],
    /// The number of tasks that the scheduler received.
    pub tasks: i64,
    /// The reason for the absence of computations, if there are none.
    pub missing: Missing,
    /// The reason why the reports hold only a part of the work, if they do.
    pub partial: Option<&'a str>,
    /// The current state of the cluster.
    pub now: &'a ClusterNow,
}

fn count_of(states: &[ComputationStateCount], state: State) -> i64 {
    states.iter().filter(|row| row.state == state).map(|row| row.count).sum()
}

fn last_state(states: &[ComputationStateCount]) -> Option<State> {
    states.iter().max_by_key(|row| row.last_started_at).map(|row| row.state)
}

/// Returns the state whose computations best support the answer. Returns `None` if there are no
/// computations.
#[must_use]
pub fn deciding_state(states: &[ComputationStateCount]) -> Option<State> {
    match last_state(states)? {
        failed @ (State::Erred | State::Cancelled | State::Lost) => Some(failed),
        _ => [State::Running, State::Erred, State::Cancelled, State::Lost, State::Finished]
            .into_iter()
            .find(|state| count_of(states, *state) > 0),
    }
}

/// Answers whether the computations finished. The last computation decides, because earlier failures may
/// have been fixed since.
#[must_use]
pub fn answer_finished(facts: &FinishedFacts<'_>) -> Answer {
    let Some(last_state) = last_state(facts.states) else { return answer_nothing_submitted(facts) };
    let count_in = |state| count_of(facts.states, state);
    let (finished, running) = (count_in(State::Finished), count_in(State::Running));
    let failed = count_in(State::Erred) + count_in(State::Cancelled) + count_in(State::Lost);
    let total = finished + running + failed;
    let computations = |count| Value::Count(count, "computations");
    let with_total = |code: Code, name, count| {
        code.with(name, computations(count)).with("computations", computations(total))
    };
    let (verdict, phrase) = match last_state {
        State::Erred => (Verdict::Bad, with_total(Code::LastComputationFailed, "finished", finished)),
        State::Cancelled => {
            // A user cancelled it while the cluster kept running, and most likely knows about it.
            let verdict = if facts.now.closed_at.is_some() { Verdict::Bad } else { Verdict::Notice };
            (verdict, with_total(Code::LastComputationCancelled, "finished", finished))
        }
        State::Lost => {
            let code = match facts.now.closed_at {
                Some(_) => Code::LastComputationOpenAtClose,
                None => Code::LastComputationOpenInSilence,
            };
            (Verdict::Bad, with_total(code, "finished", finished))
        }
        _ if running > 0 => match facts.now.silence() {
            Some(silence) => {
                let phrase = with_total(Code::ComputationsRanWhenLastSeen, "running", running);
                (Verdict::Unknown, phrase.with("silence", Value::Seconds(silence)))
            }
            None => (Verdict::Notice, with_total(Code::ComputationsRunning, "running", running)),
        },
        _ if failed > 0 => {
            (Verdict::Notice, with_total(Code::EarlierComputationsUnfinished, "unfinished", failed))
        }
        _ => (Verdict::Good, Code::AllComputationsFinished.with("computations", computations(total))),
    };
    Answer::measured(verdict, phrase)
        .value(to_f64(finished), "computations")
        .share(share_of(to_f64(finished), to_f64(total)))
        .with_evidence(facts.evidence.iter().map(computation_evidence))
}

fn answer_nothing_submitted(facts: &FinishedFacts<'_>) -> Answer {
    let tasks = Value::Count(facts.tasks, "tasks");
    if facts.tasks == 0 {
        if let Some(reason) = facts.partial {
            return Answer::not_collected(Code::SubmissionUnknown).qualified([part_of_the_work(reason)]);
        }
        let code = match facts.now.closed_at {
            Some(_) => Code::NothingEverSubmitted,
            None => Code::NothingSubmittedYet,
        };
        return Answer::measured(Verdict::Unknown, code.with("tasks", tasks)).value(0.0, "computations");
    }
    Answer::not_collected(Code::ComputationsNotStored.with("tasks", tasks))
        .qualified([remedy(facts.missing, "TASKS")])
}

fn computation_evidence(computation: &ComputationEvidence) -> Evidence {
    let code = match computation.state {
        State::Running => Code::ComputationRunning,
        State::Finished => Code::ComputationFinished,
        State::Erred => Code::ComputationFailed,
        State::Cancelled => Code::ComputationCancelled,
        State::Lost => Code::ComputationLost,
    };
    let phrase = code.with("startedAt", Value::Time(computation.started_at));
    let evidence = match computation.stopped_at {
        Some(stop) => Evidence::of(phrase, (stop - computation.started_at).as_seconds_f64(), "seconds"),
        None => Evidence::new(phrase),
    };
    evidence.about(Subject::Computation(computation.id.0, computation.id.1))
}

/// A group of similar errors of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorKind {
    /// The origin of the failure.
    pub origin: Origin,
    /// The error group. `None` for errors recorded before groups existed.
    pub group: Option<ErrorGroupId>,
    /// The exception's class.
    pub exception_type: Option<String>,
    /// The number of errors in this group.
    pub count: i64,
    /// The number of all errors of this origin.
    pub origin_count: i64,
}

/// A worker that died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadWorker {
    /// The id of the worker.
    pub id: (ClusterId, WorkerId),
    /// The worker's name in Dask.
    pub name: String,
    /// The cause of its death.
    pub end: End,
    /// The number of tasks it was processing.
    pub processing: i64,
}

/// The facts for the question about a cluster's exceptions.
#[derive(Clone, Debug)]
pub struct ExceptionFacts<'a> {
    /// The most common groups of each origin, by descending count.
    pub kinds: &'a [ErrorKind],
    /// Workers that died, if Dask itself failed.
    pub dead_workers: &'a [DeadWorker],
    /// The number of errors that the plugin recorded, stored or not.
    pub recorded: i64,
    /// The number of errors that the plugin discarded.
    pub dropped: i64,
    /// The number of tasks that failed by an exception of their own.
    pub tasks_erred: i64,
    /// The number of tasks that produced a result in memory.
    pub tasks_succeeded: i64,
    /// The number of errors in user code that were not stored, according to the receipts.
    pub not_stored: i64,
    /// The reason for the absence of user errors, if there are none.
    pub missing: Missing,
    /// The reason why the reports hold only a part of the work, if they do.
    pub partial: Option<&'a str>,
}

/// Answers whether exceptions occurred.
#[must_use]
pub fn answer_exceptions(facts: &ExceptionFacts<'_>) -> Answer {
    let count_of =
        |origin| facts.kinds.iter().find(|kind| kind.origin == origin).map_or(0, |kind| kind.origin_count);
    let (user, dask, unknown) = (count_of(Origin::User), count_of(Origin::Dask), count_of(Origin::Unknown));
    let share = share_of(to_f64(facts.tasks_erred), to_f64(facts.tasks_erred + facts.tasks_succeeded));
    let total = user + dask + unknown;
    // The plugin may have discarded errors, the server refused them, and the retention deleted them. The
    // receipts count only some of these.
    let not_stored = facts.not_stored.max(facts.dropped).max(facts.recorded - total);
    if total == 0 {
        return answer_without_exceptions(facts, not_stored, share);
    }
    let exceptions = |count| Value::Count(count, "exceptions");
    let positive = |count: i64| (count > 0).then(|| exceptions(count));
    let phrase = match (user > 0, dask > 0, unknown > 0) {
        (true, false, false) => Phrase::from(Code::ExceptionsOfCode),
        (false, true, false) => Code::ExceptionsOfDask.into(),
        (false, false, _) => Code::ExceptionsOfUnknownCause.into(),
        (true, ..) => Code::ExceptionsOfCodeAndOthers
            .with("ofCode", exceptions(user))
            .with_any("ofDask", positive(dask))
            .with_any("ofUnknownCause", positive(unknown)),
        (false, true, true) => Code::ExceptionsOfDaskAndUnknownCause
            .with("ofDask", exceptions(dask))
            .with("ofUnknownCause", exceptions(unknown)),
    };
    let phrase = phrase.with("exceptions", exceptions(total));
    let confidence = if not_stored > 0 { Confidence::Estimated } else { Confidence::Measured };
    let not_stored_phrase = positive(not_stored).map(|count| Code::MoreNotStored.with("notStored", count));
    // The most common group of each origin precedes all others.
    let first_index = |origin| facts.kinds.iter().position(|kind| kind.origin == origin);
    let first_indexes = [Origin::User, Origin::Dask, Origin::Unknown].map(first_index);
    let (first_kinds, other_kinds): (Vec<_>, Vec<_>) =
        facts.kinds.iter().enumerate().partition(|(index, _)| first_indexes.contains(&Some(*index)));
    let kinds = first_kinds.into_iter().chain(other_kinds).map(|(_, kind)| {
        let code = match kind.origin {
            Origin::User => Code::ErrorsOfCode,
            Origin::Dask => Code::ErrorsOfDask,
            Origin::Unknown => Code::ErrorsOfUnknownCause,
        };
        let phrase = Phrase::from(code).with_any("exception", kind.exception_type.clone().map(Value::Text));
        let evidence = Evidence::of(phrase, to_f64(kind.count), "exceptions");
        match kind.group {
            Some(group) => evidence.about(Subject::ErrorGroup(group)),
            None => evidence,
        }
    });
    let dead_workers = facts.dead_workers.iter().map(|worker| {
        let code = match worker.end {
            End::Memory => Code::WorkerKilled,
            _ => Code::WorkerLost,
        };
        let phrase = code.with("worker", worker.name.as_str().into());
        let evidence = Evidence::of(phrase, to_f64(worker.processing), "tasks");
        evidence.about(Subject::Worker(worker.id.0, worker.id.1))
    });
    // Keeps room for both kinds of evidence if they exceed the limit together.
    let max_kinds = super::MAX_EVIDENCE - facts.dead_workers.len().min(2);
    Answer::new(Verdict::Bad, confidence, phrase)
        .qualified(not_stored_phrase)
        .value(to_f64(total), "exceptions")
        .share(share)
        .with_evidence(kinds.take(max_kinds).chain(dead_workers))
}

/// Answers whether exceptions occurred if none is stored.
fn answer_without_exceptions(facts: &ExceptionFacts<'_>, not_stored: i64, share: Option<f64>) -> Answer {
    let (failed, succeeded) = (facts.tasks_erred, facts.tasks_succeeded);
    let tasks = |count| Value::Count(count, "tasks");
    if let Some(reason) = facts.partial.filter(|_| failed + succeeded == 0) {
        return Answer::not_collected(Code::FailuresUnknown).qualified([part_of_the_work(reason)]);
    }
    if failed == 0 && not_stored <= 0 {
        let phrase = Code::NoExceptions.with("failed", tasks(failed)).with("succeeded", tasks(succeeded));
        return Answer::measured(Verdict::Good, phrase).value(0.0, "exceptions").share(share);
    }
    let reason = if facts.dropped > 0 && facts.missing == Missing::NotReported {
        Code::TooManyAtOnce.into()
    } else {
        remedy(facts.missing, "USER_ERRORS")
    };
    let phrase = if failed > 0 {
        Code::ExceptionsOfTasksNotStored.with("failed", tasks(failed))
    } else {
        Code::ExceptionsNotStored.with("recorded", Value::Count(not_stored, "exceptions"))
    };
    Answer { verdict: Verdict::Bad, ..Answer::not_collected(phrase) }.qualified([reason])
}

/// Answers what the cluster cost. `days` holds its usage by day. The answer names every amount: the costs
/// by the account's rates, and the estimates for days without a rate.
#[must_use]
pub fn answer_cost(rates: &RateCard, days: &BTreeMap<i64, Usage>) -> Answer {
    if days.is_empty() {
        return Answer::not_collected(Code::NoUsage.with("hours", Value::Count(0, "hours")));
    }
    let costs = rates.cost(days.iter().map(|(day, usage)| (*day, usage)));
    let thread_us: i64 = days.values().map(|usage| usage.thread_us).fold(0, i64::saturating_add);
    let thread_hours = Evidence::of(Code::ThreadTime, seconds(thread_us) / 3_600.0, "thread-hours");
    let amount = |cost: &Cost| Value::Amount(cost.amount(), cost.currency.clone());
    let estimated_rate = || {
        let rate = Rate::estimate();
        Value::Price(rate.per_thread_hour, rate.currency)
    };
    if let [cost] = &costs[..] {
        let idle = idle_share(cost, days);
        // An estimate by default rates is no basis for a verdict.
        let verdict = match (cost.basis, idle) {
            (Basis::Estimated, _) | (_, None) => Verdict::Unknown,
            (Basis::RateCard, Some(idle)) if idle >= NOTABLE_IDLE_SHARE => Verdict::Notice,
            (Basis::RateCard, Some(_)) => Verdict::Good,
        };
        let phrase = match cost.basis {
            Basis::RateCard => Phrase::from(Code::CostByRates),
            Basis::Estimated => Code::CostEstimated.with("rate", estimated_rate()),
        };
        let phrase = phrase.with("cost", amount(cost)).with_any("idleShare", idle.map(Value::Share));
        return Answer::new(verdict, Confidence::Estimated, phrase)
            .value(cost.amount(), cost.currency.clone())
            .share(idle)
            .with_evidence([thread_hours]);
    }
    let (priced, estimated): (Vec<&Cost>, Vec<&Cost>) =
        costs.iter().partition(|cost| cost.basis == Basis::RateCard);
    let phrase = if estimated.is_empty() {
        Phrase::from(Code::CostByRates)
    } else {
        let phrase = Code::CostPartlyEstimated.with("rate", estimated_rate());
        phrase.with_any("estimated", estimated.iter().copied().map(amount))
    };
    let phrase = phrase.with_any("cost", priced.iter().copied().map(amount));
    let evidence = |code: Code, cost: &Cost| Evidence::of(code, cost.amount(), cost.currency.clone());
    let priced = priced.into_iter().map(|cost| evidence(Code::CostInCurrency, cost));
    let estimated = estimated.into_iter().map(|cost| evidence(Code::CostWithoutRate, cost));
    Answer::new(Verdict::Unknown, Confidence::Estimated, phrase)
        .with_evidence(priced.chain([thread_hours]).chain(estimated))
}

/// Returns the share of a cost that was paid for idle threads. Returns `None` if Dask does not report
/// idle time.
#[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
fn idle_share(cost: &Cost, days: &BTreeMap<i64, Usage>) -> Option<f64> {
    let idle = cost.causes.get(&Cause::Idle).copied().unwrap_or(0);
    days.values()
        .any(|usage| usage.idle_us.is_some())
        .then(|| share_of(idle as f64, cost.nanos as f64))
        .flatten()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::answer::why_running::tests::{at, now};

    /// Five tasks that succeeded.
    pub(in crate::domain::answer) fn no_exceptions() -> ExceptionFacts<'static> {
        ExceptionFacts {
            kinds: &[],
            dead_workers: &[],
            recorded: 0,
            dropped: 0,
            tasks_erred: 0,
            tasks_succeeded: 5,
            not_stored: 0,
            missing: Missing::NotReported,
            partial: None,
        }
    }

    fn states(counts: &[(State, i64, i64)]) -> Vec<ComputationStateCount> {
        let state = |(state, count, last_started): &(State, i64, i64)| ComputationStateCount {
            state: *state,
            count: *count,
            last_started_at: at(*last_started),
        };
        counts.iter().map(state).collect()
    }

    #[test]
    fn the_last_computation_counts_most() {
        use State::{Cancelled, Erred, Finished as Done, Lost, Running};
        let cases = [
            (vec![(Done, 3, 5)], Done, Verdict::Good),
            (vec![(Done, 3, 5), (Erred, 1, 4)], Erred, Verdict::Notice),
            (vec![(Done, 3, 5), (Erred, 1, 6)], Erred, Verdict::Bad),
            (vec![(Done, 3, 5), (Erred, 1, 6), (Running, 1, 7)], Running, Verdict::Notice),
            (vec![(Erred, 1, 6), (Cancelled, 1, 7)], Cancelled, Verdict::Notice),
            (vec![(Done, 2, 6), (Lost, 1, 7)], Lost, Verdict::Bad),
            (vec![(Done, 2, 7), (Lost, 1, 6)], Lost, Verdict::Notice),
        ];
        for (counts, expected_state, verdict) in cases {
            let states = states(&counts);
            assert_eq!(deciding_state(&states), Some(expected_state), "{counts:?}");
            let now = now();
            let facts = FinishedFacts {
                states: &states,
                evidence: &[],
                tasks: 1,
                missing: Missing::NotReported,
                partial: None,
                now: &now,
            };
            assert_eq!(answer_finished(&facts).verdict, verdict, "{counts:?}");
        }
        assert_eq!(deciding_state(&[]), None);
    }

    #[test]
    fn exceptions_that_are_not_stored_are_not_none() {
        let no_exceptions_stored = no_exceptions();
        assert_eq!(answer_exceptions(&no_exceptions_stored).verdict, Verdict::Good);
        let outcome = |facts: &ExceptionFacts<'_>| {
            let answer = answer_exceptions(facts);
            (answer.verdict, answer.confidence, answer.headline())
        };
        let recorded = "1 exception was recorded, but not stored, and none was withheld or dropped: it may be older than such data \
                        is kept.";
        let dropped = "3 exceptions were recorded, but not stored, because there were more at once than its scheduler \
                       keeps.";
        for (facts, headline) in [
            (ExceptionFacts { recorded: 1, ..no_exceptions_stored.clone() }, recorded),
            (ExceptionFacts { dropped: 3, ..no_exceptions_stored.clone() }, dropped),
            (ExceptionFacts { recorded: 3, dropped: 2, ..no_exceptions_stored }, dropped),
        ] {
            assert_eq!(outcome(&facts), (Verdict::Bad, Confidence::NotCollected, headline.to_owned()));
        }
    }

    #[test]
    fn amounts_in_several_currencies_are_not_one_number() {
        use crate::domain::cost::Rate;
        let rate = |valid_from: i64, currency: &str| Rate {
            valid_from,
            currency: currency.to_owned(),
            per_thread_hour: 1.0,
            per_gib_hour: 0.0,
            per_worker_hour: 0.0,
        };
        let used = Usage { thread_us: 3_600_000_000, ..Usage::default() };
        let days = BTreeMap::from([(1, used), (2, used), (3, used)]);
        let rates = RateCard::new(vec![rate(2, "EUR"), rate(3, "USD")]);
        let answer = answer_cost(&rates, &days);
        assert_eq!(
            answer.headline(),
            "It cost 1.00 EUR and 1.00 USD by the account's rates, and 0.0500 USD on days without a rate, \
             estimated at 0.05 USD per thread-hour, as no rate is set: setCostRate sets one."
        );
        assert_eq!((answer.value.clone(), answer.share), (None, None));
        let evidence: Vec<_> = answer.evidence.iter().filter_map(|row| row.value.clone()).collect();
        let value = |value, unit: &str| (value, unit.to_owned().into());
        assert_eq!(
            evidence,
            [value(1.0, "EUR"), value(1.0, "USD"), value(3.0, "thread-hours"), value(0.05, "USD")]
        );
    }
}
