//! One report of one scheduler, as sent by the plugin: version 1 of the wire format.
//!
//! Every value is cumulative or current, never an increment. A row remembers the sequence of the report it
//! was last written from and only a higher one overwrites it; errors and links are only ever added. So
//! repeats, gaps and reordering end in the same rows, and a lost report needs no repair.

use std::collections::BTreeMap;

use entity::cluster::DesiredState;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use utoipa::ToSchema;

use super::bounded::{Count, Digest, List, Misplaced, Seconds, Text, UnixTime};

pub mod cluster;
pub mod code;
pub mod computation;
pub mod environment;
pub mod error;
pub mod event;
pub mod profile;
pub mod receipt;
pub mod sample;
pub mod span;
pub mod task_group;
pub mod usage;
pub mod worker;

pub use cluster::{ClusterReport, Totals};
pub use code::{CodeFrame, CodeReport, CodeStacks};
pub use computation::{ComputationReport, ComputationState};
pub use environment::EnvironmentReport;
pub use error::{ErrorOrigin, ErrorReport};
pub use event::{EventReport, LogReport};
pub use profile::{ProfileFrame, ProfileNode, ProfileReport};
pub use receipt::{Class, ClassReceipt, Receipt};
pub use sample::SampleReport;
pub use span::{FineMetricCell, FineMetricsReport, SpanReport};
pub use task_group::{Durations, States, TaskGroupReport};
pub use usage::{FunctionUsageReport, UsageReport};
pub use worker::{ClientReport, ThreadChange, WorkerReport};

/// A report: what a scheduler has to say since the last report that was acknowledged.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Report {
    /// The version of this format: 1.
    #[schema(value_type = u32, minimum = 1, maximum = 1)]
    pub version: Version,
    /// Slug of the account the reporter believes to report to; absent means the token's own.
    #[serde(default)]
    pub account: Option<Text<63>>,
    /// Dask's `Scheduler.id`, new for every scheduler process: the cluster's identity.
    pub scheduler_id: Text<256>,
    /// Grows with every report a scheduler makes, also over replaced plugins.
    pub sequence: Count,
    /// The highest sequence the reporter has seen acknowledged: the report holds what changed since.
    #[serde(default)]
    pub base: Option<Count>,
    /// The scheduler's clock when the report was made.
    pub sent_at: UnixTime,
    /// How long the reporter means to wait before its next report.
    pub interval_seconds: Seconds,
    /// Whether this is the last report: the scheduler closes.
    #[serde(default, rename = "final")]
    pub is_final: bool,
    /// The cluster as a whole, always complete.
    pub cluster: ClusterReport,
    /// Computations that changed.
    #[serde(default)]
    #[schema(value_type = Vec<ComputationReport>, max_items = 1_000)]
    pub computations: List<ComputationReport, 1_000>,
    /// Task groups that changed.
    #[serde(default)]
    #[schema(value_type = Vec<TaskGroupReport>, max_items = 5_000)]
    pub task_groups: List<TaskGroupReport, 5_000>,
    /// Errors that happened.
    #[serde(default)]
    #[schema(value_type = Vec<ErrorReport>, max_items = 500)]
    pub errors: List<ErrorReport, 500>,
    /// What processes run on, each said once.
    #[serde(default)]
    #[schema(value_type = Vec<EnvironmentReport>, max_items = 100)]
    pub environments: List<EnvironmentReport, 100>,
    /// Workers that changed.
    #[serde(default)]
    #[schema(value_type = Vec<WorkerReport>, max_items = 2_000)]
    pub workers: List<WorkerReport, 2_000>,
    /// Clients that came or went.
    #[serde(default)]
    #[schema(value_type = Vec<ClientReport>, max_items = 1_000)]
    pub clients: List<ClientReport, 1_000>,
    /// Changes of the cluster's size, each said once.
    #[serde(default)]
    #[schema(value_type = Vec<ThreadChange>, max_items = 10_000)]
    pub thread_history: List<ThreadChange, 10_000>,
    /// Measurements, each said once.
    #[serde(default)]
    #[schema(value_type = Vec<SampleReport>, max_items = 20_000)]
    pub samples: List<SampleReport, 20_000>,
    /// Spans that changed.
    #[serde(default)]
    #[schema(value_type = Vec<SpanReport>, max_items = 2_000)]
    pub spans: List<SpanReport, 2_000>,
    /// Fine performance metrics of spans for which any changed.
    #[serde(default)]
    #[schema(value_type = Vec<FineMetricsReport>, max_items = 2_000)]
    pub fine_metrics: List<FineMetricsReport, 2_000>,
    /// Snippets of code, each said once.
    #[serde(default)]
    #[schema(value_type = Vec<CodeReport>, max_items = 200)]
    pub code: List<CodeReport, 200>,
    /// Windows of the statistical profile.
    #[serde(default)]
    #[schema(value_type = Vec<ProfileReport>, max_items = 20)]
    pub profiles: List<ProfileReport, 20>,
    /// Events that happened.
    #[serde(default)]
    #[schema(value_type = Vec<EventReport>, max_items = 2_000)]
    pub events: List<EventReport, 2_000>,
    /// Log lines that were written.
    #[serde(default)]
    #[schema(value_type = Vec<LogReport>, max_items = 5_000)]
    pub logs: List<LogReport, 5_000>,
    /// Hours whose usage changed.
    #[serde(default)]
    #[schema(value_type = Vec<UsageReport>, max_items = 100)]
    pub usage: List<UsageReport, 100>,
    /// What was sent and what was kept back, by class of data.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, ClassReceipt>)]
    pub receipt: Receipt,
    /// What the reporter gave up because of its own bounds.
    #[serde(default)]
    pub dropped: Dropped,
}

impl Report {
    /// The code its computations and spans name.
    pub fn code_hashes(&self) -> impl Iterator<Item = &Digest> {
        let computations = self.computations.iter().map(|computation| &computation.code);
        let stacks = computations.chain(self.spans.iter().map(|span| &span.code));
        stacks.flat_map(|stacks| stacks.iter()).flat_map(|stack| stack.iter()).map(|frame| &frame.hash)
    }

    /// When the cluster closed, if this is the last report: when it was sent, unless it says.
    #[must_use]
    pub fn closed_at(&self) -> Option<UnixTime> {
        self.is_final.then(|| self.cluster.closed_at.unwrap_or(self.sent_at))
    }

    /// How many task groups its computations name together.
    #[must_use]
    pub fn links(&self) -> usize {
        self.computations.iter().map(|computation| computation.task_group_ids.len()).sum()
    }

    /// Checks what the types cannot: values that have to fit each other.
    ///
    /// # Errors
    /// The first value that does not.
    pub fn check(&self) -> Result<(), Misplaced> {
        for (index, code) in self.code.iter().enumerate() {
            code.check().map_err(|wrong| wrong.within("code", index))?;
        }
        for (index, profile) in self.profiles.iter().enumerate() {
            super::profile::check(profile).map_err(|wrong| wrong.within("profiles", index))?;
        }
        Ok(())
    }
}

impl Report {
    /// When the oldest of its events, errors and log lines happened, in milliseconds since 1970; none if it has none.
    #[must_use]
    pub fn oldest(&self) -> Option<i64> {
        let events = self.events.iter().map(|event| event.at);
        let errors = self.errors.iter().map(|error| error.at);
        let logs = self.logs.iter().map(|line| line.at);
        events.chain(errors).chain(logs).map(|at| at.timestamp().timestamp_millis()).min()
    }
}

/// The version of the wire format.
#[derive(Clone, Copy, Debug)]
pub struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            1 => Ok(Self),
            other => Err(D::Error::custom(format_args!("version {other} is not supported, only 1 is"))),
        }
    }
}

/// How many items the reporter gave up because of its own bounds, over its life.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub struct Dropped {
    /// Computations.
    pub computations: Count,
    /// Task groups.
    pub task_groups: Count,
    /// Errors.
    pub errors: Count,
    /// Environments.
    pub environments: Count,
    /// Workers.
    pub workers: Count,
    /// Clients.
    pub clients: Count,
    /// Changes of size.
    pub thread_history: Count,
    /// Samples.
    pub samples: Count,
    /// Spans.
    pub spans: Count,
    /// Spans' fine metrics.
    pub fine_metrics: Count,
    /// Snippets of code.
    pub code: Count,
    /// Windows of the profile.
    pub profiles: Count,
    /// Events.
    pub events: Count,
    /// Log lines.
    pub logs: Count,
    /// Hours of usage.
    pub usage: Count,
}

impl Dropped {
    /// The counts by section, without those that are 0.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, i64> {
        let counts = [
            ("computations", self.computations),
            ("task_groups", self.task_groups),
            ("errors", self.errors),
            ("environments", self.environments),
            ("workers", self.workers),
            ("clients", self.clients),
            ("thread_history", self.thread_history),
            ("samples", self.samples),
            ("spans", self.spans),
            ("fine_metrics", self.fine_metrics),
            ("code", self.code),
            ("profiles", self.profiles),
            ("events", self.events),
            ("logs", self.logs),
            ("usage", self.usage),
        ];
        let some = counts.into_iter().filter(|(_, count)| count.get() > 0);
        some.map(|(section, count)| (section.to_owned(), count.get())).collect()
    }
}

/// The answer to a report that is stored: what was taken, and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Acknowledgement {
    /// The sequence of the report this answers.
    pub acknowledged: i64,
    /// The cluster's identifier, an integer below 2^53.
    pub cluster_id: i64,
    /// Seconds to wait before the next report.
    pub interval_seconds: f64,
    /// What the account wants of the cluster.
    pub desired_state: Directive,
    /// Who wants it stopped, and why: what the final report is to give as its reason; null unless it is to stop.
    pub stop_reason: Option<String>,
    /// Whether it is to stop only if it still has no work when it does.
    pub stop_only_if_idle: bool,
    /// For how many seconds somebody wants it kept, however long it is idle; 0 if nobody does.
    pub keep_alive_seconds: f64,
    /// The server lacks what `base` claims (a new or restored store): send everything still known again.
    pub resend: bool,
    /// The classes of data the account accepts; others need not be sent and are not stored.
    pub accepts: Vec<Class>,
}

/// What the account wants of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Directive {
    /// Carry on.
    Running,
    /// Close the scheduler.
    Stopped,
}

impl From<DesiredState> for Directive {
    fn from(state: DesiredState) -> Self {
        match state {
            DesiredState::Running => Self::Running,
            DesiredState::Stopped => Self::Stopped,
        }
    }
}
