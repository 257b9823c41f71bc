//! Errors of REST routes: one body for every status, with a stable code.

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
    app::{ClientSpanError, ClusterRefusal, ReportError},
    auth::AuthError,
    error::{Chain, INTERNAL, INTERNAL_MESSAGE, panic_message, truncate_text},
    export::{EncodeError, ReadError},
    store::StoreError,
};

/// The retry delay in seconds for an error whose duration the server does not know.
const RETRY_AFTER_SECONDS: u64 = 5;

/// The code for a scheduler token that is used for anything else.
const TOKEN_BOUND: &str = "TOKEN_BOUND";

/// An error of a REST route.
#[derive(Debug, thiserror::Error)]
#[error("{}", .body.message)]
pub(crate) struct Problem {
    status: StatusCode,
    body: Box<ErrorBody>,
    header: Option<(HeaderName, HeaderValue)>,
}

/// The body of every response with a status of 400 or more.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ErrorBody {
    /// The message for people.
    message: String,
    /// The same message, for clients that read this key.
    detail: String,
    /// The code for programs. It is stable.
    code: &'static str,
    /// The JSON pointer (RFC 6901) to the invalid value of the body. Absent if the error concerns no
    /// single value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// The reference for the operator, who finds the cause beside it in the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<Uuid>,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let message = truncate_text(message.into());
        let body = ErrorBody { detail: message.clone(), message, code, pointer: None, reference: None };
        Self { status, body: Box::new(body), header: None }
    }

    /// Creates the error of an invalid value of the body at `pointer`.
    pub(crate) fn invalid(pointer: String, message: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "INVALID_BODY", message);
        problem.body.pointer = Some(truncate_text(pointer));
        problem
    }

    /// Creates the error of a body that is invalid as a whole.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "MALFORMED_BODY", message)
    }

    /// Creates the error of an invalid parameter of the URL.
    pub(crate) fn parameter(name: &str, reason: &str) -> Self {
        Self::parameters(format!("parameter '{}' {reason}", truncate_text(name.to_owned())))
    }

    /// Creates the error of invalid parameters of the URL. The message names the parameter.
    pub(crate) fn parameters(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_PARAMETER", message)
    }

    /// Creates the error of a response of unknown length over HTTP/1.0, in which a partial response
    /// looks complete.
    pub(crate) fn http_version() -> Self {
        let message = "exports need HTTP/1.1 or newer, because a truncated response looks complete with \
                       HTTP/1.0";
        Self::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "HTTP_VERSION", message)
    }

    pub(crate) fn unauthenticated(message: impl Into<String>) -> Self {
        let header = (header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Self { header: Some(header), ..Self::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", message) }
    }

    pub(crate) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }

    /// Creates the error of a scheduler whose token has more scopes than `ingest`, in an account that
    /// refuses such tokens.
    pub(crate) fn broad_token() -> Self {
        let message = "the account refuses tokens from schedulers that have more scopes than 'ingest': use \
                       a token with only that scope, or galvo.register(), which exchanges the token first";
        Self::forbidden("BROAD_TOKEN", message)
    }

    /// Creates the error of a request that a page of another origin made a browser send.
    pub(crate) fn forgery(message: impl Into<String>) -> Self {
        Self::forbidden("CSRF", message)
    }

    /// Creates the error of a request whose host is not a name of this server.
    pub(crate) fn unknown_host(message: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "UNKNOWN_HOST", message)
    }

    /// Creates the error of a request that conflicts with existing data.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "CONFLICT", message)
    }

    /// Creates the error of a report whose sequence is so high that no other could follow. Its status is
    /// not that of an invalid body, because reporters do not retry those.
    pub(crate) fn sequence_too_far(message: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::CONFLICT, "SEQUENCE_TOO_FAR", message);
        problem.body.pointer = Some("/sequence".to_owned());
        problem
    }

    pub(crate) fn not_found() -> Self {
        Self::missing("there is nothing at this address")
    }

    /// Creates the error of a URL or parameter that names a nonexistent object.
    pub(crate) fn missing(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    /// Creates the error of stored data that cannot be decrypted.
    pub(crate) fn undecryptable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "METHOD_NOT_ALLOWED",
            "this address does not support this method",
        )
    }

    /// Creates the error of a mutation by GET, which a link in a browser could trigger.
    pub(crate) fn no_mutations_by_get() -> Self {
        let header = (header::ALLOW, HeaderValue::from_static("POST"));
        let message = "mutations cannot be sent by GET";
        Self {
            header: Some(header),
            ..Self::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
        }
    }

    /// Creates the error of a protocol upgrade that is unsupported or malformed.
    pub(crate) fn upgrade(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "UPGRADE", message)
    }

    pub(crate) fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NOT_ACCEPTABLE", message)
    }

    pub(crate) fn timeout() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "TIMEOUT", "the body did not arrive in time")
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::too_much(format!("the body is larger than {limit} bytes"))
    }

    pub(crate) fn too_much(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", message)
    }

    pub(crate) fn rate_limited(retry_after_seconds: u64, message: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message);
        Self { header: Some((header::RETRY_AFTER, retry_after_seconds.into())), ..problem }
    }

    /// Creates the error of an account whose storage quota is used up.
    pub(crate) fn quota_exceeded(retry_after_seconds: u64, message: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::INSUFFICIENT_STORAGE, "QUOTA_EXCEEDED", message);
        Self { header: Some((header::RETRY_AFTER, retry_after_seconds.into())), ..problem }
    }

    /// Creates the error of a query that exceeded its timeout.
    pub(crate) fn deadline(limit: Duration) -> Self {
        let message = format!("the query took longer than {} s: request less data", limit.as_secs_f64());
        Self::new(StatusCode::GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED", message)
    }

    /// Creates the error of a mutation that exceeded the time for its response. The mutation continues.
    pub(crate) fn mutation_deadline(limit: Duration) -> Self {
        let message = format!(
            "the mutation took longer than {} s and continues in the background: check later whether it \
             took effect",
            limit.as_secs_f64()
        );
        Self::new(StatusCode::GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", message);
        Self { header: Some((header::RETRY_AFTER, RETRY_AFTER_SECONDS.into())), ..problem }
    }

    /// Creates the error of a report beyond the limit of concurrent reports.
    pub(crate) fn too_many_reports() -> Self {
        Self::unavailable("too many reports are being stored: try again later")
    }

    /// Creates the error of a handler that panicked. The panic's message may contain any data, so only
    /// the log receives it.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let reference = Uuid::now_v7();
        tracing::error!(%reference, message = panic_message(panic), "request handler panicked");
        Self::internal(reference)
    }

    /// Creates an internal error, which the log describes beside the reference. It has the same code as
    /// in GraphQL responses.
    fn internal(reference: Uuid) -> Self {
        let mut problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL, INTERNAL_MESSAGE);
        problem.body.reference = Some(reference);
        problem
    }

    /// Returns true if the credentials are missing or invalid.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn code(&self) -> &'static str {
        self.body.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.body.message
    }

    pub(crate) fn reference(&self) -> Option<Uuid> {
        self.body.reference
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn pointer(&self) -> Option<&str> {
        self.body.pointer.as_deref()
    }

    /// Returns the same response with another body.
    pub(crate) fn with_body(&self, body: impl IntoResponse) -> Response {
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
                tracing::warn!(error = %Chain(&error), "database unavailable");
                Self::unavailable("the database is unavailable: try again later")
            }
            StoreError::Conflict(_)
            | StoreError::Unexpected(_)
            | StoreError::Decryption(_)
            | StoreError::TooLarge(_) => {
                let reference = Uuid::now_v7();
                tracing::error!(%reference, error = %Chain(&error), "request failed");
                Self::internal(reference)
            }
        }
    }
}

impl From<EncodeError> for Problem {
    fn from(error: EncodeError) -> Self {
        let reference = Uuid::now_v7();
        tracing::error!(%reference, error = %Chain(&error), "failed to write an export");
        Self::internal(reference)
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NotFound => Self::not_found(),
            ReadError::Refused(errors) => errors.first().map_or_else(unexplained_error, query_problem),
            ReadError::Store(StoreError::TooLarge(message)) => Self::parameters(message),
            ReadError::Store(error) => error.into(),
            ReadError::Timeout(limit) => Self::deadline(limit),
        }
    }
}

/// Converts an error of a GraphQL query to the error of a REST route.
fn query_problem(error: &ServerError) -> Problem {
    let extension = |name| match error.extensions.as_ref().and_then(|extensions| extensions.get(name)) {
        Some(Value::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match extension("code") {
        Some("UNAVAILABLE") => Problem::unavailable(&error.message),
        Some("FORBIDDEN") => Problem::forbidden("FORBIDDEN", &error.message),
        Some("KEY_MISSING") => Problem::undecryptable("KEY_MISSING", &error.message),
        Some("DAMAGED") => Problem::undecryptable("DAMAGED", &error.message),
        Some(INTERNAL) => extension("reference")
            .and_then(|text| text.parse().ok())
            .map_or_else(unexplained_error, Problem::internal),
        _ => Problem::parameters(&error.message),
    }
}

/// Reports a query of an export that failed without an error.
fn unexplained_error() -> Problem {
    let reference = Uuid::now_v7();
    tracing::error!(%reference, "a page of an export failed without an error");
    Problem::internal(reference)
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Missing | AuthError::Invalid | AuthError::NoSession => {
                Self::unauthenticated(error.to_string())
            }
            AuthError::NoAccount => Self::forbidden("ACCOUNT_MISMATCH", error.to_string()),
            AuthError::SchedulerToken => Self::forbidden(TOKEN_BOUND, error.to_string()),
            AuthError::MissingScope(_) => Self::forbidden("MISSING_SCOPE", error.to_string()),
            AuthError::Store(error) => error.into(),
        }
    }
}

impl From<ClusterRefusal> for Problem {
    fn from(refusal: ClusterRefusal) -> Self {
        let code = match refusal {
            ClusterRefusal::NotOwner => "NOT_CLUSTER_OWNER",
            ClusterRefusal::Quarantined => "CLUSTER_QUARANTINED",
            ClusterRefusal::Deleted => "CLUSTER_DELETED",
        };
        Self::new(StatusCode::CONFLICT, code, refusal.to_string())
    }
}

impl From<ClientSpanError> for Problem {
    fn from(error: ClientSpanError) -> Self {
        match error {
            ClientSpanError::NoCluster => Self::not_found(),
            ClientSpanError::Cluster(refusal) => refusal.into(),
            ClientSpanError::Store(error) => error.into(),
        }
    }
}

impl From<ReportError> for Problem {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Cluster(refusal) => refusal.into(),
            ReportError::AccountMismatch(_) => Self::forbidden("ACCOUNT_MISMATCH", error.to_string()),
            ReportError::SequenceTooFar(_) => Self::sequence_too_far(error.to_string()),
            ReportError::TokenBound => Self::forbidden(TOKEN_BOUND, error.to_string()),
            ReportError::Quota(exceeded) => Self::quota_exceeded(RETRY_AFTER_SECONDS, exceeded.refusal()),
            ReportError::Store(error) => error.into(),
        }
    }
}
