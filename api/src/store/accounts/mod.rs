//! The policies, limits and saved views of an account, and its removal.

pub(super) mod account_removal;
pub(super) mod data_policy;
pub(super) mod ingest_day;
pub(super) mod performance_report;
pub(super) mod quota;
pub(super) mod removal_counts;
pub(super) mod saved_view;
