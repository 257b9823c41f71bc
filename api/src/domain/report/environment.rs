//! Software environments of processes.

use entity::ids::EnvironmentId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::validated::{Map, Text};

/// The software of a scheduler, worker or client process. Processes with the same software share one
/// environment.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct EnvironmentReport {
    /// A `UUIDv5` that the reporter derived from the content.
    #[schema(value_type = uuid::Uuid)]
    pub id: EnvironmentId,
    /// The version of Python.
    #[serde(default)]
    pub python: Option<Text<256>>,
    /// The path of the Python executable.
    #[serde(default)]
    pub executable: Option<Text<2_048>>,
    /// The name of the operating system, from `platform.system()`.
    #[serde(default)]
    pub os: Option<Text<256>>,
    /// The release of the operating system.
    #[serde(default)]
    pub os_release: Option<Text<256>>,
    /// The architecture of the machine, from `platform.machine()`.
    #[serde(default)]
    pub machine: Option<Text<256>>,
    /// The versions of packages by name. Null for a package that is not installed.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<String>>)]
    pub packages: Map<Text<256>, Option<Text<256>>, 500>,
}
