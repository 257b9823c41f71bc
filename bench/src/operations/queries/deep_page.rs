//! A page far down in the list of clusters, by cursor.

use serde_json::json;

use super::{
    Aims, Bind, Operation, PostgraphileQuery,
    list_page::{
        CLUSTER, CLUSTER_COLUMNS, POSTGRAPHILE_PAGE, count_clusters, count_postgraphile_clusters,
        page_as_json,
    },
    request, to_sqlite,
};
use crate::operations::data::{DeepPosition, History};

pub(super) fn operation(history: &History, position: &DeepPosition) -> Operation {
    let document = format!(
        "query($after: String!) {{ viewer {{ account {{ clusters(first: 50, after: $after) {{
            nodes {{ {CLUSTER} }} pageInfo {{ hasNextPage endCursor }} }} }} }} }}"
    );
    let statement = format!(
        "SELECT {CLUSTER_COLUMNS} FROM clusters WHERE account_id = $1 AND (started_at, id) < ($2, $3)
         ORDER BY started_at DESC, id DESC LIMIT 50"
    );
    let account = history.account;
    let (started_at, number) = (position.started_at.to_string(), position.number.to_string());
    Operation {
        name: "deep page",
        requests: vec![request(&document, &json!({ "after": position.cursor }))],
        json_statement: page_as_json(&statement),
        sqlite_statement: to_sqlite(&statement),
        statement,
        binds: vec![vec![Bind::Uuid(account), Bind::Int(position.started_at), Bind::Int(position.number)]],
        rows: count_clusters,
        postgraphile: PostgraphileQuery {
            document: POSTGRAPHILE_PAGE.to_owned(),
            variables: vec![json!({ "condition": { "accountId": account } })],
            variables_before: Some(
                json!({ "condition": { "accountId": account, "startedAt": started_at, "rowId": number } }),
            ),
            rows: count_postgraphile_clusters,
        },
        aims: Aims { json: 1.4, postgraphile: 5.0, sqlite: 0.45 },
    }
}
