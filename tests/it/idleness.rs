//! The effects of the idle policy on clusters: marked, stopped, kept alive, exempted, and the reasons
//! given.

use entity::api_token::Scope;
use harness::{Member, ReportBuilder, STARTED_AT, TestApp, sample};
use serde_json::{Value, json};

use crate::{
    life_cycle::{cluster, id_of, report_at, server_time},
    phrase::{ARGUMENTS, check_reason},
};

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

/// A scheduler that reports every 15 seconds by the server's clock.
struct Reporting<'a> {
    app: &'a TestApp,
    member: &'a Member,
    name: &'static str,
    number: i64,
}

impl<'a> Reporting<'a> {
    /// Starts it with work.
    async fn new(app: &'a TestApp, member: &'a Member, name: &'static str) -> Self {
        let number = member.reported(&report_at(name, 0, None, 2, 5).build()).await;
        Self { app, member, name, number }
    }

    /// Reports, and returns the desired state and the remaining keep-alive seconds of the response.
    async fn at(&self, at: i32, idle_since: Option<i32>) -> (String, f64) {
        self.app.set_clock(&server_time(at.into()));
        let (status, answer) = self.member.report(&report_at(self.name, at, idle_since, 2, 5).build()).await;
        assert_eq!(status, 200, "{answer}");
        let desired = answer["desired_state"].as_str().unwrap();
        assert_eq!(answer["stop_only_if_idle"], desired == "stopped", "only idleness stops anything here");
        (desired.to_owned(), answer["keep_alive_seconds"].as_f64().unwrap())
    }

    /// Reports idleness up to a time, often enough to stay known.
    async fn stays_idle(&self, from: i32, until: i32, since: i32) {
        for at in (from..until).step_by(45) {
            assert_eq!(self.at(at, Some(since)).await.0, RUNNING, "{at}");
        }
    }

    async fn query(&self, fields: &str) -> Value {
        cluster(self.member, self.number, fields).await
    }

    /// The scheduled stop and the time of the warning, in seconds after its start.
    async fn times(&self) -> (Option<i64>, Option<i64>) {
        let found = self.query("shutdownAt idleWarnedAt").await;
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
    // It works for a moment, which resets the idle time.
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
    assert_eq!(etl.query(fields).await, expected);
    // The response was lost, and the request is repeated.
    assert_eq!(etl.at(646, Some(40)).await.0, STOPPED);
    let (_, answer) = ada.report(&report_at("etl", 647, Some(40), 2, 5).build()).await;
    let reason = "requested through Galvo by the idle policy: no work for 605 seconds";
    assert_eq!(answer["stop_reason"], reason);
    // It got work before it stopped, and continues.
    assert_eq!(etl.at(660, None).await.0, RUNNING);
    let expected =
        json!({ "state": "RUNNING", "desiredState": "RUNNING", "closeReason": null, "stopRequest": null });
    assert_eq!(etl.query(fields).await, expected);
    // The same if it is idle again in its next report, because it has not been idle for long.
    etl.stays_idle(705, 1_210, 661).await;
    assert_eq!(etl.times().await, (Some(1_261), None));
    assert_eq!(etl.at(1_245, Some(661)).await.0, RUNNING);
    assert_eq!(etl.times().await, (Some(1_261), Some(1_245)));
    assert_eq!(etl.at(1_261, Some(661)).await.0, STOPPED);
    assert_eq!(etl.at(1_276, Some(1_270)).await.0, RUNNING);
    let expected =
        json!({ "state": "IDLE", "desiredState": "RUNNING", "closeReason": null, "stopRequest": null });
    assert_eq!(etl.query(fields).await, expected);
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
    // Repeatedly idle for a short time.
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
        let found = etl.query("runReasons { code detail confidence }").await;
        let reasons = found["runReasons"].as_array().unwrap().clone();
        let known = reasons.into_iter().filter(|reason| reason["confidence"] == "MEASURED");
        known.map(|reason| reason["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    // Without a policy.
    assert_eq!(etl.at(1_000, Some(10)).await, (RUNNING.to_owned(), 0.0));
    assert_eq!((etl.times().await, codes().await.as_str()), ((None, None), "NO_POLICY"));
    policy(&ada, json!({ "mode": "OBSERVE", "timeoutSeconds": 600 })).await;
    assert_eq!(etl.at(1_015, Some(10)).await.0, RUNNING);
    assert_eq!((etl.times().await, codes().await.as_str()), ((None, None), "NO_POLICY"));
    // A policy counts from the time it is set, however long the cluster has been idle.
    policy(&ada, json!({ "mode": "WARN", "timeoutSeconds": 600, "warnBeforeSeconds": 60 })).await;
    etl.stays_idle(1_030, 1_550, 10).await;
    assert_eq!(etl.times().await, (None, None));
    assert_eq!(etl.at(1_555, Some(10)).await.0, RUNNING);
    assert_eq!((etl.times().await, codes().await.as_str()), ((None, Some(1_555)), "NO_POLICY"));
    etl.stays_idle(1_600, 2_200, 10).await;
    assert_eq!(etl.times().await, (None, Some(1_555)), "marked once");

    // A tag exempts it until the tag changes.
    let exempt = json!({ "mode": "STOP", "timeoutSeconds": 600, "warnBeforeSeconds": 60,
        "exemptTags": [{ "key": "keep", "value": "yes" }] });
    policy(&ada, exempt).await;
    let tag = async |value: &str| {
        let set = "mutation($id: ID!, $value: String!) { setClusterTags(cluster: $id, tags: [{ key: \"keep\", value: $value }]) {
            userErrors { message } } }";
        ada.query(set, json!({ "id": id, "value": value })).await;
    };
    tag("yes").await;
    assert_eq!(etl.at(2_200, Some(10)).await.0, RUNNING);
    assert_eq!((etl.times().await, codes().await.as_str()), ((None, Some(1_555)), "EXEMPT"));
    tag("no").await;
    assert_eq!((etl.times().await, codes().await.as_str()), ((Some(2_800), Some(1_555)), "WITHIN_TIMEOUT"));

    // A user keeps it alive: the policy counts from the end of that, and marks it again.
    let kept = json!({ "keptAliveUntil": server_time(3_100), "desiredState": "RUNNING" });
    assert_eq!(keep(&ada, &id, 900).await, json!({ "cluster": kept, "userErrors": [] }));
    assert_eq!(codes().await, "KEPT_ALIVE WITHIN_TIMEOUT");
    assert_eq!(etl.at(2_215, Some(10)).await, (RUNNING.to_owned(), 885.0));
    assert_eq!(etl.times().await, (Some(3_700), Some(1_555)));
    etl.stays_idle(2_260, 3_100, 10).await;
    assert_eq!(etl.at(3_100, Some(10)).await, (RUNNING.to_owned(), 0.0));
    etl.stays_idle(3_145, 3_640, 10).await;
    assert_eq!(etl.times().await, (Some(3_700), Some(1_555)));
    assert_eq!(etl.at(3_640, Some(10)).await.0, RUNNING);
    assert_eq!(etl.times().await, (Some(3_700), Some(3_640)));
    assert_eq!(etl.at(3_685, Some(10)).await.0, RUNNING);
    assert_eq!(etl.at(3_700, Some(10)).await, (STOPPED.to_owned(), 0.0));
    // Even then a user may keep it alive.
    assert_eq!(keep(&ada, &id, 60).await["cluster"]["desiredState"], "RUNNING");
    assert_eq!(etl.at(3_715, Some(10)).await, (RUNNING.to_owned(), 45.0));
    // And end that.
    app.set_clock(&server_time(3_716));
    assert_eq!(keep(&ada, &id, 0).await["userErrors"], json!([]));
    etl.stays_idle(3_730, 4_256, 10).await;
    assert_eq!(etl.times().await, (Some(4_316), Some(3_640)));
    assert_eq!(etl.at(4_256, Some(10)).await.0, RUNNING);
    assert_eq!(etl.times().await, (Some(4_316), Some(4_256)));
    assert_eq!(etl.at(4_300, Some(10)).await.0, RUNNING);
    assert_eq!(etl.at(4_316, Some(10)).await.0, STOPPED);
    // The account changes the policy before the scheduler stops.
    policy(&ada, json!({ "mode": "OBSERVE" })).await;
    assert_eq!(etl.at(4_331, Some(10)).await.0, RUNNING);
    assert_eq!(etl.query("desiredState stopRequest { reason }").await["stopRequest"], Value::Null);

    // Neither the policy nor a keep-alive reverts a stop requested by a user.
    let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { state } } }";
    ada.query(stop, json!({ "id": id })).await;
    assert_eq!(keep(&ada, &id, 600).await["cluster"]["desiredState"], "STOPPED");
    let (_, answer) = ada.report(&report_at("etl", 4_346, None, 2, 5).build()).await;
    assert_eq!((&answer["desired_state"], &answer["stop_only_if_idle"]), (&json!("stopped"), &json!(false)));
    app.stop().await;
}

#[tokio::test]
async fn idleness_counts_from_when_somebody_could_know_of_it() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let at_once = json!({ "mode": "STOP", "timeoutSeconds": 600, "warnBeforeSeconds": 0 });
    policy(&ada, at_once.clone()).await;
    // Reports resume after the server was away or the machine was suspended.
    let away = Reporting::new(&app, &ada, "away").await;
    away.stays_idle(15, 200, 10).await;
    assert_eq!(away.times().await.0, Some(610));
    assert_eq!(away.at(3_000, Some(10)).await.0, RUNNING);
    away.stays_idle(3_045, 3_600, 10).await;
    assert_eq!(away.times().await.0, Some(3_600));
    assert_eq!(away.at(3_600, Some(10)).await.0, STOPPED);
    // Work since then resets the idle time.
    assert_eq!(away.at(3_615, None).await.0, RUNNING);
    assert_eq!(away.at(3_630, Some(3_620)).await.0, RUNNING);
    assert_eq!(away.times().await.0, Some(4_220));
    // The job that detects lost clusters ran before the scheduler reported.
    app.set_clock(&server_time(8_000));
    app.run_jobs().await;
    assert_eq!(away.at(8_000, Some(3_620)).await.0, RUNNING);
    assert_eq!(away.times().await.0, Some(8_600));

    // The first report arrives when it has been idle for more than an hour.
    let late = Reporting { app: &app, member: &ada, name: "late", number: 0 };
    assert_eq!(late.at(9_000, Some(10)).await.0, RUNNING);
    let number = ada.reported(&report_at("late", 9_001, Some(10), 2, 5).build()).await;
    let late = Reporting { number, ..late };
    late.stays_idle(9_045, 9_600, 10).await;
    assert_eq!(late.times().await.0, Some(9_600));
    assert_eq!(late.at(9_600, Some(10)).await.0, STOPPED);

    // The account sets the policy when the cluster has been idle for long.
    let bob = app.account("bob").await;
    let before = Reporting::new(&app, &bob, "before").await;
    before.stays_idle(9_615, 10_700, 9_600).await;
    policy(&bob, at_once).await;
    before.stays_idle(10_720, 11_295, 9_600).await;
    assert_eq!(before.times().await.0, Some(11_295));
    assert_eq!(before.at(11_295, Some(9_600)).await.0, STOPPED);
    app.stop().await;
}

#[tokio::test]
async fn keeping_a_cluster_has_its_bounds() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report_at("etl", 0, None, 2, 5).build()).await;
    let id = id_of(&ada, number).await;
    for (seconds, wrong) in [(-1, true), (0, false), (2_592_000, false), (2_592_001, true)] {
        let done = keep(&ada, &id, seconds).await;
        let errors = json!([{ "field": "seconds", "code": "OUT_OF_RANGE", "message": "must be from 0 to 2592000 seconds" }]);
        assert_eq!(done["userErrors"], if wrong { errors } else { json!([]) }, "{seconds}");
    }
    let reader = ada.with_token(ada.token(&[Scope::Read, Scope::Ingest], None).await);
    let mutation = "mutation($id: ID!) { keepAlive(cluster: $id, seconds: 60) { userErrors { field } } }";
    assert_eq!(
        reader.ask(mutation, json!({ "id": id })).await["errors"][0]["extensions"]["code"],
        "FORBIDDEN"
    );
    ada.reported(&report_at("etl", 1, None, 2, 5).with("/final", true).build()).await;
    let done = keep(&ada, &id, 60).await;
    assert_eq!(done["userErrors"], json!([{ "field": "cluster", "code": "ENDED", "message": "has closed" }]));
    app.stop().await;
}

#[tokio::test]
async fn a_scheduler_with_a_timeout_of_its_own_reports_it() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let own = |at, idle_since| {
        report_at("etl", at, idle_since, 2, 5).with("/cluster/idle_timeout_seconds", 1_200.0)
    };
    let number = ada.reported(&own(15, Some(10)).build()).await;
    let fields =
        "idleTimeoutSeconds shutdownAt runReasons { code detail since arguments { name number unit } }";
    let found = cluster(&ada, number, fields).await;
    assert_eq!(
        (&found["idleTimeoutSeconds"], &found["shutdownAt"]),
        (&json!(1_200.0), &json!(server_time(1_200)))
    );
    let reasons = found["runReasons"].as_array().unwrap();
    let since = "2026-11-20T11:00:10+00:00";
    let expected = json!({ "code": "WITHIN_TIMEOUT", "detail": "It closes by itself after 20 min without work.", "since": since,
        "arguments": [{ "name": "timeout", "number": 1_200.0, "unit": "seconds" }] });
    assert_eq!(reasons.last().unwrap(), &expected);
    // The earlier of the two applies.
    policy(&ada, json!({ "mode": "STOP", "timeoutSeconds": 600, "warnBeforeSeconds": 60 })).await;
    assert_eq!(cluster(&ada, number, fields).await["shutdownAt"], server_time(600));
    ada.reported(&own(30, None).build()).await;
    assert_eq!(cluster(&ada, number, fields).await["shutdownAt"], Value::Null);
    app.stop().await;
}

#[tokio::test]
async fn why_a_cluster_is_there_is_returned_as_far_as_it_is_known() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let measured = |at: i32, idle: Option<i32>, tasks: i32, metrics: Value| -> ReportBuilder {
        report_at("etl", at, idle, 3, tasks)
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
        let fields = format!("runReasons {{ code count confidence detail {ARGUMENTS} }}");
        let found = cluster(&ada, number, &fields).await;
        let reasons = found["runReasons"].as_array().unwrap().iter().inspect(|reason| check_reason(reason));
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
        [(15, None), (30, Some(20)), (540, Some(20)), (570, Some(20)), (585, Some(20)), (620, Some(20))]
    {
        if at == 540 {
            etl.stays_idle(75, at, 20).await;
        }
        let before = app.statements();
        etl.at(at, idle).await;
        costs.push(app.statements() - before);
    }
    // The token, the cluster read and written, and the account's daily bytes; then its requests, the
    // policy, the writes, and the change's position for subscribers. The account's quotas are read once
    // a minute.
    assert_eq!(costs, [4, 4, 4, 8, 10, 9]);

    let list =
        "{ viewer { account { clusters { nodes { state idleSeconds shutdownAt idleWarnedAt keptAliveUntil
        stopRequest { at by { name } } runReasons { code } } } } } }";
    for number in 0..30 {
        ada.reported(&report_at(&format!("etl-{number}"), 0, Some(0), 2, 5).build()).await;
    }
    let before = app.statements();
    let found = ada.query(list, json!({})).await;
    assert_eq!(found["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().len(), 20);
    // The token, the page, the requests of its clusters, the policy, samples and clients.
    assert_eq!(app.statements() - before, 6);
    app.stop().await;
}
