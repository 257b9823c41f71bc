//! The condition that hides quarantined and removed clusters from every statement on an account.

use entity::{
    cluster_removal::{Column, Entity},
    ids::AccountId,
};
use sea_orm::{
    DatabaseBackend,
    sea_query::{Expr, ExprTrait, Query, SelectStatement, SubQueryStatement},
};

/// Selects the hidden clusters of an account.
fn hidden_clusters(account: AccountId) -> SelectStatement {
    Query::select()
        .column((Entity, Column::ClusterId))
        .from(Entity)
        .and_where(Expr::col((Entity, Column::AccountId)).eq(account))
        // As literal text, so that the partial index with this condition is used.
        .and_where(Expr::cust("cluster_removals.state <> 'removed'"))
        .take()
}

/// Returns the condition that the cluster in a column is shown.
///
/// PostgreSQL expects `NOT IN` with a subquery to exclude half of all rows or more, and would then sort
/// rows that an index has in order. It expects almost no value to be null, so the condition is written as a
/// test for null.
pub(crate) fn is_shown(cluster: Expr, account: AccountId, backend: DatabaseBackend) -> Expr {
    let hidden = hidden_clusters(account);
    if backend == DatabaseBackend::Postgres {
        let hidden = Expr::SubQuery(None, Box::new(SubQueryStatement::SelectStatement(hidden)));
        Expr::cust_with_exprs("NULLIF($1 = ANY (ARRAY $2), TRUE) IS NOT NULL", [cluster, hidden])
    } else {
        cluster.not_in_subquery(hidden)
    }
}
