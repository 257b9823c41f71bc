//! Links with which users sign in once.

use entity::{membership::Role, sign_in_link};
use galvo::{encryption::Keys, key_ring::KeySource};
use harness::{Browser, Database, Program, TestApp};
use reqwest::{Method, StatusCode};
use sea_orm::EntityTrait;
use serde_json::{Value, json};

const PATH: &str = "/sign-in/link";

/// The secret in the fragment of a link.
fn secret(link: &str) -> &str {
    let (page, secret) = link.split_once('#').unwrap();
    assert!(page.ends_with(PATH), "{link}");
    assert_eq!(secret.len(), 43, "256 bits in base64: {link}");
    secret
}

/// Creates a link for a user, as an operator does, and returns its secret.
async fn link(app: &TestApp, name: &str) -> String {
    let link = app.sign_in_links().create_for(&name.parse().unwrap()).await.unwrap();
    secret(&link.path()).to_owned()
}

/// Sends the form, and returns its status and the name of the user who is then signed in.
async fn submit(app: &TestApp, secret: &str) -> (u16, Option<String>) {
    let browser = Browser::new(app);
    let page = browser.submit(PATH, &[("secret", secret)]).await;
    let session = browser.request(Method::GET, "/api/v1/session").send().await.unwrap();
    let session: Value = session.json().await.unwrap();
    (page.status.as_u16(), session["username"].as_str().map(str::to_owned))
}

const REFUSED: (u16, Option<String>) = (401, None);

fn signed_in(name: &str) -> (u16, Option<String>) {
    (303, Some(name.to_owned()))
}

#[tokio::test]
async fn a_link_signs_its_user_in_once() {
    let app = TestApp::start().await;
    let (_, bob) = (app.account("ada").await, app.account("bob").await);
    app.join("ada", "bob", Role::Viewer, None).await;
    let secret = link(&app, "ada").await;
    // What previews links, or checks them, opens the page and does not send its form.
    for method in [Method::GET, Method::HEAD, Method::GET] {
        let page = app.anonymous(method, PATH).send().await.unwrap();
        assert_eq!(page.status(), 200);
    }
    let browser = Browser::new(&app);
    let page = browser.submit(PATH, &[("secret", &secret)]).await;
    assert_eq!((page.status.as_u16(), page.location.as_deref()), (303, Some("/")), "{}", page.html);
    assert!(browser.cookie("galvo_session").is_some());
    assert_eq!(submit(&app, &secret).await, REFUSED, "it was used");

    // The audit logs of all accounts of the user have the link, its end, and the session.
    let query =
        "{ viewer { account { auditLog(first: 2) { nodes { action userName credential detail } } } } }";
    let log = bob.query(query, json!({})).await["viewer"]["account"]["auditLog"]["nodes"].take();
    let expected = json!([
        { "action": "SIGN_IN", "userName": "ada", "credential": "SESSION", "detail": { "by": "link" } },
        { "action": "CREATE_SIGN_IN_LINK", "userName": null, "credential": "OPERATOR",
          "detail": { "expires_at": "2026-11-20T12:15:00+00:00" } },
    ]);
    assert_eq!(log, expected);
    app.stop().await;
}

#[tokio::test]
async fn of_two_requests_with_one_link_one_signs_in() {
    let app = TestApp::start().await;
    app.account("ada").await;
    for _ in 0..5 {
        let secret = link(&app, "ada").await;
        let (one, other) = tokio::join!(submit(&app, &secret), submit(&app, &secret));
        let mut both = [one, other];
        both.sort();
        assert_eq!(both, [signed_in("ada"), REFUSED]);
    }
    app.stop().await;
}

#[tokio::test]
async fn a_link_ends_before_it_is_used() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.account("bob").await;
    let name = "ada".parse().unwrap();

    let (first, of_bob) = (link(&app, "ada").await, link(&app, "bob").await);
    let second = link(&app, "ada").await;
    assert_eq!(submit(&app, &first).await, REFUSED, "another link replaced it");
    assert_eq!(submit(&app, &second).await, signed_in("ada"));
    assert_eq!(submit(&app, &of_bob).await, signed_in("bob"), "that of another user stays");

    let secret = link(&app, "ada").await;
    app.accounts().set_password(&name, "password of ada".to_owned()).await.unwrap();
    assert_eq!(submit(&app, &secret).await, REFUSED, "a password was set");
    let secret = link(&app, "ada").await;
    app.accounts().end_sessions(&name).await.unwrap();
    assert_eq!(submit(&app, &secret).await, REFUSED, "the sessions were ended");

    let (late, timely) = ("2026-11-20T12:15:00Z", "2026-11-20T12:14:59.999Z");
    let secret = link(&app, "ada").await;
    app.set_clock(late);
    assert_eq!(submit(&app, &secret).await, REFUSED, "a quarter of an hour passed");
    app.set_clock("2026-11-20T12:00:00Z");
    let secret = link(&app, "ada").await;
    app.set_clock(timely);
    assert_eq!(submit(&app, &secret).await, signed_in("ada"));

    let secret = link(&app, "ada").await;
    let again = TestApp::start_beside(&app, KeySource::Ring(Keys::generate())).await;
    assert_eq!(submit(&again, &secret).await, REFUSED, "a server started");
    let secret = link(&again, "ada").await;
    assert_eq!(submit(&app, &secret).await, signed_in("ada"), "all servers know a link");
    drop(ada);
    again.stop().await;
    app.stop().await;
}

#[tokio::test]
async fn only_the_forms_of_the_server_and_only_secrets_are_accepted() {
    let app = TestApp::start().await;
    app.account("ada").await;
    let secret = link(&app, "ada").await;
    // Another page could sign a browser in under a user of its choice.
    let browser = Browser::new(&app);
    let page = browser.submit_from("https://evil.example", PATH, &[("secret", &secret)]).await;
    assert_eq!((page.status, page.set_cookies.len()), (StatusCode::FORBIDDEN, 0));
    let other = secret.chars().rev().collect::<String>();
    for wrong in ["", "x", &other, &"A".repeat(43), &format!("{secret}A"), &secret[1..]] {
        let page = browser.submit(PATH, &[("secret", wrong)]).await;
        assert_eq!((page.status.as_u16(), page.set_cookies.len()), (401, 0), "{wrong}");
        assert!(page.html.contains("galvo user sign-in-link NAME"), "{}", page.html);
        assert!(wrong.len() < 10 || !page.html.contains(wrong), "the text is not repeated");
    }
    // The row does not reveal the secret.
    let rows = sign_in_link::Entity::find().all(&app.database.connection().await).await.unwrap();
    let hash: Vec<u8> = sha2_of(&secret);
    assert_eq!(rows.iter().map(|row| &row.id).collect::<Vec<_>>(), [&hash]);
    assert_eq!(submit(&app, &secret).await, signed_in("ada"));
    let rows = sign_in_link::Entity::find().all(&app.database.connection().await).await.unwrap();
    assert_eq!(rows, [], "a used link leaves no row");
    app.stop().await;
}

fn sha2_of(secret: &str) -> Vec<u8> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use sha2::{Digest, Sha256};
    Sha256::digest(URL_SAFE_NO_PAD.decode(secret).unwrap()).to_vec()
}

#[tokio::test]
async fn the_page_runs_one_script_which_its_policy_names() {
    let app = TestApp::start().await;
    let page = Browser::new(&app).open(PATH).await;
    let script = page.html.split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
    assert!(!script.contains("submit") && !script.contains("fetch"), "the user sends the form: {script}");
    let hash = {
        use base64::{Engine, engine::general_purpose::STANDARD};
        use sha2::{Digest, Sha256};
        STANDARD.encode(Sha256::digest(script))
    };
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains(&format!("; script-src 'sha256-{hash}'")), "{policy}");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.headers["referrer-policy"], "same-origin");
    assert!(page.html.contains("<input name=\"secret\" autocomplete=\"off\""), "{}", page.html);
    app.stop().await;
}

/// Reads the output of a server until the line with the store, and returns the link in it.
async fn printed_link(server: &mut Program) -> Option<String> {
    let mut link = None;
    loop {
        let output = server.output.next_line().await.unwrap().expect("the server prints where its store is");
        if let Some(rest) = output.strip_prefix("sign in:") {
            link = rest.split_whitespace().next().filter(|link| link.contains('#')).map(str::to_owned);
        }
        if output.starts_with("store:") {
            return link;
        }
    }
}

#[tokio::test]
async fn the_first_start_prints_a_link_if_only_this_machine_reaches_the_server() {
    let database = Database::empty().await;
    let mut server = Program::serve(database.url(), "127.0.0.1:0", &["--bootstrap"]).await;
    let link = printed_link(&mut server).await.unwrap();
    assert!(link.starts_with(&server.url("/sign-in/link#")), "{link}");
    let form = format!("secret={}", secret(&link));
    let submit = async |server: &Program, form: String| {
        let request = server.client().post(server.url(PATH)).body(form);
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        let answer = request.header("Origin", server.url("")).send().await.unwrap();
        // The client follows the redirect to the front page.
        (answer.url().path().to_owned(), answer.status().as_u16())
    };
    assert_eq!(submit(&server, form.clone()).await, ("/".to_owned(), 200));
    assert_eq!(submit(&server, form).await, (PATH.to_owned(), 401));
    assert_eq!(server.terminate().await, Some(0));

    let mut server = Program::serve(database.url(), "127.0.0.1:0", &["--bootstrap"]).await;
    assert_eq!(printed_link(&mut server).await, None, "the store is not empty");
    server.terminate().await;
    let mut server = Program::serve(database.url(), "127.0.0.1:0", &["--sign-in-link"]).await;
    let first = printed_link(&mut server).await.unwrap();
    assert_eq!(server.terminate().await, Some(0));
    let public = ["--sign-in-link", "--public-url", "http://localhost:1/galvo"];
    let mut server = Program::serve(database.url(), "127.0.0.1:0", &public).await;
    let second = printed_link(&mut server).await.unwrap();
    assert!(second.starts_with("http://localhost:1/galvo/sign-in/link#"), "{second}");
    let submit = async |link: &str| {
        let request = server.client().post(server.url(PATH)).body(format!("secret={}", secret(link)));
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        request.header("Origin", "http://localhost:1").send().await.unwrap().status().as_u16()
    };
    assert_eq!(submit(&first).await, 401, "the server restarted");
    // The client follows the redirect below the path, which this server answers as well.
    assert_eq!(submit(&second).await, 200);
    assert_eq!(server.terminate().await, Some(0));

    let others = Database::empty().await;
    let mut server = Program::serve(others.url(), "0.0.0.0:0", &["--bootstrap"]).await;
    assert_eq!(printed_link(&mut server).await, None, "others reach the server");
    server.terminate().await;
    let nobody = Database::empty().await;
    let mut server = Program::serve(nobody.url(), "127.0.0.1:0", &["--sign-in-link"]).await;
    assert_eq!(printed_link(&mut server).await, None, "there is no owner");
    server.terminate().await;
}

#[tokio::test]
async fn an_operator_prints_a_link_for_a_user() {
    let app = TestApp::start().await;
    app.account("ada").await;
    let run = async |arguments: &[&str]| {
        let database = ["--database-url", app.database.url(), "--log", "off"];
        Program::run(&[&["user", "sign-in-link"], arguments, &database].concat()).await
    };
    let (status, link, error) = run(&["ada"]).await;
    assert_eq!(status, Some(0), "{error}");
    assert!(link.starts_with("http://127.0.0.1:8000/sign-in/link#") && link.ends_with('\n'), "{link}");
    assert_eq!(submit(&app, secret(link.trim())).await, signed_in("ada"));
    let (_, link, _) = run(&["ada", "--url", "https://tools.example/galvo/"]).await;
    assert!(link.starts_with("https://tools.example/galvo/sign-in/link#"), "{link}");
    let (status, output, error) = run(&["nobody"]).await;
    assert_eq!((status, &*output, &*error), (Some(1), "", "galvo: there is no user 'nobody'\n"));
    app.stop().await;
}
