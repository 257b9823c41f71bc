//! Numbers of clusters: they count up from 1 in each account, and none is used twice.

use std::collections::BTreeSet;

use harness::{ReportBuilder, TestApp};
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::life_cycle::id_of;

const DELETE: &str =
    "mutation($id: ID!) { deleteCluster(input: { clusterId: $id }) { userErrors { code } } }";

fn report(scheduler: &str) -> Value {
    ReportBuilder::new(scheduler, 1).build()
}

#[tokio::test]
async fn numbers_count_up_from_one_in_each_account() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.plain_account("ada").await, app.plain_account("bob").await);
    for number in 1..=3 {
        assert_eq!(ada.reported(&report(&format!("Scheduler-{number}"))).await, number);
    }
    assert_eq!(bob.reported(&report("Scheduler-1")).await, 1);
    // A cluster keeps its number.
    assert_eq!(ada.reported(&ReportBuilder::new("Scheduler-2", 2).build()).await, 2);
    let query = "{ cluster(id: \"3\") { number schedulerId } viewer { account {
        clusters(orderBy: { field: STARTED_AT, direction: DESC }) { nodes { number } } } } }";
    let answer = ada.query(query, json!({})).await;
    assert_eq!(answer["cluster"], json!({ "number": 3, "schedulerId": "Scheduler-3" }));
    let numbers = json!([{ "number": 3 }, { "number": 2 }, { "number": 1 }]);
    assert_eq!(answer["viewer"]["account"]["clusters"]["nodes"], numbers);
    assert_eq!(bob.query("{ cluster(id: \"3\") { number } }", json!({})).await["cluster"], Value::Null);
    app.stop().await;
}

#[tokio::test]
async fn the_number_of_a_deleted_cluster_is_not_used_again() {
    let app = TestApp::start().await;
    let ada = app.plain_account("ada").await;
    ada.reported(&report("Scheduler-1")).await;
    let newest = ada.reported(&report("Scheduler-2")).await;
    let deleted = ada.query(DELETE, json!({ "id": id_of(&ada, newest).await })).await;
    assert_eq!(deleted["deleteCluster"]["userErrors"], json!([]));
    assert_eq!(app.run_jobs().await.get("removal.clusters"), Some(&1));
    assert_eq!(ada.reported(&report("Scheduler-3")).await, 3);
    app.stop().await;
}

#[tokio::test]
async fn clusters_that_begin_at_once_get_one_number_each() {
    let app = TestApp::start().await;
    let ada = app.plain_account("ada").await;
    // Each scheduler sends its first report twice, as after a lost response.
    let reports = (0..40).map(|n| {
        let (ada, report) = (ada.clone(), report(&format!("Scheduler-{}", n / 2)));
        async move {
            loop {
                match ada.report(&report).await {
                    (StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS, _) => {
                        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                    }
                    (status, answer) => {
                        assert_eq!(status, StatusCode::OK, "{answer}");
                        break (n / 2, answer["cluster_id"].as_i64().unwrap());
                    }
                }
            }
        }
    });
    let pairs: BTreeSet<(i64, i64)> = futures::future::join_all(reports).await.into_iter().collect();
    let numbers: BTreeSet<i64> = pairs.iter().map(|(_, number)| *number).collect();
    assert_eq!((pairs.len(), numbers.len()), (20, 20), "{pairs:?}");
    // A number can be skipped if two first reports of a scheduler arrive at once, but not more than that.
    assert!(numbers.iter().all(|number| (1..=40).contains(number)), "{numbers:?}");
    app.stop().await;
}
