//! Encryption keys: encrypted data stays readable while its keys exist, and only in its own row.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::{Duration, Instant},
};

use galvo::{
    encryption::{KeyId, Keys},
    key_ring::KeySource,
    store::ENCRYPTED_TABLES,
};
use harness::{Database, Member, Program, ReportBuilder, TestApp, error};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};
use tempfile::TempDir;

const ERRORS: &str =
    "{ viewer { account { clusters { nodes { name errors { nodes { key message traceback } } } } } } }";

/// A separate key file for a test.
struct KeyFile {
    path: PathBuf,
    _directory: TempDir,
}

impl KeyFile {
    fn new(keys: &Keys) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("galvo.key");
        let file = Self { path, _directory: directory };
        file.write(keys);
        file
    }

    fn write(&self, keys: &Keys) {
        fs::write(&self.path, keys.reveal()).unwrap();
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn source(&self) -> KeySource {
        KeySource::File(self.path.clone())
    }
}

async fn report_error(member: &Member, number: u128, sequence: i64) {
    let report = ReportBuilder::new("Scheduler-1", sequence)
        .with("/cluster/name", "gpu")
        .with("/errors", json!([error(number, 1, 1)]))
        .build();
    member.reported(&report).await;
}

/// The errors of the only cluster, the newest first, and the codes of the response's errors.
async fn errors(member: &Member) -> (Vec<Value>, Vec<Value>) {
    let answer = member.ask(ERRORS, json!({})).await;
    let cluster = &answer["data"]["viewer"]["account"]["clusters"]["nodes"][0];
    assert_eq!(cluster["name"], "gpu", "the rest of the answer stands: {answer}");
    let nodes = cluster["errors"]["nodes"].as_array().cloned().unwrap_or_default();
    let codes = answer["errors"].as_array().cloned().unwrap_or_default();
    (nodes, codes.iter().map(|error| error["extensions"]["code"].clone()).collect())
}

async fn key_ids(database: &Database) -> Vec<i64> {
    let connection = database.connection().await;
    let sql = "SELECT key_id FROM error_occurrences ORDER BY id";
    let statement = sea_orm::Statement::from_string(connection.get_database_backend(), sql);
    let rows = connection.query_all_raw(statement).await.unwrap();
    rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

#[tokio::test]
async fn what_an_older_key_encrypted_can_be_read() {
    let first = Keys::generate();
    let app = TestApp::start_on(Database::migrated().await, KeySource::Ring(first.clone()), |_| {}).await;
    let ada = app.account("ada").await;
    report_error(&ada, 1, 1).await;
    let secret = ada.secret().to_owned();

    let second = first.rotated();
    let app = TestApp::start_on(app.stop_keeping().await, KeySource::Ring(second.clone()), |_| {}).await;
    let ada = app.member("bob", "ada").await.with_token(secret);
    report_error(&ada, 2, 2).await;
    let (nodes, codes) = errors(&ada).await;
    let text = json!("ZeroDivisionError('division by zero')");
    assert_eq!(nodes.iter().map(|node| node["message"].clone()).collect::<Vec<_>>(), [text.clone(), text]);
    assert_eq!(codes, Vec::<Value>::new());
    assert_eq!(key_ids(&app.database).await, [first.primary(), second.primary()]);
    app.stop().await;
}

#[tokio::test]
async fn without_its_key_a_text_is_missing_and_the_rest_is_there() {
    let first = Keys::generate();
    let app = TestApp::start_on(Database::migrated().await, KeySource::Ring(first), |_| {}).await;
    let ada = app.account("ada").await;
    report_error(&ada, 1, 1).await;
    let secret = ada.secret().to_owned();
    let app = TestApp::start_on(app.stop_keeping().await, KeySource::Ring(Keys::generate()), |_| {}).await;
    let ada = app.member("bob", "ada").await.with_token(secret);
    report_error(&ada, 2, 2).await;
    let (nodes, codes) = errors(&ada).await;
    assert_eq!(codes, ["KEY_MISSING", "KEY_MISSING"], "its message and its traceback");
    assert_eq!(nodes[0]["message"], "ZeroDivisionError('division by zero')");
    assert_eq!(nodes[1], json!({ "key": "divide-1", "message": null, "traceback": null }));
    app.stop().await;
}

#[tokio::test]
async fn a_text_that_was_moved_to_another_row_is_refused() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    report_error(&ada, 1, 1).await;
    report_error(&ada, 2, 2).await;
    let connection = app.database.connection().await;
    let newer = "FROM error_occurrences o WHERE o.account_id = error_occurrences.account_id AND o.id > error_occurrences.id";
    let swap = format!(
        "UPDATE error_occurrences SET sealed = (SELECT o.sealed {newer}) WHERE EXISTS (SELECT 1 {newer})"
    );
    connection.execute_unprepared(&swap).await.unwrap();
    let (nodes, codes) = errors(&ada).await;
    assert_eq!((nodes.len(), codes), (2, vec![json!("DAMAGED"); 2]));
    assert_eq!(nodes[1]["message"], Value::Null, "the older one has the text of the newer one");
    app.stop().await;
}

#[tokio::test]
async fn a_server_follows_its_key_file() {
    let first = Keys::generate();
    let file = KeyFile::new(&first);
    let app = TestApp::start_on(Database::migrated().await, file.source(), |_| {}).await;
    let ada = app.account("ada").await;
    report_error(&ada, 1, 1).await;

    // Another server of the same store has the new key already.
    let second = first.rotated();
    let other = TestApp::start_beside(&app, KeySource::Ring(second.clone())).await;
    let there = other.here(&ada);
    report_error(&there, 2, 2).await;
    file.write(&second);
    let (nodes, codes) = errors(&ada).await;
    assert_eq!((nodes.len(), codes.len()), (2, 0), "the file is read again for the key that is missing");
    report_error(&ada, 3, 3).await;
    app.run_jobs().await;
    report_error(&ada, 4, 4).await;
    let ids = key_ids(&app.database).await;
    assert_eq!(ids[3], second.primary(), "a round of jobs takes the new key into use");
    other.stop().await;
    app.stop().await;
}

#[tokio::test]
async fn old_rows_are_encrypted_again_in_the_background() {
    let first = Keys::generate();
    let app = TestApp::start_on(Database::migrated().await, KeySource::Ring(first.clone()), |_| {}).await;
    let ada = app.account("ada").await;
    for number in 1..=7 {
        report_error(&ada, number, i64::try_from(number).unwrap()).await;
    }
    let secret = ada.secret().to_owned();
    // One row from before encryption, and one that is damaged.
    let connection = app.database.connection().await;
    let plain = r#"{"message":"in the open","traceback":""}"#;
    let blob = match connection.get_database_backend() {
        sea_orm::DatabaseBackend::Postgres => format!("convert_to('{plain}', 'UTF8')"),
        _ => format!("CAST('{plain}' AS BLOB)"),
    };
    let id = |number: u128| match connection.get_database_backend() {
        sea_orm::DatabaseBackend::Postgres => format!("'{}'", harness::uuid(number)),
        _ => format!("X'{number:032x}'"),
    };
    for statement in [
        format!("UPDATE error_occurrences SET key_id = 0, sealed = {blob} WHERE id = {}", id(3)),
        format!("UPDATE error_occurrences SET sealed = {blob} WHERE id = {}", id(5)),
    ] {
        connection.execute_unprepared(&statement).await.unwrap();
    }
    let (nodes, codes) = errors(&ada).await;
    let messages: Vec<&Value> = nodes.iter().map(|node| &node["message"]).collect();
    assert_eq!((messages[4], messages[2]), (&json!("in the open"), &Value::Null), "the newest comes first");
    assert_eq!(codes, ["DAMAGED", "DAMAGED"], "its message and its traceback");

    let second = first.rotated();
    let app = TestApp::start_on(app.stop_keeping().await, KeySource::Ring(second.clone()), |_| {}).await;
    app.run_jobs().await;
    let (one, two) = (first.primary(), second.primary());
    assert_eq!(key_ids(&app.database).await, [two, two, two, two, one, two, two]);
    let connection = app.database.connection().await;
    connection
        .execute_unprepared(&format!("DELETE FROM error_occurrences WHERE id = {}", id(5)))
        .await
        .unwrap();
    let ada = app.member("bob", "ada").await.with_token(secret);
    let (nodes, codes) = errors(&ada).await;
    assert_eq!((nodes.len(), codes.len()), (6, 0));
    assert_eq!(nodes[3]["message"], "in the open");
    assert_eq!(nodes[5]["traceback"], "  File \"x.py\", line 1, in divide\n");
    app.stop().await;
}

/// The number of rows by table and key, in the order of the tables.
async fn rows_by_key(database: &Database) -> Vec<(i64, i64)> {
    let connection = database.connection().await;
    let mut found = Vec::new();
    for table in ENCRYPTED_TABLES {
        let sql = format!("SELECT key_id, count(*) FROM {table} GROUP BY key_id ORDER BY key_id");
        let statement = sea_orm::Statement::from_string(connection.get_database_backend(), sql);
        for row in connection.query_all_raw(statement).await.unwrap() {
            found.push((row.try_get_by_index(0).unwrap(), row.try_get_by_index(1).unwrap()));
        }
    }
    found
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a statement for each table")]
async fn every_table_is_encrypted_again_however_large() {
    let first = Keys::generate();
    let app = TestApp::start_on(Database::migrated().await, KeySource::Ring(first.clone()), |_| {}).await;
    report_error(&app.account("ada").await, 1, 1).await;
    let connection = app.database.connection().await;
    let to = r#"{"webhooks":[],"emails":["ada@example.com"],"secret":"x"}"#;
    let (id, blob, channels) = match connection.get_database_backend() {
        sea_orm::DatabaseBackend::Postgres => {
            ("lpad(to_hex(n), 32, '0')::uuid", "'plain'::bytea", format!("'{to}'::bytea"))
        }
        _ => ("CAST(printf('%016d', n) AS BLOB)", "CAST('plain' AS BLOB)", format!("CAST('{to}' AS BLOB)")),
    };
    let numbers = |last| harness::numbers(connection.get_database_backend(), 1, last);
    for statement in [
        format!(
            "INSERT INTO log_lines (account_id, cluster_id, logged_at, id, arrived_at, source, level, logger, repeated, \
             key_id, sealed) SELECT account_id, clusters.id, n % 7, {id}, 0, 'worker', 'INFO', 'x', 1, 0, {blob} \
             FROM clusters, {}",
            numbers(1_250)
        ),
        format!(
            "INSERT INTO profiles (account_id, cluster_id, started_at, id, stopped_at, workers, samples, key_id, sealed) \
             SELECT account_id, clusters.id, n, {id}, 0, 1, 1, 0, {blob} FROM clusters, {}",
            numbers(3)
        ),
        format!(
            "INSERT INTO code_snippets (account_id, hash, last_used_at, key_id, sealed) \
             SELECT account_id, 'abc', 1795176000000, 0, {blob} FROM clusters"
        ),
        format!(
            "INSERT INTO cluster_notes (account_id, cluster_id, user_id, changed_at, key_id, sealed) \
             SELECT account_id, id, user_id, 0, 0, {blob} FROM clusters"
        ),
        format!(
            "INSERT INTO alert_rules (account_id, id, name, enabled, condition, scope, cool_down_seconds, tells_end, \
             created_at, changed_at, changed_by, key_id, sealed) SELECT account_id, {id}, 'x', false, '{{\"flags\":[]}}', '{{}}', 60, \
             true, 0, 0, user_id, 0, {channels} FROM clusters, {}",
            numbers(1)
        ),
        format!(
            "INSERT INTO alert_deliveries (account_id, id, rule_id, channel, event, target, state, created_at, due_key, \
             attempts, key_id, sealed) SELECT account_id, {id}, {id}, 'email', 'test', 'x', 'failed', 1795176000000, \
             9223372036854775807, 1, 0, {blob} FROM clusters, {}",
            numbers(1)
        ),
        format!(
            "INSERT INTO performance_reports (account_id, id, user_id, name, visibility, size_bytes, created_at) \
             SELECT account_id, {id}, user_id, 'x', 'public', 5, 1795176000000 FROM clusters, {}",
            numbers(1)
        ),
        format!(
            "INSERT INTO performance_report_pieces (account_id, report_id, position, key_id, sealed) \
             SELECT account_id, {id}, 0, 0, {blob} FROM clusters, {}",
            numbers(1)
        ),
    ] {
        connection
            .execute_unprepared(&statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    // These rows are old, so retention would delete them as well.
    for class in ["logs", "profiles"] {
        let keep = format!(
            "INSERT INTO data_policies (account_id, data_class, accepted, retention_days) \
             SELECT id, '{class}', true, 100000 FROM accounts"
        );
        connection.execute_unprepared(&keep).await.unwrap();
    }
    let done = app.run_jobs().await;
    assert_eq!(done.get("reencryption.log_lines"), Some(&1_250), "{done:?}");
    let one = first.primary();
    assert_eq!(
        rows_by_key(&app.database).await,
        [(one, 1), (one, 1), (one, 3), (one, 1_250), (one, 1), (one, 1), (one, 1), (one, 1), (one, 1)]
    );

    let second = first.rotated();
    let app = TestApp::start_on(app.stop_keeping().await, KeySource::Ring(second.clone()), |_| {}).await;
    // Two servers at once, like replicas.
    let other = TestApp::start_beside(&app, KeySource::Ring(second.clone())).await;
    let (done, there) = tokio::join!(app.run_jobs(), other.run_jobs());
    assert!(!done.contains_key("reencryption.unreadable") && !there.contains_key("reencryption.unreadable"));
    let two = second.primary();
    assert_eq!(
        rows_by_key(&app.database).await,
        [(two, 1), (two, 1), (two, 3), (two, 1_250), (two, 1), (two, 1), (two, 1), (two, 1), (two, 1)]
    );
    other.stop().await;
    // A note is still readable.
    let notes = "{ viewer { account { clusters { nodes { notes { text } } } } } }";
    let ada = app.member("bob", "ada").await;
    let found = ada.query(notes, json!({})).await["viewer"]["account"]["clusters"]["nodes"].take();
    assert_eq!(found, json!([{ "notes": { "text": "plain" } }]));
    let rules = "{ viewer { account { alertRules { nodes { emails } } } } }";
    let found = ada.query(rules, json!({})).await["viewer"]["account"]["alertRules"]["nodes"].take();
    assert_eq!(found, json!([{ "emails": ["ada@example.com"] }]));
    let pieces = "{ viewer { account { performanceReports { nodes { path } } } } }";
    let found = ada.query(pieces, json!({})).await["viewer"]["account"]["performanceReports"]["nodes"].take();
    let (page, query) = found[0]["path"].as_str().unwrap().split_once('?').unwrap();
    let content = ada.request(reqwest::Method::GET, &format!("{page}/content?{query}")).send().await.unwrap();
    assert_eq!(content.text().await.unwrap(), "plain");
    // A title is still readable; without its key only the title is missing.
    let groups = "{ viewer { account { errorGroups { nodes { type title } } } } }";
    let answer = ada.ask(groups, json!({})).await;
    let group = |title: Value| json!([{ "type": "ZeroDivisionError", "title": title }]);
    assert_eq!(answer["data"]["viewer"]["account"]["errorGroups"]["nodes"], group(json!("division by zero")));
    let connection = app.database.connection().await;
    connection.execute_unprepared("UPDATE error_groups SET key_id = 12345").await.unwrap();
    let answer = ada.ask(groups, json!({})).await;
    assert_eq!(answer["data"]["viewer"]["account"]["errorGroups"]["nodes"], group(Value::Null));
    assert_eq!(answer["errors"][0]["extensions"]["code"], "KEY_MISSING");
    app.stop().await;
}

#[tokio::test]
async fn a_log_line_is_read_again_after_its_key_was_replaced() {
    let first = Keys::generate();
    let app = TestApp::start_on(Database::migrated().await, KeySource::Ring(first.clone()), |_| {}).await;
    let ada = app.account("ada").await;
    let line = json!({
        "id": harness::uuid(1), "at": 1_795_172_401.5, "source": "scheduler", "level": "INFO", "logger": "distributed",
        "message": "Register worker", "repeated": 1,
    });
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/logs", json!([line])).build()).await;
    let secret = ada.secret().to_owned();
    let second = first.rotated();
    let app = TestApp::start_on(app.stop_keeping().await, KeySource::Ring(second.clone()), |_| {}).await;
    app.run_jobs().await;
    assert_eq!(rows_by_key(&app.database).await, [(second.primary(), 1)]);
    let ada = app.member("bob", "ada").await.with_token(secret);
    let query = "{ viewer { account { clusters { nodes { logs { nodes { message } } } } } } }";
    let answer = ada.query(query, json!({})).await;
    let logs = &answer["viewer"]["account"]["clusters"]["nodes"][0]["logs"]["nodes"];
    assert_eq!(*logs, json!([{ "message": "Register worker" }]));
    app.stop().await;
}

#[tokio::test]
async fn the_key_file_beside_a_store_is_made_once() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", directory.path().join("galvo.db").display());
    let path = directory.path().join("galvo.db.key");
    let mut server = Program::serve(&url, "127.0.0.1:0", &["--bootstrap"]).await;
    server.output.next_line().await.unwrap();
    server.output.next_line().await.unwrap();
    let line = server.output.next_line().await.unwrap().unwrap();
    let token = line.split_whitespace().nth(1).unwrap().to_owned();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let made = fs::read_to_string(&path).unwrap();
    assert_eq!(made.parse::<Keys>().unwrap().ids().count(), 1);
    server.terminate().await;

    // Nothing is encrypted yet, so nothing is lost with the key.
    fs::remove_file(&path).unwrap();
    let server = Program::serve(&url, "127.0.0.1:0", &[]).await;
    let made = fs::read_to_string(&path).unwrap();
    let report = ReportBuilder::new("Scheduler-1", 1).with("/errors", json!([error(1, 1, 1)])).build();
    let sent = server.client().post(server.url("/api/v1/reports")).bearer_auth(&token).json(&report);
    assert_eq!(sent.send().await.unwrap().status(), 200);
    server.terminate().await;

    let server = Program::serve(&url, "127.0.0.1:0", &[]).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), made, "it is never overwritten");
    server.terminate().await;

    fs::remove_file(&path).unwrap();
    let (status, _, errors) =
        Program::run(&["serve", "--database-url", &url, "--listen", "127.0.0.1:0"]).await;
    assert_eq!(status, Some(1), "{errors}");
    assert!(errors.contains("is missing") && errors.contains("galvo.db.key"), "{errors}");
    assert!(!path.exists(), "no other key takes its place");
    let (status, output, _) = Program::run(&["key", "list", "--database-url", &url, "--log", "warn"]).await;
    assert_eq!(status, Some(0));
    let id = KeyId(made.parse::<Keys>().unwrap().primary());
    assert!(output.contains(&format!("{id}  missing")), "{output}");
}

#[tokio::test]
async fn keys_are_rotated_and_retired_by_commands() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", directory.path().join("galvo.db").display());
    let file = directory.path().join("given.key");
    let path = file.display().to_string();
    let run = async |arguments: &[&str]| {
        let common = ["--database-url", &url, "--log", "warn", "--secret-key-file", &path];
        Program::run(&[arguments, &common].concat()).await
    };
    let (status, _, errors) = run(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(status, Some(2), "a file that is named has to be there: {errors}");
    let (status, key, _) = run(&["key", "generate"]).await;
    assert_eq!(status, Some(0));
    fs::write(&file, "not a key, but geheim").unwrap();
    let (status, _, errors) = run(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("given.key") && !errors.contains("geheim"), "{errors}");
    fs::write(&file, &key).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();

    let first = key.parse::<Keys>().unwrap().primary();
    let (status, output, advice) = run(&["key", "rotate"]).await;
    assert_eq!(status, Some(0), "{advice}");
    let after: Keys = fs::read_to_string(&file).unwrap().parse().unwrap();
    assert_eq!(output.trim(), KeyId(after.primary()).to_string());
    assert_eq!(after.ids().nth(1), Some(first));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640, "its mode stays");
    assert!(advice.contains("galvo key retire"), "{advice}");
    let secret = after.reveal();
    assert!(!secret.lines().any(|key| advice.contains(key) || output.contains(key)), "keys stay in the file");

    let (_, list, _) = run(&["key", "list"]).await;
    let table: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        table[0],
        [
            "key",
            "state",
            "error_occurrences",
            "code_snippets",
            "profiles",
            "log_lines",
            "error_groups",
            "cluster_notes",
            "alert_rules",
            "alert_deliveries",
            "performance_report_pieces"
        ]
    );
    let (new, old) = (KeyId(after.primary()).to_string(), KeyId(first).to_string());
    assert_eq!(table[1], [&new, "encrypts", "0", "0", "0", "0", "0", "0", "0", "0", "0"]);
    assert_eq!(table[2], [&old, "decrypts", "0", "0", "0", "0", "0", "0", "0", "0", "0"]);
    assert_eq!(table[3], ["000000000000", "not", "encrypted", "0", "0", "0", "0", "0", "0", "0", "0", "0"]);

    for (arguments, status, message) in [
        (["key", "retire", &new], 1, "is the encrypting key: run `galvo key rotate` first"),
        (["key", "retire", "00000000beef"], 1, "there is no key 00000000beef"),
        (["key", "retire", "beef"], 2, "12 hexadecimal digits"),
    ] {
        let (answered, _, errors) = run(&arguments).await;
        assert_eq!(answered, Some(status), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
    // Another server may still encrypt with the old key: until one has used the new one, and for a while
    // after.
    let retire = async |message: &str| {
        let (status, _, errors) = run(&["key", "retire", &old]).await;
        assert_eq!(status, Some(1), "{errors}");
        assert!(errors.contains(message) && errors.contains("try again"), "{errors}");
        assert_eq!(fs::read_to_string(&file).unwrap(), after.reveal(), "it stays in the ring");
    };
    retire(&format!("no server encrypts with the key {new} yet")).await;
    let server = Program::serve(&url, "127.0.0.1:0", &["--secret-key-file", &path]).await;
    server.terminate().await;
    retire(&format!("other servers may not have loaded {new} yet")).await;
    let database = sea_orm::Database::connect(&url).await.unwrap();
    let pass = async |minutes: i64| {
        let earlier =
            format!("UPDATE encryption_keys SET first_used_at = first_used_at - {}", minutes * 60_000);
        database.execute_unprepared(&earlier).await.unwrap();
    };
    pass(4).await;
    retire("may encrypt with an older key").await;
    pass(1).await;
    assert_eq!(run(&["key", "retire", &old]).await.0, Some(0));
    let left: Keys = fs::read_to_string(&file).unwrap().parse().unwrap();
    assert_eq!(left.ids().collect::<Vec<_>>(), [after.primary()]);
}

#[tokio::test]
async fn a_ring_in_the_environment_is_rotated_on_standard_output() {
    let before = Keys::generate();
    let database = Database::migrated().await;
    let mut command =
        Program::command(&["key", "rotate", "--database-url", database.url(), "--log", "trace"]);
    let output = command.env("GALVO_SECRET_KEY", before.reveal()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), 1, "the ring stands alone on one line");
    let after: Keys = printed.parse().unwrap();
    assert_eq!(after.ids().nth(1), Some(before.primary()));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(!after.reveal().lines().any(|key| log.contains(key)), "keys are not logged");
}

#[tokio::test]
async fn a_key_with_rows_is_not_retired_and_a_lost_one_is_named() {
    let first = Keys::generate();
    let app = TestApp::start_on(Database::migrated().await, KeySource::Ring(first.clone()), |_| {}).await;
    report_error(&app.account("ada").await, 1, 1).await;
    let database = app.stop_keeping().await;
    let id = KeyId(first.primary()).to_string();
    let command = |arguments: &[&str], keys: &Keys| {
        let mut command = Program::command(&[arguments, &["--database-url", database.url()]].concat());
        command.env("GALVO_SECRET_KEY", keys.reveal());
        command
    };
    let output = command(&["key", "retire", &id], &first.rotated()).output().await.unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains(&format!("2 rows are encrypted with the key {id}")), "{errors}");

    let mut serve = command(&["serve", "--listen", "127.0.0.1:0"], &Keys::generate());
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let server = Program::spawn(serve.stderr(fs::File::create(&log).unwrap())).await;
    let healthy = server.client().get(server.url("/readyz")).send().await.unwrap();
    assert_eq!(healthy.status(), 200, "it serves all the same");
    server.terminate().await;
    let log = fs::read_to_string(&log).unwrap();
    let line = log
        .lines()
        .find(|line| line.contains("an encryption key is missing"))
        .unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("ERROR") && line.contains(&id), "{line}");
}

#[tokio::test]
async fn a_key_that_rows_need_is_named_when_the_store_does_not_know_it() {
    let first = Keys::generate();
    let app = TestApp::start_on(Database::migrated().await, KeySource::Ring(first.clone()), |_| {}).await;
    report_error(&app.account("ada").await, 1, 1).await;
    let database = app.stop_keeping().await;
    // The state after a key was forgotten although a row was encrypted with it.
    database.connection().await.execute_unprepared("DELETE FROM encryption_keys").await.unwrap();
    let (id, other) = (KeyId(first.primary()).to_string(), Keys::generate());
    let command = |arguments: &[&str]| {
        let common = ["--database-url", database.url(), "--log", "warn"];
        let mut command = Program::command(&[arguments, &common].concat());
        command.env("GALVO_SECRET_KEY", other.reveal());
        command
    };
    let output = command(&["doctor"]).output().await.unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let line = output.lines().find(|line| line.contains(" keys ")).unwrap_or_else(|| panic!("{output}"));
    assert!(line.starts_with("failed ") && line.contains(&format!("{id} with 2 rows")), "{line}");

    // The first start detects it while checking all rows, and the second one immediately.
    let directory = tempfile::tempdir().unwrap();
    for start in ["first", "second"] {
        let log = directory.path().join(start);
        let mut serve = command(&["serve", "--listen", "127.0.0.1:0"]);
        let server = Program::spawn(serve.stderr(fs::File::create(&log).unwrap())).await;
        let named = |log: &str| {
            log.lines().any(|line| line.contains("an encryption key is missing") && line.contains(&id))
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !named(&fs::read_to_string(&log).unwrap()) {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(&log).unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server.terminate().await;
    }
}

#[tokio::test]
async fn wrong_and_missing_keys_are_settings() {
    let run = async |settings: &[(&str, &str)], arguments: &[&str]| {
        let output = Program::command(arguments).envs(settings.iter().copied()).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let postgres = ["serve", "--database-url", "postgres://127.0.0.1:1/galvo"];
    let (status, errors) = run(&[], &postgres).await;
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("GALVO_SECRET_KEY or --secret-key-file (GALVO_SECRET_KEY_FILE)"), "{errors}");
    let wrong = [("GALVO_SECRET_KEY", "geheim"), ("GALVO_LISTEN", "nowhere")];
    let (status, errors) = run(&wrong, &["serve"]).await;
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("GALVO_SECRET_KEY: key 1 in it") && errors.contains("GALVO_LISTEN"), "{errors}");
    assert!(!errors.contains("geheim"), "{errors}");
    let key = Keys::generate().reveal();
    let both = [("GALVO_SECRET_KEY", key.as_str()), ("GALVO_SECRET_KEY_FILE", "x")];
    let (status, errors) = run(&both, &["serve"]).await;
    assert_eq!(status, Some(2), "{errors}");
    assert!(errors.contains("cannot be set together"), "{errors}");
}
