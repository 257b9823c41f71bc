//! The command `galvo cluster`.

use super::moment::format_time;
use crate::{
    app::cluster::{ClusterError, Clusters},
    config::ClusterCommand,
    domain::{life_cycle::State, visible_text::visible},
};

/// The states of clusters that have not ended.
const OPEN_STATES: [State; 4] = [State::Starting, State::Running, State::Idle, State::Closing];

pub(super) async fn run(command: ClusterCommand, clusters: &Clusters) -> Result<(), ClusterError> {
    match command {
        ClusterCommand::List { account, states, limit } => {
            let mut states: Vec<State> = states.into_iter().map(State::from).collect();
            if states.is_empty() {
                states.extend(OPEN_STATES);
            }
            for row in clusters.list(&account, &states, limit).await? {
                let state = format!("{:?}", State::from(&row)).to_lowercase();
                let name = row.name.as_deref().unwrap_or(&row.scheduler_id);
                // Users choose cluster names: control characters must not fake another line or send
                // escape sequences to a terminal.
                let name = visible(name);
                let (start, last_report) = (format_time(row.started_at), format_time(row.last_seen_at));
                println!("{:<17}{state:<10}{start}  {last_report}  {name}", row.id.0);
            }
            Ok(())
        }
        ClusterCommand::Stop { id, account, reason } => clusters.stop(&account, id, reason).await,
        ClusterCommand::HandOver { id, account, user } => clusters.hand_over(&account, id, &user).await,
        ClusterCommand::Delete { id, account } => clusters.delete(&account, id).await,
    }
}
