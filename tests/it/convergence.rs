//! Repeats, losses and reordering of reports end in the same rows as a clean delivery.

use std::collections::{BTreeMap, BTreeSet};

use entity::{AccountOwned, cluster, computation, computation_task_group, error_occurrence, ids, task_group};
use harness::{
    Member, ReportBuilder, TestApp, computation as computation_report, error, task_group as group_report,
};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, TestRunner},
};
use sea_orm::{ColumnTrait, DatabaseConnection, EntityTrait, QueryFilter};
use serde_json::Value;

/// What happens on the scheduler between two reports.
#[derive(Clone, Debug)]
enum Step {
    /// Tasks are added to a task group.
    Tasks(u8, u8),
    /// A computation appears or uses another task group.
    Computation(u8, u8),
    /// A task errs.
    Error(u8),
    /// Only the cluster's own numbers change.
    Threads(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6_u8, 1..9_u8).prop_map(|(group, tasks)| Step::Tasks(group, tasks)),
        (0..4_u8, 0..6_u8).prop_map(|(computation, group)| Step::Computation(computation, group)),
        (0..6_u8).prop_map(Step::Error),
        (1..99_u8).prop_map(Step::Threads),
    ]
}

/// A scheduler as the reporter sees it: everything it knows, and when each thing last changed.
#[derive(Clone, Default)]
struct Scheduler {
    threads: u8,
    tasks: BTreeMap<u8, (i64, i64)>,
    computations: BTreeMap<u8, (BTreeSet<u8>, i64)>,
    errors: Vec<(u8, i64)>,
}

impl Scheduler {
    fn apply(&mut self, step: &Step, now: i64) {
        match *step {
            Step::Tasks(group, tasks) => {
                let known = self.tasks.entry(group).or_default();
                *known = (known.0 + i64::from(tasks), now);
            }
            Step::Computation(computation, group) => {
                let known = self.computations.entry(computation).or_default();
                known.0.insert(group);
                known.1 = now;
            }
            Step::Error(group) => self.errors.push((group, now)),
            Step::Threads(threads) => self.threads = threads,
        }
    }

    /// Everything that changed since `base`, as it is now.
    fn report(&self, sequence: i64, base: i64) -> Value {
        let changed = |at: &i64| *at > base;
        let groups = self.tasks.iter().filter(|(_, (_, at))| changed(at));
        let computations = self.computations.iter().filter(|(_, (_, at))| changed(at));
        let errors = self.errors.iter().enumerate().filter(|(_, (_, at))| changed(at));
        ReportBuilder::new("Scheduler-1", sequence)
            .with("/base", Some(base).filter(|base| *base > 0))
            .with("/cluster/threads", self.threads)
            .with("/cluster/totals/tasks", self.tasks.values().map(|(tasks, _)| tasks).sum::<i64>())
            .with(
                "/task_groups",
                groups
                    .map(|(n, (tasks, _))| group_report(10 + u128::from(*n), "load", *tasks))
                    .collect::<Vec<_>>(),
            )
            .with(
                "/computations",
                computations
                    .map(|(n, (uses, _))| {
                        let uses: Vec<u128> = uses.iter().map(|n| 10 + u128::from(*n)).collect();
                        computation_report(u128::from(*n), &uses)
                    })
                    .collect::<Vec<_>>(),
            )
            .with(
                "/errors",
                errors
                    .map(|(n, (group, _))| error(100 + n as u128, 10 + u128::from(*group), 0))
                    .collect::<Vec<_>>(),
            )
            .build()
    }
}

/// What becomes of one report on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// It arrives and its answer, too.
    Answered,
    /// It arrives, but its answer does not.
    AnswerLost,
    /// It never arrives.
    Lost,
    /// It is lost at first and arrives after all the others.
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

/// All rows of an account, without what must differ between two: the identifiers of account and cluster.
async fn rows(database: &DatabaseConnection, member: &Member, keep_sequence: bool) -> Vec<String> {
    async fn all<E: AccountOwned>(
        database: &DatabaseConnection,
        account: ids::AccountId,
        comparable: impl Fn(E::Model) -> E::Model,
    ) -> Vec<String> {
        let rows = E::find().filter(E::ACCOUNT_ID.eq(account)).all(database).await.unwrap();
        rows.into_iter().map(|row| format!("{:?}", comparable(row))).collect()
    }
    let account = entity::account::Entity::find()
        .filter(entity::account::Column::Slug.eq(member.slug()))
        .one(database)
        .await
        .unwrap()
        .unwrap()
        .id;
    let (account_id, cluster_id) = (ids::AccountId(uuid::Uuid::nil()), ids::ClusterId(0));
    let sequence = |sequence| if keep_sequence { sequence } else { 0 };
    let clusters = all::<cluster::Entity>(database, account, |row| cluster::Model {
        account_id,
        id: cluster_id,
        user_id: None,
        // The server's own note of what it may have missed, which tells of the way a report came.
        complete_until: 0,
        ..row
    });
    let computations = all::<computation::Entity>(database, account, |row| computation::Model {
        account_id,
        cluster_id,
        sequence: sequence(row.sequence),
        ..row
    });
    let task_groups = all::<task_group::Entity>(database, account, |row| task_group::Model {
        account_id,
        cluster_id,
        sequence: sequence(row.sequence),
        ..row
    });
    let links = all::<computation_task_group::Entity>(database, account, |row| {
        computation_task_group::Model { account_id, cluster_id, ..row }
    });
    let errors = all::<error_occurrence::Entity>(database, account, |row| error_occurrence::Model {
        account_id,
        cluster_id,
        ..row
    });
    let tables = [clusters.await, computations.await, task_groups.await, links.await, errors.await];
    let mut rows = tables.concat();
    rows.sort();
    rows
}

/// Runs a property whose cases each have two accounts of their own.
fn check<S: Strategy>(
    strategy: &S,
    case: &impl AsyncFn(&DatabaseConnection, [Member; 2], S::Value) -> Result<(), TestCaseError>,
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let app = runtime.block_on(TestApp::start());
    let database = runtime.block_on(app.database.connection());
    let number = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: 48, failure_persistence: None, ..Config::default() });
    runner
        .run(strategy, |input| {
            number.set(number.get() + 1);
            let number = number.get();
            runtime.block_on(async {
                let accounts = [
                    app.account(&format!("clean-{number}")).await,
                    app.account(&format!("other-{number}")).await,
                ];
                case(&database, accounts, input).await
            })
        })
        .unwrap();
    runtime.block_on(app.stop());
}

#[test]
fn repeats_and_reordering_end_in_the_same_rows() {
    let strategy = vec(vec(step(), 0..4), 1..8)
        .prop_flat_map(|steps| {
            let reports = steps.len();
            (Just(steps), vec(0..reports, 0..12))
        })
        .prop_flat_map(|(steps, repeats)| {
            let order: Vec<usize> = (0..steps.len()).chain(repeats).collect();
            (Just(steps), Just(order).prop_shuffle())
        });
    check(&strategy, &async |database, [clean, other], (steps, order)| {
        let mut scheduler = Scheduler::default();
        let reports: Vec<Value> = (1_i64..)
            .zip(&steps)
            .map(|(sequence, steps)| {
                for step in steps {
                    scheduler.apply(step, sequence);
                }
                scheduler.report(sequence, sequence - 1)
            })
            .collect();
        for report in &reports {
            clean.reported(report).await;
        }
        for index in &order {
            other.reported(&reports[*index]).await;
        }
        prop_assert_eq!(rows(database, &clean, true).await, rows(database, &other, true).await);
        Ok(())
    });
}

#[test]
fn losses_are_made_up_for_by_the_next_report() {
    let strategy = vec((vec(step(), 0..4), delivery()), 1..8);
    check(&strategy, &async |database, [clean, other], rounds| {
        let (mut scheduler, mut base, mut late) = (Scheduler::default(), 0, Vec::new());
        let last = i64::try_from(rounds.len()).unwrap() + 1;
        for (sequence, (steps, delivery)) in (1_i64..).zip(&rounds) {
            for step in steps {
                scheduler.apply(step, sequence);
            }
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
        }
        clean.reported(&scheduler.report(last, last - 1)).await;
        other.reported(&scheduler.report(last, base)).await;
        for report in &late {
            other.reported(report).await;
        }
        // Which report a row was last written from may differ; what it says may not.
        prop_assert_eq!(rows(database, &clean, false).await, rows(database, &other, false).await);
        Ok(())
    });
}

#[test]
fn a_store_that_lost_rows_asks_until_it_has_all() {
    let strategy = (vec(step(), 1..12), vec(prop_oneof![Just(true), Just(false)], 1..4));
    check(&strategy, &async |database, [clean, other], (steps, answered)| {
        let mut scheduler = Scheduler::default();
        for step in &steps {
            scheduler.apply(step, 1);
        }
        clean.reported(&scheduler.report(9, 0)).await;
        // The other store was restored to a time before all of this, which had been acknowledged as 5.
        let mut base = 5;
        for (sequence, answered) in (6_i64..).zip(&answered) {
            let (_, body) = other.report(&scheduler.report(sequence, base)).await;
            prop_assert_eq!(&body["resend"], &Value::Bool(base > 0), "report {}", sequence);
            if *answered {
                // A reporter that was asked begins anew, with everything it knows.
                base = 0;
            }
        }
        let (_, body) = other.report(&scheduler.report(9, 0)).await;
        prop_assert_eq!(&body["resend"], &Value::Bool(false));
        prop_assert_eq!(rows(database, &clean, false).await, rows(database, &other, false).await);
        Ok(())
    });
}
