//! Hostile requests: the time from the last byte of each request until the server rejects it.

use std::{net::SocketAddr, time::Instant};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    database::{Databases, Result, Store},
    hostile_requests::{HostileRequest, hostile_requests},
    results::{Outcome, spread},
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
    let database = databases.make().await?;
    let server = Server::start(&database.url, 16).await?;
    let requests = hostile_requests();
    let ordinary = ordinary();
    let mut times = vec![Vec::new(); requests.len()];
    let mut ordinary_times = Vec::new();
    let before = server.resident_megabytes();
    // The first round is a warm-up.
    for round in 0..=options.rounds {
        for (request, times) in requests.iter().zip(&mut times) {
            let ordinary = send(server.address, &databases.token, &ordinary).await?;
            let hostile = send(server.address, &databases.token, request).await?;
            if round > 0 {
                ordinary_times.push(ordinary);
                times.push(hostile);
            }
        }
    }
    let after = server.resident_megabytes();
    server.stop().await?;
    database.drop().await?;

    let mut rows: Vec<(f64, f64, &str)> = requests
        .iter()
        .zip(&times)
        .map(|(request, times)| {
            let (median, _, most) = spread(times);
            (median, most, request.name)
        })
        .collect();
    rows.sort_by(|one, other| other.0.total_cmp(&one.0));
    for (median, most, name) in rows.iter().take(10) {
        println!("  {median:.1} ms, at most {most:.1}: {name}");
    }
    let (slowest, _, name) = *rows.first().ok_or("there are no requests")?;
    let most = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    let (reference, ..) = spread(&ordinary_times);
    Outcome {
        benchmark: "hostile requests, SQLite".to_owned(),
        figure: format!(
            "the slowest of {} is refused in {slowest:.1} ms ({name}; medians of {} rounds, no single one took more \
             than {most:.1}); memory {before:.0} to {after:.0} MB",
            requests.len(),
            options.rounds
        ),
        reference: format!("{reference:.1} ms for an ordinary query"),
        ratio: Some(slowest / reference),
        aim: format!("<= {AIM} ms"),
        held: Some(slowest <= AIM),
    }
    .publish();
    Ok(())
}

/// Returns an ordinary query for comparison.
pub(crate) fn ordinary() -> HostileRequest {
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
    let sending = async {
        // The server stops reading once it rejects the request.
        let _ = write.write_all(&bytes).await;
        Instant::now()
    };
    let answering = async {
        let mut answer = vec![0; 12];
        read.read_exact(&mut answer).await?;
        let answered = Instant::now();
        // If the connection is closed during the upload, the rest of the response may be lost.
        let _ = read.read_to_end(&mut answer).await;
        Ok::<_, std::io::Error>((answer, answered))
    };
    let (sent, answer) = tokio::join!(sending, answering);
    let (answer, answered) = answer?;
    let answer = String::from_utf8_lossy(&answer);
    if !answer.starts_with(&format!("HTTP/1.1 {}", request.status)) || !answer.contains(request.code) {
        return Err(format!("{}: {answer}", request.name).into());
    }
    Ok(answered.saturating_duration_since(sent).as_secs_f64() * 1e3)
}
