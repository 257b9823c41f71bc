//! Several servers with one store.

use std::{process::Stdio, time::Duration};

use galvo::{config::ServeConfig, encryption::Keys, key_ring::KeySource};
use harness::{ReportBuilder, TestApp, error, event};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::{sleep, timeout},
};

use super::Watching;

const CLUSTERS: &str = "subscription($after: String) { clusters(account: \"ada\", after: $after) { cluster { name totals { tasks } } } }";
const GROUPS: &str = "subscription($after: String) { errorGroups(account: \"ada\", after: $after) { errorGroups { title occurrenceCount } } }";
const EVENTS: &str = "subscription($after: String) { events(account: \"ada\", after: $after) { events { cluster { name } data } } }";

/// A separate Redis process that can be killed.
struct Redis {
    port: u16,
    directory: TempDir,
    process: Option<Child>,
}

impl Redis {
    async fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut redis = Self { port, directory: tempfile::tempdir().unwrap(), process: None };
        redis.go_on().await;
        redis
    }

    async fn go_on(&mut self) {
        let process = Command::new("redis-server")
            .args([
                "--bind",
                "127.0.0.1",
                "--port",
                &self.port.to_string(),
                "--save",
                "",
                "--requirepass",
                "geheim",
            ])
            .current_dir(self.directory.path())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.process = Some(process);
        until(async || TcpStream::connect(("127.0.0.1", self.port)).await.is_ok()).await;
    }

    async fn kill(&mut self) {
        self.process.take().unwrap().kill().await.unwrap();
    }

    fn url(&self) -> String {
        format!("redis://:geheim@127.0.0.1:{}/", self.port)
    }
}

async fn until(condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(30), waiting).await.expect("it does not come to that");
}

async fn readiness(app: &TestApp) -> Value {
    app.anonymous(Method::GET, "/readyz").send().await.unwrap().json().await.unwrap()
}

fn report(name: &str, sequence: i64) -> Value {
    let number = u32::try_from(sequence).unwrap();
    ReportBuilder::new(name, sequence)
        .with("/cluster/name", name)
        .with("/cluster/totals/tasks", sequence)
        .with("/events", json!([event(number, name, sequence)]))
        .build()
}

/// A report of another cluster, with an error.
fn failed(sequence: u128) -> Value {
    let mut error = error(sequence, 1, 1);
    error["message"] = json!("boom");
    let sequence = i64::try_from(sequence).unwrap();
    ReportBuilder::new("failing", sequence).with("/errors", vec![error]).build()
}

#[tokio::test]
async fn what_one_server_stores_the_other_shows_also_after_redis_was_away() {
    // The services script starts Redis. Without it, the suite runs with one server.
    if std::env::var_os("GALVO_TEST_REDIS_URL").is_none() {
        return;
    }
    let mut redis = Redis::start().await;
    let (keys, url) = (Keys::generate(), redis.url());
    let with_redis = |settings: &mut ServeConfig| settings.redis = Some(url.parse().unwrap());
    let here =
        TestApp::start_on(harness::Database::migrated().await, KeySource::Ring(keys.clone()), with_redis)
            .await;
    let there = TestApp::start_beside_with(&here, KeySource::Ring(keys), with_redis).await;
    let ada = here.account("ada").await;
    for app in [&here, &there] {
        until(async || readiness(app).await["live"] == "whole").await;
    }
    let mut watching = Watching::begin(&here, &ada, "clusters", CLUSTERS, json!({})).await;
    let mut following = Watching::begin(&here, &ada, "events", EVENTS, json!({})).await;
    let mut grouped = Watching::begin(&here, &ada, "errorGroups", GROUPS, json!({})).await;
    let group = |errors: i64| json!([{ "title": "boom", "occurrenceCount": errors }]);
    // Through the other server, which has the same store.
    let over_there = there.here(&ada);
    over_there.reported(&report("one", 1)).await;
    assert_eq!(watching.next().await["cluster"], json!({ "name": "one", "totals": { "tasks": 1 } }));
    assert_eq!(following.next().await["events"], json!([{ "cluster": { "name": "one" }, "data": 1 }]));

    over_there.reported(&failed(1)).await;
    assert_eq!(grouped.next().await["errorGroups"], group(1));

    redis.kill().await;
    for app in [&here, &there] {
        until(async || readiness(app).await["live"] == "alone").await;
    }
    // Reports and queries continue to work, and changes through this server are delivered.
    over_there.reported(&report("one", 2)).await;
    over_there.reported(&report("one", 3)).await;
    over_there.reported(&failed(2)).await;
    ada.reported(&report("two", 1)).await;
    // A cluster may be sent again: soon after the first subscription of an account, the server checks
    // for missed changes.
    while watching.next().await["cluster"]["name"] != "two" {}
    let mut events = Vec::new();
    while !events.contains(&json!({ "cluster": { "name": "two" }, "data": 1 })) {
        events.extend(following.next().await["events"].as_array().unwrap().clone());
    }

    redis.go_on().await;
    // The rest is delivered after the connection is restored: every event once, and the clusters in
    // their present state.
    while events.len() < 3 {
        events.extend(following.next().await["events"].as_array().unwrap().clone());
    }
    assert_eq!(grouped.next().await["errorGroups"], group(2));
    events.retain(|event| event["cluster"]["name"] == "one");
    assert_eq!(events, [2, 3].map(|data| json!({ "cluster": { "name": "one" }, "data": data })));
    let mut last = json!(null);
    while last != json!({ "name": "one", "totals": { "tasks": 3 } }) {
        last = watching.next().await["cluster"].take();
    }
    for app in [&here, &there] {
        until(async || readiness(app).await["live"] == "whole").await;
    }
    over_there.reported(&report("one", 4)).await;
    assert_eq!(following.next().await["events"], json!([{ "cluster": { "name": "one" }, "data": 4 }]));
    assert!(following.is_quiet().await && grouped.is_quiet().await);
    there.stop().await;
    here.stop().await;
}
