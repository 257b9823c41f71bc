//! Streams of the account's own rows: alerts and error groups.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp, error, sample};
use serde_json::{Value, json};

use super::{Watching, refusal};
use crate::{plan::plan_of, statements::statements_of};

const GROUPS: &str = "subscription($account: String!, $origin: ErrorOrigin, $types: [String!],
    $status: [ErrorGroupStatus!], $after: String) {
    errorGroups(account: $account, origin: $origin, types: $types, status: $status, after: $after) {
        cursor gap errorGroups { title status occurrenceCount clusterCount } unmatched { title status } } }";

const ALERTS: &str = "subscription($account: String!, $after: String) {
    alerts(account: $account, after: $after) {
        cursor gap alerts { ruleName since until isActive value flag cluster { name } } } }";

/// A report with errors: their numbers, seconds after 11:00, and messages.
fn failed(scheduler: &str, sequence: i64, errors: &[(u128, f64, &str)]) -> Value {
    let errors = errors.iter().map(|(number, seconds, message)| {
        let mut error = error(*number, 1, 1);
        (error["at"], error["message"]) = (json!(STARTED_AT + seconds), json!(message));
        error
    });
    ReportBuilder::new(scheduler, sequence).with("/errors", errors.collect::<Vec<_>>()).build()
}

/// The groups in a payload by title, with their numbers of errors and clusters.
fn group(title: &str, status: &str, errors: i64, clusters: i64) -> Value {
    json!({ "title": title, "status": status, "occurrenceCount": errors, "clusterCount": clusters })
}

async fn set_status(member: &Member, title: &str, status: &str) {
    let list = "{ viewer { account { errorGroups { nodes { id title } } } } }";
    let found = member.query(list, json!({})).await["viewer"]["account"]["errorGroups"]["nodes"].take();
    let id = found.as_array().unwrap().iter().find(|group| group["title"] == title).unwrap()["id"].clone();
    let set = "mutation($id: ID!, $status: ErrorGroupTriageStatus!) {
        setErrorGroupStatus(group: $id, status: $status) { userErrors { code } } }";
    let answer = member.query(set, json!({ "id": id, "status": status })).await;
    assert_eq!(answer["setErrorGroupStatus"]["userErrors"], json!([]));
}

/// The titles in a payload, sorted. Groups that one report changes have no order.
fn titles(batch: &Value) -> Vec<String> {
    let groups = batch["errorGroups"].as_array().unwrap().iter();
    let mut titles: Vec<String> = groups.map(|group| group["title"].as_str().unwrap().to_owned()).collect();
    titles.sort();
    titles
}

#[tokio::test]
async fn a_group_is_sent_when_it_is_new_has_new_errors_or_another_status() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mut watching = Watching::begin(&app, &ada, "errorGroups", GROUPS, json!({ "account": "ada" })).await;
    let mut other = Watching::begin(&app, &bob, "errorGroups", GROUPS, json!({ "account": "bob" })).await;
    ada.reported(&failed("one", 1, &[(1, 10.0, "boom"), (2, 20.0, "boom")])).await;
    let mut batch = watching.next().await;
    assert!(batch["cursor"].take().is_string());
    let expected = json!({ "cursor": null, "gap": false, "errorGroups": [group("boom", "OPEN", 2, 1)], "unmatched": [] });
    assert_eq!(batch, expected);
    // An error between the first and the last one changes the number of errors only.
    ada.reported(&failed("two", 1, &[(3, 15.0, "boom")])).await;
    assert_eq!(watching.next().await["errorGroups"], json!([group("boom", "OPEN", 3, 2)]));
    ada.reported(&failed("two", 2, &[(4, 16.0, "crash"), (5, 16.0, "burst")])).await;
    assert_eq!(titles(&watching.next().await), ["burst", "crash"]);
    // A report without errors changes nothing.
    ada.reported(&failed("two", 3, &[])).await;
    assert!(watching.is_quiet().await);

    set_status(&ada, "boom", "RESOLVED").await;
    assert_eq!(watching.next().await["errorGroups"], json!([group("boom", "RESOLVED", 3, 2)]));
    // It was resolved at 12:00, an hour after the start.
    ada.reported(&failed("one", 2, &[(6, 3_601.0, "boom")])).await;
    assert_eq!(watching.next().await["errorGroups"], json!([group("boom", "REGRESSED", 4, 2)]));
    set_status(&ada, "boom", "IGNORED").await;
    assert_eq!(watching.next().await["errorGroups"], json!([group("boom", "IGNORED", 4, 2)]));
    assert!(watching.is_quiet().await && other.is_quiet().await, "it was another account's");
    app.stop().await;
}

#[tokio::test]
async fn a_group_whose_status_leaves_the_filter_is_sent_once_more() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let filter = json!({ "account": "ada", "origin": "USER", "types": ["ZeroDivisionError"],
        "status": ["OPEN", "REGRESSED"] });
    let mut watching = Watching::begin(&app, &ada, "errorGroups", GROUPS, filter).await;
    let mut resolved = Watching::begin(
        &app,
        &ada,
        "errorGroups",
        GROUPS,
        json!({ "account": "ada", "status": ["RESOLVED"] }),
    )
    .await;
    let mut of_other_type = failed("one", 1, &[(1, 10.0, "lost")]);
    of_other_type["errors"][0]["type"] = json!("KeyError");
    ada.reported(&of_other_type).await;
    ada.reported(&failed("one", 2, &[(2, 11.0, "boom")])).await;
    assert_eq!(watching.next().await["errorGroups"], json!([group("boom", "OPEN", 1, 1)]));
    // Groups that never passed the filter are sent once, too: their status before is not known.
    let mut unmatched = Vec::new();
    while unmatched.len() < 2 {
        let batch = resolved.next().await;
        assert_eq!(batch["errorGroups"], json!([]));
        unmatched.extend(batch["unmatched"].as_array().unwrap().clone());
    }
    let open = |title: &str| json!({ "title": title, "status": "OPEN" });
    assert_eq!(unmatched, [open("lost"), open("boom")]);

    set_status(&ada, "boom", "RESOLVED").await;
    let batch = watching.next().await;
    let left = json!([{ "title": "boom", "status": "RESOLVED" }]);
    assert_eq!((&batch["errorGroups"], &batch["unmatched"]), (&json!([]), &left));
    assert_eq!(resolved.next().await["errorGroups"], json!([group("boom", "RESOLVED", 1, 1)]));
    ada.reported(&failed("one", 3, &[(3, 12.0, "boom")])).await;
    assert_eq!(resolved.next().await["errorGroups"], json!([group("boom", "RESOLVED", 2, 1)]));
    assert!(watching.is_quiet().await, "it has been delivered");
    ada.reported(&failed("one", 4, &[(4, 3_601.0, "boom")])).await;
    assert_eq!(watching.next().await["errorGroups"], json!([group("boom", "REGRESSED", 3, 1)]));
    set_status(&ada, "boom", "IGNORED").await;
    assert_eq!(watching.next().await["unmatched"], json!([{ "title": "boom", "status": "IGNORED" }]));
    app.stop().await;
}

#[tokio::test]
async fn a_stream_of_groups_resumes_where_it_broke() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut whole = Watching::begin(&app, &ada, "errorGroups", GROUPS, json!({ "account": "ada" })).await;
    // Numbers are data, which groups disregard, and letters are not.
    let name =
        |number: u32| -> String { number.to_string().bytes().map(|digit| char::from(digit + 49)).collect() };
    let names: Vec<String> = (100..350).map(name).collect();
    let errors: Vec<(u128, f64, &str)> =
        (1..).zip(&names).map(|(n, name)| (n, 10.0, name.as_str())).collect();
    ada.reported(&failed("one", 1, &errors)).await;
    let (mut at_once, mut cursors) = (Vec::new(), Vec::new());
    while at_once.len() < names.len() {
        let batch = whole.next().await;
        assert_eq!(batch["gap"], false);
        let found = titles(&batch);
        assert!(found.len() <= 100);
        at_once.extend(found);
        cursors.push((batch["cursor"].clone(), at_once.len()));
    }
    // Earlier by the server's clock than what was sent, as if it were committed later.
    app.set_clock("2026-11-20T11:59:40Z");
    ada.reported(&failed("two", 1, &[(500, 10.0, "late")])).await;
    assert_eq!(titles(&whole.next().await), ["late"]);
    assert!(cursors.len() >= 3, "a payload has at most a hundred groups");
    for (cursor, taken) in cursors {
        let resume = json!({ "account": "ada", "after": cursor });
        let mut again = Watching::begin(&app, &ada, "errorGroups", GROUPS, resume).await;
        let mut found = at_once[..taken].to_vec();
        while found.len() < names.len() + 1 {
            found.extend(titles(&again.next().await));
        }
        assert!(again.is_quiet().await);
        found.sort();
        let mut expected = [names.clone(), vec!["late".to_owned()]].concat();
        expected.sort();
        assert_eq!(found, expected, "after {taken}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_cursor_of_groups_is_no_cursor_of_alerts_and_an_old_one_has_a_gap() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut watching = Watching::begin(&app, &ada, "errorGroups", GROUPS, json!({ "account": "ada" })).await;
    ada.reported(&failed("one", 1, &[(1, 10.0, "boom")])).await;
    let cursor = watching.next().await["cursor"].clone();
    let refused = refusal(&app, &ada, ALERTS, json!({ "account": "ada", "after": cursor })).await;
    assert_eq!(refused[0]["message"], "argument 'after': not a cursor of this subscription");
    let many = json!({ "account": "ada", "status": vec!["OPEN"; 101] });
    let refused = refusal(&app, &ada, GROUPS, many).await;
    assert_eq!(refused[0]["message"], "argument 'status': must be at most 100");
    app.set_clock("2026-11-23T12:00:00Z");
    ada.reported(&failed("one", 2, &[(2, 11.0, "crash")])).await;
    let resume = json!({ "account": "ada", "after": cursor });
    let batch = Watching::begin(&app, &ada, "errorGroups", GROUPS, resume).await.next().await;
    assert_eq!((&batch["gap"], titles(&batch)), (&json!(true), vec!["crash".to_owned()]));
    app.stop().await;
}

#[tokio::test]
async fn changed_rows_are_a_range_of_an_index() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    for (field, query, table) in [("alerts", ALERTS, "alerts"), ("errorGroups", GROUPS, "error_groups")] {
        let work = async {
            let mut watching = Watching::begin(&app, &ada, field, query, json!({ "account": "ada" })).await;
            Value::Bool(watching.is_quiet().await)
        };
        let (quiet, statements) = statements_of(work).await;
        assert_eq!(quiet, true);
        let from = format!(r#"FROM "{table}""#);
        let statement = statements.iter().find(|sql| sql.contains(&from)).unwrap();
        let plan = plan_of(&app, statement).await;
        if app.database.url().starts_with("sqlite") {
            let range =
                format!("SEARCH {table} USING INDEX {table}_changed_idx (account_id=? AND changed_at>?)");
            assert_eq!(plan, range, "{statement}");
        } else {
            let parts = [format!("{table}_changed_idx"), "(changed_at > ".to_owned()];
            assert!(parts.iter().all(|part| plan.contains(part)) && !plan.contains("Sort"), "{plan}");
        }
    }
    app.stop().await;
}

/// A report of a cluster with this percentage of its memory in use.
fn memory(sequence: i64, used: i64) -> Value {
    let metrics = json!({ "memory_process_bytes": used, "memory_limit_bytes": 100 });
    let at = |back: i64| sample(None, (sequence - 15 * back) * 1_000, metrics.clone());
    let report = ReportBuilder::new("one", sequence).with("/cluster/name", "one");
    report.with("/samples", (0..5).map(at).collect::<Vec<_>>()).build()
}

#[tokio::test]
async fn an_alert_is_sent_when_it_is_raised_changes_and_ends() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let rule = json!({ "name": "Memory", "condition": { "flags": ["MEMORY_PRESSURE"] }, "emails": ["ada@example.com"] });
    let create =
        "mutation($rule: AlertRuleInput!) { createAlertRule(input: $rule) { alertRule { identifier } } }";
    let made = ada.query(create, json!({ "rule": rule })).await["createAlertRule"].take();
    let identifier = made["alertRule"]["identifier"].clone();
    bob.query(create, json!({ "rule": rule })).await;
    let mut watching = Watching::begin(&app, &ada, "alerts", ALERTS, json!({ "account": "ada" })).await;
    let mut other = Watching::begin(&app, &bob, "alerts", ALERTS, json!({ "account": "bob" })).await;
    let alert = |since: &str, until: Option<&str>, value: f64| {
        let time = |time: &str| format!("2026-11-20T{time}+00:00");
        json!([{ "ruleName": "Memory", "since": time(since), "until": until.map(time), "isActive": until.is_none(),
            "value": value, "flag": "MEMORY_PRESSURE", "cluster": { "name": "one" } }])
    };

    ada.reported(&memory(100, 90)).await;
    app.run_jobs().await;
    let raised = watching.next().await;
    assert_eq!((&raised["gap"], &raised["alerts"]), (&json!(false), &alert("12:00:00", None, 0.9)));
    app.run_jobs().await;
    assert!(watching.is_quiet().await, "nothing has changed");
    ada.reported(&memory(200, 95)).await;
    app.run_jobs().await;
    assert_eq!(watching.next().await["alerts"], alert("12:00:00", None, 0.95));
    app.set_clock("2026-11-20T12:05:00Z");
    ada.reported(&memory(400, 10)).await;
    app.run_jobs().await;
    let ended = alert("12:00:00", Some("12:05:00"), 0.95);
    assert_eq!(watching.next().await["alerts"], ended);
    // Who was away receives the last state of what changed since.
    let resume = json!({ "account": "ada", "after": raised["cursor"] });
    let mut again = Watching::begin(&app, &ada, "alerts", ALERTS, resume).await;
    assert_eq!(again.next().await["alerts"], ended);
    assert!(again.is_quiet().await);

    // A rule that is disabled ends its alerts.
    app.set_clock("2026-11-20T13:10:00Z");
    ada.reported(&memory(500, 97)).await;
    app.run_jobs().await;
    assert_eq!(watching.next().await["alerts"], alert("13:10:00", None, 0.97));
    let update = "mutation($rule: String!, $input: AlertRuleInput!) {
        updateAlertRule(identifier: $rule, input: $input) { userErrors { code } } }";
    let mut disabled = rule.clone();
    disabled["isEnabled"] = json!(false);
    let answer = ada.query(update, json!({ "rule": identifier, "input": disabled })).await;
    assert_eq!(answer["updateAlertRule"]["userErrors"], json!([]));
    assert_eq!(watching.next().await["alerts"], alert("13:10:00", Some("13:10:00"), 0.97));
    assert!(watching.is_quiet().await && other.is_quiet().await, "it was another account's");
    app.stop().await;
}
