//! A simulated scheduler as seen by its reporter, and the steps that change it.

use std::collections::BTreeMap;

use harness::{ReportBuilder, code, code_frame, computation, profile, span, task_group, usage, uuid, worker};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

/// The start time of all schedulers in tests.
const STARTED_AT: i64 = 1_795_172_400;

/// Code that all schedulers run.
const SNIPPETS: [&str; 3] =
    ["def main():\n    load().compute()\n", "x.sum().compute()", "fit(model, data)  # ünïcode\n"];

/// The sampling times in milliseconds after the start, around the ends of the ten-minute chunks.
const MOMENTS: [i64; 10] =
    [0, 1, 14_999, 599_999, 600_000, 600_001, 615_000, 1_199_999, 1_200_000, 3_600_000];

/// Hours of two days and one that lies too far ahead, as hours since the midnight before the start.
const HOURS: [i64; 6] = [11, 12, 23, 24, 36, 48];

/// Minutes of two chunks, of the next hour, and one that lies too far ahead, since the start.
const MINUTES: [i64; 5] = [0, 9, 10, 60, 10_000];

/// A step on the scheduler between two reports.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Tasks are added to a task group.
    Tasks(u8, u8),
    /// A computation is added or uses another task group.
    Computation(u8, u8),
    /// A task errs, with an event and a log line.
    Error(u8),
    /// The size of the cluster changes.
    Threads(u8),
    /// A worker joins, reports its memory, or ends.
    Worker(u8, u8),
    /// A client connects or leaves.
    Client(u8),
    /// Samples of the cluster or a worker: the subject, the first time, and the number.
    Samples(u8, u8, u8),
    /// A span is added, continues or is done.
    Span(u8, bool),
    /// Fine metrics of a span, or without a span, grow.
    Metrics(u8, u8),
    /// Code is seen for the first time.
    Code(u8),
    /// A window of the profile ends.
    Profile(u8),
    /// A function uses resources in an hour.
    Usage(u8, u8, u8),
    /// A function, or one of the others, computes in a minute.
    Activity(u8, u8, u8),
    /// The reporter drops an item.
    Dropped(u8),
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..6_u8, 1..9_u8).prop_map(|(group, tasks)| Step::Tasks(group, tasks)),
        2 => (0..4_u8, 0..6_u8).prop_map(|(computation, group)| Step::Computation(computation, group)),
        3 => (0..5_u8).prop_map(Step::Error),
        1 => (1..99_u8).prop_map(Step::Threads),
        2 => (0..4_u8, 0..4_u8).prop_map(|(worker, what)| Step::Worker(worker, what)),
        1 => (0..3_u8).prop_map(Step::Client),
        3 => (0..3_u8, 0..10_u8, 1..4_u8).prop_map(|(whose, from, count)| Step::Samples(whose, from, count)),
        2 => (0..4_u8, any::<bool>()).prop_map(|(span, done)| Step::Span(span, done)),
        2 => (0..4_u8, 1..9_u8).prop_map(|(span, value)| Step::Metrics(span, value)),
        1 => (0..3_u8).prop_map(Step::Code),
        1 => (1..9_u8).prop_map(Step::Profile),
        3 => (0..6_u8, 0..3_u8, 1..9_u8).prop_map(|(hour, function, n)| Step::Usage(hour, function, n)),
        2 => (0..5_u8, 0..3_u8, 1..9_u8).prop_map(|(minute, function, n)| Step::Activity(minute, function, n)),
        1 => (0..3_u8).prop_map(Step::Dropped),
    ]
}

/// The steps before each of some reports.
pub(super) fn steps(reports: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Vec<Step>>> {
    vec(vec(step(), 0..6), reports)
}

/// Sections whose items the reporter discards after their acknowledgment.
const FORGOTTEN: [&str; 5] = ["errors", "samples", "events", "logs", "profiles"];

/// The data class of a section, as counted in the reporter's receipt.
fn class(section: &str) -> &'static str {
    match section {
        "task_groups" | "computations" | "spans" | "fine_metrics" | "function_activity" => "tasks",
        "errors" => "user_errors",
        "code" => "code",
        "profiles" => "profiles",
        "events" => "events",
        "logs" => "logs",
        _ => "basic",
    }
}

/// A scheduler as the reporter sees it: all known items, with the report in which each was last changed.
#[derive(Clone)]
pub(super) struct Scheduler {
    name: &'static str,
    cluster: Value,
    dropped: BTreeMap<&'static str, i64>,
    sections: BTreeMap<&'static str, BTreeMap<String, (i64, Value)>>,
}

impl Scheduler {
    pub(super) fn new(name: &'static str) -> Self {
        let mut cluster = ReportBuilder::new(name, 1).build()["cluster"].take();
        // A scheduler's peak never falls below what its hours need, so that none is cut later than at first.
        cluster["totals"]["peak_threads"] = json!(1_000);
        Self { name, cluster, dropped: BTreeMap::new(), sections: BTreeMap::new() }
    }

    /// The state of a mutable item, to be changed.
    fn state(
        &mut self,
        section: &'static str,
        key: &str,
        now: i64,
        first: impl FnOnce() -> Value,
    ) -> &mut Value {
        let known = self.sections.entry(section).or_default();
        let (changed, value) = known.entry(key.to_owned()).or_insert_with(|| (now, first()));
        *changed = now;
        value
    }

    /// Adds an immutable item unless it is known.
    fn fact(&mut self, section: &'static str, key: &str, now: i64, value: Value) {
        self.sections.entry(section).or_default().entry(key.to_owned()).or_insert((now, value));
    }

    /// The number of items that a section ever had.
    fn count(&self, section: &str) -> u32 {
        self.sections.get(section).map_or(0, |known| u32::try_from(known.len()).unwrap())
    }

    /// Applies steps before the report with the number `now`.
    pub(super) fn apply(&mut self, steps: &[Step], now: i64) {
        for step in steps {
            self.apply_one(step, now);
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each thing that may happen")]
    fn apply_one(&mut self, step: &Step, now: i64) {
        match *step {
            Step::Tasks(group, tasks) => {
                let id = 10 + u128::from(group);
                let known = self.state("task_groups", &uuid(id), now, || task_group(id, "load", 0));
                for field in ["/tasks", "/tasks_succeeded", "/states/memory", "/bytes", "/tasks_retried"] {
                    let (place, field) = field.rsplit_once('/').unwrap();
                    add(&mut known.pointer_mut(place).unwrap()[field], tasks.into());
                }
                known["span_id"] = json!(uuid(30 + u128::from(group % 4)));
                add(&mut self.cluster["totals"]["tasks"], tasks.into());
            }
            Step::Computation(number, group) => {
                let id = 1 + u128::from(number);
                let known = self.state("computations", &uuid(id), now, || computation(id, &[]));
                insert(&mut known["task_group_ids"], json!(uuid(10 + u128::from(group))));
                share(&mut known["task_group_shares"], &uuid(10 + u128::from(group)), number % 2 == 0);
                insert(&mut known["span_ids"], json!(uuid(30 + u128::from(group % 4))));
                known["code"] = json!([[code_frame(SNIPPETS[usize::from(number % 3)], 7, 1)]]);
            }
            Step::Error(group) => self.error(group, now),
            Step::Threads(threads) => {
                self.cluster["threads"] = json!(threads);
                let at = self.count("thread_history");
                let change = json!({ "at": STARTED_AT + i64::from(at), "threads": threads });
                self.fact("thread_history", &at.to_string(), now, change);
            }
            Step::Worker(number, what) => {
                let environment = self.environment(number, now);
                let id = 50 + u128::from(number);
                let known = self.state("workers", &uuid(id), now, || worker(id));
                known["environment_id"] = environment;
                if known["ended_at"].is_null() && what > 1 {
                    known["ended_at"] = json!(STARTED_AT + 500 + now);
                    known["end"] = json!(if what == 2 { "retired" } else { "lost" });
                    known["processing_keys"] = json!(["load-1", "load-2"]);
                    known["processing"] = json!(what);
                    known["processing_functions"] = json!({ "load": what });
                    known["lost_results"] = json!(number);
                    known["peak_memory_bytes"] = json!(1_000 * now);
                } else if known["ended_at"].is_null() {
                    known["last_memory_bytes"] = json!(1_000 * now);
                    known["last_seen_at"] = json!(STARTED_AT + now);
                }
            }
            Step::Client(number) => {
                let environment = self.environment(number, now);
                let name = format!("Client-{number}");
                let first =
                    || json!({ "id": name, "environment_id": environment, "connected_at": STARTED_AT });
                let known = self.state("clients", &name, now, first);
                known["disconnected_at"] = match known["disconnected_at"] {
                    Value::Null => json!(STARTED_AT + now),
                    _ => Value::Null,
                };
            }
            Step::Samples(whose, from, count) => {
                for moment in (from..from + count).filter_map(|n| MOMENTS.get(usize::from(n))) {
                    let worker = (whose > 0).then(|| 50 + u128::from(whose));
                    let sample = harness::sample(
                        worker,
                        *moment,
                        json!({ "cpu_cores": 0.37 * f64::from(whose + count), "tasks_memory": moment }),
                    );
                    self.fact("samples", &format!("{whose} {moment}"), now, sample);
                }
            }
            Step::Span(number, done) => {
                let id = 30 + u128::from(number);
                let parent = (number > 1).then_some(30);
                let first = || span(id, parent, &["etl", "load"], f64::from(number), None);
                let known = self.state("spans", &uuid(id), now, first);
                known["done"] = json!(done);
                known["stopped_at"] = if done { json!(STARTED_AT + 20 + now) } else { Value::Null };
                insert(&mut known["collections"], json!(format!("Array {}", now % 3)));
                known["code"] = json!([[code_frame(SNIPPETS[usize::from(number % 3)], 12, 1)]]);
            }
            Step::Metrics(number, value) => {
                let span = (number > 0).then(|| uuid(30 + u128::from(number)));
                let first = || json!({ "span_id": span, "cells": [] });
                let known = self.state("fine_metrics", &format!("{number}"), now, first);
                let cells = known["cells"].as_array_mut().unwrap();
                if cells.is_empty() || value == 8 {
                    cells.push(json!(["execute", "load", format!("action {now}"), "seconds", 0.25]));
                }
                add(&mut cells[0][4], value.into());
            }
            Step::Code(number) => {
                let text = SNIPPETS[usize::from(number)];
                self.fact("code", text, now, code(text));
            }
            Step::Profile(samples) => {
                let number = self.count("profiles");
                let frames = json!([
                    { "file": "etl.py", "function": "load", "line": 5, "text": "read()" },
                    { "file": "etl.py", "function": "main", "line": 1 },
                ]);
                let nodes = json!([[-1, 1, 1, samples + 1], [0, 0, samples, samples]]);
                let window = 10.0 * f64::from(number);
                let window =
                    profile(70 + u128::from(number), window, i64::from(samples) + 1, &frames, &nodes);
                self.fact("profiles", &number.to_string(), now, window);
            }
            Step::Usage(hour, function, amount) => {
                self.usage(HOURS[usize::from(hour)], function, amount, now);
            }
            Step::Activity(minute, function, amount) => {
                self.activity(STARTED_AT / 60 + MINUTES[usize::from(minute)], function, amount, now);
            }
            Step::Dropped(what) => {
                let section = ["samples", "logs", "events"][usize::from(what)];
                *self.dropped.entry(section).or_default() += 1;
            }
        }
    }

    fn error(&mut self, group: u8, now: i64) {
        let n = self.count("errors");
        let mut error = harness::error(100 + u128::from(n), 10 + u128::from(group), 1);
        // The first or last report need not contain the first or last error of a group.
        error["at"] = json!(STARTED_AT + i64::from(7 * n % 5));
        let message = format!("division number {n} by zero");
        error["message"] = json!(if group < 2 { format!("ZeroDivisionError('{message}')") } else { message });
        error["origin"] = json!(if group == 4 { "dask" } else { "user" });
        error["type"] =
            json!([Some("ZeroDivisionError"), Some("ValueError"), Some(""), None][usize::from(group % 4)]);
        error["retries"] = json!(n % 3);
        error["span_id"] = json!(uuid(30));
        error["worker_id"] = json!(uuid(50));
        let traceback = "  File \"x.py\", line 1, in divide\n    return 1 / secret\nValueError";
        error["traceback"] = json!(traceback);
        self.fact("errors", &n.to_string(), now, error);
        let mut event = harness::event(n, "mine", json!({ "number": n, "said": traceback }));
        event["worker_id"] = json!(uuid(50));
        self.fact("events", &n.to_string(), now, event);
        let mut line = harness::log_line(n, &format!("error {n}\n{traceback}"));
        line["repeated"] = json!(1 + n);
        self.fact("logs", &n.to_string(), now, line);
        add(&mut self.cluster["totals"]["errors"], 1);
    }

    /// The environment of a process, which may be the scheduler's own.
    fn environment(&mut self, process: u8, now: i64) -> Value {
        for number in [0, process % 2] {
            let id = uuid(90 + u128::from(number));
            let packages = json!({ "dask": "2026.11.0", "numpy": null, "odd": number.to_string() });
            let environment = json!({ "id": id, "python": "3.13.1", "os": "Linux", "packages": packages });
            self.fact("environments", &id, now, environment);
        }
        self.cluster["environment_id"] = json!(uuid(90));
        json!(uuid(90 + u128::from(process % 2)))
    }

    fn usage(&mut self, hour: i64, function: u8, amount: u8, now: i64) {
        let known = self.state("usage", &hour.to_string(), now, || {
            let mut first = usage(hour, 1);
            first["functions"] = json!([]);
            // Of some hours there is more compute time than thread time, as of tasks that began before.
            if hour % 3 == 0 {
                first["compute_seconds"] = json!(9_000);
            }
            // For some hours Dask does not report how the time was spent.
            if hour % 2 == 0 {
                first
                    .as_object_mut()
                    .unwrap()
                    .retain(|field, _| field != "cpu_seconds" && field != "idle_seconds");
            }
            first
        });
        for field in ["thread_seconds", "compute_seconds", "tasks", "spilled_bytes"] {
            add(&mut known[field], amount.into());
        }
        let function = of_function(
            known,
            function,
            || json!({ "compute_seconds": 0.1, "transfer_seconds": 0.0, "tasks": 0, "tasks_erred": 1, "bytes": 5 }),
        );
        for field in ["compute_seconds", "tasks"] {
            add(&mut function[field], amount.into());
        }
    }

    fn activity(&mut self, minute: i64, function: u8, amount: u8, now: i64) {
        let first = || json!({ "minute": minute, "functions": [] });
        let known = self.state("function_activity", &minute.to_string(), now, first);
        let seconds = if function == 2 {
            let others = &mut known["other_compute_seconds"];
            if others.is_null() {
                *others = json!([0, 0, 0, 0]);
            }
            others
        } else {
            let first = || json!({ "compute_seconds": [0.25, 0, 0, 0] });
            &mut of_function(known, function, first)["compute_seconds"]
        };
        add(&mut seconds[usize::from(amount % 4)], amount.into());
    }

    /// A report with everything changed since `base`, in its present state.
    pub(super) fn report(&self, sequence: i64, base: i64) -> Value {
        self.report_after(sequence, base, base)
    }

    /// A report with everything changed since `base`, in its present state, but for discarded sections
    /// only the items after `acknowledged`.
    pub(super) fn report_after(&self, sequence: i64, base: i64, acknowledged: i64) -> Value {
        let mut report = ReportBuilder::new(self.name, sequence)
            .with("/base", Some(base).filter(|base| *base > 0))
            .with("/cluster", self.cluster.clone())
            .with("/dropped", json!(self.dropped));
        let mut receipt: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (section, known) in &self.sections {
            let since = if FORGOTTEN.contains(section) { acknowledged } else { base };
            let new = known.values().filter(|(changed, _)| *changed > since).map(|(_, value)| value.clone());
            report = report.with(&format!("/{section}"), new.collect::<Vec<_>>());
            let (sent, bytes) = receipt.entry(class(section)).or_default();
            *sent += known.len();
            *bytes += 10 * known.len();
        }
        let receipt = receipt.into_iter().map(|(class, (sent, bytes))| {
            (class.to_owned(), json!({ "sent": sent, "bytes": bytes, "withheld": 1 }))
        });
        report.with("/receipt", Value::Object(receipt.collect())).build()
    }
}

/// Adds to a number that may be absent.
fn add(number: &mut Value, amount: i64) {
    *number = match (number.as_i64(), number.as_f64()) {
        (None, Some(known)) => json!(known + f64::from(i32::try_from(amount).unwrap())),
        (known, _) => json!(known.unwrap_or(0) + amount),
    };
}

/// The item of a function in the list of an hour or a minute, which is added if it is missing.
fn of_function(known: &mut Value, function: u8, first: impl FnOnce() -> Value) -> &mut Value {
    let prefix = json!(format!("function {function}"));
    let functions = known["functions"].as_array_mut().unwrap();
    let place = functions.iter().position(|known| known["prefix"] == prefix).unwrap_or_else(|| {
        let mut function = first();
        function["prefix"] = prefix;
        functions.push(function);
        functions.len() - 1
    });
    &mut functions[place]
}

/// Counts one more task of a computation in a group that it shares with others.
fn share(shares: &mut Value, group: &str, joint: bool) {
    if shares.is_null() {
        *shares = json!([]);
    }
    let shares = shares.as_array_mut().unwrap();
    let place = shares.iter().position(|share| share["task_group_id"] == group).unwrap_or_else(|| {
        shares.push(json!({
            "task_group_id": group, "joint": joint, "states": { "memory": 0 }, "tasks": 0,
            "tasks_succeeded": 0, "tasks_erred": 0, "tasks_retried": 0,
            "durations": { "compute": 0.5 }, "bytes": 7,
        }));
        shares.len() - 1
    });
    for field in ["tasks", "tasks_succeeded"] {
        add(&mut shares[place][field], 1.into());
    }
    add(&mut shares[place]["states"]["memory"], 1.into());
}

/// Adds an item to a list that may be absent, unless it is in it.
fn insert(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    let list = list.as_array_mut().unwrap();
    if !list.contains(&item) {
        list.push(item);
    }
}
