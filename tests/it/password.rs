//! Signing in with a name and a password.

use std::{
    net::{IpAddr, Ipv4Addr},
    process::Stdio,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream::FuturesUnordered};
use harness::{Browser, Database, Page, Program, TestApp};
use reqwest::{StatusCode, header};
use sea_orm::EntityTrait;
use serde_json::Value;
use tokio::io::AsyncWriteExt;

async fn try_with(browser: &Browser, name: &str, password: &str) -> Page {
    browser.submit("/sign-in", &[("username", name), ("password", password)]).await
}

fn retry_after(page: &Page) -> Option<&str> {
    page.headers.get(header::RETRY_AFTER).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn an_operator_sets_a_password_and_its_user_signs_in() {
    let database = Database::migrated().await;
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
    let session = browser.open("/api/v1/session").await;
    assert_eq!(session.status, StatusCode::OK);
    assert_eq!(serde_json::from_str::<Value>(&session.html).unwrap()["username"], "ada");
    // The stored hash has the parameters that OWASP recommends.
    let rows = entity::password::Entity::find().all(&database.connection().await).await.unwrap();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"));
}

#[tokio::test]
async fn a_wrong_name_and_a_wrong_password_are_one_and_the_same() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    app.browser(&ada).await;
    // Bob is a user without a password; the other names are no users.
    let names = [ada.name(), "nobody", bob.name(), "Not A Name", ""];
    let mut fastest = [Duration::MAX; 5];
    let mut pages = Vec::new();
    // In turn, so that other load on the machine affects all of them alike.
    for attempt in 0..24_u8 {
        let (least, most) = (fastest.iter().min().unwrap(), fastest.iter().max().unwrap());
        // Skipping the hash would be a hundred times faster. Load on the machine slows one attempt, but
        // not every attempt with one name.
        if attempt >= 4 && *most < *least * 10 {
            break;
        }
        for (number, name) in names.into_iter().enumerate() {
            // A separate address, so that earlier failures slow nothing.
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
    assert!(most < least * 10, "{fastest:?}");
    app.stop().await;
}

#[tokio::test]
async fn failures_slow_guesses_from_one_address_and_lock_nobody_out() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let signed_in = app.browser(&ada).await;
    let (password, guesser) = ("password of ada", Browser::new(&app));
    for _ in 0..5 {
        assert_eq!(try_with(&guesser, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    }
    // Even the right password is not checked.
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
    assert_eq!(try_with(&guesser, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    let page = try_with(&guesser, "ada", password).await;
    assert_eq!(
        (page.status, retry_after(&page)),
        (StatusCode::TOO_MANY_REQUESTS, Some("2")),
        "{}",
        page.html
    );
    // From another address the owner is delayed for two seconds and signed in.
    let begun = Instant::now();
    Browser::at(&app.url(""), IpAddr::from([127, 0, 0, 2])).sign_in("ada", password).await;
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    // After the delay a sign-in is possible, and all failures expire eventually.
    app.set_clock("2026-11-20T12:00:03Z");
    guesser.sign_in("ada", password).await;
    app.set_clock("2026-11-20T12:10:00Z");
    for _ in 0..4 {
        assert_eq!(try_with(&guesser, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    }
    guesser.sign_in("ada", password).await;
    app.stop().await;
}

/// Behind an unconfigured proxy all clients have the same address.
#[tokio::test]
async fn a_browser_that_is_known_is_slowed_by_itself() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let (of_ada, of_bob) = (app.browser(&ada).await, app.browser(&bob).await);
    let device = of_ada.cookie("galvo_device").unwrap();
    let (guesser, password) = (Browser::new(&app), "password of ada");
    for _ in 0..5 {
        assert_eq!(try_with(&guesser, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    }
    let waits = |page: &Page| (page.status, retry_after(page).map(str::to_owned));
    let too_soon = |seconds: &str| (StatusCode::TOO_MANY_REQUESTS, Some(seconds.to_owned()));
    assert_eq!(waits(&try_with(&Browser::new(&app), "ada", password).await), too_soon("1"));
    // From a browser that she used earlier, she signs in without the delay caused by others' attempts. The
    // delay is at least a second; load on the machine makes a sign-in slow, but no delayed sign-in fast.
    let mut fastest = Duration::MAX;
    for _ in 0..8 {
        let begun = Instant::now();
        of_ada.sign_in("ada", password).await;
        fastest = fastest.min(begun.elapsed());
        if fastest < Duration::from_secs(1) {
            break;
        }
    }
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    assert_ne!(of_ada.cookie("galvo_device").unwrap(), device, "each sign-in makes its own");
    // A cookie belongs to one user, is issued by the server, and expires.
    for cookie in
        [of_bob.cookie("galvo_device").unwrap(), device[1..].to_owned(), "x".to_owned(), String::new()]
    {
        let browser = Browser::new(&app);
        browser.set_cookie("galvo_device", &cookie);
        assert_eq!(waits(&try_with(&browser, "ada", password).await), too_soon("1"), "{cookie}");
    }
    // Failures with a copied cookie count for that cookie only.
    let thief = Browser::new(&app);
    thief.set_cookie("galvo_device", &device);
    for _ in 0..5 {
        assert_eq!(try_with(&thief, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(waits(&try_with(&thief, "ada", password).await), too_soon("1"));
    of_ada.sign_in("ada", password).await;
    // A session can still change its password.
    let csrf = of_ada.csrf().await;
    let change = [("csrf", csrf.as_str()), ("old", password), ("new", "a better password")];
    let page = of_ada.submit("/password", &change).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.html);
    app.set_clock("2028-01-01T00:00:00Z");
    for _ in 0..5 {
        assert_eq!(try_with(&guesser, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(waits(&try_with(&of_ada, "ada", "a better password").await), too_soon("1"), "it is forgotten");
    app.stop().await;
}

/// Strangers at the same address fail with other names.
#[tokio::test]
async fn a_browser_that_never_signed_in_waits_for_its_turn_at_most() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.browser(&ada).await;
    let (password, begun) = ("password of ada", Instant::now());
    for stranger in 0..5 {
        let page = try_with(&Browser::new(&app), &format!("stranger{stranger}"), "a guess too many").await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{stranger}");
    }
    // Two more fail after one and three seconds, and then the right password works after another four.
    let (sixth, seventh) = (Browser::new(&app), Browser::new(&app));
    let guesses = [(&sixth, "stranger5"), (&seventh, "stranger6")];
    let pages = futures::future::join_all(guesses.map(|(at, name)| try_with(at, name, "a guess too many")));
    for page in pages.await {
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{}", page.html);
    }
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    app.set_clock("2026-11-20T12:00:03Z");
    let begun = Instant::now();
    Browser::new(&app).sign_in("ada", password).await;
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    // Guesses at her own name are as few as before, however many failed with others.
    app.set_clock("2026-11-20T12:30:00Z");
    let impostor = Browser::new(&app);
    for _ in 0..5 {
        assert_eq!(try_with(&impostor, "ada", "a guess too many").await.status, StatusCode::UNAUTHORIZED);
    }
    let page = try_with(&impostor, "ada", password).await;
    assert_eq!((page.status, retry_after(&page)), (StatusCode::TOO_MANY_REQUESTS, Some("1")));
    assert_eq!(try_with(&impostor, "stranger7", "x").await.status, StatusCode::UNAUTHORIZED);
    app.stop().await;
}

#[tokio::test]
async fn guesses_at_many_names_take_turns_at_their_address() {
    let app = TestApp::start().await;
    app.account("ada").await;
    let guesser = Browser::new(&app);
    let names: Vec<_> = (0..40).map(|number| format!("stranger{number}")).collect();
    let all: FuturesUnordered<_> =
        names.iter().map(|name| try_with(&guesser, name, "a guess too many")).collect();
    // Five are checked at once, six have a turn within 32 seconds, for which this test does not wait.
    let pages: Vec<_> = all.take(5 + 29).collect().await;
    let tried = pages.iter().filter(|page| page.status == StatusCode::UNAUTHORIZED).count();
    let refused: Vec<_> = pages.iter().filter(|page| page.status == StatusCode::TOO_MANY_REQUESTS).collect();
    assert_eq!((tried, refused.len()), (5, 29));
    assert!(refused.iter().all(|page| retry_after(page) == Some("7")));
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
        ("", "password of ada", "a better password", 403, "the form does not belong to this session"),
        (csrf, "not it at all", "a better password", 401, "the name or the password is wrong"),
        (csrf, "password of ada", "too short", 422, "must have at least 12 characters"),
        (csrf, "password of ada", "a better password", 200, "Your password was changed."),
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
    let request = server.client().post(server.url("/api/v1/api-tokens-no-user/"));
    let request =
        request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded").body("label=laptop");
    let body: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    let (identifier, token) = (body["identifier"].as_str().unwrap(), body["token"].as_str().unwrap());
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
    assert!(text.contains("sign-in failed") && text.len() > 10_000, "the log is one: {text}");
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
