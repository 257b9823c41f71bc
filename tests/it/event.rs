//! Events that Dask or a user logged, with any data.

use harness::{Member, ReportBuilder, TestApp, event, uuid};
use reqwest::{Method, header};
use serde_json::{Value, json};

const EVENTS: &str = "query($topics: [String!], $at: TimeRange, $first: Int, $after: String, $last: Int) { viewer { account {
    clusters(orderBy: { direction: ASC }) { nodes { events(topics: $topics, at: $at, first: $first, after: $after, last: $last) {
        totalCount pageInfo { hasNextPage hasPreviousPage endCursor } nodes { at topic workerId data } } } } } } }";

async fn events(member: &Member, variables: Value) -> Value {
    let answer = member.query(EVENTS, variables).await;
    answer["viewer"]["account"]["clusters"]["nodes"][0]["events"].clone()
}

fn data(page: &Value) -> Vec<Value> {
    page["nodes"].as_array().unwrap().iter().map(|node| node["data"].clone()).collect()
}

#[tokio::test]
async fn events_are_listed_in_the_order_they_happened() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut of_worker = event(2, "worker-restart", json!({ "n": 1, "deep": [[{}], null, "x"] }));
    of_worker["worker_id"] = json!(uuid(7));
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/events", json!([event(3, "mine", "text"), event(1, "mine", 1.5), of_worker]))
        .build();
    ada.reported(&report).await;
    let node = |second: u32, topic: &str, worker: Value, data: Value| json!({ "at": format!("2026-11-20T11:00:0{second}+00:00"), "topic": topic, "workerId": worker, "data": data });
    let expected = [
        node(1, "mine", Value::Null, json!(1.5)),
        node(2, "worker-restart", json!(uuid(7)), json!({ "n": 1, "deep": [[{}], null, "x"] })),
        node(3, "mine", Value::Null, json!("text")),
    ];
    let page = events(&ada, json!({})).await;
    assert_eq!((&page["totalCount"], &page["nodes"]), (&json!(3), &json!(expected)));

    // The same events with other content: the first version remains.
    let mut changed = report.clone();
    changed["sequence"] = json!(2);
    changed["events"][0]["data"] = json!("other");
    ada.reported(&changed).await;
    assert_eq!(events(&ada, json!({})).await["nodes"], json!(expected));

    let mine = events(&ada, json!({ "topics": ["mine"], "first": 1 })).await;
    assert_eq!((data(&mine), &mine["totalCount"]), (vec![json!(1.5)], &json!(2)));
    let next = json!({ "topics": ["mine"], "first": 1, "after": mine["pageInfo"]["endCursor"] });
    assert_eq!(data(&events(&ada, next).await), [json!("text")]);
    let both = events(&ada, json!({ "topics": ["mine", "worker-restart"], "last": 2 })).await;
    assert_eq!(data(&both), [expected[1]["data"].clone(), json!("text")]);
    assert_eq!(data(&events(&ada, json!({ "topics": [] })).await), Vec::<Value>::new());
    let from_second = json!({ "from": "2026-11-20T11:00:02Z" });
    let late = events(&ada, json!({ "at": from_second, "first": 1 })).await;
    assert_eq!((data(&late), &late["totalCount"]), (vec![expected[1]["data"].clone()], &json!(2)));
    let next = json!({ "at": from_second, "first": 1, "after": late["pageInfo"]["endCursor"] });
    assert_eq!(data(&events(&ada, next).await), [json!("text")]);
    let early = json!({ "at": { "to": "2026-11-20T11:00:03Z" }, "topics": ["mine"] });
    assert_eq!(data(&events(&ada, early).await), [json!(1.5)]);
    app.stop().await;
}

#[tokio::test]
async fn no_name_in_an_event_has_a_meaning() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // A key that one of our libraries would interpret as raw JSON. It is kept as text throughout,
    // because the macro here would interpret it, too.
    let names = [
        r#"{"$serde_json::private::RawValue":"{\"injected\":1}"}"#,
        r#"{"$serde_json::private::RawValue":"no JSON"}"#,
        r#"{"$serde_json::private::RawValue":7}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
    ];
    let events: Vec<Value> = (0..4).map(|number| event(number, "mine", format!("PLACE {number}"))).collect();
    let mut report = ReportBuilder::new("Scheduler-1", 1).with("/events", events).build().to_string();
    for (number, name) in names.iter().enumerate() {
        report = report.replace(&format!("\"PLACE {number}\""), name);
    }
    let sent = ada.request(Method::POST, "/api/v1/reports").header(header::CONTENT_TYPE, "application/json");
    let answer = sent.body(report).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{status}: {text}");
    let query = json!({ "query": EVENTS }).to_string();
    let request = ada.request(Method::POST, "/graphql").header(header::CONTENT_TYPE, "application/json");
    let answer = request.body(query).send().await.unwrap().text().await.unwrap();
    for name in names {
        assert!(answer.contains(&format!(r#""data":{name}"#)), "{name}: {answer}");
    }
    app.stop().await;
}

#[tokio::test]
async fn source_lines_never_get_into_events() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let traceback = "Traceback:\n  File \"a.py\", line 1, in f\n    secret()\nValueError";
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/events", json!([event(1, "failed", json!({ "traceback": traceback, "key": "f-1" }))]))
        .build();
    ada.reported(&report).await;
    let expected =
        json!({ "traceback": "Traceback:\n  File \"a.py\", line 1, in f\nValueError", "key": "f-1" });
    assert_eq!(data(&events(&ada, json!({})).await), [expected]);
    app.stop().await;
}

#[tokio::test]
async fn the_events_of_many_clusters_cost_two_statements() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for cluster in 0..5 {
        let many: Vec<Value> = (0..30).map(|n| event(n, "mine", cluster)).collect();
        let report = ReportBuilder::new(&format!("Scheduler-{cluster}"), 1).with("/events", many);
        ada.reported(&report.build()).await;
    }
    let before = app.statements();
    let answer = ada.query(EVENTS, json!({ "topics": ["mine"], "first": 25 })).await;
    let clusters = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
    assert_eq!(clusters.len(), 5);
    for cluster in clusters {
        let events = &cluster["events"];
        assert_eq!((events["nodes"].as_array().unwrap().len(), &events["totalCount"]), (25, &json!(30)));
    }
    // The token and the clusters; then the events and their numbers.
    assert_eq!(app.statements() - before, 2 + 2);
    app.stop().await;
}
