//! A cluster with its computations, their task groups, and its errors.

use serde_json::json;

use super::{Aims, Bind, Operation, PostgraphileQuery, list_length, request, to_sqlite};
use crate::operations::data::History;

const DOCUMENT: &str = "query($id: ID!) { cluster(id: $id) {
    name state startedAt endedAt durationSeconds
    totals { tasks tasksSucceeded tasksErred errors bytes computeSeconds transferSeconds threadSeconds }
    computations(first: 10) { nodes { daskId state startedAt endedAt
      taskGroups(first: 15) { nodes { name prefix startedAt endedAt tasks tasksSucceeded tasksErred bytes
        states { state count } durations { action seconds } } } } }
    errors(first: 10) { nodes { key type origin at worker retries } } } }";

/// The first task groups of each computation in `shown`.
const TASK_GROUPS: &str = "LATERAL (
      SELECT task_groups.* FROM computation_task_groups AS link
      JOIN task_groups ON task_groups.account_id = link.account_id
        AND task_groups.cluster_id = link.cluster_id AND task_groups.id = link.task_group_id
      WHERE link.account_id = $1 AND link.cluster_id = $2 AND link.computation_id = shown.id
      ORDER BY task_groups.first_seen_at, task_groups.id LIMIT 15) AS of";

/// The same for SQLite, which has no `LATERAL`: the task groups are selected by their identifiers, which
/// takes less time than numbering all of them.
const TASK_GROUPS_SQLITE: &str =
    "task_groups AS of ON of.account_id = $1 AND of.cluster_id = $2 AND of.id IN (
      SELECT link.task_group_id FROM computation_task_groups AS link
      CROSS JOIN task_groups AS first ON first.account_id = $1 AND first.cluster_id = $2
        AND first.id = link.task_group_id
      WHERE link.account_id = $1 AND link.cluster_id = $2 AND link.computation_id = shown.id
      ORDER BY first.first_seen_at, first.id LIMIT 15)";

/// Returns the statement for rows of four kinds that share the same columns. JSON nested by the database
/// takes several times as long.
fn statement(task_groups: &str) -> String {
    format!(
        "WITH shown AS (
      SELECT id, state, started_at, stopped_at FROM computations
      WHERE account_id = $1 AND cluster_id = $2 ORDER BY started_at DESC, id DESC LIMIT 10)
    SELECT 'cluster' AS kind, NULL::uuid AS parent, name AS name, status AS label, NULL::text AS place,
      started_at AS from_ms, closed_at AS to_ms, total_tasks AS a, total_tasks_succeeded AS b,
      total_tasks_erred AS c, total_bytes AS d, total_errors AS e, duration_ms AS f, NULL::bigint AS g,
      NULL::bigint AS h, NULL::bigint AS i, NULL::bigint AS j, NULL::bigint AS k, NULL::bigint AS l,
      total_compute_seconds AS t, total_transfer_seconds AS u, total_thread_seconds AS v,
      NULL::double precision AS w, NULL::double precision AS x, NULL::double precision AS y,
      NULL::double precision AS z
    FROM clusters WHERE account_id = $1 AND id = $2
    UNION ALL
    SELECT 'computation', id, NULL, state, NULL, started_at, stopped_at, NULL, NULL, NULL, NULL, NULL, NULL,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM shown
    UNION ALL
    SELECT 'group', shown.id, of.name, of.prefix, NULL, of.started_at, of.stopped_at, of.tasks,
      of.tasks_succeeded, of.tasks_erred, of.bytes, of.released, of.waiting, of.no_worker, of.queued,
      of.processing, of.memory, of.erred, of.forgotten, of.compute_seconds, of.transfer_seconds,
      of.disk_read_seconds, of.disk_write_seconds, of.serialize_seconds, of.deserialize_seconds,
      of.other_seconds
    FROM shown CROSS JOIN {task_groups}
    UNION ALL
    SELECT 'error', NULL, of.key, of.exception_type, of.worker, of.occurred_at, NULL, of.retries, NULL, NULL,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM (SELECT key, exception_type, worker, occurred_at, retries FROM error_occurrences
      WHERE account_id = $1 AND cluster_id = $2 ORDER BY occurred_at DESC, id DESC LIMIT 10) AS of"
    )
}

const JSON_STATEMENT: &str = "SELECT json_build_object('cluster', json_build_object(
      'name', name, 'state', status, 'startedAt', started_at, 'endedAt', closed_at, 'durationSeconds', duration_ms,
      'totals', json_build_object('tasks', total_tasks, 'tasksSucceeded', total_tasks_succeeded,
        'tasksErred', total_tasks_erred, 'errors', total_errors, 'bytes', total_bytes,
        'computeSeconds', total_compute_seconds, 'transferSeconds', total_transfer_seconds,
        'threadSeconds', total_thread_seconds),
      'computations', json_build_object('nodes', (
        SELECT json_agg(json_build_object('daskId', shown.id, 'state', shown.state, 'startedAt', shown.started_at,
          'endedAt', shown.stopped_at,
          'taskGroups', json_build_object('nodes', (
            SELECT json_agg(json_build_object('name', of.name, 'prefix', of.prefix, 'startedAt', of.started_at,
              'endedAt', of.stopped_at, 'tasks', of.tasks, 'tasksSucceeded', of.tasks_succeeded,
              'tasksErred', of.tasks_erred, 'bytes', of.bytes,
              'states', (
                SELECT json_agg(json_build_object('state', state, 'count', count))
                FROM (VALUES ('RELEASED', of.released), ('WAITING', of.waiting), ('NO_WORKER', of.no_worker),
                  ('QUEUED', of.queued), ('PROCESSING', of.processing), ('MEMORY', of.memory), ('ERRED', of.erred),
                  ('FORGOTTEN', of.forgotten)) AS states (state, count)
                WHERE count IS NOT NULL),
              'durations', (
                SELECT json_agg(json_build_object('action', action, 'seconds', seconds))
                FROM (VALUES ('COMPUTE', of.compute_seconds), ('TRANSFER', of.transfer_seconds),
                  ('DISK_READ', of.disk_read_seconds), ('DISK_WRITE', of.disk_write_seconds),
                  ('SERIALIZE', of.serialize_seconds), ('DESERIALIZE', of.deserialize_seconds),
                  ('OTHER', of.other_seconds)) AS durations (action, seconds)
                WHERE seconds > 0)))
            FROM (
              SELECT task_groups.* FROM computation_task_groups AS link
              JOIN task_groups ON task_groups.account_id = link.account_id
                AND task_groups.cluster_id = link.cluster_id AND task_groups.id = link.task_group_id
              WHERE link.account_id = $1 AND link.cluster_id = $2 AND link.computation_id = shown.id
              ORDER BY task_groups.first_seen_at, task_groups.id LIMIT 15) AS of))))
        FROM (
          SELECT id, state, started_at, stopped_at FROM computations
          WHERE account_id = $1 AND cluster_id = $2 ORDER BY started_at DESC, id DESC LIMIT 10) AS shown)),
      'errors', json_build_object('nodes', (
        SELECT json_agg(json_build_object('key', key, 'type', exception_type, 'origin', origin, 'at', occurred_at,
          'worker', worker, 'retries', retries))
        FROM (
          SELECT key, exception_type, origin, occurred_at, worker, retries FROM error_occurrences
          WHERE account_id = $1 AND cluster_id = $2 ORDER BY occurred_at DESC, id DESC LIMIT 10) AS of))))
    FROM clusters WHERE account_id = $1 AND id = $2";

/// The relations between computations and task groups are in `bench/postgraphile/schema.sql`, because the
/// database has no foreign keys for them. The task groups are in the order of their identifiers, because
/// PostGraphile cannot sort by the columns of another table without a plugin.
const POSTGRAPHILE_DOCUMENT: &str = "query($account: UUID!, $cluster: BigInt!) {
    clusterByAccountIdAndRowId(accountId: $account, rowId: $cluster) {
      name status startedAt closedAt durationMs totalTasks totalTasksSucceeded totalTasksErred totalErrors totalBytes
      totalComputeSeconds totalTransferSeconds totalThreadSeconds
      computationsByAccountIdAndClusterId(first: 10, orderBy: [STARTED_AT_DESC, ROW_ID_DESC]) { nodes {
        rowId state startedAt stoppedAt
        computationTaskGroupsByAccountIdAndClusterIdAndComputationId(first: 15) { nodes {
          taskGroupByAccountIdAndClusterIdAndTaskGroupId { name prefix startedAt stoppedAt tasks tasksSucceeded
            tasksErred bytes released waiting noWorker queued processing memory erred forgotten computeSeconds
            transferSeconds diskReadSeconds diskWriteSeconds serializeSeconds deserializeSeconds otherSeconds } } } } }
      errorOccurrencesByAccountIdAndClusterId(first: 10, orderBy: [OCCURRED_AT_DESC, ROW_ID_DESC]) {
        nodes { key exceptionType origin occurredAt worker retries } } } }";

pub(super) fn operation(history: &History) -> Operation {
    let (account, clusters) = (history.account, history.clusters.iter());
    Operation {
        name: "drill-down",
        requests: clusters.clone().map(|id| request(DOCUMENT, &json!({ "id": id.to_string() }))).collect(),
        statement: statement(TASK_GROUPS),
        json_statement: JSON_STATEMENT.to_owned(),
        sqlite_statement: to_sqlite(&statement(TASK_GROUPS_SQLITE)),
        binds: clusters.clone().map(|id| vec![Bind::Uuid(account), Bind::Int(*id)]).collect(),
        rows: |response| {
            let cluster = &response["cluster"];
            let computations = cluster["computations"]["nodes"].as_array().into_iter().flatten();
            let groups = computations.map(|computation| 1 + list_length(&computation["taskGroups"]["nodes"]));
            1 + groups.sum::<usize>() + list_length(&cluster["errors"]["nodes"])
        },
        postgraphile: PostgraphileQuery {
            document: POSTGRAPHILE_DOCUMENT.to_owned(),
            variables: clusters.map(|id| json!({ "account": account, "cluster": id.to_string() })).collect(),
            variables_before: None,
            rows: |response| {
                let cluster = &response["clusterByAccountIdAndRowId"];
                let computations = &cluster["computationsByAccountIdAndClusterId"]["nodes"];
                let groups = computations.as_array().into_iter().flatten().map(|computation| {
                    let links = &computation["computationTaskGroupsByAccountIdAndClusterIdAndComputationId"];
                    1 + list_length(&links["nodes"])
                });
                let errors = &cluster["errorOccurrencesByAccountIdAndClusterId"]["nodes"];
                1 + groups.sum::<usize>() + list_length(errors)
            },
        },
        aims: Aims { json: 2.5, postgraphile: 4.0, sqlite: 0.5 },
    }
}
