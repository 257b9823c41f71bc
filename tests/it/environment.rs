//! Environments: the software of the processes, and its differences.

use harness::{ReportBuilder, STARTED_AT, TestApp, uuid, worker};
use serde_json::{Value, json};

fn environment(number: u128, python: &str, packages: &Value) -> Value {
    json!({ "id": uuid(number), "python": python, "executable": "/usr/bin/python3", "os": "Linux",
        "os_release": "6.1.0", "machine": "x86_64", "packages": packages })
}

/// A scheduler and two workers on one environment, a worker on another and a client on a third.
fn report(scheduler_id: &str) -> ReportBuilder {
    let environments = json!([
        environment(
            1,
            "3.12.1",
            &json!({ "dask": "2026.1.0", "numpy": "2.0.0", "lz4": "4.3", "xarray": null })
        ),
        environment(
            2,
            "3.12.1",
            &json!({ "dask": "2026.1.0", "numpy": "1.26.4", "lz4": null, "xarray": null })
        ),
        environment(3, "3.13.0", &json!({ "dask": "2026.1.0", "numpy": "2.0.0", "pandas": "3.0.0" })),
    ]);
    let mut workers = [worker(1), worker(2), worker(3), worker(4)];
    for (worker, environment) in workers.iter_mut().zip([1, 2, 1]) {
        worker["environment_id"] = uuid(environment).into();
    }
    let client = json!({ "id": "Client-1", "connected_at": STARTED_AT, "environment_id": uuid(3) });
    ReportBuilder::new(scheduler_id, 1)
        .with("/cluster/environment_id", uuid(1))
        .with("/environments", environments)
        .with("/workers", workers.to_vec())
        .with("/clients", json!([client]))
}

#[tokio::test]
async fn what_processes_run_on_is_shown_in_full() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = ada.reported(&report("Scheduler-1").build()).await.to_string();
    let query = "query($id: ID!) { cluster(id: $id) {
        environment { python executable os osRelease machine packages { name version } }
        workers { nodes { environment { packages { name version } } } }
        clients { nodes { environment { python } } } } }";
    let cluster = ada.query(query, json!({ "id": id })).await["cluster"].take();
    let packages = |lz4: Value, numpy: &str| {
        json!([{ "name": "dask", "version": "2026.1.0" }, { "name": "lz4", "version": lz4 },
            { "name": "numpy", "version": numpy }, { "name": "xarray", "version": null }])
    };
    assert_eq!(
        cluster["environment"],
        json!({ "python": "3.12.1", "executable": "/usr/bin/python3", "os": "Linux", "osRelease": "6.1.0",
            "machine": "x86_64", "packages": packages(json!("4.3"), "2.0.0") })
    );
    let one = json!({ "environment": { "packages": packages(json!("4.3"), "2.0.0") } });
    let other = json!({ "environment": { "packages": packages(Value::Null, "1.26.4") } });
    assert_eq!(cluster["workers"]["nodes"], json!([one, other, one, { "environment": null }]));
    assert_eq!(cluster["clients"]["nodes"], json!([{ "environment": { "python": "3.13.0" } }]));
    app.stop().await;
}

#[tokio::test]
async fn packages_that_differ_are_named_with_who_has_what() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let id = ada.reported(&report("Scheduler-1").build()).await.to_string();
    let query = "query($id: ID!) { cluster(id: $id) { environmentMismatches { name
        versions { role version processes } } } }";
    let version = |role: &str, version: Option<&str>, processes: i64| json!({ "role": role, "version": version, "processes": processes });
    let expected = json!([
        { "name": "lz4", "versions": [version("SCHEDULER", Some("4.3"), 1), version("WORKER", None, 1),
            version("WORKER", Some("4.3"), 2)] },
        { "name": "numpy", "versions": [version("SCHEDULER", Some("2.0.0"), 1),
            version("WORKER", Some("1.26.4"), 1), version("WORKER", Some("2.0.0"), 2),
            version("CLIENT", Some("2.0.0"), 1)] },
        { "name": "python", "versions": [version("SCHEDULER", Some("3.12.1"), 1),
            version("WORKER", Some("3.12.1"), 3), version("CLIENT", Some("3.13.0"), 1)] },
    ]);
    let found = ada.query(query, json!({ "id": id })).await["cluster"]["environmentMismatches"].take();
    assert_eq!(found, expected);
    // All equal, or nothing known: no differences.
    for bare in [
        report("Scheduler-2").without("/clients").with("/workers", json!([worker(9)])).build(),
        ReportBuilder::new("Scheduler-3", 1).build(),
    ] {
        let id = ada.reported(&bare).await.to_string();
        let found = ada.query(query, json!({ "id": id })).await["cluster"]["environmentMismatches"].take();
        assert_eq!(found, json!([]));
    }
    app.stop().await;
}

#[tokio::test]
async fn an_environment_is_a_fact_of_its_own_account() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let changed = report("Scheduler-1").with("/sequence", 2).with("/environments/0/python", "2.7");
    let query = "query($id: ID!) { cluster(id: $id) { environment { python } } }";
    for (member, reports, python) in [
        (&ada, [report("Scheduler-1").build(), changed.clone().build()], "3.12.1"),
        (&bob, [changed.build(), report("Scheduler-1").build()], "2.7"),
    ] {
        let mut id = 0;
        for report in &reports {
            id = member.reported(report).await;
        }
        let found = member.query(query, json!({ "id": id.to_string() })).await;
        assert_eq!(found["cluster"]["environment"], json!({ "python": python }));
    }
    app.stop().await;
}

#[tokio::test]
async fn mismatches_of_many_clusters_cost_as_much_as_of_one() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..10 {
        ada.reported(&report(&format!("Scheduler-{number}")).build()).await;
    }
    let query = "{ viewer { account { clusters { nodes { environment { python }
        environmentMismatches { name } } } } } }";
    let before = app.statements();
    let answer = ada.query(query, json!({})).await;
    let clusters = answer["viewer"]["account"]["clusters"]["nodes"].as_array().unwrap();
    assert!(clusters.iter().all(|cluster| cluster["environmentMismatches"].as_array().unwrap().len() == 3));
    // The token, the clusters, the environments of processes (two), the schedulers' environments, and
    // the others.
    assert!(app.statements() - before <= 6, "{}", app.statements() - before);
    app.stop().await;
}
