//! Clusters, their workers and clients, and their annotations.

pub(super) mod client;
pub(super) mod cluster;
pub(super) mod cluster_control;
pub(super) mod cluster_counter;
pub(super) mod cluster_filter;
pub(super) mod cluster_note;
pub(super) mod cluster_order;
pub(super) mod cluster_owner;
pub(super) mod cluster_removal;
pub(super) mod cluster_rows;
pub(super) mod cluster_tag;
pub(super) mod cross_cluster;
pub(super) mod environment;
pub(super) mod facet;
pub(super) mod life_cycle;
pub(super) mod thread_change;
pub(super) mod worker;
