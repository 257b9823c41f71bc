//! The server as an operator runs it, in its own process.

use std::{fs, io, net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::OnceCell,
};

use crate::flame_graph::FlameGraph;

/// The clock tick of `/proc`: a hundredth of a second on all supported systems.
const TICK_SECONDS: f64 = 0.01;

/// A server process. Dropping it kills the process.
pub(crate) struct Server {
    child: Child,
    pid: u32,
    flame_graph: Option<FlameGraph>,
    pub(crate) address: SocketAddr,
    /// The token of the first account, if the database was empty.
    pub(crate) token: Option<String>,
}

impl Server {
    /// Starts a server on a database. Creates an account if there is none.
    pub(crate) async fn start(database_url: &str, connections: u32) -> io::Result<Self> {
        let mut command = Command::new(program()?);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GALVO_")) {
            command.env_remove(name);
        }
        command
            .args(["serve", "--bootstrap", "--listen", "127.0.0.1:0", "--log", "warn"])
            .args(["--reports-per-second", "1000000", "--query-cost-per-minute", "1000000000"])
            .args(["--query-cost-per-minute-of-address", "1000000000"])
            .args(["--max-connections", "15000"])
            .args(["--quota-stored", "none", "--quota-daily", "none", "--quota-clusters", "none"])
            .args(["--database-url", database_url])
            .args(["--database-connections", &connections.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if let Some(key) = secret_key().await? {
            command.env("GALVO_SECRET_KEY", key);
        }
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let (mut address, mut token) = (None, None);
        while let Some(line) = lines.next_line().await? {
            if let Some(text) = line.strip_prefix("listening on http://") {
                address = text.parse().ok();
            } else if let Some(text) = line.strip_prefix("token:") {
                token = text.split_whitespace().next().map(str::to_owned);
            } else if line.contains("--preload") {
                break; // the last line
            }
        }
        let address = address.ok_or_else(|| io::Error::other("the server did not start"))?;
        // The pipe is drained, because a full pipe would block the server.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let pid = child.id().expect("it runs");
        let flame_graph = FlameGraph::start(pid)?;
        Ok(Self { child, pid, flame_graph, address, token })
    }

    /// Returns the process ID.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the resident memory, private and shared, in MB.
    pub(crate) fn resident_megabytes(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: Option<f64> = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kib.unwrap_or_default() * 1024.0 / 1e6
    }

    /// Returns the CPU time of all threads so far, in seconds.
    pub(crate) fn processor_seconds(&self) -> f64 {
        processor_seconds(self.pid)
    }

    /// Stops the server with SIGTERM, as an operator would.
    pub(crate) async fn stop(mut self) -> io::Result<()> {
        if let Some(flame_graph) = self.flame_graph.take() {
            flame_graph.finish().await?;
        }
        Command::new("kill").args(["-TERM", &self.pid.to_string()]).status().await?;
        let exit = tokio::time::timeout(Duration::from_mins(1), self.child.wait()).await;
        exit.map_err(|_| io::Error::other("the server did not stop"))??;
        Ok(())
    }
}

/// Returns the CPU time of all threads of a process so far, in seconds. 0 for processes of other
/// machines.
pub(crate) fn processor_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11);
    fields.take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * TICK_SECONDS
}

/// Returns one key for all servers of a run, which share copies of a database. `None` for versions
/// without encryption.
async fn secret_key() -> io::Result<Option<String>> {
    static KEY: OnceCell<Option<String>> = OnceCell::const_new();
    let generate = || async {
        let output = Command::new(program()?).args(["key", "generate"]).env_clear().output().await?;
        let key = String::from_utf8(output.stdout).map_err(io::Error::other)?;
        Ok(output.status.success().then(|| key.trim().to_owned()))
    };
    KEY.get_or_try_init(generate).await.cloned()
}

/// Returns the path in `GALVO_BIN`, or of the binary that Cargo built beside this one.
pub(crate) fn program() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os("GALVO_BIN") {
        return Ok(path.into());
    }
    let path = std::env::current_exe()?.with_file_name("galvo");
    let missing = || io::Error::other(format!("{} is missing: build it first", path.display()));
    path.exists().then(|| path.clone()).ok_or_else(missing)
}
