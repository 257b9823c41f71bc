//! Background jobs. Of the servers with one database, only the one with the job lock runs them.
//!
//! Each job has its own schedule, so that none waits for another. A round does a bounded amount of work,
//! also per account, and reports whether more work remains; the next round continues where a stopped one
//! ended. A failed job is logged and retried. Each job is an entry in `JOBS`.

mod alerts;
mod flags;
mod life_cycle;
mod partitions;
mod reencryption;
mod removal;
mod retention;
mod usage;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use entity::{Timestamp, ids::AccountId};
use futures::future::BoxFuture;
use tokio::{
    sync::{self, watch},
    task::JoinSet,
    time::{Instant, timeout},
};

use self::reencryption::ReencryptionPass;
use crate::{
    app::{alert::Alerts, alert_delivery::Deliveries, flag::Flags, usage::Rollups},
    clock::Clock,
    config::AlertConfig,
    encryption::KeyId,
    error::Chain,
    metrics::{JobMetrics, Metrics},
    store::{JobLock, Store, StoreError, SystemStore},
};

/// The interval between checks of the database, of the keys, and of the job lock of another server.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The delay before the next round of a job with more work.
const CONTINUATION_DELAY: Duration = Duration::from_secs(1);

/// The retry delay after a failure, unless the job is due earlier.
const RETRY_DELAY: Duration = Duration::from_mins(1);

/// The time after which a round stops and reports that more is left.
const ROUND_BUDGET: Duration = Duration::from_secs(10);

/// The timeout of a round. Without it, a round that waits for a disconnected database would never end.
const ROUND_TIMEOUT: Duration = Duration::from_mins(10);

/// The pause between batches within a job, in which reports can use the database.
const BATCH_PAUSE: Duration = Duration::from_millis(20);

/// The time that running batches have to finish after the shutdown begins.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// A background job.
struct Job {
    name: &'static str,
    /// The interval between rounds while no work remains.
    interval: Duration,
    /// True if the job has work whenever clusters report, so that its rounds are logged at debug level.
    is_routine: bool,
    run: for<'a> fn(&'a Jobs) -> BoxFuture<'a, Result<Progress, StoreError>>,
}

/// All jobs, in their order in a sequential run.
static JOBS: [Job; 9] = [
    Job {
        name: "life-cycle",
        interval: CHECK_INTERVAL,
        is_routine: false,
        run: |jobs| Box::pin(life_cycle::run(jobs)),
    },
    Job {
        name: "usage",
        interval: Duration::from_secs(10),
        is_routine: true,
        run: |jobs| Box::pin(usage::run(jobs)),
    },
    // After `usage`, which first recomputes the totals without the clusters under removal.
    Job {
        name: "removal",
        interval: Duration::from_secs(10),
        is_routine: false,
        run: |jobs| Box::pin(removal::run(jobs)),
    },
    Job {
        name: "flags",
        interval: Duration::from_secs(25),
        is_routine: true,
        run: |jobs| Box::pin(flags::run(jobs)),
    },
    Job {
        name: "partitions",
        interval: Duration::from_hours(1),
        is_routine: false,
        run: |jobs| Box::pin(partitions::run(jobs)),
    },
    Job {
        name: "retention",
        interval: Duration::from_hours(1),
        is_routine: false,
        run: |jobs| Box::pin(retention::run(jobs)),
    },
    Job {
        name: "reencryption",
        interval: Duration::from_mins(1),
        is_routine: false,
        run: |jobs| Box::pin(reencryption::run(jobs)),
    },
    Job {
        name: "alerts",
        interval: Duration::from_secs(25),
        is_routine: true,
        run: |jobs| Box::pin(alerts::evaluate(jobs)),
    },
    Job {
        name: "deliveries",
        interval: CHECK_INTERVAL,
        is_routine: true,
        run: |jobs| Box::pin(alerts::send(jobs)),
    },
];

/// The result of a round that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The counts, by kind of work.
    pub counts: BTreeMap<String, u64>,
    /// True if more work is due at once.
    pub has_more: bool,
}

impl Progress {
    fn add(&mut self, kind: impl Into<String>, count: u64) {
        if count > 0 {
            *self.counts.entry(kind.into()).or_default() += count;
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, count)) in self.counts.iter().enumerate() {
            write!(f, "{}{kind}={count}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// The result of one round of every job, in sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobsRun {
    /// True if another server holds the job lock, so that this one did nothing.
    pub is_on_other_server: bool,
    /// The progress of each job that succeeded.
    pub progress: BTreeMap<&'static str, Progress>,
    /// The jobs that failed.
    pub failed: Vec<&'static str>,
}

impl JobsRun {
    /// Returns true if a job has more work at once.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.progress.values().any(|progress| progress.has_more)
    }
}

/// The background jobs of a server.
pub struct Jobs {
    store: Store,
    clock: Arc<dyn Clock>,
    stopping: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
    /// The job lock, shared by the running jobs.
    job_lock: sync::Mutex<SharedJobLock>,
    reencryption_pass: Mutex<ReencryptionPass>,
    retention: sync::Mutex<retention::Round>,
    /// The last account whose silent clusters the previous round examined. None if it examined all.
    last_silent_account: sync::Mutex<Option<AccountId>>,
    /// The evidence for the time that retention uses.
    time_evidence: retention::TimeEvidence,
    /// The start of the time during which this server could accept reports.
    watching_since: Mutex<Timestamp>,
    rollups: Rollups,
    flags: Flags,
    alerts: Alerts,
    deliveries: Deliveries,
    metrics: JobMetrics,
}

/// Running jobs.
pub struct RunningJobs {
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// The job lock of this server, shared by its running jobs.
#[derive(Default)]
struct SharedJobLock {
    lock: Option<JobLock>,
    /// The number of running jobs.
    job_count: usize,
}

/// The result of a job's round.
enum JobOutcome {
    /// The job made progress.
    Done(Progress),
    /// The job failed. The log has the reason.
    Failed,
    /// Another server holds the job lock.
    OtherServer,
}

impl Jobs {
    /// Returns the jobs of a store. None of them is running yet.
    #[must_use]
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, alerts: &AlertConfig, metrics: &Metrics) -> Self {
        let (stop, stopping) = watch::channel(false);
        for job in &JOBS {
            metrics.jobs.register_job(job.name);
        }
        Self {
            stopping,
            stop,
            job_lock: sync::Mutex::default(),
            reencryption_pass: Mutex::default(),
            retention: sync::Mutex::default(),
            last_silent_account: sync::Mutex::default(),
            time_evidence: retention::TimeEvidence::new(clock.as_ref()),
            watching_since: Mutex::new(clock.timestamp()),
            rollups: Rollups::new(store.system()),
            flags: Flags::new(store.clone()),
            alerts: Alerts::new(store.clone(), Arc::clone(&clock)),
            deliveries: Deliveries::new(store.clone(), Arc::clone(&clock), alerts),
            store,
            clock,
            metrics: metrics.jobs.clone(),
        }
    }

    /// Starts every job on its own schedule, each with an immediate first round.
    #[must_use]
    pub fn start(self: Arc<Self>) -> RunningJobs {
        let (stop, mut tasks) = (self.stop.clone(), JoinSet::new());
        tasks.spawn(Arc::clone(&self).run_server_checks());
        for job in &JOBS {
            tasks.spawn(Arc::clone(&self).keep_running(job));
        }
        RunningJobs { stop, tasks }
    }

    /// Runs the periodic checks that every server does for itself.
    async fn run_server_checks(self: Arc<Self>) {
        loop {
            // The ping finds dead connections even if no one requests the readiness endpoint.
            if let Err(error) = self.system().ping().await {
                tracing::debug!(error = %Chain(&error), "database does not respond");
            }
            self.reload_keys_or_log().await;
            if self.sleep_or_stop(CHECK_INTERVAL).await {
                return;
            }
        }
    }

    /// Runs a job repeatedly, except while another server holds the job lock.
    async fn keep_running(self: Arc<Self>, job: &'static Job) {
        loop {
            let pause = match self.run_with_job_lock(job).await {
                JobOutcome::Done(progress) if progress.has_more => CONTINUATION_DELAY,
                JobOutcome::Done(_) => job.interval,
                JobOutcome::Failed => job.interval.min(RETRY_DELAY),
                JobOutcome::OtherServer => CHECK_INTERVAL,
            };
            if self.sleep_or_stop(pause).await {
                return;
            }
        }
    }

    /// Runs a job once, unless another server holds the job lock.
    async fn run_with_job_lock(&self, job: &Job) -> JobOutcome {
        match timeout(ROUND_TIMEOUT, self.acquire_job_lock())
            .await
            .unwrap_or_else(|_| Err(StoreError::timed_out()))
        {
            Ok(true) => {}
            Ok(false) => return JobOutcome::OtherServer,
            Err(error) => {
                tracing::warn!(
                    job = job.name,
                    error = %Chain(&error),
                    "job not started: cannot take the job lock"
                );
                self.reset_watching_since();
                return JobOutcome::Failed;
            }
        }
        let outcome = self.run(job).await;
        self.release_job_lock().await;
        outcome
    }

    /// Runs all jobs once, in sequence, regardless of their schedules.
    pub async fn run_once(&self) -> JobsRun {
        self.reload_keys_or_log().await;
        let mut run = JobsRun::default();
        for job in &JOBS {
            if self.is_stopping() {
                break;
            }
            match self.run_with_job_lock(job).await {
                JobOutcome::Done(progress) => drop(run.progress.insert(job.name, progress)),
                JobOutcome::Failed => run.failed.push(job.name),
                JobOutcome::OtherServer => run.is_on_other_server = true,
            }
        }
        run
    }

    async fn run(&self, job: &Job) -> JobOutcome {
        let started_at = Instant::now();
        let outcome =
            timeout(ROUND_TIMEOUT, (job.run)(self)).await.unwrap_or_else(|_| Err(StoreError::timed_out()));
        let duration = started_at.elapsed();
        self.metrics.record_round(job.name, duration, outcome.is_ok().then(|| self.now()));
        let seconds = duration.as_secs_f64();
        match outcome {
            Ok(progress) => {
                if progress.counts.is_empty() {
                    tracing::debug!(job = job.name, seconds, "job finished without work");
                } else if job.is_routine {
                    tracing::debug!(
                        job = job.name,
                        did = %progress,
                        more = progress.has_more,
                        seconds,
                        "job finished"
                    );
                } else {
                    tracing::info!(
                        job = job.name,
                        did = %progress,
                        more = progress.has_more,
                        seconds,
                        "job finished"
                    );
                }
                JobOutcome::Done(progress)
            }
            Err(error) => {
                let error = Chain(&error);
                tracing::warn!(job = job.name, seconds, %error, "job failed; retrying");
                JobOutcome::Failed
            }
        }
    }

    /// Acquires the job lock for this server, or shares it if a job holds it already. Returns false if
    /// another server holds it.
    async fn acquire_job_lock(&self) -> Result<bool, StoreError> {
        let mut shared_lock = self.job_lock.lock().await;
        let is_held = match &shared_lock.lock {
            Some(lock) => timeout(CHECK_INTERVAL, lock.is_held()).await.unwrap_or(false),
            None => false,
        };
        if !is_held {
            // A lock whose connection was lost is no longer held.
            shared_lock.lock = None;
            shared_lock.lock = self.system().lock_jobs().await?;
        }
        let has_lock = shared_lock.lock.is_some();
        shared_lock.job_count += usize::from(has_lock);
        Ok(has_lock)
    }

    /// Ends a job's use of the job lock. The last job releases it.
    async fn release_job_lock(&self) {
        let mut shared_lock = self.job_lock.lock().await;
        shared_lock.job_count = shared_lock.job_count.saturating_sub(1);
        if shared_lock.job_count == 0
            && let Some(lock) = shared_lock.lock.take()
        {
            lock.release().await;
        }
    }

    async fn reload_keys_or_log(&self) {
        // Every server reads its own key file, so this needs no job lock.
        if let Err(error) = self.reload_keys().await {
            tracing::warn!(error = %Chain(&error), "failed to activate the new encryption key");
        }
    }

    /// Starts using a changed key file, after recording its encrypting key in the database.
    async fn reload_keys(&self) -> Result<(), StoreError> {
        let ring = self.store.keys();
        match ring.read_if_changed() {
            Ok(Some(keys)) => {
                self.system().record_key(keys.primary(), self.clock.timestamp()).await?;
                tracing::info!(encrypts = %KeyId(keys.primary()), "key file reloaded");
                ring.replace_keys(keys);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(
                error = %Chain(&error),
                "failed to reload the key file; the current keys stay in use"
            ),
        }
        Ok(())
    }

    fn system(&self) -> SystemStore {
        self.store.system()
    }

    fn now(&self) -> Timestamp {
        self.clock.timestamp()
    }

    fn watching_since(&self) -> Timestamp {
        *self.watching_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts anew the time during which this server could accept reports.
    fn reset_watching_since(&self) {
        *self.watching_since.lock().unwrap_or_else(PoisonError::into_inner) = self.now();
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Sleeps. Returns true if the server is shutting down.
    async fn sleep_or_stop(&self, pause: Duration) -> bool {
        let mut stopping = self.stopping.clone();
        // The jobs own the sender, so only the timeout or the signal ends the wait.
        tokio::time::timeout(pause, stopping.wait_for(|stopping| *stopping)).await.is_ok()
    }
}

impl RunningJobs {
    /// Stops the jobs after their current batch.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let all_tasks = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(SHUTDOWN_TIMEOUT, all_tasks).await.is_err() {
            tracing::warn!(
                seconds = SHUTDOWN_TIMEOUT.as_secs(),
                "shutdown: a job did not finish within the timeout"
            );
            self.tasks.abort_all();
        }
    }
}

impl Drop for RunningJobs {
    /// Stops the jobs if the server is dropped without a shutdown.
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}
