//! A report of one scheduler, as sent by the plugin: version 1 of the wire format.
//!
//! Every value is cumulative or current, never an increment. A row stores the sequence of the report that
//! wrote it last, and only a higher sequence overwrites it. Errors and links are only added. So repeated,
//! missing and reordered reports lead to the same rows, and a lost report needs no repair.

use std::collections::BTreeMap;

use entity::cluster::DesiredState;
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use utoipa::ToSchema;

use super::{
    quota::QuotaUse,
    validated::{Count, Digest, List, LocatedError, Seconds, Text, UnixTime},
};

pub mod cluster;
pub mod code;
pub mod computation;
pub mod environment;
pub mod error;
pub mod event;
pub mod function_activity;
pub mod plausible;
pub mod profile;
pub mod receipt;
pub mod sample;
pub mod span;
pub mod task_group;
pub mod usage;
pub mod worker;

pub use cluster::{ClusterReport, Totals};
pub use code::{CodeFrame, CodeReport, CodeStacks};
pub use computation::{ComputationReport, ComputationShareReport, ComputationState};
pub use environment::EnvironmentReport;
pub use error::{ErrorOrigin, ErrorReport, SourceExcerpt};
pub use event::{EventReport, LogReport};
pub use function_activity::{ActiveFunctionReport, FunctionActivityReport};
pub use profile::{ProfileFrame, ProfileNode, ProfileReport};
pub use receipt::{Class, ClassReceipt, Receipt};
pub use sample::SampleReport;
pub use span::{FineMetricCell, FineMetricsReport, SpanReport};
pub use task_group::{Durations, States, TaskGroupReport};
pub use usage::{FunctionUsageReport, UsageReport};
pub use worker::{ClientReport, ThreadChange, WorkerReport};

/// A report: the changes of a scheduler's state since the last acknowledged report.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct Report {
    /// The version of this format: 1.
    #[schema(value_type = u32, minimum = 1, maximum = 1)]
    pub version: Version,
    /// The slug of the account to which the reporter intends to report. Absent for the account of the
    /// token.
    #[serde(default)]
    pub account: Option<Text<63>>,
    /// Dask's `Scheduler.id`, which identifies the cluster. Every scheduler process has a new one.
    pub scheduler_id: Text<256>,
    /// A number that grows with every report of a scheduler, even if its plugin is replaced.
    pub sequence: Count,
    /// The highest sequence that the reporter knows to be acknowledged. The report contains the changes
    /// since then.
    #[serde(default)]
    pub base: Option<Count>,
    /// The time at which the report was made, by the scheduler's clock.
    pub sent_at: UnixTime,
    /// The intended time until the next report.
    pub interval_seconds: Seconds,
    /// True if this is the last report, because the scheduler closes.
    #[serde(default, rename = "final")]
    pub is_final: bool,
    /// The cluster as a whole. Always complete.
    pub cluster: ClusterReport,
    /// Computations that changed.
    #[serde(default)]
    #[schema(value_type = Vec<ComputationReport>, max_items = 1_000)]
    pub computations: List<ComputationReport, 1_000>,
    /// Task groups that changed.
    #[serde(default)]
    #[schema(value_type = Vec<TaskGroupReport>, max_items = 5_000)]
    pub task_groups: List<TaskGroupReport, 5_000>,
    /// New errors.
    #[serde(default)]
    #[schema(value_type = Vec<ErrorReport>, max_items = 500)]
    pub errors: List<ErrorReport, 500>,
    /// The software environments of processes. Each is sent once.
    #[serde(default)]
    #[schema(value_type = Vec<EnvironmentReport>, max_items = 100)]
    pub environments: List<EnvironmentReport, 100>,
    /// Workers that changed.
    #[serde(default)]
    #[schema(value_type = Vec<WorkerReport>, max_items = 2_000)]
    pub workers: List<WorkerReport, 2_000>,
    /// Clients that connected or disconnected.
    #[serde(default)]
    #[schema(value_type = Vec<ClientReport>, max_items = 1_000)]
    pub clients: List<ClientReport, 1_000>,
    /// Changes of the cluster's size. Each is sent once.
    #[serde(default)]
    #[schema(value_type = Vec<ThreadChange>, max_items = 10_000)]
    pub thread_history: List<ThreadChange, 10_000>,
    /// Measurements. Each is sent once.
    #[serde(default)]
    #[schema(value_type = Vec<SampleReport>, max_items = 20_000)]
    pub samples: List<SampleReport, 20_000>,
    /// Spans that changed.
    #[serde(default)]
    #[schema(value_type = Vec<SpanReport>, max_items = 2_000)]
    pub spans: List<SpanReport, 2_000>,
    /// The fine performance metrics of the spans for which any changed.
    #[serde(default)]
    #[schema(value_type = Vec<FineMetricsReport>, max_items = 2_000)]
    pub fine_metrics: List<FineMetricsReport, 2_000>,
    /// Snippets of code. Each is sent once.
    #[serde(default)]
    #[schema(value_type = Vec<CodeReport>, max_items = 200)]
    pub code: List<CodeReport, 200>,
    /// Windows of the statistical profile.
    #[serde(default)]
    #[schema(value_type = Vec<ProfileReport>, max_items = 20)]
    pub profiles: List<ProfileReport, 20>,
    /// New events.
    #[serde(default)]
    #[schema(value_type = Vec<EventReport>, max_items = 2_000)]
    pub events: List<EventReport, 2_000>,
    /// New log lines.
    #[serde(default)]
    #[schema(value_type = Vec<LogReport>, max_items = 5_000)]
    pub logs: List<LogReport, 5_000>,
    /// Hours whose usage changed.
    #[serde(default)]
    #[schema(value_type = Vec<UsageReport>, max_items = 100)]
    pub usage: List<UsageReport, 100>,
    /// Minutes in which the compute time of functions changed.
    #[serde(default)]
    #[schema(value_type = Vec<FunctionActivityReport>, max_items = 500)]
    pub function_activity: List<FunctionActivityReport, 500>,
    /// The numbers of sent and withheld items, by data class.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, ClassReceipt>)]
    pub receipt: Receipt,
    /// The numbers of items that the reporter discarded because of its own limits.
    #[serde(default)]
    pub dropped: Dropped,
    /// The places with implausible values, which were clamped.
    #[serde(skip)]
    pub clamped: plausible::ClampedPlaces,
}

impl Report {
    /// Iterates over the hashes of the code that its computations and spans refer to.
    pub fn code_hashes(&self) -> impl Iterator<Item = &Digest> {
        let computations = self.computations.iter().map(|computation| &computation.code);
        let stacks = computations.chain(self.spans.iter().map(|span| &span.code));
        stacks.flat_map(|stacks| stacks.iter()).flat_map(|stack| stack.iter()).map(|frame| &frame.hash)
    }

    /// Returns the time at which the cluster closed, if this is the last report. It defaults to the
    /// report's own time.
    #[must_use]
    pub fn closed_at(&self) -> Option<UnixTime> {
        self.is_final.then(|| self.cluster.closed_at.unwrap_or(self.sent_at))
    }

    /// Returns the number of rows that its items have besides their own: references from computations to
    /// task groups, with their shares, and functions of hours.
    #[must_use]
    pub fn count_nested_rows(&self) -> usize {
        let count_references = |computation: &ComputationReport| {
            computation.task_group_ids.len() + computation.task_group_shares.len()
        };
        let computations: usize = self.computations.iter().map(count_references).sum();
        computations + self.usage.iter().map(|hour| hour.functions.len()).sum::<usize>()
    }

    /// Returns the number of its fine metrics.
    #[must_use]
    pub fn count_fine_metrics(&self) -> usize {
        self.fine_metrics.iter().map(|metrics| metrics.cells.len()).sum()
    }

    /// Checks the constraints between values, which the types cannot express.
    ///
    /// # Errors
    /// Returns the first value that violates a constraint.
    pub fn check(&self) -> Result<(), LocatedError> {
        for (index, code) in self.code.iter().enumerate() {
            code.check().map_err(|error| error.within("code", index))?;
        }
        for (index, profile) in self.profiles.iter().enumerate() {
            super::profile::check(profile).map_err(|error| error.within("profiles", index))?;
        }
        Ok(())
    }
}

impl Report {
    /// Returns the time of the oldest event, error or log line, in milliseconds since 1970. Returns
    /// `None` if there are none.
    #[must_use]
    pub fn oldest_item_ms(&self) -> Option<i64> {
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

/// The numbers of items that the reporter discarded because of its own limits, over its lifetime.
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
    /// Changes of the cluster's size.
    pub thread_history: Count,
    /// Samples.
    pub samples: Count,
    /// Spans.
    pub spans: Count,
    /// Sets of fine performance metrics of a span.
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
    /// Minutes of the functions' compute time.
    pub function_activity: Count,
}

impl Dropped {
    /// Returns the counts by section, without zeros.
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
            ("function_activity", self.function_activity),
        ];
        let nonzero = counts.into_iter().filter(|(_, count)| count.get() > 0);
        nonzero.map(|(section, count)| (section.to_owned(), count.get())).collect()
    }
}

/// The response to a stored report: the accepted sequence and directives for the reporter.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Acknowledgement {
    /// The sequence of the acknowledged report. If the report is `stale`, the sequence of a newer one.
    pub acknowledged: i64,
    /// The cluster's number, which counts up from 1 in each account.
    pub cluster_id: i64,
    /// The path of the cluster's page for browsers, to be appended to the server's URL.
    pub path: String,
    /// The URL of the cluster's page for browsers. Absent unless the server's public URL is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The time to wait before the next report, in seconds.
    pub interval_seconds: f64,
    /// The state that the account requests for the cluster.
    pub desired_state: Directive,
    /// The author and the reason of the requested stop. The final report returns it as its close reason.
    /// Null unless the cluster is to stop.
    pub stop_reason: Option<String>,
    /// True if the cluster is to stop only if it is still idle at that time.
    pub stop_only_if_idle: bool,
    /// The time for which a user keeps the cluster alive in spite of idleness, in seconds. 0 if no user
    /// does.
    pub keep_alive_seconds: f64,
    /// True if the server lacks the state that `base` claims, as after a restore of its database. The
    /// reporter must send everything it still has.
    pub resend: bool,
    /// The data classes that the account accepts. Items of other classes are not stored and need not be
    /// sent.
    pub accepts: Vec<Class>,
    /// The places of implausible values in the report, such as `usage.thread_seconds`. These values were
    /// clamped to plausible ones. Absent if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<&'static str>,
    /// True if a newer report, the one in `acknowledged`, arrived earlier. Only items that were still
    /// missing were stored. The reporter must send the content of this report again with a higher
    /// sequence. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// The quotas of which the account uses 80 % or more, or the token of its share. Reports beyond a
    /// quota are refused. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub quotas_near: Vec<QuotaUse>,
}

/// The state that the account requests for the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Directive {
    /// Keep running.
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
