//! Raw connections: slow clients, many clients, and clients connected during a shutdown.

use std::time::Duration;

use galvo::config::Timeouts;
use harness::{DashboardBuild, Member, ReportBuilder, TestApp};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: galvo\r\n\r\n";

/// The short timeout in these tests.
const SHORT: Duration = Duration::from_millis(100);

async fn connect(app: &TestApp) -> TcpStream {
    TcpStream::connect(app.url("").strip_prefix("http://").unwrap()).await.unwrap()
}

/// The head of a request with a body, for which the client expects a 100 response.
fn head(member: &Member, path: &str, length: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: galvo\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Accept: application/graphql-response+json\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n",
        member.secret()
    )
}

/// Reads the head of a response, and returns it.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Reads a response, and leaves the connection open.
async fn read_answer(stream: &mut TcpStream) -> (u16, Value) {
    let head = read_head(stream).await.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_slice(&body).unwrap_or_default())
}

/// Reads to the end of a connection, however it ends.
async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    bytes
}

#[tokio::test]
async fn heads_that_do_not_come_end_the_connection() {
    let app = TestApp::start_with(|settings| settings.timeouts.head_timeout = SHORT).await;
    let mut silent = connect(&app).await;
    assert_eq!(read_to_end(&mut silent).await, b"");

    let mut half = connect(&app).await;
    half.write_all(b"GET /healthz HTTP/1.1\r\nHost: ga").await.unwrap();
    assert_eq!(read_to_end(&mut half).await, b"");

    // Even if bytes keep arriving one at a time.
    let (mut read, mut write) = connect(&app).await.into_split();
    let drip = tokio::spawn(async move {
        while write.write_all(b"X").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    });
    let mut bytes = Vec::new();
    let _ = read.read_to_end(&mut bytes).await;
    assert_eq!(bytes, b"");
    drip.abort();

    // The same for a second request on a connection.
    let mut second = connect(&app).await;
    second.write_all(HEALTH.as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut second).await.0, 200);
    second.write_all(b"GET /hea").await.unwrap();
    assert_eq!(read_to_end(&mut second).await, b"");
    app.stop().await;
}

#[tokio::test]
async fn bodies_that_do_not_come_are_answered_by_408() {
    let app = TestApp::start_with(|settings| settings.timeouts.body_timeout = SHORT).await;
    let ada = app.account("ada").await;
    for path in ["/graphql", "/api/v1/reports", "/api/v2/analytics/ada/cluster/1/span/x"] {
        let (mut read, mut write) = connect(&app).await.into_split();
        write.write_all(head(&ada, path, 1_000_000).as_bytes()).await.unwrap();
        let drip = tokio::spawn(async move {
            while write.write_all(b" ").await.is_ok() {
                tokio::time::sleep(SHORT / 10).await;
            }
        });
        let mut bytes = Vec::new();
        let _ = read.read_to_end(&mut bytes).await;
        drip.abort();
        let answer = String::from_utf8(bytes).unwrap();
        // For an unknown route the body is not awaited.
        let expected =
            if path.ends_with("/x") { ("HTTP/1.1 404", "NOT_FOUND") } else { ("HTTP/1.1 408", "TIMEOUT") };
        assert!(answer.contains(expected.0) && answer.contains(expected.1), "{path}: {answer}");
        assert_eq!(answer.contains("\"errors\""), path == "/graphql", "{answer}");
    }
    app.stop().await;
}

#[tokio::test]
async fn strangers_are_turned_away_before_they_send_anything() {
    let app = TestApp::start().await;
    for path in ["/graphql", "/api/v1/reports"] {
        let mut stream = connect(&app).await;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: galvo\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(read_answer(&mut stream).await.0, 401, "{path}");
        assert_eq!(read_to_end(&mut stream).await, b"");
    }
    app.stop().await;
}

#[tokio::test]
async fn who_sends_too_much_hears_so() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for path in ["/graphql", "/api/v1/reports", "/nowhere"] {
        let mut stream = connect(&app).await;
        let request = head(&ada, path, 20_000_000).replace("Expect: 100-continue\r\n", "");
        stream.write_all(request.as_bytes()).await.unwrap();
        for _ in 0..20_000 {
            stream.write_all(&[b' '; 1_000]).await.unwrap();
        }
        let expected = if path == "/nowhere" { 404 } else { 413 };
        assert_eq!(read_answer(&mut stream).await.0, expected, "{path}");
        assert_eq!(read_to_end(&mut stream).await, b"");
    }
    app.stop().await;
}

#[tokio::test]
async fn so_many_connections_are_served_and_more_wait() {
    let app = TestApp::start_with(|settings| settings.max_connections = 2).await;
    let (mut first, mut second, mut third) = (connect(&app).await, connect(&app).await, connect(&app).await);
    third.write_all(HEALTH.as_bytes()).await.unwrap();
    for _ in 0..20 {
        for stream in [&mut first, &mut second] {
            stream.write_all(HEALTH.as_bytes()).await.unwrap();
            assert_eq!(read_answer(stream).await.0, 200);
        }
    }
    let nothing = third.try_read(&mut [0; 1]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    drop(first);
    assert_eq!(read_answer(&mut third).await.0, 200);
    app.stop().await;
}

#[tokio::test]
async fn a_connection_stays_open_between_requests_for_a_while() {
    let patience = |idle_timeout| Timeouts { head_timeout: SHORT, idle_timeout, ..Timeouts::default() };
    let patient = TestApp::start_with(|settings| settings.timeouts = patience(Duration::from_secs(75))).await;
    let ada = patient.account("ada").await;
    let mut stream = connect(&patient).await;
    for _ in 0..3 {
        let query = json!({ "query": "{ viewer { user { name } } }" }).to_string();
        let request = head(&ada, "/graphql", query.len()).replace("Expect: 100-continue\r\n", "");
        stream.write_all((request + &query).as_bytes()).await.unwrap();
        let (status, answer) = read_answer(&mut stream).await;
        assert_eq!((status, &answer["data"]["viewer"]["user"]["name"]), (200, &json!("ada")));
        // Longer than a head may take.
        tokio::time::sleep(SHORT * 2).await;
    }
    // Pipelined requests are answered in order.
    stream.write_all(HEALTH.repeat(3).as_bytes()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(read_answer(&mut stream).await.0, 200);
    }
    patient.stop().await;

    let hurried = TestApp::start_with(|settings| settings.timeouts = patience(SHORT)).await;
    let mut stream = connect(&hurried).await;
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut stream).await.0, 200);
    assert_eq!(read_to_end(&mut stream).await, b"");
    hurried.stop().await;
}

#[tokio::test]
async fn answers_that_nobody_takes_end_the_connection() {
    let build = DashboardBuild::default();
    build.write("assets/large-1b2c.js", &"x".repeat(130_000));
    let app = TestApp::start_with(|settings| {
        settings.timeouts.response_timeout = SHORT;
        settings.max_connections = 1;
        settings.dashboard = build.source();
    });
    let app = app.await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let address = app.url("").strip_prefix("http://").unwrap().parse().unwrap();
    let mut greedy = socket.connect(address).await.unwrap();
    let large = "GET /assets/large-1b2c.js HTTP/1.1\r\nHost: galvo\r\n\r\n";
    greedy.write_all(large.repeat(200).as_bytes()).await.unwrap();
    // There is one slot, so this one is answered after the other has ended.
    let mut next = connect(&app).await;
    next.write_all(HEALTH.as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut next).await.0, 200);
    drop(greedy);
    app.stop().await;
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let app = TestApp::start().await;
    for (head, status) in [
        (format!("GET /healthz HTTP/1.1\r\nHost: galvo\r\nX: {}\r\n\r\n", "x".repeat(200_000)), "431"),
        (format!("GET /graphql?query={} HTTP/1.1\r\nHost: galvo\r\n\r\n", "x".repeat(70_000)), "414"),
        (format!("GET /healthz HTTP/1.1\r\nHost: galvo\r\n{}\r\n", "X: x\r\n".repeat(1_000)), "431"),
    ] {
        let (mut read, mut write) = connect(&app).await.into_split();
        // The response may arrive before the whole request was read.
        let sending = tokio::spawn(async move { write.write_all(head.as_bytes()).await.map(|()| write) });
        let mut answer = [0; 12];
        read.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {status}"));
        let _ = sending.await.unwrap();
    }
    app.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_answers_what_is_under_way() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut idle = connect(&app).await;
    idle.write_all(HEALTH.as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut idle).await.0, 200);
    let mut busy = connect(&app).await;
    let report = ReportBuilder::new("Scheduler-1", 1).build().to_string();
    busy.write_all(head(&ada, "/api/v1/reports", report.len()).as_bytes()).await.unwrap();
    // It now waits for the body.
    assert_eq!(read_head(&mut busy).await, "HTTP/1.1 100 Continue\r\n\r\n");
    let address = app.url("").strip_prefix("http://").unwrap().to_owned();
    let stopping = tokio::spawn(app.stop());
    // Idle connections are closed, and new ones are not accepted.
    assert_eq!(read_to_end(&mut idle).await, b"");
    while TcpStream::connect(&address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    busy.write_all(report.as_bytes()).await.unwrap();
    let (status, answer) = read_answer(&mut busy).await;
    assert_eq!((status, &answer["acknowledged"]), (200, &json!(1)), "{answer}");
    assert_eq!(read_to_end(&mut busy).await, b"");
    stopping.await.unwrap();
}
