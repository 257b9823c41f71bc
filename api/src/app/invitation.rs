//! Creation and revocation of invitations by the members of an account. Accepting one is part of the
//! store, because the accepting user is not a member yet.

use entity::{
    Timestamp,
    audit_entry::Action,
    ids::{AccountId, InvitationId, UserId},
    invitation::Model,
};
use serde_json::Value;
use uuid::Uuid;

use super::member::{Outcome, Refusal, role_of};
use crate::{
    domain::{
        access::{AccessError, MAX_INVITATIONS, NewInvitation, check_invitation},
        audit::{Entry, Target, membership_detail, time_detail},
        role::manages,
        token::ApiToken,
    },
    store::AccountStore,
};

/// Creates an invitation and returns its secret, which is not stored.
pub(crate) async fn create(
    store: &AccountStore,
    actor: UserId,
    invitation: NewInvitation,
    now: Timestamp,
) -> Outcome<(ApiToken, Model)> {
    store
        .write(move |store| {
            let invitation = invitation.clone();
            Box::pin(async move {
                let members = store.lock_members(&[actor]).await?;
                let Some(own_role) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                let expires_at = match check_invitation(own_role, &invitation, now) {
                    Ok(end) => end,
                    Err(errors) => return Ok(Err(errors.into())),
                };
                if store.open_invitation_count(now).await? >= MAX_INVITATIONS {
                    return Ok(Err(AccessError::TooMany.into()));
                }
                let (secret, row) = new_invitation((store.account_id(), actor), invitation, expires_at, now);
                store.add_invitation(row.clone()).await?;
                let target = Target::Invitation(row.identifier.clone());
                let detail = invitation_detail(&row);
                store.record_audit_entry(Entry::done(Action::InviteMember, target, detail)).await?;
                Ok(Ok((secret, row)))
            })
        })
        .await
}

/// Returns the audit detail of an invitation.
pub(super) fn invitation_detail(invitation: &Model) -> Value {
    let mut detail = membership_detail(invitation.role, invitation.ends_at);
    detail["name"] = invitation.name.clone().into();
    detail["label"] = invitation.label.clone().into();
    detail["expires_at"] = time_detail(Some(invitation.expires_at));
    detail
}

/// Revokes an invitation. One that has ended or was accepted does not change.
pub(crate) async fn revoke(
    store: &AccountStore,
    actor: UserId,
    identifier: String,
    now: Timestamp,
) -> Outcome<Model> {
    store
        .write(move |store| {
            let identifier = identifier.clone();
            Box::pin(async move {
                let members = store.lock_members(&[actor]).await?;
                let Some(own_role) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                let Some(invitation) = store.invitation(&identifier).await? else {
                    return Ok(Err(Refusal::NotFound));
                };
                if !manages(own_role, invitation.role) {
                    return Ok(Err(AccessError::AboveOwnRole.into()));
                }
                if store.revoke_invitation(invitation.id, now).await? {
                    let (target, detail) =
                        (Target::Invitation(identifier.clone()), invitation_detail(&invitation));
                    store.record_audit_entry(Entry::done(Action::RevokeInvitation, target, detail)).await?;
                }
                // Read again, because another request may have changed the invitation first.
                Ok(store.invitation(&identifier).await?.ok_or(Refusal::NotFound))
            })
        })
        .await
}

/// Returns a new invitation and its row, which is not stored yet. Its secret has the format of a token.
pub(super) fn new_invitation(
    (account_id, invited_by): (AccountId, UserId),
    invitation: NewInvitation,
    expires_at: Timestamp,
    now: Timestamp,
) -> (ApiToken, Model) {
    let secret = ApiToken::generate(&mut rand::rng());
    let row = Model {
        id: InvitationId(Uuid::now_v7()),
        identifier: secret.identifier().to_owned(),
        secret_hash: secret.secret_hash().to_vec(),
        account_id,
        name: invitation.name.map(|name| name.to_string()),
        label: invitation.label,
        role: invitation.grant.role,
        ends_at: invitation.grant.ends_at,
        invited_by,
        created_at: now,
        expires_at,
        revoked_at: None,
        accepted_at: None,
        accepted_by: None,
    };
    (secret, row)
}
