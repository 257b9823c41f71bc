//! The outcome of the work, its cost, and why a cluster runs.

use std::collections::BTreeMap;

use entity::{computation::State, error_group::Origin, worker::End};
use uuid::Uuid;

use super::{Case, HOUR};
use crate::domain::{
    answer::{
        outcome::tests::no_exceptions,
        why_running::tests::{at, nothing_to_do, now},
        *,
    },
    cost::{Rate, RateCard},
    usage::Usage,
};

pub(super) fn outcomes() -> Vec<Case> {
    [finished(), exceptions(), costs(), reasons_to_run()].concat()
}

fn closed() -> ClusterNow {
    ClusterNow { closed_at: Some(at(-800)), close_reason: Some("no work".to_owned()), ..now() }
}

fn silent() -> ClusterNow {
    ClusterNow { last_seen_at: at(-6_500), ..now() }
}

fn finished() -> Vec<Case> {
    use State::{Cancelled, Erred, Finished as Done, Lost, Running};
    let evidence = [Running, Done, Erred, Cancelled, Lost].map(|state| ComputationEvidence {
        id: (ClusterId(1), ComputationId(Uuid::nil())),
        state,
        started_at: at(0),
        stopped_at: Some(at(5)),
    });
    let case = |states: &[(State, i64)], tasks, missing, partial, now: &ClusterNow, headline| {
        let states = states.iter().zip(0..).map(|((state, count), second)| ComputationStateCount {
            state: *state,
            count: *count,
            last_started_at: at(second),
        });
        let states: Vec<_> = states.collect();
        let facts = FinishedFacts { states: &states, evidence: &evidence, tasks, missing, partial, now };
        (Question::Finished, answer_finished(&facts), headline)
    };
    let of = |states: &[(State, i64)], now: &ClusterNow, headline| {
        case(states, 1, Missing::NotReported, None, now, headline)
    };
    let (now, closed) = (now(), closed());
    let file = Some("The file holds a part.");
    vec![
        of(&[(Done, 3), (Erred, 1)], &now, "The last computation failed; 3 of 4 finished."),
        of(
            &[(Done, 3), (Cancelled, 1)],
            &now,
            "The last computation was cancelled before it was done; 3 of 4 finished.",
        ),
        of(
            &[(Done, 3), (Lost, 1)],
            &closed,
            "Whether the last computation finished is not known, since its cluster closed without reporting it; 3 of 4 \
             did.",
        ),
        of(
            &[(Done, 3), (Lost, 1)],
            &now,
            "Whether the last computation finished is not known, since its cluster stopped reporting; 3 of 4 did.",
        ),
        of(&[(Done, 1), (Running, 1)], &now, "1 of 2 computations is still running."),
        of(&[(Running, 2)], &now, "2 of 2 computations are still running."),
        of(
            &[(Done, 1), (Running, 1)],
            &silent(),
            "1 of 2 computations had not finished at the last report of the cluster, 2 h 5 min ago.",
        ),
        of(&[(Erred, 1), (Done, 3)], &now, "The last computation finished, but 1 of 4 did not."),
        of(&[(Done, 1)], &now, "The 1 computation finished."),
        of(&[(Done, 4)], &now, "All 4 computations finished."),
        case(&[], 0, Missing::NotReported, None, &closed, "No work was submitted: 0 tasks."),
        case(&[], 0, Missing::NotReported, None, &now, "No work was submitted so far: 0 tasks."),
        case(
            &[],
            0,
            Missing::NotReported,
            file,
            &now,
            "Whether anything was submitted is not known. The file holds a part.",
        ),
        case(
            &[],
            1,
            Missing::Refused,
            None,
            &now,
            "1 task was submitted, but no computations are stored, because the account refuses the data class TASKS: \
             setDataPolicy accepts it.",
        ),
        case(
            &[],
            8,
            Missing::Withheld,
            None,
            &now,
            "8 tasks were submitted, but no computations are stored, because data of the class TASKS was withheld or dropped: see \
             the cluster's privacy receipt.",
        ),
    ]
}

fn exceptions() -> Vec<Case> {
    let none = no_exceptions();
    let case =
        |facts: ExceptionFacts<'_>, headline| (Question::Exceptions, answer_exceptions(&facts), headline);
    let of = |user: i64, dask: i64, unknown: i64, headline| {
        let counts = [(Origin::User, user), (Origin::Dask, dask), (Origin::Unknown, unknown)];
        let kinds = counts.into_iter().filter(|(_, count)| *count > 0).map(|(origin, count)| ErrorKind {
            origin,
            group: None,
            exception_type: Some("E1".to_owned()).filter(|_| origin != Origin::Unknown),
            count,
            origin_count: count,
        });
        let kinds: Vec<_> = kinds.collect();
        let dead_workers = [End::Memory, End::Unknown].map(|end| DeadWorker {
            id: (ClusterId(1), WorkerId(Uuid::nil())),
            name: "worker-7".to_owned(),
            end,
            processing: 2,
        });
        case(ExceptionFacts { kinds: &kinds, dead_workers: &dead_workers, ..none.clone() }, headline)
    };
    let kinds =
        [ErrorKind { origin: Origin::Dask, group: None, exception_type: None, count: 1, origin_count: 1 }];
    let part = Some("The file holds a part.");
    vec![
        case(
            ExceptionFacts { tasks_succeeded: 0, partial: part, ..none.clone() },
            "Whether tasks failed is not known. The file holds a part.",
        ),
        case(
            ExceptionFacts { tasks_succeeded: 1, ..none.clone() },
            "No exceptions: 0 tasks failed and 1 task succeeded.",
        ),
        case(
            ExceptionFacts { tasks_erred: 1, ..none.clone() },
            "1 task failed, but their exceptions are not stored, and none was withheld or dropped: it may be older than such data \
             is kept.",
        ),
        case(
            ExceptionFacts { dropped: 3, ..none.clone() },
            "3 exceptions were recorded, but not stored, because there were more at once than its scheduler keeps.",
        ),
        of(4, 0, 0, "4 exceptions, all of the computations' own code."),
        of(0, 1, 0, "1 exception, all of Dask itself."),
        of(0, 0, 2, "2 exceptions, all of unknown cause."),
        of(4, 1, 0, "5 exceptions: 4 of the computations' own code, 1 of Dask itself."),
        of(4, 0, 2, "6 exceptions: 4 of the computations' own code, 2 of unknown cause."),
        of(4, 1, 2, "7 exceptions: 4 of the computations' own code, 1 of Dask itself, 2 of unknown cause."),
        of(0, 1, 2, "3 exceptions: 1 of Dask itself, 2 of unknown cause."),
        case(
            ExceptionFacts { kinds: &kinds, recorded: 2, ..none.clone() },
            "At least 1 exception, all of Dask itself. 1 more is not stored.",
        ),
    ]
}

fn costs() -> Vec<Case> {
    let rate = |valid_from: i64, currency: &str| Rate {
        valid_from,
        currency: currency.to_owned(),
        per_thread_hour: 0.12,
        per_gib_hour: 0.0,
        per_worker_hour: 0.0,
    };
    let used = Usage { thread_us: HOUR, idle_us: Some(HOUR / 4), ..Usage::default() };
    let case = |rates: &[Rate], days: &[i64], headline| {
        let days: BTreeMap<i64, Usage> = days.iter().map(|day| (*day, used)).collect();
        (Question::Cost, answer_cost(&RateCard::new(rates.to_vec()), &days), headline)
    };
    let both = [rate(2, "EUR"), rate(3, "USD")];
    vec![
        case(&both, &[], "No usage was reported: 0 hours to price."),
        case(&both, &[2], "It cost 0.12 EUR by the account's rates, 25 % of it while threads were idle."),
        case(&both, &[2, 3], "It cost 0.12 EUR and 0.12 USD by the account's rates."),
        case(
            &[],
            &[2],
            "It cost 0.0500 USD, 25 % of it while threads were idle, estimated at 0.05 USD per thread-hour, as no rate is \
             set: setCostRate sets one.",
        ),
        case(
            &both,
            &[1, 2, 3],
            "It cost 0.12 EUR and 0.12 USD by the account's rates, and 0.0500 USD on days without a rate, estimated at \
             0.05 USD per thread-hour, as no rate is set: setCostRate sets one.",
        ),
    ]
}

fn reasons_to_run() -> Vec<Case> {
    let case = |facts: WhyRunning<'_>, headline| (Question::WhyRunning, answer_why_running(&facts), headline);
    let (now, closed, silent) = (now(), closed(), silent());
    let one = ClusterNow { workers: 1, ..now.clone() };
    let file = ClusterNow { is_end_known: false, ..closed.clone() };
    let idle = ClusterNow { idle_since: Some(at(490)), ..now.clone() };
    let stopping = ClusterNow { stop_requested: true, ..now.clone() };
    let some = Some(1);
    vec![
        case(
            nothing_to_do(&file),
            "Whether it runs is not known: the file that it was imported from ends at 2026-11-20 10:46:40 UTC, 30 min ago.",
        ),
        case(
            nothing_to_do(&closed),
            "It is not running: it closed at 2026-11-20 10:46:40 UTC, 30 min ago: no work.",
        ),
        case(
            nothing_to_do(&silent),
            "Whether it runs is not known: it has not reported for 2 h 5 min, though it reports every 15 s.",
        ),
        case(
            WhyRunning { processing: Some(12), queued: some, no_worker: Some(3), ..nothing_to_do(&now) },
            "It works: 12 tasks are processed by its 2 workers, but no worker may run 3 others.",
        ),
        case(
            WhyRunning { processing: some, ..nothing_to_do(&stopping) },
            "It was requested to stop, and has not stopped yet. It works: 1 task is processed by its 2 workers.",
        ),
        case(
            WhyRunning { no_worker: some, ..nothing_to_do(&one) },
            "1 task waits for a worker that may run it: the cluster has 1 worker, and none may run it.",
        ),
        case(
            WhyRunning { no_worker: Some(2), ..nothing_to_do(&now) },
            "2 tasks wait for a worker that may run them: the cluster has 2 workers, and none may run them.",
        ),
        case(
            WhyRunning { queued: Some(5), ..nothing_to_do(&now) },
            "5 tasks are queued for a free thread, and none runs on its 2 workers.",
        ),
        case(WhyRunning { graph_updates: some, ..nothing_to_do(&now) }, "Its scheduler processes 1 graph."),
        case(
            WhyRunning { waiting: some, ..nothing_to_do(&one) },
            "1 task waits for others, and none runs on its 1 worker.",
        ),
        case(
            WhyRunning { processing: None, ..nothing_to_do(&now) },
            "Its scheduler has work on 2 workers, but no sample counts its tasks.",
        ),
        case(
            nothing_to_do(&now),
            "It has 0 tasks to do on its 2 workers, and its scheduler does not count it as idle.",
        ),
        case(
            WhyRunning { clients: 1, memory: Some(3), ..nothing_to_do(&idle) },
            "1 client holds 3 results in its memory; it has had no work for 8.3 min, since 2026-11-20 11:08:10 UTC.",
        ),
        case(
            WhyRunning { clients: 2, memory: some, ..nothing_to_do(&idle) },
            "2 clients hold 1 result in its memory; it has had no work for 8.3 min, since 2026-11-20 11:08:10 UTC.",
        ),
        case(
            nothing_to_do(&idle),
            "It is idle: it has had no work for 8.3 min, since 2026-11-20 11:08:10 UTC.",
        ),
    ]
}
