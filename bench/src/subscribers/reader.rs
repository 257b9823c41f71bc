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

/// The longest counted latency, in milliseconds. Longer ones count as this.
const MILLISECONDS: usize = 30_000;

/// The fields of a typical dashboard. `lastSeenAt` is the time at which the server had read the report.
const SUBSCRIPTION: &str = "subscription { clusters(account: \"default\") { cursor gap matches cluster { \
    id schedulerId name state lastSeenAt totals { tasks tasksErred } now { workers memoryUsed } } } }";

/// An empty pong frame with a zero mask.
const PONG: [u8; 6] = [0x8A, 0x80, 0, 0, 0, 0];

/// The messages of all readers since the last reset.
pub(super) struct LatencyCounter {
    after: Vec<AtomicU64>,
    bytes: AtomicU64,
}

/// The number of messages and their latency.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyStats {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// The latencies are in milliseconds.
    pub(super) median: usize,
    pub(super) p99: usize,
    pub(super) most: usize,
}

impl LatencyCounter {
    pub(super) fn new() -> Arc<Self> {
        let after = (0..=MILLISECONDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { after, bytes: AtomicU64::new(0) })
    }

    fn count(&self, message: &[u8]) {
        let Some(milliseconds) = age(message, now()) else { return };
        self.after[milliseconds.min(MILLISECONDS)].fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(message.len() as u64, Ordering::Relaxed);
    }

    /// Returns the counts so far and resets them.
    pub(super) fn take(&self) -> LatencyStats {
        let counts: Vec<u64> = self.after.iter().map(|count| count.swap(0, Ordering::Relaxed)).collect();
        let messages: u64 = counts.iter().sum();
        let place = |rank: u64| {
            let mut passed = 0;
            let reaches = |count: &u64| {
                passed += count;
                passed >= rank.max(1)
            };
            counts.iter().position(reaches).unwrap_or_default()
        };
        LatencyStats {
            messages,
            bytes: self.bytes.swap(0, Ordering::Relaxed),
            median: place(messages / 2),
            p99: place(messages - messages / 100),
            most: place(messages),
        }
    }
}

/// Returns the time since the server read the report of this message, in milliseconds.
fn age(message: &[u8], now: i64) -> Option<usize> {
    const NAME: &[u8] = b"\"lastSeenAt\":\"";
    let at = message.windows(NAME.len()).position(|bytes| bytes == NAME)? + NAME.len();
    let time = message.get(at + "2026-11-20T".len()..)?;
    let digit = |at: usize| time.get(at).map(|byte| i64::from(byte.wrapping_sub(b'0')));
    let two = |at: usize| Some(10 * digit(at)? + digit(at + 1)?);
    let seconds = 3_600 * two(0)? + 60 * two(3)? + two(6)?;
    let fraction = if time.get(8) == Some(&b'.') { 10 * two(9)? + digit(11)? } else { 0 };
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
    let begin =
        json!({ "type": "connection_init", "payload": { "Authorization": format!("Bearer {token}") } });
    stream.write_all(&frame(&begin.to_string())).await?;
    let mut heard = Vec::new();
    while !heard.windows(14).any(|bytes| bytes == b"connection_ack") {
        if stream.read_buf(&mut heard).await? == 0 {
            let heard = String::from_utf8_lossy(&heard).into_owned();
            return Err(io::Error::other(format!("no socket was opened: {heard}")));
        }
    }
    let ask = json!({ "id": "a", "type": "subscribe", "payload": { "query": SUBSCRIPTION } });
    stream.write_all(&frame(&ask.to_string())).await?;
    Ok(stream)
}

/// Reads until the socket is closed.
pub(super) async fn read(mut stream: TcpStream, seen: Arc<LatencyCounter>) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        if stream.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        let mut read = 0;
        while let Some((kind, payload, end)) = next(&buffer[read..]) {
            match kind {
                1 => seen.count(payload),
                9 => stream.write_all(&PONG).await?,
                _ => return Err(io::Error::other(String::from_utf8_lossy(payload).into_owned())),
            }
            read += end;
        }
        buffer.drain(..read);
    }
}

/// Returns the first complete frame: its opcode, its payload and its length.
fn next(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (length, head) = match second {
        126 => (usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => (usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?, 10),
        short => (usize::from(short), 2),
    };
    Some((first & 0x0F, bytes.get(head..head + length)?, head + length))
}
