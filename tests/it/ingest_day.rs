//! The counted size of stored data once it is deleted.

use entity::api_token::Scope;
use galvo::domain::quota::Limits;
use harness::{Member, TestApp};
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

/// Returns the used bytes of storage and the clusters of the day at a time, since the server knows a change of the
/// sums a minute later.
async fn used_at(app: &TestApp, member: &Member, clock: &str) -> (i64, i64) {
    app.set_clock(clock);
    let quota = quota(member).await;
    let used = |what: &str| quota[what]["used"].as_i64().unwrap();
    (used("storedBytes"), used("dailyClusters"))
}

#[tokio::test]
async fn a_deleted_cluster_makes_room_for_what_it_stored_on_each_of_its_days() {
    let app = with(Limits::default()).await;
    let ada = app.account("ada").await;
    let (first, kept) = (logs("Scheduler-1", 1, 4), logs("Scheduler-2", 1, 2));
    let deleted = ada.reported(&first).await;
    ada.reported(&kept).await;
    app.set_clock("2026-11-21T12:00:00Z");
    let (second, other) = (logs("Scheduler-1", 2, 6), logs("Scheduler-3", 1, 3));
    ada.reported(&second).await;
    ada.reported(&other).await;
    let rest = size(&kept) + size(&other);
    let all = rest + size(&first) + size(&second);
    assert_eq!(used_at(&app, &ada, "2026-11-21T12:02:00Z").await, (all, 1));

    ada.query(DELETE, json!({ "id": id_of(&ada, deleted).await })).await;
    assert_eq!(used_at(&app, &ada, "2026-11-21T12:04:00Z").await, (rest, 1));
    app.run_jobs().await;
    assert_eq!(used_at(&app, &ada, "2026-11-21T12:06:00Z").await, (rest, 1));
    let next = logs("Scheduler-2", 2, 0);
    ada.reported(&next).await;
    assert_eq!(used_at(&app, &ada, "2026-11-21T12:08:00Z").await, (rest + size(&next), 1));
    app.stop().await;
}

#[tokio::test]
async fn a_quarantined_cluster_counts_again_once_it_is_restored() {
    let app = with(Limits::default()).await;
    let ada = app.account("ada").await;
    let leaked = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let (own, poison) = (logs("Scheduler-1", 1, 2), logs("Scheduler-2", 1, 5));
    ada.reported(&own).await;
    leaked.reported(&poison).await;
    let token = leaked.secret().split('-').next().unwrap();
    let forget = "mutation($token: String!) { forgetToken(input: { tokenId: $token, since: \"2026-11-20T00:00:00Z\", \
                  confirm: false }) { userErrors { code } } }";
    let restore = "mutation($token: String!) { restoreToken(input: { tokenId: $token }) { clusters } }";
    ada.query(forget, json!({ "token": token })).await;
    assert_eq!(used_at(&app, &ada, "2026-11-20T12:02:00Z").await, (size(&own), 1));
    ada.query(restore, json!({ "token": token })).await;
    assert_eq!(used_at(&app, &ada, "2026-11-20T12:04:00Z").await, (size(&own) + size(&poison), 2));

    // What was deleted with its class meanwhile is not stored again.
    ada.query(forget, json!({ "token": token })).await;
    let delete = "mutation($input: DeleteDataInput!) { deleteData(input: $input) { rows } }";
    ada.query(delete, json!({ "input": { "class": "LOGS" } })).await;
    ada.query(restore, json!({ "token": token })).await;
    let without_logs =
        |report: &Value| size(report) - i64::try_from(report["logs"].to_string().len()).unwrap();
    let rest = without_logs(&own) + without_logs(&poison);
    assert_eq!(used_at(&app, &ada, "2026-11-20T12:06:00Z").await, (rest, 2));
    app.stop().await;
}

#[tokio::test]
async fn a_deleted_class_of_a_cluster_makes_room_once() {
    let app = with(Limits::default()).await;
    let ada = app.account("ada").await;
    let (one, other) = (logs("Scheduler-1", 1, 4), logs("Scheduler-2", 1, 3));
    let number = ada.reported(&one).await;
    ada.reported(&other).await;
    let id = id_of(&ada, number).await;
    let rest = size(&one) - i64::try_from(one["logs"].to_string().len()).unwrap() + size(&other);
    let delete = "mutation($input: DeleteDataInput!) { deleteData(input: $input) { rows } }";
    for (clock, rows) in [("2026-11-20T12:02:00Z", 4), ("2026-11-20T12:04:00Z", 0)] {
        let input = json!({ "class": "LOGS", "clusterId": id });
        let answer = ada.query(delete, json!({ "input": input })).await;
        assert_eq!(answer["deleteData"]["rows"], rows);
        assert_eq!(used_at(&app, &ada, clock).await, (rest, 2));
    }
    // The snippets of code are shared by clusters, so that none is deleted with one of them.
    let input = json!({ "class": "CODE", "clusterId": id });
    ada.query(delete, json!({ "input": input })).await;
    ada.query(DELETE, json!({ "id": id })).await;
    assert_eq!(used_at(&app, &ada, "2026-11-20T12:06:00Z").await, (size(&other), 1));
    app.stop().await;
}
