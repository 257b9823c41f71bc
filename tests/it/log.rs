//! Logs: filtered by the database, searched by scanning.

use harness::{Member, ReportBuilder, TestApp, log_line, uuid};
use serde_json::{Value, json};

const LOGS: &str = "query($levels: [String!], $sources: [LogSource!], $worker: ID, $match: String, $at: TimeRange, $first: Int,
    $after: String, $last: Int, $before: String) { viewer { account { clusters { nodes {
    logs(levels: $levels, sources: $sources, workerId: $worker, match: $match, at: $at, first: $first, after: $after,
        last: $last, before: $before) { totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } nodes {
        at source worker workerId level logger message repeated } } } } } } }";

async fn logs(member: &Member, variables: Value) -> Value {
    let answer = member.query(LOGS, variables).await;
    answer["viewer"]["account"]["clusters"]["nodes"][0]["logs"].clone()
}

fn messages(page: &Value) -> Vec<&str> {
    page["nodes"].as_array().unwrap().iter().map(|node| node["message"].as_str().unwrap()).collect()
}

fn of_worker(number: u32, source: &str, worker: u128, message: &str) -> Value {
    let mut line = log_line(number, message);
    line["source"] = json!(source);
    line["worker_id"] = json!(uuid(worker));
    line["worker"] = json!(format!("tcp://10.0.0.{worker}:40000"));
    line["level"] = json!("WARNING");
    line["logger"] = json!(format!("distributed.{source}"));
    line["repeated"] = json!(number);
    line
}

#[tokio::test]
async fn lines_are_listed_in_the_order_they_were_written_and_filtered() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let lines = json!([
        log_line(4, "Straße geschlossen"),
        of_worker(2, "worker", 7, "Memory use is HIGH"),
        log_line(1, "Scheduler at tcp://10.0.0.1:8786"),
        of_worker(3, "nanny", 7, "Worker process 12 was killed by signal 9"),
        of_worker(5, "worker", 8, "memory is fine"),
    ]);
    let report = ReportBuilder::new("Scheduler-1", 1).with("/logs", lines).build();
    ada.reported(&report).await;
    ada.reported(&report).await;
    let all = logs(&ada, json!({})).await;
    assert_eq!(all["totalCount"], 5);
    let expected = json!([
        { "at": "2026-11-20T11:00:01+00:00", "source": "SCHEDULER", "worker": null, "workerId": null, "level": "INFO",
          "logger": "distributed.scheduler", "message": "Scheduler at tcp://10.0.0.1:8786", "repeated": 1 },
        { "at": "2026-11-20T11:00:02+00:00", "source": "WORKER", "worker": "tcp://10.0.0.7:40000", "workerId": uuid(7),
          "level": "WARNING", "logger": "distributed.worker", "message": "Memory use is HIGH", "repeated": 2 },
    ]);
    assert_eq!(all["nodes"].as_array().unwrap()[..2], expected.as_array().unwrap()[..]);
    let cases = [
        (json!({ "levels": ["INFO"] }), vec!["Scheduler at tcp://10.0.0.1:8786", "Straße geschlossen"]),
        (json!({ "levels": ["ERROR"] }), vec![]),
        (json!({ "sources": ["NANNY"] }), vec!["Worker process 12 was killed by signal 9"]),
        (
            json!({ "worker": uuid(7) }),
            vec!["Memory use is HIGH", "Worker process 12 was killed by signal 9"],
        ),
        (json!({ "worker": uuid(7), "sources": ["WORKER", "SCHEDULER"] }), vec!["Memory use is HIGH"]),
        (json!({ "worker": uuid(9) }), vec![]),
        // Lines were written at seconds 1 to 5.
        (json!({ "at": { "from": "2026-11-20T11:00:04Z" } }), vec!["Straße geschlossen", "memory is fine"]),
        (
            json!({ "at": { "from": "2026-11-20T11:00:01Z", "to": "2026-11-20T11:00:03Z" }, "levels": ["WARNING"] }),
            vec!["Memory use is HIGH"],
        ),
        (json!({ "at": { "to": "2026-11-20T11:00:05Z" }, "match": "MEMORY" }), vec!["Memory use is HIGH"]),
        (json!({ "at": { "from": "2026-11-20T11:00:06Z" } }), vec![]),
        (json!({ "match": "memory" }), vec!["Memory use is HIGH", "memory is fine"]),
        (json!({ "match": "STRASSE" }), vec![]),
        (json!({ "match": "sTRAßE" }), vec!["Straße geschlossen"]),
        (json!({ "match": "memory", "worker": uuid(8) }), vec!["memory is fine"]),
        (json!({ "match": "" , "levels": ["INFO"], "last": 1 }), vec!["Straße geschlossen"]),
        (json!({ "match": "MEMORY", "first": 1 }), vec!["Memory use is HIGH"]),
        (json!({ "match": "MEMORY", "last": 1 }), vec!["memory is fine"]),
    ];
    for (variables, expected) in cases {
        assert_eq!(messages(&logs(&ada, variables.clone()).await), expected, "{variables}");
    }
    let early = logs(&ada, json!({ "at": { "to": "2026-11-20T11:00:03Z" }, "first": 1 })).await;
    assert_eq!((early["totalCount"].clone(), messages(&early).len()), (json!(2), 1));
    let first = logs(&ada, json!({ "match": "MEMORY", "first": 1 })).await;
    assert_eq!(first["pageInfo"]["hasNextPage"], true);
    let next =
        logs(&ada, json!({ "match": "memory", "first": 1, "after": first["pageInfo"]["endCursor"] })).await;
    assert_eq!((messages(&next), &next["pageInfo"]["hasNextPage"]), (vec!["memory is fine"], &json!(false)));
    let refused = ada.ask(LOGS, json!({ "worker": "x" })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
    app.stop().await;
}

#[tokio::test]
async fn a_search_reads_a_bounded_number_of_lines_and_goes_on() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let matching = [3, 1_200, 1_201, 2_400];
    let lines: Vec<Value> = (0..2_500)
        .map(|n| log_line(n, &if matching.contains(&n) { format!("needle {n}") } else { format!("hay {n}") }))
        .collect();
    ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/logs", lines).build()).await;
    let search = async |page: Value| {
        let before = app.statements();
        let mut variables = json!({ "match": "NEEDLE" });
        variables.as_object_mut().unwrap().extend(page.as_object().unwrap().clone());
        let page = logs(&ada, variables).await;
        // The token and the clusters; then the lines and, if selected, their number.
        assert_eq!(app.statements() - before, 2 + 2);
        page
    };
    let mut after = Value::Null;
    for (expected, more) in
        [(vec!["needle 3"], true), (vec!["needle 1200", "needle 1201"], true), (vec!["needle 2400"], false)]
    {
        let page = search(json!({ "first": 2, "after": after })).await;
        assert_eq!((messages(&page), &page["pageInfo"]["hasNextPage"]), (expected, &json!(more)));
        assert_eq!(page["totalCount"], 2_500);
        after = page["pageInfo"]["endCursor"].clone();
    }
    // Backwards: 2500 to 1500, to 1200 with both, and the rest.
    let mut before = Value::Null;
    for (expected, more) in
        [(vec!["needle 2400"], true), (vec!["needle 1200", "needle 1201"], true), (vec!["needle 3"], false)]
    {
        let page = search(json!({ "last": 2, "before": before })).await;
        assert_eq!((messages(&page), &page["pageInfo"]["hasPreviousPage"]), (expected, &json!(more)));
        before = page["pageInfo"]["startCursor"].clone();
    }
    app.stop().await;
}

#[tokio::test]
async fn the_last_lines_of_several_workers_are_one_statement() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let lines: Vec<Value> = (1..=30)
        .map(|n| {
            of_worker(n, if n % 5 == 0 { "nanny" } else { "worker" }, u128::from(n % 3), &format!("line {n}"))
        })
        .collect();
    let cluster = ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/logs", lines).build()).await;
    let store = app.store_of(&ada).await;
    let workers = [0, 2, 9].map(|n| entity::ids::WorkerId(uuid::Uuid::from_u128(n)));
    let before = app.statements();
    let last = store.last_log_lines(entity::ids::ClusterId(cluster), &workers, 3).await.unwrap();
    assert_eq!(app.statements() - before, 1);
    let messages = workers.map(|worker| -> Vec<String> {
        last[&worker].iter().map(|row| store.log_message(row).unwrap()).collect()
    });
    assert_eq!(messages[0], ["line 24", "line 27", "line 30"]);
    assert_eq!(messages[1], ["line 23", "line 26", "line 29"]);
    assert_eq!(messages[2], [""; 0]);
    app.stop().await;
}
