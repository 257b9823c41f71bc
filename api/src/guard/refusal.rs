//! How a request is refused before anything of it runs.

use async_graphql::{Pos, ServerError};

/// Why, for programs. `docs/graphql.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    /// The text is no GraphQL.
    Parse,
    /// It is GraphQL, and not of this schema.
    Validation,
    /// Documents cannot be named by their hash here.
    PersistedUnsupported,
    /// No document has this hash.
    PersistedNotFound,
    /// Only documents that the operator knows are executed, and this one is none of them.
    NotPersisted,
    /// The document does not say which of its operations to run.
    Operation,
    /// The operation may not have what the document selects.
    Forbidden,
    /// A variable has a value it cannot have.
    Input,
    /// The document is too large in itself.
    DocumentLimit,
    /// Its fields nest too deep.
    DepthLimit,
    /// The answer could become too large.
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

/// An error with a code, and no path: nothing ran.
pub(super) fn new(code: Code, message: impl Into<String>) -> ServerError {
    let mut error = ServerError::new(message, None);
    error.extensions.get_or_insert_default().set("code", code.name());
    error
}

/// The same, at a place of the document.
pub(super) fn at(code: Code, message: impl Into<String>, place: Option<Pos>) -> ServerError {
    let mut error = new(code, message);
    error.locations.extend(place);
    error
}
