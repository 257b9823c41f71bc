//! The counted size of stored data once it is deleted.

use galvo::domain::quota::Limits;
use serde_json::json;

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
