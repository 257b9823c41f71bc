//! The errors of the GraphQL API, with one stable code each. `docs/graphql.md` documents the codes.

use std::sync::Arc;

use async_graphql::{Error, ErrorExtensions, Pos, ServerError};
use uuid::Uuid;

use crate::{
    auth::AuthError,
    encryption::DecryptError,
    error::{Chain, INTERNAL, INTERNAL_MESSAGE},
    store::StoreError,
};

/// An error that clients may see.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApiError {
    /// The object does not exist, or the viewer may not see it. Both look the same.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The object that an argument names does not exist, or the viewer may not see it.
    #[error("argument '{argument}': there is no such {kind}")]
    ArgumentNotFound {
        /// The argument's name in the schema.
        argument: &'static str,
        /// The kind of object that it names.
        kind: &'static str,
    },
    /// An argument has an invalid value.
    #[error("argument '{argument}': {reason}")]
    InvalidArgument {
        /// The argument's name in the schema.
        argument: &'static str,
        /// The reason why the value is invalid.
        reason: String,
    },
    /// The viewer may know that the object exists, but lacks the right to this action on it.
    #[error("{0}")]
    Forbidden(String),
    /// The data is encrypted and cannot be decrypted.
    #[error("{0}")]
    NotDecryptable(DecryptError),
    /// The request exceeds what one response may hold.
    #[error("{0}")]
    LimitExceeded(&'static str),
    /// The database is unavailable. The same request may succeed later.
    #[error("the database is unavailable: try again later")]
    Unavailable(Arc<StoreError>),
    /// A defect of the server. The client receives a reference that is logged beside the cause.
    #[error("internal error")]
    Internal(Arc<StoreError>),
}

/// The value of a field that fails alone, because it cannot be decrypted, is not visible to the viewer,
/// or is too large for one response. An error makes only this field null. With `Result<Option<T>, _>`,
/// an error would make everything null up to the next nullable parent.
pub(crate) type NullOnError<T> = Option<Result<T, ApiError>>;

impl ApiError {
    /// Creates the error of an argument with an invalid value.
    pub(crate) fn invalid(argument: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidArgument { argument, reason: reason.into() }
    }

    /// Creates the error of an argument that names no object.
    pub(crate) fn unknown(argument: &'static str, kind: &'static str) -> Self {
        Self::ArgumentNotFound { argument, kind }
    }

    /// Converts the error into one of the response as a whole, without a location in the document.
    pub(crate) fn into_response_error(self) -> ServerError {
        let error = Error::from(self).into_server_error(Pos::default());
        ServerError { locations: Vec::new(), ..error }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::NotFound(_) | Self::ArgumentNotFound { .. } => "NOT_FOUND",
            Self::InvalidArgument { .. } | Self::LimitExceeded(_) => "BAD_USER_INPUT",
            Self::Forbidden(_) => "FORBIDDEN",
            Self::NotDecryptable(DecryptError::KeyMissing(_)) => "KEY_MISSING",
            Self::NotDecryptable(DecryptError::Damaged) => "DAMAGED",
            Self::Unavailable(_) => "UNAVAILABLE",
            Self::Internal(_) => INTERNAL,
        }
    }
}

/// Returns the error of a defect outside of the store, as clients see it. The reason is only logged.
pub(crate) fn log_defect(reason: &str) -> ServerError {
    let reference = Uuid::now_v7();
    tracing::error!(%reference, reason, "query failed because of a defect");
    let mut error = ServerError::new(INTERNAL_MESSAGE, None);
    let extensions = error.extensions.get_or_insert_default();
    extensions.set("code", INTERNAL);
    extensions.set("reference", reference.to_string());
    error
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Arc::new(error).into()
    }
}

impl From<Arc<StoreError>> for ApiError {
    fn from(error: Arc<StoreError>) -> Self {
        match &*error {
            StoreError::Decryption(error) => Self::NotDecryptable(error.clone()),
            StoreError::TooLarge(message) => Self::LimitExceeded(message),
            StoreError::Unavailable(_) | StoreError::Contention(_) => Self::Unavailable(error),
            StoreError::Conflict(_) | StoreError::Unexpected(_) => Self::Internal(error),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Store(error) => error.into(),
            refusal => Self::Forbidden(refusal.to_string()),
        }
    }
}

impl From<ApiError> for Error {
    fn from(error: ApiError) -> Self {
        let client_error =
            Self::new(error.to_string()).extend_with(|_, extensions| extensions.set("code", error.code()));
        match &error {
            ApiError::Internal(cause) => {
                let reference = Uuid::now_v7();
                tracing::error!(%reference, error = %Chain(cause), "query failed");
                client_error.extend_with(|_, extensions| extensions.set("reference", reference.to_string()))
            }
            ApiError::Unavailable(cause) => {
                tracing::warn!(error = %Chain(cause), "database unavailable");
                client_error
            }
            _ => client_error,
        }
    }
}
