//! Flags of clusters: how reports raise them, and how they change.

use std::{fs, path::Path};

use entity::api_token::Scope;
use harness::{Member, ReportBuilder, TestApp, error, sample, task_group, uuid, worker};
use serde_json::{Value, json};

/// The measuring times in seconds after the start. The last one is that of the report.
const MOMENTS: [i64; 5] = [40, 55, 70, 85, 100];

/// A report a hundred seconds after the start.
fn report(name: &str) -> ReportBuilder {
    ReportBuilder::new(name, 100).with("/cluster/name", name)
}

/// The samples of the cluster or a worker at the last measuring times.
fn measured(worker: Option<u128>, metrics: &[Value]) -> Vec<Value> {
    let moments = MOMENTS.iter().skip(MOMENTS.len() - metrics.len());
    moments.zip(metrics).map(|(second, metrics)| sample(worker, second * 1_000, metrics.clone())).collect()
}

fn memory(used: &[i64]) -> Vec<Value> {
    used.iter().map(|used| json!({ "memory_process_bytes": used, "memory_limit_bytes": 100 })).collect()
}

fn workers() -> Value {
    json!([worker(30), worker(31)])
}

fn environment(number: u128, dask: &str) -> Value {
    json!({ "id": uuid(number), "python": "3.12.1", "packages": { "dask": dask, "numpy": "2.3.0", "black": dask } })
}

/// A kind; a report that raises it and one that barely does not; and the flag's data.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn cases() -> Vec<(&'static str, ReportBuilder, ReportBuilder, Value)> {
    let samples =
        |name: &str, samples: Vec<Value>| report(name).with("/workers", workers()).with("/samples", samples);
    let of_cluster = |name: &str, metrics: &[Value]| samples(name, measured(None, metrics));
    let of_worker = |name: &str, metrics: &[Value]| {
        let other = vec![
            json!({ "memory_process_bytes": 10, "memory_limit_bytes": 100,
            "disk_free_bytes": 50, "disk_total_bytes": 100, "event_loop_seconds": 0.02 });
            metrics.len()
        ];
        samples(name, [measured(Some(30), metrics), measured(Some(31), &other)].concat())
    };
    let spilled = |bytes: i64| vec![json!({ "memory_spilled_bytes": bytes, "memory_limit_bytes": 100 }); 5];
    let disk = |free: i64| [json!({ "disk_free_bytes": free, "disk_total_bytes": 100 })];
    let gil = |share: f64| vec![json!({ "gil_contention": share }); 5];
    let tick = |seconds: f64| vec![json!({ "event_loop_seconds": seconds }); 3];
    let tasks =
        |waiting: i64| [json!({ "tasks_waiting": waiting, "tasks_memory": 60_000, "tasks_processing": 4 })];
    let busy = |name: &str, ready: i64| {
        let idle = vec![json!({ "tasks_executing": 0, "tasks_ready": 0 }); 5];
        let busy = vec![json!({ "tasks_executing": 4, "tasks_ready": ready }); 5];
        samples(name, [measured(Some(30), &idle), measured(Some(31), &busy)].concat())
    };
    let failed = |name: &str, errors: u128| {
        let errors: Vec<Value> = (0..errors).map(|number| error(100 + number, 11, 1)).collect();
        report(name).with("/errors", errors)
    };
    let versions = |name: &str, other: &str| {
        let mut newer = worker(30);
        newer["environment_id"] = json!(uuid(41));
        report(name)
            .with("/cluster/environment_id", uuid(40))
            .with("/workers", json!([newer]))
            .with("/environments", json!([environment(40, "2026.8.0"), environment(41, other)]))
    };
    // Another package and another path of Python do not raise the flag.
    let mut same = environment(41, "2026.8.0");
    (same["executable"], same["packages"]["black"]) = (json!("/opt/python"), json!("1.0"));
    let idle = |name: &str, seconds: f64| report(name).with("/cluster/idle_since", 1_795_172_500.0 - seconds);
    let groups =
        json!([task_group(10, "load", 100), task_group(11, "sum", 150_000), task_group(12, "load", 50_000)]);
    let flag = |since: &str, value: f64, threshold: f64, unit: &str, text: &str| {
        json!({ "since": format!("2026-11-20T11:{since}+00:00"), "value": value, "threshold": threshold, "unit": unit,
            "text": text, "worker": null, "errorGroup": null, "function": null, "packages": [] })
    };
    let with = |mut flag: Value, field: &str, value: Value| {
        flag[field] = value;
        flag
    };
    let on = |flag: Value, worker: &str| with(flag, "worker", json!({ "name": worker }));
    vec![
        (
            "MEMORY_PRESSURE",
            of_cluster("memory", &memory(&[80, 81, 84, 80, 80])),
            of_cluster("memory-", &memory(&[80, 81, 85, 79, 80])),
            flag("00:40", 0.84, 0.8, "share", "The workers used 84 % of their memory."),
        ),
        (
            "WORKER_MEMORY_PRESSURE",
            of_worker("worker-memory", &memory(&[90, 80, 81])),
            of_worker("worker-memory-", &memory(&[90, 91])),
            on(flag("01:10", 0.9, 0.8, "share", "A worker used 90 % of its memory."), "worker-30"),
        ),
        (
            "DISK_NEARLY_FULL",
            of_worker("disk", &disk(4)),
            of_worker("disk-", &disk(6)),
            on(flag("01:40", 0.96, 0.95, "share", "96 % of a worker's disk were in use."), "worker-30"),
        ),
        (
            "SPILLING",
            of_cluster("spill", &spilled(6)),
            of_cluster("spill-", &spilled(4)),
            flag("00:40", 0.06, 0.05, "share", "Results as large as 6 % of the workers' memory lay on disk."),
        ),
        (
            "UNBALANCED_WORKERS",
            busy("balance", 10),
            busy("balance-", 9),
            on(
                flag(
                    "00:40",
                    0.5,
                    0.5,
                    "share",
                    "50 % of the workers had no task, while many were ready on one.",
                ),
                "worker-31",
            ),
        ),
        (
            "GIL_CONTENTION",
            of_cluster("gil", &gil(0.75)),
            of_cluster("gil-", &gil(0.375)),
            flag("00:40", 0.75, 0.5, "share", "The GIL was busy 75 % of the time on the median worker."),
        ),
        (
            "EVENT_LOOP_BLOCKED",
            of_worker("loop", &tick(1.5)),
            of_worker("loop-", &tick(0.375)),
            on(flag("01:10", 1.5, 0.5, "seconds", "An event loop took 1.5 s for a tick."), "worker-30"),
        ),
        (
            "MANY_FAILURES",
            failed("failures", 12),
            failed("failures-", 9),
            with(
                flag("00:03", 12.0, 10.0, "errors in 10 minutes", "12 tasks erred within 10 minutes."),
                "errorGroup",
                json!({ "title": "division by zero" }),
            ),
        ),
        (
            "OVERSIZED_GRAPH",
            of_cluster("graph", &tasks(150_000)).with("/task_groups", groups.clone()),
            of_cluster("graph-", &tasks(139_000)).with("/task_groups", groups),
            with(
                flag("01:40", 210_004.0, 200_000.0, "tasks", "The scheduler held 210004 tasks, of sum most."),
                "function",
                json!("sum"),
            ),
        ),
        (
            "VERSION_MISMATCH",
            versions("versions", "2026.7.1"),
            versions("versions-", "2026.8.0")
                .with("/environments", json!([environment(40, "2026.8.0"), same])),
            with(
                flag("01:40", 1.0, 1.0, "packages", "Not all processes have the same version of dask."),
                "packages",
                json!(["dask"]),
            ),
        ),
        (
            "IDLE",
            idle("idle", 1_230.0),
            idle("idle-", 1_199.0),
            flag("00:00", 1_230.0, 1_200.0, "seconds", "There was nothing to do for 21 min."),
        ),
    ]
}

const FLAGS: &str = "query($active: Boolean, $kinds: [FlagKind!], $muted: Boolean! = false) { viewer { account {
    flags(first: 100, active: $active, kinds: $kinds, muted: $muted) { totalCount nodes {
        kind since until isActive value threshold unit text worker { name } errorGroup { title } function packages isMuted
        cluster { name } } } } } }";

async fn flags(member: &Member, variables: Value) -> Vec<Value> {
    let mut list = member.query(FLAGS, variables).await["viewer"]["account"]["flags"].take();
    let nodes = list["nodes"].as_array_mut().unwrap().drain(..).collect::<Vec<_>>();
    assert_eq!(list["totalCount"], nodes.len());
    nodes
}

/// The kinds of a cluster's flags, with their end times.
async fn of_cluster(member: &Member, id: i64) -> Vec<(String, Option<String>)> {
    let query = "query($id: ID!) { cluster(id: $id) { flags { nodes { kind until } } } }";
    let found = member.query(query, json!({ "id": id.to_string() })).await;
    let nodes = found["cluster"]["flags"]["nodes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    nodes.map(|node| (text(&node["kind"]).unwrap(), text(&node["until"]))).collect()
}

#[tokio::test]
async fn each_rule_notices_what_it_says() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for (_, over, below, _) in cases() {
        ada.reported(&over.build()).await;
        ada.reported(&below.build()).await;
    }
    let done = app.run_jobs().await;
    assert_eq!(done.get("flags.changed"), Some(&11), "{done:?}");
    let found = flags(&ada, json!({})).await;
    for (kind, over, _, expected) in cases() {
        let mut expected = expected;
        if kind == "IDLE" {
            expected["since"] = json!("2026-11-20T10:41:10+00:00");
        }
        for (field, value) in [
            ("kind", json!(kind)),
            ("until", Value::Null),
            ("isActive", json!(true)),
            ("isMuted", json!(false)),
            ("cluster", json!({ "name": over.build()["cluster"]["name"] })),
        ] {
            expected[field] = value;
        }
        let of_kind: Vec<&Value> = found.iter().filter(|flag| flag["kind"] == kind).collect();
        assert_eq!(of_kind, [&expected]);
        assert_eq!(flags(&ada, json!({ "kinds": [kind] })).await, [expected]);
    }
    assert_eq!(found.len(), 11);
    assert_eq!(app.run_jobs().await.get("flags.changed"), None, "the same again changes nothing");
    let found = |kinds: Value| {
        let query = "query($kinds: [FlagKind!]) { viewer { account { clusters(filter: { flags: $kinds },
            orderBy: { field: ERRORS }) { totalCount nodes { name } } } } }";
        let ada = &ada;
        async move { ada.query(query, json!({ "kinds": kinds })).await["viewer"]["account"]["clusters"].take() }
    };
    let of_clusters = "query($clusters: ClusterFilter) { viewer { account {
        flags(clusters: $clusters) { totalCount nodes { kind } } } } }";
    for (clusters, expected) in [
        (json!({ "search": "gil" }), json!(["GIL_CONTENTION"])),
        (json!({ "search": "gil", "states": ["LOST"] }), json!([])),
        (json!({ "search": "failures" }), json!(["MANY_FAILURES"])),
    ] {
        let found = ada.query(of_clusters, json!({ "clusters": clusters })).await;
        let found = &found["viewer"]["account"]["flags"];
        let kinds = found["nodes"].as_array().unwrap().iter().map(|flag| flag["kind"].clone());
        assert_eq!(
            (json!(kinds.collect::<Vec<_>>()), &found["totalCount"]),
            (expected.clone(), &json!(expected.as_array().unwrap().len()))
        );
    }
    let one = json!({ "totalCount": 1, "nodes": [{ "name": "gil" }] });
    assert_eq!(found(json!(["GIL_CONTENTION"])).await, one);
    assert_eq!(found(json!(["IDLE", "SPILLING"])).await["totalCount"], 2);
    assert_eq!(found(json!([])).await["totalCount"], 0);
    assert_eq!(found(Value::Null).await["totalCount"], 22);
    app.stop().await;
}

#[tokio::test]
async fn a_flag_lasts_until_it_is_over_and_ends_with_its_cluster() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let at = |sequence: i64, used: i64| {
        let samples: Vec<Value> = (0..5)
            .map(|back| sample(None, (sequence - 15 * back) * 1_000, memory(&[used])[0].clone()))
            .collect();
        ReportBuilder::new("Scheduler-1", sequence).with("/samples", samples)
    };
    let pressure = |until: Option<&str>| {
        let until = until.map(|time| format!("2026-11-20T{time}+00:00"));
        vec![("MEMORY_PRESSURE".to_owned(), until)]
    };
    let mut id = 0;
    for (sequence, used, until) in [
        (100, 90, None),
        (200, 75, None),
        (300, 60, Some("11:04:00")),
        // Within ten minutes the flag counts as not interrupted.
        (600, 85, None),
        (800, 60, Some("11:12:20")),
    ] {
        id = ada.reported(&at(sequence, used).build()).await;
        app.run_jobs().await;
        assert_eq!(of_cluster(&ada, id).await, pressure(until), "{sequence}");
    }
    let twice = |until: Option<&str>| [pressure(until), pressure(Some("11:12:20"))].concat();
    ada.reported(&at(2_000, 95).build()).await;
    app.run_jobs().await;
    assert_eq!(of_cluster(&ada, id).await, twice(None));
    // Three intervals without a report, by the server's clock.
    app.set_clock("2026-11-20T12:01:00Z");
    app.run_jobs().await;
    assert_eq!(of_cluster(&ada, id).await, twice(None));
    app.set_clock("2026-11-20T12:01:01Z");
    app.run_jobs().await;
    assert_eq!(of_cluster(&ada, id).await, twice(Some("11:33:20")));
    assert_eq!(flags(&ada, json!({})).await, Vec::<Value>::new());
    assert_eq!(flags(&ada, json!({ "active": false })).await.len(), 2);
    assert_eq!(flags(&ada, json!({ "active": null })).await.len(), 2);
    // It is raised again, and then the cluster closes.
    ada.reported(&at(2_010, 95).build()).await;
    app.run_jobs().await;
    assert_eq!(of_cluster(&ada, id).await, twice(None));
    let last = at(2_020, 95).with("/final", true).with("/cluster/closed_at", 1_795_172_400.0 + 2_021.5);
    ada.reported(&last.build()).await;
    app.run_jobs().await;
    assert_eq!(of_cluster(&ada, id).await, twice(Some("11:33:41.500")));
    for (filter, expected) in [
        (json!({ "flags": ["MEMORY_PRESSURE"] }), 0),
        (json!({ "everFlagged": ["IDLE", "MEMORY_PRESSURE"] }), 1),
        (json!({ "everFlagged": ["IDLE"] }), 0),
        (json!({ "everFlagged": [] }), 0),
    ] {
        let query = "query($filter: ClusterFilter) { viewer { account { clusters(filter: $filter) { totalCount } } } }";
        let found = ada.query(query, json!({ "filter": filter })).await;
        assert_eq!(found["viewer"]["account"]["clusters"]["totalCount"], expected, "{filter}");
    }
    // Another server computes the same flags.
    let database = app.database.again();
    drop(database);
    app.set_clock("2026-11-20T13:00:00Z");
    assert_eq!(app.run_jobs().await.get("flags.changed"), None);
    app.stop().await;
}

#[tokio::test]
async fn what_was_over_between_two_rounds_of_a_short_cluster_is_still_told() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = report("short").with("/samples", measured(None, &memory(&[90; 5])));
    let id = ada.reported(&report.with("/final", true).build()).await;
    app.run_jobs().await;
    let ended = Some("2026-11-20T11:01:40+00:00".to_owned());
    assert_eq!(of_cluster(&ada, id).await, [("MEMORY_PRESSURE".to_owned(), ended)]);
    app.stop().await;
}

const MUTE: &str = "mutation($input: MuteFlagInput!) { result: muteFlag(input: $input) {
    account { flagMutes { kind tag { key value } until mutedAt mutedBy { name } } } userErrors { field code message } } }";
const UNMUTE: &str = "mutation($input: UnmuteFlagInput!) { result: unmuteFlag(input: $input) {
    account { flagMutes { kind tag { key value } until } } userErrors { field code message } } }";

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one mute after the other, on the same clusters")]
async fn what_is_muted_is_in_no_list_and_finds_no_cluster() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for name in ["etl", "web", "lab"] {
        let samples =
            [measured(None, &memory(&[90; 5])), measured(None, &vec![json!({ "gil_contention": 0.75 }); 5])];
        let samples: Vec<Value> = samples[0]
            .iter()
            .zip(&samples[1])
            .map(|(memory, gil)| {
                let mut both = memory.clone();
                both["metrics"]["gil_contention"] = gil["metrics"]["gil_contention"].clone();
                both
            })
            .collect();
        let number = ada.reported(&report(name).with("/samples", samples).build()).await;
        let tags = match name {
            "etl" => json!([{ "key": "team", "value": "risk" }]),
            "web" => json!([{ "key": "team" }]),
            _ => json!([]),
        };
        let id = ada
            .query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": number.to_string() }))
            .await;
        let set = "mutation($id: ID!, $tags: [TagInput!]!) { setClusterTags(cluster: $id, tags: $tags) { userErrors { field } } }";
        ada.query(set, json!({ "id": id["cluster"]["id"], "tags": tags })).await;
    }
    app.run_jobs().await;
    let seen = async || -> (String, String) {
        let of = |flags: Vec<Value>| {
            let mut names: Vec<String> = flags
                .iter()
                .filter(|flag| flag["kind"] == "MEMORY_PRESSURE")
                .map(|flag| {
                    let muted = if flag["isMuted"] == true { "-" } else { "" };
                    format!("{muted}{}", flag["cluster"]["name"].as_str().unwrap())
                })
                .collect();
            names.sort();
            names.join(" ")
        };
        let listed = of(flags(&ada, json!({})).await);
        let query =
            "{ viewer { account { clusters(filter: { flags: [MEMORY_PRESSURE] }) { nodes { name } } } } }";
        let found = ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"].take();
        let mut found: Vec<&str> =
            found.as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found.join(" "), listed, "the filter and the list agree");
        (listed, of(flags(&ada, json!({ "muted": true })).await))
    };
    assert_eq!(seen().await, ("etl lab web".to_owned(), "etl lab web".to_owned()));
    for (tag, until, listed, all) in [
        (json!({ "key": "team", "value": "risk" }), Value::Null, "lab web", "-etl lab web"),
        (json!({ "key": "team", "value": "" }), Value::Null, "etl lab", "-web etl lab"),
        (json!({ "key": "team" }), Value::Null, "lab", "-etl -web lab"),
        (Value::Null, json!("2026-11-20T12:00:10Z"), "", "-etl -lab -web"),
    ] {
        let input = json!({ "kind": "MEMORY_PRESSURE", "tag": tag, "until": until });
        let done = ada.query(MUTE, json!({ "input": input })).await["result"].take();
        let tag_told = match (&tag, tag.get("value")) {
            (Value::Null, _) => Value::Null,
            (_, Some(_)) => tag.clone(),
            (_, None) => json!({ "key": "team", "value": null }),
        };
        let until_told = if until.is_null() { Value::Null } else { json!("2026-11-20T12:00:10+00:00") };
        let mute = json!({ "kind": "MEMORY_PRESSURE", "tag": tag_told, "until": until_told,
            "mutedAt": "2026-11-20T12:00:00+00:00", "mutedBy": { "name": "ada" } });
        assert_eq!(done, json!({ "account": { "flagMutes": [mute] }, "userErrors": [] }));
        assert_eq!(seen().await, (listed.to_owned(), all.to_owned()), "{tag}");
        assert_eq!(
            flags(&ada, json!({ "kinds": ["GIL_CONTENTION"] })).await.len(),
            3,
            "others are not muted"
        );
        let input = json!({ "kind": "MEMORY_PRESSURE", "tag": tag });
        let nothing = json!({ "account": { "flagMutes": [] }, "userErrors": [] });
        if until.is_null() {
            assert_eq!(ada.query(UNMUTE, json!({ "input": input })).await["result"], nothing);
        } else {
            app.set_clock("2026-11-20T12:00:10Z");
        }
        assert_eq!(seen().await.0, "etl lab web");
    }
    for (input, field, code, message) in [
        (
            json!({ "kind": "IDLE", "until": "2026-11-20T12:00:10Z" }),
            "until",
            "OUT_OF_RANGE",
            "must not have passed",
        ),
        (
            json!({ "kind": "IDLE", "tag": { "key": "" } }),
            "tag",
            "INVALID",
            "a key must have 1 to 100 characters, none of them a control character",
        ),
    ] {
        let done = ada.query(MUTE, json!({ "input": input })).await["result"].take();
        let errors = json!([{ "field": field, "code": code, "message": message }]);
        assert_eq!(done, json!({ "account": { "flagMutes": [] }, "userErrors": errors }));
    }
    let done = ada.query(UNMUTE, json!({ "input": { "kind": "IDLE" } })).await["result"].take();
    let errors = json!([{ "field": "kind", "code": "NOT_FOUND", "message": "there is no such mute" }]);
    assert_eq!(done["userErrors"], errors);
    for number in 0..100 {
        let input = json!({ "kind": "IDLE", "tag": { "key": format!("tag-{number}") } });
        assert_eq!(
            ada.query(MUTE, json!({ "input": input })).await["result"]["userErrors"],
            json!([]),
            "{number}"
        );
    }
    let done = ada.query(MUTE, json!({ "input": { "kind": "IDLE" } })).await["result"].take();
    let errors =
        json!([{ "field": "kind", "code": "TOO_MANY", "message": "an account can have at most 100 mutes" }]);
    assert_eq!(done["userErrors"], errors);
    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    let answer = reader.ask(MUTE, json!({ "input": { "kind": "IDLE" } })).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN");
    app.stop().await;
}

#[tokio::test]
async fn how_long_is_too_long_is_what_the_account_says() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = report("idle").with("/cluster/idle_since", 1_795_172_500.0 - 90.0);
    let id = ada.reported(&report.build()).await;
    app.run_jobs().await;
    assert_eq!(of_cluster(&ada, id).await, []);
    let set =
        "mutation($input: SetIdlePolicyInput!) { setIdlePolicy(input: $input) { userErrors { field } } }";
    let threshold = async || -> f64 {
        let rules = ada.query("{ viewer { account { flagRules { kind threshold } } } }", json!({})).await;
        let rules = rules["viewer"]["account"]["flagRules"].as_array().unwrap().clone();
        rules.iter().find(|rule| rule["kind"] == "IDLE").unwrap()["threshold"].as_f64().unwrap()
    };
    assert!((threshold().await - 1_200.0).abs() < 1e-9);
    ada.query(set, json!({ "input": { "mode": "OBSERVE", "timeoutSeconds": 60, "warnBeforeSeconds": 0 } }))
        .await;
    assert!((threshold().await - 60.0).abs() < 1e-9);
    app.run_jobs().await;
    let found = flags(&ada, json!({})).await.remove(0);
    assert_eq!((&found["value"], &found["threshold"]), (&json!(90.0), &json!(60.0)));
    ada.query(set, json!({ "input": { "mode": "OBSERVE", "timeoutSeconds": 600, "warnBeforeSeconds": 0 } }))
        .await;
    app.run_jobs().await;
    assert_eq!(flags(&ada, json!({})).await, Vec::<Value>::new());
    app.stop().await;
}

#[tokio::test]
async fn a_round_costs_as_many_statements_for_many_clusters_as_for_one() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut costs = Vec::new();
    for clusters in [1, 30] {
        for number in 0..clusters {
            let name = format!("cluster-{number}");
            let samples = measured(None, &memory(&[10; 5]));
            ada.reported(&report(&name).with("/workers", workers()).with("/samples", samples).build()).await;
        }
        app.run_jobs().await;
        let before = app.statements();
        app.run_jobs().await;
        costs.push(app.statements() - before);
    }
    assert_eq!(costs[0], costs[1]);
    app.stop().await;
}

#[tokio::test]
async fn the_documentation_has_every_rule_as_it_is() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let fields = "kind title text needs threshold clearsBelow unit lastingSeconds";
    let rules =
        ada.query(&format!("{{ viewer {{ account {{ flagRules {{ {fields} }} }} }} }}"), json!({})).await;
    let cell = |rule: &Value, field: &str| match &rule[field] {
        Value::String(text) => text.replace('\n', " "),
        number => number.as_f64().map(|number| number.to_string()).unwrap_or_default(),
    };
    let rows: Vec<String> = rules["viewer"]["account"]["flagRules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            format!(
                "| `{}` | {} | {} | {} | {} | {} s | {} |",
                cell(rule, "kind"),
                cell(rule, "text"),
                cell(rule, "threshold"),
                cell(rule, "clearsBelow"),
                cell(rule, "unit"),
                cell(rule, "lastingSeconds"),
                cell(rule, "needs"),
            )
        })
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/flags.md");
    let text = fs::read_to_string(path).unwrap();
    for row in &rows {
        assert!(
            text.contains(row),
            "docs/flags.md lacks this row, or has an older one:\n{}",
            rows.join("\n")
        );
    }
    app.stop().await;
}
