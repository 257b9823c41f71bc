//! A client with minimal overhead: prepared bodies on connections that stay open.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A connection to the server.
pub(crate) struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    token: String,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, token: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address, token: token.to_owned(), buffer: Vec::new() })
    }

    /// Sends a report. Returns an error unless the server accepts it.
    pub(crate) async fn send_report(&mut self, body: &[u8]) -> io::Result<()> {
        let headers = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n";
        let request = self.request("/api/v1/reports", headers, body);
        self.exchange(&request).await.map(drop)
    }

    /// Returns the bytes of a GraphQL request.
    pub(crate) fn query_request(&self, body: &[u8]) -> Vec<u8> {
        self.request("/graphql", "Content-Type: application/json\r\n", body)
    }

    fn request(&self, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let Self { address, token, .. } = self;
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{headers}\
             Content-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }

    /// Sends a request and returns the body of the response. Returns an error unless the status is 200.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> io::Result<&[u8]> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head_length = loop {
            if let Some(end) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            self.read_more().await?;
        };
        let text = String::from_utf8_lossy(&self.buffer[..head_length]).to_ascii_lowercase();
        let closes_connection = text.contains("\r\nconnection: close\r\n");
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or_default();
        while self.buffer.len() < head_length + length {
            self.read_more().await?;
        }
        if closes_connection {
            // The unread part of a rejected request would corrupt the next one on this connection.
            self.stream = TcpStream::connect(self.address).await?;
            self.stream.set_nodelay(true)?;
        }
        if text.starts_with("http/1.1 200 ") {
            return Ok(&self.buffer[head_length..]);
        }
        let response = String::from_utf8_lossy(&self.buffer);
        Err(io::Error::other(format!("the server refused a request: {response}")))
    }

    async fn read_more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
