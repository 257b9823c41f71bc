//! Who belongs to an account, as its members decide it.
//!
//! Every rule is asked inside the transaction that changes something, by roles that are locked there: two owners
//! cannot remove each other at the same time, and who is no admin any more changes nothing.

use entity::{
    Timestamp,
    ids::UserId,
    membership::{Model, Role},
};

use super::account::new_user;
use crate::{
    domain::{
        access::{AccessError, MAX_MEMBERS, check_role},
        role::manages,
        slug::Slug,
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
    role: Role,
    now: Timestamp,
) -> Outcome<Model> {
    let new = new_user(name, now);
    store
        .write(move |store| {
            let new = new.clone();
            Box::pin(async move {
                let members = store.lock_members(&[actor]).await?;
                let Some(own) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                if !manages(own, role) {
                    return Ok(Err(AccessError::AboveOwnRole.into()));
                }
                if store.member_count().await? >= MAX_MEMBERS {
                    return Ok(Err(AccessError::TooMany.into()));
                }
                let user = store.user_named(new).await?;
                let account_id = store.account_id();
                let member = Model { account_id, user_id: user.id, role, created_at: now, ends_at: None };
                let is_new = store.add_membership(member.clone()).await?;
                Ok(if is_new { Ok(member) } else { Err(AccessError::AlreadyMember.into()) })
            })
        })
        .await
}

/// Gives a member another role, or ends the membership if there is none.
pub(crate) async fn change(
    store: &AccountStore,
    actor: UserId,
    user: UserId,
    role: Option<Role>,
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
                if let Err(error) = check_role(own, member.role, role, owners) {
                    return Ok(Err(error.into()));
                }
                match role {
                    Some(role) => store.set_role(user, role).await?,
                    None => store.remove_membership(user).await?,
                }
                Ok(Ok(Model { role: role.unwrap_or(member.role), ..member.clone() }))
            })
        })
        .await
}

/// What a user is, if one of the members.
pub(super) fn role_of(members: &[Model], user: UserId) -> Option<Role> {
    members.iter().find(|member| member.user_id == user).map(|member| member.role)
}
