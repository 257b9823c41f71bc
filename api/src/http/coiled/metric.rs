//! One number of what was measured of a cluster, as `Cluster.get_aggregated_metric` asks for it.

use axum::response::Response;
use entity::cluster;

use super::asked::{Answer, Asked, Refusals};
use crate::{
    domain::{
        metric_query::{self, NoWay, OverTime},
        series::Window,
    },
    http::problem::{ErrorBody, Problem},
    store::SeriesParent,
};

/// The longest time that is looked at, in milliseconds.
const LONGEST: i64 = 31 * 86_400_000;

/// Points that reading ten minutes of samples costs.
const CHUNK: u64 = 4;

/// Milliseconds of ten minutes.
const CHUNK_MS: i64 = 600_000;

/// Tell one number of what was measured of a cluster over a time
///
/// What was measured on the scheduler is meant by `scheduler:(host_memory_total-host_memory_available)&scheduler`, which is
/// answered with the memory of its process in bytes, `scheduler:cpu_rate&scheduler`, in CPU cores, and
/// `scheduler_max_tick`, in seconds. Of the workers together there are `worker_max_tick|max`, in seconds,
/// `worker:cpu_rate&worker|sum` and others. Besides, each metric of reports can be named, as `memory_process_bytes`.
#[utoipa::path(
    get,
    path = "/api/v2/metrics/account/{workspace}/cluster/{id}/value",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("query" = String, Query, description = "What is asked for."),
        ("over_time" = String, Query, description = "How values become one: `max`, `min`, `avg` or `quantile(Q)` with Q from 0 to 1."),
        ("start_ts" = Option<f64>, Query, description = "From when on, in seconds since 1970-01-01 UTC; since the cluster started if not given."),
        ("end_ts" = Option<f64>, Query, description = "Until when, in seconds since 1970-01-01 UTC; until it reported last if not given."),
    ),
    responses(
        (status = 200, description = "A number; null if nothing was measured. Of more than 31 days, the last 31 count.", body = Option<f64>),
        (status = 400, description = "A parameter is wrong; the message names it.", body = ErrorBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn value(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let metric =
                metric_query::metric(&asked.parameter("query").unwrap_or_default()).ok_or_else(|| {
                    let known = metric_query::known().collect::<Vec<_>>().join(", ");
                    let reason =
                        format!("must be the name of a metric, as cpu_cores, or one of these: {known}");
                    Problem::parameter("query", &reason)
                })?;
            let over_time: OverTime = asked
                .parameter("over_time")
                .unwrap_or_default()
                .parse()
                .map_err(|error: NoWay| Problem::parameter("over_time", &error.to_string()))?;
            let given = (seconds(asked, "start_ts")?, seconds(asked, "end_ts")?);
            let cluster = asked.cluster(asked.path("id")).await?;
            let (from, to) = life(&cluster);
            let to = given.1.map_or(to, |end| end.min(to));
            let from = given.0.map_or(from, |start| start.max(from)).max(to.saturating_sub(LONGEST));
            if from >= to {
                return Ok(Answer::one(None));
            }
            let window = Window::of_seconds(from, to);
            let parent = SeriesParent::Cluster(cluster.id);
            let read = asked.store.series(&[(parent, window)], &[metric]).await?;
            let body = read.first().and_then(|buckets| over_time.of(buckets, metric));
            let chunks = u64::try_from((to - from) / CHUNK_MS).unwrap_or(0);
            Ok(Answer { body, cost: CHUNK * (chunks + 1) })
        })
        .await
}

/// The time in which something can have been measured of a cluster, in milliseconds.
fn life(row: &cluster::Model) -> (i64, i64) {
    let last = row.closed_at.map_or(row.reported_at.0, |closed| closed.0.max(row.reported_at.0));
    // What was measured at its last moment belongs to it.
    (row.started_at.timestamp_millis(), last.timestamp_millis() + 1)
}

/// A time in seconds, in milliseconds.
fn seconds(asked: &Asked, name: &str) -> Result<Option<i64>, Problem> {
    let Some(text) = asked.parameter(name) else { return Ok(None) };
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.abs() <= 1e10);
    let seconds = seconds.ok_or_else(|| Problem::parameter(name, "must be seconds since 1970-01-01 UTC"))?;
    #[expect(clippy::cast_possible_truncation, reason = "it is bounded")]
    let milliseconds = (seconds * 1e3).round() as i64;
    Ok(Some(milliseconds))
}
