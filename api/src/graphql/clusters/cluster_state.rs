//! The states of a cluster, as it is and as the account wants it to be.

use async_graphql::Enum;
use entity::cluster;

use crate::{domain::life_cycle, graphql::engine::json::write_enums_by_name};

/// The state of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "life_cycle::State")]
pub(crate) enum ClusterState {
    /// The cluster is less than ten minutes old, and no worker has joined or no work has arrived yet.
    Starting,
    /// The cluster has work.
    Running,
    /// The cluster has had no work since `idleSince`.
    Idle,
    /// The cluster was requested to stop, see `stopRequest`, and has not closed yet.
    Closing,
    /// The cluster reported that it closed.
    Closed,
    /// The cluster has not reported for three of its reporting intervals, and for at least 30 seconds.
    /// The state is detected by a job that runs every ten seconds, and ends with the next report.
    Lost,
}

write_enums_by_name!(ClusterState);

/// The state that the account wants a cluster to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enum)]
#[graphql(remote = "cluster::DesiredState")]
pub(crate) enum DesiredState {
    /// The cluster continues to run.
    Running,
    /// The scheduler closes, and its workers with it.
    Stopped,
}

write_enums_by_name!(DesiredState);
