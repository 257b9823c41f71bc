//! Logs as the client's command shows them.

use std::collections::HashSet;

use axum::response::Response;
use entity::{
    ids::WorkerId,
    log_line::{Model, Source},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    asked::{Answer, Asked, Refusals, bounded, unless_sealed},
    cluster_view::{instance_number, named_instance, workers},
};
use crate::{
    http::problem::{ErrorBody, Problem},
    store::{
        AccountStore, LogFilter, LogParent, LogSort, Processes, StoreError,
        page::{End, PageRequest},
    },
};

/// Values of a line.
const VALUES: u64 = 5;

/// Processes whose lines are asked for at once, at the most: the command names all that it was told of a cluster.
const MAX_INSTANCES: usize = 1_001;

/// Lines of one process that are told at the most, those that were written last.
const MAX_LINES: u64 = 1_000;

/// Characters of what is looked for at the most.
const MAX_WORDS: usize = 1_000;

/// A line of a log.
#[derive(Serialize, ToSchema)]
pub(super) struct LogRow {
    /// When it was written, by the clock of its process: milliseconds since 1970-01-01 UTC.
    timestamp: i64,
    /// The number of the process that wrote it, as the cluster's processes have it; null if it is not known.
    instance_id: Option<i64>,
    /// What wrote it, in words: the scheduler, or the worker's address or name.
    instance: String,
    /// What was written: the level, the logger and the text.
    message: String,
}

/// A line of the log of one process.
#[derive(Serialize, ToSchema)]
pub(super) struct InstanceLogRow {
    /// When it was written, by the clock of its process: milliseconds since 1970-01-01 UTC.
    timestamp: i64,
    /// What was written: the level, the logger and the text.
    message: String,
}

/// Where the logs of a cluster are.
#[derive(Serialize, ToSchema)]
pub(super) struct InfoBody {
    /// Always `galvo`: here, and not with a cloud vendor.
    #[serde(rename = "type")]
    kind: &'static str,
}

/// Tell where the logs of a cluster are
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
        (status = 200, description = "Here.", body = InfoBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn info(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            asked.cluster(asked.path("id")).await?;
            Ok(Answer::one(InfoBody { kind: "galvo" }))
        })
        .await
}

/// Read the log of a cluster from a time on
///
/// Answers the lines in the order in which they were written: all of the millisecond `since_ms`, 1,000 behind it, and then those
/// of the same millisecond as the last of them. Whoever goes on from that one, and leaves out what they have seen of it, misses
/// nothing.
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/id/{id}/better-logs",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("dask" = Option<bool>, Query, description = "Whether the logs of Dask are asked for; they are, too, if `system` is not true."),
        ("system" = Option<bool>, Query, description = "Whether those of the operating system are, of which there are none."),
        ("since_ms" = Option<i64>, Query, description = "Only lines written at this time or later: milliseconds since 1970-01-01 UTC."),
        ("until_ms" = Option<i64>, Query, description = "Only lines written at this time or earlier: milliseconds since 1970-01-01 UTC."),
        ("filter_pattern" = Option<String>, Query, description = "Only lines that contain these words, in any case of letters."),
        ("instance_ids" = Option<String>, Query, description = "Only lines of the processes with these numbers, with commas between them, at most 1,001."),
    ),
    responses(
        (status = 200, description = "Lines.", body = [LogRow]),
        (status = 400, description = "A parameter is wrong, or more than 100,000 lines would have to be read; the message tells.", body = ErrorBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn of_cluster(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let (dask, system) = (truth(asked, "dask")?, truth(asked, "system")?);
            let from = milliseconds(asked, "since_ms")?;
            let to = milliseconds(asked, "until_ms")?.map(|until| until.saturating_add(1));
            let words = asked.parameter("filter_pattern");
            if words.as_ref().is_some_and(|words| words.chars().count() > MAX_WORDS) {
                return Err(Problem::parameter("filter_pattern", "must have at most 1,000 characters"));
            }
            let numbers = instances(asked)?;
            let cluster = asked.cluster(asked.path("id")).await?;
            if system && !dask {
                return Ok(Answer::list(Vec::new(), VALUES));
            }
            let processes = match numbers {
                None => None,
                Some(numbers) => {
                    let workers = workers(asked, cluster.id).await?.into_iter().map(|worker| worker.id);
                    let is_asked_for = |worker: &WorkerId| numbers.contains(&instance_number(*worker));
                    let workers = workers.filter(is_asked_for).collect();
                    Some(Processes { scheduler: numbers.contains(&cluster.id.0), workers })
                }
            };
            let parent = LogParent {
                cluster: cluster.id,
                at: (from, to),
                filter: LogFilter { processes, ..LogFilter::default() },
            };
            let lines = asked.store.log_extract(&parent, words.as_deref()).await.map_err(bounded)?;
            let row = |line: Model| {
                let worker = line.worker_id.map(instance_number);
                let is_scheduler = line.source == Source::Scheduler;
                Ok(LogRow {
                    timestamp: line.logged_at.0,
                    instance_id: worker.or_else(|| is_scheduler.then_some(cluster.id.0)),
                    message: message(&asked.store, &line)?,
                    instance: match line.worker {
                        Some(worker) => worker,
                        None if is_scheduler => "scheduler".to_owned(),
                        None => String::new(),
                    },
                })
            };
            Ok(Answer::list(lines.into_iter().map(row).collect::<Result<_, StoreError>>()?, VALUES))
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
        ("name" = String, Path, description = "What the cluster's processes call where the process runs."),
    ),
    responses(
        (status = 200, description = "Its last 1,000 lines, in the order in which they were written.", body = [InstanceLogRow]),
        (status = 404, description = "No such process.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn of_instance(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let missing = || Problem::missing("instance not found");
            let (cluster, worker) = named_instance(asked.path("name")).ok_or_else(missing)?;
            let is_there = match worker {
                None => !asked.store.clusters_by_id(&[cluster]).await?.is_empty(),
                Some(worker) => !asked.store.workers_by_id(&[(cluster, worker)]).await?.is_empty(),
            };
            if !is_there {
                return Err(missing());
            }
            let processes = worker.is_none().then(|| Processes { scheduler: true, workers: Vec::new() });
            let parent = LogParent {
                cluster,
                at: (None, None),
                filter: LogFilter { worker, processes, ..LogFilter::default() },
            };
            let last = PageRequest::from(End::Last, MAX_LINES);
            let pages = asked.store.log_pages(&[parent], LogSort::OldestFirst, &last).await?;
            let lines = pages.into_iter().flat_map(|page| page.rows).map(|(_, line)| {
                let message = message(&asked.store, &line)?;
                Ok(InstanceLogRow { timestamp: line.logged_at.0, message })
            });
            Ok(Answer::list(lines.collect::<Result<_, StoreError>>()?, VALUES))
        })
        .await
}

/// A line as Dask writes it: its level and logger stand in front of the text.
fn message(store: &AccountStore, line: &Model) -> Result<String, StoreError> {
    let text = unless_sealed(store.log_message(line))?;
    let text = text.unwrap_or_else(|| "(the key this line is encrypted with is lost)".to_owned());
    let repeated = match line.repeated {
        2.. => format!(" ({} times)", line.repeated),
        _ => String::new(),
    };
    Ok(format!("{} - {} - {text}{repeated}", line.logger, line.level))
}

fn truth(asked: &Asked, name: &str) -> Result<bool, Problem> {
    match asked.parameter(name).as_deref() {
        None | Some("False" | "false" | "0") => Ok(false),
        Some("True" | "true" | "1") => Ok(true),
        Some(_) => Err(Problem::parameter(name, "must be True or False")),
    }
}

fn milliseconds(asked: &Asked, name: &str) -> Result<Option<i64>, Problem> {
    let Some(text) = asked.parameter(name) else { return Ok(None) };
    let number = text.parse().map_err(|_| {
        Problem::parameter(name, "must be a whole number of milliseconds since 1970-01-01 UTC")
    })?;
    Ok(Some(number))
}

/// The numbers of the processes that are asked for.
fn instances(asked: &Asked) -> Result<Option<HashSet<i64>>, Problem> {
    let Some(text) = asked.parameter("instance_ids") else { return Ok(None) };
    let numbers: Result<HashSet<i64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
    match numbers {
        Ok(numbers) if numbers.len() <= MAX_INSTANCES => Ok(Some(numbers)),
        _ => Err(Problem::parameter(
            "instance_ids",
            "must be at most 1,001 whole numbers with commas between them",
        )),
    }
}
