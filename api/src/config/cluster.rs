//! The subcommands of `galvo cluster`.

use clap::{Subcommand, ValueEnum};
use entity::ids::ClusterId;

use super::parse_slug;
use crate::domain::{life_cycle::State, slug::Slug, stop::StopReason};

/// Manage clusters.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// List the clusters of an account, newest first: ID, state, start, last report, name.
    List {
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// List only clusters in this state. Can be given several times. Default: all clusters that have
        /// not ended.
        #[arg(long = "state", value_enum)]
        states: Vec<StateName>,
        /// Maximum number of clusters, from 1 to 10000.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        limit: u64,
    },
    /// Request a cluster to stop. Its scheduler receives the request in the response to its next report.
    Stop {
        /// ID of the cluster, as `galvo cluster list` prints it.
        #[arg(value_parser = parse_cluster_id)]
        id: ClusterId,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Reason for the stop, at most 200 characters. All members of the account can read it.
        #[arg(long, value_parser = parse_reason)]
        reason: Option<StopReason>,
    },
    /// Transfer the ownership of a cluster to another member. The server accepts the cluster's reports
    /// only with the owner's credentials.
    HandOver {
        /// ID of the cluster, as `galvo cluster list` prints it.
        #[arg(value_parser = parse_cluster_id)]
        id: ClusterId,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
        /// Name of the new owner, a member of the account.
        #[arg(long, value_parser = parse_slug)]
        user: Slug,
    },
    /// Delete a cluster with all its data. This cannot be undone. The cluster is hidden at once; the
    /// running server removes the data in the background.
    Delete {
        /// ID of the cluster, as `galvo cluster list` prints it.
        #[arg(value_parser = parse_cluster_id)]
        id: ClusterId,
        /// Short name of the account.
        #[arg(long, value_parser = parse_slug)]
        account: Slug,
    },
}

/// A cluster state as written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateName {
    /// Recently started, without workers or tasks yet.
    Starting,
    /// Has tasks to run.
    Running,
    /// Has no tasks.
    Idle,
    /// Requested to stop, but not closed yet.
    Closing,
    /// Closed by its scheduler.
    Closed,
    /// Stopped sending reports without closing.
    Lost,
}

impl From<StateName> for State {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Starting => Self::Starting,
            StateName::Running => Self::Running,
            StateName::Idle => Self::Idle,
            StateName::Closing => Self::Closing,
            StateName::Closed => Self::Closed,
            StateName::Lost => Self::Lost,
        }
    }
}

fn parse_cluster_id(text: &str) -> Result<ClusterId, String> {
    text.parse().map(ClusterId).map_err(|_| "not the number of a cluster".to_owned())
}

fn parse_reason(text: &str) -> Result<StopReason, String> {
    StopReason::new(text).map_err(|error| error.to_string())?.ok_or_else(|| "must not be empty".to_owned())
}
