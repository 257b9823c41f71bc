//! Subscriptions to another account.

use std::{collections::BTreeSet, time::Duration};

use harness::{TestApp, event, log_line};
use serde_json::{Value, json};

use super::{ROOT_FIELDS, node::of_nothing, report};

#[tokio::test]
async fn whoever_watches_another_account_learns_nothing() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let number = ada.reported(&report()).await;
    let id =
        ada.query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": number.to_string() })).await;
    let id = id["cluster"]["id"].clone();
    let cursor = "{ viewer { account { liveCursor } } }";
    let cursor = bob.query(cursor, json!({})).await["viewer"]["account"]["liveCursor"].clone();
    let refused = async |query: &str, account: &str, id: Option<&Value>| {
        let mut socket = app.socket_of(&bob).await;
        let ids = id.map(|id| vec![id]);
        socket.subscribe("1", query, json!({ "account": account, "ids": ids })).await;
        let answer = socket.message().await;
        assert_eq!(
            (&answer["type"], &answer["payload"][0]["extensions"]["code"]),
            (&json!("error"), &json!("NOT_FOUND"))
        );
        answer.to_string()
    };
    let rule = "mutation { createAlertRule(input: { name: \"errors\", emails: [\"a@example.com\"],
        condition: { failures: { count: 1, withinSeconds: 86400 } } }) { userErrors { code } } }";
    for member in [&ada, &bob] {
        assert_eq!(member.query(rule, json!({})).await["createAlertRule"]["userErrors"], json!([]));
    }
    let mut own = app.socket_of(&bob).await;
    let streams: BTreeSet<&str> =
        ROOT_FIELDS.iter().filter_map(|field| field.strip_prefix("Subscription.")).collect();
    for field in streams.iter().copied() {
        // Alerts and error groups belong to no single cluster.
        let of_clusters = !["alerts", "errorGroups"].contains(&field);
        let (declared, ids) = if of_clusters { (", $ids: [ID!]", ", ids: $ids") } else { ("", "") };
        let query = format!(
            "subscription($account: String!, $after: String{declared}) {{
                {field}(account: $account, after: $after{ids}) {{ cursor }} }}"
        );
        assert_eq!(refused(&query, "ada", None).await, refused(&query, "nobody", None).await, "{field}");
        if of_clusters {
            assert_eq!(
                refused(&query, "bob", Some(&id)).await,
                refused(&query, "bob", Some(&of_nothing(&id))).await,
                "{field}"
            );
        }
        own.subscribe(field, &query, json!({ "account": "bob", "after": cursor })).await;
    }
    let mut later = report();
    later["sequence"] = json!(2);
    later["events"] = json!([event(1, "mine", 1)]);
    later["logs"] = json!([log_line(1, "line")]);
    ada.reported(&later).await;
    app.run_jobs().await;
    assert_eq!(own.receive_within(Duration::from_millis(500)).await, None);
    // The same events of the own account are delivered by each subscription.
    bob.reported(&later).await;
    app.run_jobs().await;
    let mut silent = streams;
    while !silent.is_empty() {
        let message = own.message().await;
        assert_eq!(message["type"], "next", "{message}");
        silent.remove(message["id"].as_str().unwrap());
    }
    app.stop().await;
}
