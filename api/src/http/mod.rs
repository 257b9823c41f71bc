//! axum only: from bytes to what `app` and `graphql` understand, and back.

mod body;
mod client_span;
mod coiled;
mod export;
mod export_api;
mod graphql;
mod health;
mod landing;
mod media_type;
mod preload;
mod problem;
mod query_budget;
mod report;
mod router;
mod state;
mod surrogate;
mod transport;

pub use router::{openapi, router};
pub use state::AppState;
pub(crate) use transport::serve;
