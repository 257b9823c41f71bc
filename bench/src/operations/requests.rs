//! Requests over HTTP: to the server, to a bare server and to PostGraphile.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use serde_json::Value;
use sqlx::PgConnection;

use super::{
    Options,
    measurement::{Measurement, run_workers},
};
use crate::{client::Connection, database::Result};

/// The requests of one operation to one server.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) address: SocketAddr,
    pub(super) token: String,
    /// The bodies, in turn.
    pub(super) bodies: Arc<Vec<Vec<u8>>>,
}

impl Requests {
    /// Sends each request once, and returns the number of rows in each response.
    pub(super) async fn count_rows(&self, count: fn(&Value) -> usize) -> Result<Vec<usize>> {
        let mut client = Connection::open(self.address, &self.token).await?;
        let mut numbers = Vec::with_capacity(self.bodies.len());
        for body in self.bodies.iter() {
            numbers.push(count(&query(&mut client, body).await?));
        }
        Ok(numbers)
    }

    /// Sends requests on all connections. `processes` are the processes whose CPU time counts.
    pub(super) async fn measure(&self, options: &Options, processes: &[u32]) -> Result<Measurement> {
        let workers = (0..options.connections as usize).map(|worker| {
            let Self { address, token, bodies } = self.clone();
            async move |deadline: Instant| -> Result<(usize, Option<PgConnection>)> {
                let mut client = Connection::open(address, &token).await?;
                let requests: Vec<Vec<u8>> = bodies.iter().map(|body| client.query_request(body)).collect();
                let mut completed = 0;
                while Instant::now() < deadline {
                    // Each worker starts at another request, so that they do not send the same at once.
                    let request = &requests[(completed + 17 * worker) % requests.len()];
                    let response = client.exchange(request).await?;
                    if !response.starts_with(b"{\"data\":{") {
                        return Err(String::from_utf8_lossy(response).into_owned().into());
                    }
                    completed += 1;
                }
                Ok((completed, None))
            }
        });
        run_workers(options.seconds, workers, processes).await
    }
}

/// Sends one request, and returns the `data` of the response.
pub(super) async fn query(client: &mut Connection, body: &[u8]) -> Result<Value> {
    let request = client.query_request(body);
    let mut response: Value = serde_json::from_slice(client.exchange(&request).await?)?;
    if !response["errors"].is_null() {
        return Err(response["errors"].to_string().into());
    }
    Ok(response["data"].take())
}
