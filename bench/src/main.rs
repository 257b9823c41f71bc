//! Measures Galvo's server from outside: how fast it takes reports in, how soon it refuses what would harm it, how
//! much memory it needs and how much storage, and how soon many readers hear of what was reported, each against a reference measured in the same run. Run by `make bench`; `docs/benchmarks.md` says more.
#![expect(clippy::print_stdout, reason = "it is a program that prints")]

mod client;
mod database;
mod flame_graph;
mod hostile;
// The same as the tests send, which know what each is answered.
#[expect(unreachable_pub, reason = "tests have it in a library")]
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
    /// How many reports and rows per second the server takes in, and how many hand-written SQL does.
    Ingest(ingest::Options),
    /// How long the server takes to refuse requests that are meant to harm.
    Hostile(hostile::Options),
    /// Whether the time of a refusal tells that a token's identifier exists.
    Identifiers(identifiers::Options),
    /// How many operations of readers per second the server does, and how many hand-written SQL does.
    Operations(operations::Options),
    /// How much memory the server needs for how many clusters, and whether that grows.
    Memory(memory::Options),
    /// How soon many subscribers hear of each report, and what that costs.
    Subscribers(subscribers::Options),
    /// What the subscribers' figures are compared with.
    #[command(hide = true)]
    Broadcast(subscribers::BroadcastOptions),
    /// How large a store becomes by one cluster in one day, table by table.
    Storage(storage::Options),
}

#[tokio::main]
async fn main() -> Result<()> {
    // Servers are killed when dropped, which a process that is ended from outside would not do.
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        finished = run(Arguments::parse().benchmark) => finished,
        _ = terminate.recv() => Err("stopped".into()),
    }
}

async fn run(benchmark: Benchmark) -> Result<()> {
    match benchmark {
        Benchmark::Hostile(options) => hostile::run(&options).await,
        Benchmark::Identifiers(options) => identifiers::run(&options).await,
        Benchmark::Ingest(options) => ingest::run(&options).await,
        Benchmark::Operations(options) => operations::run(&options).await,
        Benchmark::Memory(options) => memory::run(&options).await,
        Benchmark::Subscribers(options) => subscribers::run(&options).await,
        Benchmark::Broadcast(options) => subscribers::broadcast(&options).await,
        Benchmark::Storage(options) => storage::run(&options).await,
    }
}
