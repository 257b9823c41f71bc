//! The last measurements of running clusters and workers.

use std::collections::BTreeSet;

use async_graphql::{Object, SimpleObject};
use chrono::{DateTime, TimeDelta, Utc};
use entity::cluster::{Model, Status};

use super::worker_quantile::{WorkerQuantiles, load_worker_quantiles};
use crate::{
    domain::{life_cycle, metric::Metric, series::Buckets},
    graphql::{
        engine::{
            error::{ApiError, NullOnError},
            scope::AccountScope,
        },
        telemetry::series::{SampleMetric, SampleUnit, load_measurements_of},
    },
    store::SeriesParent,
};

/// The period before the last report whose measurements count as the last ones, in seconds. Schedulers
/// report more often, and each report has measurements.
const PERIOD_SECONDS: i64 = 60;

/// The width of a bucket, in seconds.
const BUCKET_SECONDS: i64 = 15;

/// The last measurement of one metric.
#[derive(SimpleObject)]
pub(crate) struct LatestValue {
    /// The metric.
    metric: SampleMetric,
    /// The unit of the value.
    unit: SampleUnit,
    /// The start of the 15 seconds in which the metric was last measured, by the scheduler's clock. Null if
    /// it was not measured in the last minute before the last report.
    at: Option<DateTime<Utc>>,
    /// The mean of the measurements in these 15 seconds. Null if there are none.
    pub(crate) value: Option<f64>,
}

/// Returns the last measurements before `until` of several clusters or workers, of each in the order of
/// `metrics`.
pub(crate) async fn load_latest_values_of(
    scope: &AccountScope,
    parents: Vec<SeriesParent>,
    until: DateTime<Utc>,
    metrics: &[SampleMetric],
) -> Result<Vec<Vec<LatestValue>>, ApiError> {
    // Each metric adds an item for each worker.
    if metrics.len() > Metric::ALL.len() {
        let reason = format!("must have at most {} items, as many as there are metrics", Metric::ALL.len());
        return Err(ApiError::invalid("metrics", reason));
    }
    let metrics: Vec<Metric> = metrics.iter().copied().map(Into::into).collect();
    let distinct: Vec<Metric> = metrics.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let range = (until - TimeDelta::seconds(PERIOD_SECONDS), until);
    let measured = load_measurements_of(scope, parents, range, BUCKET_SECONDS, &distinct).await?;
    let latest = |buckets: &Buckets, metric: Metric| {
        let last = buckets.of(metric).last();
        LatestValue {
            metric: metric.into(),
            unit: metric.unit().into(),
            at: last.and_then(|(at, _)| DateTime::from_timestamp_millis(at)),
            value: last.map(|(_, bucket)| bucket.mean()),
        }
    };
    Ok(measured
        .iter()
        .map(|buckets| metrics.iter().map(|metric| latest(buckets, *metric)).collect())
        .collect())
}

/// The fields of a cluster with its last measurements.
pub(crate) struct ClusterMeasurements<'a> {
    scope: &'a AccountScope,
    row: &'a Model,
}

impl<'a> ClusterMeasurements<'a> {
    pub(crate) fn new(scope: &'a AccountScope, row: &'a Model) -> Self {
        Self { scope, row }
    }
}

/// The fields of a cluster with its last measurements.
#[Object]
impl ClusterMeasurements<'_> {
    /// The last measurements of the cluster as a whole. Null once it closed or is `LOST`.
    async fn latest_values(
        &self,
        #[graphql(desc = "The metrics. The result has one value for each of them, in this order.")]
        metrics: Vec<SampleMetric>,
    ) -> NullOnError<Vec<LatestValue>> {
        if self.row.status != Status::Running {
            return None;
        }
        let parents = vec![SeriesParent::Cluster(self.row.id)];
        let until = life_cycle::last_reported_at(self.row);
        let found = load_latest_values_of(self.scope, parents, until, &metrics).await;
        Some(found.map(|values| values.into_iter().flatten().collect()))
    }

    /// The distribution of the last measurements over the connected workers, of at most 1,000 workers, those
    /// that joined last. Null once the cluster closed or is `LOST`.
    async fn worker_quantiles(
        &self,
        #[graphql(desc = "The metrics. The result has one item for each of them, in this order.")]
        metrics: Vec<SampleMetric>,
        #[graphql(
            desc = "The quantiles, 1 to 21 shares from 0 to 1.",
            default_with = "vec![0.0, 0.25, 0.5, 0.75, 1.0]"
        )]
        quantiles: Vec<f64>,
    ) -> NullOnError<Vec<WorkerQuantiles>> {
        if self.row.status != Status::Running {
            return None;
        }
        let until = life_cycle::last_reported_at(self.row);
        Some(load_worker_quantiles(self.scope, self.row.id, until, metrics, &quantiles).await)
    }
}
