//! Answers about the outcome of the work, its cost, and the reason why a cluster is still running.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use entity::{
    computation::State,
    error_group::Origin,
    ids::{ClusterId, ComputationId, ErrorGroupId, WorkerId},
    worker::End,
};

use super::{
    Answer, Confidence, Evidence, Missing, Subject, Verdict, count_text, format_duration, format_time,
    percent, remedy, seconds, share_of, to_f64,
};
use crate::domain::{
    cost::{Basis, Cost, RateCard},
    life_cycle::silence_allowed_ms,
    usage::{Cause, Usage},
};

/// The idle time, in seconds, above which an idle cluster is rated as bad. It is longer than the usual
/// pause of a user in a notebook.
const LONG_IDLE_SECONDS: f64 = 1_800.0;

/// The share of the cost for idle threads from which an answer is rated as notable: half of the money had
/// no use.
const NOTABLE_IDLE_SHARE: f64 = 0.5;

/// The number of computations of a cluster in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputationStates {
    /// The state.
    pub state: State,
    /// The number of computations in this state.
    pub count: i64,
    /// The time at which the last of them was submitted.
    pub last_started_at: DateTime<Utc>,
}

/// A computation as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEvidence {
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
    pub states: &'a [ComputationStates],
    /// The newest computations in the deciding state, see [`deciding_state`].
    pub shown: &'a [RunEvidence],
    /// The number of tasks that the scheduler received.
    pub tasks: i64,
    /// The reason for the absence of computations, if there are none.
    pub missing: Missing,
    /// The reason why the reports hold only a part of the work, if they do.
    pub partial: Option<&'a str>,
    /// The current state of the cluster.
    pub now: &'a ClusterNow,
}

fn count_of(states: &[ComputationStates], state: State) -> i64 {
    states.iter().filter(|row| row.state == state).map(|row| row.count).sum()
}

fn last(states: &[ComputationStates]) -> Option<State> {
    states.iter().max_by_key(|row| row.last_started_at).map(|row| row.state)
}

/// Returns the state whose computations best support the answer. Returns `None` if there are no
/// computations.
#[must_use]
pub fn deciding_state(states: &[ComputationStates]) -> Option<State> {
    match last(states)? {
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
    let Some(last) = last(facts.states) else { return nothing_submitted(facts) };
    let of = |state| count_of(facts.states, state);
    let (done, running) = (of(State::Finished), of(State::Running));
    let failed = of(State::Erred) + of(State::Cancelled) + of(State::Lost);
    let all = done + running + failed;
    let (verdict, headline) = match last {
        State::Erred => (Verdict::Bad, format!("The last computation failed; {done} of {all} finished.")),
        State::Cancelled => {
            // A user cancelled it while the cluster kept running, and most likely knows about it.
            let verdict = if facts.now.closed_at.is_some() { Verdict::Bad } else { Verdict::Notice };
            let headline =
                format!("The last computation was cancelled before it was done; {done} of {all} finished.");
            (verdict, headline)
        }
        State::Lost => {
            let why = match facts.now.closed_at {
                Some(_) => "its cluster closed without reporting it",
                None => "its cluster stopped reporting",
            };
            (
                Verdict::Bad,
                format!(
                    "Whether the last computation finished is not known, since {why}; {done} of {all} did."
                ),
            )
        }
        _ if running > 0 => {
            if let Some(silent) = facts.now.silence() {
                let when = format!("the cluster was last heard of, {} ago", format_duration(silent));
                (Verdict::Unknown, format!("{running} of {all} computations had not finished when {when}."))
            } else {
                let are = if running == 1 { "is" } else { "are" };
                (Verdict::Notice, format!("{running} of {all} computations {are} still running."))
            }
        }
        _ if failed > 0 => {
            (Verdict::Notice, format!("The last computation finished, but {failed} of {all} did not."))
        }
        _ if all == 1 => (Verdict::Good, "The 1 computation finished.".to_owned()),
        _ => (Verdict::Good, format!("All {all} computations finished.")),
    };
    Answer::measured(verdict, headline)
        .value(to_f64(done), "computations")
        .share(share_of(to_f64(done), to_f64(all)))
        .with_evidence(facts.shown.iter().map(run))
}

fn nothing_submitted(facts: &FinishedFacts<'_>) -> Answer {
    if facts.tasks == 0 {
        if let Some(why) = facts.partial {
            return Answer::not_collected(format!("Whether anything was submitted is not known. {why}"));
        }
        let headline = match facts.now.closed_at {
            Some(_) => "Nothing was ever submitted, 0 tasks.",
            None => "Nothing was submitted yet, 0 tasks.",
        };
        return Answer::measured(Verdict::Unknown, headline.to_owned()).value(0.0, "computations");
    }
    let tasks = count_text(facts.tasks, "task was", "tasks were");
    let why = remedy(facts.missing, "TASKS");
    Answer::not_collected(format!("{tasks} submitted, but no computations are stored, {why}."))
}

fn run(run: &RunEvidence) -> Evidence {
    let how = match run.state {
        State::Running => "running",
        State::Finished => "finished",
        State::Erred => "failed",
        State::Cancelled => "cancelled",
        State::Lost => "lost",
    };
    let label = format!("Computation of {}, {how}", format_time(run.started_at));
    let evidence = match run.stopped_at {
        Some(stop) => Evidence::of(label, (stop - run.started_at).as_seconds_f64(), "seconds"),
        None => Evidence::new(label),
    };
    evidence.about(Subject::Computation(run.id.0, run.id.1))
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
    pub of_origin: i64,
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
pub struct Exceptions<'a> {
    /// The most common groups of each origin, by descending count.
    pub kinds: &'a [ErrorKind],
    /// Workers that died, if Dask itself failed.
    pub dead: &'a [DeadWorker],
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
pub fn answer_exceptions(facts: &Exceptions<'_>) -> Answer {
    let of = |origin| facts.kinds.iter().find(|kind| kind.origin == origin).map_or(0, |kind| kind.of_origin);
    let (user, dask, unknown) = (of(Origin::User), of(Origin::Dask), of(Origin::Unknown));
    let share = share_of(to_f64(facts.tasks_erred), to_f64(facts.tasks_erred + facts.tasks_succeeded));
    let all = user + dask + unknown;
    // Errors can be discarded by the plugin, refused, or older than the retention. The receipt knows only
    // some of these.
    let not_stored = facts.not_stored.max(facts.dropped).max(facts.recorded - all);
    if all == 0 {
        if let Some(why) = facts.partial.filter(|_| facts.tasks_erred + facts.tasks_succeeded == 0) {
            return Answer::not_collected(format!("Whether tasks failed is not known. {why}"));
        }
        if facts.tasks_erred == 0 && not_stored <= 0 {
            let succeeded = count_text(facts.tasks_succeeded, "task", "tasks");
            let headline = format!("No exceptions: 0 tasks failed and {succeeded} succeeded.");
            return Answer::measured(Verdict::Good, headline).value(0.0, "exceptions").share(share);
        }
        let why = if facts.dropped > 0 && facts.missing == Missing::NotReported {
            "because there were more at once than its scheduler keeps".to_owned()
        } else {
            remedy(facts.missing, "USER_ERRORS")
        };
        let headline = if facts.tasks_erred > 0 {
            let tasks = count_text(facts.tasks_erred, "task", "tasks");
            format!("{tasks} failed, but their exceptions are not stored, {why}.")
        } else {
            let recorded = count_text(not_stored, "exception was", "exceptions were");
            format!("{recorded} recorded, but not stored, {why}.")
        };
        return Answer { verdict: Verdict::Bad, ..Answer::not_collected(headline) };
    }
    let whose =
        [(user, "of the computations' own code"), (dask, "of Dask itself"), (unknown, "of unknown cause")];
    let parts: Vec<_> = whose.into_iter().filter(|(count, _)| *count > 0).collect();
    let headline = if let [(count, whose)] = parts[..] {
        format!("{}, all {whose}.", count_text(count, "exception", "exceptions"))
    } else {
        let parts: Vec<_> = parts.iter().map(|(count, whose)| format!("{count} {whose}")).collect();
        format!("{all} exceptions: {}.", parts.join(", "))
    };
    let (confidence, headline) = if not_stored > 0 {
        let more = count_text(not_stored, "more is", "more are");
        (Confidence::Estimated, format!("At least {headline} {more} not stored."))
    } else {
        (Confidence::Measured, headline)
    };
    // The most common group of each origin precedes all others.
    let first_of = |origin| facts.kinds.iter().position(|kind| kind.origin == origin);
    let firsts = [Origin::User, Origin::Dask, Origin::Unknown].map(first_of);
    let (first, others): (Vec<_>, Vec<_>) =
        facts.kinds.iter().enumerate().partition(|(place, _)| firsts.contains(&Some(*place)));
    let kinds = first.into_iter().chain(others).map(|(_, kind)| {
        let whose = match kind.origin {
            Origin::User => "of the code",
            Origin::Dask => "of Dask",
            Origin::Unknown => "of unknown cause",
        };
        let name = kind.exception_type.as_deref().unwrap_or("exception");
        let evidence = Evidence::of(format!("{name}, {whose}"), to_f64(kind.count), "exceptions");
        match kind.group {
            Some(group) => evidence.about(Subject::ErrorGroup(group)),
            None => evidence,
        }
    });
    let dead = facts.dead.iter().map(|worker| {
        let how = match worker.end {
            End::Memory => "killed over its memory",
            _ => "lost",
        };
        let label = format!("Worker {}, {how} while it processed", worker.name);
        let evidence = Evidence::of(label, to_f64(worker.processing), "tasks");
        evidence.about(Subject::Worker(worker.id.0, worker.id.1))
    });
    // Keeps room for both kinds of evidence if they exceed the limit together.
    let room = super::MAX_EVIDENCE - facts.dead.len().min(2);
    Answer::new(Verdict::Bad, confidence, headline)
        .value(to_f64(all), "exceptions")
        .share(share)
        .with_evidence(kinds.take(room).chain(dead))
}

/// Answers what the cluster cost. `days` holds its usage by day. The answer names every amount: the costs
/// by the account's rates, and the estimates for days without a rate.
#[must_use]
pub fn cost(rates: &RateCard, days: &BTreeMap<i64, Usage>) -> Answer {
    if days.is_empty() {
        return Answer::not_collected("No usage was reported, 0 hours of it, so there is nothing to price.");
    }
    let costs = rates.cost(days.iter().map(|(day, usage)| (*day, usage)));
    let thread_us: i64 = days.values().map(|usage| usage.thread_us).fold(0, i64::saturating_add);
    let thread_hours =
        Evidence::of("Thread time, busy or idle", seconds(thread_us) / 3_600.0, "thread-hours");
    let (priced, guessed): (Vec<&Cost>, Vec<&Cost>) =
        costs.iter().partition(|cost| cost.basis == Basis::RateCard);
    let in_words = |costs: &[&Cost]| {
        let amounts: Vec<String> = costs.iter().map(|cost| cost.in_words()).collect();
        amounts.join(" and ")
    };
    let guess = "estimated at 0.05 USD per thread-hour, as no rate is set: setCostRate sets one.";
    if let [cost] = &costs[..] {
        let idle = idle_share(cost, days);
        let of_it =
            idle.map(|idle| format!(", {} of it while threads were idle", percent(idle))).unwrap_or_default();
        // An estimate by default rates is no basis for a verdict.
        let verdict = match (cost.basis, idle) {
            (Basis::Estimated, _) | (_, None) => Verdict::Unknown,
            (Basis::RateCard, Some(idle)) if idle >= NOTABLE_IDLE_SHARE => Verdict::Notice,
            (Basis::RateCard, Some(_)) => Verdict::Good,
        };
        let headline = match cost.basis {
            Basis::RateCard => format!("It cost {} by the account's rates{of_it}.", cost.in_words()),
            Basis::Estimated => format!("It cost {}{of_it}, {guess}", cost.in_words()),
        };
        return Answer::new(verdict, Confidence::Estimated, headline)
            .value(cost.amount(), cost.currency.clone())
            .share(idle)
            .with_evidence([thread_hours]);
    }
    let by_rates = format!("It cost {} by the account's rates", in_words(&priced));
    let headline = if guessed.is_empty() {
        by_rates + "."
    } else {
        format!("{by_rates}, and {} on days without a rate, {guess}", in_words(&guessed))
    };
    let part = |label: &str, cost: &Cost| Evidence::of(label, cost.amount(), cost.currency.clone());
    let priced = priced.into_iter().map(|cost| part("By the rates in this currency", cost));
    let guessed = guessed.into_iter().map(|cost| part("Days without a rate, estimated", cost));
    Answer::new(Verdict::Unknown, Confidence::Estimated, headline)
        .with_evidence(priced.chain([thread_hours]).chain(guessed))
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

/// The state of a cluster at the time of the question.
#[derive(Clone, Debug)]
pub struct ClusterNow {
    /// The time of the question, by the server's clock.
    pub at: DateTime<Utc>,
    /// The time of the last report, by the server's clock.
    pub last_seen_at: DateTime<Utc>,
    /// The time of the newest report, by the scheduler's clock.
    pub reported_at: DateTime<Utc>,
    /// The configured interval between reports, in seconds.
    pub interval_seconds: f64,
    /// The time at which it closed, by the scheduler's clock.
    pub closed_at: Option<DateTime<Utc>>,
    /// True if the end of the cluster is known. An imported file may end before its cluster does.
    pub is_end_known: bool,
    /// The reason for which it closed.
    pub close_reason: Option<String>,
    /// The time since which it has no work, by the scheduler's clock.
    pub idle_since: Option<DateTime<Utc>>,
    /// True if the account requests that the cluster stop.
    pub stop_requested: bool,
    /// The number of connected workers.
    pub workers: i64,
}

impl ClusterNow {
    /// Returns the seconds since the last report if they exceed the allowed silence.
    #[must_use]
    pub fn silence(&self) -> Option<f64> {
        let silent = self.at - self.last_seen_at;
        let is_silent = silent.num_milliseconds() > silence_allowed_ms(self.interval_seconds);
        (self.closed_at.is_none() && is_silent).then(|| silent.as_seconds_f64())
    }
}

/// The facts for the question why a cluster is running. The numbers of tasks are `None` if no data
/// reports them.
#[derive(Clone, Debug)]
pub struct WhyRunning<'a> {
    /// The current state of the cluster.
    pub now: &'a ClusterNow,
    /// The number of tasks assigned to a worker.
    pub processing: Option<i64>,
    /// The number of tasks queued until a thread is free.
    pub queued: Option<i64>,
    /// The number of tasks that no worker may run.
    pub no_worker: Option<i64>,
    /// The number of tasks that wait for other tasks.
    pub waiting: Option<i64>,
    /// The number of results held in memory.
    pub memory: Option<i64>,
    /// The number of connected clients.
    pub clients: i64,
    /// The number of graphs that the scheduler is processing.
    pub graph_updates: Option<i64>,
}

/// Answers why the cluster is still running. The first applicable reason wins: it is not running (closed
/// or silent), it runs tasks, its tasks cannot run, its scheduler processes graphs, clients hold results,
/// it is idle.
#[must_use]
pub fn answer_why_running(facts: &WhyRunning<'_>) -> Answer {
    let now = facts.now;
    if let Some(closed) = now.closed_at {
        let since = (now.at - closed).as_seconds_f64().max(0.0);
        if !now.is_end_known {
            let headline = format!(
                "Whether it runs is not known: the file that it was imported from ends at {}, {} ago.",
                format_time(closed),
                format_duration(since)
            );
            return Answer::measured(Verdict::Unknown, headline).value(since, "seconds");
        }
        let reason = now.close_reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        let headline = format!(
            "It is not running: it closed at {}, {} ago{reason}.",
            format_time(closed),
            format_duration(since)
        );
        return Answer::measured(Verdict::Good, headline).value(since, "seconds");
    }
    if let Some(silent) = now.silence() {
        let headline = format!(
            "Whether it runs is not known: it has not reported for {}, though it reports every {}.",
            format_duration(silent),
            format_duration(now.interval_seconds)
        );
        return Answer::measured(Verdict::Unknown, headline).value(silent, "seconds");
    }
    let counts = [
        ("Tasks being processed", facts.processing, "tasks"),
        ("Tasks queued until a thread is free", facts.queued, "tasks"),
        ("Tasks no worker may run", facts.no_worker, "tasks"),
        ("Results in memory", facts.memory, "results"),
        ("Clients connected", Some(facts.clients), "clients"),
    ];
    let counts = counts.into_iter().filter_map(|(label, count, unit)| {
        count.filter(|count| *count > 0).map(|count| Evidence::of(label, to_f64(count), unit))
    });
    let answer = if let Some(idle_since) = now.idle_since {
        idle(facts, (now.reported_at - idle_since).as_seconds_f64().max(0.0))
    } else {
        answer_working(facts)
    };
    let answer = answer.with_evidence(counts);
    if now.stop_requested {
        let headline = format!("It was requested to stop, and has not stopped yet. {}", answer.headline);
        return Answer { verdict: Verdict::Notice, headline, ..answer };
    }
    answer
}

fn answer_working(facts: &WhyRunning<'_>) -> Answer {
    let some = |count: Option<i64>| count.filter(|count| *count > 0);
    let workers = count_text(facts.now.workers, "worker", "workers");
    if let Some(count) = some(facts.processing) {
        let stuck = some(facts.no_worker).map(|stuck| format!(", but no worker may run {stuck} others"));
        let verdict = if stuck.is_some() { Verdict::Notice } else { Verdict::Good };
        let tasks = count_text(count, "task is", "tasks are");
        let headline = format!("It works: {tasks} processed by its {workers}{}.", stuck.unwrap_or_default());
        return Answer::measured(verdict, headline).value(to_f64(count), "tasks");
    }
    if let Some(count) = some(facts.no_worker) {
        let tasks = count_text(count, "task waits", "tasks wait");
        let them = if count == 1 { "it" } else { "them" };
        let headline =
            format!("{tasks} for a worker that may run {them}: there are {workers}, and none may.");
        return Answer::measured(Verdict::Bad, headline).value(to_f64(count), "tasks");
    }
    if let Some(count) = some(facts.queued) {
        let tasks = count_text(count, "task is", "tasks are");
        let verdict = if facts.now.workers == 0 { Verdict::Bad } else { Verdict::Notice };
        let headline = format!("{tasks} queued for a free thread, and none runs on its {workers}.");
        return Answer::measured(verdict, headline).value(to_f64(count), "tasks");
    }
    if let Some(count) = some(facts.graph_updates) {
        let headline = format!("Its scheduler takes in {}.", count_text(count, "graph", "graphs"));
        return Answer::measured(Verdict::Good, headline).value(to_f64(count), "graphs");
    }
    if let Some(count) = some(facts.waiting) {
        let tasks = count_text(count, "task waits", "tasks wait");
        let headline = format!("{tasks} for others, and none runs on its {workers}.");
        return Answer::measured(Verdict::Notice, headline).value(to_f64(count), "tasks");
    }
    if facts.processing.is_none() {
        let headline =
            format!("Its scheduler says that it has work on {workers}, but no samples tell which.");
        return Answer { verdict: Verdict::Good, ..Answer::not_collected(headline) };
    }
    let headline =
        format!("It has 0 tasks to do on its {workers}, and its scheduler does not count it as idle.");
    Answer::measured(Verdict::Notice, headline).value(0.0, "tasks")
}

fn idle(facts: &WhyRunning<'_>, idle: f64) -> Answer {
    let verdict = if idle >= LONG_IDLE_SECONDS { Verdict::Bad } else { Verdict::Notice };
    let since = facts.now.idle_since.map(format_time).unwrap_or_default();
    let results = facts.memory.unwrap_or(0);
    if facts.clients > 0 && results > 0 {
        let (clients, hold) = (
            count_text(facts.clients, "client", "clients"),
            if facts.clients == 1 { "holds" } else { "hold" },
        );
        let results_held = count_text(results, "result", "results");
        let headline = format!(
            "{clients} {hold} {results_held} in its memory; it has had no work for {}, since {since}.",
            format_duration(idle)
        );
        return Answer::measured(verdict, headline).value(to_f64(results), "results");
    }
    let headline = format!("It is idle: it has had no work for {}, since {since}.", format_duration(idle));
    Answer::measured(verdict, headline).value(idle, "seconds")
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_172_400 + seconds, 0).expect("it is a time")
    }

    fn now() -> ClusterNow {
        ClusterNow {
            at: at(1_000),
            last_seen_at: at(990),
            reported_at: at(990),
            interval_seconds: 15.0,
            closed_at: None,
            is_end_known: true,
            close_reason: None,
            idle_since: None,
            stop_requested: false,
            workers: 2,
        }
    }

    fn states(of: &[(State, i64, i64)]) -> Vec<ComputationStates> {
        let state = |(state, count, last): &(State, i64, i64)| ComputationStates {
            state: *state,
            count: *count,
            last_started_at: at(*last),
        };
        of.iter().map(state).collect()
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
        for (of, deciding, verdict) in cases {
            let states = states(&of);
            assert_eq!(deciding_state(&states), Some(deciding), "{of:?}");
            let now = now();
            let facts = FinishedFacts {
                states: &states,
                shown: &[],
                tasks: 1,
                missing: Missing::NotReported,
                partial: None,
                now: &now,
            };
            assert_eq!(answer_finished(&facts).verdict, verdict, "{of:?}");
        }
        assert_eq!(deciding_state(&[]), None);
    }

    #[test]
    fn exceptions_that_are_not_stored_are_not_none() {
        let none = Exceptions {
            kinds: &[],
            dead: &[],
            recorded: 0,
            dropped: 0,
            tasks_erred: 0,
            tasks_succeeded: 5,
            not_stored: 0,
            missing: Missing::NotReported,
            partial: None,
        };
        assert_eq!(answer_exceptions(&none).verdict, Verdict::Good);
        let told = |facts: &Exceptions<'_>| {
            let answer = answer_exceptions(facts);
            (answer.verdict, answer.confidence, answer.headline)
        };
        let recorded = "1 exception was recorded, but not stored, and none was kept back: it may be older than such data \
                        is kept.";
        let dropped = "3 exceptions were recorded, but not stored, because there were more at once than its scheduler \
                       keeps.";
        for (facts, headline) in [
            (Exceptions { recorded: 1, ..none.clone() }, recorded),
            (Exceptions { dropped: 3, ..none.clone() }, dropped),
            (Exceptions { recorded: 3, dropped: 2, ..none }, dropped),
        ] {
            assert_eq!(told(&facts), (Verdict::Bad, Confidence::NotCollected, headline.to_owned()));
        }
    }

    #[test]
    fn silence_is_several_intervals_and_not_a_short_time() {
        let silent = |seconds: i64, interval: f64| {
            let last_seen_at = now().at - TimeDelta::seconds(seconds);
            ClusterNow { last_seen_at, interval_seconds: interval, ..now() }.silence()
        };
        assert_eq!(silent(45, 15.0), None);
        assert_eq!(silent(46, 15.0), Some(46.0));
        assert_eq!(silent(30, 1.0), None);
        assert_eq!(silent(31, 1.0), Some(31.0));
        let closed = ClusterNow { closed_at: Some(at(0)), last_seen_at: at(-100_000), ..now() };
        assert_eq!(closed.silence(), None);
    }

    #[test]
    fn what_keeps_a_cluster_is_told_in_an_order() {
        let now = now();
        let nothing = WhyRunning {
            now: &now,
            processing: Some(0),
            queued: Some(0),
            no_worker: Some(0),
            waiting: Some(0),
            memory: Some(0),
            clients: 0,
            graph_updates: Some(0),
        };
        let said = |facts: &WhyRunning<'_>| {
            let answer = answer_why_running(facts);
            (answer.verdict, answer.value.map(|(value, unit)| format!("{value} {unit}")))
        };
        let tasks = |count: i64| Some(format!("{count} tasks"));
        let queued = WhyRunning { queued: Some(4), ..nothing.clone() };
        assert_eq!(said(&queued), (Verdict::Notice, tasks(4)));
        let unrunnable = WhyRunning { no_worker: Some(3), ..queued.clone() };
        assert_eq!(said(&unrunnable), (Verdict::Bad, tasks(3)));
        let both = WhyRunning { processing: Some(7), ..unrunnable };
        assert_eq!(said(&both), (Verdict::Notice, tasks(7)));
        assert_eq!(said(&WhyRunning { no_worker: None, ..both }), (Verdict::Good, tasks(7)));
        assert_eq!(said(&WhyRunning { waiting: Some(2), ..nothing.clone() }), (Verdict::Notice, tasks(2)));
        assert_eq!(said(&nothing), (Verdict::Notice, tasks(0)));
        let grown = WhyRunning { processing: None, graph_updates: Some(1), ..nothing.clone() };
        assert_eq!(said(&grown), (Verdict::Good, Some("1 graphs".to_owned())));
        let untold = answer_why_running(&WhyRunning { processing: None, ..nothing.clone() });
        assert_eq!((untold.confidence, untold.value), (Confidence::NotCollected, None));
        // The counts of the last sample do not keep an idle scheduler running.
        let rested = ClusterNow { idle_since: Some(at(-1_000)), ..now.clone() };
        let idle = WhyRunning { now: &rested, processing: Some(7), ..nothing };
        assert_eq!(said(&idle), (Verdict::Bad, Some("1990 seconds".to_owned())));
        let held = WhyRunning { memory: Some(5), clients: 2, ..idle };
        assert_eq!(said(&held), (Verdict::Bad, Some("5 results".to_owned())));
        let stopping = ClusterNow { stop_requested: true, ..now.clone() };
        let told = answer_why_running(&WhyRunning { now: &stopping, ..queued });
        assert_eq!(told.verdict, Verdict::Notice);
        assert!(told.headline.starts_with("It was requested to stop"), "{}", told.headline);
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
        let answer = cost(&rates, &days);
        assert_eq!(
            answer.headline,
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
