//! Two accounts on one server: neither can detect the other.
//!
//! The tables below are written by hand. A root field, node type or route without a case fails the test,
//! and so does a case for a removed one. `every_field.rs` queries all fields below the root.

mod every_field;
pub(crate) mod life;
mod node;
mod subscription;

use std::collections::BTreeSet;

use entity::api_token::Scope;
use harness::{
    Member, ReportBuilder, SigningKey, TestApp, claims, code, code_frame, computation, error, event,
    log_line, profile, sample, shared_jwt_config, span, task_group, usage, uuid, worker,
};
use reqwest::Method;
use serde_json::{Value, json};

use self::{
    every_field::Walk,
    life::Life,
    node::{node_ids, of_nothing},
};
use crate::sdl::{Sdl, path};

/// Root fields that have a case in one of the tests
/// `root_fields_answer_as_if_the_other_account_did_not_exist`,
/// `what_people_write_and_decide_is_their_accounts_own`, `alert_rules_and_mutes_are_the_accounts_own`,
/// `what_the_coiled_client_requests_of_another_account_is_not_there`,
/// `a_user_learns_of_their_own_accounts_alone`, `whoever_watches_another_account_learns_nothing`, and, in
/// `session.rs`, `a_user_lists_and_ends_single_sessions`, and in `saved_view.rs`,
/// `views_of_another_account_do_not_exist`.
const ROOT_FIELDS: [&str; 51] = [
    "Mutation.acceptInvitation",
    "Mutation.addMember",
    "Mutation.createAlertRule",
    "Mutation.createSavedView",
    "Mutation.createToken",
    "Mutation.deleteAccount",
    "Mutation.deleteAlertRule",
    "Mutation.deleteCluster",
    "Mutation.deleteCostRate",
    "Mutation.deleteData",
    "Mutation.deletePerformanceReport",
    "Mutation.deleteSavedView",
    "Mutation.deleteUser",
    "Mutation.endSession",
    "Mutation.forgetToken",
    "Mutation.handOverCluster",
    "Mutation.inviteMember",
    "Mutation.keepAlive",
    "Mutation.muteFlag",
    "Mutation.removeMember",
    "Mutation.restoreToken",
    "Mutation.revokeInvitation",
    "Mutation.revokeToken",
    "Mutation.setClusterNotes",
    "Mutation.setClusterTags",
    "Mutation.setCostRate",
    "Mutation.setDataPolicy",
    "Mutation.setDefaultAccount",
    "Mutation.setDesiredState",
    "Mutation.setErrorGroupStatus",
    "Mutation.setIdlePolicy",
    "Mutation.setMemberRole",
    "Mutation.setTokenPolicy",
    "Mutation.testAlertRule",
    "Mutation.unmuteFlag",
    "Mutation.updateAlertRule",
    "Mutation.updateSavedView",
    "Query.account",
    "Query.cluster",
    "Query.node",
    "Query.numbered",
    "Query.rateLimit",
    "Query.viewer",
    "Subscription.alerts",
    "Subscription.clusters",
    "Subscription.computations",
    "Subscription.errorGroups",
    "Subscription.errors",
    "Subscription.events",
    "Subscription.logs",
    "Subscription.snapshots",
];

/// Types with a global identifier. `node_ids` has the first ones, and `every_field.rs` all of them.
const NODES: [&str; 22] = [
    "Account",
    "Cluster",
    "Computation",
    "ErrorGroup",
    "ErrorOccurrence",
    "Span",
    "TaskGroup",
    "User",
    "Worker",
    "Alert",
    "AlertDelivery",
    "AlertRule",
    "ApiToken",
    "AuditEntry",
    "Client",
    "Event",
    "Flag",
    "Invitation",
    "LogLine",
    "Member",
    "PerformanceReport",
    "SavedView",
];

/// The routes, and the mechanism that isolates accounts on each.
const ROUTES: [(&str, Guard); 78] = [
    ("DELETE /api/v1/api-tokens/{identifier}/revoke", Guard::Case),
    ("DELETE /api/v2/clusters/account/{workspace}/id/{id}", Guard::Case),
    ("GET /api/v1/api-tokens/", Guard::Case),
    ("GET /api/v1/clusters/{id}/profile", Guard::Case),
    ("GET /api/v1/export/alert-deliveries", Guard::Case),
    ("GET /api/v1/export/alert-rules", Guard::Case),
    ("GET /api/v1/export/alerts", Guard::Case),
    ("GET /api/v1/export/audit-log", Guard::Case),
    ("GET /api/v1/export/clusters", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/clients", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/computations", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/errors", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/events", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/fine-metrics", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/flags", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/functions", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/logs", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/spans", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/task-groups", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/thread-history", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/usage-hours", Guard::Case),
    ("GET /api/v1/export/clusters/{id}/workers", Guard::Case),
    ("GET /api/v1/export/computations", Guard::Case),
    ("GET /api/v1/export/computations/{id}/errors", Guard::Case),
    ("GET /api/v1/export/computations/{id}/task-groups", Guard::Case),
    ("GET /api/v1/export/error-groups", Guard::Case),
    ("GET /api/v1/export/error-groups/{id}/occurrences", Guard::Case),
    ("GET /api/v1/export/errors", Guard::Case),
    ("GET /api/v1/export/events", Guard::Case),
    ("GET /api/v1/export/flags", Guard::Case),
    ("GET /api/v1/export/functions", Guard::Case),
    ("GET /api/v1/export/invitations", Guard::Case),
    ("GET /api/v1/export/logs", Guard::Case),
    ("GET /api/v1/export/members", Guard::Case),
    ("GET /api/v1/export/performance-reports", Guard::Case),
    ("GET /api/v1/export/saved-views", Guard::Case),
    ("GET /api/v1/export/scheduler-tokens", Guard::Case),
    ("GET /api/v1/export/spans", Guard::Case),
    ("GET /api/v1/export/spans/{id}/children", Guard::Case),
    ("GET /api/v1/export/spans/{id}/task-groups", Guard::Case),
    ("GET /api/v1/export/tokens", Guard::Case),
    ("GET /api/v1/export/usage-table", Guard::Case),
    ("GET /api/v1/health", Guard::NoAccountData),
    ("GET /api/v1/session", Guard::Case),
    ("GET /api/v1/users/me/", Guard::Case),
    ("GET /api/v1/{workspace}/billing-events/", Guard::NoAccountData),
    ("GET /api/v1/{workspace}/performance_reports/all/", Guard::Case),
    ("GET /api/v1/{workspace}/usage/cores/", Guard::Case),
    ("GET /api/v2/analytics/preload", Guard::NoAccountData),
    ("GET /api/v2/analytics/{workspace}/cluster/{id}/computations/list", Guard::Case),
    ("GET /api/v2/analytics/{workspace}/clusters/list", Guard::Case),
    ("GET /api/v2/analytics/{workspace}/exceptions/list", Guard::Case),
    ("GET /api/v2/analytics/{workspace}/{id}/computations/list", Guard::Case),
    ("GET /api/v2/analytics/{workspace}/{id}/events/list", Guard::Case),
    ("GET /api/v2/clusters/account/{workspace}/", Guard::Case),
    ("GET /api/v2/clusters/account/{workspace}/id/{id}", Guard::Case),
    ("GET /api/v2/clusters/account/{workspace}/id/{id}/better-logs", Guard::Case),
    ("GET /api/v2/clusters/account/{workspace}/id/{id}/log-info", Guard::Case),
    ("GET /api/v2/clusters/account/{workspace}/id/{id}/ssh-key", Guard::Case),
    ("GET /api/v2/clusters/account/{workspace}/name/{name}", Guard::Case),
    ("GET /api/v2/instances/{workspace}/instance/{name}/logs", Guard::Case),
    ("GET /api/v2/interactions/user-interactions/hello", Guard::NoAccountData),
    ("GET /api/v2/metrics/account/{workspace}/cluster/{id}/value", Guard::Case),
    ("GET /api/v2/user/account/{workspace}/prometheus-read-credentials", Guard::NoAccountData),
    ("GET /api/v2/user/account/{workspace}/usage", Guard::Case),
    ("GET /api/v2/user/me", Guard::Case),
    ("GET /api/v2/user/me/memberships", Guard::Case),
    ("GET /healthz", Guard::NoAccountData),
    ("GET /metrics", Guard::NoAccountData),
    ("GET /readyz", Guard::NoAccountData),
    ("POST /api/v1/api-tokens-no-user/", Guard::NoAccountData),
    ("POST /api/v1/api-tokens/", Guard::Case),
    ("POST /api/v1/reports", Guard::Case),
    ("POST /api/v1/scheduler-tokens", Guard::Case),
    ("POST /api/v1/{workspace}/performance_reports/{kind}/", Guard::Case),
    ("POST /api/v2/analytics/{workspace}/cluster/{id}/span/{identifier}", Guard::Case),
    ("POST /api/v2/analytics/{workspace}/{id}/desired-state", Guard::Case),
    ("POST /api/v2/interactions/interaction", Guard::NoAccountData),
];

/// Paths without an API description, such as pages.
const UNDESCRIBED: [(&str, Guard); 15] = [
    ("/", Guard::NoAccountData),
    ("/activate-token", Guard::NoAccountData),
    ("/api/v1/openapi.json", Guard::NoAccountData),
    ("/assets/{*name}", Guard::NoAccountData),
    ("/clusters/{id}", Guard::Case),
    ("/graphql", Guard::Case),
    ("/password", Guard::NoAccountData),
    ("/reports/{id}", Guard::Case),
    ("/reports/{id}/content", Guard::Case),
    ("/sign-in", Guard::NoAccountData),
    ("/sign-in/invitation", Guard::NoAccountData),
    ("/sign-in/link", Guard::NoAccountData),
    ("/sign-in/oidc", Guard::NoAccountData),
    ("/sign-out", Guard::NoAccountData),
    ("CALLBACK", Guard::NoAccountData),
];

enum Guard {
    /// The same response for everybody.
    NoAccountData,
    /// A test below: for reports `a_report_reaches_its_own_account_only`, for the `coiled` client's
    /// routes `the_coiled_client_sees_its_own_account_only` and
    /// `what_the_coiled_client_requests_of_another_account_is_not_there`, for tokens and sessions
    /// `tokens_and_sessions_are_of_their_own_account_and_user`, for the client's spans
    /// `spans_with_code_metrics_and_profiles_are_the_accounts_own`, and for exports
    /// `exports_contain_their_own_account_only`. Those of pages are in `coiled_view.rs` and
    /// `performance_report.rs`, and that of profiles is in `profile_file.rs`.
    Case,
}

/// The same report for every account: rows of one account must not collide with the other's.
fn report() -> Value {
    ReportBuilder::new("Scheduler-1", 1)
        .with("/cluster/name", "etl")
        .with("/computations", json!([computation(1, &[10, 11])]))
        .with("/task_groups", json!([task_group(10, "load", 4), task_group(11, "divide", 2)]))
        .with("/errors", json!([error(20, 11, 1)]))
        .with("/usage", json!([usage(1, 2)]))
        .with("/workers", json!([worker(30)]))
        .with("/workers/0/number", 1)
        .with("/clients", json!([{ "id": "Client-1", "connected_at": 1_795_172_400.0 }]))
        .with("/thread_history", json!([{ "at": 1_795_172_400.0, "threads": 4 }]))
        .with("/environments", json!([{ "id": uuid(40), "python": "3.12" }]))
        .with("/cluster/environment_id", uuid(40))
        .with(
            "/samples",
            json!([
                sample(None, 1, json!({ "cpu_cores": 1 })),
                sample(Some(30), 1, json!({ "cpu_cores": 1 }))
            ]),
        )
        .with("/spans", json!([span_with_code()]))
        .with("/code", json!([code("x = 1")]))
        .with(
            "/fine_metrics",
            json!([{ "span_id": uuid(30), "cells": [["execute", "load", "thread-cpu", "seconds", 2]] }]),
        )
        .with("/profiles", json!([profile(40, 1.0, 3, &json!([]), &json!([]))]))
        .build()
}

fn span_with_code() -> Value {
    let mut span = span(30, None, &["etl"], 1.0, Some(2.0));
    span["code"] = json!([[code_frame("x = 1", 1, 0)]]);
    span
}

#[tokio::test]
async fn every_root_field_node_and_route_has_a_case() {
    let sdl = Sdl::read();
    let of_root = |root| sdl.fields(root).map(move |field| path(root, field));
    let fields: BTreeSet<String> =
        ["Query", "Mutation", "Subscription"].into_iter().flat_map(of_root).collect();
    let nodes: BTreeSet<&str> =
        sdl.objects().map(|(of, _)| of).filter(|of| sdl.implements_node(of)).collect();
    assert_eq!(fields, ROOT_FIELDS.map(str::to_owned).into());
    assert_eq!(nodes, NODES.into());

    let openapi = serde_json::to_value(galvo::http::openapi()).unwrap();
    let routes: BTreeSet<String> = openapi["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        })
        .collect();
    assert_eq!(routes, ROUTES.iter().map(|(route, _)| (*route).to_owned()).collect());

    // A router does not list its paths, but its source does.
    let undescribed: BTreeSet<&str> = include_str!("../../api/src/http/server/router.rs")
        .split(".route(")
        .skip(1)
        .map(|rest| rest.split(',').next().unwrap().trim_matches('"'))
        .filter(|path| openapi["paths"].get(path).is_none())
        .collect();
    assert_eq!(undescribed, UNDESCRIBED.iter().map(|(path, _)| *path).collect());
}

#[tokio::test]
async fn exports_contain_their_own_account_only() {
    let app = TestApp::start_with(|serve| serve.jwt = Some(shared_jwt_config())).await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    Life::of(&app, &Walk::new(), &ada).await;
    let of_everything =
        "{ viewer { account { clusters { nodes { id number schedulerId computations { nodes { id } }
        errors { nodes { group { id } } } spans { nodes { id } } } } } } }";
    let of_everything = ada.query(of_everything, json!({})).await;
    let clusters = of_everything["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
    let cluster = clusters.iter().find(|cluster| cluster["schedulerId"] == "Scheduler-1").unwrap();
    let ids = [
        ("/clusters/", &cluster["id"]),
        ("/computations/", &cluster["computations"]["nodes"][0]["id"]),
        ("/error-groups/", &cluster["errors"]["nodes"][0]["group"]["id"]),
        ("/spans/", &cluster["spans"]["nodes"][0]["id"]),
    ];
    let answer = async |member: &Member, path: &str, format: &str| {
        let days = path.ends_with("/usage-table").then_some([("from", "2026-01-01"), ("to", "2027-01-01")]);
        let request = member.request(Method::GET, path).query(&[("format", format)]);
        let response = request.query(&days.into_iter().flatten().collect::<Vec<_>>()).send().await.unwrap();
        let mut headers = response.headers().clone();
        // These headers differ between any two responses.
        for name in ["date", "x-request-id"] {
            headers.remove(name);
        }
        (response.status(), headers, response.bytes().await.unwrap())
    };
    let exports = ROUTES.iter().filter_map(|(route, _)| route.strip_prefix("GET /api/v1/export"));
    for (export, format) in exports.flat_map(|export| [(export, "csv"), (export, "arrow")]) {
        let path = format!("/api/v1/export{export}");
        if let Some((before, _)) = path.split_once("{id}") {
            let (of, id) = ids.iter().find(|(of, _)| before.ends_with(of)).unwrap();
            let with = |id: &Value| path.replace("{id}", id.as_str().unwrap());
            let own = answer(&ada, &with(id), format).await;
            assert_eq!(own.0, 200, "{path}: {:?}", own.2);
            let theirs = answer(&bob, &with(id), format).await;
            let nobodys = answer(&bob, &with(&of_nothing(id)), format).await;
            assert_eq!(theirs, nobodys, "{path}");
            assert_eq!(theirs.0, 404, "{path}");
            if *of == "/clusters/" {
                let number = json!(cluster["number"].to_string());
                assert_eq!(answer(&bob, &with(&number), format).await, nobodys, "{path}");
            }
        } else if format == "csv" {
            let own = answer(&ada, &path, format).await;
            assert_eq!(own.0, 200, "{path}: {:?}", own.2);
            let lines = |body: &[u8]| String::from_utf8_lossy(body).lines().count();
            assert!(lines(&own.2) > 1, "{path} shows the owner nothing");
            let theirs = answer(&bob, &path, format).await;
            assert_eq!(theirs.0, 200, "{path}");
            if ["/audit-log", "/members", "/tokens", "/scheduler-tokens"]
                .iter()
                .any(|list| path.ends_with(list))
            {
                // Both exports have rows, and no row is in both.
                let rows =
                    |body: &[u8]| String::from_utf8_lossy(body).lines().skip(1).map(str::to_owned).collect();
                let (own, theirs): (BTreeSet<_>, BTreeSet<_>) = (rows(&own.2), rows(&theirs.2));
                assert_eq!(own.intersection(&theirs).collect::<Vec<_>>(), Vec::<&String>::new());
            } else {
                assert_eq!(lines(&theirs.2), 1, "{path}");
            }
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn root_fields_answer_as_if_the_other_account_did_not_exist() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let number = ada.reported(&report()).await;

    let viewer = bob.query(
        "{ viewer { user { name } account { slug clusters { totalCount nodes { id } } } } }",
        json!({}),
    );
    let expected = json!({ "user": { "name": "bob" }, "account": { "slug": "bob", "clusters": { "totalCount": 0, "nodes": [] } } });
    assert_eq!(viewer.await["viewer"], expected);

    let account = "query($slug: String!) { account(slug: $slug) { id } }";
    assert_ne!(ada.query(account, json!({ "slug": "ada" })).await, json!({ "account": null }));
    let same = |theirs: Value, nobodys: Value, what: &str| {
        assert_eq!(theirs.to_string(), nobodys.to_string(), "{what}");
    };
    same(
        bob.ask(account, json!({ "slug": "ada" })).await,
        bob.ask(account, json!({ "slug": "nobody" })).await,
        "account(slug)",
    );

    let of = |number: i64| json!({ "id": number.to_string() });
    let cluster = "query($id: ID!) { cluster(id: $id) { id name } }";
    assert_eq!(ada.query(cluster, of(number)).await["cluster"]["name"], "etl");
    same(bob.ask(cluster, of(number)).await, bob.ask(cluster, of(number + 1)).await, "cluster(number)");
    let numbered = "query($id: ID!) { numbered(cluster: $id, type: WORKER, number: 1) { id } }";
    assert_ne!(ada.query(numbered, of(number)).await, json!({ "numbered": null }));
    same(bob.ask(numbered, of(number)).await, bob.ask(numbered, of(number + 1)).await, "numbered");

    let node = "query($id: ID!) { node(id: $id) { __typename id } cluster(id: $id) { id } }";
    let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { id } } }";
    for (noun, id) in node_ids(&ada).await {
        let found = ada.query(node, json!({ "id": id })).await;
        assert_eq!(found["node"]["__typename"], noun);
        let nobodys = of_nothing(&id);
        same(bob.ask(node, json!({ "id": id })).await, bob.ask(node, json!({ "id": nobodys })).await, noun);
        assert_eq!(
            bob.query(node, json!({ "id": id })).await,
            json!({ "node": null, "cluster": null }),
            "{noun}"
        );
        let refused = bob.ask(stop, json!({ "id": id })).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_FOUND", "{noun}: {refused}");
        same(refused, bob.ask(stop, json!({ "id": nobodys })).await, noun);
    }
    // Rates have no identifiers: each account has its own.
    let rate = r#"mutation { setCostRate(input: { validFrom: "2026-11-20" }) { account { slug costRates { validFrom } } } }"#;
    let set = ada.query(rate, json!({})).await["setCostRate"]["account"].take();
    assert_eq!(set, json!({ "slug": "ada", "costRates": [{ "validFrom": "2026-11-20" }] }));
    let delete = r#"mutation { deleteCostRate(validFrom: "2026-11-20") { account { slug costRates { validFrom } } userErrors { field } } }"#;
    let refused = bob.query(delete, json!({})).await["deleteCostRate"].take();
    let expected =
        json!({ "account": { "slug": "bob", "costRates": [] }, "userErrors": [{ "field": "validFrom" }] });
    assert_eq!(refused, expected);
    let rates = "{ viewer { account { costRates { validFrom } usage { threadSeconds } functions { prefix }
        usageTable(from: \"2026-11-01\", to: \"2026-12-01\") { day }
        cells: usageTable(from: \"2026-11-20\", to: \"2026-11-21\", by: [USER, HOUR, FUNCTION]) { day }
        statistics { clusters users } clusters { totalCount aggregates { clusters tasks } } } } }";
    app.fold_usage().await;
    let of_ada = ada.query(rates, json!({})).await["viewer"]["account"].take();
    assert_eq!(of_ada["costRates"], json!([{ "validFrom": "2026-11-20" }]));
    assert_eq!(of_ada["usage"]["threadSeconds"], 7_200.0);
    let nothing = json!({ "costRates": [], "usage": { "threadSeconds": 0.0 }, "functions": [], "usageTable": [], "cells": [],
            "statistics": { "clusters": 0, "users": 0 },
            "clusters": { "totalCount": 0, "aggregates": { "clusters": 0, "tasks": 0 } } });
    assert_eq!(bob.query(rates, json!({})).await["viewer"]["account"], nothing);
    assert_eq!(of_ada["statistics"], json!({ "clusters": 1, "users": 1 }));
    assert_eq!(of_ada["clusters"]["totalCount"], 1);
    let users = "query($user: ID!) { viewer { account { clusters(filter: { users: [$user] }) { nodes { name } } } } }";
    let ada_id = node_ids(&ada).await[0].1.clone();
    assert_eq!(
        ada.query(users, json!({ "user": ada_id })).await["viewer"]["account"]["clusters"]["nodes"],
        json!([{ "name": "etl" }])
    );
    same(
        bob.ask(users, json!({ "user": ada_id })).await,
        bob.ask(users, json!({ "user": of_nothing(&ada_id) })).await,
        "clusters(filter: { users })",
    );

    let state = "query($id: ID!) { cluster(id: $id) { desiredState } }";
    assert_eq!(
        ada.query(state, json!({ "id": number.to_string() })).await["cluster"]["desiredState"],
        "RUNNING"
    );

    let refuse =
        "mutation { setDataPolicy(input: { class: LOGS, accepted: false }) { userErrors { code } } }";
    ada.query(refuse, json!({})).await;
    let policies = "{ viewer { account { dataPolicies { class accepted } errorGroups { totalCount } } } }";
    let of = async |member: &Member| member.query(policies, json!({})).await["viewer"]["account"].clone();
    let (of_ada, of_bob) = (of(&ada).await, of(&bob).await);
    assert_eq!(
        (&of_ada["dataPolicies"][7]["accepted"], &of_ada["errorGroups"]["totalCount"]),
        (&json!(false), &json!(1))
    );
    assert_eq!(
        (&of_bob["dataPolicies"][7]["accepted"], &of_bob["errorGroups"]["totalCount"]),
        (&json!(true), &json!(0))
    );
    app.stop().await;
}

#[tokio::test]
async fn a_report_reaches_its_own_account_only() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    // The same scheduler, computation, task groups and errors in both accounts.
    ada.reported(&report()).await;
    let (theirs, their_answer) = ada.report(&report()).await;
    let mut later = report();
    later["sequence"] = json!(9);
    later["base"] = json!(1);
    later["cluster"]["name"] = json!("mine");
    later["task_groups"][0]["tasks"] = json!(99);
    later["errors"][0]["message"] = json!("other");
    let (_, answer) = bob.report(&later).await;
    assert_eq!(answer["resend"], true, "bob's first report cannot have a predecessor: {answer}");
    let all = "{ viewer { account { clusters { totalCount nodes { name user { name }
        taskGroups { nodes { tasks } } errors { nodes { message } } } } } } }";
    let of = |name: &str, user: &str, tasks: i64, message: &str| {
        json!({ "totalCount": 1, "nodes": [{ "name": name, "user": { "name": user },
            "taskGroups": { "nodes": [{ "tasks": tasks }, { "tasks": 2 }] },
            "errors": { "nodes": [{ "message": message }] } }] })
    };
    let clusters =
        async |member: &Member| member.query(all, json!({})).await["viewer"]["account"]["clusters"].clone();
    assert_eq!(clusters(&ada).await, of("etl", "ada", 4, "ZeroDivisionError('division by zero')"));
    assert_eq!(clusters(&bob).await, of("mine", "bob", 99, "other"));
    assert_eq!(ada.report(&report()).await, (theirs, their_answer));
    app.stop().await;
}

#[tokio::test]
async fn the_coiled_client_sees_its_own_account_only() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let reader = bob.with_token(bob.token(&[Scope::Read], None).await);
    for (member, slug, is_admin) in [(&ada, "ada", true), (&bob, "bob", true), (&reader, "bob", false)] {
        let get = async |path: &str| -> Value {
            member.request(Method::GET, path).send().await.unwrap().json().await.unwrap()
        };
        let account = json!({ "slug": slug, "name": slug });
        assert_eq!(get("/api/v2/user/me").await, json!({ "username": slug, "default_account": account }));
        let membership = json!({ "account": account, "is_admin": is_admin, "is_default_account": true });
        assert_eq!(get("/api/v2/user/me/memberships").await, json!([membership]));
    }
    for path in ["/api/v2/user/me", "/api/v2/user/me/memberships"] {
        assert_eq!(app.anonymous(Method::GET, path).send().await.unwrap().status(), 401, "{path}");
    }
    app.stop().await;
}

/// The `coiled` client's routes for an account: the method, the path with the placeholders `<SLUG>` and
/// `<ID>`, and the cluster it names, if any.
const ASKED_BY_COILED: [(&str, &str, &str); 16] = [
    ("GET", "/api/v1/<SLUG>/performance_reports/all/", ""),
    ("GET", "/api/v1/<SLUG>/usage/cores/", ""),
    ("GET", "/api/v2/analytics/<SLUG>/clusters/list", ""),
    ("GET", "/api/v2/analytics/<SLUG>/exceptions/list", ""),
    ("GET", "/api/v2/clusters/account/<SLUG>/", ""),
    ("GET", "/api/v2/analytics/<SLUG>/exceptions/list?cluster=<ID>", "of a cluster"),
    ("GET", "/api/v2/analytics/<SLUG>/cluster/<ID>/computations/list", "of a cluster"),
    ("GET", "/api/v2/analytics/<SLUG>/<ID>/computations/list", "of a cluster"),
    ("GET", "/api/v2/analytics/<SLUG>/<ID>/events/list", "of a cluster"),
    ("GET", "/api/v2/clusters/account/<SLUG>/id/<ID>", "of a cluster"),
    ("GET", "/api/v2/clusters/account/<SLUG>/id/<ID>/better-logs", "of a cluster"),
    ("GET", "/api/v2/clusters/account/<SLUG>/id/<ID>/log-info", "of a cluster"),
    ("GET", "/api/v2/clusters/account/<SLUG>/id/<ID>/ssh-key", "of a cluster"),
    ("GET", "/api/v2/instances/<SLUG>/instance/<ID>-scheduler/logs", "of a cluster"),
    (
        "GET",
        "/api/v2/metrics/account/<SLUG>/cluster/<ID>/value?query=cpu_cores&over_time=max",
        "of a cluster",
    ),
    ("DELETE", "/api/v2/clusters/account/<SLUG>/id/<ID>", "of a cluster"),
];

#[tokio::test]
async fn what_the_coiled_client_requests_of_another_account_is_not_there() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mut report = report();
    report["events"] = json!([event(1, "mine", 1)]);
    report["logs"] = json!([log_line(1, "line")]);
    let number = ada.reported(&report).await;
    let kept = ada.stored_report("public", "report.html", "<p>secret</p>").await;
    let answer = async |member: &Member, method: &str, path: &str| {
        let response = member.request(method.parse().unwrap(), path).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let post = async |member: &Member, path: &str| {
        let body = json!({ "desired_status": "stopped" });
        let response = member.request(Method::POST, path).json(&body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    for (method, path, of_cluster) in ASKED_BY_COILED {
        let path = |slug: &str, id: i64| path.replace("<SLUG>", slug).replace("<ID>", &id.to_string());
        let theirs = answer(&bob, method, &path("ada", number)).await;
        assert_eq!(theirs.0, 403, "{}", path("ada", number));
        assert_eq!(theirs, answer(&bob, method, &path("nobody", number)).await);
        let own = answer(&bob, method, &path("bob", number)).await;
        if of_cluster.is_empty() {
            let nothing = ["[]", r#"{"cores":0,"workers":0,"clusters":0}"#];
            assert!(own.0 == 200 && nothing.contains(&own.1.as_str()), "{}: {}", path("bob", number), own.1);
        } else {
            assert_eq!(own.0, 404, "{}", path("bob", number));
            assert_eq!(own, answer(&bob, method, &path("bob", number + 1)).await);
        }
        // The owner's request is last, because one of these stops the cluster.
        let owners = answer(&ada, method, &path("ada", number)).await;
        assert!(owners.0 == 200 && owners.1 != "[]", "{}: {}", path("ada", number), owners.1);
    }
    let named = |slug: &str, name: &str| format!("/api/v2/clusters/account/{slug}/name/{name}");
    assert_eq!(answer(&ada, "GET", &named("ada", "etl")).await.0, 200);
    let theirs = answer(&bob, "GET", &named("bob", "etl")).await;
    assert_eq!((theirs.0, &theirs), (404, &answer(&bob, "GET", &named("bob", "nothing")).await));
    let close = |slug: &str, id: i64| format!("/api/v2/analytics/{slug}/{id}/desired-state");
    for slug in ["ada", "bob"] {
        let theirs = post(&bob, &close(slug, number)).await;
        assert!([403, 404].contains(&theirs.0), "{slug}: {}", theirs.1);
        assert_eq!(theirs, post(&bob, &close(slug, number + 1)).await, "{slug}");
    }
    // Reports are shown and removed only where they were stored, and stored only by members.
    let content = |id: &str| format!("/reports/{id}/content");
    assert_eq!(answer(&ada, "GET", &content(&kept)).await, (200, "<p>secret</p>".to_owned()));
    let page = |id: &str| format!("/reports/{id}");
    for show in [&page as &dyn Fn(&str) -> String, &content] {
        assert_eq!(answer(&ada, "GET", &show(&kept)).await.0, 200);
        let theirs = answer(&bob, "GET", &show(&kept)).await;
        assert_eq!((theirs.0, &theirs), (404, &answer(&bob, "GET", &show(&uuid(1))).await));
    }
    let delete = "mutation($id: String!) { deletePerformanceReport(identifier: $id) { account { slug } } }";
    let theirs = bob.ask(delete, json!({ "id": kept })).await;
    assert_eq!(theirs["errors"][0]["extensions"]["code"], "NOT_FOUND");
    assert_eq!(theirs, bob.ask(delete, json!({ "id": uuid(1) })).await);
    let reports = "{ viewer { account { performanceReports { totalCount nodes { identifier } } } } }";
    for (member, count) in [(&ada, 1), (&bob, 0)] {
        let found = member.query(reports, json!({})).await["viewer"]["account"]["performanceReports"].take();
        assert_eq!((&found["totalCount"], found["nodes"].as_array().unwrap().len()), (&json!(count), count));
    }
    let path = |slug: &str| format!("/api/v1/{slug}/performance_reports/public/");
    let theirs = answer(&bob, "POST", &path("ada")).await;
    assert_eq!((theirs.0, &theirs), (403, &answer(&bob, "POST", &path("nobody")).await));
    app.stop().await;
}

#[tokio::test]
async fn tokens_and_sessions_are_of_their_own_account_and_user() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let rest = async |member: &Member, method: Method, path: &str| {
        let answer = member.request(method, path).json(&json!({})).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (_, of_bob) = rest(&bob, Method::GET, "/api/v1/api-tokens/").await;
    let (made, _) = rest(&ada, Method::POST, "/api/v1/api-tokens/").await;
    let (_, still) = rest(&bob, Method::GET, "/api/v1/api-tokens/").await;
    assert_eq!((made, &still), (201, &of_bob));
    let revoke = |identifier: &str| format!("/api/v1/api-tokens/{identifier}/revoke");
    let adas = ada.secret().split_once('-').unwrap().0;
    let theirs = rest(&bob, Method::DELETE, &revoke(adas)).await;
    assert_eq!((theirs.0, &theirs), (404, &rest(&bob, Method::DELETE, &revoke("0000000000000000")).await));
    let usage = |account: &str| format!("/api/v2/user/account/{account}/usage");
    let theirs = rest(&bob, Method::GET, &usage("ada")).await;
    assert_eq!((theirs.0, &theirs), (404, &rest(&bob, Method::GET, &usage("nobody")).await));
    assert_eq!(rest(&bob, Method::GET, &usage("bob")).await.0, 200);
    // A scheduler's token belongs to the account of its exchange: neither the header nor a report opens
    // another.
    let exchange = async |member: &Member, account: &str| {
        let request =
            member.request(Method::POST, "/api/v1/scheduler-tokens").header("Galvo-Account", account);
        let answer = request.json(&json!({})).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let theirs = exchange(&bob, "ada").await;
    assert_eq!((theirs.0, &theirs), (403, &exchange(&bob, "nobody").await));
    let (made, own) = exchange(&bob, "bob").await;
    assert_eq!((made, &own["account"]), (201, &json!("bob")));
    let scheduler = bob.with_token(own["token"].as_str().unwrap().to_owned());
    let into_ada = ReportBuilder::new("Scheduler-1", 1).with("/account", "ada").build();
    assert_eq!(scheduler.report(&into_ada).await.1["code"], "ACCOUNT_MISMATCH");
    let lists = "{ viewer { account { schedulerTokens { totalCount nodes { identifier } } } } }";
    for (member, nodes) in [(&ada, json!([])), (&bob, json!([{ "identifier": own["identifier"] }]))] {
        let token_list = member.query(lists, json!({})).await["viewer"]["account"]["schedulerTokens"].take();
        assert_eq!(token_list["nodes"], nodes);
    }
    // A session is bound to its user, and a token activated in it never belongs to another's account.
    let (of_ada, of_bob) = (app.browser(&ada).await, app.browser(&bob).await);
    for (browser, name) in [(&of_ada, "ada"), (&of_bob, "bob")] {
        let session: Value =
            browser.request(Method::GET, "/api/v1/session").send().await.unwrap().json().await.unwrap();
        assert_eq!(session["username"], name);
    }
    assert_ne!(of_ada.csrf().await, of_bob.csrf().await);
    let request = app.anonymous(Method::POST, "/api/v1/api-tokens-no-user/");
    let response = request.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
    let identifier = response.json::<Value>().await.unwrap()["identifier"].as_str().unwrap().to_owned();
    let page = of_bob.open(&format!("/activate-token?id={identifier}")).await;
    assert!(page.html.contains("<option value=\"bob\">") && !page.html.contains("ada"), "{}", page.html);
    let csrf = of_bob.csrf().await;
    let give = async |account: &str| {
        let fields =
            [("csrf", csrf.as_str()), ("id", &identifier), ("account", account), ("decision", "approve")];
        let page = of_bob.submit("/activate-token", &fields).await;
        (page.status.as_u16(), page.html)
    };
    let theirs = give("ada").await;
    assert_eq!((theirs.0, &theirs), (403, &give("nobody").await));
    assert_eq!(give("bob").await.0, 200);
    app.stop().await;
}

#[tokio::test]
async fn spans_with_code_metrics_and_profiles_are_the_accounts_own() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let number = ada.reported(&report()).await;
    // The same scheduler, span, hash and profile in the other account, with other values and without the
    // text.
    let mut other = report();
    other["spans"][0]["path"] = json!(["mine"]);
    other["code"] = json!([]);
    other["fine_metrics"][0]["cells"][0][4] = json!(7);
    other["profiles"][0]["samples"] = json!(5);
    let bobs = bob.reported(&other).await;
    let span = uuid(30);
    for (slug, status) in [("ada", 404), ("bob", 404)] {
        let path = format!("/api/v2/analytics/{slug}/cluster/{number}/span/{span}");
        let response =
            bob.request(Method::POST, &path).json(&json!({ "start": 1, "stop": 2 })).send().await.unwrap();
        assert_eq!(response.status(), status, "{slug}");
        let nobodys = format!("/api/v2/analytics/{slug}/cluster/{}/span/{span}", number + bobs);
        let of_nobody =
            bob.request(Method::POST, &nobodys).json(&json!({ "start": 1, "stop": 2 })).send().await;
        assert_eq!(response.text().await.unwrap(), of_nobody.unwrap().text().await.unwrap());
    }
    let path = format!("/api/v2/analytics/bob/cluster/{bobs}/span/{span}");
    let response =
        bob.request(Method::POST, &path).json(&json!({ "start": 1, "stop": 2 })).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let query =
        "{ viewer { account { clusters { nodes { fineMetrics(unit: \"seconds\") { total } profile { samples }
        spans { nodes { tag clientStartedAt code { snippet { text } } } } } } } } }";
    let seen = async |member: &Member| {
        member.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"].clone()
    };
    let of = |tag: &str, started: Value, text: Value, seconds: f64, samples: i64| {
        json!([{ "fineMetrics": { "total": seconds }, "profile": { "samples": samples }, "spans": { "nodes": [
            { "tag": tag, "clientStartedAt": started, "code": [[{ "snippet": { "text": text } }]] }] } }])
    };
    assert_eq!(seen(&ada).await, of("etl", Value::Null, json!("x = 1"), 2.0, 3));
    assert_eq!(seen(&bob).await, of("mine", json!("1970-01-01T00:00:01+00:00"), Value::Null, 7.0, 5));
    app.stop().await;
}

#[tokio::test]
async fn lists_of_an_account_hold_its_own_rows_only() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mut full = report();
    full["events"] = json!([event(1, "mine", "ada's")]);
    full["logs"] = json!([log_line(1, "ada's")]);
    ada.reported(&full).await;
    let query = "query($filter: ClusterFilter, $match: String) { viewer { account {
        computations(clusters: $filter) { totalCount nodes { id } }
        spans(clusters: $filter, roots: true, tags: { any: [\"etl\"] }) { totalCount nodes { id } }
        spanTags(clusters: $filter) { tag }
        errors(clusters: $filter, match: $match) { totalCount nodes { id } }
        errorGroups(types: [\"ZeroDivisionError\"]) { totalCount nodes { trend { occurrences } } }
        events(clusters: $filter) { totalCount nodes { data } }
        logs(clusters: $filter, match: $match) { totalCount nodes { message } } } } }";
    let get_lists = async |member: &Member, variables: Value| {
        member.query(query, variables).await["viewer"]["account"].as_object().unwrap().clone()
    };
    let length =
        |list: &Value| list["totalCount"].as_u64().unwrap_or(list.as_array().map_or(0, Vec::len) as u64);
    for variables in [
        json!({}),
        json!({ "filter": { "states": ["STARTING", "RUNNING"] } }),
        json!({ "filter": { "search": "etl" }, "match": "a" }),
    ] {
        let of_ada = get_lists(&ada, variables.clone()).await;
        assert_eq!(of_ada.len(), 7);
        assert!(of_ada.values().all(|list| length(list) == 1), "{variables}: {of_ada:?}");
        let of_bob = get_lists(&bob, variables.clone()).await;
        for (field, list) in &of_bob {
            let none = if list.is_array() { json!([]) } else { json!({ "totalCount": 0, "nodes": [] }) };
            assert_eq!(list, &none, "{field} {variables}");
        }
    }
    // The same identifiers at the same times in the other account are separate rows, and change nothing
    // here.
    let before = get_lists(&ada, json!({})).await;
    let mut other = full.clone();
    (other["events"][0]["data"], other["logs"][0]["message"]) = (json!("bob's"), json!("bob's"));
    bob.reported(&other).await;
    assert_eq!(get_lists(&ada, json!({})).await, before);
    let of_bob = get_lists(&bob, json!({})).await;
    assert!(of_bob.values().all(|list| length(list) == 1), "{of_bob:?}");
    assert_eq!(of_bob["events"]["nodes"], json!([{ "data": "bob's" }]));
    assert_eq!(of_bob["logs"]["nodes"], json!([{ "message": "bob's" }]));
    for field in ["computations", "spans", "errors"] {
        assert_ne!(of_bob[field]["nodes"], before[field]["nodes"], "{field}");
    }
    // A cursor of one account is a position in time, and reveals nothing to another.
    let page = "query($after: String) { viewer { account { logs(first: 1, after: $after) { nodes { message }
        edges { cursor } } } } }";
    let cursor = ada.query(page, json!({})).await["viewer"]["account"]["logs"]["edges"][0]["cursor"].clone();
    for message in bob.query(page, json!({ "after": cursor })).await["viewer"]["account"]["logs"]["nodes"]
        .as_array()
        .unwrap()
    {
        assert_eq!(message["message"], "bob's");
    }
    // A user of another account matches nobody.
    let user = ada.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take();
    for field in ["computations", "spans", "errors", "events", "logs"] {
        let query = format!(
            "query($user: ID!) {{ viewer {{ account {{ {field}(clusters: {{ users: [$user] }}) {{ totalCount }} }} }} }}"
        );
        assert_eq!(
            ada.query(&query, json!({ "user": user })).await["viewer"]["account"][field]["totalCount"],
            1,
            "{field}"
        );
        let theirs = bob.ask(&query, json!({ "user": user })).await;
        let nobodys = bob.ask(&query, json!({ "user": of_nothing(&user) })).await;
        assert_eq!(theirs.to_string(), nobodys.to_string(), "{field}");
        assert_eq!(theirs["errors"][0]["extensions"]["code"], "NOT_FOUND", "{field}");
    }
    app.stop().await;
}

#[tokio::test]
async fn answers_rest_on_the_accounts_own_data() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    // The same identifiers in both accounts, with more data in one of them.
    let mut more = report();
    let mut dead = worker(30);
    (dead["ended_at"], dead["end"]) = (json!(1_795_172_406), json!("lost"));
    more["workers"] = json!([dead]);
    more["computations"] = json!([computation(1, &[10]), computation(2, &[10])]);
    let mut failed = error(21, 11, 1);
    failed["origin"] = json!("dask");
    more["errors"] = json!([failed, error(20, 11, 1)]);
    more["usage"] = json!([usage(1, 2), usage(2, 2)]);
    more["clients"] =
        json!([{ "id": "Client-1", "connected_at": 1 }, { "id": "Client-2", "connected_at": 1 }]);
    more["fine_metrics"][0]["cells"][0][4] = json!(7);
    more["samples"] = json!([sample(
        None,
        1,
        json!({ "gil_contention": 1, "event_loop_seconds": 1, "tasks_processing": 5 })
    )]);
    bob.reported(&more).await;
    ada.reported(&report()).await;
    let rate = r#"mutation { setCostRate(input: { validFrom: "2026-11-20", perThreadHour: 1 }) { userErrors { field } } }"#;
    bob.query(rate, json!({})).await;
    let fields = "{ value evidence { node { id ... on Worker { name } } } }";
    let query = format!(
        "{{ viewer {{ account {{ clusters {{ nodes {{ answers {{ finished {fields} exceptions {fields} cost {fields}
        topTime {fields} whyRunning {fields} gil {fields} network {fields} spill {fields} eventLoop {fields} cpu {fields} }} }} }} }} }} }}"
    );
    let seen = async |member: &Member| {
        member.query(&query, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0]["answers"].take()
    };
    let (of_ada, of_bob) = (seen(&ada).await, seen(&bob).await);
    let values = |answers: &Value| {
        let questions = ["finished", "exceptions", "cost", "topTime", "gil", "whyRunning"];
        json!(questions.map(|question| answers[question]["value"].clone()))
    };
    assert_eq!(values(&of_ada), json!([1.0, 1.0, 0.1, 3_000.5, null, null]));
    // One second of the scheduler's life was sampled.
    assert_eq!(values(&of_bob), json!([2.0, 2.0, 4.0, 6_001.0, 1.0, 5.0]));
    let nodes = |answers: &Value, question: &str| -> Vec<Value> {
        answers[question]["evidence"].as_array().unwrap().iter().map(|row| row["node"].clone()).collect()
    };
    let node = "query($id: ID!) { node(id: $id) { id } }";
    for question in ["finished", "exceptions"] {
        assert!(!nodes(&of_ada, question).is_empty());
        for found in nodes(&of_bob, question) {
            assert!(!nodes(&of_ada, question).contains(&found), "{found}");
            let theirs = ada.query(node, json!({ "id": found["id"] })).await;
            assert_eq!(theirs, json!({ "node": null }), "{question}");
        }
    }
    assert_eq!(nodes(&of_bob, "exceptions").last().unwrap()["name"], "worker-30");
    app.stop().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "there is much to decide")]
async fn what_people_write_and_decide_is_their_accounts_own() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    ada.reported(&report()).await;
    // No object of the other account can be changed by any identifier: it seems not to exist.
    for (noun, id) in node_ids(&ada).await {
        for change in [
            "setClusterTags(cluster: $id, tags: [{ key: \"mine\" }]) { cluster { id } }",
            "setClusterTags(cluster: $id, tags: [{ key: \"\" }]) { cluster { id } }",
            "setClusterNotes(cluster: $id, text: \"mine\") { cluster { id } }",
            "keepAlive(cluster: $id, seconds: 60) { cluster { id } }",
            "keepAlive(cluster: $id, seconds: -1) { cluster { id } }",
            "setErrorGroupStatus(group: $id, status: IGNORED) { errorGroup { id } }",
            "setMemberRole(user: $id, role: VIEWER) { member { role } }",
            "removeMember(user: $id) { member { role } }",
            "createToken(input: { user: $id, scopes: [READ] }) { secret }",
            "handOverCluster(input: { clusterId: $id, userId: $id }) { cluster { id } }",
            "deleteCluster(input: { clusterId: $id }) { account { slug } }",
            "deleteData(input: { class: LOGS, clusterId: $id }) { rows }",
            "deleteUser(input: { userId: $id }) { clusters }",
        ] {
            let change = format!("mutation($id: ID!) {{ {change} }}");
            let refused = bob.ask(&change, json!({ "id": id })).await;
            assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_FOUND", "{noun} {change}: {refused}");
            assert!(refused["data"].is_null(), "{noun} {change}: {refused}");
            let nobodys = bob.ask(&change, json!({ "id": of_nothing(&id) })).await;
            assert_eq!(refused.to_string(), nobodys.to_string(), "{noun} {change}");
        }
    }
    let identifier = ada.secret().split('-').next().unwrap();
    for change in [
        "revokeToken(identifier: $identifier) { token { revokedAt } }",
        "forgetToken(input: { tokenId: $identifier, since: \"2026-11-20T00:00:00Z\" }) { isConfirmed }",
        "restoreToken(input: { tokenId: $identifier }) { clusters }",
    ] {
        let change = format!("mutation($identifier: String!) {{ {change} }}");
        let refused = bob.ask(&change, json!({ "identifier": identifier })).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_FOUND", "{refused}");
        let nobodys = bob.ask(&change, json!({ "identifier": identifier.replace(|_| true, "x") })).await;
        assert_eq!(refused.to_string(), nobodys.to_string());
    }

    let delete =
        "mutation { deleteAccount(input: { confirmSlug: \"ada\" }) { slug userErrors { field code } } }";
    let refused = bob.query(delete, json!({})).await["deleteAccount"].take();
    assert_eq!(
        refused,
        json!({ "slug": null, "userErrors": [{ "field": "confirmSlug", "code": "INVALID" }] })
    );

    // One account's annotations are invisible to the other, although both have a similar cluster, user
    // and error.
    bob.reported(&report()).await;
    let ids = node_ids(&ada).await;
    let id = |noun: &str| ids.iter().find(|(name, _)| *name == noun).unwrap().1.clone();
    let changes = "mutation($cluster: ID!, $group: ID!) {
        setClusterTags(cluster: $cluster, tags: [{ key: \"team\" }]) { userErrors { message } }
        setClusterNotes(cluster: $cluster, text: \"a note\") { userErrors { message } }
        keepAlive(cluster: $cluster, seconds: 60) { userErrors { message } }
        setDesiredState(cluster: $cluster, state: STOPPED, reason: \"of ada\") { cluster { state } }
        setErrorGroupStatus(group: $group, status: IGNORED) { errorGroup { status } }
        setIdlePolicy(input: { mode: STOP, timeoutSeconds: 600 }) { userErrors { message } }
        addMember(input: { name: \"carl\", role: VIEWER }) { userErrors { message } }
        createToken(input: { scopes: [READ], label: \"of ada\" }) { userErrors { message } } }";
    ada.query(changes, json!({ "cluster": id("Cluster"), "group": id("ErrorGroup") })).await;
    let rate = r#"mutation { setCostRate(input: { validFrom: "2026-11-20", perThreadHour: 100 }) { userErrors { field } } }"#;
    ada.query(rate, json!({})).await;
    let query = r#"{ viewer { account {
        clusters { nodes { tags { key } notes { text } keptAliveUntil stopRequest { reason } } }
        idleBacktest(timeoutSeconds: 60) { clusters }
        tagged: clusters(filter: { tags: { any: [{ key: "team" }] } }) { totalCount }
        dear: clusters(filter: { minCost: { amount: 200 } }, orderBy: { field: COST }) { totalCount nodes { name } }
        usageTable(from: "2026-11-20", to: "2026-11-21", by: [TAG, VERSION], package: "python") {
            tag { key } version usage { threadSeconds } }
        errorGroups { nodes { status } }
        idlePolicy { mode changedBy { name } }
        members { totalCount nodes { user { name } } }
        tokens { totalCount nodes { label } } } } }"#;
    let seen = async |member: &Member| member.query(query, json!({})).await["viewer"]["account"].take();
    let of = |name: &str,
              tag: Option<&str>,
              note: Value,
              dear: &[&str],
              status: &str,
              idle: Value,
              others: &[&str]| {
        let tags: Vec<Value> = tag.iter().map(|key| json!({ "key": key })).collect();
        let members: Vec<Value> =
            [&[name], others].concat().iter().map(|name| json!({ "user": { "name": name } })).collect();
        let names: Vec<Value> = dear.iter().map(|name| json!({ "name": name })).collect();
        json!({
            "clusters": { "nodes": [{ "tags": tags, "notes": note,
                "keptAliveUntil": tag.map(|_| "2026-11-20T12:01:00+00:00"),
                "stopRequest": tag.map(|_| json!({ "reason": "of ada" })) }] },
            "idleBacktest": { "clusters": 1 },
            "tagged": { "totalCount": tags.len() },
            "dear": { "totalCount": names.len(), "nodes": names },
            "usageTable": [{ "tag": tags.first(), "version": "3.12", "usage": { "threadSeconds": 7_200.0 } }],
            "errorGroups": { "nodes": [{ "status": status }] },
            "idlePolicy": idle,
            "members": { "totalCount": members.len(), "nodes": members },
        })
    };
    let (mut of_ada, mut of_bob) = (seen(&ada).await, seen(&bob).await);
    let labels = |seen: &mut Value| seen.as_object_mut().unwrap().remove("tokens").unwrap();
    let expected = json!({ "totalCount": 2, "nodes": [{ "label": "of ada" }, { "label": "" }] });
    assert_eq!(labels(&mut of_ada), expected);
    assert_eq!(labels(&mut of_bob), json!({ "totalCount": 1, "nodes": [{ "label": "" }] }));
    let idle = json!({ "mode": "STOP", "changedBy": { "name": "ada" } });
    let note = json!({ "text": "a note" });
    let mut expected = of("ada", Some("team"), note, &["etl"], "IGNORED", idle, &["carl"]);
    // Members who joined at the same time are ordered by their identifiers, which are random.
    for seen in [&mut of_ada, &mut expected] {
        seen["members"]["nodes"].as_array_mut().unwrap().sort_by_key(ToString::to_string);
    }
    assert_eq!(of_ada, expected);
    let idle = json!({ "mode": "OBSERVE", "changedBy": null });
    assert_eq!(of_bob, of("bob", None, Value::Null, &[], "OPEN", idle, &[]));
    app.stop().await;
}

#[tokio::test]
async fn a_user_learns_of_their_own_accounts_alone() {
    let app = TestApp::start_with(|serve| serve.jwt = Some(shared_jwt_config())).await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    app.link("bob", "1").await;
    let jwt = |account: Option<&str>| app.bearer(SigningKey::Shared.sign(None, &claims("1")), account);
    let same = |theirs: Value, nobodys: Value, what: &str| {
        assert_eq!(theirs.to_string(), nobodys.to_string(), "{what}");
    };
    // Invitations are not visible to other accounts, and an invitation is identified by its secret only.
    let invite =
        "mutation($name: String) { inviteMember(input: { role: VIEWER, label: \"of ada\", name: $name }) {
        secret invitation { identifier } userErrors { code } } }";
    let made = ada.query(invite, json!({ "name": "eve" })).await["inviteMember"].take();
    let (secret, identifier) =
        (made["secret"].as_str().unwrap(), made["invitation"]["identifier"].as_str().unwrap());
    let list = "{ viewer { account { invitations { totalCount nodes { label } } } } }";
    let listed = async |member: &Member| {
        member.query(list, json!({})).await["viewer"]["account"]["invitations"].take()
    };
    assert_eq!(listed(&ada).await, json!({ "totalCount": 1, "nodes": [{ "label": "of ada" }] }));
    for member in [&bob, &jwt(None)] {
        assert_eq!(listed(member).await, json!({ "totalCount": 0, "nodes": [] }));
    }
    let revoke = "mutation($identifier: String!) { revokeInvitation(identifier: $identifier) { invitation { isOpen } } }";
    let nobodys = identifier.replace(|_| true, "x");
    same(
        bob.ask(revoke, json!({ "identifier": identifier })).await,
        bob.ask(revoke, json!({ "identifier": nobodys })).await,
        "revokeInvitation",
    );
    let accept = "mutation($secret: String!) { acceptInvitation(secret: $secret) {
        membership { slug } userErrors { field code message } } }";
    let wrong = format!("{identifier}-{}", "x".repeat(43));
    let nobodys = format!("{nobodys}-{}", "x".repeat(43));
    let refused = jwt(None).ask(accept, json!({ "secret": nobodys })).await;
    same(jwt(None).ask(accept, json!({ "secret": wrong })).await, refused.clone(), "acceptInvitation");
    same(jwt(None).ask(accept, json!({ "secret": secret })).await, refused, "acceptInvitation of eve's");
    assert_eq!(
        ada.query("{ viewer { account { invitations { nodes { isOpen } } } } }", json!({})).await["viewer"]["account"]
            ["invitations"]["nodes"],
        json!([{ "isOpen": true }])
    );

    // Accounts of others seem not to exist, in whatever way they are requested.
    let choose = "mutation($slug: String!) { setDefaultAccount(slug: $slug) { memberships { slug } } }";
    same(
        jwt(None).ask(choose, json!({ "slug": "ada" })).await,
        jwt(None).ask(choose, json!({ "slug": "eve" })).await,
        "setDefaultAccount",
    );
    let memberships = "{ viewer { memberships { slug } } }";
    let response = jwt(None).query(memberships, json!({})).await;
    assert_eq!(response, json!({ "viewer": { "memberships": [{ "slug": "bob" }] } }));
    for member in [jwt(Some("ada")), app.bearer(bob.secret().to_owned(), Some("ada"))] {
        let nobodys = app.bearer(member.secret().to_owned(), Some("nobody"));
        for (method, path) in [
            (Method::GET, "/graphql?query={__typename}"),
            (Method::POST, "/graphql"),
            (Method::GET, "/api/v2/user/me"),
            (Method::GET, "/api/v2/user/me/memberships"),
            (Method::POST, "/api/v1/reports"),
        ] {
            let answer = async |member: &Member| {
                let answer = member.request(method.clone(), path).json(&report()).send().await.unwrap();
                (answer.status().as_u16(), answer.text().await.unwrap())
            };
            let theirs = answer(&member).await;
            assert_eq!(theirs.0, 403, "{path}");
            assert_eq!(theirs, answer(&nobodys).await, "{path}");
        }
    }
    app.stop().await;
}

#[tokio::test]
async fn analyses_see_the_accounts_own_work_alone() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    // The same scheduler, span, profile and samples in both accounts, with other numbers.
    let closed = |name: &str, seconds: i64| {
        let mut report = report();
        report["scheduler_id"] = json!(name);
        report["final"] = json!(true);
        report["cluster"]["totals"]["tasks"] = json!(6);
        report["fine_metrics"][0]["cells"][0][4] = json!(seconds);
        report["profiles"][0]["samples"] = json!(seconds);
        report["samples"][0]["metrics"]["workers"] = json!(seconds);
        report
    };
    let number = ada.reported(&closed("Scheduler-1", 2)).await;
    ada.reported(&closed("Scheduler-0", 2)).await;
    let bobs = bob.reported(&closed("Scheduler-1", 3)).await;
    let all = "{ viewer { account { fineMetrics { clusters rows { value key { part } } } profile { windows samples }
        series(metrics: [WORKERS]) { points { value clusters } }
        compare(base: {}, head: {}) { base { clusters total } rows { head } environment { headSize { workerThreads } }
            profile { headSamples } }
        clusters { nodes { answers { whatChanged { confidence } slower { confidence } scaling { confidence } } } } } } }";
    let of = async |member: &Member| member.query(all, json!({})).await["viewer"]["account"].take();
    let (of_ada, of_bob) = (of(&ada).await, of(&bob).await);
    // Four threads for one second, less than the measured seconds.
    let tasks = |account: &Value| account["fineMetrics"]["rows"][0]["value"].clone();
    assert_eq!((tasks(&of_ada), tasks(&of_bob)), (json!(4.0), json!(3.0)));
    let clusters = |account: &Value| account["compare"]["base"]["clusters"].clone();
    assert_eq!((clusters(&of_ada), clusters(&of_bob)), (json!(2), json!(1)));
    assert_eq!(of_bob["profile"], json!({ "windows": 1, "samples": 3 }));
    assert_eq!(of_bob["series"][0]["points"], json!([{ "value": 3.0, "clusters": 1 }]));
    assert_eq!(of_bob["compare"]["profile"], json!({ "headSamples": 3 }));
    // Of ada's two runs of the same work, the later one has a baseline; bob's only run has none.
    let answers = of_bob["clusters"]["nodes"][0]["answers"].clone();
    for question in ["whatChanged", "slower", "scaling"] {
        assert_eq!(answers[question]["confidence"], "NOT_COLLECTED", "{question}");
    }
    assert_ne!(of_ada["clusters"]["nodes"][0]["answers"]["whatChanged"]["confidence"], "NOT_COLLECTED");

    // One field at a time: with several, the reported error depends on which was first.
    let scoped = [
        "fineMetrics(scope: { clusterIds: [$id] }) { total }",
        "profile(scope: { clusterIds: [$id] }) { samples }",
        "series(scope: { clusterIds: [$id] }, metrics: [CPU]) { unit }",
        "compare(base: {}, head: { clusterIds: [$id] }) { delta }",
    ]
    .map(|field| format!("query($id: ID!) {{ viewer {{ account {{ {field} }} }} }}"));
    let against = format!(
        "query($id: ID!) {{ cluster(id: \"{bobs}\") {{ answers {{ whatChanged(baseline: $id) {{ value }} }} }} }}"
    );
    let ids = node_ids(&ada).await;
    let id = ids.iter().find(|(noun, _)| *noun == "Cluster").unwrap().1.clone();
    for query in &scoped {
        assert!(ada.ask(query, json!({ "id": id })).await.get("errors").is_none(), "{query}");
    }
    for query in scoped.iter().chain([&against]) {
        for (theirs, nobodys) in
            [(id.clone(), of_nothing(&id)), (json!(number.to_string()), json!((number + 7).to_string()))]
        {
            let refused = bob.ask(query, json!({ "id": theirs })).await;
            assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_FOUND", "{refused}");
            assert_eq!(refused.to_string(), bob.ask(query, json!({ "id": nobodys })).await.to_string());
        }
    }
    let user = "query($user: ID!) { viewer { account { fineMetrics(scope: { clusters: { users: [$user] } }) { total } } } }";
    let refused = bob.ask(user, json!({ "user": ids[0].1 })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_FOUND");
    assert_eq!(
        refused.to_string(),
        bob.ask(user, json!({ "user": of_nothing(&ids[0].1) })).await.to_string()
    );
    app.stop().await;
}

#[tokio::test]
async fn alert_rules_and_mutes_are_the_accounts_own() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    // The same cluster in both accounts. One of them has an alert rule and a mute.
    let idle = ReportBuilder::new("Scheduler-1", 1).with("/cluster/idle_since", 1_795_000_000.0).build();
    let change = "mutation {
        createAlertRule(input: { name: \"of ada\", condition: { flags: [IDLE] }, emails: [\"ada@example.com\"] }) {
            alertRule { identifier } userErrors { message } }
        muteFlag(input: { kind: SPILLING }) { userErrors { message } } }";
    let made = ada.query(change, json!({})).await["createAlertRule"]["alertRule"]["identifier"].take();
    for member in [&ada, &bob] {
        member.reported(&idle).await;
    }
    app.run_jobs().await;
    let query =
        "{ viewer { account { flagMutes { kind } flags { totalCount nodes { kind cluster { id } isMuted } }
        clusters(filter: { flags: [IDLE] }) { totalCount nodes { id flags { totalCount } } }
        alerts { totalCount nodes { ruleName cluster { id } } } alertRules { totalCount nodes { name } }
        alertDeliveries { totalCount nodes { target state } } } } }";
    let seen = async |member: &Member| member.query(query, json!({})).await["viewer"]["account"].take();
    let (of_ada, of_bob) = (seen(&ada).await, seen(&bob).await);
    let id = |account: &Value| account["clusters"]["nodes"][0]["id"].clone();
    assert_ne!(id(&of_ada), id(&of_bob));
    let none = json!({ "totalCount": 0, "nodes": [] });
    let one = |node: Value| json!({ "totalCount": 1, "nodes": [node] });
    let of = |id: &Value, mutes: Value, alerts: Value, rules: Value, deliveries: Value| {
        json!({ "flagMutes": mutes, "alerts": alerts, "alertRules": rules, "alertDeliveries": deliveries,
            "flags": one(json!({ "kind": "IDLE", "cluster": { "id": id }, "isMuted": false })),
            "clusters": one(json!({ "id": id, "flags": { "totalCount": 1 } })) })
    };
    assert_eq!(of_bob, of(&id(&of_bob), json!([]), none.clone(), none.clone(), none));
    let expected = of(
        &id(&of_ada),
        json!([{ "kind": "SPILLING" }]),
        one(json!({ "ruleName": "of ada", "cluster": { "id": id(&of_ada) } })),
        one(json!({ "name": "of ada" })),
        one(json!({ "target": "ada@example.com", "state": "FAILED" })),
    );
    assert_eq!(of_ada, expected);
    // A rule of another account seems not to exist, and its mutes have no effect here.
    let nobodys = uuid(7);
    for change in [
        "deleteAlertRule(identifier: $rule) { account { id } }",
        "testAlertRule(identifier: $rule) { deliveries { state } }",
        "updateAlertRule(identifier: $rule, input: { name: \"x\", condition: { flags: [IDLE] } }) { secret }",
    ] {
        let change = format!("mutation($rule: String!) {{ {change} }}");
        let refused = bob.ask(&change, json!({ "rule": made })).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_FOUND", "{change}: {refused}");
        assert_eq!(
            refused.to_string(),
            bob.ask(&change, json!({ "rule": nobodys })).await.to_string(),
            "{change}"
        );
    }
    let listed =
        "query($rule: String) { viewer { account { alertDeliveries(rule: $rule) { totalCount } } } }";
    let theirs = bob.query(listed, json!({ "rule": made })).await;
    assert_eq!(theirs, bob.query(listed, json!({ "rule": nobodys })).await);
    let unmute = "mutation { unmuteFlag(input: { kind: SPILLING }) { userErrors { message } } }";
    let refused = bob.query(unmute, json!({})).await;
    assert_eq!(refused["unmuteFlag"]["userErrors"], json!([{ "message": "there is no such mute" }]));
    assert_eq!(seen(&ada).await, of_ada);
    // Users of other accounts are not found.
    let user = ada.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take();
    let create = "mutation($user: ID!) { createAlertRule(input: { name: \"x\", users: [$user],
        condition: { flags: [IDLE] }, emails: [\"a@b.de\"] }) { secret } }";
    let refused = bob.ask(create, json!({ "user": user })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "NOT_FOUND");
    assert_eq!(refused.to_string(), bob.ask(create, json!({ "user": of_nothing(&user) })).await.to_string());
    app.stop().await;
}

#[tokio::test]
async fn without_a_token_nothing_is_returned() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&report()).await;
    for query in [
        "{ viewer { account { slug } } }",
        "{ __schema { types { name } } }",
        "{ account(slug: \"ada\") { id } }",
    ] {
        let response =
            app.anonymous(Method::POST, "/graphql").json(&json!({ "query": query })).send().await.unwrap();
        assert_eq!(response.status(), 401, "{query}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["errors"][0]["extensions"]["code"], "UNAUTHENTICATED", "{query}: {body}");
        assert_eq!(body.get("data"), None, "{query}: {body}");
    }
    let refused = app.anonymous(Method::POST, "/api/v1/reports").json(&report()).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    app.stop().await;
}
