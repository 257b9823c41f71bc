//! Tokens: what is accepted as one, and what is not.

use entity::api_token::Scope;
use harness::TestApp;
use reqwest::{Method, header};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
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
