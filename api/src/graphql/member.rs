//! The members of an account, and what they may decide about each other.

use async_graphql::{Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{
    audit_entry::Action,
    ids::UserId,
    membership::{self, Model},
};

use super::{
    account::Account,
    connection::{Connection, PageArguments, counted},
    error::ApiError,
    in_place::in_place,
    json::names,
    scope::AccountScope,
    user::User,
};
use crate::{
    app::member::{self, Refusal},
    clock::stored,
    domain::{
        access::{AccessError, Grant, is_over},
        audit::Target,
        slug::Slug,
    },
    store::MemberSort,
};

/// A user as a member of an account.
pub(super) struct Member {
    scope: AccountScope,
    row: Model,
}

impl Member {
    pub(super) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// A user as a member of an account.
#[Object]
impl Member {
    /// The user.
    async fn user(&self) -> Result<User, ApiError> {
        User::find(&self.scope, self.row.user_id).await?.ok_or(ApiError::NotFound("user"))
    }

    /// What the member may do.
    async fn role(&self) -> MemberRole {
        self.row.role.into()
    }

    /// Since when the user is a member, by the server's clock.
    async fn since(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// Until when a guest is a member; null for everybody else.
    async fn until(&self) -> Option<DateTime<Utc>> {
        self.row.ends_at.map(|end| end.0)
    }

    /// Whether the membership is over: the guest can sign in no more, and stays in the list until removed. Another end
    /// brings the membership back, and the guest's tokens.
    async fn is_over(&self) -> bool {
        is_over(self.row.ends_at, self.scope.now.into())
    }
}

in_place! { Member: role, since, until, is_over }

/// What a member may do in the account. Tokens of a member are good for no more than the role covers, from the moment on at
/// which it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "membership::Role")]
pub(super) enum MemberRole {
    /// Everything, also what is to become of other owners.
    Owner,
    /// Everything but deciding on owners.
    Admin,
    /// Report and read: tokens with the scopes INGEST and READ.
    Member,
    /// Read: tokens with the scope READ.
    Viewer,
    /// Read until a given time, as who helps out does: tokens with the scope READ.
    Guest,
}

names!(MemberRole);

/// Who is to become a member.
#[derive(InputObject)]
pub(super) struct AddMemberInput {
    /// The name the user signs in with: 1 to 63 lower-case letters, digits, '-' or '_', beginning with a letter or digit.
    /// Whoever has the name on this server is meant, and somebody new if nobody has.
    name: String,
    /// What the member may do; not more than whoever asks.
    role: MemberRole,
    /// Until when: needed for a GUEST, and taken for nobody else.
    until: Option<DateTime<Utc>>,
}

/// The outcome of a change of members.
#[derive(SimpleObject)]
pub(super) struct MemberPayload {
    /// The member as it is now; null when nothing was changed, and for a member who was removed.
    member: Option<Member>,
    /// The account as it is now.
    account: Account,
    /// Why nothing was changed; empty when it was.
    user_errors: Vec<AccessUserError>,
}

/// Why somebody's access is not to be changed so.
#[derive(SimpleObject)]
pub(super) struct AccessUserError {
    /// The field of the input, or the argument, it is about.
    field: &'static str,
    /// What is wrong, for programs.
    code: AccessErrorCode,
    /// What is wrong, for people.
    message: String,
}

/// What can be wrong with a change of somebody's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "AccessError")]
pub(super) enum AccessErrorCode {
    /// It cannot be the name of a user.
    #[graphql(name = "NAME_INVALID")]
    Name,
    /// It cannot be the label of a token.
    #[graphql(name = "LABEL_INVALID")]
    Label,
    /// A token needs a scope.
    NoScope,
    /// The token that asks lacks a scope itself.
    ScopeNotHeld,
    /// The user's role does not cover a scope.
    ScopeNotCovered,
    /// The expiry has passed.
    #[graphql(name = "EXPIRED")]
    Past,
    /// The token that asks is good for a shorter time.
    OutlivesOwn,
    /// The role is above that of who asks.
    AboveOwnRole,
    /// The role of the member it is about is above that of who asks.
    MemberAbove,
    /// A guest needs an end.
    #[graphql(name = "END_MISSING")]
    NoEnd,
    /// Only a guest has an end.
    EndNotTaken,
    /// The guest's time would be over at once.
    EndPast,
    /// The guest's time is over.
    #[graphql(name = "MEMBERSHIP_OVER")]
    Over,
    /// An invitation can be accepted for 30 days at the most.
    TooLate,
    /// There is no such invitation, or it cannot be accepted any more, or by somebody else only: these look the same.
    #[graphql(name = "INVITATION_INVALID")]
    NoInvitation,
    /// The user is a member.
    AlreadyMember,
    /// The account would be left without an owner.
    LastOwner,
    /// The account has as many as it may have: 10,000 members, or 1,000 tokens that are good, or as many
    /// invitations that can be accepted.
    TooMany,
}

impl AccessUserError {
    pub(super) fn new(field: &'static str, error: AccessError) -> Self {
        Self { field, code: error.into(), message: error.to_string() }
    }

    /// What speaks against a change, if it is a rule. `field` says what each is about.
    pub(super) fn of(
        refusal: Refusal,
        what: &'static str,
        field: impl Fn(AccessError) -> &'static str,
    ) -> Result<Vec<Self>, ApiError> {
        match refusal {
            Refusal::NotFound => Err(ApiError::NotFound(what)),
            Refusal::NoMember => Err(ApiError::Forbidden("you are not a member of the account".to_owned())),
            Refusal::Rules(errors) => {
                Ok(errors.into_iter().map(|error| Self::new(field(error), error)).collect())
            }
        }
    }
}

/// A page of the account's members.
pub(super) async fn members(
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<Member>, ApiError> {
    let sort = MemberSort::OldestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.member_page(sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let store = store.clone();
        async move { store.member_count().await }
    });
    Ok(Connection::new(page, sort, |row| Member::new(scope, row), total))
}

pub(super) async fn add_member(
    scope: &AccountScope,
    actor: UserId,
    input: AddMemberInput,
) -> Result<MemberPayload, ApiError> {
    let Ok(name) = input.name.parse::<Slug>() else {
        let user_errors = vec![AccessUserError::new("name", AccessError::Name)];
        return Ok(MemberPayload { member: None, account: Account(scope.clone()), user_errors });
    };
    let grant = grant(input.role, input.until);
    let outcome = member::add(&scope.store, actor, &name, grant, scope.now.into()).await?;
    payload(scope, outcome, (Action::AddMember, Target::Account), "name").await
}

pub(super) async fn set_member_role(
    scope: &AccountScope,
    actor: UserId,
    user: &ID,
    (role, until): (MemberRole, Option<DateTime<Utc>>),
) -> Result<MemberPayload, ApiError> {
    let user = User::identified(scope, "user", user)?;
    let after = Some(grant(role, until));
    let outcome = member::change(&scope.store, actor, user, after, scope.now.into()).await?;
    payload(scope, outcome, (Action::SetMemberRole, Target::User(user)), "user").await
}

pub(super) async fn remove_member(
    scope: &AccountScope,
    actor: UserId,
    user: &ID,
) -> Result<MemberPayload, ApiError> {
    let user = User::identified(scope, "user", user)?;
    let outcome = member::change(&scope.store, actor, user, None, scope.now.into()).await?;
    let attempt = (Action::RemoveMember, Target::User(user));
    let mut payload = payload(scope, outcome, attempt, "user").await?;
    payload.member = None;
    Ok(payload)
}

/// As what somebody is to be a member.
pub(super) fn grant(role: MemberRole, until: Option<DateTime<Utc>>) -> Grant {
    Grant { role: role.into(), ends_at: until.map(stored) }
}

/// The field that is wrong with what somebody is to be, if that is what is wrong.
pub(super) fn grant_field(error: AccessError) -> Option<&'static str> {
    match error {
        AccessError::AboveOwnRole => Some("role"),
        AccessError::NoEnd | AccessError::EndNotTaken | AccessError::EndPast => Some("until"),
        _ => None,
    }
}

/// `field` is what names the member.
async fn payload(
    scope: &AccountScope,
    outcome: Result<Model, Refusal>,
    attempt: (Action, Target),
    field: &'static str,
) -> Result<MemberPayload, ApiError> {
    let scope = scope.after_change();
    let (member, user_errors) = match outcome {
        Ok(row) => (Some(Member::new(&scope, row)), Vec::new()),
        Err(refusal) => {
            let about = |error| grant_field(error).unwrap_or(field);
            (None, scope.refused_by(attempt, refusal, "user", about).await?)
        }
    };
    Ok(MemberPayload { member, account: Account(scope), user_errors })
}
