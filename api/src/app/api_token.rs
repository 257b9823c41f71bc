//! Creation and revocation of API tokens by the members of an account.

use entity::{Timestamp, api_token::Model, audit_entry::Action, ids::UserId};
use serde_json::{Value, json};

use super::{
    account::new_token,
    member::{Outcome, Refusal, grant_of, role_of},
};
use crate::{
    auth::Viewer,
    domain::{
        access::{AccessError, CallerAccess, MAX_TOKENS, NewToken, check_own_token, check_token},
        audit::{Entry, Target, time_detail},
        role::manages,
        token::ApiToken,
    },
    store::{AccountStore, StoreError},
};

/// Creates a token for a member and returns it. Its secret is not stored.
pub(crate) async fn create(
    store: &AccountStore,
    viewer: &Viewer,
    holder: UserId,
    wish: NewToken,
    now: Timestamp,
) -> Outcome<(ApiToken, Model)> {
    let (actor, scopes, own_end) = (viewer.user_id(), viewer.scopes().to_vec(), viewer.grants_until());
    store
        .write(move |store| {
            let (wish, scopes) = (wish.clone(), scopes.clone());
            Box::pin(async move {
                let members = store.lock_members(&[actor, holder]).await?;
                let Some(own) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                let Some(grant) = grant_of(&members, holder) else { return Ok(Err(Refusal::NotFound)) };
                let own = CallerAccess { role: own, scopes: &scopes, expires_at: own_end };
                let checked = if holder == actor {
                    check_own_token(own, grant.ends_at, &wish, now)
                } else {
                    check_token(own, grant, &wish, now)
                };
                if let Err(errors) = checked {
                    return Ok(Err(Refusal::Rules(errors)));
                }
                if store.count_valid_or_new_api_tokens(now).await? >= MAX_TOKENS {
                    return Ok(Err(AccessError::TooMany.into()));
                }
                let NewToken { label, scopes, expires_at } = wish;
                let (token, row) = new_token((store.account_id(), holder), &scopes, label, expires_at, now);
                store.insert_api_token(row.clone()).await?;
                let target = Target::ApiToken(row.identifier.clone());
                let detail = token_detail(&row);
                store.record_audit_entry(Entry::done(Action::CreateToken, target, detail)).await?;
                Ok(Ok((token, row)))
            })
        })
        .await
}

/// Returns the audit detail of a token.
pub(super) fn token_detail(token: &Model) -> Value {
    json!({
        "user": token.user_id,
        "label": token.label,
        "scopes": token.scopes,
        "expires_at": time_detail(token.expires_at),
    })
}

/// Revokes a token. A token that has ended does not change. With `owner`, only a token of that user is
/// found, whatever the actor's role; without, the actor's role must not be below the one of the token's
/// user.
pub(crate) async fn revoke(
    store: &AccountStore,
    (actor, owner): (UserId, Option<UserId>),
    identifier: String,
    now: Timestamp,
) -> Outcome<Model> {
    store
        .write(move |store| {
            let identifier = identifier.clone();
            Box::pin(async move {
                let token = store.api_token(&identifier).await?;
                let token = token.filter(|token| owner.is_none_or(|owner| token.user_id == owner));
                let Some(token) = token else { return Ok(Err(Refusal::NotFound)) };
                let members = store.lock_members(&[actor, token.user_id]).await?;
                let Some(own) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                // A token without its member no longer exists.
                let Some(role) = role_of(&members, token.user_id) else { return Ok(Err(Refusal::NotFound)) };
                if owner.is_none() && !manages(own, role) {
                    return Ok(Err(AccessError::MemberAbove.into()));
                }
                Ok(Ok(end(&store, token, now).await?))
            })
        })
        .await
}

async fn end(store: &AccountStore, token: Model, now: Timestamp) -> Result<Model, StoreError> {
    store.revoke_api_token(token.id, now).await?;
    if token.revoked_at.is_none() {
        let (target, detail) = (Target::ApiToken(token.identifier.clone()), token_detail(&token));
        store.record_audit_entry(Entry::done(Action::RevokeToken, target, detail)).await?;
    }
    Ok(Model { revoked_at: token.revoked_at.or(Some(now)), ..token })
}
