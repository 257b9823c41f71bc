//! The work of a cluster: computations, task groups, functions, spans and profiles.

pub(super) mod code;
pub(super) mod computation;
pub(super) mod fine_metric;
pub(super) mod function;
pub(super) mod function_activity;
pub(super) mod lost_attempt;
pub(super) mod profile;
pub(super) mod profile_comparison;
pub(super) mod span;
pub(super) mod span_loaders;
pub(super) mod task_group;
pub(super) mod task_group_list;
