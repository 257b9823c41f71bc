//! The authenticated caller of a request.

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
        permission::Rights,
        role::scopes_of,
        scheduler_token::{Binding, permits_more_than_ingest},
        slug::Slug,
    },
    shares::{GroupMember, Holder},
    store::CurrentMembership,
};

/// An authenticated caller and the account of the request.
#[derive(Clone, Debug)]
pub struct Viewer {
    credential: Credential,
    current: CurrentMembership,
    accounts: Option<Vec<Slug>>,
    scopes: Scopes,
    expires_at: Option<Timestamp>,
    binding: Option<Binding>,
    refuses_broad_tokens: Option<bool>,
}

/// Verified credentials of any kind, and the member whom they represent.
pub(super) struct AuthenticatedMember {
    /// The kind of the credentials.
    pub(super) credential: Credential,
    /// The account, the user and the active membership.
    pub(super) current: CurrentMembership,
    /// The accounts to which the credentials are restricted. `None` if they are valid for all of the user's
    /// accounts.
    pub(super) accounts: Option<Vec<Slug>>,
    /// The scopes to which the credentials are restricted. `None` if they are not restricted.
    pub(super) scopes: Option<Vec<Scope>>,
    /// The expiry of the credentials. `None` if they do not expire.
    pub(super) expires_at: Option<Timestamp>,
    /// The scheduler binding of the credentials. `None` for credentials that do not belong to a
    /// scheduler.
    pub(super) binding: Option<Binding>,
    /// True if the account refuses tokens with more than the `ingest` scope from schedulers. `None` if
    /// not loaded.
    pub(super) refuses_broad_tokens: Option<bool>,
}

impl Viewer {
    /// Creates the viewer of verified credentials. Only the authenticator calls it. The scopes are
    /// limited to those that the user's role covers now, and the expiry to the end of the membership.
    pub(super) fn from_member(member: AuthenticatedMember) -> Self {
        let AuthenticatedMember { credential, current, accounts, scopes: restriction, expires_at, .. } =
            member;
        let (binding, refuses_broad_tokens) = (member.binding, member.refuses_broad_tokens);
        let mut scopes = scopes_of(current.membership.role);
        if let Some(restriction) = restriction {
            scopes.retain(|scope| restriction.contains(scope));
        }
        let ends = [expires_at, current.membership.ends_at];
        let expires_at = ends.into_iter().flatten().min_by_key(|end| end.0);
        let scopes = Scopes(scopes);
        Self { credential, current, accounts, scopes, expires_at, binding, refuses_broad_tokens }
    }

    /// Returns the kind of the credentials.
    #[must_use]
    pub fn credential(&self) -> Credential {
        self.credential
    }

    /// Returns the key by which rate limits count.
    #[must_use]
    pub fn limit_key(&self) -> LimitKey {
        self.credential.limit_key(self.user_id())
    }

    /// Returns the holder of this viewer's bounded resources.
    pub(crate) fn holder(&self) -> Holder {
        Holder::signed_in(self.account_id(), self.member())
    }

    /// Returns the member whose share of the daily quotas this viewer uses. A scheduler token that was not
    /// exchanged for an API token counts as its user, because a user can obtain many of them.
    pub(crate) fn quota_member(&self) -> GroupMember {
        match self.binding {
            Some(Binding { parent: None, .. }) => GroupMember::User(self.user_id()),
            _ => self.member(),
        }
    }

    /// Returns the member of the account. A scheduler token counts as the token for which it was exchanged.
    fn member(&self) -> GroupMember {
        let parent = self.binding.as_ref().and_then(|binding| binding.parent);
        match (parent, self.limit_key()) {
            (Some(token), _) | (None, LimitKey::ApiToken(token)) => GroupMember::Token(self.user_id(), token),
            (None, LimitKey::User(user)) => GroupMember::User(user),
        }
    }

    /// Returns the account.
    #[must_use]
    pub fn account(&self) -> &account::Model {
        &self.current.account
    }

    /// Returns the account's ID.
    #[must_use]
    pub fn account_id(&self) -> AccountId {
        self.current.account.id
    }

    /// Returns the user.
    #[must_use]
    pub fn user(&self) -> &user::Model {
        &self.current.user
    }

    /// Returns the user's ID.
    #[must_use]
    pub fn user_id(&self) -> UserId {
        self.current.user.id
    }

    /// Returns the account, the user and the membership.
    #[must_use]
    pub fn current_membership(&self) -> &CurrentMembership {
        &self.current
    }

    /// Returns the accounts to which the credentials are restricted. `None` if they are valid for all of the
    /// user's accounts.
    #[must_use]
    pub fn accounts(&self) -> Option<&[Slug]> {
        self.accounts.as_deref()
    }

    /// Returns the user's role in the account.
    #[must_use]
    pub fn role(&self) -> Role {
        self.current.membership.role
    }

    /// Returns the scopes of the credentials.
    #[must_use]
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes.0
    }

    /// Returns the earlier of the credentials' expiry and the membership's end. `None` if there is
    /// neither.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.expires_at
    }

    /// Returns the latest expiry of tokens created with the credentials. `None` means no limit.
    #[must_use]
    pub fn max_token_expiry(&self) -> Option<Timestamp> {
        self.credential.max_token_expiry(self.expires_at)
    }

    /// Returns the scheduler binding of the credentials. `None` for credentials that do not belong to a
    /// scheduler.
    #[must_use]
    pub fn binding(&self) -> Option<&Binding> {
        self.binding.as_ref()
    }

    /// Returns true if the account refuses tokens with more than the `ingest` scope from schedulers.
    /// `None` if it must be queried.
    #[must_use]
    pub fn refuses_broad_tokens(&self) -> Option<bool> {
        self.refuses_broad_tokens
    }

    /// Returns true if the credentials have more than the `ingest` scope.
    #[must_use]
    pub fn has_broad_scopes(&self) -> bool {
        permits_more_than_ingest(self.scopes())
    }

    /// Returns the viewer as the actor of an audit entry.
    #[must_use]
    pub fn actor(&self, origin: Origin, at: Timestamp) -> Actor {
        let (credential, token) = self.credential.audit_kind();
        let user = Some((self.user_id(), self.user().name.clone()));
        Actor { user, credential, token, origin: Some(origin), at }
    }

    /// Returns the viewer's rights in the account. Changes need the scope `admin`, or every scope of a role
    /// that does not cover `admin`.
    #[must_use]
    pub fn rights(&self) -> Rights {
        let is_full = self.may(Scope::Admin) || self.has_every_scope();
        Rights { user: self.user_id(), role: self.role(), is_full }
    }

    /// Returns true if the credentials have `scope`.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.0.contains(&scope)
    }

    /// Returns true if the credentials have all scopes that the user's role covers.
    #[must_use]
    pub fn has_every_scope(&self) -> bool {
        scopes_of(self.role()).into_iter().all(|scope| self.may(scope))
    }

    /// Returns true if the credentials are valid for all of the user's accounts and have all scopes that
    /// the user's role covers.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.accounts.is_none() && self.has_every_scope()
    }
}
