//! Signing in with a name and a password.

use std::{
    net::{IpAddr, Ipv4Addr},
    process::Stdio,
    time::{Duration, Instant},
};

use harness::{Browser, Database, Page, Program, TestApp};
use reqwest::{StatusCode, header};
use sea_orm::EntityTrait;
use tokio::io::AsyncWriteExt;

async fn try_with(browser: &Browser, name: &str, password: &str) -> Page {
    browser.submit("/sign-in", &[("username", name), ("password", password)]).await
}

fn retry_after(page: &Page) -> Option<&str> {
    page.headers.get(header::RETRY_AFTER).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn an_operator_sets_a_password_and_its_user_signs_in() {
    let database = Database::empty().await;
    let run = async |arguments: &[&str], input: &str| {
        let arguments = [arguments, &["--database-url", database.url(), "--log", "trace"]].concat();
        let mut child = Program::command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = child.wait_with_output().await.unwrap();
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(!texts.concat().contains("correct horse"), "{texts:?}");
        (output.status.code(), texts[1].clone())
    };
    run(&["account", "create", "team"], "").await;
    run(&["user", "create", "ada", "--account", "team"], "").await;
    for (name, input, status, message) in [
        ("ada", "short\n", 1, "a password must have at least 12 characters"),
        ("ada", "", 1, "a password must have at least 12 characters"),
        ("ada", "ada-ada-ada-ada\n", 1, "a password must not be made of the user's name alone"),
        ("bob", "correct horse\n", 1, "there is no user 'bob'"),
        ("ada", "correct horse 1\n", 0, ""),
        ("ada", "correct horse 2\r\nand more", 0, ""),
    ] {
        let (answered, errors) = run(&["user", "password", name], input).await;
        assert_eq!(answered, Some(status), "{input:?}: {errors}");
        assert!(errors.contains(message), "{input:?}: {errors}");
    }
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let browser = Browser::at(&server.url(""), Ipv4Addr::LOCALHOST.into());
    let page = try_with(&browser, "ada", "correct horse 1").await;
    assert_eq!(page.status, StatusCode::UNAUTHORIZED, "the second password took the place of the first");
    browser.sign_in("ada", "correct horse 2").await;
    assert!(browser.open("/").await.html.contains("You are signed in as <strong>ada</strong>"));
    // What is stored is the hash that OWASP asks for.
    let rows = entity::password::Entity::find().all(&database.connection().await).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
}

#[tokio::test]
async fn a_wrong_name_and_a_wrong_password_are_one_and_the_same() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    app.browser(&ada).await;
    // Bob is a user without a password; of the others nobody can be one.
    let names = [ada.name(), "nobody", bob.name(), "Not A Name", ""];
    let mut fastest = [Duration::MAX; 5];
    let mut pages = Vec::new();
    // One after the other, so that what else the machine does is spread over all of them.
    for attempt in 0..4_u8 {
        for (number, name) in names.into_iter().enumerate() {
            // An address of its own, so that what failed before slows nothing.
            let from = IpAddr::from([127, 1, attempt, u8::try_from(number).unwrap() + 1]);
            let begun = Instant::now();
            let page = try_with(&Browser::at(&app.url(""), from), name, "wrong password").await;
            fastest[number] = fastest[number].min(begun.elapsed());
            assert_eq!((page.status, page.set_cookies.len()), (StatusCode::UNAUTHORIZED, 0), "{name}");
            pages.push(page.html.replace(&format!("required value=\"{name}\""), "required value=\"\""));
        }
    }
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:#?}");
    let (least, most) = (*fastest.iter().min().unwrap(), *fastest.iter().max().unwrap());
    // Not hashing would be a hundred times faster.
    assert!(most < least * 10, "{fastest:?}");
    app.stop().await;
}

#[tokio::test]
async fn failures_slow_an_address_and_lock_nobody_out() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let signed_in = app.browser(&ada).await;
    let (password, guesser) = ("password of ada", Browser::new(&app));
    for _ in 0..5 {
        assert_eq!(try_with(&guesser, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    }
    // Also with the right one, since it is not looked at.
    for password in ["a guess too many", password] {
        let page = try_with(&guesser, "ada", password).await;
        assert_eq!(
            (page.status, retry_after(&page)),
            (StatusCode::TOO_MANY_REQUESTS, Some("1")),
            "{}",
            page.html
        );
    }
    assert_eq!(signed_in.open("/password").await.status, StatusCode::OK, "a session goes on");
    app.set_clock("2026-11-20T12:00:01Z");
    assert_eq!(try_with(&guesser, "nobody", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    let page = try_with(&guesser, "ada", password).await;
    assert_eq!(
        (page.status, retry_after(&page)),
        (StatusCode::TOO_MANY_REQUESTS, Some("2")),
        "{}",
        page.html
    );
    // From elsewhere the name is tried by its owner, who is held for a second and let in.
    let begun = Instant::now();
    Browser::at(&app.url(""), IpAddr::from([127, 0, 0, 2])).sign_in("ada", password).await;
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    // Who waits is heard, and all is forgotten in the end.
    app.set_clock("2026-11-20T12:00:03Z");
    guesser.sign_in("ada", password).await;
    app.set_clock("2026-11-20T12:10:00Z");
    for _ in 0..4 {
        assert_eq!(try_with(&guesser, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    }
    guesser.sign_in("ada", password).await;
    app.stop().await;
}

#[tokio::test]
async fn guesses_at_once_are_no_more_than_guesses_one_after_the_other() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.browser(&ada).await;
    let guesser = Browser::new(&app);
    let all = (0..40).map(|_| try_with(&guesser, "ada", "a guess too many"));
    let pages = futures::future::join_all(all).await;
    let tried = pages.iter().filter(|page| page.status == StatusCode::UNAUTHORIZED).count();
    let refused = pages.iter().filter(|page| page.status == StatusCode::TOO_MANY_REQUESTS).count();
    assert_eq!((tried, refused), (5, 35));
    app.stop().await;
}

#[tokio::test]
async fn who_changes_a_password_shows_the_old_one_and_ends_the_other_sessions() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (here, elsewhere) = (app.browser(&ada).await, Browser::new(&app));
    elsewhere.sign_in("ada", "password of ada").await;
    assert_eq!(
        Browser::new(&app).open("/password").await.location.unwrap(),
        "/sign-in?return_to=%2Fpassword"
    );
    let page = here.open("/password").await;
    let csrf = page.field("csrf").unwrap();
    let change = async |csrf: &str, old: &str, new: &str| {
        here.submit("/password", &[("csrf", csrf), ("old", old), ("new", new)]).await
    };
    for (csrf, old, new, status, text) in [
        ("", "password of ada", "a better password", 403, "the form is not one of this session"),
        (csrf, "not it at all", "a better password", 401, "the name or the password is wrong"),
        (csrf, "password of ada", "too short", 422, "must have at least 12 characters"),
        (csrf, "password of ada", "a better password", 200, "The password is changed."),
    ] {
        let page = change(csrf, old, new).await;
        assert_eq!(page.status, status, "{}", page.html);
        assert!(page.html.contains(text), "{}", page.html);
    }
    assert_eq!(here.open("/password").await.status, StatusCode::OK, "this session goes on");
    assert!(elsewhere.open("/password").await.location.is_some(), "the other one has ended");
    assert_eq!(try_with(&elsewhere, "ada", "password of ada").await.status, StatusCode::UNAUTHORIZED);
    elsewhere.sign_in("ada", "a better password").await;
    app.stop().await;
}

#[tokio::test]
async fn passwords_cookies_and_tokens_are_in_no_log_and_no_file() {
    let database = Database::empty().await;
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let arguments = [
        "serve",
        "--bootstrap",
        "--listen",
        "127.0.0.1:0",
        "--log",
        "trace",
        "--database-url",
        database.url(),
    ];
    let mut command = Program::command(&arguments);
    command.env("GALVO_SECRET_KEY", "dGhpcyBpcyBhIGtleSBmb3IgdGVzdHMsIG5vIG1vcmU");
    let server = Program::spawn(command.stderr(std::fs::File::create(&log).unwrap())).await;
    let mut password = Program::command(&["user", "password", "admin", "--database-url", database.url()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    password.stdin.take().unwrap().write_all(b"first secret password").await.unwrap();
    assert!(password.wait().await.unwrap().success());

    let browser = Browser::at(&server.url(""), Ipv4Addr::LOCALHOST.into());
    try_with(&browser, "typed secret password", "typed secret password").await;
    try_with(&browser, "admin", "wrong secret password").await;
    browser.sign_in("admin", "first secret password").await;
    let csrf = browser.csrf().await;
    let change =
        [("csrf", csrf.as_str()), ("old", "first secret password"), ("new", "second secret password")];
    assert_eq!(browser.submit("/password", &change).await.status, StatusCode::OK);
    let asked = server.client().post(server.url("/api/v1/api-tokens-no-user/"));
    let asked = asked.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body("label=laptop");
    let asked: serde_json::Value = asked.send().await.unwrap().json().await.unwrap();
    let (identifier, token) = (asked["identifier"].as_str().unwrap(), asked["token"].as_str().unwrap());
    let me =
        async || server.client().get(server.url("/api/v2/user/me")).bearer_auth(token).send().await.unwrap();
    assert_eq!(me().await.status(), StatusCode::UNAUTHORIZED);
    let activate =
        [("csrf", csrf.as_str()), ("id", identifier), ("account", "default"), ("decision", "approve")];
    assert_eq!(browser.submit("/activate-token", &activate).await.status, StatusCode::OK);
    assert_eq!(me().await.status(), StatusCode::OK);
    let cookie = browser.cookie("galvo_session").unwrap();
    let secrets = ["secret password", &cookie, &csrf, token.split_once('-').unwrap().1];
    assert_eq!(server.terminate().await, Some(0));

    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("a sign-in failed") && text.len() > 10_000, "the log is one: {text}");
    for secret in secrets {
        let line = text.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
    let Some(file) = database.url().strip_prefix("sqlite://").and_then(|url| url.split('?').next()) else {
        return;
    };
    for suffix in ["", "-wal"] {
        let bytes = std::fs::read(format!("{file}{suffix}")).unwrap_or_default();
        for secret in secrets {
            assert!(
                !bytes.windows(secret.len()).any(|window| window == secret.as_bytes()),
                "{secret} in {suffix}"
            );
        }
    }
}
