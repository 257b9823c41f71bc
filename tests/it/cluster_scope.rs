//! Usage, statistics, tables and functions of the clusters that pass a filter, compared with sums by hand.

use harness::{Member, ReportBuilder, TestApp, usage};
use serde_json::{Value, json};

use crate::{plan, statements::statements_of};

/// 2026-11-21T03:00:00Z, after the hours of all clusters.
const SENT_AT: f64 = harness::STARTED_AT + 16.0 * 3_600.0;

/// Two clusters of `team` and one of `bob`, around the end of 2026-11-20: hour 23 is the last one of that
/// day. The first one, with 4 and 2 threads, has the tag `team=risk`.
async fn three(app: &TestApp) -> (Member, Member) {
    app.set_clock("2026-11-21T03:00:00Z");
    let (ada, bob) = (app.account("team").await, app.member("bob", "team").await);
    let report = |scheduler: &str, hours: Vec<Value>| {
        ReportBuilder::new(scheduler, 1).with("/sent_at", SENT_AT).with("/usage", hours).build()
    };
    let tagged = ada.reported(&report("Scheduler-1", vec![usage(23, 4), usage(24, 2)])).await;
    ada.reported(&report("Scheduler-2", vec![usage(23, 1)])).await;
    bob.reported(&report("Scheduler-3", vec![usage(24, 3)])).await;
    let id =
        ada.query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": tagged.to_string() })).await;
    let tag =
        "mutation($id: ID!) { setClusterTags(cluster: $id, tags: [{ key: \"team\", value: \"risk\" }]) {
        userErrors { message } } }";
    let answer = ada.query(tag, json!({ "id": id["cluster"]["id"] })).await;
    assert_eq!(answer["setClusterTags"]["userErrors"], json!([]));
    app.fold_usage().await;
    (ada, bob)
}

async fn account(member: &Member, fields: &str, clusters: Value) -> Value {
    let declared = if fields.contains("$clusters") { "($clusters: ClusterFilter)" } else { "" };
    let query = format!("query{declared} {{ viewer {{ account {{ {fields} }} }} }}");
    let mut answer = member.query(&query, json!({ "clusters": clusters })).await;
    answer["viewer"]["account"].take()
}

async fn id_of(member: &Member) -> Value {
    member.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone()
}

/// One query may request the usage of selected clusters five times.
const FIELDS: [&str; 2] = [
    "usage(clusters: $clusters) { threadSeconds computeSeconds tasks costs { amount } }
    later: usage(clusters: $clusters, from: \"2026-11-21\") { threadSeconds }
    statistics(clusters: $clusters) { clusters users usage { threadSeconds } }
    first: statistics(clusters: $clusters, to: \"2026-11-21\") { clusters users usage { threadSeconds } }",
    "usageTable(clusters: $clusters, from: \"2026-11-20\", to: \"2026-11-22\", by: [USER, DAY]) {
        day user { name } clusters usage { threadSeconds } }
    functions(clusters: $clusters) { prefix computeSeconds tasks costs { amount } }",
];

/// Returns all of these fields.
async fn usage_of(member: &Member, clusters: Value) -> Value {
    let mut all = account(member, FIELDS[0], clusters.clone()).await;
    all.as_object_mut().unwrap().append(account(member, FIELDS[1], clusters).await.as_object_mut().unwrap());
    all
}

#[tokio::test]
async fn usage_is_that_of_the_clusters_that_pass() {
    let app = TestApp::start().await;
    let (ada, bob) = three(&app).await;
    let (ada_id, bob_id) = (id_of(&ada).await, id_of(&bob).await);
    let row = |day: &str, user: &str, clusters: i64, hours: f64| {
        json!({ "day": day, "user": { "name": user }, "clusters": clusters,
            "usage": { "threadSeconds": 3_600.0 * hours } })
    };
    let (first, second) = ("2026-11-20", "2026-11-21");
    // Each hour offers 2 GiB and one worker, which are free. A thread costs 0.05 USD an hour.
    for (clusters, hours, reports, later, counts, counts_of_first, rows) in [
        (
            json!({ "tags": { "any": [{ "key": "team", "value": "risk" }] } }),
            6.0,
            2.0,
            2.0,
            (1, 1),
            (1, 1, 4.0),
            vec![row(first, "team", 1, 4.0), row(second, "team", 1, 2.0)],
        ),
        (json!({ "users": [bob_id] }), 3.0, 1.0, 3.0, (1, 1), (1, 0, 0.0), vec![row(second, "bob", 1, 3.0)]),
        (
            json!({ "users": [ada_id], "tags": { "none": [{ "key": "team" }] } }),
            1.0,
            1.0,
            0.0,
            (1, 1),
            (1, 1, 1.0),
            vec![row(first, "team", 1, 1.0)],
        ),
        (json!({ "hasErrors": true }), 0.0, 0.0, 0.0, (0, 0), (0, 0, 0.0), vec![]),
        (json!({ "users": [] }), 0.0, 0.0, 0.0, (0, 0), (0, 0, 0.0), vec![]),
        (
            json!({ "search": "scheduler" }),
            10.0,
            4.0,
            5.0,
            (3, 2),
            (3, 1, 5.0),
            vec![row(first, "team", 2, 5.0), row(second, "bob", 1, 3.0), row(second, "team", 1, 2.0)],
        ),
    ] {
        let found = usage_of(&ada, clusters.clone()).await;
        let amount: Vec<_> = (hours > 0.0).then(|| json!({ "amount": hours * 0.05 })).into_iter().collect();
        let expected = json!({ "threadSeconds": 3_600.0 * hours, "computeSeconds": 3_600.0 * reports,
            "tasks": 100.0 * reports, "costs": amount });
        let rounded = |mut usage: Value| {
            for cost in usage["costs"].as_array_mut().unwrap() {
                cost["amount"] = json!((cost["amount"].as_f64().unwrap() * 1e6).round() / 1e6);
            }
            usage["tasks"] = json!(usage["tasks"].as_f64());
            usage
        };
        assert_eq!(rounded(found["usage"].clone()), rounded(expected), "{clusters}");
        assert_eq!(found["later"]["threadSeconds"], 3_600.0 * later, "{clusters}");
        assert_eq!(
            found["statistics"],
            json!({ "clusters": counts.0, "users": counts.1, "usage": { "threadSeconds": 3_600.0 * hours } }),
            "{clusters}"
        );
        let (of_clusters, users, hours) = counts_of_first;
        assert_eq!(
            found["first"],
            json!({ "clusters": of_clusters, "users": users, "usage": { "threadSeconds": 3_600.0 * hours } }),
            "{clusters}"
        );
        assert_eq!(found["usageTable"], json!(rows), "{clusters}");
        // 3,000.5 s of each hour with usage are of `load`.
        let load = found["functions"].as_array().unwrap().iter().find(|of| of["prefix"] == "load").cloned();
        assert_eq!(
            load.map(|load| load["computeSeconds"].clone()),
            (reports > 0.0).then(|| json!(3_000.5 * reports)),
            "{clusters}"
        );
    }
    // A filter that all clusters pass, and one by all users, find what no filter finds.
    let all = usage_of(&ada, Value::Null).await;
    assert_eq!(usage_of(&ada, json!({})).await, all);
    assert_eq!(usage_of(&ada, json!({ "search": "scheduler" })).await, all);
    assert_eq!(usage_of(&ada, json!({ "users": [ada_id, bob_id] })).await, all);
    app.stop().await;
}

#[tokio::test]
async fn a_user_narrows_the_filter_of_functions() {
    let app = TestApp::start().await;
    let (ada, bob) = three(&app).await;
    let query = "query($user: ID, $clusters: ClusterFilter) { viewer { account {
        functions(user: $user, clusters: $clusters) { prefix tasks } } } }";
    let (ada_id, bob_id) = (id_of(&ada).await, id_of(&bob).await);
    for (user, clusters, tasks) in [
        (&bob_id, json!({ "search": "scheduler" }), Some(60)),
        (&bob_id, json!({ "users": [ada_id] }), None),
        (&ada_id, json!({ "users": [bob_id, ada_id] }), Some(180)),
        (&ada_id, json!({ "tags": { "all": [{ "key": "team" }] } }), Some(120)),
    ] {
        let found = ada.query(query, json!({ "user": user, "clusters": clusters })).await;
        let found = &found["viewer"]["account"]["functions"];
        assert_eq!(found[0]["tasks"].as_i64(), tasks, "{clusters}: {found}");
    }
    app.stop().await;
}

#[tokio::test]
async fn tables_of_selected_clusters_have_all_dimensions() {
    let app = TestApp::start().await;
    let (ada, bob) = three(&app).await;
    let bob_id = id_of(&bob).await;
    let query = "query($by: [UsageDimension!]!, $clusters: ClusterFilter) { viewer { account {
        usageTable(from: \"2026-11-20\", to: \"2026-11-22\", by: $by, clusters: $clusters) {
            start user { name } tag { key } clusters usage { threadSeconds } function { prefix tasks } } } } }";
    let tagged = json!({ "tags": { "any": [{ "key": "team" }] } });
    for (by, clusters, expected) in [
        (json!([]), &tagged, vec![json!([null, null, null, 6.0])]),
        (json!(["WEEK"]), &tagged, vec![json!(["2026-11-16T00:00:00+00:00", null, null, 6.0])]),
        (
            json!(["HOUR", "TAG"]),
            &tagged,
            vec![
                json!(["2026-11-20T23:00:00+00:00", null, "team", 4.0]),
                json!(["2026-11-21T00:00:00+00:00", null, "team", 2.0]),
            ],
        ),
        // Hours know their users, too.
        (
            json!(["HOUR"]),
            &json!({ "users": [bob_id] }),
            vec![json!(["2026-11-21T00:00:00+00:00", null, null, 3.0])],
        ),
        (json!(["TAG"]), &json!({ "users": [bob_id] }), vec![json!([null, null, null, 3.0])]),
    ] {
        let found = ada.query(query, json!({ "by": by, "clusters": clusters })).await;
        let found = found["viewer"]["account"]["usageTable"].as_array().unwrap().iter().map(|row| {
            let hours = row["usage"]["threadSeconds"].as_f64().unwrap() / 3_600.0;
            json!([row["start"], row["user"]["name"], row["tag"]["key"], hours])
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{by} {clusters}");
    }
    let found = ada.query(query, json!({ "by": ["FUNCTION"], "clusters": tagged })).await;
    let functions = found["viewer"]["account"]["usageTable"].as_array().unwrap().iter();
    let functions: Vec<_> = functions.map(|row| row["function"].clone()).collect();
    let expected = [json!({ "prefix": "divide", "tasks": 80 }), json!({ "prefix": "load", "tasks": 120 })];
    assert_eq!(functions, expected);
    app.stop().await;
}

#[tokio::test]
async fn the_usage_of_selected_clusters_costs_two_statements_and_is_asked_for_five_times() {
    let app = TestApp::start().await;
    let (ada, bob) = three(&app).await;
    let bob_id = id_of(&bob).await;
    let selected = json!({ "search": "scheduler" });
    // The number of the account's clusters, by which searches are priced, is read once a minute.
    account(&ada, "clusters(filter: $clusters) { totalCount }", selected.clone()).await;
    for (field, selection, clusters, statements) in [
        ("usage", "threadSeconds", &selected, 2),
        ("usage", "threadSeconds", &json!({ "users": [bob_id] }), 1),
        ("statistics", "clusters users usage { threadSeconds }", &selected, 4),
        ("functions", "prefix", &selected, 2),
        ("functions", "prefix costs { amount }", &selected, 4),
        ("usageTable(from: \"2026-11-20\", to: \"2026-11-22\",", "day", &selected, 2),
    ] {
        let before = app.statements();
        let field = if field.contains('(') { field.to_owned() } else { format!("{field}(") };
        account(&ada, &format!("{field} clusters: $clusters) {{ {selection} }}"), clusters.clone()).await;
        // The first statement looks up the token.
        assert_eq!(app.statements() - before, 1 + statements, "{field}: {selection}");
    }
    let several = |count: usize| {
        let field = |number| format!("u{number}: usage(clusters: {{ search: \"s\" }}) {{ tasks }} ");
        format!("{{ viewer {{ account {{ {} }} }} }}", (0..count).map(field).collect::<String>())
    };
    ada.query(&several(5), json!({})).await;
    let refused = ada.ask(&several(6), json!({})).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
    app.stop().await;
}

/// The hours of few clusters are found by their key, and not by reading all hours of the account.
#[tokio::test]
async fn the_hours_of_selected_clusters_are_ranges_of_an_index() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    plan::fill_clusters(&app, &ada).await;
    for (field, table) in [
        ("usage(from: \"2026-11-20\", to: \"2026-11-27\", clusters: $clusters) { tasks }", "usage_hours"),
        ("functions(clusters: $clusters) { prefix }", "function_usage_hours"),
    ] {
        let (_, statements) =
            statements_of(account(&ada, field, json!({ "startedIn": { "from": "2026-11-29T00:00:00Z" } })))
                .await;
        let from = format!("FROM \"{table}\"");
        let statement = statements.iter().find(|sql| sql.contains(&from)).unwrap();
        let plan = plan::plan_of(&app, statement).await;
        assert!(!plan.contains(&format!("Seq Scan on {table}")), "{statement}\n{plan}");
        assert!(!plan.contains(&format!("SCAN {table}")), "{statement}\n{plan}");
    }
    app.stop().await;
}
