//! The reasons why a cluster still runs, and the actions on an idle cluster.

use async_graphql::{Enum, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    audit_entry::Action,
    cluster::{DesiredState, Model, Status},
    cluster_control::{self, StopOrigin},
    ids::{ClusterId, UserId},
};

use super::answer::{Confidence, CurrentWork};
use crate::{
    clock::to_stored,
    domain::{
        answer::{KnownPart, RunFacts, RunReasonCode as Code, run_reasons},
        idle_policy::IdlePolicy,
        idle_verdict::{IdleFacts, IdleVerdict, MAX_KEPT_SECONDS},
        life_cycle::State,
    },
    graphql::{
        access::user::User,
        clusters::{cluster::Cluster, cluster_tag::ClusterPayload},
        engine::{
            error::ApiError,
            json::write_enums_by_name,
            loaders::{ClusterControlKey, IdlePolicyKey, TagsKey},
            phrase::AnswerArgument,
            projection::{InlineList, inline_members},
            scalar::BigInt,
            scope::AccountScope,
            user_error::{UserError, UserErrorCode},
        },
    },
    store::KeepOutcome,
};

/// The fields of a cluster that concern its idleness.
pub(crate) struct ClusterIdleness<'a> {
    scope: &'a AccountScope,
    row: &'a Model,
}

impl<'a> ClusterIdleness<'a> {
    pub(crate) fn new(scope: &'a AccountScope, row: &'a Model) -> Self {
        Self { scope, row }
    }

    async fn load_control(&self) -> Result<Option<cluster_control::Model>, ApiError> {
        Ok(self.scope.loader.load_one(ClusterControlKey(self.row.id)).await?)
    }

    /// Returns the outcome of the account's idle policy if the cluster's state does not change.
    async fn policy_outcome(
        &self,
        control: Option<&cluster_control::Model>,
    ) -> Result<IdleVerdict, ApiError> {
        let key = IdlePolicyKey(self.scope.account.id);
        let Some(policy) = self.scope.loader.load_one(key).await?.map(IdlePolicy::from) else {
            return Ok(IdleVerdict::NoPolicy);
        };
        let is_exempt = if policy.exempt_tags.is_empty() {
            false
        } else {
            let tags = self.scope.loader.load_one(TagsKey(self.row.id)).await?.unwrap_or_default();
            policy.exempts(&tags)
        };
        Ok(policy.verdict_for(&IdleFacts::from_rows(self.row, control, is_exempt)))
    }
}

/// The fields of a cluster that concern its idleness.
#[Object]
impl ClusterIdleness<'_> {
    /// The reasons why the cluster still runs: first its work, then the reasons why nothing stops it. A
    /// reason that may apply but is not reported has the confidence `NOT_COLLECTED`. The reasons hold as
    /// of the cluster's last report. A cluster that stopped reporting has the reason LOST, and STOPPING
    /// if it is to stop. Empty after the cluster closed.
    async fn run_reasons(&self) -> Result<InlineList<RunReason>, ApiError> {
        let (row, state) = (self.row, State::from(self.row));
        if state == State::Closed {
            return Ok(InlineList(Vec::new()));
        }
        // For a cluster that has not closed, `until` is set only if its reports are overdue.
        let is_silent = KnownPart::of(row, self.scope.now).until.is_some();
        let work = if is_silent {
            CurrentWork::default()
        } else {
            CurrentWork::load_for_cluster(self.scope, row).await?
        };
        let control = self.load_control().await?;
        let to_utc = |time: entity::Timestamp| time.0;
        let reasons = run_reasons(&RunFacts {
            state,
            last_seen_at: row.last_seen_at.0,
            is_silent,
            started_at: row.started_at.0,
            idle_since: row.idle_since.map(to_utc),
            had_work: row.total_tasks > 0,
            workers: row.workers,
            processing: work.processing,
            queued: work.queued,
            no_worker: work.no_worker,
            waiting: work.waiting,
            memory: work.memory,
            graph_updates: row.graph_updates,
            clients: work.clients,
            own_timeout_seconds: row.idle_timeout_seconds,
            idle_verdict: self.policy_outcome(control.as_ref()).await?,
            kept_until: control.as_ref().and_then(|control| control.kept_until).map(to_utc),
            stop_at: control.as_ref().and_then(|control| control.stop_at).map(to_utc),
            at: self.scope.now,
        });
        Ok(InlineList(reasons.into_iter().map(RunReason::from).collect()))
    }

    /// The time at which the cluster is stopped if it stays idle, by the server's clock: by the account's
    /// idle policy or by its own timeout, whichever is earlier. The stop is sent with the response to a
    /// report, so it takes up to one report interval longer. If a stop has already been requested, this is
    /// the time at which the next report is due. Null while the cluster has work, if nothing stops it, and if
    /// it is CLOSED or LOST.
    #[expect(clippy::cast_possible_truncation, reason = "too large times saturate")]
    async fn shutdown_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        let row = self.row;
        if row.status != Status::Running {
            return Ok(None);
        }
        let control = self.load_control().await?;
        if row.desired_state == DesiredState::Stopped {
            // The scheduler receives the stop with the response to its next report.
            return Ok(time_from_millis(
                row.last_seen_at.timestamp_millis() + (1e3 * row.interval_seconds) as i64,
            ));
        }
        let Some(timeout_start) = IdleFacts::from_rows(row, control.as_ref(), false).timeout_start(0) else {
            return Ok(None);
        };
        let own_stop =
            row.idle_timeout_seconds.map(|timeout| timeout_start.saturating_add((1e3 * timeout) as i64));
        let policy_stop = match self.policy_outcome(control.as_ref()).await? {
            IdleVerdict::Timed(times) if times.stops => {
                Some(times.stop_at(self.scope.now.timestamp_millis()))
            }
            _ => None,
        };
        Ok([own_stop, policy_stop].into_iter().flatten().min().and_then(time_from_millis))
    }

    /// The time without work after which the cluster closes by its own setting `galvo.idle.timeout`, in
    /// seconds. Null if it has no such timeout.
    async fn idle_timeout_seconds(&self) -> Option<f64> {
        self.row.idle_timeout_seconds
    }

    /// The time at which the account's idle policy marked the cluster, by the server's clock: the
    /// warning before its timeout. Null while the cluster has work, and if it was not marked since it
    /// became idle.
    async fn idle_warned_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        let control = self.load_control().await?;
        let current_warning = control.filter(|control| {
            self.row.idle_since.is_some() && control.warned_idle_since == self.row.idle_since
        });
        Ok(current_warning.and_then(|control| control.warned_at).map(|time| time.0))
    }

    /// The time until which `keepAlive` prevents the cluster from being stopped for being idle, by the
    /// server's clock. It may lie in the past. Null if `keepAlive` was never used.
    async fn kept_alive_until(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.load_control().await?.and_then(|control| control.kept_until).map(|time| time.0))
    }

    /// The request to stop the cluster. Null if there is none, or if it was withdrawn. It stays after
    /// the cluster has closed.
    async fn stop_request(&self) -> Result<Option<StopRequest>, ApiError> {
        Ok(self.load_control().await?.and_then(|control| StopRequest::new(self.scope, control)))
    }
}

fn time_from_millis(milliseconds: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(milliseconds)
}

/// A request to stop a cluster.
pub(crate) struct StopRequest {
    scope: AccountScope,
    at: DateTime<Utc>,
    origin: StopOrigin,
    user: Option<UserId>,
    reason: Option<String>,
}

impl StopRequest {
    fn new(scope: &AccountScope, control: cluster_control::Model) -> Option<Self> {
        let (at, origin) = control.stop_at.zip(control.stop_origin)?;
        let (user, reason) = (control.stop_user_id, control.stop_reason);
        Some(Self { scope: scope.clone(), at: at.0, origin, user, reason })
    }
}

/// A request to stop a cluster.
#[Object]
impl StopRequest {
    /// The time of the request, by the server's clock.
    async fn at(&self) -> DateTime<Utc> {
        self.at
    }

    /// The origin of the request.
    async fn origin(&self) -> StopRequestOrigin {
        self.origin.into()
    }

    /// The member who made the request. Null if its origin is not USER, or if the user left the account.
    async fn by(&self) -> Result<Option<User>, ApiError> {
        match self.user {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// The reason, as entered with the request. Null if none was given.
    async fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

/// The origins of a request to stop a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "StopOrigin")]
pub(crate) enum StopRequestOrigin {
    /// A member of the account.
    User,
    /// An operator, with the server's command line.
    Operator,
    /// The account's idle policy.
    IdlePolicy,
}

/// A reason why a cluster still runs.
#[derive(SimpleObject)]
pub(crate) struct RunReason {
    /// The kind of reason.
    code: RunReasonCode,
    /// The arguments of the code, with which a client phrases the reason itself. Empty if the code needs
    /// none.
    arguments: InlineList<AnswerArgument>,
    /// The reason as an English sentence.
    detail: String,
    /// The number of tasks, results, graphs or workers that the reason concerns. Null if it concerns
    /// nothing countable.
    count: Option<BigInt>,
    /// The time since which the reason applies, by the scheduler's clock; for STOPPING and LOST, by the
    /// server's clock. Null if unknown.
    since: Option<DateTime<Utc>>,
    /// `MEASURED` if the reason is known to apply. `NOT_COLLECTED` if it may apply but is not reported.
    confidence: Confidence,
}

inline_members! {
    RunReason: code, detail, count, since, confidence; arguments: InlineList<AnswerArgument>
}

/// The kinds of reasons why a cluster still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Code")]
pub(crate) enum RunReasonCode {
    /// Workers process tasks.
    Processing,
    /// Tasks are queued until a thread is free.
    Queued,
    /// None of the workers may run some of the tasks.
    NoWorker,
    /// Tasks wait for other tasks, and none runs.
    Waiting,
    /// The scheduler is processing submitted graphs.
    GraphUpdate,
    /// No task was ever submitted.
    NeverHadWork,
    /// Clients hold results in the cluster's memory.
    ClientHoldsResults,
    /// An adaptive cluster may keep a minimum of workers. Dask does not report this to the scheduler, so
    /// the confidence is always `NOT_COLLECTED`.
    AdaptiveMinimum,
    /// No policy or setting stops idle clusters.
    NoPolicy,
    /// The cluster has not been idle for its timeout yet.
    WithinTimeout,
    /// `keepAlive` keeps the cluster.
    KeptAlive,
    /// One of the cluster's tags exempts it from the account's idle policy.
    Exempt,
    /// The cluster is to stop and has not stopped yet.
    Stopping,
    /// The cluster stopped reporting, so it is unknown whether it still runs.
    Lost,
}

write_enums_by_name!(RunReasonCode);

impl From<crate::domain::answer::RunReason> for RunReason {
    fn from(reason: crate::domain::answer::RunReason) -> Self {
        Self {
            code: reason.code.into(),
            arguments: AnswerArgument::list(&reason.arguments),
            detail: reason.detail(),
            count: reason.count.map(BigInt),
            since: reason.since,
            confidence: reason.confidence.into(),
        }
    }
}

/// Prevents a cluster from being stopped for being idle, for the given number of seconds.
pub(crate) async fn keep_alive(
    scope: &AccountScope,
    user: UserId,
    cluster: ClusterId,
    seconds: i32,
) -> Result<ClusterPayload, ApiError> {
    let seconds = i64::from(seconds);
    if !(0..=MAX_KEPT_SECONDS).contains(&seconds) {
        let message = format!("must be from 0 to {MAX_KEPT_SECONDS} seconds");
        let error = UserError::new("seconds", UserErrorCode::OutOfRange, message);
        return ClusterPayload::refused(scope, cluster, error).await;
    }
    let until = scope.now + chrono::TimeDelta::seconds(seconds);
    let author = (user, scope.required_owner(Action::KeepAlive));
    match scope.store.keep_cluster(cluster, author, scope.now.into(), to_stored(until)).await? {
        KeepOutcome::Protected(row) => Ok(ClusterPayload::changed(scope, *row)),
        KeepOutcome::Closed(row) => Ok(ClusterPayload {
            cluster: Cluster::new(scope, *row),
            user_errors: vec![UserError::new("cluster", UserErrorCode::Ended, "has closed")],
        }),
        KeepOutcome::NotOwner => ClusterPayload::not_owner(scope, Action::KeepAlive, cluster).await,
        KeepOutcome::Missing => Err(ApiError::NotFound("cluster")),
    }
}
