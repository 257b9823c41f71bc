//! Tokens that a program requests and its user activates in a browser.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use entity::membership::Role;
use harness::{Browser, Member, Page, TestApp};
use reqwest::{Method, StatusCode, header};
use sea_orm::{ActiveModelTrait, ColumnTrait, EntityTrait, IntoActiveModel, QueryFilter};
use serde_json::{Value, json};

/// Requests a token as a program does, and returns the status and body.
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

/// A pending token: its identifier, and the whole token.
async fn pending_token(app: &TestApp) -> (String, String) {
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

/// The response to a user's decision on a token.
async fn decide(browser: &Browser, identifier: &str, more: &[(&str, &str)]) -> Page {
    let csrf = browser.csrf().await;
    let fields = [&[("csrf", csrf.as_str()), ("id", identifier)], more].concat();
    browser.submit("/activate-token", &fields).await
}

async fn approve(browser: &Browser, member: &Member, identifier: &str) -> Page {
    decide(browser, identifier, &[("account", member.slug()), ("days", ""), ("decision", "approve")]).await
}

#[tokio::test]
async fn a_token_is_good_when_somebody_signed_in_approves_it() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let (identifier, token) = pending_token(&app).await;
    let path = page_of(&identifier);
    assert_eq!(status(&app, &token).await, 401);
    // Opening the page changes nothing, for any visitor.
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
    // Forms without a session, from another site, and with another session's token change nothing
    // either.
    let fields = [("id", identifier.as_str()), ("account", "ada"), ("days", ""), ("decision", "approve")];
    assert_eq!(Browser::new(&app).submit("/activate-token", &fields).await.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.submit("/activate-token", &fields).await.status, StatusCode::FORBIDDEN);
    let csrf = browser.csrf().await;
    let with_csrf = [&[("csrf", csrf.as_str())][..], &fields].concat();
    let foreign = browser.submit_from("https://evil.example", "/activate-token", &with_csrf).await;
    assert_eq!((foreign.status, status(&app, &token).await), (StatusCode::FORBIDDEN, 401));

    let page = approve(&browser, &ada, &identifier).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.html);
    assert!(page.html.contains("The token <strong>ada@laptop</strong> is active"), "{}", page.html);
    assert_eq!(status(&app, &token).await, 200);
    let viewer = "{ viewer { scopes user { name } account { slug } } }";
    let expected = json!({ "scopes": ["INGEST", "READ", "ADMIN"], "user": { "name": "ada" }, "account": { "slug": "ada" } });
    assert_eq!(ada.with_token(token.clone()).query(viewer, json!({})).await["viewer"], expected);
    // Only once: neither by the same form, nor by another user, nor by opening the page.
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
    let (in_time, token) = pending_token(&app).await;
    let (late, late_token) = pending_token(&app).await;
    app.set_clock("2026-11-20T12:09:59Z");
    assert_eq!(approve(&browser, &ada, &in_time).await.status, StatusCode::OK);
    app.set_clock("2026-11-20T12:10:00Z");
    assert_eq!(browser.open(&page_of(&late)).await.status, StatusCode::NOT_FOUND);
    assert_eq!(approve(&browser, &ada, &late).await.status, StatusCode::NOT_FOUND);
    assert_eq!((status(&app, &token).await, status(&app, &late_token).await), (200, 401));
    // An expired token is indistinguishable from one that never existed.
    let pages =
        [browser.open(&page_of(&late)).await.html, browser.open(&page_of("never0was0there0")).await.html];
    assert_eq!(pages[0], pages[1]);
    // Expired requests are removed when the next one arrives.
    pending_token(&app).await;
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
    // Only for an account of the user, and for an offered period.
    let (identifier, token) = pending_token(&app).await;
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
    // A refused token cannot be activated by anyone.
    app.set_clock("2026-11-20T12:00:00Z");
    let (identifier, token) = pending_token(&app).await;
    let page = decide(&browser, &identifier, &[("account", "ada"), ("decision", "refuse")]).await;
    assert!(page.html.contains("The token request was refused"), "{}", page.html);
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
    let (identifier, token) = pending_token(&app).await;
    let page = browser.open(&page_of(&identifier)).await;
    let options = "<option value=\"ada\">ada</option><option value=\"bob\">bob</option>";
    assert!(page.html.contains(options), "{}", page.html);
    let page = approve(&browser, &bob, &identifier).await;
    assert!(page.html.contains("with the access of ada to the account bob"), "{}", page.html);
    let viewer = "{ viewer { scopes user { name } account { slug } } }";
    let expected =
        json!({ "scopes": ["INGEST", "READ"], "user": { "name": "ada" }, "account": { "slug": "bob" } });
    assert_eq!(ada.with_token(token).query(viewer, json!({})).await["viewer"], expected);
    // A session has access to both accounts, also through the `coiled` client's routes.
    let me = browser.request(Method::GET, "/api/v2/user/account/bob/usage").send().await.unwrap();
    assert_eq!(me.status(), StatusCode::OK);
    app.stop().await;
}

#[tokio::test]
async fn few_wait_of_one_address_and_those_who_have_most_give_way() {
    let app = TestApp::start().await;
    for _ in 0..20 {
        pending_token(&app).await;
    }
    let (status_of_one_more, body) = request(&app, "one more").await;
    assert_eq!((status_of_one_more, body["code"].as_str()), (429, Some("RATE_LIMITED")), "{body}");
    app.set_clock("2026-11-20T12:10:00Z");
    pending_token(&app).await;
    // Fifty addresses in networks of their own fill the limit, one after the other.
    let connection = app.database.connection().await;
    let one = entity::token_request::Entity::find().one(&connection).await.unwrap().unwrap();
    for number in 0..999 {
        let row = entity::token_request::Model {
            identifier: format!("request{number}"),
            address: format!("127.{}.0.1", 1 + number / 20),
            created_at: (one.created_at.0 + TimeDelta::milliseconds(number)).into(),
            ..one.clone()
        };
        row.into_active_model().reset_all().insert(&connection).await.unwrap();
    }
    let pending = async || {
        let rows = entity::token_request::Entity::find().all(&connection).await.unwrap();
        rows.into_iter().map(|row| row.identifier).collect::<BTreeSet<_>>()
    };
    let request_from = async |address: String| {
        let client = Browser::at(&app.url(""), address.parse().unwrap());
        let request = client.request(Method::POST, "/api/v1/api-tokens-no-user/");
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        request.body("label=x").send().await.unwrap().status().as_u16()
    };
    let before = pending().await;
    let (identifier, token) = pending_token(&app).await;
    let after = pending().await;
    assert_eq!(before.difference(&after).collect::<Vec<_>>(), ["request0"], "the oldest of the first");
    assert_eq!(after.difference(&before).collect::<Vec<_>>(), [&identifier]);
    // Others get in as well, one for each, and those who fill it do not.
    for network in 101..121 {
        assert_eq!(request_from(format!("127.{network}.0.1")).await, 201, "{network}");
        assert_eq!(request_from("127.40.0.1".to_owned()).await, 429, "{network}");
    }
    let now = pending().await;
    let dropped: BTreeSet<_> = (1..21).map(|address| format!("request{}", 20 * address)).collect();
    assert_eq!(after.difference(&now).cloned().collect::<BTreeSet<_>>(), dropped);
    assert_eq!(now.len(), 1_000);
    // None of these has cost the program its request.
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    assert_eq!(approve(&browser, &ada, &identifier).await.status, StatusCode::OK);
    assert_eq!(status(&app, &token).await, 200);
    app.set_clock("2026-11-20T12:20:01Z");
    pending_token(&app).await;
    assert_eq!(pending().await.len(), 1);
    app.stop().await;
}

#[tokio::test]
async fn programs_behind_a_proxy_that_is_not_named_are_distinguished() {
    let app = TestApp::start().await;
    let browser = app.browser(&app.account("ada").await).await;
    let request_through = async |forwarded_for: &str| {
        let request = app.anonymous(Method::POST, "/api/v1/api-tokens-no-user/");
        let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let answer =
            request.header("X-Forwarded-For", forwarded_for).body("label=laptop").send().await.unwrap();
        let (status, body) = (answer.status().as_u16(), answer.json::<Value>().await.unwrap());
        (status, body["identifier"].as_str().unwrap_or_default().to_owned())
    };
    // A client's own entry precedes the one that the proxy adds.
    for number in 0..20 {
        assert_eq!(request_through(&format!("198.51.100.{number}, 203.0.113.9")).await.0, 201);
    }
    assert_eq!(request_through("203.0.113.9").await.0, 429);
    let (status, identifier) = request_through("203.0.113.10").await;
    assert_eq!(status, 201);
    let page = browser.open(&page_of(&identifier)).await;
    assert!(page.html.contains("UTC from 203.0.113.10 (reported by 127.0.0.1)<"), "{}", page.html);
    pending_token(&app).await;
    // A client that is no proxy can claim any address, and shares the limit of its actual address.
    for number in 21..400 {
        assert_eq!(
            request_through(&format!("10.1.{}.{}", number / 250, number % 250)).await.0,
            201,
            "{number}"
        );
    }
    // The client with most requests makes room for another one of the proxy, and not for itself.
    assert_eq!(request_through("203.0.113.11").await.0, 201);
    assert_eq!(request_through("203.0.113.9").await.0, 429);
    let rows = entity::token_request::Entity::find().all(&app.database.connection().await).await.unwrap();
    let of = |client: &str| {
        let address = format!("{client} (reported by 127.0.0.1)");
        rows.iter().filter(|row| row.address == address).count()
    };
    assert_eq!((of("203.0.113.9"), of("203.0.113.10"), of("203.0.113.11"), rows.len()), (19, 1, 1, 401));
    pending_token(&app).await;
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
    // Only hashes are stored, as for every token.
    let (_, body) = request(&app, "x").await;
    let secret = body["token"].as_str().unwrap().split_once('-').unwrap().1.to_owned();
    let rows = entity::token_request::Entity::find().all(&app.database.connection().await).await.unwrap();
    assert!(rows.iter().all(|row| row.secret_hash.len() == 32 && !format!("{row:?}").contains(&secret)));
    app.stop().await;
}

#[tokio::test]
async fn a_token_is_good_for_no_more_than_was_requested_and_chosen() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let request_scope = async |scope: Option<&str>| {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("label", "x");
        if let Some(scope) = scope {
            form.append_pair("scope", scope);
        }
        let answer = app
            .anonymous(Method::POST, "/api/v1/api-tokens-no-user/")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form.finish())
            .send()
            .await
            .unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let values = |html: &str| -> Vec<String> {
        let (_, rest) = html.split_once("<select name=\"scopes\">").unwrap();
        let (options, _) = rest.split_once("</select>").unwrap();
        options.split("value=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    let every = ["ingest read admin", "ingest read", "read", "ingest"];
    for (requested, offered, chosen, scopes) in [
        (None, &every[..], None, json!(["ingest", "read", "admin"])),
        (None, &every, Some("ingest read"), json!(["ingest", "read"])),
        (Some(""), &every, Some("read"), json!(["read"])),
        (Some("ingest"), &["ingest"], None, json!(["ingest"])),
        (Some("read ingest"), &["ingest read", "read", "ingest"], Some("ingest"), json!(["ingest"])),
        // No token gets more scopes than requested, whatever the form contains.
        (Some("ingest"), &["ingest"], Some("ingest read admin"), json!(["ingest"])),
        (Some("ingest admin"), &["ingest admin", "ingest"], None, json!(["ingest", "admin"])),
    ] {
        let (status, body) = request_scope(requested).await;
        assert_eq!(status, 201, "{body}");
        let identifier = body["identifier"].as_str().unwrap();
        let page = browser.open(&page_of(identifier)).await;
        assert_eq!(values(&page.html), offered, "{requested:?}");
        let mut fields = vec![("account", "ada"), ("days", ""), ("decision", "approve")];
        fields.extend(chosen.map(|chosen| ("scopes", chosen)));
        assert_eq!(decide(&browser, identifier, &fields).await.status, StatusCode::OK);
        let row = entity::api_token::Entity::find()
            .filter(entity::api_token::Column::Identifier.eq(identifier))
            .one(&app.database.connection().await)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(json!(row.scopes), scopes, "{requested:?} {chosen:?}");
    }
    for wrong in ["all", "ingest,read", "READ"] {
        let (status, body) = request_scope(Some(wrong)).await;
        assert_eq!((status, &body["pointer"]), (400, &json!("/scope")), "{wrong}: {body}");
    }
    let (_, body) = request_scope(Some("ingest")).await;
    let page = browser.open(&page_of(body["identifier"].as_str().unwrap())).await;
    assert!(page.html.contains("requests a token that can only report clusters."), "{}", page.html);
    let fields = [("account", "ada"), ("days", ""), ("scopes", "write"), ("decision", "approve")];
    let page = decide(&browser, body["identifier"].as_str().unwrap(), &fields).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    app.stop().await;
}
