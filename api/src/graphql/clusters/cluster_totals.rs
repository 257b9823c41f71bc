//! The totals of clusters.

use entity::cluster;

use crate::graphql::engine::{row_fields::row_fields, scalar::BigInt};

row_fields! {
    /// The totals over a cluster's whole life.
    pub(crate) struct ClusterTotals of cluster;

    /// The number of tasks submitted to the scheduler.
    tasks(total_tasks): BigInt = BigInt(*total_tasks);

    /// The number of times a task reached the state `memory`. A task that is computed again counts again.
    tasks_succeeded(total_tasks_succeeded): BigInt = BigInt(*total_tasks_succeeded);

    /// The number of tasks whose own execution failed. Tasks that failed only because of a dependency are not
    /// counted.
    tasks_erred(total_tasks_erred): BigInt = BigInt(*total_tasks_erred);

    /// The number of recorded errors.
    errors(total_errors): BigInt = BigInt(*total_errors);

    /// The size of all results produced, in bytes.
    bytes(total_bytes): BigInt = BigInt(*total_bytes);

    /// The number of workers that ever joined.
    workers(total_workers): BigInt = BigInt(*total_workers);

    /// The maximum number of workers at one time.
    peak_workers(peak_workers): BigInt = BigInt(*peak_workers);

    /// The maximum number of threads at one time.
    peak_threads(peak_threads): BigInt = BigInt(*peak_threads);

    /// The largest memory that the worker processes used at a report, in bytes. Null if the first report is
    /// from a release of the server that did not keep it.
    peak_memory(peak_memory_bytes): Option<BigInt> = peak_memory_bytes.map(BigInt);

    /// The compute time of tasks that succeeded, in thread-seconds.
    compute_seconds(total_compute_seconds): f64 = *total_compute_seconds;

    /// The time spent fetching inputs from other workers, in seconds.
    transfer_seconds(total_transfer_seconds): f64 = *total_transfer_seconds;

    /// The thread time that the cluster offered, busy or idle, in thread-seconds: threads integrated
    /// over time.
    thread_seconds(total_thread_seconds): f64 = *total_thread_seconds;
}
