//! Conditions for a column that is one of a list of values, and for rows of many clusters by cluster and
//! identifier.

use std::collections::{BTreeMap, BTreeSet};

use entity::ids::ClusterId;
use sea_orm::{
    ColumnTrait, Condition, Value,
    sea_query::{ColumnType, Expr, ExprTrait},
};

/// The largest number of index entries that a condition on pairs may look up, many of which may not
/// exist. Beyond this number, reading all rows of the clusters is faster.
const MAX_PLACES: usize = 10_000;

/// Columns that can be compared with a list of values.
pub(crate) trait IsOneOf: ColumnTrait {
    /// The condition that the column has one of the values. It matches no row if there are no values,
    /// for which sea-orm would compare constants.
    #[expect(clippy::disallowed_methods, reason = "other modules use this one instead")]
    fn is_one_of<V: Into<Value>>(&self, values: impl IntoIterator<Item = V>) -> Expr {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            return self.is_in(values);
        }
        let null = match self.def().get_column_type() {
            ColumnType::Uuid => "uuid",
            ColumnType::BigInteger => "bigint",
            ColumnType::Integer => "integer",
            ColumnType::Blob | ColumnType::Binary(_) | ColumnType::VarBinary(_) => "bytea",
            _ => "text",
        };
        never_matches(Expr::col(self.as_column_ref()), null)
    }
}

impl<C: ColumnTrait> IsOneOf for C {}

/// The same as [`IsOneOf::is_one_of`], for an expression of the PostgreSQL type `sql_type`.
#[expect(clippy::disallowed_methods, reason = "other modules use this one instead")]
pub(crate) fn expression_is_one_of<V: Into<Value>>(
    expression: Expr,
    sql_type: &str,
    values: impl IntoIterator<Item = V>,
) -> Expr {
    let mut values = values.into_iter().map(Expr::val).peekable();
    if values.peek().is_some() { expression.is_in(values) } else { never_matches(expression, sql_type) }
}

/// The condition that no row matches.
///
/// On a single server a comparison of constants would do. Citus evaluates such a condition before it
/// looks for the account in the other conditions, drops them with it, and may refuse the statement
/// because it would affect all nodes. This condition is an index lookup like any other, and finds
/// nothing.
fn never_matches(expression: Expr, sql_type: &str) -> Expr {
    expression.eq(Expr::cust(format!("(SELECT CAST(NULL AS {sql_type}))")))
}

/// The condition that the row's cluster and identifier are among `ids`. It matches no row if `ids` is
/// empty.
pub(crate) fn one_of<C, I>(cluster: C, id: C, ids: &[(ClusterId, I)]) -> Condition
where
    C: ColumnTrait,
    I: Copy + Ord + Into<Value>,
{
    let mut ids_by_cluster: BTreeMap<ClusterId, BTreeSet<I>> = BTreeMap::new();
    for (cluster, id) in ids {
        ids_by_cluster.entry(*cluster).or_default().insert(*id);
    }
    let pairs = ids_by_cluster.iter().fold(Condition::any(), |alternatives, (cluster_id, ids)| {
        alternatives.add(cluster.eq(*cluster_id).and(id.is_one_of(ids.iter().copied())))
    });
    if ids_by_cluster.len() == 1 {
        return pairs;
    }
    // No index serves alternatives: SQLite prefers any other index, and PostgreSQL would need bitmap
    // scans, which are turned off. The conditions on the single columns keep both from reading all rows
    // of the account.
    let ids: BTreeSet<I> = ids.iter().map(|(_, id)| *id).collect();
    let has_few_combinations = ids_by_cluster.len().saturating_mul(ids.len()) <= MAX_PLACES;
    Condition::all()
        .add(cluster.is_one_of(ids_by_cluster.into_keys()))
        .add_option(has_few_combinations.then(|| id.is_one_of(ids)))
        // An empty set of alternatives would become a constant.
        .add_option((!pairs.is_empty()).then_some(pairs))
}

/// Returns true if a statement compares constants with each other. A planner may drop all other
/// conditions beside such a comparison.
pub(crate) fn compares_constants(sql: &str) -> bool {
    // The position in front of a constant that is not part of a longer expression.
    let starts_condition = |before: &str| {
        let before = before.trim_end();
        before.ends_with('(')
            || [" WHERE", " AND", " OR", " NOT", " ON", " WHEN"]
                .iter()
                .any(|keyword| before.ends_with(keyword))
    };
    let is_constant = |text: &str| {
        let digits = text.strip_prefix(['$', '?']).unwrap_or(text);
        !text.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let operators = [" = ", " <> ", " < ", " <= ", " > ", " >= "];
    let is_compared = operators.iter().flat_map(|sign| sql.match_indices(sign)).any(|(index, sign)| {
        let (left, right) = (&sql[..index], &sql[index + sign.len()..]);
        let start = left.rfind([' ', '(']).map_or(0, |before| before + 1);
        let end = right.find([' ', ')', ',', ';']).unwrap_or(right.len());
        let (before, left, right) = (&left[..start], &left[start..], &right[..end]);
        // A number equals itself, and the other conditions beside that comparison stay.
        let is_true = sign == " = " && left == right && !left.starts_with(['$', '?']);
        is_constant(left) && is_constant(right) && starts_condition(before) && !is_true
    });
    is_compared || sql.match_indices("FALSE").any(|(index, _)| starts_condition(&sql[..index]))
}

#[cfg(test)]
mod tests {
    use entity::{cluster, ids::ClusterId};
    use sea_orm::{DatabaseBackend, EntityTrait, QueryFilter, QueryTrait, Select, sea_query::Expr};

    use super::{IsOneOf, compares_constants, expression_is_one_of, one_of};

    const BACKENDS: [DatabaseBackend; 2] = [DatabaseBackend::Postgres, DatabaseBackend::Sqlite];

    #[expect(clippy::disallowed_methods, reason = "no statement is run")]
    fn clusters() -> Select<cluster::Entity> {
        cluster::Entity::find()
    }

    #[test]
    fn a_list_without_values_compares_no_constants() {
        let (id, none) = (cluster::Column::Id, [ClusterId(0); 0]);
        let none_of_clusters: [(ClusterId, i64); 0] = [];
        for backend in BACKENDS {
            for (select, condition) in [
                (
                    clusters().filter(id.is_one_of(none)),
                    r#""clusters"."id" = ((SELECT CAST(NULL AS bigint)))"#,
                ),
                (
                    clusters().filter(cluster::Column::UserId.is_one_of(std::iter::empty::<uuid::Uuid>())),
                    r#""clusters"."user_id" = ((SELECT CAST(NULL AS uuid)))"#,
                ),
                (
                    clusters().filter(expression_is_one_of(Expr::col("name"), "text", [""; 0])),
                    r#""name" = ((SELECT CAST(NULL AS text)))"#,
                ),
                (
                    clusters().filter(one_of(id, cluster::Column::Sequence, &none_of_clusters)),
                    r#""clusters"."id" = ((SELECT CAST(NULL AS bigint))) AND "clusters"."sequence" = ((SELECT CAST(NULL AS bigint)))"#,
                ),
            ] {
                let sql = select.build(backend).sql;
                assert_eq!(sql.split_once(" WHERE ").expect("a condition").1, condition);
                assert!(!compares_constants(&sql), "{sql}");
            }
        }
    }

    #[test]
    fn lists_with_values_are_compared_with_the_column() {
        let select = clusters().filter(cluster::Column::Id.is_one_of([ClusterId(1), ClusterId(2)]));
        let sql = select.build(DatabaseBackend::Postgres).sql;
        assert!(sql.ends_with(r#" WHERE "clusters"."id" IN ($1, $2)"#), "{sql}");
        let select = clusters().filter(expression_is_one_of(Expr::col("id"), "bigint", [1_i64]));
        let sql = select.build(DatabaseBackend::Sqlite).sql;
        assert!(sql.ends_with(r#" WHERE "id" IN (?)"#), "{sql}");
    }

    #[test]
    fn comparisons_of_constants_are_found() {
        // The SQL that sea-orm generates for a list without values and for a condition without
        // alternatives.
        #[expect(clippy::disallowed_methods, reason = "the test needs the disallowed condition")]
        let empty = clusters().filter(sea_orm::ColumnTrait::is_in(&cluster::Column::Id, [ClusterId(0); 0]));
        for backend in BACKENDS {
            let sql = empty.clone().build(backend).sql;
            assert!(compares_constants(&sql), "{sql}");
        }
        for sql in [
            "SELECT a FROM b WHERE a = $1 AND $2 = $3",
            "SELECT a FROM b WHERE a = ? AND (? = ?)",
            "SELECT a FROM b WHERE 1 = 0",
            "SELECT a FROM b WHERE (a = $1) AND FALSE",
            "SELECT a FROM b WHERE a = $1 AND $2 >= $3",
        ] {
            assert!(compares_constants(sql), "{sql}");
        }
        for sql in [
            r#"UPDATE "a" SET "b" = $1 WHERE "c" = $2"#,
            "SELECT a FROM b WHERE a + 1 = ?",
            "SELECT a FROM b WHERE a = ? AND b IS FALSE",
            "SELECT a FROM b WHERE $1 <= a",
            "SELECT CASE WHEN (1 = 1) THEN 1 ELSE 0 END FROM b",
        ] {
            assert!(!compares_constants(sql), "{sql}");
        }
    }
}
