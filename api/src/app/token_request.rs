//! Device authorization: a program requests a token, and its user approves the request in a browser.
//!
//! The program receives the token's secret at once, but the token works only after the approval. The
//! public half, which is in the page's URL, is never enough to use the token.

use std::{fmt, net::IpAddr};

use chrono::TimeDelta;
use entity::{
    Timestamp,
    api_token::{self, Scope, Scopes},
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
        access::{
            AccessError, CallerAccess, Grant, MAX_TOKENS, NewToken, check_own_token, is_label, parse_scopes,
        },
        audit::{Entry, Target},
        role::covers,
        sign_in_throttle::failure_address,
        token::ApiToken,
        token_request::PROXY_MARK,
    },
    store::{AccountStore, StoreError, SystemStore},
};

/// The time within which a request can be approved.
const GOOD_FOR: TimeDelta = TimeDelta::minutes(10);

/// The origin of a program's request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    /// The client address, as far as it is trusted.
    pub(crate) address: IpAddr,
    /// The address that an untrusted proxy at `address` reports. It only distinguishes the clients of
    /// that proxy.
    pub(crate) forwarded_address: Option<IpAddr>,
}

impl Requester {
    /// Returns the common suffix of the displayed addresses of all clients of the same proxy.
    fn proxy_suffix(self) -> String {
        format!("{PROXY_MARK}{})", failure_address(self.address))
    }
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.forwarded_address {
            Some(forwarded) => write!(f, "{}{}", failure_address(forwarded), self.proxy_suffix()),
            None => failure_address(self.address).fmt(f),
        }
    }
}

/// The reason why a token request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    /// The label is invalid.
    Label,
    /// The requested scopes are unknown.
    Scope,
    /// Too many requests are waiting.
    TooMany,
}

/// Stores a token request and returns the token. Its secret is not stored.
pub(crate) async fn request_token(
    store: &SystemStore,
    label: String,
    scopes: &str,
    from: Requester,
    now: Timestamp,
) -> Result<Result<ApiToken, RequestRefusal>, StoreError> {
    if !is_label(&label) {
        return Ok(Err(RequestRefusal::Label));
    }
    let Ok(scopes) = parse_scopes(scopes) else { return Ok(Err(RequestRefusal::Scope)) };
    let token = ApiToken::generate(&mut rand::rng());
    let request = Model {
        identifier: token.identifier().to_owned(),
        secret_hash: token.secret_hash().to_vec(),
        label,
        scopes: (!scopes.is_empty()).then_some(Scopes(scopes)),
        address: from.to_string(),
        created_at: now,
        expires_at: (now.0 + GOOD_FOR).into(),
    };
    Ok(if store.add_token_request(request).await? { Ok(token) } else { Err(RequestRefusal::TooMany) })
}

/// Approves a token request. The token belongs to the viewer and gets the requested scopes that the
/// viewer's role and credentials cover, limited to `chosen_scopes` if given.
pub(crate) async fn approve(
    store: &AccountStore,
    viewer: &Viewer,
    identifier: String,
    chosen_scopes: Option<Vec<Scope>>,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Outcome<api_token::Model> {
    let (actor, caller_scopes, max_token_expiry) =
        (viewer.user_id(), viewer.scopes().to_vec(), viewer.max_token_expiry());
    store
        .write(move |store| {
            let (identifier, caller_scopes, chosen_scopes) =
                (identifier.clone(), caller_scopes.clone(), chosen_scopes.clone());
            Box::pin(async move {
                let members = store.lock_members(&[actor]).await?;
                let Some(Grant { role, ends_at }) = grant_of(&members, actor) else {
                    return Ok(Err(Refusal::NoMember));
                };
                let Some(pending_request) = store.pending_token_request(&identifier, now).await? else {
                    return Ok(Err(Refusal::NotFound));
                };
                let caller = CallerAccess { role, scopes: &caller_scopes, expires_at: max_token_expiry };
                let is_requested = |scope: Scope| {
                    pending_request.scopes.as_ref().is_none_or(|scopes| scopes.0.contains(&scope))
                        && chosen_scopes.as_ref().is_none_or(|scopes| scopes.contains(&scope))
                };
                let scopes = caller_scopes
                    .iter()
                    .copied()
                    .filter(|scope| covers(role, *scope) && is_requested(*scope))
                    .collect();
                let new_token = NewToken { label: String::new(), scopes, expires_at };
                if let Err(errors) = check_own_token(caller, ends_at, &new_token, now) {
                    return Ok(Err(Refusal::Rules(errors)));
                }
                if store.count_valid_or_new_api_tokens(now).await? >= MAX_TOKENS {
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
                    scopes: Scopes(new_token.scopes),
                    created_at: now,
                    expires_at,
                    revoked_at: None,
                    last_used_at: None,
                    is_of_scheduler: false,
                    parent_id: None,
                    scheduler_id: None,
                    renewable_until: None,
                    broad_use_at: None,
                };
                store.insert_api_token(row.clone()).await?;
                let target = Target::ApiToken(row.identifier.clone());
                store
                    .record_audit_entry(Entry::done(Action::CreateToken, target, token_detail(&row)))
                    .await?;
                Ok(Ok(row))
            })
        })
        .await
}
