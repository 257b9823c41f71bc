//! Hourly usage of a cluster.

use serde::Deserialize;
use utoipa::ToSchema;

use super::super::validated::{Count, HourSeconds, List, Text, Times, WorkSeconds};

/// The usage of a cluster in one hour of the wall clock, cumulative within that hour.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct UsageReport {
    /// The hour, in whole hours since 1970-01-01 UTC.
    pub hour: Hour,
    /// The number of threads integrated over time.
    pub thread_seconds: HourSeconds,
    /// The part of `thread_seconds` in which the reporter observed the threads. Absent if it observed all
    /// of it. A reporter that starts in a running scheduler knows the earlier number of threads, but not
    /// their activity.
    #[serde(default)]
    pub observed_seconds: Option<HourSeconds>,
    /// The number of workers integrated over time.
    pub worker_seconds: HourSeconds,
    /// The workers' memory limits in GiB, integrated over time.
    pub memory_gib_seconds: WorkSeconds,
    /// The compute time of tasks that succeeded, in thread-seconds.
    pub compute_seconds: WorkSeconds,
    /// The time to fetch the inputs of those tasks from other workers, in seconds.
    pub transfer_seconds: WorkSeconds,
    /// The thread time in which the CPU worked for tasks, in thread-seconds.
    #[serde(default)]
    pub cpu_seconds: Option<WorkSeconds>,
    /// The thread time in which a task occupied its thread without using the CPU, in thread-seconds.
    #[serde(default)]
    pub noncpu_seconds: Option<WorkSeconds>,
    /// The thread time for serialization and deserialization, in thread-seconds.
    #[serde(default)]
    pub serialize_seconds: Option<WorkSeconds>,
    /// The thread time for moving data between memory and disk, in thread-seconds.
    #[serde(default)]
    pub spill_seconds: Option<WorkSeconds>,
    /// The thread time for Dask's own work around the tasks, in thread-seconds.
    #[serde(default)]
    pub overhead_seconds: Option<WorkSeconds>,
    /// The thread time of attempts that failed or were cancelled, in thread-seconds.
    #[serde(default)]
    pub failed_seconds: Option<WorkSeconds>,
    /// The thread time without a task, in thread-seconds. Absent if Dask does not report it.
    #[serde(default)]
    pub idle_seconds: Option<HourSeconds>,
    /// The number of times that a task produced a result in memory.
    pub tasks: Times,
    /// The number of tasks that failed by an exception of their own.
    pub tasks_erred: Times,
    /// The number of failed attempts that were retried.
    pub retries: Times,
    /// The number of recorded errors.
    pub errors: Times,
    /// The bytes of results.
    pub bytes: Count,
    /// The bytes written to disk because memory was full.
    pub spilled_bytes: Count,
    /// The number of workers that joined.
    pub workers: Times,
    /// The usage by function.
    #[serde(default)]
    #[schema(value_type = Vec<FunctionUsageReport>, max_items = 1_000)]
    pub functions: List<FunctionUsageReport, 1_000>,
    /// True if implausible values were clamped.
    #[serde(skip)]
    pub is_cut: bool,
}

/// The usage of one function's tasks in one hour.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FunctionUsageReport {
    /// The function or operation: the `prefix` of a task group.
    pub prefix: Text<4_096>,
    /// The compute time of tasks that succeeded, in thread-seconds.
    pub compute_seconds: WorkSeconds,
    /// The time to fetch their inputs, in seconds.
    pub transfer_seconds: WorkSeconds,
    /// The number of times that a task produced a result in memory.
    pub tasks: Times,
    /// The number of tasks that failed by an exception of their own.
    pub tasks_erred: Times,
    /// The bytes of results.
    pub bytes: Count,
}

/// Whole hours since 1970-01-01 UTC, up to the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hour(i64);

/// The last hour of the year 9999.
const LAST_HOUR: i64 = 70_389_527;

impl Hour {
    /// Returns the number of the hour.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Hour {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hour = i64::deserialize(deserializer)?;
        if (0..=LAST_HOUR).contains(&hour) {
            Ok(Self(hour))
        } else {
            Err(serde::de::Error::custom(format_args!("not an hour from 0 to {LAST_HOUR}")))
        }
    }
}

impl utoipa::PartialSchema for Hour {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::Integer)
            .minimum(Some(0))
            .maximum(Some(LAST_HOUR))
            .description(Some("hours since 1970-01-01 UTC"))
            .into()
    }
}

impl ToSchema for Hour {}
