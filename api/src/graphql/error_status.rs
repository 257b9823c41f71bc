//! What is to be thought of groups of errors, and who said so.

use async_graphql::{Enum, SimpleObject};
use entity::{
    error_group,
    ids::{ErrorGroupId, UserId},
};

use super::{
    error::ApiError, error_group::ErrorGroup, json::names, scope::AccountScope, user_error::UserError,
};
use crate::domain::error_status::ErrorStatus;

/// What is to be thought of a group of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "ErrorStatus")]
pub(super) enum ErrorGroupStatus {
    /// Nobody has said anything else of it.
    Open,
    /// It was resolved, and one of its errors happened after that: `regressedAt` tells when.
    Regressed,
    /// It was resolved, and none of its errors has happened since.
    Resolved,
    /// It may happen.
    Ignored,
}

names!(ErrorGroupStatus);

/// What can be said of a group of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "error_group::Status")]
pub(super) enum ErrorGroupVerdict {
    /// It is to be looked at, again if need be.
    Open,
    /// It does not happen any more. When one of its errors happens later, the group's status becomes REGRESSED.
    Resolved,
    /// It may happen, however often.
    Ignored,
}

/// The outcome of `setErrorGroupStatus`.
#[derive(SimpleObject)]
pub(super) struct SetErrorGroupStatusPayload {
    /// The group as it is now.
    error_group: ErrorGroup,
    /// What was wrong with the input; nothing is changed unless it is empty.
    user_errors: Vec<UserError>,
}

pub(super) async fn set_error_group_status(
    scope: &AccountScope,
    user: UserId,
    group: ErrorGroupId,
    verdict: ErrorGroupVerdict,
) -> Result<SetErrorGroupStatusPayload, ApiError> {
    let row = scope.store.set_error_status(group, verdict.into(), user, scope.now.into()).await?;
    let row = row.ok_or(ApiError::NotFound("error group"))?;
    let error_group = ErrorGroup::new(&scope.after_change(), row);
    Ok(SetErrorGroupStatusPayload { error_group, user_errors: Vec::new() })
}
