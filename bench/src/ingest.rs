//! Ingest: the server against hand-written SQL that writes the same rows, in alternating rounds.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::{
    database::{Databases, Result, Store},
    load,
    reference::{Batch, Reference},
    results::{Outcome, summarize},
    server::Server,
    traffic::{Cluster, Report, USUAL},
};

const AIM: f64 = 0.5;

#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long, default_value_t = 64)]
    clusters: usize,
    /// Number of reports per cluster and round.
    #[arg(long, default_value_t = 60)]
    reports: usize,
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Number of connections to PostgreSQL, for the server and for the reference.
    #[arg(long, default_value_t = 16)]
    connections: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Store::Postgres, Store::Sqlite])]
    stores: Vec<Store>,
}

/// Returns the current time, in epoch milliseconds.
pub(crate) fn now() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).expect("1970 is over");
    i64::try_from(since_epoch.as_millis()).expect("this is not the far future")
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let reports = generate_reports(options);
    let bytes: usize = reports.iter().map(|report| report.body.len()).sum();
    println!(
        "  {} reports of {} clusters, {:.1} kB each as sent",
        reports.len(),
        options.clusters,
        mean(bytes, reports.len()) / 1e3
    );
    for store in &options.stores {
        compare(options, *store, &reports).await?;
    }
    Ok(())
}

/// Returns the reports of all clusters in the order of their times.
fn generate_reports(options: &Options) -> Vec<Report> {
    let from = now() - 6 * 3_600_000;
    let mut clusters: Vec<Cluster> =
        (0..options.clusters).map(|number| Cluster::new(options.seed, number, from, USUAL, true)).collect();
    let mut reports = Vec::with_capacity(options.clusters * options.reports);
    for _ in 0..options.reports {
        reports.extend(clusters.iter_mut().map(|cluster| cluster.next_report(options.seed)));
    }
    reports
}

async fn compare(options: &Options, store: Store, reports: &[Report]) -> Result<()> {
    let databases = Databases::prepare(store).await?;
    let mut reference: Option<Reference> = None;
    let (mut ratios, mut seconds, mut references, mut processor) = (vec![], vec![], vec![], vec![]);
    // The first round is a warm-up. It also fills the database from which the reference reads its rows.
    for round in 0..=options.rounds {
        let filled = databases.create_copy().await?;
        let server = Server::start(&filled.url, options.connections).await?;
        let initial_seconds = server.processor_seconds();
        let server_seconds = load::send(&server, &databases.token, reports).await?;
        let processor_seconds = server.processor_seconds() - initial_seconds;
        server.stop().await?;
        if reference.is_none() {
            reference = Some(Reference::prepare(store, &filled, options.seed, reports).await?);
        }
        filled.drop().await?;
        let empty = databases.create_copy().await?;
        let prepared_reference = reference.as_ref().ok_or("it is prepared")?;
        let reference_seconds = prepared_reference.write(store, &empty, options.connections).await?;
        empty.drop().await?;
        println!(
            "  {} round {round}: server {server_seconds:.2} s, by hand {reference_seconds:.2} s, ratio {:.3}",
            store.name(),
            reference_seconds / server_seconds
        );
        if round > 0 {
            ratios.push(reference_seconds / server_seconds);
            seconds.push(server_seconds);
            references.push(reference_seconds);
            processor.push(processor_seconds);
        }
    }
    let rows: usize = reference.iter().flat_map(|reference| &reference.batches).map(Batch::rows).sum();
    let (ratio, min, max) = summarize(&ratios);
    let (server_seconds, reference_seconds, processor_seconds) =
        (summarize(&seconds).0, summarize(&references).0, summarize(&processor).0);
    Outcome {
        benchmark: format!("ingest, {}", store.name()),
        figure: format!(
            "{:.0} reports/s, {:.0} rows/s, {:.2} ms processor per report of {:.1} rows \
             (ratios {min:.3} to {max:.3}, {} rounds)",
            mean(reports.len(), 1) / server_seconds,
            mean(rows, 1) / server_seconds,
            1e3 * processor_seconds / mean(reports.len(), 1),
            mean(rows, reports.len()),
            ratios.len(),
        ),
        reference: format!(
            "{:.0} reports/s, {:.0} rows/s by hand-written SQL",
            mean(reports.len(), 1) / reference_seconds,
            mean(rows, 1) / reference_seconds
        ),
        ratio: Some(ratio),
        aim: format!(">= {AIM}"),
        is_met: Some(ratio >= AIM),
    }
    .publish();
    Ok(())
}

pub(crate) fn mean(sum: usize, number: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let mean = sum as f64 / number as f64;
    mean
}
