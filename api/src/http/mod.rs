//! The HTTP layer: converts requests to the types of `app` and `graphql`, and their results to responses.

mod coiled;
mod extract;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod graphql;
mod middleware;
mod pages;
mod rest;
mod server;

pub use pages::dashboard::{Dashboard, DashboardError};
pub use server::router::{openapi, operations, router};
pub(crate) use server::state::LoadedFiles;
pub use server::state::{AppState, threads};
pub(crate) use server::tls::Certificate;
pub use server::tls::TlsError;
pub(crate) use server::transport::{Service, serve};
