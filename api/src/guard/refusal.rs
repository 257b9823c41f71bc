//! Errors of requests that are refused before execution.

use async_graphql::{Pos, ServerError};

/// The machine-readable reason of an error. `docs/graphql.md` lists the codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// The text is not GraphQL.
    Parse,
    /// The document does not match the schema.
    Validation,
    /// The server has no persisted documents.
    PersistedUnsupported,
    /// No document has this hash.
    PersistedNotFound,
    /// The server executes only persisted documents, and this is not one of them.
    NotPersisted,
    /// The request does not select one operation of the document.
    Operation,
    /// The operation may not select one of the document's fields.
    Forbidden,
    /// A variable or an argument has an invalid value.
    Input,
    /// The document exceeds a limit of its size.
    DocumentLimit,
    /// The fields nest too deeply.
    DepthLimit,
    /// The result could be too large.
    CostLimit,
}

impl Code {
    fn name(self) -> &'static str {
        match self {
            Self::Parse => "GRAPHQL_PARSE_FAILED",
            Self::Validation => "GRAPHQL_VALIDATION_FAILED",
            Self::PersistedUnsupported => "PERSISTED_QUERY_NOT_SUPPORTED",
            Self::PersistedNotFound => "PERSISTED_QUERY_NOT_FOUND",
            Self::NotPersisted => "PERSISTED_QUERY_NOT_IN_LIST",
            Self::Operation => "OPERATION_RESOLUTION_FAILURE",
            Self::Forbidden => "FORBIDDEN",
            Self::Input => "BAD_USER_INPUT",
            Self::DocumentLimit => "DOCUMENT_LIMIT_EXCEEDED",
            Self::DepthLimit => "DEPTH_LIMIT_EXCEEDED",
            Self::CostLimit => "COST_LIMIT_EXCEEDED",
        }
    }
}

/// Creates an error with a code. It has no path, because nothing was executed.
pub(super) fn new(code: Code, message: impl Into<String>) -> ServerError {
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code.name());
    error
}

/// Creates an error with a code at a position of the document.
pub(super) fn at(code: Code, message: impl Into<String>, position: Option<Pos>) -> ServerError {
    let mut error = new(code, message);
    error.locations.extend(position);
    error
}
