//! The scheduler plugin, as `dask scheduler --preload` and `coiled.analytics` download it.

use std::{collections::BTreeMap, sync::LazyLock};

use axum::{http::header, response::IntoResponse};

macro_rules! modules {
    ($($name:literal,)*) => {
        [$(($name, include_str!(concat!("../../../python/src/galvo/plugin/", $name, ".py"))),)*]
    };
}

/// The sources of the plugin's modules. A test of the Python package compares the list with its
/// directory.
const MODULES: &[(&str, &str)] = &modules![
    "__init__",
    "bundle",
    "code",
    "collector",
    "configured",
    "courier",
    "errors",
    "events",
    "exception_texts",
    "exchange",
    "function_activity",
    "identity",
    "idleness",
    "inheritance",
    "inputs",
    "last_metrics",
    "ledger",
    "logs",
    "profiles",
    "proxy",
    "records",
    "registry",
    "resolver",
    "samples",
    "scrub",
    "sections",
    "settings",
    "shares",
    "spans",
    "spool",
    "telemetry",
    "unsent_metrics",
    "usage",
    "values",
    "work",
    "worker_side",
    "workers",
    "workforce",
];

/// All modules as strings, followed by the one that turns them into a package. The plugin is sent to the
/// scheduler in the same form: a module from downloaded text has no file from which to read its own
/// source, and bytecode does not survive a change of the Python version.
static MODULE: LazyLock<String> = LazyLock::new(|| {
    let sources: BTreeMap<_, _> = MODULES.iter().copied().collect();
    // A JSON object of strings is a Python literal if it is ASCII or plain UTF-8, which it is.
    let literal = serde_json::to_string(&sources).expect("text is JSON");
    format!("SOURCES = {literal}\n{}", sources["bundle"])
});

/// Get the Dask scheduler plugin
///
/// Returns Python source that defines a class `CoiledTelemetry` and, for `dask scheduler --preload`, a
/// `dask_setup`. It contains no secret and requires no token.
#[utoipa::path(
    get,
    path = "/api/v2/analytics/preload",
    tag = "plugin",
    responses((status = 200, description = "The Python source.", body = String, content_type = "text/x-python"))
)]
pub(super) async fn get() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/x-python; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")],
        MODULE.as_str(),
    )
}
