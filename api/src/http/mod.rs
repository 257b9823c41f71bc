//! axum only: from bytes to what `app` and `graphql` understand, and back.

mod address;
mod body;
mod bucket;
mod budget;
mod client_span;
mod coiled;
mod graphql;
mod health;
mod landing;
mod policy;
mod preload;
mod problem;
mod report;
mod router;
mod state;
mod surrogate;
mod transport;

pub use router::{openapi, router};
pub use state::AppState;
pub(crate) use transport::serve;
