//! Computations as `coiled.analytics` lists them: with their code, their spans and their task groups.

use std::collections::{BTreeSet, HashMap};

use axum::response::Response;
use entity::{
    cluster,
    computation::{Model, State},
    ids::SpanId,
    list::CodeStacks,
    task_group,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    asked::{Answer, Asked, Refusals, iso, unless_sealed},
    paging,
};
use crate::{
    http::problem::{ErrorBody, Problem},
    store::{
        AccountStore, ErrorParent, StoreError, TaskGroupParent, TaskGroupSort,
        page::{End, PageRequest, Slice},
    },
};

/// Values of a row, and of each of its task groups.
const VALUES: u64 = 15;

/// Task groups of a computation that are told, those that were seen first.
const MAX_TASK_GROUPS: u64 = 50;

/// Computations of a page at the most: each brings task groups and code.
const MAX_ROWS: u64 = 100;

/// Texts of code that are read for a page at the most.
const MAX_SNIPPETS: usize = 1_000;

/// Bytes of code of a computation from which on no further text is added.
const LONG_CODE: usize = 100_000;

/// Work that was submitted to a cluster at once.
#[derive(Serialize, ToSchema)]
pub(super) struct ComputationRow {
    /// Dask's own identifier, a UUID.
    id: String,
    /// The cluster's number.
    cluster_id: i64,
    /// The same.
    scheduler_id: i64,
    /// How far it is: `running`, `finished`, `erred`, `cancelled` or `lost`.
    state: &'static str,
    /// When it was submitted, by the scheduler's clock: ISO 8601, as all times here.
    start: String,
    /// When its last task finished; of one that runs, when its cluster reported last.
    stop: String,
    /// Seconds between the two.
    duration: f64,
    /// The code that called Dask, outermost frame first; empty where none was sent, or kept, or can be read.
    code: String,
    /// The spans its task groups belong to.
    spans: Vec<SpanRow>,
    /// Tasks of its task groups.
    n_tasks: i64,
    /// Errors of its tasks.
    n_errors: i64,
    /// How many task groups it uses.
    n_task_groups: i64,
    /// Its task groups, those that were seen first first: 50 at the most.
    task_groups: Vec<TaskGroupRow>,
}

/// A span.
#[derive(Clone, Serialize, ToSchema)]
pub(super) struct SpanRow {
    /// Dask's own identifier, a UUID.
    id: String,
    /// Its tags, from the outermost span to its own.
    name: Vec<String>,
}

/// Tasks of one name.
#[derive(Serialize, ToSchema)]
pub(super) struct TaskGroupRow {
    /// Dask's name of it.
    name: String,
    /// What its tasks do.
    prefix: String,
    /// Its tasks.
    n_tasks: i64,
    /// Tasks that came to be in memory.
    n_tasks_succeeded: i64,
    /// Tasks that erred themselves.
    n_tasks_erred: i64,
    /// When its first task started; null if none has.
    start: Option<String>,
    /// When its last task finished; null if none has.
    stop: Option<String>,
    /// Seconds spent computing its tasks.
    compute_seconds: f64,
    /// Seconds spent fetching their inputs.
    transfer_seconds: f64,
    /// Bytes of their results.
    nbytes: i64,
    /// The types of their results.
    types: Vec<String>,
}

/// List the computations of a cluster by its scheduler's number, those that started last first
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/{id}/computations/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number, which is the scheduler's as well."),
        ("limit" = Option<u64>, Query, description = "At most so many, 1 to 100; 100 if not given."),
        ("offset" = Option<u64>, Query, description = "Behind so many others, at most 1,000,000."),
    ),
    responses(
        (status = 200, description = "Computations; none behind the last one.", body = [ComputationRow]),
        (status = 400, description = "A parameter is wrong; the message names it.", body = ErrorBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn of_scheduler(asked: Asked) -> Result<Response, Problem> {
    list(asked).await
}

/// List the computations of a cluster, those that started last first
#[utoipa::path(
    get,
    path = "/api/v2/analytics/{workspace}/cluster/{id}/computations/list",
    tag = "coiled",
    security(("token" = ["read"])),
    params(
        ("workspace" = String, Path, description = "The account's short name."),
        ("id" = i64, Path, description = "The cluster's number."),
        ("limit" = Option<u64>, Query, description = "At most so many, 1 to 100; 100 if not given."),
        ("offset" = Option<u64>, Query, description = "Behind so many others, at most 1,000,000."),
    ),
    responses(
        (status = 200, description = "Computations; none behind the last one.", body = [ComputationRow]),
        (status = 400, description = "A parameter is wrong; the message names it.", body = ErrorBody),
        (status = 404, description = "No such cluster.", body = ErrorBody),
        Refusals,
    )
)]
pub(super) async fn of_cluster(asked: Asked) -> Result<Response, Problem> {
    list(asked).await
}

async fn list(asked: Asked) -> Result<Response, Problem> {
    asked
        .answer(async |asked| {
            let slice = paging::slice(asked)?;
            let slice = Slice { limit: slice.limit.min(MAX_ROWS), ..slice };
            let cluster = asked.cluster(asked.path("id")).await?;
            let rows = asked.store.computation_slice(cluster.id, slice).await?;
            let body = in_words(&asked.store, &cluster, rows).await?;
            let told: usize = body.iter().map(|row| 1 + row.spans.len() + row.task_groups.len()).sum();
            Ok(Answer { cost: VALUES * told as u64 + paging::cost(slice), body })
        })
        .await
}

/// Computations as the client's users see them. Some statements for all of a page.
async fn in_words(
    store: &AccountStore,
    cluster: &cluster::Model,
    rows: Vec<Model>,
) -> Result<Vec<ComputationRow>, Problem> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let parents: Vec<_> = rows.iter().map(|row| TaskGroupParent::Computation(cluster.id, row.id)).collect();
    let failures: Vec<_> = rows.iter().map(|row| ErrorParent::Computation(cluster.id, row.id)).collect();
    let first = PageRequest::from(End::First, MAX_TASK_GROUPS);
    let (groups, counts, errors, spans, code) = tokio::try_join!(
        store.task_group_pages(&parents, TaskGroupSort::OldestFirst, &first),
        store.task_group_counts(&parents),
        store.error_counts(&failures),
        spans(store, cluster, &rows),
        snippets(store, &rows)
    )?;
    let in_words = rows.into_iter().zip(groups).zip(parents.iter().zip(&failures));
    let in_words = in_words.map(|((row, groups), (parent, failure))| {
        // Of one that runs, as far as is known.
        let stop = row.stopped_at.unwrap_or(cluster.reported_at).0.max(row.started_at.0);
        let groups: Vec<task_group::Model> = groups.rows.into_iter().map(|(_, group)| group).collect();
        ComputationRow {
            id: row.id.to_string(),
            cluster_id: cluster.id.0,
            scheduler_id: cluster.id.0,
            state: word(row.state),
            start: iso(row.started_at.0),
            stop: iso(stop),
            duration: (stop - row.started_at.0).as_seconds_f64(),
            code: joined(&row.code, &code),
            spans: row.span_ids.0.iter().filter_map(|span| spans.get(span)).cloned().collect(),
            n_tasks: groups.iter().map(|group| group.tasks).fold(0, i64::saturating_add),
            n_errors: errors.get(failure).copied().unwrap_or(0),
            n_task_groups: counts.get(parent).copied().unwrap_or(0),
            task_groups: groups.into_iter().map(TaskGroupRow::from).collect(),
        }
    });
    Ok(in_words.collect())
}

/// The spans of computations.
async fn spans(
    store: &AccountStore,
    cluster: &cluster::Model,
    rows: &[Model],
) -> Result<HashMap<SpanId, SpanRow>, StoreError> {
    let ids: BTreeSet<SpanId> = rows.iter().flat_map(|row| row.span_ids.0.iter().copied()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<_> = ids.into_iter().map(|span| (cluster.id, span)).collect();
    let found = store.spans_by_id(&ids).await?.into_iter();
    Ok(found.map(|span| (span.id, SpanRow { id: span.id.to_string(), name: span.path.0 })).collect())
}

/// The texts of the code of computations, by their hashes, as far as they are there and can be read.
async fn snippets(store: &AccountStore, rows: &[Model]) -> Result<HashMap<String, String>, StoreError> {
    let hashes: BTreeSet<&str> = rows.iter().flat_map(|row| hashes(&row.code)).collect();
    let hashes: Vec<String> = hashes.into_iter().take(MAX_SNIPPETS).map(str::to_owned).collect();
    if hashes.is_empty() {
        return Ok(HashMap::new());
    }
    let mut texts = HashMap::new();
    for row in store.snippets_by_hash(&hashes).await? {
        if let Some(text) = unless_sealed(store.snippet_text(&row))? {
            texts.insert(row.hash, text);
        }
    }
    Ok(texts)
}

fn hashes(code: &CodeStacks) -> impl Iterator<Item = &str> {
    code.0.iter().flatten().filter_map(|frame| frame.hash.as_deref())
}

/// The code of a computation, each text once.
fn joined(code: &CodeStacks, texts: &HashMap<String, String>) -> String {
    let (mut joined, mut known) = (String::new(), BTreeSet::new());
    for hash in hashes(code) {
        let Some(text) = texts.get(hash).filter(|_| known.insert(hash)) else { continue };
        if joined.len() >= LONG_CODE {
            break;
        }
        if !joined.is_empty() {
            joined.push_str("\n\n");
        }
        joined.push_str(text);
    }
    joined
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

fn word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Finished => "finished",
        State::Erred => "erred",
        State::Cancelled => "cancelled",
        State::Lost => "lost",
    }
}
