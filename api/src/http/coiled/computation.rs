//! Computations as `coiled.analytics` lists them: with their code, spans and task groups.

use std::collections::{BTreeSet, HashMap};

use axum::response::Response;
use entity::{
    cluster,
    computation::{Model, State},
    ids::SpanId,
    json_columns::CodeStacks,
    task_group,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    paging,
    request::{CoiledRequest, CoiledResponse, Refusals, decrypted_or_none, iso},
};
use crate::{
    http::extract::problem::{ErrorBody, Problem},
    store::{
        AccountStore, ErrorParent, StoreError, TaskGroupParent, TaskGroupSort,
        core::page::{End, PageRequest, Slice},
    },
};

/// The number of values in a row, and in each of its task groups, for its cost.
const VALUES_PER_ROW: u64 = 15;

/// The number of task groups of a computation, the first seen ones.
const MAX_TASK_GROUPS: u64 = 50;

/// The page size limit: each computation includes task groups and code.
const MAX_ROWS: u64 = 100;

/// The number of code snippets that are read for a page.
const MAX_SNIPPETS: usize = 1_000;

/// The size of a computation's code, in bytes, after which no further snippet is added.
const LONG_CODE: usize = 100_000;

/// Work that was submitted to a cluster at once.
#[derive(Serialize, ToSchema)]
pub(super) struct ComputationRow {
    /// Dask's identifier of the computation, a UUID.
    id: String,
    /// The cluster's number.
    cluster_id: i64,
    /// The same number: the scheduler has its cluster's number.
    scheduler_id: i64,
    /// The state: `running`, `finished`, `erred`, `cancelled` or `lost`.
    state: &'static str,
    /// The submission time by the scheduler's clock, in ISO 8601, as all times here.
    start: String,
    /// The time when the last task finished. For a running computation, the time of the cluster's last
    /// report.
    stop: String,
    /// The time between `start` and `stop`, in seconds.
    duration: f64,
    /// The code that called Dask, outermost frame first. Empty if none was sent, stored or can be
    /// decrypted.
    code: String,
    /// The spans of its task groups.
    spans: Vec<SpanRow>,
    /// The number of tasks in the listed task groups.
    n_tasks: i64,
    /// The number of errors of its tasks.
    n_errors: i64,
    /// The number of its task groups.
    n_task_groups: i64,
    /// The first 50 of its task groups, oldest first.
    task_groups: Vec<TaskGroupRow>,
}

/// A span.
#[derive(Clone, Serialize, ToSchema)]
pub(super) struct SpanRow {
    /// Dask's identifier of the span, a UUID.
    id: String,
    /// The tags, from the outermost span to this one.
    name: Vec<String>,
}

/// A task group: tasks with the same name.
#[derive(Serialize, ToSchema)]
pub(super) struct TaskGroupRow {
    /// Dask's name of the group.
    name: String,
    /// The prefix: the function of its tasks.
    prefix: String,
    /// The number of its tasks.
    n_tasks: i64,
    /// The number of tasks whose result reached memory.
    n_tasks_succeeded: i64,
    /// The number of tasks whose own execution failed.
    n_tasks_erred: i64,
    /// The time when its first task started. Null if none has.
    start: Option<String>,
    /// The time when its last task finished. Null if none has.
    stop: Option<String>,
    /// The compute time of its tasks, in seconds.
    compute_seconds: f64,
    /// The time spent on transferring their inputs, in seconds.
    transfer_seconds: f64,
    /// The size of their results, in bytes.
    nbytes: i64,
    /// The types of their results.
    types: Vec<String>,
}

/// List the computations of a scheduler, most recently started first
///
/// The scheduler has its cluster's number.
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/{id}/computations/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number, which is also the scheduler's number."),
        ("limit" = Option<u64>, Query, description = "The page size, at least 1. Values above 100 count as 100. Default: 100."),
        ("offset" = Option<u64>, Query, description = "The number of rows to skip, at most 1,000,000. Default: 0."),
    ),
    responses(
        (status = 200, description = "A page of computations, empty after the last one.", body = [ComputationRow]),
        (status = 400, description = "A parameter is invalid. The message names it.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn of_scheduler(request: CoiledRequest) -> Result<Response, Problem> {
    list(request).await
}

/// List the computations of a cluster, most recently started first
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/cluster/{id}/computations/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("limit" = Option<u64>, Query, description = "The page size, at least 1. Values above 100 count as 100. Default: 100."),
        ("offset" = Option<u64>, Query, description = "The number of rows to skip, at most 1,000,000. Default: 0."),
    ),
    responses(
        (status = 200, description = "A page of computations, empty after the last one.", body = [ComputationRow]),
        (status = 400, description = "A parameter is invalid. The message names it.", body = ErrorBody),
        (status = 404, description = "The cluster does not exist.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn of_cluster(request: CoiledRequest) -> Result<Response, Problem> {
    list(request).await
}

async fn list(request: CoiledRequest) -> Result<Response, Problem> {
    request
        .answer(async |request| {
            let slice = paging::slice(request)?;
            let slice = Slice { limit: slice.limit.min(MAX_ROWS), ..slice };
            let cluster = request.cluster(request.path("id")).await?;
            let rows = request.store.computation_slice(cluster.id, slice).await?;
            let body = convert_rows(&request.store, &cluster, rows).await?;
            let objects: usize = body.iter().map(|row| 1 + row.spans.len() + row.task_groups.len()).sum();
            Ok(CoiledResponse { cost: VALUES_PER_ROW * objects as u64 + paging::offset_cost(slice), body })
        })
        .await
}

/// Converts computations to the client's format, with a fixed number of statements per page.
async fn convert_rows(
    store: &AccountStore,
    cluster: &cluster::Model,
    rows: Vec<Model>,
) -> Result<Vec<ComputationRow>, Problem> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let parents: Vec<_> = rows.iter().map(|row| TaskGroupParent::Computation(cluster.id, row.id)).collect();
    let error_parents: Vec<_> = rows.iter().map(|row| ErrorParent::Computation(cluster.id, row.id)).collect();
    let page_request = PageRequest::from(End::First, MAX_TASK_GROUPS);
    let (groups, counts, errors, spans, code) = tokio::try_join!(
        store.task_group_pages(&parents, TaskGroupSort::OldestFirst, &page_request),
        store.task_group_counts(&parents),
        store.error_counts(&error_parents),
        load_spans(store, cluster, &rows),
        load_snippets(store, &rows)
    )?;
    let related = rows.into_iter().zip(groups).zip(parents.iter().zip(&error_parents));
    let converted = related.map(|((row, groups), (parent, error_parent))| {
        // A running computation stops, as far as is known, at the cluster's last report.
        let stop = row.stopped_at.unwrap_or(cluster.reported_at).0.max(row.started_at.0);
        let groups: Vec<task_group::Model> = groups.rows.into_iter().map(|(_, group)| group).collect();
        ComputationRow {
            id: row.id.to_string(),
            cluster_id: cluster.id.0,
            scheduler_id: cluster.id.0,
            state: state_name(row.state),
            start: iso(row.started_at.0),
            stop: iso(stop),
            duration: (stop - row.started_at.0).as_seconds_f64(),
            code: join_snippets(&row.code, &code),
            spans: row.span_ids.0.iter().filter_map(|span| spans.get(span)).cloned().collect(),
            n_tasks: groups.iter().map(|group| group.tasks).fold(0, i64::saturating_add),
            n_errors: errors.get(error_parent).copied().unwrap_or(0),
            n_task_groups: counts.get(parent).copied().unwrap_or(0),
            task_groups: groups.into_iter().map(TaskGroupRow::from).collect(),
        }
    });
    Ok(converted.collect())
}

/// Returns the spans of computations.
async fn load_spans(
    store: &AccountStore,
    cluster: &cluster::Model,
    rows: &[Model],
) -> Result<HashMap<SpanId, SpanRow>, StoreError> {
    let ids: BTreeSet<SpanId> = rows.iter().flat_map(|row| row.span_ids.0.iter().copied()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<_> = ids.into_iter().map(|span| (cluster.id, span)).collect();
    let spans = store.spans_by_id(&ids).await?.into_iter();
    Ok(spans.map(|span| (span.id, SpanRow { id: span.id.to_string(), name: span.path.0 })).collect())
}

/// Returns the code snippets of computations by their hashes. Snippets that are missing or cannot be
/// decrypted are left out.
async fn load_snippets(store: &AccountStore, rows: &[Model]) -> Result<HashMap<String, String>, StoreError> {
    let hashes: BTreeSet<&str> = rows.iter().flat_map(|row| snippet_hashes(&row.code)).collect();
    let hashes: Vec<String> = hashes.into_iter().take(MAX_SNIPPETS).map(str::to_owned).collect();
    if hashes.is_empty() {
        return Ok(HashMap::new());
    }
    let mut texts = HashMap::new();
    for row in store.snippets_by_hash(&hashes).await? {
        if let Some(text) = decrypted_or_none(store.snippet_text(&row))? {
            texts.insert(row.hash, text);
        }
    }
    Ok(texts)
}

fn snippet_hashes(code: &CodeStacks) -> impl Iterator<Item = &str> {
    code.0.iter().flatten().filter_map(|frame| frame.hash.as_deref())
}

/// Joins the snippets of a computation, each once.
fn join_snippets(code: &CodeStacks, texts: &HashMap<String, String>) -> String {
    let (mut text, mut seen_hashes) = (String::new(), BTreeSet::new());
    for hash in snippet_hashes(code) {
        let Some(snippet) = texts.get(hash).filter(|_| seen_hashes.insert(hash)) else { continue };
        if text.len() >= LONG_CODE {
            break;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(snippet);
    }
    text
}

impl From<task_group::Model> for TaskGroupRow {
    fn from(row: task_group::Model) -> Self {
        Self {
            name: row.name,
            prefix: row.prefix,
            n_tasks: row.tasks,
            n_tasks_succeeded: row.tasks_succeeded,
            n_tasks_erred: row.tasks_erred,
            start: row.started_at.map(|time| iso(time.0)),
            stop: row.stopped_at.map(|time| iso(time.0)),
            compute_seconds: row.compute_seconds,
            transfer_seconds: row.transfer_seconds,
            nbytes: row.bytes,
            types: row.types.0,
        }
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Finished => "finished",
        State::Erred => "erred",
        State::Cancelled => "cancelled",
        State::Lost => "lost",
    }
}
