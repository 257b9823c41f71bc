//! Taking a report in: stored whole or not at all, and acknowledged only after the commit.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use entity::{
    Timestamp,
    cluster::DesiredState,
    ids::{AccountId, ClusterId, UserId},
};

use super::{
    idleness::{Known, Wanted, wanted},
    privacy::accepted_part,
};
use crate::{
    auth::Viewer,
    bus::{Changed, Notice},
    clock::Clock,
    domain::{
        bounded::UnixTime,
        cluster_id::cluster_id,
        data_class::Accepted,
        report::{Acknowledgement, Class, Report},
    },
    store::{AccountStore, KnownCluster, NOTHING, Store, StoreError, Write},
};

/// The longest time between reports the server ever asks for, in seconds.
const MAX_INTERVAL_SECONDS: f64 = 600.0;

/// How long storing a report may take. Reporters do not wait for that long, and send it again.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often an identifier is drawn for a new cluster; one in 4,096 collides, and only within a millisecond.
const IDENTIFIER_DRAWS: u32 = 8;

/// Takes reports in.
#[derive(Clone)]
pub struct Reports {
    store: Store,
    clock: Arc<dyn Clock>,
    min_interval_seconds: f64,
    /// What accounts accepted when they last reported, of those that refuse something.
    expected: Arc<Mutex<HashMap<AccountId, Accepted>>>,
}

/// Why a report was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It names another account than the token opens.
    #[error("the token does not belong to the account '{0}'")]
    AccountMismatch(String),
    /// It could not be stored; nothing of it was.
    #[error("the report could not be stored")]
    Store(#[from] StoreError),
}

impl Reports {
    /// Reports go to `store`; schedulers are asked to wait at least `min_interval_seconds` between two.
    #[must_use]
    pub fn new(store: Store, clock: Arc<dyn Clock>, min_interval_seconds: f64) -> Self {
        Self { store, clock, min_interval_seconds, expected: Arc::default() }
    }

    /// Stores a report. The cluster appears with its first one.
    ///
    /// # Errors
    /// [`ReportError`]; nothing of the report is stored then.
    #[tracing::instrument(name = "app.report.record", skip_all, fields(account = viewer.account().slug))]
    pub async fn record(&self, viewer: &Viewer, report: Report) -> Result<Acknowledgement, ReportError> {
        if let Some(account) = report.account.as_ref().filter(|slug| slug.as_str() != viewer.account().slug) {
            return Err(ReportError::AccountMismatch(account.as_str().to_owned()));
        }
        // What the reporter will do, because it is told so, and not what it meant to.
        let interval = report.interval_seconds.within(self.min_interval_seconds, MAX_INTERVAL_SECONDS);
        let report = Report { interval_seconds: interval, ..report };
        let (sequence, base) = (report.sequence, report.base);
        let (store, report, user) = (self.store.for_viewer(viewer), Arc::new(report), viewer.user_id());
        let mut accepted = self.expected(viewer.account_id());
        let before = loop {
            // Before the transaction, in which others would wait for it, and which tells whether this is right.
            let part = accepted_part(&report, &accepted).await;
            let (reports, expected) = (self.clone(), accepted.clone());
            let write = move |store: AccountStore| -> Write<Outcome> {
                let (reports, part, expected) = (reports.clone(), Arc::clone(&part), expected.clone());
                Box::pin(async move { reports.record_all(&store, user, &part, &expected).await })
            };
            match store.write_within(PATIENCE, write).await? {
                Outcome::Stored(before) => break before,
                Outcome::Unexpected(now) => {
                    self.expect(viewer.account_id(), &now);
                    accepted = now;
                }
            }
        };
        Ok(Acknowledgement {
            acknowledged: sequence.get(),
            cluster_id: before.cluster.0,
            interval_seconds: interval.get(),
            desired_state: before.wanted.desired_state.into(),
            stop_reason: before.wanted.stop_reason,
            stop_only_if_idle: before.wanted.stop_only_if_idle,
            keep_alive_seconds: before.wanted.keep_alive_seconds,
            resend: base.is_some_and(|base| base.get() > before.complete_until),
            accepts: accepted.classes().map(Class::from).collect(),
        })
    }

    fn expected(&self, account: AccountId) -> Accepted {
        let expected = self.expected.lock().expect("nobody panics who holds it");
        expected.get(&account).cloned().unwrap_or_default()
    }

    fn expect(&self, account: AccountId, accepted: &Accepted) {
        let mut expected = self.expected.lock().expect("nobody panics who holds it");
        if accepted.accepts_all() {
            expected.remove(&account);
        } else {
            expected.insert(account, accepted.clone());
        }
    }

    /// Stores a report without what the account was expected to refuse; nothing, if it refuses something else.
    async fn record_all(
        &self,
        store: &AccountStore,
        user: UserId,
        report: &Report,
        expected: &Accepted,
    ) -> Result<Outcome, StoreError> {
        let before = match self.record_cluster(store, user, report, expected).await? {
            Outcome::Stored(before) => before,
            unexpected @ Outcome::Unexpected(_) => return Ok(unexpected),
        };
        let Before { cluster, arrival, closed_at, .. } = before;
        let sequence = report.sequence.get();
        store.record_task_groups(cluster, sequence, &report.task_groups).await?;
        store.record_computations(cluster, arrival, sequence, &report.computations).await?;
        if let Some(closed_at) = closed_at {
            store.lose_computations(cluster, closed_at, arrival).await?;
        }
        store.record_errors(cluster, arrival, &report.errors).await?;
        store.record_usage(cluster, sequence, &report.usage).await?;
        store.record_events(cluster, arrival, &report.events).await?;
        store.record_logs(cluster, arrival, &report.logs).await?;
        store.record_environments(cluster, &report.environments).await?;
        store.record_workers(cluster, sequence, &report.workers).await?;
        store.record_clients(cluster, sequence, &report.clients).await?;
        store.record_thread_history(cluster, &report.thread_history).await?;
        store.record_samples(cluster, &report.samples).await?;
        store.record_spans(cluster, sequence, &report.spans).await?;
        store.record_fine_metrics(cluster, sequence, &report.fine_metrics).await?;
        store.record_profiles(cluster, &report.profiles).await?;
        // Last, because reports of all of the account's clusters meet in these rows.
        let (now, texts) = (self.clock.timestamp(), report.code.iter());
        store.record_code(now, texts.map(|code| (&code.hash, code.text.as_str()))).await?;
        store.touch_code(now, report.code_hashes()).await?;
        store.record_error_groups(&report.errors).await?;
        store.announce(before.notice(report));
        Ok(Outcome::Stored(before))
    }

    async fn record_cluster(
        &self,
        store: &AccountStore,
        user: UserId,
        report: &Report,
        expected: &Accepted,
    ) -> Result<Outcome, StoreError> {
        let scheduler_id = report.scheduler_id.as_str();
        for _ in 0..IDENTIFIER_DRAWS {
            if let Some(known) = store.lock_cluster(scheduler_id).await? {
                let KnownCluster { row, accepted, kept_until, idle_due_seconds } = known;
                if accepted != *expected {
                    return Ok(Outcome::Unexpected(accepted));
                }
                // Behind the lock: what waited for it arrives now.
                let now = self.clock.timestamp();
                let arrival = now.timestamp_millis().max(row.changed_at + 1);
                let (cluster, after, complete_until) = (row.id, row.changed_at, row.complete_until);
                let row = store.update_cluster(row, now, arrival, report, &accepted).await?;
                let wanted = wanted(store, &row, Known { kept_until, idle_due_seconds }, now).await?;
                let closed_at = row.closed_at;
                let before = Before { cluster, arrival, after, complete_until, closed_at, wanted };
                return Ok(Outcome::Stored(before));
            }
            let accepted = store.accepted().await?;
            if accepted != *expected {
                return Ok(Outcome::Unexpected(accepted));
            }
            let now = self.clock.timestamp();
            let id = cluster_id(now.0, rand::random());
            if store.add_cluster(id, user, now, report, &accepted).await? {
                return Ok(Outcome::Stored(Before {
                    cluster: id,
                    arrival: now.timestamp_millis(),
                    after: NOTHING,
                    complete_until: NOTHING,
                    closed_at: report.closed_at().map(UnixTime::timestamp),
                    wanted: Wanted::of(DesiredState::Running),
                }));
            }
        }
        Err(StoreError::no_free_identifier())
    }
}

/// What was known of the cluster before the report, the report's place among its changes and that of the change before, whether
/// it is closed, and what is wanted of it since.
struct Before {
    cluster: ClusterId,
    arrival: i64,
    after: i64,
    complete_until: i64,
    closed_at: Option<Timestamp>,
    wanted: Wanted,
}

impl Before {
    /// What the report changed.
    fn notice(&self, report: &Report) -> Notice {
        let changed = Changed::FIGURES
            | Changed::SAMPLES.when(!report.samples.is_empty())
            | Changed::COMPUTATIONS.when(!report.computations.is_empty() || self.closed_at.is_some())
            | Changed::ERRORS.when(!report.errors.is_empty())
            | Changed::EVENTS.when(!report.events.is_empty())
            | Changed::LOGS.when(!report.logs.is_empty());
        let (cluster, arrival, after) = (self.cluster, self.arrival, self.after);
        Notice { cluster, changed, arrival, after, since: report.oldest() }
    }
}

/// What became of a report.
enum Outcome {
    /// It is stored.
    Stored(Before),
    /// It is not, because the account accepts this, and something else was expected.
    Unexpected(Accepted),
}
