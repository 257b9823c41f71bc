//! All reasons why a cluster is still running: its work, the causes that keep it without work, and the
//! absence of a stop.

use chrono::{DateTime, Utc};

use super::{
    Confidence, Value,
    phrase::{Argument, render},
};
use crate::domain::{idle_verdict::IdleVerdict, life_cycle::State};

/// The code of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunReasonCode {
    /// Workers process tasks.
    Processing,
    /// Tasks are queued until a thread is free.
    Queued,
    /// Some tasks have no worker that may run them.
    NoWorker,
    /// Tasks wait for other tasks.
    Waiting,
    /// The scheduler is processing graphs.
    GraphUpdate,
    /// No task was ever submitted.
    NeverHadWork,
    /// Clients hold results.
    ClientHoldsResults,
    /// An adaptive cluster keeps some workers.
    AdaptiveMinimum,
    /// The account has no policy that stops idle clusters.
    NoPolicy,
    /// The idle timeout has not passed.
    WithinTimeout,
    /// A user keeps it alive.
    KeptAlive,
    /// One of its tags exempts it.
    Exempt,
    /// A stop is requested and has not happened yet.
    Stopping,
    /// No reports arrive.
    Lost,
}

impl RunReasonCode {
    /// Returns the sentence with the places of its arguments, as `phrase.rs` defines it.
    #[must_use]
    pub fn template(self) -> &'static str {
        match self {
            Self::Processing => {
                "[{tasks} {tasks:task is/tasks are} processed by its {workers} {workers:worker/workers}/\
                 Its scheduler says that it has work; which, is not collected]."
            }
            Self::Queued => "{tasks} {tasks:task is/tasks are} queued until a thread is free.",
            Self::NoWorker => {
                "{tasks} {tasks:task/tasks} may run on none of its {workers} {workers:worker/workers}."
            }
            Self::Waiting => "{tasks} {tasks:task waits/tasks wait} for others, and none runs.",
            Self::GraphUpdate => "Its scheduler processes {graphs} {graphs:graph/graphs}.",
            Self::NeverHadWork => "Nothing was submitted since it started at {started}.",
            Self::ClientHoldsResults => {
                "[{clients} {clients:client holds/clients hold} {results} {results:result/results} in its memory/\
                 Whether clients hold results in its memory is not collected]."
            }
            Self::AdaptiveMinimum => {
                "Whether an adaptive cluster keeps a minimum of workers is not collected: Dask does not tell."
            }
            Self::NoPolicy => "The account has no idle policy that stops clusters.",
            Self::WithinTimeout => {
                "[It closes by itself after {timeout} without work/\
                 The account's idle policy stops it at {stopsAt}, if it stays idle]."
            }
            Self::KeptAlive => "It is kept alive until {until}.",
            Self::Exempt => "One of its tags exempts it from the account's idle policy.",
            Self::Stopping => "It is to stop, which its scheduler learns with the answer to its next report.",
            Self::Lost => {
                "Whether it runs is not known: it has not reported for {silence}, since {lastSeen}."
            }
        }
    }
}

/// A reason why a cluster is still running.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReason {
    /// The code.
    pub code: RunReasonCode,
    /// The arguments of its sentence.
    pub arguments: Vec<Argument>,
    /// The number of the tasks, results, graphs or workers concerned.
    pub count: Option<i64>,
    /// The start of the condition.
    pub since: Option<DateTime<Utc>>,
    /// The confidence that the reason applies.
    pub confidence: Confidence,
}

/// The facts about a running cluster. Numbers are `None` if no data reports them.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// The state.
    pub state: State,
    /// The time of the last report.
    pub last_seen_at: DateTime<Utc>,
    /// True if that is longer ago than the allowed silence.
    pub is_silent: bool,
    /// The time at which it started.
    pub started_at: DateTime<Utc>,
    /// The time since which it has no work. `None` while it has work.
    pub idle_since: Option<DateTime<Utc>>,
    /// True if it ever received a task.
    pub had_work: bool,
    /// The number of workers.
    pub workers: i64,
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
    /// The number of graphs that the scheduler is processing.
    pub graph_updates: Option<i64>,
    /// The number of connected clients.
    pub clients: i64,
    /// The scheduler's own idle timeout, in seconds. `None` if it has none.
    pub own_timeout_seconds: Option<f64>,
    /// The consequence of the account's idle policy.
    pub idle_verdict: IdleVerdict,
    /// The time until which a user keeps it alive.
    pub kept_until: Option<DateTime<Utc>>,
    /// The time of the stop request.
    pub stop_at: Option<DateTime<Utc>>,
    /// The time of the question.
    pub at: DateTime<Utc>,
}

/// Returns the reasons why the cluster is still running. A closed cluster has none.
#[must_use]
pub fn run_reasons(facts: &RunFacts) -> Vec<RunReason> {
    match facts.state {
        State::Closed => Vec::new(),
        State::Lost => vec![lost_reason(facts)],
        State::Closing if facts.is_silent => vec![lost_reason(facts), stopping(facts)],
        _ if facts.is_silent => vec![lost_reason(facts)],
        State::Closing => [vec![stopping(facts)], work_reasons(facts)].concat(),
        State::Starting | State::Running | State::Idle if facts.idle_since.is_none() => work_reasons(facts),
        State::Starting | State::Running | State::Idle => {
            [idle_causes(facts), no_stop_reasons(facts)].concat()
        }
    }
}

impl RunReason {
    fn new(code: RunReasonCode) -> Self {
        Self { code, arguments: Vec::new(), count: None, since: None, confidence: Confidence::Measured }
    }

    fn not_collected(code: RunReasonCode) -> Self {
        Self { confidence: Confidence::NotCollected, ..Self::new(code) }
    }

    /// Returns the reason as a sentence for people.
    #[must_use]
    pub fn detail(&self) -> String {
        render(self.code.template(), &self.arguments)
    }

    fn with(mut self, name: &'static str, value: Value) -> Self {
        self.arguments.push(Argument { name, value });
        self
    }

    fn count(self, count: i64) -> Self {
        Self { count: Some(count), ..self }
    }

    fn since(self, since: Option<DateTime<Utc>>) -> Self {
        Self { since, ..self }
    }
}

fn lost_reason(facts: &RunFacts) -> RunReason {
    let silence = (facts.at - facts.last_seen_at).as_seconds_f64().max(0.0);
    RunReason::new(RunReasonCode::Lost)
        .with("silence", Value::Seconds(silence))
        .with("lastSeen", Value::Time(facts.last_seen_at))
        .since(Some(facts.last_seen_at))
}

fn stopping(facts: &RunFacts) -> RunReason {
    RunReason::new(RunReasonCode::Stopping).since(facts.stop_at)
}

/// Returns the work of the cluster as reasons. An idle cluster has none.
fn work_reasons(facts: &RunFacts) -> Vec<RunReason> {
    use RunReasonCode::{GraphUpdate, NoWorker, Processing, Queued, Waiting};
    if facts.idle_since.is_some() {
        return Vec::new();
    }
    let count_reason = |code, name, count: Option<i64>| {
        let count = count.filter(|count| *count > 0)?;
        Some(RunReason::new(code).with(name, Value::Count(count, name)).count(count))
    };
    let with_workers = |reason: RunReason| reason.with("workers", Value::Count(facts.workers, "workers"));
    let reported = [
        count_reason(Processing, "tasks", facts.processing).map(with_workers),
        count_reason(Queued, "tasks", facts.queued),
        count_reason(NoWorker, "tasks", facts.no_worker).map(with_workers),
        count_reason(GraphUpdate, "graphs", facts.graph_updates),
    ];
    let mut reasons: Vec<RunReason> = reported.into_iter().flatten().collect();
    if reasons.is_empty() {
        let waiting = count_reason(Waiting, "tasks", facts.waiting);
        reasons.push(waiting.unwrap_or_else(|| RunReason::not_collected(Processing)));
    }
    reasons
}

/// Returns the causes that may keep an idle cluster running.
fn idle_causes(facts: &RunFacts) -> Vec<RunReason> {
    use RunReasonCode::{AdaptiveMinimum, ClientHoldsResults, NeverHadWork};
    let mut reasons = Vec::new();
    if !facts.had_work {
        let reason = RunReason::new(NeverHadWork).with("started", Value::Time(facts.started_at));
        reasons.push(reason.since(Some(facts.started_at)));
    }
    if facts.clients > 0 {
        match facts.memory {
            Some(results @ 1..) => {
                let reason = RunReason::new(ClientHoldsResults)
                    .with("clients", Value::Count(facts.clients, "clients"))
                    .with("results", Value::Count(results, "results"));
                reasons.push(reason.count(results).since(facts.idle_since));
            }
            Some(_) => {}
            None => reasons.push(RunReason::not_collected(ClientHoldsResults)),
        }
    }
    if facts.workers > 0 {
        reasons.push(RunReason::not_collected(AdaptiveMinimum).count(facts.workers));
    }
    reasons
}

/// Returns the reasons why nothing stops an idle cluster.
fn no_stop_reasons(facts: &RunFacts) -> Vec<RunReason> {
    use RunReasonCode::{Exempt, KeptAlive, NoPolicy, WithinTimeout};
    let since = facts.idle_since;
    let mut reasons = Vec::new();
    if let Some(timeout) = facts.own_timeout_seconds {
        let reason = RunReason::new(WithinTimeout).with("timeout", Value::Seconds(timeout));
        reasons.push(reason.since(since));
    }
    if let Some(until) = facts.kept_until.filter(|until| *until > facts.at) {
        reasons.push(RunReason::new(KeptAlive).with("until", Value::Time(until)));
    }
    match facts.idle_verdict {
        IdleVerdict::Exempt => reasons.push(RunReason::new(Exempt)),
        IdleVerdict::Timed(times) if times.stops => {
            // No stop comes at a time that no clock shows.
            let stops_at = DateTime::from_timestamp_millis(times.stop_at(facts.at.timestamp_millis()));
            let stop =
                |stops_at| RunReason::new(WithinTimeout).with("stopsAt", Value::Time(stops_at)).since(since);
            reasons.extend(stops_at.map(stop));
        }
        IdleVerdict::NoPolicy | IdleVerdict::Timed(_) | IdleVerdict::Busy
            if facts.own_timeout_seconds.is_none() =>
        {
            reasons.push(RunReason::new(NoPolicy).since(since));
        }
        IdleVerdict::NoPolicy | IdleVerdict::Timed(_) | IdleVerdict::Busy => {}
    }
    reasons
}

#[cfg(test)]
mod tests {
    use entity::idle_policy::Mode;

    use super::{RunReasonCode as Code, *};
    use crate::domain::{idle_policy::IdlePolicy, idle_verdict::IdleFacts};

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_172_400 + seconds, 0).expect("it is a time")
    }

    fn busy() -> RunFacts {
        RunFacts {
            state: State::Running,
            last_seen_at: at(990),
            is_silent: false,
            started_at: at(0),
            idle_since: None,
            had_work: true,
            workers: 2,
            processing: Some(0),
            queued: Some(0),
            no_worker: Some(0),
            waiting: Some(0),
            memory: Some(0),
            graph_updates: None,
            clients: 0,
            own_timeout_seconds: None,
            idle_verdict: IdleVerdict::NoPolicy,
            kept_until: None,
            stop_at: None,
            at: at(1_000),
        }
    }

    fn codes(facts: &RunFacts) -> Vec<(Code, Option<i64>)> {
        run_reasons(facts).into_iter().map(|reason| (reason.code, reason.count)).collect()
    }

    fn details(facts: &RunFacts) -> Vec<String> {
        run_reasons(facts).iter().map(RunReason::detail).collect()
    }

    #[test]
    fn reasons_are_sentences() {
        let work = RunFacts {
            processing: Some(3),
            queued: Some(2),
            no_worker: Some(1),
            graph_updates: Some(1),
            ..busy()
        };
        let expected = [
            "3 tasks are processed by its 2 workers.",
            "2 tasks are queued until a thread is free.",
            "1 task may run on none of its 2 workers.",
            "Its scheduler processes 1 graph.",
        ];
        assert_eq!(details(&work), expected);
        let waiting = RunFacts { waiting: Some(1), state: State::Closing, ..busy() };
        let stopping = "It is to stop, which its scheduler learns with the answer to its next report.";
        assert_eq!(details(&waiting), [stopping, "1 task waits for others, and none runs."]);
        let expected_detail = "Its scheduler says that it has work; which, is not collected.";
        assert_eq!(details(&busy()), [expected_detail]);
        let idle = RunFacts { state: State::Idle, idle_since: Some(at(100)), ..busy() };
        let held_by_client = RunFacts { clients: 1, memory: Some(4), had_work: false, ..idle.clone() };
        let adaptive =
            "Whether an adaptive cluster keeps a minimum of workers is not collected: Dask does not tell.";
        let expected = [
            "Nothing was submitted since it started at 2026-11-20 11:00:00 UTC.",
            "1 client holds 4 results in its memory.",
            adaptive,
            "The account has no idle policy that stops clusters.",
        ];
        assert_eq!(details(&held_by_client), expected);
        let kept_alive = RunFacts {
            clients: 2,
            memory: None,
            own_timeout_seconds: Some(1_200.0),
            kept_until: Some(at(1_001)),
            idle_verdict: IdleVerdict::Exempt,
            ..idle
        };
        let expected = [
            "Whether clients hold results in its memory is not collected.",
            adaptive,
            "It closes by itself after 20 min without work.",
            "It is kept alive until 2026-11-20 11:16:41 UTC.",
            "One of its tags exempts it from the account's idle policy.",
        ];
        assert_eq!(details(&kept_alive), expected);
    }

    #[test]
    fn work_is_told_as_far_as_it_is_known() {
        let working = RunFacts {
            processing: Some(3),
            queued: Some(2),
            no_worker: Some(1),
            waiting: Some(9),
            graph_updates: Some(1),
            ..busy()
        };
        let expected = [
            (Code::Processing, Some(3)),
            (Code::Queued, Some(2)),
            (Code::NoWorker, Some(1)),
            (Code::GraphUpdate, Some(1)),
        ];
        assert_eq!(codes(&working), expected);
        let waiting = RunFacts { waiting: Some(9), ..busy() };
        assert_eq!(codes(&waiting), [(Code::Waiting, Some(9))]);
        let reasons = run_reasons(&RunFacts { processing: None, ..busy() });
        assert_eq!(reasons[0].confidence, Confidence::NotCollected);
        let closing = RunFacts { state: State::Closing, stop_at: Some(at(995)), ..working };
        assert_eq!(codes(&closing)[0], (Code::Stopping, None));
        assert_eq!(codes(&closing).len(), 5);
        assert_eq!(codes(&RunFacts { state: State::Closed, ..busy() }), []);
        assert_eq!(codes(&RunFacts { state: State::Lost, ..busy() }), [(Code::Lost, None)]);
        // The work of a silent cluster at its last report is no reason.
        let silent = RunFacts { is_silent: true, last_seen_at: at(-20), processing: Some(3), ..busy() };
        let reasons = run_reasons(&silent);
        let detail =
            "Whether it runs is not known: it has not reported for 17 min, since 2026-11-20 10:59:40 UTC.";
        assert_eq!((reasons[0].detail().as_str(), reasons[0].since), (detail, Some(at(-20))));
        assert_eq!(codes(&silent), [(Code::Lost, None)]);
        assert_eq!(
            codes(&RunFacts { state: State::Idle, idle_since: Some(at(-90)), ..silent.clone() }),
            codes(&silent)
        );
        let stopping = RunFacts { state: State::Closing, ..silent };
        assert_eq!(codes(&stopping), [(Code::Lost, None), (Code::Stopping, None)]);
    }

    #[test]
    fn what_keeps_an_idle_cluster() {
        let idle = RunFacts { state: State::Idle, idle_since: Some(at(100)), workers: 0, ..busy() };
        assert_eq!(codes(&idle), [(Code::NoPolicy, None)]);
        let held_by_client =
            RunFacts { clients: 1, memory: Some(4), workers: 3, had_work: false, ..idle.clone() };
        let expected = [
            (Code::NeverHadWork, None),
            (Code::ClientHoldsResults, Some(4)),
            (Code::AdaptiveMinimum, Some(3)),
            (Code::NoPolicy, None),
        ];
        assert_eq!(codes(&held_by_client), expected);
        let with_own_timeout = RunFacts { own_timeout_seconds: Some(1_200.0), ..idle.clone() };
        assert_eq!(codes(&with_own_timeout), [(Code::WithinTimeout, None)]);
        let policy = |mode| IdlePolicy { mode, timeout_seconds: Some(1_200), ..IdlePolicy::default() };
        let idleness = IdleFacts { idle_since: Some(at(100).timestamp_millis()), ..IdleFacts::default() };
        let with_stop_policy =
            RunFacts { idle_verdict: policy(Mode::Stop).verdict_for(&idleness), ..with_own_timeout.clone() };
        assert_eq!(codes(&with_stop_policy), [(Code::WithinTimeout, None), (Code::WithinTimeout, None)]);
        assert_eq!(
            run_reasons(&with_stop_policy)[1].detail(),
            "The account's idle policy stops it at 2026-11-20 11:21:40 UTC, if it stays idle."
        );
        let with_warn_policy =
            RunFacts { idle_verdict: policy(Mode::Warn).verdict_for(&idleness), ..idle.clone() };
        assert_eq!(codes(&with_warn_policy), [(Code::NoPolicy, None)]);
        let exempt = RunFacts { idle_verdict: IdleVerdict::Exempt, ..idle.clone() };
        assert_eq!(codes(&exempt), [(Code::Exempt, None)]);
        let kept_alive = RunFacts { kept_until: Some(at(1_001)), ..exempt };
        assert_eq!(codes(&kept_alive), [(Code::KeptAlive, None), (Code::Exempt, None)]);
        assert_eq!(codes(&RunFacts { kept_until: Some(at(1_000)), ..idle }), [(Code::NoPolicy, None)]);
    }
}
