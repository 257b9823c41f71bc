//! Time from the start of the server's process until it is ready, and its memory while nobody uses it.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
    time::sleep,
};

use crate::{
    database::{Databases, Result, Store},
    results::{Outcome, summarize},
    server::{Server, program},
};

/// The maximum time until a server is ready whose database exists, in milliseconds.
const READY_MS: f64 = 300.0;

/// The maximum memory of an idle server, in MB.
const IDLE_MEGABYTES: f64 = 60.0;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of starts.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Number of seconds without a request before the memory is read.
    #[arg(long, default_value_t = 30)]
    idle_seconds: u64,
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    for store in [Store::Postgres, Store::Sqlite] {
        let databases = Databases::prepare(store).await?;
        let database = databases.create_copy().await?;
        let (mut ready, mut loaded) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            loaded.push(time_of_program().await?);
            let (server, milliseconds) = start(&database.url).await?;
            ready.push(milliseconds);
            server.stop().await?;
        }
        publish_times(store, &ready, &loaded);

        let (server, _) = start(&database.url).await?;
        sleep(Duration::from_secs(options.idle_seconds)).await;
        let megabytes = server.resident_megabytes();
        server.stop().await?;
        database.drop().await?;
        Outcome {
            benchmark: format!("memory of an idle server, {}", store.name()),
            figure: format!("{megabytes:.1} MB after {} s", options.idle_seconds),
            aim: format!("<= {IDLE_MEGABYTES:.0} MB"),
            is_met: Some(megabytes <= IDLE_MEGABYTES),
            ..Outcome::default()
        }
        .publish();
    }
    Ok(())
}

fn publish_times(store: Store, ready: &[f64], loaded: &[f64]) {
    let ((milliseconds, fastest, slowest), (reference, ..)) = (summarize(ready), summarize(loaded));
    Outcome {
        benchmark: format!("start until ready, {}", store.name()),
        figure: format!(
            "{milliseconds:.0} ms in the median of {} ({fastest:.0} to {slowest:.0})",
            ready.len()
        ),
        reference: format!("{reference:.0} ms for galvo --version"),
        ratio: Some(milliseconds / reference),
        aim: format!("<= {READY_MS:.0} ms"),
        is_met: Some(milliseconds <= READY_MS),
    }
    .publish();
}

/// Returns the time of the program when it does nothing, in milliseconds.
async fn time_of_program() -> Result<f64> {
    let begun = Instant::now();
    let output = Command::new(program()?).arg("--version").output().await?;
    if !output.status.success() {
        return Err("galvo --version failed".into());
    }
    Ok(milliseconds_since(begun))
}

/// Starts a server. Returns the time until its first response that it is ready, in milliseconds.
async fn start(database_url: &str) -> Result<(Server, f64)> {
    let begun = Instant::now();
    let server = Server::start(database_url, 16).await?;
    loop {
        let mut stream = TcpStream::connect(server.address).await?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
        let mut response = String::new();
        stream.read_to_string(&mut response).await?;
        if response.starts_with("HTTP/1.1 200 ") {
            return Ok((server, milliseconds_since(begun)));
        }
        sleep(Duration::from_millis(2)).await;
    }
}

fn milliseconds_since(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1_000.0
}
