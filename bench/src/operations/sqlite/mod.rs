//! The operations on SQLite, against the statement alone in this process.

mod copy;
mod statement;

use std::{path::Path, sync::Arc};

use super::{
    Options, check_rows, data,
    measurement::Series,
    queries::{self, Operation},
    requests::Requests,
    rounds::publish_capacity,
};
use crate::{
    database::{Databases, Result, Store},
    server::Server,
};

pub(super) async fn run(databases: &Databases, options: &Options) -> Result<()> {
    let history = data::generate(databases, 1).await?;
    let files = Databases::prepare(Store::Sqlite).await?;
    let database = files.create_copy().await?;
    let path = database.path.as_deref().ok_or("a database of SQLite is a file")?;
    copy::copy_rows(&history.database.url, path).await?;
    let server = Server::start(&database.url, options.connections).await?;
    let deep_position = history.find_deep_position(&server, &databases.token).await?;
    for operation in queries::all_operations(&history, &deep_position) {
        if options.includes(operation.name) {
            measure(&server, path, &databases.token, &Arc::new(operation), options).await?;
        }
    }
    server.stop().await?;
    history.database.drop().await
}

/// Measures an operation on both sides in turns.
async fn measure(
    server: &Server,
    path: &Path,
    token: &str,
    operation: &Arc<Operation>,
    options: &Options,
) -> Result<()> {
    let name = operation.name;
    let requests = Requests {
        address: server.address,
        token: token.to_owned(),
        bodies: Arc::new(operation.requests.clone()),
    };
    let expected_rows = statement::count_rows(path, operation)?;
    check_rows(name, "the server", &requests.count_rows(operation.rows).await?, &expected_rows)?;
    let (mut ours, mut bare) = (Series::default(), Series::default());
    // The first round is a warm-up.
    for round in 0..=options.rounds {
        let server_result = requests.measure(options, &[server.pid()]).await?;
        let bare_result = statement::measure(path, operation, options.seconds)?;
        println!(
            "  {name}, SQLite round {round}: {:.0}/s, {:.0}/s of the bare statement",
            server_result.rate, bare_result.rate
        );
        if round > 0 {
            ours.push(server_result);
            bare.push(bare_result);
        }
    }
    let description = format!("by the bare statement in {} threads", statement::THREADS);
    publish_capacity(
        format!("operations, {name}, SQLite"),
        (&ours, &bare),
        &description,
        operation.aims.sqlite,
    );
    Ok(())
}
