//! Usage and cost.

pub(super) mod cluster_cost;
pub(super) mod cost;
pub(super) mod statistics;
pub(super) mod usage;
pub(super) mod usage_table;
