//! What clients see of an error: one stable code each, documented in `docs/graphql.md`.

use std::sync::Arc;

use async_graphql::{Error, ErrorExtensions, Pos, ServerError};
use entity::api_token::Scope;
use uuid::Uuid;

use crate::{auth::AuthError, error::Chain, seal::SealError, store::StoreError};

/// An error a client may see.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// There is no such thing, or not for this viewer: both look the same.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The same of what an argument names.
    #[error("argument '{argument}': there is no such {what}")]
    Unknown {
        /// The argument's name in the schema.
        argument: &'static str,
        /// What kind of thing it names.
        what: &'static str,
    },
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
    /// It is encrypted, and cannot be decrypted.
    #[error("{0}")]
    Sealed(SealError),
    /// More is asked for than one answer holds.
    #[error("{0}")]
    TooMuch(&'static str),
    /// The store cannot be asked now; the same again may work later.
    #[error("the store is unavailable, try again later")]
    Unavailable(Arc<StoreError>),
    /// A defect of ours. The client is told a reference that stands in the log beside the cause.
    #[error("internal error")]
    Internal(Arc<StoreError>),
}

/// What fails by itself: because it cannot be decrypted, is not for the viewer, or would be too much for one answer. A failure
/// makes this field null and leaves the rest of the answer as it is, where one of `Result<Option<T>, _>` would take everything
/// with it up to the next nullable parent.
pub(super) type Alone<T> = Option<Result<T, ApiError>>;

impl ApiError {
    /// An argument that cannot have its value.
    pub(super) fn invalid(argument: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidArgument { argument, reason: reason.into() }
    }

    /// An argument that names nothing.
    pub(super) fn unknown(argument: &'static str, what: &'static str) -> Self {
        Self::Unknown { argument, what }
    }

    /// It as an error of the answer as a whole, which is at no place of the document.
    pub(crate) fn of_the_answer(self) -> ServerError {
        let error = Error::from(self).into_server_error(Pos::default());
        ServerError { locations: Vec::new(), ..error }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) | Self::Unknown { .. } => "NOT_FOUND",
            Self::InvalidArgument { .. } | Self::TooMuch(_) => "BAD_USER_INPUT",
            Self::Forbidden(_) => "FORBIDDEN",
            Self::Sealed(SealError::KeyMissing(_)) => "KEY_MISSING",
            Self::Sealed(SealError::Damaged) => "DAMAGED",
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
        match &*error {
            StoreError::Sealed(error) => Self::Sealed(error.clone()),
            StoreError::TooMuch(what) => Self::TooMuch(what),
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
