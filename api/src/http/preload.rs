//! The scheduler plugin, as `dask scheduler --preload` and `coiled.analytics` fetch it.

use std::sync::LazyLock;

use axum::{http::header, response::IntoResponse};

/// The plugin's source: one self-contained file.
const PLUGIN: &str = include_str!("../../../python/src/galvo/plugin.py");

/// The source with itself as a string in front. A module made from downloaded text has no file to read its own
/// source from, and the plugin travels to the scheduler as source, because byte code does not survive a change
/// of Python version.
static MODULE: LazyLock<String> = LazyLock::new(|| {
    // A JSON string is a Python string literal as long as it is all ASCII or plain UTF-8, which it is.
    let literal = serde_json::to_string(PLUGIN).expect("text is JSON");
    format!("SOURCE = {literal}\n{PLUGIN}")
});

/// Serve the Dask scheduler plugin
///
/// Python source that leaves a class `CoiledTelemetry` and, for `dask scheduler --preload`, a `dask_setup`. It
/// holds no secret and needs no token.
#[utoipa::path(
    get,
    path = "/api/v2/analytics/preload",
    tag = "plugin",
    responses((status = 200, description = "Python source.", body = String, content_type = "text/x-python"))
)]
pub(super) async fn get() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/x-python; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")],
        MODULE.as_str(),
    )
}
