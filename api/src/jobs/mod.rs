//! Background jobs. Of several servers with one database, one at a time runs them.
//!
//! Each job has its own schedule, so that none waits for another. A round does a bounded amount of work,
//! also per account, and reports whether more is left; the next round continues where a stopped one
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
const PAUSE: Duration = Duration::from_secs(10);

/// The delay before the next round of a job with more work.
const SHORT_PAUSE: Duration = Duration::from_secs(1);

/// The retry delay after a failure, unless the job is due earlier.
const RETRY: Duration = Duration::from_mins(1);

/// The time after which a round stops and reports that more is left.
const ROUND_BUDGET: Duration = Duration::from_secs(10);

/// The timeout of a round. Without it, a round that waits for a disconnected database would never end.
const ROUND: Duration = Duration::from_mins(10);

/// The pause between batches within a job, which lets reports through.
const BATCH_PAUSE: Duration = Duration::from_millis(20);

/// The time that running batches have to finish after the shutdown begins.
const DRAIN: Duration = Duration::from_secs(10);

/// A background job.
struct Job {
    name: &'static str,
    /// The interval between rounds without remaining work.
    every: Duration,
    /// True if the job has work whenever clusters report, so that its rounds are logged at debug level.
    routine: bool,
    run: for<'a> fn(&'a Jobs) -> BoxFuture<'a, Result<Progress, StoreError>>,
}

/// All jobs, in their order in a sequential run.
static JOBS: [Job; 9] = [
    Job { name: "life-cycle", every: PAUSE, routine: false, run: |jobs| Box::pin(life_cycle::run(jobs)) },
    Job {
        name: "usage",
        every: Duration::from_secs(10),
        routine: true,
        run: |jobs| Box::pin(usage::run(jobs)),
    },
    // After `usage`, which first recomputes the totals without the clusters under removal.
    Job {
        name: "removal",
        every: Duration::from_secs(10),
        routine: false,
        run: |jobs| Box::pin(removal::run(jobs)),
    },
    Job {
        name: "flags",
        every: Duration::from_secs(25),
        routine: true,
        run: |jobs| Box::pin(flags::run(jobs)),
    },
    Job {
        name: "partitions",
        every: Duration::from_hours(1),
        routine: false,
        run: |jobs| Box::pin(partitions::run(jobs)),
    },
    Job {
        name: "retention",
        every: Duration::from_hours(1),
        routine: false,
        run: |jobs| Box::pin(retention::run(jobs)),
    },
    Job {
        name: "reencryption",
        every: Duration::from_mins(1),
        routine: false,
        run: |jobs| Box::pin(reencryption::run(jobs)),
    },
    Job {
        name: "alerts",
        every: Duration::from_secs(25),
        routine: true,
        run: |jobs| Box::pin(alerts::look(jobs)),
    },
    Job { name: "deliveries", every: PAUSE, routine: true, run: |jobs| Box::pin(alerts::send(jobs)) },
];

/// The result of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The counts, by kind of work.
    pub figures: BTreeMap<String, u64>,
    /// True if more work is due at once.
    pub more: bool,
}

impl Progress {
    fn add(&mut self, figure: impl Into<String>, count: u64) {
        if count > 0 {
            *self.figures.entry(figure.into()).or_default() += count;
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (figure, count)) in self.figures.iter().enumerate() {
            write!(f, "{}{figure}={count}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// The result of a round of all jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// True if another server holds the job lock, so that this one did nothing.
    pub is_on_other_server: bool,
    /// The progress of each job that succeeded.
    pub done: BTreeMap<&'static str, Progress>,
    /// The jobs that failed.
    pub failed: Vec<&'static str>,
}

impl Round {
    /// Returns true if a job has more work at once.
    #[must_use]
    pub fn more(&self) -> bool {
        self.done.values().any(|progress| progress.more)
    }
}

/// The background jobs of a server.
pub struct Jobs {
    store: Store,
    clock: Arc<dyn Clock>,
    stopping: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
    /// The job lock, shared by the running jobs.
    lead: sync::Mutex<JobLease>,
    walk: Mutex<ReencryptionPass>,
    retention: sync::Mutex<retention::Round>,
    /// The last account whose silent clusters were examined.
    last_silent_account: sync::Mutex<Option<AccountId>>,
    /// The evidence for the time that retention uses.
    watch: retention::TimeEvidence,
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
struct JobLease {
    lock: Option<JobLock>,
    /// The number of running jobs.
    jobs: usize,
}

/// The result of a job's round.
enum Ended {
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
            lead: sync::Mutex::default(),
            walk: Mutex::default(),
            retention: sync::Mutex::default(),
            last_silent_account: sync::Mutex::default(),
            watch: retention::TimeEvidence::new(clock.as_ref()),
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
        tasks.spawn(Arc::clone(&self).watch());
        for job in &JOBS {
            tasks.spawn(Arc::clone(&self).keep_running(job));
        }
        RunningJobs { stop, tasks }
    }

    /// Runs the periodic checks that every server does for itself.
    async fn watch(self: Arc<Self>) {
        loop {
            // The ping finds dead connections even if no one requests the readiness endpoint.
            if let Err(error) = self.system().ping().await {
                tracing::debug!(error = %Chain(&error), "database does not respond");
            }
            self.reload_keys_or_log().await;
            if self.sleep_or_stop(PAUSE).await {
                return;
            }
        }
    }

    /// Runs a job repeatedly, except while another server holds the job lock.
    async fn keep_running(self: Arc<Self>, job: &'static Job) {
        loop {
            let pause = match self.run_with_lease(job).await {
                Ended::Done(progress) if progress.more => SHORT_PAUSE,
                Ended::Done(_) => job.every,
                Ended::Failed => job.every.min(RETRY),
                Ended::OtherServer => PAUSE,
            };
            if self.sleep_or_stop(pause).await {
                return;
            }
        }
    }

    /// Runs a job once, unless another server holds the job lock.
    async fn run_with_lease(&self, job: &Job) -> Ended {
        match timeout(ROUND, self.acquire_lease()).await.unwrap_or_else(|_| Err(StoreError::timed_out())) {
            Ok(true) => {}
            Ok(false) => return Ended::OtherServer,
            Err(error) => {
                tracing::warn!(
                    job = job.name,
                    error = %Chain(&error),
                    "job not started: cannot take the job lock"
                );
                self.restart_watch();
                return Ended::Failed;
            }
        }
        let ended = self.run(job).await;
        self.release_lease().await;
        ended
    }

    /// Runs all jobs once, in sequence, regardless of their schedules.
    pub async fn run_once(&self) -> Round {
        self.reload_keys_or_log().await;
        let mut round = Round::default();
        for job in &JOBS {
            if self.is_stopping() {
                break;
            }
            match self.run_with_lease(job).await {
                Ended::Done(progress) => drop(round.done.insert(job.name, progress)),
                Ended::Failed => round.failed.push(job.name),
                Ended::OtherServer => round.is_on_other_server = true,
            }
        }
        round
    }

    async fn run(&self, job: &Job) -> Ended {
        let begun = Instant::now();
        let outcome = timeout(ROUND, (job.run)(self)).await.unwrap_or_else(|_| Err(StoreError::timed_out()));
        let took = begun.elapsed();
        self.metrics.record_round(job.name, took, outcome.is_ok().then(|| self.now()));
        let seconds = took.as_secs_f64();
        match outcome {
            Ok(progress) => {
                if progress.figures.is_empty() {
                    tracing::debug!(job = job.name, seconds, "job finished without work");
                } else if job.routine {
                    tracing::debug!(
                        job = job.name,
                        did = %progress,
                        more = progress.more,
                        seconds,
                        "job finished"
                    );
                } else {
                    tracing::info!(
                        job = job.name,
                        did = %progress,
                        more = progress.more,
                        seconds,
                        "job finished"
                    );
                }
                Ended::Done(progress)
            }
            Err(error) => {
                let error = Chain(&error);
                tracing::warn!(job = job.name, seconds, %error, "job failed; retrying");
                Ended::Failed
            }
        }
    }

    /// Acquires the job lock for this server, or shares it if a job holds it already. Returns false if
    /// another server holds it.
    async fn acquire_lease(&self) -> Result<bool, StoreError> {
        let mut lead = self.lead.lock().await;
        let is_held = match &lead.lock {
            Some(lock) => timeout(PAUSE, lock.is_held()).await.unwrap_or(false),
            None => false,
        };
        if !is_held {
            // A lock whose connection is gone is no longer held.
            lead.lock = None;
            lead.lock = self.system().lock_jobs().await?;
        }
        let leads = lead.lock.is_some();
        lead.jobs += usize::from(leads);
        Ok(leads)
    }

    /// Ends a job's use of the job lock. The last job releases it.
    async fn release_lease(&self) {
        let mut lead = self.lead.lock().await;
        lead.jobs = lead.jobs.saturating_sub(1);
        if lead.jobs == 0
            && let Some(lock) = lead.lock.take()
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

    /// Adopts a changed key file, after recording its encrypting key in the database.
    async fn reload_keys(&self) -> Result<(), StoreError> {
        let ring = self.store.keys();
        match ring.read_if_changed() {
            Ok(Some(keys)) => {
                self.system().record_key(keys.primary(), self.clock.timestamp()).await?;
                tracing::info!(encrypts = %KeyId(keys.primary()), "key file reloaded");
                ring.adopt(keys);
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

    /// Restarts the time during which this server could accept reports.
    fn restart_watch(&self) {
        *self.watching_since.lock().unwrap_or_else(PoisonError::into_inner) = self.now();
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Sleeps. Returns true if the server is shutting down.
    async fn sleep_or_stop(&self, pause: Duration) -> bool {
        let mut stopping = self.stopping.clone();
        // The jobs own the sender, so this ends only by the timeout or the signal.
        tokio::time::timeout(pause, stopping.wait_for(|stopping| *stopping)).await.is_ok()
    }
}

impl RunningJobs {
    /// Stops the jobs after their current batch.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(DRAIN, ended).await.is_err() {
            tracing::warn!(seconds = DRAIN.as_secs(), "shutdown: a job did not finish within the timeout");
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
