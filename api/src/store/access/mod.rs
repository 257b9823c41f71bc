//! Users, memberships, credentials and the audit log.

pub(super) mod api_token;
pub(super) mod audit_entry;
pub(super) mod current_membership;
pub(super) mod invitation;
pub(super) mod member;
pub(super) mod password;
pub(super) mod provisioning;
pub(super) mod scheduler_token;
pub(super) mod session;
pub(super) mod sign_in_link;
pub(super) mod token_policy;
pub(super) mod token_request;
pub(super) mod user;
