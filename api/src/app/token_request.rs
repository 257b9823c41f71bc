//! Tokens for programs whose user has none yet: a program asks, its user makes it theirs in a browser.
//!
//! What the program gets at once is good for nothing before, and whoever has only its public half, which stands in the
//! address of the page, cannot use it afterwards either.

use std::net::IpAddr;

use chrono::TimeDelta;
use entity::{
    Timestamp,
    api_token::{self, Scopes},
    audit_entry::Action,
    ids::ApiTokenId,
    token_request::Model,
};
use uuid::Uuid;

use super::{
    api_token::token_detail,
    member::{Outcome, Refusal, grant_of},
};
use crate::{
    auth::Viewer,
    domain::{
        access::{AccessError, Grant, MAX_TOKENS, Own, TokenWish, check_own_token, is_label},
        audit::{Entry, Target},
        role::covers,
        sign_in_pace::one_address,
        token::ApiToken,
    },
    store::{AccountStore, StoreError, SystemStore},
};

/// How long somebody has to make a token theirs.
const GOOD_FOR: TimeDelta = TimeDelta::minutes(10);

/// Why a token that was asked for is not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskRefusal {
    /// It cannot be called so.
    Label,
    /// Too many wait already.
    TooMany,
}

/// Keeps that a program wants a token. The answer is the only place its secret is ever in.
pub(crate) async fn ask(
    store: &SystemStore,
    label: String,
    from: IpAddr,
    now: Timestamp,
) -> Result<Result<ApiToken, AskRefusal>, StoreError> {
    if !is_label(&label) {
        return Ok(Err(AskRefusal::Label));
    }
    let token = ApiToken::generate(&mut rand::rng());
    let request = Model {
        identifier: token.identifier().to_owned(),
        secret_hash: token.secret_hash().to_vec(),
        label,
        address: one_address(from).to_string(),
        created_at: now,
        expires_at: (now.0 + GOOD_FOR).into(),
    };
    let kept = store.add_token_request(request).await?;
    Ok(if kept { Ok(token) } else { Err(AskRefusal::TooMany) })
}

/// Makes what a program asked for a token of whoever approves it, good for all that their role covers.
pub(crate) async fn approve(
    store: &AccountStore,
    viewer: &Viewer,
    identifier: String,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Outcome<api_token::Model> {
    let (actor, held, own_end) = (viewer.user_id(), viewer.scopes().to_vec(), viewer.grants_until());
    store
        .write(move |store| {
            let (identifier, held) = (identifier.clone(), held.clone());
            Box::pin(async move {
                let members = store.lock_members(&[actor]).await?;
                let Some(Grant { role, ends_at }) = grant_of(&members, actor) else {
                    return Ok(Err(Refusal::NoMember));
                };
                let own = Own { role, scopes: &held, expires_at: own_end };
                let scopes = held.iter().copied().filter(|scope| covers(role, *scope)).collect();
                let wish = TokenWish { label: String::new(), scopes, expires_at };
                if let Err(errors) = check_own_token(own, ends_at, &wish, now) {
                    return Ok(Err(Refusal::Rules(errors)));
                }
                if store.good_api_token_count(now).await? >= MAX_TOKENS {
                    return Ok(Err(AccessError::TooMany.into()));
                }
                let Some(request) = store.take_token_request(&identifier, now).await? else {
                    return Ok(Err(Refusal::NotFound));
                };
                let row = api_token::Model {
                    id: ApiTokenId(Uuid::now_v7()),
                    identifier: request.identifier,
                    secret_hash: request.secret_hash,
                    account_id: store.account_id(),
                    user_id: actor,
                    label: request.label,
                    scopes: Scopes(wish.scopes),
                    created_at: now,
                    expires_at,
                    revoked_at: None,
                    last_used_at: None,
                };
                store.add_own_api_token(row.clone()).await?;
                let target = Target::ApiToken(row.identifier.clone());
                store.audit(Entry::done(Action::CreateToken, target, token_detail(&row))).await?;
                Ok(Ok(row))
            })
        })
        .await
}
