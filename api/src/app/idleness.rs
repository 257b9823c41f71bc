//! The desired state of a cluster in the response to its report. The idle policy is applied to the data
//! just reported, in the report's transaction, so the decision is still valid when the response is sent.

use entity::{
    Timestamp,
    cluster::{DesiredState, Model, Status},
    cluster_control::{self, StopOrigin},
};

use crate::{
    domain::{
        idle_policy::IdlePolicy,
        idle_verdict::{IdleAction, IdleFacts, IdleVerdict, idle_ms},
        stop::{StopReason, StopSentence},
    },
    store::{AccountStore, StoreError},
};

/// The desired state in a response.
pub(super) struct StopDecision {
    /// The state the account wants the cluster to have.
    pub(super) desired_state: DesiredState,
    /// The originator and the reason of a stop, as a sentence.
    pub(super) stop_reason: Option<String>,
    /// True if the cluster should stop only if it still has no work.
    pub(super) stop_only_if_idle: bool,
    /// The remaining keep-alive time, in seconds.
    pub(super) keep_alive_seconds: f64,
}

/// The facts about a cluster that are known before further rows are read.
#[derive(Clone, Copy)]
pub(super) struct IdlenessFacts {
    /// The end of the keep-alive time that a member requested.
    pub(super) kept_until: Option<Timestamp>,
    /// The idle time after which the idle policy acts, in seconds.
    pub(super) idle_due_seconds: Option<i64>,
    /// True if the cluster was silent long enough to count as lost before this report.
    pub(super) was_silent: bool,
}

impl StopDecision {
    pub(super) fn of(desired_state: DesiredState) -> Self {
        Self { desired_state, stop_reason: None, stop_only_if_idle: false, keep_alive_seconds: 0.0 }
    }

    fn stopped(sentence: StopSentence<'_>, stop_only_if_idle: bool) -> Self {
        let stop_reason = Some(sentence.to_string());
        Self { stop_reason, stop_only_if_idle, ..Self::of(DesiredState::Stopped) }
    }
}

/// Returns the desired state of a cluster that has just reported. The cluster's row is locked.
pub(super) async fn decide_stop(
    store: &AccountStore,
    row: &Model,
    facts: IdlenessFacts,
    now: Timestamp,
) -> Result<StopDecision, StoreError> {
    if facts.was_silent && row.idle_since.is_some() {
        // During the silence no one could see the pending stop or keep the cluster alive.
        store.restart_idle_count(row.id, now).await?;
    }
    let decision = decide_state(store, row, facts, now).await?;
    let keep_alive_seconds =
        facts.kept_until.map_or(0.0, |until| (until.0 - now.0).as_seconds_f64().max(0.0));
    Ok(StopDecision { keep_alive_seconds, ..decision })
}

async fn decide_state(
    store: &AccountStore,
    row: &Model,
    facts: IdlenessFacts,
    now: Timestamp,
) -> Result<StopDecision, StoreError> {
    let idle = idle_ms(row);
    let is_due =
        idle.zip(facts.idle_due_seconds).is_some_and(|(idle, due_seconds)| idle >= 1_000 * due_seconds);
    let is_stop_requested = row.desired_state == DesiredState::Stopped;
    if row.status == Status::Closed || !(is_due || is_stop_requested) {
        return Ok(StopDecision::of(row.desired_state));
    }
    let control = store.cluster_control(row.id).await?;
    if is_stop_requested && control.stop_origin != Some(StopOrigin::IdlePolicy) {
        return user_stop(store, &control).await;
    }
    match policy_action(store, row, &control, now).await? {
        IdleAction::Stop => {
            // The reason of the first decision is repeated until the scheduler stops.
            let reason = match &control.stop_reason {
                Some(reason) if is_stop_requested => reason.clone(),
                _ => {
                    let reason = StopReason::idle_for(idle.unwrap_or_default());
                    store.stop_idle_cluster(row, control.clone(), reason.clone(), now).await?;
                    reason.into_string()
                }
            };
            let (origin, reason) = (Some(StopOrigin::IdlePolicy), Some(reason.as_str()));
            return Ok(StopDecision::stopped(StopSentence { origin, user: None, reason }, true));
        }
        order @ (IdleAction::Warn | IdleAction::Nothing) => {
            let control =
                if is_stop_requested { store.withdraw_stop(row, control, now).await? } else { control };
            if order == IdleAction::Warn {
                store.mark_idle_cluster(row, control, now).await?;
            }
        }
    }
    Ok(StopDecision::of(DesiredState::Running))
}

/// Returns the order of the idle policy.
async fn policy_action(
    store: &AccountStore,
    row: &Model,
    control: &cluster_control::Model,
    now: Timestamp,
) -> Result<IdleAction, StoreError> {
    let Some(policy) = store.idle_policy().await?.map(IdlePolicy::from) else {
        return Ok(IdleAction::Nothing);
    };
    let tags = if policy.exempt_tags.is_empty() { Vec::new() } else { store.tags_of_cluster(row.id).await? };
    let facts = IdleFacts::from_rows(row, Some(control), policy.exempts(&tags));
    Ok(match policy.verdict_for(&facts) {
        IdleVerdict::Timed(times) => times.action_at(now.timestamp_millis()),
        IdleVerdict::NoPolicy | IdleVerdict::Busy | IdleVerdict::Exempt => IdleAction::Nothing,
    })
}

async fn user_stop(
    store: &AccountStore,
    control: &cluster_control::Model,
) -> Result<StopDecision, StoreError> {
    let name = match control.stop_user_id {
        Some(user) => store.users_by_id(&[user]).await?.remove(&user).map(|user| user.name),
        None => None,
    };
    let (user, reason) = (name.as_deref(), control.stop_reason.as_deref());
    Ok(StopDecision::stopped(StopSentence { origin: control.stop_origin, user, reason }, false))
}
