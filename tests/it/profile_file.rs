//! Profiles as files of other viewers.

use std::io::Read;

use flate2::read::GzDecoder;
use harness::{Member, ReportBuilder, TestApp, profile};
use prost::Message;
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

/// The messages of pprof's `profile.proto`, as far as the files have them.
#[derive(Clone, PartialEq, Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<Pair>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    texts: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    file: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_files: bool,
    #[prost(bool, tag = "9")]
    has_lines: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    file: i64,
}

/// Reports a cluster of which `main` calls `load` and itself, the last time on another line.
async fn reported(member: &Member) -> i64 {
    let frame = |function: &str, line: i64| json!({ "file": "/home/ada/etl.py", "function": function, "line": line, "text": "load(key)" });
    let window = profile(
        1,
        0.0,
        100,
        &json!([frame("main", 1), frame("load", 5), frame("main", 7)]),
        &json!([[-1, 0, 10, 99], [0, 1, 30, 89], [1, 2, 59, 59], [-1, 1, 1, 1]]),
    );
    let report = ReportBuilder::new("Scheduler-1", 1).with("/cluster/name", "etl");
    member.reported(&report.with("/profiles", vec![window]).build()).await
}

async fn file(member: &Member, id: &str, query: &[(&str, &str)]) -> reqwest::Response {
    let request = member.request(Method::GET, &format!("/api/v1/clusters/{id}/profile"));
    request.query(query).send().await.unwrap()
}

/// Returns the name of a file and its content.
async fn downloaded(response: reqwest::Response) -> (String, Vec<u8>) {
    assert_eq!(response.status(), StatusCode::OK);
    let name = response.headers()[header::CONTENT_DISPOSITION].to_str().unwrap().to_owned();
    (name, response.bytes().await.unwrap().to_vec())
}

#[tokio::test]
async fn speedscope_shows_all_samples_by_their_stacks() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = reported(&ada).await.to_string();
    let (name, content) = downloaded(file(&ada, &id, &[]).await).await;
    assert_eq!(name, format!("attachment; filename=\"cluster-{id}.speedscope.json\""));
    let frame =
        |function: &str, line: i64| json!({ "name": function, "file": "/home/ada/etl.py", "line": line });
    let title = format!("etl #{id}");
    let expected = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json", "name": title,
        "exporter": concat!("galvo@", env!("CARGO_PKG_VERSION")), "activeProfileIndex": 0,
        "shared": { "frames": [frame("load", 5), frame("main", 1), frame("main", 7)] },
        "profiles": [{ "type": "evented", "name": title, "unit": "none", "startValue": 0, "endValue": 100,
            "events": events(&[("O", 1, 0), ("O", 0, 0), ("O", 2, 0), ("C", 2, 59), ("C", 0, 89), ("C", 1, 99),
                ("O", 0, 99), ("C", 0, 100)]) }],
    });
    assert_eq!(serde_json::from_slice::<Value>(&content).unwrap(), expected);

    // The inner `main` and the second root are below the share, and their samples are counted where they
    // were.
    let (_, content) = downloaded(file(&ada, &id, &[("minShare", "0.6")]).await).await;
    let content: Value = serde_json::from_slice(&content).unwrap();
    let omitted = json!({ "name": "(omitted)" });
    assert_eq!(content["shared"]["frames"], json!([frame("load", 5), frame("main", 1), omitted]));
    assert_eq!(
        (&content["profiles"][0]["endValue"], &content["profiles"][0]["events"]),
        (
            &json!(100),
            &events(&[
                ("O", 1, 0),
                ("O", 0, 0),
                ("O", 2, 0),
                ("C", 2, 59),
                ("C", 0, 89),
                ("C", 1, 99),
                ("O", 2, 99),
                ("C", 2, 100)
            ])
        )
    );
    app.stop().await;
}

fn events(events: &[(&str, usize, i64)]) -> Value {
    events.iter().map(|(kind, frame, at)| json!({ "type": kind, "frame": frame, "at": at })).collect()
}

#[tokio::test]
async fn pprof_has_functions_with_their_lines() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = reported(&ada).await.to_string();
    let (name, content) = downloaded(file(&ada, &id, &[("format", "pprof")]).await).await;
    assert_eq!(name, format!("attachment; filename=\"cluster-{id}.pb.gz\""));
    let title = format!("etl #{id}");
    let texts = ["", "samples", "count", &title, "load", "/home/ada/etl.py", "main"];
    let location =
        |id: u64, function: u64, line: i64| Location { id, mapping: 1, line: vec![Line { function, line }] };
    let sample = |location: &[u64], value: i64| Sample { location: location.to_vec(), value: vec![value] };
    let function = |id: u64, name: i64| Function { id, name, system_name: 0, file: 5 };
    let expected = Pprof {
        sample_type: vec![Pair { kind: 1, unit: 2 }],
        // The innermost location is the first.
        sample: vec![sample(&[2], 10), sample(&[1, 2], 30), sample(&[3, 1, 2], 59), sample(&[1], 1)],
        mapping: vec![Mapping { id: 1, file: 3, has_functions: true, has_files: true, has_lines: true }],
        location: vec![location(1, 1, 5), location(2, 2, 1), location(3, 2, 7)],
        function: vec![function(1, 4), function(2, 6)],
        texts: texts.map(str::to_owned).to_vec(),
        // The window is from 2026-11-20T11:00:00Z on, for ten seconds.
        time_nanos: 1_795_172_400_000_000_000,
        duration_nanos: 10_000_000_000,
    };
    assert_eq!(pprof(&content), expected);
    app.stop().await;
}

fn pprof(content: &[u8]) -> Pprof {
    let mut plain = Vec::new();
    GzDecoder::new(content).read_to_end(&mut plain).unwrap();
    Pprof::decode(&*plain).unwrap()
}

#[tokio::test]
async fn a_deep_profile_is_a_file_of_bounded_size() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Each node calls the next one. The stacks of all have 200 million locations.
    let nodes: Vec<Value> = (0..20_000_i64).map(|node| json!([node - 1, 0, 1, 20_000 - node])).collect();
    let frame = json!([{ "file": "a.py", "function": "<lambda>", "line": 1, "text": null }]);
    let window = profile(1, 0.0, 20_000, &frame, &json!(nodes));
    let report = ReportBuilder::new("Scheduler-1", 1).with("/profiles", vec![window]).build();
    let id = ada.reported(&report).await.to_string();
    let (_, content) = downloaded(file(&ada, &id, &[]).await).await;
    let speedscope: Value = serde_json::from_slice(&content).unwrap();
    let events = speedscope["profiles"][0]["events"].as_array().unwrap();
    assert_eq!((events.len(), &events[39_999]["at"]), (40_000, &json!(20_000)));

    let (_, content) = downloaded(file(&ada, &id, &[("format", "pprof")]).await).await;
    let file = pprof(&content);
    let locations: usize = file.sample.iter().map(|sample| sample.location.len()).sum();
    assert!((1_990_000..=2_000_001).contains(&locations), "{locations}");
    assert_eq!(file.sample.iter().map(|sample| sample.value[0]).sum::<i64>(), 20_000);
    let name = |function: &Function| file.texts[usize::try_from(function.name).unwrap()].as_str();
    assert_eq!(file.function.iter().map(name).collect::<Vec<_>>(), ["<lambda>", "(omitted)"]);
    app.stop().await;
}

#[tokio::test]
async fn a_file_says_that_older_windows_are_missing() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut id = 0;
    for part in 0..11_u8 {
        let window = |n: u8| {
            let at = f64::from(part) * 200.0 + f64::from(n) * 10.0;
            let frame = json!([{ "file": "a.py", "function": "main", "line": 1, "text": null }]);
            profile(u128::from(part) * 20 + u128::from(n), at, 1, &frame, &json!([[-1, 0, 1, 1]]))
        };
        let windows: Vec<Value> = (0..20).map(window).collect();
        let report = ReportBuilder::new("Scheduler-1", i64::from(part) + 1).with("/profiles", windows);
        id = ada.reported(&report.build()).await;
    }
    let (_, content) = downloaded(file(&ada, &id.to_string(), &[]).await).await;
    let content: Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(content["name"], format!("#{id}, incomplete: 200 windows"));
    assert_eq!(content["profiles"][0]["endValue"], 200);
    app.stop().await;
}

#[tokio::test]
async fn a_profile_is_the_accounts_own_and_parameters_are_checked() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let id = reported(&ada).await.to_string();
    let bare = ada.reported(&ReportBuilder::new("Scheduler-2", 1).build()).await.to_string();
    let later = [("from", "2026-11-20T11:00:01Z")];
    for (member, id, query, status, code, named) in [
        (&bob, id.as_str(), &[][..], 404, "NOT_FOUND", "nothing at this address"),
        (&ada, "999", &[], 404, "NOT_FOUND", "nothing at this address"),
        (&ada, &bare, &[], 404, "NOT_FOUND", "no profile in this period"),
        (&ada, &id, &later, 404, "NOT_FOUND", "no profile in this period"),
        (&ada, &id, &[("format", "svg")], 400, "INVALID_PARAMETER", "'speedscope' or 'pprof'"),
        (&ada, &id, &[("format", "pprof"), ("format", "pprof")], 400, "INVALID_PARAMETER", "once"),
        (&ada, &id, &[("minShare", "2")], 400, "INVALID_PARAMETER", "'minShare'"),
        (&ada, &id, &[("minShare", "NaN")], 400, "INVALID_PARAMETER", "'minShare'"),
        (&ada, &id, &[("from", "yesterday")], 400, "INVALID_PARAMETER", "from"),
        (&ada, &id, &[("colour", "red")], 400, "INVALID_PARAMETER", "'colour'"),
        (&ada, &id, &[("_of", "1")], 400, "INVALID_PARAMETER", "'_of'"),
    ] {
        let response = file(member, id, query).await;
        let (answered, body) = (response.status().as_u16(), response.json::<Value>().await.unwrap());
        assert_eq!((answered, &body["code"]), (status, &json!(code)), "{query:?}: {body}");
        assert!(body["message"].as_str().unwrap().contains(named), "{query:?}: {body}");
    }
    let reporter = ada.with_token(ada.token(&[entity::api_token::Scope::Ingest], None).await);
    assert_eq!(file(&reporter, &id, &[]).await.status(), StatusCode::FORBIDDEN);

    // A profile that cannot be decrypted is no absent one.
    let other = galvo::key_ring::KeySource::Ring(galvo::encryption::Keys::generate());
    let stranger = TestApp::start_beside(&app, other).await;
    let response = file(&stranger.here(&ada), &id, &[]).await;
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(response.json::<Value>().await.unwrap()["code"], "KEY_MISSING");
    stranger.stop().await;
    app.stop().await;
}
