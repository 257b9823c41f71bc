//! The reference: a process that only writes the same bytes to the same number of sockets.

use std::{io, net::SocketAddr, process::Stdio, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    sync::broadcast,
    time::{MissedTickBehavior, interval},
};

use crate::{database::Result, ingest::now, server::processor_seconds};

/// The number of messages queued for a slow socket.
const QUEUE_LENGTH: usize = 1_024;

const UPGRADE_RESPONSE: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x19{\"type\":\"connection_ack\"}";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Number of messages per second.
    #[arg(long)]
    per_second: f64,
    /// Size of each message, in bytes.
    #[arg(long)]
    bytes: usize,
}

/// Writes until the process is killed.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let (sender, _) = broadcast::channel::<Arc<[u8]>>(QUEUE_LENGTH);
    let receivers = sender.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, receivers.subscribe()));
        }
    });
    let mut ticks = interval(Duration::from_secs_f64(1.0 / options.per_second));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        ticks.tick().await;
        // Fails only without receivers, which is harmless.
        let _ = sender.send(message(options.bytes));
    }
}

/// Returns a frame with the current time, padded to the given size.
fn message(bytes: usize) -> Arc<[u8]> {
    let time = now().rem_euclid(86_400_000);
    let (seconds, fraction) = (time / 1_000, time % 1_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let mut text =
        format!("{{\"lastSeenAt\":\"2026-11-20T{hours:02}:{minutes:02}:{seconds:02}.{fraction:03}+00:00\"");
    text.extend(std::iter::repeat_n(' ', bytes.saturating_sub(text.len() + 1)));
    text.push('}');
    let length = u16::try_from(text.len()).expect("messages are short");
    [&[0x81, 126], &length.to_be_bytes()[..], text.as_bytes()].concat().into()
}

async fn serve(mut stream: TcpStream, mut messages: broadcast::Receiver<Arc<[u8]>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await?;
    stream.write_all(UPGRADE_RESPONSE).await?;
    loop {
        match messages.recv().await {
            Ok(message) => stream.write_all(&message).await?,
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            Err(broadcast::error::RecvError::Closed) => return Ok(()),
        }
    }
}

/// A broadcast process. Dropping it kills the process.
pub(super) struct Broadcast {
    /// Owns the process.
    _child: Child,
    pid: u32,
    pub(super) address: SocketAddr,
}

impl Broadcast {
    pub(super) async fn start(per_second: f64, bytes: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["broadcast", "--per-second", &per_second.to_string(), "--bytes", &bytes.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let address = lines.next_line().await?.ok_or("the broadcast did not start")?.parse()?;
        let pid = child.id().expect("it runs");
        Ok(Self { _child: child, pid, address })
    }

    pub(super) fn processor_seconds(&self) -> f64 {
        processor_seconds(self.pid)
    }
}
