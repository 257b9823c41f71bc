//! A reverse proxy that serves a server under a path prefix of its own host, like a company's tool
//! portal.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// The largest head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// The handling of the path prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// The prefix is removed from the path.
    Stripped,
    /// The whole path is forwarded.
    Kept,
}

/// A reverse proxy. It sends its own host name to the server, so that `Host` does not reveal the
/// external one. Requests outside the prefix are answered with 404 and recorded.
pub struct PrefixProxy {
    listener: Arc<TcpListener>,
    path: &'static str,
    outside: Arc<Mutex<Vec<String>>>,
    serving: JoinSet<()>,
}

impl PrefixProxy {
    /// Starts to listen, without a server behind it yet.
    pub async fn bind(path: &'static str) -> Self {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
        Self { listener, path, outside: Arc::default(), serving: JoinSet::new() }
    }

    /// The scheme, name and port of the proxy.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.listener.local_addr().unwrap())
    }

    /// The address at which the server is available.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    /// Forwards requests to a server from now on.
    pub fn serve(&mut self, server: SocketAddr, prefix: Prefix) {
        let (listener, path, outside) = (Arc::clone(&self.listener), self.path, Arc::clone(&self.outside));
        self.serving.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let outside = Arc::clone(&outside);
                connections
                    .spawn(async move { forward_connection(client, server, path, prefix, &outside).await });
            }
        });
    }

    /// The targets requested outside the prefix.
    #[must_use]
    pub fn outside(&self) -> Vec<String> {
        self.outside.lock().unwrap().clone()
    }
}

/// Forwards one request of a connection, and all bytes after it in both directions.
async fn forward_connection(
    mut client: TcpStream,
    server: SocketAddr,
    path: &str,
    prefix: Prefix,
    outside: &Mutex<Vec<String>>,
) {
    let Some((head, rest)) = read_head(&mut client).await else { return };
    let (line, headers) = head.split_once("\r\n").unwrap();
    let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
    let inner = target.strip_prefix(path).filter(|inner| inner.is_empty() || inner.starts_with(['/', '?']));
    let Some(inner) = inner else {
        outside.lock().unwrap().push(format!("{method} {target}"));
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = client.write_all(answer).await;
        return;
    };
    let target = match (prefix, inner.strip_prefix('/')) {
        (Prefix::Kept, _) => target.to_owned(),
        (Prefix::Stripped, Some(_)) => inner.to_owned(),
        (Prefix::Stripped, None) => format!("/{inner}"),
    };
    let is_upgrade = headers.to_ascii_lowercase().contains("\r\nupgrade:");
    let mut forwarded_head = format!("{method} {target} {version}\r\nHost: upstream.internal\r\n");
    for header in headers.trim_end().split("\r\n") {
        let name = header.split(':').next().unwrap_or_default();
        // One request per connection, because the next one has another path.
        if !name.eq_ignore_ascii_case("host") && (is_upgrade || !name.eq_ignore_ascii_case("connection")) {
            forwarded_head.push_str(header);
            forwarded_head.push_str("\r\n");
        }
    }
    forwarded_head += if is_upgrade { "\r\n" } else { "Connection: close\r\n\r\n" };
    let mut server = TcpStream::connect(server).await.unwrap();
    server.write_all(&[forwarded_head.as_bytes(), &rest].concat()).await.unwrap();
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

/// Reads the head of a request, and the start of its body; `None` if the client disconnected.
async fn read_head(client: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Some((String::from_utf8(read).unwrap(), rest));
        }
        assert!(read.len() < MAX_HEAD, "the head ends");
        if client.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    }
}
