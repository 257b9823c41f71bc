//! Galvo's tables, one file each. Knows columns and how values are written; knows no rule and no query.
//!
//! Times are UTC epoch milliseconds (`BIGINT`), states are text, identifiers are newtypes made by the
//! application, and every table that belongs to one account implements [`AccountOwned`].

pub mod account;
pub mod api_token;
pub mod cluster;
pub mod computation;
pub mod computation_task_group;
pub mod error_occurrence;
pub mod ids;
pub mod list;
pub mod membership;
pub mod owned;
pub mod task_group;
pub mod user;

pub use owned::AccountOwned;

/// A point in time, stored as UTC epoch milliseconds.
pub type Timestamp = sea_orm::prelude::ChronoUnixTimestampMillis;
