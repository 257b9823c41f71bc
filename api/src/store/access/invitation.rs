//! Invitations: the list of an account, and acceptance by a user who presents the secret.

use entity::{
    Timestamp,
    audit_entry::Action,
    ids::{AccountId, InvitationId, UserId},
    invitation::{Column, Entity, Model},
    membership,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, Condition, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, TransactionTrait,
    sea_query::{Expr, OnConflict},
};
use serde_json::Value;
use uuid::Uuid;

use super::user::UserStore;
use crate::{
    domain::{
        access::{AccessError, MAX_MEMBERS, has_ended},
        audit::{Actor, Entry, Target, membership_detail},
        role::manages,
        token::ApiToken,
    },
    store::core::{
        audit_log,
        connect::IMMEDIATE_TRANSACTION,
        error::StoreError,
        page::{self, Key, KeyPart, Page, PageRequest, Sort},
        scoped::AccountStore,
        system::SystemStore,
    },
};

/// The user recorded as the author of what is created on the command line.
pub(crate) const OPERATOR: UserId = UserId(Uuid::nil());

/// The sort orders of invitations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InvitationSort {
    /// By creation time, the newest first.
    NewestFirst,
}

impl Sort for InvitationSort {
    type Entity = Entity;

    fn name(self) -> &'static str {
        "invitation_created_at:desc"
    }

    fn columns(self) -> Vec<Column> {
        vec![Column::CreatedAt, Column::Id]
    }

    fn descending(self) -> bool {
        true
    }

    fn accepts(self, key: &Key) -> bool {
        matches!(key.0[..], [KeyPart::Integer(_), KeyPart::Uuid(_)])
    }

    fn key(self, row: &Model) -> Key {
        Key(vec![row.created_at.into(), row.id.into()])
    }
}

/// The condition for invitations that can still be accepted.
fn is_open(now: Timestamp) -> Condition {
    Condition::all()
        .add(Column::AcceptedAt.is_null())
        .add(Column::RevokedAt.is_null())
        .add(Column::ExpiresAt.gt(now))
}

impl AccountStore {
    /// Returns a page of the account's invitations, in any state.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.invitation.page", skip_all)]
    pub async fn invitation_page(
        &self,
        sort: InvitationSort,
        request: &PageRequest,
    ) -> Result<Page<Model>, StoreError> {
        page::fetch(&self.read_executor(), self.select::<Entity>(), sort, request).await
    }

    /// Returns the invitation with the identifier of its row.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.invitation.get", skip_all)]
    pub async fn invitation_by_id(&self, id: InvitationId) -> Result<Option<Model>, StoreError> {
        Ok(self.select::<Entity>().filter(Column::Id.eq(id)).one(&self.read_executor()).await?)
    }

    /// Returns the number of the account's invitations, in any state.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.invitation.count", skip_all)]
    pub async fn invitation_count(&self) -> Result<u64, StoreError> {
        Ok(self.select::<Entity>().count(&self.read_executor()).await?)
    }

    /// Returns the number of the account's invitations that can still be accepted.
    pub(crate) async fn open_invitation_count(&self, now: Timestamp) -> Result<u64, StoreError> {
        Ok(self.select::<Entity>().filter(is_open(now)).count(&self.write_executor()).await?)
    }

    /// Returns the account's invitation with this identifier, the public half of its token.
    pub(crate) async fn invitation(&self, identifier: &str) -> Result<Option<Model>, StoreError> {
        let select = self.select::<Entity>().filter(Column::Identifier.eq(identifier));
        Ok(select.one(&self.write_executor()).await?)
    }

    /// Adds an invitation.
    pub(crate) async fn add_invitation(&self, invitation: Model) -> Result<(), StoreError> {
        self.insert::<Entity>(vec![invitation], &OnConflict::new().do_nothing().to_owned()).await?;
        Ok(())
    }

    /// Revokes an invitation. Returns false if it was already accepted or revoked.
    pub(crate) async fn revoke_invitation(
        &self,
        id: InvitationId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let revoked = self
            .update::<Entity>()
            .col_expr(Column::RevokedAt, Expr::val(now))
            .filter(Column::Id.eq(id))
            .filter(Column::RevokedAt.is_null())
            .filter(Column::AcceptedAt.is_null())
            .exec(&self.write_executor())
            .await?;
        Ok(revoked.rows_affected > 0)
    }
}

impl SystemStore {
    /// Adds an invitation on behalf of an operator, with its audit entry.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn add_invitation(
        &self,
        invitation: Model,
        actor: &Actor,
        detail: Value,
    ) -> Result<(), StoreError> {
        let (account, target) = (invitation.account_id, Target::Invitation(invitation.identifier.clone()));
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        invitation.into_active_model().reset_all().insert(&transaction).await?;
        let entry = Entry::done(Action::InviteMember, target, detail);
        audit_log::insert_audit_entry(&transaction, account, actor, entry).await?;
        transaction.commit().await?;
        Ok(())
    }
}

impl UserStore {
    /// Makes the user a member with the role of the invitation, and marks the invitation as accepted.
    /// Returns the same [`AccessError::NoInvitation`] for an unknown, expired, used or revoked
    /// invitation and for one that names another user.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Nothing is changed in that case.
    #[tracing::instrument(name = "store.invitation.accept", skip_all)]
    pub async fn accept_invitation(
        &self,
        token: &ApiToken,
        user_name: &str,
        actor: &Actor,
        now: Timestamp,
    ) -> Result<Result<AccountId, AccessError>, StoreError> {
        let transaction = self.writer().begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let accepted = accept(&transaction, (self.user(), user_name), token, now).await?;
        let accepted = accepted.map(|(account, detail)| {
            let target = Target::Invitation(token.identifier().to_owned());
            (account, Entry::done(Action::AcceptInvitation, target, detail))
        });
        let accepted = match accepted {
            Ok((account, entry)) => {
                audit_log::insert_audit_entry(&transaction, account, actor, entry).await?;
                Ok(account)
            }
            Err(error) => Err(error),
        };
        if accepted.is_ok() {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
        Ok(accepted)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the user who looks up an invitation is not a member of its account yet"
)]
async fn accept(
    transaction: &DatabaseTransaction,
    (user_id, user_name): (UserId, &str),
    token: &ApiToken,
    now: Timestamp,
) -> Result<Result<(AccountId, Value), AccessError>, StoreError> {
    let invitation =
        Entity::find().filter(Column::Identifier.eq(token.identifier())).one(transaction).await?;
    // The hashes are compared even without a row, so that the response time does not distinguish an
    // unknown identifier from a wrong secret.
    let hash = token.secret_hash();
    let matches =
        hash.matches(invitation.as_ref().map_or(&[0; 32], |invitation| invitation.secret_hash.as_slice()));
    let accepted_invitation = invitation
        .filter(|invitation| matches && invitation.name.as_ref().is_none_or(|name| name == user_name));
    let Some(Model { id, account_id, role, ends_at, invited_by, .. }) = accepted_invitation else {
        return Ok(Err(AccessError::NoInvitation));
    };
    // A concurrent acceptance of the same invitation waits at this update and then finds it used.
    let used = Entity::update_many()
        .col_expr(Column::AcceptedAt, Expr::val(now))
        .col_expr(Column::AcceptedBy, Expr::val(user_id))
        .filter(Column::Id.eq(id))
        .filter(is_open(now))
        .exec(transaction)
        .await?;
    // Nobody may grant more than they have, which is checked at acceptance too: the inviter may have
    // been removed or demoted since.
    let inviter = membership::Entity::find_by_id((account_id, invited_by)).one(transaction).await?;
    let inviter_may_grant =
        invited_by == OPERATOR || inviter.is_some_and(|inviter| manages(inviter.role, role));
    if used.rows_affected != 1 || !inviter_may_grant || has_ended(ends_at, now) {
        return Ok(Err(AccessError::NoInvitation));
    }
    let members = membership::Entity::find().filter(membership::Column::AccountId.eq(account_id));
    if members.count(transaction).await? >= MAX_MEMBERS {
        return Ok(Err(AccessError::TooMany));
    }
    match membership::Entity::find_by_id((account_id, user_id)).one(transaction).await? {
        Some(member) if !has_ended(member.ends_at, now) => return Ok(Err(AccessError::AlreadyMember)),
        // A returning guest gets the membership back, and the tokens made under it work again.
        Some(member) => {
            let mut member = member.into_active_model();
            member.role = sea_orm::Set(role);
            member.ends_at = sea_orm::Set(ends_at);
            member.update(transaction).await?;
        }
        None => {
            let member = membership::Model { account_id, user_id, role, created_at: now, ends_at };
            member.into_active_model().reset_all().insert(transaction).await?;
        }
    }
    Ok(Ok((account_id, membership_detail(role, ends_at))))
}
