//! Long exports: changes during an export, and exports that end early.

use std::{io::Cursor, time::Duration};

use chrono::{DateTime, Utc};
use entity::api_token::Scope;
use harness::{Database, Member, Program, ReportBuilder, TestApp, event, uuid};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{Instant, sleep},
};

use super::file::{ARROW, CSV, begin};

/// The points per minute with which an export of 3,000 events must wait for some 15 seconds, because
/// half of them are used after two thirds of its pages: long enough for concurrent reports to arrive on
/// a busy machine.
const FEW_POINTS: u32 = 48_000;

/// Reports events of a cluster, by their numbers.
async fn events(ada: &Member, sequence: i64, numbers: impl Iterator<Item = u32>) -> i64 {
    let events: Vec<_> = numbers.map(|n| event(n, "mine", json!({ "number": n }))).collect();
    ada.reported(&ReportBuilder::new("Scheduler-1", sequence).with("/events", events).build()).await
}

/// The same member with another token, and so with a separate rate limit.
async fn with_points(ada: &Member, expires: Option<&str>) -> Member {
    let expires = expires.map(|at| at.parse::<DateTime<Utc>>().unwrap());
    ada.with_token(ada.token(&[Scope::Read], expires).await)
}

#[tokio::test]
async fn an_export_waits_for_points_and_returns_each_row_once() {
    let app = TestApp::start_with(|settings| {
        settings.query_cost_per_minute = FEW_POINTS;
        settings.max_query_cost = FEW_POINTS;
    })
    .await;
    let ada = app.account("ada").await;
    events(&ada, 1, 1_001..2_501).await;
    let number = events(&ada, 2, 2_501..4_001).await;
    let path = format!("/api/v1/export/clusters/{number}/events");

    let (reader, deserter, expelled) = (
        with_points(&ada, None).await,
        with_points(&ada, None).await,
        with_points(&ada, Some("2026-11-20T13:00:00Z")).await,
    );
    let began = Instant::now();
    let read = begin(&reader, &path, &[], CSV).await;
    let cut_off = begin(&expelled, &path, &[], CSV).await;
    let cut_off_too = begin(&expelled, &path, &[], ARROW).await;
    assert_eq!((read.status(), cut_off.status()), (StatusCode::OK, StatusCode::OK));

    // New events arrive after the read position, and before it, where they are not exported.
    events(&ada, 3, (1..101).chain(4_001..4_101)).await;
    app.set_clock("2026-11-20T14:00:00Z");
    let body = read.bytes().await.unwrap();
    let rows = ::csv::Reader::from_reader(Cursor::new(&body)).into_records();
    let numbers: Vec<u64> = rows
        .map(|row| serde_json::from_str::<Value>(&row.unwrap()[6]).unwrap()["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (1_001..4_101).collect::<Vec<_>>());
    assert!(began.elapsed() > Duration::from_secs(1), "it had more points than there are");
    // An expired token gets no further rows, and the truncated export is detected as incomplete.
    assert!(cut_off.bytes().await.is_err() && cut_off_too.bytes().await.is_err());

    let left = begin(&deserter, &path, &[], ARROW).await;
    assert_eq!(left.status(), StatusCode::OK);
    drop(left);
    sleep(Duration::from_millis(500)).await;
    let statements = app.statements();
    sleep(Duration::from_secs(5)).await;
    assert_eq!(app.statements(), statements, "nothing is read for those who hung up");
    app.stop().await;
}

/// Reports fine metrics of spans, 5,000 of each.
async fn fine_metrics(ada: &Member, sequence: i64, spans: std::ops::Range<u128>) -> i64 {
    let cell = |n: i32| json!(["execute", format!("function-{n}"), "thread-cpu", "seconds", n]);
    let cells: Vec<_> = (0..5_000).map(cell).collect();
    let metrics: Vec<_> = spans.map(|span| json!({ "span_id": uuid(span), "cells": cells })).collect();
    ada.reported(&ReportBuilder::new("Scheduler-1", sequence).with("/fine_metrics", metrics).build()).await
}

/// Sends the head of a request, and reads the head of the response.
async fn send_request(
    app: &TestApp,
    member: &Member,
    path: &str,
    version: &str,
    window: u32,
) -> (TcpStream, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(window).unwrap();
    let address = app.url("").strip_prefix("http://").unwrap().parse().unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/{version}\r\nHost: galvo\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        member.secret()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

#[tokio::test]
async fn a_reader_may_be_slow_but_not_asleep() {
    let patience = Duration::from_secs(1);
    let app = TestApp::start_with(|settings| settings.timeouts.response_timeout = patience).await;
    let ada = app.account("ada").await;
    let mut number = 0;
    for report in 0..8_u32 {
        let first = u128::from(report) * 5 + 1;
        number = fine_metrics(&ada, i64::from(report) + 1, first..first + 5).await;
    }
    let path = &format!("/api/v1/export/clusters/{number}/fine-metrics");
    let (mut slow, head) = send_request(&app, &ada, path, "1.1", 1 << 18).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (mut bytes, mut buffer, began) = (Vec::new(), vec![0; 1 << 16], Instant::now());
    loop {
        let read = slow.read(&mut buffer).await.unwrap();
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&buffer[..read]);
        // Five megabytes per second: steadily, and longer than the timeout in total.
        sleep(Duration::from_micros(u64::try_from(read).unwrap() / 5)).await;
    }
    assert!(bytes.ends_with(b"0\r\n\r\n"), "{} bytes", bytes.len());
    let lines = bytes.windows(8).filter(|window| window == b",seconds").count();
    assert_eq!(lines, 200_000, "of all cells");
    assert!(began.elapsed() > patience * 2, "{:?}", began.elapsed());

    let (mut asleep, _) = send_request(&app, &ada, path, "1.1", 4_096).await;
    // The statements stop once all buffers between server and client are full.
    let mut statements = 0;
    while app.statements() > statements {
        statements = app.statements();
        sleep(patience * 3).await;
    }
    let mut rest = Vec::new();
    let _ = asleep.read_to_end(&mut rest).await;
    assert!(rest.len() < bytes.len() && !rest.ends_with(b"0\r\n\r\n"), "{} bytes", rest.len());

    let (_, head) = send_request(&app, &ada, path, "1.0", 4_096).await;
    assert!(head.contains(" 505 "), "a file that was cut off would look whole: {head}");
    app.stop().await;
}

#[tokio::test]
async fn a_million_rows_take_no_memory() {
    let database = Database::migrated().await;
    let run = async |arguments: &[&str]| {
        let (status, output, errors) =
            Program::run(&[arguments, &["--database-url", database.url()]].concat()).await;
        assert_eq!(status, Some(0), "{errors}");
        output.trim().to_owned()
    };
    run(&["account", "create", "team"]).await;
    run(&["user", "create", "ada", "--account", "team"]).await;
    let token = run(&["token", "create", "--user", "ada", "--account", "team"]).await;
    let server = Program::serve(database.url(), "127.0.0.1:0", &[]).await;
    let metrics = json!([{ "span_id": null, "cells": cells() }]);
    let report = ReportBuilder::new("Scheduler-1", 1).with("/fine_metrics", metrics).build();
    let post = server.client().post(server.url("/api/v1/reports")).bearer_auth(&token).json(&report);
    let number = post.send().await.unwrap().json::<Value>().await.unwrap()["cluster_id"].clone();
    copy_spans(&database, 250).await;

    let export = async |path: &str| {
        let get = server.client().get(server.url(path)).bearer_auth(&token).header("Accept", ARROW);
        let mut response = get.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let (mut bytes, mut peak) = (0, 0);
        while let Some(chunk) = response.chunk().await.unwrap() {
            bytes += chunk.len();
            peak = peak.max(server.resident_bytes());
        }
        (bytes, peak)
    };
    let path = format!("/api/v1/export/clusters/{number}/fine-metrics");
    // The threads allocate their heaps once. Four times as many rows must need no more memory.
    let (few, before) = export(&path).await;
    copy_spans(&database, 750).await;
    let (bytes, peak) = export(&path).await;
    let grown = peak.saturating_sub(before);
    assert!(bytes > 100 << 20 && bytes > few * 3, "{few} and {bytes} bytes were sent");
    let more = u64::try_from(bytes - few).unwrap();
    assert!(grown < more / 2, "{grown} bytes more for {bytes} that were sent than for {few}");
    server.terminate().await;
}

/// The fine metrics of one span, with a thousand functions.
fn cells() -> Vec<Value> {
    let cell = |n: i32| json!(["execute", format!("function-{n}"), "thread-cpu", "seconds", n]);
    (0..1_000).map(cell).collect()
}

/// Copies the reported span with its fine metrics this many times.
async fn copy_spans(database: &Database, spans: u64) {
    use sea_orm::{ConnectionTrait, DatabaseBackend};

    let connection = database.connection().await;
    let span = match connection.get_database_backend() {
        DatabaseBackend::Sqlite => "randomblob(16)",
        _ => "gen_random_uuid()",
    };
    let columns = "account_id, cluster_id, span_id, sequence, cells";
    let copy = format!(
        "INSERT INTO fine_metrics ({columns})
         SELECT f.account_id, f.cluster_id, {span}, f.sequence, f.cells
         FROM {}, (SELECT * FROM fine_metrics LIMIT 1) f",
        harness::numbers(connection.get_database_backend(), 1, spans.try_into().unwrap())
    );
    assert_eq!(connection.execute_unprepared(&copy).await.unwrap().rows_affected(), spans);
    connection.close().await.unwrap();
}
