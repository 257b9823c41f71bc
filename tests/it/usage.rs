//! The usage of clusters, compared with sums computed by hand: hours of single clusters, and the days of
//! an account derived from them.

use entity::{function_usage_day, usage_day};
use harness::{Member, Program, ReportBuilder, TestApp, usage, uuid};
use sea_orm::{ConnectionTrait, DatabaseConnection, EntityTrait, QueryOrder};
use serde_json::{Value, json};

fn report(scheduler: &str, sequence: i64, hours: &[Value]) -> Value {
    ReportBuilder::new(scheduler, sequence).with("/usage", hours.to_vec()).build()
}

/// Two users and three clusters around the end of 2026-11-20: hour 23 is the last one of that day.
async fn two_users(app: &TestApp) -> (Member, Member) {
    let ada = app.account("team").await;
    let bob = app.member("bob", "team").await;
    ada.reported(&report("Scheduler-1", 1, &[usage(23, 4), usage(24, 2)])).await;
    ada.reported(&report("Scheduler-2", 1, &[usage(23, 1)])).await;
    bob.reported(&report("Scheduler-3", 1, &[usage(24, 3)])).await;
    (ada, bob)
}

const SUMS: &str =
    "threadSeconds computeSeconds transferSeconds workerSeconds memoryGibSeconds idleSeconds spillSeconds
    utilization tasks tasksErred retries errors bytes spilledBytes workers
    causes { cause seconds } costs { amount currency basis }";

#[tokio::test]
async fn an_account_is_the_sum_of_its_clusters() {
    let app = TestApp::start().await;
    let (ada, bob) = two_users(&app).await;
    assert_eq!(app.fold_usage().await.days, 2);
    assert_eq!(app.fold_usage().await.days, 0, "nothing has changed since");

    // 4 + 2 + 1 + 3 threads for an hour each, of which one each computed.
    let expected = json!({
        "threadSeconds": 36_000.0, "computeSeconds": 14_400.0, "transferSeconds": 6.0, "workerSeconds": 14_400.0,
        "memoryGibSeconds": 28_800.0, "idleSeconds": 21_600.0, "spillSeconds": 0.0, "utilization": 0.4,
        "tasks": 400, "tasksErred": 4, "retries": 8, "errors": 4, "bytes": 4_000, "spilledBytes": 40, "workers": 4,
        "causes": [
            { "cause": "CPU", "seconds": 12_000.0 }, { "cause": "WAITING", "seconds": 2_400.0 },
            { "cause": "SERIALIZATION", "seconds": 0.0 }, { "cause": "SPILL", "seconds": 0.0 },
            { "cause": "OVERHEAD", "seconds": 0.0 }, { "cause": "FAILED", "seconds": 0.0 },
            { "cause": "IDLE", "seconds": 21_600.0 }, { "cause": "UNACCOUNTED", "seconds": 0.0 },
        ],
        "costs": [{ "amount": 0.5, "currency": "USD", "basis": "ESTIMATED" }],
    });
    let query = format!("{{ viewer {{ account {{ usage {{ {SUMS} }} }} }} }}");
    assert_eq!(bob.query(&query, json!({})).await["viewer"]["account"]["usage"], expected);

    let query = r#"query($by: [UsageDimension!]!) { viewer { account { usageTable(from: "2026-11-20", to: "2026-11-22", by: $by) {
        day user { name } clusters usage { threadSeconds } } } } }"#;
    let row = |day: Option<&str>, user: Option<&str>, clusters: Option<i64>, hours: f64| {
        let user = user.map(|name| json!({ "name": name }));
        json!({ "day": day, "user": user, "clusters": clusters, "usage": { "threadSeconds": 3_600.0 * hours } })
    };
    for (by, expected) in [
        (
            json!("DAY"),
            vec![row(Some("2026-11-20"), None, Some(2), 5.0), row(Some("2026-11-21"), None, Some(2), 5.0)],
        ),
        (json!(["USER"]), vec![row(None, Some("bob"), None, 3.0), row(None, Some("team"), None, 7.0)]),
        (
            json!(["USER", "DAY"]),
            vec![
                row(Some("2026-11-20"), Some("team"), Some(2), 5.0),
                row(Some("2026-11-21"), Some("bob"), Some(1), 3.0),
                row(Some("2026-11-21"), Some("team"), Some(1), 2.0),
            ],
        ),
    ] {
        let answer = ada.query(query, json!({ "by": by })).await;
        assert_eq!(answer["viewer"]["account"]["usageTable"], json!(expected), "{by}");
    }

    let query = r#"{ viewer { account {
        all: functions { prefix computeSeconds transferSeconds tasks tasksErred bytes }
        first: functions(from: "2026-11-20", to: "2026-11-21", first: 1) { prefix computeSeconds } } } }"#;
    let expected = json!({
        "all": [
            { "prefix": "load", "computeSeconds": 12_002.0, "transferSeconds": 0.0, "tasks": 240, "tasksErred": 0, "bytes": 2_400 },
            { "prefix": "divide", "computeSeconds": 2_398.0, "transferSeconds": 6.0, "tasks": 160, "tasksErred": 4, "bytes": 1_600 },
        ],
        "first": [{ "prefix": "load", "computeSeconds": 6_001.0 }],
    });
    assert_eq!(ada.query(query, json!({})).await["viewer"]["account"], expected);
    app.stop().await;
}

/// One task that takes two hours on the only thread: Dask reports its metrics when it ends.
#[tokio::test]
async fn what_a_long_task_used_is_no_idle_time_and_no_more_than_there_was() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let hour = |hour: i64, threads: i64, used: i64| {
        let mut hour = usage(hour, 1);
        hour["thread_seconds"] = json!(threads);
        hour["noncpu_seconds"] = json!(0);
        hour["idle_seconds"] = json!((threads - used).max(0));
        (hour["compute_seconds"], hour["cpu_seconds"]) = (json!(used), json!(used));
        hour
    };
    let hours = [hour(20, 3_300, 0), hour(21, 3_600, 0), hour(22, 600, 7_200)];
    ada.reported(&report("Scheduler-1", 1, &hours)).await;
    let query = "{ viewer { account { clusters { nodes {
        usage { threadSeconds computeSeconds idleSeconds utilization causes { cause seconds } }
        usageHours { usage { idleSeconds utilization } } } } } } }";
    let cluster = ada.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0].take();
    let sum = &cluster["usage"];
    assert_eq!((&sum["threadSeconds"], &sum["computeSeconds"]), (&json!(7_500.0), &json!(7_200.0)));
    assert_eq!((&sum["idleSeconds"], &sum["utilization"]), (&json!(300.0), &json!(0.96)));
    assert_eq!(sum["causes"][6], json!({ "cause": "IDLE", "seconds": 300.0 }));
    let of =
        |idle: f64, utilization: f64| json!({ "usage": { "idleSeconds": idle, "utilization": utilization } });
    assert_eq!(cluster["usageHours"], json!([of(3_300.0, 0.0), of(3_600.0, 0.0), of(0.0, 1.0)]));
    app.stop().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn a_table_of_usage_has_a_row_for_each_of_what_is_asked() {
    let app = TestApp::start().await;
    let (ada, _) = two_users(&app).await;
    app.fold_usage().await;
    let query = r#"query($from: Date! = "2026-11-20", $to: Date! = "2026-11-22", $by: [UsageDimension!]!) {
        viewer { account { usageTable(from: $from, to: $to, by: $by) {
            start end day user { name } clusters usage { threadSeconds } function { prefix computeSeconds tasks } } } } }"#;
    let table = async |variables: Value| {
        let mut answer = ada.query(query, variables).await;
        answer["viewer"]["account"]["usageTable"]
            .as_array_mut()
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let row = |period: Option<[&str; 2]>, user: Option<&str>, clusters: Option<i64>, what: Value| {
        let mut row = json!({ "start": null, "end": null, "day": null, "user": user.map(|name| json!({ "name": name })),
            "clusters": clusters, "usage": null, "function": null });
        if let Some([start, end]) = period {
            (row["start"], row["end"]) =
                (format!("{start}:00:00+00:00").into(), format!("{end}:00:00+00:00").into());
            row["day"] = start[..10].into();
        }
        match what.as_f64() {
            Some(hours) => row["usage"] = json!({ "threadSeconds": 3_600.0 * hours }),
            None => row["function"] = what,
        }
        row.to_string()
    };
    let (hour_23, hour_24) = (["2026-11-20T23", "2026-11-21T00"], ["2026-11-21T00", "2026-11-21T01"]);
    // 2026-11-20 is a Friday.
    let week = ["2026-11-16T00", "2026-11-23T00"];
    let month = ["2026-11-01T00", "2026-12-01T00"];
    let load =
        |computed: f64, tasks: i64| json!({ "prefix": "load", "computeSeconds": computed, "tasks": tasks });
    let divide =
        |computed: f64, tasks: i64| json!({ "prefix": "divide", "computeSeconds": computed, "tasks": tasks });
    for (by, expected) in [
        (json!([]), vec![row(None, None, None, json!(10))]),
        (json!(["WEEK"]), vec![row(Some(week), None, None, json!(10))]),
        (
            json!(["MONTH", "USER"]),
            vec![
                row(Some(month), Some("bob"), None, json!(3)),
                row(Some(month), Some("team"), None, json!(7)),
            ],
        ),
        (
            json!(["HOUR"]),
            vec![row(Some(hour_23), None, Some(2), json!(5)), row(Some(hour_24), None, Some(2), json!(5))],
        ),
        (
            json!(["USER", "HOUR"]),
            vec![
                row(Some(hour_23), Some("team"), Some(2), json!(5)),
                row(Some(hour_24), Some("bob"), Some(1), json!(3)),
                row(Some(hour_24), Some("team"), Some(1), json!(2)),
            ],
        ),
        (
            json!(["FUNCTION"]),
            vec![row(None, None, None, divide(2_398.0, 160)), row(None, None, None, load(12_002.0, 240))],
        ),
        (
            json!(["FUNCTION", "USER", "WEEK"]),
            vec![
                row(Some(week), Some("bob"), None, divide(599.5, 40)),
                row(Some(week), Some("bob"), None, load(3_000.5, 60)),
                row(Some(week), Some("team"), None, divide(1_798.5, 120)),
                row(Some(week), Some("team"), None, load(9_001.5, 180)),
            ],
        ),
        (
            json!(["FUNCTION", "HOUR"]),
            [hour_23, hour_24]
                .into_iter()
                .flat_map(|hour| {
                    [divide(1_199.0, 80), load(6_001.0, 120)].map(|what| row(Some(hour), None, None, what))
                })
                .collect(),
        ),
    ] {
        assert_eq!(table(json!({ "by": by })).await, expected, "{by}");
    }
    // A day of the week and month before `from` is in no row.
    let second = row(Some(week), None, None, json!(5));
    assert_eq!(table(json!({ "by": "WEEK", "from": "2026-11-21" })).await, [second]);
    assert_eq!(
        table(json!({ "by": [], "from": "2026-11-22", "to": "2026-11-30" })).await,
        Vec::<String>::new()
    );
    assert_eq!(table(json!({ "by": ["FUNCTION"], "to": "2026-11-20" })).await, Vec::<String>::new());

    for (variables, message) in [
        (
            json!({ "by": ["DAY", "WEEK"] }),
            "argument 'by': only one of HOUR, DAY, WEEK and MONTH can be given",
        ),
        (
            json!({ "by": ["HOUR"], "to": "2026-11-28" }),
            "argument 'to': must be at most 7 days after 'from' for rows by the hour",
        ),
    ] {
        let answer = ada.ask(query, variables).await;
        assert_eq!(answer["errors"][0]["message"], message);
    }
    app.stop().await;
}

/// Creates clusters, two of three with tags and an environment.
async fn labelled(app: &TestApp) -> Member {
    let (ada, _) = two_users(app).await;
    let tag = "mutation($id: ID!, $tags: [TagInput!]!) { setClusterTags(cluster: $id, tags: $tags) { userErrors { message } } }";
    let nodes =
        ada.query("{ viewer { account { clusters { nodes { id schedulerId } } } } }", json!({})).await;
    let nodes = nodes["viewer"]["account"]["clusters"]["nodes"].clone();
    for (scheduler, dask, tags) in [
        ("Scheduler-1", "2026.1.0", json!([{ "key": "team", "value": "risk" }, { "key": "nightly" }])),
        ("Scheduler-2", "2026.2.0", json!([{ "key": "team", "value": "ops" }])),
    ] {
        let id =
            nodes.as_array().unwrap().iter().find(|node| node["schedulerId"] == scheduler).unwrap()["id"]
                .clone();
        ada.query(tag, json!({ "id": id, "tags": tags })).await;
        // A second environment, of a worker.
        let environments = json!([
            { "id": uuid(1), "python": "3.12.1", "packages": { "dask": dask, "lz4": null } },
            { "id": uuid(2), "python": "3.13.0", "packages": { "dask": "0.0.0" } },
        ]);
        let report = ReportBuilder::new(scheduler, 2)
            .with("/cluster/environment_id", uuid(1))
            .with("/environments", environments);
        ada.reported(&report.build()).await;
    }
    ada
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
async fn a_table_of_usage_may_be_by_tag_and_version() {
    let app = TestApp::start().await;
    let ada = labelled(&app).await;
    let query = r#"query($to: Date! = "2026-11-22", $by: [UsageDimension!]!, $tagKey: String, $package: String! = "dask") {
        viewer { account { usageTable(from: "2026-11-20", to: $to, by: $by, tagKey: $tagKey, package: $package) {
            day user { name } tag { key value } version clusters usage { threadSeconds costs { amount } }
            function { prefix tasks } } } } }"#;
    // A row: its dimensions, its clusters, and thread-hours or the tasks of a function.
    let table = async |variables: Value| -> Vec<String> {
        let before = app.statements();
        let mut answer = ada.query(query, variables.clone()).await;
        // The token, the table, the members, and the rates.
        assert!(app.statements() - before <= 4, "{variables}");
        let rows = answer["viewer"]["account"]["usageTable"].take();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let rows = rows.as_array().unwrap().iter().map(|row| {
            let tag = match (&row["tag"]["key"], &row["tag"]["value"]) {
                (Value::String(key), Value::String(value)) => format!("{key}={value}"),
                (key, _) => text(key),
            };
            let day = text(&row["day"]);
            let what = match row["usage"]["threadSeconds"].as_f64() {
                Some(seconds) => {
                    // At 0.05 USD per thread-hour.
                    let amount = row["usage"]["costs"][0]["amount"].as_f64().unwrap();
                    assert!((amount - seconds / 3_600.0 * 0.05).abs() < 1e-9, "{row}");
                    format!("{}", seconds / 3_600.0)
                }
                None => format!("{} {}", text(&row["function"]["prefix"]), row["function"]["tasks"]),
            };
            let (user, version) = (text(&row["user"]["name"]), text(&row["version"]));
            format!("{} {user} {tag} {version} {}: {what}", day.rsplit('-').next().unwrap(), row["clusters"])
        });
        rows.collect()
    };
    for (variables, expected) in [
        // A cluster with two tags is in two rows.
        (
            json!({ "by": ["TAG"] }),
            vec![" - - - null: 3", " - nightly - null: 6", " - team=ops - null: 1", " - team=risk - null: 6"],
        ),
        // With a tag key it is in one row, so that rows add up to the total.
        (
            json!({ "by": ["TAG"], "tagKey": "team" }),
            vec![" - - - null: 3", " - team=ops - null: 1", " - team=risk - null: 6"],
        ),
        (json!({ "by": ["TAG"], "tagKey": "nobody's" }), vec![" - - - null: 10"]),
        (
            json!({ "by": ["TAG", "DAY"], "tagKey": "team" }),
            vec!["20 - team=ops - 1: 1", "20 - team=risk - 1: 4", "21 - - - 1: 3", "21 - team=risk - 1: 2"],
        ),
        (
            json!({ "by": ["TAG", "USER", "HOUR"], "tagKey": "team" }),
            vec![
                "20 team team=ops - 1: 1",
                "20 team team=risk - 1: 4",
                "21 bob - - 1: 3",
                "21 team team=risk - 1: 2",
            ],
        ),
        (
            json!({ "by": ["VERSION"] }),
            vec![" - - - null: 3", " - - 2026.1.0 null: 6", " - - 2026.2.0 null: 1"],
        ),
        (
            json!({ "by": ["VERSION", "DAY"], "package": "python" }),
            vec!["20 - - 3.12.1 2: 5", "21 - - - 1: 3", "21 - - 3.12.1 1: 2"],
        ),
        (json!({ "by": ["VERSION"], "package": "lz4" }), vec![" - - - null: 10"]),
        (json!({ "by": ["VERSION"], "package": "numpy" }), vec![" - - - null: 10"]),
        (
            json!({ "by": ["VERSION", "TAG", "MONTH"], "tagKey": "team" }),
            vec!["01 - - - null: 3", "01 - team=ops 2026.2.0 null: 1", "01 - team=risk 2026.1.0 null: 6"],
        ),
        (
            json!({ "by": ["TAG", "FUNCTION"], "tagKey": "team" }),
            vec![
                " - - - null: divide 40",
                " - - - null: load 60",
                " - team=ops - null: divide 40",
                " - team=ops - null: load 60",
                " - team=risk - null: divide 80",
                " - team=risk - null: load 120",
            ],
        ),
        (
            json!({ "by": ["VERSION", "FUNCTION", "DAY"], "to": "2026-11-21" }),
            vec![
                "20 - - 2026.1.0 null: divide 40",
                "20 - - 2026.1.0 null: load 60",
                "20 - - 2026.2.0 null: divide 40",
                "20 - - 2026.2.0 null: load 60",
            ],
        ),
    ] {
        assert_eq!(table(variables.clone()).await, expected, "{variables}");
    }
    for (variables, message) in [
        (
            json!({ "by": ["TAG"], "to": "2026-12-22" }),
            "argument 'to': must be at most 31 days after 'from' for rows by tag or version",
        ),
        (
            json!({ "by": ["VERSION"], "package": "x".repeat(201) }),
            "argument 'package': must have at most 200 characters, none of them U+0000",
        ),
        (
            json!({ "by": ["TAG"], "tagKey": "\u{0}" }),
            "argument 'tagKey': must have at most 200 characters, none of them U+0000",
        ),
    ] {
        assert_eq!(ada.ask(query, variables).await["errors"][0]["message"], message);
    }
    app.stop().await;
}

#[tokio::test]
async fn a_table_of_too_many_rows_is_refused() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    ada.reported(&report("Scheduler-1", 1, &[usage(23, 4)])).await;
    app.fold_usage().await;
    let database = app.database.connection().await;
    // 10,001 days, of which a table may have 10,000.
    let copies = format!(
        "INSERT INTO usage_days SELECT account_id, n, user_id, clusters, thread_us, worker_us, memory_gib_us, compute_us,
        transfer_us, cpu_us, noncpu_us, serialize_us, spill_us, overhead_us, failed_us, idle_us, tasks, tasks_erred,
        retries, errors, bytes, spilled_bytes, workers, unobserved_us, is_cut FROM usage_days, {}",
        harness::numbers(database.get_database_backend(), 0, 10_000)
    );
    database.execute_unprepared(&copies).await.unwrap();
    let query = r#"query($from: Date!, $by: [UsageDimension!]!) { viewer { account {
        usageTable(from: $from, to: "2026-01-01", by: $by) { user { name } usage { threadSeconds } } } } }"#;
    let answer = ada.ask(query, json!({ "from": "1970-01-01", "by": ["USER", "DAY"] })).await;
    let message =
        "argument 'to': there are more than 10000 rows, or 100000 days in them: request a shorter period";
    assert_eq!(answer["errors"][0]["message"], message);
    let answer = ada.query(query, json!({ "from": "1970-01-02", "by": ["USER", "DAY"] })).await;
    assert_eq!(answer["viewer"]["account"]["usageTable"].as_array().unwrap().len(), 10_000);
    let answer = ada.query(query, json!({ "from": "1970-01-01", "by": ["USER"] })).await;
    let expected = json!([{ "user": { "name": "ada" }, "usage": { "threadSeconds": 10_001.0 * 14_400.0 } }]);
    assert_eq!(answer["viewer"]["account"]["usageTable"], expected);
    app.stop().await;
}

#[tokio::test]
async fn statistics_count_clusters_and_users() {
    let app = TestApp::start().await;
    let (ada, _) = two_users(&app).await;
    // Another, idle one, from 11:00 of the 20th to 11:00 of the 22nd.
    let closed_at = 1_795_172_400.0 + 2.0 * 86_400.0;
    let closed = ReportBuilder::new("Scheduler-4", 1).with("/final", true).with("/sent_at", closed_at);
    app.set_clock("2026-11-22T11:00:00Z");
    ada.reported(&closed.with("/cluster/closed_at", closed_at).build()).await;
    app.fold_usage().await;
    let query = "query($from: Date, $to: Date) { viewer { account { statistics(from: $from, to: $to) {
        clusters users usage { threadSeconds utilization idleSeconds costs { amount } } } } } }";
    let of = |clusters: i64, users: i64, hours: f64, utilization: Option<f64>, idle: Option<f64>| {
        let costs: Vec<_> = (hours > 0.0).then(|| json!({ "amount": hours * 0.05 })).into_iter().collect();
        json!({ "clusters": clusters, "users": users, "usage": { "threadSeconds": 3_600.0 * hours,
            "utilization": utilization, "idleSeconds": idle.map(|hours| 3_600.0 * hours), "costs": costs } })
    };
    for (variables, expected) in [
        (json!({}), of(4, 2, 10.0, Some(0.4), Some(6.0))),
        (json!({ "to": "2026-11-20" }), of(0, 0, 0.0, None, None)),
        (json!({ "from": "2026-11-20", "to": "2026-11-21" }), of(4, 1, 5.0, Some(0.4), Some(3.0))),
        (json!({ "from": "2026-11-21", "to": "2026-11-22" }), of(1, 2, 5.0, Some(0.4), Some(3.0))),
        (json!({ "from": "2026-11-22" }), of(1, 0, 0.0, None, None)),
        (json!({ "from": "2026-11-23" }), of(0, 0, 0.0, None, None)),
    ] {
        let answer = ada.query(query, variables.clone()).await["viewer"]["account"]["statistics"].take();
        assert_eq!(answer, expected, "{variables}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_cluster_knows_its_usage_at_once() {
    let app = TestApp::start().await;
    let (ada, _) = two_users(&app).await;
    let query = r#"{ viewer { account { clusters(first: 10) { nodes { schedulerId usage { threadSeconds tasks costs { amount basis } }
        usageHours(from: "2026-11-20T23:00:00Z", to: "2026-11-21T00:00:00Z") { start usage { threadSeconds } } } } } } }"#;
    let before = app.statements();
    let answer = ada.query(query, json!({})).await;
    // The token, the page, the rates, and the usage and the hours of all clusters.
    assert_eq!(app.statements() - before, 5);
    let mut found = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().clone();
    found.sort_by_key(|cluster| cluster["schedulerId"].to_string());
    let expected = |scheduler: &str, hours: f64, tasks: i64, amount: f64, in_hour: Option<f64>| {
        let hour = in_hour.map(|threads| {
            json!({ "start": "2026-11-20T23:00:00+00:00", "usage": { "threadSeconds": 3_600.0 * threads } })
        });
        json!({
            "schedulerId": scheduler,
            "usage": { "threadSeconds": 3_600.0 * hours, "tasks": tasks,
                       "costs": [{ "amount": amount, "basis": "ESTIMATED" }] },
            "usageHours": hour.into_iter().collect::<Vec<_>>(),
        })
    };
    let expected = [
        expected("Scheduler-1", 6.0, 200, 0.3, Some(4.0)),
        expected("Scheduler-2", 1.0, 100, 0.05, Some(1.0)),
        expected("Scheduler-3", 3.0, 100, 0.15, None),
    ];
    assert_eq!(found, expected);
    app.stop().await;
}

#[tokio::test]
async fn what_dask_does_not_tell_is_null_and_unaccounted() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut hour = usage(23, 4);
    for field in ["cpu", "noncpu", "serialize", "spill", "overhead", "failed", "idle"] {
        hour.as_object_mut().unwrap().remove(&format!("{field}_seconds"));
    }
    ada.reported(&report("Scheduler-1", 1, &[hour])).await;
    app.fold_usage().await;
    let query = "{ viewer { account { usage { idleSeconds spillSeconds causes { cause seconds } } } } }";
    let expected = json!({
        "idleSeconds": null, "spillSeconds": null, "causes": [{ "cause": "UNACCOUNTED", "seconds": 14_400.0 }],
    });
    assert_eq!(ada.query(query, json!({})).await["viewer"]["account"]["usage"], expected);
    app.stop().await;
}

#[tokio::test]
async fn what_nobody_observed_is_neither_busy_nor_idle() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Four threads, of which one computed, existed for an hour, and were observed for the second half of
    // it. The reporter claims more idle time than possible.
    let mut hour = usage(23, 4);
    hour["observed_seconds"] = json!(7_200.0);
    ada.reported(&report("Scheduler-1", 1, &[hour])).await;
    app.fold_usage().await;
    let query =
        "{ viewer { account { usage { threadSeconds unobservedSeconds computeSeconds idleSeconds utilization
        causes { cause seconds } costs { amount causes { cause amount } } } } } }";
    let used = ada.query(query, json!({})).await["viewer"]["account"]["usage"].take();
    let parts = [
        ("UNOBSERVED", 7_200.0),
        ("CPU", 3_000.0),
        ("WAITING", 600.0),
        ("SERIALIZATION", 0.0),
        ("SPILL", 0.0),
        ("OVERHEAD", 0.0),
        ("FAILED", 0.0),
        ("IDLE", 3_600.0),
        ("UNACCOUNTED", 0.0),
    ];
    let causes: Vec<Value> =
        parts.iter().map(|(cause, seconds)| json!({ "cause": cause, "seconds": seconds })).collect();
    assert_eq!(used["causes"], json!(causes));
    let fields = ["threadSeconds", "unobservedSeconds", "computeSeconds", "idleSeconds", "utilization"];
    assert_eq!(json!(fields.map(|field| &used[field])), json!([14_400.0, 7_200.0, 3_600.0, 3_600.0, 0.5]));
    // Half of the cost belongs to unobserved time.
    assert_eq!(used["costs"][0]["amount"], 0.2);
    let apart = used["costs"][0]["causes"].as_array().unwrap();
    let apart = apart.iter().find(|part| part["cause"] == "UNOBSERVED").unwrap();
    assert_eq!(apart["amount"], 0.1);
    app.stop().await;
}

#[tokio::test]
async fn repeats_and_late_reports_do_not_count_twice() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let used = async || {
        app.fold_usage().await;
        let query = "{ viewer { account { usage { threadSeconds tasks } } } }";
        ada.query(query, json!({})).await["viewer"]["account"]["usage"].take()
    };
    let (first, second) =
        (report("Scheduler-1", 1, &[usage(23, 2)]), report("Scheduler-1", 2, &[usage(23, 4)]));
    ada.reported(&second).await;
    assert_eq!(used().await, json!({ "threadSeconds": 14_400.0, "tasks": 100 }));
    ada.reported(&first).await;
    ada.reported(&second).await;
    assert_eq!(used().await, json!({ "threadSeconds": 14_400.0, "tasks": 100 }));
    ada.reported(&report("Scheduler-1", 3, &[usage(23, 5), usage(-24, 1)])).await;
    assert_eq!(used().await, json!({ "threadSeconds": 21_600.0, "tasks": 200 }), "also of a day long gone");
    app.stop().await;
}

/// The sums as stored.
async fn stored(database: &DatabaseConnection) -> (Vec<usage_day::Model>, Vec<function_usage_day::Model>) {
    let days = usage_day::Entity::find().order_by_asc(usage_day::Column::Day);
    let days = days.order_by_asc(usage_day::Column::UserId).all(database).await.unwrap();
    let functions = function_usage_day::Entity::find().order_by_asc(function_usage_day::Column::Day);
    let functions = functions
        .order_by_asc(function_usage_day::Column::UserId)
        .order_by_asc(function_usage_day::Column::Prefix)
        .all(database)
        .await
        .unwrap();
    (days, functions)
}

#[tokio::test]
async fn sums_can_be_made_again_from_the_hours() {
    let app = TestApp::start().await;
    two_users(&app).await;
    app.fold_usage().await;
    let database = app.database.connection().await;
    let before = stored(&database).await;
    assert_eq!((before.0.len(), before.1.len()), (3, 6));
    let rebuild = async |more: &[&str]| {
        let arguments = ["rollup", "rebuild", "--database-url", app.database.url(), "--log", "warn"];
        Program::run(&[&arguments, more].concat()).await
    };
    assert_eq!(rebuild(&[]).await, (Some(0), "2 days\n".to_owned(), String::new()));
    assert_eq!(stored(&database).await, before, "they were right, so nothing changes");

    for damage in [
        "UPDATE usage_days SET thread_us = thread_us + 1",
        "DELETE FROM function_usage_days",
        "INSERT INTO usage_days SELECT account_id, day - 7, user_id, clusters, thread_us, worker_us, memory_gib_us, compute_us,
             transfer_us, cpu_us, noncpu_us, serialize_us, spill_us, overhead_us, failed_us, idle_us, tasks, tasks_erred,
             retries, errors, bytes, spilled_bytes, workers, unobserved_us, is_cut FROM usage_days WHERE day = 20777",
    ] {
        database.execute_unprepared(damage).await.unwrap();
        assert_ne!(stored(&database).await, before, "{damage}");
    }
    assert_eq!(rebuild(&["--account", "team"]).await, (Some(0), "3 days\n".to_owned(), String::new()));
    assert_eq!(stored(&database).await, before);
    let (status, _, errors) = rebuild(&["--account", "nobody"]).await;
    assert_eq!((status, errors.trim()), (Some(1), "galvo: there is no account 'nobody'"));
    app.stop().await;
}

#[tokio::test]
async fn answers_for_an_account_read_no_hours() {
    let app = TestApp::start().await;
    let (ada, _) = two_users(&app).await;
    app.fold_usage().await;
    let query = format!(
        r#"{{ viewer {{ account {{ usage {{ {SUMS} }} functions {{ prefix tasks }}
            usageTable(from: "2026-11-01", to: "2026-12-01") {{ day usage {{ {SUMS} }} }} }} }} }}"#
    );
    let before = ada.query(&query, json!({})).await;
    let database = app.database.connection().await;
    for table in ["function_usage_hours", "usage_hours"] {
        database.execute_unprepared(&format!("DELETE FROM {table}")).await.unwrap();
    }
    assert_eq!(ada.query(&query, json!({})).await, before);
    app.stop().await;
}

#[tokio::test]
async fn several_may_fold_while_reports_come_in() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for sequence in 1..20 {
        let (one, two) = (
            report("Scheduler-1", sequence, &[usage(23, sequence)]),
            report("Scheduler-2", sequence, &[usage(23, sequence)]),
        );
        let (_, _, first, second) =
            tokio::join!(ada.reported(&one), ada.reported(&two), app.fold_usage(), app.fold_usage());
        assert_eq!((first.failed, second.failed), (0, 0));
    }
    app.fold_usage().await;
    let query = "{ viewer { account { usage { threadSeconds } } } }";
    let used = ada.query(query, json!({})).await["viewer"]["account"]["usage"].take();
    assert_eq!(used, json!({ "threadSeconds": 2.0 * 19.0 * 3_600.0 }));
    app.stop().await;
}

#[tokio::test]
async fn absurd_numbers_of_one_account_keep_no_other_from_its_sums() {
    let app = TestApp::start().await;
    let (eve, ada) = (app.account("eve").await, app.account("ada").await);
    // More than the largest sum in one day: 1,032 hours with 2^53 - 1 bytes each, in 43 clusters.
    for cluster in 0..43 {
        let hours: Vec<Value> = (0..24)
            .map(|hour| {
                let mut hour = usage(hour, 1);
                hour["bytes"] = json!(9_007_199_254_740_991_i64);
                hour["functions"] = json!([]);
                hour
            })
            .collect();
        eve.reported(&report(&format!("Scheduler-{cluster}"), 1, &hours)).await;
    }
    ada.reported(&report("Scheduler-1", 1, &[usage(23, 4)])).await;
    let folded = app.fold_usage().await;
    assert_eq!((folded.days, folded.failed), (2, 0));
    let query = "{ viewer { account { usage { threadSeconds causes { seconds } } } } }";
    assert_eq!(ada.query(query, json!({})).await["viewer"]["account"]["usage"]["threadSeconds"], 14_400.0);
    // Sums computed at query time do not overflow.
    let query = "{ viewer { account { clusters(first: 1) { nodes { usage { bytes threadSeconds causes { cause } } } } } } }";
    let usage =
        eve.query(query, json!({})).await["viewer"]["account"]["clusters"]["nodes"][0]["usage"].take();
    assert_eq!(
        (&usage["bytes"], &usage["threadSeconds"]),
        (&json!(216_172_782_113_783_784_i64), &json!(86_400.0))
    );
    app.stop().await;
}
