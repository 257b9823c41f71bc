//! axum only: from bytes to what `app` and `graphql` understand, and back.

mod activate_token;
mod address;
mod api_token;
mod body;
mod bucket;
mod budget;
mod client_span;
mod coiled;
mod cookie;
mod export;
mod export_api;
mod forgery;
mod form;
mod graphql;
mod health;
mod landing;
mod media_type;
mod oidc;
mod page;
mod policy;
mod preload;
mod problem;
mod report;
mod router;
mod session;
mod sign_in;
mod state;
mod surrogate;
mod transport;

pub use router::{openapi, router};
pub use state::AppState;
pub(crate) use transport::serve;
