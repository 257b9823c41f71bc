//! Time series of several clusters, combined into one series for each metric.

use std::{collections::BTreeSet, sync::Arc};

use async_graphql::SimpleObject;
use chrono::{DateTime, TimeDelta, Utc};

use crate::{
    blocking_work::run_blocking,
    domain::{
        metric::{Combination, Metric},
        series::{Buckets, TooManyPoints, Window, combine_clusters},
    },
    graphql::{
        analysis::{
            analysis_scope::{Selection, WorkScope},
            breakdown::count_value,
        },
        engine::{error::ApiError, scalar::BigInt, scope::AccountScope},
        telemetry::series::{SampleMetric, SampleUnit, SeriesKey},
    },
    store::SeriesParent,
};

/// The minimum width of a bucket, in seconds. Clusters report every few seconds, so a cluster without a
/// sample in a shorter bucket would be missing from the sum.
const MIN_BUCKET: i64 = 60;

/// The maximum period of one response, in days.
const MAX_DAYS: i64 = 31;

/// The default period in hours, if the scope names none.
const DEFAULT_HOURS: i64 = 24;

const DAY: i64 = 86_400_000;

/// The values of one metric, combined over several clusters, over time.
#[derive(SimpleObject)]
pub(crate) struct AccountSeries {
    /// The metric.
    metric: SampleMetric,
    /// The unit of the values.
    unit: SampleUnit,
    /// The function that combines the values of several clusters.
    combination: SeriesCombination,
    /// The width of a bucket, in seconds: as requested, or as chosen by the server.
    bucket_seconds: i32,
    /// The points, in the order of time. A bucket without a measurement has no point.
    points: Vec<AccountSeriesPoint>,
}

/// A function that combines the values of several clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, async_graphql::Enum)]
#[graphql(remote = "Combination")]
pub(crate) enum SeriesCombination {
    /// The sum. Used for counts, bytes, rates and CPU cores.
    Sum,
    /// The mean. Used for shares and times.
    Mean,
    /// The minimum. Used for metrics that are the minimum over a cluster's workers.
    Least,
    /// The maximum. Used for metrics that are the maximum over a cluster's workers.
    Greatest,
}

/// The combined value of several clusters in one bucket of time.
#[derive(SimpleObject)]
pub(crate) struct AccountSeriesPoint {
    /// The start of the bucket, a multiple of `bucketSeconds` since 1970-01-01 UTC.
    at: DateTime<Utc>,
    /// The combination of the clusters' means, in the unit of the series.
    value: f64,
    /// The lowest mean of a cluster, in the unit of the series.
    min: f64,
    /// The highest mean of a cluster, in the unit of the series.
    max: f64,
    /// The number of clusters with a measurement in this bucket.
    clusters: BigInt,
}

/// Returns the series of a scope, one for each of `metrics`.
pub(crate) async fn load_series(
    scope: &AccountScope,
    work: WorkScope,
    metrics: Vec<SampleMetric>,
    bucket_seconds: Option<i32>,
) -> Result<Vec<AccountSeries>, ApiError> {
    let work = work.find_in_period(scope, "scope", Some(TimeDelta::hours(DEFAULT_HOURS))).await?;
    let window = parse_window(&work, bucket_seconds)?;
    let requested: Vec<Metric> = metrics.into_iter().map(Into::into).collect();
    let metrics: Vec<Metric> = requested.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let cost = window.cost(requested.len());
    let clusters = i64::try_from(work.clusters.len().max(1)).unwrap_or(i64::MAX);
    if !scope.charge_points(cost.saturating_mul(clusters)) {
        return Err(ApiError::InvalidArgument {
            argument: "scope",
            reason: "the series of the query have too many points for one response: request fewer clusters, \
                     metrics or days"
                .to_owned(),
        });
    }
    let mut cluster_buckets = Vec::new();
    if !metrics.is_empty() && !window.is_empty() {
        let key = |cluster| SeriesKey::new(SeriesParent::Cluster(cluster), window, metrics.clone());
        let found = scope.loader.load_many(work.ids().into_iter().map(key)).await?;
        cluster_buckets.extend(found.into_values());
    }
    Ok(run_blocking(move || {
        requested.into_iter().map(|metric| combine_series(metric, window, &cluster_buckets)).collect()
    })
    .await)
}

fn combine_series(metric: Metric, window: Window, cluster_buckets: &[Arc<Buckets>]) -> AccountSeries {
    let points = combine_clusters(metric, cluster_buckets.iter().map(|buckets| &**buckets));
    let points = points.into_iter().map(|(at, point)| AccountSeriesPoint {
        at: DateTime::from_timestamp_millis(at).unwrap_or_default(),
        value: point.value,
        min: point.min,
        max: point.max,
        clusters: count_value(point.parts),
    });
    AccountSeries {
        metric: metric.into(),
        unit: metric.unit().into(),
        combination: metric.combination().into(),
        bucket_seconds: i32::try_from(window.width_seconds()).unwrap_or(i32::MAX),
        points: points.collect(),
    }
}

fn parse_window(work: &Selection, bucket_seconds: Option<i32>) -> Result<Window, ApiError> {
    let invalid = |argument, reason: String| ApiError::InvalidArgument { argument, reason };
    if work.is_partial() {
        let reason = "measurements are not available by span or function: omit 'spanTags' and 'functions'";
        return Err(invalid("scope", reason.to_owned()));
    }
    let (from, to) = (work.range.0.unwrap_or_default(), work.range.1.unwrap_or_default());
    if to.saturating_sub(from) > MAX_DAYS * DAY {
        let reason = format!("'from' must not be more than {MAX_DAYS} days before 'to', or before now");
        return Err(invalid("scope", reason));
    }
    let width = bucket_seconds.map(i64::from);
    if width.is_some_and(|seconds| seconds < MIN_BUCKET) {
        return Err(invalid("bucketSeconds", format!("must be at least {MIN_BUCKET}")));
    }
    let too_fine = |TooManyPoints { least_seconds }| {
        invalid("bucketSeconds", format!("must be at least {least_seconds} for this period"))
    };
    let window = Window::new(from, to, width).map_err(too_fine)?;
    if window.width_seconds() < MIN_BUCKET {
        return Window::new(from, to, Some(MIN_BUCKET)).map_err(too_fine);
    }
    Ok(window)
}
