//! The operations on PostgreSQL: on a history and on one that is longer.

use std::{sync::Arc, time::Instant};

use sqlx::{Connection as _, PgConnection};

use super::{
    Options,
    bare::BareServer,
    check_rows,
    data::{self, History},
    measurement::Measurement,
    postgraphile::Postgraphile,
    queries::{self, Operation},
    requests::Requests,
    rounds::Rounds,
    statements::{Statement, backends, count_json_rows, fetch, to_json},
};
use crate::{
    database::{Databases, Result},
    server::Server,
};

/// A database with a history, its server, and the operations.
struct MeasuredServer {
    server: Server,
    token: String,
    history: History,
    operations: Vec<Arc<Operation>>,
}

pub(super) async fn run(databases: &Databases, options: &Options) -> Result<()> {
    let short = MeasuredServer::prepare(databases, 1, options).await?;
    let long = MeasuredServer::prepare(databases, options.scale, options).await?;
    let postgraphile = Postgraphile::start(&long.history.database.url, options.connections).await?;
    for (index, operation) in long.operations.iter().enumerate() {
        if options.includes(operation.name) {
            let sides = Sides { short: &short, long: &long, postgraphile: postgraphile.as_ref() };
            sides.measure(operation, &short.operations[index], options).await?;
        }
    }
    drop(postgraphile);
    for measured in [short, long] {
        measured.server.stop().await?;
        measured.history.database.drop().await?;
    }
    Ok(())
}

impl MeasuredServer {
    async fn prepare(databases: &Databases, scale: i64, options: &Options) -> Result<Self> {
        let started_at = Instant::now();
        let history = data::generate(databases, scale).await?;
        let server = Server::start(&history.database.url, options.connections).await?;
        let deep_position = history.find_deep_position(&server, &databases.token).await?;
        let operations =
            queries::all_operations(&history, &deep_position).into_iter().map(Arc::new).collect();
        println!("  history {scale} made in {:.0} s", started_at.elapsed().as_secs_f64());
        Ok(Self { server, token: databases.token.clone(), history, operations })
    }

    fn requests(&self, operation: &Operation) -> Requests {
        Requests {
            address: self.server.address,
            token: self.token.clone(),
            bodies: Arc::new(operation.requests.clone()),
        }
    }

    async fn measure(&self, operation: &Operation, options: &Options) -> Result<Measurement> {
        let mut processes = backends(&self.history.database.url, "galvo").await?;
        processes.push(self.server.pid());
        self.requests(operation).measure(options, &processes).await
    }

    /// Checks that server and statement return the same number of rows for every request, and returns these
    /// numbers.
    async fn check(&self, operation: &Operation) -> Result<Vec<usize>> {
        let mut database = PgConnection::connect(&self.history.database.url).await?;
        let mut expected_rows = Vec::with_capacity(operation.binds.len());
        for index in 0..operation.binds.len() {
            let rows = fetch(&mut database, operation, index).await?;
            if index == 0 {
                let (name, bytes) = (operation.name, to_json(&rows).len());
                println!("  {name}: {} rows, {bytes} bytes by hand", rows.len());
            }
            expected_rows.push(rows.len());
        }
        // The copies of one cluster are equally long.
        if expected_rows.iter().any(|rows| *rows != expected_rows[0]) {
            return Err(format!("{}: the statement returned {expected_rows:?} rows", operation.name).into());
        }
        let rows = self.requests(operation).count_rows(operation.rows).await?;
        check_rows(operation.name, "the server", &rows, &expected_rows)?;
        let rows = count_json_rows(&mut database, operation).await?;
        check_rows(operation.name, "JSON by the database", &rows, &expected_rows)?;
        Ok(expected_rows)
    }
}

/// The servers of all rounds.
struct Sides<'a> {
    short: &'a MeasuredServer,
    long: &'a MeasuredServer,
    postgraphile: Option<&'a Postgraphile>,
}

impl Sides<'_> {
    /// Measures an operation on all sides in turns.
    async fn measure(
        &self,
        operation: &Arc<Operation>,
        short_operation: &Operation,
        options: &Options,
    ) -> Result<()> {
        let Self { short, long, postgraphile } = self;
        short.check(short_operation).await?;
        let expected_rows = long.check(operation).await?;
        let url = &long.history.database.url;
        let bare = BareServer::start(url, operation, options.connections).await?;
        let bare_requests = Requests { address: bare.address, ..long.requests(operation) };
        let peer = match postgraphile {
            Some(postgraphile) => {
                let requests = postgraphile.requests(&operation.postgraphile).await?;
                let rows = requests.count_rows(operation.postgraphile.rows).await?;
                check_rows(operation.name, "PostGraphile", &rows, &expected_rows)?;
                Some((postgraphile, requests))
            }
            None => None,
        };
        let mut rounds = Rounds::default();
        // The first round is a warm-up.
        for round in 0..=options.rounds {
            let short_result = short.measure(short_operation, options).await?;
            let long_result = long.measure(operation, options).await?;
            let bare_result = bare_requests.measure(options, &bare.backends).await?;
            let by_hand_result = Statement::Rows.measure(url, operation, options).await?;
            let json_result = Statement::Json.measure(url, operation, options).await?;
            let peer_result = match &peer {
                Some((postgraphile, requests)) => {
                    Some(requests.measure(options, &postgraphile.processes(url).await?).await?)
                }
                None => None,
            };
            println!(
                "  {} round {round}: {:.0}/s, {:.0}/s on the short history, {:.0}/s of a bare server, {:.0}/s by hand, \
                 {:.0}/s of JSON by the database, {} of PostGraphile",
                operation.name,
                long_result.rate,
                short_result.rate,
                bare_result.rate,
                by_hand_result.rate,
                json_result.rate,
                peer_result.map_or("none".to_owned(), |result| format!("{:.0}/s", result.rate)),
            );
            if round > 0 {
                rounds.short.push(short_result);
                rounds.long.push(long_result);
                rounds.bare.push(bare_result);
                rounds.by_hand.push(by_hand_result);
                rounds.json.push(json_result);
                if let Some(result) = peer_result {
                    rounds.postgraphile.push(result);
                }
            }
        }
        let version = postgraphile.map_or("", |postgraphile| &postgraphile.version);
        rounds.publish(operation.name, operation.aims, version, options);
        Ok(())
    }
}
