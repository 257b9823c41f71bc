//! The distribution of measurements over the workers of a cluster.

use async_graphql::SimpleObject;
use chrono::{DateTime, Utc};
use entity::ids::ClusterId;

use super::latest_value::load_latest_values_of;
use crate::{
    domain::{metric::Metric, quantile::quantile},
    graphql::{
        engine::{error::ApiError, scalar::BigInt, scope::AccountScope},
        telemetry::series::{SampleMetric, SampleUnit},
    },
    store::SeriesParent,
};

/// The maximum number of workers whose measurements are read.
const MAX_WORKERS: u64 = 1_000;

/// The maximum number of quantiles of one field.
const MAX_QUANTILES: usize = 21;

/// The distribution of the last measurements of one metric over the connected workers.
#[derive(SimpleObject)]
pub(crate) struct WorkerQuantiles {
    /// The metric.
    metric: SampleMetric,
    /// The unit of the values.
    unit: SampleUnit,
    /// The number of workers with a measurement in the last minute before the last report.
    workers: BigInt,
    /// The quantiles, in the order of the argument: the smallest value for 0, the median for 0.5, and the
    /// largest value for 1. A quantile between two values is interpolated linearly. Null if no worker has a
    /// measurement.
    values: Option<Vec<f64>>,
}

/// Returns the distributions over the workers that joined last, in the order of `metrics`.
pub(crate) async fn load_worker_quantiles(
    scope: &AccountScope,
    cluster: ClusterId,
    until: DateTime<Utc>,
    metrics: Vec<SampleMetric>,
    quantiles: &[f64],
) -> Result<Vec<WorkerQuantiles>, ApiError> {
    if !(1..=MAX_QUANTILES).contains(&quantiles.len()) {
        return Err(ApiError::invalid("quantiles", format!("must have 1 to {MAX_QUANTILES} items")));
    }
    if let Some(share) = quantiles.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        return Err(ApiError::invalid("quantiles", format!("must be between 0 and 1, not {share}")));
    }
    let workers = scope.store.connected_workers(cluster, MAX_WORKERS).await?;
    let parents = workers.into_iter().map(|worker| SeriesParent::Worker(cluster, worker)).collect();
    let latest_values = load_latest_values_of(scope, parents, until, &metrics).await?;
    let distribution = |(index, metric): (usize, SampleMetric)| {
        let mut values: Vec<f64> =
            latest_values.iter().filter_map(|worker_values| worker_values[index].value).collect();
        values.sort_by(f64::total_cmp);
        WorkerQuantiles {
            metric,
            unit: Metric::from(metric).unit().into(),
            workers: BigInt(i64::try_from(values.len()).unwrap_or(i64::MAX)),
            values: quantiles.iter().map(|share| quantile(&values, *share)).collect(),
        }
    };
    Ok(metrics.into_iter().enumerate().map(distribution).collect())
}
