//! async-graphql only: the schema and its types, one file per noun. Reads go straight to the store; changes go
//! through `app`. Rows are wrapped, never exposed, so that a column can change without breaking a client.

mod account;
mod account_series;
mod answer;
mod answer_loaders;
mod baseline;
mod breakdown;
mod client;
mod cluster;
mod cluster_list;
mod code;
mod comparison;
mod computation;
mod connection;
mod cost;
mod data_policy;
mod environment;
mod environment_difference;
mod error;
mod error_group;
mod error_occurrence;
mod event;
mod fine_metric;
mod id;
mod list;
mod loaders;
mod log_line;
mod mutation;
mod node;
mod profile;
mod profile_comparison;
mod query;
mod rate_limit;
mod scalar;
mod schema;
mod scope;
mod series;
mod span;
mod span_loaders;
mod statistics;
mod task_group;
mod thread_change;
mod usage;
mod usage_table;
mod user;
mod viewer;
mod work_scope;
mod worker;

pub use error::ApiError;
pub use rate_limit::RateLimit;
pub use schema::Schema;

pub(crate) use connection::{DEFAULT_PAGE, MAX_PAGE};
pub(crate) use scalar::check_scalar;
pub(crate) use schema::MAX_NESTING;
