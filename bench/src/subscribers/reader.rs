//! WebSocket readers with minimal overhead: one buffer, and no copy of the messages.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::ingest::now;

const DAY: i64 = 86_400_000;

/// The maximum counted latency, in milliseconds. Longer latencies count as this one.
const MAX_LATENCY_MS: usize = 30_000;

/// The fields of a typical dashboard. `lastSeenAt` is the time at which the server had read the report.
const SUBSCRIPTION: &str = "subscription { clusters(account: \"default\") { cursor gap matches cluster { \
    id schedulerId name state lastSeenAt totals { tasks tasksErred } now { workers memoryUsed } } } }";

/// An empty pong frame with a zero mask.
const PONG: [u8; 6] = [0x8A, 0x80, 0, 0, 0, 0];

/// The messages of all readers since the last reset.
pub(super) struct LatencyCounter {
    /// The number of messages by latency, in milliseconds.
    counts: Vec<AtomicU64>,
    bytes: AtomicU64,
}

/// The number of messages and their latency.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyStats {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// The median latency, in milliseconds, as are the next two.
    pub(super) median: usize,
    pub(super) p99: usize,
    pub(super) max: usize,
}

impl LatencyCounter {
    pub(super) fn new() -> Arc<Self> {
        let counts = (0..=MAX_LATENCY_MS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { counts, bytes: AtomicU64::new(0) })
    }

    fn count(&self, message: &[u8]) {
        let Some(milliseconds) = message_age(message, now()) else { return };
        self.counts[milliseconds.min(MAX_LATENCY_MS)].fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
    }

    /// Returns the counts so far and resets them.
    pub(super) fn take(&self) -> LatencyStats {
        let counts: Vec<u64> = self.counts.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        let messages: u64 = counts.iter().sum();
        let percentile = |rank: u64| {
            let mut cumulative = 0;
            let reaches_rank = |count: &u64| {
                cumulative += count;
                cumulative >= rank.max(1)
            };
            counts.iter().position(reaches_rank).unwrap_or_default()
        };
        LatencyStats {
            messages,
            bytes: self.bytes.swap(0, Ordering::Relaxed),
            median: percentile(messages / 2),
            p99: percentile(messages - messages / 100),
            max: percentile(messages),
        }
    }
}

/// Returns the time since the server read the report of this message, in milliseconds.
fn message_age(message: &[u8], now: i64) -> Option<usize> {
    const NAME: &[u8] = b"\"lastSeenAt\":\"";
    let at = message.windows(NAME.len()).position(|bytes| bytes == NAME)? + NAME.len();
    let time = message.get(at + "2026-11-20T".len()..)?;
    let digit = |at: usize| time.get(at).map(|byte| i64::from(byte.wrapping_sub(b'0')));
    let two_digits = |at: usize| Some(10 * digit(at)? + digit(at + 1)?);
    let seconds = 3_600 * two_digits(0)? + 60 * two_digits(3)? + two_digits(6)?;
    let fraction = if time.get(8) == Some(&b'.') { 10 * two_digits(9)? + digit(11)? } else { 0 };
    usize::try_from((now - (1_000 * seconds + fraction)).rem_euclid(DAY)).ok()
}

/// Returns a client frame with a zero mask.
fn frame(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).expect("it is short").to_be_bytes();
    [&[0x81, 0xFE], &length[..], &[0; 4], text.as_bytes()].concat()
}

/// Opens a socket and subscribes.
pub(super) async fn open(address: SocketAddr, token: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let upgrade = format!(
        "GET /graphql HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await?;
    let connection_init =
        json!({ "type": "connection_init", "payload": { "Authorization": format!("Bearer {token}") } });
    stream.write_all(&frame(&connection_init.to_string())).await?;
    let mut response = Vec::new();
    while !response.windows(14).any(|bytes| bytes == b"connection_ack") {
        if stream.read_buf(&mut response).await? == 0 {
            let response = String::from_utf8_lossy(&response).into_owned();
            return Err(io::Error::other(format!("no socket was opened: {response}")));
        }
    }
    let subscribe = json!({ "id": "a", "type": "subscribe", "payload": { "query": SUBSCRIPTION } });
    stream.write_all(&frame(&subscribe.to_string())).await?;
    Ok(stream)
}

/// Reads until the socket is closed.
pub(super) async fn read(mut stream: TcpStream, latencies: Arc<LatencyCounter>) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        let mut parsed_bytes = 0;
        while let Some((kind, payload, length)) = first_frame(&buffer[parsed_bytes..]) {
            match kind {
                1 => latencies.count(payload),
                9 => stream.write_all(&PONG).await?,
                _ => return Err(io::Error::other(String::from_utf8_lossy(payload).into_owned())),
            }
            parsed_bytes += length;
        }
        buffer.drain(..parsed_bytes);
    }
}

/// Returns the first complete frame: its opcode, its payload and its length.
fn first_frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (length, head) = match second {
        126 => (usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => (usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?, 10),
        short => (usize::from(short), 2),
    };
    Some((first & 0x0F, bytes.get(head..head + length)?, head + length))
}
