//! What `galvo cluster` does.

use crate::{
    app::cluster::{ClusterError, Clusters},
    config::ClusterCommand,
    domain::life_cycle::State,
};

/// The states of clusters that have not ended.
const OPEN: [State; 4] = [State::Starting, State::Running, State::Idle, State::Closing];

pub(super) async fn run(command: ClusterCommand, clusters: &Clusters) -> Result<(), ClusterError> {
    match command {
        ClusterCommand::List { account, states, limit } => {
            let mut states: Vec<State> = states.into_iter().map(State::from).collect();
            if states.is_empty() {
                states.extend(OPEN);
            }
            for row in clusters.list(&account, &states, limit).await? {
                let state = format!("{:?}", State::from(&row)).to_lowercase();
                let name = row.name.as_deref().unwrap_or(&row.scheduler_id);
                // A name is what somebody chose: it must not look like another line, or speak to a terminal.
                let name: String = name.chars().filter(|character| !character.is_control()).collect();
                let (start, seen) = (moment(row.started_at), moment(row.last_seen_at));
                println!("{:<17}{state:<10}{start}  {seen}  {name}", row.id.0);
            }
            Ok(())
        }
        ClusterCommand::Stop { id, account, reason } => clusters.stop(&account, id, reason).await,
    }
}

fn moment(time: entity::Timestamp) -> impl std::fmt::Display {
    time.0.format("%Y-%m-%dT%H:%M:%SZ")
}
