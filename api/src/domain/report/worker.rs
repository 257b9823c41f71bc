//! Workers and clients: who took part in a cluster, and when.

use entity::{
    ids::{EnvironmentId, WorkerId},
    worker::End,
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::super::bounded::{Count, List, Text, UnixTime};

/// One worker process, from when it joined to when it left.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct WorkerReport {
    /// The UUID in Dask's `server_id`: a restarted worker is another one, although name and address may stay.
    #[schema(value_type = uuid::Uuid)]
    pub id: WorkerId,
    /// Dask's name of it.
    pub name: Text<2_048>,
    /// Where it listens.
    pub address: Text<2_048>,
    /// The host it runs on.
    #[serde(default)]
    pub host: Option<Text<2_048>>,
    /// What it runs on.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub environment_id: Option<EnvironmentId>,
    /// Its threads.
    pub threads: Count,
    /// Its memory limit in bytes; absent when it has none.
    #[serde(default)]
    pub memory_limit_bytes: Option<Count>,
    /// When it joined.
    pub started_at: UnixTime,
    /// When it left; absent while it is there.
    #[serde(default)]
    pub ended_at: Option<UnixTime>,
    /// How it ended; absent while it is there.
    #[serde(default)]
    pub end: Option<WorkerEnd>,
    /// Keys of tasks it was processing when it ended.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 100)]
    pub processing_keys: List<Text<4_096>, 100>,
    /// How many those were in all.
    #[serde(default)]
    pub processing: Count,
    /// Results that existed only there when it ended.
    #[serde(default)]
    pub lost_results: Count,
    /// Memory of its process in bytes, when it last told.
    #[serde(default)]
    pub last_memory_bytes: Option<Count>,
    /// When the scheduler last heard of it.
    #[serde(default)]
    pub last_seen_at: Option<UnixTime>,
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkerEnd {
    /// The cluster had no more need of it.
    Retired,
    /// It closed in good order.
    Closed,
    /// Its nanny killed it over its memory.
    Memory,
    /// It vanished without a word.
    Lost,
    /// It left, and nothing tells how.
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

/// One connection of a client.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ClientReport {
    /// Dask's identifier of the client.
    pub id: Text<256>,
    /// What it runs on.
    #[serde(default)]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub environment_id: Option<EnvironmentId>,
    /// When it connected.
    pub connected_at: UnixTime,
    /// When it left; absent while it is there.
    #[serde(default)]
    pub disconnected_at: Option<UnixTime>,
}

/// A change of the cluster's size.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
pub struct ThreadChange {
    /// Since when.
    pub at: UnixTime,
    /// Threads of all workers from then on.
    pub threads: Count,
}
