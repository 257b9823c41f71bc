//! An account, its lists over all clusters, and what it keeps.

pub(super) mod account;
pub(super) mod account_list;
pub(super) mod account_removal;
pub(super) mod account_series;
pub(super) mod account_watch;
pub(super) mod data_policy;
pub(super) mod performance_report;
pub(super) mod quota;
pub(super) mod saved_view;
pub(super) mod search;
