//! The triage status of error groups, and its change when an error recurs.

use entity::{api_token::Scope, membership::Role};
use harness::{Member, ReportBuilder, STARTED_AT, TestApp, error};
use serde_json::{Value, json};

const SET: &str = "mutation($group: ID!, $status: ErrorGroupTriageStatus!) { result: setErrorGroupStatus(group: $group, status: $status) {
    errorGroup { status statusChangedAt statusChangedBy { name } regressedAt } } }";

const GROUPS: &str = "query($status: [ErrorGroupStatus!]) { viewer { account { errorGroups(status: $status) {
    totalCount nodes { id title status statusChangedAt statusChangedBy { name } regressedAt } } } } }";

/// Reports an error this many seconds after 11:00 from a new scheduler.
async fn happens(member: &Member, number: u32, seconds: f64, message: &str) {
    let mut error = error(number.into(), 1, 1);
    error["at"] = json!(STARTED_AT + seconds);
    error["message"] = json!(message);
    let report = ReportBuilder::new(&format!("Scheduler-{number}"), 1).with("/errors", vec![error]);
    member.reported(&report.build()).await;
}

async fn groups(member: &Member, status: Value) -> Value {
    member.query(GROUPS, json!({ "status": status })).await["viewer"]["account"]["errorGroups"].take()
}

/// The group with a title.
async fn group(member: &Member, title: &str) -> Value {
    let found = groups(member, Value::Null).await;
    found["nodes"].as_array().unwrap().iter().find(|group| group["title"] == title).unwrap().clone()
}

async fn set(member: &Member, title: &str, status: &str) -> Value {
    let id = group(member, title).await["id"].clone();
    member.query(SET, json!({ "group": id, "status": status })).await["result"]["errorGroup"].take()
}

#[tokio::test]
async fn a_resolved_group_that_happens_again_has_regressed() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member("bob", "ada").await;
    happens(&ada, 1, 0.0, "boom").await;
    let open =
        json!({ "status": "OPEN", "statusChangedAt": null, "statusChangedBy": null, "regressedAt": null });
    let status = async || {
        let mut group = group(&ada, "boom").await;
        for field in ["id", "title"] {
            group.as_object_mut().unwrap().remove(field);
        }
        group
    };
    assert_eq!(status().await, open);

    // Resolved at 12:00 by the server's clock.
    let resolved = json!({ "status": "RESOLVED", "statusChangedAt": "2026-11-20T12:00:00+00:00",
        "statusChangedBy": { "name": "bob" }, "regressedAt": null });
    assert_eq!(set(&bob, "boom", "RESOLVED").await, resolved);
    // An error that happened earlier or at the same time, but is reported later, counts as resolved.
    happens(&ada, 2, 1_800.0, "boom").await;
    happens(&ada, 3, 3_600.0, "boom").await;
    assert_eq!(status().await, resolved);
    // A later error does not. The earliest recurrence counts, in any order of reports.
    happens(&ada, 4, 3_700.0, "boom").await;
    happens(&ada, 5, 3_600.5, "boom").await;
    let mut regressed = resolved.clone();
    (regressed["status"], regressed["regressedAt"]) =
        (json!("REGRESSED"), json!("2026-11-20T12:00:00.500+00:00"));
    assert_eq!(status().await, regressed);

    // By a scheduler with a fast clock it happened at 12:01:40 already: resolving covers that.
    assert_eq!(set(&bob, "boom", "RESOLVED").await, resolved);
    happens(&ada, 6, 3_700.0, "boom").await;
    assert_eq!(status().await, resolved);
    happens(&ada, 7, 3_700.5, "boom").await;
    regressed["regressedAt"] = json!("2026-11-20T12:01:40.500+00:00");
    assert_eq!(status().await, regressed);

    app.set_clock("2026-11-20T12:30:00Z");
    for (new_status, status_now) in [("IGNORED", "IGNORED"), ("OPEN", "OPEN")] {
        let expected = json!({ "status": status_now, "statusChangedAt": "2026-11-20T12:30:00+00:00",
            "statusChangedBy": { "name": "ada" }, "regressedAt": null });
        assert_eq!(set(&ada, "boom", new_status).await, expected);
        happens(&ada, 8, 10_000.0, "boom").await;
        assert_eq!(status().await, expected);
    }
    app.stop().await;
}

#[tokio::test]
async fn groups_are_listed_by_what_is_to_be_thought_of_them() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for (number, title) in [(1, "open"), (2, "resolved"), (3, "ignored"), (4, "regressed")] {
        happens(&ada, number, f64::from(number), title).await;
    }
    for (title, status) in [("resolved", "RESOLVED"), ("ignored", "IGNORED"), ("regressed", "RESOLVED")] {
        set(&ada, title, status).await;
    }
    happens(&ada, 5, 3_605.0, "regressed").await;
    happens(&ada, 6, 3_606.0, "ignored").await;
    // The newest first.
    for (status, expected) in [
        (json!(null), "ignored regressed resolved open"),
        (json!([]), ""),
        (json!("OPEN"), "open"),
        (json!(["RESOLVED"]), "resolved"),
        (json!(["IGNORED"]), "ignored"),
        (json!(["REGRESSED"]), "regressed"),
        (json!(["OPEN", "REGRESSED", "OPEN"]), "regressed open"),
        (json!(["OPEN", "REGRESSED", "RESOLVED", "IGNORED"]), "ignored regressed resolved open"),
    ] {
        let found = groups(&ada, status.clone()).await;
        let nodes = found["nodes"].as_array().unwrap().iter();
        let titles: Vec<&str> = nodes.map(|node| node["title"].as_str().unwrap()).collect();
        assert_eq!(titles.join(" "), expected, "{status}");
        assert_eq!(found["totalCount"], titles.len(), "{status}");
    }
    // The token, the page, its length, the users of the statuses, and the recurrences.
    let before = app.statements();
    groups(&ada, Value::Null).await;
    assert_eq!(app.statements() - before, 5);
    let reader = ada.with_token(ada.token(&[Scope::Read], None).await);
    let id = group(&ada, "open").await["id"].clone();
    let answer = reader.ask(SET, json!({ "group": id, "status": "IGNORED" })).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "FORBIDDEN");
    app.stop().await;
}

#[tokio::test]
async fn a_member_decides_on_the_newest_thousand_errors_of_a_group() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    happens(&bob, 1, 0.0, "boom").await;
    let can = "{ viewer { account { errorGroups { nodes { viewerCanTriage } } } } }";
    let can = async || {
        bob.query(can, json!({})).await["viewer"]["account"]["errorGroups"]["nodes"][0]["viewerCanTriage"]
            .take()
    };
    let id = group(&ada, "boom").await["id"].clone();
    let code = async || {
        let set =
            "mutation($id: ID!) { setErrorGroupStatus(group: $id, status: IGNORED) { userErrors { code } } }";
        let answer = bob.query(set, json!({ "id": id })).await["setErrorGroupStatus"].take();
        answer["userErrors"][0]["code"].as_str().unwrap_or_default().to_owned()
    };
    // The errors of others are newer, by their identifiers.
    for (sequence, numbers, expected) in
        [(1, 2..500, true), (2, 500..1_000, true), (3, 1_000..1_001, true), (4, 1_001..1_002, false)]
    {
        let errors = numbers.map(|number: u128| {
            let mut error = error(number, 1, 1);
            error["message"] = json!("boom");
            error
        });
        let report =
            ReportBuilder::new("Scheduler-of-ada", sequence).with("/errors", errors.collect::<Vec<_>>());
        ada.reported(&report.build()).await;
        assert_eq!(can().await, expected, "{sequence}");
        assert_eq!(code().await, if expected { "" } else { "FORBIDDEN" }, "{sequence}");
    }
    app.stop().await;
}
