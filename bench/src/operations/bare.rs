//! A minimal HTTP server as a reference. It reads the length and the token of a request, looks the token
//! up, and returns the result of the hand-written statement. It checks nothing else, and keeps one
//! database connection per client.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::try_join_all;
use sha2::{Digest as _, Sha256};
use sqlx::{Connection as _, PgConnection, Row as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{
    queries::Operation,
    statements::{backend, fetch, to_json},
};
use crate::database::Result;

/// The token's permissions, as far as a server has to know them.
const TOKEN: &str = "SELECT api_tokens.secret_hash, api_tokens.scopes::text, api_tokens.expires_at, api_tokens.revoked_at,
      accounts.id, accounts.slug, accounts.name, users.id, users.name, memberships.role, memberships.ends_at
    FROM api_tokens
    JOIN accounts ON accounts.id = api_tokens.account_id
    JOIN users ON users.id = api_tokens.user_id
    JOIN memberships ON memberships.account_id = api_tokens.account_id AND memberships.user_id = api_tokens.user_id
    WHERE api_tokens.identifier = $1";

/// A server in this process. Dropping it stops it.
pub(super) struct BareServer {
    pub(super) address: SocketAddr,
    /// The database processes of its connections.
    pub(super) backends: Vec<u32>,
    accept_task: JoinHandle<()>,
}

/// The connections without a client.
type Databases = Arc<Mutex<Vec<PgConnection>>>;

impl BareServer {
    /// Starts a server that runs `operation` on the database at `url` for every request, with this many
    /// concurrent clients.
    pub(super) async fn start(url: &str, operation: &Arc<Operation>, clients: u32) -> Result<Self> {
        let mut databases = try_join_all((0..clients).map(|_| PgConnection::connect(url))).await?;
        let mut backends = Vec::new();
        for database in &mut databases {
            backends.push(backend(database).await?);
        }
        let (databases, operation) = (Arc::new(Mutex::new(databases)), Arc::clone(operation));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accept_task = tokio::spawn(async move {
            let mut clients = 0;
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&databases), Arc::clone(&operation), 17 * clients));
                clients += 1;
            }
        });
        Ok(Self { address, backends, accept_task })
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

/// Serves a client until it disconnects or an error occurs. On an error the connection is closed.
async fn serve(stream: TcpStream, databases: Databases, operation: Arc<Operation>, first: usize) {
    let free = || databases.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut database) = free().pop() else { return };
    if let Err(error) = answer(stream, &mut database, &operation, first).await {
        println!("  a bare server failed: {error}");
    }
    free().push(database);
}

async fn answer(
    mut stream: TcpStream,
    database: &mut PgConnection,
    operation: &Operation,
    first_index: usize,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut response) = (Vec::new(), Vec::new());
    for index in first_index.. {
        let Some(token) = read_token(&mut stream, &mut buffer).await? else { break };
        if !is_valid_token(database, &token).await? {
            return Err("a token is invalid".into());
        }
        let rows = to_json(&fetch(database, operation, index).await?);
        let length = rows.len() + r#"{"data":{"rows":}}"#.len();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        response.clear();
        for part in [head.as_str(), r#"{"data":{"rows":"#, &rows, "}}"] {
            response.extend_from_slice(part.as_bytes());
        }
        stream.write_all(&response).await?;
    }
    Ok(())
}

/// Reads a request and returns its token. `None` at the end of the connection.
async fn read_token(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<String>> {
    buffer.clear();
    let head_length = loop {
        if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let text = String::from_utf8_lossy(&buffer[..head_length]).into_owned();
    let value = |name| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let length: usize = value("Content-Length:").and_then(|length| length.parse().ok()).unwrap_or_default();
    while buffer.len() < head_length + length {
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(Some(value("Authorization: Bearer").unwrap_or_default().to_owned()))
}

/// Returns true if the token's secret matches its row.
async fn is_valid_token(database: &mut PgConnection, token: &str) -> Result<bool> {
    let Some((identifier, secret)) = token.split_once('-') else { return Ok(false) };
    let row = sqlx::query(TOKEN).bind(identifier).fetch_optional(database).await?;
    Ok(row.is_some_and(|row| row.get::<&[u8], _>(0) == Sha256::digest(secret).as_slice()))
}
