//! The activity of functions: compute time stored in packed form and aggregated as numbers of threads.

use entity::function_activity_chunk::{ActiveModel, Entity, Model};
use harness::{Member, ReportBuilder, TestApp, activity};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};

const ACTIVITY: &str = "query($id: ID!, $from: DateTime, $to: DateTime, $bucket: Int, $points: Int,
    $first: Int! = 10) { cluster(id: $id) {
    functionActivity(from: $from, to: $to, bucketSeconds: $bucket, maxPoints: $points, first: $first) {
        startedAt stepSeconds functions { prefix threads computeSeconds } otherThreads computeSeconds } } }";

async fn ask(member: &Member, id: i64, variables: Value) -> Value {
    let mut all = json!({ "id": id.to_string() });
    all.as_object_mut().unwrap().append(&mut variables.as_object().unwrap().clone());
    member.ask(ACTIVITY, all).await
}

async fn shown(member: &Member, id: i64, variables: Value) -> Value {
    let mut answer = ask(member, id, variables).await;
    assert_eq!(answer["errors"], Value::Null, "{answer}");
    answer["data"]["cluster"]["functionActivity"].take()
}

/// A report of a cluster of eight threads, sent this many seconds after the start.
fn report(sequence: i64, seconds: f64, minutes: Vec<Value>) -> Value {
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/sent_at", 1_795_172_400.0 + seconds)
        .with("/cluster/totals/peak_threads", 8)
        .with("/function_activity", minutes)
        .build()
}

/// Adds the time of other functions to a minute.
fn with_others(mut minute: Value, seconds: [f64; 4]) -> Value {
    minute["other_compute_seconds"] = json!(seconds);
    minute
}

async fn stored(app: &TestApp) -> Vec<Model> {
    let mut rows = Entity::find().all(&app.database.connection().await).await.unwrap();
    rows.sort_by_key(|row| (row.account_id, row.started_at));
    rows
}

#[tokio::test]
async fn the_sum_of_all_columns_is_the_compute_time() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // The last quarter of 11:09 and the first one of 11:10, in two chunks.
    let minutes = vec![
        with_others(
            activity(9, &[("load", [0.0, 0.0, 0.0, 90.0]), ("sum", [0.0, 0.0, 0.0, 7.5])]),
            [0.0, 0.0, 0.0, 1.5],
        ),
        activity(10, &[("load", [30.0, 0.0, 0.0, 0.0]), ("größe", [15.0, 0.0, 45.0, 0.0])]),
    ];
    let id = ada.reported(&report(1, 900.0, minutes)).await;
    let column = |prefix: &str, threads: Value, seconds: f64| json!({ "prefix": prefix, "threads": threads, "computeSeconds": seconds });
    let all = shown(&ada, id, json!({ "first": 2 })).await;
    assert_eq!(
        all,
        json!({
            "startedAt": "2026-11-20T11:09:45+00:00", "stepSeconds": 15, "computeSeconds": 189.0,
            "functions": [
                column("load", json!([6, 2, 0, 0]), 120.0),
                column("größe", json!([0, 1, 0, 3]), 60.0),
            ],
            "otherThreads": [0.6, 0, 0, 0],
        })
    );
    // Buckets begin at multiples of their width, and the time of one function less is that of the others.
    let wide = shown(&ada, id, json!({ "first": 1, "bucket": 600 })).await;
    assert_eq!(
        wide,
        json!({
            "startedAt": "2026-11-20T11:00:00+00:00", "stepSeconds": 600, "computeSeconds": 189.0,
            "functions": [column("load", json!([0.15, 0.05]), 120.0)],
            "otherThreads": [0.015, 0.1],
        })
    );
    // Intervals at the ends of a period count whole.
    let period = |from: &str, to: &str| json!({ "from": from, "to": to });
    for (from, to, threads) in [
        ("2026-11-20T11:09:59.999Z", "2026-11-20T11:10:00Z", json!([6])),
        ("2026-11-20T11:10:00Z", "2026-11-20T11:10:00.001Z", json!([2])),
        ("2026-11-20T11:09:59Z", "2026-11-20T11:10:01Z", json!([6, 2])),
    ] {
        let found = shown(&ada, id, period(from, to)).await;
        assert_eq!(found["functions"][0]["threads"], threads, "{from} {to}");
    }
    for (from, to) in
        [("2026-11-20T11:11:00Z", "2026-11-20T11:12:00Z"), ("2026-11-20T11:09:50Z", "2026-11-20T11:09:50Z")]
    {
        let nothing = json!({ "startedAt": null, "stepSeconds": 15, "functions": [], "otherThreads": [], "computeSeconds": 0.0 });
        assert_eq!(shown(&ada, id, period(from, to)).await, nothing, "{from} {to}");
    }
    app.stop().await;
}

#[tokio::test]
async fn minutes_of_many_reports_end_in_the_same_bytes_in_any_order() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    // The time of each of 15 minutes grows over three reports.
    let minutes = |grown: u8| -> Vec<Value> {
        let of = |minute: i64, function: u8| {
            let share = f64::from(function) + f64::from(grown);
            [0.25 * share, 0.0, f64::from(u8::try_from(minute).unwrap()), share]
        };
        let minute = |minute: i64| {
            with_others(activity(minute, &[("load", of(minute, 1)), ("sum", of(minute, 2))]), of(minute, 0))
        };
        (0..15).map(minute).collect()
    };
    let last = ada.reported(&report(3, 900.0, minutes(3))).await;
    for (sequence, minutes) in [
        (2, minutes(2)[3..].to_vec()),
        (3, minutes(3)),
        (1, minutes(1)),
        (3, minutes(3).into_iter().rev().collect()),
        (2, minutes(2)),
    ] {
        bob.reported(&report(sequence, 900.0, minutes)).await;
    }
    let rows = stored(&app).await;
    let rows: Vec<_> = rows.into_iter().map(|row| (row.started_at.0, row.functions, row.data)).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows[..2] == rows[2..], "the bytes differ");
    assert_eq!(
        rows[..2].iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(),
        [(1_795_172_400_000, 3), (1_795_173_000_000, 3)]
    );
    // A report without anything new writes nothing: the token, the cluster, which is read and written, the
    // account's daily bytes, and the chunks, which are read.
    let before = app.statements();
    ada.reported(&report(3, 900.0, minutes(3))).await;
    assert_eq!(app.statements() - before, 1 + 2 + 1 + 1);
    // Of `load`, 15 minutes with 1 s and 4 s, and 0 to 14 s.
    let found = shown(&ada, last, json!({ "first": 20 })).await;
    let load = found["functions"].as_array().unwrap().iter().find(|function| function["prefix"] == "load");
    assert_eq!(load.unwrap()["computeSeconds"], 15.0 * 5.0 + 105.0);
    app.stop().await;
}

#[tokio::test]
async fn clusters_and_accounts_are_apart_and_read_at_once() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    for (member, first) in [(&ada, 1.0), (&bob, 100.0)] {
        for number in 0..3_u8 {
            let minutes = vec![activity(1, &[("load", [first + f64::from(number), 0.0, 0.0, 0.0])])];
            let report =
                ReportBuilder::new(&format!("Scheduler-{number}"), 1).with("/sent_at", 1_795_172_490);
            let report = report.with("/function_activity", minutes);
            member.reported(&report.with("/cluster/totals/peak_threads", 8).build()).await;
        }
    }
    let query = "{ viewer { account { clusters { nodes { functionActivity { computeSeconds } } } } } }";
    for (member, first) in [(&ada, 1.0), (&bob, 100.0)] {
        let before = app.statements();
        let answer = member.query(query, json!({})).await;
        assert_eq!(app.statements() - before, 3, "the token, the clusters, and their chunks");
        let nodes = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap().clone();
        let mut seconds: Vec<f64> =
            nodes.iter().map(|node| node["functionActivity"]["computeSeconds"].as_f64().unwrap()).collect();
        seconds.sort_by(f64::total_cmp);
        assert_eq!(json!(seconds), json!([first, first + 1.0, first + 2.0]));
    }
    app.stop().await;
}

#[tokio::test]
async fn a_month_is_read_in_parts_and_summed_up() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.set_clock("2026-12-20T11:00:00Z");
    // A minute in each ten of them for eight days, more chunks than one statement reads.
    let chunks = 8 * 144;
    let minutes: Vec<Value> =
        (0..chunks).map(|chunk| activity(10 * chunk, &[("load", [15.0, 0.0, 0.0, 0.0])])).collect();
    let mut id = 0;
    for (sequence, minutes) in (1..).zip(minutes.chunks(500)) {
        id = ada.reported(&report(sequence, 8.0 * 86_400.0, minutes.to_vec())).await;
    }
    let before = app.statements();
    let found = shown(&ada, id, json!({})).await;
    assert_eq!(app.statements() - before, 2 + 2, "the token, the cluster, and two statements for the chunks");
    // 8 days in at most 2,000 buckets: of ten minutes, with one thread for a fortieth of each.
    let threads = found["functions"][0]["threads"].as_array().unwrap();
    assert_eq!((&found["stepSeconds"], threads.len()), (&json!(600), 1_152));
    assert!(threads.iter().all(|threads| *threads == json!(0.025)));
    assert_eq!(found["computeSeconds"], 1_152.0 * 15.0);
    let narrow = shown(&ada, id, json!({ "points": 2 })).await;
    // A week, because the days since 1970 are a multiple of seven on the day before the start.
    assert_eq!(narrow["stepSeconds"], 7 * 86_400);
    app.stop().await;
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = ada.reported(&report(1, 86_400.0, vec![])).await;
    for (variables, message) in [
        (json!({ "bucket": 0 }), "argument 'bucketSeconds': must be at least 15"),
        (json!({ "bucket": 40 }), "argument 'bucketSeconds': must be a multiple of 15"),
        // 2,000 buckets of 43.2 s.
        (json!({ "bucket": 30 }), "argument 'bucketSeconds': must be at least 45 for this period"),
        (
            json!({ "bucket": 60, "points": 60 }),
            "argument 'maxPoints': cannot be used together with 'bucketSeconds'",
        ),
        (json!({ "points": 1 }), "argument 'maxPoints': must be between 2 and 2000"),
        (
            json!({ "from": "2026-10-20T11:59:59Z", "to": "2026-11-20T12:00:00Z" }),
            "argument 'from': must not be more than 31 days before the end",
        ),
        (json!({ "first": 0 }), "argument 'first': must be between 1 and 20, not 0"),
        (json!({ "first": 21 }), "argument 'first': must be between 1 and 20, not 21"),
    ] {
        let answer = ask(&ada, id, variables.clone()).await;
        assert_eq!(answer["errors"][0]["message"], message, "{variables}");
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{variables}");
    }
    for (variables, step) in
        [(json!({}), 60), (json!({ "bucket": 45 }), 45), (json!({ "points": 2 }), 86_400)]
    {
        assert_eq!(shown(&ada, id, variables).await["stepSeconds"], step);
    }
    // So much that the response would be too large.
    let many = |n: i64| format!("a{n}: functionActivity(bucketSeconds: 45, first: 20) {{ stepSeconds }}");
    let many = (0..30).map(many).collect::<Vec<_>>().join(" ");
    let answer = ada.ask(&format!("{{ cluster(id: \"{id}\") {{ {many} }} }}"), json!({})).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{answer}");
    app.stop().await;
}

#[tokio::test]
async fn what_cannot_be_unpacked_is_an_error_and_stays_as_it_is() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let at = |minute| activity(minute, &[("load", [15.0, 0.0, 0.0, 0.0])]);
    ada.reported(&report(1, 700.0, vec![at(0)])).await;
    let newer = vec![2, 3, 4];
    let chunk: ActiveModel = stored(&app).await.remove(0).into();
    let connection = app.database.connection().await;
    ActiveModel { data: Set(newer.clone()), ..chunk }.update(&connection).await.unwrap();
    // The report is accepted, with its minute of the next ten.
    let id = ada.reported(&report(2, 700.0, vec![at(1), at(10)])).await;
    let rows = stored(&app).await;
    assert_eq!((rows.len(), &rows[0].data), (2, &newer));
    let answer = ask(&ada, id, json!({})).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "INTERNAL_SERVER_ERROR", "{answer}");
    let found = shown(&ada, id, json!({ "from": "2026-11-20T11:10:00Z" })).await;
    assert_eq!(found["functions"][0]["threads"], json!([1]));
    app.stop().await;
}

#[tokio::test]
async fn the_time_of_an_interval_is_that_of_the_threads_at_most() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let minutes = vec![
        activity(0, &[("load", [119.0, 200.0, 0.0, 0.0])]),
        activity(7 * 1_440, &[("load", [1.0, 0.0, 0.0, 0.0])]),
    ];
    let (_, answer) = ada.report(&report(1, 700.0, minutes)).await;
    assert_eq!(
        answer["cut"],
        json!(["function_activity.functions.compute_seconds", "function_activity.minute"])
    );
    let found = shown(&ada, answer["cluster_id"].as_i64().unwrap(), json!({})).await;
    // 8 threads for 15 s.
    assert_eq!(found["computeSeconds"], 119.0 + 120.0);
    // A minute without any time needs no row.
    let before = stored(&app).await;
    ada.reported(&report(2, 700.0, vec![activity(20, &[("load", [0.0; 4])])])).await;
    assert_eq!(stored(&app).await, before);
    app.stop().await;
}
