//! How REST routes say no: one body for every status, with a stable code.

use std::time::Duration;

use async_graphql::{ServerError, Value};
use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    app::ReportError,
    auth::AuthError,
    error::{Chain, cut},
    export::{EncodeError, ReadError},
    store::StoreError,
};

/// Seconds after which a client is told to come back when the server cannot know better.
const RETRY_AFTER_SECONDS: u64 = 5;

/// An error of a REST route.
#[derive(Debug, thiserror::Error)]
#[error("{}", .body.message)]
pub(super) struct Problem {
    status: StatusCode,
    body: Box<ErrorBody>,
    header: Option<(HeaderName, HeaderValue)>,
}

/// The body of every answer with a status of 400 or more.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ErrorBody {
    /// What is wrong, for people.
    message: String,
    /// The same: some clients read this key.
    detail: String,
    /// What is wrong, for programs; stable.
    code: &'static str,
    /// JSON pointer (RFC 6901) to the wrong value of the body, if it is one value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// What to quote when the operator is asked; stands in the log beside the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<Uuid>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = cut(message.into());
        let body = ErrorBody { detail: message.clone(), message, code, pointer: None, reference: None };
        Self { status, body: Box::new(body), header: None }
    }

    /// The body's value at `pointer` is wrong.
    pub(super) fn invalid(pointer: String, message: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "INVALID_BODY", message);
        problem.body.pointer = Some(cut(pointer));
        problem
    }

    /// The body as a whole is wrong.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "MALFORMED_BODY", message)
    }

    /// A parameter of the address is wrong.
    pub(super) fn parameter(name: &str, reason: &str) -> Self {
        Self::parameters(format!("parameter '{}' {reason}", cut(name.to_owned())))
    }

    /// The parameters of the address are wrong; the message names the one.
    pub(super) fn parameters(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_PARAMETER", message)
    }

    /// An answer of unknown length, which HTTP/1.0 cannot tell from a part of it.
    pub(super) fn http_version() -> Self {
        let message = "exports need HTTP/1.1, in which an answer that was cut off does not look whole";
        Self::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "HTTP_VERSION", message)
    }

    pub(super) fn unauthenticated(message: impl Into<String>) -> Self {
        let header = (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Self { header: Some(header), ..Self::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", message) }
    }

    pub(super) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    /// What somebody else's page made a browser send.
    pub(super) fn forgery(message: impl Into<String>) -> Self {
        Self::forbidden("CSRF", message)
    }

    /// What is there already stands in the way.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "CONFLICT", message)
    }

    pub(super) fn not_found() -> Self {
        Self::missing("there is nothing at this address")
    }

    /// What an address or a parameter names is not there.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "METHOD_NOT_ALLOWED",
            "this address does not take this method",
        )
    }

    /// A mutation by GET, which a link could start in a browser.
    pub(super) fn no_mutations_by_get() -> Self {
        let header = (header::ALLOW, HeaderValue::from_static("POST"));
        let message = "mutations cannot be sent by GET";
        Self {
            header: Some(header),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
        }
    }

    /// What asks for another protocol than HTTP, and not for one of ours or not as it is asked for.
    pub(super) fn upgrade(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "UPGRADE", message)
    }

    pub(super) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NOT_ACCEPTABLE", message)
    }

    pub(super) fn timeout() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "TIMEOUT", "the body did not arrive in time")
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::too_much(format!("the body is larger than {limit} bytes"))
    }

    pub(super) fn too_much(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
    }

    pub(super) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message)
    }

    pub(super) fn rate_limited(retry_after_seconds: u64, message: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message);
        Self { header: Some((header::RETRY_AFTER, retry_after_seconds.into())), ..problem }
    }

    /// A query took too long.
    pub(super) fn deadline(limit: Duration) -> Self {
        let message = format!("the query took longer than {} s: ask for less", limit.as_secs_f64());
        Self::new(StatusCode::GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED", message)
    }

    /// A mutation took too long for its answer to be waited for.
    pub(super) fn deadline_of_change(limit: Duration) -> Self {
        let message = format!(
            "the mutation took longer than {} s and goes on: look whether it changed what it should",
            limit.as_secs_f64()
        );
        Self::new(StatusCode::GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED", message)
    }

    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message);
        Self { header: Some((header::RETRY_AFTER, RETRY_AFTER_SECONDS.into())), ..problem }
    }

    /// The store has as many reports to store as it takes at once.
    pub(super) fn too_many_reports() -> Self {
        Self::unavailable("too many reports are being stored, try again later")
    }

    /// A handler panicked. The panic's own message may hold anything, so it goes to the log only.
    pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let message =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let reference = Uuid::now_v7();
        tracing::error!(%reference, message = message.unwrap_or_default(), "a request panicked");
        Self::internal(Some(reference))
    }

    /// A defect of ours, which stands in the log beside the reference.
    fn internal(reference: Option<Uuid>) -> Self {
        let mut problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "internal error");
        problem.body.reference = reference;
        problem
    }

    /// Whether it is that nobody showed who they are, or not well enough.
    pub(super) fn is_unauthenticated(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn code(&self) -> &'static str {
        self.body.code
    }

    pub(super) fn message(&self) -> &str {
        &self.body.message
    }

    pub(super) fn reference(&self) -> Option<Uuid> {
        self.body.reference
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn pointer(&self) -> Option<&str> {
        self.body.pointer.as_deref()
    }

    /// The same answer with another body.
    pub(super) fn with_body(&self, body: impl IntoResponse) -> Response {
        let mut response = (self.status, body).into_response();
        if let Some((name, value)) = &self.header {
            response.headers_mut().insert(name, value.clone());
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.with_body(Json(&self.body))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Contention(_) => {
                tracing::warn!(error = %Chain(&error), "the store is unavailable");
                Self::unavailable("the store is unavailable, try again later")
            }
            StoreError::Conflict(_)
            | StoreError::Unexpected(_)
            | StoreError::Sealed(_)
            | StoreError::TooMuch(_) => {
                let reference = Uuid::now_v7();
                tracing::error!(%reference, error = %Chain(&error), "a request failed");
                Self::internal(Some(reference))
            }
        }
    }
}

impl From<EncodeError> for Problem {
    fn from(error: EncodeError) -> Self {
        let reference = Uuid::now_v7();
        tracing::error!(%reference, error = %Chain(&error), "an export cannot be written");
        Self::internal(Some(reference))
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound => Self::not_found(),
            ReadError::Refused(errors) => errors.first().map_or_else(|| Self::internal(None), refused),
            ReadError::Store(StoreError::TooMuch(what)) => Self::parameters(what),
            ReadError::Store(error) => error.into(),
            ReadError::Timeout(limit) => Self::deadline(limit),
        }
    }
}

/// What GraphQL answers to a query, as an answer of a REST route.
fn refused(error: &ServerError) -> Problem {
    let extension = |name| match error.extensions.as_ref().and_then(|extensions| extensions.get(name)) {
        Some(Value::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match extension("code") {
        Some("UNAVAILABLE") => Problem::unavailable(&error.message),
        Some("FORBIDDEN") => Problem::forbidden("FORBIDDEN", &error.message),
        Some("INTERNAL_SERVER_ERROR") => {
            Problem::internal(extension("reference").and_then(|text| text.parse().ok()))
        }
        _ => Problem::parameters(&error.message),
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Missing | AuthError::Invalid | AuthError::NoSession => {
                Self::unauthenticated(error.to_string())
            }
            AuthError::NoAccount => Self::forbidden("ACCOUNT_MISMATCH", error.to_string()),
            AuthError::MissingScope(_) => Self::forbidden("MISSING_SCOPE", error.to_string()),
            AuthError::Store(error) => error.into(),
        }
    }
}

impl From<ReportError> for Problem {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::AccountMismatch(_) => Self::forbidden("ACCOUNT_MISMATCH", error.to_string()),
            ReportError::Store(error) => error.into(),
        }
    }
}
