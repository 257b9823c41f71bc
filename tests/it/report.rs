//! Reports: accepted and refused ones, and their atomicity.

use std::{io::Write, time::Duration};

use entity::api_token::Scope;
use flate2::{Compression, write::GzEncoder};
use harness::{Member, ReportBuilder, TestApp, computation, error, task_group};
use reqwest::{Method, StatusCode, header};
use sea_orm::{ConnectionTrait, DatabaseBackend, Statement};
use serde_json::{Value, json};

const PATH: &str = "/api/v1/reports";

const COUNTS: &str = "{ viewer { account { clusters { totalCount nodes {
    computations { totalCount } taskGroups { totalCount } errors { totalCount } } } } } }";

fn full(sequence: i64) -> Value {
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/computations", json!([computation(1, &[10, 11])]))
        .with("/task_groups", json!([task_group(10, "load", 4), task_group(11, "divide", 2)]))
        .with("/errors", json!([error(20, 11, 1)]))
        .build()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn the_answer_acknowledges_and_directs() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (status, first) = ada.report(&full(7)).await;
    assert_eq!(status, StatusCode::OK);
    let number = first["cluster_id"].as_i64().unwrap();
    assert!((1..1 << 53).contains(&number));
    let expected = json!({
        "acknowledged": 7, "cluster_id": number, "path": format!("/clusters/{number}?account=ada"),
        "interval_seconds": 15.0,
        "desired_state": "running", "stop_reason": null, "stop_only_if_idle": false, "keep_alive_seconds": 0.0,
        "resend": false, "accepts": [
            "basic", "tasks", "dask_errors", "user_errors", "code", "profiles", "events", "logs"],
    });
    assert_eq!(first, expected);
    // The same report again, and an older one, are accepted as well and change nothing.
    assert_eq!(ada.report(&full(7)).await, (StatusCode::OK, expected));
    let (_, older) = ada.report(&full(6)).await;
    assert_eq!((&older["acknowledged"], &older["stale"]), (&json!(7), &json!(true)));
    let counted = ada.query(COUNTS, json!({})).await;
    let expected = json!({ "totalCount": 1, "nodes": [{
        "computations": { "totalCount": 1 }, "taskGroups": { "totalCount": 2 }, "errors": { "totalCount": 1 } }] });
    assert_eq!(counted["viewer"]["account"]["clusters"], expected);
    app.stop().await;
}

#[tokio::test]
async fn the_interval_is_the_reporters_within_bounds() {
    let app =
        TestApp::start_with(|serve| serve.min_report_interval = std::time::Duration::from_secs(5)).await;
    let ada = app.account("ada").await;
    for (requested, returned) in [(15.0, 15.0), (0.1, 5.0), (86_400.0, 600.0)] {
        let report = ReportBuilder::new("Scheduler-1", 1).with("/interval_seconds", requested).build();
        assert_eq!(ada.report(&report).await.1["interval_seconds"], returned, "{requested}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_store_that_lost_what_it_acknowledged_requests_everything() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let resend = async |sequence: i64, base: Option<i64>| {
        ada.report(&ReportBuilder::new("Scheduler-1", sequence).with("/base", base).build()).await.1["resend"]
            .clone()
    };
    assert_eq!(resend(5, Some(4)).await, true, "an unknown cluster cannot have been acknowledged");
    assert_eq!(resend(5, Some(4)).await, true, "the answer may have been lost");
    assert_eq!(resend(6, Some(5)).await, true, "4 is still missing, whatever was acknowledged since");
    assert_eq!(resend(7, None).await, false, "everything came again");
    assert_eq!(resend(8, Some(7)).await, false);
    assert_eq!(resend(7, None).await, false, "an older report that came late");
    assert_eq!(resend(11, Some(10)).await, true, "10 was never stored");
    app.stop().await;
}

#[tokio::test]
async fn what_was_sent_is_not_sent_back() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let long = "x".repeat(1 << 20);
    let (_, refused) =
        ada.report(&ReportBuilder::new("Scheduler-1", 1).with("/version", long.as_str()).build()).await;
    assert_eq!(refused["pointer"], "/version");
    let states = ReportBuilder::new("Scheduler-1", 1)
        .with("/task_groups", json!([task_group(10, "load", 1)]))
        .with("/task_groups/0/durations", json!({ long.as_str(): -1 }));
    let (_, keyed) = ada.report(&states.build()).await;
    let queried = ada.ask(&format!("{{ {} }}", &long[..900_000]), json!({})).await;
    for answer in [refused, keyed, queried] {
        let length = answer.to_string().len();
        assert!(length < 2_000, "{length} bytes");
    }
    app.stop().await;
}

#[tokio::test]
async fn too_many_links_are_to_be_sent_in_parts() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let groups: Vec<u128> = (0..5_000).collect();
    let report = |computations: u128| {
        let computations: Vec<_> = (0..computations).map(|n| computation(n, &groups)).collect();
        ReportBuilder::new("Scheduler-1", 1).with("/computations", computations).build()
    };
    let (status, body) = ada.report(&report(5)).await;
    assert_eq!((status, &body["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("PAYLOAD_TOO_LARGE")));
    ada.reported(&report(4)).await;
    app.stop().await;
}

#[tokio::test]
async fn too_many_rows_of_items_are_to_be_sent_in_parts() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let refused = (
        StatusCode::PAYLOAD_TOO_LARGE,
        json!("more than 20000 task groups of computations and functions of hours in one report"),
    );
    let shares = |computations: u128| {
        let shares: Vec<_> = (0..1_000)
            .map(|n| json!({ "task_group_id": harness::uuid(n), "tasks": 1, "tasks_succeeded": 0, "tasks_erred": 0, "tasks_retried": 0, "bytes": 0 }))
            .collect();
        let with_shares = |n| {
            let mut computation = computation(n, &[]);
            computation["task_group_shares"] = json!(shares);
            computation
        };
        ReportBuilder::new("Scheduler-1", 1)
            .with("/computations", (0..computations).map(with_shares).collect::<Vec<_>>())
            .build()
    };
    let (status, body) = ada.report(&shares(21)).await;
    assert_eq!((status, body["message"].clone()), refused);
    let functions = |hours: i64| {
        let functions: Vec<_> = (0..1_000).map(|n| json!({ "prefix": format!("f{n}"), "compute_seconds": 0, "transfer_seconds": 0, "tasks": 0, "tasks_erred": 0, "bytes": 0 })).collect();
        let with_functions = |back| {
            let mut hour = harness::usage(11 - back, 1);
            hour["functions"] = json!(functions);
            hour
        };
        ReportBuilder::new("Scheduler-1", 1)
            .with("/usage", (0..hours).map(with_functions).collect::<Vec<_>>())
            .build()
    };
    let (status, body) = ada.report(&functions(21)).await;
    assert_eq!((status, body["message"].clone()), refused);
    let cells = |spans: u128| {
        let cells: Vec<_> = (0..5_000).map(|n| json!(["x", n.to_string(), "a", "s", 1])).collect();
        let of_span = |n| json!({ "span_id": harness::uuid(n), "cells": cells });
        ReportBuilder::new("Scheduler-1", 1)
            .with("/fine_metrics", (0..spans).map(of_span).collect::<Vec<_>>())
            .build()
    };
    let (status, body) = ada.report(&cells(41)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(body["message"], "more than 200000 fine metrics in one report");
    app.stop().await;
}

#[tokio::test]
async fn clients_that_hang_up_leave_nothing_behind() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let body = serde_json::to_vec(&full(1)).unwrap();
    let address = app.url("").strip_prefix("http://").unwrap().to_owned();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        ada.secret(),
        body.len()
    );
    let request = [head.as_bytes(), &body].concat();
    for round in 0..300_u64 {
        let mut stream = tokio::net::TcpStream::connect(&address).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, &request).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_micros(37 * (round % 60))).await;
    }
    // Every connection of the pool is used, and none of them has an open transaction.
    let reports = (2..=60).map(|sequence| {
        let (ada, report) = (ada.clone(), full(sequence));
        async move {
            // Like reporters, which retry if the server is busy.
            loop {
                match ada.report(&report).await {
                    (StatusCode::SERVICE_UNAVAILABLE, _) => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    (status, answer) => break assert_eq!(status, StatusCode::OK, "{answer}"),
                }
            }
        }
    });
    tokio::time::timeout(Duration::from_secs(30), futures::future::join_all(reports)).await.unwrap();
    let connection = app.database.connection().await;
    if connection.get_database_backend() == DatabaseBackend::Postgres {
        let open =
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
        let open =
            connection.query_all_raw(Statement::from_string(DatabaseBackend::Postgres, open)).await.unwrap();
        assert_eq!(open.len(), 0);
    }
    app.stop().await;
}

#[tokio::test]
async fn the_desired_state_is_in_the_response() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&full(1)).await;
    let id = &ada.query("{ viewer { account { clusters { nodes { id } } } } }", json!({})).await["viewer"]["account"]
        ["clusters"]["nodes"][0]["id"];
    let mutation = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { desiredState state } } }";
    let answer = ada.query(mutation, json!({ "id": id })).await;
    assert_eq!(
        answer["setDesiredState"]["cluster"],
        json!({ "desiredState": "STOPPED", "state": "CLOSING" })
    );
    assert_eq!(ada.report(&full(2)).await.1["desired_state"], "stopped");
    app.stop().await;
}

#[tokio::test]
async fn every_wrong_value_is_named_and_nothing_is_stored() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let long = |length| "x".repeat(length);
    let cases = [
        ("/version", json!(2), "/version"),
        ("/version", json!("1"), "/version"),
        ("/scheduler_id", json!(7), "/scheduler_id"),
        ("/scheduler_id", json!(long(257)), "/scheduler_id"),
        ("/sequence", json!(-1), "/sequence"),
        ("/sequence", json!(9_007_199_254_740_992_i64), "/sequence"),
        ("/sequence", json!(1.5), "/sequence"),
        ("/base", json!("x"), "/base"),
        ("/sent_at", json!(-5), "/sent_at"),
        ("/sent_at", json!(253_402_300_800_i64), "/sent_at"),
        ("/interval_seconds", json!(-1), "/interval_seconds"),
        ("/final", json!("yes"), "/final"),
        ("/cluster/threads", json!(-2), "/cluster/threads"),
        ("/cluster/totals/compute_seconds", json!(-0.5), "/cluster/totals/compute_seconds"),
        ("/computations", json!([computation(1, &[]), {"id": "x"}]), "/computations/1/id"),
        ("/computations/0/state", json!("dreaming"), "/computations/0/state"),
        ("/task_groups/1/name", json!(long(4_097)), "/task_groups/1/name"),
        ("/task_groups/1/tasks", json!(true), "/task_groups/1/tasks"),
        ("/task_groups/0/states/no-worker", json!(-1), "/task_groups/0/states/no-worker"),
        ("/task_groups/0/durations/compute", json!(-1.0), "/task_groups/0/durations/compute"),
        ("/task_groups/0/dependencies", json!(["y"]), "/task_groups/0/dependencies/0"),
        ("/task_groups/0/types", json!(vec!["t"; 101]), "/task_groups/0/types"),
        ("/errors/0/traceback", json!(long(100_001)), "/errors/0/traceback"),
        ("/errors/0/at", json!(null), "/errors/0/at"),
        ("/errors", json!(vec![error(1, 1, 1); 501]), "/errors"),
        ("/dropped", json!(5), "/dropped"),
    ];
    let with = |pointer: &str, value: &Value| {
        let mut report = full(1);
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        let parent = report.pointer_mut(parent).unwrap();
        match parent {
            Value::Array(items) => items[field.parse::<usize>().unwrap()] = value.clone(),
            parent => parent[field] = value.clone(),
        }
        report
    };
    for (pointer, value, named) in &cases {
        let (status, body) = ada.report(&with(pointer, value)).await;
        let shown = serde_json::to_string(value).unwrap().chars().take(60).collect::<String>();
        assert_eq!(
            (status, &body["pointer"]),
            (StatusCode::BAD_REQUEST, &json!(named)),
            "{pointer}: {shown}: {body}"
        );
        assert_eq!(
            (&body["code"], &body["message"]),
            (&json!("INVALID_BODY"), &body["detail"]),
            "{pointer}: {shown}"
        );
    }
    for missing in ["/version", "/scheduler_id", "/cluster/totals/tasks", "/cluster/started_at"] {
        let (status, body) = ada.report(&ReportBuilder::new("Scheduler-1", 1).without(missing).build()).await;
        assert_eq!((status, &body["pointer"]), (StatusCode::BAD_REQUEST, &json!(missing)), "{body}");
    }
    let counted = ada.query(COUNTS, json!({})).await;
    assert_eq!(counted["viewer"]["account"]["clusters"], json!({ "totalCount": 0, "nodes": [] }));
    app.stop().await;
}

#[tokio::test]
async fn bodies_are_json_in_utf_8_of_bounded_size() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let (mib, report) = (1 << 20, serde_json::to_vec(&full(1)).unwrap());
    let spaces = |count: usize| [report.as_slice(), &vec![b' '; count]].concat();
    let json = "application/json";
    let cases = [
        ("plain", json, "", report.clone(), 200, ""),
        ("with a charset", "application/json; charset=UTF-8", "", report.clone(), 200, ""),
        ("gzip", json, "gzip", gzip(&report), 200, ""),
        ("identity", json, "identity", report.clone(), 200, ""),
        ("7 MiB", json, "", spaces(7 * mib), 200, ""),
        ("31 MiB in gzip", json, "gzip", gzip(&spaces(31 * mib)), 200, ""),
        ("9 MiB", json, "", spaces(9 * mib), 413, "PAYLOAD_TOO_LARGE"),
        ("33 MiB in gzip", json, "gzip", gzip(&spaces(33 * mib)), 413, "PAYLOAD_TOO_LARGE"),
        ("text", "text/plain", "", report.clone(), 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("no type", "", "", report.clone(), 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("Latin-1", "application/json; charset=latin1", "", report.clone(), 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("brotli", json, "br", report.clone(), 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("not gzip", json, "gzip", report.clone(), 400, "MALFORMED_BODY"),
        ("half of it", json, "", report[..report.len() / 2].to_vec(), 400, "MALFORMED_BODY"),
        ("not UTF-8", json, "", b"{\"version\": \"\xff\"}".to_vec(), 400, "MALFORMED_BODY"),
        ("empty", json, "", Vec::new(), 400, "MALFORMED_BODY"),
    ];
    for (case, content_type, encoding, body, status, code) in cases {
        let mut request = ada.request(Method::POST, PATH).body(body);
        if !content_type.is_empty() {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        if !encoding.is_empty() {
            request = request.header(header::CONTENT_ENCODING, encoding);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{case}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json", "{case}");
        let answer: Value = response.json().await.unwrap();
        assert_eq!(answer["code"].as_str().unwrap_or_default(), code, "{case}: {answer}");
    }
    app.stop().await;
}

#[tokio::test]
async fn text_the_databases_cannot_store_is_replaced() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report =
        ReportBuilder::new("Scheduler-1", 1).with("/cluster/name", "a\0b \u{1f600} 'quoted' \\").build();
    ada.reported(&report).await;
    let answer = ada.query("{ viewer { account { clusters { nodes { name } } } } }", json!({})).await;
    let name = &answer["viewer"]["account"]["clusters"]["nodes"][0]["name"];
    assert_eq!(name, "a\u{fffd}b \u{1f600} 'quoted' \\");
    app.stop().await;
}

#[tokio::test]
async fn an_item_that_is_twice_in_a_report_is_stored_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/computations", json!([computation(1, &[10, 10]), computation(1, &[10])]))
        .with("/task_groups", json!([task_group(10, "load", 3), task_group(10, "load", 4)]))
        .with("/errors", json!([error(20, 10, 1), error(20, 10, 1)]))
        .build();
    ada.reported(&report).await;
    let query = "{ viewer { account { clusters { nodes {
        computations { nodes { taskGroups { totalCount nodes { tasks } } } } errors { totalCount } } } } } }";
    let cluster = &ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0];
    let expected = json!({
        "computations": { "nodes": [{ "taskGroups": { "totalCount": 1, "nodes": [{ "tasks": 4 }] } }] },
        "errors": { "totalCount": 1 },
    });
    assert_eq!(cluster, &expected);
    app.stop().await;
}

#[tokio::test]
async fn the_largest_report_is_stored() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let groups: Vec<u128> = (10_000..15_000).collect();
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/task_groups", groups.iter().map(|n| task_group(*n, "load", 1)).collect::<Vec<_>>())
        .with("/computations", (0..1_000).map(|n| computation(n, &groups[..20])).collect::<Vec<_>>())
        .with("/errors", (0..500).map(|n| error(n, 10_000, 0)).collect::<Vec<_>>())
        .build();
    ada.reported(&report).await;
    let cluster = &ada.query(COUNTS, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0];
    let expected = json!({
        "computations": { "totalCount": 1_000 }, "taskGroups": { "totalCount": 5_000 }, "errors": { "totalCount": 500 },
    });
    assert_eq!(cluster, &expected);
    app.stop().await;
}

#[tokio::test]
async fn the_first_reports_of_a_scheduler_may_race() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let reports = (1..=16).map(|sequence| {
        let (ada, report) = (ada.clone(), full(sequence));
        async move { ada.reported(&report).await }
    });
    let clusters = futures::future::join_all(reports).await;
    assert!(clusters.iter().all(|cluster| *cluster == clusters[0]), "one cluster, not {clusters:?}");
    let counted = ada.query(COUNTS, json!({})).await;
    assert_eq!(counted["viewer"]["account"]["clusters"]["totalCount"], 1);
    app.stop().await;
}

#[tokio::test]
async fn a_token_that_reports_too_much_receives_the_time_to_return() {
    let app = TestApp::start_with(|serve| serve.reports_per_second = 1).await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mut refused = None;
    for sequence in 1..=30 {
        let response = ada.request(Method::POST, PATH).json(&full(sequence)).send().await.unwrap();
        if response.status() != StatusCode::OK {
            refused = Some(response);
            break;
        }
    }
    let refused = refused.expect("thirty reports within a few seconds are more than one a second");
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
    assert_eq!(refused.json::<Value>().await.unwrap()["code"], "RATE_LIMITED");
    bob.reported(&full(1)).await;
    app.stop().await;
}

#[tokio::test]
async fn a_report_needs_a_token_for_it() {
    let app = TestApp::start().await;
    let (ada, _) = (app.account("ada").await, app.account("bob").await);
    let cases: [(Member, &str, u16, &str); 3] = [
        (ada.with_token(ada.token(&[Scope::Read, Scope::Admin], None).await), "ada", 403, "MISSING_SCOPE"),
        (ada.clone(), "bob", 403, "ACCOUNT_MISMATCH"),
        (ada.with_token("x-y".to_owned()), "ada", 401, "UNAUTHENTICATED"),
    ];
    for (member, account, status, code) in cases {
        let (answered, body) =
            member.report(&ReportBuilder::new("Scheduler-1", 1).with("/account", account).build()).await;
        assert_eq!((answered.as_u16(), &body["code"]), (status, &json!(code)), "{body}");
    }
    // An account that does not exist gives the same response as another's account.
    let answer = async |account: &str| {
        let body =
            ada.report(&ReportBuilder::new("Scheduler-1", 1).with("/account", account).build()).await.1;
        body["message"].as_str().unwrap().replace(account, "X")
    };
    assert_eq!(answer("bob").await, answer("nobody").await);
    let ingest = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    ingest.reported(&ReportBuilder::new("Scheduler-1", 1).with("/account", "ada").build()).await;
    app.stop().await;
}

#[tokio::test]
async fn a_store_that_is_away_is_reported_as_such() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&full(1)).await;
    let outage = app.database.go_away().await;
    let refused = ada.request(Method::POST, PATH).json(&full(2)).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()[header::RETRY_AFTER], "5");
    assert_eq!(refused.json::<Value>().await.unwrap()["code"], "UNAVAILABLE");
    outage.end().await;
    // Connections that died during the outage are detected one by one.
    let again = async || ada.report(&full(2)).await.0;
    let mut answers = vec![again().await];
    while answers.last() != Some(&StatusCode::OK) {
        assert!(answers.len() < 20, "the store is back, but the server does not notice: {answers:?}");
        answers.push(again().await);
    }
    app.stop().await;
}

#[tokio::test]
async fn a_defect_is_reported_by_a_reference_alone() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let connection = app.database.connection().await;
    connection.execute_unprepared("DROP TABLE error_occurrences").await.unwrap();
    let (status, body) = ada.report(&full(1)).await;
    assert_eq!((status, &body["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &json!("INTERNAL_SERVER_ERROR")));
    assert!(body["reference"].as_str().is_some_and(|reference| reference.len() == 36), "{body}");
    assert_eq!(body["message"], "internal error");
    let counted = ada.query("{ viewer { account { clusters { totalCount } } } }", json!({})).await;
    assert_eq!(
        counted["viewer"]["account"]["clusters"]["totalCount"], 0,
        "the rest of the report was stored"
    );
    app.stop().await;
}
