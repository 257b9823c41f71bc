//! async-graphql only: the schema and its types, one file per noun. Reads go straight to the store; changes go
//! through `app`. Rows are wrapped, never exposed, so that a column can change without breaking a client.

mod account;
mod cluster;
mod computation;
mod connection;
mod error;
mod error_occurrence;
mod id;
mod loaders;
mod mutation;
mod node;
mod query;
mod scalar;
mod schema;
mod scope;
mod task_group;
mod user;
mod viewer;

pub use error::ApiError;
pub use schema::Schema;
