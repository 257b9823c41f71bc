//! Lists of clusters: filters, order, and totals.

use std::collections::BTreeSet;

use entity::ids::ClusterId;
use harness::{Member, ReportBuilder, STARTED_AT, TestApp, usage, uuid};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, EntityTrait, IntoActiveModel};
use serde_json::{Value, json};

const LIST: &str = "query($filter: ClusterFilter, $order: ClusterOrder! = { direction: ASC }) { viewer { account {
    clusters(filter: $filter, orderBy: $order, first: 100) { totalCount nodes { schedulerId }
        aggregates { clusters threadSeconds computeSeconds tasks tasksSucceeded tasksErred workers bytes errors } } } } }";

async fn list(member: &Member, variables: Value) -> (String, Value) {
    let what = variables.to_string();
    let mut clusters = member.query(LIST, variables).await["viewer"]["account"]["clusters"].take();
    let nodes = clusters["nodes"].as_array().unwrap();
    let names: Vec<_> = nodes.iter().map(|node| node["schedulerId"].as_str().unwrap()).collect();
    assert_eq!(clusters["totalCount"], names.len(), "{what}");
    assert_eq!(clusters["aggregates"]["clusters"], names.len(), "{what}");
    let names = names.join(" ");
    (names, clusters["aggregates"].take())
}

/// A cluster that started this many minutes after the first one and was known for this many seconds;
/// closed if `is_final`.
fn cluster(name: &str, minutes: i32, seconds: f64, is_final: bool) -> ReportBuilder {
    let started_at = STARTED_AT + 60.0 * f64::from(minutes);
    let report = ReportBuilder::new(name, 1)
        .with("/cluster/started_at", started_at)
        .with("/cluster/workers", minutes * 2 % 5)
        .with("/cluster/memory_used_bytes", minutes * 3 % 5)
        .with("/sent_at", started_at + seconds)
        .with("/final", is_final);
    if is_final { report.with("/cluster/closed_at", started_at + seconds) } else { report }
}

fn environment(number: u128, python: &str, packages: &Value) -> Value {
    json!([{ "id": uuid(number), "python": python, "packages": packages }])
}

/// Five clusters of two users: `a`, `b` and `c` of ada, `d` and `e` of bob. Their seconds add up
/// exactly, in any order.
async fn five(app: &TestApp) -> (Member, Member) {
    let ada = app.account("ada").await;
    let bob = app.member("bob", "ada").await;
    let totals = |tasks: i64, errors: i64, compute: f64, threads: f64| {
        json!({ "tasks": tasks, "tasks_succeeded": tasks - errors, "tasks_erred": errors, "errors": errors,
            "compute_seconds": compute, "transfer_seconds": 0.0, "thread_seconds": threads, "bytes": 10 * tasks,
            "workers": 2, "peak_workers": 2 + tasks % 4, "peak_threads": 4 })
    };
    let packages = json!({ "dask": "2026.1.0", "numpy": "2.1.0", "lz4": null, "we.i\"rd": "1", "7": "7.0" });
    app.set_clock("2026-11-20T12:05:00Z");
    let report = cluster("a", 0, 600.0, true)
        .with("/cluster/name", "ETL 100%_done!")
        .with("/cluster/totals", totals(10, 0, 2.5, 8.0))
        .with("/cluster/environment_id", uuid(1))
        .with("/environments", environment(1, "3.12.1", &packages));
    ada.reported(&report.build()).await;
    app.set_clock("2026-11-20T12:04:00Z");
    // Busy until half a minute ago.
    let report = cluster("b", 1, 900.0, false)
        .with("/cluster/name", "etl 100 x_done")
        .with("/cluster/idle_since", STARTED_AT + 60.0 + 870.0)
        .with("/cluster/totals", totals(40, 3, 0.125, 40.0))
        .with("/cluster/environment_id", uuid(2))
        .with("/environments", environment(2, "3.13.0", &json!({ "dask": "2026.2.0", "numpy": "2.10.0" })));
    ada.reported(&report.build()).await;
    app.set_clock("2026-11-20T12:03:00Z");
    // Idle for ten minutes, and then closed.
    let report = cluster("c", 2, 1_200.0, true)
        .with("/cluster/idle_since", STARTED_AT + 120.0 + 600.0)
        .with("/cluster/totals", totals(10, 1, 0.25, 0.125));
    ada.reported(&report.build()).await;
    app.set_clock("2026-11-20T12:02:00Z");
    let report = cluster("d", 3, 1_000.0, false)
        .with("/cluster/idle_since", STARTED_AT + 180.0 + 400.0)
        .with("/cluster/totals", totals(0, 0, 0.0, 0.0))
        .with("/cluster/environment_id", uuid(9));
    bob.reported(&report.build()).await;
    app.set_clock("2026-11-20T12:01:00Z");
    let report = cluster("e", 4, 30.5, true).with("/cluster/totals", totals(7, 0, 100.0, 100.0));
    bob.reported(&report.build()).await;
    (ada, bob)
}

#[tokio::test]
async fn a_filter_passes_what_holds_all_of_its_conditions() {
    let app = TestApp::start().await;
    let (ada, bob) = five(&app).await;
    let user = async |member: &Member| {
        member.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take()
    };
    let (ada_id, bob_id) = (user(&ada).await, user(&bob).await);
    let all = "{ viewer { account { clusters(orderBy: { direction: ASC }) { nodes { id } } } } }";
    let all = ada.query(all, json!({})).await;
    let id = |number: usize| &all["viewer"]["account"]["clusters"]["nodes"][number]["id"];
    let cases = [
        (json!({}), "a b c d e"),
        (json!({ "ids": [id(3), id(0), id(3)] }), "a d"),
        (json!({ "ids": [id(0), id(1), id(4)], "hasErrors": false }), "a e"),
        (json!({ "ids": [] }), ""),
        (json!({ "states": ["IDLE"] }), "b d"),
        (json!({ "states": ["RUNNING"] }), ""),
        (json!({ "states": ["CLOSED"] }), "a c e"),
        (json!({ "states": ["IDLE", "CLOSED"] }), "a b c d e"),
        (json!({ "states": ["RUNNING", "CLOSED"] }), "a c e"),
        (json!({ "states": [] }), ""),
        (json!({ "users": [ada_id] }), "a b c"),
        (json!({ "users": [bob_id] }), "d e"),
        (json!({ "users": [bob_id, ada_id] }), "a b c d e"),
        // b started at 11:01, c at 11:02.
        (json!({ "startedIn": { "from": "2026-11-20T11:01:00Z" } }), "b c d e"),
        (json!({ "startedIn": { "to": "2026-11-20T11:02:00Z" } }), "a b"),
        (json!({ "startedIn": { "from": "2026-11-20T11:01:00Z", "to": "2026-11-20T11:02:00Z" } }), "b"),
        (json!({ "startedIn": {} }), "a b c d e"),
        // a closed at 11:10:00, e at 11:04:30.5, c at 11:22.
        (json!({ "endedIn": { "from": "2026-11-20T11:10:00Z" } }), "a c"),
        (json!({ "endedIn": { "to": "2026-11-20T11:10:00Z" } }), "e"),
        (json!({ "endedIn": { "from": "2026-11-20T11:04:30.5Z", "to": "2026-11-20T11:10:00.001Z" } }), "a e"),
        (json!({ "endedIn": {} }), "a c e"),
        (json!({ "idleForSeconds": 0 }), "b d"),
        (json!({ "idleForSeconds": 30 }), "b d"),
        (json!({ "idleForSeconds": 30.001 }), "d"),
        (json!({ "idleForSeconds": 600 }), "d"),
        (json!({ "idleForSeconds": 601 }), ""),
        (json!({ "minDurationSeconds": 30.5 }), "a b c d e"),
        (json!({ "minDurationSeconds": 600 }), "a b c d"),
        (json!({ "minDurationSeconds": 901 }), "c d"),
        (json!({ "hasErrors": true }), "b c"),
        (json!({ "hasErrors": false }), "a d e"),
        (json!({ "search": "eTl" }), "a b"),
        (json!({ "search": "100%" }), "a"),
        (json!({ "search": "%_d" }), "a"),
        (json!({ "search": "_" }), "a b"),
        (json!({ "search": "!" }), "a"),
        (json!({ "search": "d" }), "a b d"),
        (json!({ "package": { "name": "numpy" } }), "a b"),
        (json!({ "package": { "name": "numpy", "version": "2.1.0" } }), "a"),
        (json!({ "package": { "name": "numpy", "version": "2.1" } }), ""),
        (json!({ "package": { "name": "numpy", "versionPrefix": "2.1" } }), "a b"),
        (json!({ "package": { "name": "numpy", "versionPrefix": "2.1." } }), "a"),
        (json!({ "package": { "name": "lz4" } }), ""),
        (json!({ "package": { "name": "we.i\"rd", "version": "1" } }), "a"),
        (json!({ "package": { "name": "7" } }), "a"),
        (json!({ "package": { "name": "$" } }), ""),
        (json!({ "package": { "name": "python", "versionPrefix": "3.12" } }), "a"),
        (json!({ "package": { "name": "python" } }), "a b"),
        (json!({ "states": ["CLOSED"], "users": [ada_id], "hasErrors": true, "minDurationSeconds": 1 }), "c"),
    ];
    for (filter, expected) in cases {
        let (names, _) = list(&ada, json!({ "filter": filter })).await;
        assert_eq!(names, expected, "{filter}");
    }
    assert_eq!(list(&ada, json!({ "filter": null })).await.0, "a b c d e");
    app.stop().await;
}

#[tokio::test]
async fn every_order_is_by_its_values_and_then_by_number() {
    let app = TestApp::start().await;
    let (ada, _) = five(&app).await;
    // Numbers are in the order of the first reports, although the clock was set back before that of e.
    for (field, ascending) in [
        ("STARTED_AT", "a b c d e"),
        ("ENDED_AT", "e a c b d"),
        ("DURATION", "e a b d c"),
        ("THREAD_SECONDS", "d c a b e"),
        ("COMPUTE_SECONDS", "d b c a e"),
        ("ERRORS", "a d e c b"),
        ("TASKS", "d e a c b"),
        ("LAST_SEEN_AT", "e d c b a"),
        // Three have no name; the letters of the others are equal but for their case.
        ("NAME", "c d e b a"),
        ("USER", "a b c d e"),
        ("UTILIZATION", "d b a e c"),
        ("IDLE_SECONDS", "a e b c d"),
        ("WORKERS", "a d b e c"),
        ("PEAK_WORKERS", "b d a c e"),
        ("MEMORY_USED", "a c e b d"),
    ] {
        let (names, _) = list(&ada, json!({ "order": { "field": field, "direction": "ASC" } })).await;
        assert_eq!(names, ascending, "{field}");
        let (names, _) = list(&ada, json!({ "order": { "field": field } })).await;
        assert_eq!(names.chars().rev().collect::<String>(), ascending, "{field}");
    }
    app.stop().await;
}

#[tokio::test]
async fn what_a_cluster_came_to_is_ordered_as_it_last_told() {
    let app = TestApp::start().await;
    let (ada, bob) = five(&app).await;
    // d closes; then a report with an earlier sequence arrives.
    let d = cluster("d", 3, 1_500.0, true).with("/sequence", 3);
    bob.reported(&d.build()).await;
    bob.reported(&cluster("d", 3, 2_000.0, false).with("/sequence", 2).build()).await;
    for (field, ascending) in [("ENDED_AT", "e a c d b"), ("DURATION", "e a b c d")] {
        let (names, _) = list(&ada, json!({ "order": { "field": field, "direction": "ASC" } })).await;
        assert_eq!(names, ascending, "{field}");
    }
    let query = "{ viewer { account { clusters(orderBy: { field: DURATION }, first: 2) { nodes { durationSeconds } } } } }";
    let nodes = ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"].take();
    assert_eq!(nodes, json!([{ "durationSeconds": 1_500.0 }, { "durationSeconds": 1_200.0 }]));
    app.stop().await;
}

#[tokio::test]
async fn aggregates_are_of_all_that_pass_whatever_the_page() {
    let app = TestApp::start().await;
    let (ada, _) = five(&app).await;
    let sums = |clusters: i64, threads: f64, compute: f64, tasks: i64, errors: i64| {
        json!({ "clusters": clusters, "threadSeconds": threads, "computeSeconds": compute, "tasks": tasks,
            "tasksSucceeded": tasks - errors, "tasksErred": errors, "workers": 2 * clusters, "bytes": 10 * tasks,
            "errors": errors })
    };
    let (_, all) = list(&ada, json!({})).await;
    assert_eq!(all, sums(5, 148.125, 102.875, 67, 4));
    let (_, closed) = list(&ada, json!({ "filter": { "states": ["CLOSED"] } })).await;
    assert_eq!(closed, sums(3, 108.125, 102.75, 27, 1));
    let (_, none) = list(&ada, json!({ "filter": { "states": [] } })).await;
    assert_eq!(none, sums(0, 0.0, 0.0, 0, 0));
    let query = "query($after: String) { viewer { account { clusters(first: 2, after: $after) {
        aggregates { tasks } pageInfo { endCursor } } } } }";
    let mut after = Value::Null;
    for _ in 0..3 {
        let clusters =
            ada.query(query, json!({ "after": after })).await["viewer"]["account"]["clusters"].take();
        assert_eq!(clusters["aggregates"], json!({ "tasks": 67 }));
        after = clusters["pageInfo"]["endCursor"].clone();
    }
    // The sum of these numbers exceeds every integer type of the database.
    let database = app.database.connection().await;
    database.execute_unprepared("UPDATE clusters SET total_bytes = 9223372036854775807").await.unwrap();
    assert_eq!(list(&ada, json!({})).await.1["bytes"], i64::MAX);
    app.stop().await;
}

#[tokio::test]
async fn a_wrong_filter_is_refused_and_named() {
    let app = TestApp::start().await;
    let (ada, _) = five(&app).await;
    let long = "x".repeat(201);
    for (filter, message) in [
        (json!({ "search": "" }), "argument 'search': must have 1 to 200 characters"),
        (json!({ "search": long }), "argument 'search': must have 1 to 200 characters"),
        (json!({ "search": "a\u{0}" }), "argument 'search': must not contain U+0000"),
        (json!({ "package": { "name": long } }), "argument 'name': must have 1 to 200 characters"),
        (
            json!({ "package": { "name": "x", "version": "" } }),
            "argument 'version': must have 1 to 200 characters",
        ),
        (
            json!({ "package": { "name": "x", "version": "1", "versionPrefix": "1" } }),
            "argument 'versionPrefix': only one of 'version' and 'versionPrefix' can be given",
        ),
        (json!({ "idleForSeconds": -1 }), "argument 'idleForSeconds': must be between 0 and 1000000000000"),
        (
            json!({ "minDurationSeconds": 1e300 }),
            "argument 'minDurationSeconds': must be between 0 and 1000000000000",
        ),
        (json!({ "ids": vec!["x"; 101] }), "argument 'ids': must be at most 100"),
        (json!({ "ids": ["x"] }), "argument 'ids': there is no such cluster"),
        (json!({ "everFlagged": vec!["IDLE"; 21] }), "argument 'everFlagged': must be at most 20"),
        (json!({ "users": vec!["x"; 101] }), "argument 'users': must be at most 100"),
        (json!({ "users": ["x"] }), "argument 'users': there is no such user"),
        (
            json!({ "startedIn": { "from": "yesterday" } }),
            "variable 'filter': field 'startedIn': field 'from': Failed to parse \"DateTime\": input contains invalid characters (DateTime)",
        ),
        (json!({ "minCost": { "amount": -0.1 } }), "argument 'amount': must be between 0 and 1000000000000"),
        (
            json!({ "minCost": { "amount": 1, "currency": "usd" } }),
            "argument 'currency': must be three capital letters, as in USD",
        ),
    ] {
        let answer = ada.ask(LIST, json!({ "filter": filter })).await;
        assert_eq!(answer["errors"][0]["message"], message, "{filter}");
    }
    for (order, message) in [
        (
            json!({ "field": "COST", "currency": "EURO" }),
            "argument 'currency': must be three capital letters, as in USD",
        ),
        (json!({ "currency": "EUR" }), "argument 'currency': is allowed only with the order COST"),
    ] {
        let answer = ada.ask(LIST, json!({ "order": order })).await;
        assert_eq!(answer["errors"][0]["message"], message, "{order}");
    }
    app.stop().await;
}

const RATE: &str =
    "mutation($input: CostRateInput!) { setCostRate(input: $input) { userErrors { message } } }";

#[tokio::test]
async fn clusters_are_found_and_ordered_by_what_they_cost_in_a_currency() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Hour 23 is the last one of the 20th. Each hour has a worker, two GiB and the given number of
    // threads.
    for (second, name, hours) in [
        (1, "a", vec![usage(23, 4)]),
        (2, "b", vec![usage(23, 1), usage(24, 2)]),
        (3, "c", vec![]),
        (4, "d", vec![usage(24, 6)]),
    ] {
        app.set_clock(&format!("2026-11-20T12:00:0{second}Z"));
        ada.reported(&ReportBuilder::new(name, 1).with("/usage", hours).build()).await;
    }
    let check = async |cases: &[(Value, &str)]| {
        for (variables, expected) in cases {
            assert_eq!(list(&ada, variables.clone()).await.0, *expected, "{variables}");
        }
    };
    let least = |amount: f64, currency: Option<&str>| json!({ "filter": { "minCost": { "amount": amount, "currency": currency } } });
    let by_cost = |currency: Option<&str>, direction: &str| json!({ "order": { "field": "COST", "currency": currency, "direction": direction } });
    let used = async |filter: Value| {
        let query = "query($filter: ClusterFilter) { viewer { account { clusters(filter: $filter, first: 1) { aggregates {
            usage { threadSeconds idleSeconds utilization tasks costs { amount currency basis } } } } } } }";
        let mut answer = ada.query(query, json!({ "filter": filter })).await;
        answer["viewer"]["account"]["clusters"]["aggregates"]["usage"].take()
    };
    // 4, 3 and 6 thread-hours, in each of which one thread computed; at 0.05 USD each.
    let estimated = |amount: f64| json!([{ "amount": amount, "currency": "USD", "basis": "ESTIMATED" }]);
    let all = used(json!({})).await;
    assert_eq!((&all["threadSeconds"], &all["costs"]), (&json!(13.0 * 3_600.0), &estimated(0.65)), "{all}");
    let some = used(json!({ "search": "a" })).await;
    assert_eq!((&some["threadSeconds"], &some["costs"]), (&json!(4.0 * 3_600.0), &estimated(0.2)), "{some}");
    let nothing = used(json!({ "search": "c" })).await;
    assert_eq!((&nothing["threadSeconds"], &nothing["tasks"]), (&json!(0.0), &json!(0)), "{nothing}");
    // Estimated at 0.05 USD per thread-hour: 0.2, 0.15, nothing and 0.3.
    check(&[
        (least(0.0, None), "a b c d"),
        (least(0.15, None), "a b d"),
        (least(0.150_000_001, None), "a d"),
        (least(0.2, Some("USD")), "a d"),
        (least(0.000_000_001, Some("EUR")), ""),
        (by_cost(None, "ASC"), "c b a d"),
        (by_cost(Some("USD"), "DESC"), "d a b c"),
        (by_cost(Some("EUR"), "ASC"), "a b c d"),
    ])
    .await;
    // On the 21st b costs 2 x 0.1 + 2 x 0.01 + 0.5 = 0.72 EUR and d 1.12; in USD remain 0.2 of a and
    // 0.05 of b.
    let rate = json!({ "validFrom": "2026-11-21", "currency": "EUR", "perThreadHour": 0.1, "perGibHour": 0.01, "perWorkerHour": 0.5 });
    ada.query(RATE, json!({ "input": rate })).await;
    check(&[
        (least(0.72, Some("EUR")), "b d"),
        (least(0.720_000_001, Some("EUR")), "d"),
        (least(0.05, Some("USD")), "a b"),
        (by_cost(Some("EUR"), "ASC"), "a c b d"),
        (by_cost(Some("USD"), "ASC"), "c d b a"),
        (least(0.05, None), "a b"),
    ])
    .await;
    // Tomorrow's rate applies tomorrow.
    app.set_clock("2026-11-21T00:00:00Z");
    check(&[(least(0.05, None), "b d"), (by_cost(None, "DESC"), "d b c a")]).await;
    // Rate-card and estimated amounts in the same currency are added: b costs 0.05 + 2.
    let rate = json!({ "validFrom": "2026-11-21", "currency": "USD", "perThreadHour": 1 });
    ada.query(RATE, json!({ "input": rate })).await;
    check(&[
        (least(2.05, None), "b d"),
        (least(2.050_000_001, None), "d"),
        (by_cost(Some("USD"), "DESC"), "d b a c"),
        (json!({ "filter": { "minCost": { "amount": 0.1 }, "hasErrors": false, "search": "b" } }), "b"),
    ])
    .await;
    app.stop().await;
}

#[tokio::test]
async fn the_usage_of_very_many_clusters_is_null_beside_their_other_sums() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&ReportBuilder::new("Scheduler", 1).with("/usage", json!([usage(23, 4)])).build()).await;
    let database = app.database.connection().await;
    let cluster = entity::cluster::Entity::find().one(&database).await.unwrap().unwrap();
    let rows: Vec<_> = (1..=10_000_i64)
        .map(|number| {
            let mut row = cluster.clone().into_active_model().reset_all();
            row.id = Set(ClusterId(cluster.id.0 + number));
            row.scheduler_id = Set(format!("Scheduler-{number}"));
            row
        })
        .collect();
    let (last, others) = rows.split_last().unwrap();
    for rows in others.chunks(500) {
        entity::cluster::Entity::insert_many(rows.to_vec()).exec_without_returning(&database).await.unwrap();
    }
    let query = "{ viewer { account { clusters(first: 1) { aggregates { clusters usage { threadSeconds } }
        facets { packageVersions { valueCount } } } } } }";
    let versions =
        |answer: &Value| answer["data"]["viewer"]["account"]["clusters"]["facets"]["packageVersions"].clone();
    let aggregates = |answer: &Value| answer["data"]["viewer"]["account"]["clusters"]["aggregates"].clone();
    let answer = ada.ask(query, json!({})).await;
    let expected = json!({ "clusters": 10_000, "usage": { "threadSeconds": 14_400.0 } });
    assert_eq!((aggregates(&answer), &answer["errors"]), (expected, &Value::Null));
    assert_eq!(versions(&answer), json!({ "valueCount": 0 }));
    last.clone().insert(&database).await.unwrap();
    let answer = ada.ask(query, json!({})).await;
    assert_eq!(aggregates(&answer), json!({ "clusters": 10_001, "usage": null }));
    assert_eq!(versions(&answer), Value::Null);
    let page = "{ viewer { account { clusters(first: 500) { nodes { schedulerId user { name } totals { tasks } } } } } }";
    let nodes = ada.query(page, json!({})).await["viewer"]["account"]["clusters"]["nodes"].take();
    let names: BTreeSet<_> =
        nodes.as_array().unwrap().iter().map(|node| node["schedulerId"].to_string()).collect();
    assert_eq!(names.len(), 500);
    for field in [["aggregates", "usage"], ["facets", "packageVersions"]] {
        let path = json!(["viewer", "account", "clusters", field[0], field[1]]);
        let error = answer["errors"].as_array().unwrap().iter().find(|error| error["path"] == path);
        assert_eq!(error.unwrap()["extensions"]["code"], "BAD_USER_INPUT", "{answer}");
    }
    app.stop().await;
}

#[tokio::test]
async fn the_order_by_cost_is_that_of_the_costs_that_are_shown() {
    let app = TestApp::start().await;
    app.set_clock("2026-11-24T12:00:00Z");
    let ada = app.account("ada").await;
    let rates = [("2026-11-20", 0.123_456), ("2026-11-21", 0.077_777), ("2026-11-23", 1.0 / 3.0)];
    for (day, price) in rates {
        let rate = json!({ "validFrom": day, "perThreadHour": price, "perGibHour": price / 7.0, "perWorkerHour": price / 13.0 });
        ada.query(RATE, json!({ "input": rate })).await;
    }
    for number in 0..20_i64 {
        let hours = (0..4).map(|day| {
            let mut hour = usage(24 * day + number % 24, 4);
            #[expect(clippy::cast_precision_loss, reason = "numbers of a test are small")]
            let odd = ((number * 7_919 + day * 104_729) % 9_973) as f64;
            (hour["thread_seconds"], hour["memory_gib_seconds"]) = (json!(odd + 0.123_457), json!(odd / 3.0));
            hour
        });
        let report = ReportBuilder::new(&format!("Scheduler-{number}"), 1);
        ada.reported(&report.with("/usage", hours.collect::<Vec<_>>()).build()).await;
    }
    let query = "query($least: Float!) { viewer { account { clusters(first: 100, orderBy: { field: COST },
        filter: { minCost: { amount: $least } }) { nodes { usage { costs { amount } } } } } } }";
    let amounts = async |least: f64| -> Vec<f64> {
        let nodes =
            ada.query(query, json!({ "least": least })).await["viewer"]["account"]["clusters"]["nodes"]
                .take();
        nodes
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["usage"]["costs"][0]["amount"].as_f64().unwrap())
            .collect()
    };
    let all = amounts(0.0).await;
    assert_eq!(all.len(), 20);
    assert!(all.is_sorted_by(|one, next| one > next), "{all:?}");
    for (place, amount) in all.iter().enumerate() {
        assert_eq!(amounts(*amount).await, all[..=place], "what costs exactly so much passes");
        assert_eq!(amounts(amount + 1e-9).await, all[..place], "and is left out by a billionth");
    }
    app.stop().await;
}
