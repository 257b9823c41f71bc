//! The program `galvo` as an operator runs it.

use std::{path::PathBuf, process::Stdio};

use reqwest::Client;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// A key for servers on PostgreSQL, which do not generate one.
const SECRET_KEY: &str = "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU";

/// A server in a separate process, which is killed on drop.
pub struct Program {
    child: Child,
    /// The output after the line with the listening address.
    pub output: Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Program {
    /// The program with arguments, in an environment without settings.
    #[must_use]
    pub fn command(arguments: &[&str]) -> Command {
        let mut command = Command::new(executable());
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (name, _) in std::env::vars() {
            if name.starts_with("GALVO_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a command to its end, and returns its exit status, standard output and standard error.
    pub async fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = Self::command(arguments).output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Serves on `listen`, where port 0 picks a free one.
    pub async fn serve(database_url: &str, listen: &str, more: &[&str]) -> Self {
        let arguments =
            [&["serve", "--database-url", database_url, "--listen", listen, "--log", "warn"], more].concat();
        let mut command = Self::command(&arguments);
        if !database_url.starts_with("sqlite:") {
            command.env("GALVO_SECRET_KEY", SECRET_KEY);
        }
        Self::spawn(command.stderr(Stdio::inherit())).await
    }

    /// Starts a server with a prepared command.
    pub async fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = output.next_line().await.unwrap().expect("the server says where it listens");
        let address = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, output, address }
    }

    /// The token that the server prints if its store was empty.
    pub async fn bootstrap_token(&mut self) -> String {
        loop {
            let line = self.output.next_line().await.unwrap().expect("it prints a token");
            if let Some(token) = line.strip_prefix("token:") {
                return token.split_whitespace().next().unwrap().to_owned();
            }
        }
    }

    /// The URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    /// The listening address, as `--listen` takes it.
    #[must_use]
    pub fn listen(&self) -> &str {
        self.address.strip_prefix("http://").unwrap()
    }

    /// The resident memory of the process, in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.memory("VmRSS:")
    }

    /// The peak resident memory of the process, in bytes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, field: &str) -> u64 {
        let status = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(status).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// An HTTP client for the server.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new()
    }

    /// Kills it, like a power failure.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Sends SIGTERM, and waits for the exit status.
    pub async fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
        self.child.wait().await.unwrap().code()
    }
}

/// Cargo puts the program in the parent of the test's directory.
fn executable() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(std::path::Path::parent).unwrap().join("galvo");
    assert!(program.exists(), "{} is missing: build the workspace first", program.display());
    program
}
