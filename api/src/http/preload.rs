//! The scheduler plugin, as `dask scheduler --preload` and `coiled.analytics` fetch it.

use std::{collections::BTreeMap, sync::LazyLock};

use axum::{http::header, response::IntoResponse};

macro_rules! modules {
    ($($name:literal,)*) => {
        [$(($name, include_str!(concat!("../../../python/src/galvo/plugin/", $name, ".py"))),)*]
    };
}

/// The sources of the plugin's modules. A test of the Python package compares the list with its directory.
const MODULES: &[(&str, &str)] = &modules![
    "__init__",
    "bundle",
    "code",
    "collector",
    "courier",
    "errors",
    "events",
    "idleness",
    "inheritance",
    "ledger",
    "logs",
    "profiles",
    "resolver",
    "samples",
    "scrub",
    "sections",
    "settings",
    "spans",
    "telemetry",
    "usage",
    "values",
    "work",
    "worker_side",
    "workers",
    "workforce",
];

/// All modules as strings, followed by the one that makes a package of them. The plugin travels on to the
/// scheduler in the same way: a module made from downloaded text has no file to read its own source from, and
/// byte code does not survive a change of Python version.
static MODULE: LazyLock<String> = LazyLock::new(|| {
    let sources: BTreeMap<_, _> = MODULES.iter().copied().collect();
    // A JSON object of strings is a Python literal as long as it is all ASCII or plain UTF-8, which it is.
    let literal = serde_json::to_string(&sources).expect("text is JSON");
    format!("SOURCES = {literal}\n{}", sources["bundle"])
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
