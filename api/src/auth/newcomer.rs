//! Those whom an issuer sends and whom nobody here knows yet.

use super::{AuthError, Authenticator, Credential};
use crate::{
    config::Provision,
    domain::{
        claims::Claimed,
        role::least,
        slug::Slug,
        user::{local_name, new_user},
    },
    store::{Newcomer, StoreError},
};

/// Digits that tell a newcomer's name from others: more if somebody has the shorter one.
const NAME_DIGITS: [usize; 2] = [6, 16];

impl Authenticator {
    /// Makes a member of somebody whom an issuer sends and whom nobody here knows yet, if that is wanted, in the account
    /// that is `asked` for or that the issuer names.
    pub(super) async fn receive(
        &self,
        issuer: &str,
        credential: Credential,
        claimed: &Claimed,
        provision: &Provision,
        asked: Option<Slug>,
    ) -> Result<(), AuthError> {
        let named = match &claimed.accounts {
            Some(accounts) => accounts.first(),
            None => provision.account.as_ref(),
        };
        let account = match (asked, named) {
            // Where no claim says so, nobody gets into an account by asking for it.
            (Some(asked), Some(named)) if claimed.accounts.is_none() && asked != *named => return Ok(()),
            (Some(asked), _) => asked,
            (None, Some(named)) => named.clone(),
            (None, None) => return Ok(()),
        };
        let now = self.clock.timestamp();
        let role = claimed.role.map_or(provision.role, |role| least(role, provision.role));
        for digits in NAME_DIGITS {
            let name = local_name(&claimed.called, issuer, &claimed.subject, digits);
            let newcomer = Newcomer {
                issuer: issuer.to_owned(),
                subject: claimed.subject.clone(),
                user: new_user(&name, &mut rand::rng(), now),
                account: account.clone(),
                role,
                credential: credential.audited().0,
            };
            match self.store.admit_newcomer(newcomer, now).await {
                // Another request of the same newcomer was faster, or the name is taken.
                Err(StoreError::Conflict(_)) => {}
                admitted => return Ok(admitted?),
            }
        }
        Ok(())
    }
}
