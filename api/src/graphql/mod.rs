//! async-graphql only: the schema and its types, one file per noun. Reads go straight to the store; changes go
//! through `app`. Rows are wrapped, never exposed, so that a column can change without breaking a client.

mod account;
mod answer;
mod answer_loaders;
mod client;
mod cluster;
mod code;
mod computation;
mod connection;
mod cost;
mod data_policy;
mod environment;
mod error;
mod error_group;
mod error_occurrence;
mod event;
mod fine_metric;
mod id;
mod loaders;
mod log_line;
mod mutation;
mod node;
mod profile;
mod query;
mod scalar;
mod schema;
mod scope;
mod series;
mod span;
mod span_loaders;
mod task_group;
mod thread_change;
mod usage;
mod user;
mod viewer;
mod worker;

pub use error::ApiError;
pub use schema::Schema;
