//! What becomes of clusters that have nothing to do: marked, stopped, kept, left alone, and told why.

use entity::api_token::Scope;
use harness::{Member, ReportBuilder, STARTED_AT, TestApp, sample};
use serde_json::{Value, json};

use crate::life_cycle::{cluster, id_of, server_time, told};

/// Sets a policy.
async fn policy(member: &Member, input: impl Into<Value>) {
    let input: Value = input.into();
    let set =
        "mutation($input: SetIdlePolicyInput!) { setIdlePolicy(input: $input) { userErrors { message } } }";
    let done = member.query(set, json!({ "input": input })).await;
    assert_eq!(done["setIdlePolicy"]["userErrors"], json!([]));
}

async fn keep(member: &Member, id: &Value, seconds: i64) -> Value {
    let keep = "mutation($id: ID!, $seconds: Int!) { keepAlive(cluster: $id, seconds: $seconds) {
        cluster { keptAliveUntil desiredState } userErrors { field code message } } }";
    member.query(keep, json!({ "id": id, "seconds": seconds })).await["keepAlive"].take()
}

/// A scheduler that reports every 15 seconds, on the server's clock.
struct Reporting<'a> {
    app: &'a TestApp,
    member: &'a Member,
    name: &'static str,
    number: i64,
}

impl<'a> Reporting<'a> {
    /// It starts, busy.
    async fn new(app: &'a TestApp, member: &'a Member, name: &'static str) -> Self {
        let number = member.reported(&told(name, 0, None, 2, 5).build()).await;
        Self { app, member, name, number }
    }

    /// What the answer to a report says then: what is wanted, and for how long it is kept.
    async fn at(&self, at: i32, idle_since: Option<i32>) -> (String, f64) {
        self.app.set_clock(&server_time(at.into()));
        let (status, answer) = self.member.report(&told(self.name, at, idle_since, 2, 5).build()).await;
        assert_eq!(status, 200, "{answer}");
        let wanted = answer["desired_state"].as_str().unwrap();
        assert_eq!(answer["stop_only_if_idle"], wanted == "stopped", "only idleness stops anything here");
        (wanted.to_owned(), answer["keep_alive_seconds"].as_f64().unwrap())
    }

    async fn says(&self, fields: &str) -> Value {
        cluster(self.member, self.number, fields).await
    }

    /// When it is stopped and when it was marked, in seconds after its start.
    async fn times(&self) -> (Option<i64>, Option<i64>) {
        let found = self.says("shutdownAt idleWarnedAt").await;
        let seconds = |field: &str| {
            let time = chrono::DateTime::parse_from_rfc3339(found[field].as_str()?).unwrap();
            Some(
                time.timestamp() - chrono::DateTime::parse_from_rfc3339(&server_time(0)).unwrap().timestamp(),
            )
        };
        (seconds("shutdownAt"), seconds("idleWarnedAt"))
    }
}

const RUNNING: &str = "running";
const STOPPED: &str = "stopped";

#[tokio::test]
async fn an_idle_cluster_is_marked_and_stopped_within_its_timeout_and_one_interval() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    policy(&ada, json!({ "mode": "STOP", "timeoutSeconds": 600, "warnBeforeSeconds": 60 })).await;
    let etl = Reporting::new(&app, &ada, "etl").await;
    assert_eq!(etl.at(15, Some(5)).await.0, RUNNING);
    assert_eq!(etl.times().await, (Some(605), None));
    // It works for a moment, and what was before does not count.
    assert_eq!(etl.at(30, None).await.0, RUNNING);
    assert_eq!(etl.times().await, (None, None));
    for at in (45..=570).step_by(15) {
        assert_eq!(etl.at(at, Some(40)).await.0, RUNNING, "{at}");
        assert_eq!(etl.times().await, (Some(640), None), "{at}");
    }
    for at in [585, 600, 615, 630] {
        assert_eq!(etl.at(at, Some(40)).await.0, RUNNING, "{at}");
        assert_eq!(etl.times().await, (Some(640), Some(585)), "{at}");
    }
    assert_eq!(etl.at(645, Some(40)).await.0, STOPPED);
    let fields = "state desiredState closeReason stopRequest { at origin reason by { name } }";
    let request = json!({ "at": server_time(645), "origin": "IDLE_POLICY", "by": null,
        "reason": "no work for 605 seconds" });
    let expected =
        json!({ "state": "CLOSING", "desiredState": "STOPPED", "closeReason": null, "stopRequest": request });
    assert_eq!(etl.says(fields).await, expected);
    // The answer was lost, and it is told again.
    assert_eq!(etl.at(646, Some(40)).await.0, STOPPED);
    let (_, answer) = ada.report(&told("etl", 647, Some(40), 2, 5).build()).await;
    let reason = "requested through Galvo by the idle policy: no work for 605 seconds";
    assert_eq!(answer["stop_reason"], reason);
    // It got work before it obeyed, and goes on.
    assert_eq!(etl.at(660, None).await.0, RUNNING);
    let expected =
        json!({ "state": "RUNNING", "desiredState": "RUNNING", "closeReason": null, "stopRequest": null });
    assert_eq!(etl.says(fields).await, expected);
    // The same if it is idle again when it reports next, because it has not been for long.
    assert_eq!(etl.at(1_270, Some(661)).await.0, RUNNING);
    assert_eq!(etl.times().await, (Some(1_330), Some(1_270)), "marked late, and a minute of warning");
    assert_eq!(etl.at(1_330, Some(661)).await.0, STOPPED);
    assert_eq!(etl.at(1_345, Some(1_340)).await.0, RUNNING);
    let expected =
        json!({ "state": "IDLE", "desiredState": "RUNNING", "closeReason": null, "stopRequest": null });
    assert_eq!(etl.says(fields).await, expected);
    app.stop().await;
}

#[tokio::test]
async fn a_busy_cluster_is_never_stopped() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    policy(&ada, json!({ "mode": "STOP", "timeoutSeconds": 60, "warnBeforeSeconds": 0 })).await;
    let etl = Reporting::new(&app, &ada, "etl").await;
    for at in (15..6_000).step_by(300) {
        assert_eq!(etl.at(at, None).await.0, RUNNING, "{at}");
        app.run_jobs().await;
        assert_eq!(etl.times().await, (None, None), "{at}");
    }
    // Briefly idle again and again.
    for at in (6_000..7_000).step_by(15) {
        assert_eq!(etl.at(at, Some(at - 59)).await.0, RUNNING, "{at}");
    }
    // Without a warning it is stopped with the first report after its time.
    assert_eq!(etl.at(7_000, Some(6_940)).await.0, STOPPED);
    app.stop().await;
}

#[tokio::test]
async fn modes_tags_and_people_spare_idle_clusters() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let etl = Reporting::new(&app, &ada, "etl").await;
    let id = id_of(&ada, etl.number).await;
    let codes = async || {
        let found = etl.says("whyRunning { code detail confidence }").await;
        let told = found["whyRunning"].as_array().unwrap().clone();
        let known = told.into_iter().filter(|reason| reason["confidence"] == "MEASURED");
        known.map(|reason| reason["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    // Nobody said anything.
    assert_eq!(etl.at(1_000, Some(10)).await, (RUNNING.to_owned(), 0.0));
    assert_eq!((etl.times().await, codes().await.as_str()), ((None, None), "NO_POLICY"));
    policy(&ada, json!({ "mode": "OBSERVE", "timeoutSeconds": 600 })).await;
    assert_eq!(etl.at(1_015, Some(10)).await.0, RUNNING);
    assert_eq!((etl.times().await, codes().await.as_str()), ((None, None), "NO_POLICY"));
    // A policy that has just been set marks first, however long it has been idle.
    policy(&ada, json!({ "mode": "WARN", "timeoutSeconds": 600, "warnBeforeSeconds": 60 })).await;
    assert_eq!(etl.times().await, (None, None));
    assert_eq!(etl.at(1_030, Some(10)).await.0, RUNNING);
    assert_eq!((etl.times().await, codes().await.as_str()), ((None, Some(1_030)), "NO_POLICY"));
    assert_eq!(etl.at(9_000, Some(10)).await.0, RUNNING);
    assert_eq!(etl.times().await, (None, Some(1_030)), "marked once");

    // A tag exempts it, and then does not.
    let exempt = json!({ "mode": "STOP", "timeoutSeconds": 600, "warnBeforeSeconds": 60,
        "exemptTags": [{ "key": "keep", "value": "yes" }] });
    policy(&ada, exempt).await;
    let tag = async |value: &str| {
        let set = "mutation($id: ID!, $value: String!) { setClusterTags(cluster: $id, tags: [{ key: \"keep\", value: $value }]) {
            userErrors { message } } }";
        ada.query(set, json!({ "id": id, "value": value })).await;
    };
    tag("yes").await;
    assert_eq!(etl.at(9_015, Some(10)).await.0, RUNNING);
    assert_eq!((etl.times().await, codes().await.as_str()), ((None, Some(1_030)), "EXEMPT"));
    tag("no").await;
    // Marked at 1,030, when it was too late already: stopped a minute after that.
    assert_eq!((etl.times().await, codes().await.as_str()), ((Some(1_090), Some(1_030)), "WITHIN_TIMEOUT"));

    // Somebody keeps it, and it is marked again before that ends.
    let kept = json!({ "keptAliveUntil": server_time(9_915), "desiredState": "RUNNING" });
    assert_eq!(keep(&ada, &id, 900).await, json!({ "cluster": kept, "userErrors": [] }));
    assert_eq!(codes().await, "KEPT_ALIVE WITHIN_TIMEOUT");
    assert_eq!(etl.at(9_030, Some(10)).await, (RUNNING.to_owned(), 885.0));
    assert_eq!(etl.times().await.0, Some(9_915));
    assert_eq!(etl.at(9_860, Some(10)).await, (RUNNING.to_owned(), 55.0));
    assert_eq!(etl.times().await, (Some(9_915), Some(9_860)));
    assert_eq!(etl.at(9_915, Some(10)).await, (STOPPED.to_owned(), 0.0));
    // Even then somebody may keep it.
    assert_eq!(keep(&ada, &id, 60).await["cluster"]["desiredState"], "RUNNING");
    assert_eq!(etl.at(9_930, Some(10)).await, (RUNNING.to_owned(), 45.0));
    // And let it go.
    app.set_clock(&server_time(9_931));
    assert_eq!(keep(&ada, &id, 0).await["userErrors"], json!([]));
    assert_eq!(etl.at(9_945, Some(10)).await.0, RUNNING);
    assert_eq!(etl.times().await, (Some(10_005), Some(9_945)));
    assert_eq!(etl.at(10_005, Some(10)).await.0, STOPPED);
    // The account changes its mind before the scheduler obeys.
    policy(&ada, json!({ "mode": "OBSERVE" })).await;
    assert_eq!(etl.at(10_020, Some(10)).await.0, RUNNING);
    assert_eq!(etl.says("desiredState stopRequest { reason }").await["stopRequest"], Value::Null);

    // A stop that somebody wants is not for the policy to take back, nor for those who keep it.
    let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { state } } }";
    ada.query(stop, json!({ "id": id })).await;
    assert_eq!(keep(&ada, &id, 600).await["cluster"]["desiredState"], "STOPPED");
    let (_, answer) = ada.report(&told("etl", 10_035, None, 2, 5).build()).await;
    assert_eq!((&answer["desired_state"], &answer["stop_only_if_idle"]), (&json!("stopped"), &json!(false)));
    app.stop().await;
}

#[tokio::test]
async fn keeping_a_cluster_has_its_bounds() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&told("etl", 0, None, 2, 5).build()).await;
    let id = id_of(&ada, number).await;
    for (seconds, wrong) in [(-1, true), (0, false), (2_592_000, false), (2_592_001, true)] {
        let done = keep(&ada, &id, seconds).await;
        let errors = json!([{ "field": "seconds", "code": "OUT_OF_RANGE", "message": "must be from 0 to 2592000 seconds" }]);
        assert_eq!(done["userErrors"], if wrong { errors } else { json!([]) }, "{seconds}");
    }
    let reader = ada.with_token(ada.token(&[Scope::Read, Scope::Ingest], None).await);
    let asked = "mutation($id: ID!) { keepAlive(cluster: $id, seconds: 60) { userErrors { field } } }";
    assert_eq!(reader.ask(asked, json!({ "id": id })).await["errors"][0]["extensions"]["code"], "FORBIDDEN");
    ada.reported(&told("etl", 1, None, 2, 5).with("/final", true).build()).await;
    let done = keep(&ada, &id, 60).await;
    assert_eq!(done["userErrors"], json!([{ "field": "cluster", "code": "ENDED", "message": "has closed" }]));
    app.stop().await;
}

#[tokio::test]
async fn a_scheduler_with_a_timeout_of_its_own_says_so() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let own =
        |at, idle_since| told("etl", at, idle_since, 2, 5).with("/cluster/idle_timeout_seconds", 1_200.0);
    let number = ada.reported(&own(15, Some(10)).build()).await;
    let fields = "idleTimeoutSeconds shutdownAt whyRunning { code detail since }";
    let found = cluster(&ada, number, fields).await;
    assert_eq!(
        (&found["idleTimeoutSeconds"], &found["shutdownAt"]),
        (&json!(1_200.0), &json!(server_time(1_195)))
    );
    let reasons = found["whyRunning"].as_array().unwrap();
    let since = "2026-11-20T11:00:10+00:00";
    let expected = json!({ "code": "WITHIN_TIMEOUT", "detail": "It closes by itself after 20 min without work.", "since": since });
    assert_eq!(reasons.last().unwrap(), &expected);
    // The earlier one counts.
    policy(&ada, json!({ "mode": "STOP", "timeoutSeconds": 600, "warnBeforeSeconds": 60 })).await;
    assert_eq!(cluster(&ada, number, fields).await["shutdownAt"], server_time(595));
    ada.reported(&own(30, None).build()).await;
    assert_eq!(cluster(&ada, number, fields).await["shutdownAt"], Value::Null);
    app.stop().await;
}

#[tokio::test]
async fn why_a_cluster_is_there_is_told_as_far_as_it_is_known() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let measured = |at: i32, idle: Option<i32>, tasks: i32, metrics: Value| -> ReportBuilder {
        told("etl", at, idle, 3, tasks)
            .with("/samples", json!([sample(None, i64::from(at) * 1_000, metrics)]))
    };
    let client = json!([{ "id": "Client-1", "connected_at": STARTED_AT }]);
    let no_tasks = json!({ "tasks_processing": 0, "tasks_queued": 0, "tasks_no_worker": 0, "tasks_waiting": 0,
        "tasks_memory": 0 });
    let reports = [
        (
            measured(10, Some(0), 0, no_tasks.clone()),
            json!([
                ["NEVER_HAD_WORK", null, "MEASURED"],
                ["ADAPTIVE_MINIMUM", 3, "NOT_COLLECTED"],
                ["NO_POLICY", null, "MEASURED"]
            ]),
        ),
        (
            measured(20, None, 0, no_tasks.clone()).with("/cluster/graph_updates", 1),
            json!([["GRAPH_UPDATE", 1, "MEASURED"]]),
        ),
        (
            measured(30, None, 20, json!({ "tasks_processing": 6, "tasks_queued": 4, "tasks_no_worker": 2 })),
            json!([["PROCESSING", 6, "MEASURED"], ["QUEUED", 4, "MEASURED"], ["NO_WORKER", 2, "MEASURED"]]),
        ),
        (
            measured(
                40,
                None,
                20,
                json!({ "tasks_processing": 0, "tasks_queued": 0, "tasks_no_worker": 0, "tasks_waiting": 1 }),
            ),
            json!([["WAITING", 1, "MEASURED"]]),
        ),
        (measured(50, None, 20, no_tasks.clone()), json!([["PROCESSING", null, "NOT_COLLECTED"]])),
        (
            measured(60, Some(55), 20, json!({ "tasks_processing": 0, "tasks_memory": 8 }))
                .with("/clients", client),
            json!([
                ["CLIENT_HOLDS_RESULTS", 8, "MEASURED"],
                ["ADAPTIVE_MINIMUM", 3, "NOT_COLLECTED"],
                ["NO_POLICY", null, "MEASURED"]
            ]),
        ),
        (
            measured(70, Some(55), 20, no_tasks),
            json!([["ADAPTIVE_MINIMUM", 3, "NOT_COLLECTED"], ["NO_POLICY", null, "MEASURED"]]),
        ),
    ];
    for (report, expected) in reports {
        let report = report.build();
        let number = ada.reported(&report).await;
        let found = cluster(&ada, number, "whyRunning { code count confidence }").await;
        let reasons = found["whyRunning"].as_array().unwrap().iter();
        let reasons: Vec<Value> =
            reasons.map(|reason| json!([reason["code"], reason["count"], reason["confidence"]])).collect();
        assert_eq!(json!(reasons), expected, "{}", report["sequence"]);
    }
    app.stop().await;
}

#[tokio::test]
async fn what_is_done_about_idle_clusters_costs_nothing_while_there_is_nothing_to_do() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    policy(&ada, json!({ "mode": "STOP", "timeoutSeconds": 600, "warnBeforeSeconds": 60 })).await;
    let etl = Reporting::new(&app, &ada, "etl").await;
    let mut costs = Vec::new();
    for (at, idle) in
        [(15, None), (30, Some(20)), (500, Some(20)), (570, Some(20)), (585, Some(20)), (620, Some(20))]
    {
        let before = app.statements();
        etl.at(at, idle).await;
        costs.push(app.statements() - before);
    }
    // Who reports, the cluster read and written; then what was said of it, the policy, what is written, and
    // the place of the change for those who watch.
    assert_eq!(costs, [3, 3, 3, 7, 5, 8]);

    let list =
        "{ viewer { account { clusters { nodes { state idleSeconds shutdownAt idleWarnedAt keptAliveUntil
        stopRequest { at by { name } } whyRunning { code } } } } } }";
    for number in 0..30 {
        ada.reported(&told(&format!("etl-{number}"), 0, Some(0), 2, 5).build()).await;
    }
    let before = app.statements();
    let found = ada.query(list, json!({})).await;
    assert_eq!(found["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().len(), 20);
    // Who asks, the page, what was said of its clusters, the policy, samples and clients.
    assert_eq!(app.statements() - before, 6);
    app.stop().await;
}
