//! Hostile requests: the time from the last byte of each request until the server rejects it.

use std::{net::SocketAddr, time::Instant};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    database::{Databases, Result, Store},
    hostile_requests::{HostileRequest, hostile_requests},
    results::{Outcome, summarize},
    server::Server,
};

/// The aim for the slowest request, in milliseconds.
const AIM: f64 = 100.0;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of times each request is sent.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
}

pub(crate) async fn run(options: &Options) -> Result<()> {
    let databases = Databases::prepare(Store::Sqlite).await?;
    let database = databases.create_copy().await?;
    let server = Server::start(&database.url, 16).await?;
    let requests = hostile_requests();
    let ordinary_request = ordinary_request();
    let mut times = vec![Vec::new(); requests.len()];
    let mut ordinary_times = Vec::new();
    let memory_before = server.resident_megabytes();
    // The first round is a warm-up.
    for round in 0..=options.rounds {
        for (request, times) in requests.iter().zip(&mut times) {
            let ordinary = send(server.address, &databases.token, &ordinary_request).await?;
            let hostile = send(server.address, &databases.token, request).await?;
            if round > 0 {
                ordinary_times.push(ordinary);
                times.push(hostile);
            }
        }
    }
    let memory_after = server.resident_megabytes();
    server.stop().await?;
    database.drop().await?;

    let mut rows: Vec<(f64, f64, &str)> = requests
        .iter()
        .zip(&times)
        .map(|(request, times)| {
            let (median, _, max) = summarize(times);
            (median, max, request.name)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (median, max, name) in rows.iter().take(10) {
        println!("  {median:.1} ms, at most {max:.1}: {name}");
    }
    let (slowest, _, name) = *rows.first().ok_or("there are no requests")?;
    let max = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    let (reference, ..) = summarize(&ordinary_times);
    Outcome {
        benchmark: "hostile requests, SQLite".to_owned(),
        figure: format!(
            "the slowest of {} is refused in {slowest:.1} ms ({name}; medians of {} rounds, no single one took more \
             than {max:.1}); memory {memory_before:.0} to {memory_after:.0} MB",
            requests.len(),
            options.rounds
        ),
        reference: format!("{reference:.1} ms for an ordinary query"),
        ratio: Some(slowest / reference),
        aim: format!("<= {AIM} ms"),
        is_met: Some(slowest <= AIM),
    }
    .publish();
    Ok(())
}

/// Returns an ordinary query for comparison.
pub(crate) fn ordinary_request() -> HostileRequest {
    let body = br#"{"query":"{ viewer { account { clusters { nodes { number name state } } } } }"}"#;
    HostileRequest {
        name: "an ordinary query",
        method: "POST",
        target: "/graphql".to_owned(),
        content_type: "application/json",
        body: body.to_vec(),
        status: 200,
        code: "",
    }
}

/// Sends a request on a new connection and returns the milliseconds from its last byte to the response.
/// Returns an error if the response is not the expected one.
pub(crate) async fn send(address: SocketAddr, token: &str, request: &HostileRequest) -> Result<f64> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut read, mut write) = stream.into_split();
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Accept: application/graphql-response+json\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n",
        request.method,
        request.target,
        request.content_type,
        request.body.len()
    );
    let bytes = [head.as_bytes(), &request.body].concat();
    let send = async {
        // The server stops reading once it rejects the request.
        let _ = write.write_all(&bytes).await;
        Instant::now()
    };
    let receive = async {
        let mut response = vec![0; 12];
        read.read_exact(&mut response).await?;
        let received_at = Instant::now();
        // If the connection is closed during the upload, the rest of the response may be lost.
        let _ = read.read_to_end(&mut response).await;
        Ok::<_, std::io::Error>((response, received_at))
    };
    let (sent_at, received) = tokio::join!(send, receive);
    let (response, received_at) = received?;
    let response = String::from_utf8_lossy(&response);
    if !response.starts_with(&format!("HTTP/1.1 {}", request.status)) || !response.contains(request.code) {
        return Err(format!("{}: {response}", request.name).into());
    }
    Ok(received_at.saturating_duration_since(sent_at).as_secs_f64() * 1e3)
}
