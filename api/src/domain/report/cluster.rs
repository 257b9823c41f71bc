//! The cluster as a whole.

use entity::ids::EnvironmentId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::bounded::{Count, Seconds, Text, UnixTime};

/// The cluster as a whole.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ClusterReport {
    /// The name the cluster manager gave it.
    #[serde(default)]
    pub name: Option<Text<2_048>>,
    /// Where the scheduler listens.
    #[serde(default)]
    pub address: Option<Text<2_048>>,
    /// Where Dask's own dashboard is.
    #[serde(default)]
    pub dashboard_url: Option<Text<2_048>>,
    /// The environment of the scheduler process.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub environment_id: Option<EnvironmentId>,
    /// When the scheduler process started.
    pub started_at: UnixTime,
    /// When it closed; with the final report only.
    #[serde(default)]
    pub closed_at: Option<UnixTime>,
    /// Why it closed, if it is known.
    #[serde(default)]
    pub close_reason: Option<Text<2_048>>,
    /// Since when no task runs or waits; absent while there is work.
    #[serde(default)]
    pub idle_since: Option<UnixTime>,
    /// Seconds without work after which the scheduler closes by itself; absent when it never does.
    #[serde(default)]
    pub idle_timeout_seconds: Option<Seconds>,
    /// Graphs the scheduler is taking in; absent where Dask does not tell.
    #[serde(default)]
    pub graph_updates: Option<Count>,
    /// Workers connected now.
    pub workers: Count,
    /// Threads of those workers.
    pub threads: Count,
    /// Sum of their memory limits in bytes; absent when one of them has no limit.
    #[serde(default)]
    pub memory_limit_bytes: Option<Count>,
    /// Sum of their process memory in bytes.
    pub memory_used_bytes: Count,
    /// Sums over the scheduler's whole life.
    pub totals: Totals,
}

/// Sums over a scheduler's whole life, up to this report.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Totals {
    /// Tasks in all task groups ever seen.
    pub tasks: Count,
    /// Times a task came to be in memory; a task computed again counts again.
    pub tasks_succeeded: Count,
    /// Tasks that erred themselves, not those that only depend on one.
    pub tasks_erred: Count,
    /// Errors recorded, including those the reporter had to drop.
    pub errors: Count,
    /// Thread-seconds spent computing tasks that succeeded.
    pub compute_seconds: Seconds,
    /// Seconds spent fetching those tasks' inputs from other workers.
    pub transfer_seconds: Seconds,
    /// Threads integrated over time: what the cluster offered, busy or idle.
    pub thread_seconds: Seconds,
    /// Bytes of all results ever produced.
    pub bytes: Count,
    /// Workers that ever joined.
    pub workers: Count,
    /// Most workers at one time.
    pub peak_workers: Count,
    /// Most threads at one time.
    pub peak_threads: Count,
}
