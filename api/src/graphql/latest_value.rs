//! The last measurements of running clusters and workers.

use std::collections::BTreeSet;

use async_graphql::SimpleObject;
use chrono::{DateTime, TimeDelta, Utc};

use super::{
    error::ApiError,
    scope::AccountScope,
    series::{SampleMetric, SampleUnit, load_measurements},
};
use crate::{domain::metric::Metric, store::SeriesParent};

/// The seconds before the last report in which measurements count as the last ones. Schedulers report more
/// often, and each report has measurements.
const PERIOD_SECONDS: i64 = 60;

/// The width of a bucket, in seconds.
const BUCKET_SECONDS: i64 = 15;

/// The last measurement of one metric.
#[derive(SimpleObject)]
pub(super) struct LatestValue {
    /// The metric.
    metric: SampleMetric,
    /// The unit of the value.
    unit: SampleUnit,
    /// The start of the 15 seconds in which the metric was last measured, by the scheduler's clock. Null if
    /// it was not measured in the last minute before the last report.
    at: Option<DateTime<Utc>>,
    /// The mean of the measurements in these 15 seconds. Null if there are none.
    value: Option<f64>,
}

/// Returns the last measurements before `until`, batched with those of other clusters and workers, in the
/// order of `metrics`.
pub(super) async fn load_latest_values(
    scope: &AccountScope,
    parent: SeriesParent,
    until: DateTime<Utc>,
    metrics: Vec<SampleMetric>,
) -> Result<Vec<LatestValue>, ApiError> {
    let metrics: Vec<Metric> = metrics.into_iter().map(Into::into).collect();
    let distinct: Vec<Metric> = metrics.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let range = (until - TimeDelta::seconds(PERIOD_SECONDS), until);
    let measured = load_measurements(scope, parent, range, BUCKET_SECONDS, &distinct).await?;
    let latest = |metric: Metric| {
        let last = measured.of(metric).last();
        LatestValue {
            metric: metric.into(),
            unit: metric.unit().into(),
            at: last.and_then(|(at, _)| DateTime::from_timestamp_millis(at)),
            value: last.map(|(_, bucket)| bucket.mean()),
        }
    };
    Ok(metrics.into_iter().map(latest).collect())
}
