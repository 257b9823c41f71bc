//! The amount of data that an account accepted and deleted per day, in several kinds of rows. `part` names
//! the kind: sums of what was accepted, the sum of what was deleted before the end of its retention, and what
//! single clusters stored, which is added to the deleted data with them.
//!
//! Reports write only sums and the rows of their clusters, so that no deletion makes them wait for long.

use std::collections::BTreeMap;

use entity::{
    Timestamp, cluster,
    data_policy::DataClass,
    ids::ClusterId,
    ingest_day::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, ModelTrait, QueryFilter, QueryOrder, Select, Value,
    sea_query::{Expr, ExprTrait},
};

use crate::{
    domain::{retention::DAY, section_bytes::SectionBytes},
    store::core::{error::StoreError, scoped::AccountStore, upsert::add_to_row},
};

/// The number of rows that an account's sums of a day are spread over, so that reports of different
/// clusters rarely contend for the same row.
const PARTS: i64 = 4;

/// The part of the row with deleted data.
pub(crate) const DELETED: i64 = -PARTS - 1;

/// The condition of the rows of the account as a whole, as literal text, so that the partial index with this
/// condition is used.
pub(crate) const OF_ACCOUNT: &str = "ingest_days.part < 0";

/// The columns of data with the same retention, each with its data classes. The longest retention of
/// these classes applies.
pub(crate) const SECTIONS: [(Column, &[DataClass]); 7] = [
    (Column::BasicBytes, &[DataClass::Basic]),
    (Column::TaskBytes, &[DataClass::Tasks]),
    (Column::ErrorBytes, &[DataClass::UserErrors, DataClass::DaskErrors]),
    (Column::CodeBytes, &[DataClass::Code]),
    (Column::ProfileBytes, &[DataClass::Profiles]),
    (Column::EventBytes, &[DataClass::Events]),
    (Column::LogBytes, &[DataClass::Logs]),
];

/// The columns of data that are deleted with a cluster. Clusters share code, which is kept.
const OF_CLUSTER: [Column; 6] = [
    Column::BasicBytes,
    Column::TaskBytes,
    Column::ErrorBytes,
    Column::ProfileBytes,
    Column::EventBytes,
    Column::LogBytes,
];

/// Returns the part of the sums that a cluster's data are counted in; that of performance reports for `None`.
fn part_of(cluster: Option<ClusterId>) -> i64 {
    cluster.map_or(0, |cluster| cluster.0.rem_euclid(PARTS)) - PARTS
}

/// Returns the day of a time.
fn day_of(time: Timestamp) -> i64 {
    time.timestamp_millis().div_euclid(DAY)
}

/// Returns the column with the bytes of a data class, if it has the bytes of no other class.
fn column_of(class: DataClass) -> Option<Column> {
    SECTIONS.iter().find(|(_, classes)| **classes == [class]).map(|(column, _)| *column)
}

/// Returns the number in a column of a row.
fn number_in(row: &Model, column: Column) -> i64 {
    match row.get(column) {
        Value::BigInt(value) => value.unwrap_or_default(),
        _ => 0,
    }
}

/// A change of the deleted data.
#[derive(Clone, Copy)]
pub(crate) enum Deletion {
    /// The data of clusters are deleted, or hidden.
    Begins,
    /// The data of clusters are shown again. What was deleted with its class meanwhile stays deleted.
    Ends,
}

impl AccountStore {
    /// Adds to the day's sums of a cluster, or of the account if `cluster` is `None`. It must run in the
    /// transaction that stores the data.
    pub(crate) async fn record_ingest(
        &self,
        cluster: Option<ClusterId>,
        now: Timestamp,
        bytes: SectionBytes,
        clusters: i64,
    ) -> Result<(), StoreError> {
        let sums = Model {
            account_id: self.account_id(),
            day: day_of(now),
            part: part_of(cluster),
            basic_bytes: bytes.basic,
            task_bytes: bytes.tasks,
            error_bytes: bytes.errors,
            code_bytes: bytes.code,
            profile_bytes: bytes.profiles,
            event_bytes: bytes.events,
            log_bytes: bytes.logs,
            clusters,
        };
        let numbers = SECTIONS.iter().map(|(column, _)| *column).chain([Column::Clusters]);
        let cluster_row = cluster.map(|cluster| Model { part: cluster.0, ..sums.clone() });
        let rows = [sums].into_iter().chain(cluster_row).collect();
        self.insert::<Entity>(rows, &add_to_row::<Entity>(numbers)).await?;
        Ok(())
    }

    /// Counts all data of a class as deleted. Errors of Dask and of computations are counted together: they
    /// count until the end of their retention.
    ///
    /// Of earlier days, nothing is left. Rows of their clusters can be many and stay as they are: more
    /// deleted than accepted data of a day count as none.
    pub(crate) async fn delete_ingest_of_class(
        &self,
        class: DataClass,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let Some(column) = column_of(class) else { return Ok(()) };
        // The row that a report just wrote can be of the next day, by the clock of another server.
        let today = day_of(now);
        let reset_column = || self.update::<Entity>().col_expr(column, Expr::val(0_i64));
        let earlier_days = reset_column().filter(Expr::cust(OF_ACCOUNT)).filter(Column::Day.lt(today));
        earlier_days.exec(&self.write_executor()).await?;
        let sums = self.select::<Entity>().filter(Expr::cust(OF_ACCOUNT)).filter(Column::Day.gte(today));
        let mut accepted = BTreeMap::<i64, i64>::new();
        for row in sums.all(&self.write_executor()).await? {
            let value = number_in(&row, column);
            *accepted.entry(row.day).or_default() += if row.part == DELETED { -value } else { value };
        }
        for (day, bytes) in accepted.into_iter().filter(|(_, bytes)| *bytes > 0) {
            self.add_deleted(day, &[(column, bytes)], Deletion::Begins).await?;
        }
        let cluster_rows = reset_column().filter(Column::Day.gte(today)).filter(Column::Part.gte(0));
        cluster_rows.exec(&self.write_executor()).await?;
        Ok(())
    }

    /// Counts the data of a class of a locked cluster as deleted. A cluster that `is_hidden` counts as
    /// deleted already, and is not added again when it is shown again.
    pub(crate) async fn delete_ingest_of_cluster_class(
        &self,
        cluster: &cluster::Model,
        class: DataClass,
        is_hidden: bool,
    ) -> Result<(), StoreError> {
        let Some(column) = column_of(class) else { return Ok(()) };
        for row in self.ingest_of_cluster(cluster).all(&self.write_executor()).await? {
            if !is_hidden {
                let bytes = number_in(&row, column);
                self.add_deleted(row.day, &[(column, bytes)], Deletion::Begins).await?;
            }
            self.update::<Entity>()
                .col_expr(column, Expr::val(0_i64))
                .filter(Column::Day.eq(row.day))
                .filter(Column::Part.eq(row.part))
                .exec(&self.write_executor())
                .await?;
        }
        Ok(())
    }

    /// Counts the data of locked clusters as deleted, or no longer so.
    pub(crate) async fn delete_ingest_of_clusters(
        &self,
        clusters: &[cluster::Model],
        deletion: Deletion,
    ) -> Result<(), StoreError> {
        let mut days = BTreeMap::<i64, [i64; OF_CLUSTER.len()]>::new();
        for cluster in clusters {
            for row in self.ingest_of_cluster(cluster).all(&self.write_executor()).await? {
                let sums = days.entry(row.day).or_default();
                for (sum, column) in sums.iter_mut().zip(OF_CLUSTER) {
                    *sum = sum.saturating_add(number_in(&row, column));
                }
            }
        }
        // In the order of days, so that two deletions cannot deadlock.
        for (day, sums) in days {
            let numbers: Vec<(Column, i64)> = OF_CLUSTER.into_iter().zip(sums).collect();
            self.add_deleted(day, &numbers, deletion).await?;
        }
        Ok(())
    }

    /// Deletes the rows of a cluster.
    pub(crate) async fn remove_ingest_of_cluster(&self, cluster: &cluster::Model) -> Result<(), StoreError> {
        let (first, last) = days_of(cluster);
        let rows = self.delete::<Entity>().filter(Column::Part.eq(cluster.id.0));
        rows.filter(Column::Day.between(first, last)).exec(&self.write_executor()).await?;
        Ok(())
    }

    /// Selects the rows of a cluster, the first day first.
    fn ingest_of_cluster(&self, cluster: &cluster::Model) -> Select<Entity> {
        // Other days are left out, because the primary key begins with the day.
        let (first, last) = days_of(cluster);
        self.select::<Entity>()
            .filter(Column::Day.between(first, last))
            .filter(Column::Part.eq(cluster.id.0))
            .order_by_asc(Column::Day)
    }

    /// Changes the row with the deleted data of a day.
    async fn add_deleted(
        &self,
        day: i64,
        numbers: &[(Column, i64)],
        deletion: Deletion,
    ) -> Result<(), StoreError> {
        let mut row = Model {
            account_id: self.account_id(),
            day,
            part: DELETED,
            basic_bytes: 0,
            task_bytes: 0,
            error_bytes: 0,
            code_bytes: 0,
            profile_bytes: 0,
            event_bytes: 0,
            log_bytes: 0,
            clusters: 0,
        };
        for (column, value) in numbers {
            row.set(*column, (*value).into());
        }
        match deletion {
            Deletion::Begins => {
                let columns = numbers.iter().map(|(column, _)| *column);
                self.insert::<Entity>(vec![row], &add_to_row::<Entity>(columns)).await?;
            }
            Deletion::Ends => {
                let update = numbers.iter().fold(self.update::<Entity>(), |update, (column, value)| {
                    let stored_value = || Expr::col(*column);
                    let remainder =
                        Expr::case(stored_value().gt(*value), stored_value().sub(*value)).finally(0_i64);
                    update.col_expr(*column, remainder.into())
                });
                let update = update.filter(Column::Day.eq(day)).filter(Column::Part.eq(DELETED));
                update.exec(&self.write_executor()).await?;
            }
        }
        Ok(())
    }

    /// Counts deleted performance reports, each with the time at which it was stored and its size in bytes,
    /// as deleted on the days on which they were stored.
    pub(crate) async fn delete_ingest_of_performance_reports(
        &self,
        reports: &[(Timestamp, i64)],
    ) -> Result<(), StoreError> {
        let mut days = BTreeMap::<i64, i64>::new();
        for (stored_at, bytes) in reports {
            *days.entry(day_of(*stored_at)).or_default() += bytes;
        }
        for (day, bytes) in days {
            self.add_deleted(day, &[(Column::ProfileBytes, bytes)], Deletion::Begins).await?;
        }
        Ok(())
    }
}

/// Returns the first and the last day on which data of a cluster can be counted. Clocks of servers differ,
/// and a report can be counted after midnight.
fn days_of(cluster: &cluster::Model) -> (i64, i64) {
    (day_of(cluster.first_seen_at).saturating_sub(1), day_of(cluster.last_seen_at).saturating_add(1))
}
