//! Workers and clients of a cluster, with their times.

use entity::{
    ids::{EnvironmentId, WorkerId},
    worker::End,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::validated::{Count, List, Map, Text, Threads, UnixTime};

/// A worker process, from its registration to its end.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct WorkerReport {
    /// The UUID in Dask's `server_id`. A restarted worker has a new one, although its name and address
    /// may stay.
    #[schema(value_type = uuid::Uuid)]
    pub id: WorkerId,
    /// Its number among the cluster's workers, in the order in which they joined, from 1.
    /// Absent if the reporter does not count them.
    #[serde(default)]
    pub number: Option<Count>,
    /// The worker's name in Dask.
    pub name: Text<2_048>,
    /// The address at which it listens.
    pub address: Text<2_048>,
    /// The host it runs on.
    #[serde(default)]
    pub host: Option<Text<2_048>>,
    /// Its software environment.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub environment_id: Option<EnvironmentId>,
    /// The number of its threads.
    pub threads: Threads,
    /// Its memory limit, in bytes. Absent if it has none.
    #[serde(default)]
    pub memory_limit_bytes: Option<Count>,
    /// The time at which it joined.
    pub started_at: UnixTime,
    /// The time at which it left. Absent while it is connected.
    #[serde(default)]
    pub ended_at: Option<UnixTime>,
    /// The cause of its end. Absent while it is connected.
    #[serde(default)]
    pub end: Option<WorkerEnd>,
    /// The keys of tasks that it was processing at its end.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 100)]
    pub processing_keys: List<Text<4_096>, 100>,
    /// The total number of tasks that it was processing at its end.
    #[serde(default)]
    pub processing: Count,
    /// The most frequent functions of these tasks, each with its number of tasks. The keys are the `prefix`
    /// of task groups. Absent while it is connected.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, i64>>)]
    pub processing_functions: Option<Map<Text<4_096>, Count, 20>>,
    /// The number of results that only this worker held at its end.
    #[serde(default)]
    pub lost_results: Count,
    /// The memory of its process at its last heartbeat, in bytes.
    #[serde(default)]
    pub last_memory_bytes: Option<Count>,
    /// The largest memory of its process at a heartbeat that the reporter saw, in bytes. Absent while it is
    /// connected.
    #[serde(default)]
    pub peak_memory_bytes: Option<Count>,
    /// The time of its last heartbeat, as seen by the scheduler.
    #[serde(default)]
    pub last_seen_at: Option<UnixTime>,
}

/// The cause of a worker's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerEnd {
    /// The cluster scaled down.
    Retired,
    /// The worker closed normally.
    Closed,
    /// Its nanny killed it because of its memory use.
    Memory,
    /// It disappeared without a message.
    Lost,
    /// It left for an unknown reason.
    Unknown,
}

impl From<WorkerEnd> for End {
    fn from(end: WorkerEnd) -> Self {
        match end {
            WorkerEnd::Retired => Self::Retired,
            WorkerEnd::Closed => Self::Closed,
            WorkerEnd::Memory => Self::Memory,
            WorkerEnd::Lost => Self::Lost,
            WorkerEnd::Unknown => Self::Unknown,
        }
    }
}

/// A connection of a client.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ClientReport {
    /// Dask's identifier of the client.
    pub id: Text<256>,
    /// Its software environment.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub environment_id: Option<EnvironmentId>,
    /// The time at which it connected.
    pub connected_at: UnixTime,
    /// The time at which it disconnected. Absent while it is connected.
    #[serde(default)]
    pub disconnected_at: Option<UnixTime>,
}

/// A change of the cluster's size.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
pub struct ThreadChange {
    /// The time of the change.
    pub at: UnixTime,
    /// The number of threads of all workers from then on.
    pub threads: Threads,
}
