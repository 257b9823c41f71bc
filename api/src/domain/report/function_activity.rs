//! The compute time of functions over time.

use serde::{Deserialize, Deserializer, de::Error};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr, Schema,
        schema::{ArrayBuilder, Type},
    },
};

use super::super::{
    function_activity::{INTERVALS_PER_MINUTE, hundredths},
    validated::{List, Seconds, Text},
};

/// The compute time of functions in one minute of the wall clock: that of tasks that succeeded so far. It
/// grows until all tasks that ran in the minute have ended.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct FunctionActivityReport {
    /// The minute, in whole minutes since 1970-01-01 UTC.
    pub minute: Minute,
    /// The functions with the most compute time, the same ones in minutes that differ in the last digit only.
    #[serde(default)]
    #[schema(value_type = Vec<ActiveFunctionReport>, max_items = 50)]
    pub functions: List<ActiveFunctionReport, 50>,
    /// The compute time of all other functions together. Absent if there is none.
    #[serde(default)]
    pub other_compute_seconds: Option<MinuteSeconds>,
}

/// The compute time of one function in one minute.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub struct ActiveFunctionReport {
    /// The function or operation: the `prefix` of a task group.
    pub prefix: Text<4_096>,
    /// The compute time in each interval.
    pub compute_seconds: MinuteSeconds,
}

/// A number of threads integrated over 15 s. The bound is 15 s of the largest number of threads, 1,000,000.
pub type IntervalSeconds = Seconds<15_000_000>;

/// The thread-seconds in the four intervals of 15 s of a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MinuteSeconds([IntervalSeconds; INTERVALS_PER_MINUTE]);

impl MinuteSeconds {
    /// Returns the values for modification.
    pub fn values_mut(&mut self) -> &mut [IntervalSeconds] {
        &mut self.0
    }

    /// Returns the values in hundredths of seconds.
    #[must_use]
    pub fn hundredths(&self) -> [u32; INTERVALS_PER_MINUTE] {
        self.0.map(|seconds| hundredths(seconds.get()))
    }
}

impl<'de> Deserialize<'de> for MinuteSeconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = List::<IntervalSeconds, INTERVALS_PER_MINUTE>::deserialize(deserializer)?.into_vec();
        values
            .try_into()
            .map(Self)
            .map_err(|_| D::Error::custom(format_args!("not {INTERVALS_PER_MINUTE} numbers")))
    }
}

impl PartialSchema for MinuteSeconds {
    fn schema() -> RefOr<Schema> {
        ArrayBuilder::new()
            .items(IntervalSeconds::schema())
            .min_items(Some(INTERVALS_PER_MINUTE))
            .max_items(Some(INTERVALS_PER_MINUTE))
            .description(Some("thread-seconds in each interval of 15 s"))
            .into()
    }
}

impl ToSchema for MinuteSeconds {}

/// Whole minutes since 1970-01-01 UTC, up to the year 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minute(i64);

/// The last minute of the year 9999.
const LAST_MINUTE: i64 = 4_223_371_679;

impl Minute {
    /// Returns the number of the minute.
    #[must_use]
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Minute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let minute = i64::deserialize(deserializer)?;
        if (0..=LAST_MINUTE).contains(&minute) {
            Ok(Self(minute))
        } else {
            Err(D::Error::custom(format_args!("not a minute from 0 to {LAST_MINUTE}")))
        }
    }
}

impl PartialSchema for Minute {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(LAST_MINUTE))
            .description(Some("minutes since 1970-01-01 UTC"))
            .into()
    }
}

impl ToSchema for Minute {}
