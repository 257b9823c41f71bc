//! The operations, each as a GraphQL request and as one hand-written statement.

use serde_json::{Value, json};
use uuid::Uuid;

use super::data::{DeepPosition, History};

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bind {
    Uuid(Uuid),
    Int(i64),
}

/// An operation, with different parameters in turn.
pub(super) struct Operation {
    pub(super) name: &'static str,
    /// The bodies of the requests.
    pub(super) requests: Vec<Vec<u8>>,
    pub(super) statement: String,
    /// The parameters of the statement for each request.
    pub(super) binds: Vec<Vec<Bind>>,
    /// Returns the number of the statement's rows that a response contains.
    pub(super) rows: fn(&Value) -> usize,
}

/// The fields of each cluster in a list.
const CLUSTER: &str = "id schedulerId name state startedAt endedAt durationSeconds lastSeenAt
    totals { tasks tasksSucceeded tasksErred errors bytes workers peakWorkers peakThreads computeSeconds
      transferSeconds threadSeconds }";
const CLUSTER_COLUMNS: &str = "id, scheduler_id, name, status, started_at, closed_at, duration_ms, last_seen_at,
    total_tasks, total_tasks_succeeded, total_tasks_erred, total_errors, total_bytes, total_workers, peak_workers,
    peak_threads, total_compute_seconds, total_transfer_seconds, total_thread_seconds";

pub(super) fn all_operations(history: &History, deep_position: &DeepPosition) -> Vec<Operation> {
    vec![
        list_page(history),
        drill_down(history),
        heat_map(history),
        fine_metrics(history),
        deep_page(history, deep_position),
    ]
}

fn request(document: &str, variables: &Value) -> Vec<u8> {
    json!({ "query": document, "variables": variables }).to_string().into_bytes()
}

fn list_length(list: &Value) -> usize {
    list.as_array().map_or(0, Vec::len)
}

fn count_listed_clusters(response: &Value) -> usize {
    list_length(&response["viewer"]["account"]["clusters"]["nodes"])
}

fn list_page(history: &History) -> Operation {
    let document = format!(
        "{{ viewer {{ account {{ clusters(first: 50) {{
            nodes {{ {CLUSTER} }} pageInfo {{ hasNextPage endCursor }} }} }} }} }}"
    );
    Operation {
        name: "list page",
        requests: vec![request(&document, &json!({}))],
        statement: format!(
            "SELECT {CLUSTER_COLUMNS} FROM clusters WHERE account_id = $1
             ORDER BY started_at DESC, id DESC LIMIT 50"
        ),
        binds: vec![vec![Bind::Uuid(history.account)]],
        rows: count_listed_clusters,
    }
}

fn deep_page(history: &History, position: &DeepPosition) -> Operation {
    let document = format!(
        "query($after: String!) {{ viewer {{ account {{ clusters(first: 50, after: $after) {{
            nodes {{ {CLUSTER} }} pageInfo {{ hasNextPage endCursor }} }} }} }} }}"
    );
    Operation {
        name: "deep page",
        requests: vec![request(&document, &json!({ "after": position.cursor }))],
        statement: format!(
            "SELECT {CLUSTER_COLUMNS} FROM clusters WHERE account_id = $1 AND (started_at, id) < ($2, $3)
             ORDER BY started_at DESC, id DESC LIMIT 50"
        ),
        binds: vec![vec![
            Bind::Uuid(history.account),
            Bind::Int(position.started_at),
            Bind::Int(position.number),
        ]],
        rows: count_listed_clusters,
    }
}

fn drill_down(history: &History) -> Operation {
    let document = "query($id: ID!) { cluster(id: $id) {
        name state startedAt endedAt durationSeconds
        totals { tasks tasksSucceeded tasksErred errors bytes computeSeconds transferSeconds threadSeconds }
        computations(first: 10) { nodes { daskId state startedAt endedAt
          taskGroups(first: 15) { nodes { name prefix startedAt endedAt tasks tasksSucceeded tasksErred bytes
            states { state count } durations { action seconds } } } } }
        errors(first: 10) { nodes { key type origin at worker retries } } } }";
    // Rows of four kinds share the same columns. JSON nested by the database would take several times as
    // long.
    let statement = "WITH shown AS (
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
        FROM shown CROSS JOIN LATERAL (
          SELECT task_groups.* FROM computation_task_groups AS link
          JOIN task_groups ON task_groups.account_id = link.account_id
            AND task_groups.cluster_id = link.cluster_id AND task_groups.id = link.task_group_id
          WHERE link.account_id = $1 AND link.cluster_id = $2 AND link.computation_id = shown.id
          ORDER BY task_groups.first_seen_at, task_groups.id LIMIT 15) AS of
        UNION ALL
        SELECT 'error', NULL, of.key, of.exception_type, of.worker, of.occurred_at, NULL, of.retries, NULL, NULL,
          NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM (SELECT * FROM error_occurrences WHERE account_id = $1 AND cluster_id = $2
          ORDER BY occurred_at DESC, id DESC LIMIT 10) AS of";
    let clusters = history.clusters.iter();
    Operation {
        name: "drill-down",
        requests: clusters.clone().map(|id| request(document, &json!({ "id": id.to_string() }))).collect(),
        statement: statement.to_owned(),
        binds: clusters.map(|id| vec![Bind::Uuid(history.account), Bind::Int(*id)]).collect(),
        rows: |response| {
            let cluster = &response["cluster"];
            let computations = cluster["computations"]["nodes"].as_array().into_iter().flatten();
            let groups = computations.map(|computation| 1 + list_length(&computation["taskGroups"]["nodes"]));
            1 + groups.sum::<usize>() + list_length(&cluster["errors"]["nodes"])
        },
    }
}

fn heat_map(history: &History) -> Operation {
    let document = "query($from: Date!, $to: Date!) { viewer { account {
        statistics(from: $from, to: $to) { clusters users
          usage { threadSeconds computeSeconds idleSeconds tasks errors bytes } }
        usageTable(from: $from, to: $to, by: [USER, DAY]) { day clusters user { name }
          usage { threadSeconds computeSeconds } } } } }";
    let statement = "SELECT days.day, days.clusters, users.name, days.thread_us, days.compute_us,
          NULL::bigint AS idle_us, NULL::bigint AS tasks, NULL::bigint AS errors, NULL::bigint AS bytes
        FROM usage_days AS days
        LEFT JOIN memberships ON memberships.account_id = days.account_id AND memberships.user_id = days.user_id
        LEFT JOIN users ON users.id = memberships.user_id
        WHERE days.account_id = $1 AND days.day >= $2 AND days.day < $3
        UNION ALL
        SELECT count(DISTINCT user_id),
          (SELECT count(*) FROM clusters WHERE account_id = $1 AND ended_key >= $2 * 86400000
            AND started_at + duration_ms >= $2 * 86400000 AND started_at < $3 * 86400000),
          NULL, sum(thread_us)::bigint, sum(compute_us)::bigint, sum(idle_us)::bigint, sum(tasks)::bigint,
          sum(errors)::bigint, sum(bytes)::bigint
        FROM usage_days WHERE account_id = $1 AND day >= $2 AND day < $3";
    let (from, to) = history.days;
    Operation {
        name: "totals and heat-map",
        requests: vec![request(document, &json!({ "from": date(from), "to": date(to) }))],
        statement: statement.to_owned(),
        binds: vec![vec![Bind::Uuid(history.account), Bind::Int(from), Bind::Int(to)]],
        rows: |response| {
            let account = &response["viewer"]["account"];
            usize::from(account["statistics"].is_object()) + list_length(&account["usageTable"])
        },
    }
}

fn fine_metrics(history: &History) -> Operation {
    let document = "query($id: ID!) { cluster(id: $id) { fineMetrics(unit: \"seconds\") {
        rows { context function activity unit value } } } }";
    let statement = "SELECT context, function, activity, unit, sum(value) AS value FROM fine_metric_rows
        WHERE account_id = $1 AND cluster_id = $2 AND unit = 'seconds'
        GROUP BY context, function, activity, unit ORDER BY value DESC LIMIT 1000";
    let clusters = history.clusters.iter();
    Operation {
        name: "fine metrics of a cluster",
        requests: clusters.clone().map(|id| request(document, &json!({ "id": id.to_string() }))).collect(),
        statement: statement.to_owned(),
        binds: clusters.map(|id| vec![Bind::Uuid(history.account), Bind::Int(*id)]).collect(),
        rows: |response| list_length(&response["cluster"]["fineMetrics"]["rows"]),
    }
}

/// Converts days since 1970-01-01 to a date in the API's format (civil calendar, after Howard Hinnant).
fn date(day: i64) -> String {
    let shifted_day = day + 719_468;
    let (era, day_of_era) = (shifted_day.div_euclid(146_097), shifted_day.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    format!("{:04}-{month:02}-{day_of_month:02}", era * 400 + year + i64::from(month <= 2))
}
