//! Logs as the client's command line shows them.

use std::collections::HashSet;

use axum::response::Response;
use entity::{
    ids::WorkerId,
    log_line::{Model, Source},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    cluster_cli::{instance_number, parse_instance_name, workers},
    request::{CoiledRequest, CoiledResponse, Refusals, bounded, decrypted_or_none},
};
use crate::{
    http::extract::problem::{ErrorBody, Problem},
    store::{
        AccountStore, LogFilter, LogParent, LogSort, Processes, StoreError,
        core::page::{End, PageRequest},
    },
};

/// The number of values in a line, for its cost.
const VALUES_PER_ROW: u64 = 5;

/// The number of processes in a request. The command line passes all processes that it received for a
/// cluster.
const MAX_INSTANCES: usize = 1_001;

/// The number of lines of one process, the most recent ones.
const MAX_LINES: u64 = 1_000;

/// The maximum length of the search text, in characters.
const MAX_SEARCH_CHARACTERS: usize = 1_000;

/// A log line.
#[derive(Serialize, ToSchema)]
pub(super) struct LogRow {
    /// The time by the clock of the process, in milliseconds since 1970-01-01 UTC.
    timestamp: i64,
    /// The number of the process's `instance`, as listed with the cluster. Null if unknown.
    instance_id: Option<i64>,
    /// The source of the line: `scheduler`, or the worker's address or name. Empty if unknown.
    instance: String,
    /// The logger, the level and the text.
    message: String,
}

/// A log line of one process.
#[derive(Serialize, ToSchema)]
pub(super) struct InstanceLogRow {
    /// The time by the clock of the process, in milliseconds since 1970-01-01 UTC.
    timestamp: i64,
    /// The logger, the level and the text.
    message: String,
}

/// The location of a cluster's logs.
#[derive(Serialize, ToSchema)]
pub(super) struct InfoBody {
    /// The type of the location. Always `galvo`: the logs are on this server, not with a cloud vendor.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Get the location of a cluster's logs
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/id/{id}/log-info",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
    ),
    responses(
        (status = 200, description = "The location.", body = InfoBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn info(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            request.cluster(request.path("id")).await?;
            Ok(CoiledResponse::one(InfoBody { kind: "galvo" }))
        })
        .await
}

/// Read the log of a cluster from a given time
///
/// Returns the lines oldest first: all lines of the millisecond `since_ms`, the next 1,000 lines, and
/// the remaining lines of the last line's millisecond. A client that continues from that millisecond,
/// and skips the lines that it already has, misses no line.
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/id/{id}/better-logs",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("dask" = Option<bool>, Query, description = "True for the logs of Dask. They are also returned if `system` is not true."),
        ("system" = Option<bool>, Query, description = "True for the logs of the operating system. The server stores none."),
        ("since_ms" = Option<i64>, Query, description = "Limits the result to lines written at this time or later, in milliseconds since 1970-01-01 UTC."),
        ("until_ms" = Option<i64>, Query, description = "Limits the result to lines written at this time or earlier, in milliseconds since 1970-01-01 UTC."),
        ("filter_pattern" = Option<String>, Query, description = "Limits the result to lines that contain this text, ignoring case. At most 1,000 characters."),
        ("instance_ids" = Option<String>, Query, description = "Limits the result to the processes with these numbers, separated by commas. At most 1,001."),
    ),
    responses(
        (status = 200, description = "The log lines, oldest first.", body = [LogRow]),
        (status = 400, description = "A parameter is invalid, or the search would read more than 100,000 lines. The message says which.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn of_cluster(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let (dask, system) = (parse_bool(request, "dask")?, parse_bool(request, "system")?);
            let from = parse_milliseconds(request, "since_ms")?;
            let to = parse_milliseconds(request, "until_ms")?.map(|until| until.saturating_add(1));
            let search_text = request.parameter("filter_pattern");
            if search_text
                .as_ref()
                .is_some_and(|search_text| search_text.chars().count() > MAX_SEARCH_CHARACTERS)
            {
                return Err(Problem::parameter("filter_pattern", "must have at most 1,000 characters"));
            }
            let numbers = requested_instances(request)?;
            let cluster = request.cluster(request.path("id")).await?;
            if system && !dask {
                return Ok(CoiledResponse::list(Vec::new(), VALUES_PER_ROW));
            }
            let processes = match numbers {
                None => None,
                Some(numbers) => {
                    let workers = workers(request, cluster.id).await?.into_iter().map(|worker| worker.id);
                    let is_requested = |worker: &WorkerId| numbers.contains(&instance_number(*worker));
                    let workers = workers.filter(is_requested).collect();
                    Some(Processes { scheduler: numbers.contains(&cluster.id.0), workers })
                }
            };
            let parent = LogParent {
                cluster: cluster.id,
                at: (from, to),
                filter: LogFilter { processes, ..LogFilter::default() },
            };
            let lines = request.store.log_extract(&parent, search_text.as_deref()).await.map_err(bounded)?;
            let row = |line: Model| {
                let worker = line.worker_id.map(instance_number);
                let is_scheduler = line.source == Source::Scheduler;
                Ok(LogRow {
                    timestamp: line.logged_at.0,
                    instance_id: worker.or_else(|| is_scheduler.then_some(cluster.id.0)),
                    message: format_message(&request.store, &line)?,
                    instance: match line.worker {
                        Some(worker) => worker,
                        None if is_scheduler => "scheduler".to_owned(),
                        None => String::new(),
                    },
                })
            };
            Ok(CoiledResponse::list(
                lines.into_iter().map(row).collect::<Result<_, StoreError>>()?,
                VALUES_PER_ROW,
            ))
        })
        .await
}

/// Read the end of the log of one process
#[utoipa::path(
    get,
    path = "/api/v2/instances/{workspace}/instance/{name}/logs",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("name" = String, Path, description = "The name of the process's `instance`, as listed with the cluster."),
    ),
    responses(
        (status = 200, description = "The last 1,000 lines of the process, oldest first.", body = [InstanceLogRow]),
        (status = 404, description = "The process does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn of_instance(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let missing = || Problem::missing("instance not found");
            let (cluster, worker) = parse_instance_name(request.path("name")).ok_or_else(missing)?;
            let exists = match worker {
                None => !request.store.clusters_by_id(&[cluster]).await?.is_empty(),
                Some(worker) => !request.store.workers_by_id(&[(cluster, worker)]).await?.is_empty(),
            };
            if !exists {
                return Err(missing());
            }
            let processes = worker.is_none().then(|| Processes { scheduler: true, workers: Vec::new() });
            let parent = LogParent {
                cluster,
                at: (None, None),
                filter: LogFilter { worker, processes, ..LogFilter::default() },
            };
            let page_request = PageRequest::from(End::Last, MAX_LINES);
            let pages = request.store.log_pages(&[parent], LogSort::OldestFirst, &page_request).await?;
            let lines = pages.into_iter().flat_map(|page| page.rows).map(|(_, line)| {
                let message = format_message(&request.store, &line)?;
                Ok(InstanceLogRow { timestamp: line.logged_at.0, message })
            });
            Ok(CoiledResponse::list(lines.collect::<Result<_, StoreError>>()?, VALUES_PER_ROW))
        })
        .await
}

/// Formats a line as Dask does: the logger, the level and the text.
fn format_message(store: &AccountStore, line: &Model) -> Result<String, StoreError> {
    let text = decrypted_or_none(store.log_message(line))?;
    let text = text.unwrap_or_else(|| "(the key this line is encrypted with is lost)".to_owned());
    let repeated = match line.repeated {
        2.. => format!(" ({} times)", line.repeated),
        _ => String::new(),
    };
    Ok(format!("{} - {} - {text}{repeated}", line.logger, line.level))
}

fn parse_bool(request: &CoiledRequest, name: &str) -> Result<bool, Problem> {
    match request.parameter(name).as_deref() {
        None | Some("False" | "false" | "0") => Ok(false),
        Some("True" | "true" | "1") => Ok(true),
        Some(_) => Err(Problem::parameter(name, "must be True or False")),
    }
}

fn parse_milliseconds(request: &CoiledRequest, name: &str) -> Result<Option<i64>, Problem> {
    let Some(text) = request.parameter(name) else { return Ok(None) };
    let number = text.parse().map_err(|_| {
        Problem::parameter(name, "must be a whole number of milliseconds since 1970-01-01 UTC")
    })?;
    Ok(Some(number))
}

/// Returns the numbers of the requested processes.
fn requested_instances(request: &CoiledRequest) -> Result<Option<HashSet<i64>>, Problem> {
    let Some(text) = request.parameter("instance_ids") else { return Ok(None) };
    let numbers: Result<HashSet<i64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
    match numbers {
        Ok(numbers) if numbers.len() <= MAX_INSTANCES => Ok(Some(numbers)),
        _ => Err(Problem::parameter(
            "instance_ids",
            "must be at most 1,001 whole numbers with commas between them",
        )),
    }
}
