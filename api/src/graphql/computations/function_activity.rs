//! The numbers of threads that functions occupied over time.

use std::{collections::HashMap, sync::Arc};

use async_graphql::{SimpleObject, dataloader::Loader};
use chrono::{DateTime, Utc};
use entity::ids::ClusterId;

use super::span::validate_count;
use crate::{
    domain::{
        function_activity::{ActivityBuckets, FunctionColumn, INTERVAL_SECONDS, TooManyFunctions},
        series::Window,
    },
    graphql::{
        engine::{
            error::ApiError,
            loaders::StoreReader,
            projection::{InlineList, inline_members},
            scalar::ShortFloat,
            scope::AccountScope,
        },
        telemetry::series::{MAX_CLUSTER_PERIOD, WindowArguments},
    },
    store::StoreError,
};

/// The maximum number of functions with columns of their own.
const MAX_FUNCTIONS: i32 = 20;

/// Returns the activity of the functions of a cluster that lived from `life.0` to `life.1`, batched with
/// that of others.
pub(crate) async fn load_function_activity(
    scope: &AccountScope,
    cluster: ClusterId,
    window: WindowArguments,
    life: (DateTime<Utc>, DateTime<Utc>),
    first: i32,
) -> Result<FunctionActivity, ApiError> {
    let count = validate_count("first", first, MAX_FUNCTIONS)?;
    let window = window.check(MAX_CLUSTER_PERIOD, life, INTERVAL_SECONDS)?;
    if !scope.charge_points(window.cost(count + 1)) {
        return Err(ApiError::LimitExceeded(
            "the activity of functions in the query has too many points for one response: request fewer \
             clusters, functions or buckets",
        ));
    }
    let key = ActivityKey { cluster, window };
    let no_activity = || Ok(Arc::new(ActivityBuckets::new(window)));
    let found = scope.loader.load_one(key).await?.unwrap_or_else(no_activity);
    let buckets = found.map_err(|TooManyFunctions| {
        ApiError::LimitExceeded(
            "the functions of the period are too many for one response: request a shorter period",
        )
    })?;
    let columns = buckets.columns(count);
    Ok(FunctionActivity {
        started_at: columns.started_at.and_then(DateTime::from_timestamp_millis),
        step_seconds: i32::try_from(window.width_seconds()).unwrap_or(i32::MAX),
        functions: InlineList(columns.functions.into_iter().map(FunctionActivityColumn::from).collect()),
        other_threads: to_floats(columns.others),
        compute_seconds: columns.compute_seconds,
    })
}

/// The numbers of threads that functions occupied, as lists with one number for each bucket, from the first
/// to the last bucket with activity. The bucket with the index `i` starts `i * stepSeconds` after
/// `startedAt`. Buckets without activity are 0, also those in which the cluster did not report.
#[derive(SimpleObject)]
pub(crate) struct FunctionActivity {
    /// The start of the first bucket: a multiple of `stepSeconds` since 1970-01-01 UTC. Null if there is no
    /// activity.
    started_at: Option<DateTime<Utc>>,
    /// The width of a bucket, in seconds, a multiple of 15: the argument `bucketSeconds`, or the width that
    /// the server chose.
    step_seconds: i32,
    /// The functions with the most compute time in the period, the longest first.
    functions: InlineList<FunctionActivityColumn>,
    /// The mean numbers of threads that all other functions occupied together.
    other_threads: Vec<ShortFloat>,
    /// The compute time of all functions in the period, in thread-seconds: the sum of all lists, times
    /// `stepSeconds`. Intervals of 15 s at the ends of the period count whole.
    compute_seconds: f64,
}

inline_members! {
    FunctionActivity: started_at, step_seconds, other_threads, compute_seconds;
        functions: InlineList<FunctionActivityColumn>
}

/// The numbers of threads that one function occupied.
#[derive(SimpleObject)]
pub(crate) struct FunctionActivityColumn {
    /// The function or operation: the prefix of its task groups.
    prefix: String,
    /// The mean number of threads that the function occupied in each bucket: its compute time, divided by
    /// the width of the whole bucket, also if only a part of it lies in the period. Rounded to seven
    /// significant digits.
    threads: Vec<ShortFloat>,
    /// The compute time of the function in the period, in thread-seconds.
    compute_seconds: f64,
}

inline_members! { FunctionActivityColumn: prefix, threads, compute_seconds }

impl From<FunctionColumn> for FunctionActivityColumn {
    fn from(column: FunctionColumn) -> Self {
        Self {
            prefix: column.prefix,
            threads: to_floats(column.threads),
            compute_seconds: column.compute_seconds,
        }
    }
}

fn to_floats(values: Vec<f64>) -> Vec<ShortFloat> {
    values.into_iter().map(ShortFloat).collect()
}

/// The loader key of the activity of one cluster's functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ActivityKey {
    cluster: ClusterId,
    window: Window,
}

impl Loader<ActivityKey> for StoreReader {
    type Value = Result<Arc<ActivityBuckets>, TooManyFunctions>;
    type Error = Arc<StoreError>;

    async fn load(&self, keys: &[ActivityKey]) -> Result<HashMap<ActivityKey, Self::Value>, Self::Error> {
        let clusters: Vec<_> = keys.iter().map(|key| (key.cluster, key.window)).collect();
        let found = self.0.function_activity(&clusters).await?;
        Ok(keys.iter().copied().zip(found.into_iter().map(|found| found.map(Arc::new))).collect())
    }
}
