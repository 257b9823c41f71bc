//! Streams of the clusters' latest state.

use std::{collections::BTreeMap, time::Duration};

use entity::membership::Role;
use harness::{ReportBuilder, TestApp, code, code_frame, sample, span};
use serde_json::{Value, json};

use super::{Watching, cursor, refusal};

const CLUSTERS: &str =
    "subscription($account: String!, $filter: ClusterFilter, $ids: [ID!], $after: String) {
    clusters(account: $account, filter: $filter, ids: $ids, after: $after) {
        cursor gap matches cluster { name state desiredState tags { key value } totals { tasks } } } }";

const SNAPSHOTS: &str = "subscription($after: String) {
    snapshots(account: \"ada\", everySeconds: 1, after: $after) { gap clusters { name now { workers } } } }";

fn report(scheduler: &str, sequence: i64, tasks: i64) -> ReportBuilder {
    ReportBuilder::new(scheduler, sequence)
        .with("/cluster/name", scheduler)
        .with("/cluster/totals/tasks", tasks)
}

fn seen(change: &Value) -> (String, i64, bool) {
    let cluster = &change["cluster"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&cluster["name"]), cluster["totals"]["tasks"].as_i64().unwrap(), change["matches"] == true)
}

/// Waits for a state. An earlier one may be repeated, and intermediate ones may be skipped.
async fn until(watching: &mut Watching, name: &str, tasks: i64, matches: bool) -> Value {
    let expected = (name.to_owned(), tasks, matches);
    for _ in 0..5 {
        let change = watching.next().await;
        if seen(&change) == expected {
            return change;
        }
    }
    panic!("{expected:?} does not come");
}

#[tokio::test]
async fn a_change_reaches_whoever_watches_the_account() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mut watching = Watching::begin(&app, &ada, "clusters", CLUSTERS, json!({ "account": "ada" })).await;
    let mut other = Watching::begin(&app, &bob, "clusters", CLUSTERS, json!({ "account": "bob" })).await;
    let number = ada.reported(&report("one", 1, 5).build()).await;
    assert_eq!(until(&mut watching, "one", 5, true).await["gap"], false);
    // The state is the latest one: two reports in one round are one change.
    ada.reported(&report("one", 2, 6).build()).await;
    ada.reported(&report("one", 3, 7).build()).await;
    until(&mut watching, "one", 7, true).await;
    // User-defined annotations are changes, too.
    let id =
        ada.query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": number.to_string() })).await;
    let id = id["cluster"]["id"].clone();
    let tag = r#"mutation($id: ID!) { setClusterTags(cluster: $id, tags: [{ key: "team", value: "x" }]) { cluster { id } } }"#;
    ada.query(tag, json!({ "id": id })).await;
    assert_eq!(watching.next().await["cluster"]["tags"], json!([{ "key": "team", "value": "x" }]));
    let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { id } } }";
    ada.query(stop, json!({ "id": id })).await;
    assert_eq!(watching.next().await["cluster"]["desiredState"], "STOPPED");
    let write = r#"mutation($id: ID!) { setClusterNotes(cluster: $id, text: "x") { cluster { id } } }"#;
    ada.query(write, json!({ "id": id })).await;
    assert_eq!(watching.next().await["cluster"]["desiredState"], "STOPPED");
    assert!(other.is_quiet().await, "it was another account's");
    app.stop().await;
}

#[tokio::test]
async fn a_resumed_stream_brings_what_changed_since() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&report("before", 1, 1).build()).await;
    let start = cursor(&ada).await;
    ada.reported(&report("one", 1, 1).build()).await;
    ada.reported(&report("two", 1, 1).build()).await;
    ada.reported(&report("one", 2, 2).build()).await;
    let resume = json!({ "account": "ada", "after": start });
    let mut watching = Watching::begin(&app, &ada, "clusters", CLUSTERS, resume).await;
    let mut changes = [seen(&watching.next().await), seen(&watching.next().await)];
    changes.sort();
    assert_eq!(changes, [("one".to_owned(), 2, true), ("two".to_owned(), 1, true)]);
    ada.reported(&report("two", 2, 3).build()).await;
    until(&mut watching, "two", 3, true).await;
    // A cursor points to a minute before its round, so that late commits are not missed. So changes
    // since then are sent again.
    app.set_clock("2026-11-20T12:10:00Z");
    ada.reported(&report("one", 3, 4).build()).await;
    until(&mut watching, "one", 4, true).await;
    ada.reported(&report("one", 4, 5).build()).await;
    let change = until(&mut watching, "one", 5, true).await;
    let resume = json!({ "account": "ada", "after": change["cursor"] });
    let mut again = Watching::begin(&app, &ada, "clusters", CLUSTERS, resume).await;
    until(&mut again, "one", 5, true).await;
    assert!(again.is_quiet().await, "the others changed ten minutes ago");
    app.stop().await;
}

#[tokio::test]
async fn a_filter_and_identifiers_choose_clusters() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Without workers its state would be "starting".
    let report =
        |name: &str, sequence, tasks| report(name, sequence, tasks).with("/cluster/totals/workers", 2);
    let number = ada.reported(&report("one", 1, 1).build()).await;
    let id =
        ada.query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": number.to_string() })).await;
    let ids = json!({ "account": "ada", "ids": [id["cluster"]["id"]] });
    let mut one = Watching::begin(&app, &ada, "clusters", CLUSTERS, ids).await;
    let running = json!({ "account": "ada", "filter": { "states": ["RUNNING"], "search": "two" } });
    let mut two = Watching::begin(&app, &ada, "clusters", CLUSTERS, running).await;
    ada.reported(&report("two", 1, 1).build()).await;
    until(&mut two, "two", 1, true).await;
    ada.reported(&report("one", 2, 2).build()).await;
    until(&mut one, "one", 2, true).await;
    // A cluster that ends no longer matches the filter, which is sent once.
    ada.reported(&report("two", 2, 2).with("/final", true).build()).await;
    until(&mut two, "two", 2, false).await;
    ada.reported(&report("two", 3, 3).with("/final", true).build()).await;
    ada.reported(&report("one", 3, 3).build()).await;
    until(&mut one, "one", 3, true).await;
    assert!(two.is_quiet().await);
    app.stop().await;
}

#[tokio::test]
async fn a_cluster_whose_flag_ends_is_sent_once_more() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |sequence: i64, tasks, used| {
        let metrics = json!({ "memory_process_bytes": used, "memory_limit_bytes": 100 });
        let at = |back: i64| sample(None, (sequence - 15 * back) * 1_000, metrics.clone());
        report("one", sequence, tasks).with("/samples", (0..5).map(at).collect::<Vec<_>>()).build()
    };
    let flagged = json!({ "account": "ada", "filter": { "flags": ["MEMORY_PRESSURE"] } });
    let mut watching = Watching::begin(&app, &ada, "clusters", CLUSTERS, flagged).await;
    ada.reported(&report(100, 1, 90)).await;
    app.run_jobs().await;
    until(&mut watching, "one", 1, true).await;
    ada.reported(&report(300, 2, 60)).await;
    until(&mut watching, "one", 2, true).await;
    app.run_jobs().await;
    until(&mut watching, "one", 2, false).await;
    ada.reported(&report(400, 3, 60)).await;
    assert!(watching.is_quiet().await, "it has been delivered");
    app.stop().await;
}

#[tokio::test]
async fn snapshots_come_together_at_their_pace() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let start = cursor(&ada).await;
    for name in ["one", "two"] {
        ada.reported(&report(name, 1, 1).with("/cluster/workers", 2).build()).await;
    }
    let mut watching = Watching::begin(&app, &ada, "snapshots", SNAPSHOTS, json!({ "after": start })).await;
    // Clusters that are added in the same millisecond have identifiers in any order.
    let workers = |batch: &Value| {
        assert_eq!(batch["gap"], false);
        let clusters = batch["clusters"].as_array().unwrap().iter();
        let of = |cluster: &Value| (cluster["name"].to_string(), cluster["now"]["workers"].as_i64().unwrap());
        clusters.map(of).collect::<BTreeMap<_, _>>()
    };
    let of = |workers: &[(&str, i64)]| -> BTreeMap<_, _> {
        workers.iter().map(|(name, workers)| (json!(name).to_string(), *workers)).collect()
    };
    assert_eq!(workers(&watching.next().await), of(&[("one", 2), ("two", 2)]));
    // The first round is immediate, the second a second later: all reports between the two are one
    // payload.
    ada.reported(&report("one", 2, 1).with("/cluster/workers", 3).build()).await;
    assert_eq!(workers(&watching.next().await), of(&[("one", 3)]));
    for (sequence, workers) in [(3, 4), (4, 5)] {
        for name in ["one", "two"] {
            ada.reported(&report(name, sequence, 1).with("/cluster/workers", workers).build()).await;
        }
    }
    assert_eq!(workers(&watching.next().await), of(&[("one", 5), ("two", 5)]));
    assert!(watching.is_quiet().await);
    for wrong in ["0.5", "4000"] {
        let query =
            format!("subscription {{ snapshots(account: \"ada\", everySeconds: {wrong}) {{ gap }} }}");
        assert_eq!(refusal(&app, &ada, &query, json!({})).await[0]["extensions"]["code"], "BAD_USER_INPUT");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_slow_reader_receives_the_newest_state_and_the_gap() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Every payload has some hundred kilobytes, so that the connection's buffers fill up soon.
    let long = "x".repeat(2_000);
    let names: Vec<String> = (0..180).map(|number| format!("n{number}: name")).collect();
    let query = format!(
        "subscription($after: String) {{ clusters(account: \"ada\", after: $after) {{ gap cluster {{ totals {{ tasks }} {} }} }} }}",
        names.join(" ")
    );
    let mut slow = Watching::begin(&app, &ada, "clusters", &query, json!({})).await;
    let mut quick = Watching::begin(&app, &ada, "clusters", &query, json!({})).await;
    let reports = 50;
    for sequence in 1..=reports {
        let report = ReportBuilder::new("one", sequence).with("/cluster/name", long.as_str());
        ada.reported(&report.with("/cluster/totals/tasks", sequence).build()).await;
        while quick.next().await["cluster"]["totals"]["tasks"] != sequence {}
    }
    let (mut payloads, mut gaps) = (0, 0);
    loop {
        let change = slow.next().await;
        payloads += 1;
        gaps += i64::from(change["gap"] == true);
        if change["cluster"]["totals"]["tasks"] == reports {
            break;
        }
    }
    assert!(payloads < reports, "{payloads} of {reports}");
    assert!(gaps >= 1, "{gaps}");
    tokio::time::timeout(Duration::from_secs(20), app.stop()).await.unwrap();
}

#[tokio::test]
async fn what_is_written_down_when_it_is_read_cannot_be_watched() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let of_clusters = |selected: &str| {
        format!(
            "subscription($after: String) {{ clusters(account: \"ada\", after: $after) {{ cluster {{ {selected} }} }} }}"
        )
    };
    let spans = "spans { nodes { code { snippet { ...Shown } } } }";
    for (selected, fragment, at) in [
        (spans, "fragment Shown on CodeSnippet { hash text }", "text"),
        ("computations { nodes { code { snippet { ... { t: text } } } } }", "", "text"),
        ("profile { samples }", "", "profile"),
    ] {
        let query = of_clusters(selected) + " " + fragment;
        let refused = refusal(&app, &ada, &query, json!({})).await;
        let message = "code and profiles are not available in subscriptions: use a query";
        assert_eq!(refused[0]["message"], message, "{refused}");
        assert_eq!(refused[0]["extensions"]["code"], "FORBIDDEN");
        let column = query.find(at).unwrap() + 1;
        assert_eq!(refused[0]["locations"], json!([{ "line": 1, "column": column }]), "{query}");
    }

    // The hash of code is not confidential.
    let query = of_clusters(spans) + " fragment Shown on CodeSnippet { hash }";
    let mut watching = Watching::begin(&app, &ada, "clusters", &query, json!({})).await;
    let mut with_code = span(30, None, &["etl"], 1.0, Some(2.0));
    with_code["code"] = json!([[code_frame("geheim = 1", 1, 0)]]);
    let sent =
        report("one", 1, 1).with("/spans", json!([with_code])).with("/code", json!([code("geheim = 1")]));
    ada.reported(&sent.build()).await;
    let shown = watching.next().await;
    // printf 'geheim = 1' | sha256sum
    let hash = "d5f7975aecd9d8e9e5fa73564a8420da3477900502455e5d9994abeb850abd23";
    let expected = json!([{ "code": [[{ "snippet": { "hash": hash } }]] }]);
    assert_eq!(shown["cluster"]["spans"]["nodes"], expected);
    app.stop().await;
}

#[tokio::test]
async fn what_depends_on_the_user_is_not_shared_with_others() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (bob, eve) = (
        app.member_with("bob", "ada", Role::Member).await,
        app.member_with("eve", "ada", Role::Member).await,
    );
    bob.stored_report("private", "of bob.html", "<p>").await;
    let view = json!({ "name": "mine", "page": "clusters", "parameters": "" });
    let create = "mutation($view: SavedViewInput!) { createSavedView(input: $view) { savedView { id } } }";
    bob.query(create, json!({ "view": view })).await;
    // The admin may do everything, but has no private data of others; members of one role differ by what is
    // theirs.
    let count = |list: &str, count: i64| json!({ "account": { list: { "totalCount": count } } });
    let cases = [
        ("viewerCanStop", [true, true, false].map(|can_stop| json!({ "viewerCanStop": can_stop }))),
        (
            "account { performanceReports { totalCount } }",
            [1, 1, 0].map(|reports| count("performanceReports", reports)),
        ),
        ("account { savedViews { totalCount } }", [0, 1, 0].map(|views| count("savedViews", views))),
    ];
    for (sequence, (fields, expected)) in (1..).zip(cases) {
        let query = format!(
            "subscription($after: String) {{ clusters(account: \"ada\", after: $after) {{ cluster {{ {fields} }} }} }}"
        );
        let mut watching = Vec::new();
        for member in [&ada, &bob, &eve] {
            watching.push(Watching::begin(&app, member, "clusters", &query, json!({})).await);
        }
        bob.reported(&report("one", sequence, 1).build()).await;
        for (watching, expected) in watching.iter_mut().zip(expected) {
            assert_eq!(watching.next().await["cluster"], expected);
        }
    }
    app.stop().await;
}
