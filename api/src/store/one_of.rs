//! Rows by their cluster and an identifier within it, of many clusters at once.

use std::collections::{BTreeMap, BTreeSet};

use entity::ids::ClusterId;
use sea_orm::{ColumnTrait, Condition, Value, sea_query::ExprTrait};

/// Places of an index that are looked at for it at the most, many of which may be empty: more would take longer than reading all
/// that the clusters have.
const MAX_PLACES: usize = 10_000;

/// The rows whose cluster and identifier are among `ids`: of none, none.
pub(super) fn one_of<C, I>(cluster: C, id: C, ids: &[(ClusterId, I)]) -> Condition
where
    C: ColumnTrait,
    I: Copy + Ord + Into<Value>,
{
    let mut by_cluster: BTreeMap<ClusterId, BTreeSet<I>> = BTreeMap::new();
    for (cluster, id) in ids {
        by_cluster.entry(*cluster).or_default().insert(*id);
    }
    let pairs = by_cluster
        .iter()
        .fold(Condition::any(), |any, (of, ids)| any.add(cluster.eq(*of).and(id.is_in(ids.iter().copied()))));
    if by_cluster.len() == 1 {
        return pairs;
    }
    // Alternatives are looked up in no index: SQLite prefers any other, and PostgreSQL would need the bitmaps that it is told
    // to do without. So that neither reads all rows of the account, what the pairs have to do with stands beside them.
    let ids: BTreeSet<I> = ids.iter().map(|(_, id)| *id).collect();
    let few = by_cluster.len().saturating_mul(ids.len()) <= MAX_PLACES;
    Condition::all()
        .add(cluster.is_in(by_cluster.into_keys()))
        .add_option(few.then(|| id.is_in(ids)))
        .add(pairs)
}
