//! Parameters of the path.

use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// The parameters of a path. A parameter that is not UTF-8 after decoding yields status 404.
pub(crate) struct PathParams<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let parameters = Path::from_request_parts(parts, state).await;
        parameters.map(|Path(parameters)| Self(parameters)).map_err(|_| Problem::not_found())
    }
}
