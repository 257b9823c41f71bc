//! The members of an account, and who they are.

use std::collections::HashMap;

use entity::{
    Timestamp,
    audit_entry::Action,
    ids::{AccountId, UserId},
    membership::{Column, Entity, Model, Role},
    removed_member, user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Set, TransactionTrait,
    sea_query::{Expr, ExprTrait, OnConflict},
};
use serde_json::json;

use super::{
    audit_entry,
    connect::IMMEDIATE,
    error::StoreError,
    identity::SystemStore,
    page::{self, Key, KeyPart, Page, PageRequest, Sort},
    scoped::AccountStore,
    upsert::{first_wins, replace},
};
use crate::domain::{
    access::Grant,
    audit::{Actor, Entry, Target, membership_detail},
};

/// The orders members can be listed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberSort {
    /// Who became one first comes first.
    OldestFirst,
}

impl Sort for MemberSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "member_since:asc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::CreatedAt, Column::UserId]
    }

    fn descending(self) -> bool {
        false
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.created_at.into(), row.user_id.into()])
    }
}

impl AccountStore {
    /// A page of the account's members.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.member.page", skip_all)]
    pub async fn member_page(
        &self,
        sort: MemberSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.reads(), self.select::<Entity>(), sort, request).await
    }

    /// How many members the account has.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.member.count", skip_all)]
    pub async fn member_count(&self) -> Result<u64, StoreError> {
        Ok(self.select::<Entity>().count(&self.reads()).await?)
    }

    /// The members of the account among `ids`, in no particular order.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.user.by_id", skip_all)]
    pub async fn users_by_id(&self, ids: &[UserId]) -> Result<HashMap<UserId, user::Model>, StoreError> {
        let members = self
            .select::<Entity>()
            .filter(Column::UserId.is_in(ids.iter().copied()))
            .find_also_related(user::Entity)
            .all(&self.reads())
            .await?;
        Ok(members.into_iter().filter_map(|(_, user)| user.map(|user| (user.id, user))).collect())
    }

    /// The member of the account who has a name.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.member.named", skip_all)]
    pub async fn member_named(&self, name: &str) -> Result<Option<UserId>, StoreError> {
        let member = self
            .select::<Entity>()
            .find_also_related(user::Entity)
            .filter(user::Column::Name.eq(name))
            .one(&self.reads())
            .await?;
        Ok(member.map(|(member, _)| member.user_id))
    }

    /// The members among `ids` and all owners, held against other writers until the transaction ends: whoever decides
    /// by their roles decides by what they still are when it commits.
    pub(crate) async fn lock_members(&self, ids: &[UserId]) -> Result<Vec<Model>, StoreError> {
        let wanted = Column::UserId.is_in(ids.iter().copied()).or(Column::Role.eq(Role::Owner));
        // In one order, so that two who do this do not wait for each other.
        let locked = self.select::<Entity>().filter(wanted).order_by_asc(Column::UserId).lock_exclusive();
        Ok(locked.all(&self.writes()).await?)
    }

    /// The user with the name of `new`, who is added if there is none. Users belong to no account: who has a name in
    /// several is one.
    #[expect(
        clippy::disallowed_methods,
        reason = "users belong to no account, and are nothing but a name here"
    )]
    pub(crate) async fn user_named(&self, new: user::Model) -> Result<user::Model, StoreError> {
        let by_name = user::Entity::find().filter(user::Column::Name.eq(new.name.as_str()));
        let once = OnConflict::column(user::Column::Name).do_nothing().to_owned();
        let insert = user::Entity::insert_many([new.into_active_model().reset_all()]).on_conflict(once);
        insert.exec_without_returning(&self.writes()).await?;
        by_name.one(&self.writes()).await?.ok_or_else(StoreError::no_free_identifier)
    }

    /// Makes a user a member. Returns whether that is new.
    pub(crate) async fn add_membership(&self, member: Model) -> Result<bool, StoreError> {
        Ok(self.insert::<Entity>(vec![member], &first_wins::<Entity>()).await? == 1)
    }

    /// Makes something else of a member.
    pub(crate) async fn change_membership(&self, user: UserId, grant: Grant) -> Result<(), StoreError> {
        let update = self
            .update::<Entity>()
            .col_expr(Column::Role, Expr::val(grant.role))
            .col_expr(Column::EndsAt, Expr::val(grant.ends_at));
        update.filter(Column::UserId.eq(user)).exec(&self.writes()).await?;
        self.announce_access();
        Ok(())
    }

    /// Ends a membership, and with it all tokens that were made under it. That it was ended is kept: what others say of the
    /// user does not bring them back.
    pub(crate) async fn remove_membership(&self, user: UserId, now: Timestamp) -> Result<(), StoreError> {
        self.delete::<Entity>().filter(Column::UserId.eq(user)).exec(&self.writes()).await?;
        let removed = removed_member::Model { account_id: self.account_id(), user_id: user, removed_at: now };
        self.insert::<removed_member::Entity>(vec![removed], &replace::<removed_member::Entity>()).await?;
        self.announce_access();
        Ok(())
    }
}

/// What came of it when an operator changed a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorChange {
    /// It was done.
    Done,
    /// The user is no member.
    NoMember,
    /// The account would be left without an owner.
    LastOwner,
}

#[expect(clippy::disallowed_methods, reason = "operators are no members of an account")]
impl SystemStore {
    /// Makes something else of a member, or ends the membership if there is nothing else, as operators may: whatever the
    /// roles are, an account keeps an owner.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    pub async fn change_member(
        &self,
        account: AccountId,
        user: UserId,
        after: Option<Grant>,
        by: &Actor,
    ) -> Result<OperatorChange, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let wanted = Column::UserId.eq(user).or(Column::Role.eq(Role::Owner));
        let of_account = Entity::find().filter(Column::AccountId.eq(account)).filter(wanted);
        let members = of_account.order_by_asc(Column::UserId).lock_exclusive().all(&transaction).await?;
        let Some(member) = members.iter().find(|member| member.user_id == user) else {
            return Ok(OperatorChange::NoMember);
        };
        let owners = members.iter().filter(|member| member.role == Role::Owner).count();
        if member.role == Role::Owner && owners == 1 && after.is_none_or(|after| after.role != Role::Owner) {
            return Ok(OperatorChange::LastOwner);
        }
        let before = membership_detail(member.role, member.ends_at);
        let (action, detail) = match after {
            Some(grant) => {
                let after = membership_detail(grant.role, grant.ends_at);
                (Action::SetMemberRole, json!({ "before": before, "after": after }))
            }
            None => (Action::RemoveMember, json!({ "before": before })),
        };
        audit_entry::add(&transaction, account, by, Entry::done(action, Target::User(user), detail)).await?;
        let mut member = member.clone().into_active_model();
        if let Some(grant) = after {
            (member.role, member.ends_at) = (Set(grant.role), Set(grant.ends_at));
            member.update(&transaction).await?;
        } else {
            member.delete(&transaction).await?;
            let removed = removed_member::Model { account_id: account, user_id: user, removed_at: by.at };
            removed_member::Entity::insert_many([removed.into_active_model().reset_all()])
                .on_conflict(replace::<removed_member::Entity>())
                .exec_without_returning(&transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(OperatorChange::Done)
    }
}
