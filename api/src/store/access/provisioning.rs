//! Automatic membership for users who sign in through another issuer.

use entity::{
    Timestamp, account,
    audit_entry::{self as audit, Action},
    identity,
    ids::{AccountId, UserId},
    membership, removed_member, user,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter, TransactionTrait,
};

use crate::{
    domain::{
        access::MAX_MEMBERS,
        audit::{Actor, Entry, Target, membership_detail},
        slug::Slug,
    },
    store::core::{audit_log, connect::IMMEDIATE_TRANSACTION, error::StoreError, system::SystemStore},
};

/// A user that another issuer signs in.
#[derive(Clone, Debug)]
pub struct ProvisionedUser {
    /// The issuer.
    pub issuer: String,
    /// The issuer's subject for the user.
    pub subject: String,
    /// The user to add if the identity is unknown.
    pub user: user::Model,
    /// The account that the user becomes a member of.
    pub account: Slug,
    /// The role of the membership.
    pub role: membership::Role,
    /// The credential presented at the sign-in.
    pub credential: audit::Credential,
}

/// The account that admits a newcomer.
struct ProvisioningTarget {
    account: AccountId,
    /// The user that the identity is linked to. `None` if the identity is unknown.
    user: Option<UserId>,
}

#[expect(clippy::disallowed_methods, reason = "a newcomer is not a member of an account yet")]
impl SystemStore {
    /// Makes a newcomer a member of an account, and adds the user first if the identity is unknown. Does
    /// nothing if the user is or was a member of the account, even if the membership was removed or has
    /// ended: the account has already decided about the user.
    ///
    /// # Errors
    /// Returns [`StoreError::Conflict`] if the same was done meanwhile, or the user's name is taken.
    /// Nothing is added in that case.
    #[tracing::instrument(name = "store.newcomer.admit", skip_all)]
    pub async fn provision_member(
        &self,
        newcomer: ProvisionedUser,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // A user that is not admitted may sign in again and again. The read outside the transaction
        // avoids the writers' lock for them.
        if find_provisioning_target(&self.pools.reader, &newcomer).await?.is_none() {
            return Ok(());
        }
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE_TRANSACTION).await?;
        let Some(ProvisioningTarget { account, user }) =
            find_provisioning_target(&transaction, &newcomer).await?
        else {
            return Ok(());
        };
        let members = membership::Entity::find().filter(membership::Column::AccountId.eq(account));
        if members.count(&transaction).await? >= MAX_MEMBERS {
            tracing::warn!(
                account = newcomer.account.as_str(),
                "the account has reached its limit of members; the user was not added"
            );
            return Ok(());
        }
        let newcomer_issuer = newcomer.issuer.clone();
        let ProvisionedUser { issuer, subject, user: new_user, role, credential, .. } = newcomer;
        let name = new_user.name.clone();
        let user_id = if let Some(user) = user {
            user
        } else {
            let user_id = new_user.into_active_model().reset_all().insert(&transaction).await?.id;
            let identity = identity::Model { issuer, subject, user_id, created_at: now };
            identity.into_active_model().reset_all().insert(&transaction).await?;
            user_id
        };
        let member = membership::Model { account_id: account, user_id, role, created_at: now, ends_at: None };
        member.into_active_model().reset_all().insert(&transaction).await?;
        let actor = Actor::first_login(user_id, name, credential, now);
        let mut detail = membership_detail(role, None);
        detail["issuer"] = newcomer_issuer.into();
        let entry = Entry::done(Action::JoinBySignIn, Target::User(user_id), detail);
        audit_log::insert_audit_entry(&transaction, account, &actor, entry).await?;
        transaction.commit().await?;
        tracing::info!(%account, user = %user_id, ?role, "member added at sign-in");
        Ok(())
    }
}

/// Returns the account that admits a newcomer. `None` if the account does not exist or has already
/// decided about the user.
#[expect(clippy::disallowed_methods, reason = "a newcomer is not a member of an account yet")]
async fn find_provisioning_target(
    database: &impl ConnectionTrait,
    newcomer: &ProvisionedUser,
) -> Result<Option<ProvisioningTarget>, StoreError> {
    let accounts_of_slug =
        account::Entity::find().filter(account::Column::Slug.eq(newcomer.account.as_str()));
    let Some(account) = accounts_of_slug.one(database).await? else { return Ok(None) };
    let key = (newcomer.issuer.clone(), newcomer.subject.clone());
    let Some(known_identity) = identity::Entity::find_by_id(key).one(database).await? else {
        return Ok(Some(ProvisioningTarget { account: account.id, user: None }));
    };
    let key = (account.id, known_identity.user_id);
    let has_decided = membership::Entity::find_by_id(key).one(database).await?.is_some()
        || removed_member::Entity::find_by_id(key).one(database).await?.is_some();
    Ok((!has_decided)
        .then_some(ProvisioningTarget { account: account.id, user: Some(known_identity.user_id) }))
}
