//! SeaORM only, and the only module that holds a connection.
//!
//! Tenant rows are reached through an [`AccountStore`], which is one account's view and sets or filters the
//! account itself. What belongs to no viewer has a [`SystemStore`] with its own short list of methods.

mod api_token;
mod cluster;
mod computation;
mod connect;
mod error;
mod error_occurrence;
mod identity;
pub mod page;
mod scoped;
mod task_group;
mod upsert;

pub use api_token::Credentials;
pub use cluster::ClusterSort;
pub(crate) use cluster::NOTHING;
pub use computation::ComputationSort;
pub use connect::{MigrationError, Store, StoreUrl};
pub use error::StoreError;
pub use error_occurrence::{ErrorParent, ErrorSort};
pub use identity::SystemStore;
pub use scoped::{AccountStore, Write};
pub use task_group::{TaskGroupParent, TaskGroupSort};
