//! API tokens: valid and invalid ones.

use chrono::{DateTime, Utc};
use entity::{api_token::Scope, membership::Role};
use galvo::{encryption::Keys, key_ring::KeySource};
use harness::{Member, TestApp};
use reqwest::{Method, header};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use serde_json::{Value, json};

#[tokio::test]
async fn three_words_introduce_a_token_and_nothing_else_does() {
    let app = TestApp::start().await;
    let token = app.account("ada").await.secret().to_owned();
    let (identifier, secret) = token.split_once('-').unwrap();
    let cases = [
        (format!("Bearer {token}"), 200),
        (format!("Token {token}"), 200),
        (format!("ApiToken {token}"), 200),
        (format!("bearer {token}"), 200),
        (token.clone(), 401),
        (format!("Basic {token}"), 401),
        ("Bearer".to_owned(), 401),
        (format!("Bearer {identifier}"), 401),
        (format!("Bearer {identifier}-"), 401),
        (format!("Bearer {identifier}-{}", &secret[1..]), 401),
        (format!("Bearer {identifier}-{secret}x"), 401),
        (format!("Bearer nobody-{secret}"), 401),
        (format!("Bearer {token}{}", "x".repeat(20_000)), 401),
    ];
    for (authorization, status) in cases {
        let request = app.anonymous(Method::POST, "/graphql").header(header::AUTHORIZATION, &authorization);
        let response = request.json(&json!({ "query": "{ viewer { scopes } }" })).send().await.unwrap();
        assert_eq!(response.status(), status, "{authorization}");
    }
    let twice = app
        .anonymous(Method::POST, "/graphql")
        .bearer_auth(&token)
        .header(header::AUTHORIZATION, "Bearer x-y");
    let refused = twice.json(&json!({ "query": "{ viewer { scopes } }" })).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    app.stop().await;
}

#[tokio::test]
async fn an_expired_or_revoked_token_is_as_good_as_none() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let end = "2026-11-20T12:00:10Z".parse().unwrap();
    let member = ada.with_token(ada.token(&[Scope::Read], Some(end)).await);
    let ask = async || {
        let request =
            member.request(Method::POST, "/graphql").json(&json!({ "query": "{ viewer { scopes } }" }));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json::<Value>().await.unwrap())
    };
    app.set_clock("2026-11-20T12:00:09.999Z");
    assert_eq!(ask().await.0, 200);
    app.set_clock("2026-11-20T12:00:10Z");
    let expired = ask().await;
    assert_eq!(expired.0, 401);

    app.set_clock("2026-11-20T12:00:00Z");
    assert_eq!(ask().await.0, 200);
    let connection = app.database.connection().await;
    let identifier = member.secret().split('-').next().unwrap();
    let row = entity::api_token::Entity::find()
        .filter(entity::api_token::Column::Identifier.eq(identifier))
        .one(&connection)
        .await
        .unwrap()
        .unwrap();
    let secret = member.secret().split_once('-').unwrap().1;
    assert!(!format!("{row:?}").contains(secret), "the secret is stored in clear");
    let mut row: entity::api_token::ActiveModel = row.into();
    row.revoked_at = Set(Some(end.into()));
    row.update(&connection).await.unwrap();
    assert_eq!(ask().await, expired, "a revoked token answers as an expired one");
    let unknown = member.with_token("nobody-x".to_owned());
    let request =
        unknown.request(Method::POST, "/graphql").json(&json!({ "query": "{ viewer { scopes } }" }));
    assert_eq!(
        request.send().await.unwrap().json::<Value>().await.unwrap(),
        expired.1,
        "and as one that never was"
    );
    app.stop().await;
}

const CREATE: &str = "mutation($input: CreateTokenInput!) { createToken(input: $input) {
    secret token { identifier label scopes user { name } createdAt expiresAt revokedAt } userErrors { field code message } } }";

const REVOKE: &str = "mutation($identifier: String!) { revokeToken(identifier: $identifier) {
    token { identifier revokedAt } userErrors { code } } }";

const TOKENS: &str =
    "query($first: Int, $after: String) { viewer { account { tokens(first: $first, after: $after) {
    totalCount pageInfo { hasNextPage endCursor } nodes { identifier label revokedAt expiresAt } } } } }";

#[tokio::test]
async fn a_token_that_was_made_is_shown_once_and_ends_at_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let own = ada.secret().split('-').next().unwrap().to_owned();
    app.set_clock("2026-11-20T12:00:01Z");
    let input = json!({ "label": "nightly etl", "scopes": ["READ", "INGEST", "READ"], "expiresAt": "2026-12-20T00:00:00Z" });
    let mut made = ada.query(CREATE, json!({ "input": input })).await["createToken"].take();
    let secret = made["secret"].take().as_str().unwrap().to_owned();
    let identifier = secret.split('-').next().unwrap().to_owned();
    let expected = json!({ "secret": null, "userErrors": [], "token": {
        "identifier": identifier, "label": "nightly etl", "scopes": ["INGEST", "READ"], "user": { "name": "ada" },
        "createdAt": "2026-11-20T12:00:01+00:00", "expiresAt": "2026-12-20T00:00:00+00:00", "revokedAt": null } });
    assert_eq!(made, expected);

    let list =
        async |variables: Value| ada.query(TOKENS, variables).await["viewer"]["account"]["tokens"].take();
    let page = list(json!({ "first": 1 })).await;
    assert_eq!((&page["totalCount"], &page["pageInfo"]["hasNextPage"]), (&json!(2), &json!(true)));
    assert_eq!(page["nodes"][0]["identifier"], identifier.as_str());
    let next = list(json!({ "first": 1, "after": page["pageInfo"]["endCursor"] })).await;
    assert_eq!(
        (&next["nodes"][0]["identifier"], &next["pageInfo"]["hasNextPage"]),
        (&json!(own), &json!(false))
    );
    // Times stored in milliseconds are returned in milliseconds from the start.
    let input =
        json!({ "label": "short", "scopes": ["READ"], "expiresAt": "2026-12-20T00:00:00.123456789Z" });
    let short = ada.query(CREATE, json!({ "input": input })).await["createToken"]["token"].take();
    assert_eq!(short["expiresAt"], "2026-12-20T00:00:00.123+00:00");
    let rows = entity::api_token::Entity::find().all(&app.database.connection().await).await.unwrap();
    let half = secret.split_once('-').unwrap().1;
    assert!(
        !format!("{rows:?} {page} {next}").contains(half),
        "the secret is stored in clear or shown again"
    );

    let member = ada.with_token(secret);
    let viewer = async || {
        let ask = member.request(Method::POST, "/graphql").json(&json!({ "query": "{ viewer { scopes } }" }));
        let answer = ask.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap()["data"]["viewer"]["scopes"].take())
    };
    assert_eq!(viewer().await, (200, json!(["INGEST", "READ"])));
    app.set_clock("2026-11-20T12:00:02Z");
    let ended = json!({ "token": { "identifier": identifier, "revokedAt": "2026-11-20T12:00:02+00:00" }, "userErrors": [] });
    assert_eq!(ada.query(REVOKE, json!({ "identifier": identifier })).await["revokeToken"], ended);
    assert_eq!(viewer().await, (401, Value::Null));
    app.set_clock("2026-11-20T12:00:03Z");
    let again = ada.query(REVOKE, json!({ "identifier": identifier })).await["revokeToken"].take();
    assert_eq!(again, ended, "when it ended does not change");
    for nothing in ["nobody", "", "x-y", "a\u{0}b", &"x".repeat(100)] {
        let answer = ada.ask(REVOKE, json!({ "identifier": nothing })).await;
        assert_eq!(answer["errors"][0]["extensions"]["code"], "NOT_FOUND", "{nothing}: {answer}");
    }
    // A caller may revoke the token of the request.
    let answer = ada.query(REVOKE, json!({ "identifier": own })).await;
    assert_eq!(answer["revokeToken"]["token"]["identifier"], own.as_str());
    let ask = ada.request(Method::POST, "/graphql").json(&json!({ "query": "{ viewer { scopes } }" }));
    assert_eq!(ask.send().await.unwrap().status(), 401);
    app.stop().await;
}

#[tokio::test]
async fn a_token_that_cannot_be_is_refused_with_every_field_named() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let long = "x".repeat(201);
    for (input, wrong) in [
        (json!({ "scopes": [] }), json!([["scopes", "NO_SCOPE"]])),
        (json!({ "scopes": ["READ"], "label": long }), json!([["label", "LABEL_INVALID"]])),
        (json!({ "scopes": ["READ"], "label": "a\u{0}" }), json!([["label", "LABEL_INVALID"]])),
        (
            json!({ "scopes": ["READ"], "expiresAt": "2026-11-20T12:00:00Z" }),
            json!([["expiresAt", "EXPIRED"]]),
        ),
        (
            json!({ "scopes": [], "label": long, "expiresAt": "1970-01-01T00:00:00Z" }),
            json!([["label", "LABEL_INVALID"], ["scopes", "NO_SCOPE"], ["expiresAt", "EXPIRED"]]),
        ),
    ] {
        let answer = ada.query(CREATE, json!({ "input": input })).await["createToken"].take();
        let errors = answer["userErrors"].as_array().unwrap().iter();
        let errors = json!(errors.map(|error| json!([error["field"], error["code"]])).collect::<Vec<_>>());
        assert_eq!(
            (&errors, &answer["secret"], &answer["token"]),
            (&wrong, &Value::Null, &Value::Null),
            "{input}"
        );
    }
    let tokens = ada.query(TOKENS, json!({})).await;
    assert_eq!(tokens["viewer"]["account"]["tokens"]["totalCount"], 1);
    app.stop().await;
}

/// Adds 999 copies of the only token, `copy1` and so on, with this creation and expiry.
async fn add_copies(app: &TestApp, created_at: &str, expires_at: Option<&str>) {
    let connection = app.database.connection().await;
    let row = entity::api_token::Entity::find().one(&connection).await.unwrap().unwrap();
    let at = |time: &str| entity::Timestamp::from(time.parse::<DateTime<Utc>>().unwrap());
    let rows = (1..1_000_u128).map(|number| {
        let mut copy = row.clone().into_active_model().reset_all();
        copy.id = Set(entity::ids::ApiTokenId(uuid::Uuid::from_u128(number)));
        copy.identifier = Set(format!("copy{number}"));
        copy.created_at = Set(at(created_at));
        copy.expires_at = Set(expires_at.map(at));
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
async fn an_account_has_a_bounded_number_of_good_tokens() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // As of last month.
    add_copies(&app, "2026-10-20T12:00:00Z", None).await;
    let create = async || {
        let answer = ada.query(CREATE, json!({ "input": { "scopes": ["READ"] } })).await;
        answer["createToken"]["userErrors"].clone()
    };
    assert_eq!(create().await[0]["code"], "TOO_MANY");
    ada.query(REVOKE, json!({ "identifier": "copy7" })).await;
    assert_eq!(create().await, json!([]));
    app.stop().await;
}

#[tokio::test]
async fn new_tokens_count_for_a_day_although_they_have_ended() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    add_copies(&app, "2026-11-20T12:00:00Z", Some("2026-11-20T12:00:01Z")).await;
    let create = async || {
        let input = json!({ "scopes": ["READ"], "expiresAt": "2026-11-21T13:00:00Z" });
        ada.query(CREATE, json!({ "input": input })).await["createToken"]["userErrors"].clone()
    };
    app.set_clock("2026-11-21T11:59:59Z");
    assert_eq!(create().await[0]["code"], "TOO_MANY");
    app.set_clock("2026-11-21T12:00:00Z");
    assert_eq!(create().await, json!([]));
    app.stop().await;
}

const USES: &str = "{ viewer { account { tokens { nodes { identifier lastUsedAt } } } } }";

#[tokio::test]
async fn when_a_token_was_last_used_is_written_down_now_and_then() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (used, unused) = (ada.token(&[Scope::Read], None).await, ada.token(&[Scope::Read], None).await);
    let public = |token: &str| token.split('-').next().unwrap().to_owned();
    let last_used = async |token: &str| {
        let answer = ada.query(USES, json!({})).await;
        let nodes = answer["viewer"]["account"]["tokens"]["nodes"].as_array().unwrap().clone();
        nodes.iter().find(|node| node["identifier"] == public(token)).unwrap()["lastUsedAt"].clone()
    };
    let reader = ada.with_token(used.clone());
    for second in ["01", "02", "03"] {
        app.set_clock(&format!("2026-11-20T12:00:{second}Z"));
        reader.query("{ viewer { scopes } }", json!({})).await;
    }
    assert_eq!(last_used(&used).await, Value::Null, "no request writes it");
    let before = app.statements();
    app.write_down_token_uses().await;
    assert_eq!(app.statements() - before, 1, "for all tokens");
    app.write_down_token_uses().await;
    assert_eq!(app.statements() - before, 1, "nothing was used since");
    assert_eq!(last_used(&used).await, "2026-11-20T12:00:03+00:00");
    assert_eq!(last_used(&unused).await, Value::Null);
    // A rejected token is not recorded as used.
    let wrong = ada.with_token(format!("{}-wrong", public(&unused)));
    assert_eq!(wrong.status().await.0, 401);
    // Another server sees an earlier use and stores it later.
    let other = TestApp::start_beside(&app, KeySource::Ring(Keys::generate())).await;
    app.set_clock("2026-11-20T12:00:02Z");
    other.here(&reader).query("{ viewer { scopes } }", json!({})).await;
    app.set_clock("2026-11-20T12:00:04Z");
    reader.query("{ viewer { scopes } }", json!({})).await;
    app.write_down_token_uses().await;
    other.stop().await;
    assert_eq!(last_used(&used).await, "2026-11-20T12:00:04+00:00", "it goes forward only");
    assert_eq!(last_used(&unused).await, Value::Null);
    app.stop().await;
}

/// The status and body of the `coiled` client's routes for tokens.
async fn rest(member: &Member, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
    let mut request = member.request(method, &format!("/api/v1/api-tokens/{path}"));
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test]
async fn the_coiled_client_lists_makes_and_ends_the_tokens_of_its_user() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    app.set_clock("2026-11-20T12:00:01Z");
    // In the client's own time format.
    let wish = json!({ "label": "laptop", "expiry": "2026-11-21T12:00:01.123456+00:00" });
    let (status, mut made) = rest(&bob, Method::POST, "", Some(wish)).await;
    assert_eq!(status, 201, "{made}");
    let token = made.as_object_mut().unwrap().remove("token").unwrap().as_str().unwrap().to_owned();
    let (identifier, _) = token.split_once('-').unwrap();
    let expected = json!({ "identifier": identifier, "label": "laptop", "revoked": false, "expired": false,
        "created": "2026-11-20T12:00:01.000Z", "expiry": "2026-11-21T12:00:01.123Z" });
    assert_eq!(made, expected);
    let viewer = "{ viewer { scopes user { name } account { slug } } }";
    let of_token = bob.with_token(token.clone());
    let scopes =
        json!({ "scopes": ["INGEST", "READ"], "user": { "name": "bob" }, "account": { "slug": "ada" } });
    assert_eq!(of_token.query(viewer, json!({})).await["viewer"], scopes);
    // The list has only the caller's own tokens, for an owner, too: "revoke all" relies on it.
    let (_, list) = rest(&bob, Method::GET, "?page=1", None).await;
    assert_eq!((&list["next"], list["results"].as_array().unwrap().len()), (&Value::Null, 2), "{list}");
    assert_eq!(list["results"][0], expected);
    let (_, of_ada) = rest(&ada, Method::GET, "", None).await;
    assert_eq!(of_ada["results"].as_array().unwrap().len(), 1, "{of_ada}");
    assert_eq!(rest(&bob, Method::GET, "?page=2", None).await.1, json!({ "results": [], "next": null }));
    // A member cannot revoke another's token here, and revoking is final.
    let revoke = format!("{identifier}/revoke");
    assert_eq!(rest(&ada, Method::DELETE, &revoke, None).await.0, 404);
    for _ in 0..2 {
        let (status, revoked) = rest(&bob, Method::DELETE, &revoke, None).await;
        assert_eq!((status, &revoked["revoked"], &revoked["label"]), (200, &json!(true), &json!("laptop")));
    }
    assert_eq!(of_token.request(Method::GET, "/api/v2/user/me").send().await.unwrap().status(), 401);
    let (_, list) = rest(&bob, Method::GET, "", None).await;
    assert_eq!(
        (&list["results"][0]["revoked"], &list["results"][0]["expired"]),
        (&json!(true), &json!(false))
    );
    app.set_clock("2026-11-21T12:00:02Z");
    let (_, list) = rest(&bob, Method::GET, "", None).await;
    assert_eq!(list["results"][0]["expired"], true);
    app.stop().await;
}

#[tokio::test]
async fn a_token_that_is_good_for_less_than_its_user_decides_on_no_others() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let bob = app.member_with("bob", "ada", Role::Member).await;
    let scheduler = bob.with_token(bob.token(&[Scope::Ingest], None).await);
    let reader = bob.with_token(bob.token(&[Scope::Read], None).await);
    let end = "2026-11-30T00:00:00Z".parse().unwrap();
    let ending = bob.with_token(bob.token(&[Scope::Ingest, Scope::Read], Some(end)).await);
    let identifier = bob.secret().split_once('-').unwrap().0;
    let revoke = format!("{identifier}/revoke");
    assert_eq!(rest(&scheduler, Method::GET, "", None).await.0, 403);
    assert_eq!(rest(&reader, Method::GET, "", None).await.0, 200);
    for member in [&scheduler, &reader] {
        assert_eq!(rest(member, Method::POST, "", Some(json!({}))).await.1["code"], "MISSING_SCOPE");
        assert_eq!(rest(member, Method::DELETE, &revoke, None).await.1["code"], "MISSING_SCOPE");
    }
    // A token that expires creates no token that outlives it, and by default one that expires with it.
    let (status, made) = rest(&ending, Method::POST, "", Some(json!({}))).await;
    assert_eq!(
        (status, &made["expiry"], &made["label"]),
        (201, &json!("2026-11-30T00:00:00.000Z"), &json!(""))
    );
    for (body, pointer) in [
        (json!({ "expiry": "2026-11-30T00:00:01Z" }), "/expiry"),
        (json!({ "expiry": "2026-11-20T12:00:00Z" }), "/expiry"),
        (json!({ "expiry": "tomorrow" }), "/expiry"),
        (json!({ "expiry": "2026-11-29" }), "/expiry"),
        (json!({ "expiry": "2026-11-29T00:00:00" }), "/expiry"),
        (json!({ "label": "x".repeat(201) }), "/label"),
        (json!({ "label": 1 }), "/label"),
    ] {
        let (status, refused) = rest(&ending, Method::POST, "", Some(body.clone())).await;
        assert_eq!((status, refused["pointer"].as_str()), (400, Some(pointer)), "{body}: {refused}");
    }
    for page in ["0", "-1", "x", "10001"] {
        assert_eq!(rest(&ada, Method::GET, &format!("?page={page}"), None).await.0, 400, "{page}");
    }
    for identifier in ["nobody", "-", "%2e%2e"] {
        assert_eq!(
            rest(&ada, Method::DELETE, &format!("{identifier}/revoke"), None).await.0,
            404,
            "{identifier}"
        );
    }
    app.stop().await;
}

#[tokio::test]
async fn a_list_of_many_tokens_has_pages() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let labels: Vec<String> = (0..150).map(|number| format!("token {number}")).collect();
    for (number, label) in labels.iter().enumerate() {
        app.set_clock(&format!("2026-11-20T13:{:02}:{:02}Z", number / 60, number % 60));
        assert_eq!(rest(&ada, Method::POST, "", Some(json!({ "label": label }))).await.0, 201);
    }
    let mut seen = Vec::new();
    for (page, next) in [(1, json!("/api/v1/api-tokens/?page=2")), (2, Value::Null)] {
        let (_, list) = rest(&ada, Method::GET, &format!("?page={page}"), None).await;
        assert_eq!(list["next"], next);
        let labels = list["results"].as_array().unwrap().iter();
        seen.extend(labels.map(|token| token["label"].as_str().unwrap().to_owned()));
    }
    let newest_first: Vec<String> = labels.into_iter().rev().chain([String::new()]).collect();
    assert_eq!(seen, newest_first);
    app.stop().await;
}
