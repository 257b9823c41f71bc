//! Storage quotas of accounts: a warning before they are used up, refusal afterwards, and release after
//! a day or a retention period.

use entity::api_token::Scope;
use galvo::domain::quota::Limits;
use harness::{Member, Program, ReportBuilder, TestApp, WebhookReceiver};
use reqwest::{Method, StatusCode};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

const QUOTA: &str = "{ viewer { account { quota { storedBytes { used limit } dailyBytes { used limit }
    dailyClusters { used limit } clusterThreads retentionDays } } } }";

const DAY: i64 = 86_400_000;

/// A report with this number of log lines of 1,000 bytes.
pub(super) fn logs(scheduler: &str, sequence: i64, lines: u128) -> Value {
    let line = |number: u128| {
        json!({ "id": harness::uuid(1_000 * u128::from(sequence.unsigned_abs()) + number), "at": 1_795_172_400.0, "source": "scheduler",
            "level": "INFO", "logger": "x", "message": "m".repeat(1_000), "repeated": 1 })
    };
    ReportBuilder::new(scheduler, sequence).with("/logs", (0..lines).map(line).collect::<Vec<_>>()).build()
}

/// The size of a report's values as sent, in bytes.
pub(super) fn size(report: &Value) -> i64 {
    let sizes = report.as_object().unwrap().values().map(|value| value.to_string().len());
    i64::try_from(sizes.sum::<usize>()).unwrap()
}

pub(super) async fn quota(member: &Member) -> Value {
    member.query(QUOTA, json!({})).await["viewer"]["account"]["quota"].take()
}

/// Sends a report, and returns the status, the quota headers and the body of the response.
async fn sent(member: &Member, report: &Value) -> (StatusCode, Option<String>, Option<u64>, Value) {
    let response = member.request(Method::POST, "/api/v1/reports").json(report).send().await.unwrap();
    let text = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (status, left, after) = (response.status(), text("galvo-quota"), text("retry-after"));
    (status, left, after.map(|seconds| seconds.parse().unwrap()), response.json().await.unwrap())
}

pub(super) async fn with(limits: Limits) -> TestApp {
    TestApp::start_with(|serve| serve.quotas = limits).await
}

#[tokio::test]
async fn bytes_of_a_day_are_reported_and_then_refused_until_midnight() {
    let app = with(Limits { daily_bytes: 20_000, ..Limits::default() }).await;
    let (ada, eve) = (app.account("ada").await, app.account("eve").await);
    let first = logs("Scheduler-1", 1, 3);
    let used = size(&first);
    assert!((3_000..8_000).contains(&used), "{used}");
    let (status, left, _, body) = sent(&ada, &first).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(body.get("quotas_near"), None, "nothing is near yet");
    assert_eq!(
        left.unwrap(),
        format!(
            "\"stored_bytes\";q=50000000000;r={}, \"daily_bytes\";q=20000;r={}, \"daily_clusters\";q=10000;r=9999",
            50_000_000_000 - used,
            20_000 - used
        )
    );
    let second = logs("Scheduler-1", 2, 11);
    let used = used + size(&second);
    assert!((16_000..20_000).contains(&used), "{used}");
    let (status, _, _, body) = sent(&ada, &second).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["quotas_near"], json!([{ "quota": "daily_bytes", "used": used, "limit": 20_000 }]));
    let third = logs("Scheduler-1", 3, 12);
    let used = used + size(&third);
    let (status, left, _, _) = sent(&ada, &third).await;
    assert_eq!(status, StatusCode::OK, "what is begun is taken whole");
    assert!(left.unwrap().contains("\"daily_bytes\";q=20000;r=0"));
    let of = |used: i64, limit: i64| json!({ "used": used, "limit": limit });
    assert_eq!(
        quota(&ada).await,
        json!({ "storedBytes": of(used, 50_000_000_000), "dailyBytes": of(used, 20_000), "dailyClusters": of(1, 10_000),
            "clusterThreads": 100_000, "retentionDays": null })
    );

    let message = "the account has used its daily quota of 20 kB: reports are accepted again from 00:00 UTC";
    for sequence in 4..6 {
        let (status, _, after, body) = sent(&ada, &logs("Scheduler-1", sequence, 1)).await;
        assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
        assert_eq!((&body["code"], &body["message"]), (&json!("QUOTA_EXCEEDED"), &json!(message)));
        assert_eq!(after, Some(12 * 3_600 + 1));
    }
    let (status, _, _, _) = sent(&eve, &logs("Scheduler-2", 1, 1)).await;
    assert_eq!(status, StatusCode::OK, "another account's is its own");

    app.set_clock("2026-11-21T00:00:00Z");
    let (status, _, _, body) = sent(&ada, &logs("Scheduler-1", 6, 0)).await;
    assert_eq!((status, body.get("quotas_near")), (StatusCode::OK, None));
    let now = quota(&ada).await;
    assert_eq!(now["dailyClusters"], of(0, 10_000));
    assert_eq!(
        now["storedBytes"]["used"],
        used + size(&logs("Scheduler-1", 6, 0)),
        "what was refused is not stored"
    );
    app.stop().await;
}

#[tokio::test]
async fn clusters_of_a_day_are_counted_and_those_that_are_there_go_on() {
    let app = with(Limits { daily_clusters: 2, ..Limits::default() }).await;
    let ada = app.account("ada").await;
    for number in 1..=2 {
        ada.reported(&ReportBuilder::new(&format!("Scheduler-{number}"), 1).build()).await;
    }
    let third = ReportBuilder::new("Scheduler-3", 1).build();
    let (status, _, after, body) = sent(&ada, &third).await;
    let message = "the account has used its daily quota of 2 new clusters: more are accepted from 00:00 UTC";
    assert_eq!((status, &body["message"]), (StatusCode::INSUFFICIENT_STORAGE, &json!(message)));
    assert_eq!((&body["code"], after), (&json!("QUOTA_EXCEEDED"), Some(12 * 3_600 + 1)));
    let (status, _, _, body) = sent(&ada, &ReportBuilder::new("Scheduler-2", 2).build()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(body["quotas_near"], json!([{ "quota": "daily_clusters", "used": 2, "limit": 2 }]));
    let query = "{ viewer { account { clusters { totalCount } } } }";
    assert_eq!(ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["totalCount"], 2);
    app.set_clock("2026-11-21T00:00:00Z");
    ada.reported(&third).await;
    app.stop().await;
}

#[tokio::test]
async fn a_token_leaves_as_much_of_a_day_to_others_as_it_uses() {
    let app = with(Limits { daily_bytes: 40_000, ..Limits::default() }).await;
    let ada = app.account("ada").await;
    let bob = app.member("bob", "ada").await;
    let leaked = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    // Schedulers' tokens count as the token that they were exchanged for.
    let exchange = async || {
        let request = leaked.request(Method::POST, "/api/v1/scheduler-tokens").json(&json!({}));
        let body: Value = request.send().await.unwrap().json().await.unwrap();
        leaked.with_token(body["token"].as_str().unwrap().to_owned())
    };
    let first = logs("Scheduler-1", 1, 3);
    ada.reported(&first).await;
    let of_others = size(&first);
    let share = (40_000 - of_others + 1) / 2;
    let warned = logs("Scheduler-2", 1, 14);
    let (status, left, _, body) = sent(&exchange().await, &warned).await;
    assert_eq!(status, StatusCode::OK);
    let used = size(&warned);
    assert_eq!(
        body["quotas_near"],
        json!([{ "quota": "daily_bytes", "used": used, "limit": share, "applies_to": "credential" }])
    );
    assert!(left.unwrap().contains(&format!("\"daily_bytes\";q=40000;r={}", share - used)));
    let last = logs("Scheduler-3", 1, 4);
    assert_eq!(sent(&exchange().await, &last).await.0, StatusCode::OK, "what is begun is taken whole");
    let message = format!(
        "the token has used its share of the account's daily quota, {}.{:02} kB: the rest is left to the account's \
         other tokens until 00:00 UTC",
        share / 1_000,
        share % 1_000 / 10
    );
    for refused in [&leaked, &exchange().await] {
        let (status, left, after, body) = sent(refused, &logs("Scheduler-2", 2, 1)).await;
        assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
        assert_eq!((&body["code"], &body["message"]), (&json!("QUOTA_EXCEEDED"), &json!(message)));
        assert_eq!(after, Some(12 * 3_600 + 1));
        assert!(left.unwrap().contains("\"daily_bytes\";q=40000;r=0"));
    }
    let (status, _, _, body) = sent(&bob, &logs("Scheduler-4", 1, 1)).await;
    assert_eq!((status, body.get("quotas_near")), (StatusCode::OK, None), "a colleague has the rest");
    ada.reported(&logs("Scheduler-1", 2, 1)).await;
    app.set_clock("2026-11-21T00:00:00Z");
    for sequence in 3..=4 {
        leaked.reported(&logs("Scheduler-2", sequence, 1)).await;
    }
    app.stop().await;
}

#[tokio::test]
async fn a_token_fills_in_a_day_half_of_the_storage_that_is_left() {
    let app = with(Limits { stored_bytes: 40_000, ..Limits::default() }).await;
    let ada = app.account("ada").await;
    let leaked = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let first = logs("Scheduler-1", 1, 3);
    ada.reported(&first).await;
    let mut stored = size(&first);
    for (day, sequence) in [(20, 1), (21, 3)] {
        app.set_clock(&format!("2026-11-{day}T12:00:00Z"));
        // On the second day, what the token stored on the first one is no longer free.
        let share = (40_000 - stored + 1) / 2;
        let begun = logs("Scheduler-2", sequence, if day == 20 { 19 } else { 10 });
        assert!(size(&begun) >= share, "{share}");
        leaked.reported(&begun).await;
        stored += size(&begun);
        let message = format!(
            "the token has used its share of the account's storage quota today, {}.{:02} kB: the rest is left to the \
             account's other tokens until 00:00 UTC",
            share / 1_000,
            share % 1_000 / 10
        );
        let (status, _, after, body) = sent(&leaked, &logs("Scheduler-2", sequence + 1, 1)).await;
        assert_eq!((status, &body["message"]), (StatusCode::INSUFFICIENT_STORAGE, &json!(message)));
        assert_eq!(after, Some(12 * 3_600 + 1));
        let small = logs("Scheduler-1", sequence + 1, 0);
        ada.reported(&small).await;
        stored += size(&small);
    }
    assert_eq!(quota(&ada).await["storedBytes"]["used"], stored);
    app.stop().await;
}

#[tokio::test]
async fn a_token_leaves_as_many_new_clusters_to_others_as_it_makes() {
    let app = with(Limits { daily_clusters: 5, ..Limits::default() }).await;
    let ada = app.account("ada").await;
    let leaked = ada.with_token(ada.token(&[Scope::Ingest], None).await);
    let cluster = |number: i64| ReportBuilder::new(&format!("Scheduler-{number}"), 1).build();
    ada.reported(&cluster(1)).await;
    for number in 2..=3 {
        leaked.reported(&cluster(number)).await;
    }
    let (status, _, _, body) = sent(&leaked, &cluster(4)).await;
    let message = "the token has used its share of the account's daily quota, 2 new clusters: the rest is left to the \
                   account's other tokens until 00:00 UTC";
    assert_eq!((status, &body["message"]), (StatusCode::INSUFFICIENT_STORAGE, &json!(message)));
    leaked.reported(&ReportBuilder::new("Scheduler-2", 2).build()).await;
    ada.reported(&cluster(5)).await;
    app.stop().await;
}

#[tokio::test]
async fn what_is_kept_counts_for_as_long_as_it_is_kept() {
    let app = with(Limits { stored_bytes: 10_000, ..Limits::default() }).await;
    let ada = app.account("ada").await;
    let report = logs("Scheduler-1", 1, 10);
    let (all, logs_alone) = (size(&report), i64::try_from(report["logs"].to_string().len()).unwrap());
    ada.reported(&report).await;
    let message =
        "the account has used its storage quota of 10 kB: shorten its retention, or ask for a higher quota";
    let next = ReportBuilder::new("Scheduler-1", 2).build();
    let (status, _, after, body) = sent(&ada, &next).await;
    assert_eq!(status, StatusCode::INSUFFICIENT_STORAGE);
    assert_eq!((&body["message"], after), (&json!(message), Some(3_600)));
    assert_eq!(quota(&ada).await["storedBytes"]["used"], all);
    // Logs are kept for 30 days, and all other data for longer.
    app.set_clock("2026-12-20T23:59:59Z");
    assert_eq!(quota(&ada).await["storedBytes"]["used"], all);
    assert_eq!(sent(&ada, &next).await.0, StatusCode::INSUFFICIENT_STORAGE);
    app.set_clock("2026-12-21T00:00:00Z");
    assert_eq!(quota(&ada).await["storedBytes"]["used"], all - logs_alone);
    ada.reported(&next).await;
    app.stop().await;
}

#[tokio::test]
async fn a_shorter_retention_makes_room_and_what_is_refused_does_not_count() {
    let app = with(Limits { stored_bytes: 10_000, ..Limits::default() }).await;
    let ada = app.account("ada").await;
    let set =
        "mutation($input: SetDataPolicyInput!) { setDataPolicy(input: $input) { userErrors { message } } }";
    ada.reported(&logs("Scheduler-1", 1, 10)).await;
    app.set_clock("2026-11-22T12:00:00Z");
    assert_eq!(sent(&ada, &logs("Scheduler-1", 2, 1)).await.0, StatusCode::INSUFFICIENT_STORAGE);
    ada.query(set, json!({ "input": { "class": "LOGS", "accepted": false, "retentionDays": 1 } })).await;
    app.set_clock("2026-11-22T12:01:00Z");
    let before = quota(&ada).await["storedBytes"]["used"].as_i64().unwrap();
    assert!(before < 2_000, "{before}");
    let report = logs("Scheduler-1", 2, 5);
    ada.reported(&report).await;
    let logs_alone = i64::try_from(report["logs"].to_string().len()).unwrap();
    assert_eq!(quota(&ada).await["storedBytes"]["used"], before + size(&report) - logs_alone);
    app.stop().await;
}

#[tokio::test]
async fn performance_reports_count() {
    let app = with(Limits { daily_bytes: 30_000, ..Limits::default() }).await;
    let ada = app.account("ada").await;
    let html = "x".repeat(30_000);
    ada.stored_report("private", "a.html", &html).await;
    assert_eq!(quota(&ada).await["dailyBytes"], json!({ "used": 30_000, "limit": 30_000 }));
    let answer = ada.performance_report("private", "b.html", &html).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::INSUFFICIENT_STORAGE);
    assert_eq!(answer.json::<Value>().await.unwrap()["code"], "QUOTA_EXCEEDED");
    assert_eq!(sent(&ada, &logs("Scheduler-1", 1, 1)).await.0, StatusCode::INSUFFICIENT_STORAGE);
    app.stop().await;
}

#[tokio::test]
async fn nothing_is_kept_for_longer_than_the_quota_allows() {
    let app = with(Limits { retention_days: 5, ..Limits::default() }).await;
    let (ada, eve) = (app.account("ada").await, app.account("eve").await);
    let connection = app.database.connection().await;
    let run = async |sql: String| {
        connection.execute_unprepared(&sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    };
    let is_postgres = connection.get_database_backend() == sea_orm::DatabaseBackend::Postgres;
    for (number, member) in [(10, &ada), (20, &eve)] {
        let scheduler = format!("Scheduler-{number}");
        let cluster = member.reported(&ReportBuilder::new(&scheduler, 1).build()).await;
        for (number, days) in [(number, 4), (number + 1, 6), (number + 2, 9)] {
            let id = harness::uuid(number);
            let id = if is_postgres { format!("'{id}'") } else { format!("X'{}'", id.replace('-', "")) };
            run(format!(
                "INSERT INTO events (account_id, cluster_id, occurred_at, id, arrived_at, topic, data) \
                 SELECT account_id, id, {}, {id}, 0, 'all', '' FROM clusters WHERE id = {cluster}",
                1_795_176_000_000 - days * DAY
            ))
            .await;
        }
    }
    // The account's own policy has no effect; an operator's setting for one account does.
    let set =
        "mutation($input: SetDataPolicyInput!) { setDataPolicy(input: $input) { userErrors { message } } }";
    for member in [&ada, &eve] {
        member
            .query(set, json!({ "input": { "class": "EVENTS", "accepted": true, "retentionDays": 100 } }))
            .await;
    }
    let wish = galvo::app::QuotaChange { retention_days: Some(Some(8)), ..Default::default() };
    app.accounts().set_quota(&"eve".parse().unwrap(), wish).await.unwrap();
    assert_eq!(quota(&ada).await["retentionDays"], 5);
    assert_eq!(quota(&eve).await["retentionDays"], 8);
    let done = app.run_jobs().await;
    assert_eq!(done.get("retention.events"), Some(&3), "two of Ada's and one of Eve's: {done:?}");
    app.stop().await;
}

#[tokio::test]
async fn an_account_is_notified_before_its_quota_is_used_up() {
    let app = TestApp::start_with(|serve| {
        serve.alerts.private_targets = true;
        serve.quotas = Limits { daily_clusters: 4, ..Limits::default() };
    })
    .await;
    let (ada, receiver) = (app.account("ada").await, WebhookReceiver::start().await);
    let create = "mutation($input: AlertRuleInput!) { createAlertRule(input: $input) { alertRule {
        condition { __typename ... on QuotaNearsCondition { percent } } } userErrors { field code message } } }";
    let input = |percent: i64| json!({ "input": { "name": "Quota", "condition": { "quotaNears": { "percent": percent } }, "webhooks": [receiver.url()] } });
    let refused = ada.query(create, input(101)).await["createAlertRule"]["userErrors"].take();
    assert_eq!(
        refused,
        json!([{ "field": "percent", "code": "OUT_OF_RANGE", "message": "must be from 1 to 100 percent" }])
    );
    let made = ada.query(create, input(75)).await["createAlertRule"]["alertRule"]["condition"].take();
    assert_eq!(made, json!({ "__typename": "QuotaNearsCondition", "percent": 75 }));
    for number in 1..=3 {
        app.run_jobs().await;
        assert_eq!(receiver.received().len(), 0, "{number}");
        ada.reported(&ReportBuilder::new(&format!("Scheduler-{number}"), 1).build()).await;
    }
    app.run_jobs().await;
    let body = receiver.received()[0].json();
    assert_eq!(
        body["alerts"][0]["text"],
        "The account has used 75 % of one of its quotas; data beyond it is rejected."
    );
    assert_eq!((&body["alerts"][0]["value"], &body["alerts"][0]["unit"]), (&json!(75.0), &json!("percent")));
    app.set_clock("2026-11-21T00:00:00Z");
    app.run_jobs().await;
    assert_eq!(receiver.received()[1].json()["alerts"][0]["state"], "resolved");
    app.stop().await;
}

#[tokio::test]
async fn an_operator_sets_what_an_account_may_store() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1).build();
    ada.reported(&report).await;
    let run = async |arguments: &[&str]| {
        let store = ["--database-url", app.database.url(), "--log", "warn"];
        Program::run(&[&["account", "quota"][..], arguments, &store[..]].concat()).await
    };
    let row = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let rows = |output: &str| output.lines().map(row).collect::<Vec<_>>();
    let (status, output, errors) = run(&["ada"]).await;
    // The command uses the machine's clock, so no data is from its present day.
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let shown = rows(&output);
    assert_eq!(shown[0], "quota used limit");
    assert_eq!(
        shown[2..],
        ["daily 0 B default", "clusters 0 default", "threads - default", "retention - default"]
            .map(str::to_owned)[..]
    );
    let limits =
        ["--stored", "2GB", "--daily", "none", "--clusters", "1", "--threads", "64", "--retention", "30d"];
    let (status, output, errors) = run(&[&["ada"][..], &limits].concat()).await;
    assert_eq!((status, output.as_str(), errors.as_str()), (Some(0), "", ""));
    let limits: Vec<String> = rows(&run(&["ada"]).await.1)[1..]
        .iter()
        .map(|row| row.rsplit(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(limits, ["GB", "none", "1", "64", "30d"]);
    assert_eq!(quota(&ada).await["storedBytes"]["limit"], 2_000_000_000);
    assert_eq!(quota(&ada).await["dailyBytes"]["limit"], Value::Null);
    // Options that are not given keep their value.
    assert_eq!(run(&["ada", "--stored", "default", "--clusters", "2"]).await.0, Some(0));
    let new_quota = quota(&ada).await;
    assert_eq!(
        (&new_quota["storedBytes"]["limit"], &new_quota["retentionDays"]),
        (&json!(50_000_000_000_i64), &json!(30))
    );
    // The server applies it within a minute.
    app.set_clock("2026-11-20T12:01:00Z");
    ada.reported(&ReportBuilder::new("Scheduler-2", 1).build()).await;
    assert_eq!(
        sent(&ada, &ReportBuilder::new("Scheduler-3", 1).build()).await.0,
        StatusCode::INSUFFICIENT_STORAGE
    );
    let query = "{ viewer { account { auditLog(first: 10, filter: { action: SET_QUOTA }) { nodes { action credential detail } } } } }";
    let log = ada.query(query, json!({})).await["viewer"]["account"]["auditLog"]["nodes"].take();
    let detail = |stored: Value, clusters: i64| {
        json!({ "action": "SET_QUOTA", "credential": "OPERATOR", "detail": { "stored_bytes": stored, "daily_bytes": "none",
            "daily_clusters": clusters, "cluster_threads": 64, "retention_days": 30 } })
    };
    assert_eq!(log, json!([detail(Value::Null, 2), detail(json!(2_000_000_000), 1)]));

    let (status, _, errors) = run(&["nobody"]).await;
    assert_eq!((status, errors.as_str()), (Some(1), "galvo: there is no account 'nobody'\n"));
    for (option, value, reason) in [
        (
            "--stored",
            "50 lots",
            "must be a whole number of bytes, as 50GB, 500MB or 2TiB, or `none` for no limit",
        ),
        ("--clusters", "-1", "must be a whole number from 0 on, or `none` for no limit"),
        ("--threads", "many", "must be a whole number from 0 on, or `none` for no limit"),
        ("--retention", "36h", "must be whole days from 1d on, as in 365d, or `none` for no limit"),
    ] {
        let (status, _, errors) = run(&["ada", &format!("{option}={value}")]).await;
        assert_eq!(status, Some(2), "{option}");
        assert!(errors.contains(reason) && errors.contains(option), "{errors}");
    }
    app.stop().await;
}

#[tokio::test]
async fn settings_that_are_none_are_named() {
    for (name, value) in [
        ("GALVO_QUOTA_STORED", "much"),
        ("GALVO_QUOTA_DAILY", "1.5GB"),
        ("GALVO_QUOTA_CLUSTERS", "-1"),
        ("GALVO_QUOTA_THREADS", "1e5"),
        ("GALVO_QUOTA_RETENTION", "1h"),
    ] {
        let output = Program::command(&["serve"]).env(name, value).output().await.unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let flag = name.trim_start_matches("GALVO_").to_lowercase().replace('_', "-");
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(errors.contains(&format!("--{flag}")) || errors.contains(name), "{errors}");
        assert!(!errors.contains("unknown setting"), "{errors}");
    }
}
