//! The answers to questions about a cluster. Each answer is computed only if its field is selected.

use std::sync::Arc;

use async_graphql::{Enum, ID, Object, SimpleObject};
use chrono::TimeDelta;
use entity::{
    cluster::{DesiredState, Model},
    data_policy::DataClass,
    worker::End,
};

use super::{
    answer_loaders::{
        ComputationStatesKey, ConnectedClientsKey, DeadWorkersKey, ErrorKindsKey, NewestComputationsKey,
        TopFunctionsKey,
    },
    baseline,
    evidence::Evidence,
};
use crate::{
    blocking_work::run_blocking,
    domain::{
        answer::{self, ClusterNow, KnownPart, MetricTimes, Missing, Question},
        fine_metric::Table,
        life_cycle,
        metric::Metric,
        series::Buckets,
        usage::Usage,
    },
    graphql::{
        computations::span_loaders::ClusterFineMetricsKey,
        engine::{
            error::ApiError,
            json::write_enums_by_name,
            loaders::{ClusterUsageKey, DataPoliciesKey},
            phrase::{AnswerArgument, AnswerCode, AnswerQualification},
            projection::InlineList,
            scope::{AccountScope, QuotaKind},
        },
        telemetry::series,
    },
};

/// The period before the last report whose measurements count, in hours. It describes the present, and has
/// few enough rows that one statement reads them for a page of clusters.
const CONTENTION_PERIOD_HOURS: i64 = 6;

/// The metrics of contention that answers use. [`CONTENTION_BUCKET`] is the initial width of their
/// buckets, in seconds.
const CONTENTION_METRICS: [Metric; 5] = [
    Metric::GilContention,
    Metric::GilContentionMax,
    Metric::EventLoop,
    Metric::EventLoopMax,
    Metric::SchedulerEventLoop,
];
const CONTENTION_BUCKET: i64 = 600;

/// The period before the last report that contains a sample if the cluster has any, in minutes.
const LAST_SAMPLE_MINUTES: i64 = 10;

/// The metrics that count the current tasks by state.
const TASK_STATE_METRICS: [Metric; 5] = [
    Metric::TasksProcessing,
    Metric::TasksQueued,
    Metric::TasksNoWorker,
    Metric::TasksWaiting,
    Metric::TasksMemory,
];

/// The current work of a cluster, as of its last samples.
#[derive(Default)]
pub(crate) struct CurrentWork {
    pub(crate) processing: Option<i64>,
    pub(crate) queued: Option<i64>,
    pub(crate) no_worker: Option<i64>,
    pub(crate) waiting: Option<i64>,
    /// The results held in memory.
    pub(crate) memory: Option<i64>,
    /// The connected clients.
    pub(crate) clients: i64,
}

impl CurrentWork {
    pub(crate) async fn load_for_cluster(scope: &AccountScope, row: &Model) -> Result<Self, ApiError> {
        let until = row.reported_at.0;
        let range = (until - TimeDelta::minutes(LAST_SAMPLE_MINUTES), until);
        let measured = series::load_measurements(scope, row.id, range, 1, &TASK_STATE_METRICS).await?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the value is a count, or the mean of two counts within one second"
        )]
        let last = |metric| measured.of(metric).last().map(|(_, bucket)| bucket.mean().round() as i64);
        let [processing, queued, no_worker, waiting, memory] = TASK_STATE_METRICS.map(last);
        let clients = scope.loader.load_one(ConnectedClientsKey(row.id)).await?.unwrap_or_default();
        Ok(Self { processing, queued, no_worker, waiting, memory, clients })
    }
}

/// The answers to questions about a cluster.
pub(crate) struct Answers {
    scope: AccountScope,
    row: Model,
}

impl Answers {
    pub(crate) fn new(scope: &AccountScope, row: &Model) -> Self {
        Self { scope: scope.clone(), row: row.clone() }
    }

    /// Returns the answer with statements about the unknown parts of the cluster: its end, and work that
    /// the reports do not contain.
    fn qualified_answer(&self, question: Question, answer: answer::Answer) -> Answer {
        Answer::new(&self.scope, self.known_part().qualify(question, answer))
    }

    /// Returns the part of the cluster that its reports cover.
    fn known_part(&self) -> KnownPart {
        KnownPart::of(&self.row, self.scope.now)
    }

    fn current_state(&self) -> ClusterNow {
        let row = &self.row;
        ClusterNow {
            at: self.scope.now,
            last_seen_at: row.last_seen_at.0,
            reported_at: row.reported_at.0,
            interval_seconds: row.interval_seconds,
            closed_at: row.closed_at.map(|time| time.0),
            is_end_known: self.known_part().until.is_none(),
            close_reason: row.close_reason.clone(),
            idle_since: row.idle_since.map(|time| time.0),
            stop_requested: row.desired_state == DesiredState::Stopped,
            workers: row.workers,
        }
    }

    /// Returns the number of items of a class that the scheduler withheld or the server dropped.
    fn withheld_or_dropped(&self, class: DataClass) -> i64 {
        self.row.receipt.0.get(&class).map_or(0, |receipt| receipt.withheld.saturating_add(receipt.dropped))
    }

    /// Returns the reason why data of a class is missing.
    async fn missing_reason(&self, class: DataClass) -> Result<Missing, ApiError> {
        let policies =
            self.scope.loader.load_one(DataPoliciesKey(self.scope.account.id)).await?.unwrap_or_default();
        Ok(if policies.iter().any(|row| row.data_class == class && !row.accepted) {
            Missing::Refused
        } else if self.withheld_or_dropped(class) > 0 {
            Missing::Withheld
        } else {
            Missing::NotReported
        })
    }

    /// Returns the usage over the cluster's whole life.
    async fn usage(&self) -> Result<Usage, ApiError> {
        let days = self.scope.loader.load_one(ClusterUsageKey(self.row.id)).await?.unwrap_or_default();
        let mut sum = Usage::default();
        for usage in days.into_values() {
            sum += usage;
        }
        Ok(sum)
    }

    /// Returns the workers' measurements, or the reason why there are none.
    async fn metric_times(&self) -> Result<Result<MetricTimes, Missing>, ApiError> {
        let Some(table) = self.scope.loader.load_one(ClusterFineMetricsKey::from(&self.row)).await? else {
            return Ok(Err(self.missing_reason(DataClass::Tasks).await?));
        };
        self.metric_times_from(table).await.map(Ok)
    }

    async fn metric_times_from(&self, table: Arc<Table>) -> Result<MetricTimes, ApiError> {
        self.scope.charge(QuotaKind::FineMetrics, table.spans_added())?;
        Ok(run_blocking(move || MetricTimes::of(&table)).await)
    }

    /// Returns the measurements of contention in the last hours, and the length of this period in
    /// seconds.
    async fn contention(&self) -> Result<(Arc<Buckets>, f64), ApiError> {
        let until = life_cycle::last_reported_at(&self.row);
        let from = self.row.started_at.0.max(until - TimeDelta::hours(CONTENTION_PERIOD_HOURS)).min(until);
        let range = (from, until);
        let buckets = series::load_measurements(
            &self.scope,
            self.row.id,
            range,
            CONTENTION_BUCKET,
            &CONTENTION_METRICS,
        )
        .await?;
        Ok((buckets, (until - from).as_seconds_f64()))
    }
}

/// The answers to questions about a cluster, as of its newest report. Each answer is computed only if
/// its field is selected, together with the same answer about other clusters. If the cluster's end, its
/// beginning or a part of it is unknown, the answers state so, and none of them is both `GOOD` and
/// `MEASURED`. The exception is `whyRunning` while the present is known.
#[Object]
impl Answers {
    /// The answer to "Did my computation finish?" The value is the number of finished computations, and
    /// the share is their part of all submitted ones. The last computation counts most, since the cause
    /// of earlier failures may have been fixed.
    async fn finished(&self) -> Result<Answer, ApiError> {
        let loader = &self.scope.loader;
        let states = loader.load_one(ComputationStatesKey(self.row.id)).await?.unwrap_or_default();
        let mut missing = Missing::NotReported;
        let rows = match answer::deciding_state(&states) {
            Some(state) => {
                loader.load_one(NewestComputationsKey(self.row.id, state)).await?.unwrap_or_default()
            }
            None if self.row.total_tasks > 0 => {
                missing = self.missing_reason(DataClass::Tasks).await?;
                Vec::new()
            }
            None => Vec::new(),
        };
        let evidence: Vec<answer::ComputationEvidence> = rows
            .iter()
            .map(|row| answer::ComputationEvidence {
                id: (row.cluster_id, row.id),
                state: row.state,
                started_at: row.started_at.0,
                stopped_at: row.stopped_at.map(|time| time.0),
            })
            .collect();
        loader.insert_loaded(rows.into_iter().map(|row| ((row.cluster_id, row.id), row)));
        Ok(self.qualified_answer(
            Question::Finished,
            answer::answer_finished(&answer::FinishedFacts {
                states: &states,
                evidence: &evidence,
                tasks: self.row.total_tasks,
                missing,
                partial: self.row.partial.as_deref(),
                now: &self.current_state(),
            }),
        ))
    }

    /// The answer to "Did any exceptions occur?" The value is the number of exceptions, and the share is
    /// the part of failed tasks in all tasks that failed or succeeded.
    async fn exceptions(&self) -> Result<Answer, ApiError> {
        let loader = &self.scope.loader;
        let kinds = loader.load_one(ErrorKindsKey(self.row.id)).await?.unwrap_or_default();
        let not_stored = self.withheld_or_dropped(DataClass::UserErrors);
        let mut missing = Missing::NotReported;
        let mut dead_rows = Vec::new();
        if kinds.iter().any(|kind| kind.origin == entity::error_group::Origin::Dask) {
            dead_rows = loader.load_one(DeadWorkersKey(self.row.id)).await?.unwrap_or_default();
        } else if kinds.is_empty()
            && (self.row.total_tasks_erred > 0 || self.row.total_errors > 0 || not_stored > 0)
        {
            missing = self.missing_reason(DataClass::UserErrors).await?;
        }
        let dead_workers: Vec<answer::DeadWorker> = dead_rows
            .iter()
            .map(|row| answer::DeadWorker {
                id: (row.cluster_id, row.id),
                name: row.name.clone(),
                end: row.end_kind.unwrap_or(End::Unknown),
                processing: row.processing,
            })
            .collect();
        loader.insert_loaded(dead_rows.into_iter().map(|row| ((row.cluster_id, row.id), row)));
        Ok(self.qualified_answer(
            Question::Exceptions,
            answer::answer_exceptions(&answer::ExceptionFacts {
                kinds: &kinds,
                dead_workers: &dead_workers,
                recorded: self.row.total_errors,
                dropped: self.row.dropped.0.get("errors").copied().unwrap_or(0),
                tasks_erred: self.row.total_tasks_erred,
                tasks_succeeded: self.row.total_tasks_succeeded,
                not_stored,
                missing,
                partial: self.row.partial.as_deref(),
            }),
        ))
    }

    /// The answer to "How much did that cost me?" The value is the cost in `usage`, by the account's
    /// rates; without a rate it is the server's estimate, and `ESTIMATED`. Null if there are several
    /// costs, in different currencies or on different bases; the headline then lists all of them. The
    /// share is the part that was paid for threads without a task. Null if Dask does not report idle
    /// time. The verdict is `UNKNOWN` without rates.
    async fn cost(&self) -> Result<Answer, ApiError> {
        let days = self.scope.loader.load_one(ClusterUsageKey(self.row.id)).await?.unwrap_or_default();
        Ok(self.qualified_answer(Question::Cost, answer::answer_cost(self.scope.rates().await?, &days)))
    }

    /// The answer to "What is taking most of the time?" The value is the compute time of one function's
    /// tasks, in thread-seconds, and the share is its part of the compute time of all tasks.
    async fn top_time(&self) -> Result<Answer, ApiError> {
        let functions = self.scope.loader.load_one(TopFunctionsKey(self.row.id)).await?.unwrap_or_default();
        let (mut usage, mut missing) = (Usage::default(), Missing::NotReported);
        if !functions.is_empty() {
            usage = self.usage().await?;
        } else if self.row.total_compute_seconds > 0.0 {
            missing = self.missing_reason(DataClass::Tasks).await?;
        }
        Ok(self.qualified_answer(
            Question::TopTime,
            answer::answer_top_time(&answer::TopTime {
                functions: &functions,
                usage: &usage,
                compute_seconds: self.row.total_compute_seconds,
                missing,
            }),
        ))
    }

    /// The answer to "Why is that cluster still running?" The value is a number from the headline:
    /// tasks, graphs, results that clients hold, or the seconds since the cluster closed, was last seen,
    /// or had work. The share is null.
    async fn why_running(&self) -> Result<Answer, ApiError> {
        let now = self.current_state();
        let work = if now.closed_at.is_none() && now.silence().is_none() {
            CurrentWork::load_for_cluster(&self.scope, &self.row).await?
        } else {
            CurrentWork::default()
        };
        let CurrentWork { processing, queued, no_worker, waiting, memory, clients } = work;
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
        // The current work is known, even if the reports contain only a part of the cluster's work.
        let answer = self.known_part().qualify(Question::WhyRunning, answer::answer_why_running(&facts));
        Ok(Answer::new(&self.scope, answer))
    }

    /// The answer to "How much time am I losing to GIL contention?" The share is the part of the
    /// cluster's last six hours in which the GIL of the median worker was busy, and the value is the
    /// same in seconds. The time is lost only if several threads of a worker compete for the GIL.
    /// Requires gilknocker on the workers.
    async fn gil(&self) -> Result<Answer, ApiError> {
        let (measured, observed_seconds) = self.contention().await?;
        let median = measured.aggregate_all(Metric::GilContention);
        let noncpu_us = if median.is_some() { self.usage().await?.noncpu_us } else { None };
        Ok(self.qualified_answer(
            Question::Gil,
            answer::answer_gil(&answer::Gil {
                median,
                busiest: measured.aggregate_all(Metric::GilContentionMax),
                observed_seconds,
                one_thread_each: self.row.peak_workers > 0 && self.row.peak_threads <= self.row.peak_workers,
                noncpu_us,
            }),
        ))
    }

    /// The answer to "How much time am I losing in network transfer?" The value is the time in which
    /// workers received data, in seconds, most of it outside of tasks. The share is the part of the
    /// threads' idle time, which is the most that transfers can have cost. `NOT_ATTRIBUTABLE` if the
    /// idle time is unknown.
    async fn network(&self) -> Result<Answer, ApiError> {
        let times = self.metric_times().await?;
        let usage = if times.is_ok() { self.usage().await? } else { Usage::default() };
        Ok(self.qualified_answer(
            Question::Network,
            answer::answer_network(&answer::Network {
                times: times.as_ref().ok(),
                usage: &usage,
                threads_each: mean_threads_per_worker(&self.row),
                missing: times.as_ref().err().copied().unwrap_or(Missing::NotReported),
            }),
        ))
    }

    /// The answer to "How much time am I losing to spilling?" The value is the time in which tasks moved
    /// results between memory and disk, in thread-seconds, and the share is its part of all thread time.
    /// Spilling by memory monitors outside of tasks is `NOT_ATTRIBUTABLE`, and appears only as evidence.
    async fn spill(&self) -> Result<Answer, ApiError> {
        let table = async { Ok(self.scope.loader.load_one(ClusterFineMetricsKey::from(&self.row)).await?) };
        // Both are requested at once, as the other answers do, so that the loader reads them in one
        // batch.
        let (usage, table) = futures::try_join!(self.usage(), table)?;
        let times = match table {
            Some(table) => Some(self.metric_times_from(table).await?),
            None => None,
        };
        Ok(self.qualified_answer(
            Question::Spill,
            answer::answer_spill(&answer::Spill { usage: &usage, times: times.as_ref() }),
        ))
    }

    /// The answer to "How much time am I losing because event loops are blocked?" The share is the part
    /// of the cluster's last six hours by which ticks were later than Dask's interval of 20 ms, on the
    /// median worker or on the scheduler, whichever is worse. The value is the same in seconds.
    async fn event_loop(&self) -> Result<Answer, ApiError> {
        let (measured, observed_seconds) = self.contention().await?;
        Ok(self.qualified_answer(
            Question::EventLoop,
            answer::answer_event_loop(&answer::EventLoop {
                workers: measured.aggregate_all(Metric::EventLoop),
                slowest: measured.aggregate_all(Metric::EventLoopMax),
                scheduler: measured.aggregate_all(Metric::SchedulerEventLoop),
                observed_seconds,
            }),
        ))
    }

    /// The answer to "Which functions occupy threads without accruing CPU time?" The value is the time
    /// in which tasks held threads without using the CPU, in thread-seconds, and the share is its part
    /// of the total time of tasks.
    async fn cpu(&self) -> Result<Answer, ApiError> {
        let times = self.metric_times().await?;
        let missing = times.as_ref().err().copied().unwrap_or(Missing::NotReported);
        Ok(self.qualified_answer(Question::Cpu, answer::answer_cpu(times.as_ref().ok(), missing)))
    }

    /// The answer to "What changed since it worked?" The value is the number of differences in packages,
    /// Python, the platform, the code that called Dask, and the size of the cluster and its workers. The
    /// share is null.
    async fn what_changed(
        &self,
        #[graphql(
            desc = "The cluster to compare with, by its global identifier or its `number`. Null for the \
                    last good run of the same work. A good run is one of the last 100 clusters that the \
                    same user started before this one, and closed without failed tasks after its last \
                    computation finished. It is the newest one with the same name, or else, among the \
                    newest 10, one with the same outermost spans or, if no span is named, with at least \
                    half of all functions in common."
        )]
        baseline: Option<ID>,
    ) -> Result<Answer, ApiError> {
        Ok(Answer::new(&self.scope, baseline::what_changed(&self.scope, &self.row, baseline).await?))
    }

    /// The answer to "Where is more time spent than before?" The value is the time spent beyond that of
    /// the baseline while there was work, in thread-seconds; below 0 if it spent less. The share is the
    /// part of all time spent. Null if the cluster did not spend more. The evidence lists the functions
    /// and activities that grew most.
    async fn slower(
        &self,
        #[graphql(desc = "The cluster to compare with, as for `whatChanged`.")] baseline: Option<ID>,
    ) -> Result<Answer, ApiError> {
        Ok(Answer::new(&self.scope, baseline::slower(&self.scope, &self.row, baseline).await?))
    }

    /// The answer to "Where did new inefficiency accrue, with more or different workers?" The value is
    /// the time in which no task used the CPU, beyond that of the baseline for the same CPU time, in
    /// thread-seconds. The share is the part of all time spent.
    async fn scaling(
        &self,
        #[graphql(desc = "The cluster to compare with, as for `whatChanged`.")] baseline: Option<ID>,
    ) -> Result<Answer, ApiError> {
        Ok(Answer::new(&self.scope, baseline::scaling(&self.scope, &self.row, baseline).await?))
    }
}

/// Returns the mean number of threads per worker at the cluster's largest size, rounded up.
fn mean_threads_per_worker(row: &Model) -> i64 {
    let (threads, workers) = (row.peak_threads.max(1), row.peak_workers.max(1));
    threads / workers + i64::from(threads % workers > 0)
}

impl Answer {
    pub(crate) fn new(scope: &AccountScope, answer: answer::Qualified) -> Self {
        let answer = answer.into_answer();
        let headline = answer.headline();
        let (value, unit) = answer.value.map(|(value, unit)| (value, unit.into_owned())).unzip();
        let evidence = answer.evidence.into_iter();
        Self {
            verdict: answer.verdict.into(),
            headline,
            code: answer.phrase.code.into(),
            arguments: AnswerArgument::list(&answer.phrase.arguments),
            qualifications: AnswerQualification::list(&answer.qualifications),
            value,
            unit,
            share: answer.share,
            benefit: answer.benefit.map(|(low, high)| Benefit { low, high }),
            confidence: answer.confidence.into(),
            evidence: evidence.map(|evidence| Evidence::new(scope, evidence)).collect(),
        }
    }
}

/// The range of thread time that could be saved, in thread-seconds.
#[derive(SimpleObject)]
pub(crate) struct Benefit {
    /// The minimum.
    low: f64,
    /// The maximum.
    high: f64,
}

/// The answer to one question about a cluster.
#[derive(SimpleObject)]
pub(crate) struct Answer {
    /// The rating of the situation.
    verdict: Verdict,
    /// A summary in plain English that contains the number, with times in UTC. If the cluster is `LOST`,
    /// silent or imported, it states the time up to which the cluster is known. If it matters to the
    /// answer, it also states what was not reported.
    headline: String,
    /// The code of the headline, from which a client phrases it itself. The description of the code has
    /// its text.
    code: AnswerCode,
    /// The arguments of the code: each number, time and name in its text.
    arguments: InlineList<AnswerArgument>,
    /// The parts that the text lists, and the clauses and sentences that qualify it, in the order of the
    /// headline. Empty if the text of the code is the whole headline.
    qualifications: InlineList<AnswerQualification>,
    /// The number, in `unit`. Null if there is none, and always if the number was not collected or
    /// cannot be attributed.
    value: Option<f64>,
    /// The unit of the value: `seconds` of wall-clock time, `thread-seconds`, `computations`,
    /// `exceptions`, `tasks`, `results`, `changes`, or a currency as an ISO 4217 code. Null if the value is
    /// null.
    unit: Option<String>,
    /// The number as a share from 0 to 1 of the quantity in the field's description. Null if the answer
    /// has none.
    share: Option<f64>,
    /// The thread time that could be saved if the cause had no cost. Divided by the number of the cluster's
    /// threads, it is wall-clock time. Only `Answers.network` has it. It is at most the idle time of the
    /// threads, and at most the thread time of the workers while they received data. Null for other answers,
    /// and if it cannot be determined.
    benefit: Option<Benefit>,
    /// The reliability of the value and the share.
    confidence: Confidence,
    /// The evidence for the answer, the most important first, at most 5 items.
    evidence: Vec<Evidence>,
}

/// The rating of the situation that an answer describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "answer::Verdict")]
pub(crate) enum Verdict {
    /// There is nothing to do.
    Good,
    /// The situation deserves attention.
    Notice,
    /// Something is wrong.
    Bad,
    /// The rating is unknown, or the known part is good and the rest is unknown.
    Unknown,
}

/// The reliability of an answer's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "answer::Confidence")]
pub(crate) enum Confidence {
    /// The number was counted or measured.
    Measured,
    /// The number is based on rates that were set or that the server assumes, or on a part of the data.
    /// The headline states which.
    Estimated,
    /// The lost time cannot be determined, because it overlapped with other work. The value and the share are
    /// null.
    NotAttributable,
    /// The number was not measured, or not stored. The value and the share are null, and the headline
    /// states how to collect it.
    NotCollected,
}

write_enums_by_name!(Confidence);
