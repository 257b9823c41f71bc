//! Whom members invited to an account.

use async_graphql::{InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use entity::{audit_entry::Action, ids::UserId, invitation::Model};

use super::{
    connection::{Connection, PageArguments, counted},
    error::ApiError,
    in_place::in_place,
    member::{AccessUserError, MemberRole, grant, grant_field},
    scope::AccountScope,
    user::User,
};
use crate::{
    app::invitation,
    clock::stored,
    domain::{
        access::{AccessError, InvitationWish, is_over},
        audit::Target,
        slug::Slug,
        token::ApiToken,
    },
    store::InvitationSort,
};

/// What makes a member of whoever shows its secret, once.
pub(super) struct Invitation {
    scope: AccountScope,
    row: Model,
}

impl Invitation {
    fn new(scope: &AccountScope, row: Model) -> Self {
        Self { scope: scope.clone(), row }
    }
}

/// What makes a member of whoever shows its secret, once. The secret itself nobody can read again, the server least of all.
#[Object]
impl Invitation {
    /// The public half: what stands in front of the dash. It proves nothing.
    async fn identifier(&self) -> &str {
        &self.row.identifier
    }

    /// The name of the user who alone may accept it; null if whoever has the secret may.
    async fn name(&self) -> Option<&str> {
        self.row.name.as_deref()
    }

    /// Whom it is for, in words of who made it.
    async fn label(&self) -> &str {
        &self.row.label
    }

    /// What the member may do.
    async fn role(&self) -> MemberRole {
        self.row.role.into()
    }

    /// Until when a guest is a member; null for everybody else.
    async fn until(&self) -> Option<DateTime<Utc>> {
        self.row.ends_at.map(|end| end.0)
    }

    /// Who made it; null if an operator did, or somebody who is no member any more, whose invitation nobody can accept.
    async fn invited_by(&self) -> Result<Option<User>, ApiError> {
        User::find(&self.scope, self.row.invited_by).await
    }

    /// When it was made, by the server's clock.
    async fn created_at(&self) -> DateTime<Utc> {
        self.row.created_at.0
    }

    /// Until when it can be accepted.
    async fn expires_at(&self) -> DateTime<Utc> {
        self.row.expires_at.0
    }

    /// When somebody ended it; null if nobody did.
    async fn revoked_at(&self) -> Option<DateTime<Utc>> {
        self.row.revoked_at.map(|end| end.0)
    }

    /// When it was accepted; null if it was not.
    async fn accepted_at(&self) -> Option<DateTime<Utc>> {
        self.row.accepted_at.map(|at| at.0)
    }

    /// Who accepted it; null if nobody did, or somebody who is no member any more.
    async fn accepted_by(&self) -> Result<Option<User>, ApiError> {
        match self.row.accepted_by {
            Some(user) => User::find(&self.scope, user).await,
            None => Ok(None),
        }
    }

    /// Whether it waits to be accepted: it was neither accepted nor ended, and has not expired.
    async fn is_open(&self) -> bool {
        let is_used = self.row.accepted_at.is_some() || self.row.revoked_at.is_some();
        !is_used && !is_over(Some(self.row.expires_at), self.scope.now.into())
    }
}

in_place! {
    Invitation: identifier, name, label, role, until, created_at, expires_at, revoked_at, accepted_at, is_open
}

/// Who is invited, and as what.
#[derive(InputObject)]
pub(super) struct InviteMemberInput {
    /// The name of the user who alone may accept it; whoever has the secret may if not given. Nothing is told of whether
    /// anybody has the name.
    name: Option<String>,
    /// Whom it is for, in words, as an e-mail address; at most 200 characters. Nothing is sent there.
    #[graphql(default)]
    label: String,
    /// What the member may do; not more than whoever asks, neither now nor when it is accepted.
    role: MemberRole,
    /// Until when: needed for a GUEST, and taken for nobody else.
    until: Option<DateTime<Utc>>,
    /// Until when it can be accepted, at most 30 days; 7 days if not given.
    expires_at: Option<DateTime<Utc>>,
}

/// The outcome of `inviteMember`.
#[derive(SimpleObject)]
pub(super) struct InviteMemberPayload {
    /// What whoever is invited gives to `acceptInvitation`. It is shown here and never again; null when none was made.
    secret: Option<String>,
    /// The invitation; null when none was made.
    invitation: Option<Invitation>,
    /// Why none was made; empty when one was.
    user_errors: Vec<AccessUserError>,
}

/// The outcome of `revokeInvitation`.
#[derive(SimpleObject)]
pub(super) struct RevokeInvitationPayload {
    /// The invitation as it is now; null when it was not ended.
    invitation: Option<Invitation>,
    /// Why it was not ended; empty when it was.
    user_errors: Vec<AccessUserError>,
}

/// A page of the account's invitations.
pub(super) async fn invitations(
    scope: &AccountScope,
    page: PageArguments,
) -> Result<Connection<Invitation>, ApiError> {
    let sort = InvitationSort::NewestFirst;
    let request = page.request(scope, sort)?;
    let page = scope.store.invitation_page(sort, &request).await?;
    let store = scope.store.clone();
    let total = counted(move || {
        let store = store.clone();
        async move { store.invitation_count().await }
    });
    Ok(Connection::new(page, sort, |row| Invitation::new(scope, row), total))
}

pub(super) async fn invite_member(
    scope: &AccountScope,
    actor: UserId,
    input: InviteMemberInput,
) -> Result<InviteMemberPayload, ApiError> {
    let refused = |user_errors| InviteMemberPayload { secret: None, invitation: None, user_errors };
    let Ok(name) = input.name.map(|name| name.parse::<Slug>()).transpose() else {
        return Ok(refused(vec![AccessUserError::new("name", AccessError::Name)]));
    };
    let wish = InvitationWish {
        name,
        label: input.label,
        grant: grant(input.role, input.until),
        expires_at: input.expires_at.map(stored),
    };
    match invitation::create(&scope.store, actor, wish, scope.now.into()).await? {
        Ok((secret, row)) => Ok(InviteMemberPayload {
            secret: Some(secret.reveal()),
            invitation: Some(Invitation::new(scope, row)),
            user_errors: Vec::new(),
        }),
        Err(refusal) => {
            let about = |error| {
                grant_field(error).unwrap_or(match error {
                    AccessError::Label => "label",
                    AccessError::Past | AccessError::TooLate => "expiresAt",
                    _ => "name",
                })
            };
            let attempt = (Action::InviteMember, Target::Account);
            Ok(refused(scope.refused_by(attempt, refusal, "user", about).await?))
        }
    }
}

pub(super) async fn revoke_invitation(
    scope: &AccountScope,
    actor: UserId,
    identifier: String,
) -> Result<RevokeInvitationPayload, ApiError> {
    // Nothing else is one, and not everything can be asked for.
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
            let user_errors = scope.refused_by(attempt, refusal, "invitation", |_| "identifier").await?;
            Ok(RevokeInvitationPayload { invitation: None, user_errors })
        }
    }
}
