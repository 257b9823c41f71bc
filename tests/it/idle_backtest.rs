//! The backtest of an idle timeout, compared with values computed by hand and with a replay of the
//! policy.

use harness::{Member, ReportBuilder, STARTED_AT, TestApp, uuid};
use serde_json::{Value, json};

use crate::life_cycle::{closing, report_at, server_time};

const QUERY: &str =
    "query($timeout: Int!, $exempt: [TagPatternInput!]! = [], $in: TimeRange, $first: Int, $after: String) {
    viewer { account { idleBacktest(timeoutSeconds: $timeout, exemptTags: $exempt, startedIn: $in) {
        clusters clustersWithoutHistory isComplete clustersStopped stops secondsSaved threadSecondsSaved
        costsSaved { amount currency basis causes { cause amount } }
        affectedComputations(first: $first, after: $after) { totalCount nodes { daskId cluster { schedulerId } }
            pageInfo { hasNextPage endCursor } } } } } }";

async fn backtest(member: &Member, variables: Value) -> Value {
    member.query(QUERY, variables).await["viewer"]["account"]["idleBacktest"].take()
}

/// A computation from one second after the scheduler's start to another; a running one has no end.
fn run(number: u128, from: i32, until: Option<i32>) -> Value {
    json!({
        "id": uuid(number), "started_at": STARTED_AT + f64::from(from),
        "stopped_at": until.map(|until| STARTED_AT + f64::from(until)),
        "state": if until.is_some() { "finished" } else { "running" }, "task_group_ids": [],
    })
}

/// The busy periods of a cluster, and its end or last report.
struct History {
    name: &'static str,
    runs: &'static [(i32, Option<i32>)],
    end: i32,
    closes: bool,
}

const HISTORIES: [History; 5] = [
    // Idle for 100 seconds, 900, 300, and 2,000 until it closed.
    History {
        name: "a",
        runs: &[(100, Some(400)), (1_300, Some(1_500)), (1_800, Some(2_000))],
        end: 4_000,
        closes: true,
    },
    // Two computations at once, within a third: idle for 700 seconds before, and 650 after, until its
    // last report.
    History {
        name: "b",
        runs: &[(700, Some(3_000)), (800, Some(900)), (2_000, Some(2_500))],
        end: 3_650,
        closes: false,
    },
    // It never had work.
    History { name: "c", runs: &[], end: 1_000, closes: true },
    // It still works.
    History { name: "d", runs: &[(500, None)], end: 9_000, closes: false },
    // The start of idleness is unknown.
    History { name: "e", runs: &[], end: 9_000, closes: false },
];

/// The idle periods of a history, computed directly: start, end, and the next work, if any.
fn idle(history: &History) -> Vec<(i32, i32, Option<i32>)> {
    let (mut idle, mut busy_until) = (Vec::new(), 0);
    for (from, until) in history.runs {
        if *from > busy_until {
            idle.push((busy_until, *from, Some(*from)));
        }
        busy_until = busy_until.max(until.unwrap_or(history.end));
    }
    if history.end > busy_until {
        idle.push((busy_until, history.end, None));
    }
    idle
}

/// The whole history in one report. Computations are numbered by cluster and start.
fn report(history: &History) -> ReportBuilder {
    let letter = u128::from(history.name.as_bytes()[0] - b'a');
    let runs = history
        .runs
        .iter()
        .map(|(from, until)| run(letter * 100_000 + u128::from(from.unsigned_abs()), *from, *until));
    let tasks = if history.name == "c" { 0 } else { 5 };
    let report =
        report_at(history.name, history.end, None, 2, tasks).with("/computations", runs.collect::<Vec<_>>());
    if history.closes { closing(report, history.end) } else { report }
}

#[tokio::test]
async fn what_would_have_been_saved_is_what_was_worked_out_by_hand() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Another account's clusters must not count for this one.
    let bob = app.account("bob").await;
    for history in &HISTORIES {
        ada.reported(&report(history).build()).await;
        bob.reported(&report(history).build()).await;
    }
    for timeout in [60, 99, 100, 300, 649, 650, 699, 700, 899, 900, 999, 1_000, 1_999, 2_000] {
        let found = backtest(&ada, json!({ "timeout": timeout })).await;
        let stretches: Vec<_> = HISTORIES[..4]
            .iter()
            .flat_map(|history| idle(history).into_iter().map(move |stretch| (history.name, stretch)))
            .filter(|(_, (from, until, _))| until - from > timeout)
            .collect();
        let mut stopped: Vec<_> = stretches.iter().map(|(name, _)| *name).collect();
        stopped.dedup();
        let saved: i32 = stretches.iter().map(|(_, (from, until, _))| until - from - timeout).sum();
        assert_eq!(found["clusters"], 5);
        assert_eq!(found["clustersWithoutHistory"], 1, "of e");
        assert_eq!(found["isComplete"], true);
        assert_eq!(found["clustersStopped"], stopped.len(), "{timeout}");
        assert_eq!(found["stops"], stretches.len(), "{timeout}");
        assert_eq!(found["secondsSaved"], f64::from(saved), "{timeout}");
        let mut affected: Vec<_> = stretches
            .iter()
            .filter_map(|(name, (_, _, next))| Some((next.as_ref().copied()?, *name)))
            .collect();
        affected.sort_unstable_by(|a, b| b.cmp(a));
        let nodes = found["affectedComputations"]["nodes"].as_array().unwrap().iter();
        let names: Vec<_> = nodes
            .map(|node| {
                let id: uuid::Uuid = node["daskId"].as_str().unwrap().parse().unwrap();
                let at = i32::try_from(id.as_u128() % 100_000).unwrap();
                (at, node["cluster"]["schedulerId"].as_str().unwrap().to_owned())
            })
            .collect();
        let expected: Vec<_> = affected.iter().map(|(at, name)| (*at, (*name).to_owned())).collect();
        assert_eq!(names, expected, "{timeout}");
        assert_eq!(found["affectedComputations"]["totalCount"], expected.len(), "{timeout}");
    }
    // With a timeout of 600: a saves 900 - 600 and 2,000 - 600, b 100 and 50, c 400.
    let found = backtest(&ada, json!({ "timeout": 600 })).await;
    assert_eq!((&found["stops"], &found["secondsSaved"]), (&json!(5), &json!(2_250.0)));
    assert_eq!(found["clustersStopped"], 3);

    // Page by page.
    let (mut after, mut seen) = (Value::Null, Vec::new());
    loop {
        let page =
            backtest(&ada, json!({ "timeout": 60, "first": 1, "after": after })).await["affectedComputations"].take();
        seen.extend(page["nodes"].as_array().unwrap().iter().map(|node| node["daskId"].clone()));
        if page["pageInfo"]["hasNextPage"] == false {
            break;
        }
        after = page["pageInfo"]["endCursor"].clone();
    }
    let all = backtest(&ada, json!({ "timeout": 60 })).await["affectedComputations"].take();
    let all: Vec<_> = all["nodes"].as_array().unwrap().iter().map(|node| node["daskId"].clone()).collect();
    assert_eq!(seen, all);
    assert_eq!(all.len(), 5);

    let backwards = "query($before: String) { viewer { account { idleBacktest(timeoutSeconds: 60) {
        affectedComputations(last: 2, before: $before) { nodes { daskId } pageInfo { hasPreviousPage startCursor } } } } } }";
    let (mut before, mut seen) = (Value::Null, Vec::new());
    loop {
        let found = ada.query(backwards, json!({ "before": before })).await;
        let page = found["viewer"]["account"]["idleBacktest"]["affectedComputations"].clone();
        let nodes = page["nodes"].as_array().unwrap().iter().map(|node| node["daskId"].clone());
        seen.splice(0..0, nodes);
        if page["pageInfo"]["hasPreviousPage"] == false {
            break;
        }
        before = page["pageInfo"]["startCursor"].clone();
    }
    assert_eq!(seen, all);

    let none = backtest(&ada, json!({ "timeout": 60, "in": { "from": "2026-11-20T11:00:00.001Z" } })).await;
    assert_eq!((&none["clusters"], &none["stops"]), (&json!(0), &json!(0)));
    for timeout in [59, 31_536_001] {
        let refused = ada.ask(QUERY, json!({ "timeout": timeout })).await;
        assert_eq!(refused["errors"][0]["extensions"]["code"], "BAD_USER_INPUT");
    }
    app.stop().await;
}

#[tokio::test]
async fn what_it_cost_is_what_was_used_meanwhile() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    // Idle from 600 to 9,000 seconds after 11:00, when it closes: 13:30. Four threads, one worker with 2
    // GiB.
    let history = History { name: "a", runs: &[(0, Some(600))], end: 9_000, closes: true };
    let hours: Vec<Value> = [(11, 3_600.0), (12, 3_600.0), (13, 1_800.0)]
        .into_iter()
        .map(|(hour, seconds)| {
            let mut used = harness::usage(hour, 4);
            used["thread_seconds"] = json!(4.0 * seconds);
            used["worker_seconds"] = json!(seconds);
            used["memory_gib_seconds"] = json!(2.0 * seconds);
            used
        })
        .collect();
    ada.reported(&report(&history).with("/usage", hours).build()).await;
    let rate = r#"mutation { setCostRate(input: { validFrom: "2026-11-01", perThreadHour: 1, perGibHour: 0.5, perWorkerHour: 0.25 }) {
        userErrors { field } } }"#;
    ada.query(rate, json!({})).await;
    // Stopped at 1,800: half of the first hour, the second, and the half hour of the third in which it
    // existed.
    let found = backtest(&ada, json!({ "timeout": 1_200 })).await;
    assert_eq!(found["secondsSaved"], 7_200.0);
    assert_eq!(found["threadSecondsSaved"], 28_800.0);
    // Two hours of four threads, 2 GiB and one worker.
    let costs = json!([{ "amount": 10.5, "currency": "USD", "basis": "RATE_CARD",
        "causes": [{ "cause": "IDLE", "amount": 10.5 }, { "cause": "UNACCOUNTED", "amount": 0.0 }] }]);
    assert_eq!(found["costsSaved"], costs);
    let found = backtest(&ada, json!({ "timeout": 8_400 })).await;
    assert_eq!((&found["stops"], &found["costsSaved"]), (&json!(0), &json!([])));
    // A tag exempts it.
    let tag = "mutation($id: ID!) { setClusterTags(cluster: $id, tags: [{ key: \"keep\" }]) { userErrors { field } } }";
    let id = ada.query("{ viewer { account { clusters { nodes { id } } } } }", json!({})).await;
    ada.query(tag, json!({ "id": id["viewer"]["account"]["clusters"]["nodes"][0]["id"] })).await;
    let exempt = json!({ "timeout": 1_200, "exempt": [{ "key": "keep" }] });
    assert_eq!(backtest(&ada, exempt).await["clusters"], 0);
    app.stop().await;
}

/// Reports a history step by step to an account with the policy. After a response that requests a stop, a
/// new cluster continues with the next work. Returns the stop times.
async fn replayed(app: &TestApp, history: &History, timeout: i32) -> Vec<i32> {
    let member = app.account(&format!("{}-{timeout}", history.name)).await;
    let set =
        "mutation($input: SetIdlePolicyInput!) { setIdlePolicy(input: $input) { userErrors { message } } }";
    let policy = json!({ "input": { "mode": "STOP", "timeoutSeconds": timeout, "warnBeforeSeconds": 0 } });
    member.query(set, policy).await;
    let stretches = idle(history);
    let (mut stops, mut here) = (Vec::new(), 1);
    let mut step = 0;
    while step <= history.end {
        let stretch = stretches.iter().find(|(from, until, _)| (*from..*until).contains(&step));
        app.set_clock(&server_time(step.into()));
        let name = format!("{}-{here}", history.name);
        let idle_since = stretch.map(|(from, ..)| *from);
        let report = report_at(&name, step, idle_since, 2, 5).with("/interval_seconds", 50.0).build();
        let (_, answer) = member.report(&report).await;
        if answer["desired_state"] == "stopped" {
            stops.push(step);
            here += 1;
            // Until there is work again.
            step = stretch.map_or(step, |(_, until, _)| *until);
            if stretch.is_some_and(|(.., next)| next.is_none()) {
                break;
            }
        } else {
            step += 50;
        }
    }
    stops
}

#[tokio::test]
async fn replaying_the_policy_agrees_with_the_back_test() {
    let app = TestApp::start().await;
    for (history, timeout) in HISTORIES[..3].iter().zip([600, 600, 900]) {
        let of_history = app.account(&format!("back-{}", history.name)).await;
        app.set_clock(&server_time(0));
        of_history.reported(&report(history).build()).await;
        let stops = replayed(&app, history, timeout).await;
        let found = backtest(&of_history, json!({ "timeout": timeout })).await;
        assert_eq!(found["stops"], stops.len(), "{}: {stops:?}", history.name);
        // Stopped by the response to the first report after the timeout, and so up to one interval
        // later.
        let expected: Vec<i32> = idle(history)
            .into_iter()
            .filter(|(from, until, _)| until - from > timeout)
            .map(|(from, ..)| from + timeout)
            .collect();
        for (stop, expected) in stops.iter().zip(&expected) {
            assert!((*expected..=expected + 50).contains(stop), "{}: {stops:?} {expected}", history.name);
        }
    }
    app.stop().await;
}
