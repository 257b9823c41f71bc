//! `/`: what this address is, for a person who opens it in a browser.

use axum::{http::header, response::IntoResponse};

const PAGE: &str = concat!(
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Galvo</title>",
    "<meta name=\"viewport\" content=\"width=device-width\">",
    "<h1>Galvo ",
    env!("CARGO_PKG_VERSION"),
    "</h1><p>The open analytics server for Dask runs here.</p><ul>",
    "<li><a href=\"/graphql\">GraphiQL</a>: ask questions; put <code>{\"Authorization\": \"Bearer &lt;token&gt;\"}</code> into its headers</li>",
    "<li><a href=\"/api/v1/openapi.json\">OpenAPI</a>: the REST routes</li>",
    "<li><a href=\"/api/v2/analytics/preload\">The scheduler plugin</a></li></ul></html>"
);

pub(super) async fn get() -> impl IntoResponse {
    (
        [
            (header::CONTENT_TYPE, "text/html; charset=utf-8"),
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        ],
        PAGE,
    )
}
