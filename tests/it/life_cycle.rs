//! Cluster states: histories with states determined by hand, on a clock set by the tests.

use chrono::{DateTime, TimeDelta};
use harness::{Member, Program, ReportBuilder, STARTED_AT, TestApp, computation, uuid};
use sea_orm::ConnectionTrait;
use serde_json::{Value, json};

pub(crate) const STATES: [&str; 6] = ["STARTING", "RUNNING", "IDLE", "CLOSING", "CLOSED", "LOST"];

/// The time this many seconds after the initial time, as the server formats it.
pub(crate) fn server_time(seconds: i64) -> String {
    let start = DateTime::parse_from_rfc3339("2026-11-20T12:00:00+00:00").unwrap();
    (start + TimeDelta::seconds(seconds)).to_rfc3339()
}

/// The same by the clock of the schedulers.
pub(crate) fn scheduler_time(seconds: i64) -> String {
    let start = DateTime::parse_from_rfc3339("2026-11-20T11:00:00+00:00").unwrap();
    (start + TimeDelta::seconds(seconds)).to_rfc3339()
}

/// A scheduler's report this many seconds after its start: the start of idleness, the number of workers
/// that joined, and the number of tasks. Its sequence is the time.
pub(crate) fn report_at(
    name: &str,
    at: i32,
    idle_since: Option<i32>,
    workers: i32,
    tasks: i32,
) -> ReportBuilder {
    let idle = idle_since.map(|since| STARTED_AT + f64::from(since));
    ReportBuilder::new(name, at.into())
        .with("/sent_at", STARTED_AT + f64::from(at))
        .with("/cluster/idle_since", idle)
        .with("/cluster/workers", workers)
        .with("/cluster/totals/workers", workers)
        .with("/cluster/totals/tasks", tasks)
}

/// The last report of a scheduler that closes at this time.
pub(crate) fn closing(report: ReportBuilder, at: i32) -> ReportBuilder {
    report.with("/final", true).with("/cluster/closed_at", STARTED_AT + f64::from(at))
}

pub(crate) async fn cluster(member: &Member, number: i64, fields: &str) -> Value {
    let query = format!("query($id: ID!) {{ cluster(id: $id) {{ {fields} }} }}");
    member.query(&query, json!({ "id": number.to_string() })).await["cluster"].take()
}

pub(crate) async fn id_of(member: &Member, number: i64) -> Value {
    cluster(member, number, "id").await["id"].take()
}

/// The names of the clusters in some states, ordered by start and first report.
async fn in_states(member: &Member, states: &[&str]) -> String {
    let query = "query($states: [ClusterState!]) { viewer { account { clusters(first: 100, orderBy: { direction: ASC },
        filter: { states: $states }) { totalCount nodes { schedulerId } } } } }";
    let mut found =
        member.query(query, json!({ "states": states })).await["viewer"]["account"]["clusters"].take();
    let nodes = found["nodes"].take();
    let names: Vec<_> =
        nodes.as_array().unwrap().iter().map(|node| node["schedulerId"].as_str().unwrap()).collect();
    assert_eq!(found["totalCount"], names.len());
    names.join(" ")
}

/// An event in a history.
enum Step {
    Report(ReportBuilder),
    /// Only the background jobs run.
    Jobs,
    Stop,
}

/// A time and event, and the cluster's state after it, its idle seconds at its last report, and its end.
type Moment = (i64, Step, &'static str, f64, Option<i64>);

async fn play(app: &TestApp, member: &Member, name: &str, history: Vec<Moment>) {
    let mut number = 0;
    for (at, step, state, idle, ended) in history {
        app.set_clock(&server_time(at));
        match step {
            Step::Report(report) => number = member.reported(&report.build()).await,
            Step::Stop => {
                let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { state } } }";
                let done = member.query(stop, json!({ "id": id_of(member, number).await })).await;
                assert_eq!(done["setDesiredState"]["cluster"]["state"], state, "{name} at {at}");
            }
            Step::Jobs => {
                app.run_jobs().await;
            }
        }
        let found = cluster(member, number, "state idleSeconds endedAt now { workers }").await;
        let here = !["CLOSED", "LOST"].contains(&state);
        let expected = json!({ "state": state, "idleSeconds": idle, "endedAt": ended.map(scheduler_time) });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&found[field], value, "{name} at {at}: {field}");
        }
        assert_eq!(found["now"].is_object(), here, "{name} at {at}");
        for filter in STATES {
            let expected = if filter == state { name } else { "" };
            assert_eq!(in_states(member, &[filter]).await, expected, "{name} at {at}: {filter}");
        }
    }
}

#[tokio::test]
async fn histories_have_the_states_worked_out_by_hand() {
    use Step::{Jobs, Report, Stop};
    let app = TestApp::start().await;
    let report = |at, idle_since, workers, tasks| Report(report_at("etl", at, idle_since, workers, tasks));
    let worked = vec![
        (0, report(0, Some(0), 0, 0), "STARTING", 0.0, None),
        (15, report(15, None, 0, 5), "STARTING", 0.0, None),
        (30, report(30, None, 2, 5), "RUNNING", 0.0, None),
        (60, report(60, Some(50), 2, 5), "IDLE", 10.0, None),
        (75, report(75, None, 2, 9), "RUNNING", 0.0, None),
        (90, report(90, Some(80), 2, 9), "IDLE", 10.0, None),
        // Three intervals of 15 seconds, and then more.
        (135, Jobs, "IDLE", 10.0, None),
        (136, Jobs, "LOST", 10.0, Some(90)),
        (200, report(200, None, 2, 9), "RUNNING", 0.0, None),
        (215, report(215, Some(210), 2, 9), "IDLE", 5.0, None),
        (216, Stop, "CLOSING", 5.0, None),
        (230, report(230, Some(210), 2, 9), "CLOSING", 20.0, None),
        (231, Report(closing(report_at("etl", 231, Some(210), 2, 9), 231)), "CLOSED", 21.0, Some(231)),
        (9_000, Jobs, "CLOSED", 21.0, Some(231)),
    ];
    let ada = app.account("ada").await;
    play(&app, &ada, "etl", worked).await;

    let report = |at, idle_since, workers| Report(report_at("unused", at, idle_since, workers, 0));
    let unused = vec![
        (9_000, report(0, Some(0), 0), "STARTING", 0.0, None),
        (9_020, report(20, Some(0), 4), "STARTING", 20.0, None),
        (9_599, report(599, Some(0), 4), "STARTING", 599.0, None),
        (9_600, report(600, Some(0), 4), "IDLE", 600.0, None),
        (9_645, Jobs, "IDLE", 600.0, None),
        (9_646, Jobs, "LOST", 600.0, Some(600)),
        // A delayed old report shows that the cluster is alive, and adds no data.
        (9_700, report(20, Some(0), 4), "IDLE", 600.0, None),
        (9_760, Jobs, "LOST", 600.0, Some(600)),
        (9_761, Report(closing(report_at("unused", 700, Some(0), 4, 0), 700)), "CLOSED", 700.0, Some(700)),
    ];
    play(&app, &app.account("bob").await, "unused", unused).await;

    // A cluster with a long interval may be silent for longer, and one with a short interval at least
    // half a minute.
    let seldom = |at| Report(report_at("seldom", at, None, 2, 5).with("/interval_seconds", 60.0));
    let history = vec![
        (20_000, seldom(0), "RUNNING", 0.0, None),
        (20_180, Jobs, "RUNNING", 0.0, None),
        (20_181, Jobs, "LOST", 0.0, Some(0)),
    ];
    play(&app, &app.account("eve").await, "seldom", history).await;
    let often = |at| Report(report_at("often", at, None, 2, 5).with("/interval_seconds", 0.5));
    let history = vec![
        (30_000, often(0), "RUNNING", 0.0, None),
        (30_030, Jobs, "RUNNING", 0.0, None),
        (30_031, Jobs, "LOST", 0.0, Some(0)),
    ];
    play(&app, &app.account("dan").await, "often", history).await;
    app.stop().await;
}

#[tokio::test]
async fn clusters_are_found_by_any_of_their_states() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for report in [
        report_at("lost", 1, Some(0), 2, 5).with("/cluster/started_at", STARTED_AT - 6.0),
        report_at("closed", 2, None, 2, 5).with("/cluster/started_at", STARTED_AT - 5.0).with("/final", true),
    ] {
        ada.reported(&report.build()).await;
    }
    app.set_clock(&server_time(60));
    app.run_jobs().await;
    for report in [
        report_at("closing", 60, None, 2, 5).with("/cluster/started_at", STARTED_AT - 4.0),
        report_at("idle", 60, Some(50), 2, 5).with("/cluster/started_at", STARTED_AT - 3.0),
        report_at("running", 60, None, 2, 5).with("/cluster/started_at", STARTED_AT - 2.0),
        report_at("starting", 60, Some(0), 2, 0).with("/cluster/started_at", STARTED_AT - 1.0),
    ] {
        let number = ada.reported(&report.build()).await;
        if in_states(&ada, &["CLOSING"]).await.is_empty() {
            let stop =
                "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { id } } }";
            ada.query(stop, json!({ "id": id_of(&ada, number).await })).await;
        }
    }
    let order = ["LOST", "CLOSED", "CLOSING", "IDLE", "RUNNING", "STARTING"];
    for number in 0..1_u32 << order.len() {
        let states: Vec<&str> =
            (0..order.len()).filter(|bit| number & (1 << bit) != 0).map(|bit| order[bit]).collect();
        assert_eq!(in_states(&ada, &states).await, states.join(" ").to_lowercase(), "{states:?}");
    }
    // By their end: those still reporting are last.
    let query = "{ viewer { account { clusters(orderBy: { field: ENDED_AT, direction: ASC }, first: 2) { nodes { schedulerId } }
        ended: clusters(filter: { endedIn: {} }) { totalCount } } } }";
    let found = ada.query(query, json!({})).await["viewer"]["account"].take();
    let names: Vec<_> =
        found["clusters"]["nodes"].as_array().unwrap().iter().map(|node| &node["schedulerId"]).collect();
    assert_eq!(names, ["lost", "closed"]);
    assert_eq!(found["ended"]["totalCount"], 2);
    app.stop().await;
}

#[tokio::test]
async fn a_lost_cluster_stops_counting_and_its_work_is_lost() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut running = computation(2, &[]);
    (running["state"], running["stopped_at"]) = (json!("running"), Value::Null);
    running["started_at"] = json!(STARTED_AT + 2.0);
    let report = report_at("etl", 30, None, 2, 5)
        .with("/computations", json!([computation(1, &[]), running]))
        .with("/usage", json!([harness::usage(11, 4)]));
    let number = ada.reported(&report.build()).await;
    let fields = "state endedAt durationSeconds usage { threadSeconds costs { amount } } answers { finished { verdict headline }
        whyRunning { verdict } cost { value } } runReasons { code since confidence } shutdownAt
        computations { nodes { daskId state endedAt wallSeconds } }";
    let before = cluster(&ada, number, fields).await;
    assert_eq!(before["state"], "RUNNING");
    assert_eq!(before["computations"]["nodes"][1]["state"], "FINISHED");
    app.set_clock(&server_time(86_400));
    // The silence is reported before a job stores it.
    let reason = json!([{ "code": "LOST", "detail": "Whether it runs is not known: it has not reported for \
        24 h 0 min, \
        since 2026-11-20 12:00:00 UTC." }]);
    assert_eq!(cluster(&ada, number, "runReasons { code detail }").await["runReasons"], reason);
    assert_eq!(app.run_jobs().await.get("life-cycle.lost"), Some(&1));
    assert_eq!(app.run_jobs().await.get("life-cycle.lost"), None, "once");
    assert_eq!(cluster(&ada, number, "runReasons { code detail }").await["runReasons"], reason);
    let lost = cluster(&ada, number, fields).await;
    for same in ["usage", "durationSeconds"] {
        assert_eq!(lost[same], before[same], "{same}");
    }
    assert_eq!(lost["usage"]["threadSeconds"], 14_400.0);
    assert_eq!(lost["endedAt"], scheduler_time(30));
    assert_eq!(lost["shutdownAt"], Value::Null);
    let reason = json!([{ "code": "LOST", "since": server_time(0), "confidence": "MEASURED" }]);
    assert_eq!(lost["runReasons"], reason);
    assert_eq!(lost["answers"]["whyRunning"]["verdict"], "UNKNOWN");
    let headline = "Whether the last computation finished is not known, since its cluster stopped \
                    reporting; 1 of 2 did, up to 2026-11-20 11:00:30 UTC; the time after is unknown.";
    assert_eq!(lost["answers"]["finished"]["headline"], headline);
    let computations = |found: &Value| {
        let mut nodes = found["computations"]["nodes"].as_array().unwrap().clone();
        nodes.sort_by_key(|node| node["daskId"].to_string());
        nodes
    };
    let expected =
        json!({ "daskId": uuid(2), "state": "LOST", "endedAt": scheduler_time(30), "wallSeconds": 28.0 });
    assert_eq!(computations(&lost)[1], expected);
    let of_lost = "{ viewer { account { computations(states: [LOST]) { totalCount } } } }";
    let count = async || {
        ada.query(of_lost, json!({})).await["viewer"]["account"]["computations"]["totalCount"].take()
    };
    assert_eq!(count().await, 1);

    // It returns, and does not report its computations, because they have not changed.
    ada.reported(&report_at("etl", 86_400, None, 2, 5).build()).await;
    let back = cluster(&ada, number, fields).await;
    assert_eq!((back["state"].as_str(), back["endedAt"].as_str()), (Some("RUNNING"), None));
    assert_eq!(computations(&back), computations(&before));
    assert_eq!(count().await, 0);
    app.stop().await;
}

#[tokio::test]
async fn what_was_running_when_a_cluster_closed_without_reporting_it_is_lost() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let mut running = computation(2, &[]);
    (running["state"], running["stopped_at"]) = (json!("running"), Value::Null);
    running["started_at"] = json!(STARTED_AT + 2.0);
    let computing = |at: i32| report_at("etl", at, None, 2, 5).with("/computations", json!([running]));
    let number = ada
        .reported(
            &report_at("etl", 5, None, 2, 5).with("/computations", json!([computation(1, &[])])).build(),
        )
        .await;
    ada.reported(&computing(10).build()).await;
    let fields = "answers { finished { verdict headline } } computations { nodes { daskId state endedAt } }";
    let second = async |number: i64| {
        let mut found = cluster(&ada, number, fields).await;
        let nodes = found["computations"]["nodes"].as_array_mut().unwrap();
        nodes.retain(|node| node["daskId"] == uuid(2));
        (nodes[0].take(), found["answers"]["finished"].take())
    };
    let lost = json!({ "daskId": uuid(2), "state": "LOST", "endedAt": scheduler_time(60) });
    let unknown = json!({ "verdict": "BAD", "headline": "Whether the last computation finished is not known, since \
        its cluster closed without reporting it; 1 of 2 did." });
    ada.reported(&closing(report_at("etl", 61, None, 0, 5), 60).build()).await;
    assert_eq!(second(number).await, (lost.clone(), unknown.clone()));
    // A report that was in flight and claims that it ran adds nothing; one with the computation's end
    // does.
    ada.reported(&computing(20).build()).await;
    assert_eq!(second(number).await, (lost, unknown));
    let mut finished = running.clone();
    (finished["state"], finished["stopped_at"]) = (json!("finished"), json!(STARTED_AT + 50.0));
    ada.reported(&report_at("etl", 55, None, 2, 5).with("/computations", json!([finished])).build()).await;
    let finished_now = json!({ "daskId": uuid(2), "state": "FINISHED", "endedAt": scheduler_time(50) });
    let good = json!({ "verdict": "GOOD", "headline": "All 2 computations finished." });
    assert_eq!(second(number).await, (finished_now, good));

    // A cluster that was not closed after all continues its computation.
    let number = ada
        .reported(&report_at("back", 10, None, 2, 5).with("/computations", json!([running])).build())
        .await;
    ada.reported(&closing(report_at("back", 61, None, 0, 5), 60).build()).await;
    assert_eq!(second(number).await.0["state"], "LOST");
    ada.reported(&report_at("back", 90, None, 2, 5).build()).await;
    let goes_on = json!({ "daskId": uuid(2), "state": "RUNNING", "endedAt": null });
    assert_eq!(second(number).await.0, goes_on);
    app.stop().await;
}

#[tokio::test]
async fn a_server_that_has_just_started_gives_clusters_up_later() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report_at("etl", 0, None, 2, 5).build()).await;
    app.set_clock(&server_time(1_000));
    let other =
        TestApp::start_beside(&app, galvo::key_ring::KeySource::Ring(galvo::encryption::Keys::generate()))
            .await;
    for (at, lost) in [(1_000, None), (1_075, None), (1_076, Some(&1))] {
        app.set_clock(&server_time(at));
        assert_eq!(other.run_jobs().await.get("life-cycle.lost"), lost, "{at}");
    }
    assert_eq!(cluster(&ada, number, "state").await["state"], "LOST");
    other.stop().await;
    app.stop().await;
}

#[tokio::test]
async fn two_servers_lose_a_cluster_once() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    for number in 0..20 {
        ada.reported(&report_at(&format!("etl-{number}"), 0, None, 2, 5).build()).await;
    }
    let keys = || galvo::key_ring::KeySource::Ring(galvo::encryption::Keys::generate());
    let other = TestApp::start_beside(&app, keys()).await;
    app.set_clock(&server_time(600));
    let (one, two) = tokio::join!(app.run_jobs(), other.run_jobs());
    let lost = [one, two].iter().filter_map(|done| done.get("life-cycle.lost")).sum::<u64>();
    assert_eq!(lost, 20);
    other.stop().await;
    app.stop().await;
}

#[tokio::test]
async fn who_stops_a_cluster_and_why_is_stored_and_returned() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report_at("etl", 0, None, 2, 5).build()).await;
    let id = id_of(&ada, number).await;
    let fields = "state desiredState stopRequest { at origin reason by { name } } shutdownAt runReasons { code since }";
    let wish = format!(
        "mutation($id: ID!, $state: DesiredState!, $reason: String) {{
         setDesiredState(cluster: $id, state: $state, reason: $reason) {{ cluster {{ {fields} }} }} }}"
    );
    app.set_clock(&server_time(10));
    let set_state = async |state: &str, reason: Value| {
        let variables = json!({ "id": id, "state": state, "reason": reason });
        ada.query(&wish, variables).await["setDesiredState"]["cluster"].take()
    };
    let stopped = set_state("STOPPED", json!("  too dear ")).await;
    let request =
        json!({ "at": server_time(10), "origin": "USER", "reason": "too dear", "by": { "name": "ada" } });
    let mut expected = json!({ "state": "CLOSING", "desiredState": "STOPPED", "stopRequest": request,
        "shutdownAt": server_time(15),
        "runReasons": [{ "code": "STOPPING", "since": server_time(10) }, { "code": "PROCESSING", "since": null }] });
    assert_eq!(stopped, expected);
    let (_, answer) = ada.report(&report_at("etl", 15, None, 2, 5).build()).await;
    assert_eq!(answer["desired_state"], "stopped");
    assert_eq!(answer["stop_reason"], "requested through Galvo by ada: too dear");
    assert_eq!(answer["stop_only_if_idle"], false);

    let taken_back = set_state("RUNNING", Value::Null).await;
    assert_eq!(taken_back["stopRequest"], Value::Null);
    assert_eq!(taken_back["state"], "RUNNING");
    let (_, answer) = ada.report(&report_at("etl", 16, None, 2, 5).build()).await;
    assert_eq!((&answer["desired_state"], &answer["stop_reason"]), (&json!("running"), &Value::Null));

    set_state("STOPPED", json!("too dear")).await;
    let last = closing(report_at("etl", 17, None, 2, 5), 17)
        .with("/cluster/close_reason", "requested through Galvo by ada: too dear");
    ada.reported(&last.build()).await;
    let closed = cluster(&ada, number, &format!("{fields} closeReason")).await;
    expected["state"] = json!("CLOSED");
    (expected["shutdownAt"], expected["runReasons"]) = (Value::Null, json!([]));
    expected["closeReason"] = json!("requested through Galvo by ada: too dear");
    assert_eq!(closed, expected);

    for (reason, right) in [("x".repeat(200), true), ("x".repeat(201), false), ("a\nb".to_owned(), false)] {
        let query = "mutation($id: ID!, $reason: String) { setDesiredState(cluster: $id, state: STOPPED, reason: $reason) {
            cluster { id } userErrors { field code message } } }";
        let answer = ada.query(query, json!({ "id": id, "reason": reason })).await;
        let message = "must have at most 200 characters, none of them a control character";
        let wrong = json!([{ "field": "reason", "code": "INVALID", "message": message }]);
        let expected = if right { json!([]) } else { wrong };
        assert_eq!(answer["setDesiredState"], json!({ "cluster": { "id": id }, "userErrors": expected }));
        let stored = cluster(&ada, number, "stopRequest { reason }").await["stopRequest"]["reason"].take();
        assert_eq!(stored, "x".repeat(200), "what is refused changes nothing");
    }
    app.stop().await;
}

#[tokio::test]
async fn operators_list_and_stop_clusters() {
    let app = TestApp::start().await;
    let (ada, bob) = (app.account("ada").await, app.account("bob").await);
    let first = ada.reported(&report_at("one", 0, None, 2, 5).with("/cluster/name", "etl\n2").build()).await;
    app.set_clock(&server_time(1));
    let second = ada.reported(&closing(report_at("two", 1, None, 2, 5), 1).build()).await;
    bob.reported(&report_at("three", 1, None, 2, 5).build()).await;
    let run = async |arguments: &[&str]| {
        let common = ["--database-url", app.database.url(), "--log", "error"];
        Program::run(&[&["cluster"][..], arguments, &common].concat()).await
    };
    let line = |number: i64, state: &str, seen: &str, name: &str| {
        format!("{number:<17}{state:<10}2026-11-20T11:00:00Z  2026-11-20T12:00:{seen}Z  {name}\n")
    };
    let (status, listed, errors) = run(&["list", "--account", "ada"]).await;
    assert_eq!((status, listed, errors.as_str()), (Some(0), line(first, "running", "00", "etl\\u{a}2"), ""));
    let (first_id, second_id) = (first.to_string(), second.to_string());
    let stop = ["stop", &first_id, "--account", "ada", "--reason", "maintenance"];
    assert_eq!(run(&stop).await, (Some(0), String::new(), String::new()));
    let all = ["list", "--account", "ada", "--state", "closing", "--state", "closed", "--limit", "2"];
    let expected = line(second, "closed", "01", "two") + &line(first, "closing", "00", "etl\\u{a}2");
    assert_eq!(run(&all).await.1, expected);
    let request = cluster(&ada, first, "stopRequest { origin reason by { name } }").await;
    let expected = json!({ "origin": "OPERATOR", "reason": "maintenance", "by": null });
    assert_eq!(request["stopRequest"], expected);
    let (_, answer) = ada.report(&report_at("one", 15, None, 2, 5).build()).await;
    assert_eq!(answer["stop_reason"], "requested through Galvo by an operator: maintenance");

    for (arguments, status, error) in [
        (["stop", &second_id, "--account", "ada"], 1, format!("galvo: the cluster {second} has closed\n")),
        (
            ["stop", &first_id, "--account", "bob"],
            1,
            format!("galvo: there is no cluster {first} in account 'bob'\n"),
        ),
        (["stop", &first_id, "--account", "eve"], 1, "galvo: there is no account 'eve'\n".to_owned()),
    ] {
        assert_eq!(run(&arguments).await, (Some(status), String::new(), error), "{arguments:?}");
    }
    assert_eq!(run(&["stop", "x", "--account", "ada"]).await.0, Some(2));
    app.stop().await;
}

#[tokio::test]
async fn a_page_of_clusters_in_a_state_reads_those_of_one_status() {
    let app = TestApp::start_on_one_machine().await;
    let ada = app.account("ada").await;
    ada.reported(&report_at("etl", 0, Some(0), 2, 5).build()).await;
    let connection = app.database.connection().await;
    connection.execute_unprepared("ANALYZE").await.unwrap();
    let query = "query($states: [ClusterState!]) { viewer { account { clusters(filter: { states: $states }) { nodes { schedulerId } } } } }";
    for state in STATES {
        let work = ada.query(query, json!({ "states": [state] }));
        let (_, statements) = crate::statements::statements_of(work).await;
        let statement = statements.iter().find(|sql| sql.contains(r#"FROM "clusters""#)).unwrap();
        let plan = crate::plan::plan_of(&app, statement).await;
        // PostgreSQL chooses between the indexes by its statistics.
        let postgres = app.database.url().starts_with("postgres");
        assert!(postgres || plan.contains("clusters_status_idx"), "{state}\n{statement}\n{plan}");
        assert!(!plan.contains("Sort") && !plan.contains("B-TREE"), "{state}\n{statement}\n{plan}");
    }
    app.stop().await;
}

#[tokio::test]
async fn no_name_of_a_cluster_speaks_to_a_terminal_or_changes_a_page() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let name = "etl\u{202e}gnp\u{2066}\u{200b}\u{feff}<b>";
    let number =
        ada.reported(&ReportBuilder::new("Scheduler-1", 1).with("/cluster/name", name).build()).await;
    let arguments = ["cluster", "list", "--account", "ada", "--database-url", app.database.url()];
    let (status, listed, errors) = Program::run(&arguments).await;
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let shown = "  etl\\u{202e}gnp\\u{2066}\\u{200b}\\u{feff}<b>";
    assert!(listed.trim_end().ends_with(shown), "{listed}");
    let page = app.browser(&ada).await.open(&format!("/clusters/{number}")).await;
    let heading = "<h1>Cluster etl\\u{202e}gnp\\u{2066}\\u{200b}\\u{feff}&lt;b&gt;</h1>";
    assert!(page.html.contains(heading), "{}", page.html);
    assert!(!page.html.contains(['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}']));
    // The value is stored and returned as reported.
    let query = "{ viewer { account { clusters(first: 1) { nodes { name } } } } }";
    let found = ada.query(query, json!({})).await;
    assert_eq!(found["viewer"]["account"]["clusters"]["nodes"][0]["name"], name);
    app.stop().await;
}
