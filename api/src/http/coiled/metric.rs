//! A single value of a cluster's metric, for `Cluster.get_aggregated_metric`.

use axum::response::Response;
use entity::cluster;

use super::request::{CoiledRequest, CoiledResponse, Refusals};
use crate::{
    domain::{
        coiled_query::{self, ParseAggregationError, TimeAggregation},
        series::Window,
    },
    http::extract::problem::{ErrorBody, Problem},
    store::SeriesParent,
};

/// The longest range, in milliseconds.
const MAX_RANGE_MS: i64 = 31 * 86_400_000;

/// The cost in points of ten minutes of samples.
const CHUNK_COST: u64 = 4;

/// Ten minutes, in milliseconds.
const CHUNK_MS: i64 = 600_000;

/// Aggregate a metric of a cluster over a time range
///
/// Metrics of the scheduler: `scheduler:(host_memory_total-host_memory_available)&scheduler` is the
/// memory of its process in bytes, `scheduler:cpu_rate&scheduler` its CPU use in cores, and
/// `scheduler_max_tick` its event loop delay in seconds. Metrics of all workers include
/// `worker_max_tick|max`, in seconds, and `worker:cpu_rate&worker|sum`. Each metric of reports is also
/// available under its own name, such as `memory_process_bytes`.
#[utoipa::path(
    get,
    path = "/api/v2/metrics/account/{workspace}/cluster/{id}/value",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("query" = String, Query, description = "The metric."),
        ("over_time" = String, Query, description = "The aggregation over time: `max`, `min`, `avg` or `quantile(Q)` with Q from 0 to 1."),
        ("start_ts" = Option<f64>, Query, description = "The start of the range, in seconds since 1970-01-01 UTC. Default: the cluster's start."),
        ("end_ts" = Option<f64>, Query, description = "The end of the range, in seconds since 1970-01-01 UTC. Default: the cluster's last report."),
    ),
    responses(
        (status = 200, description = "The value. Null without measurements. Of a range over 31 days, only the last 31 days count.", body = Option<f64>),
        (status = 400, description = "A parameter is invalid. The message names it.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn value(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let metric =
                coiled_query::metric(&request.parameter("query").unwrap_or_default()).ok_or_else(|| {
                    let supported = coiled_query::supported_queries().collect::<Vec<_>>().join(", ");
                    let reason = format!(
                        "must be the name of a metric, such as cpu_cores, or one of these: {supported}"
                    );
                    Problem::parameter("query", &reason)
                })?;
            let over_time: TimeAggregation =
                request.parameter("over_time").unwrap_or_default().parse().map_err(
                    |error: ParseAggregationError| Problem::parameter("over_time", &error.to_string()),
                )?;
            let requested_range = (parse_seconds(request, "start_ts")?, parse_seconds(request, "end_ts")?);
            let cluster = request.cluster(request.path("id")).await?;
            let (from, to) = measurable_range(&cluster);
            let to = requested_range.1.map_or(to, |end| end.min(to));
            let from =
                requested_range.0.map_or(from, |start| start.max(from)).max(to.saturating_sub(MAX_RANGE_MS));
            if from >= to {
                return Ok(CoiledResponse::one(None));
            }
            let window = Window::of_seconds(from, to);
            let parent = SeriesParent::Cluster(cluster.id);
            let series = request.store.series(&[(parent, window)], &[metric]).await?;
            let body = series.first().and_then(|buckets| over_time.of(buckets, metric));
            let chunks = u64::try_from((to - from) / CHUNK_MS).unwrap_or(0);
            Ok(CoiledResponse { body, cost: CHUNK_COST * (chunks + 1) })
        })
        .await
}

/// Returns the range in which the cluster can have measurements, in milliseconds.
fn measurable_range(row: &cluster::Model) -> (i64, i64) {
    let end = row.closed_at.map_or(row.reported_at.0, |closed| closed.0.max(row.reported_at.0));
    // The range includes the measurements of the cluster's last millisecond.
    (row.started_at.timestamp_millis(), end.timestamp_millis() + 1)
}

/// Parses a time in seconds, and returns it in milliseconds.
fn parse_seconds(request: &CoiledRequest, name: &str) -> Result<Option<i64>, Problem> {
    let Some(text) = request.parameter(name) else { return Ok(None) };
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.abs() <= 1e10);
    let seconds = seconds.ok_or_else(|| Problem::parameter(name, "must be seconds since 1970-01-01 UTC"))?;
    #[expect(clippy::cast_possible_truncation, reason = "the value is bounded")]
    let milliseconds = (seconds * 1e3).round() as i64;
    Ok(Some(milliseconds))
}
