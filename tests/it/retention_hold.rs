//! The checks of retention before it deletes: a wrong clock, and far more rows than usual.

use std::collections::BTreeMap;

use galvo::{encryption::Keys, key_ring::KeySource};
use harness::{Database, Program, ReportBuilder, TestApp, log_line, uuid};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement};
use serde_json::{Value, json};

use crate::plausible::honest;

/// 2026-11-20T12:00:00Z, the time of the tests' clocks, in milliseconds.
const NOW: i64 = 1_795_176_000_000;

/// The last second of the year 9999.
const END_OF_TIME: i64 = 253_402_300_799;

const DAY: i64 = 86_400_000;

/// Inserts rows with an age in days, of clusters that reported at that time.
async fn aged(app: &TestApp, days: &[i64]) -> DatabaseConnection {
    let database = app.database.connection().await;
    let id = |number: usize| match database.get_database_backend() {
        DatabaseBackend::Postgres => format!("'{}'", uuid(number as u128)),
        _ => format!("X'{number:032x}'"),
    };
    for (number, days) in days.iter().enumerate() {
        let at = NOW - days * DAY;
        let sql = format!(
            "INSERT INTO events (account_id, cluster_id, occurred_at, id, arrived_at, topic, data) \
             SELECT account_id, id, {at}, {}, {at}, 'all', '{{}}' FROM clusters",
            id(number)
        );
        database.execute_unprepared(&sql).await.unwrap();
    }
    database
}

async fn count(database: &DatabaseConnection, table: &str) -> i64 {
    number(database, &format!("SELECT COUNT(*) FROM {table}")).await
}

/// The number that a query returns.
async fn number(database: &DatabaseConnection, sql: &str) -> i64 {
    let statement = Statement::from_string(database.get_database_backend(), sql);
    database.query_one_raw(statement).await.unwrap().unwrap().try_get_by_index(0).unwrap()
}

/// An expression of an ID, different for each `n`.
fn id_of_n(database: &DatabaseConnection) -> &'static str {
    match database.get_database_backend() {
        DatabaseBackend::Postgres => "lpad(to_hex(n), 32, '0')::uuid",
        _ => "CAST(printf('%016d', n) AS BLOB)",
    }
}

/// Updates PostgreSQL's statistics of a table that became large at once, as autovacuum does within a minute.
/// Without them the planner may choose an index that does not distinguish the rows.
async fn analyze(database: &DatabaseConnection, table: &str) {
    if database.get_database_backend() == DatabaseBackend::Postgres {
        database.execute_unprepared(&format!("ANALYZE {table}")).await.unwrap();
    }
}

/// The doctor's finding about retention, if any.
async fn found_of_retention(app: &TestApp) -> Option<String> {
    let url = app.database.url();
    let mut doctor = Program::command(&["doctor", "--json", "--database-url", url, "--log", "off"]);
    if !url.starts_with("sqlite:") {
        doctor.env("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
    }
    let output = doctor.output().await.unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap().clone();
    let found = checks.into_iter().find(|check| check["check"] == "retention")?;
    assert_eq!(found["verdict"], "warning");
    assert!(found["advice"].as_str().unwrap().contains("galvo retention confirm"), "{found}");
    Some(found["message"].as_str().unwrap().to_owned())
}

async fn held_by_metric(app: &TestApp) -> bool {
    let response = app.anonymous(reqwest::Method::GET, "/metrics").send().await.unwrap();
    let text = response.text().await.unwrap();
    let line = text.lines().find(|line| line.starts_with("galvo_job_retention_held ")).expect("it is there");
    line.ends_with(" 1")
}

async fn confirm(app: &TestApp) -> String {
    let arguments = ["retention", "confirm", "--database-url", app.database.url()];
    let (status, output, errors) = Program::run(&arguments).await;
    assert_eq!(status, Some(0), "{errors}");
    output
}

#[tokio::test]
async fn a_clock_400_days_ahead_removes_nothing() {
    let keys = Keys::generate();
    let app = TestApp::start_on(Database::migrated().await, KeySource::Ring(keys.clone()), |_| {}).await;
    let ada = app.account("ada").await;
    ada.reported(&honest("Scheduler-ada", 1).build()).await;
    let database = aged(&app, &[1, 5, 29]).await;
    app.run_jobs().await;
    let tables = ["events", "log_lines", "error_occurrences", "task_groups", "computations", "spans"];
    let counts = async || {
        let mut counts = Vec::new();
        for table in tables {
            counts.push(count(&database, table).await);
        }
        counts
    };
    let before = counts().await;
    assert_eq!(before, [4, 1, 1, 1, 1, 1]);
    assert_eq!((found_of_retention(&app).await, held_by_metric(&app).await), (None, false));

    // Twenty seconds with a wrong clock, and a report that arrives meanwhile and confirms the time.
    app.set_clock_wrong("2027-12-25T12:00:00Z");
    app.run_jobs().await;
    ada.reported(&honest("Scheduler-ada", 2).build()).await;
    app.set_clock("2027-12-25T12:00:20Z");
    app.run_jobs().await;
    assert_eq!(counts().await, before);
    assert!(held_by_metric(&app).await);
    assert_eq!(
        found_of_retention(&app).await.unwrap(),
        "deletion of old data is paused: the clock was at 2027-12-25T12:00:00Z, far ahead of the newest \
         reports, 2026-11-20T12:00:20Z"
    );

    // A server started with a wrong clock cannot detect it either.
    let database_of = app.stop_keeping().await;
    let app = TestApp::start_on(database_of, KeySource::Ring(keys), |_| {}).await;
    app.set_clock_wrong("2027-12-25T12:01:00Z");
    app.run_jobs().await;
    assert_eq!(counts().await, before);

    // With the right clock it continues by itself.
    app.set_clock_wrong("2026-11-22T12:00:01Z");
    app.run_jobs().await;
    assert_eq!(counts().await, [3, 1, 1, 1, 1, 1]);
    assert_eq!((found_of_retention(&app).await, held_by_metric(&app).await), (None, false));
    assert_eq!(confirm(&app).await, "nothing to confirm: deletion is not paused\n");

    // If the clock was right and nobody reported for a year, an operator must confirm it.
    app.set_clock_wrong("2027-12-25T12:00:00Z");
    app.run_jobs().await;
    assert_eq!(counts().await, [3, 1, 1, 1, 1, 1]);
    assert_eq!(confirm(&app).await, "confirmed: data past its retention is deleted within the hour\n");
    app.run_jobs().await;
    // Tasks expire by their cluster's last report, which has the wrong clock's time.
    assert_eq!(counts().await, [0, 0, 0, 1, 1, 1]);
    assert_eq!((found_of_retention(&app).await, held_by_metric(&app).await), (None, false));
    app.stop().await;
}

#[tokio::test]
async fn time_that_passes_without_reports_is_believed() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&ReportBuilder::new("Scheduler-ada", 1).build()).await;
    let database = aged(&app, &[1, 5]).await;
    app.run_jobs().await;
    assert_eq!(count(&database, "events").await, 2);
    app.set_clock("2026-12-17T12:00:01Z");
    app.run_jobs().await;
    assert_eq!(count(&database, "events").await, 1, "the one of the 15th of November is 32 days old");
    app.stop().await;
}

#[tokio::test]
async fn a_round_that_would_remove_far_more_than_usual_needs_confirmation() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    for member in [&ada, &bob] {
        member.reported(&ReportBuilder::new(&format!("Scheduler-{}", member.slug()), 1).build()).await;
    }
    // One row of each account is due.
    let database = aged(&app, &[1, 31]).await;
    let id = id_of_n(&database);
    let insert = format!(
        // Without sealed text, which would be encrypted again with the current key.
        "INSERT INTO error_occurrences (account_id, cluster_id, occurred_at, id, arrived_at, key, origin, retries, key_id) \
         SELECT account_id, c.id, {}, {id}, 0, 'x', 'dask', 0, 0 FROM clusters c, {} \
         WHERE c.account_id = (SELECT id FROM accounts WHERE slug = 'ada')",
        NOW - 400 * DAY,
        harness::numbers(database.get_database_backend(), 1, 50_001)
    );
    database.execute_unprepared(&insert).await.unwrap();
    analyze(&database, "error_occurrences").await;
    let done = app.run_jobs().await;
    assert_eq!(done.get("retention.events"), Some(&1), "that of the other account: {done:?}");
    assert_eq!(done.get("retention.error_occurrences"), None);
    assert_eq!(count(&database, "events").await, 3);
    assert_eq!(count(&database, "error_occurrences").await, 50_001);
    assert!(held_by_metric(&app).await);
    assert_eq!(
        found_of_retention(&app).await.unwrap(),
        "deletion of old data is paused for some accounts: at 2026-11-20T12:00:00Z, 50002 of their rows were due, \
         far more than the usual 1 of one; the log names the accounts"
    );
    // Another round changes nothing.
    assert_eq!(app.run_jobs().await, BTreeMap::new());
    assert!(held_by_metric(&app).await);
    assert_eq!(confirm(&app).await, "confirmed: data past its retention is deleted within the hour\n");
    app.run_jobs().await;
    assert_eq!(count(&database, "error_occurrences").await, 0);
    assert_eq!(count(&database, "events").await, 2);
    assert!(!held_by_metric(&app).await);
    assert_eq!(confirm(&app).await, "nothing to confirm: deletion is not paused\n");
    app.stop().await;
}

#[tokio::test]
async fn old_rows_that_arrive_stop_no_deletion() {
    let app = TestApp::start().await;
    let (ada, eve) = (app.account("ada").await, app.account("eve").await);
    ada.reported(&ReportBuilder::new("Scheduler-ada", 1).build()).await;
    let database = aged(&app, &[1, 31]).await;
    // More than any round may remove, all of them of 1970. The database copies the first one.
    let mut line = log_line(1, "x");
    line["at"] = json!(1.0);
    eve.reported(&ReportBuilder::new("Scheduler-eve", 1).with("/logs", json!([line])).build()).await;
    let id = match database.get_database_backend() {
        DatabaseBackend::Postgres => "gen_random_uuid()",
        _ => "randomblob(16)",
    };
    let others = "source, worker_id, worker, level, logger, repeated, key_id, sealed, arrived_at";
    let copy = format!(
        "INSERT INTO log_lines (account_id, cluster_id, logged_at, id, {others}) \
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 54999) \
         SELECT account_id, cluster_id, logged_at, {id}, {others} FROM log_lines CROSS JOIN numbers"
    );
    database.execute_unprepared(&copy).await.unwrap();
    analyze(&database, "log_lines").await;
    assert_eq!(count(&database, "log_lines").await, 55_000);
    let done = app.run_jobs().await;
    assert_eq!(done.get("retention.events"), Some(&1), "{done:?}");
    assert_eq!(done.get("retention.log_lines"), Some(&55_000), "{done:?}");
    assert_eq!((found_of_retention(&app).await, held_by_metric(&app).await), (None, false));
    // They do not become the usual number either.
    assert_eq!(number(&database, "SELECT usual_rows FROM retention_watch").await, 1);
    app.stop().await;
}

#[tokio::test]
async fn rows_that_become_due_together_are_deleted() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&ReportBuilder::new("Scheduler-ada", 1).build()).await;
    let database = app.database.connection().await;
    let id = id_of_n(&database);
    // All that the account has is of one hour, and it reports nothing more.
    let at = NOW - 29 * DAY;
    let insert = format!(
        "INSERT INTO events (account_id, cluster_id, occurred_at, id, arrived_at, topic, data) \
         SELECT c.account_id, c.id, {at}, {id}, {at}, 'all', '{{}}' FROM clusters c, {}",
        harness::numbers(database.get_database_backend(), 1, 50_001)
    );
    database.execute_unprepared(&insert).await.unwrap();
    analyze(&database, "events").await;
    app.run_jobs().await;
    assert_eq!(count(&database, "events").await, 50_001);
    app.set_clock("2026-11-22T12:00:01Z");
    assert_eq!(app.run_jobs().await.get("retention.events"), Some(&50_001));
    assert!(!held_by_metric(&app).await);
    app.stop().await;
}

#[tokio::test]
async fn rows_of_a_time_to_come_go_by_when_they_arrived() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&ReportBuilder::new("Scheduler-ada", 1).build()).await;
    let database = app.database.connection().await;
    // As an older version stored them.
    for (number, arrived) in [(1, NOW - 31 * DAY), (2, NOW - 29 * DAY), (3, 0)] {
        let id = match database.get_database_backend() {
            DatabaseBackend::Postgres => format!("'{}'", uuid(number)),
            _ => format!("X'{number:032x}'"),
        };
        let sql = format!(
            "INSERT INTO events (account_id, cluster_id, occurred_at, id, arrived_at, topic, data) \
             SELECT account_id, id, {}, {id}, {arrived}, 'all', '{{}}' FROM clusters",
            END_OF_TIME * 1_000
        );
        database.execute_unprepared(&sql).await.unwrap();
    }
    let done = app.run_jobs().await;
    assert_eq!(done.get("retention.events"), Some(&1), "{done:?}");
    assert_eq!(count(&database, "events").await, 2);
    app.set_clock("2026-11-22T12:00:01Z");
    app.run_jobs().await;
    assert_eq!(count(&database, "events").await, 1, "of the last one nobody knows when it arrived");
    app.stop().await;
}
