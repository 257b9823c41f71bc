//! Usage, rates and limits.

pub(super) mod cluster_cost;
pub(super) mod compute_limit;
pub(super) mod cost_rate;
pub(super) mod function_usage;
pub(super) mod usage_columns;
pub(super) mod usage_day;
pub(super) mod usage_filter;
pub(super) mod usage_hour;
pub(super) mod usage_table;
