//! Series: samples stored in packed form and aggregated again.

use entity::{cluster_sample_chunk, worker_sample_chunk};
use harness::{Member, ReportBuilder, TestApp, sample, worker};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};

const SERIES: &str =
    "query($id: ID!, $metrics: [SampleMetric!]!, $from: DateTime, $to: DateTime, $bucket: Int) {
    cluster(id: $id) { series(metrics: $metrics, from: $from, to: $to, bucketSeconds: $bucket) {
        metric unit bucketSeconds points { at value min max } } } }";

async fn series(member: &Member, id: i64, variables: Value) -> Value {
    let mut all = json!({ "id": id.to_string() });
    all.as_object_mut().unwrap().append(&mut variables.as_object().unwrap().clone());
    member.query(SERIES, all).await["cluster"]["series"].take()
}

fn point(at: &str, value: f64, min: f64, max: f64) -> Value {
    json!({ "at": format!("2026-11-20T{at}+00:00"), "value": value, "min": min, "max": max })
}

/// A report that is sent this many seconds after the start.
fn report(sequence: i64, seconds: f64, samples: Vec<Value>) -> Value {
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/sent_at", 1_795_172_400.0 + seconds)
        .with("/samples", samples)
        .build()
}

#[tokio::test]
async fn chunks_meet_without_a_gap() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // 11:59:59.999, 12:00:00.000 and, in another series, 12:00:00.001.
    let samples = vec![
        sample(None, 3_599_999, json!({ "tasks_processing": 3, "cpu_cores": 0.1 })),
        sample(None, 3_600_000, json!({ "tasks_processing": 900_719_925_474_099_i64, "cpu_cores": 0.2 })),
        sample(Some(1), 3_600_001, json!({ "tasks_executing": 1 })),
    ];
    let id = ada.reported(&report(1, 4_000.0, samples)).await;
    let connection = app.database.connection().await;
    let mut chunks = cluster_sample_chunk::Entity::find().all(&connection).await.unwrap();
    chunks.sort_by_key(|chunk| chunk.started_at);
    let places: Vec<(i64, i32)> = chunks.iter().map(|chunk| (chunk.started_at.0, chunk.samples)).collect();
    assert_eq!(places, [(1_795_175_400_000, 1), (1_795_176_000_000, 1)]);
    assert_eq!(worker_sample_chunk::Entity::find().all(&connection).await.unwrap().len(), 1);

    let metrics = json!(["TASKS_PROCESSING", "CPU", "WORKERS"]);
    let all = series(&ada, id, json!({ "metrics": metrics, "bucket": 600 })).await;
    let exact = 900_719_925_474_099.0;
    assert_eq!(
        all,
        json!([
            { "metric": "TASKS_PROCESSING", "unit": "COUNT", "bucketSeconds": 600, "points":
                [point("11:50:00", 3.0, 3.0, 3.0), point("12:00:00", exact, exact, exact)] },
            { "metric": "CPU", "unit": "CORES", "bucketSeconds": 600, "points":
                [point("11:50:00", 0.1, 0.1, 0.1), point("12:00:00", 0.2, 0.2, 0.2)] },
            { "metric": "WORKERS", "unit": "COUNT", "bucketSeconds": 600, "points": [] },
        ])
    );
    // `from` is inclusive, `to` is exclusive.
    let points = async |from: &str, to: &str| {
        let time = json!({ "metrics": ["CPU"], "bucket": 1, "from": from, "to": to });
        series(&ada, id, time).await[0]["points"].take()
    };
    let (first, second) = (point("11:59:59", 0.1, 0.1, 0.1), point("12:00:00", 0.2, 0.2, 0.2));
    for (from, to, expected) in [
        ("2026-11-20T11:59:59.999Z", "2026-11-20T12:00:00Z", json!([first])),
        ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00.001Z", json!([second])),
        ("2026-11-20T11:59:59.999Z", "2026-11-20T12:00:00.001Z", json!([first, second])),
        ("2026-11-20T12:00:00.001Z", "2026-11-20T12:30:00Z", json!([])),
        ("2026-11-20T12:00:00Z", "2026-11-20T12:00:00Z", json!([])),
    ] {
        assert_eq!(points(from, to).await, expected, "{from} {to}");
    }
    app.stop().await;
}

#[tokio::test]
async fn samples_of_many_reports_end_in_the_same_bytes_in_any_order() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    // 40 samples of the cluster and of two workers, every 30 seconds: 20 minutes from 11:55 on, three
    // chunks.
    let all: Vec<Value> = (0..40_i32)
        .flat_map(|n| {
            [None, Some(1_u8), Some(2)].map(|worker| {
                let tasks = n * n + i32::from(worker.unwrap_or(0));
                let metrics =
                    json!({ "tasks_memory": tasks, "cpu_cores": 0.37 * f64::from(n), "unheard_of": 1 });
                sample(worker.map(Into::into), 3_300_007 + 30_000 * i64::from(n), metrics)
            })
        })
        .collect();
    let clean = ada.reported(&report(15, 4_600.0, all.clone())).await;
    // In 15 reports of 8 samples, the last first, every second one twice and every third one with
    // samples of the next.
    for part in (0..15).rev() {
        let sent = &all[8 * part..(8 * part + if part % 3 == 0 { 12 } else { 8 }).min(all.len())];
        let (sequence, times) = (i64::try_from(part).unwrap() + 1, 1 + part % 2);
        for _ in 0..times {
            bob.reported(&report(sequence, 4_600.0, sent.iter().rev().cloned().collect())).await;
        }
    }
    let connection = app.database.connection().await;
    let mut rows = Vec::new();
    for member in [&ada, &bob] {
        let account = entity::account::Entity::find()
            .filter(entity::account::Column::Slug.eq(member.slug()))
            .one(&connection)
            .await
            .unwrap()
            .unwrap();
        let clusters = cluster_sample_chunk::Entity::find()
            .filter(cluster_sample_chunk::Column::AccountId.eq(account.id))
            .all(&connection)
            .await
            .unwrap();
        let workers = worker_sample_chunk::Entity::find()
            .filter(worker_sample_chunk::Column::AccountId.eq(account.id))
            .all(&connection)
            .await
            .unwrap();
        let clusters = clusters.into_iter().map(|row| (None, row.started_at, row.samples, row.data));
        let workers =
            workers.into_iter().map(|row| (Some(row.worker_id), row.started_at, row.samples, row.data));
        let mut all: Vec<_> = clusters.chain(workers).collect();
        all.sort();
        rows.push(all);
    }
    assert_eq!(rows[0].iter().map(|row| row.2).collect::<Vec<_>>(), [10, 20, 10, 10, 20, 10, 10, 20, 10]);
    assert!(rows[0] == rows[1], "the bytes differ");
    // Two samples, of n = 10 and 11, within a minute from 12:00.
    let (from, to) = ("2026-11-20T12:00:00Z", "2026-11-20T12:01:00Z");
    let time = json!({ "metrics": ["TASKS_MEMORY"], "bucket": 60, "from": from, "to": to });
    let expected = json!([point("12:00:00", 110.5, 100.0, 121.0)]);
    assert_eq!(series(&ada, clean, time).await[0]["points"], expected);
    app.stop().await;
}

#[tokio::test]
async fn series_of_workers_clusters_and_accounts_are_apart() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let report = |value: i64| {
        let sample = |worker: Option<u128>, add: i32| {
            let gil = 0.25 * f64::from(add);
            sample(
                worker,
                1_500,
                json!({ "memory_process_bytes": value + i64::from(add), "gil_contention": gil }),
            )
        };
        let mut report = report(1, 15.0, vec![sample(None, 0), sample(Some(1), 1), sample(Some(2), 2)]);
        report["workers"] = json!([worker(1), worker(2), worker(3)]);
        report
    };
    let query = "{ viewer { account { clusters { nodes {
        series(metrics: [MEMORY_PROCESS]) { unit bucketSeconds points { at value } }
        workers { nodes { series(metrics: [MEMORY_PROCESS, GIL_CONTENTION]) { points { at value } } } } } } } } }";
    for (member, value) in [(&ada, 1_000), (&bob, 5_000)] {
        member.reported(&report(value)).await;
    }
    for (member, value) in [(&ada, 1_000.0), (&bob, 5_000.0)] {
        let answer = member.query(query, json!({})).await;
        let point = |value: f64| json!([{ "at": "2026-11-20T11:00:01+00:00", "value": value }]);
        let worker =
            |[memory, gil]: [Value; 2]| json!({ "series": [{ "points": memory }, { "points": gil }] });
        let expected = json!([{
            "series": [{ "unit": "BYTES", "bucketSeconds": 1, "points": point(value) }],
            "workers": { "nodes": [
                worker([point(value + 1.0), point(0.25)]),
                worker([point(value + 2.0), point(0.5)]),
                worker([json!([]), json!([])]),
            ] },
        }]);
        assert_eq!(answer["viewer"]["account"]["clusters"]["nodes"], expected);
    }
    app.stop().await;
}

#[tokio::test]
async fn series_of_many_workers_are_one_statement() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let samples = |value: i64| {
        let sample = |n| sample(Some(n), 5_000, json!({ "cpu_cores": value, "tasks_ready": value }));
        (1..=100).map(sample).collect::<Vec<_>>()
    };
    let with_workers = |sequence: i64| {
        let mut report = report(sequence, 60.0, samples(2));
        // Different lifetimes: each worker's points have the smallest interval that its own lifetime
        // allows.
        report["workers"] = (1..=100).map(worker).collect();
        for (worker, ended) in report["workers"].as_array_mut().unwrap().iter_mut().zip(0..50) {
            worker["ended_at"] = json!(1_795_172_410.0 + f64::from(100 * ended));
        }
        report
    };
    let id = ada.reported(&with_workers(1)).await;
    let query = "query($id: ID!) { cluster(id: $id) { workers(first: 100) { nodes {
        series(metrics: [CPU, TASKS_READY, CPU]) { metric bucketSeconds points { value } } } } } }";
    let before = app.statements();
    let answer = ada.query(query, json!({ "id": id.to_string() })).await;
    assert_eq!(app.statements() - before, 4, "the token, the cluster, its workers, and their chunks");
    let nodes = answer["cluster"]["workers"]["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 100);
    for node in nodes {
        let metrics: Vec<&Value> = node["series"].as_array().unwrap().iter().map(|s| &s["metric"]).collect();
        assert_eq!(metrics, ["CPU", "TASKS_READY", "CPU"]);
        assert!(node["series"].as_array().unwrap().iter().all(|s| s["points"] == json!([{ "value": 2.0 }])));
    }
    // In addition to the token, the cluster, which is read and written, and the account's daily bytes: a
    // report with samples of a hundred workers reads their chunks at once and writes them in a few
    // statements; one without new data writes none.
    for (samples, statements) in [(samples(3), 1 + 3), (samples(3), 1), (vec![], 0)] {
        let before = app.statements();
        ada.reported(&report(2, 60.0, samples)).await;
        assert_eq!(app.statements() - before, 1 + 2 + 1 + statements);
    }
    app.stop().await;
}

#[tokio::test]
async fn long_series_are_read_in_parts_and_summed_up() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // A sample every ten minutes for 30 days, more chunks than one statement reads.
    let samples = |worker: Option<u128>, count: i64| {
        (0..count).map(move |n| sample(worker, 600_000 * n, json!({ "tasks_memory": n % 6 })))
    };
    let days = |days: f64| 86_400.0 * days;
    let all = samples(None, 30 * 144).chain((1..=5).flat_map(|n| samples(Some(n), 7 * 144)));
    let mut report = report(1, days(30.0), all.collect());
    report["workers"] = (1..=5).map(worker).collect();
    for worker in report["workers"].as_array_mut().unwrap() {
        worker["started_at"] = json!(1_795_172_400.0);
        worker["ended_at"] = json!(1_795_172_400.0 + days(7.0) - 1.0);
    }
    app.set_clock("2026-12-20T11:00:00Z");
    let id = ada.reported(&report).await;
    let query = "query($id: ID!) { cluster(id: $id) {
        series(metrics: [TASKS_MEMORY]) { bucketSeconds points { at value min max } }
        workers { nodes { series(metrics: [TASKS_MEMORY], bucketSeconds: 3600) { points { value } } } } } }";
    let before = app.statements();
    let cluster = ada.query(query, json!({ "id": id.to_string() })).await["cluster"].take();
    assert_eq!(app.statements() - before, 3 + 2 + 2, "two statements for each table");
    let points = cluster["series"][0]["points"].as_array().unwrap();
    assert_eq!((&cluster["series"][0]["bucketSeconds"], points.len()), (&json!(1_800), 60 * 24));
    assert_eq!(points[0], point("11:00:00", 1.0, 0.0, 2.0));
    assert_eq!(points[1], point("11:30:00", 4.0, 3.0, 5.0));
    for worker in cluster["workers"]["nodes"].as_array().unwrap() {
        let points = worker["series"][0]["points"].as_array().unwrap();
        assert_eq!(points.len(), 7 * 24);
        assert!(points.iter().all(|point| point["value"] == 2.5));
    }
    app.stop().await;
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = ada.reported(&report(1, 86_400.0, vec![])).await.to_string();
    let time = |from: &str, to: &str| json!({ "id": id, "metrics": ["CPU"], "from": from, "to": to });
    let bucket = |seconds: i64| json!({ "id": id, "metrics": ["CPU"], "bucket": seconds });
    let cases = [
        (bucket(0), "argument 'bucketSeconds': must be at least 1"),
        (bucket(43), "argument 'bucketSeconds': must be at least 44 for this period"),
        (
            time("2026-11-20T12:00:01Z", "2026-11-20T12:00:00Z"),
            "argument 'from': must not be later than 'to'",
        ),
        (
            time("2026-10-20T11:59:59Z", "2026-11-20T12:00:00Z"),
            "argument 'from': must not be more than 31 days before the end",
        ),
    ];
    for (variables, message) in cases {
        let answer = ada.ask(SERIES, variables.clone()).await;
        assert_eq!(answer["errors"][0]["message"], message, "{variables}");
        assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{variables}");
    }
    // The interval is the smallest round one that gives at most two thousand points.
    let narrow = ada.query(SERIES, json!({ "id": id, "metrics": ["CPU"] })).await;
    assert_eq!(narrow["cluster"]["series"][0]["bucketSeconds"], 60);
    assert_eq!(ada.query(SERIES, json!({ "id": id, "metrics": [] })).await["cluster"]["series"], json!([]));
    // So many series that the response would be too large.
    let many =
        |n: i32| format!("s{n}: series(metrics: [{}], bucketSeconds: 44) {{ unit }}", "CPU ".repeat(20));
    let many = (0..40).map(many).collect::<Vec<_>>().join(" ");
    let answer = ada.ask(&format!("{{ cluster(id: \"{id}\") {{ {many} }} }}"), json!({})).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{answer}");
    app.stop().await;
}

#[tokio::test]
async fn what_cannot_be_unpacked_is_an_error_and_stays_as_it_is() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let at = |milliseconds| vec![sample(None, milliseconds, json!({ "cpu_cores": 1 }))];
    ada.reported(&report(1, 700.0, at(1_000))).await;
    let connection = app.database.connection().await;
    let stored = async || cluster_sample_chunk::Entity::find().all(&connection).await.unwrap();
    let newer = vec![2, 3, 4];
    let chunk = stored().await.remove(0);
    cluster_sample_chunk::ActiveModel { data: Set(newer.clone()), ..chunk.into() }
        .update(&connection)
        .await
        .unwrap();
    // The report is accepted, with its sample of the next ten minutes.
    let id = ada.reported(&report(2, 700.0, [at(2_000), at(600_000)].concat())).await;
    let data: Vec<_> = stored().await.into_iter().map(|chunk| (chunk.started_at.0, chunk.data)).collect();
    assert_eq!(data.len(), 2);
    assert!(data.contains(&(1_795_172_400_000, newer)));
    let answer = ada.ask(SERIES, json!({ "id": id.to_string(), "metrics": ["CPU"] })).await;
    assert_eq!(answer["errors"][0]["extensions"]["code"], "INTERNAL_SERVER_ERROR", "{answer}");
    let from = json!({ "metrics": ["CPU"], "from": "2026-11-20T11:10:00Z", "bucket": 1 });
    assert_eq!(series(&ada, id, from).await[0]["points"], json!([point("11:10:00", 1.0, 1.0, 1.0)]));
    app.stop().await;
}

#[tokio::test]
async fn columns_have_the_numbers_of_the_points_and_nulls_between_them() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let at = |seconds: i64, cores: f64| {
        sample(None, 1_000 * seconds, json!({ "cpu_cores": cores, "tasks_memory": 3 * seconds }))
    };
    // 11:00:07, 11:00:08, 11:00:20 and 11:00:31: with buckets of ten seconds, the third is empty.
    let samples = vec![at(7, 0.1), at(8, 0.3), at(9, 0.3), at(31, 2.0), at(32, 3.5)];
    let id = ada.reported(&report(1, 100.0, samples)).await;
    let query = "query($id: ID!, $points: Int, $bucket: Int, $metrics: [SampleMetric!]!) { cluster(id: $id) {
        series(metrics: $metrics, maxPoints: $points, bucketSeconds: $bucket) { bucketSeconds
            points { at value } columns { startedAt stepSeconds values min max } } } }";
    let ask = async |points: Option<i32>, bucket: Option<i32>, metrics: &[&str]| {
        let variables =
            json!({ "id": id.to_string(), "points": points, "bucket": bucket, "metrics": metrics });
        ada.ask(query, variables).await
    };
    let of = |answer: &Value| answer["data"]["cluster"]["series"].clone();
    let series = of(&ask(None, Some(10), &["CPU", "TASKS_MEMORY", "THREADS"]).await);
    // (0.1 + 0.3 + 0.3) / 3 with seven digits, as a 32-bit float has them.
    let expected = json!({ "startedAt": "2026-11-20T11:00:00+00:00", "stepSeconds": 10,
        "values": [0.233_333_33, null, null, 2.75], "min": [0.1, null, null, 2], "max": [0.3, null, null, 3.5] });
    assert_eq!(series[0]["columns"], expected);
    assert_eq!(series[0]["points"].as_array().unwrap().len(), 2);
    // (21 + 24 + 27) / 3 and (93 + 96) / 2.
    let values = json!([24, null, null, 94.5]);
    assert_eq!((&series[1]["columns"]["values"], &series[1]["bucketSeconds"]), (&values, &json!(10)));
    let empty = json!({ "startedAt": null, "stepSeconds": 10, "values": [], "min": [], "max": [] });
    assert_eq!(series[2]["columns"], empty);

    // The cluster lived for 100 s and a millisecond: 101 buckets of a second, 51 of two, 21 of five.
    for (points, width) in [(101, 1), (100, 2), (51, 2), (50, 5), (21, 5), (20, 10), (2, 60), (2_000, 1)] {
        let series = of(&ask(Some(points), None, &["CPU"]).await);
        assert_eq!(series[0]["bucketSeconds"], width, "{points}");
        assert_eq!(series[0]["columns"]["stepSeconds"], width, "{points}");
    }
    for (points, bucket, reason) in [
        (1, None, "argument 'maxPoints': must be between 2 and 2000"),
        (2_001, None, "argument 'maxPoints': must be between 2 and 2000"),
        (-1, None, "argument 'maxPoints': must be between 2 and 2000"),
        (60, Some(10), "argument 'maxPoints': cannot be used together with 'bucketSeconds'"),
    ] {
        let refused = ask(Some(points), bucket, &["CPU"]).await;
        let error = &refused["errors"][0];
        assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
        assert!(error["message"].as_str().unwrap().contains(reason), "{refused}");
    }

    // Two selections of the field have to be merged, which only the executor does. The numbers are the same.
    let merged = "query($id: ID!) { cluster(id: $id) { series(metrics: [CPU], bucketSeconds: 10) {
        columns { values } columns { startedAt stepSeconds values min max } } } }";
    let merged = ada.query(merged, json!({ "id": id.to_string() })).await;
    assert_eq!(merged["cluster"]["series"][0]["columns"], expected);
    app.stop().await;
}

#[tokio::test]
async fn two_thousand_points_take_a_third_of_the_space_as_columns() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Bytes of ten digits, and cores with a fraction, a second apart.
    let samples: Vec<Value> = (0..2_000_i32)
        .map(|second| {
            let cores = 0.001 * f64::from(1_000 + second);
            let bytes = 5_000_000_000_i64 + 1_234_567 * i64::from(second);
            sample(
                None,
                1_000 * i64::from(second),
                json!({ "cpu_cores": cores, "memory_process_bytes": bytes }),
            )
        })
        .collect();
    let mut id = 0;
    for (sequence, part) in (1..).zip(samples.chunks(500)) {
        id = ada.reported(&report(sequence, 1_999.0, part.to_vec())).await;
    }
    let size = async |metric: &str, fields: &str| {
        let query = format!(
            "{{ cluster(id: \"{id}\") {{ series(metrics: [{metric}], maxPoints: 2000) {{ {fields} }} }} }}"
        );
        let series = ada.query(&query, json!({})).await["cluster"]["series"][0].take();
        let list = series["columns"]["values"].as_array().or(series["points"].as_array()).unwrap().len();
        assert_eq!(list, 2_000);
        series.to_string().len()
    };
    let (columns, points) =
        ("columns { startedAt stepSeconds values min max }", "points { at value min max }");
    assert!(size("CPU", columns).await < 40_000);
    // Three numbers of ten digits with commas.
    assert!(size("MEMORY_PROCESS", columns).await < 3 * 11 * 2_000 + 500);
    assert!(size("MEMORY_PROCESS", columns).await * 5 < size("MEMORY_PROCESS", points).await * 2);
    assert!(size("CPU", columns).await * 3 < size("CPU", points).await);
    app.stop().await;
}
