//! The first page of an account's clusters.

use serde_json::{Value, json};

use super::{Aims, Bind, Operation, PostgraphileQuery, list_length, request, to_sqlite};
use crate::operations::data::History;

/// The fields of each cluster in a list.
pub(super) const CLUSTER: &str = "id schedulerId name state startedAt endedAt durationSeconds lastSeenAt
    totals { tasks tasksSucceeded tasksErred errors bytes workers peakWorkers peakThreads computeSeconds
      transferSeconds threadSeconds }";
pub(super) const CLUSTER_COLUMNS: &str =
    "id, scheduler_id, name, status, started_at, closed_at, duration_ms, last_seen_at, total_tasks,
    total_tasks_succeeded, total_tasks_erred, total_errors, total_bytes, total_workers, peak_workers, peak_threads,
    total_compute_seconds, total_transfer_seconds, total_thread_seconds";

pub(super) fn operation(history: &History) -> Operation {
    let document = format!(
        "{{ viewer {{ account {{ clusters(first: 50) {{
            nodes {{ {CLUSTER} }} pageInfo {{ hasNextPage endCursor }} }} }} }} }}"
    );
    let statement = format!(
        "SELECT {CLUSTER_COLUMNS} FROM clusters WHERE account_id = $1
         ORDER BY started_at DESC, id DESC LIMIT 50"
    );
    Operation {
        name: "list page",
        requests: vec![request(&document, &json!({}))],
        json_statement: page_as_json(&statement),
        sqlite_statement: to_sqlite(&statement),
        statement,
        binds: vec![vec![Bind::Uuid(history.account)]],
        rows: count_clusters,
        postgraphile: PostgraphileQuery {
            document: POSTGRAPHILE_PAGE.to_owned(),
            variables: vec![json!({ "condition": { "accountId": history.account } })],
            variables_before: None,
            rows: count_postgraphile_clusters,
        },
        aims: Aims { json: 1.3, postgraphile: 4.5, sqlite: 0.45 },
    }
}

/// Returns the statement that makes the response out of the clusters that `statement` selects. The cursor of
/// the response is only the start of its last cluster.
pub(super) fn page_as_json(statement: &str) -> String {
    format!(
        "SELECT json_build_object('viewer', json_build_object('account', json_build_object('clusters',
          json_build_object(
            'nodes', json_agg(json_build_object(
              'id', id, 'schedulerId', scheduler_id, 'name', name, 'state', status, 'startedAt', started_at,
              'endedAt', closed_at, 'durationSeconds', duration_ms, 'lastSeenAt', last_seen_at,
              'totals', json_build_object(
                'tasks', total_tasks, 'tasksSucceeded', total_tasks_succeeded, 'tasksErred', total_tasks_erred,
                'errors', total_errors, 'bytes', total_bytes, 'workers', total_workers, 'peakWorkers', peak_workers,
                'peakThreads', peak_threads, 'computeSeconds', total_compute_seconds,
                'transferSeconds', total_transfer_seconds, 'threadSeconds', total_thread_seconds))),
            'pageInfo', json_build_object('hasNextPage', count(*) = 50, 'endCursor', min(started_at))))))
        FROM ({statement}) AS page"
    )
}

/// A page of clusters in PostGraphile's schema.
pub(super) const POSTGRAPHILE_PAGE: &str =
    "query($condition: ClusterCondition!, $after: Cursor) { allClusters(
        condition: $condition, orderBy: [STARTED_AT_DESC, ROW_ID_DESC], first: 50, after: $after) {
      nodes { rowId schedulerId name status startedAt closedAt durationMs lastSeenAt totalTasks totalTasksSucceeded
        totalTasksErred totalErrors totalBytes totalWorkers peakWorkers peakThreads totalComputeSeconds
        totalTransferSeconds totalThreadSeconds }
      pageInfo { hasNextPage endCursor } } }";

pub(super) fn count_clusters(response: &Value) -> usize {
    list_length(&response["viewer"]["account"]["clusters"]["nodes"])
}

pub(super) fn count_postgraphile_clusters(response: &Value) -> usize {
    list_length(&response["allClusters"]["nodes"])
}
