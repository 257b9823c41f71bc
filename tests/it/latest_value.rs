//! The last measurements of running clusters and workers.

use harness::{Member, ReportBuilder, TestApp, sample, worker};
use serde_json::{Value, json};

const LATEST: &str =
    "query($id: ID!, $of_cluster: [SampleMetric!]!, $of_worker: [SampleMetric!]!) { cluster(id: $id) {
    latestValues(metrics: $of_cluster) { metric unit at value }
    workers { nodes { name latestValues(metrics: $of_worker) { metric unit at value } } } } }";

async fn latest(member: &Member, id: i64) -> Value {
    let variables = json!({ "id": id.to_string(), "of_cluster": ["CPU", "GIL_CONTENTION", "WORKERS", "CPU"],
        "of_worker": ["TASKS_EXECUTING"] });
    member.query(LATEST, variables).await["cluster"].take()
}

fn value(metric: &str, unit: &str, at: Option<&str>, value: Option<f64>) -> Value {
    let at = at.map(|at| format!("2026-11-20T{at}+00:00"));
    json!({ "metric": metric, "unit": unit, "at": at, "value": value })
}

/// Returns a report that is sent this many seconds after the start.
fn report(sequence: i64, seconds: f64, samples: Vec<Value>) -> ReportBuilder {
    ReportBuilder::new("Scheduler-1", sequence)
        .with("/sent_at", 1_795_172_400.0 + seconds)
        .with("/samples", samples)
}

#[tokio::test]
async fn the_last_values_are_those_of_the_last_minute_of_what_runs() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    app.set_clock("2026-11-20T11:01:40Z");
    let samples = vec![
        sample(None, 20_000, json!({ "cpu_cores": 9, "gil_contention": 0.5 })),
        sample(None, 92_000, json!({ "cpu_cores": 1.5, "workers": 2 })),
        sample(None, 99_900, json!({ "cpu_cores": 0.5 })),
        sample(Some(1), 80_000, json!({ "tasks_executing": 3 })),
    ];
    let first = report(1, 100.0, samples).with("/workers", vec![worker(1), worker(2)]);
    let id = ada.reported(&first.build()).await;
    let cpu = value("CPU", "CORES", Some("11:01:30"), Some(1.0));
    let expected = json!({
        "latestValues": [cpu, value("GIL_CONTENTION", "SHARE", None, None),
            value("WORKERS", "COUNT", Some("11:01:30"), Some(2.0)), cpu],
        "workers": { "nodes": [
            { "name": "worker-1", "latestValues": [value("TASKS_EXECUTING", "COUNT", Some("11:01:15"), Some(3.0))] },
            { "name": "worker-2", "latestValues": [value("TASKS_EXECUTING", "COUNT", None, None)] },
        ] },
    });
    assert_eq!(latest(&ada, id).await, expected);
    let theirs = bob.ask(
        "query($id: ID!) { cluster(id: $id) { latestValues(metrics: [CPU]) { value } } }",
        json!({ "id": id.to_string() }),
    );
    assert_eq!(theirs.await["data"]["cluster"], Value::Null);

    // A worker that left has no last values any more, and a cluster that closed neither.
    let mut left = worker(1);
    left["ended_at"] = json!(1_795_172_400.0 + 105.0);
    left["end"] = json!("retired");
    let second = report(2, 110.0, vec![sample(None, 109_000, json!({ "cpu_cores": 4 }))]);
    ada.reported(&second.with("/workers", vec![left]).build()).await;
    let now = latest(&ada, id).await;
    assert_eq!(now["latestValues"][0], value("CPU", "CORES", Some("11:01:45"), Some(4.0)));
    let of_workers: Vec<&Value> =
        now["workers"]["nodes"].as_array().unwrap().iter().map(|node| &node["latestValues"]).collect();
    assert_eq!(of_workers, [&Value::Null, &json!([value("TASKS_EXECUTING", "COUNT", None, None)])]);
    let closed = report(3, 120.0, vec![]).with("/final", true).with("/cluster/closed_at", 1_795_172_519.0);
    ada.reported(&closed.build()).await;
    let now = latest(&ada, id).await;
    assert_eq!(
        (&now["latestValues"], &now["workers"]["nodes"][1]["latestValues"]),
        (&Value::Null, &Value::Null)
    );
    app.stop().await;
}

const QUANTILES: &str = "query($id: ID!, $quantiles: [Float!]! = [0, 0.25, 0.5, 0.9, 1]) { cluster(id: $id) {
    workerQuantiles(metrics: [MEMORY_PROCESS, CPU], quantiles: $quantiles) { metric unit workers values } } }";

#[tokio::test]
async fn quantiles_are_those_of_the_connected_workers() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    app.set_clock("2026-11-20T11:01:40Z");
    // The workers 1 to 5 have 1, 2, 4, 8 and 16 bytes, 6 has nothing in the last minute, and 7 is gone.
    let memory = |worker, at, bytes: i64| sample(Some(worker), at, json!({ "memory_process_bytes": bytes }));
    let mut samples: Vec<Value> = (0..5_u8).map(|n| memory(u128::from(n) + 1, 90_000, 1 << n)).collect();
    samples.extend([memory(6, 10_000, 1_000), memory(7, 90_000, 1_000)]);
    let mut gone = worker(7);
    (gone["ended_at"], gone["end"]) = (json!(1_795_172_495.0), json!("lost"));
    let workers: Vec<Value> = (1..=6).map(worker).chain([gone]).collect();
    let first = report(1, 100.0, samples).with("/workers", workers);
    let id = ada.reported(&first.build()).await.to_string();
    let found = ada.query(QUANTILES, json!({ "id": id })).await["cluster"]["workerQuantiles"].take();
    // As by `numpy.quantile([1, 2, 4, 8, 16], [0, 0.25, 0.5, 0.9, 1])`.
    assert_eq!(
        found,
        json!([
            { "metric": "MEMORY_PROCESS", "unit": "BYTES", "workers": 5, "values": [1.0, 2.0, 4.0, 12.8, 16.0] },
            { "metric": "CPU", "unit": "CORES", "workers": 0, "values": null },
        ])
    );
    for quantiles in [json!([]), json!([1.5]), json!([-0.1]), json!(vec![0.5; 22])] {
        let wrong = ada.ask(QUANTILES, json!({ "id": id, "quantiles": quantiles })).await;
        assert_eq!(wrong["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{quantiles}: {wrong}");
        assert_eq!(wrong["data"]["cluster"], json!({ "workerQuantiles": null }));
    }
    let many = format!(
        "query($id: ID!) {{ cluster(id: $id) {{ workerQuantiles(metrics: [{}]) {{ unit }} }} }}",
        "CPU ".repeat(100)
    );
    let refused = ada.ask(&many, json!({ "id": id })).await;
    assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT", "{refused}");
    let closed = report(2, 120.0, vec![]).with("/final", true).with("/cluster/closed_at", 1_795_172_519.0);
    ada.reported(&closed.build()).await;
    let found = ada.query(QUANTILES, json!({ "id": id })).await["cluster"].take();
    assert_eq!(found, json!({ "workerQuantiles": null }));
    app.stop().await;
}
