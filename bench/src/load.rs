//! Sending the reports of many clusters concurrently.

use std::{collections::BTreeMap, time::Instant};

use futures::future::try_join_all;

use crate::{client::Connection, database::Result, server::Server, traffic::Report};

/// The number of concurrent connections.
pub(crate) const CONNECTIONS: usize = 32;

/// Sends all reports, those of each cluster in order. Returns the elapsed seconds.
pub(crate) async fn send(server: &Server, token: &str, reports: &[Report]) -> Result<f64> {
    let mut shares: BTreeMap<usize, Vec<&Report>> = BTreeMap::new();
    for report in reports {
        shares.entry(report.cluster % CONNECTIONS).or_default().push(report);
    }
    let connections = try_join_all(shares.keys().map(|_| Connection::open(server.address, token))).await?;
    let started_at = Instant::now();
    let send = async |(mut connection, share): (Connection, Vec<&Report>)| -> std::io::Result<()> {
        for report in share {
            connection.send_report(&report.body).await?;
        }
        Ok(())
    };
    try_join_all(connections.into_iter().zip(shares.into_values()).map(send)).await?;
    Ok(started_at.elapsed().as_secs_f64())
}
