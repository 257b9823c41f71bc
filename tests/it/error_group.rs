//! Similar errors form one group, on any cluster and in any order of reports.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp, error, uuid};
use serde_json::{Value, json};

const GROUPS: &str = "query($origin: ErrorOrigin, $first: Int, $after: String) { viewer { account {
    errorGroups(origin: $origin, first: $first, after: $after) { totalCount pageInfo { hasNextPage endCursor } nodes {
        type title origin firstSeenAt lastSeenAt occurrenceCount clusterCount } } } } }";

/// An error this many seconds after the cluster's start.
fn at(number: u128, seconds: f64, message: &str) -> Value {
    let mut error = error(number, 1, 1);
    error["at"] = json!(STARTED_AT + seconds);
    error["message"] = json!(message);
    error
}

fn killed(number: u128, seconds: f64, key: &str) -> Value {
    let worker = format!("<WorkerState 'tcp://10.0.0.{number}:40000', name: {number}, status: closed>");
    let mut error = at(number, seconds, &format!("KilledWorker('{key}', {worker}, 3)"));
    error["type"] = json!("KilledWorker");
    error["key"] = json!(key);
    error["origin"] = json!("dask");
    error["traceback"] = json!("");
    error
}

fn report(scheduler: &str, sequence: i64, errors: &[Value]) -> Value {
    ReportBuilder::new(scheduler, sequence).with("/errors", errors).build()
}

async fn groups(member: &Member, variables: Value) -> Value {
    member.query(GROUPS, variables).await["viewer"]["account"]["errorGroups"].clone()
}

#[tokio::test]
async fn errors_that_look_alike_are_one_group_over_all_clusters() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let index = |number, seconds, index: u32| {
        let mut error = at(number, seconds, &format!("IndexError('index {index} is out of bounds')"));
        error["type"] = json!("IndexError");
        error
    };
    ada.reported(&report("Scheduler-1", 1, &[index(1, 5.0, 17), killed(2, 9.0, "load-1"), index(3, 3.0, 4)]))
        .await;
    ada.reported(&report("Scheduler-2", 1, &[index(1, 7.0, 99), killed(4, 6.0, "('sum-a1b2', 3)")])).await;
    let time = |seconds: u32| format!("2026-11-20T11:00:{seconds:02}+00:00");
    let of_dask = json!({ "type": "KilledWorker", "title": "KilledWorker", "origin": "DASK",
        "firstSeenAt": time(6), "lastSeenAt": time(9), "occurrenceCount": 2, "clusterCount": 2 });
    let of_user = json!({ "type": "IndexError", "title": "index … is out of bounds", "origin": "USER",
        "firstSeenAt": time(3), "lastSeenAt": time(7), "occurrenceCount": 3, "clusterCount": 2 });
    let all = groups(&ada, json!({})).await;
    assert_eq!((&all["totalCount"], &all["nodes"]), (&json!(2), &json!([of_dask, of_user])));
    for (origin, only) in [("DASK", &of_dask), ("USER", &of_user)] {
        let found = groups(&ada, json!({ "origin": origin })).await;
        assert_eq!((&found["totalCount"], &found["nodes"]), (&json!(1), &json!([only])), "{origin}");
    }
    let first = groups(&ada, json!({ "first": 1 })).await;
    assert_eq!((&first["nodes"], &first["pageInfo"]["hasNextPage"]), (&json!([of_dask]), &json!(true)));
    let second = groups(&ada, json!({ "first": 1, "after": first["pageInfo"]["endCursor"] })).await;
    assert_eq!((&second["nodes"], &second["pageInfo"]["hasNextPage"]), (&json!([of_user]), &json!(false)));

    // The errors of a group, the newest identifier first, one of them with the same on both clusters.
    let query = "query($after: String) { viewer { account { errorGroups(origin: USER) { nodes {
        occurrences(first: 2, after: $after) { totalCount pageInfo { endCursor } nodes {
            at cluster { schedulerId } group { title } } } } } } } }";
    let occurrences = async |after: &Value| {
        let answer = ada.query(query, json!({ "after": after })).await;
        answer["viewer"]["account"]["errorGroups"]["nodes"][0]["occurrences"].clone()
    };
    let occurrence = |seconds, scheduler: &str| {
        json!({ "at": time(seconds), "cluster": { "schedulerId": scheduler },
            "group": { "title": "index … is out of bounds" } })
    };
    let page = occurrences(&Value::Null).await;
    assert_eq!(page["totalCount"], 3);
    let mut nodes = page["nodes"].as_array().unwrap().clone();
    nodes.extend(occurrences(&page["pageInfo"]["endCursor"]).await["nodes"].as_array().unwrap().clone());
    let last = nodes.split_off(1);
    assert_eq!(nodes, [occurrence(3, "Scheduler-1")]);
    assert_eq!(last.len(), 2);
    assert!(last.contains(&occurrence(5, "Scheduler-1")) && last.contains(&occurrence(7, "Scheduler-2")));
    app.stop().await;
}

#[tokio::test]
async fn groups_are_found_by_the_clusters_they_happened_on() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let of = |number, class: &str| {
        let mut error = at(number, 5.0, &format!("{class}('x')"));
        error["type"] = json!(class);
        error
    };
    let mut ids = Vec::new();
    for (scheduler, classes) in
        [("Scheduler-1", vec!["A", "B"]), ("Scheduler-2", vec!["B", "B"]), ("Scheduler-3", vec![])]
    {
        let errors: Vec<Value> = (1..).zip(classes).map(|(number, class)| of(number, class)).collect();
        let number = ada.reported(&report(scheduler, 1, &errors)).await;
        let id = "query($id: ID!) { cluster(id: $id) { id } }";
        ids.push(ada.query(id, json!({ "id": number.to_string() })).await["cluster"]["id"].take());
    }
    let query = "query($clusters: ClusterFilter, $origin: ErrorOrigin) { viewer { account {
        errorGroups(clusters: $clusters, origin: $origin) { totalCount nodes { type occurrenceCount } } } } }";
    for (clusters, origin, expected) in [
        (Value::Null, Value::Null, vec![("A", 1), ("B", 3)]),
        (json!({}), Value::Null, vec![("A", 1), ("B", 3)]),
        (json!({ "ids": [ids[0]] }), Value::Null, vec![("A", 1), ("B", 3)]),
        // All errors of the group, and not only those on that cluster.
        (json!({ "ids": [ids[1]] }), Value::Null, vec![("B", 3)]),
        (json!({ "ids": [ids[1], ids[0]], "search": "Scheduler-2" }), Value::Null, vec![("B", 3)]),
        (json!({ "ids": [ids[1]] }), json!("DASK"), vec![]),
        (json!({ "ids": [ids[2]] }), Value::Null, vec![]),
        (json!({ "search": "Scheduler-3" }), Value::Null, vec![]),
    ] {
        let variables = json!({ "clusters": clusters, "origin": origin });
        let found = ada.query(query, variables).await["viewer"]["account"]["errorGroups"].take();
        let mut groups: Vec<(&str, i64)> = found["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["type"].as_str().unwrap(), node["occurrenceCount"].as_i64().unwrap()))
            .collect();
        groups.sort_unstable();
        assert_eq!((groups, &found["totalCount"]), (expected.clone(), &json!(expected.len())), "{clusters}");
    }
    app.stop().await;
}

#[tokio::test]
async fn an_error_has_its_worker_and_its_retries() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut failure = killed(1, 1.0, "load-1");
    failure["retries"] = json!(3);
    failure["worker_id"] = json!(uuid(7));
    ada.reported(&report("Scheduler-1", 1, &[failure, error(2, 1, 1)])).await;
    let query = "{ viewer { account { clusters { nodes { errors(last: 2) { nodes {
        origin retries workerId group { origin title } } } } } } } }";
    let errors = &ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0]["errors"];
    let expected = json!({ "nodes": [
        { "origin": "USER", "retries": 0, "workerId": null,
          "group": { "origin": "USER", "title": "division by zero" } },
        { "origin": "DASK", "retries": 3, "workerId": uuid(7),
          "group": { "origin": "DASK", "title": "KilledWorker" } },
    ] });
    assert_eq!(errors, &expected);
    app.stop().await;
}

#[tokio::test]
async fn groups_do_not_depend_on_the_order_of_reports() {
    let app = TestApp::start().await;
    let reports: Vec<Value> = [(1, 8.0), (2, 2.0), (3, 5.0), (4, 9.0), (5, 1.0)]
        .map(|(number, seconds)| {
            let scheduler = format!("Scheduler-{}", number % 2);
            report(&scheduler, i64::try_from(number).unwrap(), &[at(number, seconds, "no")])
        })
        .into();
    let expected = json!([{ "type": "ZeroDivisionError", "title": "no", "origin": "USER",
        "firstSeenAt": "2026-11-20T11:00:01+00:00", "lastSeenAt": "2026-11-20T11:00:09+00:00",
        "occurrenceCount": 5, "clusterCount": 2 }]);
    for (account, order) in
        [("forwards", [0, 1, 2, 3, 4]), ("backwards", [4, 3, 2, 1, 0]), ("mixed", [2, 4, 0, 3, 1])]
    {
        let member = app.account(account).await;
        for index in order.into_iter().chain([0, 2]) {
            member.reported(&reports[index]).await;
        }
        assert_eq!(groups(&member, json!({})).await["nodes"], expected, "{account}");
    }
    app.stop().await;
}

#[tokio::test]
async fn reports_of_many_clusters_may_meet_in_a_group() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let reports = (1..=16_u32).map(|number| {
        let messages = ["first", "second", "third", "fourth"];
        let mut errors: Vec<Value> = (0_u128..)
            .zip(messages)
            .map(|(n, message)| at(u128::from(number) * 10 + n, f64::from(number), message))
            .collect();
        if number % 2 == 0 {
            errors.reverse();
        }
        let (ada, report) = (ada.clone(), report(&format!("Scheduler-{number}"), 1, &errors));
        async move { ada.reported(&report).await }
    });
    futures::future::join_all(reports).await;
    let found = groups(&ada, json!({})).await;
    assert_eq!(found["totalCount"], 4);
    for group in found["nodes"].as_array().unwrap() {
        assert_eq!((&group["occurrenceCount"], &group["clusterCount"]), (&json!(16), &json!(16)), "{group}");
        assert_eq!(
            (&group["firstSeenAt"], &group["lastSeenAt"]),
            (&json!("2026-11-20T11:00:01+00:00"), &json!("2026-11-20T11:00:16+00:00"))
        );
    }
    app.stop().await;
}

#[tokio::test]
async fn a_list_of_groups_costs_statements_by_the_requested_fields_and_not_by_rows() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let errors: Vec<Value> = (0..60_u32)
        .map(|n| {
            let word: String = n.to_string().bytes().map(|digit| char::from(digit + 49)).collect();
            at(n.into(), f64::from(n), &word)
        })
        .collect();
    ada.reported(&report("Scheduler-1", 1, &errors)).await;
    let before = app.statements();
    let found = groups(&ada, json!({ "first": 50 })).await;
    assert_eq!((&found["totalCount"], found["nodes"].as_array().unwrap().len()), (&json!(60), 50));
    // The token; the page, its length, and the counts of all groups.
    assert_eq!(app.statements() - before, 1 + 3);
    let query = "{ viewer { account { errorGroups(first: 50) { nodes { occurrences { totalCount nodes { key group { title } } } } } } } }";
    let before = app.statements();
    ada.query(query, json!({})).await;
    // The token; the page, its groups' errors and their number, and the groups of these.
    assert_eq!(app.statements() - before, 1 + 4);
    app.stop().await;
}
