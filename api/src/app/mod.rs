//! Operations that change something: check the rule, write in one transaction.

pub mod account;
mod client_span;
mod privacy;
mod report;
pub mod usage;

pub use client_span::ClientSpans;
pub use report::{ReportError, Reports};
