//! Metrics: exact counts, in a format that Prometheus reads, and without tenant data.
#![expect(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "what is counted in tests is whole, and few"
)]

mod exposition;
mod watched;

use std::{net::Ipv4Addr, time::Duration};

use chrono::DateTime;
use galvo::{
    config::ServeConfig,
    domain::client_ip::{ForwardedHeader, TrustedProxies},
};
use harness::{Incoming, Member, ReportBuilder, TestApp};
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

use self::exposition::Exposition;

const NOW: &str = "2026-11-20T12:00:00Z";

/// The present metrics.
async fn scrape(app: &TestApp) -> Exposition {
    let answer = app.anonymous(Method::GET, "/metrics").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/plain; version=0.0.4; charset=utf-8");
    Exposition::parse(&answer.text().await.unwrap())
}

/// The metrics once one of them has a value.
async fn scraped_when(app: &TestApp, sample: &str, value: f64) -> Exposition {
    for _ in 0..500 {
        let metrics = scrape(app).await;
        if (metrics.value(sample) - value).abs() < f64::EPSILON {
            return metrics;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{sample} is not {value}: {:?}", scrape(app).await.value(sample));
}

/// A report that was sent this many seconds ago.
fn made(seconds: f64, sequence: i64) -> Value {
    let now = DateTime::parse_from_rfc3339(NOW).unwrap().timestamp() as f64;
    ReportBuilder::new("Scheduler-1", sequence).with("/sent_at", now - seconds).build()
}

/// Performs a few operations of every counted kind.
async fn do_a_little(app: &TestApp, ada: &Member) {
    for (sequence, ago) in [(1, 0.5), (2, 20.0), (3, -5.0)] {
        ada.reported(&made(ago, sequence)).await;
    }
    let wrong = ReportBuilder::new("Scheduler-1", 4).with("/version", 2).build();
    assert_eq!(ada.report(&wrong).await.0, 400);
    let elsewhere = ReportBuilder::new("Scheduler-1", 4).with("/account", "elsewhere").build();
    assert_eq!(ada.report(&elsewhere).await.0, 403);
    let unknown = app.anonymous(Method::POST, "/api/v1/reports").json(&made(0.0, 4)).send().await.unwrap();
    assert_eq!(unknown.status(), 401);

    for _ in 0..2 {
        ada.query("{ viewer { user { name } } }", json!({})).await;
    }
    assert_eq!(ada.ask("{ nonsense }", json!({})).await.get("data"), None);
    let missing = "mutation { setDesiredState(cluster: \"x\", state: STOPPED) { cluster { id } } }";
    let answer = ada.ask(missing, json!({})).await;
    assert!(answer["errors"][0]["extensions"]["code"].is_string(), "{answer}");

    app.anonymous(Method::GET, "/healthz").send().await.unwrap();
    app.anonymous(Method::GET, "/nowhere/at/all").send().await.unwrap();
    app.anonymous(Method::from_bytes(b"BREW").unwrap(), "/healthz").send().await.unwrap();
    app.run_jobs().await;
}

#[tokio::test]
async fn what_was_done_is_counted_exactly() {
    let app = TestApp::start().await;
    app.set_clock(NOW);
    let ada = app.account("ada").await;
    let before = scrape(&app).await;
    do_a_little(&app, &ada).await;
    let after = scrape(&app).await;

    let posts = "method=\"POST\",route=\"/api/v1/reports\"";
    let graphql = "method=\"POST\",route=\"/graphql\"";
    for (sample, value) in [
        (format!("galvo_http_requests_total{{{posts},status=\"2xx\"}}"), 3.0),
        (format!("galvo_http_requests_total{{{posts},status=\"4xx\"}}"), 3.0),
        (format!("galvo_http_request_duration_seconds_count{{{posts}}}"), 6.0),
        // For plain JSON this status also means that nothing was executed.
        (format!("galvo_http_requests_total{{{graphql},status=\"2xx\"}}"), 4.0),
        ("galvo_http_requests_total{method=\"GET\",route=\"/healthz\",status=\"2xx\"}".into(), 1.0),
        ("galvo_http_requests_total{method=\"other\",route=\"/healthz\",status=\"4xx\"}".into(), 1.0),
        ("galvo_http_requests_total{method=\"GET\",route=\"none\",status=\"4xx\"}".into(), 1.0),
        // The previous scrape; this one is not answered yet.
        ("galvo_http_requests_total{method=\"GET\",route=\"/metrics\",status=\"2xx\"}".into(), 1.0),
        ("galvo_http_requests_in_flight".into(), 1.0),
        ("galvo_http_connections_max".into(), 900.0),
        ("galvo_reports_taken_total".into(), 3.0),
        ("galvo_reports_refused_total{reason=\"invalid_body\"}".into(), 1.0),
        ("galvo_reports_refused_total{reason=\"account_mismatch\"}".into(), 1.0),
        ("galvo_reports_refused_total{reason=\"unauthenticated\"}".into(), 1.0),
        ("galvo_reports_in_flight".into(), 0.0),
        ("galvo_report_commit_seconds_count".into(), 3.0),
        // A reporter's fast clock does not cause a negative lag.
        ("galvo_report_lag_seconds_sum".into(), 20.5),
        ("galvo_report_lag_seconds_bucket{le=\"0.05\"}".into(), 1.0),
        ("galvo_report_lag_seconds_bucket{le=\"0.5\"}".into(), 2.0),
        ("galvo_report_lag_seconds_bucket{le=\"+Inf\"}".into(), 3.0),
        ("galvo_graphql_operations_total{outcome=\"ok\",type=\"query\"}".into(), 2.0),
        ("galvo_graphql_operations_total{outcome=\"errors\",type=\"mutation\"}".into(), 1.0),
        ("galvo_graphql_operations_total{outcome=\"refused\",type=\"unknown\"}".into(), 1.0),
        ("galvo_graphql_operation_duration_seconds_count{type=\"query\"}".into(), 2.0),
        ("galvo_bus_whole".into(), 1.0),
        ("galvo_live_sockets".into(), 0.0),
        ("galvo_job_failures_total{name=\"usage\"}".into(), 0.0),
        ("galvo_job_last_success_timestamp_seconds{name=\"usage\"}".into(), 1_795_176_000.0),
        (format!("galvo_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), 1.0),
    ] {
        assert!(
            (after.value(&sample) - value).abs() < 1e-9,
            "{sample}: {}, not {value}",
            after.value(&sample)
        );
    }
    assert!(after.value("galvo_job_runs_total{name=\"usage\"}") >= 1.0);
    let bytes = |report: &Value| serde_json::to_vec(report).unwrap().len();
    let wrong = ReportBuilder::new("Scheduler-1", 4).with("/version", 2).build();
    let elsewhere = ReportBuilder::new("Scheduler-1", 4).with("/account", "elsewhere").build();
    let sent = [made(0.5, 1), made(20.0, 2), made(-5.0, 3), wrong, elsewhere];
    let sent: usize = sent.iter().map(bytes).sum();
    // The body of an unauthenticated request is not read.
    assert_eq!(after.value("galvo_report_bytes_total"), sent as f64);
    assert_eq!(
        after.value("galvo_store_statements_total"),
        statements(&app),
        "as the store itself counts them"
    );
    assert_eq!(
        after.value("galvo_store_statement_seconds_count"),
        after.value("galvo_store_statements_total")
    );
    let committed = "galvo_store_transactions_total{outcome=\"committed\"}";
    assert!(after.value(committed) - before.value(committed) >= 3.0, "one a report at least");
    for outcome in ["contention", "conflict", "no_connection", "unavailable", "failed"] {
        let sample = format!("galvo_store_transactions_total{{outcome=\"{outcome}\"}}");
        let expected = if outcome == "failed" { after.value(&sample) } else { 0.0 };
        assert_eq!(after.value(&sample), expected, "{outcome}");
    }
    if cfg!(target_os = "linux") {
        assert!(after.value("process_resident_memory_bytes") > 1e6);
        assert!(after.value("process_cpu_seconds_total") >= before.value("process_cpu_seconds_total"));
        assert!(after.value("process_open_fds") > 3.0 && after.value("process_start_time_seconds") > 1e9);
    }
    app.stop().await;
}

fn statements(app: &TestApp) -> f64 {
    app.statements() as f64
}

#[tokio::test]
async fn a_store_that_is_away_shows() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&made(0.0, 1)).await;
    let outage = app.database.go_away().await;
    assert_eq!(ada.report(&made(0.0, 2)).await.0, 503);
    outage.end().await;
    let metrics = scrape(&app).await;
    assert_eq!(metrics.value("galvo_reports_refused_total{reason=\"unavailable\"}"), 1.0);
    let failed: f64 = ["no_connection", "unavailable", "failed"]
        .map(|outcome| metrics.value(&format!("galvo_store_transactions_total{{outcome=\"{outcome}\"}}")))
        .iter()
        .sum();
    let on_sqlite = metrics.has("galvo_store_connections_max{pool=\"writer\"}");
    // With PostgreSQL the failure occurs earlier, when the token is looked up.
    assert!(!on_sqlite || failed == 1.0, "{failed}");
    app.stop().await;
}

#[tokio::test]
async fn subscriptions_are_counted_while_they_go_on() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&made(0.0, 1)).await;
    let mut socket = app.socket_of(&ada).await;
    let query = "subscription { clusters(account: \"ada\") { cluster { name } } }";
    for id in ["1", "2"] {
        socket.subscribe(id, query, json!({})).await;
    }
    let metrics = scraped_when(&app, "galvo_live_subscriptions", 2.0).await;
    assert_eq!(metrics.value("galvo_live_sockets"), 1.0);
    assert_eq!(metrics.value("galvo_live_groups"), 1.0, "they request the same");
    assert_eq!(metrics.value("galvo_graphql_operations_total{outcome=\"ok\",type=\"subscription\"}"), 2.0);
    ada.reported(&made(0.0, 2)).await;
    for _ in 0..2 {
        assert!(matches!(socket.receive().await, Incoming::Message(message) if message["type"] == "next"));
    }
    let metrics = scraped_when(&app, "galvo_live_payloads_delivered_total", 2.0).await;
    assert_eq!(metrics.value("galvo_live_payloads_written_total"), 1.0, "once for both");
    assert_eq!(metrics.value("galvo_live_gaps_total"), 0.0);
    assert!(metrics.value("galvo_live_round_seconds_count") >= 1.0);
    drop(socket);
    for gauge in ["sockets", "subscriptions", "groups"] {
        scraped_when(&app, &format!("galvo_live_{gauge}"), 0.0).await;
    }
    app.stop().await;
}

#[tokio::test]
async fn nothing_in_it_is_of_anybody_and_nobody_makes_it_longer() {
    let app = TestApp::start().await;
    let ada = app.account("pharmacology").await;
    let report = ReportBuilder::new("Scheduler-genome", 1)
        .with("/cluster/name", "genome-cluster")
        .with("/task_groups", json!([harness::task_group(10, "align_reads", 4)]))
        .build();
    let cluster = ada.reported(&report).await;
    let named =
        json!({ "query": "query Embargoed { viewer { user { name } } }", "operationName": "Embargoed" });
    ada.request(Method::POST, "/graphql").json(&named).send().await.unwrap();
    do_a_little(&app, &ada).await;
    // The first scrape is counted in the second one.
    scrape(&app).await;
    let series = scrape(&app).await.len();
    for number in 0..50 {
        for path in [
            format!("/genome/{number}"),
            format!("/api/v1/genome-{number}/performance_reports/all/"),
            format!("/clusters/{cluster}{number}?genome={number}"),
        ] {
            ada.request(Method::GET, &path).send().await.unwrap();
        }
        let method = Method::from_bytes(format!("GENOME{number}").as_bytes()).unwrap();
        ada.request(method, "/healthz").send().await.unwrap();
        let named = json!({ "query": format!("query Embargoed{number} {{ __typename }}") });
        ada.request(Method::POST, "/graphql").json(&named).send().await.unwrap();
    }
    let after = scrape(&app).await;
    // A counter and a histogram for each of the two routes that were not requested before.
    assert_eq!(after.len(), series + 2 * (1 + 17));
    let text =
        app.anonymous(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap().to_lowercase();
    for name in ["pharmacology", "genome", "align_reads", "embargoed", &cluster.to_string(), "127.0.0.1"] {
        assert!(!text.contains(name), "{name} is in it");
    }
    app.stop().await;
}

#[tokio::test]
async fn on_the_address_of_everybody_metrics_are_for_this_machine_alone() {
    let trusting = |settings: &mut ServeConfig| {
        let networks = vec!["127.0.0.0/8".parse().unwrap()];
        settings.network.proxies = TrustedProxies::new(networks, ForwardedHeader::default());
    };
    let app = TestApp::start_with(trusting).await;
    for (name, value, status) in [
        ("x-nothing", "", 200),
        ("x-forwarded-for", "203.0.113.9", 404),
        ("x-forwarded-for", "127.0.0.1", 404),
        ("x-forwarded-host", "galvo.example", 404),
        ("x-forwarded-proto", "https", 404),
        ("forwarded", "for=127.0.0.1", 404),
        ("x-real-ip", "127.0.0.1", 404),
        ("via", "1.1 proxy", 404),
    ] {
        let answer = app.anonymous(Method::GET, "/metrics").header(name, value).send().await.unwrap();
        assert_eq!(answer.status(), status, "{name}: {value}");
        assert_eq!(answer.text().await.unwrap().contains("galvo_"), status == 200);
    }
    app.stop().await;
}

#[tokio::test]
async fn metrics_have_an_address_of_their_own_where_there_is_one() {
    let listen = |settings: &mut ServeConfig| {
        settings.metrics_listen = Some((Ipv4Addr::LOCALHOST, 0).into());
    };
    let app = TestApp::start_with(listen).await;
    let address = app.metrics_address().unwrap();
    assert_eq!(app.anonymous(Method::GET, "/metrics").send().await.unwrap().status(), 404);
    let client = reqwest::Client::new();
    let get = async |path: &str| {
        let request = client.get(format!("http://{address}{path}")).header("x-forwarded-for", "203.0.113.9");
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let (status, text) = get("/metrics").await;
    assert_eq!(status, 200);
    assert!(Exposition::parse(&text).has("galvo_http_connections_max"));
    assert_eq!(get("/healthz").await.0, 200);
    assert_eq!(get("/readyz").await.0, 200);
    for path in ["/", "/graphql", "/sign-in", "/api/v1/openapi.json"] {
        assert_eq!(get(path).await.0, 404, "{path}");
    }
    app.stop().await;
    assert!(client.get(format!("http://{address}/healthz")).send().await.is_err());
}

#[tokio::test]
async fn both_formats_report_the_same() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    do_a_little(&app, &ada).await;
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    let answer = app.anonymous(Method::GET, "/metrics").header(header::ACCEPT, accept).send().await.unwrap();
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.headers()[header::CONTENT_TYPE], content_type);
    let open_metrics = answer.text().await.unwrap();
    assert!(open_metrics.ends_with("\n# EOF\n"));
    let names = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let text = app.anonymous(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    let (open_metrics, text) = (names(&open_metrics), names(&text));
    let more: Vec<_> = text.difference(&open_metrics).collect();
    // The previous scrape is counted now.
    assert!(more.iter().all(|name| name.contains("/metrics")), "{more:?}");
    assert!(open_metrics.is_subset(&text));
    app.stop().await;
}
