//! The account's policy for idle clusters.

use async_graphql::{Enum, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    idle_policy::{self, Model},
    ids::UserId,
};

use crate::{
    domain::{
        idle_policy::{IdlePolicy as Settings, IdlePolicyError},
        tag::MAX_PATTERNS,
    },
    graphql::{
        access::user::User,
        clusters::cluster_tag::TagPattern,
        engine::{error::ApiError, scope::AccountScope, user_error::UserError},
    },
};

/// The account's policy for idle clusters.
pub(crate) struct IdlePolicy {
    scope: AccountScope,
    settings: Settings,
    /// The time of the last change, and the member who made it.
    last_change: Option<(DateTime<Utc>, UserId)>,
}

impl IdlePolicy {
    fn new(scope: &AccountScope, row: Option<Model>) -> Self {
        let last_change = row.as_ref().map(|row| (row.changed_at.0, row.user_id));
        let settings = row.map(Settings::from);
        Self { scope: scope.clone(), settings: settings.unwrap_or_default(), last_change }
    }

    pub(crate) async fn load(scope: &AccountScope) -> Result<Self, ApiError> {
        Ok(Self::new(scope, scope.store.idle_policy().await?))
    }
}

/// The account's policy for idle clusters. It takes effect through the response to a cluster's report,
/// so it takes up to one report interval and does not reach a cluster that sends no reports. It is a
/// best effort.
#[Object]
impl IdlePolicy {
    /// The time without work after which the policy applies, in seconds. Null if the policy has no
    /// timeout.
    async fn timeout_seconds(&self) -> Option<i32> {
        self.settings.timeout_seconds.and_then(|time| time.try_into().ok())
    }

    /// The action on a cluster that has been idle for the timeout.
    async fn mode(&self) -> IdleMode {
        self.settings.mode.into()
    }

    /// The time between the warning and the timeout, in seconds. The warning sets
    /// `Cluster.idleWarnedAt`.
    async fn warn_before_seconds(&self) -> i32 {
        i32::try_from(self.settings.warn_before_seconds).unwrap_or(i32::MAX)
    }

    /// The tags that exempt a cluster from the policy. One of them is enough.
    async fn exempt_tags(&self) -> Vec<TagPattern> {
        self.settings.exempt_tags.iter().cloned().map(TagPattern::from).collect()
    }

    /// The time of the last change, by the server's clock. Null if the policy was never set; the values
    /// are then the defaults.
    async fn changed_at(&self) -> Option<DateTime<Utc>> {
        self.last_change.map(|(at, _)| at)
    }

    /// The member who made the last change. Null if the policy was never set, or if the user left the
    /// account.
    async fn changed_by(&self) -> Result<Option<User>, ApiError> {
        match self.last_change {
            Some((_, user)) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }
}

/// The action on a cluster that has been idle for the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "idle_policy::Mode")]
pub(crate) enum IdleMode {
    /// No action. The cluster only shows as idle.
    Observe,
    /// The cluster is marked: `Cluster.idleWarnedAt` is set.
    Warn,
    /// The cluster is marked and then stopped: at the timeout, or `warnBeforeSeconds` after it was
    /// marked if that is later. The timeout runs from the latest of these times: the cluster became
    /// idle, the policy was set, the cluster first reported, it reported again after a silence, its tags
    /// were changed, `keepAlive` ended.
    Stop,
}

/// The complete new policy for idle clusters.
#[derive(InputObject)]
pub(crate) struct SetIdlePolicyInput {
    /// The time without work after which the policy applies, 60 to 31,536,000 seconds. Required for WARN
    /// and STOP. No timeout if null.
    timeout_seconds: Option<i32>,
    /// The action on a cluster that has been idle for the timeout.
    mode: IdleMode,
    /// The time between the warning and the timeout, in seconds, from 0 to less than the timeout. With
    /// 0, STOP stops a cluster without a warning.
    #[graphql(default = 300)]
    warn_before_seconds: i32,
    /// The tags that exempt a cluster from the policy, at most 20. One of them is enough.
    #[graphql(default)]
    exempt_tags: Vec<TagPattern>,
}

/// The outcome of `setIdlePolicy`.
#[derive(SimpleObject)]
pub(crate) struct SetIdlePolicyPayload {
    /// The current policy.
    idle_policy: IdlePolicy,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

impl SetIdlePolicyInput {
    fn check(self) -> Result<Settings, Vec<IdlePolicyError>> {
        // At most one tag more than the limit is checked, so that a long list costs little. `check` then
        // refuses the list.
        let tags = self.exempt_tags.iter().take(MAX_PATTERNS + 1).map(TagPattern::check);
        let (tags, invalid_tags): (Vec<_>, Vec<_>) = tags.partition(Result::is_ok);
        let settings = Settings {
            mode: self.mode.into(),
            timeout_seconds: self.timeout_seconds.map(i64::from),
            warn_before_seconds: self.warn_before_seconds.into(),
            exempt_tags: tags.into_iter().flatten().collect(),
            changed_at: 0,
        };
        let mut errors = settings.check().err().unwrap_or_default();
        errors.extend(invalid_tags.into_iter().filter_map(Result::err).map(IdlePolicyError::Tag));
        errors.dedup();
        if errors.is_empty() { Ok(settings) } else { Err(errors) }
    }
}

pub(crate) async fn set_idle_policy(
    scope: &AccountScope,
    user: UserId,
    input: SetIdlePolicyInput,
) -> Result<SetIdlePolicyPayload, ApiError> {
    match input.check() {
        Ok(settings) => {
            let row = scope.store.set_idle_policy(settings, user, scope.now.into()).await?;
            Ok(SetIdlePolicyPayload {
                idle_policy: IdlePolicy::new(&scope.with_empty_caches(), Some(row)),
                user_errors: Vec::new(),
            })
        }
        Err(errors) => {
            let user_errors = errors.iter().map(|error| UserError::from_rule(input_field(*error), error));
            Ok(SetIdlePolicyPayload {
                user_errors: user_errors.collect(),
                idle_policy: IdlePolicy::load(scope).await?,
            })
        }
    }
}

fn input_field(error: IdlePolicyError) -> &'static str {
    match error {
        IdlePolicyError::Timeout | IdlePolicyError::TimeoutMissing => "timeoutSeconds",
        IdlePolicyError::Warning => "warnBeforeSeconds",
        IdlePolicyError::TooManyTags | IdlePolicyError::Tag(_) => "exemptTags",
    }
}
