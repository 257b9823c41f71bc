//! What `galvo cluster` takes.

use clap::{Subcommand, ValueEnum};
use entity::ids::ClusterId;

use super::slug;
use crate::domain::{life_cycle::State, slug::Slug, stop::Reason};

/// Look after clusters.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// List the clusters of an account, the newest first: number, state, start, last report, name.
    List {
        /// The account's short name.
        #[arg(long, value_parser = slug)]
        account: Slug,
        /// Only those in this state; may be given more than once. Those that have not ended if not given.
        #[arg(long = "state", value_enum)]
        states: Vec<StateName>,
        /// At most so many.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        limit: u64,
    },
    /// Tell a cluster to stop. Its scheduler learns it with the answer to its next report.
    Stop {
        /// The cluster's number, as `galvo cluster list` prints it.
        #[arg(value_parser = number)]
        id: ClusterId,
        /// The account's short name.
        #[arg(long, value_parser = slug)]
        account: Slug,
        /// Why, in at most 200 characters; the members of the account can read it.
        #[arg(long, value_parser = reason)]
        reason: Option<Reason>,
    },
}

/// What a cluster is doing, as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StateName {
    /// It is young, and no worker has joined or no work has come yet.
    Starting,
    /// It has work.
    Running,
    /// It has none.
    Idle,
    /// It is to stop, and has not said goodbye.
    Closing,
    /// It said goodbye.
    Closed,
    /// Nothing is heard of it any more.
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

fn number(text: &str) -> Result<ClusterId, String> {
    text.parse().map(ClusterId).map_err(|_| "not the number of a cluster".to_owned())
}

fn reason(text: &str) -> Result<Reason, String> {
    Reason::new(text).map_err(|error| error.to_string())?.ok_or_else(|| "must not be empty".to_owned())
}
