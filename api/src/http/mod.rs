//! axum only: from bytes to what `app` and `graphql` understand, and back.

mod activate_token;
mod address;
mod api_token;
mod body;
mod bucket;
mod budget;
mod client_span;
mod cluster_page;
mod coiled;
mod cookie;
mod credentials;
mod event_stream;
mod export;
mod export_api;
mod forgery;
mod form;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod graphql;
mod health;
mod landing;
mod media_type;
mod metrics;
mod named;
mod oidc;
mod operation;
mod page;
mod policy;
mod preload;
mod problem;
mod report;
mod router;
mod session;
mod shown_report;
mod sign_in;
mod socket;
mod state;
mod surrogate;
mod tls;
mod transport;
mod visitor;

pub use router::{openapi, operations, router};
pub use state::AppState;
pub(crate) use tls::Certificate;
pub use tls::TlsError;
pub(crate) use transport::{Service, serve};
