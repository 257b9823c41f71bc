//! The software a process runs on.

use entity::ids::EnvironmentId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::bounded::{Map, Text};

/// The software a scheduler, worker or client runs on. Processes with the same software share one.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EnvironmentReport {
    /// A `UUIDv5` the reporter made of the content.
    #[schema(value_type = uuid::Uuid)]
    pub id: EnvironmentId,
    /// Version of Python.
    #[serde(default)]
    pub python: Option<Text<256>>,
    /// Path of the Python executable.
    #[serde(default)]
    pub executable: Option<Text<2_048>>,
    /// Name of the operating system, as in `platform.system()`.
    #[serde(default)]
    pub os: Option<Text<256>>,
    /// Its release.
    #[serde(default)]
    pub os_release: Option<Text<256>>,
    /// The machine's architecture, as in `platform.machine()`.
    #[serde(default)]
    pub machine: Option<Text<256>>,
    /// Versions of packages by name; null for one that is not installed.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub packages: Map<Text<256>, Option<Text<256>>, 500>,
}
