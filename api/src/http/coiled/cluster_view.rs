//! Clusters as the client's command shows and stops them.

use axum::response::Response;
use entity::{
    cluster::{DesiredState, Model, Status},
    ids::{ClusterId, WorkerId},
    worker,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    asked::{Answer, Asked, Refusals, iso, no_cluster},
    cluster::wish,
    paging,
};
use crate::{
    domain::{life_cycle::State, stop::Reason},
    http::problem::{ErrorBody, Problem},
    store::{
        ClusterFilter, WorkerParent, WorkerSort,
        page::{End, PageRequest, Slice},
    },
};

/// Values of a row of the list, and of a process.
const VALUES: u64 = 10;

/// Workers of a cluster that are told, those that joined last.
const MAX_WORKERS: u64 = 1_000;

/// The bits of the number of a worker: as many as JavaScript keeps, and the client's Python.
const NUMBER: u64 = (1 << 52) - 1;

/// What something is doing.
#[derive(Serialize, ToSchema)]
pub(super) struct StateBody {
    /// In a word of the client's.
    state: &'static str,
    /// More about it; empty if there is nothing to be said.
    reason: String,
    /// Since when, or when it was last heard of: ISO 8601.
    updated: String,
}

/// A cluster in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct ClusterSummary {
    /// The number that names it everywhere: larger ones are younger.
    id: i64,
    /// What it is called; Dask's own identifier if it has no name.
    name: String,
    /// When it started, by its own clock: ISO 8601.
    created: String,
    /// When the server last heard of it: ISO 8601.
    updated: String,
    /// What it is doing: `starting`, `ready`, `stopping`, `stopped`, or `error` if nothing is heard of it any more.
    current_state: StateBody,
}

/// A cluster with its processes.
#[derive(Serialize, ToSchema)]
pub(super) struct ClusterDetails {
    #[serde(flatten)]
    cluster: ClusterSummary,
    /// Its scheduler.
    scheduler: ProcessBody,
    /// Its workers, those that joined first first: the last 1,000.
    workers: Vec<ProcessBody>,
}

/// A process of a cluster.
#[derive(Serialize, ToSchema)]
pub(super) struct ProcessBody {
    /// What it is called.
    name: String,
    /// When it started, by the scheduler's clock: ISO 8601.
    created: String,
    /// What it is doing: `started`, `stopped`, or `error` if it ended otherwise than in good order.
    current_state: StateBody,
    /// Where it runs.
    instance: InstanceBody,
}

/// Where a process runs.
#[derive(Serialize, ToSchema)]
pub(super) struct InstanceBody {
    /// The number that lines of logs name it by.
    id: i64,
    /// What its logs are asked for by.
    name: String,
    /// When the process started: ISO 8601.
    created: String,
    /// The host as Dask knows it.
    private_ip_address: Option<String>,
    /// The same: nothing is known of other addresses.
    public_ip_address: Option<String>,
    /// What it is doing: `ready`, `stopped` or `error`.
    current_state: StateBody,
}

/// Where processes of a cluster can be reached.
#[derive(Serialize, ToSchema)]
pub(super) struct AddressBody {
    /// The scheduler's host as Dask knows it; null if it did not say.
    scheduler_private_address: Option<String>,
    /// The same: nothing is known of other addresses.
    scheduler_public_address: Option<String>,
    /// The same.
    scheduler_hostname: Option<String>,
    /// The host of the worker that was asked for; null if none was.
    worker_address: Option<String>,
}

/// List the clusters of an account as the client's command shows them
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("name" = Option<String>, Query, description = "Only clusters of this name, or with this identifier of Dask's."),
        ("just_mine" = Option<u8>, Query, description = "1 for clusters of the token's user alone."),
        ("limit" = Option<u64>, Query, description = "At most so many, 1 to 1,000; 100 if not given."),
        ("offset" = Option<u64>, Query, description = "Behind so many others, at most 1,000,000."),
    ),
    responses(
        (status = 200, description = "Clusters, those that started last first; none behind the last one.", body = [ClusterSummary]),
        (status = 400, description = "A parameter is wrong; the message names it.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn list(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let slice = paging::slice(asked)?;
            let mine = match asked.parameter("just_mine").as_deref() {
                None | Some("0") => false,
                Some("1") => true,
                Some(_) => return Err(Problem::parameter("just_mine", "must be 0 or 1")),
            };
            let users = mine.then(|| vec![asked.viewer.user_id()]);
            let filter = ClusterFilter { users, named: asked.parameter("name"), ..ClusterFilter::default() };
            let rows = asked.store.cluster_slice(&filter, slice).await?;
            Ok(Answer::slice(rows.iter().map(ClusterSummary::from).collect(), VALUES, slice))
        })
        .await
}

/// Find the cluster of a name that started last
#[utoipa::path(
    get,
    path = "/api/v2/clusters/account/{workspace}/name/{name}",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("name" = String, Path, description = "What it is called, or Dask's own identifier."),
    ),
    responses(
        (status = 200, description = "The cluster.", body = ClusterSummary),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn by_name(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let filter =
                ClusterFilter { named: Some(asked.path("name").to_owned()), ..ClusterFilter::default() };
            let found = asked.store.cluster_slice(&filter, Slice { offset: 0, limit: 1 }).await?;
            Ok(Answer::one(ClusterSummary::from(found.first().ok_or_else(no_cluster)?)))
        })
        .await
}

/// Tell of a cluster and its processes
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
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn details(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let row = asked.cluster(asked.path("id")).await?;
            let workers = workers(asked, row.id).await?;
            let cost = VALUES * workers.len() as u64;
            let body = ClusterDetails {
                cluster: ClusterSummary::from(&row),
                scheduler: ProcessBody::scheduler(&row),
                workers: workers.iter().map(|worker| ProcessBody::worker(&row, worker)).collect(),
            };
            Ok(Answer { body, cost })
        })
        .await
}

/// Stop a cluster
///
/// Its scheduler learns it with the answer to its next report, and closes.
#[utoipa::path(
    delete,
    path = "/api/v2/clusters/account/{workspace}/id/{id}",
    tag = "coiled",
    security(("token" = ["admin"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("reason" = Option<String>, Query, description = "Why; what is longer than 200 characters is cut."),
    ),
    responses(
        (status = 200, description = "It is written down.", body = Object),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `admin`, or is for another account.", body = ErrorBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        (status = 429, description = "Too many points were spent; see Retry-After.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "The store is away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn stop(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            // The client sends thousands of characters where it has as many.
            let reason = Reason::cut(&asked.parameter("reason").unwrap_or_default());
            wish(asked, DesiredState::Stopped, reason).await
        })
        .await
}

/// Tell where a cluster can be reached
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
        (status = 200, description = "Where it can be reached. There are no keys.", body = AddressBody),
        (status = 404, description = "No such cluster or worker.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn address(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let row = asked.cluster(asked.path("id")).await?;
            let worker = match asked.parameter("worker") {
                None => None,
                Some(wanted) => {
                    let workers = workers(asked, row.id).await?;
                    let is_wanted = |worker: &&worker::Model| {
                        worker.name == wanted || host(&worker.address) == wanted || worker.address == wanted
                    };
                    // The one that joined last, if there were several.
                    let found = workers.iter().rev().find(is_wanted);
                    Some(found.ok_or_else(|| Problem::missing("worker not found"))?.address.clone())
                }
            };
            let scheduler = row.address.as_deref().map(|address| host(address).to_owned());
            Ok(Answer::one(AddressBody {
                scheduler_private_address: scheduler.clone(),
                scheduler_public_address: scheduler.clone(),
                scheduler_hostname: scheduler,
                worker_address: worker.map(|address| host(&address).to_owned()),
            }))
        })
        .await
}

/// The workers of a cluster that joined last, those that joined first of them first.
pub(super) async fn workers(asked: &Asked, cluster: ClusterId) -> Result<Vec<worker::Model>, Problem> {
    let request = PageRequest::from(End::Last, MAX_WORKERS);
    let parent = WorkerParent { cluster, alive: None };
    let pages = asked.store.worker_pages(&[parent], WorkerSort::OldestFirst, &request).await?;
    Ok(pages.into_iter().flat_map(|page| page.rows).map(|(_, row)| row).collect())
}

impl From<&Model> for ClusterSummary {
    fn from(row: &Model) -> Self {
        let state = State::from(row);
        let (word, reason) = match state {
            State::Starting => ("starting", None),
            State::Running => ("ready", None),
            State::Idle => ("ready", Some("it has no work")),
            State::Closing => ("stopping", None),
            State::Closed => ("stopped", row.close_reason.as_deref()),
            State::Lost => ("error", Some("nothing is heard of it any more")),
        };
        Self {
            id: row.id.0,
            name: row.name.clone().unwrap_or_else(|| row.scheduler_id.clone()),
            created: iso(row.started_at.0),
            updated: iso(row.last_seen_at.0),
            current_state: StateBody {
                state: word,
                reason: reason.unwrap_or_default().to_owned(),
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
            Status::Lost => Some(("error", "nothing is heard of it any more".to_owned())),
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
            Some(End::Memory) => ("error", "its nanny killed it over its memory".to_owned()),
            Some(End::Lost) => ("error", "it vanished without a word".to_owned()),
            Some(End::Retired) => ("stopped", "the cluster had no more need of it".to_owned()),
            Some(End::Closed | End::Unknown) | None => ("stopped", String::new()),
        });
        // What was not told of when its cluster ended is gone with it.
        let gone = || (cluster.status != Status::Running).then(|| ("stopped", String::new()));
        let updated = row.ended_at.or(row.last_seen_at).unwrap_or(cluster.reported_at);
        Self::new(Process {
            name: row.name.clone(),
            instance: (instance_number(row.id), instance_name(cluster.id, Some(row.id))),
            created: iso(row.started_at.0),
            address: Some(host(&row.address).to_owned()),
            updated: iso(updated.0),
            end: end.or_else(gone),
        })
    }

    fn new(process: Process) -> Self {
        let Process { name, instance: (number, instance_name), created, address, updated, end } = process;
        let state = |otherwise| {
            let (state, reason) = end.clone().unwrap_or((otherwise, String::new()));
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

/// What is told of a process.
struct Process {
    name: String,
    /// The number and the name of where it runs.
    instance: (i64, String),
    created: String,
    address: Option<String>,
    updated: String,
    /// How it ended, if it did: a word of the client's, and more about it.
    end: Option<(&'static str, String)>,
}

/// The host of an address of Dask's, which has a protocol and a port; all of it if it is of another form.
fn host(address: &str) -> &str {
    let behind = address.split_once("://").map_or(address, |(_, behind)| behind);
    match behind.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            host.trim_start_matches('[').trim_end_matches(']')
        }
        _ => behind,
    }
}

/// What the logs of a process are asked for by: of its scheduler, if no worker is meant.
fn instance_name(cluster: ClusterId, worker: Option<WorkerId>) -> String {
    worker.map_or_else(|| format!("{cluster}-scheduler"), |worker| format!("{cluster}-{worker}"))
}

/// What such a name means.
pub(super) fn named_instance(name: &str) -> Option<(ClusterId, Option<WorkerId>)> {
    let (cluster, process) = name.split_once('-')?;
    let worker = if process == "scheduler" { None } else { Some(process.parse().ok()?) };
    Some((cluster.parse().ok()?, worker))
}

/// The number of a worker: what its identifier comes to in 52 bits, all of which are random. A scheduler has the number of its
/// cluster.
pub(super) fn instance_number(worker: WorkerId) -> i64 {
    let (high, low) = worker.0.as_u64_pair();
    i64::try_from((high ^ low) & NUMBER).unwrap_or(i64::MAX)
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
            assert_eq!(named_instance(&instance_name(cluster, process)), Some((cluster, process)));
        }
        for name in ["", "12", "12-", "x-scheduler", "12-nobody"] {
            assert_eq!(named_instance(name), None, "{name}");
        }
    }
}
