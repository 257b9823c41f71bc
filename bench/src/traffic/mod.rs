//! Reports as the plugin sends them, of simulated clusters.
//!
//! A cluster has its own clock, so a day takes only as long as writing its reports. The same seed gives
//! the same reports. In addition to its text, a report lists the rows a server has to write for it, so
//! that the reference can write the same rows.

mod activity;
mod moments;
mod sections;

use std::{collections::BTreeMap, io::Write as _};

use flate2::{Compression, write::GzEncoder};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use activity::{Computation, Schedule, Span};

/// The activity rates of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// The interval between two reports.
    pub(crate) interval_seconds: f64,
    pub(crate) computations_per_hour: f64,
    pub(crate) task_groups_per_computation: usize,
    pub(crate) spans_per_hour: f64,
    pub(crate) cells_per_span: usize,
    pub(crate) events_per_hour: f64,
    pub(crate) logs_per_hour: f64,
    pub(crate) profile_seconds: f64,
    pub(crate) profile_nodes: usize,
    pub(crate) errors_per_day: f64,
    pub(crate) workers: usize,
    /// True if each worker is sampled, and not only the cluster as a whole.
    pub(crate) worker_samples: bool,
}

/// The rates of a usual cluster that is up all day.
pub(crate) const USUAL: Rates = Rates {
    interval_seconds: 15.0,
    computations_per_hour: 10.0,
    task_groups_per_computation: 6,
    spans_per_hour: 15.0,
    cells_per_span: 20,
    events_per_hour: 80.0,
    logs_per_hour: 4.0,
    profile_seconds: 600.0,
    profile_nodes: 374,
    errors_per_day: 5.0,
    workers: 4,
    worker_samples: true,
};

/// A row that a report touches: its table, and its key without account and cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Touched {
    pub(crate) table: &'static str,
    pub(crate) key: String,
}

/// A report of a scheduler.
#[derive(Debug)]
pub(crate) struct Report {
    /// The number of the cluster.
    pub(crate) cluster: usize,
    pub(crate) sequence: i64,
    /// The JSON, compressed as the plugin does it.
    pub(crate) body: Vec<u8>,
    pub(crate) touched: Vec<Touched>,
    /// The part of the current chunk of samples that has been written so far.
    pub(crate) chunk_share: f64,
}

/// A simulated scheduler.
pub(crate) struct Cluster {
    number: usize,
    rates: Rates,
    random: StdRng,
    /// The time of the cluster's own clock, in epoch milliseconds.
    now: i64,
    started_at: i64,
    sequence: i64,
    environment: Value,
    workers: Vec<Uuid>,
    prefixes: Vec<String>,
    snippets: Vec<sections::Snippet>,
    computations: Vec<Computation>,
    spans: Vec<Span>,
    /// The values of [`sections::SPANLESS_METRICS`].
    spanless_metrics: Vec<f64>,
    hour: BTreeMap<usize, [f64; 5]>,
    totals: [f64; 6],
    computations_schedule: Schedule,
    spans_schedule: Schedule,
    events_schedule: Schedule,
    logs_schedule: Schedule,
    profiles_schedule: Schedule,
    errors_schedule: Schedule,
    receipt: BTreeMap<&'static str, [usize; 2]>,
}

impl Cluster {
    /// Returns a cluster whose scheduler starts at this time. If `skewed`, the activity of clusters
    /// varies widely.
    pub(crate) fn new(seed: u64, number: usize, started_at: i64, rates: Rates, skewed: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let started_at = started_at + random.random_range(0..15_000);
        // A long-tailed distribution: half of the clusters do less than half of the mean, and one in
        // fifty does five times the mean.
        let share: f64 = random.random_range(0.0..1.0);
        let activity_factor = if skewed { (0.35 / (1.0 - 0.98 * share)).powf(0.8) } else { 1.0 };
        let mut schedule = |per_hour: f64| Schedule::new(per_hour, started_at, &mut random);
        let (computations_schedule, spans_schedule) = (
            schedule(activity_factor * rates.computations_per_hour),
            schedule(activity_factor * rates.spans_per_hour),
        );
        let (events_schedule, logs_schedule) = (
            schedule(activity_factor * rates.events_per_hour),
            schedule(activity_factor * rates.logs_per_hour),
        );
        let profiles_schedule = schedule(3600.0 / rates.profile_seconds);
        let errors_schedule = schedule(rates.errors_per_day / 24.0);
        let workers = (0..rates.workers).map(|_| sections::random_uuid(&mut random)).collect();
        let prefixes = sections::prefixes(&mut random);
        let snippets = sections::snippets(&mut random);
        let environment = sections::environment(&mut random);
        Self {
            number,
            rates,
            random,
            now: started_at,
            started_at,
            sequence: started_at,
            environment,
            workers,
            prefixes,
            snippets,
            computations: Vec::new(),
            spans: Vec::new(),
            spanless_metrics: vec![0.0; sections::SPANLESS_METRICS.len()],
            hour: BTreeMap::new(),
            totals: [0.0; 6],
            computations_schedule,
            spans_schedule,
            events_schedule,
            logs_schedule,
            profiles_schedule,
            errors_schedule,
            receipt: BTreeMap::new(),
        }
    }

    /// Returns the scheduler ID the cluster reports under.
    pub(crate) fn scheduler_id(seed: u64, number: usize) -> String {
        format!("Scheduler-{}", Uuid::from_u128(u128::from(seed) << 64 | number as u128))
    }

    /// Advances the clock by one interval and returns the report.
    pub(crate) fn next_report(&mut self, seed: u64) -> Report {
        let is_first = self.now == self.started_at;
        let hour_before = self.hour_number();
        #[expect(clippy::cast_possible_truncation, reason = "an interval is short")]
        let interval = (1e3 * self.rates.interval_seconds) as i64;
        self.now += interval + self.random.random_range(-20..20);
        if self.hour_number() != hour_before {
            self.hour.clear();
        }
        self.sequence += 1;
        let mut touched = Vec::new();
        let mut sections = Map::new();
        let mut add_section = |name: &'static str, items: Vec<Value>| {
            if !items.is_empty() {
                sections.insert(name.to_owned(), Value::Array(items));
            }
        };
        if is_first {
            add_section("environments", self.environments(&mut touched));
            add_section("workers", self.all_workers(&mut touched));
            add_section("clients", self.clients(&mut touched));
            add_section("thread_history", self.thread_history(&mut touched));
            add_section("code", self.code(&mut touched));
        }
        add_section("spans", self.live_spans(&mut touched));
        add_section("fine_metrics", self.fine_metrics(&mut touched));
        add_section("task_groups", self.task_groups(&mut touched));
        add_section("computations", self.live_computations(&mut touched));
        add_section("errors", self.errors(&mut touched));
        add_section("samples", self.samples(&mut touched));
        add_section("events", self.events(&mut touched));
        add_section("logs", self.logs(&mut touched));
        add_section("profiles", self.profiles(&mut touched));
        add_section("usage", self.usage(&mut touched));
        self.remove_finished();
        let receipt = self.count(&sections, &mut touched);
        touched.push(Touched { table: "clusters", key: String::new() });
        touched.sort();
        let mut report = json!({
            "version": 1,
            "account": null,
            "scheduler_id": Self::scheduler_id(seed, self.number),
            "sequence": self.sequence,
            "base": (!is_first).then(|| self.sequence - 1),
            "sent_at": seconds(self.now),
            "interval_seconds": self.rates.interval_seconds,
            "final": false,
            "cluster": self.describe(),
            "receipt": receipt,
            "dropped": {},
        });
        for name in ["computations", "task_groups", "errors"] {
            report[name] = json!([]);
        }
        if let Value::Object(report) = &mut report {
            report.append(&mut sections);
        }
        #[expect(clippy::cast_precision_loss, reason = "ten minutes are far below 2^53 milliseconds")]
        let chunk_share = (self.now.rem_euclid(600_000) as f64 + 1.0) / 600_000.0;
        Report {
            cluster: self.number,
            sequence: self.sequence,
            body: compress(&report.to_string()),
            touched,
            chunk_share,
        }
    }

    fn hour_number(&self) -> i64 {
        self.now / 3_600_000
    }
}

/// Converts milliseconds to seconds, as in reports.
pub(crate) fn seconds(milliseconds: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "times of this millennium are exact")]
    let exact = milliseconds as f64;
    exact / 1e3
}

pub(crate) fn compress(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).expect("a vector takes all bytes")
}
