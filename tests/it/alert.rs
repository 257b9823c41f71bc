//! Alerts: rules, messages, and unreliable receivers.

use std::{collections::BTreeSet, fs, path::Path, process::Stdio};

use chrono::{DateTime, TimeDelta, Utc};
use entity::api_token::Scope;
use galvo::{config::SmtpConfig, encryption::Keys, key_ring::KeySource};
use harness::{
    Answer, Database, MailReceiver, Member, Program, Received, ReportBuilder, TestApp, WebhookReceiver,
    error, sample, usage,
};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

const CREATE: &str = "mutation($input: AlertRuleInput!) { result: createAlertRule(input: $input) {
    secret alertRule { identifier webhooks emails } userErrors { field code message } } }";
const UPDATE: &str = "mutation($identifier: String!, $input: AlertRuleInput!, $new: Boolean! = false) {
    result: updateAlertRule(identifier: $identifier, input: $input, newSecret: $new) {
        secret alertRule { name webhooks emails } userErrors { field code message } } }";
const TEST: &str = "mutation($identifier: String!) { result: testAlertRule(identifier: $identifier) {
    deliveries { identifier channel event target state attempts } } }";
const DELIVERIES: &str =
    "{ viewer { account { alertDeliveries(first: 100) { totalCount nodes { identifier ruleName channel
    event target state attempts nextAttemptAt endedAt lastError } } } } }";
const ALERTS: &str =
    "{ viewer { account { alerts(active: null) { nodes { ruleName since until isActive value unit flag
    cluster { name } user { name } } } } } }";

/// A server whose members may have requests sent to this machine.
async fn start() -> TestApp {
    TestApp::start_with(|serve| serve.alerts.private_targets = true).await
}

/// Creates a rule, and returns its identifier and secret.
async fn rule(member: &Member, input: Value) -> (String, String) {
    let mut made = member.query(CREATE, json!({ "input": input })).await["result"].take();
    assert_eq!(made["userErrors"], json!([]), "{input}");
    let text = |value: Value| value.as_str().unwrap().to_owned();
    (text(made["alertRule"]["identifier"].take()), text(made["secret"].take()))
}

async fn deliveries(member: &Member) -> Vec<Value> {
    let mut found = member.query(DELIVERIES, json!({})).await["viewer"]["account"]["alertDeliveries"].take();
    let nodes: Vec<Value> = found["nodes"].as_array_mut().unwrap().drain(..).collect();
    assert_eq!(found["totalCount"], nodes.len());
    nodes
}

async fn alerts(member: &Member) -> Value {
    member.query(ALERTS, json!({})).await["viewer"]["account"]["alerts"]["nodes"].take()
}

/// The states and texts in a request.
fn states_and_texts(request: &Received) -> Vec<(String, String)> {
    let body = request.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let alerts = body["alerts"].as_array().unwrap().iter();
    alerts.map(|alert| (text(&alert["state"]), text(&alert["text"]))).collect()
}

/// A report of a cluster with this percentage of its memory in use.
fn memory(name: &str, sequence: i64, used: i64) -> Value {
    let samples = (0..5).map(|back| {
        let metrics = json!({ "memory_process_bytes": used, "memory_limit_bytes": 100 });
        sample(None, (sequence - 15 * back) * 1_000, metrics)
    });
    let report = ReportBuilder::new(name, sequence).with("/cluster/name", name);
    report.with("/samples", samples.collect::<Vec<_>>()).build()
}

async fn tag(member: &Member, cluster: i64, key: &str) {
    let id = member
        .query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": cluster.to_string() }))
        .await;
    let set = "mutation($id: ID!, $key: String!) { setClusterTags(cluster: $id, tags: [{ key: $key }]) { userErrors { field } } }";
    member.query(set, json!({ "id": id["cluster"]["id"], "key": key })).await;
}

#[tokio::test]
async fn a_flag_is_sent_when_it_comes_and_when_it_goes_and_not_in_between() {
    let (app, receiver) = (start().await, WebhookReceiver::start().await);
    let ada = app.account("ada").await;
    let condition = json!({ "flags": ["MEMORY_PRESSURE", "IDLE"] });
    let (identifier, _) =
        rule(&ada, json!({ "name": "Memory", "condition": condition, "webhooks": [receiver.url()] })).await;
    let number = ada.reported(&memory("etl", 100, 90)).await;
    app.run_jobs().await;
    app.run_jobs().await;
    let requests = receiver.received();
    assert_eq!(requests.len(), 1, "it is sent once");
    let mut body = requests[0].json();
    let id = body["alerts"][0]["id"].take();
    assert!(id.is_string());
    let key = requests[0].header("idempotency-key").to_owned();
    assert_eq!(
        body,
        json!({
            "version": 1, "id": key, "event": "alerts", "created_at": "2026-11-20T12:00:00.000Z", "account": "ada",
            "rule": { "id": identifier, "name": "Memory" }, "more": 0,
            "alerts": [{ "id": null, "state": "firing", "since": "2026-11-20T12:00:00.000Z", "until": null, "value": 0.9,
                "unit": "share", "cluster": { "number": number, "name": "etl" }, "user": null, "flag": "MEMORY_PRESSURE",
                "text": "Cluster etl: The workers used 90 % of their memory." }],
        })
    );
    assert_eq!(requests[0].target, "POST /hook/secret-path");
    assert_eq!(requests[0].header("content-type"), "application/json");
    assert!(requests[0].header("user-agent").starts_with("galvo/"));
    let alert = |until: Value, value: f64| {
        json!([{ "ruleName": "Memory", "since": "2026-11-20T12:00:00+00:00", "isActive": until.is_null(), "until": until,
            "value": value, "unit": "share", "flag": "MEMORY_PRESSURE", "cluster": { "name": "etl" }, "user": null }])
    };
    assert_eq!(alerts(&ada).await, alert(Value::Null, 0.9));

    app.set_clock("2026-11-20T12:05:00Z");
    ada.reported(&memory("etl", 400, 10)).await;
    app.run_jobs().await;
    assert_eq!(alerts(&ada).await, alert(json!("2026-11-20T12:05:00+00:00"), 0.9));
    let requests = receiver.received();
    assert_eq!(requests.len(), 2);
    let resolved = ("resolved".to_owned(), "Cluster etl: The workers used 90 % of their memory.".to_owned());
    assert_eq!(states_and_texts(&requests[1]), [resolved]);
    assert_eq!(requests[1].json()["alerts"][0]["id"], id, "it is the same alert");
    assert_ne!(requests[1].header("idempotency-key"), key);

    // The flag is raised again within the hour's cooldown, so no message is sent until that is over.
    app.set_clock("2026-11-20T12:10:00Z");
    ada.reported(&memory("etl", 700, 95)).await;
    app.run_jobs().await;
    assert_eq!(receiver.received().len(), 2);
    app.set_clock("2026-11-20T13:00:00Z");
    ada.reported(&memory("etl", 3_700, 95)).await;
    app.run_jobs().await;
    assert_eq!(receiver.received().len(), 3);
    // Muting a flag resolves it, too.
    let mute = "mutation { muteFlag(input: { kind: MEMORY_PRESSURE }) { userErrors { field } } }";
    ada.query(mute, json!({})).await;
    app.run_jobs().await;
    assert_eq!(states_and_texts(&receiver.received()[3])[0].0, "resolved");
    app.stop().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn alerts_of_failures_costs_and_idleness_name_whose_they_are() {
    let (app, receiver) = (start().await, WebhookReceiver::start().await);
    let ada = app.account("ada").await;
    let bob = app.member("bob", "ada").await;
    let url = receiver.url();
    let rules =
        |name: &str, condition: Value| json!({ "name": name, "condition": condition, "webhooks": [url] });
    let failures =
        |count: i64, of: &str| json!({ "failures": { "count": count, "withinSeconds": 3_600, "of": of } });
    let cost = |amount: f64, of: &str| json!({ "cost": { "amount": amount, "of": of, "days": 1 } });
    for (name, condition) in [
        ("fail-cluster", failures(2, "CLUSTER")),
        ("fail-user", failures(3, "USER")),
        ("fail-all", failures(6, "ACCOUNT")),
        ("fail-never", failures(7, "ACCOUNT")),
        ("cost-cluster", cost(0.2, "CLUSTER")),
        ("cost-user", cost(0.3, "USER")),
        ("cost-all", cost(0.5, "ACCOUNT")),
        ("cost-never", cost(0.51, "ACCOUNT")),
        ("idle", json!({ "idle": { "forSeconds": 60 } })),
        ("idle-never", json!({ "idle": { "forSeconds": 62 } })),
    ] {
        rule(&ada, rules(name, condition)).await;
    }
    let mut tagged = rules("tagged", failures(1, "ACCOUNT"));
    tagged["tags"] = json!([{ "key": "nightly" }]);
    rule(&ada, tagged).await;
    let mut tagged_user = rules("tagged-user", failures(1, "USER"));
    tagged_user["tags"] = json!([{ "key": "nightly" }]);
    rule(&ada, tagged_user).await;
    let users =
        ada.query("{ viewer { account { members { nodes { user { id name } } } } } }", json!({})).await;
    let users = users["viewer"]["account"]["members"]["nodes"].as_array().unwrap().clone();
    let id =
        |name: &str| users.iter().find(|node| node["user"]["name"] == name).unwrap()["user"]["id"].clone();
    let mut of_bob = rules("of-bob", failures(1, "CLUSTER"));
    of_bob["users"] = json!([id("bob")]);
    rule(&ada, of_bob).await;

    // At 5 cents per hour: a and b of Ada cost 10 and 20 cents, c of Bob costs 20.
    for (member, name, errors, threads) in [(&ada, "a", 1_u128, 2), (&ada, "b", 2, 4), (&bob, "c", 3, 4)] {
        let errors: Vec<Value> = (0..errors).map(|number| error(100 + number, 11, 1)).collect();
        let mut report = ReportBuilder::new(name, 100).with("/cluster/name", name).with("/errors", errors);
        report = report.with("/usage", json!([usage(11, threads)]));
        if name == "b" {
            report = report.with("/cluster/idle_since", 1_795_172_400.0 + 39.0);
        }
        let number = member.reported(&report.build()).await;
        if name == "a" {
            tag(&ada, number, "nightly").await;
        }
    }
    app.run_jobs().await;
    let texts: BTreeSet<(String, String)> = receiver
        .received()
        .iter()
        .flat_map(|request| {
            let rule = request.json()["rule"]["name"].as_str().unwrap().to_owned();
            states_and_texts(request).into_iter().map(move |(state, text)| {
                assert_eq!(state, "firing");
                (rule.clone(), text)
            })
        })
        .collect();
    let expected = [
        ("fail-cluster", "Cluster b: 2 errors within 1 h 0 min."),
        ("fail-cluster", "Cluster c: 3 errors within 1 h 0 min."),
        ("fail-user", "Clusters of ada: 3 errors within 1 h 0 min."),
        ("fail-user", "Clusters of bob: 3 errors within 1 h 0 min."),
        ("fail-all", "All clusters: 6 errors within 1 h 0 min."),
        ("cost-cluster", "Cluster b: 0.20 USD today."),
        ("cost-cluster", "Cluster c: 0.20 USD today."),
        ("cost-user", "Clusters of ada: 0.30 USD today."),
        ("cost-all", "All clusters: 0.50 USD today."),
        ("idle", "Cluster b: idle for 1 min."),
        ("tagged", "The rule's clusters: 1 error within 1 h 0 min."),
        ("tagged-user", "The rule's clusters of ada: 1 error within 1 h 0 min."),
        ("of-bob", "Cluster c: 3 errors within 1 h 0 min."),
    ];
    let expected = expected.map(|(rule, text)| (rule.to_owned(), text.to_owned()));
    assert_eq!(texts, expected.into());
    assert_eq!(receiver.received().len(), 10, "one message for each rule that has something to report");

    // An hour later the errors are outside the window. The costs belong to another day, and are checked
    // every five minutes.
    app.set_clock("2026-11-20T12:00:02Z");
    app.run_jobs().await;
    assert_eq!(receiver.received().len(), 10);
    app.set_clock("2026-11-21T00:00:00Z");
    app.run_jobs().await;
    let resolved: BTreeSet<String> = receiver.received()[10..]
        .iter()
        .map(|request| {
            assert!(states_and_texts(request).iter().all(|(state, _)| state == "resolved"));
            request.json()["rule"]["name"].as_str().unwrap().to_owned()
        })
        .collect();
    let all = [
        "fail-cluster",
        "fail-user",
        "fail-all",
        "cost-cluster",
        "cost-user",
        "cost-all",
        "idle",
        "tagged",
        "tagged-user",
        "of-bob",
    ];
    assert_eq!(resolved, all.map(str::to_owned).into());
    app.stop().await;
}

#[tokio::test]
async fn what_does_not_arrive_is_sent_again_under_the_same_key_and_given_up_after_a_day() {
    let (app, receiver) = (start().await, WebhookReceiver::start().await);
    let ada = app.account("ada").await;
    let input = json!({ "name": "Test", "condition": { "flags": ["IDLE"] }, "webhooks": [receiver.url()] });
    let (identifier, _) = rule(&ada, input).await;
    let made = ada.query(TEST, json!({ "identifier": identifier })).await["result"]["deliveries"].take();
    let origin = receiver.url().replace("hook/secret-path", "…");
    assert_eq!(made[0]["target"], origin, "the path may be a secret");
    assert_eq!((&made[0]["event"], &made[0]["state"]), (&json!("TEST"), &json!("PENDING")));
    // A redirect is not followed, and an unresponsive receiver times out.
    receiver.answer(&[Answer::Status(500), Answer::Status(302), Answer::Silence]);
    let mut expected = Vec::new();
    for (time, next, error) in [
        ("12:00:00", Some("12:00:10"), Some("response with status 500 Internal Server Error")),
        ("12:00:10", Some("12:01:10"), Some("response with status 302 Found")),
        ("12:01:10", Some("12:06:10"), Some("no response within 5 s")),
        ("12:06:10", None, None),
    ] {
        app.set_clock(&format!("2026-11-20T{time}Z"));
        app.run_jobs().await;
        expected.push(time);
        let found = deliveries(&ada).await.remove(0);
        let moment = |time: Option<&str>| json!(time.map(|time| format!("2026-11-20T{time}+00:00")));
        assert_eq!(found["attempts"], expected.len());
        assert_eq!(found["nextAttemptAt"], moment(next));
        assert_eq!(found["lastError"], json!(error));
        assert_eq!(found["state"], if next.is_some() { "PENDING" } else { "DELIVERED" });
        assert_eq!(found["endedAt"], moment(next.is_none().then_some(time)));
        assert_eq!(receiver.received().len(), expected.len());
        app.run_jobs().await;
        assert_eq!(receiver.received().len(), expected.len(), "not before it is due");
    }
    let requests = receiver.received();
    let keys: BTreeSet<&str> = requests.iter().map(|request| request.header("idempotency-key")).collect();
    assert_eq!(keys.len(), 1);
    assert!(
        requests
            .iter()
            .all(|request| request.body == requests[0].body && request.target.ends_with("secret-path"))
    );
    let signatures: BTreeSet<&str> =
        requests.iter().map(|request| request.header("galvo-signature")).collect();
    assert_eq!(signatures.len(), 4, "each is signed with its own time");

    receiver.answer(&[Answer::Status(503); 20]);
    ada.query(TEST, json!({ "identifier": identifier })).await;
    for minute in 0..1_800 {
        if minute % 30 != 0 && minute > 20 {
            continue;
        }
        let (day, hour, minute) =
            (20 + (minute + 730) / 1_440, (minute + 730) / 60 % 24, (minute + 730) % 60);
        app.set_clock(&format!("2026-11-{day}T{hour:02}:{minute:02}:00Z"));
        app.run_jobs().await;
    }
    let found = deliveries(&ada).await.remove(0);
    assert_eq!(
        (&found["state"], &found["attempts"], &found["nextAttemptAt"]),
        (&json!("FAILED"), &json!(11), &Value::Null)
    );
    assert_eq!(receiver.received().len(), 15);
    app.stop().await;
}

#[tokio::test]
async fn a_message_that_was_under_way_when_the_server_was_killed_is_sent_again() {
    let receiver = WebhookReceiver::start().await;
    let database = Database::migrated().await;
    let run = async |arguments: &[&str]| {
        let (status, output, errors) =
            Program::run(&[arguments, &["--database-url", database.url()]].concat()).await;
        assert_eq!(status, Some(0), "{errors}");
        output.trim().to_owned()
    };
    run(&["account", "create", "team"]).await;
    run(&["user", "create", "ada", "--account", "team", "--role", "owner"]).await;
    let token =
        run(&["token", "create", "--user", "ada", "--account", "team", "--scope", "read", "admin"]).await;
    let keys = Keys::generate();
    let key = keys.reveal().trim().to_owned();
    let arguments = [
        "serve",
        "--database-url",
        database.url(),
        "--listen",
        "127.0.0.1:0",
        "--log",
        "debug",
        "--alert-private-targets",
    ];
    let mut command = Program::command(&arguments);
    command.env("GALVO_SECRET_KEY", &key).stderr(Stdio::null());
    let server = Program::spawn(&mut command).await;
    let send_query = async |query: &str, variables: Value| -> Value {
        let body = json!({ "query": query, "variables": variables });
        let request = server.client().post(server.url("/graphql")).bearer_auth(&token).json(&body);
        request.send().await.unwrap().json().await.unwrap()
    };
    let input = json!({ "name": "Test", "condition": { "flags": ["IDLE"] }, "webhooks": [receiver.url()] });
    let made = send_query(CREATE, json!({ "input": input })).await["data"]["result"].take();
    receiver.answer(&[Answer::Silence]);
    let tested = send_query(TEST, json!({ "identifier": made["alertRule"]["identifier"] })).await;
    assert_eq!(tested["data"]["result"]["deliveries"][0]["state"], "PENDING", "{tested}");
    // The request has been sent, but its delivery is not stored yet.
    receiver.wait_for(1).await;
    server.kill().await;

    let app =
        TestApp::start_on(database, KeySource::Ring(keys), |serve| serve.alerts.private_targets = true).await;
    let written =
        receiver.received()[0].json()["created_at"].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    app.set_clock(&(written + TimeDelta::hours(1)).to_rfc3339());
    app.run_jobs().await;
    let requests = receiver.received();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].header("idempotency-key"), requests[1].header("idempotency-key"));
    assert_eq!(requests[0].body, requests[1].body);
    app.run_jobs().await;
    assert_eq!(receiver.received().len(), 2, "it arrived");
    app.stop().await;
}

#[tokio::test]
async fn two_servers_send_a_message_once() {
    let receiver = WebhookReceiver::start().await;
    let keys = Keys::generate();
    let database = Database::migrated().await;
    let app = TestApp::start_on(database, KeySource::Ring(keys.clone()), |serve| {
        serve.alerts.private_targets = true;
    })
    .await;
    let other =
        TestApp::start_beside_with(&app, KeySource::Ring(keys), |serve| serve.alerts.private_targets = true)
            .await;
    let ada = app.account("ada").await;
    let condition = json!({ "flags": ["MEMORY_PRESSURE"] });
    rule(&ada, json!({ "name": "Memory", "condition": condition, "webhooks": [receiver.url()] })).await;
    for cluster in 0..5 {
        ada.reported(&memory(&format!("cluster-{cluster}"), 100, 90)).await;
    }
    for _ in 0..3 {
        tokio::join!(app.run_jobs(), other.run_jobs());
    }
    let requests = receiver.received();
    let all: Vec<(String, String)> = requests.iter().flat_map(states_and_texts).collect();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (5, 5), "{all:?}");
    other.stop().await;
    app.stop().await;
}

/// Verifies a signature as the documentation requires of receivers.
async fn verified_as_documented(secret: &str, request: &Received) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/alerts.md");
    let text = fs::read_to_string(path).unwrap();
    let snippet = text.split("```python\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let at: i64 = request.header("galvo-signature").split(['=', ',']).nth(1).unwrap().parse().unwrap();
    let call = "import sys, json\ncall = json.load(sys.stdin)\n\
        print(verify(call['secret'], call['signature'], call['body'].encode(), now=call['now']))\n";
    let mut python = tokio::process::Command::new("python3")
        .args(["-c", &format!("{snippet}\n{call}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = json!({ "secret": secret, "signature": request.header("galvo-signature"), "body": request.text(), "now": at + 10 });
    python.stdin.take().unwrap().write_all(input.to_string().as_bytes()).await.unwrap();
    let output = python.wait_with_output().await.unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim() == "True"
}

#[tokio::test]
async fn requests_are_signed_with_a_secret_that_lies_nowhere_in_the_open() {
    let (app, receiver) = (start().await, WebhookReceiver::start().await);
    let ada = app.account("ada").await;
    let input = json!({ "name": "Test", "condition": { "flags": ["IDLE"] }, "webhooks": [receiver.url()],
        "emails": ["ada@example.com"] });
    let (identifier, secret) = rule(&ada, input.clone()).await;
    assert!(secret.starts_with("whsec_") && secret.len() == 49, "{}", secret.len());
    ada.query(TEST, json!({ "identifier": identifier })).await;
    app.run_jobs().await;
    let request = receiver.received().remove(0);
    assert!(verified_as_documented(&secret, &request).await);
    let mut forged = request.clone();
    forged.body.push(b' ');
    assert!(!verified_as_documented(&secret, &forged).await);
    assert!(!verified_as_documented(&format!("{secret}x"), &request).await);

    // A new secret takes effect immediately, and addresses are kept if none are given.
    let change = json!({ "name": "Other", "condition": { "flags": ["IDLE"] } });
    let variables = json!({ "identifier": identifier, "input": change, "new": true });
    let mut changed = ada.query(UPDATE, variables).await["result"].take();
    let new = changed["secret"].take().as_str().unwrap().to_owned();
    let shown = receiver.url().replace("hook/secret-path", "…");
    let expected = json!({ "secret": null, "userErrors": [],
        "alertRule": { "name": "Other", "webhooks": [shown], "emails": ["ada@example.com"] } });
    assert_eq!(changed, expected);
    let unchanged = ada.query(UPDATE, json!({ "identifier": identifier, "input": change })).await;
    assert_eq!(unchanged["result"]["secret"], Value::Null);
    app.set_clock("2026-11-20T12:01:00Z");
    ada.query(TEST, json!({ "identifier": identifier })).await;
    app.run_jobs().await;
    let request = receiver.received().remove(1);
    assert!(verified_as_documented(&new, &request).await && !verified_as_documented(&secret, &request).await);

    let connection = app.database.connection().await;
    let backend = connection.get_database_backend();
    let addresses = ["whsec", "secret-path", "created_at"];
    for table in ["alert_rules", "alert_deliveries"] {
        let select = format!("SELECT sealed, key_id FROM {table}");
        for row in connection.query_all_raw(Statement::from_string(backend, select)).await.unwrap() {
            let (sealed, key_id): (Vec<u8>, i64) =
                (row.try_get_by_index(0).unwrap(), row.try_get_by_index(1).unwrap());
            assert_ne!(key_id, 0);
            let text = String::from_utf8_lossy(&sealed).into_owned();
            assert!(addresses.iter().all(|word| !text.contains(word)), "{table}");
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn requests_reach_nobody_but_the_public_unless_the_operator_allows_it() {
    let (app, receiver) = (TestApp::start().await, WebhookReceiver::start().await);
    let ada = app.account("ada").await;
    let port = receiver.url().rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let hosts =
        ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f000001", "2130706433", "127.1"];
    let hooks: Vec<String> = hosts
        .iter()
        .flat_map(|host| [format!("http://{host}:{port}/"), format!("https://{host}:{port}/")])
        .collect();
    for hooks in hooks.chunks(7) {
        let input = json!({ "name": "Inside", "condition": { "flags": ["IDLE"] }, "webhooks": hooks });
        let (identifier, _) = rule(&ada, input).await;
        ada.query(TEST, json!({ "identifier": identifier })).await;
    }
    app.run_jobs().await;
    assert_eq!(receiver.received().len(), 0);
    let found = deliveries(&ada).await;
    assert_eq!(found.len(), hooks.len());
    for delivery in found {
        let error = delivery["lastError"].as_str().unwrap();
        assert!(error.contains("the address is not public, or not encrypted"), "{delivery}");
    }
    app.stop().await;
}

#[tokio::test]
async fn e_mails_are_sent_until_they_are_taken() {
    let mail = MailReceiver::start().await;
    let smtp = SmtpConfig::new(&mail.url(), "Galvo <galvo@example.com>".parse().unwrap()).unwrap();
    let app = TestApp::start_with(|serve| serve.alerts.smtp = Some(smtp)).await;
    let ada = app.account("ada").await;
    let condition = json!({ "flags": ["MEMORY_PRESSURE"] });
    let input = json!({ "name": "Speicher über 80 %", "condition": condition, "emails": ["ada@example.com", "bob@example.com"] });
    rule(&ada, input).await;
    mail.refuse(1);
    ada.reported(&memory("etl", 100, 90)).await;
    app.run_jobs().await;
    assert_eq!(mail.received().len(), 1, "one was refused");
    let states: BTreeSet<String> =
        deliveries(&ada).await.iter().map(|found| found["state"].to_string()).collect();
    assert_eq!(states, ["\"DELIVERED\"".to_owned(), "\"PENDING\"".to_owned()].into());
    app.set_clock("2026-11-20T12:00:10Z");
    app.run_jobs().await;
    let mails = mail.received();
    let mut receivers: Vec<&str> = mails.iter().map(|mail| mail.envelope[1].as_str()).collect();
    receivers.sort_unstable();
    assert_eq!(receivers, ["RCPT TO:<ada@example.com>", "RCPT TO:<bob@example.com>"]);
    for mail in &mails {
        assert!(mail.envelope[0].starts_with("MAIL FROM:<galvo@example.com>"), "{:?}", mail.envelope);
        for part in [
            "From: Galvo <galvo@example.com>",
            "Subject: ",
            "Message-ID: <",
            "Cluster etl: The workers used 90",
        ] {
            assert!(mail.data.contains(part), "{part} is missing in:\n{}", mail.data);
        }
    }
    app.stop().await;

    // Without a mail server, no delivery is attempted.
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let input = json!({ "name": "Test", "condition": condition, "emails": ["ada@example.com"] });
    let (identifier, _) = rule(&ada, input).await;
    ada.query(TEST, json!({ "identifier": identifier })).await;
    app.run_jobs().await;
    let found = deliveries(&ada).await.remove(0);
    assert_eq!(
        (&found["state"], &found["lastError"]),
        (&json!("FAILED"), &json!("no mail server is configured"))
    );
    app.stop().await;
}

#[tokio::test]
async fn rules_are_refused_with_every_field_named_and_changed_by_admins_alone() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let flags = json!({ "flags": ["IDLE"] });
    for (input, wrong) in [
        (
            json!({ "name": "x", "condition": flags }),
            json!([["webhooks", "MISSING", "needs a webhook or an e-mail address"]]),
        ),
        (
            json!({ "name": " ", "condition": { "flags": [] }, "webhooks": ["ftp://x"], "emails": ["x"], "coolDownSeconds": 59 }),
            json!([
                ["name", "INVALID", "must have 1 to 100 characters, none of them a control character"],
                ["flags", "MISSING", "must be at least one kind"],
                ["coolDownSeconds", "OUT_OF_RANGE", "must be from 60 to 604800 seconds"],
                [
                    "webhooks",
                    "INVALID",
                    "must be an address beginning with https://, or http:// where the operator allows it, without a user or password"
                ],
                ["emails", "INVALID", "must be an e-mail address, such as ada@example.com"]
            ]),
        ),
        (
            json!({ "name": "x", "condition": { "cost": { "amount": -1, "currency": "usd", "days": 0 } }, "emails": ["a@b.de"] }),
            json!([
                ["amount", "OUT_OF_RANGE", "must be more than 0 and at most a thousand million"],
                ["currency", "INVALID", "must be three capital letters, as in USD"],
                ["days", "OUT_OF_RANGE", "must be from 1 to 31 days"]
            ]),
        ),
    ] {
        let made = ada.query(CREATE, json!({ "input": input })).await["result"].take();
        let errors = made["userErrors"].as_array().unwrap().iter();
        let errors = json!(
            errors.map(|error| json!([error["field"], error["code"], error["message"]])).collect::<Vec<_>>()
        );
        assert_eq!(errors, wrong, "{input}");
        assert_eq!((&made["alertRule"], &made["secret"]), (&Value::Null, &Value::Null));
    }
    for condition in
        [json!({}), json!({ "flags": ["IDLE"], "idle": { "forSeconds": 60 } }), json!({ "flags": null })]
    {
        let input = json!({ "name": "x", "condition": condition, "emails": ["a@b.de"] });
        let answer = ada.ask(CREATE, json!({ "input": input })).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{answer}");
    }
    let input = json!({ "name": "x", "condition": flags, "emails": ["a@b.de"] });
    let mut identifiers = Vec::new();
    for _ in 0..50 {
        identifiers.push(rule(&ada, input.clone()).await.0);
    }
    let made = ada.query(CREATE, json!({ "input": input })).await["result"].take();
    assert_eq!(
        made["userErrors"],
        json!([{ "field": "name", "code": "TOO_MANY", "message": "an account can have at most 50 rules" }])
    );

    let delete = "mutation($identifier: String!) { deleteAlertRule(identifier: $identifier) {
        account { alertRules { totalCount } } } }";
    let done = ada.query(delete, json!({ "identifier": identifiers[0] })).await;
    assert_eq!(done["deleteAlertRule"]["account"]["alertRules"]["totalCount"], 49);
    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    for (query, variables) in [
        (delete, json!({ "identifier": identifiers[0] })),
        (TEST, json!({ "identifier": "x" })),
        (UPDATE, json!({ "identifier": identifiers[0], "input": input })),
    ] {
        let answer = ada.ask(query, variables.clone()).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "NOT_FOUND", "{answer}");
        let answer = reader.ask(query, variables).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN", "{answer}");
    }
    app.stop().await;
}
