//! A cluster, its workers and clients, and its annotations.

pub(super) mod client;
pub(super) mod cluster;
pub(super) mod cluster_fields;
pub(super) mod cluster_list;
pub(super) mod cluster_note;
pub(super) mod cluster_owner;
pub(super) mod cluster_removal;
pub(super) mod cluster_snapshot;
pub(super) mod cluster_state;
pub(super) mod cluster_tag;
pub(super) mod cluster_totals;
pub(super) mod dropped_items;
pub(super) mod environment;
pub(super) mod environment_difference;
pub(super) mod facet;
pub(super) mod latest_value;
pub(super) mod thread_change;
pub(super) mod worker;
pub(super) mod worker_quantile;
