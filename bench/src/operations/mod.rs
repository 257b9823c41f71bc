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
    results::{Outcome, spread},
    server::{Server, processor_seconds},
};
use bare::Bare;
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

/// A history, its server, and the operations.
struct Side {
    server: Server,
    history: History,
    operations: Vec<Arc<Operation>>,
}

/// The result of one side in a round.
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
    let short = Side::prepare(&databases, 1, options).await?;
    let long = Side::prepare(&databases, options.scale, options).await?;
    for (index, operation) in long.operations.iter().enumerate() {
        if options.only.as_ref().is_some_and(|only| !operation.name.contains(only.as_str())) {
            continue;
        }
        check(&short, &databases.token, &short.operations[index]).await?;
        check(&long, &databases.token, operation).await?;
        let bare = Bare::start(&long.history.database.url, operation, options.connections).await?;
        let mut rounds = Rounds::default();
        // The first round is a warm-up.
        for round in 0..=options.rounds {
            let on_short =
                measure_server(&short, &databases.token, &short.operations[index], options).await?;
            let on_long = measure_server(&long, &databases.token, operation, options).await?;
            let of_bare =
                exchange(bare.address, &databases.token, operation, options, &bare.backends).await?;
            let by_hand = measure_sql(&long, operation, options).await?;
            println!(
                "  {} round {round}: {:.0}/s, {:.0}/s on the short history, {:.0}/s of a bare server, {:.0}/s by hand",
                operation.name, on_long.rate, on_short.rate, of_bare.rate, by_hand.rate
            );
            if round > 0 {
                rounds.short.push(on_short);
                rounds.long.push(on_long);
                rounds.bare.push(of_bare);
                rounds.by_hand.push(by_hand);
            }
        }
        rounds.tell(operation.name, options);
    }
    for side in [short, long] {
        side.server.stop().await?;
        side.history.database.drop().await?;
    }
    Ok(())
}

impl Side {
    async fn prepare(databases: &Databases, scale: i64, options: &Options) -> Result<Self> {
        let begun = Instant::now();
        let history = data::generate(databases, scale).await?;
        let server = Server::start(&history.database.url, options.connections).await?;
        let deep = history.find_deep(&server, &databases.token).await?;
        let operations = queries::all(&history, &deep).into_iter().map(Arc::new).collect();
        println!("  history {scale} made in {:.0} s", begun.elapsed().as_secs_f64());
        Ok(Self { server, history, operations })
    }
}

impl Rounds {
    fn tell(&self, name: &str, options: &Options) {
        let rate = |of: &[Measurement]| spread(&of.iter().map(|done| done.rate).collect::<Vec<_>>()).0;
        let processor =
            |of: &[Measurement]| spread(&of.iter().map(|done| 1e3 * done.processor).collect::<Vec<_>>()).0;
        let ratios = |these: &[Measurement], those: &[Measurement]| {
            let ratios = these.iter().zip(those).map(|(this, that)| this.rate / that.rate);
            spread(&ratios.collect::<Vec<_>>())
        };
        let (ratio, least, most) = ratios(&self.long, &self.by_hand);
        Outcome {
            benchmark: format!("operations, {name}"),
            figure: format!(
                "{:.0} operations/s, {:.2} ms processor each (ratios {least:.3} to {most:.3}, {} rounds)",
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
            held: Some(ratio >= AIM_RATE),
        }
        .publish();
        let (ratio, least, most) = ratios(&self.bare, &self.by_hand);
        let (of_that, ..) = ratios(&self.long, &self.bare);
        Outcome {
            benchmark: format!("operations, {name}: a bare server"),
            figure: format!(
                "{:.0} operations/s, {:.2} ms processor each, with HTTP and a token beside the statement (ratios \
                 {least:.3} to {most:.3}); the server does {of_that:.3} times as many",
                rate(&self.bare),
                processor(&self.bare),
            ),
            reference: format!("{:.0} operations/s by one hand-written statement", rate(&self.by_hand)),
            ratio: Some(ratio),
            aim: String::new(),
            held: None,
        }
        .publish();
        let (growth, least, most) = ratios(&self.short, &self.long);
        Outcome {
            benchmark: format!("operations, {name}: growth"),
            figure: format!(
                "{:.2} ms an operation on {} times the history (ratios {least:.3} to {most:.3})",
                1e3 / rate(&self.long),
                options.scale
            ),
            reference: format!("{:.2} ms on the history", 1e3 / rate(&self.short)),
            ratio: Some(growth),
            aim: format!("<= {AIM_GROWTH}"),
            held: Some(growth <= AIM_GROWTH),
        }
        .publish();
    }
}

/// Checks that server and statement return the same number of rows for every request.
async fn check(side: &Side, token: &str, operation: &Operation) -> Result<()> {
    let mut client = Connection::open(side.server.address, token).await?;
    let mut database = PgConnection::connect(&side.history.database.url).await?;
    let mut first = None;
    for (turn, request) in operation.requests.iter().enumerate() {
        let request = client.query(request);
        let answer: Value = serde_json::from_slice(client.exchange(&request).await?)?;
        if !answer["errors"].is_null() {
            return Err(format!("{}: {}", operation.name, answer["errors"]).into());
        }
        let rows = fetch(&mut database, operation, turn).await?;
        let (told, found) = ((operation.rows)(&answer["data"]), rows.len());
        let usual = *first.get_or_insert_with(|| {
            let (written, by_hand) = (answer.to_string().len(), write(&rows).len());
            println!("  {}: {found} rows, {written} bytes of the server, {by_hand} by hand", operation.name);
            found
        });
        if told != found || found != usual || found == 0 {
            let name = operation.name;
            let error = format!("{name}: the server told of {told} rows and SQL of {found}, {usual} before");
            return Err(error.into());
        }
    }
    Ok(())
}

/// Measures the server.
async fn measure_server(
    side: &Side,
    token: &str,
    operation: &Arc<Operation>,
    options: &Options,
) -> Result<Measurement> {
    let database = PgConnection::connect(&side.history.database.url).await?;
    let mut processes = backends(database).await?;
    processes.push(side.server.pid());
    exchange(side.server.address, token, operation, options, &processes).await
}

/// Measures the server at `address`. `processes` are the processes whose CPU time counts.
async fn exchange(
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
                operation.requests.iter().map(|request| client.query(request)).collect();
            let mut done = 0;
            while Instant::now() < deadline {
                // Each worker starts at another request, so that they do not send the same at once.
                let answer = client.exchange(&requests[(done + 17 * worker) % requests.len()]).await?;
                if !answer.starts_with(b"{\"data\":{") {
                    return Err(String::from_utf8_lossy(answer).into_owned().into());
                }
                done += 1;
            }
            Ok((done, None))
        }
    });
    rate(options.seconds, workers, processes).await
}

/// Returns the database processes of the server's connections.
async fn backends(mut database: PgConnection) -> Result<Vec<u32>> {
    let select =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'galvo'";
    let processes: Vec<i32> = sqlx::query_scalar(select).fetch_all(&mut database).await?;
    Ok(processes.into_iter().map(i32::unsigned_abs).collect())
}

/// Measures the hand-written statement. Its rows are read and written as JSON.
async fn measure_sql(side: &Side, operation: &Arc<Operation>, options: &Options) -> Result<Measurement> {
    let connect = (0..options.connections).map(|_| PgConnection::connect(&side.history.database.url));
    let mut databases = try_join_all(connect).await?;
    let mut processes = Vec::new();
    for database in &mut databases {
        let process: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(database).await?;
        processes.push(process.unsigned_abs());
    }
    let workers = databases.into_iter().enumerate().map(|(worker, mut database)| {
        let operation = Arc::clone(operation);
        async move |deadline: Instant| -> Result<(usize, Option<PgConnection>)> {
            let mut done = 0;
            while Instant::now() < deadline {
                let rows = fetch(&mut database, &operation, done + 17 * worker).await?;
                std::hint::black_box(write(&rows));
                done += 1;
            }
            // The connection stays open until the CPU time of its process has been read.
            Ok((done, Some(database)))
        }
    });
    rate(options.seconds, workers, &processes).await
}

/// Runs all workers, each in its own task. Returns their total rate, and the CPU time of `processes` and
/// of this process.
async fn rate<Worker, Work>(
    seconds: f64,
    workers: impl Iterator<Item = Worker>,
    processes: &[u32],
) -> Result<Measurement>
where
    Worker: FnOnce(Instant) -> Work,
    Work: Future<Output = Result<(usize, Option<PgConnection>)>> + Send + 'static,
{
    let used = || {
        let all = processes.iter().copied().chain([std::process::id()]);
        all.map(processor_seconds).sum::<f64>()
    };
    let (begun, before) = (Instant::now(), used());
    let deadline = begun + Duration::from_secs_f64(seconds);
    let done = try_join_all(workers.map(|worker| tokio::spawn(worker(deadline)))).await?;
    let (elapsed, used) = (begun.elapsed().as_secs_f64(), used() - before);
    let done: Vec<(usize, Option<PgConnection>)> = done.into_iter().collect::<Result<_>>()?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let number = done.iter().map(|(number, _)| number).sum::<usize>() as f64;
    Ok(Measurement { rate: number / elapsed, processor: used / number })
}

/// Runs the operation's statement, which stays prepared, and returns its rows.
async fn fetch(database: &mut PgConnection, operation: &Operation, turn: usize) -> Result<Vec<PgRow>> {
    let query = sqlx::query(AssertSqlSafe(operation.statement.as_str()));
    let binds = operation.binds[turn % operation.binds.len()].iter();
    let query = binds.fold(query, |query, bind| match bind {
        Bind::Uuid(value) => query.bind(*value),
        Bind::Int(value) => query.bind(*value),
    });
    Ok(query.fetch_all(database).await?)
}

/// Writes the rows as JSON.
fn write(rows: &[PgRow]) -> String {
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
            let written = match kind {
                Kind::Int => row.get::<Option<i64>, _>(i).map(|value| write!(json, "{value}")),
                Kind::Real => row.get::<Option<f64>, _>(i).map(|value| write!(json, "{value}")),
                Kind::Uuid => row.get::<Option<uuid::Uuid>, _>(i).map(|value| write!(json, "\"{value}\"")),
                Kind::Text => row.get::<Option<&str>, _>(i).map(|value| {
                    json.push_str(&serde_json::to_string(value).unwrap_or_default());
                    Ok(())
                }),
            };
            if written.is_none() {
                json.push_str("null");
            }
        }
        json.push('}');
    }
    json.push(']');
    json
}
