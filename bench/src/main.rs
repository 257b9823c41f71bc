//! Measures Galvo's server from outside: ingest rate, rejection of hostile requests, query rate, start,
//! memory, storage, and latency of live updates. Most figures are compared with a reference measured in the
//! same run. Run by `make bench`; `docs/benchmarks.md` has the details.
#![expect(clippy::print_stdout, reason = "the program prints its results")]

mod client;
mod database;
mod flame_graph;
mod hostile;
// Shared with the tests, which know the expected response of each request.
#[expect(unreachable_pub, reason = "the tests compile it as part of a library")]
#[path = "../../tests/harness/hostile.rs"]
mod hostile_requests;
mod identifiers;
mod ingest;
mod load;
mod memory;
mod operations;
mod reference;
mod results;
mod server;
mod start;
mod storage;
mod subscribers;
mod traffic;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use database::Result;

#[derive(Parser)]
#[command(about)]
struct Arguments {
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Reports and rows per second that the server ingests, compared with hand-written SQL.
    Ingest(ingest::Options),
    /// Time in which the server rejects hostile requests.
    Hostile(hostile::Options),
    /// Dependence of the rejection time on whether a token's identifier exists.
    Identifiers(identifiers::Options),
    /// Read operations per second of the server, compared with hand-written SQL.
    Operations(operations::Options),
    /// Time until the server is ready, and its memory while nobody uses it.
    Start(start::Options),
    /// Memory of the server by number of clusters, and its growth over time.
    Memory(memory::Options),
    /// Latency and cost of live updates for many subscribers.
    Subscribers(subscribers::Options),
    /// Reference of the subscriber benchmark.
    #[command(hide = true)]
    Broadcast(subscribers::BroadcastOptions),
    /// Storage that one cluster needs in a day, by table.
    Storage(storage::Options),
}

#[tokio::main]
async fn main() -> Result<()> {
    // Servers are killed when dropped, which would not happen if this process were terminated by the
    // signal.
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = run(Arguments::parse().benchmark) => result,
        _ = terminate.recv() => Err("stopped".into()),
    }
}

async fn run(benchmark: Benchmark) -> Result<()> {
    match benchmark {
        Benchmark::Hostile(options) => hostile::run(&options).await,
        Benchmark::Identifiers(options) => identifiers::run(&options).await,
        Benchmark::Ingest(options) => ingest::run(&options).await,
        Benchmark::Operations(options) => operations::run(&options).await,
        Benchmark::Start(options) => start::run(&options).await,
        Benchmark::Memory(options) => memory::run(&options).await,
        Benchmark::Subscribers(options) => subscribers::run(&options).await,
        Benchmark::Broadcast(options) => subscribers::broadcast(&options).await,
        Benchmark::Storage(options) => storage::run(&options).await,
    }
}
