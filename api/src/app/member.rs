//! Changes of an account's members by its members.
//!
//! Every rule is checked inside the changing transaction, against locked roles: two owners cannot remove
//! each other at the same time, and a user who is no longer an admin cannot change anything.

use entity::{
    Timestamp,
    audit_entry::Action,
    ids::UserId,
    membership::{Model, Role},
};
use serde_json::json;

use crate::{
    domain::{
        access::{AccessError, Grant, MAX_MEMBERS, check_change, check_grant},
        audit::{Entry, Target, membership_detail},
        slug::Slug,
        user::new_user,
    },
    store::{AccountStore, StoreError},
};

/// The reason why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The account has no such member.
    NotFound,
    /// The caller is no longer a member of the account.
    NoMember,
    /// A rule forbids the change.
    Rules(Vec<AccessError>),
}

impl From<Vec<AccessError>> for Refusal {
    fn from(errors: Vec<AccessError>) -> Self {
        Self::Rules(errors)
    }
}

impl From<AccessError> for Refusal {
    fn from(error: AccessError) -> Self {
        Self::Rules(vec![error])
    }
}

/// The result of a change: the new state, or the reason why nothing changed.
pub(crate) type Outcome<T> = Result<Result<T, Refusal>, StoreError>;

/// Adds the user with this name to the account. Creates the user if the name is unknown.
pub(crate) async fn add(
    store: &AccountStore,
    actor: UserId,
    name: &Slug,
    grant: Grant,
    now: Timestamp,
) -> Outcome<Model> {
    let new_user = new_user(name, &mut rand::rng(), now);
    store
        .write(move |store| {
            let new_user = new_user.clone();
            Box::pin(async move {
                let members = store.lock_members(&[actor]).await?;
                let Some(own_role) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                if let Err(errors) = check_grant(own_role, grant, now) {
                    return Ok(Err(errors.into()));
                }
                if store.member_count().await? >= MAX_MEMBERS {
                    return Ok(Err(AccessError::TooMany.into()));
                }
                let user = store.find_or_add_user(new_user).await?;
                let account_id = store.account_id();
                let Grant { role, ends_at } = grant;
                let member = Model { account_id, user_id: user.id, role, created_at: now, ends_at };
                if !store.add_membership(member.clone()).await? {
                    return Ok(Err(AccessError::AlreadyMember.into()));
                }
                let mut detail = membership_detail(role, ends_at);
                detail["name"] = user.name.into();
                store
                    .record_audit_entry(Entry::done(Action::AddMember, Target::User(user.id), detail))
                    .await?;
                Ok(Ok(member))
            })
        })
        .await
}

/// Changes the role and the end of a membership. Ends the membership if `after` is `None`.
pub(crate) async fn change(
    store: &AccountStore,
    actor: UserId,
    user: UserId,
    after: Option<Grant>,
    now: Timestamp,
) -> Outcome<Model> {
    change_as(store, actor, user, (after, Action::RemoveMember), now).await
}

/// Ends a membership, and deletes the user's clusters and performance reports. For a user who is no
/// longer a member, only these are deleted. Returns the number of deleted clusters.
pub(crate) async fn delete(
    store: &AccountStore,
    actor: UserId,
    user: UserId,
    now: Timestamp,
) -> Outcome<u64> {
    let change = change_as(store, actor, user, (None, Action::DeleteUser), now).await?;
    let is_former_member = matches!(change, Err(Refusal::NotFound));
    if let Err(refusal) = change
        && !is_former_member
    {
        return Ok(Err(refusal));
    }
    let clusters = store.delete_user_clusters(user, now).await?;
    store.delete_performance_reports_of(user).await?;
    if is_former_member {
        if clusters == 0 {
            return Ok(Err(Refusal::NotFound));
        }
        let detail = json!({ "clusters": clusters });
        store.record_audit_entry(Entry::done(Action::DeleteUser, Target::User(user), detail)).await?;
    }
    Ok(Ok(clusters))
}

/// Does the same as [`change`], and records the end of a membership under `removal_action`.
async fn change_as(
    store: &AccountStore,
    actor: UserId,
    user: UserId,
    (after, removal_action): (Option<Grant>, Action),
    now: Timestamp,
) -> Outcome<Model> {
    store
        .write(move |store| {
            Box::pin(async move {
                let members = store.lock_members(&[actor, user]).await?;
                let Some(own_role) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                let Some(member) = members.iter().find(|member| member.user_id == user) else {
                    return Ok(Err(Refusal::NotFound));
                };
                let owners = members.iter().filter(|member| member.role == Role::Owner).count();
                if let Err(errors) = check_change(own_role, member.role, after, owners, now) {
                    return Ok(Err(errors.into()));
                }
                let mut member = member.clone();
                // The audit entry is written before the membership ends, because that removes the
                // member's tokens, and the caller may be using one of them.
                let before = membership_detail(member.role, member.ends_at);
                let (action, detail) = match after {
                    Some(grant) => {
                        let after = membership_detail(grant.role, grant.ends_at);
                        (Action::SetMemberRole, json!({ "before": before, "after": after }))
                    }
                    None => (removal_action, json!({ "before": before })),
                };
                store.record_audit_entry(Entry::done(action, Target::User(user), detail)).await?;
                if let Some(grant) = after {
                    store.change_membership(user, grant).await?;
                    (member.role, member.ends_at) = (grant.role, grant.ends_at);
                } else {
                    store.remove_membership(user, now).await?;
                }
                Ok(Ok(member))
            })
        })
        .await
}

/// Returns the role of a user. `None` if the user is not among the members.
pub(super) fn role_of(members: &[Model], user: UserId) -> Option<Role> {
    grant_of(members, user).map(|grant| grant.role)
}

/// Returns the role and the end of a user's membership. `None` if the user is not among the members.
pub(super) fn grant_of(members: &[Model], user: UserId) -> Option<Grant> {
    let member = members.iter().find(|member| member.user_id == user)?;
    Some(Grant { role: member.role, ends_at: member.ends_at })
}
