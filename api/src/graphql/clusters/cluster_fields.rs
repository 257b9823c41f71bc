//! The fields of clusters that follow from their rows.

use async_graphql::ID;
use chrono::{DateTime, Utc};
use entity::cluster::{self, Status};

use super::{
    cluster_state::{ClusterState, DesiredState},
    cluster_totals::ClusterTotals,
};
use crate::{
    domain::{
        idle_verdict::idle_ms_from_columns,
        life_cycle::{State, StateFacts},
    },
    graphql::engine::{id::GlobalId, row_fields::row_fields, scalar::BigInt},
};

row_fields! {
    /// The fields of a cluster that follow from its row.
    pub(crate) struct ClusterFields of cluster;

    /// The global identifier.
    id(account_id, id): ID = GlobalId::Cluster(*account_id, *id).into();

    /// The number, which identifies the cluster in the account. Numbers count up from 1 in the order of first
    /// reports. URLs, the command line and the `coiled` client use them.
    number(id): BigInt = BigInt(id.0);

    /// Dask's own identifier of the scheduler process.
    scheduler_id(scheduler_id): &str = scheduler_id;

    /// The name that the cluster manager gave the cluster. Null if no cluster manager named it, for example
    /// for a scheduler that was started by hand.
    name(name): Option<&str> = name.as_deref();

    /// The address on which the scheduler listens. Null if it was not reported.
    address(address): Option<&str> = address.as_deref();

    /// The URL of Dask's own dashboard, reachable while the cluster runs. Null if it was not reported.
    dashboard_url(dashboard_url): Option<&str> = dashboard_url.as_deref();

    /// The state of the cluster, as of its last report.
    state(status, desired_state, idle_since, duration_ms, total_workers, total_tasks): ClusterState =
        State::of(&StateFacts {
            status: *status,
            desired_state: *desired_state,
            is_idle: idle_since.is_some(),
            age_ms: *duration_ms,
            workers: *total_workers,
            tasks: *total_tasks,
        })
        .into();

    /// The state that the account wants the cluster to be in. The scheduler receives it with the
    /// response to its next report.
    desired_state(desired_state): DesiredState = (*desired_state).into();

    /// The time at which the scheduler process started, by its own clock.
    started_at(started_at): DateTime<Utc> = started_at.0;

    /// The time at which the cluster closed or, if it is `LOST`, of its last report, by its own clock.
    /// Null while it reports.
    ended_at(status, closed_at, reported_at): Option<DateTime<Utc>> =
        closed_at.or((*status == Status::Lost).then_some(*reported_at)).map(|time| time.0);

    /// The duration from the start of the cluster until it closed, or until its last report, by its own
    /// clock, in seconds.
    duration_seconds(duration_ms): f64 = to_seconds(*duration_ms);

    /// The reason why the cluster closed. Null if the scheduler reported none.
    close_reason(close_reason): Option<&str> = close_reason.as_deref();

    /// The time of the last contact with the cluster, by the server's clock.
    last_seen_at(last_seen_at): DateTime<Utc> = last_seen_at.0;

    /// The time since which the cluster has had no work, as of its last report. Null while it has work.
    idle_since(idle_since): Option<DateTime<Utc>> = idle_since.map(|time| time.0);

    /// The duration without work up to the last report, or until the cluster closed, by its own clock,
    /// in seconds. 0 if it had work.
    idle_seconds(idle_since, closed_at, reported_at): f64 =
        to_seconds(idle_ms_from_columns(*idle_since, *closed_at, *reported_at).unwrap_or(0));

    @objects {
        /// The totals over the cluster's whole life.
        totals: ClusterTotals;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of milliseconds is exact for centuries")]
fn to_seconds(milliseconds: i64) -> f64 {
    milliseconds as f64 / 1e3
}
