//! Clusters as the client's command line shows and stops them.

use axum::response::Response;
use entity::{
    cluster::{DesiredState, Model, Status},
    ids::{ClusterId, WorkerId},
    worker,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    cluster::set_desired_state_in_store,
    paging,
    request::{CoiledRequest, CoiledResponse, Refusals, iso, no_cluster},
};
use crate::{
    domain::{life_cycle::State, stop::StopReason},
    http::extract::problem::{ErrorBody, Problem},
    store::{
        ClusterFilter, WorkerParent, WorkerSort,
        core::page::{End, PageRequest, Slice},
    },
};

/// The number of values in a row of the list, and in a process, for its cost.
const VALUES_PER_ROW: u64 = 10;

/// The number of workers of a cluster, the most recently joined ones.
const MAX_WORKERS: u64 = 1_000;

/// The mask of a worker's number: JavaScript, and thus the client's Python, keeps this many bits.
const NUMBER_MASK: u64 = (1 << 52) - 1;

/// The state of a cluster or a process.
#[derive(Serialize, ToSchema)]
pub(super) struct StateBody {
    /// The state, in the client's terms.
    state: &'static str,
    /// The details. Empty without any.
    reason: String,
    /// The time of the state change, or of the last message, in ISO 8601.
    updated: String,
}

/// A cluster in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct ClusterSummary {
    /// The cluster's number, which identifies it everywhere. Younger clusters have higher numbers.
    id: i64,
    /// The cluster's name, or Dask's identifier of the scheduler without a name.
    name: String,
    /// The start time by the cluster's own clock, in ISO 8601.
    created: String,
    /// The time when the server last received a message from the cluster, in ISO 8601.
    updated: String,
    /// The state: `starting`, `ready`, `stopping`, `stopped`, or `error` for a lost cluster.
    current_state: StateBody,
}

/// A cluster with its processes.
#[derive(Serialize, ToSchema)]
pub(super) struct ClusterDetails {
    #[serde(flatten)]
    cluster: ClusterSummary,
    /// The scheduler.
    scheduler: ProcessBody,
    /// The most recent 1,000 workers, in the order of joining.
    workers: Vec<ProcessBody>,
}

/// A process of a cluster.
#[derive(Serialize, ToSchema)]
pub(super) struct ProcessBody {
    /// The name of the process.
    name: String,
    /// The start time by the scheduler's clock, in ISO 8601.
    created: String,
    /// The state: `started`, `stopped`, or `error` after an abnormal end.
    current_state: StateBody,
    /// The instance that runs the process.
    instance: InstanceBody,
}

/// The instance that runs a process.
#[derive(Serialize, ToSchema)]
pub(super) struct InstanceBody {
    /// The number of the instance, as in log lines.
    id: i64,
    /// The name of the instance, for requesting its logs.
    name: String,
    /// The start time of the process, in ISO 8601.
    created: String,
    /// The host, as known to Dask.
    private_ip_address: Option<String>,
    /// The same host: the server knows no other address.
    public_ip_address: Option<String>,
    /// The state: `ready`, `stopped` or `error`.
    current_state: StateBody,
}

/// The addresses of a cluster's processes.
#[derive(Serialize, ToSchema)]
pub(super) struct AddressBody {
    /// The scheduler's host, as known to Dask. Null if it was not reported.
    scheduler_private_address: Option<String>,
    /// The same host: the server knows no other address.
    scheduler_public_address: Option<String>,
    /// The same host.
    scheduler_hostname: Option<String>,
    /// The host of the requested worker. Null if none was requested.
    worker_address: Option<String>,
}

/// List the clusters of an account for the client's command line
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("name" = Option<String>, Query, description = "Limits the list to clusters with this name, or with this Dask identifier of the scheduler."),
        ("just_mine" = Option<u8>, Query, description = "`1` for only the clusters of the token's user, `0` for all. Default: `0`."),
        ("limit" = Option<u64>, Query, description = "The page size, at least 1. Values above 1,000 count as 1,000. Default: 100."),
        ("offset" = Option<u64>, Query, description = "The number of rows to skip, at most 1,000,000. Default: 0."),
    ),
    responses(
        (status = 200, description = "A page of clusters, most recently started first, empty after the last one.", body = [ClusterSummary]),
        (status = 400, description = "A parameter is invalid. The message names it.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn list(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let slice = paging::slice(request)?;
            let is_own_only = match request.parameter("just_mine").as_deref() {
                None | Some("0") => false,
                Some("1") => true,
                Some(_) => return Err(Problem::parameter("just_mine", "must be 0 or 1")),
            };
            let users = is_own_only.then(|| vec![request.caller.viewer.user_id()]);
            let filter = ClusterFilter {
                users,
                name_or_scheduler_id: request.parameter("name"),
                ..ClusterFilter::default()
            };
            let rows = request.store.cluster_slice(&filter, slice).await?;
            Ok(CoiledResponse::slice(rows.iter().map(ClusterSummary::from).collect(), VALUES_PER_ROW, slice))
        })
        .await
}

/// Find the most recently started cluster with a name
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/name/{name}",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("name" = String, Path, description = "The cluster's name, or Dask's identifier of its scheduler."),
    ),
    responses(
        (status = 200, description = "The cluster.", body = ClusterSummary),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn by_name(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let filter = ClusterFilter {
                name_or_scheduler_id: Some(request.path("name").to_owned()),
                ..ClusterFilter::default()
            };
            let found = request.store.cluster_slice(&filter, Slice { offset: 0, limit: 1 }).await?;
            Ok(CoiledResponse::one(ClusterSummary::from(found.first().ok_or_else(no_cluster)?)))
        })
        .await
}

/// Get a cluster and its processes
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/id/{id}",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
    ),
    responses(
        (status = 200, description = "The cluster.", body = ClusterDetails),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn details(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let row = request.cluster(request.path("id")).await?;
            let workers = workers(request, row.id).await?;
            let cost = VALUES_PER_ROW * workers.len() as u64;
            let body = ClusterDetails {
                cluster: ClusterSummary::from(&row),
                scheduler: ProcessBody::scheduler(&row),
                workers: workers.iter().map(|worker| ProcessBody::worker(&row, worker)).collect(),
            };
            Ok(CoiledResponse { body, cost })
        })
        .await
}

/// Stop a cluster
///
/// The scheduler receives the request with the response to its next report, and closes.
#[utoipa::path(
    delete,
    path = "/api/v2/clusters/account/{workspace}/id/{id}",
    tag = "coiled",
    security(("token" = ["admin"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("reason" = Option<String>, Query, description = "The reason. It is cut to 200 characters."),
    ),
    responses(
        (status = 200, description = "The desired state is stored.", body = Object),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `admin` and the cluster belongs to another user, the token has fewer scopes than its user, or it belongs to another account.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        (status = 429, description = "The quota of points is used up. See `Retry-After`.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The database is unavailable. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(super) async fn stop(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            // The client sends reasons of thousands of characters.
            let reason = StopReason::truncate(&request.parameter("reason").unwrap_or_default());
            set_desired_state_in_store(request, DesiredState::Stopped, reason).await
        })
        .await
}

/// Get the addresses of a cluster
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/id/{id}/ssh-key",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("worker" = Option<String>, Query, description = "The name or host of one of its workers."),
    ),
    responses(
        (status = 200, description = "The addresses. The server has no SSH keys.", body = AddressBody),
        (status = 404, description = "The cluster or the worker does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn address(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let row = request.cluster(request.path("id")).await?;
            let worker = match request.parameter("worker") {
                None => None,
                Some(requested) => {
                    let workers = workers(request, row.id).await?;
                    let is_requested = |worker: &&worker::Model| {
                        worker.name == requested
                            || host(&worker.address) == requested
                            || worker.address == requested
                    };
                    // The most recently joined one of several matching workers.
                    let found = workers.iter().rev().find(is_requested);
                    Some(found.ok_or_else(|| Problem::missing("worker not found"))?.address.clone())
                }
            };
            let scheduler = row.address.as_deref().map(|address| host(address).to_owned());
            Ok(CoiledResponse::one(AddressBody {
                scheduler_private_address: scheduler.clone(),
                scheduler_public_address: scheduler.clone(),
                scheduler_hostname: scheduler,
                worker_address: worker.map(|address| host(&address).to_owned()),
            }))
        })
        .await
}

/// Returns the most recently joined workers of a cluster, in the order of joining.
pub(super) async fn workers(
    request: &CoiledRequest,
    cluster: ClusterId,
) -> Result<Vec<worker::Model>, Problem> {
    let page_request = PageRequest::from(End::Last, MAX_WORKERS);
    let parent = WorkerParent { cluster, alive: None };
    let pages = request.store.worker_pages(&[parent], WorkerSort::OldestFirst, &page_request).await?;
    Ok(pages.into_iter().flat_map(|page| page.rows).map(|(_, row)| row).collect())
}

/// Returns the details of a lost cluster, with the time of its last report.
fn lost_reason(row: &Model) -> String {
    let at = row.reported_at.0.format("%Y-%m-%d %H:%M:%S UTC");
    format!("it stopped reporting; its state after {at} is unknown")
}

impl From<&Model> for ClusterSummary {
    fn from(row: &Model) -> Self {
        let state = State::from(row);
        let (state_name, reason) = match state {
            State::Starting => ("starting", None),
            State::Running => ("ready", None),
            State::Idle => ("ready", Some("it has no work".to_owned())),
            State::Closing => ("stopping", None),
            State::Closed => ("stopped", row.close_reason.clone()),
            State::Lost => ("error", Some(lost_reason(row))),
        };
        Self {
            id: row.id.0,
            name: row.name.clone().unwrap_or_else(|| row.scheduler_id.clone()),
            created: iso(row.started_at.0),
            updated: iso(row.last_seen_at.0),
            current_state: StateBody {
                state: state_name,
                reason: reason.unwrap_or_default(),
                updated: iso(row.closed_at.unwrap_or(row.reported_at).0),
            },
        }
    }
}

impl ProcessBody {
    fn scheduler(row: &Model) -> Self {
        let end = match row.status {
            Status::Running => None,
            Status::Closed => Some(("stopped", row.close_reason.clone().unwrap_or_default())),
            Status::Lost => Some(("error", lost_reason(row))),
        };
        let address = row.address.as_deref().map(host);
        Self::new(Process {
            name: "scheduler".to_owned(),
            instance: (row.id.0, instance_name(row.id, None)),
            created: iso(row.started_at.0),
            address: address.map(str::to_owned),
            updated: iso(row.closed_at.unwrap_or(row.reported_at).0),
            end,
        })
    }

    fn worker(cluster: &Model, row: &worker::Model) -> Self {
        use worker::End;
        let end = row.ended_at.map(|_| match row.end_kind {
            Some(End::Memory) => ("error", "its nanny killed it because of its memory use".to_owned()),
            Some(End::Lost) => ("error", "it was lost without notice".to_owned()),
            Some(End::Retired) => ("stopped", "the cluster no longer needed it".to_owned()),
            Some(End::Closed | End::Unknown) | None => ("stopped", String::new()),
        });
        // A worker whose end was not reported ended with its cluster.
        let cluster_end = || (cluster.status != Status::Running).then(|| ("stopped", String::new()));
        let updated = row.ended_at.or(row.last_seen_at).unwrap_or(cluster.reported_at);
        Self::new(Process {
            name: row.name.clone(),
            instance: (instance_number(row.id), instance_name(cluster.id, Some(row.id))),
            created: iso(row.started_at.0),
            address: Some(host(&row.address).to_owned()),
            updated: iso(updated.0),
            end: end.or_else(cluster_end),
        })
    }

    fn new(process: Process) -> Self {
        let Process { name, instance: (number, instance_name), created, address, updated, end } = process;
        let state = |running_state| {
            let (state, reason) = end.clone().unwrap_or((running_state, String::new()));
            StateBody { state, reason, updated: updated.clone() }
        };
        Self {
            current_state: state("started"),
            instance: InstanceBody {
                id: number,
                name: instance_name,
                created: created.clone(),
                private_ip_address: address.clone(),
                public_ip_address: address,
                current_state: state("ready"),
            },
            name,
            created,
        }
    }
}

/// The values of a process.
struct Process {
    name: String,
    /// The number and the name of the instance.
    instance: (i64, String),
    created: String,
    address: Option<String>,
    updated: String,
    /// The state after the end, in the client's terms, and its details. None while the process runs.
    end: Option<(&'static str, String)>,
}

/// Returns the host of a Dask address without its protocol and port. Returns an address of another form
/// unchanged.
fn host(address: &str) -> &str {
    let host_and_port = address.split_once("://").map_or(address, |(_, host_and_port)| host_and_port);
    match host_and_port.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            host.trim_start_matches('[').trim_end_matches(']')
        }
        _ => host_and_port,
    }
}

/// Returns the name of a process's instance. Without a worker, it is the scheduler's.
fn instance_name(cluster: ClusterId, worker: Option<WorkerId>) -> String {
    worker.map_or_else(|| format!("{cluster}-scheduler"), |worker| format!("{cluster}-{worker}"))
}

/// Parses the name of an instance.
pub(super) fn parse_instance_name(name: &str) -> Option<(ClusterId, Option<WorkerId>)> {
    let (cluster, process) = name.split_once('-')?;
    let worker = if process == "scheduler" { None } else { Some(process.parse().ok()?) };
    Some((cluster.parse().ok()?, worker))
}

/// Returns the number of a worker's instance: its identifier reduced to 52 bits, all of which are
/// random. The scheduler has its cluster's number.
pub(super) fn instance_number(worker: WorkerId) -> i64 {
    let (high, low) = worker.0.as_u64_pair();
    i64::try_from((high ^ low) & NUMBER_MASK).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_no_protocol_and_no_port() {
        for (address, expected) in [
            ("tcp://10.0.0.1:8786", "10.0.0.1"),
            ("tls://scheduler.example:8786", "scheduler.example"),
            ("tcp://[::1]:8786", "::1"),
            ("ws://host:80", "host"),
            ("inproc://10.0.0.1/7/1", "10.0.0.1/7/1"),
            ("", ""),
        ] {
            assert_eq!(host(address), expected, "{address}");
        }
    }

    #[test]
    fn processes_have_numbers_and_names() {
        let worker: WorkerId = "6ba7b810-9dad-41d1-80b4-00c04fd430c8".parse().expect("a UUID");
        // 0x6ba7b8109dad41d1 ^ 0x80b400c04fd430c8, without its first three digits.
        assert_eq!(instance_number(worker), 0x0003_b8d0_d279_7119);
        let cluster = ClusterId(12);
        for process in [None, Some(worker)] {
            assert_eq!(parse_instance_name(&instance_name(cluster, process)), Some((cluster, process)));
        }
        for name in ["", "12", "12-", "x-scheduler", "12-nobody"] {
            assert_eq!(parse_instance_name(name), None, "{name}");
        }
    }
}
