//! Subscribers: the latency of each report for many subscribers, its cost compared with a plain
//! broadcast of the same bytes, and the memory of each subscriber.

mod broadcast;
mod reader;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{MissedTickBehavior, interval_at, sleep},
};

pub(crate) use broadcast::{Options as BroadcastOptions, run as broadcast};

use crate::{
    client::Connection,
    database::{Databases, Result, Store},
    ingest::now,
    results::Outcome,
    server::Server,
    traffic::{Cluster, Rates, USUAL},
};
use broadcast::Broadcast;
use reader::{LatencyCounter, LatencyStats};

/// The aim for the 99th percentile at [`AIMED_AT`] subscribers, in milliseconds.
const AIM: usize = 250;
const AIMED_AT: usize = 1_000;

/// The aim for the memory of a subscriber, in bytes.
const MEMORY_AIM: f64 = 25e3;

/// The maximum factor by which stalled subscribers may increase the latency of the others.
const STALLED_AIM: f64 = 1.2;

/// The number of sockets opened concurrently.
const OPENING: usize = 100;

/// The number of subscribers before the first memory measurement. They are few, so that they leave no
/// free memory for the later ones.
const FIRST: usize = 10;

/// The wait before each measurement.
const SETTLING: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Numbers of subscribers, in sequence.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 5_000])]
    subscribers: Vec<usize>,
    /// Number of clusters of the account. Each reports every second.
    #[arg(long, default_value_t = 100)]
    clusters: usize,
    /// Number of additional subscribers that never read.
    #[arg(long, default_value_t = 20)]
    stalled: usize,
    /// Duration of each measurement, in seconds.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The messages received during a measurement, and their cost.
struct Measured {
    sight: LatencyStats,
    processor_seconds: f64,
}

impl Measured {
    /// Returns the CPU time per message, in microseconds. `without` is the CPU time that does not count.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn per_message(&self, without: f64) -> f64 {
        1e6 * (self.processor_seconds - without) / self.sight.messages.max(1) as f64
    }
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let databases = Databases::prepare(Store::Postgres).await?;
    for number in &options.subscribers {
        compare(options, &databases, *number).await?;
    }
    Ok(())
}

async fn compare(options: &Options, databases: &Databases, number: usize) -> Result<()> {
    let database = databases.make().await?;
    let server = Server::start(&database.url, 16).await?;
    let mut reporting = JoinSet::new();
    let refused = Arc::new(AtomicU64::new(0));
    for cluster in 0..options.clusters {
        let connection = Connection::open(server.address, &databases.token).await?;
        reporting.spawn(report(options.seed, cluster, connection, Arc::clone(&refused)));
    }
    let nobody = LatencyCounter::new();
    sleep(SETTLING).await;
    let processor = || server.processor_seconds();
    let alone = measure(options, &nobody, processor).await.processor_seconds;
    // One-time allocations for the first subscribers do not count for each subscriber.
    drop(subscribe(server.address, &databases.token, FIRST, &nobody).await?);
    sleep(SETTLING).await;
    let before = server.resident_megabytes();

    let seen = LatencyCounter::new();
    let mut reading = subscribe(server.address, &databases.token, number, &seen).await?;
    sleep(SETTLING).await;
    refused.store(0, Ordering::Relaxed);
    let usual = measure(options, &seen, processor).await;
    let refused = refused.load(Ordering::Relaxed);
    let after = server.resident_megabytes();
    let stalled: Vec<TcpStream> = sockets(server.address, &databases.token, options.stalled).await?;
    sleep(SETTLING).await;
    let beside = measure(options, &seen, processor).await;
    let with_stalled = server.resident_megabytes();
    if let Some(ended) = reading.try_join_next().or_else(|| reporting.try_join_next()) {
        return Err(format!("one has ended: {ended:?}").into());
    }
    if refused > 0 {
        println!("  {refused} reports were refused meanwhile, since the machine was busy");
    }
    drop((stalled, reading, reporting));
    server.stop().await?;
    database.drop().await?;

    let reference = reference(options, number, &usual.sight).await?;
    tell(options, number, [&usual, &beside, &reference], alone, [before, after, with_stalled]);
    Ok(())
}

/// Measures a process that only writes the same number of messages of the same length per second.
async fn reference(options: &Options, number: usize, sight: &LatencyStats) -> Result<Measured> {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let per_second = sight.messages as f64 / (number as u64 * options.seconds) as f64;
    let bytes = usize::try_from(sight.bytes / sight.messages.max(1))?;
    let broadcast = Broadcast::start(per_second, bytes).await?;
    let seen = LatencyCounter::new();
    let reading = subscribe(broadcast.address, "", number, &seen).await?;
    sleep(SETTLING).await;
    let measured = measure(options, &seen, || broadcast.processor_seconds()).await;
    drop(reading);
    Ok(measured)
}

/// Sends a report of a cluster every second, forever. Reports that the busy server rejects are counted
/// and skipped.
async fn report(
    seed: u64,
    number: usize,
    mut connection: Connection,
    refused: Arc<AtomicU64>,
) -> std::io::Result<()> {
    let rates = Rates { interval_seconds: 1.0, worker_samples: false, ..USUAL };
    let mut cluster = Cluster::new(seed, number, now(), rates, false);
    // Spreads the reports over the second.
    let start = tokio::time::Instant::now() + Duration::from_millis(number as u64 * 37 % 1_000);
    let mut seconds = interval_at(start, Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        match connection.report(&cluster.next_report(seed).body).await {
            Err(error) if error.kind() == std::io::ErrorKind::Other => {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            sent => sent?,
        }
    }
}

async fn sockets(address: SocketAddr, token: &str, number: usize) -> Result<Vec<TcpStream>> {
    let opening = stream::iter(0..number).map(|_| reader::open(address, token)).buffer_unordered(OPENING);
    Ok(opening.try_collect().await?)
}

/// Opens this many subscriptions and reads their messages.
async fn subscribe(
    address: SocketAddr,
    token: &str,
    number: usize,
    seen: &Arc<LatencyCounter>,
) -> Result<JoinSet<std::io::Result<()>>> {
    let mut reading = JoinSet::new();
    for socket in sockets(address, token, number).await? {
        reading.spawn(reader::read(socket, Arc::clone(seen)));
    }
    Ok(reading)
}

async fn measure(options: &Options, seen: &LatencyCounter, processor_seconds: impl Fn() -> f64) -> Measured {
    seen.take();
    let before = processor_seconds();
    sleep(Duration::from_secs(options.seconds)).await;
    Measured { sight: seen.take(), processor_seconds: processor_seconds() - before }
}

#[expect(clippy::cast_precision_loss, reason = "all values are small")]
fn tell(
    options: &Options,
    number: usize,
    [usual, beside, reference]: [&Measured; 3],
    alone: f64,
    [before, after, with_stalled]: [f64; 3],
) {
    let seconds = options.seconds as f64;
    let per_second = |sight: &LatencyStats| sight.messages as f64 / seconds;
    let ratio = |of: usize, to: usize| of as f64 / to.max(1) as f64;
    let sight = &usual.sight;
    println!(
        "  {number} subscribers of {} clusters, {seconds} s each: {} bytes a message; of {:.0} messages a second there might be",
        options.clusters,
        sight.bytes / sight.messages.max(1),
        (number * options.clusters) as f64,
    );
    Outcome {
        benchmark: format!("{number} subscribers, report read to receipt, 99th percentile"),
        figure: format!(
            "{} ms (median {}, longest {}) at {:.0} messages a second",
            sight.p99,
            sight.median,
            sight.most,
            per_second(sight)
        ),
        reference: format!("{} ms of a bare broadcast", reference.sight.p99),
        ratio: Some(ratio(sight.p99, reference.sight.p99)),
        aim: if number == AIMED_AT { format!("<= {AIM} ms") } else { String::new() },
        held: (number == AIMED_AT).then_some(sight.p99 <= AIM),
    }
    .publish();
    Outcome {
        benchmark: format!("{number} subscribers, {} more that take nothing", options.stalled),
        figure: format!("{} ms, {:.1} MB more", beside.sight.p99, with_stalled - after),
        reference: format!("{} ms without them", sight.p99),
        ratio: Some(ratio(beside.sight.p99, sight.p99)),
        aim: format!("<= {STALLED_AIM}"),
        held: Some(ratio(beside.sight.p99, sight.p99) <= STALLED_AIM),
    }
    .publish();
    let (cost, bare) = (usual.per_message(alone), reference.per_message(0.0));
    Outcome {
        benchmark: format!("{number} subscribers, processor time of a message"),
        figure: format!("{cost:.1} µs, besides {:.0} % of a core for the reports", 100.0 * alone / seconds),
        reference: format!("{bare:.1} µs of a bare broadcast"),
        ratio: Some(cost / bare),
        ..Outcome::default()
    }
    .publish();
    let memory = 1e6 * (after - before) / number as f64;
    Outcome {
        benchmark: format!("{number} subscribers, memory of each"),
        figure: format!("{:.1} kB", memory / 1e3),
        reference: format!("{before:.0} MB of the server without them"),
        ratio: None,
        aim: format!("<= {:.0} kB", MEMORY_AIM / 1e3),
        held: Some(memory <= MEMORY_AIM),
    }
    .publish();
}
