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
    request: NewToken,
    now: Timestamp,
) -> Outcome<(ApiToken, Model)> {
    let (actor, scopes, max_token_expiry) =
        (viewer.user_id(), viewer.scopes().to_vec(), viewer.max_token_expiry());
    store
        .write(move |store| {
            let (request, scopes) = (request.clone(), scopes.clone());
            Box::pin(async move {
                let members = store.lock_members(&[actor, holder]).await?;
                let Some(role) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                let Some(grant) = grant_of(&members, holder) else { return Ok(Err(Refusal::NotFound)) };
                let caller = CallerAccess { role, scopes: &scopes, expires_at: max_token_expiry };
                let checked = if holder == actor {
                    check_own_token(caller, grant.ends_at, &request, now)
                } else {
                    check_token(caller, grant, &request, now)
                };
                if let Err(errors) = checked {
                    return Ok(Err(Refusal::Rules(errors)));
                }
                if store.count_valid_or_new_api_tokens(now).await? >= MAX_TOKENS {
                    return Ok(Err(AccessError::TooMany.into()));
                }
                let NewToken { label, scopes, expires_at } = request;
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

/// Revokes a token. A token that has ended does not change. With `holder`, only a token of that user is
/// found, whatever the actor's role. Without `holder`, the actor's role must not be below the role of the
/// token's user.
pub(crate) async fn revoke(
    store: &AccountStore,
    (actor, holder): (UserId, Option<UserId>),
    identifier: String,
    now: Timestamp,
) -> Outcome<Model> {
    store
        .write(move |store| {
            let identifier = identifier.clone();
            Box::pin(async move {
                let token = store.api_token(&identifier).await?;
                let token = token.filter(|token| holder.is_none_or(|holder| token.user_id == holder));
                let Some(token) = token else { return Ok(Err(Refusal::NotFound)) };
                let members = store.lock_members(&[actor, token.user_id]).await?;
                let Some(own_role) = role_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                // A token without its member no longer exists.
                let Some(role) = role_of(&members, token.user_id) else { return Ok(Err(Refusal::NotFound)) };
                if holder.is_none() && !manages(own_role, role) {
                    return Ok(Err(AccessError::MemberAbove.into()));
                }
                Ok(Ok(revoke_and_audit(&store, token, now).await?))
            })
        })
        .await
}

async fn revoke_and_audit(store: &AccountStore, token: Model, now: Timestamp) -> Result<Model, StoreError> {
    store.revoke_api_token(token.id, now).await?;
    if token.revoked_at.is_none() {
        let (target, detail) = (Target::ApiToken(token.identifier.clone()), token_detail(&token));
        store.record_audit_entry(Entry::done(Action::RevokeToken, target, detail)).await?;
    }
    Ok(Model { revoked_at: token.revoked_at.or(Some(now)), ..token })
}
