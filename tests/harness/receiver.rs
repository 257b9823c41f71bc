//! Receivers of alerts and traces: an HTTP server and a mail server.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinSet,
};

/// A received request.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method and path.
    pub target: String,
    /// The headers, by their names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// A header; empty if it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A response with this status.
    Status(u16),
    /// No response.
    Silence,
}

/// A server that accepts HTTP requests and stores them.
pub struct WebhookReceiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    arrivals: Arc<Notify>,
    _accepting: JoinSet<()>,
}

impl WebhookReceiver {
    /// Starts one that answers every request with 204.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (answers, arrivals): (Arc<Mutex<VecDeque<Answer>>>, _) =
            (Arc::default(), Arc::new(Notify::new()));
        let mut accepting = JoinSet::new();
        let shared = (Arc::clone(&received), Arc::clone(&answers), Arc::clone(&arrivals));
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (received, answers, arrivals) = shared.clone();
                connections.spawn(async move {
                    let Some((request, mut stream)) = read_request(stream).await else { return };
                    let answer = answers.lock().unwrap().pop_front().unwrap_or(Answer::Status(204));
                    received.lock().unwrap().push(request);
                    arrivals.notify_waiters();
                    match answer {
                        Answer::Status(status) => {
                            let text = format!(
                                "HTTP/1.1 {status} X\r\nConnection: close\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
                            );
                            // The client may have closed the connection already.
                            let _ = stream.write_all(text.as_bytes()).await;
                        }
                        Answer::Silence => std::future::pending().await,
                    }
                });
            }
        });
        Self { address, received, answers, arrivals, _accepting: accepting }
    }

    /// Its origin, without a path.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A URL to send requests to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/hook/secret-path", self.origin())
    }

    /// Sets the responses to the next requests. Later ones are answered with 204.
    pub fn answer(&self, answers: &[Answer]) {
        *self.answers.lock().unwrap() = answers.iter().copied().collect();
    }

    /// All requests so far, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Waits until `count` requests have arrived.
    pub async fn wait_for(&self, count: usize) {
        loop {
            let arrival = self.arrivals.notified();
            if self.received.lock().unwrap().len() >= count {
                return;
            }
            arrival.await;
        }
    }
}

async fn read_request(mut stream: TcpStream) -> Option<(Received, TcpStream)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let target = format!("{} {}", words.next()?, words.next()?);
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers: Vec<(String, String)> = lines.filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((Received { target, headers, body }, stream))
}

/// A received mail.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The sender and the recipients of the envelope.
    pub envelope: Vec<String>,
    /// The headers and the text.
    pub data: String,
}

/// A server that accepts mails and stores them, by RFC 5321.
pub struct MailReceiver {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Mail>>>,
    refusals: Arc<Mutex<u32>>,
    _accepting: JoinSet<()>,
}

impl MailReceiver {
    /// Starts one that accepts every mail.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (received, refusals): (Arc<Mutex<Vec<Mail>>>, Arc<Mutex<u32>>) = Default::default();
        let state = (Arc::clone(&received), Arc::clone(&refusals));
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client may disconnect early.
                let _ = converse(stream, &state.0, &state.1).await;
            }
        });
        Self { address, received, refusals, _accepting: accepting }
    }

    /// Its URL, as the settings take it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("smtp://{}", self.address)
    }

    /// Rejects the next `count` mails temporarily.
    pub fn refuse(&self, count: u32) {
        *self.refusals.lock().unwrap() = count;
    }

    /// All mails so far, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Mail> {
        self.received.lock().unwrap().clone()
    }
}

async fn converse(
    stream: TcpStream,
    received: &Mutex<Vec<Mail>>,
    refusals: &Mutex<u32>,
) -> Result<(), std::io::Error> {
    let (reading, mut writing) = stream.into_split();
    let mut lines = BufReader::new(reading).lines();
    writing.write_all(b"220 mail.example.com ESMTP\r\n").await?;
    let mut envelope = Vec::new();
    while let Some(line) = lines.next_line().await? {
        let command = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        let reply = match command.as_str() {
            "EHLO" => "250-mail.example.com\r\n250 8BITMIME",
            "HELO" | "RSET" | "NOOP" => "250 OK",
            "MAIL" | "RCPT" => {
                envelope.push(line);
                "250 OK"
            }
            "DATA" => {
                writing.write_all(b"354 Go on\r\n").await?;
                let mut data = String::new();
                while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                    data.push_str(line.strip_prefix('.').unwrap_or(&line));
                    data.push('\n');
                }
                let refused = {
                    let mut left = refusals.lock().unwrap();
                    let refused = *left > 0;
                    *left = left.saturating_sub(1);
                    refused
                };
                if refused {
                    "451 Come back later"
                } else {
                    received.lock().unwrap().push(Mail { envelope: std::mem::take(&mut envelope), data });
                    "250 Taken"
                }
            }
            "QUIT" => {
                writing.write_all(b"221 Bye\r\n").await?;
                return Ok(());
            }
            _ => "502 Not here",
        };
        writing.write_all(format!("{reply}\r\n").as_bytes()).await?;
    }
    Ok(())
}
