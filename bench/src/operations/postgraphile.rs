//! PostGraphile in its own process, on the database of a server.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use super::{
    queries::PostgraphileQuery,
    requests::{Requests, query},
    statements::backends,
};
use crate::{client::Connection, database::Result};

/// The functions and relations that its user would add to the database.
const SCHEMA: &str = include_str!("../../postgraphile/schema.sql");

/// The oldest version of Node.js that PostGraphile runs on. With an older one, its errors name no reason.
const NODE_MAJOR: u32 = 22;

/// A PostGraphile process. Dropping it kills the process.
pub(super) struct Postgraphile {
    /// Kept, because dropping it kills the process.
    _child: Child,
    pid: u32,
    address: SocketAddr,
    pub(super) version: String,
}

impl Postgraphile {
    /// Starts PostGraphile on a database, with this many connections. `None` if Node.js or the packages are
    /// missing.
    pub(super) async fn start(database_url: &str, connections: u32) -> Result<Option<Self>> {
        let (Some(version), true) = (installed_version(&directory())?, node_is_new_enough().await) else {
            println!(
                "  PostGraphile: not measured, because Node.js {NODE_MAJOR} or the packages are missing"
            );
            return Ok(None);
        };
        PgConnection::connect(database_url).await?.execute(SCHEMA).await?;
        let mut child = node()
            .arg(directory().join("server.js"))
            .env("DATABASE_URL", database_url)
            .env("DATABASE_CONNECTIONS", connections.to_string())
            .env("NODE_ENV", "production")
            .env("GRAPHILE_ENV", "production")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let port = lines.next_line().await?.and_then(|line| line.parse().ok());
        let port: u16 = port.ok_or("PostGraphile printed no port")?;
        let pid = child.id().expect("it runs");
        Ok(Some(Self { _child: child, pid, address: ([127, 0, 0, 1], port).into(), version }))
    }

    /// Returns the processes of PostGraphile and of its database connections.
    pub(super) async fn processes(&self, database_url: &str) -> Result<Vec<u32>> {
        let mut processes = backends(database_url, "postgraphile").await?;
        processes.push(self.pid);
        Ok(processes)
    }

    /// Returns the requests of an operation. Finds the cursor that they start after.
    pub(super) async fn requests(&self, operation: &PostgraphileQuery) -> Result<Requests> {
        let document = &operation.document;
        let mut cursor = Value::Null;
        if let Some(variables) = &operation.variables_before {
            let mut client = Connection::open(self.address, "").await?;
            let body = json!({ "query": document, "variables": variables }).to_string();
            let mut response = query(&mut client, body.as_bytes()).await?;
            cursor = response["allClusters"]["pageInfo"]["endCursor"].take();
            if cursor.is_null() {
                return Err("PostGraphile did not find the cluster before the page".into());
            }
        }
        let bodies = operation.variables.iter().map(|variables| {
            let mut variables = variables.clone();
            if !cursor.is_null() {
                variables["after"] = cursor.clone();
            }
            json!({ "query": document, "variables": variables }).to_string().into_bytes()
        });
        Ok(Requests { address: self.address, token: String::new(), bodies: Arc::new(bodies.collect()) })
    }
}

/// Returns the command in `BENCH_NODE`, or that on `PATH`.
fn node() -> Command {
    let program = std::env::var_os("BENCH_NODE").filter(|path| !path.is_empty());
    Command::new(program.unwrap_or_else(|| "node".into()))
}

/// Returns true if there is a Node.js that PostGraphile runs on.
async fn node_is_new_enough() -> bool {
    let Ok(output) = node().arg("--version").output().await else { return false };
    let version = String::from_utf8_lossy(&output.stdout);
    let major = version.trim().trim_start_matches('v').split('.').next();
    major.and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= NODE_MAJOR)
}

/// The directory of the program and its packages.
fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("postgraphile")
}

/// Returns the version of the installed package. `None` if it is not installed.
fn installed_version(directory: &Path) -> Result<Option<String>> {
    let manifest = match std::fs::read(directory.join("node_modules/postgraphile/package.json")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        manifest => manifest?,
    };
    let manifest: Value = serde_json::from_slice(&manifest)?;
    Ok(Some(manifest["version"].as_str().ok_or("PostGraphile's package has no version")?.to_owned()))
}
