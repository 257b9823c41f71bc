//! The lists of `coiled.analytics`, and closing clusters with it: the client's requests, compared with
//! values computed by hand.

use std::time::Duration;

use entity::{api_token::Scope, membership::Role};
use harness::{
    Member, ReportBuilder, TestApp, code, code_frame, computation, error, event, span, task_group, usage,
    uuid,
};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::life_cycle::{closing, report_at, server_time};

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn list(member: &Member, path: &str) -> Value {
    let (status, body) = answer(member.request(Method::GET, path)).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

/// Reads all pages as the client does: pages of a hundred until one is empty.
async fn all(member: &Member, path: &str) -> (Vec<usize>, Vec<Value>) {
    let (mut pages, mut rows) = (Vec::new(), Vec::new());
    loop {
        let and = if path.contains('?') { '&' } else { '?' };
        let page = list(member, &format!("{path}{and}limit=100&offset={}", rows.len())).await;
        let page = page.as_array().unwrap();
        pages.push(page.len());
        if page.is_empty() {
            return (pages, rows);
        }
        rows.extend(page.iter().cloned());
    }
}

fn ids(rows: &Value) -> Vec<i64> {
    rows.as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn a_cluster_is_a_row_with_the_fields_its_users_request() {
    let app = TestApp::start().await;
    app.account("ada").await;
    let grace = app.member("grace", "ada").await;
    let totals = json!({
        "tasks": 120, "tasks_succeeded": 110, "tasks_erred": 4, "errors": 5, "compute_seconds": 7.5,
        "transfer_seconds": 0.25, "thread_seconds": 480.5, "bytes": 9_000_000_000_i64, "workers": 3,
        "peak_workers": 2, "peak_threads": 8,
    });
    let report = ReportBuilder::new("Scheduler-a1b2", 60)
        .with("/cluster/name", "etl")
        .with("/cluster/address", "tcp://10.0.0.1:8786")
        .with("/cluster/dashboard_url", "http://10.0.0.1:8787/status")
        .with("/cluster/workers", 2)
        .with("/cluster/threads", 8)
        .with("/cluster/memory_used_bytes", 1_000_000)
        .with("/cluster/memory_limit_bytes", 16_000_000_000_i64)
        .with("/cluster/totals", totals)
        // Two threads for an hour at the estimated 0.05 USD.
        .with("/usage", json!([usage(11, 2)]));
    let number = grace.reported(&report.build()).await;
    let expected = json!({
        "id": number, "scheduler_id": "Scheduler-a1b2", "name": "etl", "user": "grace", "status": "running",
        "state": "running", "desired_status": "running", "created": "2026-11-20T11:00:00.000+00:00", "stopped": null,
        "last_seen": "2026-11-20T12:00:00.000+00:00", "idle_since": null, "close_reason": null, "duration": 60.0,
        "address": "tcp://10.0.0.1:8786", "dashboard": "http://10.0.0.1:8787/status", "workers": 2, "n_workers": 3,
        "peak_workers": 2, "threads": 8, "memory": 1_000_000, "memory_limit": 16_000_000_000_i64, "n_tasks": 120,
        "n_tasks_succeeded": 110, "n_tasks_erred": 4, "n_errors": 5, "nbytes": 9_000_000_000_i64,
        "thread_seconds": 480.5, "compute_seconds": 7.5, "transfer_seconds": 0.25, "cost": 0.1, "currency": "USD",
        "costs": [{ "amount": 0.1, "currency": "USD", "basis": "estimated" }],
    });
    let path = "/api/v2/analytics/ada/clusters/list";
    assert_eq!(list(&grace, path).await, json!([expected]));
    // With prices in two currencies there is no sum.
    let rate = r#"mutation { setCostRate(input: { validFrom: "2026-11-21", currency: "EUR", perThreadHour: 0.5 }) { account { slug } } }"#;
    grace.query(rate, json!({})).await;
    let later = ReportBuilder::new("Scheduler-a1b2", 61).with("/usage", json!([usage(11, 2), usage(30, 1)]));
    grace.reported(&later.build()).await;
    let rows = list(&grace, path).await;
    assert_eq!((&rows[0]["cost"], &rows[0]["currency"]), (&Value::Null, &Value::Null));
    let costs = json!([
        { "amount": 0.5, "currency": "EUR", "basis": "rate_card" },
        { "amount": 0.1, "currency": "USD", "basis": "estimated" },
    ]);
    assert_eq!(rows[0]["costs"], costs);
    // A cluster without limits, names and costs.
    let bare = grace.reported(&ReportBuilder::new("Scheduler-bare", 1).build()).await;
    let rows = list(&grace, path).await;
    let row = rows.as_array().unwrap().iter().find(|row| row["id"] == bare).unwrap();
    for (field, value) in [
        ("name", json!(null)),
        ("memory", json!(0)),
        ("memory_limit", json!(0)),
        ("cost", json!(0.0)),
        ("currency", json!(null)),
        ("costs", json!([])),
    ] {
        assert_eq!(row[field], value, "{field}");
    }
    app.stop().await;
}

#[tokio::test]
async fn clusters_run_or_are_stopped_whatever_they_do() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for report in [
        report_at("starting", 10, Some(5), 0, 0),
        report_at("busy", 60, None, 2, 5),
        report_at("idle", 60, Some(50), 2, 5),
        report_at("stopping", 60, None, 2, 5),
        closing(report_at("closed", 60, Some(50), 2, 5), 70).with("/cluster/close_reason", "shutdown"),
    ] {
        ada.reported(&report.build()).await;
    }
    let path = "/api/v2/analytics/ada/clusters/list";
    let rows = list(&ada, path).await;
    let stopping =
        rows.as_array().unwrap().iter().find(|row| row["scheduler_id"] == "stopping").unwrap()["id"].clone();
    let close = ada.request(Method::POST, &format!("/api/v2/analytics/ada/{stopping}/desired-state"));
    let (status, body) = answer(close.json(&json!({ "desired_status": "stopped" }))).await;
    assert_eq!((status, body), (200, json!({})));
    let summarized = |rows: Value| {
        let mut sorted: Vec<_> = rows.as_array().unwrap().clone();
        sorted.sort_by_key(|row| row["scheduler_id"].to_string());
        let summaries = sorted
            .iter()
            .map(|row| json!([row["scheduler_id"], row["status"], row["state"], row["stopped"]]));
        summaries.collect::<Value>()
    };
    let ended = "2026-11-20T11:01:10.000+00:00";
    assert_eq!(
        summarized(list(&ada, path).await),
        json!([
            ["busy", "running", "running", null],
            ["closed", "stopped", "closed", ended],
            ["idle", "running", "idle", null],
            ["starting", "running", "starting", null],
            ["stopping", "running", "closing", null],
        ])
    );
    app.set_clock(&server_time(3_600));
    app.run_jobs().await;
    let (minute, ten) = ("2026-11-20T11:01:00.000+00:00", "2026-11-20T11:00:10.000+00:00");
    assert_eq!(
        summarized(list(&ada, path).await),
        json!([
            ["busy", "stopped", "lost", minute],
            ["closed", "stopped", "closed", ended],
            ["idle", "stopped", "lost", minute],
            ["starting", "stopped", "lost", ten],
            ["stopping", "stopped", "lost", minute],
        ])
    );
    app.stop().await;
}

#[tokio::test]
async fn clusters_are_found_by_age_and_user_and_paged_to_the_end() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    bob.reported(&ReportBuilder::new("Scheduler-of-bob", 1).build()).await;
    let grace = app.member("grace", "ada").await;
    let mut numbers = Vec::new();
    // Always two of them in the same second. The clock is at noon, and they started at eleven.
    for second in 0..125_i32 {
        for member in [&ada, &grace] {
            let report = report_at(&format!("Scheduler-{}-{second}", member.name()), second + 1, None, 1, 1)
                .with("/cluster/started_at", 1_795_172_400.0 + f64::from(second));
            numbers.push((second, member.reported(&report.build()).await));
        }
    }
    numbers.sort_by_key(|number| std::cmp::Reverse(*number));
    let newest_first: Vec<i64> = numbers.iter().map(|(_, number)| *number).collect();
    let path = "/api/v2/analytics/ada/clusters/list";
    let (pages, rows) = all(&ada, path).await;
    assert_eq!((pages, ids(&json!(rows))), (vec![100, 100, 50, 0], newest_first.clone()));
    // Any other page size returns the same rows in the same order.
    assert_eq!(ids(&list(&ada, &format!("{path}?limit=1000")).await), newest_first);
    assert_eq!(ids(&list(&ada, &format!("{path}?limit=7&offset=6")).await), newest_first[6..13]);
    assert_eq!(ids(&list(&ada, &format!("{path}?limit=999999&offset=249")).await), newest_first[249..]);
    assert_eq!(list(&ada, &format!("{path}?offset=1000000")).await, json!([]));
    let (_, of_grace) = all(&ada, &format!("{path}?user=grace")).await;
    assert_eq!(of_grace.len(), 125);
    assert!(of_grace.iter().all(|row| row["user"] == "grace"));
    assert_eq!(list(&ada, &format!("{path}?user=ada&limit=1000")).await.as_array().unwrap().len(), 125);
    for nobody in ["bob", "nobody", "'"] {
        assert_eq!(list(&ada, &format!("{path}?user={nobody}")).await, json!([]), "{nobody}");
    }
    // The clusters that started in the last five seconds, including the first of these.
    for (since, rows) in
        [("3480", 10), ("3480.0", 10), ("3479.999", 8), ("0", 0), ("604800", 250), ("0.5", 0)]
    {
        let (_, found) = all(&ada, &format!("{path}?since={since}")).await;
        assert_eq!(found.len(), rows, "{since}");
        assert_eq!(ids(&json!(found)), newest_first[..rows], "{since}");
    }
    let before = app.statements();
    list(&ada, &format!("{path}?limit=100&offset=200&since=604800")).await;
    assert_eq!(app.statements() - before, 5, "the token, the page, its users, what they used, and the rates");
    app.stop().await;
}

#[tokio::test]
async fn the_next_page_is_read_while_one_is_looked_at() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let named = |number: i32| report_at(&format!("Scheduler-{number}"), 10, None, 1, 1);
    for number in 0..5 {
        ada.reported(&named(number).build()).await;
        bob.reported(&named(number).build()).await;
    }
    let page = async |member: &Member, offset: usize| {
        let path = format!("/api/v2/analytics/{}/clusters/list?limit=2&offset={offset}", member.slug());
        list(member, &path).await
    };
    let whole = list(&ada, "/api/v2/analytics/ada/clusters/list").await;
    let rows = |from: usize, to: usize| json!(whole.as_array().unwrap()[from..to]);
    let mut sent = app.statements();
    let mut reads = async |offset: usize, expected: Value, statements: u64| {
        assert_eq!(page(&ada, offset).await, expected, "{offset}");
        sent += statements;
        // The prefetch of the next page may still be running.
        while app.statements() < sent {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(app.statements(), sent, "{offset}");
    };
    // The token, and for each of two pages: the page, its users, usage, and the rates.
    reads(0, rows(0, 2), 9).await;
    // The token, the following page, and three empty ones, each with the rates.
    reads(2, rows(2, 4), 11).await;
    // The page is prefetched, and was not full: no page follows.
    reads(4, rows(4, 5), 1).await;
    // The token, an empty page, and the rates.
    reads(5, json!([]), 3).await;

    // Nothing was prefetched for the same offset in another account.
    reads(0, rows(0, 2), 9).await;
    let of_bob = page(&bob, 2).await;
    assert_eq!(of_bob.as_array().unwrap().len(), 2);
    assert!(ids(&of_bob).iter().all(|id| !ids(&whole).contains(id)), "{of_bob}");

    // A prefetched page expires soon.
    let changed = whole[2]["scheduler_id"].as_str().unwrap();
    ada.reported(&report_at(changed, 11, None, 1, 1).with("/cluster/name", "renamed").build()).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(page(&ada, 2).await[0]["name"], "renamed");
    app.stop().await;
}

#[tokio::test]
async fn a_question_that_is_wrong_is_answered_with_what_is_wrong() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&ReportBuilder::new("Scheduler-1", 1).build()).await;
    let reporter = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let lists = "/api/v2/analytics/ada";
    for (path, status, text) in [
        (format!("{lists}/clusters/list?limit=0"), 400, "'limit'"),
        (format!("{lists}/clusters/list?offset=-1"), 400, "'offset'"),
        (format!("{lists}/clusters/list?offset=1000001"), 400, "'offset'"),
        (format!("{lists}/clusters/list?since=week"), 400, "'since'"),
        (format!("{lists}/clusters/list?since=-1"), 400, "'since'"),
        (format!("{lists}/exceptions/list?since=NaN"), 400, "'since'"),
        (format!("{lists}/exceptions/list?cluster={number}&scheduler=1"), 400, "'scheduler'"),
        (format!("{lists}/exceptions/list?cluster=1"), 404, "cluster not found"),
        (format!("{lists}/1/computations/list"), 404, "cluster not found"),
        (format!("{lists}/cluster/etl/computations/list"), 404, "cluster not found"),
        (format!("{lists}/99999999999999999999/events/list"), 404, "cluster not found"),
        ("/api/v2/analytics/bob/clusters/list".to_owned(), 403, "give no access to this account"),
        ("/api/v2/analytics/%FF/clusters/list".to_owned(), 404, "nothing at this address"),
    ] {
        let (found, body) = answer(ada.request(Method::GET, &path)).await;
        assert_eq!(found, status, "{path}: {body}");
        assert_eq!(body["message"], body["detail"], "{path}");
        assert!(body["message"].as_str().unwrap().contains(text), "{path}: {body}");
    }
    for path in ["clusters/list", "exceptions/list", "1/events/list", "1/computations/list"] {
        let path = format!("{lists}/{path}");
        assert_eq!(answer(reporter.request(Method::GET, &path)).await.0, 403, "{path}");
        assert_eq!(answer(app.anonymous(Method::GET, &path)).await.0, 401, "{path}");
    }
    // The client sends this word if it knows no workspace, and two slashes if its setting ends in one.
    for path in ["/api/v2/analytics/None/clusters/list", "//api/v2/analytics/ada/clusters/list?limit=5"] {
        assert_eq!(ids(&list(&ada, path).await), [number], "{path}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_computation_has_its_code_its_spans_and_its_task_groups() {
    const TEXT: &str = "df.groupby('key').x.mean().compute()";
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut failed = computation(1, &[10, 11]);
    failed["state"] = json!("erred");
    failed["span_ids"] = json!([uuid(30), uuid(31)]);
    failed["code"] = json!([[code_frame(TEXT, 3, 0), code_frame("lost", 0, 0)], [code_frame(TEXT, 3, 0)]]);
    let mut runs = computation(2, &[]);
    runs["state"] = json!("running");
    runs["stopped_at"] = json!(null);
    runs["started_at"] = json!(1_795_172_405.0);
    let report = ReportBuilder::new("Scheduler-1", 60)
        .with("/computations", json!([failed, runs]))
        .with("/task_groups", json!([task_group(10, "load", 4), task_group(11, "divide", 2)]))
        .with("/errors", json!([error(20, 11, 1)]))
        .with("/spans", json!([span(30, None, &["etl", "load"], 1.0, Some(2.0))]))
        .with("/code", json!([code(TEXT)]));
    let number = ada.reported(&report.build()).await;
    let group = |number: u128, prefix: &str, tasks: i64| {
        json!({
            "name": format!("{prefix}-{number:032x}"), "prefix": prefix, "n_tasks": tasks, "n_tasks_succeeded": tasks,
            "n_tasks_erred": 0, "start": "2026-11-20T11:00:02.000+00:00", "stop": "2026-11-20T11:00:03.500+00:00",
            "compute_seconds": 1.5, "transfer_seconds": 0.25, "nbytes": 800 * tasks, "types": ["int"],
        })
    };
    let expected = json!([
        {
            "id": uuid(2), "cluster_id": number, "scheduler_id": number, "state": "running",
            "start": "2026-11-20T11:00:05.000+00:00", "stop": "2026-11-20T11:01:00.000+00:00", "duration": 55.0,
            "code": "", "spans": [], "n_tasks": 0, "n_errors": 0, "n_task_groups": 0, "task_groups": [],
        },
        {
            "id": uuid(1), "cluster_id": number, "scheduler_id": number, "state": "erred",
            "start": "2026-11-20T11:00:01.000+00:00", "stop": "2026-11-20T11:00:03.500+00:00", "duration": 2.5,
            "code": TEXT, "spans": [{ "id": uuid(30), "name": ["etl", "load"] }], "n_tasks": 6, "n_errors": 1,
            "n_task_groups": 2, "task_groups": [group(10, "load", 4), group(11, "divide", 2)],
        },
    ]);
    let forms =
        ["", "cluster/"].map(|form| format!("/api/v2/analytics/ada/{form}{number}/computations/list"));
    for path in &forms {
        assert_eq!(list(&ada, path).await, expected, "{path}");
        assert_eq!(list(&ada, &format!("{path}?limit=1&offset=1")).await, json!([expected[1]]), "{path}");
        assert_eq!(list(&ada, &format!("{path}?offset=2")).await, json!([]), "{path}");
    }
    // Reading code is recorded in the audit log, as for GraphQL.
    let log = "{ viewer { account { auditLog(filter: { action: READ_CODE }, first: 100) { nodes { detail credential } } } } }";
    let log = ada.query(log, json!({})).await["viewer"]["account"]["auditLog"]["nodes"].take();
    let entry = json!({ "detail": { "texts": 1 }, "credential": "API_TOKEN" });
    assert_eq!(log, json!(vec![entry; 4]));
    // Groups, spans and code of many computations are loaded in batches.
    let many: Vec<Value> = (100..250).map(|id| computation(id, &[10])).collect();
    ada.reported(&ReportBuilder::new("Scheduler-1", 61).with("/computations", many).build()).await;
    let before = app.statements();
    let page = list(&ada, &format!("{}?limit=1000", forms[0])).await;
    assert_eq!(page.as_array().unwrap().len(), 100, "of computations a page has no more");
    assert_eq!(app.statements() - before, 6, "token, cluster, page, groups, their number, and errors");
    let (pages, rows) = all(&ada, &forms[1]).await;
    let different: std::collections::BTreeSet<_> = rows.iter().map(|row| row["id"].to_string()).collect();
    assert_eq!((pages, different.len()), (vec![100, 52, 0], 152));
    app.stop().await;
}

#[tokio::test]
async fn events_come_in_their_order_with_what_was_logged() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut events: Vec<Value> =
        (1..=150).map(|n| event(n, "progress", json!({ "step": n, "of": [1.5, null] }))).collect();
    events[0]["worker_id"] = json!(uuid(7));
    // Two simultaneous events remain two.
    events[149]["at"] = events[148]["at"].clone();
    let report = ReportBuilder::new("Scheduler-1", 1).with("/events", events);
    let number = ada.reported(&report.build()).await;
    let other =
        ReportBuilder::new("Scheduler-2", 1).with("/events", json!([event(1, "other", "plain text")]));
    let other = ada.reported(&other.build()).await;
    let path = format!("/api/v2/analytics/ada/{number}/events/list");
    let (pages, rows) = all(&ada, &path).await;
    assert_eq!(pages, [100, 50, 0]);
    let steps: Vec<i64> = rows.iter().map(|row| row["data"]["step"].as_i64().unwrap()).collect();
    assert_eq!(steps, (1..=150).collect::<Vec<_>>());
    assert_eq!(
        rows[0],
        json!({
            "id": uuid(1), "cluster_id": number, "scheduler_id": number, "timestamp": "2026-11-20T11:00:01.000+00:00",
            "topic": "progress", "worker_id": uuid(7), "data": { "step": 1, "of": [1.5, null] },
        })
    );
    let rows = list(&ada, &format!("/api/v2/analytics/ada/{other}/events/list")).await;
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["data"]), (1, &json!("plain text")));
    app.stop().await;
}

#[tokio::test]
async fn exceptions_are_those_of_the_account_or_of_one_cluster() {
    let app = TestApp::start().await;
    let (ada, grace) = (app.account("ada").await, app.member("grace", "ada").await);
    let mut first = error(20, 11, 1);
    first["worker_id"] = json!(uuid(7));
    first["retries"] = json!(2);
    let report = ReportBuilder::new("Scheduler-1", 1)
        .with("/cluster/name", "etl")
        .with("/task_groups", json!([task_group(11, "divide", 2)]))
        .with("/errors", json!([first]));
    let number = ada.reported(&report.build()).await;
    let many: Vec<Value> = (1..=130_u32)
        .map(|n| {
            let mut error = error(100 + u128::from(n), 11, 1);
            error["at"] = json!(1_795_172_410.0 + f64::from(n));
            error["key"] = json!(format!("many-{n}"));
            error
        })
        .collect();
    let others = grace.reported(&ReportBuilder::new("Scheduler-2", 1).with("/errors", many).build()).await;
    let path = "/api/v2/analytics/ada/exceptions/list";
    let expected = json!({
        "id": uuid(20), "cluster_id": number, "scheduler_id": number, "cluster_name": "etl", "user": "ada",
        "timestamp": "2026-11-20T11:00:03.000+00:00", "key": "divide-1", "type": "ZeroDivisionError",
        "message": "ZeroDivisionError('division by zero')", "traceback": "  File \"x.py\", line 1, in divide\n",
        "worker": "tcp://127.0.0.1:40000", "worker_id": uuid(7), "computation_id": uuid(1),
        "task_group": format!("divide-{:032x}", 11), "prefix": "divide", "span_id": null, "origin": "user", "retries": 2,
    });
    for which in [format!("cluster={number}"), format!("scheduler={number}"), "user=ada".to_owned()] {
        assert_eq!(list(&ada, &format!("{path}?{which}")).await, json!([expected]), "{which}");
    }
    assert_eq!(
        list(&ada, &format!("{path}?cluster={number}&scheduler={number}&since=3600")).await,
        json!([expected])
    );
    let (pages, rows) = all(&ada, path).await;
    assert_eq!(pages, [100, 31, 0]);
    assert_eq!(rows[130], expected);
    let keys: Vec<&str> = rows.iter().map(|row| row["key"].as_str().unwrap()).collect();
    let newest_first: Vec<String> = (1..=130).rev().map(|n| format!("many-{n}")).collect();
    assert_eq!(keys[..130], newest_first);
    let (pages, of_other) = all(&ada, &format!("{path}?cluster={others}&user=grace")).await;
    assert_eq!((pages, &of_other[..]), (vec![100, 30, 0], &rows[..130]));
    for (which, count) in [
        ("since=3600", 131),
        // The last ten seconds with events: the 121st to the 130th.
        ("since=3469", 10),
        ("since=0", 0),
        ("user=grace&since=3469", 10),
        ("user=ada&since=3469", 0),
        ("user=nobody", 0),
        (&format!("cluster={number}&user=grace"), 0),
    ] {
        assert_eq!(
            list(&ada, &format!("{path}?{which}&limit=1000")).await.as_array().unwrap().len(),
            count,
            "{which}"
        );
    }
    let before = app.statements();
    list(&ada, &format!("{path}?user=grace&offset=20")).await;
    assert_eq!(app.statements() - before, 6, "token, user, page, groups, clusters, users");
    app.stop().await;
}

#[tokio::test]
async fn closing_takes_and_leaves_the_same_as_the_mutation() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let helper = app.member_with("helper", "ada", Role::Member).await;
    let report = report_at("Scheduler-1", 10, None, 1, 1);
    let number = ada.reported(&report.build()).await;
    let path = format!("/api/v2/analytics/ada/{number}/desired-state");
    let wish = async |member: &Member, path: &str, body: Value| {
        answer(member.request(Method::POST, path).json(&body)).await
    };
    let stop = json!({ "desired_status": "stopped" });
    for (member, path, body, status) in [
        (&helper, &path, &stop, 403),
        (&helper, &path, &stop, 403),
        (&ada, &path, &json!({ "desired_status": "paused" }), 400),
        (&ada, &path, &json!({}), 400),
        (&ada, &"/api/v2/analytics/ada/1/desired-state".to_owned(), &stop, 404),
    ] {
        let (found, body) = wish(member, path, body.clone()).await;
        assert_eq!(found, status, "{body}");
        assert_eq!(body["message"], body["detail"]);
    }
    let next = report_at("Scheduler-1", 20, None, 1, 1).build();
    assert_eq!(ada.report(&next).await.1["desired_state"], "running");
    assert_eq!(wish(&ada, &format!("/{path}"), stop.clone()).await, (200, json!({})));
    let (_, acknowledged) = ada.report(&report_at("Scheduler-1", 30, None, 1, 1).build()).await;
    assert_eq!(acknowledged["desired_state"], "stopped");
    let control = async || {
        let query =
            "query($id: ID!) { cluster(id: $id) { state desiredState stopRequest { reason by { name } } } }";
        ada.query(query, json!({ "id": number.to_string() })).await["cluster"].take()
    };
    let by_ada = |reason: Value| json!({ "state": "CLOSING", "desiredState": "STOPPED", "stopRequest": { "reason": reason, "by": { "name": "ada" } } });
    assert_eq!(control().await, by_ada(json!(null)));
    assert_eq!(wish(&ada, &path, json!({ "desired_status": "running" })).await.0, 200);
    assert_eq!(
        control().await,
        json!({ "state": "RUNNING", "desiredState": "RUNNING", "stopRequest": null })
    );
    // The older route has a reason, which may be long.
    let old = format!("/api/v2/clusters/account/ada/id/{number}");
    let reason = format!("too\ndear {}", "x".repeat(5_000));
    let delete = |member: &Member| member.request(Method::DELETE, &old).query(&[("reason", &reason)]);
    assert_eq!(answer(delete(&helper)).await.0, 403);
    assert_eq!(answer(delete(&ada)).await, (200, json!({})));
    let cut = format!("too dear {}", "x".repeat(191));
    assert_eq!(control().await, by_ada(json!(cut)));
    let missing = ada.request(Method::DELETE, "/api/v2/clusters/account/ada/id/1");
    assert_eq!(answer(missing).await.0, 404);
    let log = "{ viewer { account { auditLog(filter: { action: SET_DESIRED_STATE }, first: 100) {
        nodes { userName outcome target { kind } detail } } } } }";
    let log = ada.query(log, json!({})).await["viewer"]["account"]["auditLog"]["nodes"].take();
    let mut log: Vec<Value> = log.as_array().unwrap().clone();
    log.reverse();
    let of = |user: &str, outcome: &str, kind: &str, detail: Value| json!({ "userName": user, "outcome": outcome, "target": { "kind": kind }, "detail": detail });
    let not_owner = "it belongs to another user: only owners and admins of the account can change it";
    // An identical refusal within a minute is recorded once.
    assert_eq!(
        log,
        [
            of("helper", "REFUSED", "CLUSTER", json!({ "reasons": [not_owner] })),
            of("ada", "DONE", "CLUSTER", json!({ "state": "stopped", "reason": null })),
            of("ada", "DONE", "CLUSTER", json!({ "state": "running", "reason": null })),
            of("ada", "DONE", "CLUSTER", json!({ "state": "stopped", "reason": cut })),
        ]
    );
    app.stop().await;
}
