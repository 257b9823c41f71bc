//! An account with objects of every kind.

use std::{collections::BTreeMap, time::Duration};

use galvo::app::QuotaChange;
use harness::{
    Incoming, Member, ReportBuilder, STARTED_AT, SigningKey, Socket, TestApp, activity, claims, code,
    code_frame, computation, error, event, log_line, profile, sample, span, task_group, threads, usage, uuid,
    worker,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::every_field::Walk;

/// The time after all activity, up to which the test reads the audit log.
const AFTERWARDS: &str = "2026-11-20T12:02:00Z";

/// A member who fills an account, and the responses.
pub(super) struct Life<'a> {
    app: &'a TestApp,
    walk: &'a Walk,
    owner: &'a Member,
    pub(super) answers: Vec<Value>,
}

impl<'a> Life<'a> {
    /// Creates every possible object in an account. Every text contains the owner's name.
    pub(super) async fn of(app: &'a TestApp, walk: &'a Walk, owner: &'a Member) -> Self {
        app.set_clock("2026-11-20T12:00:00Z");
        let wish = QuotaChange { retention_days: Some(Some(365)), ..QuotaChange::default() };
        app.accounts().set_quota(&owner.slug().parse().unwrap(), wish).await.unwrap();
        let mut life = Self { app, walk, owner, answers: Vec::new() };
        let mut socket = life.watches().await;
        life.decides().await;
        life.works().await;
        life.writes().await;
        life.lets_in().await;
        life.goes_on().await;
        app.run_jobs().await;
        app.fold_usage().await;
        while let Some(received) = socket.receive_within(Duration::from_millis(500)).await {
            let Incoming::Message(mut message) = received else { panic!("{received:?}") };
            assert_eq!(message["type"], "next", "{message}");
            life.note("Subscription", message["payload"]["data"].take());
        }
        app.set_clock(AFTERWARDS);
        let limit = format!("{{ rateLimit {} }}", walk.whole_of("Query", "rateLimit"));
        life.note("Query", owner.query(&limit, json!({})).await);
        app.write_down_token_uses().await;
        life
    }

    /// Subscribes to all streams.
    async fn watches(&self) -> Socket {
        let mut socket = self.app.socket_of(self.owner).await;
        for (field, filter) in [
            ("alerts", ""),
            ("clusters", ""),
            ("computations", ""),
            ("errorGroups", ""),
            ("errorGroups", ", status: [RESOLVED]"),
            ("errors", ""),
            ("events", ""),
            ("logs", ""),
            ("snapshots", ""),
        ] {
            let whole = self.walk.whole_of("Subscription", field);
            let query =
                format!("subscription {{ {field}(account: \"{}\"{filter}) {whole} }}", self.owner.slug());
            socket.subscribe(&format!("{field}{filter}"), &query, json!({})).await;
        }
        socket
    }

    /// Stores the response of a root field.
    fn note(&mut self, root: &str, mut answer: Value) {
        answer["__typename"] = json!(root);
        self.answers.push(answer);
    }

    /// Runs a mutation, and selects its whole payload.
    async fn change(&mut self, mutation: &str, arguments: &str) -> Value {
        let owner = self.owner.clone();
        self.change_as(&owner, mutation, arguments).await
    }

    async fn change_as(&mut self, who: &Member, mutation: &str, arguments: &str) -> Value {
        let arguments = arguments.replace("<NAME>", self.owner.name());
        let document =
            format!("mutation {{ {mutation}({arguments}) {} }}", self.walk.whole_of("Mutation", mutation));
        let answer = who.query(&document, json!({})).await[mutation].take();
        let refused =
            answer.get("userErrors").and_then(Value::as_array).is_some_and(|errors| !errors.is_empty());
        assert!(!refused, "{document}: {answer}");
        self.note("Mutation", json!({ mutation: answer }));
        answer
    }

    /// Creates the settings that precede any report.
    async fn decides(&mut self) {
        for day in ["2026-11-01", "2026-11-02"] {
            self.change(
                "setCostRate",
                &format!(
                    "input: {{ validFrom: \"{day}\", perThreadHour: 1, perGibHour: 1, perWorkerHour: 1 }}"
                ),
            )
            .await;
        }
        self.change("deleteCostRate", "validFrom: \"2026-11-02\"").await;
        let idle = "input: { mode: STOP, timeoutSeconds: 90, warnBeforeSeconds: 60, exemptTags: [{ key: \"<NAME>\", value: \"x\" }] }";
        self.change("setIdlePolicy", idle).await;
        self.change("setDataPolicy", "input: { class: PROFILES, accepted: true, retentionDays: 30 }").await;
        self.change("setTokenPolicy", "input: { refusesBroadTokens: false }").await;
        let request = self.owner.request(Method::POST, "/api/v1/scheduler-tokens");
        let body = json!({ "schedulerId": format!("Scheduler-of-{}", self.owner.name()), "label": self.owner.name() });
        assert_eq!(request.json(&body).send().await.unwrap().status(), 201);
        let tag = "tag: { key: \"<NAME>\", value: \"x\" }, until: \"2026-12-01T00:00:00Z\"";
        self.change("muteFlag", &format!("input: {{ kind: SPILLING, {tag} }}")).await;
        self.change("muteFlag", "input: { kind: GIL_CONTENTION }").await;
        self.change("unmuteFlag", "input: { kind: GIL_CONTENTION }").await;
        let owner =
            self.owner.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take();
        let recipients = format!(
            "users: [{owner}], tags: [{{ key: \"team\", value: \"<NAME>\" }}], emails: [\"<NAME>@example.com\"]"
        );
        for condition in [
            "flags: [IDLE, MANY_FAILURES]",
            "failures: { count: 1, withinSeconds: 3600 }",
            "cost: { amount: 0.01, of: USER }",
            "idle: { forSeconds: 60 }",
            "quotaNears: { percent: 80 }",
        ] {
            let input = format!("name: \"<NAME>'s rule\", condition: {{ {condition} }}");
            let made = self.change("createAlertRule", &format!("input: {{ {input}, {recipients} }}")).await;
            let rule = &made["alertRule"]["identifier"];
            let input = format!("{input}, webhooks: [\"https://127.0.0.1:9/<NAME>\"]");
            let changed = format!("identifier: {rule}, newSecret: true, input: {{ {input}, {recipients} }}");
            self.change("updateAlertRule", &changed).await;
            self.change("testAlertRule", &format!("identifier: {rule}")).await;
        }
        let input = "input: { name: \"of no use to <NAME>\", condition: { flags: [IDLE] }, emails: [\"<NAME>@example.com\"] }";
        let made = self.change("createAlertRule", input).await;
        self.change("deleteAlertRule", &format!("identifier: {}", made["alertRule"]["identifier"])).await;
    }

    /// Reports clusters that work, are idle, and have ended.
    async fn works(&self) {
        let name = self.owner.name();
        let mut spans = Vec::new();
        for report in [busy(name), idle(name, "Scheduler-2"), idle(name, "Scheduler-3"), ended(name)] {
            let number = self.owner.reported(&report).await;
            spans.push(format!("/api/v2/analytics/{name}/cluster/{number}/span/{}", uuid(30)));
        }
        for span in spans {
            let body = json!({ "start": STARTED_AT, "stop": STARTED_AT + 2.5, "callstack": [
                { "frame_index": 0, "code": format!("{name}()"), "filename": "a.py", "relative_line": 0 }] });
            let answer = self.owner.request(Method::POST, &span).json(&body).send().await.unwrap();
            assert_eq!(answer.status(), 200);
        }
    }

    /// Before a cluster counts as silent, a resolved error recurs, one idle cluster is warned, and the
    /// other gets work.
    async fn goes_on(&mut self) {
        self.app.run_jobs().await;
        let groups = "{ viewer { account { errorGroups(first: 1) { nodes { id } } } } }";
        let groups = self.owner.query(groups, json!({})).await;
        let group = &groups["viewer"]["account"]["errorGroups"]["nodes"][0]["id"];
        self.change("setErrorGroupStatus", &format!("group: {group}, status: RESOLVED")).await;
        self.app.set_clock("2026-11-20T12:00:40Z");
        let name = self.owner.name();
        for report in [failed_again(name), still_idle(name), busy_again(name)] {
            self.owner.reported(&report).await;
        }
        self.app.run_jobs().await;
        // The reasons and the last values are unknown for silent clusters.
        let reasons =
            "{ viewer { account { clusters { nodes { runReasons { __typename code detail count } } } } } }";
        let latest = "{ viewer { account { clusters { nodes { workers { nodes { __typename
            latestValues(metrics: [CPU]) { __typename metric unit at value } } } } } } } }";
        for query in [reasons, latest] {
            let answer = self.owner.query(query, json!({})).await;
            self.answers.push(answer);
        }
    }

    /// Creates user-defined annotations.
    async fn writes(&mut self) {
        let query = "{ viewer { account { clusters { nodes { id schedulerId } } } } }";
        let clusters =
            self.owner.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"].take();
        for cluster in clusters.as_array().unwrap() {
            let of = format!("cluster: {}", cluster["id"]);
            let tags = "tags: [{ key: \"team\", value: \"<NAME>\" }]";
            self.change("setClusterTags", &format!("{of}, {tags}")).await;
            self.change("setClusterNotes", &format!("{of}, text: \"<NAME>'s notes\"")).await;
            if cluster["schedulerId"] == "Scheduler-1" {
                self.change("keepAlive", &format!("{of}, seconds: 600")).await;
                let stop = format!("{of}, state: STOPPED, reason: \"<NAME>'s reason\"");
                self.change("setDesiredState", &stop).await;
            }
        }
        // Quarantined clusters are restored, and deleted ones are not.
        let token = self.owner.secret().split('-').next().unwrap().to_owned();
        let since = "since: \"2026-11-20T00:00:00Z\"";
        self.change("forgetToken", &format!("input: {{ tokenId: \"{token}\", {since} }}")).await;
        self.change("restoreToken", &format!("input: {{ tokenId: \"{token}\" }}")).await;
        let me =
            self.owner.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take();
        let number = self.owner.reported(&ReportBuilder::new("Scheduler-9", 1).build()).await;
        let query = "query($id: ID!) { cluster(id: $id) { id } }";
        let id = self.owner.query(query, json!({ "id": number.to_string() })).await["cluster"]["id"].take();
        self.change("handOverCluster", &format!("input: {{ clusterId: {id}, userId: {me} }}")).await;
        self.change("deleteData", &format!("input: {{ class: EVENTS, clusterId: {id} }}")).await;
        self.change("deleteCluster", &format!("input: {{ clusterId: {id} }}")).await;
        for kind in ["public", "private"] {
            self.owner
                .stored_report(kind, &format!("report of {}.html", self.owner.name()), "<p>x</p>")
                .await;
        }
        let reports = "{ viewer { account { performanceReports { nodes { identifier } } } } }";
        let reports = self.owner.query(reports, json!({})).await;
        let report = &reports["viewer"]["account"]["performanceReports"]["nodes"][0]["identifier"];
        self.change("deletePerformanceReport", &format!("identifier: {report}")).await;
        for (is_shared, is_deleted) in [(true, false), (false, false), (true, true)] {
            let input = format!(
                "input: {{ name: \"<NAME>'s view\", page: \"clusters\", parameters: \"user=<NAME>\", isShared: {is_shared} }}"
            );
            let made = self.change("createSavedView", &input).await;
            let view = &made["savedView"]["id"];
            self.change("updateSavedView", &format!("id: {view}, {input}")).await;
            if is_deleted {
                self.change("deleteSavedView", &format!("id: {view}")).await;
            }
        }
    }

    /// Returns the identifier of a member's user.
    async fn user_of(&self, member: &Value) -> Value {
        let query = "query($id: ID!) { node(id: $id) { ... on Member { user { id } } } }";
        self.owner.query(query, json!({ "id": member })).await["node"]["user"]["id"].take()
    }

    /// Changes access rights.
    async fn lets_in(&mut self) {
        let until = "until: \"2026-12-01T00:00:00Z\"";
        for who in ["guest", "other"] {
            let made =
                self.change("addMember", &format!("input: {{ name: \"<NAME>-{who}\", role: VIEWER }}")).await;
            let user = self.user_of(&made["member"]["id"]).await;
            self.change("setMemberRole", &format!("user: {user}, role: GUEST, {until}")).await;
            let token = format!(
                "input: {{ user: {user}, label: \"<NAME>'s\", scopes: [READ], expiresAt: \"2026-11-21T00:00:00Z\" }}"
            );
            let made = self.change("createToken", &token).await;
            self.change("revokeToken", &format!("identifier: {}", made["token"]["identifier"])).await;
            if who == "other" {
                self.change("removeMember", &format!("user: {user}")).await;
            }
        }
        let made = self.change("addMember", "input: { name: \"<NAME>-gone\", role: VIEWER }").await;
        let user = self.user_of(&made["member"]["id"]).await;
        self.change("deleteUser", &format!("input: {{ userId: {user} }}")).await;
        // A user who deletes their own account.
        let given_up = format!("{}-given-up", self.owner.name());
        let member = self.app.account(&given_up).await;
        self.change_as(&member, "deleteAccount", &format!("input: {{ confirmSlug: \"{given_up}\" }}")).await;
        // A user with their own account and a linked identity.
        let friend = format!("{}-friend", self.owner.name());
        self.app.account(&friend).await;
        self.app.link(&friend, &friend).await;
        let invite = format!("input: {{ name: \"{friend}\", label: \"<NAME>'s\", role: GUEST, {until} }}");
        let made = self.change("inviteMember", &invite).await;
        self.change("revokeInvitation", &format!("identifier: {}", made["invitation"]["identifier"])).await;
        let made = self.change("inviteMember", &invite).await;
        let friend = self.app.bearer(SigningKey::Shared.sign(None, &claims(&friend)), None);
        self.change_as(&friend, "acceptInvitation", &format!("secret: {}", made["secret"])).await;
        self.change_as(&friend, "setDefaultAccount", "slug: \"<NAME>\"").await;
    }
}

/// The sampling times in seconds after the start. The last one is that of the report.
const MOMENTS: [i64; 5] = [40, 55, 70, 85, 100];

/// A report of a cluster with data of every kind, except for its present activity.
pub(crate) fn cluster(name: &str, scheduler: &str, code_text: &str) -> ReportBuilder {
    let report = ReportBuilder::new(scheduler, 100)
        .with("/cluster/name", format!("cluster of {name}"))
        .with("/cluster/address", format!("tcp://{name}:8786"))
        .with("/cluster/dashboard_url", format!("http://{name}:8787/status"))
        .with("/cluster/memory_limit_bytes", 8_000_000_000_i64)
        .with("/cluster/workers", 1)
        .with("/cluster/threads", 4)
        .with("/cluster/graph_updates", 2)
        .with("/cluster/totals/tasks", 6)
        // The second hour is in the future, and left out.
        .with("/usage", json!([usage(11, 2), usage(20_000, 2)]))
        .with("/dropped", json!(DROPPED.map(|section| (section, 1)).into_iter().collect::<BTreeMap<_, _>>()))
        .with("/receipt", json!({ "logs": { "sent": 2, "bytes": 20, "withheld": 1 } }));
    add_event_and_log_line(measured(processes(worked(report, name, code_text), name), name), name)
}

const DROPPED: [&str; 16] = [
    "computations",
    "task_groups",
    "errors",
    "environments",
    "workers",
    "clients",
    "thread_history",
    "samples",
    "spans",
    "fine_metrics",
    "code",
    "profiles",
    "events",
    "logs",
    "usage",
    "function_activity",
];

/// Adds spans, computations, task groups and errors.
fn worked(report: ReportBuilder, name: &str, code_text: &str) -> ReportBuilder {
    let stack = json!([[code_frame(code_text, 1, 0)]]);
    let mut outer = span(30, None, &[name], 1.0, Some(2.0));
    let mut inner = span(31, Some(30), &[name, "inner"], 1.0, Some(2.0));
    let mut done = computation(1, &[10, 11]);
    (outer["number"], inner["number"]) = (json!(1), json!(2));
    for coded in [&mut outer, &mut inner, &mut done] {
        coded["code"] = stack.clone();
    }
    done["span_ids"] = json!([uuid(30)]);
    let mut load = task_group(10, "load", 60_000);
    let mut divide = task_group(11, "divide", 150_000);
    (load["span_id"], divide["span_id"]) = (json!(uuid(30)), json!(uuid(31)));
    divide["dependencies"] = json!([uuid(10)]);
    let errors: Vec<Value> = (100..112).map(|number| failed(name, number)).collect();
    report
        .with("/spans", json!([outer, inner]))
        .with("/code", json!([code(code_text)]))
        .with("/computations", json!([done]))
        .with("/task_groups", json!([load, divide]))
        .with("/errors", errors)
}

fn failed(name: &str, number: u128) -> Value {
    let mut failed = error(number, 11, 1);
    failed["message"] = json!(format!("ZeroDivisionError('{name}')"));
    failed["number"] = json!(number - 99);
    failed["source"] = json!({ "file": format!("{name}.py"), "line": 1, "first_line": 1, "lines": [name] });
    (failed["worker_id"], failed["span_id"]) = (json!(uuid(50)), json!(uuid(30)));
    failed
}

/// Adds the scheduler, a lost worker, a live one, and a disconnected client, in several environments.
fn processes(report: ReportBuilder, name: &str) -> ReportBuilder {
    let mut lost = worker(50);
    (lost["ended_at"], lost["end"]) = (json!(STARTED_AT + 6.0), json!("lost"));
    lost["processing_keys"] = json!([format!("{name}-1")]);
    (lost["processing"], lost["lost_results"]) = (json!(1), json!(2));
    (lost["last_memory_bytes"], lost["last_seen_at"]) = (json!(3_900_000_000_i64), json!(STARTED_AT + 5.0));
    lost["peak_memory_bytes"] = json!(3_950_000_000_i64);
    lost["number"] = json!(1);
    lost["processing_functions"] = json!({ name: 1 });
    let mut there = worker(51);
    (lost["environment_id"], there["environment_id"]) = (json!(uuid(41)), json!(uuid(41)));
    let client = json!({ "id": format!("Client-{name}"), "environment_id": uuid(41), "connected_at": STARTED_AT,
        "disconnected_at": STARTED_AT + 9.0 });
    report
        .with("/cluster/environment_id", uuid(40))
        .with("/environments", json!([environment(40, "polars"), environment(41, "numpy")]))
        .with("/workers", json!([lost, there]))
        .with("/clients", json!([client]))
        .with("/thread_history", json!([threads(0.0, 0), threads(1.0, 8), threads(6.0, 4)]))
}

fn environment(number: u128, package: &str) -> Value {
    json!({ "id": uuid(number), "python": "3.12.1", "executable": "/usr/bin/python3", "os": "Linux",
        "os_release": "6.1", "machine": "x86_64", "packages": { "dask": format!("2026.{number}.0"), package: "2.3.0" } })
}

/// Adds samples of a worker short of memory and of a large graph, fine metrics and a profile.
fn measured(report: ReportBuilder, name: &str) -> ReportBuilder {
    let of_cluster = json!({ "workers": 1, "cpu_cores": 1.5, "memory_process_bytes": 60, "memory_limit_bytes": 100,
        "tasks_processing": 5, "tasks_waiting": 150_000, "tasks_memory": 60_000 });
    let of_worker = json!({ "cpu_cores": 1.5, "memory_process_bytes": 90, "memory_limit_bytes": 100 });
    let samples = MOMENTS.iter().flat_map(|second| {
        let at = second * 1_000;
        [sample(None, at, of_cluster.clone()), sample(Some(51), at, of_worker.clone())]
    });
    let cells = json!([
        ["execute", "load", "thread-cpu", "seconds", 2],
        ["execute", "divide", "disk-write", "seconds", 1],
        ["execute", "load", "memory-read", "bytes", 7]
    ]);
    let mut active = activity(1, &[("load", [0.0, 15.0, 3.25, 0.0]), ("divide", [0.0, 0.0, 1.5, 0.0])]);
    active["other_compute_seconds"] = json!([0, 0, 0, 0.5]);
    let file = format!("{name}.py");
    let frames = json!([{ "file": file, "function": "load", "line": 5, "text": "read()" },
        { "file": file, "function": "main", "line": 1 }]);
    let mut window = profile(70, 1.0, 3, &frames, &json!([[-1, 1, 1, 3], [0, 0, 2, 2]]));
    window["by_worker"] = json!([{ "worker": uuid(50), "roots": [0] }]);
    window["functions"] = json!([{ "prefix": format!("load-{name}"), "roots": [0] }]);
    report
        .with("/samples", samples.collect::<Vec<_>>())
        .with("/fine_metrics", json!([{ "span_id": uuid(30), "cells": cells }]))
        .with("/function_activity", json!([active]))
        .with("/profiles", json!([window]))
}

/// Adds an event and a log line.
fn add_event_and_log_line(report: ReportBuilder, name: &str) -> ReportBuilder {
    let mut custom_event = event(1, "mine", json!({ "said": name }));
    custom_event["worker_id"] = json!(uuid(50));
    let mut line = log_line(1, &format!("line of {name}"));
    (line["source"], line["level"]) = (json!("worker"), json!("WARNING"));
    (line["worker"], line["worker_id"]) = (json!(format!("worker of {name}")), json!(uuid(50)));
    report.with("/events", json!([custom_event])).with("/logs", json!([line]))
}

/// A cluster with running work.
fn busy(name: &str) -> Value {
    let mut report = cluster(name, "Scheduler-1", &format!("x = '{name}'")).build();
    let mut running = computation(2, &[10]);
    (running["state"], running["stopped_at"]) = (json!("running"), Value::Null);
    report["computations"].as_array_mut().unwrap().push(running);
    report
}

/// The same cluster a little later, after another error.
fn failed_again(name: &str) -> Value {
    let mut again = failed(name, 200);
    again["at"] = json!(STARTED_AT + 3_630.0);
    later(&busy(name)).with("/errors", json!([again])).build()
}

/// An idle cluster that remains idle.
fn still_idle(name: &str) -> Value {
    later(&idle(name, "Scheduler-2")).build()
}

/// An idle cluster that gets work again.
fn busy_again(name: &str) -> Value {
    later(&idle(name, "Scheduler-3")).with("/cluster/idle_since", Value::Null).build()
}

fn later(report: &Value) -> ReportBuilder {
    let scheduler = report["scheduler_id"].as_str().unwrap();
    ReportBuilder::new(scheduler, 101).with("/base", 100).with("/cluster", report["cluster"].clone())
}

/// A cluster that has been idle for 29 and a half minutes.
fn idle(name: &str, scheduler: &str) -> Value {
    cluster(name, scheduler, &format!("x = '{name}'"))
        .with("/cluster/idle_since", STARTED_AT + 100.0 - 1_770.0)
        .with("/cluster/idle_timeout_seconds", 7_200.0)
        .build()
}

/// A closed cluster with another environment.
fn ended(name: &str) -> Value {
    let other = json!({ "id": uuid(42), "python": "3.11.0", "executable": "/usr/bin/python3", "os": "Darwin",
        "os_release": "24.0", "machine": "arm64", "packages": { "dask": "2026.6.0", "pandas": "2.3.0" } });
    let mut report = cluster(name, "Scheduler-4", &format!("y = '{name}'"))
        .with("/final", true)
        .with("/cluster/closed_at", STARTED_AT + 160.0)
        .with("/cluster/close_reason", format!("{name} closed it"))
        .with("/cluster/environment_id", uuid(42))
        .build();
    report["environments"][0] = other;
    report["fine_metrics"][0]["cells"][0][4] = json!(1);
    report["thread_history"][1]["threads"] = json!(6);
    report
}
