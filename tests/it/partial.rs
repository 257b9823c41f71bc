//! Reports with a part of a cluster's work, and errors of unknown origin.

use harness::{Member, ReportBuilder, TestApp, computation, error};
use serde_json::{Value, json};

use crate::phrase;

const WHY: &str = "The imported file holds a part of the work: Dask had forgotten 85 tasks.";

async fn ask(member: &Member, number: i64, question: &str) -> Value {
    let query = format!(
        "query($id: ID!) {{ cluster(id: $id) {{ answers {{ {question} {{ verdict headline value confidence {} }} }} }} }}",
        phrase::fields()
    );
    let mut data = member.query(&query, json!({ "id": number.to_string() })).await;
    phrase::checked(question, data["cluster"]["answers"][question].take())
}

fn report(sequence: i64, tasks: i64, succeeded: i64) -> ReportBuilder {
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/final", true)
        .with("/cluster/totals/tasks", tasks)
        .with("/cluster/totals/tasks_succeeded", succeeded)
}

/// An error with no data except that the task erred.
fn unexplained(number: u128) -> Value {
    let mut error = error(number, 1, 1);
    for name in ["message", "traceback"] {
        error[name] = json!("");
    }
    for name in ["type", "origin"] {
        error.as_object_mut().unwrap().remove(name);
    }
    error
}

#[tokio::test]
async fn answers_about_a_part_of_the_work_are_estimates_that_say_so() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut run = computation(1, &[]);
    run["state"] = json!("finished");
    let whole = || report(1, 28, 24).with("/computations", json!([run]));
    let number = ada.reported(&whole().build()).await;
    let finished = ["GOOD", "The 1 computation finished.", "MEASURED"];
    let exceptions = ["GOOD", "No exceptions: 0 tasks failed and 24 tasks succeeded.", "MEASURED"];
    for (question, [verdict, headline, confidence], value) in
        [("finished", finished, 1.0), ("exceptions", exceptions, 0.0)]
    {
        let expected =
            json!({ "verdict": verdict, "headline": headline, "value": value, "confidence": confidence });
        assert_eq!(ask(&ada, number, question).await, expected);
    }
    let part = whole().with("/sequence", 2).with("/cluster/partial", WHY);
    assert_eq!(ada.reported(&part.build()).await, number);
    for (question, [_, headline, _], value) in [("finished", finished, 1.0), ("exceptions", exceptions, 0.0)]
    {
        // A single failure in the missing part would make either answer wrong.
        let expected = json!({ "verdict": "UNKNOWN", "headline": format!("{headline} {WHY}"), "value": value,
            "confidence": "ESTIMATED" });
        assert_eq!(ask(&ada, number, question).await, expected);
    }
    // The present activity is known, whatever happened earlier.
    assert_eq!(ask(&ada, number, "whyRunning").await["confidence"], "MEASURED");
    app.stop().await;
}

#[tokio::test]
async fn nothing_is_said_of_work_that_is_not_there() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report(1, 0, 0).with("/cluster/partial", WHY).build()).await;
    for (question, unknown) in [
        ("finished", "Whether anything was submitted is not known."),
        ("exceptions", "Whether tasks failed is not known."),
    ] {
        let expected = json!({ "verdict": "UNKNOWN", "headline": format!("{unknown} {WHY}"), "value": null,
            "confidence": "NOT_COLLECTED" });
        assert_eq!(ask(&ada, number, question).await, expected);
    }
    app.stop().await;
}

#[tokio::test]
async fn an_error_of_unknown_cause_is_nobodys() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Reporters of all versions send "user" by default.
    let mut claimed = unexplained(2);
    claimed["origin"] = json!("user");
    let mut explained = unexplained(3);
    explained["message"] = json!("ValueError('no')");
    let errors = json!([unexplained(1), claimed, explained]);
    let totals = report(1, 3, 0).with("/cluster/totals/tasks_erred", 3).with("/cluster/totals/errors", 3);
    let number = ada.reported(&totals.with("/errors", errors).build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { errors { nodes { daskOrigin: origin message group { origin } } } } }";
    let listed = ada.query(query, json!({ "id": number.to_string() })).await;
    let mut found: Vec<_> = listed["cluster"]["errors"]["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["message"].to_string(), row["daskOrigin"].clone(), row["group"]["origin"].clone()))
        .collect();
    found.sort_by_key(|(message, ..)| message.clone());
    let (user, unknown) = (json!("USER"), json!("UNKNOWN"));
    let expected = [
        ("\"\"".to_owned(), unknown.clone(), unknown.clone()),
        ("\"\"".to_owned(), unknown.clone(), unknown),
        ("\"ValueError('no')\"".to_owned(), user.clone(), user),
    ];
    assert_eq!(found, expected);
    let groups = "{ viewer { account { errorGroups(origin: UNKNOWN) { nodes { occurrenceCount } } } } }";
    let listed = ada.query(groups, json!({})).await;
    assert_eq!(listed["viewer"]["account"]["errorGroups"]["nodes"], json!([{ "occurrenceCount": 2 }]));
    let headline = "3 exceptions: 1 of the computations' own code, 2 of unknown cause.";
    let expected = json!({ "verdict": "BAD", "headline": headline, "value": 3.0, "confidence": "MEASURED" });
    assert_eq!(ask(&ada, number, "exceptions").await, expected);
    app.stop().await;
}

#[tokio::test]
async fn errors_of_unknown_cause_are_kept_back_with_those_of_users() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let set =
        "mutation { setDataPolicy(input: { class: USER_ERRORS, accepted: false }) { userErrors { code } } }";
    assert_eq!(ada.query(set, json!({})).await["setDataPolicy"]["userErrors"], json!([]));
    let number = ada.reported(&report(1, 1, 0).with("/errors", json!([unexplained(1)])).build()).await;
    let query = "query($id: ID!) { cluster(id: $id) { errors { nodes { key } } } }";
    let listed = ada.query(query, json!({ "id": number.to_string() })).await;
    assert_eq!(listed["cluster"]["errors"]["nodes"], json!([]));
    app.stop().await;
}
