//! Invitations of members to an account.

use async_graphql::{ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{audit_entry::Action, ids::UserId, invitation::Model};

use super::{
    member::{AccessUserError, MemberRole, field_of_grant_error, to_grant},
    user::User,
};
use crate::{
    app::invitation,
    clock::to_stored,
    domain::{
        access::{AccessError, NewInvitation, has_ended},
        audit::Target,
        slug::Slug,
        token::ApiToken,
    },
    graphql::engine::{
        connection::{Connection, PageArguments, total_count_by},
        error::ApiError,
        id::GlobalId,
        projection::inline_fields,
        scope::AccountScope,
    },
    store::InvitationSort,
};

/// An invitation. Its secret can be used once, to become a member.
pub(crate) struct Invitation {
    scope: AccountScope,
    row: Model,
}

impl Invitation {
    pub(crate) fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// An invitation to an account. Its secret can be used once, to become a member. The secret cannot be read
/// again, because the server stores only its hash.
#[Object]
impl Invitation {
    /// The global identifier.
    pub(crate) async fn id(&self) -> ID {
        GlobalId::Invitation(self.scope.account.id, self.row.id).into()
    }

    /// The identifier: the part of the secret before the dash. It is public and proves nothing.
    async fn identifier(&self) -> &str {
        &self.row.identifier
    }

    /// The name of the only user who can accept the invitation. Null if anyone with the secret can
    /// accept it.
    async fn name(&self) -> Option<&str> {
        self.row.name.as_deref()
    }

    /// The label, as entered by the member who created the invitation.
    async fn label(&self) -> &str {
        &self.row.label
    }

    /// The role of the future member.
    async fn role(&self) -> MemberRole {
        self.row.role.into()
    }

    /// The end of the membership of a guest. Null for any other role.
    async fn until(&self) -> Option<DateTime<Utc>> {
        self.row.ends_at.map(|end| end.0)
    }

    /// The member who created the invitation. Null if an operator created it, or if the user is no
    /// longer a member; in the latter case nobody can accept it.
    async fn invited_by(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.invited_by).await
    }

    /// The time of creation, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// The time until which the invitation can be accepted.
    async fn expires_at(&self) -> DateTime<Utc> {
        self.row.expires_at.0
    }

    /// The time at which the invitation was revoked. Null if it was not.
    async fn revoked_at(&self) -> Option<DateTime<Utc>> {
        self.row.revoked_at.map(|end| end.0)
    }

    /// The time at which the invitation was accepted. Null if it was not.
    async fn accepted_at(&self) -> Option<DateTime<Utc>> {
        self.row.accepted_at.map(|at| at.0)
    }

    /// The user who accepted the invitation. Null if nobody did, or if the user is no longer a member.
    async fn accepted_by(&self) -> Result<Option<User>, ApiError> {
        match self.row.accepted_by {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// True if the invitation was not accepted, not revoked, and has not expired. It cannot be accepted if
    /// the member who created it has left the account or may no longer grant the role.
    async fn is_open(&self) -> bool {
        let is_used = self.row.accepted_at.is_some() || self.row.revoked_at.is_some();
        !is_used && !has_ended(Some(self.row.expires_at), self.scope.now.into())
    }

    /// True if the viewer may revoke the invitation with `revokeInvitation`.
    async fn viewer_can_revoke(&self) -> bool {
        self.scope.manages(self.row.role)
    }
}

inline_fields! {
    Invitation: id, identifier, name, label, role, until, created_at, expires_at, revoked_at, accepted_at, is_open,
        viewer_can_revoke
}

/// The invitation to create.
#[derive(InputObject)]
pub(crate) struct InviteMemberInput {
    /// The name of the only user who can accept the invitation. If null, anyone with the secret can accept
    /// it. The response does not reveal if a user with this name exists.
    name: Option<String>,
    /// A label, such as an e-mail address; at most 200 characters. Nothing is sent to it.
    #[graphql(default)]
    label: String,
    /// The role of the future member. It must not exceed the caller's role, neither now nor when the
    /// invitation is accepted.
    role: MemberRole,
    /// The end of the membership. Required for a GUEST, not allowed for any other role.
    until: Option<DateTime<Utc>>,
    /// The time until which the invitation can be accepted, at most 30 days from now. 7 days from now if
    /// null.
    expires_at: Option<DateTime<Utc>>,
}

/// The outcome of `inviteMember`.
#[derive(SimpleObject)]
pub(crate) struct InviteMemberPayload {
    /// The secret, the argument of `acceptInvitation`. It is shown only here. Null if no invitation was
    /// created.
    secret: Option<String>,
    /// The invitation. Null if none was created.
    invitation: Option<Invitation>,
    /// The errors in the input. Empty if an invitation was created.
    user_errors: Vec<AccessUserError>,
}

/// The outcome of `revokeInvitation`.
#[derive(SimpleObject)]
pub(crate) struct RevokeInvitationPayload {
    /// The invitation after the change. Null if it was not revoked.
    invitation: Option<Invitation>,
    /// The errors in the input. Empty if the invitation was revoked.
    user_errors: Vec<AccessUserError>,
}

/// Returns a page of the account's invitations.
pub(crate) async fn invitations(
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<Invitation>, ApiError> {
    let sort = InvitationSort::NewestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.invitation_page(sort, &request).await?;
    let store = scope.store.clone();
    let total = total_count_by(move || {
        let store = store.clone();
        async move { store.invitation_count().await }
    });
    Ok(Connection::new(page, sort, |row| Invitation::new(scope, row), total))
}

pub(crate) async fn invite_member(
    scope: &AccountScope,
    actor: UserId,
    input: InviteMemberInput,
) -> Result<InviteMemberPayload, ApiError> {
    let refused = |user_errors| InviteMemberPayload { secret: None, invitation: None, user_errors };
    let Ok(name) = input.name.map(|name| name.parse::<Slug>()).transpose() else {
        return Ok(refused(vec![AccessUserError::new("name", AccessError::Name)]));
    };
    let new_invitation = NewInvitation {
        name,
        label: input.label,
        grant: to_grant(input.role, input.until),
        expires_at: input.expires_at.map(to_stored),
    };
    match invitation::create(&scope.store, actor, new_invitation, scope.now.into()).await? {
        Ok((secret, row)) => Ok(InviteMemberPayload {
            secret: Some(secret.reveal()),
            invitation: Some(Invitation::new(scope, row)),
            user_errors: Vec::new(),
        }),
        Err(refusal) => {
            let error_field = |error| {
                field_of_grant_error(error).unwrap_or(match error {
                    AccessError::Label => "label",
                    AccessError::ExpiryPast | AccessError::TooLate => "expiresAt",
                    _ => "name",
                })
            };
            let attempt = (Action::InviteMember, Target::Account);
            Ok(refused(scope.refusal_errors(attempt, refusal, "user", error_field).await?))
        }
    }
}

pub(crate) async fn revoke_invitation(
    scope: &AccountScope,
    actor: UserId,
    identifier: String,
) -> Result<RevokeInvitationPayload, ApiError> {
    // Any other text is no identifier and cannot be queried: it might contain characters that the
    // database refuses.
    if !ApiToken::is_identifier(&identifier) {
        return Err(ApiError::NotFound("invitation"));
    }
    let attempt = (Action::RevokeInvitation, Target::Invitation(identifier.clone()));
    match invitation::revoke(&scope.store, actor, identifier, scope.now.into()).await? {
        Ok(row) => Ok(RevokeInvitationPayload {
            invitation: Some(Invitation::new(scope, row)),
            user_errors: Vec::new(),
        }),
        Err(refusal) => {
            let user_errors = scope.refusal_errors(attempt, refusal, "invitation", |_| "identifier").await?;
            Ok(RevokeInvitationPayload { invitation: None, user_errors })
        }
    }
}
