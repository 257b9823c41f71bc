//! The totals of clusters.

use async_graphql::SimpleObject;
use entity::cluster::Model;

use crate::graphql::engine::{projection::inline_members, scalar::BigInt};

/// The totals over a cluster's whole life.
#[derive(SimpleObject)]
pub(crate) struct ClusterTotals {
    /// The number of tasks submitted to the scheduler.
    tasks: BigInt,
    /// The number of times a task reached the state `memory`. A task that is computed again counts again.
    tasks_succeeded: BigInt,
    /// The number of tasks whose own execution failed. Tasks that failed only because of a dependency are not
    /// counted.
    tasks_erred: BigInt,
    /// The number of recorded errors.
    errors: BigInt,
    /// The size of all results produced, in bytes.
    bytes: BigInt,
    /// The number of workers that ever joined.
    workers: BigInt,
    /// The maximum number of workers at one time.
    peak_workers: BigInt,
    /// The maximum number of threads at one time.
    peak_threads: BigInt,
    /// The largest memory that the worker processes used at a report, in bytes. Null if the first report is
    /// from a release of the server that did not keep it.
    peak_memory: Option<BigInt>,
    /// The compute time of tasks that succeeded, in thread-seconds.
    compute_seconds: f64,
    /// The time spent fetching inputs from other workers, in seconds.
    transfer_seconds: f64,
    /// The thread time that the cluster offered, busy or idle, in thread-seconds: threads integrated
    /// over time.
    thread_seconds: f64,
}

inline_members! {
    ClusterTotals: tasks, tasks_succeeded, tasks_erred, errors, bytes, workers, peak_workers, peak_threads,
        peak_memory, compute_seconds, transfer_seconds, thread_seconds
}

impl From<&Model> for ClusterTotals {
    fn from(row: &Model) -> Self {
        Self {
            tasks: BigInt(row.total_tasks),
            tasks_succeeded: BigInt(row.total_tasks_succeeded),
            tasks_erred: BigInt(row.total_tasks_erred),
            errors: BigInt(row.total_errors),
            bytes: BigInt(row.total_bytes),
            workers: BigInt(row.total_workers),
            peak_workers: BigInt(row.peak_workers),
            peak_threads: BigInt(row.peak_threads),
            peak_memory: row.peak_memory_bytes.map(BigInt),
            compute_seconds: row.total_compute_seconds,
            transfer_seconds: row.total_transfer_seconds,
            thread_seconds: row.total_thread_seconds,
        }
    }
}
