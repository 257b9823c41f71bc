//! The counted size of stored data once it is deleted.

use galvo::domain::quota::Limits;
use serde_json::json;

use super::quota::{logs, quota, size, with};

#[tokio::test]
async fn deleted_data_makes_room_at_once() {
    const DELETE_CLASS: &str = "mutation($input: DeleteDataInput!) { deleteData(input: $input) { rows } }";
    const DELETE_CLUSTER: &str = "mutation($id: ID!) { deleteCluster(input: { clusterId: $id }) {
        userErrors { code } } }";
    let app = with(Limits::default()).await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let equal = async |step: &str, clock: &str| {
        app.set_clock(clock);
        let (one, other) = (quota(&ada).await, quota(&bob).await);
        assert_eq!(one, other, "{step}");
        one["storedBytes"]["used"].as_i64().unwrap()
    };
    let mut ids = Vec::new();
    for number in 1..=3 {
        let number = ada.reported(&logs(&format!("Scheduler-{number}"), 1, 4)).await;
        let query = "query($id: ID!) { cluster(id: $id) { id } }";
        ids.push(ada.query(query, json!({ "id": number.to_string() })).await["cluster"]["id"].clone());
    }
    bob.reported(&logs("Scheduler-1", 1, 4)).await;
    bob.reported(&logs("Scheduler-3", 1, 4)).await;
    // The second cluster stored something on two days.
    app.set_clock("2026-11-21T12:00:00Z");
    ada.reported(&logs("Scheduler-2", 2, 7)).await;
    let of_both = size(&logs("Scheduler-1", 1, 4)) + size(&logs("Scheduler-3", 1, 4));

    ada.query(DELETE_CLUSTER, json!({ "id": ids[1] })).await;
    app.run_jobs().await;
    assert_eq!(equal("a cluster", "2026-11-21T12:02:00Z").await, of_both);

    let logs_alone = i64::try_from(logs("Scheduler-1", 1, 4)["logs"].to_string().len()).unwrap();
    let removed = ada.query(DELETE_CLASS, json!({ "input": { "class": "LOGS", "clusterId": ids[0] } })).await;
    assert_eq!(removed["deleteData"]["rows"], 4);
    app.set_clock("2026-11-21T12:04:00Z");
    assert_eq!(quota(&ada).await["storedBytes"]["used"], of_both - logs_alone);
    ada.query(DELETE_CLASS, json!({ "input": { "class": "LOGS" } })).await;
    bob.query(DELETE_CLASS, json!({ "input": { "class": "LOGS" } })).await;
    assert_eq!(equal("a class", "2026-11-21T12:06:00Z").await, of_both - 2 * logs_alone);
    // A cluster does not free its deleted logs a second time.
    ada.query(DELETE_CLUSTER, json!({ "id": ids[0] })).await;
    app.run_jobs().await;
    app.set_clock("2026-11-21T12:08:00Z");
    assert_eq!(quota(&ada).await["storedBytes"]["used"], (of_both - 2 * logs_alone) / 2);

    let html = "x".repeat(30_000);
    let report = ada.stored_report("private", "a.html", &html).await;
    app.set_clock("2026-11-22T12:00:00Z");
    assert_eq!(quota(&ada).await["storedBytes"]["used"], (of_both - 2 * logs_alone) / 2 + 30_000);
    let delete =
        "mutation($id: String!) { deletePerformanceReport(identifier: $id) { userErrors { code } } }";
    ada.query(delete, json!({ "id": report })).await;
    app.set_clock("2026-11-22T12:02:00Z");
    assert_eq!(quota(&ada).await["storedBytes"]["used"], (of_both - 2 * logs_alone) / 2);
    app.stop().await;
}
