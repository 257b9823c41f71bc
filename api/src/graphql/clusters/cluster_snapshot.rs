//! The size of clusters at one moment.

use async_graphql::SimpleObject;
use chrono::{DateTime, Utc};
use entity::cluster::Model;

use crate::graphql::engine::{projection::inline_members, scalar::BigInt};

/// The size of a cluster at one moment.
#[derive(SimpleObject)]
pub(crate) struct ClusterSnapshot {
    /// The time of the snapshot, by the scheduler's clock.
    at: DateTime<Utc>,
    /// The number of connected workers.
    workers: BigInt,
    /// The number of threads of the connected workers.
    threads: BigInt,
    /// The memory that the worker processes use, in bytes.
    memory_used: BigInt,
    /// The sum of the workers' memory limits, in bytes. Null if one worker has no limit, or if there are
    /// no workers.
    memory_limit: Option<BigInt>,
}

inline_members! { ClusterSnapshot: at, workers, threads, memory_used, memory_limit }

impl From<&Model> for ClusterSnapshot {
    fn from(row: &Model) -> Self {
        Self {
            at: row.reported_at.0,
            workers: BigInt(row.workers),
            threads: BigInt(row.threads),
            memory_used: BigInt(row.memory_used_bytes),
            memory_limit: row.memory_limit_bytes.map(BigInt),
        }
    }
}
