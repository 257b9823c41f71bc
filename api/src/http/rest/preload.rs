//! The scheduler plugin, as `dask scheduler --preload` and `coiled.analytics` download it.

use std::{collections::BTreeMap, sync::LazyLock};

use axum::{http::header, response::IntoResponse};

macro_rules! modules {
    ($($name:literal,)*) => {
        [$(($name, include_str!(concat!("../../../../python/src/galvo/plugin/", $name, ".py"))),)*]
    };
}

/// The sources of the plugin's modules.
const MODULES: &[(&str, &str)] = &modules![
    "__init__",
    "bundle",
    "code",
    "collector",
    "configured",
    "error_sources",
    "errors",
    "events",
    "exception_texts",
    "excerpts",
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
    "report_sender",
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
pub(crate) async fn get() -> impl IntoResponse {
    (
        [(header::CONTENT_TYPE, "text/x-python; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")],
        MODULE.as_str(),
    )
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_preload_contains_every_module_of_the_plugin() {
        let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/src/galvo/plugin");
        let files = fs::read_dir(plugin).expect("the plugin").map(|entry| entry.expect("a file").path());
        let sources = files.filter(|file| file.extension().is_some_and(|extension| extension == "py"));
        let mut names: Vec<_> =
            sources.map(|file| file.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, MODULES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
