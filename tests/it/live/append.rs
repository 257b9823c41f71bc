//! Streams of added rows: complete and without duplicates, however often the connection breaks.

use harness::{ReportBuilder, TestApp, computation, error, event, log_line, task_group, uuid};
use serde_json::{Value, json};

use super::{Watching, cursor, refusal};

const EVENTS: &str = "subscription($after: String, $topics: [String!]) {
    events(account: \"ada\", topics: $topics, after: $after) { cursor gap events { topic data } } }";

const LOGS: &str = "subscription($after: String, $match: String, $levels: [String!]) {
    logs(account: \"ada\", match: $match, levels: $levels, after: $after) { cursor gap lines { message } } }";

const ERRORS: &str = "subscription($after: String, $match: String) {
    errors(account: \"ada\", match: $match, after: $after) { cursor gap errors { key message } } }";

const COMPUTATIONS: &str = "subscription($after: String) {
    computations(account: \"ada\", after: $after) { cursor gap computations { state } } }";

fn events(numbers: impl IntoIterator<Item = u32>) -> Value {
    numbers.into_iter().map(|number| event(number, "topic", number)).collect()
}

/// The numbers of the events in a payload.
fn numbers(batch: &Value) -> Vec<i64> {
    assert_eq!(batch["gap"], false);
    batch["events"].as_array().unwrap().iter().map(|event| event["data"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn what_is_added_comes_once_in_the_order_in_which_it_arrived() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report =
        |name: &str, sequence, events| ReportBuilder::new(name, sequence).with("/events", events).build();
    ada.reported(&report("one", 1, events([900]))).await;
    let mut watching = Watching::begin(&app, &ada, "events", EVENTS, json!({})).await;
    let second = report("one", 2, events([20, 21]));
    ada.reported(&second).await;
    assert_eq!(numbers(&watching.next().await), [20, 21]);
    // Late events follow with their earlier time, and repeated ones are not sent again.
    ada.reported(&second).await;
    ada.reported(&report("one", 3, events([5, 20]))).await;
    assert_eq!(numbers(&watching.next().await), [5]);
    ada.reported(&report("two", 1, events([7]))).await;
    assert_eq!(numbers(&watching.next().await), [7]);
    // Events of a late report are sent, too.
    ada.reported(&report("two", 5, events([]))).await;
    ada.reported(&report("two", 2, events([3]))).await;
    assert_eq!(numbers(&watching.next().await), [3]);
    assert!(watching.is_quiet().await);
    app.stop().await;
}

#[tokio::test]
async fn a_stream_that_breaks_everywhere_loses_and_repeats_nothing() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let start = cursor(&ada).await;
    let mut whole = Watching::begin(&app, &ada, "events", EVENTS, json!({ "after": start })).await;
    let (mut expected, mut at_once, mut broken, mut after) = (Vec::new(), Vec::new(), Vec::new(), start);
    for round in 0..6_u32 {
        // The server's clock is fixed in some rounds and jumps in others, and one report exceeds a
        // payload.
        if round % 2 == 1 {
            app.set_clock(&format!("2026-11-20T12:0{round}:00Z"));
        }
        for cluster in 0..3_u32 {
            let from = round * 1_000 + cluster * 300;
            let count = if (round, cluster) == (2, 1) { 230 } else { 3 };
            let report = ReportBuilder::new(&format!("cluster-{cluster}"), i64::from(round) + 1);
            ada.reported(&report.with("/events", events(from..from + count)).build()).await;
            expected.extend((from..from + count).map(i64::from));
        }
        while at_once.len() < expected.len() {
            at_once.extend(numbers(&whole.next().await));
        }
        while broken.len() < expected.len() {
            let mut stream = Watching::begin(&app, &ada, "events", EVENTS, json!({ "after": after })).await;
            let batch = stream.next().await;
            broken.extend(numbers(&batch));
            after = batch["cursor"].clone();
        }
    }
    let mut stream = Watching::begin(&app, &ada, "events", EVENTS, json!({ "after": after })).await;
    assert!(whole.is_quiet().await && stream.is_quiet().await);
    for mut got in [at_once, broken] {
        got.sort_unstable();
        assert_eq!(got, expected);
    }
    app.stop().await;
}

#[tokio::test]
async fn what_arrives_while_the_clock_jumps_is_not_left_out() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = |name: &str, sequence, number| {
        ReportBuilder::new(name, sequence).with("/events", events([number])).build()
    };
    ada.reported(&report("one", 1, 1)).await;
    let mut watching = Watching::begin(&app, &ada, "events", EVENTS, json!({})).await;
    for round in 0..5_u32 {
        let (before, after) = [12, 13].map(|hour| format!("2026-11-20T{}:00:00Z", hour + round)).into();
        let (sequence, number) = (i64::from(round), 10 * (round + 1));
        app.set_clock(&after);
        ada.reported(&report("two", 1 + sequence, number)).await;
        assert_eq!(numbers(&watching.next().await), [i64::from(number)]);
        // It started before the clock jumped, and is sent together with the next one.
        app.set_clock(&before);
        ada.reported(&report("one", 2 + 2 * sequence, number + 1)).await;
        app.set_clock(&after);
        ada.reported(&report("one", 3 + 2 * sequence, number + 2)).await;
        let mut got = Vec::new();
        while got.len() < 2 {
            got.extend(numbers(&watching.next().await));
        }
        assert_eq!(got, [i64::from(number + 1), i64::from(number + 2)]);
    }
    assert!(watching.is_quiet().await);
    app.stop().await;
}

#[tokio::test]
async fn lists_filters_choose_what_comes() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let start = cursor(&ada).await;
    let mut warning = log_line(2, "Something else");
    warning["level"] = json!("WARNING");
    let mut other = error(21, 11, 1);
    other["id"] = json!(uuid(22));
    other["message"] = json!("KeyError('x')");
    other["key"] = json!("other");
    let mut running = computation(2, &[10]);
    running["state"] = json!("running");
    running["stopped_at"] = Value::Null;
    let report = ReportBuilder::new("one", 1)
        .with("/task_groups", json!([task_group(10, "load", 4), task_group(11, "divide", 2)]))
        .with("/computations", json!([computation(1, &[10, 11]), running]))
        .with("/errors", json!([error(20, 11, 1), other]))
        .with("/logs", json!([log_line(1, "Worker removed"), warning, log_line(3, "a WORKER came")]))
        .with("/events", json!([event(1, "a", 1), event(2, "b", 2)]));
    ada.reported(&report.build()).await;
    let first = async |field, query, mut variables: Value| {
        variables["after"] = start.clone();
        Watching::begin(&app, &ada, field, query, variables).await.next().await
    };
    let lines = |batch: Value| batch["lines"].clone();
    let all = json!([{ "message": "Worker removed" }, { "message": "Something else" }, { "message": "a WORKER came" }]);
    assert_eq!(lines(first("logs", LOGS, json!({})).await), all);
    let found = json!([{ "message": "Worker removed" }, { "message": "a WORKER came" }]);
    assert_eq!(lines(first("logs", LOGS, json!({ "match": "worker" })).await), found);
    let found = json!([{ "message": "Something else" }]);
    assert_eq!(lines(first("logs", LOGS, json!({ "levels": ["WARNING"] })).await), found);
    assert_eq!(
        first("events", EVENTS, json!({ "topics": ["b"] })).await["events"],
        json!([{ "topic": "b", "data": 2 }])
    );
    let found = json!([{ "key": "other", "message": "KeyError('x')" }]);
    assert_eq!(first("errors", ERRORS, json!({ "match": "keyerror" })).await["errors"], found);
    assert_eq!(first("errors", ERRORS, json!({})).await["errors"].as_array().unwrap().len(), 2);
    let mut watching =
        Watching::begin(&app, &ada, "computations", COMPUTATIONS, json!({ "after": start })).await;
    let states = json!([{ "state": "FINISHED" }, { "state": "RUNNING" }]);
    assert_eq!(watching.next().await["computations"], states);
    // Only changed computations are sent again.
    let mut done = computation(2, &[10]);
    done["state"] = json!("erred");
    let next = ReportBuilder::new("one", 2).with("/computations", json!([done]));
    ada.reported(&next.build()).await;
    assert_eq!(watching.next().await["computations"], json!([{ "state": "ERRED" }]));
    app.stop().await;
}

#[tokio::test]
async fn a_cursor_of_another_stream_is_refused_and_an_old_one_has_a_gap() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let start = cursor(&ada).await;
    ada.reported(&ReportBuilder::new("one", 1).with("/events", events([1])).build()).await;
    let mut watching = Watching::begin(&app, &ada, "events", EVENTS, json!({ "after": start })).await;
    let of_events = watching.next().await["cursor"].clone();
    for wrong in [json!("x"), json!(""), of_events.clone()] {
        let refused = refusal(&app, &ada, LOGS, json!({ "after": wrong })).await;
        assert_eq!(refused[0]["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
        assert_eq!(refused[0]["message"], "argument 'after': not a cursor of this subscription");
    }
    app.set_clock("2026-11-23T12:00:00Z");
    ada.reported(&ReportBuilder::new("one", 2).with("/events", events([2])).build()).await;
    let mut late = Watching::begin(&app, &ada, "events", EVENTS, json!({ "after": of_events })).await;
    let batch = late.next().await;
    assert_eq!((&batch["gap"], &batch["events"][0]["data"]), (&json!(true), &json!(2)));
    app.stop().await;
}
