//! Answers to questions about clusters, compared with values computed by hand.

use std::collections::BTreeSet;

use harness::{
    Member, ReportBuilder, STARTED_AT, TestApp, computation, error, sample, span, task_group, threads, usage,
    uuid, worker,
};
use serde_json::{Value, json};

use crate::phrase;

const ANSWER: &str =
    "verdict headline value unit share confidence evidence { label value unit node { __typename id } }";

/// A report that arrives 600 seconds after the start, by the scheduler's clock.
fn report(sequence: i64) -> ReportBuilder {
    ReportBuilder::new("Scheduler-1", sequence).with("/sent_at", STARTED_AT + 600.0)
}

/// One answer of a cluster, and separately its evidence. The question may have arguments.
async fn get_answer(member: &Member, number: i64, question: &str) -> (Value, Vec<Value>) {
    let codes = phrase::fields_with_evidence();
    let query = format!(
        "query($id: ID!) {{ cluster(id: $id) {{ answers {{ {question} {{ {ANSWER} {codes} }} }} }} }}"
    );
    let mut data = member.query(&query, json!({ "id": number.to_string() })).await;
    let question = question.split('(').next().unwrap();
    let mut answer = phrase::checked(question, data["cluster"]["answers"][question].take());
    let evidence = answer.as_object_mut().unwrap().remove("evidence").unwrap();
    (answer, evidence.as_array().unwrap().clone())
}

fn answer(
    [verdict, confidence]: [&str; 2],
    headline: &str,
    value: Option<(f64, &str)>,
    share: Option<f64>,
) -> Value {
    let (value, unit) = value.unzip();
    json!({ "verdict": verdict, "headline": headline, "value": value, "unit": unit, "share": share,
        "confidence": confidence })
}

/// Evidence that is only a number.
fn number_of(label: &str, value: f64, unit: &str) -> Value {
    json!({ "label": label, "value": value, "unit": unit, "node": null })
}

async fn refuse(member: &Member, class: &str) {
    let set =
        "mutation($input: SetDataPolicyInput!) { setDataPolicy(input: $input) { userErrors { code } } }";
    let input = json!({ "input": { "class": class, "accepted": false } });
    assert_eq!(member.query(set, input).await["setDataPolicy"]["userErrors"], json!([]));
}

/// A computation submitted this many seconds after the start. If it has ended, it took five seconds.
fn run(number: u128, started: f64, state: &str) -> Value {
    let mut run = computation(number, &[]);
    run["started_at"] = json!(STARTED_AT + started);
    run["state"] = json!(state);
    let ended = ["finished", "erred"].contains(&state);
    run["stopped_at"] = if ended { json!(STARTED_AT + started + 5.0) } else { Value::Null };
    run
}

#[tokio::test]
async fn did_my_computation_finish() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report(1).build()).await;
    let nothing = ["UNKNOWN", "MEASURED"];
    let expected =
        answer(nothing, "No work was submitted so far: 0 tasks.", Some((0.0, "computations")), None);
    assert_eq!(get_answer(&ada, number, "finished").await, (expected, vec![]));

    let cases: [(&[Value], _, &str, f64, f64); 6] = [
        (&[run(1, 1.0, "finished")], "GOOD", "The 1 computation finished.", 1.0, 1.0),
        (&[run(2, 2.0, "running")], "NOTICE", "1 of 2 computations is still running.", 1.0, 0.5),
        (&[run(2, 2.0, "erred")], "BAD", "The last computation failed; 1 of 2 finished.", 1.0, 0.5),
        (
            &[run(3, 3.0, "finished"), run(4, 2.5, "finished")],
            "NOTICE",
            "The last computation finished, but 1 of 4 did not.",
            3.0,
            0.75,
        ),
        (&[run(2, 2.0, "finished")], "GOOD", "All 4 computations finished.", 4.0, 1.0),
        (
            &[run(5, 9.0, "cancelled")],
            "NOTICE",
            "The last computation was cancelled before it was done; 4 of 5 finished.",
            4.0,
            0.8,
        ),
    ];
    for ((runs, verdict, headline, value, share), sequence) in cases.into_iter().zip(2..) {
        ada.reported(&report(sequence).with("/computations", runs.to_vec()).build()).await;
        let (found, evidence) = get_answer(&ada, number, "finished").await;
        let expected = answer([verdict, "MEASURED"], headline, Some((value, "computations")), Some(share));
        assert_eq!(found, expected);
        assert!(
            !evidence.is_empty() && evidence.iter().all(|row| row["node"]["__typename"] == "Computation")
        );
    }
    let (_, evidence) = get_answer(&ada, number, "finished").await;
    let query = "query($id: ID!) { node(id: $id) { ... on Computation { daskId } } }";
    let node = ada.query(query, json!({ "id": evidence[0]["node"]["id"] })).await["node"].take();
    assert_eq!((evidence.len(), node), (1, json!({ "daskId": uuid(5) })));
    let closed = report(8).with("/final", true).with("/cluster/closed_at", STARTED_AT + 100.0);
    ada.reported(&closed.build()).await;
    assert_eq!(get_answer(&ada, number, "finished").await.0["verdict"], "BAD", "nobody goes on with it");
    assert_eq!(evidence[0]["label"], "Computation of 2026-11-20 11:00:09 UTC, cancelled");
    assert_eq!(evidence[0]["value"], Value::Null);

    // At most five, the newest first, with the duration of each.
    let many: Vec<Value> = (10..20_u8).map(|n| run(n.into(), f64::from(n), "erred")).collect();
    ada.reported(&report(9).with("/computations", many).build()).await;
    let (_, evidence) = get_answer(&ada, number, "finished").await;
    let labels: Vec<_> = evidence.iter().map(|row| (&row["label"], &row["value"], &row["unit"])).collect();
    assert_eq!(labels.len(), 5);
    assert_eq!(
        labels[0],
        (&json!("Computation of 2026-11-20 11:00:19 UTC, failed"), &json!(5.0), &json!("seconds"))
    );

    // A partial report does not cover all computations.
    let gave_up = ReportBuilder::new("Scheduler-2", 1)
        .with("/computations", json!([run(1, 1.0, "finished")]))
        .with("/dropped", json!({ "computations": 3 }));
    let number = ada.reported(&gave_up.build()).await;
    let headline = "The 1 computation finished. 3 more computations were not reported.";
    let expected = answer(["UNKNOWN", "ESTIMATED"], headline, Some((1.0, "computations")), Some(1.0));
    assert_eq!(get_answer(&ada, number, "finished").await.0, expected);
    app.stop().await;
}

#[tokio::test]
async fn a_cluster_that_fell_silent_leaves_it_open() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number =
        ada.reported(&report(1).with("/computations", json!([run(1, 2.0, "running")])).build()).await;
    app.set_clock("2026-11-20T12:00:45Z");
    assert_eq!(get_answer(&ada, number, "finished").await.0["verdict"], "NOTICE");
    app.set_clock("2026-11-20T14:05:00Z");
    let headline = "1 of 1 computations had not finished at the last report of the cluster, 2 h 5 min ago. \
                    The time after 2026-11-20 11:10:00 UTC is unknown.";
    let expected = answer(["UNKNOWN", "ESTIMATED"], headline, Some((0.0, "computations")), Some(0.0));
    assert_eq!(get_answer(&ada, number, "finished").await.0, expected);
    let headline = "Whether it runs is not known: it has not reported for 2 h 5 min, though it reports \
                    every 15 s. The time after 2026-11-20 11:10:00 UTC is unknown.";
    let expected = answer(["UNKNOWN", "MEASURED"], headline, Some((7_500.0, "seconds")), None);
    assert_eq!(get_answer(&ada, number, "whyRunning").await, (expected, vec![]));
    app.stop().await;
}

/// An error whose group depends on its type.
fn failure(number: u128, kind: &str, origin: &str) -> Value {
    let mut error = error(number, 1, 1);
    error["type"] = json!(kind);
    error["message"] = json!(kind);
    error["origin"] = json!(origin);
    error
}

#[tokio::test]
async fn did_any_exceptions_occur() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let with = |sequence: i64, succeeded: i64, erred: i64| {
        report(sequence)
            .with("/cluster/totals/tasks_succeeded", succeeded)
            .with("/cluster/totals/tasks_erred", erred)
    };
    let number = ada.reported(&with(1, 5, 0).build()).await;
    let headline = "No exceptions: 0 tasks failed and 5 tasks succeeded.";
    let expected = answer(["GOOD", "MEASURED"], headline, Some((0.0, "exceptions")), Some(0.0));
    assert_eq!(get_answer(&ada, number, "exceptions").await, (expected, vec![]));

    let mut user: Vec<Value> = (1..=3).map(|n| failure(n, "ValueError", "user")).collect();
    user.push(failure(4, "KeyError", "user"));
    ada.reported(&with(2, 12, 4).with("/errors", user).build()).await;
    let (found, evidence) = get_answer(&ada, number, "exceptions").await;
    let headline = "4 exceptions, all of the computations' own code.";
    assert_eq!(found, answer(["BAD", "MEASURED"], headline, Some((4.0, "exceptions")), Some(0.25)));
    let rows: Vec<_> =
        evidence.iter().map(|row| (&row["label"], &row["value"], &row["node"]["__typename"])).collect();
    let group = json!("ErrorGroup");
    let expected = [
        (&json!("ValueError, of the code"), &json!(3.0), &group),
        (&json!("KeyError, of the code"), &json!(1.0), &group),
    ];
    assert_eq!(rows, expected);

    // Dead workers are listed next to Dask's errors; workers that were no longer needed are not.
    let ended = |number: u128, end: &str, processing: i64| {
        let mut worker = worker(number);
        worker["ended_at"] = json!(STARTED_AT + 100.0);
        worker["end"] = json!(end);
        worker["processing"] = json!(processing);
        worker
    };
    let workers = json!([ended(1, "memory", 2), ended(2, "retired", 0), worker(3)]);
    let killed = json!([failure(9, "KilledWorker", "dask")]);
    ada.reported(&with(3, 15, 5).with("/errors", killed).with("/workers", workers).build()).await;
    let (found, evidence) = get_answer(&ada, number, "exceptions").await;
    let headline = "5 exceptions: 4 of the computations' own code, 1 of Dask itself.";
    assert_eq!(found, answer(["BAD", "MEASURED"], headline, Some((5.0, "exceptions")), Some(0.25)));
    assert_eq!(evidence.len(), 4);
    assert_eq!(evidence[3]["label"], "Worker worker-1, killed over its memory while it processed");
    assert_eq!((&evidence[3]["value"], &evidence[3]["unit"]), (&json!(2.0), &json!("tasks")));
    assert_eq!(evidence[3]["node"]["__typename"], "Worker");

    let other =
        ReportBuilder::new("Scheduler-2", 1).with("/errors", json!([failure(9, "KilledWorker", "dask")]));
    let number = ada.reported(&other.build()).await;
    let expected =
        answer(["BAD", "MEASURED"], "1 exception, all of Dask itself.", Some((1.0, "exceptions")), None);
    assert_eq!(get_answer(&ada, number, "exceptions").await.0, expected);
    // The scheduler recorded more errors than it reported.
    let lossy = ReportBuilder::new("Scheduler-2", 2).with("/cluster/totals/errors", 3);
    ada.reported(&lossy.build()).await;
    let headline = "At least 1 exception, all of Dask itself. 2 more are not stored.";
    let expected = answer(["BAD", "ESTIMATED"], headline, Some((1.0, "exceptions")), None);
    assert_eq!(get_answer(&ada, number, "exceptions").await.0, expected);
    app.stop().await;
}

#[tokio::test]
async fn how_much_did_that_cost_me() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report(1).build()).await;
    let none = ["UNKNOWN", "NOT_COLLECTED"];
    let headline = "No usage was reported: 0 hours to price.";
    assert_eq!(get_answer(&ada, number, "cost").await, (answer(none, headline, None, None), vec![]));

    // Four threads for the last hour of the 20th: 3,000 s on the CPU, 600 s waiting, and the rest idle.
    ada.reported(&report(2).with("/usage", vec![usage(23, 4)]).build()).await;
    let guess = "estimated at 0.05 USD per thread-hour, as no rate is set: setCostRate sets one.";
    let hours = |hours: f64| number_of("Thread time, busy or idle", hours, "thread-hours");
    let headline = format!("It cost 0.20 USD, 75 % of it while threads were idle, {guess}");
    let expected = answer(["UNKNOWN", "ESTIMATED"], &headline, Some((0.2, "USD")), Some(0.75));
    assert_eq!(get_answer(&ada, number, "cost").await, (expected, vec![hours(4.0)]));
    // The amount equals that of the cluster's usage.
    let usage_costs = async |number: i64| {
        let query = "query($id: ID!) { cluster(id: $id) { usage { costs { amount currency basis } } } }";
        ada.query(query, json!({ "id": number.to_string() })).await["cluster"]["usage"]["costs"].clone()
    };
    let estimated = |amount: f64| json!({ "amount": amount, "currency": "USD", "basis": "ESTIMATED" });
    assert_eq!(usage_costs(number).await, json!([estimated(0.2)]));

    let set = "mutation($input: CostRateInput!) { setCostRate(input: $input) { userErrors { field } } }";
    let rate = json!({ "validFrom": "2026-11-20", "currency": "EUR", "perThreadHour": 0.12 });
    ada.query(set, json!({ "input": rate })).await;
    let headline = "It cost 0.48 EUR by the account's rates, 75 % of it while threads were idle.";
    let expected = answer(["NOTICE", "ESTIMATED"], headline, Some((0.48, "EUR")), Some(0.75));
    assert_eq!(get_answer(&ada, number, "cost").await, (expected, vec![hours(4.0)]));

    // A day before the rate has a separate amount, and with two amounts there is no value.
    let mut old = usage(0, 2);
    old["hour"] = json!(old["hour"].as_i64().unwrap() - 24);
    let other = ReportBuilder::new("Scheduler-2", 1).with("/usage", vec![old, usage(23, 1)]);
    let number = ada.reported(&other.build()).await;
    let headline =
        format!("It cost 0.12 EUR by the account's rates, and 0.10 USD on days without a rate, {guess}");
    let parts = vec![
        number_of("By the rates in this currency", 0.12, "EUR"),
        hours(3.0),
        number_of("Days without a rate, estimated", 0.1, "USD"),
    ];
    let expected = answer(["UNKNOWN", "ESTIMATED"], &headline, None, None);
    assert_eq!(get_answer(&ada, number, "cost").await, (expected, parts));
    let by_rates = json!({ "amount": 0.12, "currency": "EUR", "basis": "RATE_CARD" });
    assert_eq!(usage_costs(number).await, json!([by_rates, estimated(0.1)]));

    // A release that reports no idle time has no share and no verdict.
    let mut without_idle_time = usage(23, 1);
    without_idle_time.as_object_mut().unwrap().remove("idle_seconds");
    let other = ReportBuilder::new("Scheduler-3", 1).with("/usage", vec![without_idle_time]);
    let number = ada.reported(&other.build()).await;
    let headline = "It cost 0.12 EUR by the account's rates.";
    let expected = answer(["UNKNOWN", "ESTIMATED"], headline, Some((0.12, "EUR")), None);
    assert_eq!(get_answer(&ada, number, "cost").await, (expected, vec![hours(1.0)]));
    app.stop().await;
}

#[tokio::test]
async fn what_is_taking_most_of_the_time() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report(1).build()).await;
    let zero = Some((0.0, "thread-seconds"));
    let expected =
        answer(["UNKNOWN", "MEASURED"], "No task computed so far: 0 s of thread time.", zero, None);
    assert_eq!(get_answer(&ada, number, "topTime").await, (expected, vec![]));

    // One thread that computed for an hour, 3,000.5 s of it in `load`.
    ada.reported(&report(2).with("/usage", vec![usage(23, 1)]).build()).await;
    let headline = "load takes 50 min of thread time, 83 % of what was computed.";
    let value = Some((3_000.5, "thread-seconds"));
    let expected = answer(["GOOD", "MEASURED"], headline, value, Some(3_000.5 / 3_600.0));
    let functions =
        vec![number_of("load", 3_000.5, "thread-seconds"), number_of("divide", 599.5, "thread-seconds")];
    assert_eq!(get_answer(&ada, number, "topTime").await, (expected, functions));

    // The same with three more threads that were idle, and twice.
    ada.reported(&report(3).with("/usage", vec![usage(22, 4), usage(23, 4)]).build()).await;
    let headline = "load takes 1 h 40 min of thread time, 83 % of what was computed; but threads computed only 25 % of the time.";
    let value = Some((6_001.0, "thread-seconds"));
    let expected = answer(["NOTICE", "MEASURED"], headline, value, Some(6_001.0 / 7_200.0));
    assert_eq!(get_answer(&ada, number, "topTime").await.0, expected);

    // Of more functions than fit, the slowest.
    let mut hour = usage(23, 1);
    let function = |n: i64| json!({ "prefix": format!("f{n}"), "compute_seconds": n, "transfer_seconds": 0, "tasks": 1, "tasks_erred": 0, "bytes": 0 });
    hour["functions"] = (1..=9).map(function).collect();
    let number = ada.reported(&ReportBuilder::new("Scheduler-2", 1).with("/usage", vec![hour]).build()).await;
    let (_, evidence) = get_answer(&ada, number, "topTime").await;
    let labels: Vec<_> = evidence.iter().map(|row| row["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["f9", "f8", "f7", "f6", "f5"]);
    app.stop().await;
}

#[tokio::test]
async fn why_is_that_cluster_still_running() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let tasks = |[processing, queued, no_worker, memory]: [i64; 4]| {
        let now = json!({ "tasks_processing": processing, "tasks_queued": queued, "tasks_no_worker": no_worker,
            "tasks_waiting": 0, "tasks_memory": memory });
        let before =
            json!({ "tasks_processing": 77, "tasks_queued": 77, "tasks_no_worker": 77, "tasks_memory": 77 });
        json!([sample(None, 590_000, before), sample(None, 599_000, now)])
    };
    let client = json!([{ "id": "Client-1", "connected_at": STARTED_AT },
        { "id": "Client-2", "connected_at": STARTED_AT, "disconnected_at": STARTED_AT + 1.0 }]);
    let why_running = async |scheduler: &str, report: ReportBuilder| {
        let report = report.with("/scheduler_id", scheduler).with("/cluster/workers", 2);
        let number = ada.reported(&report.build()).await;
        get_answer(&ada, number, "whyRunning").await
    };
    let count = |label: &str, value: f64, unit: &str| number_of(label, value, unit);

    let working = report(1).with("/samples", tasks([12, 0, 0, 3])).with("/clients", client.clone());
    let headline = "It works: 12 tasks are processed by its 2 workers.";
    let evidence = vec![
        count("Tasks being processed", 12.0, "tasks"),
        count("Results in memory", 3.0, "results"),
        count("Clients connected", 1.0, "clients"),
    ];
    let expected = answer(["GOOD", "MEASURED"], headline, Some((12.0, "tasks")), None);
    assert_eq!(why_running("working", working).await, (expected, evidence));

    let growing = report(1).with("/samples", tasks([0, 0, 0, 0])).with("/cluster/graph_updates", 1);
    let headline = "Its scheduler processes 1 graph.";
    let expected = answer(["GOOD", "MEASURED"], headline, Some((1.0, "graphs")), None);
    assert_eq!(why_running("growing", growing).await, (expected, vec![]));

    let headline =
        "1 task waits for a worker that may run it: the cluster has 2 workers, and none may run it.";
    let expected = answer(["BAD", "MEASURED"], headline, Some((1.0, "tasks")), None);
    let evidence = vec![count("Tasks no worker may run", 1.0, "tasks")];
    assert_eq!(
        why_running("stuck", report(1).with("/samples", tasks([0, 0, 1, 0]))).await,
        (expected, evidence)
    );

    let headline = "5 tasks are queued for a free thread, and none runs on its 2 workers.";
    let expected = answer(["NOTICE", "MEASURED"], headline, Some((5.0, "tasks")), None);
    assert_eq!(why_running("queued", report(1).with("/samples", tasks([0, 5, 0, 0]))).await.0, expected);

    // Idle for 500 of the 600 seconds.
    let idle =
        report(1).with("/samples", tasks([0, 0, 0, 3])).with("/cluster/idle_since", STARTED_AT + 100.0);
    let held = idle.clone().with("/clients", client);
    let headline = "1 client holds 3 results in its memory; it has had no work for 8.3 min, since 2026-11-20 11:01:40 UTC.";
    let expected = answer(["NOTICE", "MEASURED"], headline, Some((3.0, "results")), None);
    assert_eq!(why_running("held", held).await.0, expected);
    let headline = "It is idle: it has had no work for 8.3 min, since 2026-11-20 11:01:40 UTC.";
    let expected = answer(["NOTICE", "MEASURED"], headline, Some((500.0, "seconds")), None);
    let evidence = vec![count("Results in memory", 3.0, "results")];
    assert_eq!(why_running("idle", idle.clone()).await, (expected, evidence));
    let long = idle.with("/sent_at", STARTED_AT + 7_300.0);
    let headline = "It is idle: it has had no work for 2 h 0 min, since 2026-11-20 11:01:40 UTC.";
    let expected = answer(["BAD", "MEASURED"], headline, Some((7_200.0, "seconds")), None);
    assert_eq!(why_running("long idle", long).await.0, expected);

    let headline = "Its scheduler has work on 2 workers, but no sample counts its tasks.";
    let expected = answer(["GOOD", "NOT_COLLECTED"], headline, None, None);
    assert_eq!(why_running("untold", report(1)).await.0, expected);

    let closed = report(1)
        .with("/final", true)
        .with("/cluster/closed_at", STARTED_AT + 1_800.0)
        .with("/cluster/close_reason", "no work for 20 minutes");
    let headline =
        "It is not running: it closed at 2026-11-20 11:30:00 UTC, 30 min ago: no work for 20 minutes.";
    let expected = answer(["GOOD", "MEASURED"], headline, Some((1_800.0, "seconds")), None);
    assert_eq!(why_running("closed", closed).await, (expected, vec![]));

    let number = ada.reported(&report(2).with("/samples", tasks([4, 0, 0, 0])).build()).await;
    let stop = "mutation($id: ID!) { setDesiredState(cluster: $id, state: STOPPED) { cluster { id } } }";
    let id =
        ada.query("query($id: ID!) { cluster(id: $id) { id } }", json!({ "id": number.to_string() })).await;
    ada.query(stop, json!({ "id": id["cluster"]["id"] })).await;
    let (found, _) = get_answer(&ada, number, "whyRunning").await;
    let headline = "It was requested to stop, and has not stopped yet. It works: 4 tasks are processed by \
                    its 0 workers.";
    assert_eq!(found, answer(["NOTICE", "MEASURED"], headline, Some((4.0, "tasks")), None));
    app.stop().await;
}

#[tokio::test]
async fn how_much_time_is_lost_to_the_gil_and_to_blocked_event_loops() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada
        .reported(
            &report(1).with("/samples", json!([sample(None, 1_000, json!({ "cpu_cores": 1 }))])).build(),
        )
        .await;
    let none = ["UNKNOWN", "NOT_COLLECTED"];
    let headline = "GIL contention was not measured: install gilknocker on the workers, and Dask 2023.4.1 or newer measures it.";
    assert_eq!(get_answer(&ada, number, "gil").await, (answer(none, headline, None, None), vec![]));
    let headline = "How long event loops were blocked is not known: no sample of this period measures it.";
    assert_eq!(get_answer(&ada, number, "eventLoop").await, (answer(none, headline, None, None), vec![]));

    // In 600 seconds, over two chunks: GIL contention of 0.25 and 0.5, and ticks of 80 ms.
    let contention = json!([
        sample(
            None,
            60_000,
            json!({ "gil_contention": 0.25, "gil_contention_max": 0.5, "event_loop_seconds": 0.08,
            "event_loop_seconds_max": 0.5, "scheduler_event_loop_seconds": 0.03125 })
        ),
        sample(
            None,
            600_000,
            json!({ "gil_contention": 0.5, "gil_contention_max": 0.75, "event_loop_seconds": 0.08 })
        ),
        sample(Some(1), 60_000, json!({ "gil_contention": 1.0, "event_loop_seconds": 4.0 })),
    ]);
    ada.reported(&report(2).with("/samples", contention).with("/usage", vec![usage(11, 2)]).build()).await;
    let headline = "The GIL was busy 38 % of the last 10 min.";
    let evidence = vec![
        number_of("Busiest on any worker", 0.75, "share"),
        number_of("Threads held without using the CPU, for this or other reasons", 600.0, "thread-seconds"),
    ];
    let expected = answer(["NOTICE", "MEASURED"], headline, Some((225.0, "seconds")), Some(0.375));
    assert_eq!(get_answer(&ada, number, "gil").await, (expected, evidence));
    // A tick every 80 ms instead of every 20 ms: a quarter of the ticks occurred, and the rest of the
    // time is lost.
    let (found, evidence) = get_answer(&ada, number, "eventLoop").await;
    let headline = "In the last 10 min the workers' event loops were blocked 75 % of the time: a tick took 80 ms instead of 20 ms.";
    assert_eq!(found, answer(["BAD", "MEASURED"], headline, Some((450.0, "seconds")), Some(0.75)));
    let expected = vec![
        number_of("A tick of the median worker", 0.08, "seconds"),
        number_of("The slowest tick of any worker", 0.5, "seconds"),
        number_of("A tick of the scheduler", 0.03125, "seconds"),
        number_of("The slowest tick of the scheduler", 0.03125, "seconds"),
    ];
    assert_eq!(evidence, expected);

    // With one thread per worker, nothing waits for the GIL.
    let alone = report(1)
        .with("/scheduler_id", "alone")
        .with("/cluster/totals/peak_workers", 3)
        .with("/cluster/totals/peak_threads", 3)
        .with(
            "/samples",
            json!([sample(
                None,
                60_000,
                json!({ "gil_contention": 1.0, "scheduler_event_loop_seconds": 0.02 })
            )]),
        );
    let number = ada.reported(&alone.build()).await;
    let headline =
        "The GIL was busy 100 % of the last 10 min, but with 1 thread a worker no task waits for another.";
    let expected = answer(["GOOD", "MEASURED"], headline, Some((600.0, "seconds")), Some(1.0));
    assert_eq!(get_answer(&ada, number, "gil").await.0, expected);
    let headline = "In the last 10 min the scheduler's event loop was blocked 0 % of the time: a tick took 20 ms, the usual time.";
    let expected = answer(["GOOD", "MEASURED"], headline, Some((0.0, "seconds")), Some(0.0));
    assert_eq!(get_answer(&ada, number, "eventLoop").await.0, expected);
    app.stop().await;
}

/// The metrics of a cluster's workers outside tasks, and for one span.
fn metrics(of_none: &Value, of_tasks: &Value) -> Value {
    json!([{ "cells": of_none }, { "span_id": uuid(30), "cells": of_tasks }])
}

#[tokio::test]
async fn how_much_time_is_lost_in_network_transfer() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let network = |seconds: i64| {
        let cells = json!([
            ["gather-dep", null, "network", "seconds", seconds],
            ["gather-dep", null, "network", "bytes", 5000],
            ["gather-dep", null, "deserialize", "seconds", 9],
            ["get-data", null, "network", "seconds", 6]
        ]);
        metrics(&cells, &json!([["execute", "load", "thread-cpu", "seconds", 3]]))
    };
    let number = ada.reported(&report(1).with("/usage", vec![usage(23, 4)]).build()).await;
    let headline =
        "How long workers received data is not stored, Dask 2023.7 and newer report it once tasks ran.";
    let expected = answer(["UNKNOWN", "NOT_COLLECTED"], headline, None, None);
    assert_eq!(get_answer(&ada, number, "network").await, (expected, vec![]));

    // Four threads that were idle for three of their four hours; 1,800 s are a sixth of that.
    ada.reported(&report(2).with("/fine_metrics", network(1_800)).build()).await;
    let headline = "Workers received data for 30 min, and threads were idle 75 % of the time, which they may have spent waiting for it.";
    let expected = answer(["NOTICE", "MEASURED"], headline, Some((1_800.0, "seconds")), Some(0.75));
    let moved = |seconds: f64| {
        vec![
            number_of("Receiving data from other workers", seconds, "seconds"),
            number_of("Received", 5_000.0, "bytes"),
            number_of("Sending data to other workers", 6.0, "seconds"),
        ]
    };
    let idle = number_of("Threads without a task, for this or other reasons", 10_800.0, "thread-seconds");
    assert_eq!(get_answer(&ada, number, "network").await, (expected, [moved(1_800.0), vec![idle]].concat()));

    ada.reported(&report(3).with("/fine_metrics", network(60)).build()).await;
    let headline = "Workers received data for 1 min, and threads were idle 75 % of the time, most of which must have other reasons.";
    let expected = answer(["GOOD", "MEASURED"], headline, Some((60.0, "seconds")), Some(0.75));
    assert_eq!(get_answer(&ada, number, "network").await.0, expected);

    ada.reported(&report(4).with("/usage", vec![usage(23, 1)]).build()).await;
    let headline = "Workers received data for 1 min, beside their tasks: threads were idle 0 % of the time, and it cost no more than that.";
    let expected = answer(["GOOD", "MEASURED"], headline, Some((60.0, "seconds")), Some(0.0));
    assert_eq!(get_answer(&ada, number, "network").await.0, expected);

    let mut hour = usage(23, 4);
    hour.as_object_mut().unwrap().remove("idle_seconds");
    ada.reported(&report(5).with("/usage", vec![hour]).build()).await;
    let headline = "Workers received data for 1 min beside their tasks, and its cost is not known without the threads' idle time.";
    let expected = answer(["UNKNOWN", "NOT_ATTRIBUTABLE"], headline, None, None);
    assert_eq!(get_answer(&ada, number, "network").await, (expected, moved(60.0)));
    app.stop().await;
}

#[tokio::test]
async fn how_much_time_is_lost_to_spilling() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let with = |sequence: i64, spill: Option<f64>, bytes: i64| {
        let mut hour = usage(23, 4);
        hour["spilled_bytes"] = json!(bytes);
        hour["spill_seconds"] = json!(spill);
        if spill.is_none() {
            hour.as_object_mut().unwrap().remove("spill_seconds");
        }
        report(sequence).with("/usage", vec![hour])
    };
    let number = ada.reported(&with(1, None, 0).build()).await;
    let headline = "How long results were moved to disk and back is not stored, Dask 2023.7 and newer report it once tasks ran.";
    let expected = answer(["UNKNOWN", "NOT_COLLECTED"], headline, None, None);
    assert_eq!(get_answer(&ada, number, "spill").await, (expected, vec![]));

    ada.reported(&with(2, Some(0.0), 0).build()).await;
    let expected = answer(
        ["GOOD", "MEASURED"],
        "No time was lost to spilling: 0 s.",
        Some((0.0, "thread-seconds")),
        Some(0.0),
    );
    assert_eq!(get_answer(&ada, number, "spill").await, (expected, vec![]));

    // Only the memory monitor spilled, outside tasks.
    let monitor = metrics(
        &json!([
            ["memory-monitor", null, "disk-write", "seconds", 2.5],
            ["memory-monitor", null, "serialize", "seconds", 1.5],
            ["memory-monitor", null, "disk-write", "bytes", 2_000_000],
            ["get-data", null, "memory-read", "count", 2]
        ]),
        &json!([
            ["execute", "load", "memory-read", "count", 4],
            ["execute", "load", "disk-read", "count", 2]
        ]),
    );
    ada.reported(&with(3, Some(0.0), 2_000_000).with("/fine_metrics", monitor).build()).await;
    let headline =
        "1.9 MiB were written to disk beside the tasks, and the time that tasks lost is not known.";
    let evidence = vec![
        number_of("Written to disk", 2_000_000.0, "bytes"),
        number_of("Spilling of memory monitors beside the tasks", 4.0, "seconds"),
        number_of("Reads of results that were in memory", 0.75, "share"),
    ];
    let expected = answer(["UNKNOWN", "NOT_ATTRIBUTABLE"], headline, None, None);
    assert_eq!(get_answer(&ada, number, "spill").await, (expected, evidence.clone()));

    // 720 and 7,200 of 14,400 thread-seconds.
    ada.reported(&with(4, Some(720.0), 2_000_000).build()).await;
    let headline = "Tasks spent 12 min of thread time on moving results to disk and back, 5 % of it all.";
    let expected = answer(["NOTICE", "MEASURED"], headline, Some((720.0, "thread-seconds")), Some(0.05));
    assert_eq!(get_answer(&ada, number, "spill").await, (expected, evidence));
    ada.reported(&with(5, Some(7_200.0), 2_000_000).build()).await;
    let (found, _) = get_answer(&ada, number, "spill").await;
    assert_eq!((&found["verdict"], &found["share"]), (&json!("BAD"), &json!(0.5)));
    app.stop().await;
}

#[tokio::test]
async fn which_functions_hold_threads_without_the_cpu() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let number = ada.reported(&report(1).build()).await;
    let headline = "How long tasks held threads without using the CPU is not stored, Dask 2023.7 and newer report it once tasks ran.";
    let expected = answer(["UNKNOWN", "NOT_COLLECTED"], headline, None, None);
    assert_eq!(get_answer(&ada, number, "cpu").await, (expected, vec![]));

    // 60 of 160 thread-seconds. The second span's `load` counts, too, and spilling does not.
    let cells = json!([
        { "span_id": uuid(30), "cells": [["execute", "load", "thread-cpu", "seconds", 20], ["execute", "load", "thread-noncpu", "seconds", 40],
            ["execute", "fit", "thread-cpu", "seconds", 70], ["execute", "fit", "thread-noncpu", "seconds", 10],
            ["execute", "fit", "disk-read", "seconds", 500]] },
        { "span_id": uuid(31), "cells": [["execute", "load", "thread-cpu", "seconds", 10], ["execute", "load", "thread-noncpu", "seconds", 10]] },
    ]);
    ada.reported(&report(2).with("/fine_metrics", cells).build()).await;
    let headline = "Tasks held threads for 1 min without using the CPU, 38 % of their time, most of it in load: \
                    look for GIL contention first, then for what they wait for.";
    let expected = answer(["NOTICE", "MEASURED"], headline, Some((60.0, "thread-seconds")), Some(0.375));
    let evidence = vec![
        number_of("load, 62 % of its time", 50.0, "thread-seconds"),
        number_of("fit, 12 % of its time", 10.0, "thread-seconds"),
    ];
    assert_eq!(get_answer(&ada, number, "cpu").await, (expected, evidence));

    let busy = json!([{ "span_id": uuid(30), "cells": [["execute", "fit", "thread-cpu", "seconds", 5]] }]);
    let other = ReportBuilder::new("Scheduler-2", 1).with("/fine_metrics", busy);
    let number = ada.reported(&other.build()).await;
    let headline = "Tasks held threads for 0 s without using the CPU, 0 % of their time.";
    let expected = answer(["GOOD", "MEASURED"], headline, Some((0.0, "thread-seconds")), Some(0.0));
    assert_eq!(get_answer(&ada, number, "cpu").await, (expected, vec![]));
    app.stop().await;
}

#[tokio::test]
async fn what_the_account_refuses_is_not_shown_as_nothing() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    refuse(&ada, "TASKS").await;
    refuse(&ada, "USER_ERRORS").await;
    let totals = json!({ "tasks": 8, "tasks_succeeded": 6, "tasks_erred": 2, "errors": 2, "compute_seconds": 90,
        "transfer_seconds": 0, "thread_seconds": 100, "bytes": 0, "workers": 1, "peak_workers": 1, "peak_threads": 1 });
    let full = |scheduler: &str| {
        ReportBuilder::new(scheduler, 1)
            .with("/cluster/totals", totals.clone())
            .with("/computations", json!([computation(1, &[10])]))
            .with("/task_groups", json!([task_group(10, "load", 8)]))
            .with("/errors", json!([error(20, 10, 1), error(21, 10, 1)]))
            .with("/usage", json!([usage(23, 4)]))
            .with(
                "/fine_metrics",
                metrics(&json!([["gather-dep", null, "network", "seconds", 4]]), &json!([])),
            )
    };
    let number = ada.reported(&full("Scheduler-1").build()).await;
    let refused =
        |class: &str| format!("because the account refuses the data class {class}: setDataPolicy accepts it");
    let tasks = refused("TASKS");
    for (question, verdict, headline) in [
        ("finished", "UNKNOWN", format!("8 tasks were submitted, but no computations are stored, {tasks}.")),
        (
            "exceptions",
            "BAD",
            format!("2 tasks failed, but their exceptions are not stored, {}.", refused("USER_ERRORS")),
        ),
        (
            "topTime",
            "UNKNOWN",
            format!(
                "1.5 min of thread time was computed, but the times of the functions are not stored, {tasks}."
            ),
        ),
        ("network", "UNKNOWN", format!("How long workers received data is not stored, {tasks}.")),
        (
            "cpu",
            "UNKNOWN",
            format!("How long tasks held threads without using the CPU is not stored, {tasks}."),
        ),
    ] {
        let expected = answer([verdict, "NOT_COLLECTED"], &headline, None, None);
        assert_eq!(get_answer(&ada, number, question).await, (expected, vec![]), "{question}");
    }
    // Hourly usage belongs to another class, and contains 10 bytes.
    let (found, _) = get_answer(&ada, number, "spill").await;
    let headline =
        "10 bytes were written to disk beside the tasks, and the time that tasks lost is not known.";
    assert_eq!(found, answer(["UNKNOWN", "NOT_ATTRIBUTABLE"], headline, None, None));

    // Data that the scheduler withheld is distinguished from data that never existed.
    let bob = app.account("bob").await;
    let kept = |withheld: i64| {
        let counts = json!({ "sent": 0, "bytes": 0, "withheld": withheld });
        ReportBuilder::new("Scheduler-1", 1 + withheld)
            .with("/cluster/totals", totals.clone())
            .with("/receipt", json!({ "tasks": counts, "user_errors": counts }))
    };
    let number = bob.reported(&kept(0).build()).await;
    let headline = "2 tasks failed, but their exceptions are not stored, and none was withheld or dropped: it may be older than such data is kept.";
    let expected = answer(["BAD", "NOT_COLLECTED"], headline, None, None);
    assert_eq!(get_answer(&bob, number, "exceptions").await.0, expected);
    bob.reported(&kept(3).build()).await;
    let why =
        "because data of the class USER_ERRORS was withheld or dropped: see the cluster's privacy receipt";
    let headline = format!("2 tasks failed, but their exceptions are not stored, {why}.");
    let expected = answer(["BAD", "NOT_COLLECTED"], &headline, None, None);
    assert_eq!(get_answer(&bob, number, "exceptions").await.0, expected);
    bob.reported(&kept(4).with("/errors", json!([failure(9, "KilledWorker", "dask")])).build()).await;
    let headline = "At least 1 exception, all of Dask itself. 4 more are not stored.";
    let expected = answer(["BAD", "ESTIMATED"], headline, Some((1.0, "exceptions")), Some(0.25));
    assert_eq!(get_answer(&bob, number, "exceptions").await.0, expected);
    app.stop().await;
}

/// A report, 20 seconds after the start, of a cluster with only good answers.
fn flawless(scheduler: &str) -> ReportBuilder {
    let mut hour = usage(11, 1);
    hour["spilled_bytes"] = json!(0);
    let measured =
        json!({ "gil_contention": 0.125, "scheduler_event_loop_seconds": 0.02, "tasks_processing": 3 });
    let cells = json!([
        ["execute", "load", "thread-cpu", "seconds", 60],
        ["execute", "load", "thread-noncpu", "seconds", 8]
    ]);
    let network = json!([["gather-dep", null, "network", "seconds", 60]]);
    let environment = json!({ "id": uuid(1), "python": "3.12", "os": "Linux", "os_release": "6.1", "machine": "x86_64",
        "packages": { "dask": "2026.1.0" } });
    ReportBuilder::new(scheduler, 9)
        .with("/sent_at", STARTED_AT + 20.0)
        .with("/cluster/name", "nightly")
        .with("/cluster/workers", 2)
        .with("/cluster/environment_id", uuid(1))
        .with("/cluster/totals/tasks", 10)
        .with("/cluster/totals/tasks_succeeded", 10)
        .with("/cluster/totals/peak_workers", 2)
        .with("/cluster/totals/peak_threads", 8)
        .with("/computations", json!([run(1, 1.0, "finished")]))
        .with("/environments", json!([environment]))
        .with("/samples", json!([sample(None, 10_000, measured)]))
        .with("/usage", json!([hour]))
        .with("/thread_history", json!([threads(0.0, 8)]))
        .with("/spans", json!([span(1, None, &["etl"], 0.0, Some(10.0))]))
        .with("/fine_metrics", json!([{ "cells": network }, { "span_id": uuid(1), "cells": cells }]))
}

/// All questions in the schema, and every other field that returns an answer.
async fn questions(member: &Member) -> Vec<String> {
    let query = "{ __schema { types { name fields { name type { name ofType { name } } } } } }";
    let schema = member.query(query, json!({})).await;
    let (mut questions, mut others) = (Vec::new(), BTreeSet::new());
    for of in schema["__schema"]["types"].as_array().unwrap() {
        for field in of["fields"].as_array().into_iter().flatten() {
            if field["type"]["name"] != "Answer" && field["type"]["ofType"]["name"] != "Answer" {
                continue;
            }
            let name = field["name"].as_str().unwrap();
            if of["name"] == "Answers" {
                questions.push(name.to_owned());
            } else {
                others.insert(format!("{}.{name}", of["name"].as_str().unwrap()));
            }
        }
    }
    // The test of all questions covers this field, too.
    assert_eq!(others, BTreeSet::from(["Comparison.verdict".to_owned()]));
    questions
}

/// The verdict of a comparison of two clusters.
async fn compared(member: &Member, base: i64, head: i64) -> Value {
    let query = format!(
        "{{ viewer {{ account {{ compare(base: {{ clusterIds: [\"{base}\"] }}, head: {{ clusterIds: [\"{head}\"] }})
            {{ verdict {{ verdict headline confidence {} }} }} }} }} }}",
        phrase::fields()
    );
    let mut data = member.query(&query, json!({})).await;
    phrase::checked("slower", data["viewer"]["account"]["compare"]["verdict"].take())
}

#[tokio::test]
async fn no_answer_is_good_and_measured_of_what_is_not_wholly_known() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let set = "mutation($input: CostRateInput!) { setCostRate(input: $input) { userErrors { field } } }";
    let rate = json!({ "validFrom": "2026-11-20", "currency": "EUR", "perThreadHour": 0.12 });
    ada.query(set, json!({ "input": rate })).await;
    let closed =
        |report: ReportBuilder| report.with("/final", true).with("/cluster/closed_at", STARTED_AT + 20.0);
    let earlier = closed(flawless("earlier")).with("/cluster/started_at", STARTED_AT - 60.0);
    let base = ada.reported(&earlier.build()).await;
    let number = ada.reported(&flawless("Scheduler-1").build()).await;
    let questions = questions(&ada).await;

    // All answers are good while it reports, so the later results are not due to missing data.
    for question in &questions {
        let (found, _) = get_answer(&ada, number, question).await;
        let confidence = if question == "cost" { "ESTIMATED" } else { "MEASURED" };
        let rating = (found["verdict"].as_str().unwrap(), found["confidence"].as_str().unwrap());
        assert_eq!(rating, ("GOOD", confidence), "{question}: {found}");
        assert!(!found["headline"].as_str().unwrap().contains("unknown"), "{question}: {found}");
    }
    let headline = "It spent 1.3 min of thread time, as much as the first work.";
    let expected = json!({ "verdict": "GOOD", "confidence": "MEASURED", "headline": headline });
    assert_eq!(compared(&ada, base, number).await, expected);

    // The cluster stops reporting, first without the server having stored that.
    app.set_clock("2026-11-20T12:05:00Z");
    let end = ", up to 2026-11-20 11:00:20 UTC; the time after is unknown.";
    let sentence = "The time after 2026-11-20 11:00:20 UTC is unknown.";
    let (unknown, good) = (["UNKNOWN", "ESTIMATED"], ["GOOD", "ESTIMATED"]);
    let expected = [
        ("finished", unknown, format!("The 1 computation finished{end}")),
        ("exceptions", unknown, format!("No exceptions: 0 tasks failed and 10 tasks succeeded{end}")),
        (
            "cost",
            good,
            format!("It cost 0.12 EUR by the account's rates, 0 % of it while threads were idle{end}"),
        ),
        ("topTime", good, format!("load takes 50 min of thread time, 83 % of what was computed{end}")),
        (
            "whyRunning",
            ["UNKNOWN", "MEASURED"],
            format!(
                "Whether it runs is not known: it has not reported for 5 min, though it reports every 15 s. \
                 {sentence}"
            ),
        ),
        ("gil", good, format!("The GIL was busy 12 % of the last 20 s{end}")),
        (
            "network",
            good,
            format!(
                "Workers received data for 1 min, beside their tasks: threads were idle 0 % of the time, and it cost no more \
                 than that{end}"
            ),
        ),
        ("spill", good, format!("No time was lost to spilling: 0 s{end}")),
        (
            "eventLoop",
            good,
            format!(
                "In the last 20 s the scheduler's event loop was blocked 0 % of the time: a tick took 20 ms, the usual time{end}"
            ),
        ),
        (
            "cpu",
            good,
            format!(
                "Tasks held threads for 8 s without using the CPU, 12 % of their time, most of it in load{end}"
            ),
        ),
        ("whatChanged", unknown, format!("No known property changed since cluster {base}: 0 changes{end}")),
        ("slower", unknown, format!("It spent 1.3 min of thread time, as much as cluster {base}{end}")),
        (
            "scaling",
            good,
            format!(
                "With 8 threads as before, tasks used the CPU for 75 % of the thread time, and for 75 % in cluster {base}: \
                 no more time was lost, 0 s{end}"
            ),
        ),
    ];
    let expected_questions: Vec<&str> = expected.iter().map(|(question, ..)| *question).collect();
    assert_eq!(questions, expected_questions, "a new question needs a line here");
    for is_lost in [false, true] {
        if is_lost {
            assert_eq!(app.run_jobs().await.get("life-cycle.lost"), Some(&1));
        }
        for (question, [verdict, confidence], headline) in &expected {
            let (found, _) = get_answer(&ada, number, question).await;
            let expected = (&json!(verdict), &json!(confidence), &json!(headline));
            assert_eq!((&found["verdict"], &found["confidence"], &found["headline"]), expected);
        }
    }
    let headline = "It spent 1.3 min of thread time, as much as the first work. The second work is known up to \
                    2026-11-20 11:00:20 UTC; the time after is unknown.";
    let expected = json!({ "verdict": "UNKNOWN", "confidence": "ESTIMATED", "headline": headline });
    assert_eq!(compared(&ada, base, number).await, expected);
    let headline = format!(
        "It spent 1.3 min of thread time, as much as cluster {number}. Cluster {number} is known up to \
         2026-11-20 11:00:20 UTC; the time after is unknown."
    );
    let (found, _) = get_answer(&ada, base, &format!("slower(baseline: \"{number}\")")).await;
    assert_eq!((&found["verdict"], &found["headline"]), (&json!("UNKNOWN"), &json!(headline)));
    app.stop().await;
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "each case stands with what it expects")]
async fn answers_state_which_part_of_a_cluster_is_not_known() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let closed =
        |report: ReportBuilder| report.with("/final", true).with("/cluster/closed_at", STARTED_AT + 20.0);
    // Each is compared with a run of the same name.
    let add_cluster = async |name: &str, report: ReportBuilder| {
        let earlier =
            closed(flawless(&format!("before {name}"))).with("/cluster/started_at", STARTED_AT - 60.0);
        ada.reported(&earlier.with("/cluster/name", name).build()).await;
        ada.reported(&closed(report).with("/cluster/name", name).build()).await
    };
    let sections = [
        "computations",
        "errors",
        "environments",
        "workers",
        "samples",
        "spans",
        "fine_metrics",
        "thread_history",
        "usage",
    ];
    let dropped: Value = sections.iter().map(|section| ((*section).to_owned(), json!(3))).collect();
    let lossy = add_cluster("lossy", flawless("lossy").with("/dropped", dropped)).await;
    // Earlier reports went to another store.
    let late = add_cluster("late", flawless("late").with("/base", 8)).await;
    let file = add_cluster("file", flawless("import-7c0e4bd3")).await;
    let receipt = json!({ "tasks": { "sent": 9, "bytes": 900, "withheld": 1 } });
    let kept = add_cluster("kept", flawless("kept").with("/receipt", receipt)).await;
    let whole = add_cluster("whole", flawless("whole")).await;
    let label = get_answer(&ada, lossy, "scaling").await.1[0]["node"]["id"].clone();
    let query = "query($id: ID!) { node(id: $id) { ... on Cluster { number schedulerId } } }";
    let found = ada.query(query, json!({ "id": label })).await["node"].take();
    assert_eq!(found["schedulerId"], "before lossy");
    let before = found["number"].clone();
    let scaling = format!(
        "With 8 threads as before, tasks used the CPU for 75 % of the thread time, and for 75 % in cluster {before}: \
         no more time was lost, 0 s. 3 more sets of fine metrics, 3 more spans and 3 more changes of the threads \
         were not reported."
    );
    for question in questions(&ada).await {
        let certainty = async |number: i64| {
            let (found, _) = get_answer(&ada, number, &question).await;
            let is_sure = found["verdict"] == "GOOD" && found["confidence"] == "MEASURED";
            (is_sure, found["headline"].as_str().unwrap().to_owned())
        };
        assert!(question == "cost" || certainty(whole).await.0, "{question}");
        // Its closing is known even if nothing else is.
        if question == "whyRunning" {
            assert!(certainty(lossy).await.0 && certainty(late).await.0);
        } else {
            let (is_sure, headline) = certainty(lossy).await;
            assert!(!is_sure, "{question}: {headline}");
            // The answer itself states that no exception is stored.
            let part = if question == "exceptions" { "not stored" } else { "not reported." };
            assert!(headline.contains(part), "{question}: {headline}");
            let (is_sure, headline) = certainty(late).await;
            assert!(!is_sure, "{question}: {headline}");
            let ending = "Some of its reports have not arrived, and their content is unknown.";
            assert!(headline.ends_with(ending), "{question}: {headline}");
        }
        let (is_sure, headline) = certainty(file).await;
        assert!(!is_sure, "{question}: {headline}");
        let endings =
            ["up to 2026-11-20 11:00:20 UTC; the time after is", "The time after 2026-11-20 11:00:20 UTC is"];
        assert!(
            endings.iter().any(|ending| headline.ends_with(&format!("{ending} unknown."))),
            "{question}: {headline}"
        );
    }

    for (number, question, rating, headline) in [
        (
            lossy,
            "exceptions",
            ["BAD", "NOT_COLLECTED"],
            "3 exceptions were recorded, but not stored, because there were more at once than its scheduler keeps.",
        ),
        (
            lossy,
            "finished",
            ["UNKNOWN", "ESTIMATED"],
            "The 1 computation finished. 3 more computations were not reported.",
        ),
        (lossy, "scaling", ["GOOD", "ESTIMATED"], scaling.as_str()),
        (
            lossy,
            "gil",
            ["GOOD", "ESTIMATED"],
            "The GIL was busy 12 % of the last 20 s. 3 more samples were not reported.",
        ),
        (
            kept,
            "finished",
            ["UNKNOWN", "ESTIMATED"],
            "The 1 computation finished. Data of the class TASKS was withheld or dropped: see the privacy receipt of the cluster.",
        ),
        (kept, "exceptions", ["GOOD", "MEASURED"], "No exceptions: 0 tasks failed and 10 tasks succeeded."),
        (
            late,
            "exceptions",
            ["UNKNOWN", "ESTIMATED"],
            "No exceptions: 0 tasks failed and 10 tasks succeeded. Some of its reports have not arrived, and their content is unknown.",
        ),
        (
            file,
            "whyRunning",
            ["UNKNOWN", "MEASURED"],
            "Whether it runs is not known: the file that it was imported from ends at 2026-11-20 11:00:20 UTC, 1 h 0 min ago. \
             The time after 2026-11-20 11:00:20 UTC is unknown.",
        ),
        (
            file,
            "finished",
            ["UNKNOWN", "ESTIMATED"],
            "The 1 computation finished, up to 2026-11-20 11:00:20 UTC; the time after is unknown.",
        ),
    ] {
        let (found, _) = get_answer(&ada, number, question).await;
        let expected = (&json!(rating[0]), &json!(rating[1]), &json!(headline));
        assert_eq!((&found["verdict"], &found["confidence"], &found["headline"]), expected);
    }
    app.stop().await;
}
