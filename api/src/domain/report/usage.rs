//! What a cluster used in one hour.

use serde::Deserialize;
use utoipa::ToSchema;

use super::super::bounded::{Count, List, Seconds, Text};

/// What a cluster used in one hour of the wall clock, cumulative within that hour.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct UsageReport {
    /// The hour: whole hours since 1970-01-01 UTC.
    pub hour: Hour,
    /// Threads integrated over time.
    pub thread_seconds: Seconds,
    /// Workers integrated over time.
    pub worker_seconds: Seconds,
    /// The workers' memory limits in GiB, integrated over time.
    pub memory_gib_seconds: Seconds,
    /// Computing tasks that succeeded.
    pub compute_seconds: Seconds,
    /// Fetching those tasks' inputs from other workers.
    pub transfer_seconds: Seconds,
    /// Thread-seconds in which the CPU worked for tasks.
    #[serde(default)]
    pub cpu_seconds: Option<Seconds>,
    /// Thread-seconds in which a task occupied its thread without using the CPU.
    #[serde(default)]
    pub noncpu_seconds: Option<Seconds>,
    /// Thread-seconds spent turning data into bytes and back.
    #[serde(default)]
    pub serialize_seconds: Option<Seconds>,
    /// Thread-seconds spent moving data between memory and disk.
    #[serde(default)]
    pub spill_seconds: Option<Seconds>,
    /// Thread-seconds spent by Dask round the tasks.
    #[serde(default)]
    pub overhead_seconds: Option<Seconds>,
    /// Thread-seconds of attempts that failed or were cancelled.
    #[serde(default)]
    pub failed_seconds: Option<Seconds>,
    /// Thread-seconds in which no task ran; absent where Dask does not tell.
    #[serde(default)]
    pub idle_seconds: Option<Seconds>,
    /// Times a task came to be in memory.
    pub tasks: Count,
    /// Tasks that erred themselves.
    pub tasks_erred: Count,
    /// Failed attempts that were tried again.
    pub retries: Count,
    /// Errors recorded.
    pub errors: Count,
    /// Bytes of results.
    pub bytes: Count,
    /// Bytes written to disk for want of memory.
    pub spilled_bytes: Count,
    /// Workers that joined.
    pub workers: Count,
    /// The same by function.
    #[serde(default)]
    #[schema(value_type = Vec<FunctionUsageReport>, max_items = 1_000)]
    pub functions: List<FunctionUsageReport, 1_000>,
}

/// What the tasks of one function used in one hour.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FunctionUsageReport {
    /// The function or operation: a task group's `prefix`.
    pub prefix: Text<4_096>,
    /// Computing tasks that succeeded.
    pub compute_seconds: Seconds,
    /// Fetching their inputs.
    pub transfer_seconds: Seconds,
    /// Times one of them came to be in memory.
    pub tasks: Count,
    /// Those that erred themselves.
    pub tasks_erred: Count,
    /// Bytes of results.
    pub bytes: Count,
}

/// Whole hours since 1970-01-01 UTC, up to the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hour(i64);

/// The last hour of the year 9999.
const LAST_HOUR: i64 = 70_389_527;

impl Hour {
    /// The number of the hour.
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
