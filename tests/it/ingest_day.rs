//! The counted size of stored data once it is deleted.

use entity::api_token::Scope;
use galvo::domain::quota::Limits;
use harness::{Member, TestApp, code};
use serde_json::{Value, json};

use super::quota::{logs, quota, size, with};

#[tokio::test]
async fn a_deleted_class_and_a_deleted_performance_report_make_room_at_once() {
    let app = with(Limits::default()).await;
    let ada = app.account("ada").await;
    let report = logs("Scheduler-1", 1, 4);
    let logs_alone = i64::try_from(report["logs"].to_string().len()).unwrap();
    let without_logs = size(&report) - logs_alone;
    ada.reported(&report).await;
    let html = "x".repeat(30_000);
    let (kept, deleted) = (
        ada.stored_report("private", "a.html", &html).await,
        ada.stored_report("private", "b.html", &html).await,
    );
    assert_eq!(quota(&ada).await["storedBytes"]["used"], size(&report) + 60_000);

    // The server knows the change of the sums a minute later.
    let stored_at = async |clock: &str| {
        app.set_clock(clock);
        quota(&ada).await["storedBytes"]["used"].as_i64().unwrap()
    };
    let delete_class = "mutation($input: DeleteDataInput!) { deleteData(input: $input) { rows } }";
    let rows = ada.query(delete_class, json!({ "input": { "class": "LOGS" } })).await;
    assert_eq!(rows["deleteData"]["rows"], 4);
    assert_eq!(stored_at("2026-11-20T12:02:00Z").await, without_logs + 60_000);

    let delete =
        "mutation($id: String!) { deletePerformanceReport(identifier: $id) { userErrors { code } } }";
    ada.query(delete, json!({ "id": deleted })).await;
    assert_eq!(stored_at("2026-11-21T12:00:00Z").await, without_logs + 30_000);
    ada.query(delete, json!({ "id": kept })).await;
    assert_eq!(stored_at("2026-11-21T12:02:00Z").await, without_logs);
    app.stop().await;
}

const DELETE: &str =
    "mutation($id: ID!) { deleteCluster(input: { clusterId: $id }) { userErrors { code } } }";

/// Returns the global identifier of a cluster.
async fn id_of(member: &Member, number: i64) -> Value {
    let query = "query($id: ID!) { cluster(id: $id) { id } }";
    member.query(query, json!({ "id": number.to_string() })).await["cluster"]["id"].take()
}

/// Returns the used bytes of storage, and the bytes and clusters of the day, at a time, since the server
/// knows a change of the sums a minute later.
async fn used_at(app: &TestApp, member: &Member, clock: &str) -> (i64, i64, i64) {
    app.set_clock(clock);
    let quota = quota(member).await;
    let used = |what: &str| quota[what]["used"].as_i64().unwrap();
    (used("storedBytes"), used("dailyBytes"), used("dailyClusters"))
}

/// A report with log lines and a snippet of code.
fn with_code(scheduler: &str, sequence: i64, lines: u128) -> Value {
    let mut report = logs(scheduler, sequence, lines);
    report["code"] = json!([code(&format!("x = {sequence}"))]);
    report
}

/// Returns the size of a section of a report, in bytes.
fn size_of(report: &Value, section: &str) -> i64 {
    i64::try_from(report[section].to_string().len()).unwrap()
}

#[tokio::test]
async fn a_deleted_cluster_makes_room_for_what_it_stored_on_each_of_its_days() {
    let app = with(Limits::default()).await;
    let ada = app.account("ada").await;
    let (first, kept) = (with_code("Scheduler-1", 1, 4), logs("Scheduler-2", 1, 2));
    let deleted = ada.reported(&first).await;
    ada.reported(&kept).await;
    app.set_clock("2026-11-21T12:00:00Z");
    let (second, other) = (logs("Scheduler-1", 2, 6), logs("Scheduler-3", 1, 3));
    ada.reported(&second).await;
    ada.reported(&other).await;
    let all = size(&first) + size(&kept) + size(&second) + size(&other);
    assert_eq!(used_at(&app, &ada, "2026-11-21T12:02:00Z").await, (all, size(&second) + size(&other), 1));

    // What was accepted on a day stays, so that deletions do not make its quota larger. Clusters share code.
    ada.query(DELETE, json!({ "id": id_of(&ada, deleted).await })).await;
    let left = size(&kept) + size(&other) + size_of(&first, "code");
    let today = size(&second) + size(&other);
    assert_eq!(used_at(&app, &ada, "2026-11-21T12:04:00Z").await, (left, today, 1));
    app.run_jobs().await;
    assert_eq!(used_at(&app, &ada, "2026-11-21T12:06:00Z").await, (left, today, 1));
    let next = logs("Scheduler-2", 2, 0);
    ada.reported(&next).await;
    let expected = (left + size(&next), today + size(&next), 1);
    assert_eq!(used_at(&app, &ada, "2026-11-21T12:08:00Z").await, expected);
    app.stop().await;
}

const FORGET: &str = "mutation($token: String!) { forgetToken(input: { tokenId: $token,
    since: \"2026-11-20T00:00:00Z\", confirm: false }) { userErrors { code } } }";
const RESTORE: &str = "mutation($token: String!) { restoreToken(input: { tokenId: $token }) { clusters } }";
const DELETE_CLASS: &str = "mutation($input: DeleteDataInput!) { deleteData(input: $input) { rows } }";

#[tokio::test]
async fn a_quarantined_cluster_counts_again_once_it_is_restored() {
    let app = with(Limits::default()).await;
    let ada = app.account("ada").await;
    let leaked = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let (own, poison) = (logs("Scheduler-1", 1, 2), logs("Scheduler-2", 1, 5));
    ada.reported(&own).await;
    leaked.reported(&poison).await;
    let token = leaked.secret().split('-').next().unwrap();
    let all = size(&own) + size(&poison);
    ada.query(FORGET, json!({ "token": token })).await;
    assert_eq!(used_at(&app, &ada, "2026-11-20T12:02:00Z").await, (size(&own), all, 2));
    ada.query(RESTORE, json!({ "token": token })).await;
    assert_eq!(used_at(&app, &ada, "2026-11-20T12:04:00Z").await, (all, all, 2));

    // What was deleted with its class is not stored again, whether the cluster was hidden before or after.
    ada.query(FORGET, json!({ "token": token })).await;
    ada.query(DELETE_CLASS, json!({ "input": { "class": "LOGS" } })).await;
    ada.query(RESTORE, json!({ "token": token })).await;
    let rest = all - size_of(&own, "logs") - size_of(&poison, "logs");
    assert_eq!(used_at(&app, &ada, "2026-11-20T12:06:00Z").await, (rest, all, 2));
    let later = logs("Scheduler-2", 2, 3);
    leaked.reported(&later).await;
    app.set_clock("2026-11-21T12:00:00Z");
    ada.query(DELETE_CLASS, json!({ "input": { "class": "LOGS" } })).await;
    let rest = rest + size(&later) - size_of(&later, "logs");
    for (mutation, clock, stored) in [
        (FORGET, "2026-11-21T12:02:00Z", size(&own) - size_of(&own, "logs")),
        (RESTORE, "2026-11-21T12:04:00Z", rest),
    ] {
        ada.query(mutation, json!({ "token": token })).await;
        assert_eq!(used_at(&app, &ada, clock).await, (stored, 0, 0));
    }
    app.stop().await;
}

#[tokio::test]
async fn a_deleted_class_of_a_cluster_makes_room_once() {
    let app = with(Limits::default()).await;
    let ada = app.account("ada").await;
    let leaked = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let (one, other) = (with_code("Scheduler-1", 1, 4), logs("Scheduler-2", 1, 3));
    let number = leaked.reported(&one).await;
    ada.reported(&other).await;
    let id = id_of(&ada, number).await;
    let (all, rest) = (size(&one) + size(&other), size(&one) + size(&other) - size_of(&one, "logs"));
    for (clock, class, rows) in [
        ("2026-11-20T12:02:00Z", "LOGS", 4),
        ("2026-11-20T12:04:00Z", "LOGS", 0),
        // Clusters share snippets of code, and a cluster is more than its samples.
        ("2026-11-20T12:06:00Z", "CODE", 0),
        ("2026-11-20T12:08:00Z", "BASIC", 0),
    ] {
        let input = json!({ "class": class, "clusterId": id });
        let answer = ada.query(DELETE_CLASS, json!({ "input": input })).await;
        assert_eq!(answer["deleteData"]["rows"], rows, "{class}");
        assert_eq!(used_at(&app, &ada, clock).await, (rest, all, 2), "{class}");
    }
    let token = leaked.secret().split('-').next().unwrap();
    let without = size(&other) + size_of(&one, "code");
    for (mutation, clock, stored) in
        [(FORGET, "2026-11-20T12:10:00Z", without), (RESTORE, "2026-11-20T12:12:00Z", rest)]
    {
        ada.query(mutation, json!({ "token": token })).await;
        assert_eq!(used_at(&app, &ada, clock).await, (stored, all, 2));
    }
    ada.query(DELETE, json!({ "id": id })).await;
    assert_eq!(used_at(&app, &ada, "2026-11-20T12:14:00Z").await, (without, all, 2));
    app.stop().await;
}
