//! The share of bounded resources that one credential leaves to others.

use std::{net::IpAddr, time::Duration};

use entity::api_token::Scope;
use harness::{Browser, Member, ReportBuilder, TestApp};
use reqwest::{Method, Response, header};
use sea_orm::{ConnectionTrait, DatabaseBackend, TransactionTrait};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

const NAME: &str = "{ viewer { user { name } } }";

/// The value of a metric of a resource.
async fn share(app: &TestApp, metric: &str, resource: &str) -> u64 {
    let text = app.anonymous(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let sample = format!("galvo_share_{metric}{{resource=\"{resource}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&sample));
    line.map_or(0, |value| value.parse().unwrap())
}

/// Waits until this many slots of a resource are held.
async fn until_held(app: &TestApp, resource: &str, held: u64) {
    for _ in 0..500 {
        if share(app, "held", resource).await == held {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} of {resource} are held, not {held}", share(app, "held", resource).await);
}

/// An event stream about the clusters of an account.
async fn watch(member: &Member) -> Response {
    let query = format!("subscription {{ clusters(account: \"{}\") {{ cursor }} }}", member.slug());
    let request = member.request(Method::POST, "/graphql").header(header::ACCEPT, "text/event-stream");
    request.json(&json!({ "query": query })).send().await.unwrap()
}

/// The status and the error code of a refusal.
async fn refusal(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap();
    let code = body["errors"][0]["extensions"]["code"].as_str().or(body["code"].as_str());
    (status, code.unwrap_or_default().to_owned())
}

/// An attempt to sign in from the address 127.0.0.`last`.
fn sign_in_from(
    app: &TestApp,
    last: u8,
    name: &str,
    password: &str,
) -> impl Future<Output = reqwest::Result<Response>> + use<> {
    let client = reqwest::Client::builder().local_address(IpAddr::from([127, 0, 0, last]));
    let client = client.redirect(reqwest::redirect::Policy::none()).build().unwrap();
    client
        .post(app.url("/sign-in"))
        .header(header::ORIGIN, app.url(""))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(format!("username={name}&password={password}"))
        .send()
}

#[tokio::test]
async fn delayed_sign_ins_give_way_to_other_addresses() {
    // Sign-ins have four slots.
    let app = TestApp::start_with(|serve| serve.max_connections = 64).await;
    let ada = app.account("ada").await;
    app.browser(&ada).await;
    let mut delayed = JoinSet::new();
    for last in [2, 3] {
        let attempt = |number: usize| sign_in_from(&app, last, &format!("nobody-{number}"), "a-guess");
        // The first failures of an address have no consequences. Later attempts wait for seconds.
        for number in 0..5 {
            assert_eq!(attempt(number).await.unwrap().status(), 401);
        }
        for number in 5..8 {
            delayed.spawn(attempt(number));
        }
    }
    until_held(&app, "sign_in_requests", 4).await;
    assert_eq!(app.anonymous(Method::GET, "/sign-in").send().await.unwrap().status(), 200);
    Browser::new(&app).sign_in("ada", "password of ada").await;
    app.stop().await;
}

#[tokio::test]
async fn attempts_that_end_while_they_are_delayed_do_not_count() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.browser(&ada).await;
    let attempt = |last: u8, password: &str| sign_in_from(&app, last, "ada", password);
    for _ in 0..5 {
        assert_eq!(attempt(2, "a-guess").await.unwrap().status(), 401);
    }
    // Now attempts for this name wait for a second. So many failures of one address would be refused.
    for _ in 0..8 {
        let waiting = tokio::spawn(attempt(3, "password+of+ada"));
        until_held(&app, "sign_ins_held", 1).await;
        waiting.abort();
        until_held(&app, "sign_ins_held", 0).await;
    }
    assert_eq!(attempt(3, "password+of+ada").await.unwrap().status(), 303);
    app.stop().await;
}

#[tokio::test]
async fn streams_of_one_token_leave_half_of_the_requests_to_others() {
    let app = TestApp::start_with(|serve| {
        serve.max_connections = 16;
        serve.query_cost_per_minute = 20_000;
        serve.max_query_cost = 20_000;
    })
    .await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    // Of 16 connections, requests may hold 11, and one token six of these.
    let mut streams = Vec::new();
    for _ in 0..6 {
        let stream = watch(&ada).await;
        assert_eq!(stream.status(), 200);
        streams.push(stream);
    }
    assert_eq!(refusal(watch(&ada).await).await, (503, "UNAVAILABLE".to_owned()));
    assert_eq!(bob.query(NAME, json!({})).await["viewer"]["user"]["name"], "bob");
    let colleague = app.member("grace", "ada").await;
    assert_eq!(colleague.query(NAME, json!({})).await["viewer"]["user"]["name"], "grace");
    for path in ["/healthz", "/readyz", "/metrics", "/sign-in"] {
        assert_eq!(app.anonymous(Method::GET, path).send().await.unwrap().status(), 200, "{path}");
    }
    assert_eq!(share(&app, "places", "requests").await, 11);
    assert_eq!(share(&app, "held", "requests").await, 6);
    // Each refusal costs as much as reading the request, so that the minute's points are used up.
    let mut refused = 1;
    let limited = loop {
        match refusal(watch(&ada).await).await {
            (503, _) => refused += 1,
            other => break other,
        }
    };
    assert_eq!(limited, (429, "RATE_LIMITED".to_owned()));
    assert!((18..=40).contains(&refused), "{refused}");
    assert_eq!(share(&app, "refused_total", "requests").await, refused + 1);
    assert_eq!(bob.query(NAME, json!({})).await["viewer"]["user"]["name"], "bob");
    // A slot that ends is available to others.
    drop(streams);
    until_held(&app, "requests", 0).await;
    app.stop().await;
}

#[tokio::test]
async fn tokens_created_with_a_leaked_one_leave_requests_to_the_session_that_revokes_it() {
    let app = TestApp::start_with(|serve| serve.max_connections = 32).await;
    let ada = app.account("ada").await;
    let (colleague, bob) = (app.member("grace", "ada").await, app.account("bob").await);
    app.accounts().set_password(&"ada".parse().unwrap(), "password of ada".to_owned()).await.unwrap();
    let browser = Browser::new(&app);
    browser.sign_in("ada", "password of ada").await;
    // Of 32 connections, requests may hold 22: one token eleven of these, and three tokens of a user 15.
    let mut streams = Vec::new();
    for expected in [11, 4, 0] {
        let token = ada.with_token(ada.token(&[Scope::Read], None).await);
        let before = streams.len();
        let refused = loop {
            let stream = watch(&token).await;
            if stream.status() != 200 {
                break refusal(stream).await;
            }
            streams.push(stream);
        };
        assert_eq!((streams.len() - before, refused), (expected, (503, "UNAVAILABLE".to_owned())));
    }
    let identifier = ada.token(&[Scope::Read], None).await.split('-').next().unwrap().to_owned();
    let revoke = format!(
        "mutation {{ revokeToken(identifier: \"{identifier}\") {{ token {{ identifier }} userErrors {{ code }} }} }}"
    );
    let request = browser.request(Method::POST, "/graphql").header("galvo-csrf", browser.csrf().await);
    let revoked: Value =
        request.json(&json!({ "query": revoke })).send().await.unwrap().json().await.unwrap();
    let expected = json!({ "token": { "identifier": identifier }, "userErrors": [] });
    assert_eq!(revoked["data"]["revokeToken"], expected, "{revoked}");
    for member in [&colleague, &bob] {
        assert_eq!(member.query(NAME, json!({})).await["viewer"]["user"]["name"], member.name());
    }
    app.stop().await;
}

#[tokio::test]
async fn reports_of_one_token_leave_half_of_the_places_to_others() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let report = |scheduler: usize| ReportBuilder::new(&format!("Scheduler-{scheduler}"), 1).build();
    for (number, member) in [&ada, &bob].into_iter().enumerate() {
        member.reported(&report(number)).await;
    }
    // The database accepts no writes for a moment.
    let connection = app.database.connection().await;
    let lock = match connection.get_database_backend() {
        DatabaseBackend::Sqlite => "UPDATE clusters SET id = id WHERE 1 = 0",
        _ => "LOCK TABLE clusters IN ACCESS EXCLUSIVE MODE",
    };
    let transaction = connection.begin().await.unwrap();
    transaction.execute_unprepared(lock).await.unwrap();
    let mut answers = JoinSet::new();
    for number in 0..33 {
        let request = ada.request(Method::POST, "/api/v1/reports").json(&report(100 + number));
        answers.spawn(async move { request.send().await.unwrap().status().as_u16() });
    }
    // The excess request is answered at once.
    assert_eq!(answers.join_next().await.unwrap().unwrap(), 503);
    until_held(&app, "reports", 32).await;
    let theirs = bob.request(Method::POST, "/api/v1/reports").json(&report(200)).send();
    let theirs = tokio::spawn(async move { theirs.await.unwrap().status().as_u16() });
    until_held(&app, "reports", 33).await;
    transaction.rollback().await.unwrap();
    assert_eq!(theirs.await.unwrap(), 200);
    while let Some(answer) = answers.join_next().await {
        assert_eq!(answer.unwrap(), 200);
    }
    assert_eq!(share(&app, "refused_total", "reports").await, 1);
    until_held(&app, "reports", 0).await;
    app.stop().await;
}

/// Starts to send a performance report, and stops.
async fn slow_upload(app: &TestApp, member: &Member) -> TcpStream {
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    let head = format!(
        "POST /api/v1/{}/performance_reports/public/ HTTP/1.1\r\nHost: galvo\r\nAuthorization: Bearer {}\r\n\
         Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 100000\r\n\r\n\
         --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.html\"\r\n\r\n",
        member.slug(),
        member.secret()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn slow_uploads_of_one_token_leave_half_of_the_places_and_end_soon() {
    let app =
        TestApp::start_with(|serve| serve.timeouts.body_progress_timeout = Duration::from_secs(3)).await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mut uploads = Vec::new();
    for held in 1..=3 {
        uploads.push(slow_upload(&app, &ada).await);
        until_held(&app, "performance_reports", held).await;
    }
    let refused = ada.performance_report("public", "b.html", "<p>").send().await.unwrap();
    assert_eq!(refusal(refused).await, (503, "UNAVAILABLE".to_owned()));
    bob.stored_report("public", "c.html", "<p>").await;
    for mut upload in uploads {
        // A single byte now and then does not count as progress.
        upload.write_all(b"x").await.unwrap();
        let mut answer = [0; 12];
        tokio::time::timeout(Duration::from_secs(20), upload.read_exact(&mut answer)).await.unwrap().unwrap();
        assert_eq!(&answer, b"HTTP/1.1 408");
    }
    until_held(&app, "performance_reports", 0).await;
    ada.stored_report("public", "d.html", "<p>").await;
    app.stop().await;
}

#[tokio::test]
async fn half_sent_heads_of_one_address_give_way() {
    let app = TestApp::start_with(|serve| serve.max_connections = 8).await;
    let ada = app.account("ada").await;
    let mut heads = Vec::new();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(app.address()).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: ga").await.unwrap();
        heads.push(stream);
    }
    let response = tokio::time::timeout(Duration::from_secs(5), ada.query(NAME, json!({}))).await;
    assert_eq!(response.expect("soon")["viewer"]["user"]["name"], "ada");
    assert_eq!(app.anonymous(Method::GET, "/healthz").send().await.unwrap().status(), 200);
    // The oldest ones were closed, long before their timeout.
    let mut bytes = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(2), heads[0].read_to_end(&mut bytes)).await;
    assert!(ended.is_ok(), "it is open");
    assert!(share(&app, "refused_total", "connections").await >= 30);
    app.stop().await;
}

/// The headers of an upgrade to a WebSocket.
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Sec-WebSocket-Protocol: graphql-transport-ws\r\n";

/// The headers of a form whose body has 1,000 bytes.
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n";

/// Sends the head of a request, and nothing else.
async fn send_head(app: &TestApp, line: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(app.address()).await.unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", app.address());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Starts to send a request for a token, with these credentials.
async fn half_form(app: &TestApp, authorization: &str) -> TcpStream {
    let headers = format!("{FORM}Authorization: {authorization}\r\n");
    send_head(app, "POST /api/v1/api-tokens-no-user/", &headers).await
}

/// Everything that a server sends on a connection until it ends.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes)).await;
    // A reset is an end, too.
    assert!(ended.is_ok(), "it is open: {}", String::from_utf8_lossy(&bytes));
    String::from_utf8(bytes).unwrap()
}

/// Checks that a member can report, query, sign in and open a socket.
async fn served(app: &TestApp, member: &Member, scheduler: &str) {
    let name = member.query(NAME, json!({})).await["viewer"]["user"]["name"].clone();
    assert_eq!(name, member.slug());
    member.reported(&ReportBuilder::new(scheduler, 1).build()).await;
    let browser = Browser::new(app);
    browser.sign_in(member.slug(), &format!("password of {}", member.slug())).await;
    let mut socket = app.socket_of(member).await;
    socket.subscribe("a", NAME, json!({})).await;
    assert_eq!(socket.message().await["payload"]["data"]["viewer"]["user"]["name"], member.slug());
}

#[tokio::test]
async fn strangers_who_stay_silent_give_way_to_clients_at_the_same_address() {
    let app = TestApp::start_with(|serve| {
        // They stay as long as the server lets them.
        serve.timeouts.body_timeout = Duration::from_mins(5);
        serve.timeouts.authentication_timeout = Duration::from_mins(5);
    })
    .await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    for member in [&ada, &bob] {
        let password = format!("password of {}", member.slug());
        app.accounts().set_password(&member.slug().parse().unwrap(), password).await.unwrap();
    }
    // The server has seen the token of ada, and never that of bob.
    served(&app, &ada, "Scheduler-1").await;
    until_held(&app, "requests", 0).await;
    let (mut forms, mut sockets, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..200 {
        let invalid = format!("Authorization: Bearer {}-{number}\r\n", "a".repeat(22));
        let json = format!("Content-Type: application/json\r\nContent-Length: 1000\r\n{invalid}");
        let mut refused = match number % 3 {
            0 => send_head(&app, "GET /graphql", &format!("{UPGRADE}{invalid}")).await,
            1 => send_head(&app, "POST /graphql", &json).await,
            _ => send_head(&app, "POST /api/v1/reports", &json).await,
        };
        let mut answer = [0; 12];
        refused.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 401");
        forms.push(half_form(&app, &format!("Bearer nobody-{number}")).await);
        let cookie = format!("Cookie: galvo_session=nobody-{number}\r\nOrigin: {}\r\n", app.url(""));
        sockets.push(send_head(&app, "GET /graphql", &format!("{UPGRADE}{cookie}")).await);
        sockets.push(send_head(&app, "GET /graphql", &format!("{UPGRADE}Cookie: a={number}\r\n")).await);
        let origin = format!("Origin: {}\r\n", app.url(""));
        others.push(send_head(&app, "POST /sign-in", &format!("{FORM}{origin}{invalid}")).await);
    }
    // Of 112 slots each for unverified requests and login requests, an address gets three fourths.
    // None of these requests has a slot that clients with valid credentials need.
    until_held(&app, "unverified_requests", 84).await;
    until_held(&app, "sign_in_requests", 84).await;
    assert_eq!(share(&app, "places", "unverified_requests").await, 112);
    assert_eq!(share(&app, "held", "requests").await, 0);
    for number in 2..5 {
        served(&app, &ada, &format!("Scheduler-{number}")).await;
        served(&app, &bob, &format!("Scheduler-{number}")).await;
        let carol = app.account(&format!("carol-{number}")).await;
        assert_eq!(carol.query(NAME, json!({})).await["viewer"]["user"]["name"], carol.slug());
    }
    // The oldest ones gave way: a request with a response, and a socket without a close frame.
    let answer = rest(forms.remove(0)).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"UNAVAILABLE\""), "{answer}");
    let answer = rest(sockets.remove(0)).await;
    assert!(answer.starts_with("HTTP/1.1 101 ") && answer.ends_with("\r\n\r\n"), "{answer}");
    drop((forms, sockets, others));
    until_held(&app, "unverified_requests", 0).await;
    app.stop().await;
}

#[tokio::test]
async fn a_request_moves_to_the_slots_of_its_owner_when_it_is_verified() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let of_ada = format!("Bearer {}", ada.secret());
    let held = async |unverified: u64, requests: u64| {
        until_held(&app, "unverified_requests", unverified).await;
        until_held(&app, "requests", requests).await;
    };
    // A token that the server has never seen: nothing verifies it before the body has arrived.
    let form = half_form(&app, &of_ada).await;
    held(1, 0).await;
    drop(form);
    // Where the server verifies it, the request moves, and waits for its body in a slot of its owner.
    let headers =
        format!("Content-Type: application/json\r\nContent-Length: 9\r\nAuthorization: {of_ada}\r\n");
    let report = send_head(&app, "POST /api/v1/reports", &headers).await;
    held(0, 1).await;
    // Now it is known, and begins there.
    let form = half_form(&app, &of_ada).await;
    held(0, 2).await;
    drop((form, report));
    held(0, 0).await;
    // A socket is verified by its upgrade, or else by its initialization.
    let protocol = ("Sec-WebSocket-Protocol", "graphql-transport-ws");
    let upgraded = app.socket_with(&[protocol, ("Authorization", of_ada.as_str())]).await.unwrap();
    held(0, 1).await;
    let mut socket = app.socket().await;
    held(1, 1).await;
    socket.send_message(&json!({ "type": "connection_init", "payload": { "Authorization": of_ada } })).await;
    assert_eq!(socket.message().await, json!({ "type": "connection_ack" }));
    held(0, 2).await;
    drop((upgraded, socket));
    held(0, 0).await;
    app.stop().await;
}

#[tokio::test]
async fn a_token_that_was_revoked_is_known_no_longer() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let token = app.token_of("ada", "ada", &[Scope::Read]).await;
    let revoked = ada.with_token(token.clone());
    assert_eq!(revoked.query(NAME, json!({})).await["viewer"]["user"]["name"], "ada");
    let revoke =
        "mutation($identifier: String!) { revokeToken(identifier: $identifier) { userErrors { code } } }";
    let identifier = token.split_once('-').unwrap().0;
    let done = ada.query(revoke, json!({ "identifier": identifier })).await;
    assert_eq!(done["revokeToken"]["userErrors"], json!([]));
    let query = || revoked.request(Method::POST, "/graphql").json(&json!({ "query": NAME })).send();
    // It was known, which authenticates nobody.
    assert_eq!(query().await.unwrap().status(), 401);
    let form = half_form(&app, &format!("Bearer {token}")).await;
    until_held(&app, "unverified_requests", 1).await;
    until_held(&app, "requests", 0).await;
    drop(form);
    app.stop().await;
}
