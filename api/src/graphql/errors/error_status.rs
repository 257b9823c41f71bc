//! The triage status of error groups, and the mutation that sets it.

use async_graphql::{Enum, SimpleObject};
use entity::{
    audit_entry::Action,
    error_group,
    ids::{ErrorGroupId, UserId},
};

use super::error_group::ErrorGroup;
use crate::{
    domain::{audit::Target, error_status::ErrorStatus, permission::Denial},
    graphql::engine::{
        error::ApiError, json::write_enums_by_name, scope::AccountScope, user_error::UserError,
    },
    store::ChangeOutcome,
};

/// The triage status of a group of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "ErrorStatus")]
pub(crate) enum ErrorGroupStatus {
    /// The group needs attention: no user has set another status, or a user set it back to `OPEN`.
    Open,
    /// The group was resolved, and one of its errors occurred after that, at `regressedAt`.
    Regressed,
    /// The group was resolved, and none of its errors has occurred since.
    Resolved,
    /// The errors may occur, and need no attention.
    Ignored,
}

write_enums_by_name!(ErrorGroupStatus);

/// A status that users can set on a group of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "error_group::Status")]
pub(crate) enum ErrorGroupTriageStatus {
    /// The group needs attention, possibly again.
    Open,
    /// The cause is fixed. If one of the group's errors occurs later, its status becomes `REGRESSED`.
    Resolved,
    /// The errors may occur at any time, and need no attention.
    Ignored,
}

/// The outcome of `setErrorGroupStatus`.
#[derive(SimpleObject)]
pub(crate) struct SetErrorGroupStatusPayload {
    /// The group after the change.
    error_group: ErrorGroup,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<UserError>,
}

pub(crate) async fn set_error_group_status(
    scope: &AccountScope,
    user: UserId,
    group: ErrorGroupId,
    status: ErrorGroupTriageStatus,
) -> Result<SetErrorGroupStatusPayload, ApiError> {
    let action = Action::SetErrorGroupStatus;
    let author = (user, scope.required_owner(action));
    match scope.store.set_error_status(group, status.into(), author, scope.now.into()).await? {
        ChangeOutcome::Done(row) => {
            let error_group = ErrorGroup::new(&scope.with_empty_caches(), *row);
            Ok(SetErrorGroupStatusPayload { error_group, user_errors: Vec::new() })
        }
        ChangeOutcome::NotOwner => {
            scope.record_denial(action, Target::ErrorGroup(group), Denial::NotOwner).await?;
            let error_group = ErrorGroup::find(scope, group).await?;
            let error_group = error_group.ok_or(ApiError::NotFound("error group"))?;
            Ok(SetErrorGroupStatusPayload { error_group, user_errors: vec![UserError::not_owner("group")] })
        }
        ChangeOutcome::Missing => Err(ApiError::NotFound("error group")),
    }
}
