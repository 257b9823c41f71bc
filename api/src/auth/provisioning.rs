//! Provisioning of users whom an issuer authenticated and whom this server does not know yet.

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
    /// Provisions an unknown user of an issuer as a member of the `requested_account` account, or else of the
    /// account that the issuer's claims or the settings name. Does nothing if no account is named.
    pub(super) async fn provision_user(
        &self,
        issuer: &str,
        credential: Credential,
        identity: &ClaimedIdentity,
        provision: &Provision,
        requested_account: Option<Slug>,
    ) -> Result<(), AuthError> {
        let assigned_account = match &identity.accounts {
            Some(accounts) => accounts.first(),
            None => provision.account.as_ref(),
        };
        let account = match (requested_account, assigned_account) {
            // If no claim names accounts, a user cannot join an account by requesting it.
            (Some(requested_account), Some(assigned_account))
                if identity.accounts.is_none() && requested_account != *assigned_account =>
            {
                return Ok(());
            }
            (Some(requested_account), _) => requested_account,
            (None, Some(assigned_account)) => assigned_account.clone(),
            (None, None) => return Ok(()),
        };
        let now = self.clock.timestamp();
        let role = identity.role.map_or(provision.role, |role| lower_role(role, provision.role));
        for digits in NAME_DIGITS {
            let name = local_name(&identity.preferred_name, issuer, &identity.subject, digits);
            let new_member = ProvisionedUser {
                issuer: issuer.to_owned(),
                subject: identity.subject.clone(),
                user: new_user(&name, &mut rand::rng(), now),
                account: account.clone(),
                role,
                credential,
            };
            match self.store.provision_member(new_member, now).await {
                // Another request of the same user was faster, or the name is taken.
                Err(StoreError::Conflict(_)) => {}
                result => return Ok(result?),
            }
        }
        Ok(())
    }
}
