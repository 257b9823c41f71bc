//! Browser sessions: their cookie, their end, and cross-site requests.

use entity::membership::Role;
use harness::{Browser, Member, TestApp};
use reqwest::{Method, StatusCode, header};
use sea_orm::EntityTrait;
use serde_json::{Value, json};

const WHO: &str = "{ viewer { scopes user { name } account { slug } } }";

/// Sends a query from a browser with additional headers, and returns the status and body.
async fn send_query(browser: &Browser, query: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let mut request = browser.request(Method::POST, "/graphql").json(&json!({ "query": query }));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn code(answer: &Value) -> &str {
    answer["code"].as_str().or(answer["errors"][0]["extensions"]["code"].as_str()).unwrap_or_default()
}

/// The value of a cookie in a `Set-Cookie` header.
fn browser_cookie(line: &str, name: &str) -> String {
    line.strip_prefix(&format!("{name}=")).unwrap().split(';').next().unwrap().to_owned()
}

/// True if a browser is still signed in.
async fn is_signed_in(browser: &Browser) -> bool {
    browser.request(Method::GET, "/api/v1/session").send().await.unwrap().status() == StatusCode::OK
}

#[tokio::test]
async fn the_cookie_is_for_this_server_and_no_script() {
    let app = TestApp::start().await;
    app.browser(&app.account("ada").await).await;
    let sign_in = [("username", "ada"), ("password", "password of ada")];
    let page = Browser::new(&app).submit("/sign-in", &sign_in).await;
    let value = page.set_cookies[0].strip_prefix("galvo_session=").unwrap().split(';').next().unwrap();
    assert_eq!(value.len(), 43);
    let attributes = format!("galvo_session={value}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax");
    assert_eq!(page.set_cookies[0], attributes);
    // A second cookie distinguishes the browser from others at its address, and grants no access.
    let device = browser_cookie(&page.set_cookies[1], "galvo_device");
    let attributes = format!("galvo_device={device}; Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax");
    assert_eq!(page.set_cookies[1..], [attributes]);
    assert!(!device.contains("ada"));
    app.stop().await;

    let app =
        TestApp::start_with(|serve| serve.public_url = Some("https://galvo.example".parse().unwrap())).await;
    let ada = app.account("ada").await;
    app.accounts().set_password(&"ada".parse().unwrap(), "password of ada".to_owned()).await.unwrap();
    let browser = Browser::new(&app);
    let refused = browser.submit("/sign-in", &sign_in).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "the server has another name: {}", refused.html);
    let page = browser.submit_from("https://galvo.example", "/sign-in", &sign_in).await;
    let value = browser.cookie("__Host-galvo").unwrap();
    let attributes = format!("__Host-galvo={value}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure");
    let device = browser.cookie("__Host-galvo-device").unwrap();
    let of_device =
        format!("__Host-galvo-device={device}; Path=/; Max-Age=34560000; HttpOnly; SameSite=Lax; Secure");
    assert_eq!(page.set_cookies, [attributes, of_device]);
    assert!(is_signed_in(&browser).await);
    // The stored data does not reveal the session's secret.
    let rows = entity::session::Entity::find().all(&app.database.connection().await).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert!(!rows[0].id.windows(8).any(|bytes| value.as_bytes().windows(8).any(|known| known == bytes)));
    // A cookie without the prefix may come from another server of the same host.
    let other = Browser::new(&app);
    other.set_cookie("galvo_session", &value);
    assert!(!is_signed_in(&other).await);
    drop(ada);
    app.stop().await;
}

#[tokio::test]
async fn a_session_is_good_for_what_its_user_may_do() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let csrf = browser.csrf().await;
    let session: Value =
        browser.request(Method::GET, "/api/v1/session").send().await.unwrap().json().await.unwrap();
    assert_eq!(
        session,
        json!({ "username": "ada", "csrf_token": csrf, "expires_at": "2026-12-20T12:00:00Z" })
    );
    let everything = json!({ "scopes": ["INGEST", "READ", "ADMIN"], "user": { "name": "ada" }, "account": { "slug": "ada" } });
    let (status, answer) = send_query(&browser, WHO, &[("galvo-csrf", &csrf)]).await;
    assert_eq!((status, &answer["data"]["viewer"]), (200, &everything));
    let me = browser.request(Method::GET, "/api/v2/user/me").send().await.unwrap();
    assert_eq!(me.json::<Value>().await.unwrap()["username"], "ada");
    let by_get =
        browser.request(Method::GET, "/graphql?query=%7Bviewer%7Buser%7Bname%7D%7D%7D").send().await.unwrap();
    assert_eq!(
        by_get.json::<Value>().await.unwrap()["data"],
        json!({ "viewer": { "user": { "name": "ada" } } })
    );
    // A session gives no access to an account without membership, or to one that does not exist.
    app.account("bob").await;
    for account in ["bob", "nobody"] {
        let (status, answer) =
            send_query(&browser, WHO, &[("galvo-csrf", &csrf), ("galvo-account", account)]).await;
        assert_eq!((status, code(&answer)), (403, "ACCOUNT_MISMATCH"), "{account}: {answer}");
    }
    app.member_with("ada", "bob", Role::Viewer).await;
    let (_, answer) = send_query(&browser, WHO, &[("galvo-csrf", &csrf), ("galvo-account", "bob")]).await;
    let reader = json!({ "scopes": ["READ"], "user": { "name": "ada" }, "account": { "slug": "bob" } });
    assert_eq!(answer["data"]["viewer"], reader);
    app.stop().await;
}

#[tokio::test]
async fn what_somebody_elses_page_sends_is_refused() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let (browser, other) = (app.browser(&ada).await, app.browser(&bob).await);
    let (csrf, others, own) = (browser.csrf().await, other.csrf().await, app.url(""));
    let foreign = "https://evil.example";
    for (headers, status, refusal) in [
        (&[("galvo-csrf", csrf.as_str())][..], 200, ""),
        (&[("galvo-csrf", &csrf), ("origin", &own), ("sec-fetch-site", "same-origin")], 200, ""),
        (&[], 403, "CSRF"),
        (&[("galvo-csrf", "")], 403, "CSRF"),
        (&[("galvo-csrf", &others)], 403, "CSRF"),
        (&[("galvo-csrf", &csrf), ("galvo-csrf", &csrf)], 403, "CSRF"),
        (&[("galvo-csrf", &csrf), ("origin", foreign)], 403, "CSRF"),
        (&[("galvo-csrf", &csrf), ("origin", "null")], 403, "CSRF"),
        (&[("galvo-csrf", &csrf), ("sec-fetch-site", "cross-site")], 403, "CSRF"),
        (&[("galvo-csrf", &csrf), ("sec-fetch-site", "same-site")], 403, "CSRF"),
        // Credentials in the header take precedence over the cookie, valid or not, and no other site has
        // them.
        (&[("authorization", &format!("Bearer {}", bob.secret())), ("origin", foreign)], 200, ""),
        (&[("authorization", "Bearer id-wrong"), ("galvo-csrf", &csrf)], 401, "UNAUTHENTICATED"),
    ] {
        let (answered, answer) = send_query(&browser, WHO, headers).await;
        assert_eq!((answered, code(&answer)), (status, refusal), "{headers:?}: {answer}");
    }
    // Other mutating routes are protected by the same middleware.
    for path in ["/api/v1/reports", "/api/v1/api-tokens/", "/api/v2/interactions/interaction"] {
        let answer = browser.request(Method::POST, path).json(&json!({})).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}");
    }
    let get = browser.request(Method::GET, "/api/v2/user/me").header("sec-fetch-site", "cross-site");
    assert_eq!(get.send().await.unwrap().status(), StatusCode::FORBIDDEN);
    // Forms: a cross-site sign-in, a cross-site sign-out, and a token of another session.
    let credentials = [("username", "bob"), ("password", "password of bob")];
    let page = Browser::new(&app).submit_from(foreign, "/sign-in", &credentials).await;
    assert_eq!((page.status, page.set_cookies.len()), (StatusCode::FORBIDDEN, 0));
    for (origin, token) in [(foreign, &csrf), (own.as_str(), &others), (own.as_str(), &String::new())] {
        let page = browser.submit_from(origin, "/sign-out", &[("csrf", token)]).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{origin}");
    }
    assert!(is_signed_in(&browser).await);
    app.stop().await;
}

#[tokio::test]
async fn a_session_ends_when_its_user_wants() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let (second, third) = (Browser::new(&app), Browser::new(&app));
    for browser in [&second, &third] {
        browser.sign_in("ada", "password of ada").await;
    }
    let cookie = browser.cookie("galvo_session").unwrap();
    let page = browser.submit("/sign-out", &[("csrf", &browser.csrf().await)]).await;
    assert_eq!(page.location.as_deref(), Some("/sign-in"));
    assert_eq!(page.set_cookies, ["galvo_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"]);
    // A copy of the cookie is useless.
    browser.set_cookie("galvo_session", &cookie);
    let (status, answer) = send_query(&browser, WHO, &[]).await;
    assert_eq!((status, code(&answer)), (403, "CSRF"));
    let me = browser.request(Method::GET, "/api/v2/user/me").send().await.unwrap();
    assert_eq!(me.status(), StatusCode::UNAUTHORIZED);
    assert!(is_signed_in(&second).await && is_signed_in(&third).await);
    second.submit("/sign-out", &[("csrf", &second.csrf().await), ("everywhere", "1")]).await;
    assert!(!is_signed_in(&second).await && !is_signed_in(&third).await);
    app.stop().await;
}

#[tokio::test]
async fn a_session_ends_when_it_is_old_or_not_used() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let idle = app.browser(&ada).await;
    app.set_clock("2026-11-27T11:59:59Z");
    assert!(is_signed_in(&idle).await, "in the last second of seven days it is used");
    app.set_clock("2026-12-04T11:59:58Z");
    assert!(is_signed_in(&idle).await);
    app.set_clock("2026-12-11T11:59:58Z");
    assert!(!is_signed_in(&idle).await, "seven days it was not");

    let used = Browser::new(&app);
    used.sign_in("ada", "password of ada").await;
    for day in 12..=31 {
        app.set_clock(&format!("2026-12-{day}T12:00:00Z"));
        assert!(is_signed_in(&used).await, "{day}");
    }
    for (time, is_over) in
        [("2027-01-06T12:00:00Z", false), ("2027-01-10T11:59:57Z", false), ("2027-01-10T11:59:58Z", true)]
    {
        app.set_clock(time);
        assert_eq!(is_signed_in(&used).await, !is_over, "{time}");
    }
    // Expired sessions are removed at the next sign-in.
    Browser::new(&app).sign_in("ada", "password of ada").await;
    let rows = entity::session::Entity::find().all(&app.database.connection().await).await.unwrap();
    assert_eq!(rows.len(), 1);
    app.stop().await;
}

#[tokio::test]
async fn using_a_session_writes_once_in_a_while() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let browser = app.browser(&ada).await;
    let statements = async || {
        let before = app.statements();
        assert!(is_signed_in(&browser).await);
        app.statements() - before
    };
    for (time, expected) in
        [("12:00:00", 1), ("12:04:59", 1), ("12:05:00", 2), ("12:05:01", 1), ("12:10:00", 2)]
    {
        app.set_clock(&format!("2026-11-20T{time}Z"));
        assert_eq!(statements().await, expected, "{time}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_sessions() {
    let app = TestApp::start().await;
    let oldest = app.browser(&app.account("ada").await).await;
    for second in 1..50 {
        app.set_clock(&format!("2026-11-20T12:00:{second:02}Z"));
        Browser::new(&app).sign_in("ada", "password of ada").await;
    }
    assert!(is_signed_in(&oldest).await);
    app.set_clock("2026-11-20T12:01:00Z");
    Browser::new(&app).sign_in("ada", "password of ada").await;
    assert!(!is_signed_in(&oldest).await, "the fifty-first ended the first");
    let rows = entity::session::Entity::find().all(&app.database.connection().await).await.unwrap();
    assert_eq!(rows.len(), 50);
    app.stop().await;
}

#[tokio::test]
async fn who_is_no_member_any_more_has_a_session_for_nothing() {
    let app = TestApp::start().await;
    let ada: Member = app.account("ada").await;
    let bob = app.member("bob", "ada").await;
    let browser = app.browser(&bob).await;
    let csrf = browser.csrf().await;
    assert_eq!(send_query(&browser, WHO, &[("galvo-csrf", &csrf)]).await.0, 200);
    let id = bob.query("{ viewer { user { id } } }", json!({})).await["viewer"]["user"]["id"].clone();
    let remove = "mutation($id: ID!) { removeMember(user: $id) { userErrors { code } } }";
    ada.query(remove, json!({ "id": id })).await;
    let (status, answer) = send_query(&browser, WHO, &[("galvo-csrf", &csrf)]).await;
    assert_eq!((status, code(&answer)), (403, "ACCOUNT_MISMATCH"), "{answer}");
    app.stop().await;
}

#[tokio::test]
async fn after_signing_in_one_is_where_one_came_from() {
    let app = TestApp::start().await;
    app.browser(&app.account("ada").await).await;
    let browser = Browser::new(&app);
    let page = browser.open("/sign-in?return_to=%2Fpassword%3Fa%3D%26quot%3B").await;
    assert_eq!(page.field("return_to"), Some("/password?a=&amp;quot;"));
    for (path, back) in [
        ("/password?x=1", "/password?x=1"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example/", "/"),
    ] {
        let credentials = [("username", "ada"), ("password", "password of ada"), ("return_to", path)];
        let page = Browser::new(&app).submit("/sign-in", &credentials).await;
        assert_eq!(page.location.as_deref(), Some(back), "{path}");
    }
    // A signed-in user does not have to sign in again.
    browser.sign_in("ada", "password of ada").await;
    assert_eq!(browser.open("/sign-in?return_to=/password").await.location.as_deref(), Some("/password"));
    app.stop().await;
}

#[tokio::test]
async fn pages_run_nothing_and_stand_in_no_frame() {
    let app = TestApp::start().await;
    let browser = app.browser(&app.account("ada").await).await;
    for path in ["/", "/password", "/activate-token?id=x", "/activate-token?id=%3Cscript%3E"] {
        let page = browser.open(path).await;
        let policy = page.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        let (begin, end) = policy.split_once("style-src 'sha256-").unwrap();
        let rest = "form-action 'self'; frame-ancestors 'none'; base-uri 'none'";
        assert!(begin == "default-src 'none'; " && end.ends_with(rest), "{path}: {policy}");
        assert_eq!(page.headers[header::CACHE_CONTROL], "no-store", "{path}");
        assert_eq!(page.headers[header::CONTENT_TYPE], "text/html; charset=utf-8", "{path}");
        assert!(
            !page.html.contains("<script")
                && !page.html.contains("style=")
                && page.html.contains("<html lang=\"en\">")
        );
    }
    let name = [("username", "\"><script>alert(1)</script>"), ("password", "x")];
    let page = Browser::new(&app).submit("/sign-in", &name).await;
    assert!(
        page.html.contains("&quot;&gt;&lt;script&gt;") && !page.html.contains("<script"),
        "{}",
        page.html
    );
    app.stop().await;
}

#[tokio::test]
async fn a_user_lists_and_ends_single_sessions() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let first = app.browser(&ada).await;
    app.set_clock("2026-11-20T12:30:00Z");
    let (second, others) = (Browser::new(&app), app.browser(&bob).await);
    second.sign_in("ada", "password of ada").await;
    let call = async |browser: &Browser, query: &str| {
        let csrf = browser.csrf().await;
        send_query(browser, query, &[("galvo-csrf", &csrf)]).await
    };
    let list = "{ viewer { sessions { identifier startedAt lastUsedAt expiresAt isCurrent } } }";
    let listed = async |browser: &Browser| call(browser, list).await.1["data"]["viewer"]["sessions"].take();
    let sessions = listed(&second).await;
    let identifiers = [0, 1].map(|row: usize| sessions[row]["identifier"].as_str().unwrap().to_owned());
    let [newer, older] = &identifiers;
    let expected = json!([
        { "identifier": newer, "startedAt": "2026-11-20T12:30:00+00:00", "lastUsedAt": "2026-11-20T12:30:00+00:00",
          "expiresAt": "2026-12-20T12:30:00+00:00", "isCurrent": true },
        { "identifier": older, "startedAt": "2026-11-20T12:00:00+00:00", "lastUsedAt": "2026-11-20T12:00:00+00:00",
          "expiresAt": "2026-12-20T12:00:00+00:00", "isCurrent": false },
    ]);
    assert_eq!(sessions, expected);
    assert!(newer != older && newer.len() == 16, "{sessions}");
    // Neither half of the identity of a session in the database is shown.
    let rows = entity::session::Entity::find().all(&app.database.connection().await).await.unwrap();
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let stored: Vec<String> = rows.iter().map(|row| hex(&row.id)).collect();
    assert!(identifiers.iter().all(|shown| stored.iter().all(|id| !id.contains(shown.as_str()))));

    // The session of another user seems not to exist, and an API token sees and ends none.
    let end = |identifier: &str| {
        format!(
            "mutation {{ endSession(identifier: \"{identifier}\") {{ sessions {{ identifier }} userErrors {{ code }} }} }}"
        )
    };
    let theirs = listed(&others).await[0]["identifier"].as_str().unwrap().to_owned();
    let (_, refused) = call(&second, &end(&theirs)).await;
    assert_eq!(refused, call(&second, &end("0123456789abcdef")).await.1);
    assert_eq!(code(&refused), "NOT_FOUND");
    assert!(is_signed_in(&others).await);
    for query in [list, &end(older)] {
        let answer = ada.ask(query, json!({})).await;
        assert_eq!(code(&answer), "FORBIDDEN", "{answer}");
    }
    assert!(is_signed_in(&first).await);

    let (_, ended) = call(&second, &end(older)).await;
    let remaining = json!({ "sessions": [{ "identifier": newer }], "userErrors": [] });
    assert_eq!(ended["data"]["endSession"], remaining);
    assert!(!is_signed_in(&first).await && is_signed_in(&second).await);
    let log = "{ viewer { account { auditLog(filter: { action: END_SESSION }) { nodes { userName credential detail } } } } }";
    let entry = json!({ "userName": "ada", "credential": "SESSION", "detail": { "session": older } });
    assert_eq!(ada.query(log, json!({})).await["viewer"]["account"]["auditLog"]["nodes"], json!([entry]));

    // An operator ends the other one.
    let name = "ada".parse().unwrap();
    let row = app.accounts().sessions(Some(&name), 10).await.unwrap().remove(0);
    assert_eq!(row.identifier, *newer);
    app.accounts().end_session(&name, newer).await.unwrap();
    assert!(app.accounts().end_session(&name, newer).await.is_err());
    assert!(!is_signed_in(&second).await && is_signed_in(&others).await);
    app.stop().await;
}
