//! Series of some clusters as one: what was measured of each, put together for every moment.

use std::{collections::BTreeSet, sync::Arc};

use async_graphql::SimpleObject;
use chrono::{DateTime, TimeDelta, Utc};

use super::{
    breakdown::count,
    error::ApiError,
    scalar::BigInt,
    scope::AccountScope,
    series::{SampleMetric, SampleUnit, SeriesOf},
    work_scope::{Selection, WorkScope},
};
use crate::{
    blocking::blocking,
    domain::{
        metric::{Combination, Metric},
        series::{Buckets, TooFine, Window, together},
    },
    store::SeriesParent,
};

/// Seconds of a bucket at the least: a cluster without a sample in one would be missing from its sum, and clusters
/// report every few seconds.
const MIN_BUCKET: i64 = 60;

/// Days one answer looks at, at the most.
const MAX_DAYS: i64 = 31;

/// Hours it looks at unless the scope says.
const DEFAULT_HOURS: i64 = 24;

const DAY: i64 = 86_400_000;

/// What was measured of one metric of some clusters, over time.
#[derive(SimpleObject)]
pub(super) struct AccountSeries {
    /// The metric.
    metric: SampleMetric,
    /// What its values count.
    unit: SampleUnit,
    /// How the values of several clusters become one.
    combination: SeriesCombination,
    /// Seconds summed up in one point.
    bucket_seconds: i32,
    /// What was measured, by time. Where nothing was, there is no point.
    points: Vec<AccountSeriesPoint>,
}

/// How the values of several clusters become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, async_graphql::Enum)]
#[graphql(remote = "Combination")]
pub(super) enum SeriesCombination {
    /// They are added: counts, bytes, rates and CPU cores.
    Sum,
    /// Their mean: shares and times.
    Mean,
    /// The least: what is the least of the workers of each.
    Least,
    /// The greatest: what is the greatest of the workers of each.
    Greatest,
}

/// What was measured of some clusters in a short time.
#[derive(SimpleObject)]
pub(super) struct AccountSeriesPoint {
    /// Where the time begins, a multiple of `bucketSeconds` since 1970-01-01 UTC.
    at: DateTime<Utc>,
    /// What the means of the clusters come to, in the unit of the series.
    value: f64,
    /// The mean of the cluster where it is least, in the unit of the series.
    min: f64,
    /// The mean of the cluster where it is greatest, in the unit of the series.
    max: f64,
    /// Of how many clusters something was measured.
    clusters: BigInt,
}

/// The series of a scope, one for each of `metrics`.
pub(super) async fn series(
    scope: &AccountScope,
    work: WorkScope,
    metrics: Vec<SampleMetric>,
    bucket_seconds: Option<i32>,
) -> Result<Vec<AccountSeries>, ApiError> {
    let work = work.find_during(scope, "scope", Some(TimeDelta::hours(DEFAULT_HOURS))).await?;
    let window = window(&work, bucket_seconds)?;
    let asked: Vec<Metric> = metrics.into_iter().map(Into::into).collect();
    let metrics: Vec<Metric> = asked.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let cost = window.cost(asked.len());
    let clusters = i64::try_from(work.clusters.len().max(1)).unwrap_or(i64::MAX);
    if !scope.take_points(cost.saturating_mul(clusters)) {
        return Err(ApiError::InvalidArgument {
            argument: "scope",
            reason:
                "its series and the others of the query are too much for one answer: ask for fewer clusters, \
                     metrics or days"
                    .to_owned(),
        });
    }
    let mut parts = Vec::new();
    if !metrics.is_empty() && !window.is_empty() {
        let key = |cluster| SeriesOf::new(SeriesParent::Cluster(cluster), window, metrics.clone());
        let found = scope.loader.load_many(work.ids().into_iter().map(key)).await?;
        parts.extend(found.into_values());
    }
    Ok(blocking(move || asked.into_iter().map(|metric| one(metric, window, &parts)).collect()).await)
}

fn one(metric: Metric, window: Window, parts: &[Arc<Buckets>]) -> AccountSeries {
    let points = together(metric, parts.iter().map(|part| &**part));
    let points = points.into_iter().map(|(at, point)| AccountSeriesPoint {
        at: DateTime::from_timestamp_millis(at).unwrap_or_default(),
        value: point.value,
        min: point.min,
        max: point.max,
        clusters: count(point.parts),
    });
    AccountSeries {
        metric: metric.into(),
        unit: metric.unit().into(),
        combination: metric.combination().into(),
        bucket_seconds: i32::try_from(window.width_seconds()).unwrap_or(i32::MAX),
        points: points.collect(),
    }
}

fn window(work: &Selection, bucket_seconds: Option<i32>) -> Result<Window, ApiError> {
    let refused = |argument, reason: String| ApiError::InvalidArgument { argument, reason };
    if work.is_partial() {
        let reason = "measurements are not told by spans or functions: leave 'spanTags' and 'functions' out";
        return Err(refused("scope", reason.to_owned()));
    }
    let (from, to) = (work.range.0.unwrap_or_default(), work.range.1.unwrap_or_default());
    if to.saturating_sub(from) > MAX_DAYS * DAY {
        let reason = format!("'from' must not lie more than {MAX_DAYS} days before 'to', or before now");
        return Err(refused("scope", reason));
    }
    let asked = bucket_seconds.map(i64::from);
    if asked.is_some_and(|seconds| seconds < MIN_BUCKET) {
        return Err(refused("bucketSeconds", format!("must be at least {MIN_BUCKET}")));
    }
    let too_fine = |TooFine { least_seconds }| {
        refused("bucketSeconds", format!("must be at least {least_seconds} for this time"))
    };
    let window = Window::new(from, to, asked).map_err(too_fine)?;
    if window.width_seconds() < MIN_BUCKET {
        return Window::new(from, to, Some(MIN_BUCKET)).map_err(too_fine);
    }
    Ok(window)
}
