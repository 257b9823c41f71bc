//! What clients see of an error: one stable code each, documented in `docs/graphql.md`.

use std::sync::Arc;

use async_graphql::{Error, ErrorExtensions};
use entity::api_token::Scope;
use uuid::Uuid;

use crate::{auth::AuthError, error::Chain, store::StoreError};

/// An error a client may see.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// There is no such thing, or not for this viewer: both look the same.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// An argument has a value it cannot have.
    #[error("argument '{argument}': {reason}")]
    InvalidArgument {
        /// The argument's name in the schema.
        argument: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The viewer may know the thing exists, but not do this with it.
    #[error("{0}")]
    Forbidden(String),
    /// The store cannot be asked now; the same again may work later.
    #[error("the store is unavailable, try again later")]
    Unavailable(Arc<StoreError>),
    /// A defect of ours. The client is told a reference that stands in the log beside the cause.
    #[error("internal error")]
    Internal(Arc<StoreError>),
}

impl ApiError {
    fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "NOT_FOUND",
            Self::InvalidArgument { .. } => "BAD_USER_INPUT",
            Self::Forbidden(_) => "FORBIDDEN",
            Self::Unavailable(_) => "UNAVAILABLE",
            Self::Internal(_) => "INTERNAL_SERVER_ERROR",
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Arc::new(error).into()
    }
}

impl From<Arc<StoreError>> for ApiError {
    fn from(error: Arc<StoreError>) -> Self {
        match *error {
            StoreError::Unavailable(_) | StoreError::Contention(_) => Self::Unavailable(error),
            StoreError::Conflict(_) | StoreError::Unexpected(_) => Self::Internal(error),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Store(error) => error.into(),
            refused => Self::Forbidden(refused.to_string()),
        }
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        let shown =
            Self::new(error.to_string()).extend_with(|_, extensions| extensions.set("code", error.code()));
        match &error {
            ApiError::Internal(cause) => {
                let reference = Uuid::now_v7();
                tracing::error!(%reference, error = %Chain(cause), "a query failed");
                shown.extend_with(|_, extensions| extensions.set("reference", reference.to_string()))
            }
            ApiError::Unavailable(cause) => {
                tracing::warn!(error = %Chain(cause), "the store is unavailable");
                shown
            }
            _ => shown,
        }
    }
}

/// Names a scope as the schema does.
pub(super) fn missing_scope(scope: Scope) -> ApiError {
    AuthError::MissingScope(scope).into()
}
