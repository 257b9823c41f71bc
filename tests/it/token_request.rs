//! Tokens that a program asks for and its user activates in a browser.

use entity::membership::Role;
use harness::{Browser, Member, Page, TestApp};
use reqwest::{Method, StatusCode, header};
use sea_orm::{ActiveModelTrait, EntityTrait, IntoActiveModel};
use serde_json::{Value, json};

/// Status and body of the answer to a program that asks for a token.
async fn request(app: &TestApp, label: &str) -> (u16, Value) {
    let form = form_urlencoded::Serializer::new(String::new()).append_pair("label", label).finish();
    let answer = app
        .anonymous(Method::POST, "/api/v1/api-tokens-no-user/")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(form)
        .send()
        .await
        .unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// A token that waits: its identifier, and all of it.
async fn asked(app: &TestApp) -> (String, String) {
    let (status, body) = request(app, "ada@laptop").await;
    assert_eq!(status, 201, "{body}");
    let text = |key: &str| body[key].as_str().unwrap().to_owned();
    let (identifier, token) = (text("identifier"), text("token"));
    assert!(token.starts_with(&format!("{identifier}-")), "{token}");
    (identifier, token)
}

/// The status of a request with a token.
async fn status(app: &TestApp, token: &str) -> u16 {
    let me = app
        .anonymous(Method::GET, "/api/v2/user/me")
        .header(header::AUTHORIZATION, format!("ApiToken {token}"));
    me.send().await.unwrap().status().as_u16()
}

fn page_of(identifier: &str) -> String {
    format!("/activate-token?id={identifier}")
}

/// What somebody is answered who decides on a token.
async fn decide(browser: &Browser, identifier: &str, more: &[(&str, &str)]) -> Page {
    let csrf = browser.csrf().await;
    let fields = [&[("csrf", csrf.as_str()), ("id", identifier)], more].concat();
    browser.submit("/activate-token", &fields).await
}

async fn approve(browser: &Browser, member: &Member, identifier: &str) -> Page {
    decide(browser, identifier, &[("account", member.slug()), ("days", ""), ("decision", "approve")]).await
}

#[tokio::test]
async fn a_token_is_good_when_somebody_signed_in_says_so() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let (identifier, token) = asked(&app).await;
    let path = page_of(&identifier);
    assert_eq!(status(&app, &token).await, 401);
    // Opening the page changes nothing, whoever does it.
    let anonymous = Browser::new(&app).open(&path).await;
    let back = format!("/sign-in?return_to=%2Factivate-token%3Fid%3D{identifier}");
    assert_eq!(anonymous.location.as_deref(), Some(back.as_str()));
    let page = browser.open(&path).await;
    for text in [
        &identifier,
        "ada@laptop",
        "2026-11-20 12:00:00 UTC from 127.0.0.1",
        "<option value=\"ada\">ada</option>",
    ] {
        assert!(page.html.contains(text), "{text}: {}", page.html);
    }
    assert!(!page.html.contains(&token), "the page shows the public half alone");
    // Nor do forms of nobody, of another page, and of another session.
    let fields = [("id", identifier.as_str()), ("account", "ada"), ("days", ""), ("decision", "approve")];
    assert_eq!(Browser::new(&app).submit("/activate-token", &fields).await.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.submit("/activate-token", &fields).await.status, StatusCode::FORBIDDEN);
    let csrf = browser.csrf().await;
    let with_csrf = [&[("csrf", csrf.as_str())][..], &fields].concat();
    let foreign = browser.submit_from("https://evil.example", "/activate-token", &with_csrf).await;
    assert_eq!((foreign.status, status(&app, &token).await), (StatusCode::FORBIDDEN, 401));

    let page = approve(&browser, &ada, &identifier).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.html);
    assert!(page.html.contains("The token <strong>ada@laptop</strong> is good now"), "{}", page.html);
    assert_eq!(status(&app, &token).await, 200);
    let viewer = "{ viewer { scopes user { name } account { slug } } }";
    let expected = json!({ "scopes": ["INGEST", "READ", "ADMIN"], "user": { "name": "ada" }, "account": { "slug": "ada" } });
    assert_eq!(ada.with_token(token.clone()).query(viewer, json!({})).await["viewer"], expected);
    // Once: neither by the same form, nor by anybody else, nor by asking for the page.
    assert_eq!(approve(&browser, &ada, &identifier).await.status, StatusCode::NOT_FOUND);
    let bob = app.account("bob").await;
    let other = app.browser(&bob).await;
    assert_eq!(approve(&other, &bob, &identifier).await.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.open(&path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(ada.with_token(token).query(viewer, json!({})).await["viewer"], expected);
    app.stop().await;
}

#[tokio::test]
async fn a_token_waits_for_ten_minutes() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let (in_time, token) = asked(&app).await;
    let (late, late_token) = asked(&app).await;
    app.set_clock("2026-11-20T12:09:59Z");
    assert_eq!(approve(&browser, &ada, &in_time).await.status, StatusCode::OK);
    app.set_clock("2026-11-20T12:10:00Z");
    assert_eq!(browser.open(&page_of(&late)).await.status, StatusCode::NOT_FOUND);
    assert_eq!(approve(&browser, &ada, &late).await.status, StatusCode::NOT_FOUND);
    assert_eq!((status(&app, &token).await, status(&app, &late_token).await), (200, 401));
    // Nothing tells what has expired from what never was.
    let pages =
        [browser.open(&page_of(&late)).await.html, browser.open(&page_of("never0was0there0")).await.html];
    assert_eq!(pages[0], pages[1]);
    // What has expired goes when the next one comes.
    asked(&app).await;
    let rows = entity::token_request::Entity::find().all(&app.database.connection().await).await.unwrap();
    assert_eq!(rows.len(), 1);
    app.stop().await;
}

#[tokio::test]
async fn a_token_is_what_its_user_chose() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let eve = app.member_with("eve", "ada", Role::Viewer).await;
    let browser = app.browser(&eve).await;
    app.account("bob").await;
    // For an account of the user alone, and for a time that is offered.
    let (identifier, token) = asked(&app).await;
    for (account, days, status) in
        [("bob", "30", 403), ("nobody", "30", 403), ("", "30", 403), ("ada", "31", 400), ("ada", "-1", 400)]
    {
        let page =
            decide(&browser, &identifier, &[("account", account), ("days", days), ("decision", "approve")])
                .await;
        assert_eq!(page.status, status, "{account} {days}: {}", page.html);
    }
    let page =
        decide(&browser, &identifier, &[("account", "ada"), ("days", "30"), ("decision", "approve")]).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.html);
    let tokens = "{ viewer { account { tokens(first: 1) { nodes { identifier label scopes expiresAt user { name } } } } } }";
    let expected = json!({ "identifier": identifier, "label": "ada@laptop", "scopes": ["READ"],
        "expiresAt": "2026-12-20T12:00:00+00:00", "user": { "name": "eve" } });
    assert_eq!(ada.query(tokens, json!({})).await["viewer"]["account"]["tokens"]["nodes"][0], expected);
    app.set_clock("2026-12-20T11:59:59Z");
    assert_eq!(status(&app, &token).await, 200);
    app.set_clock("2026-12-20T12:00:00Z");
    assert_eq!(status(&app, &token).await, 401);
    // What is refused nobody can have.
    app.set_clock("2026-11-20T12:00:00Z");
    let (identifier, token) = asked(&app).await;
    let page = decide(&browser, &identifier, &[("account", "ada"), ("decision", "refuse")]).await;
    assert!(page.html.contains("Nobody gets this token"), "{}", page.html);
    assert_eq!(approve(&browser, &eve, &identifier).await.status, StatusCode::NOT_FOUND);
    assert_eq!(status(&app, &token).await, 401);
    app.stop().await;
}

#[tokio::test]
async fn who_is_in_several_accounts_chooses_one() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let browser = app.browser(&ada).await;
    app.member_with("ada", "bob", Role::Member).await;
    let (identifier, token) = asked(&app).await;
    let page = browser.open(&page_of(&identifier)).await;
    let options = "<option value=\"ada\">ada</option><option value=\"bob\">bob</option>";
    assert!(page.html.contains(options), "{}", page.html);
    let page = approve(&browser, &bob, &identifier).await;
    assert!(page.html.contains("for what ada may do in the account bob"), "{}", page.html);
    let viewer = "{ viewer { scopes user { name } account { slug } } }";
    let expected =
        json!({ "scopes": ["INGEST", "READ"], "user": { "name": "ada" }, "account": { "slug": "bob" } });
    assert_eq!(ada.with_token(token).query(viewer, json!({})).await["viewer"], expected);
    // A session opens both, and tells so to what asks as the client does.
    let me = browser.request(Method::GET, "/api/v2/user/account/bob/usage").send().await.unwrap();
    assert_eq!(me.status(), StatusCode::OK);
    app.stop().await;
}

#[tokio::test]
async fn few_wait_of_one_address_and_not_too_many_in_all() {
    let app = TestApp::start().await;
    for _ in 0..20 {
        asked(&app).await;
    }
    let (status, body) = request(&app, "one more").await;
    assert_eq!((status, body["code"].as_str()), (429, Some("RATE_LIMITED")), "{body}");
    app.set_clock("2026-11-20T12:10:00Z");
    asked(&app).await;
    // From everywhere else come as many as fit.
    let connection = app.database.connection().await;
    let one = entity::token_request::Entity::find().one(&connection).await.unwrap().unwrap();
    for number in 1..1_000 {
        let (identifier, address) =
            (format!("request{number}"), format!("10.0.{}.{}", number / 250, number % 250));
        let row = entity::token_request::Model { identifier, address, ..one.clone() };
        row.into_active_model().reset_all().insert(&connection).await.unwrap();
    }
    assert_eq!(request(&app, "one more").await.0, 429);
    app.set_clock("2026-11-20T12:20:00Z");
    asked(&app).await;
    let rows = entity::token_request::Entity::find().all(&connection).await.unwrap();
    assert_eq!(rows.len(), 1);
    app.stop().await;
}

#[tokio::test]
async fn what_is_no_such_request_is_refused() {
    let app = TestApp::start().await;
    assert_eq!(request(&app, &"x".repeat(200)).await.0, 201);
    let (status, body) = request(&app, &"x".repeat(201)).await;
    assert_eq!((status, body["pointer"].as_str()), (400, Some("/label")), "{body}");
    assert_eq!(request(&app, "a\u{7}b").await.0, 400);
    let (status, _) = request(&app, &"x".repeat(20_000)).await;
    assert_eq!(status, 413);
    let json = app.anonymous(Method::POST, "/api/v1/api-tokens-no-user/").json(&json!({ "label": "x" }));
    assert_eq!(json.send().await.unwrap().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    // Hashes alone are kept, as of every token.
    let (_, body) = request(&app, "x").await;
    let secret = body["token"].as_str().unwrap().split_once('-').unwrap().1.to_owned();
    let rows = entity::token_request::Entity::find().all(&app.database.connection().await).await.unwrap();
    assert!(rows.iter().all(|row| row.secret_hash.len() == 32 && !format!("{row:?}").contains(&secret)));
    app.stop().await;
}
