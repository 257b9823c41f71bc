//! A cluster belongs to the user who reported it first.

use entity::{api_token::Scope, membership::Role};
use harness::{Member, Program, ReportBuilder, STARTED_AT, TestApp, usage, uuid};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const SCHEDULER: &str = "Scheduler-1";

/// A report with this number of tasks.
fn tasks(sequence: i64, tasks: i64) -> Value {
    ReportBuilder::new(SCHEDULER, sequence).with("/cluster/totals/tasks", tasks).build()
}

async fn shown(member: &Member, number: i64) -> Value {
    let query = "query($id: ID!) { cluster(id: $id) { user { name } state totals { tasks } } }";
    let mut cluster = member.query(query, json!({ "id": number.to_string() })).await["cluster"].take();
    assert!(!cluster.is_null());
    json!([cluster["user"]["name"].take(), cluster["state"].take(), cluster["totals"]["tasks"].take()])
}

async fn ids(member: &Member, number: i64, name: &str) -> (String, String) {
    let query = "query($id: ID!) { cluster(id: $id) { id } viewer { account { members(first: 100) { nodes { user { id name } } } } } }";
    let answer = member.query(query, json!({ "id": number.to_string() })).await;
    let members = answer["viewer"]["account"]["members"]["nodes"].as_array().unwrap();
    let user = members.iter().find(|node| node["user"]["name"] == name).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&answer["cluster"]["id"]), text(&user["user"]["id"]))
}

const HAND_OVER: &str = "mutation($input: HandOverClusterInput!) {
    handOverCluster(input: $input) { cluster { user { name } } userErrors { field code } } }";

#[tokio::test]
async fn a_colleagues_token_cannot_take_a_cluster_over() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mallory = app.member_with("mallory", "ada", Role::Member).await;
    let leaked = mallory.with_token(mallory.token(&[Scope::Ingest], None).await);
    let number = ada.reported(&tasks(1, 5)).await;

    // The largest possible sequence, with the end of the cluster.
    let hijack = ReportBuilder::new(SCHEDULER, (1 << 53) - 1)
        .with("/sent_at", STARTED_AT + 2.0)
        .with("/final", true)
        .with("/cluster/closed_at", STARTED_AT + 2.0)
        .with("/usage", json!([usage(11, 4)]))
        .build();
    for _ in 0..2 {
        let (status, body) = leaked.report(&hijack).await;
        assert_eq!((status, &body["code"]), (StatusCode::CONFLICT, &json!("NOT_CLUSTER_OWNER")), "{body}");
    }
    let span = format!("/api/v2/analytics/ada/cluster/{number}/span/{}", uuid(30));
    let span_data = json!({ "start": STARTED_AT, "stop": STARTED_AT + 2.5, "callstack": [] });
    for (member, expected) in [(&leaked, StatusCode::CONFLICT), (&ada, StatusCode::OK)] {
        let answer = member.request(Method::POST, &span).json(&span_data).send().await.unwrap();
        assert_eq!(answer.status(), expected, "{}", member.name());
    }
    assert_eq!(shown(&ada, number).await, json!(["ada", "STARTING", 5]));

    // The owner's next report is stored, and no resend is requested.
    let (status, body) = ada.report(&tasks(2, 7)).await;
    assert_eq!((status, &body["resend"]), (StatusCode::OK, &json!(false)), "{body}");
    assert_eq!(shown(&ada, number).await[2], 7);
    // A scheduler that returns with the same identifier, with another token of the same user.
    let again = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    assert_eq!(again.reported(&tasks(3, 9)).await, number);
    assert_eq!(shown(&ada, number).await, json!(["ada", "STARTING", 9]));
    app.stop().await;
}

#[tokio::test]
async fn a_cluster_that_is_handed_over_is_reported_by_its_new_owner_alone() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let carl = app.member_with("carl", "ada", Role::Member).await;
    let report = |sequence| {
        ReportBuilder::new(SCHEDULER, sequence)
            .with("/usage", json!([usage(11, 4)]))
            .with("/cluster/totals/tasks", sequence)
            .build()
    };
    let number = ada.reported(&report(1)).await;
    app.fold_usage().await;
    let by_user = async || {
        let query = r#"{ viewer { account { usageTable(from: "2026-11-20", to: "2026-11-21", by: [USER]) {
            user { name } usage { threadSeconds } } } } }"#;
        ada.query(query, json!({})).await["viewer"]["account"]["usageTable"].take()
    };
    assert_eq!(
        by_user().await,
        json!([{ "user": { "name": "ada" }, "usage": { "threadSeconds": 14_400.0 } }])
    );

    let (cluster, user) = ids(&ada, number, "carl").await;
    let input = json!({ "input": { "clusterId": cluster, "userId": user } });
    // Even the future owner may not take it over: only admins may hand it over.
    let refused = carl.ask(HAND_OVER, input.clone()).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN", "{refused}");
    assert_eq!(
        ada.query(HAND_OVER, input).await["handOverCluster"],
        json!({ "cluster": { "user": { "name": "carl" } }, "userErrors": [] })
    );
    assert_eq!(carl.reported(&report(2)).await, number);
    let (status, body) = ada.report(&report(3)).await;
    assert_eq!((status, &body["code"]), (StatusCode::CONFLICT, &json!("NOT_CLUSTER_OWNER")), "{body}");
    app.fold_usage().await;
    assert_eq!(
        by_user().await,
        json!([{ "user": { "name": "carl" }, "usage": { "threadSeconds": 14_400.0 } }])
    );

    let log = r"{ viewer { account { auditLog(filter: { action: HAND_OVER_CLUSTER, outcome: DONE }) { nodes {
        target { id } detail } } } } }";
    let (_, first) = ids(&ada, number, "ada").await;
    let entry = ada.query(log, json!({})).await["viewer"]["account"]["auditLog"]["nodes"][0].take();
    assert_eq!(entry["target"]["id"], cluster);
    assert!(entry["detail"]["before"].is_string() && entry["detail"]["before"] != entry["detail"]["after"]);
    assert_ne!(first, user);
    app.stop().await;
}

#[tokio::test]
async fn only_a_member_gets_a_cluster() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.member_with("carl", "ada", Role::Member).await;
    let number = ada.reported(&tasks(1, 5)).await;
    let (cluster, user) = ids(&ada, number, "carl").await;
    let remove = "mutation($id: ID!) { removeMember(user: $id) { userErrors { code } } }";
    ada.query(remove, json!({ "id": user })).await;
    let answer = ada.query(HAND_OVER, json!({ "input": { "clusterId": cluster, "userId": user } })).await;
    assert_eq!(
        answer["handOverCluster"],
        json!({ "cluster": { "user": { "name": "ada" } },
            "userErrors": [{ "field": "userId", "code": "NOT_FOUND" }] })
    );
    app.stop().await;
}

#[tokio::test]
async fn an_operator_hands_a_cluster_over() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let carl = app.member_with("carl", "ada", Role::Member).await;
    let number = ada.reported(&tasks(1, 5)).await;
    let hand_over = async |number: &str, user: &str| {
        let command = ["cluster", "hand-over", number, "--account", "ada", "--user", user];
        Program::run(&[&command[..], &["--database-url", app.database.url()]].concat()).await
    };
    let number = number.to_string();
    let (status, _, errors) = hand_over(&number, "nobody").await;
    assert_eq!(status, Some(1));
    assert!(errors.contains("there is no user 'nobody' in account 'ada'"), "{errors}");
    let (status, _, errors) = hand_over("1", "carl").await;
    assert_eq!(status, Some(1));
    assert!(errors.contains("there is no cluster 1 in account 'ada'"), "{errors}");
    let (status, output, errors) = hand_over(&number, "carl").await;
    assert_eq!((status, output.as_str()), (Some(0), ""), "{errors}");
    assert_eq!(carl.reported(&tasks(2, 7)).await.to_string(), number);
    app.stop().await;
}
