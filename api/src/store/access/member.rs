//! The members of an account, and their users.

use std::collections::HashMap;

use entity::{
    Timestamp,
    audit_entry::Action,
    cluster,
    ids::{AccountId, UserId},
    membership::{Column, Entity, Model, Relation, Role},
    removed_member, user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, JoinType, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, RelationTrait, Set, TransactionTrait,
    sea_query::{Expr, ExprTrait, OnConflict},
};
use serde_json::json;

use crate::{
    bus::ChangeKinds,
    domain::{
        access::Grant,
        audit::{Actor, Entry, Target, membership_detail},
    },
    store::core::{
        audit_log,
        composite_in::IsOneOf,
        connect::IMMEDIATE_TRANSACTION,
        error::StoreError,
        page::{self, Key, KeyPart, Page, PageRequest, Sort},
        read_rows::ReadSelect,
        scoped::AccountStore,
        system::SystemStore,
        upsert::{keep_existing_row, replace},
    },
};

/// The sort orders of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemberSort {
    /// By the start of the membership, the oldest first.
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
    /// Returns a page of the account's members.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.member.page", skip_all)]
    pub async fn member_page(
        &self,
        sort: MemberSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.read_executor(), self.select::<Entity>(), sort, request).await
    }

    /// Returns the membership of a user.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.member.get", skip_all)]
    pub async fn membership(&self, user: UserId) -> Result<Option<Model>, StoreError> {
        Ok(self.select::<Entity>().filter(Column::UserId.eq(user)).one(&self.read_executor()).await?)
    }

    /// Returns the number of the account's members.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.member.count", skip_all)]
    pub async fn member_count(&self) -> Result<u64, StoreError> {
        Ok(self.select::<Entity>().count(&self.read_executor()).await?)
    }

    /// Returns the users among `ids` that are members of the account.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.user.by_id", skip_all)]
    pub async fn users_by_id(&self, ids: &[UserId]) -> Result<HashMap<UserId, user::Model>, StoreError> {
        let members = self
            .select::<Entity>()
            .filter(Column::UserId.is_one_of(ids.iter().copied()))
            .find_also_related(user::Entity)
            .all(&self.read_executor())
            .await?;
        Ok(members.into_iter().filter_map(|(_, user)| user.map(|user| (user.id, user))).collect())
    }

    /// Returns members who have clusters and whose name contains a text, in the order of their names.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.member.find", skip_all)]
    pub async fn find_users_with_clusters(
        &self,
        text: &str,
        limit: u64,
    ) -> Result<Vec<user::Model>, StoreError> {
        let clusters =
            self.select::<cluster::Entity>().select_only().expr(Expr::val(1)).filter(
                Expr::col((cluster::Entity, cluster::Column::UserId)).equals((Entity, Column::UserId)),
            );
        let name = r#""users"."name""#;
        let members = self
            .select::<Entity>()
            .join(JoinType::InnerJoin, Relation::User.def())
            .filter(self.contains(name, text))
            .filter(Expr::exists(clusters.into_query()))
            .select_only()
            .columns([user::Column::Id, user::Column::Name, user::Column::CreatedAt])
            .order_by_asc(self.by_bytes(name))
            .limit(limit);
        Ok(members.into_model().all(&self.read_executor()).await?)
    }

    /// Returns the roles of those of the users who are members of the account.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.member.roles", skip_all)]
    pub async fn member_roles(&self, ids: &[UserId]) -> Result<HashMap<UserId, Role>, StoreError> {
        let members = self.select::<Entity>().filter(Column::UserId.is_one_of(ids.iter().copied()));
        let members = members.read_models(&self.read_executor()).await?;
        Ok(members.into_iter().map(|member| (member.user_id, member.role)).collect())
    }

    /// Returns the member of the account with this name.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.member.named", skip_all)]
    pub async fn member_named(&self, name: &str) -> Result<Option<UserId>, StoreError> {
        let member = self
            .select::<Entity>()
            .find_also_related(user::Entity)
            .filter(user::Column::Name.eq(name))
            .one(&self.read_executor())
            .await?;
        Ok(member.map(|(member, _)| member.user_id))
    }

    /// Returns the members among `ids` and all owners, locked until the transaction ends. A decision by
    /// their roles therefore still holds at the commit.
    pub(crate) async fn lock_members(&self, ids: &[UserId]) -> Result<Vec<Model>, StoreError> {
        let condition = Column::UserId.is_one_of(ids.iter().copied()).or(Column::Role.eq(Role::Owner));
        // All transactions lock in the same order, so that two of them cannot deadlock.
        let locked = self.select::<Entity>().filter(condition).order_by_asc(Column::UserId).lock_exclusive();
        Ok(locked.all(&self.write_executor()).await?)
    }

    /// Returns the stored user with the name of `user`, and adds `user` if there is none. Users belong to no
    /// account: the same name in several accounts is the same user.
    #[expect(
        clippy::disallowed_methods,
        reason = "users belong to no account, and only their names are read here"
    )]
    pub(crate) async fn find_or_add_user(&self, user: user::Model) -> Result<user::Model, StoreError> {
        let users_of_name = user::Entity::find().filter(user::Column::Name.eq(user.name.as_str()));
        let keep_existing = OnConflict::column(user::Column::Name).do_nothing().to_owned();
        let insert =
            user::Entity::insert_many([user.into_active_model().reset_all()]).on_conflict(keep_existing);
        insert.exec_without_returning(&self.write_executor()).await?;
        users_of_name.one(&self.write_executor()).await?.ok_or_else(StoreError::no_free_identifier)
    }

    /// Makes a user a member. Returns false if the user already is one.
    pub(crate) async fn add_membership(&self, member: Model) -> Result<bool, StoreError> {
        Ok(self.insert::<Entity>(vec![member], &keep_existing_row::<Entity>()).await? == 1)
    }

    /// Changes the role and the end of a membership.
    pub(crate) async fn change_membership(&self, user: UserId, grant: Grant) -> Result<(), StoreError> {
        let update = self
            .update::<Entity>()
            .col_expr(Column::Role, Expr::val(grant.role))
            .col_expr(Column::EndsAt, Expr::val(grant.ends_at));
        update.filter(Column::UserId.eq(user)).exec(&self.write_executor()).await?;
        self.announce_account(ChangeKinds::ACCESS);
        Ok(())
    }

    /// Deletes a membership and with it all tokens made under it. The removal is recorded, so that a
    /// later sign-in through another issuer does not restore the membership.
    pub(crate) async fn remove_membership(&self, user: UserId, now: Timestamp) -> Result<(), StoreError> {
        self.delete::<Entity>().filter(Column::UserId.eq(user)).exec(&self.write_executor()).await?;
        let removal_record =
            removed_member::Model { account_id: self.account_id(), user_id: user, removed_at: now };
        self.insert::<removed_member::Entity>(vec![removal_record], &replace::<removed_member::Entity>())
            .await?;
        self.announce_account(ChangeKinds::ACCESS);
        Ok(())
    }
}

/// The outcome of an operator's change of a membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorChange {
    /// The change was made.
    Done,
    /// The user is not a member.
    NoMember,
    /// The account would be left without an owner.
    LastOwner,
}

#[expect(clippy::disallowed_methods, reason = "operators are not members of an account")]
impl SystemStore {
    /// Changes a membership to the grant `after`, or deletes it if `after` is `None`, as operators may.
    /// An account always keeps an owner.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    pub async fn change_member(
        &self,
        account: AccountId,
        user: UserId,
        after: Option<Grant>,
        actor: &Actor,
    ) -> Result<OperatorChange, StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let is_relevant = Column::UserId.eq(user).or(Column::Role.eq(Role::Owner));
        let relevant_members = Entity::find().filter(Column::AccountId.eq(account)).filter(is_relevant);
        let members =
            relevant_members.order_by_asc(Column::UserId).lock_exclusive().all(&transaction).await?;
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
        audit_log::insert_audit_entry(
            &transaction,
            account,
            actor,
            Entry::done(action, Target::User(user), detail),
        )
        .await?;
        let mut member = member.clone().into_active_model();
        if let Some(grant) = after {
            (member.role, member.ends_at) = (Set(grant.role), Set(grant.ends_at));
            member.update(&transaction).await?;
        } else {
            member.delete(&transaction).await?;
            let removal = removed_member::Model { account_id: account, user_id: user, removed_at: actor.at };
            removed_member::Entity::insert_many([removal.into_active_model().reset_all()])
                .on_conflict(replace::<removed_member::Entity>())
                .exec_without_returning(&transaction)
                .await?;
        }
        transaction.commit().await?;
        Ok(OperatorChange::Done)
    }
}
