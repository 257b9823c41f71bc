//! The lists inside a cluster, in a period and in other orders.

use harness::{
    Member, ReportBuilder, STARTED_AT, TestApp, computation, error, span, task_group, usage, uuid,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::span::nested;

/// The time this many seconds after 2026-11-20T11:00:00Z, at which schedulers start.
fn at(second: u32) -> String {
    format!("2026-11-20T11:{:02}:{:02}Z", second / 60, second % 60)
}

fn period(from: Option<u32>, to: Option<u32>) -> Value {
    json!({ "from": from.map(at), "to": to.map(at) })
}

/// Returns the column `field` of a list of a cluster, and the number of its items.
async fn listed(
    member: &Member,
    number: i64,
    list: &str,
    field: &str,
    variables: Value,
) -> (Vec<Value>, Value) {
    let types = [("$during", "TimeRange"), ("$filter", "TaskGroupFilter"), ("$order", "TaskGroupOrder")];
    let used = types.iter().filter(|(variable, _)| list.contains(variable));
    let declared = used.map(|(variable, of)| format!(", {variable}: {of}")).collect::<Vec<_>>().concat();
    let query = format!(
        "query($id: ID!{declared}) {{
            cluster(id: $id) {{ list: {list} {{ totalCount nodes {{ {field} }} }} }} }}"
    );
    let mut variables = variables;
    variables["id"] = json!(number.to_string());
    let answer = member.query(&query, variables).await;
    let list = &answer["cluster"]["list"];
    let values = list["nodes"].as_array().unwrap().iter().map(|node| node[field].clone());
    (values.collect(), list["totalCount"].clone())
}

/// Three computations: from second 10 to 20, from 30 to 40, and since 50. Errors at 15 and 35.
async fn three(member: &Member) -> i64 {
    let submitted = |number: u128, from: f64, to: Option<f64>| {
        let mut submitted = computation(number, &[]);
        submitted["started_at"] = json!(STARTED_AT + from);
        submitted["stopped_at"] = json!(to.map(|to| STARTED_AT + to));
        submitted["state"] = json!(if to.is_some() { "finished" } else { "running" });
        submitted
    };
    let failed = |number: u128, second: f64| {
        let mut failed = error(number, 1, 1);
        (failed["at"], failed["key"]) = (json!(STARTED_AT + second), json!(format!("key-{number}")));
        failed
    };
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/sent_at", STARTED_AT + 60.0)
        .with(
            "/computations",
            json!([submitted(1, 10.0, Some(20.0)), submitted(2, 30.0, Some(40.0)), submitted(3, 50.0, None)]),
        )
        .with("/errors", json!([failed(21, 15.0), failed(22, 35.0)]));
    member.reported(&report.build()).await
}

#[tokio::test]
async fn computations_and_errors_of_a_cluster_are_listed_by_time() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = three(&ada).await;
    let (first, second, third) = (json!(uuid(1)), json!(uuid(2)), json!(uuid(3)));
    for (during, expected) in [
        (Value::Null, vec![&third, &second, &first]),
        (period(Some(20), None), vec![&third, &second, &first]),
        (period(Some(21), None), vec![&third, &second]),
        (period(None, Some(30)), vec![&first]),
        (period(None, Some(31)), vec![&second, &first]),
        (period(Some(21), Some(30)), vec![]),
        (period(Some(32), Some(38)), vec![&second]),
        // Not finished, so it may run at any later time.
        (period(Some(3_000), Some(3_001)), vec![&third]),
    ] {
        let variables = json!({ "during": during });
        let (found, count) = listed(&ada, number, "computations(during: $during)", "daskId", variables).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{during}");
        assert_eq!(count, expected.len(), "{during}");
    }
    for (during, expected) in [
        (Value::Null, vec!["key-22", "key-21"]),
        (period(Some(15), Some(35)), vec!["key-21"]),
        (period(Some(16), None), vec!["key-22"]),
    ] {
        let (found, count) =
            listed(&ada, number, "errors(at: $during)", "key", json!({ "during": during })).await;
        assert_eq!((json!(found), count), (json!(expected), json!(expected.len())), "{during}");
    }
    // A page that continues has the period still.
    let query = "query($id: ID!, $after: String, $during: TimeRange) { cluster(id: $id) {
        computations(first: 1, after: $after, during: $during) { nodes { daskId } pageInfo { endCursor hasNextPage } } } }";
    let variables = |after: &Value| json!({ "id": number.to_string(), "after": after, "during": period(Some(21), Some(60)) });
    let page = ada.query(query, variables(&Value::Null)).await["cluster"]["computations"].clone();
    assert_eq!((&page["nodes"][0]["daskId"], &page["pageInfo"]["hasNextPage"]), (&third, &json!(true)));
    let page =
        ada.query(query, variables(&page["pageInfo"]["endCursor"])).await["cluster"]["computations"].clone();
    assert_eq!((&page["nodes"][0]["daskId"], &page["pageInfo"]["hasNextPage"]), (&second, &json!(false)));
    let refused = json!({ "id": number.to_string(), "during": period(Some(2), Some(1)) });
    assert_eq!(ada.ask(query, refused).await["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
    app.stop().await;
}

#[tokio::test]
async fn spans_and_fine_metrics_are_chosen_by_the_arrival_of_tasks() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&nested(30).with("/sent_at", STARTED_AT + 40.0).build()).await;
    // The spans arrive at the seconds 2, 4, 6, 8 and 24.
    for (during, expected) in [
        (period(Some(4), Some(8)), vec!["load", "parse"]),
        (period(Some(8), None), vec!["train", "default"]),
        (period(None, Some(4)), vec!["etl"]),
    ] {
        let (found, count) =
            listed(&ada, number, "spans(enqueuedIn: $during)", "tag", json!({ "during": during })).await;
        assert_eq!((json!(found), count), (json!(expected), json!(expected.len())), "{during}");
    }
    let query = "query($id: ID!, $during: TimeRange) { cluster(id: $id) {
        fineMetrics(unit: \"seconds\", enqueuedIn: $during) { total idleSeconds } } }";
    let metrics = async |during: Value| {
        let variables = json!({ "id": number.to_string(), "during": during });
        ada.query(query, variables).await["cluster"]["fineMetrics"].clone()
    };
    // 6 + 4 of `load` and 20 of `parse`. From second 4 to 10 there were 2 threads, and 4 until 20: 52
    // thread-seconds, of which 30 executed.
    assert_eq!(metrics(period(Some(4), Some(8))).await, json!({ "total": 30.0, "idleSeconds": 22.0 }));
    assert_eq!(metrics(period(Some(24), None)).await["total"], 1.0);
    assert_eq!(metrics(period(None, Some(4))).await, Value::Null, "`etl` has no tasks of its own");
    assert_eq!(metrics(Value::Null).await["total"], 53.5);

    let export = async |parameters: &[(&str, &str)]| {
        let path = format!("/api/v1/export/clusters/{number}/fine-metrics");
        let get = ada.request(Method::GET, &path).query(parameters).header("Accept", "text/csv");
        let response = get.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let during = period(Some(4), Some(8)).to_string();
    let (status, rows) = export(&[("enqueuedIn", &during), ("unit", "seconds")]).await;
    assert_eq!((status, rows.lines().count()), (200, 1 + 3), "{rows}");
    let (status, rows) = export(&[("enqueuedIn", &period(Some(2), Some(1)).to_string())]).await;
    assert_eq!(status, 400, "{rows}");
    app.stop().await;
}

#[tokio::test]
async fn functions_of_a_cluster_are_summed_by_the_hour() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/usage", json!([usage(11, 1), usage(12, 2), usage(13, 4)]));
    let number = ada.reported(&report.build()).await;
    let query = "query($id: ID!, $from: DateTime, $to: DateTime) { cluster(id: $id) {
        functions(from: $from, to: $to) { prefix tasks computeSeconds costs { amount } } } }";
    let load = async |from: Option<&str>, to: Option<&str>| {
        let variables = json!({ "id": number.to_string(), "from": from, "to": to });
        let answer = ada.query(query, variables).await;
        let load =
            answer["cluster"]["functions"].as_array().unwrap().iter().find(|of| of["prefix"] == "load");
        load.map(|load| {
            // Thread-hours cost 0.05 USD.
            let hours = load["costs"][0]["amount"].as_f64().unwrap() / 0.05;
            (load["tasks"].as_i64().unwrap(), (hours * 3_600.0 * 10.0).round() / 10.0)
        })
    };
    assert_eq!(load(None, None).await, Some((180, 9_001.5)));
    assert_eq!(load(Some("2026-11-20T12:00:00Z"), None).await, Some((120, 6_001.0)));
    assert_eq!(load(Some("2026-11-20T11:00:01Z"), Some("2026-11-20T12:00:01Z")).await, Some((60, 3_000.5)));
    assert_eq!(load(None, Some("2026-11-20T11:00:00Z")).await, None);
    app.stop().await;
}

/// Four task groups: `load` finished at second 20; `fit` runs since second 10 and has errors; `fit` again,
/// not begun; `sum` finished at second 50.
async fn groups(member: &Member) -> i64 {
    let group = |number: u128,
                 prefix: &str,
                 times: (f64, Option<f64>, Option<f64>),
                 states: Value,
                 sums: [f64; 2],
                 bytes: i64| {
        let mut group = task_group(number, prefix, 10);
        let time = |second: Option<f64>| json!(second.map(|second| STARTED_AT + second));
        group["first_seen_at"] = time(Some(times.0));
        (group["started_at"], group["stopped_at"]) = (time(times.1), time(times.2));
        group["states"] = states;
        let [compute, transfer] = sums;
        group["durations"] = json!({ "compute": compute, "transfer": transfer });
        group["bytes"] = json!(bytes);
        group["span_id"] = json!(uuid(50));
        group
    };
    let mut failing = group(
        2,
        "fit",
        (9.0, Some(10.0), Some(15.0)),
        json!({ "memory": 7, "erred": 1, "processing": 2 }),
        [8.0, 0.5],
        1_000_000_000_000_000,
    );
    failing["tasks_erred"] = json!(1);
    failing["tasks"] = json!(40);
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/sent_at", STARTED_AT + 60.0)
        .with("/spans", json!([span(50, None, &["etl"], 1.0, None)]))
        .with("/computations", json!([computation(70, &[1, 2])]))
        .with(
            "/task_groups",
            json!([
                group(1, "load", (1.0, Some(2.0), Some(20.0)), json!({ "memory": 10 }), [4.0, 2.0], 800),
                failing,
                group(3, "fit", (30.0, None, None), json!({ "waiting": 10 }), [0.0, 0.0], 0),
                group(
                    4,
                    "sum",
                    (31.0, Some(40.0), Some(50.0)),
                    json!({ "released": 10 }),
                    [4.0, 1.0],
                    1_000_000_000_000_001
                ),
            ]),
        );
    member.reported(&report.build()).await
}

fn numbers(ids: &[Value]) -> Vec<u128> {
    ids.iter()
        .map(|name| u128::from_str_radix(name.as_str().unwrap().rsplit('-').next().unwrap(), 16).unwrap())
        .collect()
}

#[tokio::test]
async fn task_groups_are_filtered_and_ordered() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = groups(&ada).await;
    let list = "taskGroups(filter: $filter, orderBy: $order)";
    for (filter, expected) in [
        (Value::Null, vec![1, 2, 3, 4]),
        (json!({}), vec![1, 2, 3, 4]),
        (json!({ "functions": ["fit"] }), vec![2, 3]),
        (json!({ "functions": ["fit", "sum"], "hasErrors": false }), vec![3, 4]),
        (json!({ "functions": [] }), vec![]),
        (json!({ "hasErrors": true }), vec![2]),
        (json!({ "states": ["WAITING", "PROCESSING"] }), vec![2, 3]),
        (json!({ "states": ["RELEASED"] }), vec![4]),
        (json!({ "during": period(Some(0), Some(9)) }), vec![1]),
        (json!({ "during": period(Some(21), Some(29)) }), vec![2]),
        // `sum` was known at second 31, but its first finished task started at 40.
        (json!({ "during": period(Some(21), Some(40)) }), vec![2, 3]),
        (json!({ "during": period(Some(51), None) }), vec![2, 3]),
        (json!({ "during": period(Some(20), Some(41)), "functions": ["sum", "load"] }), vec![1, 4]),
    ] {
        let (found, count) = listed(&ada, number, list, "name", json!({ "filter": filter })).await;
        assert_eq!((numbers(&found), count), (expected.clone(), json!(expected.len())), "{filter}");
    }
    for (field, ascending) in [
        ("FIRST_SEEN_AT", [1, 2, 3, 4]),
        ("STARTED_AT", [1, 2, 4, 3]),
        ("TASKS", [1, 3, 4, 2]),
        ("TASKS_ERRED", [1, 3, 4, 2]),
        ("COMPUTE_SECONDS", [3, 1, 4, 2]),
        ("TRANSFER_SECONDS", [3, 2, 4, 1]),
        ("BYTES", [3, 1, 2, 4]),
    ] {
        let mut expected = ascending.to_vec();
        for direction in ["ASC", "DESC"] {
            let order = json!({ "order": { "field": field, "direction": direction } });
            let (found, _) = listed(&ada, number, list, "name", order.clone()).await;
            assert_eq!(numbers(&found), expected, "{field} {direction}");
            // The same, page by page, from both ends.
            for (forward, arguments) in [(true, "first: 1, after"), (false, "last: 1, before")] {
                let query = format!(
                    "query($id: ID!, $cursor: String, $order: TaskGroupOrder) {{ cluster(id: $id) {{
                        taskGroups(orderBy: $order, {arguments}: $cursor) {{ edges {{ cursor node {{ name }} }} }} }} }}"
                );
                let (mut cursor, mut walked) = (Value::Null, Vec::new());
                loop {
                    let variables =
                        json!({ "id": number.to_string(), "cursor": cursor, "order": order["order"] });
                    let answer = ada.query(&query, variables).await;
                    let edge = &answer["cluster"]["taskGroups"]["edges"][0];
                    if edge.is_null() {
                        break;
                    }
                    walked.push(edge["node"]["name"].clone());
                    cursor = edge["cursor"].clone();
                }
                if !forward {
                    walked.reverse();
                }
                assert_eq!(numbers(&walked), expected, "{field} {direction} {arguments}");
            }
            expected.reverse();
        }
    }
    // The lists of a computation and of a span have them, too.
    let query = "query($id: ID!, $order: TaskGroupOrder) { cluster(id: $id) {
        computations { nodes { taskGroups(orderBy: $order) { totalCount nodes { name } } } }
        spans { nodes { taskGroups(filter: { functions: [\"fit\"] }, orderBy: $order) { totalCount nodes { name } } } } } }";
    let variables = json!({ "id": number.to_string(), "order": { "field": "COMPUTE_SECONDS" } });
    let answer = ada.query(query, variables).await;
    let names = |list: &Value| {
        let nodes: Vec<_> =
            list["nodes"].as_array().unwrap().iter().map(|node| node["name"].clone()).collect();
        (numbers(&nodes), list["totalCount"].clone())
    };
    let of_computation = &answer["cluster"]["computations"]["nodes"][0]["taskGroups"];
    assert_eq!(names(of_computation), (vec![2, 1], json!(2)));
    assert_eq!(names(&answer["cluster"]["spans"]["nodes"][0]["taskGroups"]), (vec![2, 3], json!(2)));

    for (arguments, what) in [
        ("filter: { states: [] }", "no state"),
        ("filter: { functions: [\"\\u0000\"] }", "U+0000"),
        ("orderBy: { field: BYTES }, after: \"WzEsImlkOmFzYyIsW11d\"", "a cursor of another order"),
    ] {
        let query =
            format!("query($id: ID!) {{ cluster(id: $id) {{ taskGroups({arguments}) {{ totalCount }} }} }}");
        let refused = ada.ask(&query, json!({ "id": number.to_string() })).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{what}: {refused}");
    }
    app.stop().await;
}

#[tokio::test]
async fn lists_in_a_period_cost_one_statement_for_all_clusters() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..12 {
        let report = ReportBuilder::new(&format!("Scheduler-{number}"), 1)
            .with("/computations", json!([computation(1, &[10])]))
            .with("/task_groups", json!([task_group(10, "load", 4)]))
            .with("/errors", json!([error(20, 10, 1)]));
        ada.reported(&report.build()).await;
    }
    let cost = async |fields: &str| {
        let declared = if fields.contains("$during") { "($during: TimeRange)" } else { "" };
        let query =
            format!("query{declared} {{ viewer {{ account {{ clusters {{ nodes {{ {fields} }} }} }} }} }}");
        let before = app.statements();
        ada.query(&query, json!({ "during": period(Some(0), Some(60)) })).await;
        app.statements() - before
    };
    cost("id").await;
    let alone = cost("id").await;
    for (field, statements) in [
        ("computations(during: $during) { totalCount nodes { id } }", 2),
        ("errors(at: $during) { totalCount nodes { id } }", 2),
        ("spans(enqueuedIn: $during) { totalCount nodes { id } }", 2),
        ("functions(from: \"2026-11-20T11:00:00Z\") { prefix }", 1),
        // Filters and orders of task groups read one list at a time.
        ("taskGroups(filter: { hasErrors: false }) { nodes { id } }", 12),
    ] {
        assert_eq!(cost(field).await - alone, statements, "{field}");
    }
    let query = "query($first: Int) { viewer { account { clusters(first: 12) { nodes {
        a: taskGroups(first: 1, orderBy: { field: BYTES }) { nodes { id } }
        b: taskGroups(first: 1, orderBy: { field: TASKS }) { nodes { id } }
        c: taskGroups(first: 1, filter: { hasErrors: true }) { nodes { id } }
        d: taskGroups(first: 1, orderBy: { field: STARTED_AT }) { nodes { id } }
        e: taskGroups(first: $first, orderBy: { field: TASKS_ERRED }) { nodes { id } } } } } } }";
    let refused = ada.ask(query, json!({ "first": 1 })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "sixty pages: {refused}");
    app.stop().await;
}
