//! When something is noticed of clusters, and what of it an account does not want to be told.

use async_graphql::{InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{cluster_flag::LASTS, flag_mute::Model, ids::UserId, list};

use super::{
    account::Account,
    cluster_tag::TagPattern,
    error::ApiError,
    flag::FlagKind,
    scope::AccountScope,
    user::User,
    user_error::{UserError, UserErrorCode},
};
use crate::{
    clock::stored,
    domain::flag::{RULES, Rule},
    store::{MAX_MUTES, Muted},
};

/// When something is noticed, and what to make of it.
#[derive(SimpleObject)]
pub(super) struct FlagRule {
    /// What is noticed.
    kind: FlagKind,
    /// The same in a few words.
    title: &'static str,
    /// What it means, and what can be done about it.
    text: &'static str,
    /// What has to be measured or accepted; without it nothing is noticed.
    needs: &'static str,
    /// From which value on it is noticed, in the unit. For IDLE that is what the account's idle policy says, if it does.
    threshold: f64,
    /// Below which value it is over, in the unit.
    clears_below: f64,
    /// What the values count; a share is from 0 to 1.
    unit: &'static str,
    /// How many seconds the value has to be there, on either side.
    lasting_seconds: i32,
}

/// All rules, as they are for an account.
pub(super) async fn rules(scope: &AccountScope) -> Result<Vec<FlagRule>, ApiError> {
    let timeout = scope.store.idle_policy().await?.and_then(|policy| policy.timeout_seconds);
    let rule = |rule: &&Rule| FlagRule {
        kind: rule.kind.into(),
        title: rule.title,
        text: rule.text,
        needs: rule.needs,
        threshold: rule.threshold_of(timeout),
        clears_below: rule.clears,
        unit: rule.unit,
        lasting_seconds: rule.lasting_seconds.try_into().unwrap_or(i32::MAX),
    };
    Ok(RULES.iter().map(rule).collect())
}

/// A kind of flag that the account does not want to be told of.
pub(super) struct FlagMute {
    scope: AccountScope,
    row: Model,
}

/// A kind of flag that the account does not want to be told of: it is in no list of the account unless asked for, finds no
/// cluster, and nobody is alerted of it.
#[Object]
impl FlagMute {
    /// The kind.
    async fn kind(&self) -> FlagKind {
        self.row.kind.into()
    }

    /// Only of clusters with this tag; of all clusters if null.
    async fn tag(&self) -> Option<TagPattern> {
        let value = (!self.row.any_value).then(|| self.row.tag_value.clone());
        let tag = list::TagPattern { key: self.row.tag_key.clone(), value };
        (!tag.key.is_empty()).then(|| tag.into())
    }

    /// Until when; null for ever.
    async fn until(&self) -> Option<DateTime<Utc>> {
        (self.row.until_key < LASTS).then(|| DateTime::from_timestamp_millis(self.row.until_key)).flatten()
    }

    /// When that was said, by the server's clock.
    async fn muted_at(&self) -> DateTime<Utc> {
        self.row.muted_at.0
    }

    /// Who said so; null when the user left the account.
    async fn muted_by(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.muted_by).await
    }
}

/// What the account has muted, by kind.
pub(super) async fn mutes(scope: &AccountScope) -> Result<Vec<FlagMute>, ApiError> {
    let rows = scope.store.flag_mutes(scope.now.timestamp_millis()).await?;
    Ok(rows.into_iter().map(|row| FlagMute { scope: scope.clone(), row }).collect())
}

/// What is to be muted.
#[derive(InputObject)]
pub(super) struct MuteFlagInput {
    /// The kind.
    kind: FlagKind,
    /// Only of clusters with this tag; of all clusters if not given.
    tag: Option<TagPattern>,
    /// Until when; for ever if not given.
    until: Option<DateTime<Utc>>,
}

/// What is to be muted no more.
#[derive(InputObject)]
pub(super) struct UnmuteFlagInput {
    /// The kind.
    kind: FlagKind,
    /// The tag it was muted with; that of all clusters if not given.
    tag: Option<TagPattern>,
}

/// The outcome of muting, or of ending it.
#[derive(SimpleObject)]
pub(super) struct FlagMutesPayload {
    /// The account with what it has muted now.
    account: Account,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}

impl FlagMutesPayload {
    fn refused(scope: &AccountScope, error: UserError) -> Self {
        Self { account: Account(scope.clone()), user_errors: vec![error] }
    }

    fn done(scope: &AccountScope) -> Self {
        Self { account: Account(scope.after_change()), user_errors: Vec::new() }
    }
}

pub(super) async fn mute(
    scope: &AccountScope,
    user: UserId,
    input: MuteFlagInput,
) -> Result<FlagMutesPayload, ApiError> {
    let tag = match input.tag.as_ref().map(TagPattern::check).transpose() {
        Ok(tag) => tag,
        Err(error) => return Ok(FlagMutesPayload::refused(scope, UserError::of("tag", &error))),
    };
    if input.until.is_some_and(|until| until <= scope.now) {
        let error = UserError::new("until", UserErrorCode::OutOfRange, "must not have passed");
        return Ok(FlagMutesPayload::refused(scope, error));
    }
    let muted = Muted { kind: input.kind.into(), tag };
    if scope.store.mute_flag(muted, input.until.map(stored), user, scope.now.into()).await? {
        return Ok(FlagMutesPayload::done(scope));
    }
    let message = format!("more than {MAX_MUTES} cannot be muted");
    Ok(FlagMutesPayload::refused(scope, UserError::new("kind", UserErrorCode::TooMany, message)))
}

pub(super) async fn unmute(
    scope: &AccountScope,
    input: UnmuteFlagInput,
) -> Result<FlagMutesPayload, ApiError> {
    let tag = match input.tag.as_ref().map(TagPattern::check).transpose() {
        Ok(tag) => tag,
        Err(error) => return Ok(FlagMutesPayload::refused(scope, UserError::of("tag", &error))),
    };
    if scope.store.unmute_flag(Muted { kind: input.kind.into(), tag }).await? {
        return Ok(FlagMutesPayload::done(scope));
    }
    let error = UserError::new("kind", UserErrorCode::NotFound, "is not muted like this");
    Ok(FlagMutesPayload::refused(scope, error))
}
