//! Rounds of background jobs: an account with much work takes a bounded share of each round, and all
//! others get their turn in the same round.

use std::{collections::BTreeMap, time::Duration};

use galvo::{encryption::Keys, key_ring::KeySource};
use harness::{Member, ReportBuilder, TestApp, WebhookReceiver, numbers, sample, usage};
use sea_orm::{ConnectionTrait, DatabaseBackend, DatabaseConnection, Statement, TransactionTrait};
use serde_json::{Value, json};

const DAY: i64 = 86_400_000;

/// 2026-11-20T12:00:00Z, the time of the tests' clocks.
const NOW: i64 = 1_795_176_000_000;

/// The hour at which that day begins.
const TODAY: i64 = 498_648;

fn report(scheduler: &str, hours: &[Value]) -> Value {
    ReportBuilder::new(scheduler, 1).with("/usage", hours.to_vec()).build()
}

async fn run(connection: &DatabaseConnection, sql: &str) {
    connection.execute_unprepared(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

async fn number(connection: &DatabaseConnection, sql: &str) -> i64 {
    let statement = Statement::from_string(connection.get_database_backend(), sql);
    connection.query_one_raw(statement).await.unwrap().unwrap().try_get_by_index(0).unwrap()
}

/// Inserts one unfolded hour of a cluster on each of this many days before today.
async fn add_old_hours(connection: &DatabaseConnection, cluster: i64, days: i64) {
    let columns = "sequence, thread_us, unobserved_us, worker_us, memory_gib_us, compute_us, transfer_us, tasks, tasks_erred, \
                   retries, errors, bytes, spilled_bytes, workers, is_cut";
    let values = "0, 3600000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, false";
    run(
        connection,
        &format!(
            "INSERT INTO usage_hours (account_id, cluster_id, hour, folded, {columns}) \
             SELECT c.account_id, c.id, {TODAY} - 24 * n, false, {values} FROM clusters c, {} WHERE c.id = {cluster}",
            numbers(connection.get_database_backend(), 1, days)
        ),
    )
    .await;
}

async fn thread_seconds(member: &Member) -> Value {
    let query = "{ viewer { account { usage { threadSeconds } } } }";
    member.query(query, json!({})).await["viewer"]["account"]["usage"]["threadSeconds"].take()
}

#[tokio::test]
async fn many_days_of_usage_take_a_piece_of_each_round() {
    let app = TestApp::start().await;
    // Eve's account precedes Ada's.
    let (eve, ada) = (app.account("eve").await, app.account("ada").await);
    let colleague = app.member("bob", "eve").await;
    let cluster = eve.reported(&report("Scheduler-1", &[])).await;
    let connection = app.database.connection().await;
    add_old_hours(&connection, cluster, 600).await;
    ada.reported(&report("Scheduler-2", &[usage(11, 4)])).await;
    colleague.reported(&report("Scheduler-3", &[usage(11, 2)])).await;

    let before = app.statements();
    let (round, more) = app.run_jobs_once().await;
    assert_eq!(round.get("usage.days"), Some(&17), "16 of Eve's and one of Ada's: {round:?}");
    assert!(more);
    let statements = app.statements() - before;
    assert!(statements < 400, "{statements} statements");
    assert_eq!(thread_seconds(&ada).await, 14_400.0);
    // Recent days precede old ones, also for members of the same account.
    let (round, _) = app.run_jobs_once().await;
    assert_eq!(round.get("usage.days"), Some(&18), "today, yesterday, and 16 of the others: {round:?}");
    assert_eq!(thread_seconds(&eve).await, 3_600.0 * (16.0 + 16.0 + 1.0 + 2.0));
    // The cost of a round does not depend on the backlog.
    let before = app.statements();
    app.run_jobs_once().await;
    assert!(app.statements() - before <= statements, "{} statements", app.statements() - before);

    let rest = app.run_jobs().await;
    assert_eq!(rest.get("usage.days"), Some(&(600 - 3 * 16 - 1)), "each day once: {rest:?}");
    assert_eq!(rest.get("usage.failed days"), None);
    assert_eq!(thread_seconds(&eve).await, 3_600.0 * 602.0);
    assert_eq!(number(&connection, "SELECT count(*) FROM usage_hours WHERE NOT folded").await, 0);
    assert_eq!(app.run_jobs().await, BTreeMap::new(), "nothing is left to do");
    app.stop().await;
}

#[tokio::test]
async fn days_that_cannot_be_folded_do_not_stand_before_others() {
    let app = TestApp::start().await;
    let (eve, ada) = (app.account("eve").await, app.account("ada").await);
    let connection = app.database.connection().await;
    // Twenty days whose sums overflow, and later ones whose sums do not.
    for name in ["Scheduler-1", "Scheduler-2", "Scheduler-3"] {
        let cluster = eve.reported(&report(name, &[])).await;
        add_old_hours(&connection, cluster, 40).await;
    }
    let most = i64::MAX / 2;
    run(&connection, &format!("UPDATE usage_hours SET thread_us = {most} WHERE hour < {}", TODAY - 24 * 20))
        .await;
    ada.reported(&report("Scheduler-4", &[usage(11, 4)])).await;
    // Until each of Eve's days was tried once.
    for _ in 0..3 {
        app.run_jobs_once().await;
    }
    assert_eq!(thread_seconds(&ada).await, 14_400.0);
    let good = format!("SELECT count(*) FROM usage_hours WHERE NOT folded AND hour >= {}", TODAY - 24 * 20);
    assert_eq!(number(&connection, &good).await, 0);
    app.stop().await;
}

#[tokio::test]
async fn retention_takes_a_piece_of_each_account() {
    let app = TestApp::start().await;
    let (eve, ada) = (app.account("eve").await, app.account("ada").await);
    let connection = app.database.connection().await;
    let is_postgres = connection.get_database_backend() == DatabaseBackend::Postgres;
    let id = if is_postgres { "lpad(to_hex(n), 32, '0')::uuid" } else { "CAST(printf('%016d', n) AS BLOB)" };
    for (member, rows) in [(&eve, 11_500), (&ada, 3)] {
        let cluster = member.reported(&report(&format!("Scheduler-{}", member.slug()), &[])).await;
        run(
            &connection,
            &format!(
                "INSERT INTO events (account_id, cluster_id, occurred_at, id, arrived_at, topic, data) \
                 SELECT account_id, c.id, {} - CAST(n AS BIGINT), {id}, 0, 'all', '' FROM clusters c, {} WHERE c.id = {cluster}",
                NOW - 31 * DAY,
                numbers(connection.get_database_backend(), 1, rows)
            ),
        )
        .await;
    }
    let (round, more) = app.run_jobs_once().await;
    assert_eq!(round.get("retention.events"), Some(&10_003), "five batches of Eve's, and Ada's: {round:?}");
    assert!(more);
    let (round, more) = app.run_jobs_once().await;
    assert_eq!(round.get("retention.events"), Some(&1_500), "{round:?}");
    assert!(!more);
    app.stop().await;
}

/// A report of a cluster with this percentage of its memory in use.
fn memory(name: &str, used: i64) -> Value {
    let samples = (0..5).map(|back| {
        let metrics = json!({ "memory_process_bytes": used, "memory_limit_bytes": 100 });
        sample(None, (100 - 15 * back) * 1_000, metrics)
    });
    let report = ReportBuilder::new(name, 100).with("/cluster/name", name);
    report.with("/samples", samples.collect::<Vec<_>>()).build()
}

#[tokio::test]
async fn flags_and_messages_of_one_account_leave_room_for_others() {
    let app = TestApp::start_with(|serve| serve.alerts.private_targets = true).await;
    let (eve, ada) = (app.account("eve").await, app.account("ada").await);
    let receivers = [WebhookReceiver::start().await, WebhookReceiver::start().await];
    let create = "mutation($input: AlertRuleInput!) { createAlertRule(input: $input) { userErrors { field message } } }";
    for (member, receiver, times) in [(&eve, &receivers[0], 10), (&ada, &receivers[1], 1)] {
        let input = json!({ "name": "Memory", "condition": { "flags": ["MEMORY_PRESSURE"] },
            "webhooks": vec![receiver.url(); times] });
        let made = member.query(create, json!({ "input": input })).await;
        assert_eq!(made["createAlertRule"]["userErrors"], json!([]));
    }
    for number in 0..110 {
        eve.reported(&memory(&format!("eve-{number}"), 90)).await;
    }
    ada.reported(&memory("ada-1", 90)).await;
    let (round, more) = app.run_jobs_once().await;
    assert_eq!(round.get("flags.changed"), Some(&51), "50 of Eve's and Ada's: {round:?}");
    assert_eq!(round.get("alerts.messages"), Some(&11), "{round:?}");
    assert_eq!(round.get("deliveries.delivered"), Some(&9), "eight of Eve's and Ada's: {round:?}");
    assert!(more);
    assert_eq!((receivers[0].received().len(), receivers[1].received().len()), (8, 1));
    let rest = app.run_jobs().await;
    assert_eq!(rest.get("flags.changed"), Some(&60), "{rest:?}");
    let query = "{ viewer { account { flags(first: 1) { totalCount } } } }";
    assert_eq!(eve.query(query, json!({})).await["viewer"]["account"]["flags"]["totalCount"], 110);
    // A cluster that reports again is evaluated again, after those that took several rounds.
    eve.reported(&ReportBuilder::new("eve-1", 200).with("/cluster/name", "eve-1").build()).await;
    assert_eq!(app.run_jobs().await.get("flags.failed"), None);
    app.stop().await;
}

#[tokio::test]
async fn lost_clusters_of_one_account_leave_room_for_others() {
    let app = TestApp::start().await;
    let (eve, ada) = (app.account("eve").await, app.account("ada").await);
    for number in 0..150 {
        eve.reported(&report(&format!("eve-{number}"), &[])).await;
    }
    ada.reported(&report("ada-1", &[])).await;
    app.set_clock("2026-11-20T13:00:00Z");
    let (round, more) = app.run_jobs_once().await;
    assert_eq!(round.get("life-cycle.lost"), Some(&101), "100 of Eve's and Ada's: {round:?}");
    assert!(more);
    let (round, _) = app.run_jobs_once().await;
    assert_eq!(round.get("life-cycle.lost"), Some(&50), "{round:?}");
    let rest = app.run_jobs().await;
    assert_eq!(rest.get("life-cycle.lost"), None, "{rest:?}");
    app.stop().await;
}

/// A fold that waits for a lock on its account does not delay other jobs.
#[tokio::test]
async fn each_job_has_a_clock_of_its_own() {
    let app = TestApp::start().await;
    let (eve, ada) = (app.account("eve").await, app.account("ada").await);
    let connection = app.database.connection().await;
    if connection.get_database_backend() != DatabaseBackend::Postgres {
        // SQLite has a single writer.
        app.stop().await;
        return;
    }
    eve.reported(&report("Scheduler-1", &[usage(11, 4)])).await;
    let cluster = ada.reported(&report("Scheduler-2", &[])).await;
    run(
        &connection,
        &format!(
            "INSERT INTO events (account_id, cluster_id, occurred_at, id, arrived_at, topic, data) SELECT account_id, id, {}, \
             '{}', 0, 'all', '' FROM clusters WHERE id = {cluster}",
            NOW - 31 * DAY,
            harness::uuid(1)
        ),
    )
    .await;
    let database = app.stop_keeping().await;
    let held = connection.begin().await.unwrap();
    held.execute_unprepared("SELECT 1 FROM accounts FOR NO KEY UPDATE").await.unwrap();
    let app = TestApp::start_on(database, KeySource::Ring(Keys::generate()), |serve| serve.jobs = true).await;
    let gone = async {
        while number(&connection, "SELECT count(*) FROM events").await > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("retention has its turn");
    assert_eq!(number(&connection, "SELECT count(*) FROM usage_days").await, 0, "the fold waits");
    held.rollback().await.unwrap();
    let folded = async {
        while number(&connection, "SELECT count(*) FROM usage_days").await == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), folded).await.expect("the fold goes on");
    app.stop().await;
}
