//! Memory of the server's process while clusters report, by number of clusters and over time.

use crate::{
    database::{Databases, Result, Store},
    ingest::{mean, now},
    load,
    results::Outcome,
    server::Server,
    traffic::{Cluster, Report, USUAL},
};

/// The maximum growth between the warm-up and the end of the repetitions.
const AIM: f64 = 1.2;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Numbers of clusters, in sequence. Existing clusters continue to report.
    #[arg(long, value_delimiter = ',', default_values_t = [200, 1_000, 2_000])]
    clusters: Vec<usize>,
    /// Number of reports per cluster, for each number of clusters.
    #[arg(long, default_value_t = 5)]
    reports: usize,
    /// Number of repetitions with the last number of clusters.
    #[arg(long, default_value_t = 6)]
    repetitions: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, value_enum, default_value_t = Store::Postgres)]
    store: Store,
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let databases = Databases::prepare(options.store).await?;
    let database = databases.make().await?;
    let server = Server::start(&database.url, 16).await?;
    let idle = server.resident_megabytes();
    println!("  {}: {idle:.0} MB before any report", options.store.name());

    let from = now() - 6 * 3_600_000;
    let mut clusters: Vec<Cluster> = Vec::new();
    let mut by_number = Vec::new();
    for number in &options.clusters {
        let more = clusters.len()..*number;
        clusters.extend(more.map(|number| Cluster::new(options.seed, number, from, USUAL, true)));
        let resident = work(options, &server, &databases.token, &mut clusters).await?;
        println!("  {number} clusters: {resident:.0} MB");
        by_number.push(format!("{resident:.0} MB at {number}"));
    }
    let mut over_time = vec![];
    for repetition in 1..=options.repetitions {
        let resident = work(options, &server, &databases.token, &mut clusters).await?;
        println!("  after {} more reports: {resident:.0} MB", repetition * clusters.len() * options.reports);
        over_time.push(resident);
    }
    server.stop().await?;
    database.drop().await?;
    // The first repetitions are still part of the warm-up.
    let warm =
        over_time.get(over_time.len().div_ceil(3)).or(over_time.first()).copied().ok_or("no repetitions")?;
    let last = over_time.last().copied().unwrap_or(warm);
    let ratio = last / warm;
    let reports = mean(options.repetitions * clusters.len() * options.reports, 1);
    Outcome {
        benchmark: format!("memory of the server, {}", options.store.name()),
        figure: format!(
            "{last:.0} MB after {reports:.0} reports at the last number; {}",
            by_number.join(", ")
        ),
        reference: format!("{warm:.0} MB a third of the way; {idle:.0} MB before any report"),
        ratio: Some(ratio),
        aim: format!("<= {AIM}"),
        held: Some(ratio <= AIM),
    }
    .publish();
    Ok(())
}

/// Sends a few reports of each cluster. Returns the peak memory, in MB.
async fn work(options: &Options, server: &Server, token: &str, clusters: &mut [Cluster]) -> Result<f64> {
    let mut most = 0.0_f64;
    for _ in 0..options.reports {
        let reports: Vec<Report> =
            clusters.iter_mut().map(|cluster| cluster.next_report(options.seed)).collect();
        load::send(server, token, &reports).await?;
        most = most.max(server.resident_megabytes());
    }
    Ok(most)
}
