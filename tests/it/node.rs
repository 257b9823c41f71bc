//! Objects by their global identifier, by role; and clusters by their number in changes.

use entity::membership::Role;
use harness::{Member, ReportBuilder, TestApp, error, log_line, span, uuid, worker};
use serde_json::{Value, json};

const NODE: &str = "query($id: ID!) { node(id: $id) { __typename id } }";

async fn find(member: &Member, id: &Value) -> Value {
    member.query(NODE, json!({ "id": id })).await["node"]["__typename"].clone()
}

/// Objects of the lists that only owners and admins read do not exist for others, but their own tokens do.
#[tokio::test]
async fn a_node_is_found_by_those_who_may_read_a_list_of_it() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    let made = ada
        .query(
            "mutation {
                createAlertRule(input: { name: \"r\", condition: { flags: [IDLE] }, emails: [\"a@example.com\"] }) {
                    alertRule { id } }
                inviteMember(input: { role: VIEWER }) { invitation { id } }
                createToken(input: { scopes: [READ], expiresAt: \"2099-01-01T00:00:00Z\" }) { token { id } } }",
            json!({}),
        )
        .await;
    let lists = ada
        .query(
            "{ viewer { account { members { nodes { id role } } auditLog(first: 1) { nodes { id } } } } }",
            json!({}),
        )
        .await;
    let account = &lists["viewer"]["account"];
    let own =
        bob.query("{ viewer { tokens { nodes { id } } } }", json!({})).await["viewer"]["tokens"]["nodes"][0]
            ["id"]
            .clone();
    for (noun, id) in [
        ("AlertRule", &made["createAlertRule"]["alertRule"]["id"]),
        ("Invitation", &made["inviteMember"]["invitation"]["id"]),
        ("ApiToken", &made["createToken"]["token"]["id"]),
        ("Member", &account["members"]["nodes"][0]["id"]),
        ("AuditEntry", &account["auditLog"]["nodes"][0]["id"]),
    ] {
        assert_eq!((find(&ada, id).await, find(&bob, id).await), (json!(noun), Value::Null), "{noun}");
    }
    assert_eq!((find(&ada, &own).await, find(&bob, &own).await), (json!("ApiToken"), json!("ApiToken")));
    app.stop().await;
}

#[tokio::test]
async fn changes_take_the_number_of_a_cluster() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.plain_account("ada").await, app.plain_account("bob").await);
    for scheduler in ["Scheduler-1", "Scheduler-2"] {
        ada.reported(&ReportBuilder::new(scheduler, 1).build()).await;
    }
    bob.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let user = ada.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone();
    let changes = format!(
        "mutation($id: ID!) {{
            tags: setClusterTags(cluster: $id, tags: [{{ key: \"a\" }}]) {{ ...changed }}
            notes: setClusterNotes(cluster: $id, text: \"a note\") {{ ...changed }}
            keep: keepAlive(cluster: $id, seconds: 60) {{ ...changed }}
            owner: handOverCluster(input: {{ clusterId: $id, userId: {user} }}) {{ ...changed }}
            state: setDesiredState(cluster: $id, state: STOPPED) {{ ...changed }} }}
        fragment changed on ClusterPayload {{ cluster {{ number schedulerId }} userErrors {{ message }} }}"
    );
    let answer = ada.query(&changes, json!({ "id": 2 })).await;
    let expected = json!({ "cluster": { "number": 2, "schedulerId": "Scheduler-2" }, "userErrors": [] });
    for (change, payload) in answer.as_object().unwrap() {
        assert_eq!(*payload, expected, "{change}");
    }
    let query = "{ viewer { account { clusters(filter: { ids: [\"2\", \"9\"] }) { nodes {
        number desiredState tags { key } notes { text } } } } } }";
    let found = ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"].clone();
    let expected = json!([{ "number": 2, "desiredState": "STOPPED", "tags": [{ "key": "a" }], "notes": { "text": "a note" } }]);
    assert_eq!(found, expected);

    // Another account has no cluster of this number, and its first one is its own.
    let remove = "mutation($id: ID!) { deleteCluster(input: { clusterId: $id }) { userErrors { message } } }";
    for (number, code) in [("2", "NOT_FOUND"), ("-1", "NOT_FOUND"), ("two", "NOT_FOUND")] {
        let refused = bob.ask(remove, json!({ "id": number })).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], code, "{number}: {refused}");
    }
    let removed = bob.query(remove, json!({ "id": "1" })).await;
    assert_eq!(removed["deleteCluster"]["userErrors"], json!([]));
    let data = "mutation { deleteData(input: { class: LOGS, clusterId: 1 }) { userErrors { message } } }";
    assert_eq!(ada.query(data, json!({})).await["deleteData"]["userErrors"], json!([]));
    let count = "{ viewer { account { clusters { totalCount } } } }";
    let left = |answer: Value| answer["viewer"]["account"]["clusters"]["totalCount"].clone();
    assert_eq!(
        (left(ada.query(count, json!({})).await), left(bob.query(count, json!({})).await)),
        (json!(2), json!(0))
    );
    app.stop().await;
}

#[tokio::test]
async fn log_lines_are_chosen_by_either_identifier_of_a_worker() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let line = |number: u32, of: u128| {
        let mut line = log_line(number, &format!("line {number}"));
        (line["source"], line["worker"], line["worker_id"]) =
            (json!("worker"), json!(format!("tcp://10.0.0.1:{of}")), json!(uuid(of)));
        line
    };
    let report = |scheduler: &str| {
        ReportBuilder::new(scheduler, 1)
            .with("/workers", json!([worker(30), worker(31)]))
            .with("/logs", json!([line(1, 30), line(2, 31)]))
    };
    let number = ada.reported(&report("Scheduler-1").build()).await;
    let other = ada.reported(&report("Scheduler-2").build()).await;
    let workers = "query($id: ID!) { cluster(id: $id) { workers { nodes { id daskId } } } }";
    let id = async |number: i64| {
        let answer = ada.query(workers, json!({ "id": number.to_string() })).await;
        let nodes = answer["cluster"]["workers"]["nodes"].as_array().unwrap().clone();
        nodes.iter().find(|node| node["daskId"] == uuid(31)).unwrap()["id"].clone()
    };
    let logs =
        "query($id: ID!, $worker: ID) { cluster(id: $id) { logs(workerId: $worker) { nodes { message } } } }";
    for worker in [id(number).await, json!(uuid(31))] {
        let answer = ada.query(logs, json!({ "id": number.to_string(), "worker": worker })).await;
        assert_eq!(answer["cluster"]["logs"]["nodes"], json!([{ "message": "line 2" }]));
    }
    for (worker, code) in [(id(other).await, "NOT_FOUND"), (json!("none"), "BAD_USER_INPUT")] {
        let refused = ada.ask(logs, json!({ "id": number.to_string(), "worker": worker })).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], code, "{refused}");
    }
    app.stop().await;
}

const NUMBERED: &str = "query($cluster: ID!, $type: NumberedType!, $number: BigInt!) {
    numbered(cluster: $cluster, type: $type, number: $number) { id __typename
        ... on Worker { daskId number } ... on Span { daskId number } ... on ErrorOccurrence { key number } } }";

#[tokio::test]
async fn workers_spans_and_errors_have_short_numbers() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let with = |mut item: Value, number: i64| {
        item["number"] = json!(number);
        item
    };
    let failed = |id: u128, key: &str| {
        let mut failed = error(id, 10, 1);
        failed["key"] = json!(key);
        failed
    };
    let report = |number: &dyn Fn(Value, i64) -> Value| {
        ReportBuilder::new("Scheduler-1", 1)
            .with("/workers", json!([number(worker(30), 2), number(worker(31), 1)]))
            .with("/spans", json!([number(span(40, None, &["etl"], 0.0, None), 1)]))
            .with("/errors", json!([number(failed(50, "load-1"), 1), number(failed(51, "load-2"), 2)]))
            .build()
    };
    let cluster = ada.reported(&report(&with)).await;
    let other = bob.reported(&report(&|item, _| item)).await;
    let found = async |member: &Member, cluster: i64, of: &str, number: i64| {
        let variables = json!({ "cluster": cluster.to_string(), "type": of, "number": number });
        member.query(NUMBERED, variables).await["numbered"].take()
    };
    for (of, number, name, expected) in [
        ("WORKER", 1, "daskId", json!(uuid(31))),
        ("WORKER", 2, "daskId", json!(uuid(30))),
        ("SPAN", 1, "daskId", json!(uuid(40))),
        ("ERROR", 2, "key", json!("load-2")),
    ] {
        let object = found(&ada, cluster, of, number).await;
        assert_eq!((&object[name], &object["number"]), (&expected, &json!(number)), "{of}: {object}");
        assert_eq!(find(&ada, &object["id"]).await, object["__typename"]);
    }
    for (of, number) in [("WORKER", 3), ("SPAN", 2), ("ERROR", 0), ("ERROR", -1)] {
        assert_eq!(found(&ada, cluster, of, number).await, Value::Null, "{of} {number}");
    }
    // Reporters that do not count, and other accounts.
    assert_eq!(found(&bob, other, "WORKER", 1).await, Value::Null);
    let workers = "query($id: ID!) { cluster(id: $id) { workers { nodes { number } } } }";
    let theirs = bob.query(workers, json!({ "id": other.to_string() })).await;
    assert_eq!(theirs["cluster"]["workers"]["nodes"], json!([{ "number": null }, { "number": null }]));
    let id =
        ada.query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": cluster.to_string() })).await;
    let variables = json!({ "cluster": id["cluster"]["id"], "type": "SPAN", "number": 1 });
    assert_eq!(ada.query(NUMBERED, variables.clone()).await["numbered"]["daskId"], json!(uuid(40)));
    assert_eq!(bob.query(NUMBERED, variables).await["numbered"], Value::Null);
    app.stop().await;
}
