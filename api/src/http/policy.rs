//! What browsers may do with answers, and from where they may ask.

use std::time::Duration;

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    response::Response,
};
use tower_http::cors::CorsLayer;

use super::budget::{RATE_LIMIT, RATE_LIMIT_POLICY};

/// How long a browser may remember that it may ask.
const REMEMBERED: Duration = Duration::from_hours(1);

/// What every answer says that does not say otherwise itself: it is what its type says, nothing of it runs or is shown within
/// something else, nobody else's page gets it, no address is told to others, and it is kept nowhere.
const CLOSED: [(HeaderName, HeaderValue); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    ),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// Says it to browsers where the answer does not.
pub(super) fn close(response: &mut Response) {
    let headers: &mut HeaderMap = response.headers_mut();
    for (name, value) in CLOSED {
        headers.entry(name).or_insert(value);
    }
}

/// What lets pages of other sites ask; nothing if there are none. They show a token: no cookie is ever taken from them.
pub(super) fn cors(origins: &[HeaderValue]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let layer = CorsLayer::new()
        .allow_origin(origins.to_vec())
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([
            header::ACCEPT,
            header::AUTHORIZATION,
            header::CONTENT_ENCODING,
            header::CONTENT_TYPE,
            HeaderName::from_static("galvo-account"),
        ])
        .expose_headers([
            RATE_LIMIT,
            RATE_LIMIT_POLICY,
            header::RETRY_AFTER,
            HeaderName::from_static("x-request-id"),
        ])
        .max_age(REMEMBERED);
    Some(layer)
}
