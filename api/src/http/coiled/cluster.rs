//! Clusters as `coiled.analytics` lists and closes them.

use std::collections::BTreeSet;

use axum::{body::Body, http::HeaderMap, response::Response};
use entity::{
    audit_entry::Action,
    cluster::{DesiredState, Model, Status},
    ids::UserId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, value::RawValue};
use utoipa::ToSchema;

use super::{
    paging,
    prefetch::PageKey,
    request::{CoiledRequest, CoiledResponse, Refusals, iso, no_cluster},
};
use crate::{
    domain::{
        audit::Target,
        cost::{self, RateCard},
        life_cycle::State,
        permission::{Denial, Permission},
        stop::StopReason,
    },
    guard::AUDIT_ENTRY_COST,
    http::extract::{
        body::{self, Limits},
        problem::{ErrorBody, Problem},
    },
    store::{AccountStore, ChangeOutcome, ClusterFilter, DesiredStateRequest, StoreError, core::page::Slice},
};

/// The number of values in a row, for its cost.
const VALUES_PER_ROW: u64 = 40;

/// The number of pages that are prefetched for a client that requested a prefetched page: producing a
/// page takes the server longer than reading it takes the client.
const PREFETCHED_PAGES: usize = 4;

/// The size limits of a body that sets the desired state of a cluster.
const LIMITS: Limits = Limits { sent: 16 << 10, inflated: 16 << 10 };

/// A cluster, as of its last report.
#[derive(Serialize, ToSchema)]
pub(super) struct ClusterRow {
    /// The cluster's number, which identifies it everywhere. Younger clusters have higher numbers.
    id: i64,
    /// Dask's identifier of the scheduler.
    scheduler_id: String,
    /// The name from the cluster manager. Null for a scheduler that was started by itself.
    name: Option<String>,
    /// The owner of the cluster: the user with whose credentials it reports. Null after the user left the
    /// account.
    user: Option<String>,
    /// The status: `running` while the cluster reports, and `stopped` after it closed or was lost.
    status: &'static str,
    /// The state: `starting`, `running`, `idle`, `closing`, `closed` or `lost`.
    state: &'static str,
    /// The desired state: `running` or `stopped`.
    desired_status: &'static str,
    /// The start time by the cluster's own clock, in ISO 8601, as all times here.
    created: String,
    /// The time when the cluster closed, or of the last report of a lost cluster. Null while it reports.
    stopped: Option<String>,
    /// The time when the server last received a message from the cluster.
    last_seen: String,
    /// The time since which the cluster has no work. Null while it has work.
    idle_since: Option<String>,
    /// The reason for closing. Null if the cluster did not report one.
    close_reason: Option<String>,
    /// The time from the start to the close or to the last report, in seconds.
    duration: f64,
    /// The address of the scheduler.
    address: Option<String>,
    /// The URL of Dask's dashboard.
    dashboard: Option<String>,
    /// The number of connected workers.
    workers: i64,
    /// The number of workers that ever joined.
    n_workers: i64,
    /// The highest number of simultaneous workers.
    peak_workers: i64,
    /// The number of threads of the connected workers.
    threads: i64,
    /// The memory in use on the workers, in bytes.
    memory: i64,
    /// The memory limit of the workers, in bytes. 0 without a limit.
    memory_limit: i64,
    /// The number of tasks that the cluster ever received.
    n_tasks: i64,
    /// The number of times that a task's result reached memory.
    n_tasks_succeeded: i64,
    /// The number of tasks whose own execution failed.
    n_tasks_erred: i64,
    /// The number of recorded errors.
    n_errors: i64,
    /// The size of the results, in bytes.
    nbytes: i64,
    /// The thread time that the workers offered, in seconds.
    thread_seconds: f64,
    /// The part of `thread_seconds` that computed successful tasks, in seconds.
    compute_seconds: f64,
    /// The time spent on transferring inputs between workers, in seconds.
    transfer_seconds: f64,
    /// The cost. Null if it is in several currencies.
    cost: Option<f64>,
    /// The currency of `cost`, in ISO 4217. Null without a cost, or with several currencies.
    currency: Option<String>,
    /// The cost in each currency and on each basis.
    costs: Vec<CostRow>,
}

/// An amount of money.
#[derive(Serialize, ToSchema)]
pub(super) struct CostRow {
    /// The amount, in units of the currency.
    amount: f64,
    /// The currency, in ISO 4217.
    currency: String,
    /// The basis: `rate_card` for the account's own rates, `estimated` for an estimate by the server.
    basis: &'static str,
}

/// List the clusters of an account, most recently started first
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/clusters/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("since" = Option<f64>, Query, description = "Limits the list to clusters that started within the last so many seconds."),
        ("user" = Option<String>, Query, description = "Limits the list to clusters of the user with this name."),
        ("limit" = Option<u64>, Query, description = "The page size, at least 1. Values above 1,000 count as 1,000. Default: 100."),
        ("offset" = Option<u64>, Query, description = "The number of rows to skip, at most 1,000,000. Default: 0."),
    ),
    responses(
        (status = 200, description = "A page of clusters, empty after the last one.", body = [ClusterRow]),
        (status = 400, description = "A parameter is invalid. The message names it.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn list(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let slice = paging::slice(request)?;
            let started_in = (request.since()?, None);
            let users = request.users().await?;
            let filter = ClusterFilter { users: users.clone(), started_in, ..ClusterFilter::default() };
            let account = request.caller.viewer.account_id();
            let page_key = PageKey { account, users, since: request.parameter("since"), slice };
            let (page, prefetch_count) = match request.state.cluster_prefetcher.take(&page_key).await {
                Some(page) => (page, PREFETCHED_PAGES),
                None => (load_page(request.store.clone(), filter.clone(), slice).await?, 1),
            };
            if page.rows == slice.limit {
                for slice in paging::following_slices(slice).take(prefetch_count) {
                    let next = load_page(request.store.clone(), filter.clone(), slice);
                    request.state.cluster_prefetcher.start(PageKey { slice, ..page_key.clone() }, next);
                }
            }
            Ok(CoiledResponse {
                cost: VALUES_PER_ROW * page.rows + paging::offset_cost(slice),
                body: page.json,
            })
        })
        .await
}

/// A page of clusters, encoded for the response.
pub(super) struct Page {
    rows: u64,
    json: Box<RawValue>,
}

async fn load_page(store: AccountStore, filter: ClusterFilter, slice: Slice) -> Result<Page, Problem> {
    let (rows, rates) = tokio::try_join!(store.cluster_slice(&filter, slice), store.cost_rates())?;
    let rows = convert_rows(&store, rows, &RateCard::new(rates)).await?;
    let json = serde_json::value::to_raw_value(&rows).map_err(|error| StoreError::damaged(&error))?;
    Ok(Page { rows: rows.len() as u64, json })
}

/// Converts clusters to the client's format.
async fn convert_rows(
    store: &AccountStore,
    rows: Vec<Model>,
    rates: &RateCard,
) -> Result<Vec<ClusterRow>, Problem> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    let users: BTreeSet<UserId> = rows.iter().filter_map(|row| row.user_id).collect();
    let users: Vec<UserId> = users.into_iter().collect();
    let (users, mut usage) =
        tokio::try_join!(store.users_by_id(&users), store.paid_usage_by_cluster_and_day(&ids))?;
    let converted = rows.into_iter().map(|row| {
        let user = row.user_id.and_then(|id| users.get(&id)).map(|user| user.name.clone());
        let days = usage.remove(&row.id).unwrap_or_default();
        let costs = rates.cost(days.iter().map(|(day, usage)| (*day, usage)));
        ClusterRow::new(row, user, &costs)
    });
    Ok(converted.collect())
}

impl ClusterRow {
    fn new(row: Model, user: Option<String>, costs: &[cost::Cost]) -> Self {
        let state = State::from(&row);
        let has_one_currency = costs.windows(2).all(|pair| pair[0].currency == pair[1].currency);
        let nanos = costs.iter().map(|cost| cost.nanos).sum();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of centuries are exact")]
        let duration = row.duration_ms as f64 / 1e3;
        Self {
            id: row.id.0,
            user,
            status: status(state),
            state: state.name(),
            desired_status: match row.desired_state {
                DesiredState::Running => "running",
                DesiredState::Stopped => "stopped",
            },
            created: iso(row.started_at.0),
            stopped: (row.status != Status::Running).then(|| iso(row.closed_at.unwrap_or(row.reported_at).0)),
            last_seen: iso(row.last_seen_at.0),
            idle_since: row.idle_since.map(|time| iso(time.0)),
            duration,
            scheduler_id: row.scheduler_id,
            name: row.name,
            close_reason: row.close_reason,
            address: row.address,
            dashboard: row.dashboard_url,
            workers: row.workers,
            n_workers: row.total_workers,
            peak_workers: row.peak_workers,
            threads: row.threads,
            memory: row.memory_used_bytes,
            memory_limit: row.memory_limit_bytes.unwrap_or(0),
            n_tasks: row.total_tasks,
            n_tasks_succeeded: row.total_tasks_succeeded,
            n_tasks_erred: row.total_tasks_erred,
            n_errors: row.total_errors,
            nbytes: row.total_bytes,
            thread_seconds: row.total_thread_seconds,
            compute_seconds: row.total_compute_seconds,
            transfer_seconds: row.total_transfer_seconds,
            cost: has_one_currency.then(|| cost::amount(nanos)),
            currency: costs.first().filter(|_| has_one_currency).map(|cost| cost.currency.clone()),
            costs: costs.iter().map(CostRow::from).collect(),
        }
    }
}

impl From<&cost::Cost> for CostRow {
    fn from(cost: &cost::Cost) -> Self {
        let basis = match cost.basis {
            cost::Basis::RateCard => "rate_card",
            cost::Basis::Estimated => "estimated",
        };
        Self { amount: cost.amount(), currency: cost.currency.clone(), basis }
    }
}

/// Returns the client's status: `running` while an action on the cluster is still possible.
fn status(state: State) -> &'static str {
    match state {
        State::Starting | State::Running | State::Idle | State::Closing => "running",
        State::Closed | State::Lost => "stopped",
    }
}

/// The desired state of a cluster.
#[derive(Deserialize, ToSchema)]
pub(super) struct DesiredStateBody {
    desired_status: DesiredStatus,
}

/// The states that can be desired.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum DesiredStatus {
    /// The cluster continues.
    Running,
    /// The scheduler closes.
    Stopped,
}

/// Set the desired state of a cluster
///
/// The scheduler receives it with the response to its next report.
#[utoipa::path(
    post,
    path = "/api/v2/analytics/{workspace}/{id}/desired-state",
    tag = "coiled",
    security(("token" = ["admin"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
    ),
    request_body = DesiredStateBody,
    responses(
        (status = 200, description = "The desired state is stored.", body = Object),
        (status = 400, description = "A value of the body is invalid. `pointer` locates it.", body = ErrorBody),
        (status = 401, description = "The token is missing or invalid.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `admin` and the cluster belongs to another user, the token has fewer scopes than its user, or it belongs to another account.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "The body is not JSON, or has a content encoding other than gzip.", body = ErrorBody),
        (status = 429, description = "The quota of points is used up. See `Retry-After`.", body = ErrorBody),
        (status = 500, description = "An internal error. `reference` identifies it in the server's log.", body = ErrorBody),
        (status = 503, description = "The database is unavailable. See `Retry-After`.", body = ErrorBody),
    )
)]
pub(super) async fn set_desired_state(
    request: CoiledRequest,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let received_body = body::check_headers(&headers, LIMITS)?
                .receive(body, request.state.timeouts.body_timeout)
                .await?;
            let DesiredStateBody { desired_status } = received_body.parse().await?;
            let state = match desired_status {
                DesiredStatus::Running => DesiredState::Running,
                DesiredStatus::Stopped => DesiredState::Stopped,
            };
            set_desired_state_in_store(request, state, None).await
        })
        .await
}

/// Stores the desired state of the cluster in the path, as the mutation `setDesiredState` does.
pub(super) async fn set_desired_state_in_store(
    request: &CoiledRequest,
    state: DesiredState,
    reason: Option<StopReason>,
) -> Result<CoiledResponse<Map<String, Value>>, Problem> {
    let action = Action::SetDesiredState;
    let owner = request.authorize_own(Permission::StopCluster, action).await?;
    let id = request.path("id").parse().map_err(|_| no_cluster())?;
    let change = DesiredStateRequest {
        state,
        user: Some(request.caller.viewer.user_id()),
        owner,
        reason,
        at: request.state.clock.timestamp(),
    };
    match request.store.request_desired_state(id, change).await? {
        ChangeOutcome::Done(_) => Ok(CoiledResponse { body: Map::new(), cost: AUDIT_ENTRY_COST }),
        ChangeOutcome::NotOwner => Err(request.deny(action, Target::Cluster(id), Denial::NotOwner).await?),
        ChangeOutcome::Missing => Err(no_cluster()),
    }
}
