//! Metering: what clients store counts towards the quotas of their account, or is bounded otherwise.

use std::collections::BTreeSet;

use galvo::domain::quota::Limits;
use harness::{Member, ReportBuilder, TestApp, log_line, uuid};
use reqwest::{Method, StatusCode};
use sea_orm::{ConnectionTrait, Statement};
use serde_json::{Value, json};

use crate::sdl::Sdl;

const REPORT: &str = "POST /api/v1/reports";
const PERFORMANCE_REPORT: &str = "POST /api/v1/{workspace}/performance_reports/{kind}/";
const CLIENT_SPAN: &str = "POST /api/v2/analytics/{workspace}/cluster/{id}/span/{identifier}";

/// Routes whose data counts by its size. `galvo import` and the plugin's spool send reports.
const METERED: [&str; 3] = [REPORT, PERFORMANCE_REPORT, CLIENT_SPAN];

/// Other routes and mutations that change something, and the bound of what they store. Each of them may
/// also add an entry of bounded size to the audit log, at the rate of points of its token. Pages store
/// sessions and passwords, which belong to no account.
const BOUNDED: &[(&str, &str)] = &[
    ("DELETE /api/v1/api-tokens/{identifier}/revoke", "a mark on a token"),
    ("DELETE /api/v2/clusters/account/{workspace}/id/{id}", "one desired state of a cluster"),
    ("POST /api/v1/api-tokens-no-user/", "1,000 requests at a time, for ten minutes"),
    ("POST /api/v1/api-tokens/", "1,000 tokens of an account that are valid or less than a day old"),
    ("POST /api/v1/scheduler-tokens", "10,000 tokens of a user that are valid or ended within a day"),
    ("POST /api/v2/analytics/{workspace}/{id}/desired-state", "one desired state of a cluster"),
    ("POST /api/v2/interactions/interaction", "nothing is stored"),
    ("acceptInvitation", "10,000 members of an account"),
    ("addMember", "10,000 members of an account"),
    ("createAlertRule", "50 rules of an account"),
    ("createSavedView", "100 private views of a user, and 100 shared ones of an account"),
    ("createToken", "1,000 tokens of an account that are valid or less than a day old"),
    ("deleteAccount", "it deletes"),
    ("deleteAlertRule", "it deletes"),
    ("deleteCluster", "a mark on a cluster"),
    ("deleteCostRate", "it deletes"),
    ("deleteData", "it deletes"),
    ("deletePerformanceReport", "it deletes"),
    ("deleteSavedView", "it deletes"),
    ("deleteUser", "it deletes"),
    ("endSession", "it deletes"),
    ("forgetToken", "a mark on each cluster"),
    ("handOverCluster", "one owner of a cluster"),
    ("inviteMember", "1,000 open invitations of an account"),
    ("keepAlive", "one time of a cluster"),
    ("muteFlag", "100 muted flags of an account"),
    ("removeMember", "one row for each former member"),
    ("restoreToken", "it removes marks"),
    ("revokeInvitation", "a mark on an invitation"),
    ("revokeToken", "a mark on a token"),
    ("setClusterNotes", "one text of 10,000 characters of a cluster"),
    ("setClusterTags", "50 tags of a cluster"),
    ("setCostRate", "1,000 rates of an account"),
    ("setDataPolicy", "one policy of a data class"),
    ("setDefaultAccount", "one account of a user"),
    ("setDesiredState", "one desired state of a cluster, with a reason of 200 characters"),
    ("setErrorGroupStatus", "one status of an error group"),
    ("setIdlePolicy", "one policy of an account"),
    ("setMemberRole", "one role of a member"),
    ("setTokenPolicy", "one policy of an account"),
    ("testAlertRule", "one message to each of twenty targets of ten rules in a minute, for 30 days"),
    ("unmuteFlag", "it deletes"),
    ("updateAlertRule", "50 rules of an account"),
    ("updateSavedView", "100 private views of a user, and 100 shared ones of an account"),
];

#[test]
fn everything_that_stores_is_metered_or_bounded() {
    let openapi = serde_json::to_value(galvo::http::openapi()).unwrap();
    let paths = openapi["paths"].as_object().unwrap().iter();
    let mut changing: BTreeSet<String> = paths
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .filter(|route| !route.starts_with("GET "))
        .collect();
    changing.extend(Sdl::read().fields("Mutation").map(|field| field.name.node.to_string()));
    let named = METERED.into_iter().chain(BOUNDED.iter().map(|(name, _)| *name));
    let named: Vec<String> = named.map(str::to_owned).collect();
    assert_eq!(named.iter().cloned().collect::<BTreeSet<_>>(), changing);
    assert_eq!(named.len(), changing.len(), "each one is named once");
}

async fn used(member: &Member) -> i64 {
    let query = "{ viewer { account { quota { dailyBytes { used } storedBytes { used } } } } }";
    let quota = member.query(query, json!({})).await["viewer"]["account"]["quota"].take();
    assert_eq!(quota["dailyBytes"], quota["storedBytes"], "nothing is from another day");
    quota["dailyBytes"]["used"].as_i64().unwrap()
}

/// The rows of everything that the metered routes store.
async fn rows(app: &TestApp) -> i64 {
    let database = app.database.connection().await;
    let tables = ["clusters", "log_lines", "performance_reports", "client_spans", "code_snippets"];
    let counts = tables.map(|table| format!("(SELECT COUNT(*) FROM {table})")).join(" + ");
    let statement = Statement::from_string(database.get_database_backend(), format!("SELECT {counts}"));
    database.query_one_raw(statement).await.unwrap().unwrap().try_get_by_index(0).unwrap()
}

/// The text of a client's span, and that of its code in it.
fn client_span(code: &str) -> (String, String) {
    let callstack = json!([{ "frame_index": 0, "code": code, "filename": "a.py", "relative_line": 0 }]);
    let text = json!({ "start": 1_795_172_400.0, "stop": 1_795_172_402.5, "callstack": callstack });
    (text.to_string(), callstack.to_string())
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap()
}

/// A member with an owned cluster.
struct Client<'a> {
    member: &'a Member,
    cluster: i64,
}

impl Client<'_> {
    async fn span(&self, number: u128, text: String) -> StatusCode {
        let path = format!(
            "/api/v2/analytics/{}/cluster/{}/span/{}",
            self.member.slug(),
            self.cluster,
            uuid(number)
        );
        let request = self.member.request(Method::POST, &path).header("content-type", "application/json");
        let response = request.body(text).send().await.unwrap();
        let status = response.status();
        if status == StatusCode::OK {
            assert_eq!(response.json::<Value>().await.unwrap(), json!({}));
        }
        status
    }

    /// Sends something new to a route. Returns the status, and the size of what was sent.
    async fn send(&self, route: &str, number: u32) -> (StatusCode, i64) {
        match route {
            REPORT => {
                let report = ReportBuilder::new("Scheduler-1", 1 + i64::from(number))
                    .with("/logs", json!([log_line(number, "hello")]))
                    .build();
                let sizes = report.as_object().unwrap().values().map(|value| length(&value.to_string()));
                (self.member.report(&report).await.0, sizes.sum())
            }
            PERFORMANCE_REPORT => {
                let html = "x".repeat(1_234);
                let name = format!("{number}.html");
                let request = self.member.performance_report("private", &name, &html);
                (request.send().await.unwrap().status(), 1_234)
            }
            CLIENT_SPAN => {
                let (text, _) = client_span(&format!("x = {number}"));
                let size = length(&text);
                (self.span(u128::from(number), text).await, size)
            }
            other => panic!("how does {other} store anything?"),
        }
    }
}

#[tokio::test]
async fn what_is_metered_counts_as_it_was_sent_and_not_beyond_the_quota() {
    for route in METERED {
        let limits = Limits { daily_bytes: 20_000, ..Limits::default() };
        let app = TestApp::start_with(|serve| serve.quotas = limits).await;
        let ada = app.account("ada").await;
        let cluster = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
        let client = Client { member: &ada, cluster };
        let (before, stored) = (used(&ada).await, rows(&app).await);
        let (status, size) = client.send(route, 1).await;
        assert!(status.is_success(), "{route}: {status}");
        assert_eq!(used(&ada).await, before + size, "{route}");
        assert!(rows(&app).await > stored, "{route}");

        // The quota is used up by something else.
        ada.stored_report("private", "large.html", &"x".repeat(20_000)).await;
        let (before, stored) = (used(&ada).await, rows(&app).await);
        for number in 2..5 {
            let (status, _) = client.send(route, number).await;
            // Programs of users call this route, and would fail with it.
            let expected =
                if route == CLIENT_SPAN { StatusCode::OK } else { StatusCode::INSUFFICIENT_STORAGE };
            assert_eq!(status, expected, "{route}");
        }
        assert_eq!((used(&ada).await, rows(&app).await), (before, stored), "{route}");

        app.set_clock("2026-11-21T00:00:00Z");
        assert!(client.send(route, 5).await.0.is_success(), "{route}");
        assert!(rows(&app).await > stored, "{route}");
        app.stop().await;
    }
}

#[tokio::test]
async fn of_a_clients_span_what_is_stored_counts() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let cluster = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let client = Client { member: &ada, cluster };
    let refuse = async |class: &str| {
        let mutation =
            "mutation($input: SetDataPolicyInput!) { setDataPolicy(input: $input) { userErrors { code } } }";
        ada.query(mutation, json!({ "input": { "class": class, "accepted": false } })).await;
    };
    let (whole, code) = client_span("x = 1");
    let before = used(&ada).await;
    assert_eq!(client.span(1, whole.clone()).await, StatusCode::OK);
    let with_code = before + length(&whole);
    assert_eq!(used(&ada).await, with_code);
    // The first one is kept, and the code of others is not stored with it.
    let stored = rows(&app).await;
    assert_eq!(client.span(1, client_span("x = 2").0).await, StatusCode::OK);
    assert_eq!((used(&ada).await, rows(&app).await), (with_code, stored));
    refuse("CODE").await;
    assert_eq!(client.span(2, whole.clone()).await, StatusCode::OK);
    let without_code = with_code + length(&whole) - length(&code);
    assert_eq!(used(&ada).await, without_code);
    refuse("TASKS").await;
    assert_eq!(client.span(3, whole).await, StatusCode::OK);
    assert_eq!(used(&ada).await, without_code);
    app.stop().await;
}
