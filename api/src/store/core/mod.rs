//! Connections, transactions, and the parts of a statement that every entity uses.

pub(super) mod audit_log;
pub(super) mod change_feed;
pub(super) mod chunk_ranges;
pub(super) mod composite_in;
pub(super) mod connect;
pub(super) mod connection_pool;
mod connections_at_hand;
pub(super) mod error;
pub(super) mod gate;
pub(super) mod multi_list;
pub(super) mod numbered;
pub mod page;
pub(super) mod parent_list;
pub(super) mod read_rows;
pub(super) mod row_encryption;
pub(super) mod scoped;
pub(super) mod search;
mod short_reads;
pub(super) mod shown_clusters;
pub(super) mod sql_builder;
pub(super) mod stale_connections;
pub(super) mod statement_time;
pub(super) mod system;
pub(super) mod upsert;
pub(super) mod userinfo;
