//! The cluster as a whole.

use entity::ids::EnvironmentId;
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::validated::{Count, Seconds, Text, UnixTime};

/// The cluster as a whole.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ClusterReport {
    /// The name that the cluster manager assigned.
    #[serde(default)]
    pub name: Option<Text<2_048>>,
    /// The address at which the scheduler listens.
    #[serde(default)]
    pub address: Option<Text<2_048>>,
    /// The URL of Dask's own dashboard.
    #[serde(default)]
    pub dashboard_url: Option<Text<2_048>>,
    /// The software environment of the scheduler process.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub environment_id: Option<EnvironmentId>,
    /// The time at which the scheduler process started.
    pub started_at: UnixTime,
    /// The time at which it closed. Only in the final report.
    #[serde(default)]
    pub closed_at: Option<UnixTime>,
    /// The reason for which it closed, if it is known.
    #[serde(default)]
    pub close_reason: Option<Text<2_048>>,
    /// The time since which no task runs or waits. Absent while there is work.
    #[serde(default)]
    pub idle_since: Option<UnixTime>,
    /// The idle time after which the scheduler closes by itself, in seconds. Absent if it never does.
    #[serde(default)]
    pub idle_timeout_seconds: Option<Seconds>,
    /// The number of graphs that the scheduler is processing. Absent if Dask does not report it.
    #[serde(default)]
    pub graph_updates: Option<Count>,
    /// The reason why the reports hold only a part of the cluster's work, as a sentence that can follow
    /// an answer. Absent if they hold all of it. An imported file may hold a part.
    #[serde(default)]
    pub partial: Option<Text<2_048>>,
    /// The number of connected workers.
    pub workers: Count,
    /// The number of threads of the connected workers.
    pub threads: Count,
    /// The sum of their memory limits, in bytes. Absent if one of them has no limit.
    #[serde(default)]
    pub memory_limit_bytes: Option<Count>,
    /// The sum of their process memory, in bytes.
    pub memory_used_bytes: Count,
    /// The totals over the scheduler's whole life.
    pub totals: Totals,
}

/// The totals over a scheduler's whole life, up to this report.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Totals {
    /// The number of tasks in all task groups so far.
    pub tasks: Count,
    /// The number of times that a task produced a result in memory. A recomputed task counts again.
    pub tasks_succeeded: Count,
    /// The number of tasks that failed by an exception of their own. Tasks that only depend on one are
    /// excluded.
    pub tasks_erred: Count,
    /// The number of recorded errors, including those that the reporter had to discard.
    pub errors: Count,
    /// The compute time of tasks that succeeded, in thread-seconds.
    pub compute_seconds: Seconds,
    /// The time to fetch the inputs of those tasks from other workers, in seconds.
    pub transfer_seconds: Seconds,
    /// The number of threads integrated over time: the thread time that the cluster provided, busy or
    /// idle.
    pub thread_seconds: Seconds,
    /// The bytes of all results so far.
    pub bytes: Count,
    /// The number of workers that ever joined.
    pub workers: Count,
    /// The largest number of workers at one time.
    pub peak_workers: Count,
    /// The largest number of threads at one time.
    pub peak_threads: Count,
}
