//! How REST routes say no: one body for every status, with a stable code.

use std::time::Duration;

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{app::ReportError, auth::AuthError, error::Chain, store::StoreError};

/// Seconds after which a client is told to come back when the server cannot know better.
const RETRY_AFTER_SECONDS: u64 = 5;

/// An error of a REST route.
#[derive(Debug)]
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
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", "there is nothing at this address")
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "METHOD_NOT_ALLOWED",
            "this address does not take this method",
        )
    }

    /// A mutation by GET, which a link could start in a browser.
    pub(super) fn only_queries_by_get() -> Self {
        let header = (header::ALLOW, HeaderValue::from_static("POST"));
        let message = "only queries can be sent by GET";
        Self {
            header: Some(header),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
        }
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

    /// A handler panicked. The panic's own message may hold anything, so it goes to the log only.
    pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let message =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let reference = Uuid::now_v7();
        tracing::error!(%reference, message = message.unwrap_or_default(), "a request panicked");
        let mut problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "internal error");
        problem.body.reference = Some(reference);
        problem
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

    #[cfg(test)]
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

/// Characters of a text that can hold what a client sent.
const MAX_TEXT: usize = 300;

/// Parsers repeat what they do not like, and that may be all that was sent.
pub(super) fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(end);
        text.push('…');
    }
    text
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
                let mut problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", "internal error");
                problem.body.reference = Some(reference);
                problem
            }
        }
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
