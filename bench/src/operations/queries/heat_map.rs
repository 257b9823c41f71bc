//! An account's totals and its usage by member and day.

use serde_json::json;

use super::{Aims, Bind, Operation, PostgraphileQuery, date::date, list_length, request, to_sqlite};
use crate::operations::data::History;

const DOCUMENT: &str = "query($from: Date!, $to: Date!) { viewer { account {
    statistics(from: $from, to: $to) { clusters users
      usage { threadSeconds computeSeconds idleSeconds tasks errors bytes } }
    usageTable(from: $from, to: $to, by: [USER, DAY]) { day clusters user { name }
      usage { threadSeconds computeSeconds } } } } }";

/// The number of clusters in use.
const CLUSTERS: &str = "(SELECT count(*) FROM clusters WHERE account_id = $1 AND ended_key >= $2 * 86400000
    AND started_at + duration_ms >= $2 * 86400000 AND started_at < $3 * 86400000)";

const DAYS_OF_USERS: &str = "FROM usage_days AS days
    LEFT JOIN memberships ON memberships.account_id = days.account_id AND memberships.user_id = days.user_id
    LEFT JOIN users ON users.id = memberships.user_id
    WHERE days.account_id = $1 AND days.day >= $2 AND days.day < $3";

/// The functions are in `bench/postgraphile/schema.sql`, because PostGraphile sums nothing without a plugin,
/// and has no ranges in its conditions.
const POSTGRAPHILE_DOCUMENT: &str = "query($account: UUID!, $from: BigInt!, $to: BigInt!) {
    accountStatistics(account: $account, fromDay: $from, toDay: $to) {
      clusters users threadUs computeUs idleUs tasks errors bytes }
    usageTable(account: $account, fromDay: $from, toDay: $to) {
      nodes { day clusters userByUserId { name } threadUs computeUs } } }";

pub(super) fn operation(history: &History) -> Operation {
    let statement = format!(
        "SELECT days.day, days.clusters, users.name, days.thread_us, days.compute_us,
           NULL::bigint AS idle_us, NULL::bigint AS tasks, NULL::bigint AS errors, NULL::bigint AS bytes
         {DAYS_OF_USERS}
         UNION ALL
         SELECT count(DISTINCT user_id), {CLUSTERS}, NULL, sum(thread_us)::bigint, sum(compute_us)::bigint,
           sum(idle_us)::bigint, sum(tasks)::bigint, sum(errors)::bigint, sum(bytes)::bigint
         FROM usage_days WHERE account_id = $1 AND day >= $2 AND day < $3"
    );
    let (account, (from, to)) = (history.account, history.days);
    Operation {
        name: "totals and heat-map",
        requests: vec![request(DOCUMENT, &json!({ "from": date(from), "to": date(to) }))],
        json_statement: json_statement(),
        sqlite_statement: to_sqlite(&statement),
        statement,
        binds: vec![vec![Bind::Uuid(account), Bind::Int(from), Bind::Int(to)]],
        rows: |response| {
            let account = &response["viewer"]["account"];
            usize::from(account["statistics"].is_object()) + list_length(&account["usageTable"])
        },
        postgraphile: PostgraphileQuery {
            document: POSTGRAPHILE_DOCUMENT.to_owned(),
            variables: vec![json!({ "account": account, "from": from.to_string(), "to": to.to_string() })],
            variables_before: None,
            rows: |response| {
                usize::from(response["accountStatistics"].is_object())
                    + list_length(&response["usageTable"]["nodes"])
            },
        },
        aims: Aims { json: 2.8, postgraphile: 5.0, sqlite: 0.6 },
    }
}

fn json_statement() -> String {
    format!(
        "SELECT json_build_object('viewer', json_build_object('account', json_build_object(
           'statistics', (
             SELECT json_build_object('clusters', {CLUSTERS}, 'users', count(DISTINCT user_id),
               'usage', json_build_object(
                 'threadSeconds', sum(thread_us), 'computeSeconds', sum(compute_us), 'idleSeconds', sum(idle_us),
                 'tasks', sum(tasks), 'errors', sum(errors), 'bytes', sum(bytes)))
             FROM usage_days WHERE account_id = $1 AND day >= $2 AND day < $3),
           'usageTable', (
             SELECT json_agg(json_build_object('day', days.day, 'clusters', days.clusters,
               'user', json_build_object('name', users.name),
               'usage', json_build_object('threadSeconds', days.thread_us, 'computeSeconds', days.compute_us)))
             {DAYS_OF_USERS}))))"
    )
}
