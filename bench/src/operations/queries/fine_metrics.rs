//! The fine metrics of a cluster in seconds.

use serde_json::json;

use super::{Aims, Bind, Operation, PostgraphileQuery, list_length, request, to_sqlite};
use crate::operations::data::History;

const DOCUMENT: &str = "query($id: ID!) { cluster(id: $id) { fineMetrics(unit: \"seconds\") {
    rows { context function activity unit value } } } }";

const STATEMENT: &str = "SELECT context, function, activity, unit, sum(value) AS value FROM fine_metric_rows
    WHERE account_id = $1 AND cluster_id = $2 AND unit = 'seconds'
    GROUP BY context, function, activity, unit ORDER BY value DESC LIMIT 1000";

/// The function is in `bench/postgraphile/schema.sql`, because PostGraphile sums nothing without a plugin.
const POSTGRAPHILE_DOCUMENT: &str = "query($account: UUID!, $cluster: BigInt!) {
    clusterFineMetrics(account: $account, cluster: $cluster, ofUnit: \"seconds\") {
      nodes { context function activity unit value } } }";

pub(super) fn operation(history: &History) -> Operation {
    let (account, clusters) = (history.account, history.clusters.iter());
    Operation {
        name: "fine metrics of a cluster",
        requests: clusters.clone().map(|id| request(DOCUMENT, &json!({ "id": id.to_string() }))).collect(),
        statement: STATEMENT.to_owned(),
        json_statement: format!(
            "SELECT json_build_object('cluster', json_build_object('fineMetrics', json_build_object('rows', json_agg(
               json_build_object('context', context, 'function', function, 'activity', activity, 'unit', unit,
                 'value', value)))))
             FROM ({STATEMENT}) AS metrics"
        ),
        sqlite_statement: to_sqlite(STATEMENT),
        binds: clusters.clone().map(|id| vec![Bind::Uuid(account), Bind::Int(*id)]).collect(),
        rows: |response| list_length(&response["cluster"]["fineMetrics"]["rows"]),
        postgraphile: PostgraphileQuery {
            document: POSTGRAPHILE_DOCUMENT.to_owned(),
            variables: clusters
                .map(|id| json!({ "account": account, "cluster": id.to_string() }))
                .collect(),
            variables_before: None,
            rows: |response| list_length(&response["clusterFineMetrics"]["nodes"]),
        },
        aims: Aims { json: 2.5, postgraphile: 4.5, sqlite: 0.5 },
    }
}
