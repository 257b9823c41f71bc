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
    ahead::Wanted,
    asked::{Answer, Asked, Refusals, iso, no_cluster},
    paging,
};
use crate::{
    domain::{
        cost::{self, RateCard},
        life_cycle::State,
        stop::Reason,
    },
    http::{
        body::{self, Limits},
        problem::{ErrorBody, Problem},
    },
    store::{AccountStore, ClusterFilter, StoreError, Wish, page::Slice},
};

/// Values of a row.
const VALUES: u64 = 40;

/// Pages that are read ahead for who has asked for one that was: reading one takes longer than looking at it.
const WHILE_WALKING: usize = 4;

/// How large a body may be that says what is wanted of a cluster.
const LIMITS: Limits = Limits { sent: 16 << 10, inflated: 16 << 10 };

/// A cluster, as of its last report.
#[derive(Serialize, ToSchema)]
pub(super) struct ClusterRow {
    /// The number that names it everywhere: larger ones are younger.
    id: i64,
    /// Dask's own identifier.
    scheduler_id: String,
    /// What the cluster manager called it; null for a scheduler started by itself.
    name: Option<String>,
    /// The user whose token it reports with; null when the user left the account.
    user: Option<String>,
    /// `running` while it reports, and `stopped` once it closed or is lost.
    status: &'static str,
    /// What it is doing: `starting`, `running`, `idle`, `closing`, `closed` or `lost`.
    state: &'static str,
    /// What is wanted of it: `running` or `stopped`.
    desired_status: &'static str,
    /// When it started, by its own clock: ISO 8601, as all times here.
    created: String,
    /// When it closed, or reported last if it is lost; null while it reports.
    stopped: Option<String>,
    /// When the server last heard of it.
    last_seen: String,
    /// Since when it has had no work; null if it has some.
    idle_since: Option<String>,
    /// Why it closed, if it said so.
    close_reason: Option<String>,
    /// Seconds from its start until it closed or reported last.
    duration: f64,
    /// Where the scheduler listens.
    address: Option<String>,
    /// Where Dask's own dashboard is.
    dashboard: Option<String>,
    /// Connected workers.
    workers: i64,
    /// Workers that ever joined.
    n_workers: i64,
    /// The most workers there were at once.
    peak_workers: i64,
    /// Threads of the connected workers.
    threads: i64,
    /// Bytes of memory in use on the workers.
    memory: i64,
    /// Bytes of memory the workers may use; 0 if they have no limit.
    memory_limit: i64,
    /// Tasks it was ever given.
    n_tasks: i64,
    /// Times a task came to be in memory.
    n_tasks_succeeded: i64,
    /// Tasks that erred themselves.
    n_tasks_erred: i64,
    /// Errors recorded.
    n_errors: i64,
    /// Bytes of results.
    nbytes: i64,
    /// Worker-thread seconds it offered.
    thread_seconds: f64,
    /// Of those, seconds that computed tasks which succeeded.
    compute_seconds: f64,
    /// Seconds spent fetching inputs from other workers.
    transfer_seconds: f64,
    /// What it cost; null if that was in several currencies.
    cost: Option<f64>,
    /// The currency of `cost`, by ISO 4217; null if it cost nothing yet.
    currency: Option<String>,
    /// What it cost, in each currency and on each basis.
    costs: Vec<CostRow>,
}

/// An amount.
#[derive(Serialize, ToSchema)]
pub(super) struct CostRow {
    /// In units of the currency.
    amount: f64,
    /// The currency, by ISO 4217.
    currency: String,
    /// `rate_card` for the account's own rates, `estimated` for a guess of the server's.
    basis: &'static str,
}

/// List the clusters of an account, those that started last first
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/clusters/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("since" = Option<f64>, Query, description = "Only clusters that started at most so many seconds ago."),
        ("user" = Option<String>, Query, description = "Only clusters of the user of this name."),
        ("limit" = Option<u64>, Query, description = "At most so many, 1 to 1,000; 100 if not given."),
        ("offset" = Option<u64>, Query, description = "Behind so many others, at most 1,000,000."),
    ),
    responses(
        (status = 200, description = "Clusters; none behind the last one.", body = [ClusterRow]),
        (status = 400, description = "A parameter is wrong; the message names it.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn list(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let slice = paging::slice(asked)?;
            let started_in = (asked.since()?, None);
            let users = asked.users().await?;
            let filter = ClusterFilter { users: users.clone(), started_in, ..ClusterFilter::default() };
            let account = asked.viewer.account_id();
            let wanted = Wanted { account, users, since: asked.parameter("since"), slice };
            let (page, ahead) = match asked.state.clusters_ahead.take(&wanted).await {
                Some(page) => (page, WHILE_WALKING),
                None => (page_of(asked.store.clone(), filter.clone(), slice).await?, 1),
            };
            if page.rows == slice.limit {
                for slice in paging::behind(slice).take(ahead) {
                    let next = page_of(asked.store.clone(), filter.clone(), slice);
                    asked.state.clusters_ahead.begin(Wanted { slice, ..wanted.clone() }, next);
                }
            }
            Ok(Answer { cost: VALUES * page.rows + paging::cost(slice), body: page.json })
        })
        .await
}

/// A page of clusters, as it is sent.
pub(super) struct Page {
    rows: u64,
    json: Box<RawValue>,
}

async fn page_of(store: AccountStore, filter: ClusterFilter, slice: Slice) -> Result<Page, Problem> {
    let (rows, rates) = tokio::try_join!(store.cluster_slice(&filter, slice), store.cost_rates())?;
    let rows = in_words(&store, rows, &RateCard::new(rates)).await?;
    let json = serde_json::value::to_raw_value(&rows).map_err(|error| StoreError::damaged(&error))?;
    Ok(Page { rows: rows.len() as u64, json })
}

/// Clusters as the client's users see them.
async fn in_words(
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
    let in_words = rows.into_iter().map(|row| {
        let user = row.user_id.and_then(|id| users.get(&id)).map(|user| user.name.clone());
        let days = usage.remove(&row.id).unwrap_or_default();
        let costs = rates.cost(days.iter().map(|(day, usage)| (*day, usage)));
        ClusterRow::new(row, user, &costs)
    });
    Ok(in_words.collect())
}

impl ClusterRow {
    fn new(row: Model, user: Option<String>, costs: &[cost::Cost]) -> Self {
        let state = State::from(&row);
        let of_one_currency = costs.windows(2).all(|two| two[0].currency == two[1].currency);
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
            cost: of_one_currency.then(|| cost::amount(nanos)),
            currency: costs.first().filter(|_| of_one_currency).map(|cost| cost.currency.clone()),
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

/// One of the two words that the client knows: whether something can still be done with the cluster.
fn status(state: State) -> &'static str {
    match state {
        State::Starting | State::Running | State::Idle | State::Closing => "running",
        State::Closed | State::Lost => "stopped",
    }
}

/// What is wanted of a cluster.
#[derive(Deserialize, ToSchema)]
pub(super) struct DesiredStateBody {
    desired_status: DesiredStatus,
}

/// What can be wanted of a cluster.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum DesiredStatus {
    /// It is to go on after all.
    Running,
    /// Its scheduler is to close.
    Stopped,
}

/// Say what is wanted of a cluster
///
/// The scheduler learns it with the answer to its next report.
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
        (status = 200, description = "It is written down.", body = Object),
        (status = 400, description = "A value is wrong; `pointer` names it.", body = ErrorBody),
        (status = 401, description = "No valid token.", body = ErrorBody),
        (status = 403, description = "The token lacks the scope `admin`, or is for another account.", body = ErrorBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        (status = 408, description = "The body did not arrive in time.", body = ErrorBody),
        (status = 413, description = "The body is too large.", body = ErrorBody),
        (status = 415, description = "Not JSON, or a content encoding other than gzip.", body = ErrorBody),
        (status = 429, description = "Too many points were spent; see Retry-After.", body = ErrorBody),
        (status = 500, description = "A defect of the server; `reference` stands in its log.", body = ErrorBody),
        (status = 503, description = "The store is away; see Retry-After.", body = ErrorBody),
    )
)]
pub(super) async fn set_desired_state(
    asked: Asked,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let received =
                body::announced(&headers, LIMITS)?.receive(body, asked.state.patience.body).await?;
            let DesiredStateBody { desired_status } = received.parse().await?;
            let state = match desired_status {
                DesiredStatus::Running => DesiredState::Running,
                DesiredStatus::Stopped => DesiredState::Stopped,
            };
            wish(asked, state, None).await
        })
        .await
}

/// Writes down what somebody wants of the cluster in the path, as the mutation `setDesiredState` does.
pub(super) async fn wish(
    asked: &Asked,
    state: DesiredState,
    reason: Option<Reason>,
) -> Result<Answer<Map<String, Value>>, Problem> {
    asked.may_change(Action::SetDesiredState).await?;
    let id = asked.path("id").parse().map_err(|_| no_cluster())?;
    let wish = Wish { state, user: Some(asked.viewer.user_id()), reason, at: asked.state.clock.timestamp() };
    asked.store.wish_of_cluster(id, wish).await?.ok_or_else(no_cluster)?;
    Ok(Answer::one(Map::new()))
}
