//! What the server does by itself: rounds of jobs, by one server of a store at a time.
//!
//! A job does a bounded piece of work and says whether there is more. One that fails is logged and tried again in
//! the next round. Another job is another line in `JOBS`.

mod alerts;
mod flags;
mod life_cycle;
mod partitions;
mod reencryption;
mod retention;
mod usage;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use entity::Timestamp;
use futures::future::BoxFuture;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout},
};

use self::reencryption::Walk;
use crate::{
    app::{alert::Alerts, alert_delivery::Deliveries, flag::Flags},
    clock::Clock,
    config::AlertConfig,
    error::Chain,
    metrics::{JobMetrics, Metrics},
    seal::KeyId,
    store::{Store, StoreError, SystemStore},
};

/// Between rounds: a lost cluster is found that much later at the most.
const PAUSE: Duration = Duration::from_secs(10);

/// Between rounds when a job has more to do.
const SHORT_PAUSE: Duration = Duration::from_secs(1);

/// How long a round may take. One that waits for an answer of a database that was cut off would never end.
const ROUND: Duration = Duration::from_mins(10);

/// Between pieces of work within a job, so that reports come in between.
const BREATH: Duration = Duration::from_millis(20);

/// How long the round under way may take to end after the server was told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// A kind of work.
struct Job {
    name: &'static str,
    /// How long it rests after it had nothing more to do.
    every: Duration,
    /// Whether it has something to do whenever clusters report, so that the log need not say so.
    routine: bool,
    run: for<'a> fn(&'a Jobs) -> BoxFuture<'a, Result<Progress, StoreError>>,
}

/// All jobs, in the order in which they run.
const JOBS: [Job; 8] = [
    Job {
        name: "life-cycle",
        every: Duration::ZERO,
        routine: false,
        run: |jobs| Box::pin(life_cycle::run(jobs)),
    },
    Job {
        name: "usage",
        every: Duration::from_secs(10),
        routine: true,
        run: |jobs| Box::pin(usage::run(jobs)),
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
    // Last, because it waits for others.
    Job {
        name: "deliveries",
        every: Duration::ZERO,
        routine: true,
        run: |jobs| Box::pin(alerts::send(jobs)),
    },
];

/// What a job did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What was done, and how much of it.
    pub figures: BTreeMap<String, u64>,
    /// Whether there is more to do at once.
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

/// What a round did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Whether another server was at it, so that this one did nothing.
    pub elsewhere: bool,
    /// What each job did that ran and did not fail.
    pub done: BTreeMap<&'static str, Progress>,
    /// The jobs that failed.
    pub failed: Vec<&'static str>,
}

impl Round {
    /// Whether a job has more to do at once.
    #[must_use]
    pub fn more(&self) -> bool {
        self.done.values().any(|progress| progress.more)
    }
}

/// The jobs of a server.
pub struct Jobs {
    store: Store,
    clock: Arc<dyn Clock>,
    stopping: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
    /// When each job last had nothing more to do.
    rested: Mutex<BTreeMap<&'static str, Instant>>,
    walk: Mutex<Walk>,
    /// Since when reports could be taken in, as far as is known here.
    watching_since: Mutex<Timestamp>,
    flags: Flags,
    alerts: Alerts,
    deliveries: Deliveries,
    metrics: JobMetrics,
}

/// Jobs that run by themselves.
pub struct RunningJobs {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Jobs {
    /// The jobs of a store. They do nothing until they are told to.
    #[must_use]
    pub(crate) fn new(store: Store, clock: Arc<dyn Clock>, alerts: &AlertConfig, metrics: &Metrics) -> Self {
        let (stop, stopping) = watch::channel(false);
        for job in &JOBS {
            metrics.jobs.know(job.name);
        }
        Self {
            stopping,
            stop,
            rested: Mutex::default(),
            walk: Mutex::default(),
            watching_since: Mutex::new(clock.timestamp()),
            flags: Flags::new(store.clone()),
            alerts: Alerts::new(store.clone()),
            deliveries: Deliveries::new(store.clone(), Arc::clone(&clock), alerts),
            store,
            clock,
            metrics: metrics.jobs.clone(),
        }
    }

    /// Runs rounds, the first one now.
    #[must_use]
    pub fn start(self: Arc<Self>) -> RunningJobs {
        let stop = self.stop.clone();
        let task = tokio::spawn(async move {
            loop {
                // Also where nobody asks for the readiness it is found out now and then which connections are dead.
                if let Err(error) = self.system().ping().await {
                    tracing::debug!(error = %Chain(&error), "the store does not answer");
                }
                let round = timeout(ROUND, self.round(Which::Due)).await.unwrap_or_else(|_| {
                    tracing::warn!(
                        seconds = ROUND.as_secs(),
                        "a round of background jobs did not end and begins again"
                    );
                    Round::default()
                });
                let pause = if round.more() { SHORT_PAUSE } else { PAUSE };
                if self.rest(pause).await {
                    return;
                }
            }
        });
        RunningJobs { stop, task }
    }

    /// Runs all jobs once, whenever they last ran.
    pub async fn run_once(&self) -> Round {
        self.round(Which::All).await
    }

    async fn round(&self, which: Which) -> Round {
        // Every server has keys of its own, so this is for each to do.
        if let Err(error) = self.follow_keys().await {
            tracing::warn!(error = %Chain(&error), "a new key was not taken into use");
        }
        let lock = match self.system().lock_jobs().await {
            Ok(Some(lock)) => lock,
            Ok(None) => return Round { elsewhere: true, ..Round::default() },
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "background jobs cannot run");
                self.watch_anew();
                return Round { failed: JOBS.iter().map(|job| job.name).collect(), ..Round::default() };
            }
        };
        let mut round = Round::default();
        for job in JOBS.iter().filter(|job| which == Which::All || self.is_due(job)) {
            if self.is_stopping() {
                break;
            }
            let begun = Instant::now();
            let outcome = (job.run)(self).await;
            let took = begun.elapsed();
            self.metrics.ran(job.name, took, outcome.is_ok().then(|| self.now()));
            let seconds = took.as_secs_f64();
            match outcome {
                Ok(progress) => {
                    if progress.figures.is_empty() {
                        tracing::debug!(job = job.name, seconds, "a job had nothing to do");
                    } else if job.routine {
                        tracing::debug!(job = job.name, did = %progress, more = progress.more, seconds, "a job ran");
                    } else {
                        tracing::info!(job = job.name, did = %progress, more = progress.more, seconds, "a job ran");
                    }
                    if !progress.more {
                        self.rested().insert(job.name, Instant::now());
                    }
                    round.done.insert(job.name, progress);
                }
                Err(error) => {
                    let error = Chain(&error);
                    tracing::warn!(job = job.name, seconds, %error, "a job failed and is tried again");
                    round.failed.push(job.name);
                }
            }
        }
        lock.release().await;
        round
    }

    /// Takes the key into use that stands in front of the key file now, after writing it down in the store.
    async fn follow_keys(&self) -> Result<(), StoreError> {
        let ring = self.store.keys();
        match ring.changed() {
            Ok(Some(keys)) => {
                self.system().record_key(keys.primary(), self.clock.timestamp()).await?;
                tracing::info!(encrypts = %KeyId(keys.primary()), "the key file has changed");
                ring.adopt(keys);
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(error = %Chain(&error), "the key file was not read again"),
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

    /// Until now, nobody can tell whether somebody tried to report.
    fn watch_anew(&self) {
        *self.watching_since.lock().unwrap_or_else(PoisonError::into_inner) = self.now();
    }

    fn is_due(&self, job: &Job) -> bool {
        self.rested().get(job.name).is_none_or(|rested| rested.elapsed() >= job.every)
    }

    fn rested(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, Instant>> {
        self.rested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits, and tells whether the server is told to stop.
    async fn rest(&self, pause: Duration) -> bool {
        let mut stopping = self.stopping.clone();
        // The sender lives as long as the jobs do, so this ends by the time alone or by being told.
        tokio::time::timeout(pause, stopping.wait_for(|stopping| *stopping)).await.is_ok()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    Due,
}

impl RunningJobs {
    /// Lets the piece of work under way end.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(DRAIN, &mut self.task).await.is_err() {
            tracing::warn!(seconds = DRAIN.as_secs(), "a job under way did not end in time");
            self.task.abort();
        }
    }
}

impl Drop for RunningJobs {
    /// A server that is dropped without being told to stop stops as well.
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}
