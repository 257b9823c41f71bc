//! The number of statements per operation: independent of depth and number of rows.

use entity::membership::Role;
use harness::{Member, ReportBuilder, TestApp, computation, error, sample, task_group, usage, uuid, worker};
use serde_json::{Value, json};

/// Every request has one statement that looks up the token.
const SIGN_IN: u64 = 1;

async fn cost(app: &TestApp, member: &Member, query: &str, variables: Value) -> (u64, Value) {
    let before = app.statements();
    let answer = member.query(query, variables).await;
    (app.statements() - before, answer)
}

#[tokio::test]
async fn a_list_of_clusters_with_their_totals_costs_three_statements_at_any_depth() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for user in 0..3 {
        let member = app.member(&format!("user-{user}"), "ada").await;
        for number in 0..60 {
            member.reported(&ReportBuilder::new(&format!("Scheduler-{user}-{number}"), 1).build()).await;
        }
    }
    let totals = "schedulerId state startedAt lastSeenAt now { workers threads }
        totals { tasks tasksSucceeded tasksErred errors bytes computeSeconds transferSeconds threadSeconds }";
    let query = format!(
        "query($after: String) {{ viewer {{ account {{ clusters(first: 50, after: $after) {{
            totalCount nodes {{ {totals} }} pageInfo {{ hasNextPage endCursor }} }} }} }} }}"
    );
    let with_users = query.replace(totals, &format!("{totals} user {{ name }}"));
    let (mut after, mut seen) = (Value::Null, 0);
    let (statements, _) = cost(&app, &ada, &query, json!({})).await;
    assert_eq!(
        statements,
        SIGN_IN + 3,
        "once a minute the clusters are counted, since prices go by their number"
    );
    loop {
        let (statements, answer) = cost(&app, &ada, &query, json!({ "after": after })).await;
        assert_eq!(statements, SIGN_IN + 2, "one for the page, one for its total count");
        let (statements, _) = cost(&app, &ada, &with_users, json!({ "after": after })).await;
        assert_eq!(statements, SIGN_IN + 3, "one more for all users of the page");
        let page = &answer["viewer"]["account"]["clusters"];
        seen += page["nodes"].as_array().unwrap().len();
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        after = page["pageInfo"]["endCursor"].clone();
    }
    assert_eq!(seen, 180);
    let uncounted = query.replace("totalCount", "");
    assert_eq!(cost(&app, &ada, &uncounted, json!({})).await.0, SIGN_IN + 1, "nobody requested the count");
    let summed = query.replace("totalCount", "totalCount aggregates { clusters tasks threadSeconds bytes }").replace(
        "first: 50",
        "first: 50, orderBy: { field: TASKS }, filter: { states: [RUNNING], hasErrors: false, search: \"scheduler\",
            package: { name: \"dask\" } }",
    );
    assert_eq!(cost(&app, &ada, &summed, json!({})).await.0, SIGN_IN + 3, "one more for all sums");
    for (facets, statements) in [
        ("states { count }", 1),
        // The names of users are read with the counts.
        ("users { values { user { name } count } valueCount }", 1),
        ("tags { values { count } valueCount }", 1),
        ("flags { count }", 1),
        ("packageVersions { values { count } }", 2),
        ("states { count } users { valueCount } tags { valueCount } flags { count }", 4),
    ] {
        let query = format!("{{ viewer {{ account {{ clusters {{ facets {{ {facets} }} }} }} }} }}");
        assert_eq!(cost(&app, &ada, &query, json!({})).await.0, SIGN_IN + 1 + statements, "{facets}");
    }
    for (list, facets, statements) in [
        ("errorGroups", "types { values { count } }", 2),
        ("errorGroups", "isComplete types { values { count } }", 3),
        ("logs", "levels { values { count } }", 2),
        // The clusters are counted for the page, and again for the facet.
        ("events", "topics { values { count } }", 4),
        ("search(text: \"x\")", "", 5),
        ("search(text: \"1\", types: [CLUSTER])", "", 2),
    ] {
        let fields = if facets.is_empty() { "matched".to_owned() } else { format!("facets {{ {facets} }}") };
        let query = format!("{{ viewer {{ account {{ {list} {{ {fields} }} }} }} }}");
        assert_eq!(cost(&app, &ada, &query, json!({})).await.0, SIGN_IN + statements, "{list}: {facets}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_heat_map_of_members_and_days_costs_two_statements() {
    let app = TestApp::start().await;
    app.set_clock("2026-12-10T12:00:00Z");
    let ada = app.account("ada").await;
    for user in 0..5 {
        let member = app.member(&format!("user-{user}"), "ada").await;
        let hours: Vec<_> = (0..20).map(|day| usage(24 * day, 1)).collect();
        member
            .reported(&ReportBuilder::new(&format!("Scheduler-{user}"), 1).with("/usage", hours).build())
            .await;
    }
    app.fold_usage().await;
    let query = "query($by: [UsageDimension!]!) { viewer { account {
        usageTable(from: \"2026-11-20\", to: \"2026-11-27\", by: $by) { day user { name } usage { computeSeconds COSTS }
            function { prefix } } } } }";
    let free = query.replace("COSTS", "");
    for (by, rows) in [
        (json!(["USER", "DAY"]), 35),
        (json!(["USER", "WEEK"]), 10),
        (json!(["USER", "HOUR"]), 35),
        (json!(["USER", "DAY", "FUNCTION"]), 70),
        (json!(["HOUR", "FUNCTION"]), 14),
    ] {
        let (statements, answer) = cost(&app, &ada, &free, json!({ "by": by })).await;
        assert_eq!(answer["viewer"]["account"]["usageTable"].as_array().unwrap().len(), rows, "{by}");
        let of_members = u64::from(by[0] == "USER");
        assert_eq!(statements, SIGN_IN + 1 + of_members, "{by}");
    }
    let priced = query.replace("COSTS", "costs { amount }");
    let (statements, _) = cost(&app, &ada, &priced, json!({ "by": ["USER", "DAY"] })).await;
    assert_eq!(statements, SIGN_IN + 3, "and the rates");
    let statistics =
        "{ viewer { account { statistics { clusters users usage { threadSeconds costs { amount } } } } } }";
    assert_eq!(cost(&app, &ada, statistics, json!({})).await.0, SIGN_IN + 4, "one a field, and the rates");
    app.stop().await;
}

#[tokio::test]
async fn what_people_write_and_what_clusters_cost_is_read_for_a_page_at_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for cluster in 0..12_u32 {
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/usage", vec![usage(1, 1), usage(30, 2)]);
        let number = ada.reported(&report.build()).await;
        let found = ada
            .query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": number.to_string() }))
            .await;
        let write = "mutation($id: ID!) { setClusterTags(cluster: $id, tags: [{ key: \"team\", value: \"risk\" }, { key: \"x\" }]) {
            userErrors { field } } setClusterNotes(cluster: $id, text: \"a note\") { userErrors { field } } }";
        ada.query(write, json!({ "id": found["cluster"]["id"] })).await;
    }
    let query = "query($filter: ClusterFilter, $field: ClusterOrderField!) { viewer { account {
        clusters(first: 50, filter: $filter, orderBy: { field: $field }) {
            nodes { tags { key value } notes { text changedBy { name } } } } } } }";
    let tags =
        json!({ "tags": { "any": [{ "key": "team" }], "all": [{ "key": "x" }], "none": [{ "key": "y" }] } });
    let cost_of = json!({ "minCost": { "amount": 0.15 } });
    for (filter, field, statements, what) in [
        (json!({}), "STARTED_AT", 4, "the page, tags, notes, and who wrote them"),
        (tags, "STARTED_AT", 5, "the same, and for the price how many clusters there are"),
        (cost_of, "STARTED_AT", 5, "and the rates"),
        (json!({ "minCost": { "amount": 0.1 } }), "COST", 5, "and the rates once"),
    ] {
        let (found, answer) = cost(&app, &ada, query, json!({ "filter": filter, "field": field })).await;
        let nodes = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), 12, "{filter}");
        assert!(nodes.iter().all(|node| node["notes"]["text"] == "a note" && node["tags"][1]["key"] == "x"));
        assert_eq!(found, SIGN_IN + statements, "{what}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_drill_down_costs_one_statement_a_list() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let groups = |computation: u128| (1_000 * computation..1_000 * computation + 15).collect::<Vec<_>>();
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/computations", (1..=10).map(|n| computation(n, &groups(n))).collect::<Vec<_>>())
        .with("/task_groups", (1..=10).flat_map(groups).map(|n| task_group(n, "load", 1)).collect::<Vec<_>>())
        .with("/errors", (1..=10).map(|n| error(n, 1_000 * n, n)).collect::<Vec<_>>())
        .build();
    let number = ada.reported(&report).await;
    let query = "query($id: ID!) { cluster(id: $id) { user { name }
        computations(first: 10) { totalCount nodes { daskId state
            taskGroups(first: 15) { totalCount nodes { prefix durations { action seconds } dependencies { prefix } cluster { name } } }
            errors { nodes { message cluster { name } computation { daskId } taskGroup { prefix } } } } } } }";
    let (statements, answer) = cost(&app, &ada, query, json!({ "id": number.to_string() })).await;
    let computations = answer["cluster"]["computations"]["nodes"].as_array().unwrap();
    assert_eq!(computations.len(), 10);
    assert!(computations.iter().all(|node| node["taskGroups"]["nodes"].as_array().unwrap().len() == 15));
    assert!(computations.iter().all(|node| node["errors"]["nodes"].as_array().unwrap().len() == 1));
    // Cluster, user, computations, their count, task groups, their counts, errors; then the computations
    // and the task groups these errors refer to. The cluster of all errors is loaded already.
    assert_eq!(statements, SIGN_IN + 9);
    let plain = "query($id: ID!) { cluster(id: $id) { name totals { tasks }
        computations(first: 10) { nodes { daskId state taskGroups(first: 15) { nodes { name states { count } } } } }
        errors(first: 10) { nodes { type message key } } } }";
    let (statements, answer) = cost(&app, &ada, plain, json!({ "id": number.to_string() })).await;
    assert_eq!(answer["cluster"]["errors"]["nodes"].as_array().unwrap().len(), 10);
    assert_eq!(statements, SIGN_IN + 4, "the cluster, its computations, their task groups, and its errors");
    app.stop().await;
}

#[tokio::test]
async fn a_report_costs_statements_by_tables_and_not_by_rows() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |sequence, items: u128| {
        ReportBuilder::new("Scheduler-1", sequence)
            .with("/computations", (0..items).map(|n| computation(n, &[n])).collect::<Vec<_>>())
            .with("/task_groups", (0..items).map(|n| task_group(n, "load", 1)).collect::<Vec<_>>())
            .with("/errors", (0..items).map(|n| error(n, n, n)).collect::<Vec<_>>())
            .build()
    };
    ada.reported(&report(1, 1)).await;
    // Rows are inserted in batches of small sizes and powers of two, so that few different statements
    // stay prepared: 400 are 256, 128 and 16.
    for (sequence, items, chunks) in [(2, 1, 1), (3, 7, 1), (4, 256, 1), (5, 400, 3), (6, 500, 6)] {
        let before = app.statements();
        ada.reported(&report(sequence, items)).await;
        // The cluster is read and written; then task groups, computations, links and errors. The group
        // of these errors is read and remains unchanged. The account's daily bytes are increased.
        assert_eq!(app.statements() - before, SIGN_IN + 2 + 4 * chunks + 1 + 1, "{items}");
    }
    app.stop().await;
}

#[tokio::test]
async fn lists_of_very_many_parents_are_read_in_batches() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for cluster in 0..3 {
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/computations", (0..100).map(|n| computation(n, &[n])).collect::<Vec<_>>())
            .with("/task_groups", (0..100).map(|n| task_group(n, "load", 1)).collect::<Vec<_>>())
            .with("/errors", (0..100).map(|n| error(n, n, n)).collect::<Vec<_>>());
        ada.reported(&report.build()).await;
    }
    let query = "{ viewer { account { clusters(first: 3) { nodes { computations(first: 100) { nodes {
        taskGroups(first: 1) { totalCount nodes { prefix } }
        errors { totalCount nodes { computation { daskId } taskGroup { prefix } } } } } } } } } }";
    let (statements, answer) = cost(&app, &ada, query, json!({})).await;
    let clusters = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
    let computations: Vec<&Value> =
        clusters.iter().flat_map(|cluster| cluster["computations"]["nodes"].as_array().unwrap()).collect();
    assert_eq!(computations.len(), 300);
    assert!(computations.iter().all(|node| node["taskGroups"]["nodes"][0]["prefix"] == "load"));
    assert!(computations.iter().all(|node| node["errors"]["nodes"][0]["taskGroup"]["prefix"] == "load"));
    // The page, its computations, and six lists or rows for 300 parents, a hundred at a time.
    assert!(statements <= SIGN_IN + 2 + 6 * 4, "{statements}");
    app.stop().await;
}

/// Clusters with data for every question, each of another kind.
async fn questionable(ada: &Member) {
    for cluster in 0..6_u32 {
        let mut last = computation(2, &[10]);
        last["started_at"] = json!(1_795_172_405);
        last["state"] = json!(["finished", "erred", "running"][cluster as usize % 3]);
        let mut failed = error(20, 10, 1);
        failed["origin"] = json!(["user", "dask"][cluster as usize % 2]);
        let mut died = worker(30);
        (died["ended_at"], died["end"]) = (json!(1_795_172_406), json!("lost"));
        let measured =
            json!({ "gil_contention": 0.5, "event_loop_seconds": 0.05, "tasks_processing": cluster });
        let cells = json!([["execute", "load", "thread-cpu", "seconds", 2]]);
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1)
            .with("/sent_at", 1_795_172_400 + 600 * cluster)
            .with("/computations", json!([computation(1, &[10]), last]))
            .with("/errors", json!([failed]))
            .with("/workers", json!([died]))
            .with("/samples", json!([sample(None, 1_000, measured)]))
            .with("/usage", json!([usage(23, 4)]))
            .with("/fine_metrics", json!([{ "span_id": uuid(30), "cells": cells }]));
        ada.reported(&report.build()).await;
    }
}

#[tokio::test]
async fn an_answer_costs_two_statements_for_any_number_of_clusters() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    questionable(&ada).await;
    let count_statements = async |answers: &str| {
        let query = format!(
            "{{ viewer {{ account {{ clusters(first: 50) {{ nodes {{ answers {{ {answers} }} }} }} }} }} }}"
        );
        // Clusters are loaded in batches that wait a millisecond, and on a busy machine one may miss its
        // batch. The minimum of ten runs is the actual cost.
        let mut fewest = u64::MAX;
        for _ in 0..10 {
            let (statements, answer) = cost(&app, &ada, &query, json!({})).await;
            assert_eq!(answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().len(), 6);
            fewest = fewest.min(statements - SIGN_IN - 1);
        }
        fewest
    };
    let plain = "{ verdict headline value share confidence evidence { label value unit } }";
    let questions = [
        // The number in each state, and some in the deciding state.
        ("finished", 2),
        // Errors by kind, and the workers that died.
        ("exceptions", 2),
        // Usage, and the rates.
        ("cost", 2),
        // Functions, and usage.
        ("topTime", 2),
        // The last samples, and the clients.
        ("whyRunning", 2),
        // Samples, and usage.
        ("gil", 2),
        // Fine metrics, and usage.
        ("network", 2),
        ("spill", 2),
        // Samples.
        ("eventLoop", 1),
        // Fine metrics.
        ("cpu", 1),
    ];
    for (question, statements) in questions {
        assert_eq!(count_statements(&format!("{question} {plain}")).await, statements, "{question}");
    }
    assert_eq!(count_statements("__typename").await, 0, "`__typename` alone reads nothing");
    // Usage, samples and fine metrics are read once for all questions, or once more by a question that
    // needs them while they are being read.
    let all: Vec<String> = questions.iter().map(|(question, _)| format!("{question} {plain}")).collect();
    let together = count_statements(&all.join(" ")).await;
    assert!((11..=14).contains(&together), "{together}");
    // Computations and workers are loaded already. Error groups are read, those of clusters without dead
    // workers perhaps in an earlier batch.
    let nodes = "{ evidence { node { id } } }";
    assert_eq!(count_statements(&format!("finished {nodes}")).await, 2);
    let with_groups = count_statements(&format!("exceptions {nodes}")).await;
    assert!((3..=4).contains(&with_groups), "{with_groups}");
    app.stop().await;
}

#[tokio::test]
async fn what_the_viewer_may_do_is_read_for_a_page_at_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    for (number, member) in [&ada, &bob, &ada, &bob].into_iter().enumerate() {
        let mut raised = error(20, 10, 1);
        raised["type"] = json!(format!("Error{number}"));
        let report = ReportBuilder::new(&format!("Scheduler-{number}"), 1).with("/errors", json!([raised]));
        member.reported(&report.build()).await;
    }
    let clusters =
        "{ viewer { account { list: clusters { nodes { viewerCanTag viewerCanAnnotate viewerCanKeepAlive
        viewerCanStop viewerCanHandOver viewerCanDelete } } } } }";
    let groups = "{ viewer { account { list: errorGroups { nodes { can: viewerCanTriage } } } } }";
    for (member, query, statements, own) in [
        (&ada, clusters, 1, [true; 4]),
        (&bob, clusters, 1, [true, false, true, false]),
        (&ada, groups, 1, [true; 4]),
        // One for the clusters of the errors of all groups.
        (&bob, groups, 2, [true, false, true, false]),
    ] {
        let (found, answer) = cost(&app, member, query, json!({})).await;
        assert_eq!(found, SIGN_IN + statements, "{query}");
        let nodes = answer["viewer"]["account"]["list"]["nodes"].as_array().unwrap();
        let mut can: Vec<bool> = nodes
            .iter()
            .map(|node| (node.get("viewerCanStop").unwrap_or(&node["can"])) == &json!(true))
            .collect();
        // Groups come by their last error, and all of these are of one moment.
        let mut own = own.to_vec();
        if query == groups {
            can.sort_unstable();
            own.sort_unstable();
        }
        assert_eq!(can, own, "{answer}");
    }
    // A member's role is needed only to compare it with the one of an admin.
    let tokens = "{ viewer { account { tokens { nodes { viewerCanRevoke } } } } }";
    let eve = app.member_with("eve", "ada", Role::Admin).await;
    for (member, statements, can) in [(&ada, 1, [true, true, true]), (&eve, 2, [true, true, false])] {
        let (found, answer) = cost(&app, member, tokens, json!({})).await;
        let nodes = answer["viewer"]["account"]["tokens"]["nodes"].as_array().unwrap();
        let mut found_can: Vec<bool> = nodes.iter().map(|node| node["viewerCanRevoke"] == true).collect();
        found_can.sort_unstable_by(|one, other| other.cmp(one));
        assert_eq!((found, found_can), (SIGN_IN + statements, can.to_vec()));
    }
    app.stop().await;
}
