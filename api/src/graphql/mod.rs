//! The GraphQL schema and its types, one file per noun; the only module that uses async-graphql. Queries
//! read the store directly; mutations go through `app`. Rows are wrapped, never exposed, so that a
//! column can change without breaking a client.

mod access;
mod accounts;
mod alerts;
mod analysis;
mod clusters;
mod compiled;
mod computations;
mod costs;
mod engine;
mod errors;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod mutation;
mod node;
mod numbered;
mod query;
mod schema;
mod subscription;
mod telemetry;

pub use engine::error::ApiError;
pub(crate) use engine::error::log_defect;
pub use engine::rate_limit::RateLimit;
pub use schema::{ExecutionContext, Schema};

pub(crate) use clusters::cluster_list::parse_time_range;
pub(crate) use compiled::CompiledRead;
pub(crate) use engine::connection::{
    DEFAULT_PAGE_SIZE, LONG_PAGE_FIELDS, MAX_LONG_PAGE_SIZE, MAX_PAGE_SIZE, parse_page_limit,
};
pub(crate) use engine::id::global_span_id;
pub(crate) use engine::projection::HasOverlappingFields;
pub(crate) use engine::response::{finalize_response, serialize_response};
pub(crate) use engine::scalar::check_scalar;
pub(crate) use schema::{AUDITED_READS_REFUSED, MAX_NESTING};
pub(crate) use subscription::{PayloadContent, RowSelection, Rows, SubscriptionPlan, mark_gap};
