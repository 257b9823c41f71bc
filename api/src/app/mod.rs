//! Operations that change something: check the rule, write in one transaction.

pub mod account;
pub mod alert;
pub mod alert_delivery;
pub(crate) mod api_token;
mod client_span;
pub mod cluster;
pub mod flag;
mod idleness;
pub(crate) mod invitation;
pub(crate) mod member;
mod privacy;
mod report;
mod sign_in;
pub(crate) mod token_request;
pub mod usage;

pub use client_span::ClientSpans;
pub use report::{ReportError, Reports};
pub use sign_in::{SignInError, SignIns};
