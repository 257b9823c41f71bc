//! Read operations of people and programs: the server against one hand-written statement each, on a
//! history and on one that is ten times as long.

mod bare;
mod data;
mod model;
mod queries;

use std::{
    fmt::Write as _,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use serde_json::Value;
use sqlx::{
    AssertSqlSafe, Column as _, Connection as _, PgConnection, Row as _, TypeInfo as _, postgres::PgRow,
};

use crate::{
    client::Connection,
    database::{Databases, Result, Store},
    results::{Outcome, summarize},
    server::{Server, processor_seconds},
};
use bare::BareServer;
use data::History;
use queries::{Bind, Operation};

const AIM_RATE: f64 = 0.5;
const AIM_GROWTH: f64 = 1.2;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Factor between the lengths of the two histories.
    #[arg(long, default_value_t = 10)]
    scale: i64,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of one operation per side and round, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Number of concurrent requests or statements, and of connections to PostgreSQL.
    #[arg(long, default_value_t = 8)]
    connections: u32,
    /// Run only operations with this text in their name.
    #[arg(long)]
    only: Option<String>,
}

/// A database with a history, its server, and the operations.
struct MeasuredServer {
    server: Server,
    history: History,
    operations: Vec<Arc<Operation>>,
}

/// The result of one measurement in a round.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    /// The number of operations per second.
    rate: f64,
    /// The CPU time per operation of client, server and database, in seconds.
    processor: f64,
}

/// The results of all rounds.
#[derive(Default)]
struct Rounds {
    short: Vec<Measurement>,
    long: Vec<Measurement>,
    bare: Vec<Measurement>,
    by_hand: Vec<Measurement>,
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let databases = Databases::prepare(Store::Postgres).await?;
    let short = MeasuredServer::prepare(&databases, 1, options).await?;
    let long = MeasuredServer::prepare(&databases, options.scale, options).await?;
    for (index, operation) in long.operations.iter().enumerate() {
        if options.only.as_ref().is_some_and(|only| !operation.name.contains(only.as_str())) {
            continue;
        }
        check(&short, &databases.token, &short.operations[index]).await?;
        check(&long, &databases.token, operation).await?;
        let bare = BareServer::start(&long.history.database.url, operation, options.connections).await?;
        let mut rounds = Rounds::default();
        // The first round is a warm-up.
        for round in 0..=options.rounds {
            let short_result =
                measure_server(&short, &databases.token, &short.operations[index], options).await?;
            let long_result = measure_server(&long, &databases.token, operation, options).await?;
            let bare_result =
                measure_address(bare.address, &databases.token, operation, options, &bare.backends).await?;
            let sql_result = measure_sql(&long, operation, options).await?;
            println!(
                "  {} round {round}: {:.0}/s, {:.0}/s on the short history, {:.0}/s of a bare server, {:.0}/s by hand",
                operation.name, long_result.rate, short_result.rate, bare_result.rate, sql_result.rate
            );
            if round > 0 {
                rounds.short.push(short_result);
                rounds.long.push(long_result);
                rounds.bare.push(bare_result);
                rounds.by_hand.push(sql_result);
            }
        }
        rounds.publish(operation.name, options);
    }
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
        Ok(Self { server, history, operations })
    }
}

impl Rounds {
    fn publish(&self, name: &str, options: &Options) {
        let rate = |measurements: &[Measurement]| {
            summarize(&measurements.iter().map(|each| each.rate).collect::<Vec<_>>()).0
        };
        let processor = |measurements: &[Measurement]| {
            summarize(&measurements.iter().map(|each| 1e3 * each.processor).collect::<Vec<_>>()).0
        };
        let ratios = |numerators: &[Measurement], denominators: &[Measurement]| {
            let ratios = numerators
                .iter()
                .zip(denominators)
                .map(|(numerator, denominator)| numerator.rate / denominator.rate);
            summarize(&ratios.collect::<Vec<_>>())
        };
        let (ratio, min, max) = ratios(&self.long, &self.by_hand);
        Outcome {
            benchmark: format!("operations, {name}"),
            figure: format!(
                "{:.0} operations/s, {:.2} ms processor each (ratios {min:.3} to {max:.3}, {} rounds)",
                rate(&self.long),
                processor(&self.long),
                self.long.len()
            ),
            reference: format!(
                "{:.0} operations/s, {:.2} ms processor each by one hand-written statement",
                rate(&self.by_hand),
                processor(&self.by_hand)
            ),
            ratio: Some(ratio),
            aim: format!(">= {AIM_RATE}"),
            is_met: Some(ratio >= AIM_RATE),
        }
        .publish();
        let (ratio, min, max) = ratios(&self.bare, &self.by_hand);
        let (server_ratio, ..) = ratios(&self.long, &self.bare);
        Outcome {
            benchmark: format!("operations, {name}: a bare server"),
            figure: format!(
                "{:.0} operations/s, {:.2} ms processor each, with HTTP and a token beside the statement (ratios \
                 {min:.3} to {max:.3}); the server does {server_ratio:.3} times as many",
                rate(&self.bare),
                processor(&self.bare),
            ),
            reference: format!("{:.0} operations/s by one hand-written statement", rate(&self.by_hand)),
            ratio: Some(ratio),
            aim: String::new(),
            is_met: None,
        }
        .publish();
        let (growth, min, max) = ratios(&self.short, &self.long);
        Outcome {
            benchmark: format!("operations, {name}: growth"),
            figure: format!(
                "{:.2} ms an operation on {} times the history (ratios {min:.3} to {max:.3})",
                1e3 / rate(&self.long),
                options.scale
            ),
            reference: format!("{:.2} ms on the history", 1e3 / rate(&self.short)),
            ratio: Some(growth),
            aim: format!("<= {AIM_GROWTH}"),
            is_met: Some(growth <= AIM_GROWTH),
        }
        .publish();
    }
}

/// Checks that server and statement return the same number of rows for every request.
async fn check(measured: &MeasuredServer, token: &str, operation: &Operation) -> Result<()> {
    let mut client = Connection::open(measured.server.address, token).await?;
    let mut database = PgConnection::connect(&measured.history.database.url).await?;
    let mut first_rows = None;
    for (index, request) in operation.requests.iter().enumerate() {
        let request = client.query_request(request);
        let response: Value = serde_json::from_slice(client.exchange(&request).await?)?;
        if !response["errors"].is_null() {
            return Err(format!("{}: {}", operation.name, response["errors"]).into());
        }
        let rows = fetch(&mut database, operation, index).await?;
        let (server_rows, sql_rows) = ((operation.rows)(&response["data"]), rows.len());
        let expected_rows = *first_rows.get_or_insert_with(|| {
            let (response_bytes, sql_bytes) = (response.to_string().len(), to_json(&rows).len());
            println!(
                "  {}: {sql_rows} rows, {response_bytes} bytes of the server, {sql_bytes} by hand",
                operation.name
            );
            sql_rows
        });
        if server_rows != sql_rows || sql_rows != expected_rows || sql_rows == 0 {
            let name = operation.name;
            let error = format!(
                "{name}: the server returned {server_rows} rows, SQL {sql_rows}, and {expected_rows} before"
            );
            return Err(error.into());
        }
    }
    Ok(())
}

/// Measures the server.
async fn measure_server(
    measured: &MeasuredServer,
    token: &str,
    operation: &Arc<Operation>,
    options: &Options,
) -> Result<Measurement> {
    let database = PgConnection::connect(&measured.history.database.url).await?;
    let mut processes = server_backends(database).await?;
    processes.push(measured.server.pid());
    measure_address(measured.server.address, token, operation, options, &processes).await
}

/// Measures the server at `address`. `processes` are the processes whose CPU time counts.
async fn measure_address(
    address: SocketAddr,
    token: &str,
    operation: &Arc<Operation>,
    options: &Options,
    processes: &[u32],
) -> Result<Measurement> {
    let workers = (0..options.connections as usize).map(|worker| {
        let (operation, token) = (Arc::clone(operation), token.to_owned());
        async move |deadline: Instant| -> Result<(usize, Option<PgConnection>)> {
            let mut client = Connection::open(address, &token).await?;
            let requests: Vec<Vec<u8>> =
                operation.requests.iter().map(|request| client.query_request(request)).collect();
            let mut completed = 0;
            while Instant::now() < deadline {
                // Each worker starts at another request, so that they do not send the same at once.
                let response = client.exchange(&requests[(completed + 17 * worker) % requests.len()]).await?;
                if !response.starts_with(b"{\"data\":{") {
                    return Err(String::from_utf8_lossy(response).into_owned().into());
                }
                completed += 1;
            }
            Ok((completed, None))
        }
    });
    run_workers(options.seconds, workers, processes).await
}

/// Returns the database processes of the server's connections.
async fn server_backends(mut database: PgConnection) -> Result<Vec<u32>> {
    let select =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'galvo'";
    let processes: Vec<i32> = sqlx::query_scalar(select).fetch_all(&mut database).await?;
    Ok(processes.into_iter().map(i32::unsigned_abs).collect())
}

/// Measures the hand-written statement. Its rows are read and written as JSON.
async fn measure_sql(
    measured: &MeasuredServer,
    operation: &Arc<Operation>,
    options: &Options,
) -> Result<Measurement> {
    let connect = (0..options.connections).map(|_| PgConnection::connect(&measured.history.database.url));
    let mut databases = try_join_all(connect).await?;
    let mut processes = Vec::new();
    for database in &mut databases {
        let process: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(database).await?;
        processes.push(process.unsigned_abs());
    }
    let workers = databases.into_iter().enumerate().map(|(worker, mut database)| {
        let operation = Arc::clone(operation);
        async move |deadline: Instant| -> Result<(usize, Option<PgConnection>)> {
            let mut completed = 0;
            while Instant::now() < deadline {
                let rows = fetch(&mut database, &operation, completed + 17 * worker).await?;
                std::hint::black_box(to_json(&rows));
                completed += 1;
            }
            // The connection stays open until the CPU time of its process has been read.
            Ok((completed, Some(database)))
        }
    });
    run_workers(options.seconds, workers, &processes).await
}

/// Runs all workers, each in its own task. Returns their total rate, and the CPU time of `processes` and
/// of this process.
async fn run_workers<Worker, Work>(
    seconds: f64,
    workers: impl Iterator<Item = Worker>,
    processes: &[u32],
) -> Result<Measurement>
where
    Worker: FnOnce(Instant) -> Work,
    Work: Future<Output = Result<(usize, Option<PgConnection>)>> + Send + 'static,
{
    let processor_time = || {
        let all_processes = processes.iter().copied().chain([std::process::id()]);
        all_processes.map(processor_seconds).sum::<f64>()
    };
    let (started_at, initial_time) = (Instant::now(), processor_time());
    let deadline = started_at + Duration::from_secs_f64(seconds);
    let results = try_join_all(workers.map(|worker| tokio::spawn(worker(deadline)))).await?;
    let (elapsed, used_time) = (started_at.elapsed().as_secs_f64(), processor_time() - initial_time);
    let results: Vec<(usize, Option<PgConnection>)> = results.into_iter().collect::<Result<_>>()?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let number = results.iter().map(|(number, _)| number).sum::<usize>() as f64;
    Ok(Measurement { rate: number / elapsed, processor: used_time / number })
}

/// Runs the operation's statement, which stays prepared, and returns its rows.
async fn fetch(database: &mut PgConnection, operation: &Operation, index: usize) -> Result<Vec<PgRow>> {
    let query = sqlx::query(AssertSqlSafe(operation.statement.as_str()));
    let binds = operation.binds[index % operation.binds.len()].iter();
    let query = binds.fold(query, |query, bind| match bind {
        Bind::Uuid(value) => query.bind(*value),
        Bind::Int(value) => query.bind(*value),
    });
    Ok(query.fetch_all(database).await?)
}

/// Writes the rows as JSON.
fn to_json(rows: &[PgRow]) -> String {
    #[derive(Clone, Copy)]
    enum Kind {
        Int,
        Real,
        Uuid,
        Text,
    }
    let Some(first) = rows.first() else { return "[]".to_owned() };
    let kind = |name: &str| match name {
        "INT8" => Kind::Int,
        "FLOAT8" => Kind::Real,
        "UUID" => Kind::Uuid,
        _ => Kind::Text,
    };
    let columns: Vec<_> =
        first.columns().iter().map(|column| (column.name(), kind(column.type_info().name()))).collect();
    let mut json = String::with_capacity(16 * columns.len() * rows.len());
    for row in rows {
        json.push(if json.is_empty() { '[' } else { ',' });
        for (i, (name, kind)) in columns.iter().enumerate() {
            let _ = write!(json, "{}\"{name}\":", if i == 0 { '{' } else { ',' });
            let result = match kind {
                Kind::Int => row.get::<Option<i64>, _>(i).map(|value| write!(json, "{value}")),
                Kind::Real => row.get::<Option<f64>, _>(i).map(|value| write!(json, "{value}")),
                Kind::Uuid => row.get::<Option<uuid::Uuid>, _>(i).map(|value| write!(json, "\"{value}\"")),
                Kind::Text => row.get::<Option<&str>, _>(i).map(|value| {
                    json.push_str(&serde_json::to_string(value).unwrap_or_default());
                    Ok(())
                }),
            };
            if result.is_none() {
                json.push_str("null");
            }
        }
        json.push('}');
    }
    json.push(']');
    json
}
