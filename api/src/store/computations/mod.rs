//! The work of clusters: computations, task groups, functions, spans and profiles.

pub(super) mod client_span;
pub(super) mod code_snippet;
pub(super) mod computation;
pub(super) mod fine_metric;
pub(super) mod fine_metric_total;
pub(super) mod function_activity;
pub(super) mod profile;
pub(super) mod span;
pub(super) mod span_tag;
pub(super) mod task_group;
pub(super) mod task_group_filter;
pub(super) mod work;
