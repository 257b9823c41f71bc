//! The person or machine behind a request.

use entity::{
    Timestamp, account,
    api_token::{Scope, Scopes},
    ids::{AccountId, UserId},
    membership::Role,
    user,
};

use super::credential::{Credential, LimitKey};
use crate::{
    domain::{
        audit::{Actor, Origin},
        role::scopes_of,
        slug::Slug,
    },
    store::Standing,
};

/// Someone who proved who they are, and the account they signed in to.
#[derive(Clone, Debug)]
pub struct Viewer {
    credential: Credential,
    standing: Standing,
    accounts: Option<Vec<Slug>>,
    scopes: Scopes,
    expires_at: Option<Timestamp>,
}

/// Credentials of any kind after they were verified, and whom they turned out to be of.
pub(super) struct Proof {
    /// What was shown.
    pub(super) credential: Credential,
    /// Who it is, where, and as what: a membership that is not over.
    pub(super) standing: Standing,
    /// The accounts the credentials are restricted to; none if they open all of the user's.
    pub(super) accounts: Option<Vec<Slug>>,
    /// What the credentials are restricted to; none if to nothing.
    pub(super) scopes: Option<Vec<Scope>>,
    /// Until when the credentials are good; none for ever.
    pub(super) expires_at: Option<Timestamp>,
}

impl Viewer {
    /// Only the authenticator makes viewers, after the credentials were verified. They are good for no more than their
    /// user's role covers now, whatever it covered when they were made, and no longer than the membership.
    pub(super) fn proven(proof: Proof) -> Self {
        let Proof { credential, standing, accounts, scopes: restriction, expires_at } = proof;
        let mut scopes = scopes_of(standing.membership.role);
        if let Some(restriction) = restriction {
            scopes.retain(|scope| restriction.contains(scope));
        }
        let ends = [expires_at, standing.membership.ends_at];
        let expires_at = ends.into_iter().flatten().min_by_key(|end| end.0);
        Self { credential, standing, accounts, scopes: Scopes(scopes), expires_at }
    }

    /// What was shown.
    #[must_use]
    pub fn credential(&self) -> Credential {
        self.credential
    }

    /// By whom limits are counted.
    #[must_use]
    pub fn limit_key(&self) -> LimitKey {
        self.credential.limit_key(self.user_id())
    }

    /// The account.
    #[must_use]
    pub fn account(&self) -> &account::Model {
        &self.standing.account
    }

    /// The account's identifier.
    #[must_use]
    pub fn account_id(&self) -> AccountId {
        self.standing.account.id
    }

    /// The user.
    #[must_use]
    pub fn user(&self) -> &user::Model {
        &self.standing.user
    }

    /// The user's identifier.
    #[must_use]
    pub fn user_id(&self) -> UserId {
        self.standing.user.id
    }

    /// Who it is, where, and as what.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The accounts the credentials are restricted to; none if they open all of the user's.
    #[must_use]
    pub fn accounts(&self) -> Option<&[Slug]> {
        self.accounts.as_deref()
    }

    /// What the user is in the account.
    #[must_use]
    pub fn role(&self) -> Role {
        self.standing.membership.role
    }

    /// What the credentials may be used for.
    #[must_use]
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes.0
    }

    /// Until when the credentials are good, and the membership is not over; none for ever.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// How long tokens may be good that are made with the credentials; none for ever.
    #[must_use]
    pub fn grants_until(&self) -> Option<Timestamp> {
        self.credential.grants_until(self.expires_at)
    }

    /// The viewer as what is written down of whoever changes something.
    #[must_use]
    pub fn actor(&self, origin: Origin, at: Timestamp) -> Actor {
        let (credential, token) = self.credential.audited();
        let user = Some((self.user_id(), self.user().name.clone()));
        Actor { user, credential, token, origin: Some(origin), at }
    }

    /// Whether the credentials may be used for `scope`.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.0.contains(&scope)
    }

    /// Whether the credentials may be used for all that the user's role covers.
    #[must_use]
    pub fn has_every_scope(&self) -> bool {
        scopes_of(self.role()).into_iter().all(|scope| self.may(scope))
    }

    /// Whether the credentials open all of the user's accounts, and may be used for all that the user's role covers.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.accounts.is_none() && self.has_every_scope()
    }
}
