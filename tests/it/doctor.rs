//! The findings of `galvo doctor`: none if nothing is wrong, and each possible problem.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
    process::Stdio,
};

use galvo::encryption::Keys;
use harness::{AUDIENCE, Database, ISSUER, Program, ReportBuilder, SigningKey, error, key_set};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpStream, process::Command};

const KEY: &str = "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU";

/// The password in these tests, which must not appear in the doctor's output.
const SECRET: &str = "geheim";

/// The findings, and the exit status.
#[derive(Debug)]
struct Findings {
    status: Option<i32>,
    verdict: String,
    checks: Vec<Value>,
}

impl Findings {
    fn of(output: &std::process::Output) -> Self {
        let (stdout, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!stdout.contains(SECRET) && !errors.contains(SECRET), "{stdout} {errors}");
        let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {errors}"));
        let verdict = report["verdict"].as_str().unwrap().to_owned();
        Self { status: output.status.code(), verdict, checks: report["checks"].as_array().unwrap().clone() }
    }

    /// Checks that there is such a finding, with advice unless it is "ok", and that the exit status is
    /// right.
    #[track_caller]
    fn has(&self, verdict: &str, check: &str, message: &str) {
        let found = self.checks.iter().find(|finding| {
            finding["verdict"] == verdict
                && finding["check"] == check
                && finding["message"].as_str().unwrap().contains(message)
        });
        let found = found.unwrap_or_else(|| panic!("no {verdict} {check} '{message}' in {:#?}", self.checks));
        assert_eq!(found["advice"].is_null(), verdict == "ok", "{found}");
        let failed = self.checks.iter().any(|finding| finding["verdict"] == "failed");
        assert_eq!((self.status, self.verdict == "failed"), (Some(i32::from(failed)), failed), "{self:?}");
    }
}

/// A doctor with the settings of a server on this database.
fn doctor(database_url: &str, arguments: &[&str]) -> Command {
    let common = ["doctor", "--json", "--database-url", database_url, "--log", "off"];
    let mut command = Program::command(&[&common[..], arguments].concat());
    if !database_url.starts_with("sqlite:") {
        command.env("GALVO_SECRET_KEY", KEY);
    }
    command
}

async fn examine(database_url: &str, arguments: &[&str]) -> Findings {
    Findings::of(&doctor(database_url, arguments).output().await.unwrap())
}

/// A directory with a store on SQLite that was served, on every backend of the suite.
struct Store(TempDir);

impl Store {
    async fn served() -> Self {
        let store = Self(tempfile::tempdir().unwrap());
        let server = Program::serve(&store.url(), "127.0.0.1:0", &[]).await;
        assert_eq!(server.terminate().await, Some(0));
        store
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn url(&self) -> String {
        format!("sqlite://{}?mode=rwc", self.path("galvo.db").display())
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o600)).unwrap();
        self.path(name).display().to_string()
    }
}

#[tokio::test]
async fn a_server_that_runs_has_nothing_wrong() {
    let database = Database::migrated().await;
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let public = server.url("");
    let findings = examine(database.url(), &["--public-url", &public]).await;
    for (check, message) in [
        ("settings", "all are valid"),
        ("store", ", version "),
        ("rights", "the database is writable"),
        ("migrations", "all are applied"),
        ("keys", "1 key, all that the database needs"),
        ("public url", "answers"),
    ] {
        findings.has("ok", check, message);
    }
    let failed: Vec<&Value> =
        findings.checks.iter().filter(|finding| finding["verdict"] == "failed").collect();
    assert_eq!(failed, Vec::<&Value>::new());
    if !database.url().starts_with("sqlite:") {
        findings.has("ok", "clock", "the clocks of this machine and the database agree");
    }
    // The human-readable output has one line per finding.
    let mut command = Program::command(&["doctor", "--database-url", database.url(), "--log", "off"]);
    if !database.url().starts_with("sqlite:") {
        command.env("GALVO_SECRET_KEY", KEY);
    }
    let output = command.output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("ok       settings          all are valid\n"), "{text}");
    assert_eq!(text.lines().count(), findings.checks.len(), "{text}");
    assert_eq!(output.status.code(), Some(0));
    server.terminate().await;
}

#[tokio::test]
async fn settings_that_are_wrong_are_all_named() {
    let mut command = doctor("sqlite://x.db", &["--listen", "nowhere"]);
    let findings = Findings::of(&command.env("GALVO_LISTN", "x").output().await.unwrap());
    findings.has("failed", "settings", "--listen (GALVO_LISTEN)");
    findings.has("failed", "settings", "GALVO_LISTN: unknown setting");
    assert_eq!(findings.checks.len(), 2);
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_distinguished_from_one_that_is_not_there_yet() {
    let directory = tempfile::tempdir().unwrap();
    let findings = examine("postgres://ada:geheim@127.0.0.1:1/galvo", &[]).await;
    findings.has("failed", "store", "PostgreSQL 127.0.0.1:1/galvo");
    findings.has("failed", "store", "Connection refused");
    let within = |name: &str| format!("sqlite://{}/{name}", directory.path().display());
    examine(&within("galvo.db?mode=rwc"), &[]).await.has("warning", "store", "yet");
    examine(&within("galvo.db?mode=rwc"), &[]).await.has("ok", "keys", "`galvo serve` creates it");
    examine(&within("galvo.db"), &[]).await.has("failed", "store", "cannot be opened");
    examine(&within("nowhere/galvo.db?mode=rwc"), &[]).await.has("failed", "store", "yet");
    examine(&within("nowhere/galvo.db?mode=rwc"), &[]).await.has(
        "failed",
        "disk",
        "cannot read the free space",
    );
    fs::write(
        directory.path().join("text"),
        "this is no database, and long enough to be read as one".repeat(9),
    )
    .unwrap();
    examine(&within("text"), &[]).await.has("failed", "store", "not a database");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_reported() {
    let store = Store::served().await;
    let examined = async || {
        let mut command = doctor(&store.url(), &[]);
        if is_root() {
            // Root may write everything unless its capability is dropped.
            let program = doctor(&store.url(), &[]);
            command = Command::new("setpriv");
            command.args(["--bounding-set=-dac_override"]).arg(program.as_std().get_program());
            command.args(program.as_std().get_args());
            for (name, _) in program.as_std().get_envs() {
                command.env_remove(name);
            }
        }
        Findings::of(&command.output().await.unwrap())
    };
    examined().await.has("ok", "rights", "the database is writable");
    let before = fs::read(store.path("galvo.db")).unwrap();
    let was_there = store.path("galvo.db-shm").exists();
    fs::set_permissions(store.path("galvo.db"), fs::Permissions::from_mode(0o400)).unwrap();
    let findings = examined().await;
    findings.has("failed", "rights", "the database is not writable");
    findings.has("failed", "rights", "Permission denied");
    assert_eq!(findings.status, Some(1), "{findings:?}");
    let is_there = store.path("galvo.db-shm").exists();
    assert_eq!(is_there, was_there, "what is made now cannot be written, either");
    fs::set_permissions(store.path("galvo.db"), fs::Permissions::from_mode(0o600)).unwrap();
    examined().await.has("ok", "rights", "the database is writable");
    assert!(fs::read(store.path("galvo.db")).unwrap() == before, "nothing was changed");
}

/// True if these tests run as root.
fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[tokio::test]
async fn migrations_are_those_of_this_version() {
    let database = Database::empty().await;
    if let Some(path) = database.url().strip_prefix("sqlite://") {
        fs::write(path.split('?').next().unwrap(), "").unwrap();
    }
    examine(database.url(), &[]).await.has(
        "warning",
        "migrations",
        "the first is m20261120_000001_create_account",
    );
    let findings = examine(database.url(), &[]).await;
    findings.has("warning", "migrations", "not migrated yet");
    let advice = findings.checks.iter().find(|finding| finding["check"] == "migrations").unwrap();
    assert!(advice["advice"].as_str().unwrap().contains("run `galvo migrate`"), "{advice}");
    // The keys are not checked before there are tables.
    let keys = findings.checks.iter().find(|finding| finding["check"] == "keys").unwrap();
    assert_eq!(keys["verdict"], "ok", "{keys}");
    let database = Database::migrated().await;
    examine(database.url(), &[]).await.has("ok", "migrations", "all are applied");
    let later = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m29991231_000001_later', 1)";
    database.connection().await.execute_unprepared(later).await.unwrap();
    // A server gives the same warning: it runs beside the newer release that replaces it.
    let findings = examine(database.url(), &[]).await;
    findings.has(
        "warning",
        "migrations",
        "newer than this release, its latest migration is m29991231_000001_later",
    );
    assert_eq!(findings.status, Some(0), "{findings:?}");
    let migrate = ["migrate", "--database-url", database.url()];
    assert_eq!(Program::run(&migrate).await.0, Some(0));
    // A server does not start on a database that lacks steps and has unknown ones.
    let lack = "DELETE FROM seaql_migrations WHERE version = 'm20261120_000001_create_account'";
    database.connection().await.execute_unprepared(lack).await.unwrap();
    examine(database.url(), &[]).await.has("failed", "migrations", "m29991231_000001_later");
    assert_eq!(Program::run(&migrate).await.0, Some(1));
}

#[tokio::test]
async fn a_role_without_rights_is_reported() {
    let database = Database::migrated().await;
    let Some((_, place)) = database.url().split_once('@') else {
        // SQLite has no roles.
        return;
    };
    let (connection, role) =
        (database.connection().await, format!("limited_{}", place.rsplit('/').next().unwrap()));
    let make = format!("CREATE ROLE {role} LOGIN PASSWORD '{SECRET}'");
    connection.execute_unprepared(&make).await.unwrap();
    let url = format!("postgres://{role}:{SECRET}@{place}");
    let findings = examine(&url, &[]).await;
    findings.has("failed", "rights", "the role cannot change all of its tables");
    findings.has("failed", "rights", "the role cannot create tables");
    let read_only = format!("ALTER ROLE {role} SET default_transaction_read_only = on");
    connection.execute_unprepared(&read_only).await.unwrap();
    examine(&url, &[]).await.has("failed", "rights", "as a replica is");
    examine(&url, &["--database-connections", "1000"]).await.has(
        "warning",
        "connections",
        "1000 connections",
    );
    connection.execute_unprepared(&format!("DROP ROLE {role}")).await.unwrap();
}

#[tokio::test]
async fn keys_have_to_be_there_and_all_of_them() {
    let store = Store::served().await;
    let key = store.path("galvo.db.key");
    examine(&store.url(), &[]).await.has("ok", "keys", "1 key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    examine(&store.url(), &[]).await.has("warning", "keys", "is readable by other users");

    // The server has recorded its key, and encrypted nothing with it yet.
    let (ring, other) = (fs::read(&key).unwrap(), Keys::generate());
    store.write("galvo.db.key", other.reveal());
    examine(&store.url(), &[]).await.has("warning", "keys", "with 0 rows");
    store.write("galvo.db.key", &ring);
    let run = async |arguments: &[&str]| {
        Program::run(&[arguments, &["--database-url", &store.url()]].concat()).await.1.trim().to_owned()
    };
    run(&["account", "create", "team"]).await;
    run(&["user", "create", "ada", "--account", "team"]).await;
    let token = run(&["token", "create", "--user", "ada", "--account", "team"]).await;
    let server = Program::serve(&store.url(), "127.0.0.1:0", &[]).await;
    let report = ReportBuilder::new("Scheduler-1", 1).with("/errors", json!([error(1, 1, 1)])).build();
    let sent = server.client().post(server.url("/api/v1/reports")).bearer_auth(token).json(&report).send();
    assert_eq!(sent.await.unwrap().status(), 200);
    assert_eq!(server.terminate().await, Some(0));

    store.write("galvo.db.key", other.reveal());
    // The error, and its group.
    examine(&store.url(), &[]).await.has("failed", "keys", "with 2 rows");
    store.write("galvo.db.key", "no key");
    examine(&store.url(), &[]).await.has("failed", "keys", "is not valid");
    fs::remove_file(&key).unwrap();
    examine(&store.url(), &[]).await.has("failed", "keys", "does not exist");
    store.write("galvo.db.key", &ring);
    examine(&store.url(), &[]).await.has("ok", "keys", "all that the database needs");
    let mut without = doctor("postgres://ada:geheim@127.0.0.1:1/galvo", &[]);
    let findings = Findings::of(&without.env_remove("GALVO_SECRET_KEY").output().await.unwrap());
    findings.has("failed", "keys", "no key file is configured");
}

#[tokio::test]
async fn redis_has_to_pass_messages_on() {
    let store = Store::served().await;
    let with = async |url: &str| {
        let mut command = doctor(&store.url(), &[]);
        Findings::of(&command.env("GALVO_REDIS_URL", url).output().await.unwrap())
    };
    with("redis://:geheim@127.0.0.1:1/").await.has("failed", "redis", "127.0.0.1:1");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = port.to_string();
    let _redis = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &text, "--save", "", "--requirepass", SECRET])
        .current_dir(store.0.path())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    with(&format!("redis://:{SECRET}@127.0.0.1:{port}/")).await.has("ok", "redis", "delivers messages");
    with(&format!("redis://127.0.0.1:{port}/")).await.has("failed", "redis", "NOAUTH");
}

#[tokio::test]
async fn connections_need_file_descriptors() {
    let store = Store::served().await;
    let program = doctor(&store.url(), &[]);
    let program = program.as_std();
    let mut limited = Command::new("bash");
    limited
        .args(["-c", "ulimit -n 256; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GALVO_")) {
        limited.env_remove(name);
    }
    let findings = Findings::of(&limited.output().await.unwrap());
    findings.has("failed", "file descriptors", "the limit is 256, and the process may need 964");
    limited.args(["--max-connections", "100"]);
    let findings = Findings::of(&limited.output().await.unwrap());
    findings.has("ok", "file descriptors", "the limit is 256, and the process needs at most 164");
}

#[tokio::test]
async fn a_certificate_has_to_be_good_today() {
    let store = Store::served().await;
    let pair = KeyPair::generate().unwrap();
    let certificate = |from: i32, until: i32| {
        let mut params = CertificateParams::new(["galvo.example.com".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        params.self_signed(&pair).unwrap().pem()
    };
    let key = store.write("key.pem", pair.serialize_pem());
    let other = store.write("other.pem", KeyPair::generate().unwrap().serialize_pem());
    let with = async |certificate: String, key: &str, more: &[&str]| {
        let certificate = store.write("certificate.pem", certificate);
        let settings = ["--tls-certificate", &certificate, "--tls-key", key];
        examine(&store.url(), &[&settings[..], more].concat()).await
    };
    with(certificate(2020, 2900), &key, &[]).await.has("ok", "certificate", "until 2900-01-01");
    with(certificate(2020, 2021), &key, &[]).await.has("failed", "certificate", "and has expired");
    with(certificate(2800, 2900), &key, &[]).await.has("failed", "certificate", "and not valid yet");
    with(certificate(2020, 2900), &other, &[]).await.has(
        "failed",
        "certificate",
        "cannot be used with its key",
    );
    with("nothing".to_owned(), &key, &[]).await.has(
        "failed",
        "certificate",
        "does not contain the expected PEM data",
    );
    let url = ["--public-url", "https://other.example.invalid"];
    let findings = with(certificate(2020, 2900), &key, &url).await;
    findings.has("warning", "certificate", "it is not valid for other.example.invalid");
    findings.has("warning", "public url", "no response");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    with(certificate(2020, 2900), &key, &[]).await.has(
        "warning",
        "certificate",
        "is readable by other users",
    );
}

#[tokio::test]
async fn those_who_identify_somebody_have_to_answer() {
    let store = Store::served().await;
    let jwt = ["--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwks"];
    let with = async |keys: &str| examine(&store.url(), &[&jwt[..], &[keys]].concat()).await;
    with("http://127.0.0.1:1/keys").await.has("failed", "jwks", "cannot fetch the keys");
    let keys = store.write("keys.json", key_set(&[(SigningKey::Rsa, "1")]).to_string());
    with(&keys).await.has("ok", "jwks", "contains 1 usable keys");
    with(&store.write("keys.json", "{\"keys\": []}")).await.has("failed", "jwks", "contains no usable key");
    with(&store.write("keys.json", "{}")).await.has("failed", "jwks", "not a JSON Web Key Set");
    let oidc = [
        "--oidc-issuer",
        "http://127.0.0.1:1",
        "--oidc-client-id",
        "galvo",
        "--public-url",
        "http://127.0.0.1:1",
    ];
    let mut command = doctor(&store.url(), &oidc);
    let output = command.env("GALVO_OIDC_CLIENT_SECRET", SECRET).output().await.unwrap();
    let findings = Findings::of(&output);
    findings.has("failed", "openid", "the provider is unavailable");
    findings.has("warning", "public url", "no response");
}

#[tokio::test]
async fn tokens_do_not_travel_in_the_open() {
    let store = Store::served().await;
    examine(&store.url(), &[]).await.has("warning", "public url", "GALVO_PUBLIC_URL is not set");
    let everywhere = ["--listen", "0.0.0.0:8000"];
    examine(&store.url(), &everywhere).await.has("warning", "public url", "are not encrypted");
    let named = [&everywhere[..], &["--public-url", "http://galvo.example.invalid"]].concat();
    examine(&store.url(), &named).await.has("warning", "public url", "is not encrypted");
    // A proxy terminates TLS for the server, which must know the proxy to distinguish its clients.
    let proxied = ["--public-url", "https://127.0.0.1:1/galvo"];
    let findings = examine(&store.url(), &proxied).await;
    findings.has("warning", "public url", "https://127.0.0.1:1/galvo: ");
    findings.has("warning", "proxies", "a proxy serves https://127.0.0.1:1/galvo, but no proxy is trusted");
    let trusting = [&proxied[..], &["--trusted-proxies", "127.0.0.1"]].concat();
    let findings = examine(&store.url(), &trusting).await;
    assert!(findings.checks.iter().all(|finding| finding["check"] != "proxies"), "{findings:?}");
}
