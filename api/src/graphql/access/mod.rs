//! Users, memberships, credentials and the audit log.

pub(super) mod api_token;
pub(super) mod audit_entry;
pub(super) mod invitation;
pub(super) mod member;
pub(super) mod membership;
pub(super) mod permission;
pub(super) mod session;
pub(super) mod token_policy;
pub(super) mod user;
pub(super) mod viewer;
