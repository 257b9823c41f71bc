//! Repeated, lost and reordered reports result in the same rows as a clean delivery, on both databases.

pub(crate) mod rows;
mod scheduler;

use std::{collections::BTreeSet, ops::Range};

use harness::{Member, TestApp};
use proptest::{
    collection::vec,
    prelude::*,
    sample::subsequence,
    test_runner::{Config, TestCaseResult, TestRunner},
};
use sea_orm::{ConnectionTrait, DatabaseBackend, Statement};
use serde_json::{Value, json};

use self::{
    rows::{Content, EXEMPT, Ways},
    scheduler::{Scheduler, Step, step, steps},
};

/// The fate of one report in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// The report and its response arrive.
    Answered,
    /// The report arrives, but its response does not.
    AnswerLost,
    /// The report never arrives.
    Lost,
    /// The report is lost at first and arrives after all the others.
    Late,
}

fn delivery() -> impl Strategy<Value = Delivery> {
    prop_oneof![
        3 => Just(Delivery::Answered),
        1 => Just(Delivery::AnswerLost),
        1 => Just(Delivery::Lost),
        1 => Just(Delivery::Late),
    ]
}

/// The classes that an account may refuse, and the tables that this affects.
const CLASSES: [(&str, &[&str]); 6] = [
    (
        "TASKS",
        &[
            "task_groups",
            // The keys of tasks that they were processing.
            "workers",
            "computations",
            "computation_shares",
            "computation_task_groups",
            "spans",
            "fine_metric_totals",
            "fine_metrics",
            "function_activity_chunks",
            "function_usage_hours",
            "function_usage_days",
        ],
    ),
    ("USER_ERRORS", &["error_occurrences", "error_groups"]),
    ("CODE", &["code_snippets", "computations", "spans", "profiles", "error_occurrences", "log_lines"]),
    ("PROFILES", &["profiles"]),
    ("EVENTS", &["events"]),
    ("LOGS", &["log_lines"]),
];

async fn refuse(member: &Member, class: &str) {
    let mutation =
        "mutation($input: SetDataPolicyInput!) { setDataPolicy(input: $input) { userErrors { code } } }";
    let answer = member.query(mutation, json!({ "input": { "class": class, "accepted": false } })).await;
    assert_eq!(answer["setDataPolicy"]["userErrors"], json!([]), "{class}");
}

/// One case of a property: a server, and its own accounts.
struct Case<'a> {
    app: &'a TestApp,
    number: u32,
}

impl Case<'_> {
    async fn account(&self, name: &str) -> Member {
        self.app.account(&format!("{name}-{}", self.number)).await
    }

    async fn accounts(&self) -> [Member; 2] {
        [self.account("clean").await, self.account("other").await]
    }

    /// Checks that both accounts have the same rows after all hours were folded.
    async fn same_end(&self, one: &Member, other: &Member, ways: Ways) -> TestCaseResult {
        self.app.fold_usage().await;
        let (one, other) = (Content::of(self.app, one, ways).await, Content::of(self.app, other, ways).await);
        prop_assert_eq!(one.differences(&other), "");
        Ok(())
    }
}

/// Runs a property.
fn check<S: Strategy>(strategy: &S, property: &impl AsyncFn(&Case<'_>, S::Value) -> TestCaseResult) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let app = runtime.block_on(TestApp::start());
    let number = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    runner
        .run(strategy, |input| {
            number.set(number.get() + 1);
            runtime.block_on(property(&Case { app: &app, number: number.get() }, input))
        })
        .unwrap();
    runtime.block_on(app.stop());
}

/// The reports of a scheduler, each acknowledged before the next one.
fn reports(name: &'static str, steps: &[Vec<Step>]) -> Vec<Value> {
    let mut scheduler = Scheduler::new(name);
    let reports = (1_i64..).zip(steps).map(|(sequence, steps)| {
        scheduler.apply(steps, sequence);
        scheduler.report(sequence, sequence - 1)
    });
    reports.collect()
}

/// All of these reports in any order, some of them several times, with the points at which hours are
/// folded.
fn any_order(reports: usize) -> impl Strategy<Value = Vec<(usize, bool)>> {
    vec(0..reports, 0..12)
        .prop_flat_map(move |repeats| Just((0..reports).chain(repeats).collect::<Vec<_>>()).prop_shuffle())
        .prop_flat_map(|order| {
            let folds = vec(prop::bool::weighted(0.2), order.len());
            folds.prop_map(move |folds| order.iter().copied().zip(folds).collect())
        })
}

/// The steps before each of some reports, and an order of these reports.
fn steps_and_order(reports: Range<usize>) -> impl Strategy<Value = (Vec<Vec<Step>>, Vec<(usize, bool)>)> {
    steps(reports).prop_flat_map(|steps| {
        let order = any_order(steps.len());
        (Just(steps), order)
    })
}

#[test]
fn repeats_and_reordering_end_in_the_same_rows() {
    check(&steps_and_order(1..8), &async |case, (steps, order)| {
        let [clean, other] = case.accounts().await;
        let reports = reports("Scheduler-1", &steps);
        for report in &reports {
            clean.reported(report).await;
        }
        for (index, fold) in order {
            other.reported(&reports[index]).await;
            if fold {
                case.app.fold_usage().await;
            }
        }
        case.same_end(&clean, &other, Ways::Reordered).await
    });
}

#[test]
fn losses_are_made_up_for_by_the_next_report() {
    let rounds = vec((vec(step(), 0..6), delivery(), prop::bool::weighted(0.2)), 1..8);
    check(&(rounds, any::<bool>()), &async |case, (rounds, closes)| {
        let [clean, other] = case.accounts().await;
        let (mut scheduler, mut base, mut late) = (Scheduler::new("Scheduler-1"), 0, Vec::new());
        let last = i64::try_from(rounds.len()).unwrap() + 1;
        for (sequence, (steps, delivery, fold)) in (1_i64..).zip(&rounds) {
            scheduler.apply(steps, sequence);
            clean.reported(&scheduler.report(sequence, sequence - 1)).await;
            let report = scheduler.report(sequence, base);
            match delivery {
                Delivery::Answered => {
                    other.reported(&report).await;
                    base = sequence;
                }
                Delivery::AnswerLost => {
                    other.reported(&report).await;
                }
                Delivery::Lost => {}
                Delivery::Late => late.push(report),
            }
            if *fold {
                case.app.fold_usage().await;
            }
        }
        for (member, base) in [(&clean, last - 1), (&other, base)] {
            let mut report = scheduler.report(last, base);
            // Reports after the last one do not reopen a cluster.
            report["final"] = json!(closes);
            member.reported(&report).await;
        }
        for report in &late {
            other.reported(report).await;
        }
        // The report that last wrote a row may differ; the row's content may not.
        case.same_end(&clean, &other, Ways::Different).await
    });
}

#[test]
fn a_store_that_lost_rows_requests_them_until_it_has_all() {
    let answered = vec((vec(step(), 4..24), any::<bool>()), 1..4);
    check(&(vec(step(), 1..20), answered), &async |case, (before, rounds)| {
        let [clean, other] = case.accounts().await;
        let mut scheduler = Scheduler::new("Scheduler-1");
        scheduler.apply(&before, 1);
        // The other store was restored to a state before all reports that it had acknowledged up to 5.
        let (mut base, mut acknowledged) = (5, 5);
        for (sequence, (steps, answered)) in (6_i64..).zip(&rounds) {
            scheduler.apply(steps, sequence);
            let (_, body) = other.report(&scheduler.report_after(sequence, base, acknowledged)).await;
            prop_assert_eq!(&body["resend"], &Value::Bool(base > 0), "report {}", sequence);
            if *answered {
                // A reporter that received a request to resend starts over, with everything it still knows.
                (base, acknowledged) = (0, sequence);
            }
            case.app.fold_usage().await;
        }
        let (_, body) = other.report(&scheduler.report_after(9, 0, acknowledged)).await;
        prop_assert_eq!(&body["resend"], &Value::Bool(false));
        // Data that the reporter discarded after the acknowledgment is lost.
        clean.reported(&scheduler.report_after(9, 0, 5)).await;
        case.same_end(&clean, &other, Ways::Different).await
    });
}

#[test]
fn clusters_that_share_code_and_errors_may_report_in_turns() {
    let strategy = (steps_and_order(1..6), steps_and_order(1..6), vec(any::<bool>(), 40));
    check(&strategy, &async |case, ((first, first_order), (second, second_order), turns)| {
        let [clean, other] = case.accounts().await;
        let reports = [reports("Scheduler-1", &first), reports("Scheduler-2", &second)];
        for report in reports.iter().flatten() {
            clean.reported(report).await;
        }
        let mut orders = [first_order.into_iter(), second_order.into_iter()];
        for together in turns {
            // Both at once, or one after the other, until neither has more.
            let [one, two] =
                [0, 1].map(|which| orders[which].next().map(|(index, fold)| (&reports[which][index], fold)));
            let send = async |report: Option<(&Value, bool)>| {
                if let Some((report, fold)) = report {
                    other.reported(report).await;
                    if fold {
                        assert_eq!(case.app.fold_usage().await.failed, 0);
                    }
                }
            };
            if together {
                tokio::join!(send(one), send(two));
            } else {
                send(two).await;
                send(one).await;
            }
        }
        case.same_end(&clean, &other, Ways::Reordered).await
    });
}

#[test]
fn what_an_account_refuses_does_not_depend_on_the_order_either() {
    let refused = subsequence(CLASSES.to_vec(), 1..=CLASSES.len());
    check(&(steps_and_order(1..6), refused), &async |case, ((steps, order), refused)| {
        let [clean, other] = case.accounts().await;
        let everything = case.account("everything").await;
        for (class, _) in &refused {
            refuse(&clean, class).await;
            refuse(&other, class).await;
        }
        let reports = reports("Scheduler-1", &steps);
        for report in &reports {
            clean.reported(report).await;
            everything.reported(report).await;
        }
        for (index, fold) in order {
            other.reported(&reports[index]).await;
            if fold {
                case.app.fold_usage().await;
            }
        }
        case.same_end(&clean, &other, Ways::Reordered).await?;
        // Data that is not refused is the same as without a policy.
        let mut tables: Vec<&str> = refused.iter().flat_map(|(_, tables)| tables.iter().copied()).collect();
        tables.push("data_policies");
        let clean = Content::of(case.app, &clean, Ways::Same).await.without(&tables).without_receipts();
        let everything =
            Content::of(case.app, &everything, Ways::Same).await.without(&tables).without_receipts();
        prop_assert_eq!(everything.differences(&clean), "");
        Ok(())
    });
}

/// Two clusters of two users with data of every kind, over three days.
async fn everything_once(app: &TestApp, ada: &Member) {
    let bob = app.member("bob", ada.slug()).await;
    let span = |number: u8| [Step::Span(number, true), Step::Metrics(number, 3), Step::Metrics(number, 8)];
    let tasks = [Step::Tasks(0, 3), Step::Tasks(1, 4), Step::Tasks(0, 5), Step::Computation(0, 1)];
    let work = [
        Step::Error(0),
        Step::Error(1),
        Step::Error(4),
        Step::Error(2),
        Step::Error(3),
        Step::Error(0),
        Step::Code(0),
        Step::Code(2),
    ];
    let workers =
        [Step::Worker(1, 0), Step::Worker(2, 1), Step::Client(0), Step::Threads(4), Step::Threads(8)];
    let samples = [Step::Samples(0, 2, 3), Step::Samples(1, 3, 2), Step::Samples(2, 8, 2), Step::Profile(4)];
    let usage = [Step::Usage(2, 0, 5), Step::Usage(2, 1, 2), Step::Usage(3, 0, 7), Step::Usage(5, 2, 1)];
    let active = [Step::Activity(0, 0, 5), Step::Activity(1, 1, 2), Step::Activity(2, 2, 3)];
    let first = [
        [&workers[..], &tasks, &samples].concat(),
        [&span(0)[..], &span(2), &work, &usage, &active].concat(),
    ];
    let then = vec![Step::Worker(1, 2), Step::Worker(2, 3), Step::Client(0), Step::Samples(0, 0, 10)];
    let later = vec![
        Step::Span(2, false),
        Step::Usage(2, 0, 1),
        Step::Activity(0, 0, 1),
        Step::Tasks(1, 1),
        Step::Dropped(1),
    ];
    let first = reports("Scheduler-1", &[&first[..], &[then, later]].concat());
    let [one, two, three, four] = &first[..] else { panic!("there are {} reports", first.len()) };
    let second = [Step::Error(0), Step::Error(1), Step::Code(2), Step::Code(1), Step::Usage(2, 0, 9)];
    let end = [&span(0)[..], &[Step::Samples(1, 0, 4), Step::Usage(1, 1, 1)]].concat();
    let mut second = reports("Scheduler-2", &[second.to_vec(), end]);
    second[1]["final"] = json!(true);

    let number = ada.reported(one).await;
    bob.reported(&second[1]).await;
    app.fold_usage().await;
    for report in [two, four, two, three] {
        ada.reported(report).await;
    }
    bob.reported(&second[0]).await;
    app.fold_usage().await;
    refuse(&bob, "PROFILES").await;
    let path = format!("/api/v2/analytics/{}/cluster/{number}/span/{}", ada.slug(), harness::uuid(32));
    let client_span = json!({ "start": 1_795_172_400.5, "stop": 1_795_172_401,
        "callstack": [{ "code": "x = 1", "filename": "a.py", "relative_line": 0 }] });
    let answer = ada.request(reqwest::Method::POST, &path).json(&client_span).send().await.unwrap();
    assert_eq!(answer.status(), reqwest::StatusCode::OK);
}

/// One snapshot for both databases, so that both must have the same content.
#[tokio::test]
async fn both_databases_hold_the_same() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    everything_once(&app, &ada).await;
    let content = Content::of(&app, &ada, Ways::Same).await;
    for (table, rows) in &content.rows {
        assert!(!rows.is_empty(), "nothing is compared of {table}");
    }
    insta::assert_snapshot!(content);
    app.stop().await;
}

#[tokio::test]
async fn every_table_is_compared_or_exempt() {
    let app = TestApp::start().await;
    let ada = app.account("ada").await;
    let content = Content::of(&app, &ada, Ways::Same).await;
    let database = app.database.connection().await;
    let columns = match database.get_database_backend() {
        DatabaseBackend::Postgres => {
            "SELECT relname::text, attname::text FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid \
             WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace \
             AND attnum > 0 AND NOT attisdropped"
        }
        _ => {
            "SELECT sqlite_schema.name, columns.name FROM sqlite_schema, pragma_table_info(sqlite_schema.name) columns \
             WHERE sqlite_schema.type = 'table' AND sqlite_schema.name NOT LIKE 'sqlite_%'"
        }
    };
    let statement = Statement::from_string(database.get_database_backend(), columns);
    let rows = database.query_all_raw(statement).await.unwrap();
    let text = |row: &sea_orm::QueryResult, index| row.try_get_by_index::<String>(index).unwrap();
    let exempt = |table: &str| table == "seaql_migrations" || EXEMPT.iter().any(|(name, _)| *name == table);
    let there: BTreeSet<(String, String)> =
        rows.iter().map(|row| (text(row, 0), text(row, 1))).filter(|(table, _)| !exempt(table)).collect();
    let compared =
        content.columns.iter().flat_map(|(table, columns)| columns.iter().map(move |c| (*table, *c)));
    let compared: BTreeSet<(String, String)> =
        compared.map(|(table, column)| (table.to_owned(), column.to_owned())).collect();
    assert_eq!(there, compared, "compare a new table in `Content::of`, or state in `EXEMPT` why not");
    for (table, _) in EXEMPT {
        let known = rows.iter().any(|row| text(row, 0) == table);
        assert!(known && !content.rows.contains_key(table), "{table}");
    }
    app.stop().await;
}
