//! Statistical profiles: windows merged, pruned to a minimum share, and refused if they are no trees.

use galvo::domain::profile::{Frame, Node, Profile, merge};
use harness::{Member, ReportBuilder, TestApp, profile, uuid, worker};
use proptest::{collection::vec, prelude::*};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const PROFILE: &str =
    "query($id: ID!, $from: DateTime, $to: DateTime, $minShare: Float! = 0.001, $functions: [String!]) {
    cluster(id: $id) {
    profile(from: $from, to: $to, minShare: $minShare, functions: $functions) { from to windows complete workers samples
        frames { file function line text } nodes { parent frame self total }
        columns { parents frames self totals } } } }";

fn frame(function: &str, line: i64, text: Option<&str>) -> Value {
    json!({ "file": "/home/ada/etl.py", "function": function, "line": line, "text": text })
}

/// `main` calls `load` and `fit`, first without lines of code and then with them and in another order.
fn windows() -> Vec<Value> {
    vec![
        profile(
            1,
            0.0,
            100,
            &json!([frame("main", 1, None), frame("load", 5, None), frame("fit", 9, None)]),
            &json!([[-1, 0, 10, 100], [0, 1, 30, 30], [0, 2, 60, 60]]),
        ),
        profile(
            2,
            10.0,
            50,
            &json!([
                frame("load", 5, Some("read()")),
                frame("main", 1, Some("main()")),
                frame("rare", 7, None)
            ]),
            &json!([[-1, 1, 0, 49], [0, 0, 49, 49], [-1, 2, 1, 1]]),
        ),
    ]
}

async fn query_profile(member: &Member, number: i64, mut variables: Value) -> Value {
    variables["id"] = json!(number.to_string());
    member.query(PROFILE, variables).await["cluster"]["profile"].clone()
}

#[tokio::test]
async fn windows_are_merged_into_one_tree() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let report = ReportBuilder::new("Scheduler-1", 1).with("/profiles", windows());
    let number = ada.reported(&report.clone().build()).await;
    ada.reported(&report.build()).await;
    let node = |parent: Value, frame: i64, own: i64, total: i64| json!({ "parent": parent, "frame": frame, "self": own, "total": total });
    let expected = json!({
        "from": "2026-11-20T11:00:00+00:00", "to": "2026-11-20T11:00:20+00:00", "windows": 2, "complete": true,
        "workers": 2, "samples": 150,
        "frames": [frame("fit", 9, None), frame("load", 5, Some("read()")), frame("main", 1, Some("main()")),
            frame("rare", 7, None)],
        "nodes": [node(Value::Null, 2, 10, 149), node(json!(0), 1, 79, 79), node(json!(0), 0, 60, 60),
            node(Value::Null, 3, 1, 1)],
        "columns": { "parents": [null, 0, 0, null], "frames": [2, 1, 0, 3], "self": [10, 79, 60, 1],
            "totals": [149, 79, 60, 1] },
    });
    assert_eq!(query_profile(&ada, number, json!({})).await, expected);

    // 1 of 150 samples is less than a hundredth, 60 are not.
    let cut = query_profile(&ada, number, json!({ "minShare": 0.01 })).await;
    assert_eq!(cut["samples"], 150);
    assert_eq!(
        cut["frames"],
        json!([frame("fit", 9, None), frame("load", 5, Some("read()")), frame("main", 1, Some("main()"))])
    );
    assert_eq!(cut["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(cut["columns"]["totals"], json!([149, 79, 60]));

    let second =
        query_profile(&ada, number, json!({ "from": "2026-11-20T11:00:10Z", "to": "2026-11-20T11:00:20Z" }))
            .await;
    assert_eq!((&second["windows"], &second["samples"]), (&json!(1), &json!(50)));
    let first = query_profile(&ada, number, json!({ "to": "2026-11-20T11:00:10Z" })).await;
    assert_eq!((&first["windows"], &first["samples"]), (&json!(1), &json!(100)));
    assert_eq!(query_profile(&ada, number, json!({ "from": "2026-11-20T11:00:11Z" })).await, Value::Null);
    let wrong = ada.ask(PROFILE, json!({ "id": number.to_string(), "minShare": 1.5 })).await;
    assert_eq!(wrong["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
    app.stop().await;
}

const FUNCTIONS: &str = "query($id: ID!, $functions: [String!]) { cluster(id: $id) {
    profile(functions: $functions) { windows complete samples functions { prefix samples }
        frames { function line } columns { parents frames self totals } } } }";

#[tokio::test]
async fn functions_have_parts_of_the_profile() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut windows = windows();
    // `load` ran below `main` in the first window, and as `main` and `rare` in the second one.
    windows[0]["functions"] = json!([{ "prefix": "load", "roots": [0] }]);
    windows[1]["functions"] = json!([{ "prefix": "fit", "roots": [0] }, { "prefix": "load", "roots": [2] }]);
    let report = ReportBuilder::new("Scheduler-1", 1).with("/profiles", windows.clone()).build();
    let number = ada.reported(&report).await;
    let functions = json!([{ "prefix": "load", "samples": 101 }, { "prefix": "fit", "samples": 49 }]);
    let of = async |number: i64, functions: Value| {
        let variables = json!({ "id": number.to_string(), "functions": functions });
        ada.query(FUNCTIONS, variables).await["cluster"]["profile"].take()
    };
    let line = |function: &str, line: i64| json!({ "function": function, "line": line });
    let all = of(number, Value::Null).await;
    assert_eq!((&all["samples"], &all["functions"]), (&json!(150), &functions));
    assert_eq!(
        of(number, json!(["fit"])).await,
        json!({ "windows": 2, "complete": true, "samples": 49, "functions": functions,
            "frames": [line("load", 5), line("main", 1)],
            "columns": { "parents": [null, 0], "frames": [1, 0], "self": [0, 49], "totals": [49, 49] } })
    );
    assert_eq!(
        of(number, json!(["load"])).await,
        json!({ "windows": 2, "complete": true, "samples": 101, "functions": functions,
            "frames": [line("fit", 9), line("load", 5), line("main", 1), line("rare", 7)],
            "columns": { "parents": [null, 0, 0, null], "frames": [2, 0, 1, 3], "self": [10, 60, 30, 1],
                "totals": [100, 60, 30, 1] } })
    );
    let both = of(number, json!(["load", "fit"])).await;
    assert_eq!((&both["samples"], &both["columns"]), (&json!(150), &all["columns"]));
    let none = of(number, json!(["other"])).await;
    assert_eq!((&none["samples"], &none["complete"]), (&json!(0), &json!(true)));

    // The same by a scope, and as a file.
    let scope = "{ viewer { account { profile(scope: { functions: [\"fit\"] }) { samples } } } }";
    assert_eq!(ada.query(scope, json!({})).await["viewer"]["account"]["profile"]["samples"], 49);
    let path = format!("/api/v1/clusters/{number}/profile?function=fit&function=other");
    let file: Value = ada.request(Method::GET, &path).send().await.unwrap().json().await.unwrap();
    assert_eq!(file["profiles"][0]["endValue"], 49, "{file}");

    // A window whose functions are unknown is part of the whole alone.
    windows[0]["functions"] = json!([]);
    let report = ReportBuilder::new("Scheduler-2", 1).with("/profiles", windows).build();
    let number = ada.reported(&report).await;
    let fit = of(number, json!(["fit"])).await;
    assert_eq!((&fit["windows"], &fit["complete"], &fit["samples"]), (&json!(1), &json!(false), &json!(49)));
    let all = of(number, Value::Null).await;
    assert_eq!((&all["complete"], &all["samples"]), (&json!(true), &json!(150)));
    for functions in [json!([]), json!(vec!["f"; 101]), json!(["f".repeat(1_025)])] {
        let wrong = ada.ask(FUNCTIONS, json!({ "id": number.to_string(), "functions": functions })).await;
        let error = &wrong["errors"][0];
        assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT", "{functions}: {wrong}");
        assert!(error["message"].as_str().unwrap().contains("functions"), "{wrong}");
    }
    app.stop().await;
}

const WORKERS: &str = "query($id: ID!, $functions: [String!], $workers: [ID!]) { cluster(id: $id) {
    workers { nodes { id daskId } }
    profile(functions: $functions, workers: $workers) { windows complete samples
        byWorker { worker { daskId } samples } } } }";

#[tokio::test]
async fn workers_have_parts_of_the_profile() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let mut windows = windows();
    let by_worker = |parts: &[(u128, i64)]| {
        let part = |(worker, root): &(u128, i64)| json!({ "worker": uuid(*worker), "roots": [root] });
        Value::Array(parts.iter().map(part).collect())
    };
    windows[0]["by_worker"] = by_worker(&[(30, 0)]);
    windows[1]["by_worker"] = by_worker(&[(31, 0), (30, 2)]);
    windows[1]["functions"] = json!([{ "prefix": "load", "roots": [0, 2] }]);
    let report = ReportBuilder::new("Scheduler-1", 1).with("/workers", json!([worker(30)]));
    let report = report.with("/profiles", windows.clone()).build();
    let number = ada.reported(&report).await;
    let of = async |functions: Value, workers: Value| {
        let variables = json!({ "id": number.to_string(), "functions": functions, "workers": workers });
        ada.query(WORKERS, variables).await["cluster"].take()
    };
    let all = of(Value::Null, Value::Null).await;
    // Nothing is known of the second worker but its samples.
    let sampled =
        json!([{ "worker": { "daskId": uuid(30) }, "samples": 101 }, { "worker": null, "samples": 49 }]);
    assert_eq!((&all["profile"]["samples"], &all["profile"]["byWorker"]), (&json!(150), &sampled));
    let global = &all["workers"]["nodes"][0]["id"];
    for (functions, workers, windows, samples) in [
        (Value::Null, json!([global]), 2, 101),
        (Value::Null, json!([uuid(30)]), 2, 101),
        (Value::Null, json!([uuid(31)]), 2, 49),
        (Value::Null, json!([uuid(30), uuid(31)]), 2, 150),
        (Value::Null, json!([uuid(32)]), 2, 0),
        // The functions of the first window are unknown.
        (json!(["load"]), json!([uuid(30)]), 1, 1),
    ] {
        let profile = of(functions.clone(), workers.clone()).await["profile"].take();
        let expected = (json!(windows), json!(windows == 2), json!(samples));
        let found = (profile["windows"].clone(), profile["complete"].clone(), profile["samples"].clone());
        assert_eq!(found, expected, "{functions} {workers}");
        assert_eq!(profile["byWorker"], sampled);
    }
    let path = format!("/api/v1/clusters/{number}/profile?worker={}&worker={}", uuid(31), uuid(32));
    let file: Value = ada.request(Method::GET, &path).send().await.unwrap().json().await.unwrap();
    assert_eq!(file["profiles"][0]["endValue"], 49, "{file}");

    // A window whose workers are not distinguished is part of the whole alone.
    windows[1]["by_worker"] = json!([]);
    let report = ReportBuilder::new("Scheduler-2", 1).with("/profiles", windows).build();
    let other = ada.reported(&report).await;
    let variables = json!({ "id": other.to_string(), "workers": [uuid(30)] });
    let part = ada.query(WORKERS, variables).await["cluster"]["profile"].take();
    assert_eq!(
        (&part["windows"], &part["complete"], &part["samples"]),
        (&json!(1), &json!(false), &json!(100))
    );
    // A worker of another cluster, and arguments out of bounds.
    let foreign = json!({ "id": other.to_string(), "workers": [global] });
    let error = ada.ask(WORKERS, foreign).await["errors"][0].take();
    assert_eq!(error["extensions"]["code"], "NOT_FOUND", "{error}");
    for workers in [json!([]), json!(["x"]), Value::Array(vec![json!(uuid(30)); 101])] {
        let wrong = ada.ask(WORKERS, json!({ "id": number.to_string(), "workers": workers })).await;
        let error = &wrong["errors"][0];
        assert_eq!(error["extensions"]["code"], "BAD_USER_INPUT", "{workers}: {wrong}");
        assert!(error["message"].as_str().unwrap().contains("workers"), "{wrong}");
    }
    assert_eq!(bob.query(WORKERS, json!({ "id": number.to_string() })).await["cluster"], Value::Null);
    app.stop().await;
}

#[tokio::test]
async fn of_very_many_windows_the_newest_are_merged() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut number = 0;
    for part in 0..11_u8 {
        let windows: Vec<Value> = (0..20_u8)
            .map(|n| {
                let (id, at) =
                    (u128::from(part) * 20 + u128::from(n), f64::from(part) * 200.0 + f64::from(n) * 10.0);
                profile(id, at, 1, &json!([frame("main", 1, None)]), &json!([[-1, 0, 1, 1]]))
            })
            .collect();
        let report = ReportBuilder::new("Scheduler-1", i64::from(part) + 1).with("/profiles", windows);
        number = ada.reported(&report.build()).await;
    }
    let found = query_profile(&ada, number, json!({})).await;
    assert_eq!(
        (&found["windows"], &found["complete"], &found["samples"]),
        (&json!(200), &json!(false), &json!(200))
    );
    // The 20 oldest are left out.
    assert_eq!(found["from"], "2026-11-20T11:03:20+00:00");
    assert_eq!(found["nodes"], json!([{ "parent": null, "frame": 0, "self": 200, "total": 200 }]));
    app.stop().await;
}

#[tokio::test]
async fn what_is_no_tree_is_refused_with_its_place() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for (nodes, pointer) in [
        (json!([[-1, 0, 1, 1], [1, 0, 1, 1]]), "/profiles/1/nodes/1/0"),
        (json!([[-2, 0, 1, 1]]), "/profiles/1/nodes/0/0"),
        (json!([[-1, 1, 1, 1]]), "/profiles/1/nodes/0/1"),
        (json!([[-1, 0, -1, 1]]), "/profiles/1/nodes/0/2"),
        (json!([[-1, 0, 1, 1], [0, 0, 1, 1]]), "/profiles/1/functions/0/roots/1"),
        (json!([[-1, 0, 1, 1]]), "/profiles/1/functions/0/roots/1"),
    ] {
        let frames = json!([frame("main", 1, None)]);
        let mut wrong = profile(2, 0.0, 1, &frames, &nodes);
        wrong["functions"] = json!([{ "prefix": "load", "roots": [0, 1] }]);
        let profiles = json!([profile(1, 0.0, 1, &frames, &json!([])), wrong]);
        let (status, answer) =
            ada.report(&ReportBuilder::new("Scheduler-1", 1).with("/profiles", profiles).build()).await;
        assert_eq!(
            (status, answer["pointer"].as_str()),
            (StatusCode::BAD_REQUEST, Some(pointer)),
            "{answer}"
        );
    }
    app.stop().await;
}

/// A random tree over a few frames, some of which differ only in their text.
fn any_profile() -> impl Strategy<Value = Profile> {
    vec((0..8_usize, 0..6_usize, 0..5_i64, 0..9_i64), 0..12).prop_map(|nodes| Profile {
        frames: (0..6_i64)
            .map(|n| Frame {
                file: "a.py".to_owned(),
                function: "f".to_owned(),
                line: n % 4,
                text: (n > 3).then(|| format!("text {n}")),
            })
            .collect(),
        nodes: nodes
            .into_iter()
            .enumerate()
            .map(|(index, (parent, frame, own, total))| {
                let parent = if index == 0 { None } else { Some(parent).filter(|parent| *parent < index) };
                Node { parent, frame, own, total }
            })
            .collect(),
    })
}

proptest! {
    #[test]
    fn merging_has_no_order_and_no_grouping(profiles in vec(any_profile(), 3)) {
        let [a, b, c] = profiles.try_into().unwrap();
        let all = merge([&a, &b, &c]);
        prop_assert_eq!(&merge([&c, &a, &b]), &all);
        prop_assert_eq!(&merge([&merge([&a, &b]), &c]), &all);
        prop_assert_eq!(&merge([&a, &merge([&b, &c])]), &all);
        prop_assert_eq!(&merge([&all, &Profile::default()]), &all);
        let own = |profile: &Profile| profile.nodes.iter().map(|node| node.own).sum::<i64>();
        prop_assert_eq!(own(&all), own(&a) + own(&b) + own(&c));
    }
}
