//! Report ingest. A report is stored completely or not at all, and acknowledged after the commit.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex},
    time::Duration,
};

use entity::{
    Timestamp,
    cluster::DesiredState,
    cluster_removal::State as Removal,
    ids::{AccountId, ApiTokenId, ClusterId, UserId},
    json_columns::Names,
};
use lru::LruCache;

use super::{
    Quotas,
    idleness::{IdlenessFacts, StopDecision, decide_stop},
    privacy::accepted_part,
};
use crate::{
    auth::Viewer,
    bus::{ChangeKinds, Notice},
    clock::Clock,
    domain::{
        data_class::Accepted,
        life_cycle::is_silent,
        quota::QuotaUse,
        report::{
            Acknowledgement, Class, Report,
            plausible::{COMPUTE_BEYOND_THREADS, highest_accepted_sequence},
        },
        section_bytes::SectionBytes,
        validated::UnixTime,
    },
    error::Chain,
    store::{AccountStore, KnownCluster, NO_REPORTS, Store, StoreError, Write},
};

/// The longest interval between reports that the server requests, in seconds.
const MAX_INTERVAL_SECONDS: f64 = 600.0;

/// The timeout for storing a report. Reporters give up earlier and send the report again.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum number of accounts whose data policy is cached. For other accounts it is read when the
/// next report is stored.
const POLICY_CACHE_CAPACITY: NonZeroUsize = NonZeroUsize::new(10_000).expect("it is more than none");

/// The number of attempts to find a cluster or to add it. An attempt fails if another report of the same
/// scheduler adds the cluster at the same time, and the next attempt finds it.
const ATTEMPTS: u32 = 3;

/// The ingest of reports.
#[derive(Clone)]
pub struct Reports {
    store: Store,
    clock: Arc<dyn Clock>,
    min_interval_seconds: f64,
    /// The data policies of accounts at their last report, for accounts that refuse a data class.
    expected: Arc<Mutex<LruCache<AccountId, Accepted>>>,
    quotas: Quotas,
}

/// The reason why a report was rejected.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The report names another account than the token's.
    #[error("the token does not belong to the account '{0}'")]
    AccountMismatch(String),
    /// The sequence number is higher than any the reporter can have reached.
    #[error(
        "the sequence exceeds {0}: start with the clock in milliseconds, at most a year ahead of the server's clock, and add 1 for \
         each report"
    )]
    SequenceTooFar(i64),
    /// The cluster accepts no reports from this caller.
    #[error(transparent)]
    Cluster(#[from] ClusterRefusal),
    /// The token is bound to another scheduler.
    #[error(
        "the token is bound to another scheduler: each scheduler needs its own, which galvo.register() obtains"
    )]
    TokenBound,
    /// The account has reached a quota.
    #[error("{}", .0.refusal())]
    Quota(QuotaUse),
    /// The database failed. Nothing is stored.
    #[error("the report could not be stored")]
    Store(#[from] StoreError),
}

/// The reason why reports of a cluster are rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterRefusal {
    /// The cluster belongs to another user of the account.
    #[error(
        "the cluster belongs to another user of the account, and only that user can report it: an admin can transfer it with \
         'handOverCluster' or 'galvo cluster hand-over'"
    )]
    NotOwner,
    /// The cluster is quarantined and may be restored.
    #[error("the cluster is quarantined: its reports are rejected until an admin restores it")]
    Quarantined,
    /// The cluster was deleted for good.
    #[error("the cluster was deleted: its reports are no longer stored")]
    Deleted,
}

/// The user and the token of a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reporter {
    user: UserId,
    token: Option<ApiTokenId>,
}

impl Reporter {
    pub(super) fn of(viewer: &Viewer) -> Self {
        let (_, token) = viewer.credential().audit_kind();
        Self { user: viewer.user_id(), token }
    }

    /// Checks that the reporter owns the cluster. A cluster without an owner must be handed over first.
    pub(super) fn check_owner(self, owner: Option<UserId>) -> Result<(), ClusterRefusal> {
        if owner == Some(self.user) { Ok(()) } else { Err(ClusterRefusal::NotOwner) }
    }
}

/// Returns the reason for rejecting reports of a cluster under removal.
fn refusal(removal: Removal) -> ClusterRefusal {
    match removal {
        Removal::Quarantined => ClusterRefusal::Quarantined,
        Removal::Removing | Removal::Removed => ClusterRefusal::Deleted,
    }
}

impl Reports {
    /// Creates the ingest of reports into `store`. The response to a report asks its scheduler to wait at
    /// least `min_interval_seconds` before the next one.
    #[must_use]
    pub fn new(store: Store, clock: Arc<dyn Clock>, min_interval_seconds: f64) -> Self {
        let quotas = Quotas::new(store.clone(), Arc::clone(&clock));
        let expected = Arc::new(Mutex::new(LruCache::new(POLICY_CACHE_CAPACITY)));
        Self { store, clock, min_interval_seconds, expected, quotas }
    }

    /// Returns the cache of quotas.
    #[must_use]
    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Stores a report whose data classes have these sizes. The first report of a cluster creates it.
    ///
    /// # Errors
    /// Returns [`ReportError`]. Nothing of the report is stored then.
    #[tracing::instrument(name = "app.report.record", skip_all, fields(account = viewer.account().slug))]
    pub async fn record(
        &self,
        viewer: &Viewer,
        report: Report,
        bytes: SectionBytes,
    ) -> Result<Acknowledgement, ReportError> {
        if let Some(account) = report.account.as_ref().filter(|slug| slug.as_str() != viewer.account().slug) {
            return Err(ReportError::AccountMismatch(account.as_str().to_owned()));
        }
        self.bind(viewer, &report).await?;
        // The interval that the response tells the reporter to use, not the one it intended.
        let interval = report.interval_seconds.within(self.min_interval_seconds, MAX_INTERVAL_SECONDS);
        let mut report = Report { interval_seconds: interval, ..report };
        let status = self.quotas.load_usage(viewer).await?;
        if let Some(exceeded) = status.exceeded() {
            return Err(ReportError::Quota(exceeded));
        }
        report.bound(self.clock.timestamp(), status.limits.cluster_threads);
        let (sequence, base, mut clamped) = (report.sequence, report.base, report.clamped.clone());
        let (store, report, reporter) =
            (self.store.for_viewer(viewer), Arc::new(report), Reporter::of(viewer));
        let mut accepted = self.cached_policy(viewer.account_id());
        let mut number = None;
        let context = loop {
            // The reduction runs before the transaction, so that others do not wait for it. It uses the
            // cached data policy, which the transaction verifies.
            let reduced = accepted_part(&report, &accepted).await;
            let (reports, expected) = (self.clone(), accepted.clone());
            let (bytes, exceeded_quota) = (bytes.accepted(&accepted), status.exceeded_by_new_cluster());
            let limits = IngestLimits { bytes, exceeded_quota, number };
            let write = move |store: AccountStore| -> Write<Outcome> {
                let (reports, reduced, expected) = (reports.clone(), Arc::clone(&reduced), expected.clone());
                Box::pin(async move {
                    reports.write_sections(&store, reporter, &reduced, limits, &expected).await
                })
            };
            match store.write_with_timeout(WRITE_TIMEOUT, write).await? {
                Outcome::Stored(context) => break context,
                Outcome::Unnumbered => number = Some(store.take_cluster_number().await?),
                Outcome::Refused(refusal) => return Err(refusal.into()),
                Outcome::PolicyChanged(now) => {
                    self.cache_policy(viewer.account_id(), &now);
                    accepted = now;
                }
                Outcome::TooFar(last) => return Err(ReportError::SequenceTooFar(last)),
                Outcome::Full(quota) => return Err(ReportError::Quota(quota)),
            }
        };
        clamped.extend(context.limits_compute.then_some(COMPUTE_BEYOND_THREADS));
        self.renew(viewer).await;
        self.quotas.add(
            viewer,
            bytes.accepted(&accepted).total(),
            i64::from(context.previous_arrival == NO_REPORTS),
        );
        let status = self.quotas.cached_usage_of(viewer).unwrap_or(status);
        Ok(Acknowledgement {
            acknowledged: sequence.get().max(context.newest),
            cluster_id: context.cluster.0,
            path: String::new(),
            url: None,
            interval_seconds: interval.get(),
            desired_state: context.decision.desired_state.into(),
            stop_reason: context.decision.stop_reason,
            stop_only_if_idle: context.decision.stop_only_if_idle,
            keep_alive_seconds: context.decision.keep_alive_seconds,
            resend: base.is_some_and(|base| base.get() > context.complete_until),
            accepts: accepted.classes().map(Class::from).collect(),
            cut: clamped.into_iter().collect(),
            stale: sequence.get() < context.newest,
            quotas_near: status.near_limits(),
        })
    }

    /// Binds a scheduler's token to the first scheduler that uses it. Returns an error for any other
    /// scheduler.
    async fn bind(&self, viewer: &Viewer, report: &Report) -> Result<(), ReportError> {
        let Some(binding) = viewer.binding() else { return Ok(()) };
        let scheduler_id = report.scheduler_id.as_str();
        let is_bound = match binding.scheduler_id {
            Some(_) => binding.allows(scheduler_id),
            None => self.store.for_viewer(viewer).bind_scheduler_token(binding.token, scheduler_id).await?,
        };
        if is_bound { Ok(()) } else { Err(ReportError::TokenBound) }
    }

    /// Extends the expiry of a scheduler's token, because its scheduler still reports.
    async fn renew(&self, viewer: &Viewer) {
        let Some((binding, end)) = viewer
            .binding()
            .and_then(|binding| binding.renewed_expiry(self.clock.timestamp()).map(|end| (binding, end)))
        else {
            return;
        };
        if let Err(error) = self.store.for_viewer(viewer).renew_scheduler_token(binding.token, end).await {
            // The report is stored anyway, and the next one tries again.
            tracing::warn!(error = %Chain(&error), "failed to renew a scheduler token");
        }
    }

    fn cached_policy(&self, account: AccountId) -> Accepted {
        let mut expected = self.expected.lock().expect("nobody panics who holds it");
        expected.get(&account).cloned().unwrap_or_default()
    }

    fn cache_policy(&self, account: AccountId, accepted: &Accepted) {
        let mut expected = self.expected.lock().expect("nobody panics who holds it");
        if accepted.accepts_all() {
            expected.pop(&account);
        } else {
            expected.put(account, accepted.clone());
        }
    }

    /// Stores a report that was reduced to the expected data policy. Stores nothing if the actual policy
    /// differs.
    async fn write_sections(
        &self,
        store: &AccountStore,
        reporter: Reporter,
        report: &Report,
        limits: IngestLimits,
        expected: &Accepted,
    ) -> Result<Outcome, StoreError> {
        let mut context = match self.record_cluster(store, reporter, report, &limits, expected).await? {
            Outcome::Stored(context) => context,
            refused => return Ok(refused),
        };
        let ClusterContext { cluster, arrival, closed_at, .. } = context;
        let clamped = std::mem::take(&mut context.clamped);
        let sequence = report.sequence.get();
        store.record_task_groups(cluster, sequence, &report.task_groups).await?;
        store.record_computations(cluster, arrival, sequence, &report.computations).await?;
        if let Some(closed_at) = closed_at {
            store.mark_computations_lost(cluster, closed_at, arrival).await?;
        }
        store.record_errors(cluster, arrival, &report.errors).await?;
        store.record_usage(cluster, sequence, &report.usage).await?;
        context.limits_compute = store.limit_compute(cluster, &report.usage, &clamped).await?;
        store.record_events(cluster, arrival, &report.events).await?;
        store.record_logs(cluster, arrival, &report.logs).await?;
        store.record_environments(cluster, &report.environments).await?;
        store.record_workers(cluster, sequence, &report.workers).await?;
        store.record_clients(cluster, sequence, &report.clients).await?;
        store.record_thread_history(cluster, &report.thread_history).await?;
        store.record_samples(cluster, &report.samples).await?;
        store.record_function_activity(cluster, &report.function_activity).await?;
        store.record_spans(cluster, sequence, &report.spans).await?;
        store.record_fine_metrics(cluster, sequence, &report.fine_metrics).await?;
        match (context.was_closed, closed_at.is_some()) {
            (true, true) if report.fine_metrics.is_empty() => {}
            (_, true) => store.record_fine_metric_total(cluster).await?,
            (true, false) => store.remove_fine_metric_total(cluster).await?,
            (false, false) => {}
        }
        store.record_profiles(cluster, &report.profiles).await?;
        // Last, because the reports of all clusters of an account update these rows.
        let (now, texts) = (self.clock.timestamp(), report.code.iter());
        store.record_code(now, texts.map(|code| (&code.hash, code.text.as_str()))).await?;
        store.record_code_use(now, report.code_hashes()).await?;
        store.record_error_groups(&report.errors, now).await?;
        let new_clusters = i64::from(context.previous_arrival == NO_REPORTS);
        store.record_ingest(Some(cluster), now, limits.bytes, new_clusters).await?;
        store.announce(context.notice(report));
        Ok(Outcome::Stored(context))
    }

    async fn record_cluster(
        &self,
        store: &AccountStore,
        reporter: Reporter,
        report: &Report,
        limits: &IngestLimits,
        expected: &Accepted,
    ) -> Result<Outcome, StoreError> {
        let scheduler_id = report.scheduler_id.as_str();
        for _ in 0..ATTEMPTS {
            if let Some(locked) = store.lock_cluster(scheduler_id, reporter.token).await? {
                let KnownCluster { row, accepted, kept_until, idle_due_seconds, removal, reporter_seen_at } =
                    locked;
                let ownership = reporter.check_owner(row.user_id);
                if let Err(refusal) =
                    ownership.and_then(|()| removal.map_or(Ok(()), |removal| Err(refusal(removal))))
                {
                    return Ok(Outcome::Refused(refusal));
                }
                if accepted != *expected {
                    return Ok(Outcome::PolicyChanged(accepted));
                }
                // Read after the lock, because a report that waited for the lock arrives only now.
                let now = self.clock.timestamp();
                let max_sequence = highest_accepted_sequence(now, row.sequence);
                if report.sequence.get() > max_sequence {
                    return Ok(Outcome::TooFar(max_sequence));
                }
                let arrival = now.timestamp_millis().max(row.changed_at + 1);
                let (cluster, previous_arrival, complete_until) =
                    (row.id, row.changed_at, row.complete_until);
                let newest = row.sequence;
                let (was_silent, was_closed) = (is_silent(&row, now), row.closed_at.is_some());
                let row = store.update_cluster(row, now, arrival, report, &accepted).await?;
                let decision =
                    decide_stop(store, &row, IdlenessFacts { kept_until, idle_due_seconds, was_silent }, now)
                        .await?;
                store.record_reporter(cluster, reporter.token, reporter_seen_at, now).await?;
                let closed_at = row.closed_at;
                return Ok(Outcome::Stored(ClusterContext {
                    cluster,
                    arrival,
                    previous_arrival,
                    newest,
                    complete_until,
                    was_closed,
                    closed_at,
                    clamped: row.cut,
                    limits_compute: false,
                    decision,
                }));
            }
            if let Some(removal) = store.removal_of_scheduler(scheduler_id, reporter.user).await? {
                return Ok(Outcome::Refused(refusal(removal)));
            }
            if let Some(quota) = limits.exceeded_quota {
                return Ok(Outcome::Full(quota));
            }
            let accepted = store.accepted().await?;
            if accepted != *expected {
                return Ok(Outcome::PolicyChanged(accepted));
            }
            let now = self.clock.timestamp();
            let max_sequence = highest_accepted_sequence(now, NO_REPORTS);
            if report.sequence.get() > max_sequence {
                return Ok(Outcome::TooFar(max_sequence));
            }
            let Some(id) = limits.number else { return Ok(Outcome::Unnumbered) };
            if store.add_cluster(id, reporter.user, now, report, &accepted).await? {
                store.record_reporter(id, reporter.token, None, now).await?;
                return Ok(Outcome::Stored(ClusterContext {
                    cluster: id,
                    arrival: now.timestamp_millis(),
                    previous_arrival: NO_REPORTS,
                    newest: NO_REPORTS,
                    complete_until: NO_REPORTS,
                    was_closed: false,
                    closed_at: report.closed_at().map(UnixTime::timestamp),
                    clamped: Names(report.clamped.iter().map(|path| (*path).to_owned()).collect()),
                    limits_compute: false,
                    decision: StopDecision::of(DesiredState::Running),
                }));
            }
        }
        Err(StoreError::no_free_identifier())
    }
}

/// The outcome of storing the cluster's row, and the state of the cluster before the report.
struct ClusterContext {
    cluster: ClusterId,
    arrival: i64,
    previous_arrival: i64,
    newest: i64,
    complete_until: i64,
    /// True if the cluster had closed before the report.
    was_closed: bool,
    closed_at: Option<Timestamp>,
    clamped: Names,
    limits_compute: bool,
    decision: StopDecision,
}

impl ClusterContext {
    /// Returns the change notice for the report.
    fn notice(&self, report: &Report) -> Notice {
        let changed = ChangeKinds::STATE
            | ChangeKinds::SAMPLES.only_if(!report.samples.is_empty())
            | ChangeKinds::COMPUTATIONS.only_if(!report.computations.is_empty() || self.closed_at.is_some())
            | ChangeKinds::ERRORS.only_if(!report.errors.is_empty())
            | ChangeKinds::EVENTS.only_if(!report.events.is_empty())
            | ChangeKinds::LOGS.only_if(!report.logs.is_empty());
        let (cluster, arrival, previous_arrival) = (self.cluster, self.arrival, self.previous_arrival);
        Notice { cluster, changed, arrival, previous_arrival, oldest_item_ms: report.oldest_item_ms() }
    }
}

/// The result of storing a report.
enum Outcome {
    /// The report is stored.
    Stored(ClusterContext),
    /// Not stored: the cluster is new, and no number was taken for it.
    Unnumbered,
    /// Not stored: the account's data policy is this one, not the expected one.
    PolicyChanged(Accepted),
    /// Not stored: the sequence number exceeds this maximum, so that no report could follow it.
    TooFar(i64),
    /// Not stored: the cluster accepts no reports.
    Refused(ClusterRefusal),
    /// Not stored: this quota of new clusters is exceeded.
    Full(QuotaUse),
}

/// The size of a report, and what a new cluster needs.
#[derive(Clone, Copy)]
struct IngestLimits {
    bytes: SectionBytes,
    /// The quota that prevents a new cluster, if there is one.
    exceeded_quota: Option<QuotaUse>,
    /// The number of the cluster if it is new. `None` unless the report is known to be its first.
    number: Option<ClusterId>,
}
