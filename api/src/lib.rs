//! The Galvo analytics server: stores the reports of Dask clusters and serves them through GraphQL.
//!
//! Modules call only downwards: `http` calls `guard` and `graphql`; `graphql` calls `app`; `app` calls
//! `domain` and `store`. `ARCHITECTURE.md` describes the whole.

pub mod app;
pub mod auth;
mod blocking_work;
pub mod bus;
pub mod cli;
pub mod clock;
mod compression;
pub mod config;
mod doctor;
pub mod domain;
pub mod encryption;
mod error;
mod export;
mod file_descriptors;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod graphql;
pub mod guard;
pub mod http;
mod http_client;
pub mod jobs;
pub mod key_ring;
pub mod live;
mod mail;
mod metrics;
pub mod server;
mod shares;
pub mod shutdown_signal;
pub mod store;
pub mod telemetry;
