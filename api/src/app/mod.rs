//! Operations that change data. Each checks its rules and writes in one transaction.

pub mod account;
mod account_size;
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
mod quota;
mod report;
pub(crate) mod saved_view;
pub(crate) mod scheduler_token;
pub mod session;
mod sign_in;
mod sign_in_link;
pub(crate) mod token_request;
pub mod usage;

pub(crate) use account_size::AccountSizes;
pub use client_span::{ClientSpanError, ClientSpans};
pub use quota::{QuotaChange, Quotas};
pub use report::{ClusterRefusal, ReportError, Reports};
pub use sign_in::{SignInError, SignIns};
pub use sign_in_link::SignInLinks;
