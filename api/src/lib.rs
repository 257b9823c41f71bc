//! The Galvo analytics server: what Dask clusters report is kept, and GraphQL answers questions about it.
//!
//! Calls go downwards only: `http` to `guard` and `graphql`, `graphql` to `app` to `domain`, `store`; `ARCHITECTURE.md` has the
//! whole picture.

pub mod app;
pub mod auth;
mod blocking;
pub mod bus;
pub mod cli;
pub mod clock;
mod compression;
pub mod config;
mod doctor;
pub mod domain;
pub mod draining;
mod error;
mod export;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod graphql;
pub mod guard;
pub mod http;
pub mod jobs;
pub mod key_ring;
pub mod live;
mod mail;
mod metrics;
mod outgoing;
pub mod seal;
pub mod server;
pub mod store;
pub mod telemetry;
