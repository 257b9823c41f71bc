//! The amount of data that an account stored per day.

use std::collections::BTreeMap;

use entity::{
    Timestamp,
    data_policy::DataClass,
    ids::ClusterId,
    ingest_day::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, QueryFilter,
    sea_query::{Alias, Expr, ExprTrait, OnConflict},
};

use super::{error::StoreError, scoped::AccountStore};
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

/// Returns the part that a cluster's data are counted in; that of performance reports for `None`.
fn part_of(cluster: Option<ClusterId>) -> i64 {
    cluster.map_or(0, |cluster| cluster.0.rem_euclid(PARTS))
}

/// Returns the day of a time.
fn day_of(time: Timestamp) -> i64 {
    time.timestamp_millis().div_euclid(DAY)
}

/// Returns the column with the bytes of a data class, if it has the bytes of no other class.
fn column_of(class: DataClass) -> Option<Column> {
    SECTIONS.iter().find(|(_, classes)| **classes == [class]).map(|(column, _)| *column)
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
        let row = Model {
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
        let columns = SECTIONS.iter().map(|(column, _)| *column).chain([Column::Clusters]);
        let keys = [Column::AccountId, Column::Day, Column::Part];
        let add = OnConflict::columns(keys).values(columns.map(sum)).to_owned();
        self.insert::<Entity>(vec![row], &add).await?;
        Ok(())
    }

    /// Removes the data of a class from the account's sums. Errors of Dask and of computations are
    /// counted together: they count until the end of their retention.
    pub(super) async fn subtract_ingest_of_class(&self, class: DataClass) -> Result<(), StoreError> {
        let Some(column) = column_of(class) else { return Ok(()) };
        let nothing = self.update::<Entity>().col_expr(column, Expr::val(0_i64));
        nothing.exec(&self.write_executor()).await?;
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
