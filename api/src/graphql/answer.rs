//! Answers: one question about a cluster each, asked of the store only when the question is.

use std::sync::Arc;

use async_graphql::{Enum, ID, Object, SimpleObject};
use chrono::TimeDelta;
use entity::{
    cluster::{DesiredState, Model},
    data_policy::DataClass,
    worker::End,
};

use super::{
    answer_loaders::{ConnectedTo, DeadWorkersOf, ErrorKindsOf, NewestIn, StatesOf, TopFunctionsOf},
    baseline,
    cluster::Cluster,
    computation::Computation,
    error::ApiError,
    error_group::ErrorGroup,
    json::names,
    loaders::{ClusterUsage, PolicyOf},
    node::Node,
    scope::{AccountScope, Costly},
    series,
    span_loaders::ClusterFineMetrics,
    worker::Worker,
};
use crate::{
    blocking::blocking,
    domain::{
        answer::{self, MetricTimes, Missing, Now, Subject},
        fine_metric::Table,
        metric::Metric,
        series::Buckets,
        usage::Usage,
    },
};

/// Hours before the last report in which measurements count: what happens now, and few enough rows for a page of
/// clusters to be read by one statement.
const LOOK_BACK_HOURS: i64 = 6;

/// What answers need of those hours, and how many seconds are summed up at first.
const CONTENTION: [Metric; 5] = [
    Metric::GilContention,
    Metric::GilContentionMax,
    Metric::EventLoop,
    Metric::EventLoopMax,
    Metric::SchedulerEventLoop,
];
const CONTENTION_BUCKET: i64 = 600;

/// Minutes before the last report within which there is a sample, if there are samples at all.
const LAST_SAMPLE_MINUTES: i64 = 10;

/// What is counted of tasks now.
const TASKS: [Metric; 5] = [
    Metric::TasksProcessing,
    Metric::TasksQueued,
    Metric::TasksNoWorker,
    Metric::TasksWaiting,
    Metric::TasksMemory,
];

/// What a cluster works on, as of its last samples.
#[derive(Default)]
pub(super) struct Work {
    pub(super) processing: Option<i64>,
    pub(super) queued: Option<i64>,
    pub(super) no_worker: Option<i64>,
    pub(super) waiting: Option<i64>,
    /// Results that are held.
    pub(super) memory: Option<i64>,
    /// Clients that are connected.
    pub(super) clients: i64,
}

impl Work {
    pub(super) async fn of(scope: &AccountScope, row: &Model) -> Result<Self, ApiError> {
        let until = row.reported_at.0;
        let range = (until - TimeDelta::minutes(LAST_SAMPLE_MINUTES), until);
        let measured = series::measured(scope, row.id, range, 1, &TASKS).await?;
        #[expect(clippy::cast_possible_truncation, reason = "a count, or the mean of two within a second")]
        let last = |metric| measured.of(metric).last().map(|(_, bucket)| bucket.mean().round() as i64);
        let [processing, queued, no_worker, waiting, memory] = TASKS.map(last);
        let clients = scope.loader.load_one(ConnectedTo(row.id)).await?.unwrap_or_default();
        Ok(Self { processing, queued, no_worker, waiting, memory, clients })
    }
}

/// Answers to the questions people have about a cluster.
pub(super) struct Answers {
    scope: AccountScope,
    row: Model,
}

impl Answers {
    pub(super) fn new(scope: &AccountScope, row: &Model) -> Self {
        Self { scope: scope.clone(), row: row.clone() }
    }

    fn answer(&self, answer: answer::Answer) -> Answer {
        Answer::new(&self.scope, answer)
    }

    fn now(&self) -> Now {
        let row = &self.row;
        Now {
            at: self.scope.now,
            last_seen_at: row.last_seen_at.0,
            reported_at: row.reported_at.0,
            interval_seconds: row.interval_seconds,
            closed_at: row.closed_at.map(|time| time.0),
            close_reason: row.close_reason.clone(),
            idle_since: row.idle_since.map(|time| time.0),
            stop_wanted: row.desired_state == DesiredState::Stopped,
            workers: row.workers,
        }
    }

    /// Items of a class that the scheduler kept back, or that arrived and were dropped.
    fn kept_back(&self, class: DataClass) -> i64 {
        self.row.receipt.0.get(&class).map_or(0, |receipt| receipt.withheld.saturating_add(receipt.dropped))
    }

    /// Why there is nothing of a class.
    async fn missing(&self, class: DataClass) -> Result<Missing, ApiError> {
        let policies = self.scope.loader.load_one(PolicyOf(self.scope.account.id)).await?.unwrap_or_default();
        Ok(if policies.iter().any(|row| row.data_class == class && !row.accepted) {
            Missing::Refused
        } else if self.kept_back(class) > 0 {
            Missing::KeptBack
        } else {
            Missing::NotReported
        })
    }

    /// What the cluster used over its whole life.
    async fn usage(&self) -> Result<Usage, ApiError> {
        let days = self.scope.loader.load_one(ClusterUsage(self.row.id)).await?.unwrap_or_default();
        let mut sum = Usage::default();
        for usage in days.into_values() {
            sum += usage;
        }
        Ok(sum)
    }

    /// What its workers measured; why not, if they did not.
    async fn times(&self) -> Result<Result<MetricTimes, Missing>, ApiError> {
        let Some(table) = self.scope.loader.load_one(ClusterFineMetrics(self.row.id)).await? else {
            return Ok(Err(self.missing(DataClass::Tasks).await?));
        };
        self.times_of(table).await.map(Ok)
    }

    async fn times_of(&self, table: Arc<Table>) -> Result<MetricTimes, ApiError> {
        self.scope.take(Costly::FineMetrics, table.packed())?;
        Ok(blocking(move || MetricTimes::of(&table)).await)
    }

    /// What its samples of the last hours tell of contention, and how many seconds these are.
    async fn contention(&self) -> Result<(Arc<Buckets>, f64), ApiError> {
        let until = Cluster::last_known(&self.row);
        let from = self.row.started_at.0.max(until - TimeDelta::hours(LOOK_BACK_HOURS)).min(until);
        let range = (from, until);
        let buckets =
            series::measured(&self.scope, self.row.id, range, CONTENTION_BUCKET, &CONTENTION).await?;
        Ok((buckets, (until - from).as_seconds_f64()))
    }
}

/// Answers to the questions people have about a cluster, as of its newest report. Each is read from the store only when
/// it is asked for, and together with the same question about other clusters.
#[Object]
impl Answers {
    /// Did my computation finish? The value counts computations that did; the share is of all that were submitted. The
    /// last one counts most, since what failed before it may have been mended.
    async fn finished(&self) -> Result<Answer, ApiError> {
        let loader = &self.scope.loader;
        let states = loader.load_one(StatesOf(self.row.id)).await?.unwrap_or_default();
        let mut missing = Missing::NotReported;
        let rows = match answer::deciding_state(&states) {
            Some(state) => loader.load_one(NewestIn(self.row.id, state)).await?.unwrap_or_default(),
            None if self.row.total_tasks > 0 => {
                missing = self.missing(DataClass::Tasks).await?;
                Vec::new()
            }
            None => Vec::new(),
        };
        let shown: Vec<answer::RunEvidence> = rows
            .iter()
            .map(|row| answer::RunEvidence {
                id: (row.cluster_id, row.id),
                state: row.state,
                started_at: row.started_at.0,
                stopped_at: row.stopped_at.map(|time| time.0),
            })
            .collect();
        loader.feed(rows.into_iter().map(|row| ((row.cluster_id, row.id), row)));
        Ok(self.answer(answer::finished(&answer::Finished {
            states: &states,
            shown: &shown,
            tasks: self.row.total_tasks,
            dropped: self.row.dropped.0.get("computations").copied().unwrap_or(0),
            missing,
            now: &self.now(),
        })))
    }

    /// Did any exceptions occur? The value counts exceptions; the share is that of tasks that erred among those that
    /// erred or succeeded.
    async fn exceptions(&self) -> Result<Answer, ApiError> {
        let loader = &self.scope.loader;
        let kinds = loader.load_one(ErrorKindsOf(self.row.id)).await?.unwrap_or_default();
        let mut missing = Missing::NotReported;
        let mut dead = Vec::new();
        if kinds.iter().any(|kind| kind.origin == entity::error_group::Origin::Dask) {
            dead = loader.load_one(DeadWorkersOf(self.row.id)).await?.unwrap_or_default();
        } else if kinds.is_empty() && self.row.total_tasks_erred > 0 {
            missing = self.missing(DataClass::UserErrors).await?;
        }
        let shown: Vec<answer::DeadWorker> = dead
            .iter()
            .map(|row| answer::DeadWorker {
                id: (row.cluster_id, row.id),
                name: row.name.clone(),
                end: row.end_kind.unwrap_or(End::Unknown),
                processing: row.processing,
            })
            .collect();
        loader.feed(dead.into_iter().map(|row| ((row.cluster_id, row.id), row)));
        Ok(self.answer(answer::exceptions(&answer::Exceptions {
            kinds: &kinds,
            dead: &shown,
            recorded: self.row.total_errors,
            tasks_erred: self.row.total_tasks_erred,
            tasks_succeeded: self.row.total_tasks_succeeded,
            kept_back: self.kept_back(DataClass::UserErrors),
            missing,
        })))
    }

    /// How much did that cost me? The value is the amount by the account's rates, in their currency, and therefore
    /// `ESTIMATED`; null when the rates are in several. The share is the part of it that was paid while threads had no
    /// task; null where Dask does not tell. Without rates it is `NOT_COLLECTED`.
    async fn cost(&self) -> Result<Answer, ApiError> {
        let days = self.scope.loader.load_one(ClusterUsage(self.row.id)).await?.unwrap_or_default();
        Ok(self.answer(answer::cost(self.scope.rates().await?, &days)))
    }

    /// What is taking most of the time? The value is the thread-seconds that the tasks of one function computed, the
    /// share is of the thread-seconds that all did.
    async fn top_time(&self) -> Result<Answer, ApiError> {
        let functions = self.scope.loader.load_one(TopFunctionsOf(self.row.id)).await?.unwrap_or_default();
        let (mut usage, mut missing) = (Usage::default(), Missing::NotReported);
        if !functions.is_empty() {
            usage = self.usage().await?;
        } else if self.row.total_compute_seconds > 0.0 {
            missing = self.missing(DataClass::Tasks).await?;
        }
        Ok(self.answer(answer::top_time(&answer::TopTime {
            functions: &functions,
            usage: &usage,
            compute_seconds: self.row.total_compute_seconds,
            missing,
        })))
    }

    /// Why is that cluster still running? The value counts what the headline names: tasks, graphs, results that clients
    /// hold, or the seconds since it closed, was last heard of, or had work. The share is null.
    async fn why_running(&self) -> Result<Answer, ApiError> {
        let now = self.now();
        let work = if now.closed_at.is_none() && now.silence().is_none() {
            Work::of(&self.scope, &self.row).await?
        } else {
            Work::default()
        };
        let Work { processing, queued, no_worker, waiting, memory, clients } = work;
        let facts = answer::WhyRunning {
            now: &now,
            processing,
            queued,
            no_worker,
            waiting,
            memory,
            clients,
            graph_updates: self.row.graph_updates,
        };
        Ok(self.answer(answer::why_running(&facts)))
    }

    /// How much time am I losing to GIL contention? The share is how busy the GIL of the median worker was in the last
    /// six hours of the cluster, the value the same in seconds of this time. It is lost only where several threads of a
    /// worker want the GIL. Measured where gilknocker is installed on the workers.
    async fn gil(&self) -> Result<Answer, ApiError> {
        let (measured, looked_at) = self.contention().await?;
        let median = measured.whole(Metric::GilContention);
        let noncpu_us = if median.is_some() { self.usage().await?.noncpu_us } else { None };
        Ok(self.answer(answer::gil(&answer::Gil {
            median,
            busiest: measured.whole(Metric::GilContentionMax),
            looked_at,
            one_thread_each: self.row.peak_workers > 0 && self.row.peak_threads <= self.row.peak_workers,
            noncpu_us,
        })))
    }

    /// How much time am I losing in network transfer? The value is the seconds workers spent receiving data, most of it
    /// beside their tasks; the share is that of the threads' time without a task, and transfers can have cost no more
    /// than that. `NOT_ATTRIBUTABLE` where that is not known.
    async fn network(&self) -> Result<Answer, ApiError> {
        let times = self.times().await?;
        let usage = if times.is_ok() { self.usage().await? } else { Usage::default() };
        Ok(self.answer(answer::network(&answer::Network {
            times: times.as_ref().ok(),
            usage: &usage,
            threads_each: threads_each(&self.row),
            missing: times.as_ref().err().copied().unwrap_or(Missing::NotReported),
        })))
    }

    /// How much time am I losing to spilling? The value is the thread-seconds that tasks spent moving results between
    /// memory and disk, the share is of all thread-seconds. What memory monitors do beside the tasks is
    /// `NOT_ATTRIBUTABLE`, and only evidence.
    async fn spill(&self) -> Result<Answer, ApiError> {
        let table = async { Ok(self.scope.loader.load_one(ClusterFineMetrics(self.row.id)).await?) };
        // At once, as other answers ask for them, so that they are read together.
        let (usage, table) = futures::try_join!(self.usage(), table)?;
        let times = match table {
            Some(table) => Some(self.times_of(table).await?),
            None => None,
        };
        Ok(self.answer(answer::spill(&answer::Spill { usage: &usage, times: times.as_ref() })))
    }

    /// How much time am I losing because event loops are blocked? The share is that of the last six hours of the
    /// cluster by which ticks came later than every 20 ms, as Dask sets them, on the median worker or on the scheduler,
    /// whichever is worse; the value is the same in seconds.
    async fn event_loop(&self) -> Result<Answer, ApiError> {
        let (measured, looked_at) = self.contention().await?;
        Ok(self.answer(answer::event_loop(&answer::EventLoop {
            workers: measured.whole(Metric::EventLoop),
            slowest: measured.whole(Metric::EventLoopMax),
            scheduler: measured.whole(Metric::SchedulerEventLoop),
            looked_at,
        })))
    }

    /// Which functions occupy threads without accruing CPU time? The value is the thread-seconds tasks held threads
    /// without using the CPU, the share is of all that tasks ran.
    async fn cpu(&self) -> Result<Answer, ApiError> {
        let times = self.times().await?;
        let missing = times.as_ref().err().copied().unwrap_or(Missing::NotReported);
        Ok(self.answer(answer::cpu(times.as_ref().ok(), missing)))
    }

    /// What changed since it worked? The value counts what is different: packages, Python, what it runs on, the code that
    /// called Dask, and the size of the cluster and its workers. The share is null.
    async fn what_changed(
        &self,
        #[graphql(desc = "The cluster to compare it with, by its global identifier or its `number`; \
                          unless given the last good run of the same work: the newest of the last 100 clusters that \
                          the same user started before it that closed without failed tasks after its last \
                          computation finished and has its name, or else, \
                          among the newest 10 of those, one with the same outermost spans or, where none is named, \
                          at least half of all functions in common.")]
        baseline: Option<ID>,
    ) -> Result<Answer, ApiError> {
        Ok(self.answer(baseline::what_changed(&self.scope, &self.row, baseline).await?))
    }

    /// Where is more time spent than before? The value is the thread-seconds it spent more than the baseline, while there
    /// was work, and below 0 if it spent less; the share is of all that it spent, null if that is not more. The evidence
    /// is what grew most, by function and activity.
    async fn slower(
        &self,
        #[graphql(desc = "The cluster to compare it with, as `whatChanged` has it.")] baseline: Option<ID>,
    ) -> Result<Answer, ApiError> {
        Ok(self.answer(baseline::slower(&self.scope, &self.row, baseline).await?))
    }

    /// Where did new inefficiency accrue, with more workers or others? The value is the thread-seconds in which no task
    /// used the CPU, beyond what the baseline had of them for the same time on the CPU; the share is of all that it spent.
    async fn scaling(
        &self,
        #[graphql(desc = "The cluster to compare it with, as `whatChanged` has it.")] baseline: Option<ID>,
    ) -> Result<Answer, ApiError> {
        Ok(self.answer(baseline::scaling(&self.scope, &self.row, baseline).await?))
    }
}

/// Threads that a worker of a cluster had on the average of its largest size, rounded up.
fn threads_each(row: &Model) -> i64 {
    let (threads, workers) = (row.peak_threads.max(1), row.peak_workers.max(1));
    threads / workers + i64::from(threads % workers > 0)
}

impl Answer {
    pub(super) fn new(scope: &AccountScope, answer: answer::Answer) -> Self {
        let (value, unit) = answer.value.map(|(value, unit)| (value, unit.into_owned())).unzip();
        let evidence = answer.evidence.into_iter();
        Self {
            verdict: answer.verdict.into(),
            headline: answer.headline,
            value,
            unit,
            share: answer.share,
            benefit: answer.benefit.map(|(low, high)| Benefit { low, high }),
            confidence: answer.confidence.into(),
            evidence: evidence.map(|evidence| Evidence { scope: scope.clone(), evidence }).collect(),
        }
    }
}

/// Thread-seconds that could be won.
#[derive(SimpleObject)]
pub(super) struct Benefit {
    /// At the least.
    low: f64,
    /// At the most.
    high: f64,
}

/// The answer to one question about a cluster.
#[derive(SimpleObject)]
pub(super) struct Answer {
    /// What to make of it.
    verdict: Verdict,
    /// One plain sentence with the number in it.
    headline: String,
    /// The number, in `unit`. Null where there is none: always when it was not collected or cannot be attributed.
    value: Option<f64>,
    /// What the value counts: `seconds` of the clock, `thread-seconds`, `computations`, `exceptions`, `tasks`, `results`,
    /// `changes`, or a currency by ISO 4217. Null with the value.
    unit: Option<String>,
    /// The number as a share from 0 to 1 of what the question's description says; null where it has none.
    share: Option<f64>,
    /// How much thread time could be won if what is asked about cost nothing; divided by the cluster's threads, seconds of
    /// the clock. Told of the network: at the most the threads' idle time, and no more than all threads of a worker for as
    /// long as it received data. Null where it cannot be told.
    benefit: Option<Benefit>,
    /// How far value and share can be trusted.
    confidence: Confidence,
    /// What the answer rests on, the most important first; at most 5.
    evidence: Vec<Evidence>,
}

/// What to make of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "answer::Verdict")]
pub(super) enum Verdict {
    /// There is nothing to do.
    Good,
    /// Worth a look.
    Notice,
    /// Something is wrong.
    Bad,
    /// It cannot be told.
    Unknown,
}

/// How far the number of an answer can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "answer::Confidence")]
pub(super) enum Confidence {
    /// It was counted or measured.
    Measured,
    /// It rests on rates somebody set, or on a part of the data: the headline says which.
    Estimated,
    /// It happened beside other work, so what it cost cannot be told: value and share are null.
    NotAttributable,
    /// It was not measured, or not stored: value and share are null, and the headline says how to get it.
    NotCollected,
}

names!(Confidence);

/// Something an answer rests on.
pub(super) struct Evidence {
    scope: AccountScope,
    evidence: answer::Evidence,
}

/// Something an answer rests on.
#[Object]
impl Evidence {
    /// What it is.
    async fn label(&self) -> &str {
        &self.evidence.label
    }

    /// Its number, in `unit`; null when it has none.
    async fn value(&self) -> Option<f64> {
        self.evidence.value.as_ref().map(|(value, _)| *value)
    }

    /// What the value counts: units of answers, `bytes`, `clients`, `thread-hours`, or `share` from 0 to 1. Null with
    /// the value.
    async fn unit(&self) -> Option<&str> {
        self.evidence.value.as_ref().map(|(_, unit)| &**unit)
    }

    /// What it is about: the computation, the errors that look alike, the worker, or the cluster; null when that is none
    /// of them, or is not stored any more.
    async fn node(&self) -> Result<Option<Node>, ApiError> {
        let scope = &self.scope;
        let Some(subject) = self.evidence.subject else { return Ok(None) };
        Ok(match subject {
            Subject::Computation(cluster, id) => {
                Computation::find(scope, (cluster, id)).await?.map(Node::Computation)
            }
            Subject::ErrorGroup(id) => {
                ErrorGroup::find(scope, id).await?.map(|node| Node::ErrorGroup(Box::new(node)))
            }
            Subject::Worker(cluster, id) => {
                Worker::find(scope, (cluster, id)).await?.map(|node| Node::Worker(Box::new(node)))
            }
            Subject::Cluster(id) => Cluster::find(scope, id).await?.map(|node| Node::Cluster(Box::new(node))),
        })
    }
}
