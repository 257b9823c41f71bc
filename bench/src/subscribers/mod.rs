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
const CONCURRENT_OPENINGS: usize = 100;

/// The number of subscribers before the first memory measurement. They are few, so that they leave no
/// free memory for the later ones.
const WARM_UP_SUBSCRIBERS: usize = 10;

/// The wait before each measurement.
const SETTLING_TIME: Duration = Duration::from_secs(5);

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
struct Measurement {
    latency: LatencyStats,
    processor_seconds: f64,
}

impl Measurement {
    /// Returns the CPU time per message, in microseconds. `without` is the CPU time that does not count.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn per_message(&self, without: f64) -> f64 {
        1e6 * (self.processor_seconds - without) / self.latency.messages.max(1) as f64
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
    let database = databases.create_copy().await?;
    let server = Server::start(&database.url, 16).await?;
    let mut report_tasks = JoinSet::new();
    let rejected_reports = Arc::new(AtomicU64::new(0));
    for cluster in 0..options.clusters {
        let connection = Connection::open(server.address, &databases.token).await?;
        report_tasks.spawn(send_reports(options.seed, cluster, connection, Arc::clone(&rejected_reports)));
    }
    let unused_latencies = LatencyCounter::new();
    sleep(SETTLING_TIME).await;
    let processor = || server.processor_seconds();
    let idle_seconds = measure(options, &unused_latencies, processor).await.processor_seconds;
    // One-time allocations for the first subscribers are not attributed to each subscriber.
    drop(subscribe(server.address, &databases.token, WARM_UP_SUBSCRIBERS, &unused_latencies).await?);
    sleep(SETTLING_TIME).await;
    let memory_before = server.resident_megabytes();

    let latencies = LatencyCounter::new();
    let mut read_tasks = subscribe(server.address, &databases.token, number, &latencies).await?;
    sleep(SETTLING_TIME).await;
    rejected_reports.store(0, Ordering::Relaxed);
    let without_stalled = measure(options, &latencies, processor).await;
    let rejected_reports = rejected_reports.load(Ordering::Relaxed);
    let memory_after = server.resident_megabytes();
    let stalled: Vec<TcpStream> = open_sockets(server.address, &databases.token, options.stalled).await?;
    sleep(SETTLING_TIME).await;
    let with_stalled = measure(options, &latencies, processor).await;
    let memory_with_stalled = server.resident_megabytes();
    if let Some(result) = read_tasks.try_join_next().or_else(|| report_tasks.try_join_next()) {
        return Err(format!("a reader or reporter has ended: {result:?}").into());
    }
    if rejected_reports > 0 {
        println!("  {rejected_reports} reports were refused meanwhile, since the machine was busy");
    }
    drop((stalled, read_tasks, report_tasks));
    server.stop().await?;
    database.drop().await?;

    let reference = measure_reference(options, number, &without_stalled.latency).await?;
    publish(
        options,
        number,
        [&without_stalled, &with_stalled, &reference],
        idle_seconds,
        [memory_before, memory_after, memory_with_stalled],
    );
    Ok(())
}

/// Measures a process that only writes the same number of messages of the same length per second.
async fn measure_reference(options: &Options, number: usize, latency: &LatencyStats) -> Result<Measurement> {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let per_second = latency.messages as f64 / (number as u64 * options.seconds) as f64;
    let bytes = usize::try_from(latency.bytes / latency.messages.max(1))?;
    let broadcast = Broadcast::start(per_second, bytes).await?;
    let latencies = LatencyCounter::new();
    let read_tasks = subscribe(broadcast.address, "", number, &latencies).await?;
    sleep(SETTLING_TIME).await;
    let measurement = measure(options, &latencies, || broadcast.processor_seconds()).await;
    drop(read_tasks);
    Ok(measurement)
}

/// Sends a report of a cluster every second, forever. Reports that the busy server rejects are counted
/// and skipped.
async fn send_reports(
    seed: u64,
    number: usize,
    mut connection: Connection,
    rejected_reports: Arc<AtomicU64>,
) -> std::io::Result<()> {
    let rates = Rates { interval_seconds: 1.0, worker_samples: false, ..USUAL };
    let mut cluster = Cluster::new(seed, number, now(), rates, false);
    // Spreads the reports over the second.
    let start = tokio::time::Instant::now() + Duration::from_millis(number as u64 * 37 % 1_000);
    let mut seconds = interval_at(start, Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        match connection.send_report(&cluster.next_report(seed).body).await {
            Err(error) if error.kind() == std::io::ErrorKind::Other => {
                rejected_reports.fetch_add(1, Ordering::Relaxed);
            }
            result => result?,
        }
    }
}

async fn open_sockets(address: SocketAddr, token: &str, number: usize) -> Result<Vec<TcpStream>> {
    let sockets =
        stream::iter(0..number).map(|_| reader::open(address, token)).buffer_unordered(CONCURRENT_OPENINGS);
    Ok(sockets.try_collect().await?)
}

/// Opens this many subscriptions and reads their messages.
async fn subscribe(
    address: SocketAddr,
    token: &str,
    number: usize,
    latencies: &Arc<LatencyCounter>,
) -> Result<JoinSet<std::io::Result<()>>> {
    let mut read_tasks = JoinSet::new();
    for socket in open_sockets(address, token, number).await? {
        read_tasks.spawn(reader::read(socket, Arc::clone(latencies)));
    }
    Ok(read_tasks)
}

async fn measure(
    options: &Options,
    latencies: &LatencyCounter,
    processor_seconds: impl Fn() -> f64,
) -> Measurement {
    latencies.take();
    let before = processor_seconds();
    sleep(Duration::from_secs(options.seconds)).await;
    Measurement { latency: latencies.take(), processor_seconds: processor_seconds() - before }
}

#[expect(clippy::cast_precision_loss, reason = "all values are small")]
fn publish(
    options: &Options,
    number: usize,
    [without_stalled, with_stalled, reference]: [&Measurement; 3],
    idle_seconds: f64,
    [memory_before, memory_after, memory_with_stalled]: [f64; 3],
) {
    let seconds = options.seconds as f64;
    let per_second = |latency: &LatencyStats| latency.messages as f64 / seconds;
    let ratio = |numerator: usize, denominator: usize| numerator as f64 / denominator.max(1) as f64;
    let latency = &without_stalled.latency;
    println!(
        "  {number} subscribers of {} clusters, {seconds} s each: {} bytes a message; of {:.0} messages a second there might be",
        options.clusters,
        latency.bytes / latency.messages.max(1),
        (number * options.clusters) as f64,
    );
    Outcome {
        benchmark: format!("{number} subscribers, report read to receipt, 99th percentile"),
        figure: format!(
            "{} ms (median {}, longest {}) at {:.0} messages a second",
            latency.p99,
            latency.median,
            latency.max,
            per_second(latency)
        ),
        reference: format!("{} ms of a bare broadcast", reference.latency.p99),
        ratio: Some(ratio(latency.p99, reference.latency.p99)),
        aim: if number == AIMED_AT { format!("<= {AIM} ms") } else { String::new() },
        is_met: (number == AIMED_AT).then_some(latency.p99 <= AIM),
    }
    .publish();
    Outcome {
        benchmark: format!("{number} subscribers, {} more that take nothing", options.stalled),
        figure: format!("{} ms, {:.1} MB more", with_stalled.latency.p99, memory_with_stalled - memory_after),
        reference: format!("{} ms without them", latency.p99),
        ratio: Some(ratio(with_stalled.latency.p99, latency.p99)),
        aim: format!("<= {STALLED_AIM}"),
        is_met: Some(ratio(with_stalled.latency.p99, latency.p99) <= STALLED_AIM),
    }
    .publish();
    let (cost, bare) = (without_stalled.per_message(idle_seconds), reference.per_message(0.0));
    Outcome {
        benchmark: format!("{number} subscribers, processor time of a message"),
        figure: format!(
            "{cost:.1} µs, besides {:.0} % of a core for the reports",
            100.0 * idle_seconds / seconds
        ),
        reference: format!("{bare:.1} µs of a bare broadcast"),
        ratio: Some(cost / bare),
        ..Outcome::default()
    }
    .publish();
    let memory = 1e6 * (memory_after - memory_before) / number as f64;
    Outcome {
        benchmark: format!("{number} subscribers, memory of each"),
        figure: format!("{:.1} kB", memory / 1e3),
        reference: format!("{memory_before:.0} MB of the server without them"),
        ratio: None,
        aim: format!("<= {:.0} kB", MEMORY_AIM / 1e3),
        is_met: Some(memory <= MEMORY_AIM),
    }
    .publish();
}
