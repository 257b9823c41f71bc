//! Scheduler tokens: their exchange, their rights, and their end.

use std::ops::Range;

use chrono::{DateTime, Utc};
use entity::{api_token::Scope, membership::Role};
use galvo::{domain::slug::Slug, store::TokenKind};
use harness::{Browser, Member, ReportBuilder, TestApp};
use reqwest::{Method, header};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, PaginatorTrait,
    QueryFilter,
};
use serde_json::{Value, json};

const TOKENS: &str = "{ viewer { account { tokenPolicy { refusesBroadTokens lastBroadUseAt }
    tokens { totalCount nodes { identifier broadUseAt } }
    schedulerTokens { totalCount nodes { identifier label scopes schedulerId expiresAt revokedAt user { name } } } } } }";
const REVOKE: &str =
    "mutation($identifier: String!) { revokeToken(identifier: $identifier) { userErrors { code } } }";
const POLICY: &str =
    "mutation($refuses: Boolean!) { setTokenPolicy(input: { refusesBroadTokens: $refuses }) {
    tokenPolicy { refusesBroadTokens lastBroadUseAt } } }";

/// Requests a scheduler token, and returns the status and body.
async fn request_token(member: &Member, arguments: Value) -> (u16, Value) {
    let answer =
        member.request(Method::POST, "/api/v1/scheduler-tokens").json(&arguments).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// A scheduler with an exchanged token, and the rest of the response.
async fn exchanged(member: &Member, arguments: Value) -> (Member, Value) {
    let (status, mut body) = request_token(member, arguments).await;
    assert_eq!(status, 201, "{body}");
    let token = body["token"].take().as_str().unwrap().to_owned();
    (member.with_token(token), body)
}

/// Sends a report, and returns the status and code of the response.
async fn report(scheduler: &Member, id: &str, sequence: i64) -> (u16, Value) {
    let (status, mut body) = scheduler.report(&ReportBuilder::new(id, sequence).build()).await;
    (status.as_u16(), body["code"].take())
}

fn public_half(member: &Member) -> String {
    member.secret().split_once('-').unwrap().0.to_owned()
}

const TAKEN: (u16, Value) = (200, Value::Null);

fn refused(code: &str) -> (u16, Value) {
    (403, json!(code))
}

#[tokio::test]
async fn a_schedulers_token_reports_for_one_scheduler_and_does_nothing_else() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (scheduler, body) = exchanged(&ada, json!({ "label": "gpu" })).await;
    let identifier = public_half(&scheduler);
    let expected = json!({ "token": null, "identifier": identifier, "expiresAt": "2026-11-23T12:00:00.000Z",
        "renewableUntil": null, "schedulerId": null, "account": "ada", "scopes": ["ingest"],
        "exchangedScopes": ["ingest", "read", "admin"] });
    assert_eq!(body, expected);
    // It is bound to the first scheduler that uses it.
    assert_eq!(report(&scheduler, "Scheduler-1", 1).await, TAKEN);
    assert_eq!(report(&scheduler, "Scheduler-2", 1).await, refused("TOKEN_BOUND"));
    assert_eq!(report(&scheduler, "Scheduler-1", 2).await, TAKEN);
    // A request that names its scheduler is bound at once.
    let (named, body) = exchanged(&ada, json!({ "schedulerId": "Scheduler-3" })).await;
    assert_eq!(body["schedulerId"], "Scheduler-3");
    assert_eq!(report(&named, "Scheduler-1", 3).await, refused("TOKEN_BOUND"));
    assert_eq!(report(&named, "Scheduler-3", 1).await, TAKEN);
    // It permits neither reading nor administration, and cannot be exchanged.
    for (method, path) in [
        (Method::GET, "/api/v2/user/me"),
        (Method::GET, "/api/v2/user/me/memberships"),
        (Method::GET, "/api/v1/api-tokens/"),
        (Method::POST, "/api/v1/api-tokens/"),
        (Method::POST, "/api/v1/scheduler-tokens"),
        (Method::GET, "/api/v1/export/clusters"),
        (Method::GET, "/api/v2/analytics/ada/clusters/list"),
        (Method::POST, "/api/v1/ada/performance_reports/public/"),
        (Method::POST, "/graphql"),
    ] {
        let request = scheduler.request(method, path).json(&json!({ "query": "{ viewer { scopes } }" }));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 403, "{path}");
        let body: Value = answer.json().await.unwrap();
        let code = if path == "/graphql" { &body["errors"][0]["extensions"]["code"] } else { &body["code"] };
        assert_eq!(code, "TOKEN_BOUND", "{path}: {body}");
    }
    let clusters = "{ viewer { account { clusters { totalCount } } } }";
    assert_eq!(ada.query(clusters, json!({})).await["viewer"]["account"]["clusters"]["totalCount"], 2);
    let mut account = ada.query(TOKENS, json!({})).await["viewer"]["account"].take();
    assert_eq!(account["tokens"]["totalCount"], 1, "it is no token that people hold");
    let list = account["schedulerTokens"].take();
    assert_eq!(list["totalCount"], 2);
    let expected = json!({ "identifier": identifier, "label": "gpu", "scopes": ["INGEST"], "schedulerId": "Scheduler-1",
        "expiresAt": "2026-11-23T12:00:00+00:00", "revokedAt": null, "user": { "name": "ada" } });
    assert_eq!(
        list["nodes"].as_array().unwrap().iter().filter(|node| **node == expected).count(),
        1,
        "{list}"
    );
    app.stop().await;
}

#[tokio::test]
async fn each_report_moves_the_end_and_never_beyond_that_of_what_was_exchanged() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (scheduler, _) = exchanged(&ada, json!({})).await;
    let identifier = public_half(&scheduler);
    let connection = app.database.connection().await;
    let end = async || {
        let of_it = entity::api_token::Column::Identifier.eq(&identifier);
        let row = entity::api_token::Entity::find().filter(of_it).one(&connection).await.unwrap().unwrap();
        row.expires_at.unwrap().0.to_rfc3339()
    };
    // One statement binds it, and another one extends its expiry once an hour.
    for (now, sequence, expected) in [
        ("2026-11-20T12:00:00Z", 1, "2026-11-23T12:00:00+00:00"),
        ("2026-11-20T12:59:59Z", 2, "2026-11-23T12:00:00+00:00"),
        ("2026-11-20T13:00:00Z", 3, "2026-11-23T13:00:00+00:00"),
        ("2026-11-23T12:59:59Z", 4, "2026-11-26T12:59:59+00:00"),
    ] {
        app.set_clock(now);
        assert_eq!(report(&scheduler, "Scheduler-1", sequence).await, TAKEN, "{now}");
        assert_eq!(end().await, expected, "{now}");
    }
    app.set_clock("2026-11-26T12:59:59Z");
    assert_eq!(report(&scheduler, "Scheduler-1", 5).await.0, 401);

    app.set_clock("2026-11-20T12:00:00Z");
    let latest: DateTime<Utc> = "2026-11-20T20:00:00Z".parse().unwrap();
    let short = ada.with_token(ada.token(&[Scope::Ingest], Some(latest)).await);
    let (scheduler, body) = exchanged(&short, json!({})).await;
    assert_eq!(body["expiresAt"], "2026-11-20T20:00:00.000Z");
    assert_eq!(body["renewableUntil"], "2026-11-20T20:00:00.000Z");
    assert_eq!(body["exchangedScopes"], json!(["ingest"]));
    app.set_clock("2026-11-20T19:59:59Z");
    assert_eq!(report(&scheduler, "Scheduler-9", 1).await, TAKEN);
    app.set_clock("2026-11-20T20:00:00Z");
    assert_eq!(report(&scheduler, "Scheduler-9", 2).await.0, 401);
    app.stop().await;
}

#[tokio::test]
async fn it_ends_with_the_token_or_the_member_it_was_exchanged_for() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    let other = ada.with_token(ada.token(&[Scope::Ingest, Scope::Read], None).await);
    let (of_ada, _) = exchanged(&ada, json!({})).await;
    let (of_other, _) = exchanged(&other, json!({})).await;
    let (of_bob, _) = exchanged(&bob, json!({})).await;
    let (by_command, _) = exchanged(&bob, json!({})).await;
    for (number, scheduler) in [&of_ada, &of_other, &of_bob, &by_command].into_iter().enumerate() {
        assert_eq!(report(scheduler, &format!("Scheduler-{number}"), 1).await, TAKEN);
    }
    let done = ada.query(REVOKE, json!({ "identifier": public_half(&other) })).await;
    assert_eq!(done["revokeToken"]["userErrors"], json!([]));
    assert_eq!(report(&of_other, "Scheduler-1", 2).await.0, 401);
    assert_eq!(request_token(&other, json!({})).await.0, 401);
    assert_eq!(report(&of_ada, "Scheduler-0", 2).await, TAKEN);
    // A single one, by its own public half.
    ada.query(REVOKE, json!({ "identifier": public_half(&of_ada) })).await;
    assert_eq!((report(&of_ada, "Scheduler-0", 3).await.0, ada.status().await.0), (401, 200));
    // The operator's command does the same.
    app.accounts().revoke_token(&public_half(&bob)).await.unwrap();
    assert_eq!(
        (report(&of_bob, "Scheduler-2", 2).await.0, report(&by_command, "Scheduler-3", 2).await.0),
        (401, 401)
    );
    // If a user loses the right to report, so do the user's schedulers; if the user is removed, their
    // tokens are deleted.
    let carl = app.member_with("carl", "ada", Role::Member).await;
    let (of_carl, _) = exchanged(&carl, json!({})).await;
    let role = "mutation($user: ID!) { setMemberRole(user: $user, role: VIEWER) { userErrors { code } } }";
    let remove = "mutation($user: ID!) { removeMember(user: $user) { userErrors { code } } }";
    let own = carl.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].take();
    ada.query(role, json!({ "user": own })).await;
    assert_eq!(report(&of_carl, "Scheduler-4", 1).await, refused("MISSING_SCOPE"));
    assert_eq!(request_token(&carl, json!({})).await.1["code"], "MISSING_SCOPE");
    ada.query(remove, json!({ "user": own })).await;
    assert_eq!(report(&of_carl, "Scheduler-4", 1).await.0, 401);
    app.stop().await;
}

#[tokio::test]
async fn sessions_are_exchanged_as_well_and_forms_of_other_pages_are_not() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let csrf = browser.csrf().await;
    let exchange_session = async |csrf: &str| {
        let request = browser.request(Method::POST, "/api/v1/scheduler-tokens").header("Galvo-CSRF", csrf);
        let answer = request.json(&json!({})).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    assert_eq!(exchange_session("x").await.0, 403);
    let (status, body) = exchange_session(&csrf).await;
    assert_eq!((status, &body["renewableUntil"]), (201, &Value::Null), "{body}");
    let scheduler = ada.with_token(body["token"].as_str().unwrap().to_owned());
    assert_eq!(report(&scheduler, "Scheduler-1", 1).await, TAKEN);
    app.stop().await;
}

#[tokio::test]
async fn what_cannot_be_exchanged_is_refused() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let reader = ada.with_token(ada.token(&[Scope::Read, Scope::Admin], None).await);
    let long = "x".repeat(201);
    for (member, arguments, status, wrong) in [
        (&reader, json!({}), 403, json!({ "code": "MISSING_SCOPE" })),
        (&ada, json!({ "label": long }), 400, json!({ "pointer": "/label" })),
        (&ada, json!({ "label": "a\u{7}b" }), 400, json!({ "pointer": "/label" })),
        (&ada, json!({ "schedulerId": "x".repeat(257) }), 400, json!({ "pointer": "/schedulerId" })),
        (&ada, json!({ "schedulerId": 7 }), 400, json!({ "pointer": "/schedulerId" })),
    ] {
        let (found, body) = request_token(member, arguments).await;
        assert_eq!(found, status, "{body}");
        for (key, value) in wrong.as_object().unwrap() {
            assert_eq!(&body[key], value, "{body}");
        }
    }
    assert_eq!(request_token(&ada.with_token("nobody-x".to_owned()), json!({})).await.0, 401);
    let response = ada.query(TOKENS, json!({})).await;
    assert_eq!(response["viewer"]["account"]["schedulerTokens"]["totalCount"], 0);
    app.stop().await;
}

/// The number of all scheduler tokens.
async fn count(app: &TestApp) -> u64 {
    let of_schedulers = entity::api_token::Column::IsOfScheduler.eq(true);
    let found = entity::api_token::Entity::find().filter(of_schedulers);
    found.count(&app.database.connection().await).await.unwrap()
}

/// Adds copies of a scheduler's token: `copy1` and so on, by their numbers.
async fn add_copies(app: &TestApp, scheduler: &Member, numbers: Range<u128>) {
    let connection = app.database.connection().await;
    let row = entity::api_token::Entity::find()
        .filter(entity::api_token::Column::Identifier.eq(public_half(scheduler)))
        .one(&connection)
        .await
        .unwrap()
        .unwrap();
    let rows = numbers.map(|number| {
        let mut copy = row.clone().into_active_model().reset_all();
        copy.id = Set(entity::ids::ApiTokenId(uuid::Uuid::from_u128(number)));
        copy.identifier = Set(format!("copy{number}"));
        copy
    });
    for rows in rows.collect::<Vec<_>>().chunks(200) {
        entity::api_token::Entity::insert_many(rows.to_vec())
            .exec_without_returning(&connection)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_user_has_a_bounded_number_and_one_token_leaves_half_to_others() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    let (scheduler, _) = exchanged(&ada, json!({})).await;
    add_copies(&app, &scheduler, 1..4_999).await;
    exchanged(&ada, json!({})).await;
    assert_eq!(count(&app).await, 5_000);
    let (status, body) = request_token(&ada, json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("CONFLICT")), "{body}");
    // Each of the user's other credentials gets half of what is left.
    let other = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let (of_other, _) = exchanged(&other, json!({})).await;
    add_copies(&app, &of_other, 5_000..7_498).await;
    exchanged(&other, json!({})).await;
    assert_eq!(count(&app).await, 7_500);
    assert_eq!(request_token(&other, json!({})).await.0, 409);
    let browser = app.browser(&ada).await;
    let csrf = browser.csrf().await;
    let request =
        browser.request(Method::POST, "/api/v1/scheduler-tokens").header("Galvo-CSRF", csrf.as_str());
    assert_eq!(request.json(&json!({})).send().await.unwrap().status(), 201);
    // Other users have their own limit, and users' own tokens do not count.
    exchanged(&bob, json!({})).await;
    ada.token(&[Scope::Read], None).await;
    assert_eq!(count(&app).await, 7_502);
    // Revoked tokens count until they are deleted.
    ada.query(REVOKE, json!({ "identifier": "copy7" })).await;
    assert_eq!(request_token(&ada, json!({})).await.0, 409);
    // They are deleted a day after their expiry: a user's own at the next exchange, all others by the
    // jobs.
    app.set_clock("2026-11-24T11:59:59Z");
    assert_eq!(request_token(&ada, json!({})).await.0, 409);
    app.set_clock("2026-11-24T12:00:00Z");
    exchanged(&bob, json!({})).await;
    app.run_jobs().await;
    assert_eq!(count(&app).await, 1);
    exchanged(&ada, json!({})).await;
    assert_eq!(count(&app).await, 2);
    app.stop().await;
}

#[tokio::test]
async fn tokens_of_short_lifetimes_count_for_a_day_after_their_end() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let short = json!({ "lifetimeSeconds": 1 });
    let (first, _) = exchanged(&ada, short.clone()).await;
    add_copies(&app, &first, 1..5_000).await;
    for now in ["2026-11-20T12:00:02Z", "2026-11-21T12:00:00Z"] {
        app.set_clock(now);
        assert_eq!(request_token(&ada, short.clone()).await.0, 409, "{now}");
        assert_eq!(count(&app).await, 5_000, "{now}");
    }
    app.set_clock("2026-11-21T12:00:01Z");
    exchanged(&ada, short).await;
    assert_eq!(count(&app).await, 1);
    app.stop().await;
}

#[tokio::test]
async fn an_exchange_costs_points_of_the_token() {
    let app = TestApp::start_with(|serve| serve.query_cost_per_minute = 6_000).await;
    let ada = app.account("ada").await;
    let other = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    for _ in 0..3 {
        exchanged(&ada, json!({})).await;
    }
    let request = ada.request(Method::POST, "/api/v1/scheduler-tokens").json(&json!({}));
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 429);
    let seconds: u64 = answer.headers()[header::RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["code"], "RATE_LIMITED", "{body}");
    assert_eq!(count(&app).await, 3);
    // Other tokens and reports have their own limits.
    exchanged(&other, json!({})).await;
    assert_eq!(report(&ada, "Scheduler-1", 1).await, TAKEN);
    app.stop().await;
}

#[tokio::test]
async fn an_account_sees_broad_tokens_on_schedulers_and_can_refuse_them() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let narrow = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let reader = ada.with_token(ada.token(&[Scope::Ingest, Scope::Read], None).await);
    let policy_and_uses = async || {
        app.write_down_token_uses().await;
        let mut account = ada.query(TOKENS, json!({})).await["viewer"]["account"].take();
        let nodes = account["tokens"]["nodes"].as_array().unwrap().clone();
        let seen = |member: &Member| {
            let found = nodes.iter().find(|node| node["identifier"] == public_half(member).as_str());
            found.unwrap()["broadUseAt"].clone()
        };
        (account["tokenPolicy"].take(), [seen(&ada), seen(&narrow), seen(&reader)])
    };
    let policy = |refuses: bool, at: Value| json!({ "refusesBroadTokens": refuses, "lastBroadUseAt": at });
    let never = [Value::Null, Value::Null, Value::Null];
    // A token exchanged on a client was never on a scheduler, and one that permits reports only is not
    // broad.
    exchanged(&ada, json!({})).await;
    assert_eq!(report(&narrow, "Scheduler-1", 1).await, TAKEN);
    assert_eq!(policy_and_uses().await, (policy(false, Value::Null), never));
    // A token that reports is on a scheduler, and so is one that a scheduler requests to exchange.
    app.set_clock("2026-11-20T12:00:01Z");
    assert_eq!(report(&ada, "Scheduler-3", 1).await, TAKEN);
    app.set_clock("2026-11-20T12:00:02Z");
    exchanged(&reader, json!({ "schedulerId": "Scheduler-4" })).await;
    let (first, last) = (json!("2026-11-20T12:00:01+00:00"), json!("2026-11-20T12:00:02+00:00"));
    assert_eq!(
        policy_and_uses().await,
        (policy(false, last.clone()), [first.clone(), Value::Null, last.clone()])
    );

    let (before, _) = exchanged(&ada, json!({})).await;
    let done = ada.query(POLICY, json!({ "refuses": true })).await;
    assert_eq!(done["setTokenPolicy"]["tokenPolicy"], policy(true, last.clone()));
    app.set_clock("2026-11-20T12:00:03Z");
    assert_eq!(report(&ada, "Scheduler-3", 2).await, refused("BROAD_TOKEN"));
    assert_eq!(
        request_token(&reader, json!({ "schedulerId": "Scheduler-4" })).await.1["code"],
        "BROAD_TOKEN"
    );
    assert_eq!(report(&narrow, "Scheduler-1", 2).await, TAKEN);
    assert_eq!(report(&before, "Scheduler-5", 1).await, TAKEN);
    exchanged(&ada, json!({})).await;
    // The token is recorded even if it is refused.
    let again = json!("2026-11-20T12:00:03+00:00");
    assert_eq!(policy_and_uses().await, (policy(true, again.clone()), [again.clone(), Value::Null, again]));
    // Other accounts have their own policy.
    let bob = app.account("bob").await;
    assert_eq!(report(&bob, "Scheduler-3", 1).await, TAKEN);
    ada.query(POLICY, json!({ "refuses": false })).await;
    assert_eq!(report(&ada, "Scheduler-3", 3).await, TAKEN);
    // Only owners and admins may set it.
    let carl = app.member_with("carl", "ada", Role::Member).await;
    let refused = carl.ask(POLICY, json!({ "refuses": true })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "FORBIDDEN");
    let hidden = carl.ask("{ viewer { account { tokenPolicy { refusesBroadTokens } } } }", json!({})).await;
    assert_eq!(hidden["data"]["viewer"]["account"]["tokenPolicy"], Value::Null);
    app.stop().await;
}

/// A header is the client's own claim, so none of them exempts a report from the policy.
#[tokio::test]
async fn no_name_of_a_client_passes_the_policy() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.query(POLICY, json!({ "refuses": true })).await;
    let broad = ada.with_token(ada.token(&[Scope::Ingest, Scope::Read], None).await);
    let as_client = async |member: &Member, client: &str| {
        let request = member.request(Method::POST, "/api/v1/reports").header(header::USER_AGENT, client);
        let report = ReportBuilder::new("Scheduler-1", 1).build();
        let answer = request.json(&report).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap()["code"].take())
    };
    for client in ["galvo-python/0.1.0", "galvo-python/", "galvo-plugin/0.1.0", "curl/8.0"] {
        assert_eq!(as_client(&broad, client).await, refused("BROAD_TOKEN"), "{client}");
        assert_eq!(as_client(&ada, client).await, refused("BROAD_TOKEN"), "{client}");
    }
    let clusters = "{ viewer { account { clusters { totalCount } } } }";
    assert_eq!(ada.query(clusters, json!({})).await["viewer"]["account"]["clusters"]["totalCount"], 0);
    // Programs that send stored reports exchange the token.
    let (importer, _) = exchanged(&broad, json!({ "lifetimeSeconds": 600 })).await;
    assert_eq!(as_client(&importer, "galvo-python/0.1.0").await, TAKEN);
    app.stop().await;
}

#[tokio::test]
async fn a_lifetime_ends_a_token_in_spite_of_its_reports() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (scheduler, body) = exchanged(&ada, json!({ "lifetimeSeconds": 600 })).await;
    assert_eq!(body["expiresAt"], "2026-11-20T12:10:00.000Z");
    assert_eq!(body["renewableUntil"], "2026-11-20T12:10:00.000Z");
    app.set_clock("2026-11-20T12:09:59Z");
    assert_eq!(report(&scheduler, "Scheduler-1", 1).await, TAKEN);
    app.set_clock("2026-11-20T12:10:00Z");
    assert_eq!(report(&scheduler, "Scheduler-1", 2).await.0, 401);
    // No lifetime exceeds that of the exchanged token, nor that of other schedulers' tokens.
    let latest: DateTime<Utc> = "2026-11-20T12:15:00Z".parse().unwrap();
    let short = ada.with_token(ada.token(&[Scope::Ingest], Some(latest)).await);
    let (_, body) = exchanged(&short, json!({ "lifetimeSeconds": 600 })).await;
    assert_eq!(body["expiresAt"], "2026-11-20T12:15:00.000Z");
    let (_, body) = exchanged(&ada, json!({ "lifetimeSeconds": 259_200 })).await;
    assert_eq!(body["expiresAt"], "2026-11-23T12:10:00.000Z");
    for wrong in [json!(0), json!(-1), json!(259_201), json!(1.5), json!("600")] {
        let (status, body) = request_token(&ada, json!({ "lifetimeSeconds": wrong })).await;
        assert_eq!((status, &body["pointer"]), (400, &json!("/lifetimeSeconds")), "{wrong}: {body}");
    }
    app.stop().await;
}

#[tokio::test]
async fn an_operator_sees_and_ends_sessions_and_tokens_of_schedulers() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    let (first, second, other) = (app.browser(&ada).await, Browser::new(&app), app.browser(&bob).await);
    second.sign_in("ada", "password of ada").await;
    let accounts = app.accounts();
    let name: Slug = "ada".parse().unwrap();
    let users = async |user: Option<&Slug>| -> Vec<String> {
        accounts.sessions(user, 10).await.unwrap().into_iter().map(|session| session.user).collect()
    };
    let mut all = users(None).await;
    all.sort_unstable();
    assert_eq!(all, ["ada", "ada", "bob"]);
    assert_eq!(users(Some(&name)).await, ["ada", "ada"]);
    assert_eq!(accounts.end_sessions(&name).await.unwrap(), 2);
    assert_eq!(users(None).await, ["bob"]);
    let status = async |browser: &Browser| {
        browser.request(Method::GET, "/api/v1/session").send().await.unwrap().status().as_u16()
    };
    assert_eq!((status(&first).await, status(&second).await, status(&other).await), (401, 401, 200));
    assert_eq!(accounts.end_sessions(&name).await.unwrap(), 0);

    let (scheduler, _) = exchanged(&ada, json!({})).await;
    let of_kind = async |kind: TokenKind| -> Vec<String> {
        let tokens = accounts.tokens(None, Some(&name), kind, 10).await.unwrap();
        tokens.into_iter().map(|token| token.identifier).collect()
    };
    assert_eq!(of_kind(TokenKind::OfSchedulers).await, [public_half(&scheduler)]);
    assert_eq!(of_kind(TokenKind::Personal).await, [public_half(&ada)]);
    app.stop().await;
}
