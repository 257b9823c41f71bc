//! What arrived, in the order in which it did.
//!
//! Every change of a cluster has a place, `clusters.changed_at`, which grows from one to the next; changes are committed one
//! after the other, because each holds the cluster's row. Rows that a change brings have its place, and no index has it: they
//! are looked for in their cluster, from the time on that the oldest of them may have.

use entity::{AccountOwned, Timestamp, cluster, ids::ClusterId};
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, FromQueryResult, QueryFilter, QuerySelect,
    sea_query::{Expr, ExprTrait},
};

use super::{
    error::StoreError,
    lists,
    page::{End, PageRequest, Sort},
    scoped::AccountStore,
};
use crate::{
    bus::{Changed, Notice},
    domain::position::{Part, Position, SETTLED_AFTER_MS},
};

/// Where a change brings something that happened longer before it, in milliseconds, the cluster's row says so.
pub(super) const LATE_MS: i64 = 600_000;

/// Clusters that ended longer ago than this when somebody begins to follow, in milliseconds, are not looked for: clocks of
/// schedulers are not that wrong.
const LONG_AGO_MS: i64 = 86_400_000;

/// A cluster that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub struct ChangedCluster {
    /// Which.
    pub id: ClusterId,
    /// The place of its last change.
    pub changed_at: i64,
    /// The place of the last change that brought something much older than itself.
    pub late_at: i64,
}

impl ChangedCluster {
    /// The time from which on everything happened that arrived after `after`, if not at any time.
    #[must_use]
    pub fn since(self, after: i64) -> Option<i64> {
        (self.late_at <= after).then_some(after - LATE_MS)
    }
}

/// What arrived of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// Of which.
    pub cluster: ClusterId,
    /// With changes after this one.
    pub after: i64,
    /// And until this one.
    pub until: i64,
    /// What happened before this time is not among it.
    pub since: Option<i64>,
    /// Only what comes behind this row.
    pub part: Option<Part>,
}

/// The place of a change of a row that is there, which is made now.
pub(super) fn next_change(now: Timestamp) -> Expr {
    let (now, changed_at) = (now.timestamp_millis(), || Expr::col(cluster::Column::ChangedAt));
    Expr::case(changed_at().gte(now), changed_at().add(1)).finally(now).into()
}

/// The rows of arrivals, by the columns that have the arrival, the cluster, the time and the identifier.
fn arrived<C: ColumnTrait>(of: &Arrivals, (arrived_at, cluster, at, id): (C, C, C, C)) -> Condition {
    let all = Condition::all().add(cluster.eq(of.cluster)).add(arrived_at.lte(of.until));
    let all = match of.part {
        Some(part) => {
            let row = [arrived_at, at, id].map(|column| Expr::col(column.as_column_ref()));
            let place = [Expr::val(part.arrival), Expr::val(part.at), Expr::val(part.id)];
            all.add(Expr::tuple(row).gt(Expr::tuple(place)))
        }
        None => all.add(arrived_at.gt(of.after)),
    };
    all.add_option(of.since.map(|since| at.gte(since)))
}

/// A column of an order's table.
type Column<S> = <<S as Sort>::Entity as EntityTrait>::Column;

impl AccountStore {
    /// Clusters that changed after a place, `limit` at the most: among some, or all that have not ended long ago.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.arrival.changed_clusters", skip_all)]
    pub async fn changed_clusters(
        &self,
        after: i64,
        among: Option<&[ClusterId]>,
        limit: u64,
    ) -> Result<Vec<ChangedCluster>, StoreError> {
        use cluster::Column;
        let select = self.select::<cluster::Entity>().filter(Column::ChangedAt.gt(after));
        let select = match among {
            Some(ids) => select.filter(Column::Id.is_in(ids.iter().copied())),
            None => select.filter(Column::EndedKey.gte(after.saturating_sub(LONG_AGO_MS))),
        };
        let select = select.select_only().columns([Column::Id, Column::ChangedAt, Column::LateAt]);
        Ok(select.limit(limit).into_model().all(&self.reads()).await?)
    }

    /// Where whoever follows what arrives from `now` on begins: behind all that is committed.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn position_at(
        &self,
        now: Timestamp,
        among: Option<&[ClusterId]>,
        limit: u64,
    ) -> Result<Position, StoreError> {
        let mut position = Position::at(now.timestamp_millis() - SETTLED_AFTER_MS);
        for cluster in self.changed_clusters(position.floor(), among, limit).await? {
            position.read(cluster.id, cluster.changed_at);
        }
        Ok(position)
    }

    /// Rows of some arrivals that pass a condition, in the order in which they arrived. Each cluster is read by itself, as a range of
    /// the table's key.
    pub(super) async fn as_arrived<S: Sort>(
        &self,
        arrivals: &[Arrivals],
        columns: (Column<S>, Column<S>, Column<S>, Column<S>),
        condition: Condition,
        sort: S,
        limit: u64,
    ) -> Result<Vec<<S::Entity as EntityTrait>::Model>, StoreError>
    where
        S::Entity: AccountOwned,
    {
        let of =
            |of: &Arrivals| self.select::<S::Entity>().filter(arrived(of, columns)).filter(condition.clone());
        let request = PageRequest::from(End::First, limit);
        let pages =
            lists::fetch_each(&self.reads(), arrivals.iter().map(of).collect(), sort, &request).await?;
        let mut rows: Vec<_> = pages.into_iter().flat_map(|page| page.rows).collect();
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// Takes down that something changed which people say of a cluster and which does not lie in its row, and tells those who
    /// watch. The row is held by the transaction.
    pub(crate) async fn touch_cluster(
        &self,
        known: &cluster::Model,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        use cluster::Column;
        let changed_at = Ord::max(now.timestamp_millis(), known.changed_at + 1);
        let update = self.update::<cluster::Entity>().filter(Column::Id.eq(known.id));
        update.col_expr(Column::ChangedAt, Expr::val(changed_at)).exec(&self.writes()).await?;
        self.announce_decision(known.id, changed_at);
        Ok(())
    }

    /// Takes down that the flags of clusters changed, whose rows are held and whose changes had these places, and tells those
    /// who watch.
    pub(crate) async fn touch_flagged(
        &self,
        held: &[(ClusterId, i64)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        use cluster::Column;
        if held.is_empty() {
            return Ok(());
        }
        let update = self.update::<cluster::Entity>().col_expr(Column::ChangedAt, next_change(now));
        let update = update.filter(Column::Id.is_in(held.iter().map(|(cluster, _)| *cluster)));
        update.exec(&self.writes()).await?;
        for (cluster, place) in held {
            let arrival = Ord::max(now.timestamp_millis(), place + 1);
            let (cluster, after) = (*cluster, *place);
            self.announce(Notice { cluster, changed: Changed::FLAGS, arrival, after, since: None });
        }
        Ok(())
    }

    /// Tells those who watch that something else is said of a cluster, or wanted of it.
    pub(crate) fn announce_decision(&self, cluster: ClusterId, changed_at: i64) {
        let (arrival, after) = (changed_at, changed_at - 1);
        self.announce(Notice { cluster, changed: Changed::DECISIONS, arrival, after, since: None });
    }
}
