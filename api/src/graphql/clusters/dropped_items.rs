//! The items that a reporter discarded, because there were too many at once.

use async_graphql::SimpleObject;
use entity::cluster::Model;

use crate::graphql::engine::{projection::inline_members, scalar::BigInt};

/// The number of items of each kind that a reporter discarded.
#[derive(SimpleObject)]
pub(crate) struct DroppedItems {
    /// The number of computations.
    computations: BigInt,
    /// The number of task groups.
    task_groups: BigInt,
    /// The number of errors.
    errors: BigInt,
    /// The number of environments.
    environments: BigInt,
    /// The number of workers.
    workers: BigInt,
    /// The number of clients.
    clients: BigInt,
    /// The number of changes of the thread count.
    thread_history: BigInt,
    /// The number of samples.
    samples: BigInt,
    /// The number of spans.
    spans: BigInt,
    /// The number of fine performance metrics of spans.
    fine_metrics: BigInt,
    /// The number of code snippets.
    code: BigInt,
    /// The number of profile windows.
    profiles: BigInt,
    /// The number of events.
    events: BigInt,
    /// The number of log lines.
    logs: BigInt,
    /// The number of hours of usage.
    usage: BigInt,
    /// The number of minutes of the functions' compute time.
    function_activity: BigInt,
}

inline_members! {
    DroppedItems: computations, task_groups, errors, environments, workers, clients, thread_history, samples, spans,
        fine_metrics, code, profiles, events, logs, usage, function_activity
}

impl DroppedItems {
    pub(crate) fn new(row: &Model) -> Self {
        let count = |section: &str| BigInt(row.dropped.0.get(section).copied().unwrap_or(0));
        Self {
            computations: count("computations"),
            task_groups: count("task_groups"),
            errors: count("errors"),
            environments: count("environments"),
            workers: count("workers"),
            clients: count("clients"),
            thread_history: count("thread_history"),
            samples: count("samples"),
            spans: count("spans"),
            fine_metrics: count("fine_metrics"),
            code: count("code"),
            profiles: count("profiles"),
            events: count("events"),
            logs: count("logs"),
            usage: count("usage"),
            function_activity: count("function_activity"),
        }
    }
}
