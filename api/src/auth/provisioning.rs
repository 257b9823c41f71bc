//! Provisioning of users that an issuer vouches for and that are unknown here.

use entity::audit_entry::Credential;

use super::{AuthError, Authenticator};
use crate::{
    config::Provision,
    domain::{
        claims::ClaimedIdentity,
        role::lower_role,
        slug::Slug,
        user::{local_name, new_user},
    },
    store::{ProvisionedUser, StoreError},
};

/// The number of digits that make the name of a new user unique. The longer form is used if the shorter
/// name is taken.
const NAME_DIGITS: [usize; 2] = [6, 16];

impl Authenticator {
    /// Provisions an unknown user of an issuer as a member of the `requested` account, or else of the
    /// account that the issuer's claims or the settings name. Does nothing if no account is named.
    pub(super) async fn provision_user(
        &self,
        issuer: &str,
        credential: Credential,
        claimed: &ClaimedIdentity,
        provision: &Provision,
        requested: Option<Slug>,
    ) -> Result<(), AuthError> {
        let named = match &claimed.accounts {
            Some(accounts) => accounts.first(),
            None => provision.account.as_ref(),
        };
        let account = match (requested, named) {
            // If no claim names accounts, a user cannot join an account by requesting it.
            (Some(requested), Some(named)) if claimed.accounts.is_none() && requested != *named => {
                return Ok(());
            }
            (Some(requested), _) => requested,
            (None, Some(named)) => named.clone(),
            (None, None) => return Ok(()),
        };
        let now = self.clock.timestamp();
        let role = claimed.role.map_or(provision.role, |role| lower_role(role, provision.role));
        for digits in NAME_DIGITS {
            let name = local_name(&claimed.preferred_name, issuer, &claimed.subject, digits);
            let newcomer = ProvisionedUser {
                issuer: issuer.to_owned(),
                subject: claimed.subject.clone(),
                user: new_user(&name, &mut rand::rng(), now),
                account: account.clone(),
                role,
                credential,
            };
            match self.store.provision_member(newcomer, now).await {
                // Another request of the same user was faster, or the name is taken.
                Err(StoreError::Conflict(_)) => {}
                admitted => return Ok(admitted?),
            }
        }
        Ok(())
    }
}
