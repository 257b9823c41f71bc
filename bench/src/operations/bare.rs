//! The least that a server takes over HTTP: it reads of a request where it ends and whose it is, looks the token up, and
//! writes what the hand-written statement finds. It checks nothing else, and has a connection to the database for each
//! of its clients.

use std::{io, net::SocketAddr, sync::Arc};

use sha2::{Digest as _, Sha256};
use sqlx::{Connection as _, PgConnection, Row as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{fetch, queries::Operation, write};
use crate::database::Result;

/// What the token's bearer may see, as far as one has to know.
const TOKEN: &str = "SELECT api_tokens.secret_hash, api_tokens.scopes::text, api_tokens.expires_at, api_tokens.revoked_at,
      accounts.id, accounts.slug, accounts.name, users.id, users.name, memberships.role, memberships.ends_at
    FROM api_tokens
    JOIN accounts ON accounts.id = api_tokens.account_id
    JOIN users ON users.id = api_tokens.user_id
    JOIN memberships ON memberships.account_id = api_tokens.account_id AND memberships.user_id = api_tokens.user_id
    WHERE api_tokens.identifier = $1";

/// A server in this process, which ends when it is dropped.
pub(super) struct Bare {
    pub(super) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Bare {
    /// One that answers `operation`, whatever it is asked, from the database at `url`.
    pub(super) async fn start(url: &str, operation: &Arc<Operation>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, url, operation) = (listener.local_addr()?, url.to_owned(), Arc::clone(operation));
        let accepting = tokio::spawn(async move {
            let mut clients = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let (url, operation) = (url.clone(), Arc::clone(&operation));
                // A client that is refused says so.
                tokio::spawn(async move { serve(stream, &url, &operation, 17 * clients).await });
                clients += 1;
            }
        });
        Ok(Self { address, accepting })
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Answers one client until it hangs up.
async fn serve(mut stream: TcpStream, url: &str, operation: &Operation, first: usize) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut database = PgConnection::connect(url).await?;
    let (mut buffer, mut answer) = (Vec::new(), Vec::new());
    for turn in first.. {
        let Some(authorization) = request(&mut stream, &mut buffer).await? else { break };
        if !is_good(&mut database, &authorization).await? {
            return Err("a token is not good".into());
        }
        let rows = write(&fetch(&mut database, operation, turn).await?);
        let length = rows.len() + r#"{"data":{"rows":}}"#.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        answer.clear();
        for part in [head.as_str(), r#"{"data":{"rows":"#, &rows, "}}"] {
            answer.extend_from_slice(part.as_bytes());
        }
        stream.write_all(&answer).await?;
    }
    Ok(())
}

/// Reads a request and returns its token; none when there are no more.
async fn request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<String>> {
    buffer.clear();
    let head = loop {
        if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head]).into_owned();
    let value = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let length: usize = value("Content-Length:").and_then(|length| length.parse().ok()).unwrap_or_default();
    while buffer.len() < head + length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some(value("Authorization: Bearer").unwrap_or_default().to_owned()))
}

/// Whether a token is what its row says.
async fn is_good(database: &mut PgConnection, token: &str) -> Result<bool> {
    let Some((identifier, secret)) = token.split_once('-') else { return Ok(false) };
    let row = sqlx::query(TOKEN).bind(identifier).fetch_optional(database).await?;
    Ok(row.is_some_and(|row| row.get::<&[u8], _>(0) == Sha256::digest(secret).as_slice()))
}
