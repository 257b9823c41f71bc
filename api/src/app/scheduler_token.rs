//! Scheduler tokens. They are exchanged for a user's credentials, so that no stronger credentials reach
//! a cluster.

use entity::{
    Timestamp,
    api_token::{Model, Scope},
    audit_entry::Action,
};

use super::{
    account::new_token,
    api_token::token_detail,
    member::{Outcome, Refusal, grant_of},
};
use crate::{
    auth::{Credential, Viewer},
    domain::{
        access::{AccessError, CallerAccess, NewToken, check_own_token},
        audit::{Entry, Target},
        scheduler_token::{expiry_at, has_room, latest_expiry, removal_cutoff},
        token::ApiToken,
    },
    store::AccountStore,
};

/// The properties of a scheduler token that its exchange may choose.
pub(crate) struct NewSchedulerToken {
    /// The label of the token.
    pub(crate) label: String,
    /// The scheduler that the token is bound to at once.
    pub(crate) scheduler_id: Option<String>,
    /// The time after which the token is not renewed any more, in seconds.
    pub(crate) lifetime_seconds: Option<i64>,
}

/// Creates a token for a scheduler of the viewer and returns it. The token has only the `ingest` scope,
/// and its secret is not stored. Without a scheduler in `token`, it is bound to the first scheduler that
/// uses it.
pub(crate) async fn exchange(
    store: &AccountStore,
    viewer: &Viewer,
    token: NewSchedulerToken,
    now: Timestamp,
) -> Outcome<(ApiToken, Model)> {
    let NewSchedulerToken { label, scheduler_id, lifetime_seconds } = token;
    let (actor, granted, max_token_expiry) =
        (viewer.user_id(), viewer.scopes().to_vec(), viewer.max_token_expiry());
    let renewable_until = latest_expiry(now, lifetime_seconds, max_token_expiry);
    let parent_id = match viewer.credential() {
        Credential::ApiToken(id) => Some(id),
        Credential::Session(_) | Credential::Jwt => None,
    };
    store
        .write(move |store| {
            let (label, scheduler_id, granted) = (label.clone(), scheduler_id.clone(), granted.clone());
            Box::pin(async move {
                let members = store.lock_members(&[actor]).await?;
                let Some(grant) = grant_of(&members, actor) else { return Ok(Err(Refusal::NoMember)) };
                // Revoking the parent token locks the same member and revokes the tokens exchanged for
                // it up to then. This check therefore cannot miss a concurrent revocation.
                if let Some(parent) = parent_id
                    && !store.is_valid_api_token(parent, now).await?
                {
                    return Ok(Err(Refusal::NoMember));
                }
                let expires_at = Some(expiry_at(now, renewable_until));
                let caller =
                    CallerAccess { role: grant.role, scopes: &granted, expires_at: max_token_expiry };
                let request = NewToken { label, scopes: vec![Scope::Ingest], expires_at };
                if let Err(errors) = check_own_token(caller, grant.ends_at, &request, now) {
                    return Ok(Err(Refusal::Rules(errors)));
                }
                store.remove_scheduler_tokens(actor, removal_cutoff(now)).await?;
                // Ended tokens are kept for a day and count as well: short lifetimes would otherwise make
                // any number of rows.
                let (token_count, count_of_parent) = store.count_scheduler_tokens(actor, parent_id).await?;
                if !has_room(token_count, count_of_parent) {
                    return Ok(Err(AccessError::TooMany.into()));
                }
                let owner = (store.account_id(), actor);
                let (token, row) = new_token(owner, &request.scopes, request.label, expires_at, now);
                let row = Model { is_of_scheduler: true, parent_id, scheduler_id, renewable_until, ..row };
                store.insert_api_token(row.clone()).await?;
                let target = Target::ApiToken(row.identifier.clone());
                store
                    .record_audit_entry(Entry::done(Action::CreateToken, target, token_detail(&row)))
                    .await?;
                Ok(Ok((token, row)))
            })
        })
        .await
}
