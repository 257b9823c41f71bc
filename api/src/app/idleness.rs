//! What the answer to a report says of whether the cluster is to go on. What the idle policy wants is decided here, of what
//! has just been reported, and in the transaction of the report: so it holds when the answer is sent.

use entity::{
    Timestamp,
    cluster::{DesiredState, Model, Status},
    cluster_control::{self, StopOrigin},
};

use crate::{
    domain::{
        idle_policy::IdlePolicy,
        idleness::{Course, Order, Standing, idle_ms},
        stop::{Reason, Sentence},
    },
    store::{AccountStore, StoreError},
};

/// What an answer says.
pub(super) struct Wanted {
    /// What the account wants of the cluster.
    pub(super) desired_state: DesiredState,
    /// Who wants it stopped, and why.
    pub(super) stop_reason: Option<String>,
    /// Whether it is to stop only if it still has no work.
    pub(super) stop_only_if_idle: bool,
    /// For how long it is kept, in seconds.
    pub(super) keep_alive_seconds: f64,
}

/// What there is to know of a cluster before more is read.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Until when somebody keeps it.
    pub(super) kept_until: Option<Timestamp>,
    /// After how many seconds without work something is done about it.
    pub(super) idle_due_seconds: Option<i64>,
}

impl Wanted {
    pub(super) fn of(desired_state: DesiredState) -> Self {
        Self { desired_state, stop_reason: None, stop_only_if_idle: false, keep_alive_seconds: 0.0 }
    }

    fn stopped(sentence: Sentence<'_>, stop_only_if_idle: bool) -> Self {
        let stop_reason = Some(sentence.to_string());
        Self { stop_reason, stop_only_if_idle, ..Self::of(DesiredState::Stopped) }
    }
}

/// What is wanted of a cluster that has reported, and is locked.
pub(super) async fn wanted(
    store: &AccountStore,
    row: &Model,
    known: Known,
    now: Timestamp,
) -> Result<Wanted, StoreError> {
    let wanted = stop_or_go_on(store, row, known, now).await?;
    let kept = known.kept_until.map_or(0.0, |until| (until.0 - now.0).as_seconds_f64().max(0.0));
    Ok(Wanted { keep_alive_seconds: kept, ..wanted })
}

async fn stop_or_go_on(
    store: &AccountStore,
    row: &Model,
    known: Known,
    now: Timestamp,
) -> Result<Wanted, StoreError> {
    let idle = idle_ms(row);
    let is_due = idle.zip(known.idle_due_seconds).is_some_and(|(idle, due)| idle >= 1_000 * due);
    let is_asked = row.desired_state == DesiredState::Stopped;
    if row.status == Status::Closed || !(is_due || is_asked) {
        return Ok(Wanted::of(row.desired_state));
    }
    let control = store.cluster_control(row.id).await?;
    if is_asked && control.stop_origin != Some(StopOrigin::IdlePolicy) {
        return by_somebody(store, &control).await;
    }
    match order(store, row, &control, now).await? {
        Order::Stop => {
            // What was said when it was decided is said again until the scheduler obeys.
            let reason = match &control.stop_reason {
                Some(reason) if is_asked => reason.clone(),
                _ => {
                    let reason = Reason::idle_for(idle.unwrap_or_default());
                    store.stop_idle_cluster(row, control.clone(), reason.clone(), now).await?;
                    reason.into_string()
                }
            };
            let (origin, reason) = (Some(StopOrigin::IdlePolicy), Some(reason.as_str()));
            return Ok(Wanted::stopped(Sentence { origin, user: None, reason }, true));
        }
        order @ (Order::Warn | Order::Nothing) => {
            let control = if is_asked { store.let_cluster_go_on(row, control, now).await? } else { control };
            if order == Order::Warn {
                store.warn_cluster(row, control, now).await?;
            }
        }
    }
    Ok(Wanted::of(DesiredState::Running))
}

/// What the idle policy wants.
async fn order(
    store: &AccountStore,
    row: &Model,
    control: &cluster_control::Model,
    now: Timestamp,
) -> Result<Order, StoreError> {
    let Some(policy) = store.idle_policy().await?.map(IdlePolicy::from) else { return Ok(Order::Nothing) };
    let tags = if policy.exempt_tags.is_empty() { Vec::new() } else { store.tags_of_cluster(row.id).await? };
    let standing = Standing::of(row, Some(control), policy.exempts(&tags));
    Ok(match policy.course(&standing) {
        Course::Timed(times) => times.order(now.timestamp_millis()),
        Course::NoPolicy | Course::Busy | Course::Exempt => Order::Nothing,
    })
}

async fn by_somebody(store: &AccountStore, control: &cluster_control::Model) -> Result<Wanted, StoreError> {
    let name = match control.stop_user_id {
        Some(user) => store.users_by_id(&[user]).await?.remove(&user).map(|user| user.name),
        None => None,
    };
    let (user, reason) = (name.as_deref(), control.stop_reason.as_deref());
    Ok(Wanted::stopped(Sentence { origin: control.stop_origin, user, reason }, false))
}
