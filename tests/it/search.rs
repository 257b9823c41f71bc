//! The search by text over all named objects of an account.

use harness::{Member, ReportBuilder, TestApp, error, span, usage, uuid};
use serde_json::{Value, json};

const SEARCH: &str = "query($text: String!, $types: [SearchType!], $first: Int! = 5) { viewer { account {
    search(text: $text, types: $types, first: $first) { matched item { __typename
        ... on Cluster { schedulerId } ... on ErrorGroup { type title } ... on FunctionUse { prefix lastUsedOn }
        ... on SpanTag { tag spans } ... on User { name } } } } } }";

async fn search(member: &Member, variables: Value) -> Vec<String> {
    let answer = member.query(SEARCH, variables).await;
    let line = |result: &Value| {
        let item = &result["item"];
        let name = ["schedulerId", "prefix", "tag", "name", "title"];
        let name = name.iter().find_map(|field| item[*field].as_str()).unwrap();
        format!("{} {name}: {}", item["__typename"].as_str().unwrap(), result["matched"].as_str().unwrap())
    };
    answer["viewer"]["account"]["search"].as_array().unwrap().iter().map(line).collect()
}

#[tokio::test]
async fn a_search_finds_every_type_and_names_the_property() {
    let app = TestApp::start().await;
    app.set_clock("2026-11-22T12:00:00Z");
    let ada = app.account("ada").await;
    let loader = app.member("loader", "ada").await;
    // A member without clusters is not found.
    app.member("loading", "ada").await;
    let of = |number: u128, class: &str, message: &str| {
        let mut error = error(number, 1, 1);
        (error["type"], error["message"]) = (json!(class), json!(message));
        error
    };
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/cluster/name", "LOAD all")
        .with("/usage", json!([usage(1, 4), usage(25, 4)]))
        .with(
            "/errors",
            json!([
                of(1, "LoadError", "LoadError('x')"),
                of(2, "OSError", "OSError('cannot load it')"),
                of(3, "A", "A('b')")
            ]),
        )
        .with(
            "/spans",
            json!([span(1, None, &["etl", "Reload"], 1.0, None), span(2, None, &["load"], 2.0, None)]),
        );
    let number = ada.reported(&report.build()).await.to_string();
    let renamed = ReportBuilder::new("Scheduler-1", 2).with("/cluster/name", format!("LOAD all +{number}"));
    ada.reported(&renamed.build()).await;
    let other = ReportBuilder::new("Scheduler-download", 1).with("/cluster/started_at", 1_795_172_401);
    loader.reported(&other.build()).await;
    app.fold_usage().await;

    let all = [
        "Cluster Scheduler-download: SCHEDULER_ID",
        "Cluster Scheduler-1: NAME",
        "ErrorGroup cannot load it: TITLE",
        "ErrorGroup x: TYPE",
        "FunctionUse load: NAME",
        "SpanTag load: NAME",
        "SpanTag Reload: NAME",
        "User loader: NAME",
    ];
    let found = search(&ada, json!({ "text": "lOAd" })).await;
    let mut sorted = found.clone();
    // Two groups with errors at the same time are in the order of their identifiers.
    sorted[2..4].sort();
    assert_eq!(sorted, all);
    for (variables, expected) in [
        (json!({ "text": "load", "types": ["USER", "CLUSTER"] }), vec![all[0], all[1], all[7]]),
        (json!({ "text": "load", "types": [] }), vec![]),
        (json!({ "text": "load", "types": ["SPAN_TAG", "CLUSTER"], "first": 1 }), vec![all[0], all[5]]),
        // A number finds its cluster first, and not once more by its name.
        (json!({ "text": number }), vec!["Cluster Scheduler-1: NUMBER"]),
        (json!({ "text": "ALL +" }), vec!["Cluster Scheduler-1: NAME"]),
        (json!({ "text": "divide" }), vec!["FunctionUse divide: NAME"]),
        (json!({ "text": "%" }), vec![]),
        (json!({ "text": "nowhere" }), vec![]),
    ] {
        assert_eq!(search(&ada, variables.clone()).await, expected, "{variables}");
    }
    let answer = ada.query(SEARCH, json!({ "text": "divide" })).await;
    // The second hour is on the day after the start.
    let item = json!({ "__typename": "FunctionUse", "prefix": "divide", "lastUsedOn": "2026-11-21" });
    assert_eq!(answer["viewer"]["account"]["search"][0]["item"], item);
    app.stop().await;
}

#[tokio::test]
async fn a_search_is_refused_for_a_wrong_text_or_number() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for (variables, message) in [
        (json!({ "text": "" }), "argument 'text': must have 1 to 200 characters"),
        (json!({ "text": "x".repeat(201) }), "argument 'text': must have 1 to 200 characters"),
        (json!({ "text": "\u{0}" }), "argument 'text': must not contain U+0000"),
        (json!({ "text": "x", "first": 0 }), "argument 'first': must be between 1 and 20, not 0"),
        (json!({ "text": "x", "first": 21 }), "argument 'first': must be between 1 and 20, not 21"),
    ] {
        let answer = ada.ask(SEARCH, variables).await;
        assert_eq!(answer["errors"][0]["message"], message);
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_search_finds_nothing_of_another_account() {
    let app = TestApp::start().await;
    app.set_clock("2026-11-22T12:00:00Z");
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mut failed = error(1, 1, 1);
    failed["type"] = json!("BobError");
    let report = ReportBuilder::new("Scheduler-of-bob", 1)
        .with("/usage", json!([usage(1, 4)]))
        .with("/errors", json!([failed]))
        .with("/spans", json!([span(1, None, &["bobs"], 1.0, None)]))
        .with("/computations", json!([]));
    let number = bob.reported(&report.build()).await.to_string();
    app.fold_usage().await;
    for (text, found) in [("bob", 4), ("load", 1), (&number, 1), (&uuid(1), 0)] {
        assert_eq!(search(&bob, json!({ "text": text })).await.len(), found, "{text}");
        assert_eq!(search(&ada, json!({ "text": text })).await, Vec::<String>::new(), "{text}");
    }
    app.stop().await;
}
