//! Operations that change something: check the rule, write in one transaction.

pub mod account;
mod report;

pub use report::{ReportError, Reports};
