//! The amount of data that an account stored per day: sums, and the part of each cluster in them, which is
//! subtracted when the cluster is deleted.

use std::collections::BTreeMap;

use entity::{
    Timestamp, cluster, cluster_removal,
    data_policy::DataClass,
    ids::ClusterId,
    ingest_day::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, ModelTrait, QueryFilter, QuerySelect, QueryTrait, Value,
    sea_query::{Alias, Expr, ExprTrait, OnConflict},
};

use super::{composite_in::IsOneOf, error::StoreError, scoped::AccountStore};
use crate::domain::{retention::DAY, section_bytes::SectionBytes};

/// The number of rows that an account's sums of a day are spread over, so that reports of different
/// clusters rarely contend for the same row.
const PARTS: i64 = 4;

/// The columns of data with the same retention, each with its data classes. The longest retention of
/// these classes applies.
pub(super) const SECTIONS: [(Column, &[DataClass]); 7] = [
    (Column::BasicBytes, &[DataClass::Basic]),
    (Column::TaskBytes, &[DataClass::Tasks]),
    (Column::ErrorBytes, &[DataClass::UserErrors, DataClass::DaskErrors]),
    (Column::CodeBytes, &[DataClass::Code]),
    (Column::ProfileBytes, &[DataClass::Profiles]),
    (Column::EventBytes, &[DataClass::Events]),
    (Column::LogBytes, &[DataClass::Logs]),
];

/// The condition of the rows that are sums, as literal text, so that the partial index with this condition is
/// used.
pub(super) const IS_SUM: &str = "ingest_days.part < 0";

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

/// The number of the columns with numbers.
const NUMBERS: usize = SECTIONS.len() + 1;

/// Returns the columns with numbers.
fn columns() -> impl Iterator<Item = Column> {
    SECTIONS.iter().map(|(column, _)| *column).chain([Column::Clusters])
}

/// Returns the value of a column with numbers.
fn value_of(row: &Model, column: Column) -> i64 {
    match row.get(column) {
        Value::BigInt(value) => value.unwrap_or_default(),
        _ => 0,
    }
}

/// The change of sums by the data of a cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The data are stored again.
    Add,
    /// The data are deleted. A sum stays at 0 if the same data were subtracted with their class before.
    Subtract,
}

impl Change {
    fn of(self, column: Column, value: i64) -> Expr {
        let there = || Expr::col(column);
        match self {
            Self::Add => there().add(value),
            Self::Subtract => Expr::case(there().gt(value), there().sub(value)).finally(0_i64).into(),
        }
    }
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
        let sum = |column: Column| {
            let there = Expr::col((Entity, column));
            (column, there.add(Expr::col((Alias::new("excluded"), column))))
        };
        let keys = [Column::AccountId, Column::Day, Column::Part];
        let add = OnConflict::columns(keys).values(columns().map(sum)).to_owned();
        let of_cluster = cluster.map(|cluster| Model { part: cluster.0, ..sums.clone() });
        let rows = [sums].into_iter().chain(of_cluster).collect();
        self.insert::<Entity>(rows, &add).await?;
        Ok(())
    }

    /// Removes the data of a class from the account's sums. Errors of Dask and of computations are
    /// counted together: they count until the end of their retention.
    ///
    /// Rows of clusters can be many. Those of earlier days stay: nothing is added to the sums of these days any more,
    /// so that subtracting such a row changes nothing. Those of quarantined clusters may be added again.
    pub(super) async fn subtract_ingest_of_class(
        &self,
        class: DataClass,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let Some(column) = column_of(class) else { return Ok(()) };
        let quarantined = self
            .select::<cluster_removal::Entity>()
            .select_only()
            .column(cluster_removal::Column::ClusterId)
            .filter(cluster_removal::Column::State.eq(cluster_removal::State::Quarantined))
            .into_query();
        let concerned = Condition::any()
            .add(Expr::cust(IS_SUM))
            .add(Column::Day.gte(day_of(now)))
            .add(Column::Part.in_subquery(quarantined));
        let nothing = self.update::<Entity>().col_expr(column, Expr::val(0_i64)).filter(concerned);
        nothing.exec(&self.write_executor()).await?;
        Ok(())
    }

    /// Removes the data of a class of one cluster from the account's sums.
    pub(super) async fn subtract_ingest_of_cluster_class(
        &self,
        cluster: ClusterId,
        class: DataClass,
    ) -> Result<(), StoreError> {
        let Some(column) = column_of(class) else { return Ok(()) };
        let rows = self.select::<Entity>().filter(Column::Part.eq(cluster.0));
        for row in rows.all(&self.write_executor()).await? {
            let less = Change::Subtract.of(column, value_of(&row, column));
            for (part, value) in [(part_of(Some(cluster)), less), (cluster.0, Expr::val(0_i64))] {
                self.update::<Entity>()
                    .col_expr(column, value)
                    .filter(Column::Day.eq(row.day))
                    .filter(Column::Part.eq(part))
                    .exec(&self.write_executor())
                    .await?;
            }
        }
        Ok(())
    }

    /// Adds the data of clusters, which are shown again, to the account's sums, or subtracts those of clusters that
    /// are hidden. The number of new clusters counts like data. A transaction does it last, as one that stores a
    /// report does, because all reports of the account update these rows.
    pub(super) async fn change_ingest_of_clusters(
        &self,
        clusters: &[cluster::Model],
        change: Change,
    ) -> Result<(), StoreError> {
        let Some(first) = clusters.iter().map(|cluster| day_of(cluster.first_seen_at)).min() else {
            return Ok(());
        };
        // The days before are left out, because the primary key begins with the day.
        let rows = self
            .select::<Entity>()
            .filter(Column::Day.gte(first))
            .filter(Column::Part.is_one_of(clusters.iter().map(|cluster| cluster.id.0)));
        let mut sums = BTreeMap::<(i64, i64), [i64; NUMBERS]>::new();
        for row in rows.all(&self.write_executor()).await? {
            let sum = sums.entry((row.day, part_of(Some(ClusterId(row.part))))).or_default();
            for (sum, column) in sum.iter_mut().zip(columns()) {
                *sum = sum.saturating_add(value_of(&row, column));
            }
        }
        for ((day, part), values) in sums {
            let update = columns().zip(values).fold(self.update::<Entity>(), |update, (column, value)| {
                update.col_expr(column, change.of(column, value))
            });
            let update = update.filter(Column::Day.eq(day)).filter(Column::Part.eq(part));
            update.exec(&self.write_executor()).await?;
        }
        Ok(())
    }

    /// Deletes the rows of a cluster.
    pub(super) async fn remove_ingest_of_cluster(&self, cluster: ClusterId) -> Result<(), StoreError> {
        let rows = self.delete::<Entity>().filter(Column::Part.eq(cluster.0));
        rows.exec(&self.write_executor()).await?;
        Ok(())
    }

    /// Subtracts deleted performance reports, each with the time at which it was stored and its size in
    /// bytes, from the sums of their days.
    pub(super) async fn subtract_ingest_of_performance_reports(
        &self,
        reports: &[(Timestamp, i64)],
    ) -> Result<(), StoreError> {
        let mut days = BTreeMap::<i64, i64>::new();
        for (stored_at, bytes) in reports {
            *days.entry(day_of(*stored_at)).or_default() += bytes;
        }
        for (day, bytes) in days {
            self.update::<Entity>()
                .col_expr(Column::ProfileBytes, Expr::col(Column::ProfileBytes).sub(bytes))
                .filter(Column::Day.eq(day))
                .filter(Column::Part.eq(part_of(None)))
                .exec(&self.write_executor())
                .await?;
        }
        Ok(())
    }
}
