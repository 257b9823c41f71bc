//! Those whom another issuer sends and who become members by that, once.

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

use super::{audit_entry, connect::IMMEDIATE, error::StoreError, identity::SystemStore};
use crate::domain::{
    access::MAX_MEMBERS,
    audit::{Actor, Entry, Target, membership_detail},
    slug::Slug,
};

/// Somebody whom another issuer sends.
#[derive(Clone, Debug)]
pub struct Newcomer {
    /// Who sends them.
    pub issuer: String,
    /// What the issuer calls them.
    pub subject: String,
    /// Who they are to be here, if they are nobody yet.
    pub user: user::Model,
    /// The account they come to.
    pub account: Slug,
    /// As what.
    pub role: membership::Role,
    /// What they come with.
    pub credential: audit::Credential,
}

/// A place for a newcomer.
struct Place {
    account: AccountId,
    /// Who it is, if somebody here already.
    user: Option<UserId>,
}

#[expect(clippy::disallowed_methods, reason = "who comes for the first time is no member of an account yet")]
impl SystemStore {
    /// Makes somebody a member of an account, and a user first if they are nobody yet. Nothing is made of who was a member
    /// before, whether others removed them or their time is over: the account has decided on them.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the same was done meanwhile, or the user's name is taken; nothing is made then.
    #[tracing::instrument(name = "store.newcomer.admit", skip_all)]
    pub async fn admit_newcomer(&self, newcomer: Newcomer, now: Timestamp) -> Result<(), StoreError> {
        // Who is not admitted may come again and again, and does not have to wait for writers, nor they for them.
        if place(&self.pools.reader, &newcomer).await?.is_none() {
            return Ok(());
        }
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        let Some(Place { account, user }) = place(&transaction, &newcomer).await? else { return Ok(()) };
        let members = membership::Entity::find().filter(membership::Column::AccountId.eq(account));
        if members.count(&transaction).await? >= MAX_MEMBERS {
            tracing::warn!(account = newcomer.account.as_str(), "the account has as many members as it may");
            return Ok(());
        }
        let newcomer_issuer = newcomer.issuer.clone();
        let Newcomer { issuer, subject, user: new_user, role, credential, .. } = newcomer;
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
        let actor = Actor::newcomer(user_id, name, credential, now);
        let mut detail = membership_detail(role, None);
        detail["issuer"] = newcomer_issuer.into();
        let entry = Entry::done(Action::JoinBySignIn, Target::User(user_id), detail);
        audit_entry::add(&transaction, account, &actor, entry).await?;
        transaction.commit().await?;
        tracing::info!(%account, user = %user_id, ?role, "somebody became a member by signing in");
        Ok(())
    }
}

/// Where a newcomer may go; none if the account does not exist, or has decided on them.
#[expect(clippy::disallowed_methods, reason = "who comes for the first time is no member of an account yet")]
async fn place(database: &impl ConnectionTrait, newcomer: &Newcomer) -> Result<Option<Place>, StoreError> {
    let by_slug = account::Entity::find().filter(account::Column::Slug.eq(newcomer.account.as_str()));
    let Some(account) = by_slug.one(database).await? else { return Ok(None) };
    let key = (newcomer.issuer.clone(), newcomer.subject.clone());
    let Some(known) = identity::Entity::find_by_id(key).one(database).await? else {
        return Ok(Some(Place { account: account.id, user: None }));
    };
    let key = (account.id, known.user_id);
    let has_decided = membership::Entity::find_by_id(key).one(database).await?.is_some()
        || removed_member::Entity::find_by_id(key).one(database).await?.is_some();
    Ok((!has_decided).then_some(Place { account: account.id, user: Some(known.user_id) }))
}
