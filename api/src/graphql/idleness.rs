//! Why a cluster is still there, and what is done about one that has nothing to do.

use async_graphql::{Enum, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    cluster::{DesiredState, Model, Status},
    cluster_control::{self, StopOrigin},
    ids::{ClusterId, UserId},
};

use super::{
    answer::{Confidence, Work},
    cluster::Cluster,
    cluster_tag::ClusterPayload,
    error::ApiError,
    in_place::{Items, in_place_members},
    json::names,
    loaders::{ControlOf, IdlePolicyOf, TagsOf},
    scalar::BigInt,
    scope::AccountScope,
    user::User,
    user_error::{UserError, UserErrorCode},
};
use crate::{
    clock::stored,
    domain::{
        answer::{RunReasonCode as Code, Situation, run_reasons},
        idle_policy::IdlePolicy,
        idleness::{Course, MAX_KEPT_SECONDS, Standing},
        life_cycle::State,
    },
    store::Kept,
};

/// What a cluster has of this.
pub(super) struct ClusterIdleness<'a> {
    scope: &'a AccountScope,
    row: &'a Model,
}

impl<'a> ClusterIdleness<'a> {
    pub(super) fn new(scope: &'a AccountScope, row: &'a Model) -> Self {
        Self { scope, row }
    }

    async fn control(&self) -> Result<Option<cluster_control::Model>, ApiError> {
        Ok(self.scope.loader.load_one(ControlOf(self.row.id)).await?)
    }

    /// What becomes of it by the account's policy, if it stays as it is.
    async fn course(&self, control: Option<&cluster_control::Model>) -> Result<Course, ApiError> {
        let key = IdlePolicyOf(self.scope.account.id);
        let Some(policy) = self.scope.loader.load_one(key).await?.map(IdlePolicy::from) else {
            return Ok(Course::NoPolicy);
        };
        let is_exempt = if policy.exempt_tags.is_empty() {
            false
        } else {
            let tags = self.scope.loader.load_one(TagsOf(self.row.id)).await?.unwrap_or_default();
            policy.exempts(&tags)
        };
        Ok(policy.course(&Standing::of(self.row, control, is_exempt)))
    }
}

/// What a cluster has of this.
#[Object]
impl ClusterIdleness<'_> {
    /// Why it is still there, all that is known to apply: what it works on first, and what is not collected with that
    /// confidence. Of a cluster that reports, as of its last report. Empty once it closed.
    async fn why_running(&self) -> Result<Items<RunReason>, ApiError> {
        let (row, state) = (self.row, State::from(self.row));
        if state == State::Closed {
            return Ok(Items(Vec::new()));
        }
        let work = if state == State::Lost { Work::default() } else { Work::of(self.scope, row).await? };
        let control = self.control().await?;
        let time = |time: entity::Timestamp| time.0;
        let reasons = run_reasons(&Situation {
            state,
            last_seen_at: row.last_seen_at.0,
            started_at: row.started_at.0,
            idle_since: row.idle_since.map(time),
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
            course: self.course(control.as_ref()).await?,
            kept_until: control.as_ref().and_then(|control| control.kept_until).map(time),
            stop_at: control.as_ref().and_then(|control| control.stop_at).map(time),
            at: self.scope.now,
        });
        Ok(Items(reasons.into_iter().map(RunReason::from).collect()))
    }

    /// When it is stopped if it stays idle, by the server's clock: by the account's idle policy or by its own timeout,
    /// whichever is earlier. It is stopped by the answer to a report, so up to one report interval later. Once it is to stop
    /// anyway, when its next report is due. Otherwise null while it has work, when nothing stops it, and once it closed or is
    /// LOST.
    #[expect(clippy::cast_possible_truncation, reason = "a longer time than there is becomes the longest")]
    async fn shutdown_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        let row = self.row;
        if row.status != Status::Running {
            return Ok(None);
        }
        let control = self.control().await?;
        if row.desired_state == DesiredState::Stopped {
            // Its scheduler learns it with the answer to the next report.
            return Ok(at(row.last_seen_at.timestamp_millis() + (1e3 * row.interval_seconds) as i64));
        }
        let Some(idle_since) = Standing::of(row, control.as_ref(), false).idle_since else { return Ok(None) };
        let own = row.idle_timeout_seconds.map(|timeout| idle_since.saturating_add((1e3 * timeout) as i64));
        let by_policy = match self.course(control.as_ref()).await? {
            Course::Timed(times) if times.stops => Some(times.stop_at(self.scope.now.timestamp_millis())),
            _ => None,
        };
        Ok([own, by_policy].into_iter().flatten().min().and_then(at))
    }

    /// After how many seconds without work it closes by itself, by its own settings; null when it does not.
    async fn idle_timeout_seconds(&self) -> Option<f64> {
        self.row.idle_timeout_seconds
    }

    /// When the account's idle policy marked it, by the server's clock: it has been idle for nearly as long as it may. Null
    /// while it has work, and when it has not been marked since it had.
    async fn idle_warned_at(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        let control = self.control().await?;
        let warned = control.filter(|control| {
            self.row.idle_since.is_some() && control.warned_idle_since == self.row.idle_since
        });
        Ok(warned.and_then(|control| control.warned_at).map(|time| time.0))
    }

    /// Until when it is not stopped for being idle, by the server's clock, as somebody said with `keepAlive`; null when
    /// nobody did. It may lie in the past.
    async fn kept_alive_until(&self) -> Result<Option<DateTime<Utc>>, ApiError> {
        Ok(self.control().await?.and_then(|control| control.kept_until).map(|time| time.0))
    }

    /// Who said that it is to stop, and why; null when nobody did, or it was taken back. It stays when the cluster has
    /// closed.
    async fn stop_request(&self) -> Result<Option<StopRequest>, ApiError> {
        Ok(self.control().await?.and_then(|control| StopRequest::new(self.scope, control)))
    }
}

fn at(milliseconds: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(milliseconds)
}

/// That a cluster is to stop.
pub(super) struct StopRequest {
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

/// That a cluster is to stop.
#[Object]
impl StopRequest {
    /// When this was said, by the server's clock.
    async fn at(&self) -> DateTime<Utc> {
        self.at
    }

    /// Who says so.
    async fn origin(&self) -> StopRequestOrigin {
        self.origin.into()
    }

    /// The member who says so; null when it is no member, and when the user left the account.
    async fn by(&self) -> Result<Option<User>, ApiError> {
        match self.user {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// Why, in the words of who says so; null if they gave no reason.
    async fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

/// Who says that a cluster is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "StopOrigin")]
pub(super) enum StopRequestOrigin {
    /// A member of the account.
    User,
    /// Whoever has the command line of the server.
    Operator,
    /// The account's idle policy.
    IdlePolicy,
}

/// One of the reasons why a cluster is still there.
#[derive(SimpleObject)]
pub(super) struct RunReason {
    /// What it is.
    code: RunReasonCode,
    /// The same in one sentence.
    detail: String,
    /// How many there are of what it is about: tasks, results, graphs or workers. Null where nothing is counted.
    count: Option<BigInt>,
    /// Since when, by the scheduler's clock; for STOPPING and LOST by the server's. Null where that is not known.
    since: Option<DateTime<Utc>>,
    /// Whether it is known to apply: `MEASURED`, or `NOT_COLLECTED` for what may apply, and is not told.
    confidence: Confidence,
}

in_place_members! { RunReason: code, detail, count, since, confidence }

/// What keeps a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "Code")]
pub(super) enum RunReasonCode {
    /// Workers work on tasks.
    Processing,
    /// Tasks are held back until a thread is free.
    Queued,
    /// Tasks may run on none of its workers.
    NoWorker,
    /// Tasks wait for others, and none runs.
    Waiting,
    /// Its scheduler takes graphs in.
    GraphUpdate,
    /// Nothing was ever submitted.
    NeverHadWork,
    /// Clients hold results in its memory.
    ClientHoldsResults,
    /// An adaptive cluster may keep a minimum of workers. Dask does not tell its scheduler, so it is never known.
    AdaptiveMinimum,
    /// Nobody said that idle clusters are to be stopped.
    NoPolicy,
    /// It has not been idle for as long as it may.
    WithinTimeout,
    /// Somebody keeps it, by `keepAlive`.
    KeptAlive,
    /// One of its tags exempts it from the account's idle policy.
    Exempt,
    /// It is to stop, and has not yet.
    Stopping,
    /// Nothing is heard of it, so whether it is there is not known.
    Lost,
}

names!(RunReasonCode);

impl From<crate::domain::answer::RunReason> for RunReason {
    fn from(reason: crate::domain::answer::RunReason) -> Self {
        Self {
            code: reason.code.into(),
            detail: reason.detail,
            count: reason.count.map(BigInt),
            since: reason.since,
            confidence: reason.confidence.into(),
        }
    }
}

/// Keeps a cluster from being stopped for idleness.
pub(super) async fn keep_alive(
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
    match scope.store.keep_cluster(cluster, user, scope.now.into(), stored(until)).await? {
        Kept::Until(row) => Ok(ClusterPayload::done(scope, *row)),
        Kept::Closed(row) => Ok(ClusterPayload {
            cluster: Cluster::new(scope, *row),
            user_errors: vec![UserError::new("cluster", UserErrorCode::Ended, "has closed")],
        }),
        Kept::Missing => Err(ApiError::NotFound("cluster")),
    }
}
