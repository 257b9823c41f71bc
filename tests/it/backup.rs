//! Copies of a store, made while reports arrive, and restored.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use harness::{Database, Program, ReportBuilder, error, task_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{process::Command, task::JoinSet};

const SCHEDULERS: u128 = 4;

/// A directory with a store in it.
struct Store(TempDir);

impl Store {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn url(&self) -> String {
        format!("sqlite://{}?mode=rwc", self.path("galvo.db").display())
    }

    /// The names of the files in it.
    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Creates an account with a token.
async fn set_up(database_url: &str) -> String {
    let run = async |arguments: &[&str]| {
        let (status, output, errors) =
            Program::run(&[arguments, &["--database-url", database_url]].concat()).await;
        assert_eq!(status, Some(0), "{errors}");
        output.trim().to_owned()
    };
    run(&["migrate"]).await;
    run(&["account", "create", "team"]).await;
    run(&["user", "create", "ada", "--account", "team"]).await;
    run(&["token", "create", "--user", "ada", "--account", "team"]).await
}

/// Schedulers that report until they are dropped, each with an error whose text is encrypted.
struct Reporters {
    acknowledged: Arc<Mutex<BTreeMap<u128, i64>>>,
    _tasks: JoinSet<()>,
}

impl Reporters {
    fn start(server: &Program, token: &str) -> Self {
        let acknowledged: Arc<Mutex<BTreeMap<u128, i64>>> = Arc::default();
        let mut tasks = JoinSet::new();
        for scheduler in 0..SCHEDULERS {
            let (client, url, token) = (server.client(), server.url("/api/v1/reports"), token.to_owned());
            let acknowledged = Arc::clone(&acknowledged);
            tasks.spawn(async move {
                for sequence in 1.. {
                    let number = 100_000 * (scheduler + 1) + u128::try_from(sequence).unwrap();
                    let report = ReportBuilder::new(&format!("Scheduler-{scheduler}"), sequence)
                        .with("/cluster/totals/tasks", sequence)
                        .with("/task_groups", json!([task_group(number, "load", 1)]))
                        .with("/errors", json!([error(number, number, 1)]))
                        .build();
                    let answer = client.post(&url).bearer_auth(&token).json(&report).send().await;
                    let Ok(answer) = answer else { return };
                    if answer.status() == 200 {
                        acknowledged.lock().unwrap().insert(scheduler, sequence);
                    }
                }
            });
        }
        Self { acknowledged, _tasks: tasks }
    }

    /// The last acknowledged sequence number of each.
    fn acknowledged(&self) -> BTreeMap<u128, i64> {
        self.acknowledged.lock().unwrap().clone()
    }

    /// Waits until each has this many more acknowledged reports.
    async fn wait_for(&self, more: i64) {
        let before = self.acknowledged();
        for _ in 0..3_000 {
            let now = self.acknowledged();
            let gone_on = |scheduler| {
                let last = |map: &BTreeMap<u128, i64>| map.get(&scheduler).copied().unwrap_or_default();
                last(&now) >= last(&before) + more
            };
            if (0..SCHEDULERS).all(gone_on) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("they do not go on: {before:?}, {:?}", self.acknowledged());
    }
}

/// Checks that a server has all acknowledged reports, each complete, and can decrypt their texts.
async fn check(server: &Program, token: &str, acknowledged: &BTreeMap<u128, i64>) {
    let query =
        "{ viewer { account { clusters { nodes { schedulerId totals { tasks } taskGroups { totalCount }
        errors(first: 1) { totalCount nodes { message } } } } } } }";
    let request =
        server.client().post(server.url("/graphql")).bearer_auth(token).json(&json!({ "query": query }));
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    let clusters = answer["data"]["viewer"]["account"]["clusters"]["nodes"].as_array();
    let clusters = clusters.unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(clusters.len(), acknowledged.len(), "{answer}");
    for cluster in clusters {
        let scheduler = cluster["schedulerId"].as_str().unwrap().strip_prefix("Scheduler-").unwrap();
        let stored = cluster["totals"]["tasks"].as_i64().unwrap();
        let last = acknowledged[&scheduler.parse().unwrap()];
        assert!(stored >= last, "{scheduler}: {last} were acknowledged, {stored} are there");
        assert_eq!(cluster["taskGroups"]["totalCount"], stored, "{scheduler}: a report is there in part");
        assert_eq!(cluster["errors"]["totalCount"], stored, "{scheduler}: a report is there in part");
        assert_eq!(cluster["errors"]["nodes"][0]["message"], "ZeroDivisionError('division by zero')");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_made_while_reports_come_in_has_all_that_were_acknowledged_before() {
    let (store, elsewhere) = (Store::new(), Store::new());
    let token = set_up(&store.url()).await;
    let server = Program::serve(&store.url(), "127.0.0.1:0", &[]).await;
    let reporters = Reporters::start(&server, &token);
    reporters.wait_for(5).await;

    let copy = elsewhere.path("copy.db");
    let acknowledged = reporters.acknowledged();
    let arguments = ["backup", copy.to_str().unwrap(), "--database-url", &store.url()];
    let (status, output, errors) = Program::run(&arguments).await;
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{output}");
    reporters.wait_for(3).await;
    let bytes = fs::metadata(&copy).unwrap().len();
    assert!(output.starts_with(&format!("{}: {bytes} bytes, checked\n", copy.display())), "{output}");
    let key = store.path("galvo.db.key");
    assert!(
        output.contains(&format!("the copy does not contain the keys: back up {}", key.display())),
        "{output}"
    );
    assert_eq!(elsewhere.files(), ["copy.db"], "nothing else is left, and no key");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);

    // An existing file is not overwritten.
    let before = fs::read(&copy).unwrap();
    let (status, _, errors) = Program::run(&arguments).await;
    assert_eq!(status, Some(1));
    assert!(errors.contains("already exists and is not overwritten"), "{errors}");
    assert!(fs::read(&copy).unwrap() == before);
    assert_eq!(elsewhere.files(), ["copy.db"]);

    // The machine is lost, except for the copy and the key.
    server.kill().await;
    drop(reporters);
    let restored = Store::new();
    fs::copy(&copy, restored.path("galvo.db")).unwrap();
    fs::copy(&key, restored.path("galvo.db.key")).unwrap();
    drop(store);
    let server = Program::serve(&restored.url(), "127.0.0.1:0", &[]).await;
    check(&server, &token, &acknowledged).await;
    assert_eq!(server.terminate().await, Some(0));
}

#[tokio::test]
async fn what_cannot_be_copied_leaves_nothing_behind() {
    let (store, elsewhere) = (Store::new(), Store::new());
    let copy = elsewhere.path("copy.db");
    let backup = async |url: &str, file: &Path| {
        let arguments = ["backup", file.to_str().unwrap(), "--database-url", url, "--log", "off"];
        let (status, output, errors) = Program::run(&arguments).await;
        assert_eq!(output, "");
        (status, errors)
    };
    let (status, errors) = backup(&store.url(), &copy).await;
    assert!(status == Some(1) && errors.contains("cannot copy the SQLite file"), "{errors}");
    assert_eq!(store.files(), Vec::<String>::new(), "no store is made to be copied");

    let postgres = "postgres://ada:geheim@127.0.0.1:1/galvo";
    let (status, errors) = backup(postgres, &copy).await;
    assert!(status == Some(2) && errors.contains("pg_dump --format=custom"), "{errors}");
    assert!(!errors.contains("geheim"), "{errors}");

    // A database that is not a store, and a store with a damaged page.
    let other = sea_orm::Database::connect(store.url()).await.unwrap();
    sea_orm::ConnectionTrait::execute_unprepared(&other, "CREATE TABLE a (b INTEGER)").await.unwrap();
    other.close().await.unwrap();
    let (status, errors) = backup(&store.url(), &copy).await;
    assert!(status == Some(1), "{errors}");
    fs::remove_file(store.path("galvo.db")).unwrap();
    let whole = Store::new();
    set_up(&whole.url()).await;
    assert_eq!(
        Program::run(&["backup", copy.to_str().unwrap(), "--database-url", &whole.url()]).await.0,
        Some(0)
    );
    let mut bytes = fs::read(&copy).unwrap();
    fs::remove_file(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0x5a);
    fs::write(store.path("galvo.db"), bytes).unwrap();
    let (status, errors) = backup(&store.url(), &copy).await;
    assert!(status == Some(1), "{errors}");

    let (status, errors) = backup(&store.url(), &elsewhere.path("nowhere/copy.db")).await;
    assert!(status == Some(1) && errors.contains("cannot write"), "{errors}");
    assert_eq!(elsewhere.files(), Vec::<String>::new());
}

/// The directory of PostgreSQL's own programs, if they are installed.
fn postgres_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut found: Vec<PathBuf> = versions.map(|version| version.unwrap().path().join("bin")).collect();
    found.extend(std::env::var("PATH").unwrap_or_default().split(':').map(PathBuf::from));
    found.into_iter().find(|path| path.join("pg_dump").exists() && path.join("pg_restore").exists())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_of_postgresql_is_made_and_restored_as_it_is_documented() {
    if std::env::var("GALVO_TEST_DATABASE_URL").is_err() {
        // There is no server to copy here. The suite runs on one as well.
        return;
    }
    let (database, restored) = (Database::migrated().await, Database::empty().await);
    let token = set_up(database.url()).await;
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let reporters = Reporters::start(&server, &token);
    reporters.wait_for(3).await;
    let acknowledged = reporters.acknowledged();

    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/operating.md");
    let text = fs::read_to_string(documents).unwrap();
    let commands: Vec<&str> =
        text.lines().filter(|line| line.starts_with("pg_dump ") || line.starts_with("pg_restore ")).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    let directory = tempfile::tempdir().unwrap();
    let programs = postgres_programs().expect("PostgreSQL's programs are where its server is");
    for command in commands {
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .args(["-euc", command])
            .current_dir(directory.path())
            .env("PATH", path)
            .env("GALVO_DATABASE_URL", database.url())
            .env("RESTORED_DATABASE_URL", restored.url())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        reporters.wait_for(2).await;
    }
    server.kill().await;
    let server = Program::serve(restored.url(), "127.0.0.1:0", &[]).await;
    check(&server, &token, &acknowledged).await;
    assert_eq!(server.terminate().await, Some(0));
}
