//! Rules and arithmetic: no async, no SeaORM queries, no async-graphql, no clock. What comes from outside is
//! parsed here, once, into types that need no second check.

pub mod access;
pub mod answer;
pub mod bounded;
pub mod breakdown;
pub mod client_span;
pub mod cluster_id;
pub mod comparison;
pub mod cost;
pub mod data_class;
pub mod environment;
pub mod error_status;
pub mod fine_metric;
pub mod fingerprint;
pub mod idle_policy;
pub mod json;
pub mod metric;
pub mod millionths;
pub mod password;
pub mod profile;
pub mod public_url;
pub mod report;
pub mod retention;
pub mod return_path;
pub mod role;
pub mod sample_chunk;
pub mod series;
pub mod session;
pub mod sign_in_pace;
pub mod slug;
pub mod source;
pub mod span;
pub mod tag;
pub mod token;
pub mod trend;
pub mod usage;
