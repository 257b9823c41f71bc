//! What an account wants of clusters that have nothing to do.

use async_graphql::{Enum, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    idle_policy::{self, Model},
    ids::UserId,
};

use super::{
    cluster_tag::TagPattern, error::ApiError, scope::AccountScope, user::User, user_error::UserError,
};
use crate::domain::{
    idle_policy::{IdlePolicy as Wanted, IdlePolicyError},
    tag::MAX_PATTERNS,
};

/// What an account wants of clusters that have nothing to do.
pub(super) struct IdlePolicy {
    scope: AccountScope,
    wanted: Wanted,
    /// When, and by whom, that was said.
    said: Option<(DateTime<Utc>, UserId)>,
}

impl IdlePolicy {
    fn new(scope: &AccountScope, row: Option<Model>) -> Self {
        let said = row.as_ref().map(|row| (row.changed_at.0, row.user_id));
        let wanted = row.map(Wanted::from);
        Self { scope: scope.clone(), wanted: wanted.unwrap_or_default(), said }
    }

    pub(super) async fn of(scope: &AccountScope) -> Result<Self, ApiError> {
        Ok(Self::new(scope, scope.store.idle_policy().await?))
    }
}

/// What an account wants of clusters that have nothing to do. It is carried by the answers to their reports, so it takes one
/// report interval, and reaches no cluster that does not report: a best effort.
#[Object]
impl IdlePolicy {
    /// How long without work is too long, in seconds; null for never.
    async fn timeout_seconds(&self) -> Option<i32> {
        self.wanted.timeout_seconds.and_then(|time| time.try_into().ok())
    }

    /// What becomes of a cluster that had no work for so long.
    async fn mode(&self) -> IdleMode {
        self.wanted.mode.into()
    }

    /// How many seconds before that it is marked, as `Cluster.idleWarnedAt` tells.
    async fn warn_before_seconds(&self) -> i32 {
        i32::try_from(self.wanted.warn_before_seconds).unwrap_or(i32::MAX)
    }

    /// Clusters with one of these tags are left alone.
    async fn exempt_tags(&self) -> Vec<TagPattern> {
        self.wanted.exempt_tags.iter().cloned().map(TagPattern::from).collect()
    }

    /// When this was said, by the server's clock; null while nobody said anything, and these are the defaults.
    async fn changed_at(&self) -> Option<DateTime<Utc>> {
        self.said.map(|(at, _)| at)
    }

    /// Who said it; null while nobody did, and when the user left the account.
    async fn changed_by(&self) -> Result<Option<User>, ApiError> {
        match self.said {
            Some((_, user)) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }
}

/// What becomes of a cluster that had no work for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "idle_policy::Mode")]
pub(super) enum IdleMode {
    /// Nothing: that it is idle shows.
    Observe,
    /// It is marked, as `Cluster.idleWarnedAt` tells.
    Warn,
    /// It is marked, and then stopped: when it has been idle for as long as it may, or as long after it was marked as it is
    /// to be before, whichever is later. So a policy that has just been set stops nothing at once.
    Stop,
}

/// What the account is to want of clusters that have nothing to do, all of it.
#[derive(InputObject)]
pub(super) struct SetIdlePolicyInput {
    /// How long without work is too long, 60 to 31,536,000 seconds. Needed to warn or to stop; never if null.
    timeout_seconds: Option<i32>,
    /// What is to become of a cluster that had no work for so long.
    mode: IdleMode,
    /// How many seconds before that it is to be marked: from 0 to less than the timeout. With 0 it is stopped at once.
    #[graphql(default = 300)]
    warn_before_seconds: i32,
    /// Clusters with one of these tags are to be left alone, at most 20.
    #[graphql(default)]
    exempt_tags: Vec<TagPattern>,
}

/// The outcome of `setIdlePolicy`.
#[derive(SimpleObject)]
pub(super) struct SetIdlePolicyPayload {
    /// What the account wants now.
    idle_policy: IdlePolicy,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}

impl SetIdlePolicyInput {
    fn check(self) -> Result<Wanted, Vec<IdlePolicyError>> {
        // No more of them than are looked at, however many there are.
        let tags = self.exempt_tags.iter().take(MAX_PATTERNS + 1).map(TagPattern::check);
        let (tags, wrong): (Vec<_>, Vec<_>) = tags.partition(Result::is_ok);
        let wanted = Wanted {
            mode: self.mode.into(),
            timeout_seconds: self.timeout_seconds.map(i64::from),
            warn_before_seconds: self.warn_before_seconds.into(),
            exempt_tags: tags.into_iter().flatten().collect(),
        };
        let mut errors = wanted.check().err().unwrap_or_default();
        errors.extend(wrong.into_iter().filter_map(Result::err).map(IdlePolicyError::Tag));
        errors.dedup();
        if errors.is_empty() { Ok(wanted) } else { Err(errors) }
    }
}

pub(super) async fn set_idle_policy(
    scope: &AccountScope,
    user: UserId,
    input: SetIdlePolicyInput,
) -> Result<SetIdlePolicyPayload, ApiError> {
    match input.check() {
        Ok(wanted) => {
            let row = scope.store.set_idle_policy(wanted, user, scope.now.into()).await?;
            Ok(SetIdlePolicyPayload {
                idle_policy: IdlePolicy::new(&scope.after_change(), Some(row)),
                user_errors: Vec::new(),
            })
        }
        Err(errors) => {
            let user_errors = errors.iter().map(|error| UserError::of(field(*error), error));
            Ok(SetIdlePolicyPayload {
                user_errors: user_errors.collect(),
                idle_policy: IdlePolicy::of(scope).await?,
            })
        }
    }
}

fn field(error: IdlePolicyError) -> &'static str {
    match error {
        IdlePolicyError::Timeout | IdlePolicyError::TimeoutMissing => "timeoutSeconds",
        IdlePolicyError::Warning => "warnBeforeSeconds",
        IdlePolicyError::TooManyTags | IdlePolicyError::Tag(_) => "exemptTags",
    }
}
