//! SeaORM only, and the only module that holds a connection.
//!
//! Tenant rows are reached through an [`AccountStore`], which is one account's view and sets or filters the
//! account itself. What belongs to no viewer has a [`SystemStore`] with its own short list of methods.

mod api_token;
mod client;
mod client_span;
mod cluster;
mod cluster_filter;
mod code_snippet;
mod computation;
mod connect;
mod cost_rate;
mod data_policy;
mod environment;
mod error;
mod error_group;
mod error_occurrence;
mod event;
mod fine_metric;
mod identity;
mod job_lock;
mod key;
mod log_line;
pub mod page;
pub mod partition;
mod profile;
pub mod reseal;
pub mod retention;
mod sample_chunk;
mod scoped;
mod sealed;
mod span;
mod task_group;
mod thread_change;
mod upsert;
mod usage_day;
mod usage_hour;
mod usage_table;
mod work;
mod worker;

pub use api_token::Credentials;
pub use client::ClientSort;
pub(crate) use cluster::NOTHING;
pub use cluster::{ClusterSort, ClusterSortBy};
pub use cluster_filter::{ClusterFilter, ClusterTotals, PackageFilter, VersionFilter};
pub use computation::ComputationSort;
pub use connect::{MigrationError, Store, StoreUrl};
pub use environment::EnvironmentUse;
pub use error::StoreError;
pub use error_group::{ErrorGroupCounts, ErrorGroupSort};
pub use error_occurrence::{ErrorParent, ErrorSort, ErrorText};
pub use event::{EventParent, EventSort};
pub use identity::SystemStore;
pub use job_lock::JobLock;
pub use key::{KeyUse, SEALED_TABLES};
pub use log_line::{LINES_PER_SEARCH, LogFilter, LogParent, LogSort};
pub use sample_chunk::SeriesParent;
pub use scoped::{AccountStore, Write};
pub use span::{SpanFilter, SpanParent, SpanSort};
pub use task_group::{TaskGroupParent, TaskGroupSort};
pub use thread_change::ThreadChangeSort;
pub(crate) use usage_day::MAX_DUE;
pub use usage_day::{AccountDay, FunctionUsage};
pub use usage_table::{CellAt, CellsBy, FunctionCell, UsageCell, UsageStep};
pub use work::{WorkSpan, WorkerSize};
pub use worker::{WorkerParent, WorkerSort};
