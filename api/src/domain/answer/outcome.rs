//! What became of the work, what it cost, and why the cluster is still there.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use entity::{
    computation::State,
    error_group::Origin,
    ids::{ClusterId, ComputationId, ErrorGroupId, WorkerId},
    worker::End,
};

use super::{
    Answer, Confidence, Evidence, Missing, Subject, Verdict, duration, many, moment, number, percent, remedy,
    seconds, share_of,
};
use crate::domain::{
    cost::{Basis, Cost, RateCard},
    life_cycle::silence_allowed_ms,
    usage::{Cause, Usage},
};

/// Seconds without work after which a cluster is more than between two tries of somebody at a notebook.
const LONG_IDLE_SECONDS: f64 = 1_800.0;

/// The share of the money that went into idle threads from which on it is worth a look: more than was of use.
const MUCH_IDLE: f64 = 0.5;

/// How many computations of a cluster are in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputationStates {
    /// The state.
    pub state: State,
    /// How many are in it.
    pub count: i64,
    /// When the last of them was submitted.
    pub last_started_at: DateTime<Utc>,
}

/// A computation as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEvidence {
    /// Which.
    pub id: (ClusterId, ComputationId),
    /// Its state.
    pub state: State,
    /// When it was submitted.
    pub started_at: DateTime<Utc>,
    /// When its last task ended.
    pub stopped_at: Option<DateTime<Utc>>,
}

/// What is known of whether the work of a cluster finished.
#[derive(Clone, Debug)]
pub struct Finished<'a> {
    /// All computations.
    pub states: &'a [ComputationStates],
    /// The newest in the state that decides, see [`deciding_state`].
    pub shown: &'a [RunEvidence],
    /// Tasks the scheduler was given.
    pub tasks: i64,
    /// Computations the reporter gave up.
    pub dropped: i64,
    /// Why there are no computations, if there are none.
    pub missing: Missing,
    /// How the cluster is now.
    pub now: &'a Now,
}

fn count_of(states: &[ComputationStates], state: State) -> i64 {
    states.iter().filter(|row| row.state == state).map(|row| row.count).sum()
}

fn last(states: &[ComputationStates]) -> Option<State> {
    states.iter().max_by_key(|row| row.last_started_at).map(|row| row.state)
}

/// The state whose computations show best why the answer is what it is; `None` when there are none.
#[must_use]
pub fn deciding_state(states: &[ComputationStates]) -> Option<State> {
    match last(states)? {
        failed @ (State::Erred | State::Cancelled | State::Lost) => Some(failed),
        _ => [State::Running, State::Erred, State::Cancelled, State::Lost, State::Finished]
            .into_iter()
            .find(|state| count_of(states, *state) > 0),
    }
}

/// Did the computations finish? The last one counts most: what failed before may have been mended since.
#[must_use]
pub fn finished(facts: &Finished<'_>) -> Answer {
    let Some(last) = last(facts.states) else { return nothing_submitted(facts) };
    let of = |state| count_of(facts.states, state);
    let (done, running) = (of(State::Finished), of(State::Running));
    let failed = of(State::Erred) + of(State::Cancelled) + of(State::Lost);
    let all = done + running + failed;
    let (verdict, headline) = match last {
        State::Erred => (Verdict::Bad, format!("The last computation failed; {done} of {all} finished.")),
        State::Cancelled => {
            // While its cluster goes on, somebody gave it up, and most likely knows.
            let verdict = if facts.now.closed_at.is_some() { Verdict::Bad } else { Verdict::Notice };
            let headline =
                format!("The last computation was cancelled before it was done; {done} of {all} finished.");
            (verdict, headline)
        }
        State::Lost => {
            let why = match facts.now.closed_at {
                Some(_) => "its cluster closed without telling",
                None => "nothing is heard of its cluster any more",
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
                let when = format!("the cluster was last heard of, {} ago", duration(silent));
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
    let (confidence, headline) = if facts.dropped > 0 {
        let unknown = many(facts.dropped, "more computation was", "more computations were");
        (Confidence::Estimated, format!("{headline} {unknown} not reported."))
    } else {
        (Confidence::Measured, headline)
    };
    Answer::new(verdict, confidence, headline)
        .value(number(done), "computations")
        .share(share_of(number(done), number(all)))
        .because(facts.shown.iter().map(run))
}

fn nothing_submitted(facts: &Finished<'_>) -> Answer {
    if facts.tasks == 0 {
        let headline = match facts.now.closed_at {
            Some(_) => "Nothing was ever submitted, 0 tasks.",
            None => "Nothing was submitted yet, 0 tasks.",
        };
        return Answer::measured(Verdict::Unknown, headline.to_owned()).value(0.0, "computations");
    }
    let tasks = many(facts.tasks, "task was", "tasks were");
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
    let label = format!("Computation of {}, {how}", moment(run.started_at));
    let evidence = match run.stopped_at {
        Some(stop) => Evidence::of(label, (stop - run.started_at).as_seconds_f64(), "seconds"),
        None => Evidence::new(label),
    };
    evidence.about(Subject::Computation(run.id.0, run.id.1))
}

/// Errors of one kind on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorKind {
    /// Whose failure.
    pub origin: Origin,
    /// What they look like; none for old ones.
    pub group: Option<ErrorGroupId>,
    /// The exception's class.
    pub exception_type: Option<String>,
    /// How many look so.
    pub count: i64,
    /// How many are of this origin in all.
    pub of_origin: i64,
}

/// A worker that died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadWorker {
    /// Which.
    pub id: (ClusterId, WorkerId),
    /// Dask's name of it.
    pub name: String,
    /// How it ended.
    pub end: End,
    /// Tasks it was processing.
    pub processing: i64,
}

/// What is known of the exceptions of a cluster.
#[derive(Clone, Debug)]
pub struct Exceptions<'a> {
    /// The commonest kinds of each origin, the commonest first.
    pub kinds: &'a [ErrorKind],
    /// Workers that died, if Dask itself failed.
    pub dead: &'a [DeadWorker],
    /// Errors the reporter recorded, whether they are stored or not.
    pub recorded: i64,
    /// Tasks that erred themselves.
    pub tasks_erred: i64,
    /// Tasks that came to be in memory.
    pub tasks_succeeded: i64,
    /// Errors of the computations' own code that were not stored, as far as the receipt tells.
    pub kept_back: i64,
    /// Why there are no user errors, if there are none.
    pub missing: Missing,
}

/// Did any exceptions occur?
#[must_use]
pub fn exceptions(facts: &Exceptions<'_>) -> Answer {
    let of = |origin| facts.kinds.iter().find(|kind| kind.origin == origin).map_or(0, |kind| kind.of_origin);
    let (user, dask) = (of(Origin::User), of(Origin::Dask));
    let share = share_of(number(facts.tasks_erred), number(facts.tasks_erred + facts.tasks_succeeded));
    let all = user + dask;
    if all == 0 {
        if facts.tasks_erred == 0 {
            let succeeded = many(facts.tasks_succeeded, "task", "tasks");
            let headline = format!("No exceptions: 0 tasks failed and {succeeded} succeeded.");
            return Answer::measured(Verdict::Good, headline).value(0.0, "exceptions").share(share);
        }
        let tasks = many(facts.tasks_erred, "task", "tasks");
        let why = remedy(facts.missing, "USER_ERRORS");
        let headline = format!("{tasks} failed, but their exceptions are not stored, {why}.");
        return Answer { verdict: Verdict::Bad, ..Answer::not_collected(headline) };
    }
    let headline = match (user, dask) {
        (user, 0) => format!("{}, all of the computations' own code.", many(user, "exception", "exceptions")),
        (0, dask) => format!("{}, all of Dask itself.", many(dask, "exception", "exceptions")),
        (user, dask) => {
            format!("{all} exceptions: {user} of the computations' own code, {dask} of Dask itself.")
        }
    };
    // Dropped by the reporter, refused, or older than such data is kept: the receipt knows of some of them only.
    let not_stored = facts.kept_back.max(facts.recorded - all);
    let (confidence, headline) = if not_stored > 0 {
        let more = many(not_stored, "more is", "more are");
        (Confidence::Estimated, format!("At least {headline} {more} not stored."))
    } else {
        (Confidence::Measured, headline)
    };
    // The commonest of each origin before all others.
    let first_of = |origin| facts.kinds.iter().position(|kind| kind.origin == origin);
    let firsts = [first_of(Origin::User), first_of(Origin::Dask)];
    let (first, others): (Vec<_>, Vec<_>) =
        facts.kinds.iter().enumerate().partition(|(place, _)| firsts.contains(&Some(*place)));
    let kinds = first.into_iter().chain(others).map(|(_, kind)| {
        let whose = if kind.origin == Origin::Dask { "of Dask" } else { "of the code" };
        let name = kind.exception_type.as_deref().unwrap_or("exception");
        let evidence = Evidence::of(format!("{name}, {whose}"), number(kind.count), "exceptions");
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
        let evidence = Evidence::of(label, number(worker.processing), "tasks");
        evidence.about(Subject::Worker(worker.id.0, worker.id.1))
    });
    // Both, where there is more than there is room for.
    let room = super::MAX_EVIDENCE - facts.dead.len().min(2);
    Answer::new(Verdict::Bad, confidence, headline)
        .value(number(all), "exceptions")
        .share(share)
        .because(kinds.take(room).chain(dead))
}

/// What did it cost? `days` is what it used on each day.
#[must_use]
pub fn cost(rates: &RateCard, days: &BTreeMap<i64, Usage>) -> Answer {
    let costs = rates.cost(days.iter().map(|(day, usage)| (*day, usage)));
    let thread_us: i64 = days.values().map(|usage| usage.thread_us).fold(0, i64::saturating_add);
    let thread_hours =
        Evidence::of("Thread time, busy or idle", seconds(thread_us) / 3_600.0, "thread-hours");
    let (priced, guessed): (Vec<&Cost>, Vec<&Cost>) =
        costs.iter().partition(|cost| cost.basis == Basis::RateCard);
    let guessed = guessed.into_iter().map(|cost| {
        let label = "Days without a rate, if a thread-hour cost 0.05 USD, the server's guess";
        Evidence::of(label, cost.amount(), cost.currency.clone())
    });
    if days.is_empty() {
        return Answer::not_collected("No usage was reported, 0 hours of it, so there is nothing to price.");
    }
    let amounts: Vec<String> =
        priced.iter().map(|cost| format!("{:.2} {}", cost.amount(), cost.currency)).collect();
    let [cost] = priced[..] else {
        if priced.is_empty() {
            let used = duration(seconds(thread_us));
            let headline = format!(
                "No rates are set for its days, so what {used} of thread time cost is not known: setCostRate sets them."
            );
            return Answer::not_collected(headline).because([thread_hours].into_iter().chain(guessed));
        }
        let headline = format!("It cost {} by the account's rates.", amounts.join(" and "));
        let parts = priced
            .iter()
            .map(|cost| Evidence::of("By the rates in this currency", cost.amount(), cost.currency.clone()));
        return Answer::new(Verdict::Unknown, Confidence::Estimated, headline)
            .because(parts.chain([thread_hours]).chain(guessed));
    };
    #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
    let idle = days
        .values()
        .any(|usage| usage.idle_us.is_some())
        .then(|| cost.causes.get(&Cause::Idle).copied().unwrap_or(0))
        .and_then(|idle| share_of(idle as f64, cost.nanos as f64));
    let (verdict, headline) = match idle {
        None => (Verdict::Unknown, format!("It cost {} by the account's rates.", amounts[0])),
        Some(idle) => {
            let verdict = if idle >= MUCH_IDLE { Verdict::Notice } else { Verdict::Good };
            let of_it = percent(idle);
            (
                verdict,
                format!(
                    "It cost {} by the account's rates, {of_it} of it while threads were idle.",
                    amounts[0]
                ),
            )
        }
    };
    Answer::new(verdict, Confidence::Estimated, headline)
        .value(cost.amount(), cost.currency.clone())
        .share(idle)
        .because([thread_hours].into_iter().chain(guessed))
}

/// How a cluster is at the moment it is asked about.
#[derive(Clone, Debug)]
pub struct Now {
    /// The moment, by the server's clock.
    pub at: DateTime<Utc>,
    /// When the server last heard of it, by the same clock.
    pub last_seen_at: DateTime<Utc>,
    /// The scheduler's clock when it made the newest report.
    pub reported_at: DateTime<Utc>,
    /// Seconds the reporter means to wait between reports.
    pub interval_seconds: f64,
    /// When it closed, by the scheduler's clock.
    pub closed_at: Option<DateTime<Utc>>,
    /// Why it closed.
    pub close_reason: Option<String>,
    /// Since when it has no work, by the scheduler's clock.
    pub idle_since: Option<DateTime<Utc>>,
    /// Whether the account wants it stopped.
    pub stop_wanted: bool,
    /// Connected workers.
    pub workers: i64,
}

impl Now {
    /// For how many seconds nothing was heard of it, if that is longer than it should be.
    #[must_use]
    pub fn silence(&self) -> Option<f64> {
        let silent = self.at - self.last_seen_at;
        let is_silent = silent.num_milliseconds() > silence_allowed_ms(self.interval_seconds);
        (self.closed_at.is_none() && is_silent).then(|| silent.as_seconds_f64())
    }
}

/// What is known of why a cluster is there. The numbers of tasks are `None` when nobody told of them.
#[derive(Clone, Debug)]
pub struct WhyRunning<'a> {
    /// How it is.
    pub now: &'a Now,
    /// Tasks assigned to a worker.
    pub processing: Option<i64>,
    /// Tasks held back until a thread is free.
    pub queued: Option<i64>,
    /// Tasks no worker may run.
    pub no_worker: Option<i64>,
    /// Tasks waiting for others.
    pub waiting: Option<i64>,
    /// Results held.
    pub memory: Option<i64>,
    /// Clients that are connected.
    pub clients: i64,
    /// Graphs that its scheduler takes in.
    pub graph_updates: Option<i64>,
}

/// Why is the cluster still running? The first of these that applies: it is not (closed, or silent), it works, its
/// tasks cannot run, its scheduler takes graphs in, clients hold results, it is idle.
#[must_use]
pub fn why_running(facts: &WhyRunning<'_>) -> Answer {
    let now = facts.now;
    if let Some(closed) = now.closed_at {
        let reason = now.close_reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        let since = (now.at - closed).as_seconds_f64().max(0.0);
        let headline =
            format!("It is not running: it closed at {}, {} ago{reason}.", moment(closed), duration(since));
        return Answer::measured(Verdict::Good, headline).value(since, "seconds");
    }
    if let Some(silent) = now.silence() {
        let headline = format!(
            "Whether it runs is not known: nothing was heard of it for {}, though it reports every {}.",
            duration(silent),
            duration(now.interval_seconds)
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
        count.filter(|count| *count > 0).map(|count| Evidence::of(label, number(count), unit))
    });
    let answer = if let Some(idle_since) = now.idle_since {
        idle(facts, (now.reported_at - idle_since).as_seconds_f64().max(0.0))
    } else {
        at_work(facts)
    };
    let answer = answer.because(counts);
    if now.stop_wanted {
        let headline = format!("It was told to stop, and has not yet done so. {}", answer.headline);
        return Answer { verdict: Verdict::Notice, headline, ..answer };
    }
    answer
}

fn at_work(facts: &WhyRunning<'_>) -> Answer {
    let some = |count: Option<i64>| count.filter(|count| *count > 0);
    let workers = many(facts.now.workers, "worker", "workers");
    if let Some(count) = some(facts.processing) {
        let stuck = some(facts.no_worker).map(|stuck| format!(", but no worker may run {stuck} others"));
        let verdict = if stuck.is_some() { Verdict::Notice } else { Verdict::Good };
        let tasks = many(count, "task is", "tasks are");
        let headline = format!("It works: {tasks} processed by its {workers}{}.", stuck.unwrap_or_default());
        return Answer::measured(verdict, headline).value(number(count), "tasks");
    }
    if let Some(count) = some(facts.no_worker) {
        let tasks = many(count, "task waits", "tasks wait");
        let them = if count == 1 { "it" } else { "them" };
        let headline =
            format!("{tasks} for a worker that may run {them}: there are {workers}, and none may.");
        return Answer::measured(Verdict::Bad, headline).value(number(count), "tasks");
    }
    if let Some(count) = some(facts.queued) {
        let tasks = many(count, "task is", "tasks are");
        let verdict = if facts.now.workers == 0 { Verdict::Bad } else { Verdict::Notice };
        let headline = format!("{tasks} queued for a free thread, and none runs on its {workers}.");
        return Answer::measured(verdict, headline).value(number(count), "tasks");
    }
    if let Some(count) = some(facts.graph_updates) {
        let headline = format!("Its scheduler takes in {}.", many(count, "graph", "graphs"));
        return Answer::measured(Verdict::Good, headline).value(number(count), "graphs");
    }
    if let Some(count) = some(facts.waiting) {
        let tasks = many(count, "task waits", "tasks wait");
        let headline = format!("{tasks} for others, and none runs on its {workers}.");
        return Answer::measured(Verdict::Notice, headline).value(number(count), "tasks");
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
    let since = facts.now.idle_since.map(moment).unwrap_or_default();
    let results = facts.memory.unwrap_or(0);
    if facts.clients > 0 && results > 0 {
        let (clients, hold) =
            (many(facts.clients, "client", "clients"), if facts.clients == 1 { "holds" } else { "hold" });
        let results_held = many(results, "result", "results");
        let headline = format!(
            "{clients} {hold} {results_held} in its memory; it has had no work for {}, since {since}.",
            duration(idle)
        );
        return Answer::measured(verdict, headline).value(number(results), "results");
    }
    let headline = format!("It is idle: it has had no work for {}, since {since}.", duration(idle));
    Answer::measured(verdict, headline).value(idle, "seconds")
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_172_400 + seconds, 0).expect("it is a time")
    }

    fn now() -> Now {
        Now {
            at: at(1_000),
            last_seen_at: at(990),
            reported_at: at(990),
            interval_seconds: 15.0,
            closed_at: None,
            close_reason: None,
            idle_since: None,
            stop_wanted: false,
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
            let facts = Finished {
                states: &states,
                shown: &[],
                tasks: 1,
                dropped: 0,
                missing: Missing::NotReported,
                now: &now,
            };
            assert_eq!(finished(&facts).verdict, verdict, "{of:?}");
            let lossy = finished(&Finished { dropped: 2, ..facts });
            assert_eq!(lossy.confidence, Confidence::Estimated);
            assert!(lossy.headline.ends_with("2 more computations were not reported."), "{}", lossy.headline);
        }
        assert_eq!(deciding_state(&[]), None);
    }

    #[test]
    fn silence_is_several_intervals_and_not_a_short_time() {
        let silent = |seconds: i64, interval: f64| {
            let last_seen_at = now().at - TimeDelta::seconds(seconds);
            Now { last_seen_at, interval_seconds: interval, ..now() }.silence()
        };
        assert_eq!(silent(45, 15.0), None);
        assert_eq!(silent(46, 15.0), Some(46.0));
        assert_eq!(silent(30, 1.0), None);
        assert_eq!(silent(31, 1.0), Some(31.0));
        let closed = Now { closed_at: Some(at(0)), last_seen_at: at(-100_000), ..now() };
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
            let answer = why_running(facts);
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
        let untold = why_running(&WhyRunning { processing: None, ..nothing.clone() });
        assert_eq!((untold.confidence, untold.value), (Confidence::NotCollected, None));
        // What an idle scheduler held when a sample was taken does not keep it.
        let rested = Now { idle_since: Some(at(-1_000)), ..now.clone() };
        let idle = WhyRunning { now: &rested, processing: Some(7), ..nothing };
        assert_eq!(said(&idle), (Verdict::Bad, Some("1990 seconds".to_owned())));
        let held = WhyRunning { memory: Some(5), clients: 2, ..idle };
        assert_eq!(said(&held), (Verdict::Bad, Some("5 results".to_owned())));
        let stopping = Now { stop_wanted: true, ..now.clone() };
        let told = why_running(&WhyRunning { now: &stopping, ..queued });
        assert_eq!(told.verdict, Verdict::Notice);
        assert!(told.headline.starts_with("It was told to stop"), "{}", told.headline);
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
        assert_eq!(answer.headline, "It cost 1.00 EUR and 1.00 USD by the account's rates.");
        assert_eq!((answer.value.clone(), answer.share), (None, None));
        let evidence: Vec<_> = answer.evidence.iter().filter_map(|row| row.value.clone()).collect();
        let value = |value, unit: &str| (value, unit.to_owned().into());
        assert_eq!(
            evidence,
            [value(1.0, "EUR"), value(1.0, "USD"), value(3.0, "thread-hours"), value(0.05, "USD")]
        );
    }
}
