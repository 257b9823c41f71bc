//! The output of `coiled cluster`, and the client's other requests about a cluster.

use std::collections::HashSet;

use harness::{Member, ReportBuilder, TestApp, log_line, sample, uuid, worker};
use reqwest::Method;
use serde_json::{Value, json};

use crate::life_cycle::{closing, report_at};

async fn get(member: &Member, path: &str) -> (u16, Value) {
    let response = member.request(Method::GET, path).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json", "{path}");
    (response.status().as_u16(), response.json().await.unwrap())
}

async fn got(member: &Member, path: &str) -> Value {
    let (status, body) = get(member, path).await;
    assert_eq!(status, 200, "{path}: {body}");
    body
}

const ELEVEN: &str = "2026-11-20T11:00:00.000+00:00";
const NOON: &str = "2026-11-20T12:00:00.000+00:00";

#[tokio::test]
async fn clusters_are_listed_and_found_by_name() {
    let app = TestApp::start().await;
    let (ada, grace) = (app.account("ada").await, app.member("grace", "ada").await);
    let named =
        |scheduler: &str, name: &str| report_at(scheduler, 10, None, 1, 1).with("/cluster/name", name);
    let first = ada.reported(&named("Scheduler-1", "etl").build()).await;
    let second = grace
        .reported(&named("Scheduler-2", "etl").with("/cluster/started_at", 1_795_172_401.0).build())
        .await;
    let nameless = report_at("Scheduler-3", 10, None, 1, 1).with("/cluster/started_at", 1_795_172_402.0);
    let third = grace.reported(&closing(nameless, 20).with("/cluster/close_reason", "done").build()).await;
    let row = |number: i64, name: &str, created: &str, state: Value| json!({ "id": number, "name": name, "created": created, "updated": NOON, "current_state": state });
    let ready = |updated: &str| json!({ "state": "ready", "reason": "", "updated": updated });
    let stopped = json!({ "state": "stopped", "reason": "done", "updated": "2026-11-20T11:00:20.000+00:00" });
    let rows = [
        row(third, "Scheduler-3", "2026-11-20T11:00:02.000+00:00", stopped),
        row(second, "etl", "2026-11-20T11:00:01.000+00:00", ready("2026-11-20T11:00:10.000+00:00")),
        row(first, "etl", ELEVEN, ready("2026-11-20T11:00:10.000+00:00")),
    ];
    let path = "/api/v2/clusters/account/ada/";
    for (which, expected) in [
        ("", json!(rows)),
        ("?limit=100&offset=0&just_mine=0", json!(rows)),
        ("?limit=1&offset=1", json!([rows[1]])),
        ("?offset=3", json!([])),
        ("?just_mine=1", json!([rows[2]])),
        ("?name=etl", json!([rows[1], rows[2]])),
        ("?name=Scheduler-3", json!([rows[0]])),
        ("?name=et", json!([])),
    ] {
        assert_eq!(got(&ada, &format!("{path}{which}")).await, expected, "{which}");
    }
    assert_eq!(get(&ada, &format!("{path}?just_mine=yes")).await.0, 400);
    assert_eq!(
        got(&ada, &format!("{path}name/etl?include_paused=0")).await,
        rows[1],
        "the one that started last"
    );
    assert_eq!(got(&ada, &format!("{path}name/Scheduler-1")).await, rows[2]);
    let (status, body) = get(&ada, &format!("{path}name/nothing")).await;
    assert_eq!((status, &body["message"]), (404, &json!("cluster not found")));
    app.stop().await;
}

#[tokio::test]
async fn a_listed_cluster_has_a_page_for_who_is_signed_in() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let report = closing(report_at("Scheduler-1", 10, None, 1, 7), 20)
        .with("/cluster/name", "<b>etl</b>")
        .with("/cluster/close_reason", "done & gone");
    let (_, acknowledgement) = ada.report(&report.build()).await;
    let number = acknowledgement["cluster_id"].as_i64().unwrap();
    let path = format!("/clusters/{number}");
    assert_eq!(acknowledgement["path"], format!("{path}?account=ada"));
    let browser = app.browser(&ada).await;
    for page in [browser.open(&path).await, browser.open(&format!("{path}?account=ada")).await] {
        assert_eq!(page.status.as_u16(), 200);
        for text in [
            "<h1>Cluster &lt;b&gt;etl&lt;/b&gt;</h1>",
            "<dd>Scheduler-1</dd>",
            "<dd>ada</dd>",
            "<dd>closed</dd>",
            "<dd>2026-11-20 11:00:20 UTC</dd>",
            "<dd>done &amp; gone</dd>",
            "<dd>7</dd>",
        ] {
            assert!(page.html.contains(text), "{text}: {}", page.html);
        }
    }
    let nobody = app.anonymous(Method::GET, &path).send().await.unwrap();
    assert_eq!(nobody.url().path(), "/sign-in");
    assert!(nobody.url().query().unwrap().contains(&number.to_string()), "{}", nobody.url());
    let of_bob = app.browser(&bob).await;
    let theirs = of_bob.open(&path).await;
    let nobodys = of_bob.open(&format!("/clusters/{}", number + 1)).await;
    assert_eq!((theirs.status.as_u16(), theirs.html), (404, nobodys.html));
    assert_eq!(of_bob.open(&format!("{path}?account=ada")).await.status.as_u16(), 403);
    app.stop().await;
}

#[tokio::test]
async fn a_cluster_is_returned_with_its_processes() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut gone = worker(31);
    gone["ended_at"] = json!(1_795_172_450.0);
    gone["end"] = json!("memory");
    let report = report_at("Scheduler-1", 60, None, 2, 5)
        .with("/cluster/address", "tcp://10.0.0.9:8786")
        .with("/workers", json!([worker(30), gone]));
    let number = ada.reported(&report.build()).await;
    let path = format!("/api/v2/clusters/account/ada/id/{number}");
    let process = |name: &str,
                   created: &str,
                   address: &str,
                   id: i64,
                   instance: String,
                   states: (Value, Value)| {
        json!({
            "name": name, "created": created, "current_state": states.0,
            "instance": {
                "id": id, "name": instance, "created": created, "private_ip_address": address, "public_ip_address": address,
                "current_state": states.1,
            },
        })
    };
    let state = |word: &str, reason: &str, updated: &str| json!({ "state": word, "reason": reason, "updated": updated });
    let (minute, second, killed) =
        ("2026-11-20T11:01:00.000+00:00", "2026-11-20T11:00:01.000+00:00", "2026-11-20T11:00:50.000+00:00");
    let here = |updated: &str| (state("started", "", updated), state("ready", "", updated));
    let over = || state("error", "its nanny killed it because of its memory use", killed);
    let expected = json!({
        "id": number, "name": "Scheduler-1", "created": ELEVEN, "updated": NOON, "current_state": state("ready", "", minute),
        "scheduler": process("scheduler", ELEVEN, "10.0.0.9", number, format!("{number}-scheduler"), here(minute)),
        "workers": [
            process("worker-30", second, "10.0.0.1", 30, format!("{number}-{}", uuid(30)), here(minute)),
            process("worker-31", second, "10.0.0.1", 31, format!("{number}-{}", uuid(31)), (over(), over())),
        ],
    });
    assert_eq!(got(&ada, &path).await, expected);
    let address = |worker: Value| {
        json!({ "scheduler_private_address": "10.0.0.9", "scheduler_public_address": "10.0.0.9",
            "scheduler_hostname": "10.0.0.9", "worker_address": worker })
    };
    assert_eq!(got(&ada, &format!("{path}/ssh-key")).await, address(json!(null)));
    assert_eq!(got(&ada, &format!("{path}/ssh-key?worker=worker-31")).await, address(json!("10.0.0.1")));
    assert_eq!(got(&ada, &format!("{path}/log-info")).await, json!({ "type": "galvo" }));
    for missing in ["ssh-key?worker=nobody", "../1", "../1/ssh-key", "../1/log-info", "../1/better-logs"] {
        let path = match missing.strip_prefix("../") {
            Some(other) => format!("/api/v2/clusters/account/ada/id/{other}"),
            None => format!("{path}/{missing}"),
        };
        let (status, body) = get(&ada, &path).await;
        assert_eq!(status, 404, "{path}");
        assert!(body["message"].as_str().unwrap().ends_with("not found"), "{path}: {body}");
    }
    // When the cluster closes, so do its workers whose end was not reported.
    let last = closing(report_at("Scheduler-1", 90, None, 0, 5), 90).with("/cluster/close_reason", "done");
    ada.reported(&last.build()).await;
    let body = got(&ada, &path).await;
    assert_eq!(body["current_state"]["state"], "stopped");
    assert_eq!(body["scheduler"]["current_state"]["reason"], "done");
    assert_eq!(body["workers"][0]["instance"]["current_state"]["state"], "stopped");
    // A scheduler without an address and without workers is still listed.
    let bare = ada.reported(&ReportBuilder::new("Scheduler-2", 1).build()).await;
    let body = got(&ada, &format!("/api/v2/clusters/account/ada/id/{bare}")).await;
    assert_eq!(body["scheduler"]["instance"]["private_ip_address"], Value::Null);
    assert_eq!(body["workers"], json!([]));
    app.stop().await;
}

/// The time this many seconds after the scheduler started, in milliseconds.
fn ms(seconds: i64) -> i64 {
    1_795_172_400_000 + 1_000 * seconds
}

#[tokio::test]
async fn logs_are_read_by_time_words_and_process() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let line = |number: u32, source: &str, worker: Option<u128>, message: &str| {
        let mut line = log_line(number, message);
        line["source"] = json!(source);
        line["worker_id"] = json!(worker.map(uuid));
        line["worker"] = json!(worker.map(|worker| format!("tcp://10.0.0.1:{}", 40_000 + worker)));
        line
    };
    let mut odd = line(5, "nanny", None, "who am I");
    odd["level"] = json!("WARNING");
    odd["repeated"] = json!(3);
    let lines = json!([
        line(1, "scheduler", None, "Receive client connection"),
        line(2, "worker", Some(30), "Start worker\nat tcp://10.0.0.1:40030"),
        line(3, "nanny", Some(30), "Worker process died"),
        line(4, "worker", Some(31), "start WORKER"),
        odd,
    ]);
    let report = report_at("Scheduler-1", 60, None, 2, 5)
        .with("/workers", json!([worker(30), worker(31)]))
        .with("/logs", lines);
    let number = ada.reported(&report.build()).await;
    let row = |second: i64, id: Value, instance: &str, message: &str| json!({ "timestamp": ms(second), "instance_id": id, "instance": instance, "message": message });
    let rows = [
        row(1, json!(number), "scheduler", "distributed.scheduler - INFO - Receive client connection"),
        row(
            2,
            json!(30),
            "tcp://10.0.0.1:40030",
            "distributed.scheduler - INFO - Start worker\nat tcp://10.0.0.1:40030",
        ),
        row(3, json!(30), "tcp://10.0.0.1:40030", "distributed.scheduler - INFO - Worker process died"),
        row(4, json!(31), "tcp://10.0.0.1:40031", "distributed.scheduler - INFO - start WORKER"),
        row(5, json!(null), "", "distributed.scheduler - WARNING - who am I (3 times)"),
    ];
    let path = format!("/api/v2/clusters/account/ada/id/{number}/better-logs");
    for (which, expected) in [
        (String::new(), &[0, 1, 2, 3, 4][..]),
        ("dask=True".to_owned(), &[0, 1, 2, 3, 4]),
        ("dask=True&system=True".to_owned(), &[0, 1, 2, 3, 4]),
        ("system=True".to_owned(), &[]),
        (format!("since_ms={}", ms(3)), &[2, 3, 4]),
        (format!("since_ms={}", ms(3) + 1), &[3, 4]),
        (format!("until_ms={}", ms(3)), &[0, 1, 2]),
        (format!("since_ms={}&until_ms={}", ms(2), ms(2)), &[1]),
        ("filter_pattern=start%20worker".to_owned(), &[1, 3]),
        (format!("filter_pattern=worker&since_ms={}", ms(3)), &[2, 3]),
        (format!("instance_ids={number}"), &[0]),
        ("instance_ids=30".to_owned(), &[1, 2]),
        (format!("instance_ids=31,{number}"), &[0, 3]),
        ("instance_ids=99".to_owned(), &[]),
    ] {
        let expected: Vec<&Value> = expected.iter().map(|place: &usize| &rows[*place]).collect();
        assert_eq!(got(&ada, &format!("{path}?{which}")).await, json!(expected), "{which}");
    }
    for wrong in [
        "since_ms=now",
        "until_ms=1.5",
        "dask=perhaps",
        "instance_ids=a",
        &format!("filter_pattern={}", "x".repeat(1_001)),
    ] {
        assert_eq!(get(&ada, &format!("{path}?{wrong}")).await.0, 400, "{wrong}");
    }
    // The older route requests each process by the name that it was given.
    for (process, expected) in
        [("scheduler".to_owned(), &rows[..1]), (uuid(30), &rows[1..3]), (uuid(31), &rows[3..4])]
    {
        let lines = got(&ada, &format!("/api/v2/instances/ada/instance/{number}-{process}/logs")).await;
        let expected: Vec<Value> = expected
            .iter()
            .map(|row| json!({ "timestamp": row["timestamp"], "message": row["message"] }))
            .collect();
        assert_eq!(lines, json!(expected), "{process}");
    }
    for nothing in [format!("{number}-{}", uuid(99)), "1-scheduler".to_owned(), "x".to_owned()] {
        assert_eq!(
            get(&ada, &format!("/api/v2/instances/ada/instance/{nothing}/logs")).await.0,
            404,
            "{nothing}"
        );
    }
    app.stop().await;
}

/// Reads a log as the client does: from the last millisecond on, without the lines seen, until there are
/// no new ones.
async fn followed(member: &Member, path: &str) -> (Vec<String>, usize) {
    let (mut printed, mut requests, mut from) = (Vec::new(), 0, None);
    let mut seen = HashSet::new();
    loop {
        let and = if path.contains('?') { '&' } else { '?' };
        let since = from.map(|from: i64| format!("{and}since_ms={from}")).unwrap_or_default();
        let answer = got(member, &format!("{path}{since}")).await;
        requests += 1;
        let lines: Vec<(i64, String)> = answer
            .as_array()
            .unwrap()
            .iter()
            .map(|line| (line["timestamp"].as_i64().unwrap(), line["message"].as_str().unwrap().to_owned()))
            .collect();
        assert!(lines.is_sorted_by_key(|(at, _)| *at));
        let new: Vec<_> =
            lines.into_iter().filter(|line| Some(line.0) != from || !seen.contains(line)).collect();
        let Some(last) = new.last().map(|(at, _)| *at) else { return (printed, requests) };
        from = Some(last);
        seen = new.iter().filter(|(at, _)| *at == last).cloned().collect();
        printed.extend(new.into_iter().map(|(_, message)| message));
    }
}

#[tokio::test]
async fn following_a_log_returns_every_line_once_however_many_there_are_of_a_millisecond() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Of 3,000 lines there are 900 before, 1,300 in one millisecond, among them the thousandth line, and
    // 800 after.
    let lines: Vec<Value> = (0..3_000_u32)
        .map(|number| {
            let mut line = log_line(
                number + 1,
                &format!("line {number}{}", if number.is_multiple_of(7) { " Seven" } else { "" }),
            );
            let second = if (900..2_200).contains(&number) { 900 } else { number };
            line["at"] = json!(1_795_172_400.0 + f64::from(second));
            line
        })
        .collect();
    let number =
        ada.reported(&report_at("Scheduler-1", 3_600, None, 2, 5).with("/logs", lines).build()).await;
    let path = format!("/api/v2/clusters/account/ada/id/{number}/better-logs");
    let text = |number: u32| {
        let seven = if number.is_multiple_of(7) { " Seven" } else { "" };
        format!("distributed.scheduler - INFO - line {number}{seven}")
    };
    let first = got(&ada, &path).await;
    assert_eq!(first.as_array().unwrap().len(), 2_200, "a thousand, and the rest of the millisecond");
    let (printed, requests) = followed(&ada, &path).await;
    assert_eq!(printed, (0..3_000).map(text).collect::<Vec<_>>());
    assert_eq!(requests, 3, "all that follows fits into one answer, and then there is nothing new");
    let (printed, _) = followed(&ada, &format!("{path}?filter_pattern=SEVEN")).await;
    assert_eq!(
        printed,
        (0..3_000_u32).filter(|number| number.is_multiple_of(7)).map(text).collect::<Vec<_>>()
    );
    let (printed, _) = followed(&ada, &format!("{path}?filter_pattern=line%202999")).await;
    assert_eq!(printed, [text(2_999)]);
    app.stop().await;
}

#[tokio::test]
async fn a_measured_metric_is_one_number() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let samples: Vec<Value> = [(1, 2.0, 0.1), (2, 8.0, 0.2), (3, 4.0, 0.7), (700, 6.0, 0.4)]
        .into_iter()
        .map(|(second, memory, tick)| {
            let metrics = json!({
                "scheduler_memory_bytes": memory * 1e6, "scheduler_cpu_cores": memory / 8.0, "event_loop_seconds_max": tick,
                "scheduler_event_loop_seconds": tick / 2.0, "cpu_cores": memory,
            });
            sample(None, second * 1_000, metrics)
        })
        .collect();
    let number =
        ada.reported(&report_at("Scheduler-1", 800, None, 2, 5).with("/samples", samples).build()).await;
    let path = format!("/api/v2/metrics/account/ada/cluster/{number}/value");
    let value = async |query: &str, over_time: &str, times: &str| -> (u16, Value) {
        let parameters: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", query)
            .append_pair("over_time", over_time)
            .finish();
        get(&ada, &format!("{path}?{parameters}{times}")).await
    };
    let memory = "scheduler:(host_memory_total-host_memory_available)&scheduler";
    let second = |second: i64| 1_795_172_400 + second;
    for (query, over_time, times, expected) in [
        (memory, "max", String::new(), json!(8e6)),
        (memory, "min", String::new(), json!(2e6)),
        ("scheduler:cpu_rate&scheduler | sum", "avg", String::new(), json!(0.625)),
        // 0.1, 0.2, 0.4, 0.7: four tenths of the way from the third to the fourth.
        ("worker_max_tick|max", "quantile(0.80)", String::new(), json!(0.52)),
        ("scheduler_max_tick|max", "quantile(0.80)", String::new(), json!(0.26)),
        ("cpu_cores", "avg", String::new(), json!(5.0)),
        (memory, "max", format!("&start_ts={}", second(3)), json!(6e6)),
        (memory, "max", format!("&start_ts={}&end_ts={}", second(0), second(2)), json!(2e6)),
        (memory, "max", format!("&end_ts={}", second(-5)), json!(null)),
        ("memory_spilled_bytes", "max", String::new(), json!(null)),
    ] {
        let (status, found) = value(query, over_time, &times).await;
        assert_eq!(status, 200, "{query} {over_time} {times}: {found}");
        match (found.as_f64(), expected.as_f64()) {
            (Some(found), Some(expected)) => {
                assert!((found - expected).abs() < 1e-9, "{query} {over_time} {times}: {found}");
            }
            _ => assert_eq!(found, expected, "{query} {over_time} {times}"),
        }
    }
    for (query, over_time, times, text) in [
        ("up", "max", "", "worker_max_tick|max"),
        ("", "max", "", "'query'"),
        (memory, "sum", "", "'over_time'"),
        (memory, "", "", "'over_time'"),
        (memory, "max", "&start_ts=monday", "'start_ts'"),
    ] {
        let (status, body) = value(query, over_time, times).await;
        assert_eq!(status, 400, "{query} {over_time} {times}");
        assert!(body["message"].as_str().unwrap().contains(text), "{body}");
    }
    assert_eq!(
        get(&ada, "/api/v2/metrics/account/ada/cluster/1/value?query=cpu_cores&over_time=max").await.0,
        404
    );
    app.stop().await;
}

#[tokio::test]
async fn what_else_the_client_requests_has_a_response() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let running = report_at("Scheduler-1", 10, None, 3, 1).with("/cluster/threads", 12);
    let closed = closing(report_at("Scheduler-2", 10, None, 5, 1), 20).with("/cluster/threads", 20);
    let path = "/api/v1/ada/usage/cores/";
    assert_eq!(got(&ada, path).await, json!({ "cores": 0, "workers": 0, "clusters": 0 }));
    for report in [running, closed] {
        ada.reported(&report.build()).await;
    }
    assert_eq!(got(&ada, path).await, json!({ "cores": 12, "workers": 3, "clusters": 1 }));
    let account = json!({ "slug": "ada", "name": "ada", "active_program": { "has_quota": true } });
    let me = json!({ "username": "ada", "membership_set": [{ "account": account, "is_admin": true }] });
    assert_eq!(got(&ada, "/api/v1/users/me/").await, me);
    assert_eq!(got(&ada, "//api/v1/users/me/").await, me);
    assert_eq!(got(&ada, "/api/v2/user/account/ada/prometheus-read-credentials").await, json!([]));
    assert_eq!(got(&ada, "/api/v2/interactions/user-interactions/hello").await, json!([]));
    let bill = json!({ "count": 0, "next": null, "results": [] });
    assert_eq!(got(&ada, "/api/v1/ada/billing-events/?page=1&kind=x").await, bill);
    let health = app.anonymous(Method::GET, "/api/v1/health").send().await.unwrap();
    assert_eq!(health.json::<Value>().await.unwrap(), json!({ "status": "ok" }));
    for path in
        ["/api/v1/users/me/", "/api/v1/ada/usage/cores/", "/api/v2/interactions/user-interactions/hello"]
    {
        assert_eq!(app.anonymous(Method::GET, path).send().await.unwrap().status(), 401, "{path}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_lost_cluster_is_displayed_up_to_its_last_report() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report_at("Scheduler-1", 60, None, 2, 5).build()).await;
    let path = format!("/clusters/{number}");
    let browser = app.browser(&ada).await;
    assert!(!browser.open(&path).await.html.contains("<dt>Data coverage</dt>"));
    app.set_clock("2026-11-20T12:05:00Z");
    let known = "<dt>Data coverage</dt><dd>up to 2026-11-20 11:01:00 UTC; the time after is unknown.</dd>";
    let page = browser.open(&path).await;
    assert!(page.html.contains(known), "it is silent: {}", page.html);
    assert_eq!(app.run_jobs().await.get("life-cycle.lost"), Some(&1));
    let page = browser.open(&path).await;
    assert!(page.html.contains(known), "it is lost: {}", page.html);
    let body = got(&ada, &format!("/api/v2/clusters/account/ada/id/{number}")).await;
    let state = json!({ "state": "error", "updated": "2026-11-20T11:01:00.000+00:00",
        "reason": "it stopped reporting; its state after 2026-11-20 11:01:00 UTC is unknown" });
    assert_eq!((&body["current_state"], &body["scheduler"]["current_state"]), (&state, &state));
    app.stop().await;
}
