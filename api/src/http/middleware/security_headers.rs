//! Security headers of responses, and CORS.

use std::time::Duration;

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, Method, header},
    response::Response,
};
use tower_http::cors::CorsLayer;

use super::rate_limit::{RATE_LIMIT, RATE_LIMIT_POLICY};

/// The time for which a browser may cache a CORS preflight response.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_hours(1);

/// The default security headers of every response: no content sniffing, no scripts, no framing, no
/// embedding by other origins, no referrer, and no caching. A response can override each of them.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    ),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// HSTS for a year. It excludes subdomains, which may belong to others.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds the missing security headers. `sends_hsts` also adds HSTS.
pub(crate) fn add_security_headers(response: &mut Response, sends_hsts: bool) {
    let headers: &mut HeaderMap = response.headers_mut();
    if sends_hsts {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
    }
    for (name, value) in SECURITY_HEADERS {
        headers.entry(name).or_insert(value);
    }
}

/// Returns the CORS layer for pages of other origins. Returns None if no origins are configured. Such
/// pages send a token: cookies are never accepted from them.
pub(crate) fn cors(origins: &[HeaderValue]) -> Option<CorsLayer> {
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
        .max_age(PREFLIGHT_MAX_AGE);
    Some(layer)
}
