//! The answer why a cluster is still running.

use chrono::{DateTime, Utc};

use super::{Answer, AnswerCode as Code, Evidence, Phrase, Value, Verdict, to_f64};
use crate::domain::life_cycle::silence_allowed_ms;

/// The idle time, in seconds, above which an idle cluster is rated as bad. It is longer than the usual
/// pause of a user in a notebook.
const LONG_IDLE_SECONDS: f64 = 1_800.0;

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
        let elapsed = self.at - self.last_seen_at;
        let is_silent = elapsed.num_milliseconds() > silence_allowed_ms(self.interval_seconds);
        (self.closed_at.is_none() && is_silent).then(|| elapsed.as_seconds_f64())
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
    if let Some(closed_at) = now.closed_at {
        let closed_seconds = (now.at - closed_at).as_seconds_f64().max(0.0);
        let (closed_at, age) = (Value::Time(closed_at), Value::Seconds(closed_seconds));
        let (verdict, phrase) = if now.is_end_known {
            let reason = now.close_reason.clone().map(Value::Text);
            let phrase = Code::ClusterClosed.with("closed", closed_at).with("age", age);
            (Verdict::Good, phrase.with_any("reason", reason))
        } else {
            (Verdict::Unknown, Code::ImportEnded.with("ended", closed_at).with("age", age))
        };
        return Answer::measured(verdict, phrase).value(closed_seconds, "seconds");
    }
    if let Some(silence) = now.silence() {
        let phrase = Code::ClusterSilent
            .with("silence", Value::Seconds(silence))
            .with("interval", Value::Seconds(now.interval_seconds));
        return Answer::measured(Verdict::Unknown, phrase).value(silence, "seconds");
    }
    let counts = [
        (Code::TasksProcessing, facts.processing, "tasks"),
        (Code::TasksQueued, facts.queued, "tasks"),
        (Code::TasksWithoutWorker, facts.no_worker, "tasks"),
        (Code::ResultsInMemory, facts.memory, "results"),
        (Code::ClientsConnected, Some(facts.clients), "clients"),
    ];
    let counts = counts.into_iter().filter_map(|(code, count, unit)| {
        count.filter(|count| *count > 0).map(|count| Evidence::of(code, to_f64(count), unit))
    });
    let answer = match now.idle_since {
        Some(idle_since) => answer_idle(facts, idle_since),
        None => answer_working(facts),
    };
    let answer = answer.with_evidence(counts);
    if now.stop_requested {
        let answer = answer.qualified([Code::StopRequested.into()]);
        return Answer { verdict: Verdict::Notice, ..answer };
    }
    answer
}

fn answer_working(facts: &WhyRunning<'_>) -> Answer {
    let positive = |count: Option<i64>| count.filter(|count| *count > 0);
    let tasks = |count| Value::Count(count, "tasks");
    let with_workers = |code: Code| code.with("workers", Value::Count(facts.now.workers, "workers"));
    let answer = |verdict, phrase: Phrase, count, unit: &'static str| {
        Answer::measured(verdict, phrase).value(to_f64(count), unit)
    };
    if let Some(count) = positive(facts.processing) {
        let stuck = positive(facts.no_worker);
        let verdict = if stuck.is_some() { Verdict::Notice } else { Verdict::Good };
        let phrase = with_workers(Code::TasksAreProcessed).with("tasks", tasks(count));
        return answer(verdict, phrase.with_any("unrunnable", stuck.map(tasks)), count, "tasks");
    }
    if let Some(count) = positive(facts.no_worker) {
        let phrase = with_workers(Code::NoWorkerMayRunTasks).with("tasks", tasks(count));
        return answer(Verdict::Bad, phrase, count, "tasks");
    }
    if let Some(count) = positive(facts.queued) {
        let verdict = if facts.now.workers == 0 { Verdict::Bad } else { Verdict::Notice };
        return answer(
            verdict,
            with_workers(Code::TasksAreQueued).with("tasks", tasks(count)),
            count,
            "tasks",
        );
    }
    if let Some(count) = positive(facts.graph_updates) {
        let phrase = Code::SchedulerProcessesGraphs.with("graphs", Value::Count(count, "graphs"));
        return answer(Verdict::Good, phrase, count, "graphs");
    }
    if let Some(count) = positive(facts.waiting) {
        let phrase = with_workers(Code::TasksWait).with("tasks", tasks(count));
        return answer(Verdict::Notice, phrase, count, "tasks");
    }
    if facts.processing.is_none() {
        let answer = Answer::not_collected(with_workers(Code::WorkNotSampled));
        return Answer { verdict: Verdict::Good, ..answer };
    }
    answer(Verdict::Notice, with_workers(Code::NoTasksNotIdle).with("tasks", tasks(0)), 0, "tasks")
}

fn answer_idle(facts: &WhyRunning<'_>, since: DateTime<Utc>) -> Answer {
    let idle = (facts.now.reported_at - since).as_seconds_f64().max(0.0);
    let verdict = if idle >= LONG_IDLE_SECONDS { Verdict::Bad } else { Verdict::Notice };
    let results = facts.memory.unwrap_or(0);
    let (phrase, value, unit) = if facts.clients > 0 && results > 0 {
        let phrase = Code::ClientsHoldResults
            .with("clients", Value::Count(facts.clients, "clients"))
            .with("results", Value::Count(results, "results"));
        (phrase, to_f64(results), "results")
    } else {
        (Phrase::from(Code::ClusterIdle), idle, "seconds")
    };
    let phrase = phrase.with("idle", Value::Seconds(idle)).with("since", Value::Time(since));
    Answer::measured(verdict, phrase).value(value, unit)
}

#[cfg(test)]
pub(super) mod tests {
    use chrono::TimeDelta;

    use super::*;
    use crate::domain::answer::Confidence;

    pub(in crate::domain::answer) fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_172_400 + seconds, 0).expect("it is a time")
    }

    pub(in crate::domain::answer) fn nothing_to_do(now: &ClusterNow) -> WhyRunning<'_> {
        WhyRunning {
            now,
            processing: Some(0),
            queued: Some(0),
            no_worker: Some(0),
            waiting: Some(0),
            memory: Some(0),
            clients: 0,
            graph_updates: Some(0),
        }
    }

    pub(in crate::domain::answer) fn now() -> ClusterNow {
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

    #[test]
    fn silence_is_several_intervals_and_not_a_short_time() {
        let silence_after = |seconds: i64, interval: f64| {
            let last_seen_at = now().at - TimeDelta::seconds(seconds);
            ClusterNow { last_seen_at, interval_seconds: interval, ..now() }.silence()
        };
        assert_eq!(silence_after(45, 15.0), None);
        assert_eq!(silence_after(46, 15.0), Some(46.0));
        assert_eq!(silence_after(30, 1.0), None);
        assert_eq!(silence_after(31, 1.0), Some(31.0));
        let closed = ClusterNow { closed_at: Some(at(0)), last_seen_at: at(-100_000), ..now() };
        assert_eq!(closed.silence(), None);
    }

    #[test]
    fn what_keeps_a_cluster_is_told_in_an_order() {
        let now = now();
        let no_work = nothing_to_do(&now);
        let verdict_and_value = |facts: &WhyRunning<'_>| {
            let answer = answer_why_running(facts);
            (answer.verdict, answer.value.map(|(value, unit)| format!("{value} {unit}")))
        };
        let tasks = |count: i64| Some(format!("{count} tasks"));
        let queued = WhyRunning { queued: Some(4), ..no_work.clone() };
        assert_eq!(verdict_and_value(&queued), (Verdict::Notice, tasks(4)));
        let unrunnable = WhyRunning { no_worker: Some(3), ..queued.clone() };
        assert_eq!(verdict_and_value(&unrunnable), (Verdict::Bad, tasks(3)));
        let with_processing = WhyRunning { processing: Some(7), ..unrunnable };
        assert_eq!(verdict_and_value(&with_processing), (Verdict::Notice, tasks(7)));
        assert_eq!(
            verdict_and_value(&WhyRunning { no_worker: None, ..with_processing }),
            (Verdict::Good, tasks(7))
        );
        assert_eq!(
            verdict_and_value(&WhyRunning { waiting: Some(2), ..no_work.clone() }),
            (Verdict::Notice, tasks(2))
        );
        assert_eq!(verdict_and_value(&no_work), (Verdict::Notice, tasks(0)));
        let with_graph = WhyRunning { processing: None, graph_updates: Some(1), ..no_work.clone() };
        assert_eq!(verdict_and_value(&with_graph), (Verdict::Good, Some("1 graphs".to_owned())));
        let unreported = answer_why_running(&WhyRunning { processing: None, ..no_work.clone() });
        assert_eq!((unreported.confidence, unreported.value), (Confidence::NotCollected, None));
        // The counts of the last sample do not keep an idle scheduler running.
        let idle_now = ClusterNow { idle_since: Some(at(-1_000)), ..now.clone() };
        let idle = WhyRunning { now: &idle_now, processing: Some(7), ..no_work };
        assert_eq!(verdict_and_value(&idle), (Verdict::Bad, Some("1990 seconds".to_owned())));
        let held_by_client = WhyRunning { memory: Some(5), clients: 2, ..idle };
        assert_eq!(verdict_and_value(&held_by_client), (Verdict::Bad, Some("5 results".to_owned())));
        let stopping_now = ClusterNow { stop_requested: true, ..now.clone() };
        let answer = answer_why_running(&WhyRunning { now: &stopping_now, ..queued });
        assert_eq!(answer.verdict, Verdict::Notice);
        assert!(answer.headline().starts_with("It was requested to stop"), "{}", answer.headline());
    }
}
