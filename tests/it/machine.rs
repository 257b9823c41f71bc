//! A server's requirements on its machine: an exclusive store, file descriptors, and private files.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Stdio,
    time::Duration,
};

use harness::{Database, Program};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::Command,
    time::timeout,
};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: galvo\r\nConnection: close\r\n\r\n";

/// A directory with a store on SQLite, on every backend of the suite, and the log of its server.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn url(&self) -> String {
        format!("sqlite://{}?mode=rwc", self.path("galvo.db").display())
    }

    /// Starts a server in a shell after some shell commands.
    async fn serve(&self, shell: &str) -> Program {
        let arguments = ["serve", "--database-url", &self.url(), "--listen", "127.0.0.1:0", "--log", "warn"];
        let program = Program::command(&arguments);
        let program = program.as_std();
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("{shell} exec \"$0\" \"$@\"")])
            .arg(program.get_program())
            .args(program.get_args());
        // Remove the settings of the environment that runs the tests.
        for (name, _) in program.get_envs() {
            command.env_remove(name);
        }
        let log = File::create(self.path("log")).unwrap();
        Program::spawn(
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::from(log)).kill_on_drop(true),
        )
        .await
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    /// The process identifier of the server.
    fn process(&self) -> String {
        fs::read_to_string(self.path("galvo.db.lock")).unwrap().trim().to_owned()
    }
}

/// Requests the server's health over a connection.
async fn health(stream: &mut TcpStream) -> String {
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(20), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn a_second_server_of_an_sqlite_file_does_not_start() {
    let machine = Machine::new();
    let first = machine.serve("").await;
    let (url, lock) = (machine.url(), machine.path("galvo.db.lock"));
    assert_eq!(fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600);
    let serve = ["serve", "--database-url", &url, "--listen", "127.0.0.1:0"];
    let (status, output, errors) = Program::run(&serve).await;
    assert_eq!((status, output.as_str()), (Some(1), ""), "{errors}");
    let path = machine.path("galvo.db").canonicalize().unwrap();
    let expected = format!("another server uses {} (process {}): stop it", path.display(), machine.process());
    assert!(errors.contains(&expected), "{errors}");
    // The same file by another name.
    std::os::unix::fs::symlink(&path, machine.path("other.db")).unwrap();
    let other = format!("sqlite://{}", machine.path("other.db").display());
    let (status, _, errors) =
        Program::run(&["serve", "--database-url", &other, "--listen", "127.0.0.1:0"]).await;
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains(&expected), "{errors}");
    // Commands work while the server runs.
    let (status, _, errors) = Program::run(&["account", "create", "team", "--database-url", &url]).await;
    assert_eq!(status, Some(0), "{errors}");
    let (status, output, _) = Program::run(&["account", "list", "--database-url", &url]).await;
    assert_eq!(status, Some(0));
    assert!(output.contains("team"), "{output}");
    let copy = machine.path("copy.db").display().to_string();
    let (status, _, errors) = Program::run(&["backup", &copy, "--database-url", &url]).await;
    assert_eq!(status, Some(0), "{errors}");

    // A killed server leaves nothing behind that blocks the next one.
    first.kill().await;
    let second = machine.serve("").await;
    assert_eq!(second.terminate().await, Some(0));
    assert_eq!(machine.serve("").await.terminate().await, Some(0));
}

#[tokio::test]
async fn several_servers_of_a_database_server_start() {
    let database = Database::migrated().await;
    let servers = if database.url().starts_with("sqlite:") { 1 } else { 2 };
    let mut running = Vec::new();
    for _ in 0..servers {
        running.push(Program::serve(database.url(), "127.0.0.1:0", &[]).await);
    }
    for server in running {
        assert_eq!(server.client().get(server.url("/readyz")).send().await.unwrap().status(), 200);
        assert_eq!(server.terminate().await, Some(0));
    }
}

#[tokio::test]
async fn few_file_descriptors_make_few_connections() {
    let machine = Machine::new();
    let server = machine.serve("ulimit -n 128;").await;
    let log = machine.log();
    for part in [
        "the limit of file descriptors is too low for GALVO_MAX_CONNECTIONS",
        "limit=128",
        "needed=964",
        "connections=64",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert_eq!(log.lines().count(), 1, "{log}");
    // If there are more connections than slots, idle ones are closed, and nothing fails for lack of a
    // file descriptor.
    let mut connections = Vec::new();
    for _ in 0..150 {
        connections.push(TcpStream::connect(server.listen()).await.unwrap());
    }
    assert!(health(&mut connections[149]).await.starts_with("HTTP/1.1 200"));
    drop(connections);
    let mut another = TcpStream::connect(server.listen()).await.unwrap();
    assert!(health(&mut another).await.starts_with("HTTP/1.1 200"));
    assert_eq!(machine.log().lines().count(), 1, "{}", machine.log());
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn what_the_system_lacks_is_logged_once_a_minute() {
    let machine = Machine::new();
    let server = machine.serve("").await;
    let process = machine.process();
    let limit = async |files: usize| {
        let limit = format!("--nofile={files}:");
        let set = Command::new("prlimit").args(["--pid", &process, &limit]).status().await.unwrap();
        assert!(set.success());
    };
    // Existing descriptors stay open, and all numbers below the limit are taken.
    limit(3).await;
    let mut waiting = TcpStream::connect(server.listen()).await.unwrap();
    waiting.write_all(HEALTH.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let log = machine.log();
    let logged = log.lines().filter(|line| line.contains("failed to accept connections")).count();
    assert_eq!(logged, 1, "{log}");
    limit(1_000).await;
    let mut answer = String::new();
    timeout(Duration::from_secs(20), waiting.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn a_key_file_that_others_may_read_is_reported() {
    let machine = Machine::new();
    assert_eq!(machine.serve("").await.terminate().await, Some(0));
    assert_eq!(machine.log(), "");
    fs::set_permissions(machine.path("galvo.db.key"), Permissions::from_mode(0o644)).unwrap();
    assert_eq!(machine.serve("").await.terminate().await, Some(0));
    let log = machine.log();
    assert!(log.contains("the key file is readable by other users; restrict it with chmod 600"), "{log}");
    assert!(log.contains(&machine.path("galvo.db.key").display().to_string()), "{log}");
}
