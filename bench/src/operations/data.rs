//! The data of the operations: one cluster that is reported, and copies of its rows made by SQL.

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, Row as _};
use uuid::Uuid;

use super::model;
use crate::{
    client::Connection,
    database::{Database, Databases, Result},
    ingest::now,
    server::Server,
    traffic::compress,
};

/// The number of clusters of the queried account, at scale 1.
const CLUSTERS: i64 = 2_000;

/// The number of other accounts in the same tables. Each has one cluster per `OTHERS_SHARE` clusters of
/// the queried account.
const OTHERS: i64 = 4;
const OTHERS_SHARE: i64 = 4;

/// One in this many clusters has computations, task groups, errors and fine metrics.
const ONE_IN: i64 = 10;

/// The number of members who own the clusters.
const USERS: i64 = 20;

/// The number of days over which the clusters of scale 1 are spread. Other scales reach further back at
/// the same density.
pub(super) const DAYS: i64 = 90;

const DAY: i64 = 86_400_000;

/// A database with a history, and the subjects of the queries.
pub(super) struct History {
    pub(super) database: Database,
    pub(super) account: Uuid,
    /// Clusters with all kinds of rows, spread over the whole history.
    pub(super) clusters: Vec<i64>,
    /// The number of clusters before the deep page.
    clusters_before_deep: usize,
    /// The range of days that is summed up: the first, and the one after the last, in days since 1970.
    pub(super) days: (i64, i64),
}

/// Creates a database with a history of this scale.
pub(super) async fn generate(databases: &Databases, scale: i64) -> Result<History> {
    let database = databases.create_copy().await?;
    let started_at = (now() / DAY) * DAY - 2 * DAY;
    let server = Server::start(&database.url, 4).await?;
    let mut client = Connection::open(server.address, &databases.token).await?;
    client.send_report(&compress(&model::report(started_at).to_string())).await?;
    server.stop().await?;

    let mut sql = PgConnection::connect(&database.url).await?;
    let model = sqlx::query("SELECT account_id, id FROM clusters").fetch_one(&mut sql).await?;
    let (account, number): (Uuid, i64) = (model.try_get(0)?, model.try_get(1)?);
    let (clusters, days) = (CLUSTERS * scale, DAYS * scale);
    add_users(&mut sql, account).await?;
    set_retention(&mut sql, account).await?;
    add_fine_metric_rows(&mut sql, account, number).await?;
    // Rounded to whole seconds, so that the copies of one model differ in their sort key.
    let start_interval = days * DAY / clusters / 1_000 * 1_000;
    add_clusters(&mut sql, account, clusters, start_interval).await?;
    add_days(&mut sql, account, started_at / DAY, days).await?;
    for statement in ["VACUUM ANALYZE", "CHECKPOINT"] {
        sql.execute(statement).await?;
    }

    let select =
        "SELECT id FROM clusters WHERE account_id = $1 AND total_errors > 0 ORDER BY started_at DESC";
    let detailed_clusters: Vec<i64> = sqlx::query_scalar(select).bind(account).fetch_all(&mut sql).await?;
    let end_day = started_at / DAY + 1;
    Ok(History {
        account,
        clusters: detailed_clusters.iter().step_by(detailed_clusters.len() / 100).copied().collect(),
        clusters_before_deep: usize::try_from(clusters)? / 10 * 9,
        days: (end_day - DAYS, end_day),
        database,
    })
}

/// A position far down in the list of clusters.
pub(super) struct DeepPosition {
    /// The server's cursor.
    pub(super) cursor: String,
    /// The same position for hand-written SQL: the cluster's start and its ID.
    pub(super) started_at: i64,
    pub(super) number: i64,
}

impl History {
    /// Finds the position by paging, as a reader would.
    pub(super) async fn find_deep_position(&self, server: &Server, token: &str) -> Result<DeepPosition> {
        let mut client = Connection::open(server.address, token).await?;
        let (mut cursor, mut number, mut seen_clusters) = (Value::Null, Value::Null, 0);
        while seen_clusters < self.clusters_before_deep {
            let query = "query($after: String) { viewer { account { clusters(first: 100, after: $after) {
                nodes { number } pageInfo { endCursor } } } } }";
            let body = json!({ "query": query, "variables": { "after": cursor } }).to_string();
            let request = client.query_request(body.as_bytes());
            let mut response: Value = serde_json::from_slice(client.exchange(&request).await?)?;
            let page = &mut response["data"]["viewer"]["account"]["clusters"];
            let nodes = page["nodes"].as_array().ok_or("the server answered with no page")?;
            seen_clusters += nodes.len();
            number = nodes.last().ok_or("the list is too short")?["number"].clone();
            cursor = page["pageInfo"]["endCursor"].take();
        }
        let number = number.as_i64().ok_or("a cluster number is not a number")?;
        let mut sql = PgConnection::connect(&self.database.url).await?;
        let started_at = "SELECT started_at FROM clusters WHERE account_id = $1 AND id = $2";
        let started_at = sqlx::query_scalar(started_at).bind(self.account).bind(number);
        let started_at = started_at.fetch_one(&mut sql).await?;
        Ok(DeepPosition { cursor: cursor.as_str().unwrap_or_default().to_owned(), started_at, number })
    }
}

/// Adds the other members of the account, and unrelated accounts.
async fn add_users(sql: &mut PgConnection, account: Uuid) -> Result<()> {
    let users = format!(
        "INSERT INTO users (id, name, created_at)
           SELECT md5('user' || n)::uuid, 'user-' || n, 0 FROM generate_series(0, {USERS} - 1) AS n;
         INSERT INTO memberships (account_id, user_id, role, created_at)
           SELECT '{account}', md5('user' || n)::uuid, 'member', 0 FROM generate_series(0, {USERS} - 1) AS n;
         INSERT INTO accounts (id, slug, name, created_at)
           SELECT md5('account' || n)::uuid, 'other-' || n, 'Other', 0 FROM generate_series(1, {OTHERS}) AS n"
    );
    sql.execute(AssertSqlSafe(users)).await?;
    Ok(())
}

/// Sets the longest retention, because the server would remove the older part of the longer history.
async fn set_retention(sql: &mut PgConnection, account: Uuid) -> Result<()> {
    let insert = "INSERT INTO data_policies (account_id, data_class, accepted, retention_days)
        SELECT $1, class, true, 36500
        FROM unnest(ARRAY['basic', 'tasks', 'dask_errors', 'user_errors', 'code', 'profiles', 'events', 'logs']) AS class";
    sqlx::query(insert).bind(account).execute(sql).await?;
    Ok(())
}

/// Stores the fine metrics as one row each, as a hand-written schema without packing would.
async fn add_fine_metric_rows(sql: &mut PgConnection, account: Uuid, cluster: i64) -> Result<()> {
    let table = "CREATE TABLE fine_metric_rows (
        account_id uuid NOT NULL, cluster_id bigint NOT NULL, span_id uuid NOT NULL, context text NOT NULL,
        function text, activity text NOT NULL, unit text NOT NULL, value double precision NOT NULL)";
    sql.execute(table).await?;
    for (span, context, function, activity, unit, value) in model::cells() {
        sqlx::query("INSERT INTO fine_metric_rows VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(account)
            .bind(cluster)
            .bind(span)
            .bind(context)
            .bind(function)
            .bind(activity)
            .bind(unit)
            .bind(value)
            .execute(&mut *sql)
            .await?;
    }
    sql.execute("CREATE INDEX ON fine_metric_rows (account_id, cluster_id)").await?;
    Ok(())
}

/// Copies the model cluster. Each copy starts before the previous one.
async fn add_clusters(
    sql: &mut PgConnection,
    account: Uuid,
    clusters: i64,
    start_interval: i64,
) -> Result<()> {
    let times = ["reported_at", "first_seen_at", "last_seen_at", "started_at", "closed_at", "ended_key"]
        .map(|column| (column, format!("model.{column} - n * {start_interval}")));
    let if_detailed = |value: &str| format!("CASE WHEN n % {ONE_IN} = 0 THEN {value} ELSE 0 END");
    let distinct_values = [
        ("id", "model.id + n".to_owned()),
        ("scheduler_id", "'Scheduler-' || md5(n::text)::uuid".to_owned()),
        ("name", "'pipeline-' || n % 50".to_owned()),
        ("user_id", format!("md5('user' || n % {USERS})::uuid")),
        ("total_errors", if_detailed("model.total_errors")),
        ("total_compute_seconds", "model.total_compute_seconds * (n % 97 + 1) / 50".to_owned()),
        ("total_tasks", "model.total_tasks + n % 1009".to_owned()),
    ];
    let changes: Vec<(&str, String)> = distinct_values.into_iter().chain(times).collect();
    let numbers = format!("generate_series(1::bigint, {clusters} - 1)");
    copy(sql, "clusters", &changes, &numbers, &format!("model.account_id = '{account}'")).await?;
    for other in 1..=OTHERS {
        let mut changes = changes.clone();
        changes.push(("account_id", format!("md5('account{other}')::uuid")));
        changes.retain(|(column, _)| *column != "user_id");
        changes.push(("user_id", "NULL::uuid".to_owned()));
        let numbers = format!("generate_series(1::bigint, {})", clusters / OTHERS_SHARE);
        let first_cluster =
            format!("model.account_id = '{account}' AND model.id = (SELECT min(id) FROM clusters)");
        copy(sql, "clusters", &changes, &numbers, &first_cluster).await?;
    }

    let numbers = format!("generate_series({ONE_IN}::bigint, {clusters} - 1, {ONE_IN})");
    let cluster_changes = |times: &[&'static str]| {
        let times = times.iter().map(|column| (*column, format!("model.{column} - n * {start_interval}")));
        let cluster_id = [("cluster_id", "model.cluster_id + n".to_owned())];
        cluster_id.into_iter().chain(times).collect::<Vec<_>>()
    };
    for (table, times) in [
        ("computations", &["started_at", "stopped_at"][..]),
        ("task_groups", &["first_seen_at", "started_at", "stopped_at"]),
        ("computation_task_groups", &[]),
        ("error_occurrences", &["occurred_at"]),
        ("spans", &["enqueued_at", "started_at", "stopped_at"]),
        ("fine_metrics", &[]),
        ("fine_metric_totals", &[]),
        ("fine_metric_rows", &[]),
    ] {
        copy(sql, table, &cluster_changes(times), &numbers, "true").await?;
    }
    Ok(())
}

/// Adds daily usage of each member, and of the other accounts.
async fn add_days(sql: &mut PgConnection, account: Uuid, last: i64, days: i64) -> Result<()> {
    let value = |(name, _): (String, String)| match name.as_str() {
        "account_id" => "account".to_owned(),
        "day" => "day".to_owned(),
        "user_id" => "md5('user' || member)::uuid".to_owned(),
        "clusters" => "1 + member % 3".to_owned(),
        "is_cut" => "false".to_owned(),
        "idle_us" => "1000003 * (day % 89 + member)".to_owned(),
        // More than all other columns together, as thread time is.
        "thread_us" => "50000021 * (day % 89 + member + 1)".to_owned(),
        _ => "1000003 * (day % 97 + member)".to_owned(),
    };
    let values: Vec<String> = columns(sql, "usage_days").await?.into_iter().map(value).collect();
    let insert = format!(
        "INSERT INTO usage_days SELECT {}
         FROM (SELECT '{account}'::uuid UNION ALL SELECT md5('account' || n)::uuid FROM generate_series(1, {OTHERS}) AS n)
           AS accounts (account)
         CROSS JOIN generate_series({last}::bigint - {days} + 1, {last}) AS day
         CROSS JOIN generate_series(0::bigint, {USERS} - 1) AS member",
        values.join(", ")
    );
    sql.execute("DELETE FROM usage_days").await?;
    sql.execute(AssertSqlSafe(insert)).await?;
    Ok(())
}

/// Copies rows of a model, except for the columns in `changes`, which are expressions of `model` and
/// `n`.
async fn copy(
    sql: &mut PgConnection,
    table: &str,
    changes: &[(&str, String)],
    numbers: &str,
    condition: &str,
) -> Result<()> {
    let columns = columns(sql, table).await?;
    let value = |(name, sql_type): &(String, String)| match changes.iter().find(|(column, _)| column == name)
    {
        Some((_, change)) => format!("({change})::{sql_type}"),
        None => format!("model.{name}"),
    };
    let values: Vec<String> = columns.iter().map(value).collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let insert = format!(
        "INSERT INTO {table} ({}) SELECT {} FROM {table} AS model CROSS JOIN {numbers} AS n \
         WHERE {condition}",
        names.join(", "),
        values.join(", ")
    );
    sql.execute(AssertSqlSafe(insert)).await?;
    Ok(())
}

/// Returns the columns of a table in order, with their types.
async fn columns(sql: &mut PgConnection, table: &str) -> Result<Vec<(String, String)>> {
    let select = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute \
                  WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    Ok(sqlx::query_as(select).bind(table).fetch_all(sql).await?)
}
