//! All reasons why a cluster is still running: its work, the causes that keep it without work, and the
//! absence of a stop.

use chrono::{DateTime, Utc};

use super::{Confidence, count_text, format_duration, format_time};
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

/// A reason why a cluster is still running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReason {
    /// The code.
    pub code: RunReasonCode,
    /// A sentence for people.
    pub detail: String,
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
    pub course: IdleVerdict,
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
        State::Lost => vec![lost(facts)],
        State::Closing if facts.is_silent => vec![lost(facts), stopping(facts)],
        _ if facts.is_silent => vec![lost(facts)],
        State::Closing => [vec![stopping(facts)], work_reasons(facts)].concat(),
        State::Starting | State::Running | State::Idle if facts.idle_since.is_none() => work_reasons(facts),
        State::Starting | State::Running | State::Idle => {
            [idle_causes(facts), no_stop_reasons(facts)].concat()
        }
    }
}

impl RunReason {
    fn new(code: RunReasonCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), count: None, since: None, confidence: Confidence::Measured }
    }

    fn not_collected(code: RunReasonCode, detail: &str) -> Self {
        Self { confidence: Confidence::NotCollected, ..Self::new(code, detail) }
    }

    fn count(self, count: i64) -> Self {
        Self { count: Some(count), ..self }
    }

    fn since(self, since: Option<DateTime<Utc>>) -> Self {
        Self { since, ..self }
    }
}

fn lost(facts: &RunFacts) -> RunReason {
    let silent = format_duration((facts.at - facts.last_seen_at).as_seconds_f64().max(0.0));
    let since = format_time(facts.last_seen_at);
    let detail = format!("Whether it runs is not known: it has not reported for {silent}, since {since}.");
    RunReason::new(RunReasonCode::Lost, detail).since(Some(facts.last_seen_at))
}

fn stopping(facts: &RunFacts) -> RunReason {
    let detail = "It is to stop, which its scheduler learns with the answer to its next report.";
    RunReason::new(RunReasonCode::Stopping, detail).since(facts.stop_at)
}

/// Returns the work of the cluster as reasons. An idle cluster has none.
fn work_reasons(facts: &RunFacts) -> Vec<RunReason> {
    use RunReasonCode::{GraphUpdate, NoWorker, Processing, Queued, Waiting};
    type CountedReason<'a> = (RunReasonCode, Option<i64>, &'a dyn Fn(i64) -> String);
    if facts.idle_since.is_some() {
        return Vec::new();
    }
    let workers = count_text(facts.workers, "worker", "workers");
    let is = |count: i64| if count == 1 { "is" } else { "are" };
    let tasks = |count: i64| count_text(count, "task", "tasks");
    let known: [CountedReason<'_>; 4] = [
        (Processing, facts.processing, &|n| format!("{} {} processed by its {workers}.", tasks(n), is(n))),
        (Queued, facts.queued, &|n| format!("{} {} queued until a thread is free.", tasks(n), is(n))),
        (NoWorker, facts.no_worker, &|n| format!("{} may run on none of its {workers}.", tasks(n))),
        (GraphUpdate, facts.graph_updates, &|n| {
            format!("Its scheduler takes in {}.", count_text(n, "graph", "graphs"))
        }),
    ];
    let mut reasons: Vec<RunReason> = known
        .into_iter()
        .filter_map(|(code, count, detail)| {
            let count = count.filter(|count| *count > 0)?;
            Some(RunReason::new(code, detail(count)).count(count))
        })
        .collect();
    if let Some(waiting) = facts.waiting.filter(|count| reasons.is_empty() && *count > 0) {
        let verb = if waiting == 1 { "waits" } else { "wait" };
        let detail = format!("{} {verb} for others, and none runs.", tasks(waiting));
        reasons.push(RunReason::new(Waiting, detail).count(waiting));
    }
    if reasons.is_empty() {
        let detail = "Its scheduler says that it has work; which, is not collected.";
        reasons.push(RunReason::not_collected(Processing, detail));
    }
    reasons
}

/// Returns the causes that may keep an idle cluster running.
fn idle_causes(facts: &RunFacts) -> Vec<RunReason> {
    use RunReasonCode::{AdaptiveMinimum, ClientHoldsResults, NeverHadWork};
    let mut reasons = Vec::new();
    if !facts.had_work {
        let detail = format!("Nothing was submitted since it started at {}.", format_time(facts.started_at));
        reasons.push(RunReason::new(NeverHadWork, detail).since(Some(facts.started_at)));
    }
    if facts.clients > 0 {
        let clients = count_text(facts.clients, "client", "clients");
        match facts.memory {
            Some(results @ 1..) => {
                let hold = if facts.clients == 1 { "holds" } else { "hold" };
                let results_held = count_text(results, "result", "results");
                let detail = format!("{clients} {hold} {results_held} in its memory.");
                reasons
                    .push(RunReason::new(ClientHoldsResults, detail).count(results).since(facts.idle_since));
            }
            Some(_) => {}
            None => {
                let detail = "Whether clients hold results in its memory is not collected.";
                reasons.push(RunReason::not_collected(ClientHoldsResults, detail));
            }
        }
    }
    if facts.workers > 0 {
        let detail =
            "Whether an adaptive cluster keeps a minimum of workers is not collected: Dask does not tell.";
        reasons.push(RunReason::not_collected(AdaptiveMinimum, detail).count(facts.workers));
    }
    reasons
}

/// Returns the reasons why nothing stops an idle cluster.
fn no_stop_reasons(facts: &RunFacts) -> Vec<RunReason> {
    use RunReasonCode::{Exempt, KeptAlive, NoPolicy, WithinTimeout};
    let since = facts.idle_since;
    let mut reasons = Vec::new();
    if let Some(timeout) = facts.own_timeout_seconds {
        let detail = format!("It closes by itself after {} without work.", format_duration(timeout));
        reasons.push(RunReason::new(WithinTimeout, detail).since(since));
    }
    if let Some(until) = facts.kept_until.filter(|until| *until > facts.at) {
        let detail = format!("It is kept alive until {}.", format_time(until));
        reasons.push(RunReason::new(KeptAlive, detail));
    }
    match facts.course {
        IdleVerdict::Exempt => {
            let detail = "One of its tags exempts it from the account's idle policy.";
            reasons.push(RunReason::new(Exempt, detail));
        }
        IdleVerdict::Timed(times) if times.stops => {
            let at = times.stop_at(facts.at.timestamp_millis());
            let at = DateTime::from_timestamp_millis(at).map(format_time).unwrap_or_default();
            let detail = format!("The account's idle policy stops it at {at}, if it stays idle.");
            reasons.push(RunReason::new(WithinTimeout, detail).since(since));
        }
        IdleVerdict::NoPolicy | IdleVerdict::Timed(_) | IdleVerdict::Busy
            if facts.own_timeout_seconds.is_none() =>
        {
            let detail = "The account has no idle policy that stops clusters.";
            reasons.push(RunReason::new(NoPolicy, detail).since(since));
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
            course: IdleVerdict::NoPolicy,
            kept_until: None,
            stop_at: None,
            at: at(1_000),
        }
    }

    fn codes(facts: &RunFacts) -> Vec<(Code, Option<i64>)> {
        run_reasons(facts).into_iter().map(|reason| (reason.code, reason.count)).collect()
    }

    #[test]
    fn work_is_told_as_far_as_it_is_known() {
        let all = RunFacts {
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
        assert_eq!(codes(&all), expected);
        let waiting = RunFacts { waiting: Some(9), ..busy() };
        assert_eq!(codes(&waiting), [(Code::Waiting, Some(9))]);
        let untold = run_reasons(&RunFacts { processing: None, ..busy() });
        assert_eq!(untold[0].confidence, Confidence::NotCollected);
        let closing = RunFacts { state: State::Closing, stop_at: Some(at(995)), ..all };
        assert_eq!(codes(&closing)[0], (Code::Stopping, None));
        assert_eq!(codes(&closing).len(), 5);
        assert_eq!(codes(&RunFacts { state: State::Closed, ..busy() }), []);
        assert_eq!(codes(&RunFacts { state: State::Lost, ..busy() }), [(Code::Lost, None)]);
        // The work of a silent cluster at its last report is no reason.
        let silent = RunFacts { is_silent: true, last_seen_at: at(-20), processing: Some(3), ..busy() };
        let reasons = run_reasons(&silent);
        let detail =
            "Whether it runs is not known: it has not reported for 17 min, since 2026-11-20 10:59:40 UTC.";
        assert_eq!((reasons[0].detail.as_str(), reasons[0].since), (detail, Some(at(-20))));
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
        let held = RunFacts { clients: 1, memory: Some(4), workers: 3, had_work: false, ..idle.clone() };
        let expected = [
            (Code::NeverHadWork, None),
            (Code::ClientHoldsResults, Some(4)),
            (Code::AdaptiveMinimum, Some(3)),
            (Code::NoPolicy, None),
        ];
        assert_eq!(codes(&held), expected);
        let own = RunFacts { own_timeout_seconds: Some(1_200.0), ..idle.clone() };
        assert_eq!(codes(&own), [(Code::WithinTimeout, None)]);
        let policy = |mode| IdlePolicy { mode, timeout_seconds: Some(1_200), ..IdlePolicy::default() };
        let standing = IdleFacts { idle_since: Some(at(100).timestamp_millis()), ..IdleFacts::default() };
        let stopped = RunFacts { course: policy(Mode::Stop).verdict_for(&standing), ..own.clone() };
        assert_eq!(codes(&stopped), [(Code::WithinTimeout, None), (Code::WithinTimeout, None)]);
        assert_eq!(
            run_reasons(&stopped)[1].detail,
            "The account's idle policy stops it at 2026-11-20 11:21:40 UTC, if it stays idle."
        );
        let warned = RunFacts { course: policy(Mode::Warn).verdict_for(&standing), ..idle.clone() };
        assert_eq!(codes(&warned), [(Code::NoPolicy, None)]);
        let exempt = RunFacts { course: IdleVerdict::Exempt, ..idle.clone() };
        assert_eq!(codes(&exempt), [(Code::Exempt, None)]);
        let kept = RunFacts { kept_until: Some(at(1_001)), ..exempt };
        assert_eq!(codes(&kept), [(Code::KeptAlive, None), (Code::Exempt, None)]);
        assert_eq!(codes(&RunFacts { kept_until: Some(at(1_000)), ..idle }), [(Code::NoPolicy, None)]);
    }
}
