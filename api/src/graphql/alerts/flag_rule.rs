//! The rules that detect flags, and the flags that an account mutes.

use async_graphql::{InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{cluster_flag::NOT_ENDED_KEY, flag_mute::Model, ids::UserId, json_columns};

use super::flag::FlagKind;
use crate::{
    clock::to_stored,
    domain::flag::{RULES, Rule},
    graphql::{
        access::user::User,
        accounts::account::Account,
        clusters::cluster_tag::TagPattern,
        engine::{
            error::ApiError,
            scope::AccountScope,
            user_error::{UserError, UserErrorCode},
        },
    },
    store::{MAX_MUTES, MuteTarget},
};

/// A rule that detects one kind of flag on clusters.
#[derive(SimpleObject)]
pub(crate) struct FlagRule {
    /// The kind of flag that the rule detects.
    kind: FlagKind,
    /// A short title.
    title: &'static str,
    /// The meaning of the flag, and possible remedies.
    text: &'static str,
    /// The data that has to be measured or accepted. Without it, the flag is never detected.
    needs: &'static str,
    /// The value from which the flag is detected, in `unit`. For IDLE, the timeout of the account's idle
    /// policy if it has one.
    threshold: f64,
    /// The value below which the flag ends, in `unit`.
    clears_below: f64,
    /// The unit of `threshold` and `clearsBelow`. A share is from 0 to 1.
    unit: &'static str,
    /// The time, in seconds, for which the value must stay at or above `threshold` until the flag is
    /// detected, or below `clearsBelow` until it ends.
    lasting_seconds: i32,
}

/// Returns all rules, with the thresholds that hold for the account.
pub(crate) async fn load_rules(scope: &AccountScope) -> Result<Vec<FlagRule>, ApiError> {
    let timeout = scope.store.idle_policy().await?.and_then(|policy| policy.timeout_seconds);
    let rule = |rule: &&Rule| FlagRule {
        kind: rule.kind.into(),
        title: rule.title,
        text: rule.text,
        needs: rule.needs,
        threshold: rule.threshold_of(timeout),
        clears_below: rule.clear_threshold,
        unit: rule.unit,
        lasting_seconds: rule.lasting_seconds.try_into().unwrap_or(i32::MAX),
    };
    Ok(RULES.iter().map(rule).collect())
}

/// A kind of flag that the account mutes.
pub(crate) struct FlagMute {
    scope: AccountScope,
    row: Model,
}

/// A kind of flag that the account mutes. A muted flag is left out of `Account.flags` unless requested
/// with `muted`, does not match the `flags` condition of a cluster filter, and triggers no alert.
#[Object]
impl FlagMute {
    /// The muted kind.
    async fn kind(&self) -> FlagKind {
        self.row.kind.into()
    }

    /// The tag of the clusters for which the kind is muted. Null if it is muted for all clusters.
    async fn tag(&self) -> Option<TagPattern> {
        let value = (!self.row.any_value).then(|| self.row.tag_value.clone());
        let tag = json_columns::TagPattern { key: self.row.tag_key.clone(), value };
        (!tag.key.is_empty()).then(|| tag.into())
    }

    /// The end of the mute. Null if it has no end.
    async fn until(&self) -> Option<DateTime<Utc>> {
        (self.row.until_key < NOT_ENDED_KEY)
            .then(|| DateTime::from_timestamp_millis(self.row.until_key))
            .flatten()
    }

    /// The time of the mutation that muted the kind, by the server's clock.
    async fn muted_at(&self) -> DateTime<Utc> {
        self.row.muted_at.0
    }

    /// The member who muted the kind. Null if the user left the account.
    async fn muted_by(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.muted_by).await
    }
}

/// Returns the account's mutes, ordered by kind.
pub(crate) async fn load_mutes(scope: &AccountScope) -> Result<Vec<FlagMute>, ApiError> {
    let rows = scope.store.flag_mutes(scope.now.timestamp_millis()).await?;
    Ok(rows.into_iter().map(|row| FlagMute { scope: scope.clone(), row }).collect())
}

/// The kind of flag to mute, and its scope.
#[derive(InputObject)]
pub(crate) struct MuteFlagInput {
    /// The kind to mute.
    kind: FlagKind,
    /// The tag of the clusters for which the kind is muted. All clusters if null.
    tag: Option<TagPattern>,
    /// The end of the mute. No end if null.
    until: Option<DateTime<Utc>>,
}

/// The mute to end.
#[derive(InputObject)]
pub(crate) struct UnmuteFlagInput {
    /// The muted kind.
    kind: FlagKind,
    /// The tag that the kind was muted with. The mute of all clusters if null.
    tag: Option<TagPattern>,
}

/// The outcome of `muteFlag` or `unmuteFlag`.
#[derive(SimpleObject)]
pub(crate) struct FlagMutesPayload {
    /// The account with its current mutes.
    account: Account,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

impl FlagMutesPayload {
    fn refused(scope: &AccountScope, error: UserError) -> Self {
        Self { account: Account(scope.clone()), user_errors: vec![error] }
    }

    fn changed(scope: &AccountScope) -> Self {
        Self { account: Account(scope.with_empty_caches()), user_errors: Vec::new() }
    }
}

pub(crate) async fn mute(
    scope: &AccountScope,
    user: UserId,
    input: MuteFlagInput,
) -> Result<FlagMutesPayload, ApiError> {
    let tag = match input.tag.as_ref().map(TagPattern::check).transpose() {
        Ok(tag) => tag,
        Err(error) => return Ok(FlagMutesPayload::refused(scope, UserError::from_rule("tag", &error))),
    };
    if input.until.is_some_and(|until| until <= scope.now) {
        let error = UserError::new("until", UserErrorCode::OutOfRange, "must not have passed");
        return Ok(FlagMutesPayload::refused(scope, error));
    }
    let target = MuteTarget { kind: input.kind.into(), tag };
    if scope.store.mute_flag(target, input.until.map(to_stored), user, scope.now.into()).await? {
        return Ok(FlagMutesPayload::changed(scope));
    }
    let message = format!("an account can have at most {MAX_MUTES} mutes");
    Ok(FlagMutesPayload::refused(scope, UserError::new("kind", UserErrorCode::TooMany, message)))
}

pub(crate) async fn unmute(
    scope: &AccountScope,
    input: UnmuteFlagInput,
) -> Result<FlagMutesPayload, ApiError> {
    let tag = match input.tag.as_ref().map(TagPattern::check).transpose() {
        Ok(tag) => tag,
        Err(error) => return Ok(FlagMutesPayload::refused(scope, UserError::from_rule("tag", &error))),
    };
    if scope.store.unmute_flag(MuteTarget { kind: input.kind.into(), tag }).await? {
        return Ok(FlagMutesPayload::changed(scope));
    }
    let error = UserError::new("kind", UserErrorCode::NotFound, "there is no such mute");
    Ok(FlagMutesPayload::refused(scope, error))
}
