//! Why a cluster is still there, all that applies: what it works on, what keeps it without work, and why nothing stops it.

use chrono::{DateTime, Utc};

use super::{Confidence, duration, many, moment};
use crate::domain::{idleness::Course, life_cycle::State};

/// What keeps a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunReasonCode {
    /// Workers work on tasks.
    Processing,
    /// Tasks are held back until a thread is free.
    Queued,
    /// No worker may run some tasks.
    NoWorker,
    /// Tasks wait for others.
    Waiting,
    /// The scheduler takes graphs in.
    GraphUpdate,
    /// Nothing was ever submitted.
    NeverHadWork,
    /// Clients hold results.
    ClientHoldsResults,
    /// An adaptive cluster keeps some workers.
    AdaptiveMinimum,
    /// Nobody said that idle clusters are to be stopped.
    NoPolicy,
    /// It has not been idle for long enough.
    WithinTimeout,
    /// Somebody keeps it.
    KeptAlive,
    /// One of its tags exempts it.
    Exempt,
    /// It is to stop, and has not yet.
    Stopping,
    /// Nothing is heard of it.
    Lost,
}

/// One of the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunReason {
    /// What it is.
    pub code: RunReasonCode,
    /// One sentence.
    pub detail: String,
    /// How many there are of what it is about.
    pub count: Option<i64>,
    /// Since when.
    pub since: Option<DateTime<Utc>>,
    /// Whether it is known to apply.
    pub confidence: Confidence,
}

/// What is known of a cluster that is there. Numbers are `None` when nobody told of them.
#[derive(Clone, Debug)]
pub struct Situation {
    /// What it does.
    pub state: State,
    /// When it was last heard of.
    pub last_seen_at: DateTime<Utc>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// Since when it has no work.
    pub idle_since: Option<DateTime<Utc>>,
    /// Whether it was ever given a task.
    pub had_work: bool,
    /// Its workers.
    pub workers: i64,
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
    /// Graphs the scheduler was taking in.
    pub graph_updates: Option<i64>,
    /// Clients that are connected.
    pub clients: i64,
    /// Seconds without work after which it closes by itself.
    pub own_timeout_seconds: Option<f64>,
    /// What becomes of it by the account's policy.
    pub course: Course,
    /// Until when somebody keeps it.
    pub kept_until: Option<DateTime<Utc>>,
    /// When it was told to stop.
    pub stop_at: Option<DateTime<Utc>>,
    /// The moment of the question.
    pub at: DateTime<Utc>,
}

/// Why the cluster is still there; nothing for one that closed.
#[must_use]
pub fn run_reasons(facts: &Situation) -> Vec<RunReason> {
    match facts.state {
        State::Closed => Vec::new(),
        State::Lost => vec![lost(facts)],
        State::Closing => [vec![stopping(facts)], work(facts)].concat(),
        State::Starting | State::Running | State::Idle if facts.idle_since.is_none() => work(facts),
        State::Starting | State::Running | State::Idle => [keepers(facts), spared(facts)].concat(),
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

fn lost(facts: &Situation) -> RunReason {
    let silent = duration((facts.at - facts.last_seen_at).as_seconds_f64().max(0.0));
    let detail = format!("Whether it runs is not known: nothing was heard of it for {silent}.");
    RunReason::new(RunReasonCode::Lost, detail).since(Some(facts.last_seen_at))
}

fn stopping(facts: &Situation) -> RunReason {
    let detail = "It is to stop, which its scheduler learns with the answer to its next report.";
    RunReason::new(RunReasonCode::Stopping, detail).since(facts.stop_at)
}

/// What it works on. Without work there is nothing to tell.
fn work(facts: &Situation) -> Vec<RunReason> {
    use RunReasonCode::{GraphUpdate, NoWorker, Processing, Queued, Waiting};
    type Told<'a> = (RunReasonCode, Option<i64>, &'a dyn Fn(i64) -> String);
    if facts.idle_since.is_some() {
        return Vec::new();
    }
    let workers = many(facts.workers, "worker", "workers");
    let is = |count: i64| if count == 1 { "is" } else { "are" };
    let tasks = |count: i64| many(count, "task", "tasks");
    let known: [Told<'_>; 4] = [
        (Processing, facts.processing, &|n| format!("{} {} processed by its {workers}.", tasks(n), is(n))),
        (Queued, facts.queued, &|n| format!("{} {} queued until a thread is free.", tasks(n), is(n))),
        (NoWorker, facts.no_worker, &|n| format!("{} may run on none of its {workers}.", tasks(n))),
        (GraphUpdate, facts.graph_updates, &|n| {
            format!("Its scheduler takes in {}.", many(n, "graph", "graphs"))
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

/// What may keep a cluster without work.
fn keepers(facts: &Situation) -> Vec<RunReason> {
    use RunReasonCode::{AdaptiveMinimum, ClientHoldsResults, NeverHadWork};
    let mut reasons = Vec::new();
    if !facts.had_work {
        let detail = format!("Nothing was submitted since it started at {}.", moment(facts.started_at));
        reasons.push(RunReason::new(NeverHadWork, detail).since(Some(facts.started_at)));
    }
    if facts.clients > 0 {
        let clients = many(facts.clients, "client", "clients");
        match facts.memory {
            Some(results @ 1..) => {
                let hold = if facts.clients == 1 { "holds" } else { "hold" };
                let results_held = many(results, "result", "results");
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

/// Why nothing stops a cluster without work.
fn spared(facts: &Situation) -> Vec<RunReason> {
    use RunReasonCode::{Exempt, KeptAlive, NoPolicy, WithinTimeout};
    let since = facts.idle_since;
    let mut reasons = Vec::new();
    if let Some(timeout) = facts.own_timeout_seconds {
        let detail = format!("It closes by itself after {} without work.", duration(timeout));
        reasons.push(RunReason::new(WithinTimeout, detail).since(since));
    }
    if let Some(until) = facts.kept_until.filter(|until| *until > facts.at) {
        let detail = format!("Somebody keeps it until {}.", moment(until));
        reasons.push(RunReason::new(KeptAlive, detail));
    }
    match facts.course {
        Course::Exempt => {
            let detail = "One of its tags exempts it from the account's idle policy.";
            reasons.push(RunReason::new(Exempt, detail));
        }
        Course::Timed(times) if times.stops => {
            let at = times.stop_at(facts.at.timestamp_millis());
            let at = DateTime::from_timestamp_millis(at).map(moment).unwrap_or_default();
            let detail = format!("The account's idle policy stops it at {at}, if it stays idle.");
            reasons.push(RunReason::new(WithinTimeout, detail).since(since));
        }
        Course::NoPolicy | Course::Timed(_) | Course::Busy if facts.own_timeout_seconds.is_none() => {
            let detail = "Nobody said that the account's idle clusters are to be stopped.";
            reasons.push(RunReason::new(NoPolicy, detail).since(since));
        }
        Course::NoPolicy | Course::Timed(_) | Course::Busy => {}
    }
    reasons
}

#[cfg(test)]
mod tests {
    use entity::idle_policy::Mode;

    use super::{RunReasonCode as Code, *};
    use crate::domain::{idle_policy::IdlePolicy, idleness::Standing};

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_172_400 + seconds, 0).expect("it is a time")
    }

    fn busy() -> Situation {
        Situation {
            state: State::Running,
            last_seen_at: at(990),
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
            course: Course::NoPolicy,
            kept_until: None,
            stop_at: None,
            at: at(1_000),
        }
    }

    fn codes(facts: &Situation) -> Vec<(Code, Option<i64>)> {
        run_reasons(facts).into_iter().map(|reason| (reason.code, reason.count)).collect()
    }

    #[test]
    fn work_is_told_as_far_as_it_is_known() {
        let all = Situation {
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
        let waiting = Situation { waiting: Some(9), ..busy() };
        assert_eq!(codes(&waiting), [(Code::Waiting, Some(9))]);
        let untold = run_reasons(&Situation { processing: None, ..busy() });
        assert_eq!(untold[0].confidence, Confidence::NotCollected);
        let closing = Situation { state: State::Closing, stop_at: Some(at(995)), ..all };
        assert_eq!(codes(&closing)[0], (Code::Stopping, None));
        assert_eq!(codes(&closing).len(), 5);
        assert_eq!(codes(&Situation { state: State::Closed, ..busy() }), []);
        assert_eq!(codes(&Situation { state: State::Lost, ..busy() }), [(Code::Lost, None)]);
    }

    #[test]
    fn what_keeps_an_idle_cluster() {
        let idle = Situation { state: State::Idle, idle_since: Some(at(100)), workers: 0, ..busy() };
        assert_eq!(codes(&idle), [(Code::NoPolicy, None)]);
        let held = Situation { clients: 1, memory: Some(4), workers: 3, had_work: false, ..idle.clone() };
        let expected = [
            (Code::NeverHadWork, None),
            (Code::ClientHoldsResults, Some(4)),
            (Code::AdaptiveMinimum, Some(3)),
            (Code::NoPolicy, None),
        ];
        assert_eq!(codes(&held), expected);
        let own = Situation { own_timeout_seconds: Some(1_200.0), ..idle.clone() };
        assert_eq!(codes(&own), [(Code::WithinTimeout, None)]);
        let policy = |mode| IdlePolicy { mode, timeout_seconds: Some(1_200), ..IdlePolicy::default() };
        let standing = Standing { idle_since: Some(at(100).timestamp_millis()), ..Standing::default() };
        let stopped = Situation { course: policy(Mode::Stop).course(&standing), ..own.clone() };
        assert_eq!(codes(&stopped), [(Code::WithinTimeout, None), (Code::WithinTimeout, None)]);
        assert_eq!(
            run_reasons(&stopped)[1].detail,
            "The account's idle policy stops it at 2026-11-20 11:21:40 UTC, if it stays idle."
        );
        let warned = Situation { course: policy(Mode::Warn).course(&standing), ..idle.clone() };
        assert_eq!(codes(&warned), [(Code::NoPolicy, None)]);
        let exempt = Situation { course: Course::Exempt, ..idle.clone() };
        assert_eq!(codes(&exempt), [(Code::Exempt, None)]);
        let kept = Situation { kept_until: Some(at(1_001)), ..exempt };
        assert_eq!(codes(&kept), [(Code::KeptAlive, None), (Code::Exempt, None)]);
        assert_eq!(codes(&Situation { kept_until: Some(at(1_000)), ..idle }), [(Code::NoPolicy, None)]);
    }
}
