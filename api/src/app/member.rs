//! Who belongs to an account, as its members decide it.
//!
//! Every rule is asked inside the transaction that changes something, by roles that are locked there: two owners
//! cannot remove each other at the same time, and who is no admin any more changes nothing.

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

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The account has no such member.
    NotFound,
    /// Whoever asks is no member of the account any more.
    NoMember,
    /// A rule speaks against it.
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

/// What came of a change: what there is now, or why it is as it was.
pub(crate) type Outcome<T> = Result<Result<T, Refusal>, StoreError>;

/// Makes the user of a name a member.
pub(crate) async fn add(
    store: &AccountStore,
    actor: UserId,
    name: &Slug,
    grant: Grant,
    now: Timestamp,
) -> Outcome<Model> {
    let new = new_user(name, &mut rand::rng(), now);
    store
        .write(move |store| {
            let new = new.clone();
            Box::pin(async move {
                let members = store.lock_members(&[actor]).await?;
                let Some(own) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                if let Err(errors) = check_grant(own, grant, now) {
                    return Ok(Err(errors.into()));
                }
                if store.member_count().await? >= MAX_MEMBERS {
                    return Ok(Err(AccessError::TooMany.into()));
                }
                let user = store.user_named(new).await?;
                let account_id = store.account_id();
                let Grant { role, ends_at } = grant;
                let member = Model { account_id, user_id: user.id, role, created_at: now, ends_at };
                if !store.add_membership(member.clone()).await? {
                    return Ok(Err(AccessError::AlreadyMember.into()));
                }
                let mut detail = membership_detail(role, ends_at);
                detail["name"] = user.name.into();
                store.audit(Entry::done(Action::AddMember, Target::User(user.id), detail)).await?;
                Ok(Ok(member))
            })
        })
        .await
}

/// Makes something else of a member, or ends the membership if there is nothing else.
pub(crate) async fn change(
    store: &AccountStore,
    actor: UserId,
    user: UserId,
    after: Option<Grant>,
    now: Timestamp,
) -> Outcome<Model> {
    store
        .write(move |store| {
            Box::pin(async move {
                let members = store.lock_members(&[actor, user]).await?;
                let Some(own) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                let Some(member) = members.iter().find(|member| member.user_id == user) else {
                    return Ok(Err(Refusal::NotFound));
                };
                let owners = members.iter().filter(|member| member.role == Role::Owner).count();
                if let Err(errors) = check_change(own, member.role, after, owners, now) {
                    return Ok(Err(errors.into()));
                }
                let mut member = member.clone();
                // Before a token goes with the membership that ends: it may be the one this is done with.
                let before = membership_detail(member.role, member.ends_at);
                let (action, detail) = match after {
                    Some(grant) => {
                        let after = membership_detail(grant.role, grant.ends_at);
                        (Action::SetMemberRole, json!({ "before": before, "after": after }))
                    }
                    None => (Action::RemoveMember, json!({ "before": before })),
                };
                store.audit(Entry::done(action, Target::User(user), detail)).await?;
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

/// What a user may do, if one of the members.
pub(super) fn role_of(members: &[Model], user: UserId) -> Option<Role> {
    grant_of(members, user).map(|grant| grant.role)
}

/// As what a user is a member, if one of them.
pub(super) fn grant_of(members: &[Model], user: UserId) -> Option<Grant> {
    let member = members.iter().find(|member| member.user_id == user)?;
    Some(Grant { role: member.role, ends_at: member.ends_at })
}
