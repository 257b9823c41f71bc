//! Galvo's tables, one file each. Knows columns and how values are written; knows no rule and no query.
//!
//! Times are UTC epoch milliseconds (`BIGINT`), states are text, identifiers are newtypes made by the
//! application, and every table that belongs to one account implements [`AccountOwned`].

pub mod account;
pub mod alert;
pub mod alert_delivery;
pub mod alert_rule;
pub mod api_token;
pub mod audit_entry;
pub mod client;
pub mod client_span;
pub mod cluster;
pub mod cluster_control;
pub mod cluster_flag;
pub mod cluster_note;
pub mod cluster_sample_chunk;
pub mod cluster_tag;
pub mod code_snippet;
pub mod computation;
pub mod computation_task_group;
pub mod cost_rate;
pub mod data_policy;
pub mod default_account;
pub mod encryption_key;
pub mod environment;
pub mod error_group;
pub mod error_occurrence;
pub mod event;
pub mod fine_metric;
pub mod flag_mute;
pub mod function_usage_day;
pub mod function_usage_hour;
pub mod identity;
pub mod idle_policy;
pub mod ids;
pub mod invitation;
pub mod list;
pub mod log_line;
pub mod membership;
pub mod owned;
pub mod password;
pub mod performance_report;
pub mod performance_report_piece;
pub mod positional;
pub mod profile;
pub mod removed_member;
pub mod session;
pub mod span;
pub mod task_group;
pub mod thread_change;
pub mod token_request;
pub mod usage_day;
pub mod usage_hour;
pub mod user;
pub mod worker;
pub mod worker_sample_chunk;

pub use owned::AccountOwned;
pub use positional::{Listed, Positional};

/// A point in time, stored as UTC epoch milliseconds.
pub type Timestamp = sea_orm::prelude::ChronoUnixTimestampMillis;
