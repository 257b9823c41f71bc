//! The changes of an account's clusters, alerts and error groups, in the order of their arrival.
//!
//! Every change of a cluster has a change number, `clusters.changed_at`, which grows with each change. The
//! changes of a cluster are committed one after the other, because each locks the cluster's row. Rows that
//! a change adds carry its change number. No index has it: they are looked up in their cluster, from the
//! earliest time that they can have.
//!
//! Alerts and error groups belong to no single cluster, so each of these rows has change numbers of its
//! own, in `changed_at`. The changes of a row are committed one after the other, because each locks the row.
//! They are few, and an index finds the latest ones.

use entity::{AccountOwned, Timestamp, alert, cluster, error_group, ids::ClusterId};
use sea_orm::{
    ColumnTrait, Condition, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait},
};
use uuid::Uuid;

use super::{
    composite_in::IsOneOf,
    error::StoreError,
    multi_list,
    page::{End, PageRequest, Sort},
    scoped::AccountStore,
};
use crate::{
    bus::{ChangeKinds, Notice},
    domain::stream_cursor::{PartialArrival, Position, SETTLED_AFTER_MS},
};

/// The age in milliseconds from which on the cluster's row records that a change added something older than
/// itself.
pub(crate) const LATE_AFTER_MS: i64 = 600_000;

/// The time in milliseconds since a cluster's end after which it is not looked for when a subscriber
/// starts. No scheduler's clock is that wrong.
const LONG_AGO_MS: i64 = 86_400_000;

/// A cluster that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub struct ChangedCluster {
    /// The cluster.
    pub id: ClusterId,
    /// The change number of its last change.
    pub changed_at: i64,
    /// The change number of the last change that added something much older than itself.
    pub late_at: i64,
}

impl ChangedCluster {
    /// Returns the earliest time of the rows that arrived after `after`. `None` if they can have any time.
    #[must_use]
    pub fn since(self, after: i64) -> Option<i64> {
        (self.late_at <= after).then_some(after - LATE_AFTER_MS)
    }
}

/// A table of the account whose rows have change numbers of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountTable {
    /// Alerts.
    Alerts,
    /// Error groups.
    ErrorGroups,
}

/// A row of the account that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromQueryResult)]
pub struct ChangedRow {
    /// The identifier of the row.
    pub id: Uuid,
    /// The change number of its last change.
    pub changed_at: i64,
}

/// A range of a cluster's changes whose rows are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingChanges {
    /// The cluster.
    pub cluster: ClusterId,
    /// The change number after which the range begins.
    pub after: i64,
    /// The last change number of the range.
    pub until: i64,
    /// The earliest time of the rows. `None` for no limit.
    pub since: Option<i64>,
    /// The row after which reading continues. `None` to start with the range.
    pub part: Option<PartialArrival>,
}

/// Returns the change number of a change that is made now, as an expression over the existing row, whose
/// last change number is in `column`.
pub(crate) fn next_change<C: ColumnTrait>(column: C, now: Timestamp) -> Expr {
    let (now, changed_at) = (now.timestamp_millis(), || Expr::col(column.as_column_ref()));
    Expr::case(changed_at().gte(now), changed_at().add(1)).finally(now).into()
}

/// Returns the condition for the rows of a range of changes. The columns are those of the change number,
/// the cluster, the time and the identifier.
fn arrival_condition<C: ColumnTrait>(
    changes: &PendingChanges,
    (arrived_at, cluster, at, id): (C, C, C, C),
) -> Condition {
    let condition = Condition::all().add(cluster.eq(changes.cluster)).add(arrived_at.lte(changes.until));
    let condition = match changes.part {
        Some(part) => {
            let row = [arrived_at, at, id].map(|column| Expr::col(column.as_column_ref()));
            let position = [Expr::val(part.arrival), Expr::val(part.at), Expr::val(part.id)];
            condition.add(Expr::tuple(row).gt(Expr::tuple(position)))
        }
        None => condition.add(arrived_at.gt(changes.after)),
    };
    condition.add_option(changes.since.map(|since| at.gte(since)))
}

/// A column of the table that a sort order belongs to.
type Column<S> = <<S as Sort>::Entity as EntityTrait>::Column;

impl AccountStore {
    /// Returns the clusters that changed after a change number, at most `limit`. Without `among` it leaves
    /// out clusters that ended long ago.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
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
            Some(ids) => select.filter(Column::Id.is_one_of(ids.iter().copied())),
            None => select.filter(Column::EndedKey.gte(after.saturating_sub(LONG_AGO_MS))),
        };
        let select = select.select_only().columns([Column::Id, Column::ChangedAt, Column::LateAt]);
        Ok(select.limit(limit).into_model().all(&self.read_executor()).await?)
    }

    /// Returns the position of a subscriber that starts at `now`: after all changes that are committed.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn start_position(
        &self,
        now: Timestamp,
        among: Option<&[ClusterId]>,
        limit: u64,
    ) -> Result<Position, StoreError> {
        let mut position = Position::at(now.timestamp_millis() - SETTLED_AFTER_MS);
        for cluster in self.changed_clusters(position.floor(), among, limit).await? {
            position.mark_read(cluster.id, cluster.changed_at);
        }
        Ok(position)
    }

    /// Returns the rows of a table of the account that changed after a change number, at most `limit`, in the
    /// order of their changes.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.arrival.changed_rows", skip_all)]
    pub async fn changed_rows(
        &self,
        table: AccountTable,
        after: i64,
        limit: u64,
    ) -> Result<Vec<ChangedRow>, StoreError> {
        match table {
            AccountTable::Alerts => {
                use alert::Column::{ChangedAt, Id};
                self.fetch_changed::<alert::Entity>((Id, ChangedAt), after, limit).await
            }
            AccountTable::ErrorGroups => {
                use error_group::Column::{ChangedAt, Id};
                self.fetch_changed::<error_group::Entity>((Id, ChangedAt), after, limit).await
            }
        }
    }

    async fn fetch_changed<E: AccountOwned>(
        &self,
        (id, changed_at): (E::Column, E::Column),
        after: i64,
        limit: u64,
    ) -> Result<Vec<ChangedRow>, StoreError> {
        let select = self.select::<E>().filter(changed_at.gt(after)).order_by_asc(changed_at);
        let select = select.select_only().columns([id, changed_at]).limit(limit);
        Ok(select.into_model().all(&self.read_executor()).await?)
    }

    /// Returns the position of a subscriber to a table of the account that starts at `now`: after all changes
    /// that are committed.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    pub async fn start_row_position(
        &self,
        now: Timestamp,
        table: AccountTable,
        limit: u64,
    ) -> Result<Position, StoreError> {
        let mut position = Position::at(now.timestamp_millis() - SETTLED_AFTER_MS);
        for row in self.changed_rows(table, position.floor(), limit).await? {
            position.mark_read(row.id, row.changed_at);
        }
        Ok(position)
    }

    /// Returns the rows of some ranges of changes that pass a condition, in the order of their arrival.
    /// Each cluster is read separately, as a range of the table's primary key.
    pub(crate) async fn fetch_in_arrival_order<S: Sort>(
        &self,
        arrivals: &[PendingChanges],
        columns: (Column<S>, Column<S>, Column<S>, Column<S>),
        condition: Condition,
        sort: S,
        limit: u64,
    ) -> Result<Vec<<S::Entity as EntityTrait>::Model>, StoreError>
    where
        S::Entity: AccountOwned,
    {
        let select_rows = |changes: &PendingChanges| {
            self.select::<S::Entity>().filter(arrival_condition(changes, columns)).filter(condition.clone())
        };
        let request = PageRequest::from(End::First, limit);
        let pages = multi_list::fetch_pages(
            &self.read_executor(),
            arrivals.iter().map(select_rows).collect(),
            sort,
            &request,
        )
        .await?;
        let mut rows: Vec<_> = pages.into_iter().flat_map(|page| page.rows).collect();
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// Records a change to user data on a cluster that is stored outside the cluster's row, and notifies
    /// subscribers. The transaction must hold the lock on the row.
    pub(crate) async fn record_cluster_change(
        &self,
        row: &cluster::Model,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        use cluster::Column;
        let changed_at = Ord::max(now.timestamp_millis(), row.changed_at + 1);
        let update = self.update::<cluster::Entity>().filter(Column::Id.eq(row.id));
        update.col_expr(Column::ChangedAt, Expr::val(changed_at)).exec(&self.write_executor()).await?;
        self.publish_decision(row.id, changed_at);
        Ok(())
    }

    /// Records a change to the flags of clusters, and notifies subscribers. `locked` are the clusters whose
    /// rows the transaction has locked, with their change numbers.
    pub(crate) async fn record_flag_changes(
        &self,
        locked: &[(ClusterId, i64)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        use cluster::Column;
        if locked.is_empty() {
            return Ok(());
        }
        let changed_at = next_change(Column::ChangedAt, now);
        let update = self.update::<cluster::Entity>().col_expr(Column::ChangedAt, changed_at);
        let update = update.filter(Column::Id.is_one_of(locked.iter().map(|(cluster, _)| *cluster)));
        update.exec(&self.write_executor()).await?;
        for (cluster, change_number) in locked {
            let arrival = Ord::max(now.timestamp_millis(), change_number + 1);
            let (cluster, after) = (*cluster, *change_number);
            self.announce(Notice {
                cluster,
                changed: ChangeKinds::FLAGS,
                arrival,
                previous_arrival: after,
                oldest_item_ms: None,
            });
        }
        Ok(())
    }

    /// Notifies subscribers that user data on a cluster or its desired state changed.
    pub(crate) fn publish_decision(&self, cluster: ClusterId, changed_at: i64) {
        let (arrival, after) = (changed_at, changed_at - 1);
        self.announce(Notice {
            cluster,
            changed: ChangeKinds::ANNOTATIONS,
            arrival,
            previous_arrival: after,
            oldest_item_ms: None,
        });
    }
}
