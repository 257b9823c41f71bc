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
    let database = databases.create_copy().await?;
    let server = Server::start(&database.url, 16).await?;
    let idle_megabytes = server.resident_megabytes();
    println!("  {}: {idle_megabytes:.0} MB before any report", options.store.name());

    let from = now() - 6 * 3_600_000;
    let mut clusters: Vec<Cluster> = Vec::new();
    let mut megabytes_by_number = Vec::new();
    for number in &options.clusters {
        let added_numbers = clusters.len()..*number;
        clusters.extend(added_numbers.map(|number| Cluster::new(options.seed, number, from, USUAL, true)));
        let resident = send_reports(options, &server, &databases.token, &mut clusters).await?;
        println!("  {number} clusters: {resident:.0} MB");
        megabytes_by_number.push(format!("{resident:.0} MB at {number}"));
    }
    let mut megabytes_over_time = vec![];
    for repetition in 1..=options.repetitions {
        let resident = send_reports(options, &server, &databases.token, &mut clusters).await?;
        println!("  after {} more reports: {resident:.0} MB", repetition * clusters.len() * options.reports);
        megabytes_over_time.push(resident);
    }
    server.stop().await?;
    database.drop().await?;
    // The first repetitions are still part of the warm-up.
    let warm_megabytes = megabytes_over_time
        .get(megabytes_over_time.len().div_ceil(3))
        .or(megabytes_over_time.first())
        .copied()
        .ok_or("no repetitions")?;
    let last_megabytes = megabytes_over_time.last().copied().unwrap_or(warm_megabytes);
    let ratio = last_megabytes / warm_megabytes;
    let reports = mean(options.repetitions * clusters.len() * options.reports, 1);
    Outcome {
        benchmark: format!("memory of the server, {}", options.store.name()),
        figure: format!(
            "{last_megabytes:.0} MB after {reports:.0} reports at the last number; {}",
            megabytes_by_number.join(", ")
        ),
        reference: format!(
            "{warm_megabytes:.0} MB a third of the way; {idle_megabytes:.0} MB before any report"
        ),
        ratio: Some(ratio),
        aim: format!("<= {AIM}"),
        is_met: Some(ratio <= AIM),
    }
    .publish();
    Ok(())
}

/// Sends a few reports of each cluster. Returns the peak memory, in MB.
async fn send_reports(
    options: &Options,
    server: &Server,
    token: &str,
    clusters: &mut [Cluster],
) -> Result<f64> {
    let mut peak = 0.0_f64;
    for _ in 0..options.reports {
        let reports: Vec<Report> =
            clusters.iter_mut().map(|cluster| cluster.next_report(options.seed)).collect();
        load::send(server, token, &reports).await?;
        peak = peak.max(server.resident_megabytes());
    }
    Ok(peak)
}
