//! The members of an account, and the changes of their access.

use async_graphql::{Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    audit_entry::Action,
    ids::UserId,
    membership::{self, Model},
};

use super::user::User;
use crate::{
    app::member::{self, Refusal},
    clock::to_stored,
    domain::{
        access::{AccessError, Grant, has_ended},
        audit::Target,
        slug::Slug,
    },
    graphql::{
        accounts::account::Account,
        engine::{
            connection::{Connection, PageArguments, total_count_by},
            error::ApiError,
            id::GlobalId,
            json::write_enums_by_name,
            projection::inline_fields,
            scalar::BigInt,
            scope::AccountScope,
        },
    },
    store::MemberSort,
};

/// A user as a member of an account.
pub(crate) struct Member {
    scope: AccountScope,
    row: Model,
}

impl Member {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A user as a member of an account.
#[Object]
impl Member {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Member(self.scope.account.id, self.row.user_id).into()
    }

    /// The user.
    async fn user(&self) -> Result<User, ApiError> {
        User::find(&self.scope, self.row.user_id).await?.ok_or(ApiError::NotFound("user"))
    }

    /// The role of the member.
    async fn role(&self) -> MemberRole {
        self.row.role.into()
    }

    /// The time at which the user became a member, by the server's clock.
    async fn since(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// The end of the membership of a guest. Null for any other role.
    async fn until(&self) -> Option<DateTime<Utc>> {
        self.row.ends_at.map(|end| end.0)
    }

    /// True if the membership has ended. The guest can no longer sign in, but stays in the list until
    /// removed. A new end restores the membership and the guest's tokens.
    async fn is_over(&self) -> bool {
        has_ended(self.row.ends_at, self.scope.now.into())
    }

    /// True if the viewer has permission to change the membership with `setMemberRole` and to end it with
    /// `removeMember`. It is also true for the last owner, although these changes are then refused.
    async fn viewer_can_change(&self) -> bool {
        self.scope.manages(self.row.role)
    }
}

inline_fields! { Member: id, role, since, until, is_over, viewer_can_change }

/// The roles of members. A member's tokens are valid for no more than the role covers; a change of the
/// role takes effect immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "membership::Role")]
pub(crate) enum MemberRole {
    /// Everything, including changes of other owners.
    Owner,
    /// Everything except changes of owners and the deletion of the account.
    Admin,
    /// Report, read, and change what is their own: tokens with the scopes INGEST and READ.
    Member,
    /// Read: tokens with the scope READ.
    Viewer,
    /// Read until a given time: tokens with the scope READ.
    Guest,
}

write_enums_by_name!(MemberRole);

/// The member to add.
#[derive(InputObject)]
pub(crate) struct AddMemberInput {
    /// The name the user signs in with: 1 to 63 lower-case letters, digits, '-' or '_', beginning with a
    /// letter or digit. If no user of this server has the name, a new user is created.
    name: String,
    /// The role of the new member. It must not exceed the caller's role.
    role: MemberRole,
    /// The end of the membership. Required for a GUEST, not allowed for any other role.
    until: Option<DateTime<Utc>>,
}

/// The outcome of `addMember`, `setMemberRole` or `removeMember`.
#[derive(SimpleObject)]
pub(crate) struct MemberPayload {
    /// The member after the change. Null if nothing was changed, and after a removal.
    member: Option<Member>,
    /// The account after the change.
    account: Account,
    /// The errors in the input. If there are any, nothing was changed.
    user_errors: Vec<AccessUserError>,
}

/// An error in a change of a user's access.
#[derive(SimpleObject)]
pub(crate) struct AccessUserError {
    /// The input field or the argument with the error.
    field: &'static str,
    /// The error code, for programs.
    code: AccessErrorCode,
    /// The error message, for people.
    message: String,
}

/// The codes of errors in a change of a user's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "AccessError")]
pub(crate) enum AccessErrorCode {
    /// The text is not a valid user name.
    #[graphql(name = "NAME_INVALID")]
    Name,
    /// The text is not a valid token label.
    #[graphql(name = "LABEL_INVALID")]
    Label,
    /// The token has no scope. At least one is required.
    NoScope,
    /// The caller's token lacks a requested scope.
    ScopeNotHeld,
    /// The user's role does not cover a requested scope.
    ScopeNotCovered,
    /// The expiry lies in the past.
    #[graphql(name = "EXPIRED")]
    ExpiryPast,
    /// The expiry is missing, or later than that of the caller's token.
    OutlivesOwn,
    /// The role exceeds the caller's role.
    AboveOwnRole,
    /// The member's role exceeds the caller's role.
    MemberAbove,
    /// The end of the membership is missing. A guest requires one.
    EndMissing,
    /// The end of the membership is not allowed. Only a guest has one.
    EndNotAllowed,
    /// The end of the guest's membership lies in the past.
    EndPast,
    /// The guest's membership has ended.
    #[graphql(name = "MEMBERSHIP_OVER")]
    MembershipEnded,
    /// The expiry of the invitation is more than 30 days ahead.
    TooLate,
    /// The invitation does not exist, can no longer be accepted, or is for another user. The code does
    /// not distinguish these cases.
    #[graphql(name = "INVITATION_INVALID")]
    NoInvitation,
    /// The user is already a member.
    AlreadyMember,
    /// The change would leave the account without an owner.
    LastOwner,
    /// The account has reached a limit: 10,000 members, 1,000 tokens that are valid or less than a day old,
    /// or 1,000 open invitations.
    TooMany,
}

impl AccessUserError {
    pub(crate) fn new(field: &'static str, error: AccessError) -> Self {
        Self { field, code: error.into(), message: error.to_string() }
    }

    /// Returns the errors of a refused change. `field` names the input field of each error.
    ///
    /// # Errors
    /// Returns an error if the refusal is not about a rule: an object of this `kind` was not found, or the
    /// caller is not a member.
    pub(crate) fn from_refusal(
        refusal: Refusal,
        kind: &'static str,
        field: impl Fn(AccessError) -> &'static str,
    ) -> Result<Vec<Self>, ApiError> {
        match refusal {
            Refusal::NotFound => Err(ApiError::NotFound(kind)),
            Refusal::NoMember => Err(ApiError::Forbidden("you are not a member of the account".to_owned())),
            Refusal::Rules(errors) => {
                Ok(errors.into_iter().map(|error| Self::new(field(error), error)).collect())
            }
        }
    }
}

/// Returns a page of the account's members.
pub(crate) async fn load_members(
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<Member>, ApiError> {
    let sort = MemberSort::OldestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.member_page(sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let store = store.clone();
        async move { store.member_count().await }
    });
    Ok(Connection::new(page, sort, |row| Member::new(scope, row), total))
}

pub(crate) async fn add_member(
    scope: &AccountScope,
    actor: UserId,
    input: AddMemberInput,
) -> Result<MemberPayload, ApiError> {
    let Ok(name) = input.name.parse::<Slug>() else {
        let user_errors = vec![AccessUserError::new("name", AccessError::Name)];
        return Ok(MemberPayload { member: None, account: Account(scope.clone()), user_errors });
    };
    let grant = to_grant(input.role, input.until);
    let outcome = member::add(&scope.store, actor, &name, grant, scope.now.into()).await?;
    change_payload(scope, outcome, (Action::AddMember, Target::Account), "name").await
}

pub(crate) async fn set_member_role(
    scope: &AccountScope,
    actor: UserId,
    user: &ID,
    (role, until): (MemberRole, Option<DateTime<Utc>>),
) -> Result<MemberPayload, ApiError> {
    let user = User::parse_id(scope, "user", user)?;
    let grant = Some(to_grant(role, until));
    let outcome = member::change(&scope.store, actor, user, grant, scope.now.into()).await?;
    change_payload(scope, outcome, (Action::SetMemberRole, Target::User(user)), "user").await
}

/// The user to delete, with the data that the user's clusters reported.
#[derive(InputObject)]
pub(crate) struct DeleteUserInput {
    /// The user's global identifier. The user may have left the account.
    user_id: ID,
}

/// The outcome of `deleteUser`.
#[derive(SimpleObject)]
pub(crate) struct DeleteUserPayload {
    /// The number of deleted clusters. Null if nothing was deleted.
    clusters: Option<BigInt>,
    /// The errors in the input. Empty if the user was deleted; otherwise nothing was deleted.
    user_errors: Vec<AccessUserError>,
}

pub(crate) async fn delete_user(
    scope: &AccountScope,
    actor: UserId,
    input: DeleteUserInput,
) -> Result<DeleteUserPayload, ApiError> {
    let user = User::parse_id(scope, "userId", &input.user_id)?;
    match member::delete(&scope.store, actor, user, scope.now.into()).await? {
        Ok(clusters) => Ok(DeleteUserPayload {
            clusters: Some(BigInt(i64::try_from(clusters).unwrap_or(i64::MAX))),
            user_errors: Vec::new(),
        }),
        Err(refusal) => {
            let attempt = (Action::DeleteUser, Target::User(user));
            let user_errors = scope.refusal_errors(attempt, refusal, "user", |_| "userId").await?;
            Ok(DeleteUserPayload { clusters: None, user_errors })
        }
    }
}

pub(crate) async fn remove_member(
    scope: &AccountScope,
    actor: UserId,
    user: &ID,
) -> Result<MemberPayload, ApiError> {
    let user = User::parse_id(scope, "user", user)?;
    let outcome = member::change(&scope.store, actor, user, None, scope.now.into()).await?;
    let attempt = (Action::RemoveMember, Target::User(user));
    let mut payload = change_payload(scope, outcome, attempt, "user").await?;
    payload.member = None;
    Ok(payload)
}

/// Returns the grant of a role with an optional end.
pub(crate) fn to_grant(role: MemberRole, until: Option<DateTime<Utc>>) -> Grant {
    Grant { role: role.into(), ends_at: until.map(to_stored) }
}

/// Returns the input field of an error about the granted role or its end; `None` for other errors.
pub(crate) fn field_of_grant_error(error: AccessError) -> Option<&'static str> {
    match error {
        AccessError::AboveOwnRole => Some("role"),
        AccessError::EndMissing | AccessError::EndNotAllowed | AccessError::EndPast => Some("until"),
        _ => None,
    }
}

/// Returns the payload of a change. `field` is the input field that names the member.
async fn change_payload(
    scope: &AccountScope,
    outcome: Result<Model, Refusal>,
    attempt: (Action, Target),
    field: &'static str,
) -> Result<MemberPayload, ApiError> {
    let scope = scope.with_empty_caches();
    let (member, user_errors) = match outcome {
        Ok(row) => (Some(Member::new(&scope, row)), Vec::new()),
        Err(refusal) => {
            let error_field = |error| field_of_grant_error(error).unwrap_or(field);
            (None, scope.refusal_errors(attempt, refusal, "user", error_field).await?)
        }
    };
    Ok(MemberPayload { member, account: Account(scope), user_errors })
}
