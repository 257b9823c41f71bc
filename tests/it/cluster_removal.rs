//! Recovery: deleted or quarantined clusters leave an account as if they had never existed.

use entity::{api_token::Scope, membership::Role};
use harness::{Member, Program, ReportBuilder, STARTED_AT, TestApp, error, usage};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    account_removal::id_of_member,
    convergence::rows::{Content, Ways},
    isolation::life::cluster,
};

const SHOWN: &str = r#"{ viewer { account {
    clusters(first: 100) { totalCount nodes { schedulerId totals { tasks } } }
    found: clusters(filter: { search: "cluster of shared" }) { totalCount }
    computations(first: 100) { totalCount nodes { state } }
    errors(first: 100) { totalCount nodes { message } }
    errorGroups(first: 100) { totalCount nodes { title occurrenceCount clusterCount firstSeenAt lastSeenAt } }
    events(first: 100) { totalCount nodes { topic } }
    logs(first: 100) { nodes { message } }
    spans(first: 100) { totalCount nodes { path } }
    flags(first: 100) { totalCount nodes { kind } }
    usage(from: "2026-11-19", to: "2026-11-22") { threadSeconds errors tasks }
    usageTable(from: "2026-11-19", to: "2026-11-22", by: [USER, DAY]) { day user { name } clusters usage { threadSeconds } }
    functions: usageTable(from: "2026-11-19", to: "2026-11-22", by: [FUNCTION]) { function { prefix computeSeconds } }
} } }"#;

/// A member's view of the account, with a uniform owner name.
async fn shown(member: &Member) -> Value {
    let shown = member.query(SHOWN, json!({})).await["viewer"]["account"].take();
    serde_json::from_str(&shown.to_string().replace(&format!("\"{}\"", member.name()), "\"owner\"")).unwrap()
}

/// A cluster with data of every kind, which both accounts have.
fn honest() -> Value {
    cluster("shared", "Scheduler-1", "x = 'shared'").with("/usage", json!([usage(11, 4)])).build()
}

/// A cluster with the same data, and further numbers, times and errors.
fn poison(scheduler: &str, sequence: i64) -> Value {
    let mut late = error(900, 11, 1);
    late["message"] = json!("ZeroDivisionError('shared')");
    late["at"] = json!(STARTED_AT + 90.0);
    let mut other = error(901, 11, 1);
    (other["type"], other["message"]) = (json!("PoisonError"), json!("PoisonError('x')"));
    let mut report = cluster("shared", scheduler, "x = 'shared'")
        .with("/sequence", sequence)
        .with("/usage", json!([usage(11, 4), usage(12, 4)]))
        .build();
    report["errors"].as_array_mut().unwrap().extend([late, other]);
    report
}

async fn same_content(app: &TestApp, one: &Member, other: &Member) {
    let (one, other) = (Content::of(app, one, Ways::Same).await, Content::of(app, other, Ways::Same).await);
    assert_eq!(one.differences(&other), "");
}

async fn id_of(member: &Member, number: i64) -> Value {
    let query = "query($id: ID!) { cluster(id: $id) { id } }";
    member.query(query, json!({ "id": number.to_string() })).await["cluster"]["id"].take()
}

async fn refused(member: &Member, report: &Value, expected_code: &str) {
    let (status, body) = member.report(report).await;
    assert_eq!((status, body["code"].as_str()), (StatusCode::CONFLICT, Some(expected_code)), "{body}");
}

/// Two accounts with the same cluster. The first has a member whose token leaked.
async fn accounts(app: &TestApp) -> (Member, Member, Member) {
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mallory = app.member_with("mallory", "ada", Role::Member).await;
    for member in [&ada, &bob] {
        member.reported(&honest()).await;
    }
    app.run_jobs().await;
    assert_eq!(shown(&ada).await, shown(&bob).await);
    let leaked = mallory.with_token(mallory.token(&[Scope::Ingest], None).await);
    (ada, bob, leaked)
}

const DELETE: &str = "mutation($id: ID!) { deleteCluster(input: { clusterId: $id }) {
    account { clusters { totalCount } } userErrors { code } } }";

#[tokio::test]
async fn an_account_whose_poisoned_cluster_was_deleted_is_as_one_that_never_had_it() {
    let app = TestApp::start().await;
    let (ada, bob, leaked) = accounts(&app).await;
    let number = leaked.reported(&poison("Scheduler-9", 100)).await;
    app.run_jobs().await;
    let poisoned = shown(&ada).await;
    assert_eq!(poisoned["usage"]["threadSeconds"], 3.0 * 4.0 * 3_600.0);
    assert_eq!(poisoned["clusters"]["totalCount"], 2);
    assert_eq!(poisoned["errorGroups"]["totalCount"], 2);

    let id = id_of(&ada, number).await;
    let answer = ada.query(DELETE, json!({ "id": id })).await;
    assert_eq!(
        answer["deleteCluster"],
        json!({ "account": { "clusters": { "totalCount": 1 } }, "userErrors": [] })
    );
    // It is hidden at once, and from daily sums after folding. Nothing is removed yet.
    app.fold_usage().await;
    let (mut hidden, mut never) = (shown(&ada).await, shown(&bob).await);
    assert_eq!(hidden, never);
    let again = ada.ask(DELETE, json!({ "id": id })).await;
    assert_eq!(again["errors"][0]["extensions"]["code"], "NOT_FOUND", "{again}");

    refused(&leaked, &poison("Scheduler-9", 101), "CLUSTER_DELETED").await;
    let did = app.run_jobs().await;
    assert_eq!(did.get("removal.clusters"), Some(&1), "{did:?}");
    assert!(did["removal.rows"] > 30, "{did:?}");
    same_content(&app, &ada, &bob).await;
    // A scheduler that keeps reporting does not restore it.
    refused(&leaked, &poison("Scheduler-9", 102), "CLUSTER_DELETED").await;
    assert_eq!(app.run_jobs().await.get("removal.rows"), None);
    same_content(&app, &ada, &bob).await;
    // If the identifier is that of somebody else's scheduler, that one is reported as if for the first time.
    let own = [&ada, &bob].map(|member| async { member.reported(&poison("Scheduler-9", 103)).await });
    let own = futures::future::join_all(own).await;
    refused(&leaked, &poison("Scheduler-9", 104), "NOT_CLUSTER_OWNER").await;
    app.run_jobs().await;
    assert_eq!(shown(&ada).await, shown(&bob).await);
    let mut deleted = Vec::new();
    for (member, number) in [&ada, &bob].into_iter().zip(own) {
        deleted.push(id_of(member, number).await);
        member.query(DELETE, json!({ "id": deleted.last() })).await;
        refused(member, &poison("Scheduler-9", 105), "CLUSTER_DELETED").await;
    }
    app.run_jobs().await;
    same_content(&app, &ada, &bob).await;
    (hidden, never) = (shown(&ada).await, shown(&bob).await);
    assert_eq!(hidden, never);

    let log = "{ viewer { account { auditLog(filter: { action: DELETE_CLUSTER }) { nodes { outcome target { id } detail } } } } }";
    assert_eq!(
        ada.query(log, json!({})).await["viewer"]["account"]["auditLog"]["nodes"],
        json!([&deleted[0], &id].map(|id| {
            json!({ "outcome": "DONE", "target": { "id": id }, "detail": { "scheduler_id": "Scheduler-9" } })
        }))
    );
    app.stop().await;
}

const FORGET: &str = "mutation($token: String!, $since: DateTime!, $confirm: Boolean!) {
    forgetToken(input: { tokenId: $token, since: $since, confirm: $confirm }) { isConfirmed userErrors { field code }
        counts { clusters clustersFromBefore workers computations taskGroups spans errors events logLines profiles
            usageHours } } }";
const RESTORE: &str = "mutation($token: String!) { restoreToken(input: { tokenId: $token }) { clusters } }";

async fn forget(ada: &Member, of: &Member, since: &str, confirm: bool) -> Value {
    let variables = json!({ "token": identifier(of), "since": since, "confirm": confirm });
    ada.query(FORGET, variables).await["forgetToken"].take()
}

fn identifier(member: &Member) -> &str {
    member.secret().split('-').next().unwrap()
}

/// The counts of this number of the tests' poisoned clusters.
fn counts(clusters: i64, from_before: i64) -> Value {
    json!({
        "clusters": clusters, "clustersFromBefore": from_before, "workers": 2 * clusters, "computations": clusters,
        "taskGroups": 2 * clusters, "spans": 2 * clusters, "errors": 14 * clusters, "events": clusters,
        "logLines": clusters, "profiles": clusters, "usageHours": 2 * clusters,
    })
}

#[tokio::test]
async fn what_a_token_reported_is_quarantined_restored_and_removed() {
    let app = TestApp::start().await;
    let (ada, bob, leaked) = accounts(&app).await;
    // One before the forgotten period and two within it; and one by another token of the same user,
    // which stays.
    let other = leaked.with_token(app.token_of("mallory", "ada", &[Scope::Ingest]).await);
    let kept = |name: &str| ReportBuilder::new(name, 1).build();
    leaked.reported(&kept("Scheduler-5")).await;
    other.reported(&kept("Scheduler-6")).await;
    bob.reported(&kept("Scheduler-5")).await;
    bob.reported(&kept("Scheduler-6")).await;
    app.set_clock("2026-11-20T12:10:00Z");
    for scheduler in ["Scheduler-8", "Scheduler-9"] {
        leaked.reported(&poison(scheduler, 100)).await;
    }
    app.run_jobs().await;
    let poisoned = shown(&ada).await;
    let nothing = json!({ "isConfirmed": false, "counts": counts(0, 0),
        "userErrors": [{ "field": "confirm", "code": "NOT_FOUND" }] });
    let since = "2026-11-20T12:05:00Z";
    assert_eq!(forget(&ada, &leaked, since, true).await, nothing);

    let quarantined = json!({ "isConfirmed": false, "counts": counts(2, 0), "userErrors": [] });
    assert_eq!(forget(&ada, &leaked, since, false).await, quarantined);
    assert_eq!(forget(&ada, &leaked, since, false).await, quarantined);
    app.run_jobs().await;
    let clean = shown(&ada).await;
    for list in ["errors", "errorGroups", "events", "logs", "spans", "usage", "functions", "computations"] {
        assert_eq!(clean[list], shown(&bob).await[list], "{list}");
    }
    assert_eq!(clean["clusters"]["totalCount"], 3);
    refused(&leaked, &poison("Scheduler-8", 101), "CLUSTER_QUARANTINED").await;

    // Everything is restored unchanged.
    assert_eq!(
        ada.query(RESTORE, json!({ "token": identifier(&leaked) })).await["restoreToken"]["clusters"],
        2
    );
    app.run_jobs().await;
    assert_eq!(shown(&ada).await, poisoned);
    assert_eq!(
        ada.query(RESTORE, json!({ "token": identifier(&leaked) })).await["restoreToken"]["clusters"],
        0
    );
    leaked.reported(&poison("Scheduler-8", 102)).await;

    // And removed for good.
    assert_eq!(forget(&ada, &leaked, since, false).await, quarantined);
    let confirmed = json!({ "isConfirmed": true, "counts": counts(2, 0), "userErrors": [] });
    assert_eq!(forget(&ada, &leaked, since, true).await, confirmed);
    assert_eq!(forget(&ada, &leaked, since, true).await, nothing);
    assert_eq!(
        ada.query(RESTORE, json!({ "token": identifier(&leaked) })).await["restoreToken"]["clusters"],
        0
    );
    app.run_jobs().await;
    assert_eq!(shown(&ada).await, clean);
    refused(&leaked, &poison("Scheduler-8", 103), "CLUSTER_DELETED").await;

    // A cluster is removed as a whole, and the result states that it existed before.
    let whole = forget(&ada, &leaked, "2026-11-20T12:00:30Z", false).await;
    assert_eq!(whole["counts"]["clusters"], 1);
    assert_eq!(whole["counts"]["clustersFromBefore"], 1);
    app.stop().await;
}

#[tokio::test]
async fn what_schedulers_reported_with_exchanged_tokens_is_forgotten_with_the_token() {
    let app = TestApp::start().await;
    let (ada, _, leaked) = accounts(&app).await;
    for scheduler in ["Scheduler-7", "Scheduler-8", "Scheduler-9"] {
        let request = leaked.request(Method::POST, "/api/v1/scheduler-tokens").json(&json!({}));
        let exchanged: Value = request.send().await.unwrap().json().await.unwrap();
        let scheduler_token = leaked.with_token(exchanged["token"].as_str().unwrap().to_owned());
        scheduler_token.reported(&poison(scheduler, 100)).await;
    }
    let since = "2026-11-20T11:00:00Z";
    let whole = forget(&ada, &leaked, since, false).await;
    assert_eq!(whole["counts"]["clusters"], 3);
    assert_eq!(
        ada.query(RESTORE, json!({ "token": identifier(&leaked) })).await["restoreToken"]["clusters"],
        3
    );
    // Ended tokens of schedulers are removed after a day, and what they reported is still found.
    app.set_clock("2026-11-26T12:00:00Z");
    app.run_jobs().await;
    assert_eq!(forget(&ada, &leaked, since, false).await["counts"]["clusters"], 3);
    // So it is after the user has left, whose tokens are deleted.
    let remove = "mutation($id: ID!) { removeMember(user: $id) { userErrors { code } } }";
    let mallory = id_of_member(&ada, "mallory").await;
    assert_eq!(ada.query(remove, json!({ "id": mallory })).await["removeMember"]["userErrors"], json!([]));
    assert_eq!(forget(&ada, &leaked, since, true).await["isConfirmed"], true);
    app.stop().await;
}

#[tokio::test]
async fn an_operator_deletes_clusters_and_forgets_tokens() {
    let app = TestApp::start().await;
    let (ada, bob, leaked) = accounts(&app).await;
    let run = async |command: &[&str]| {
        Program::run(&[command, &["--account", "ada", "--database-url", app.database.url()]].concat()).await
    };
    let number = leaked.reported(&poison("Scheduler-8", 100)).await.to_string();
    leaked.reported(&poison("Scheduler-9", 100)).await;
    for (status, message) in [(Some(0), ""), (Some(1), "there is no cluster")] {
        let (done, output, errors) = run(&["cluster", "delete", &number]).await;
        assert_eq!((done, output.as_str()), (status, ""), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
    let since = ["--since", "2026-11-20T00:00:00Z"];
    let forget = async |more: &[&str]| {
        run(&[&["token", "forget", identifier(&leaked)], &since[..], more].concat()).await
    };
    let (status, _, errors) = forget(&["--confirm"]).await;
    assert_eq!(status, Some(1));
    assert!(errors.contains("nothing is quarantined"), "{errors}");
    let (status, output, errors) = forget(&[]).await;
    assert_eq!(status, Some(0), "{errors}");
    assert!(output.contains("clusters        1\n") && output.contains("errors          14\n"), "{output}");
    let (status, output, errors) = run(&["token", "restore", identifier(&leaked)]).await;
    assert_eq!((status, output.as_str()), (Some(0), "1 clusters\n"), "{errors}");
    for more in [&[][..], &["--confirm"]] {
        let (status, _, errors) = forget(more).await;
        assert_eq!(status, Some(0), "{errors}");
    }
    app.run_jobs().await;
    same_content(&app, &ada, &bob).await;
    app.stop().await;
}
