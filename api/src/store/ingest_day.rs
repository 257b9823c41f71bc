//! The amount of data that an account stored per day: of all its clusters and performance reports together,
//! and of each cluster.
//!
//! The sums of a cluster say how much becomes free when its data are deleted before the end of their
//! retention.

use std::collections::BTreeMap;

use entity::{
    Timestamp, cluster, cluster_ingest_day,
    data_policy::DataClass,
    ids::ClusterId,
    ingest_day::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, Condition, QueryFilter, QuerySelect, QueryTrait,
    sea_query::{Alias, Expr, ExprTrait, SelectStatement, SubQueryStatement},
};

use super::{
    error::StoreError,
    scoped::AccountStore,
    upsert::{add_to_row, column_name, values},
};
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
        if let Some(cluster_id) = cluster {
            let row = cluster_ingest_day::Model {
                account_id: row.account_id,
                cluster_id,
                day: row.day,
                basic_bytes: row.basic_bytes,
                task_bytes: row.task_bytes,
                error_bytes: row.error_bytes,
                code_bytes: row.code_bytes,
                profile_bytes: row.profile_bytes,
                event_bytes: row.event_bytes,
                log_bytes: row.log_bytes,
                clusters: row.clusters,
            };
            let add = add_to_row::<cluster_ingest_day::Entity>();
            self.insert::<cluster_ingest_day::Entity>(vec![row], &add).await?;
        }
        self.insert::<Entity>(vec![row], &add_to_row::<Entity>()).await?;
        Ok(())
    }

    /// Subtracts a cluster from the sums of its days. It must run in the transaction that deletes the
    /// cluster.
    pub(super) async fn subtract_ingest_of_cluster(&self, cluster: ClusterId) -> Result<(), StoreError> {
        self.subtract(cluster, values::<Entity>().collect()).await?;
        // An account that never had the cluster has no row, either.
        let nothing =
            values::<Entity>().fold(Condition::all(), |nothing, column| nothing.add(column.eq(0_i64)));
        self.delete::<Entity>()
            .filter(Column::Part.eq(part_of(Some(cluster))))
            .filter(Column::Day.in_subquery(self.days_of(cluster)))
            .filter(nothing)
            .exec(&self.write_executor())
            .await?;
        Ok(())
    }

    /// Subtracts the data of a class, of one cluster or of the whole account, from the sums of its days.
    /// Errors of Dask and of computations are counted together: they count until the end of their
    /// retention.
    pub(super) async fn subtract_ingest_of_class(
        &self,
        class: DataClass,
        cluster: Option<ClusterId>,
    ) -> Result<(), StoreError> {
        let Some(column) = column_of(class) else { return Ok(()) };
        let name = Alias::new(column_name(&column));
        let mut of_clusters =
            self.update_with_hidden::<cluster_ingest_day::Entity>().col_expr(name, Expr::val(0_i64));
        if let Some(cluster) = cluster {
            self.subtract(cluster, vec![column]).await?;
            of_clusters = of_clusters.filter(cluster_ingest_day::Column::ClusterId.eq(cluster));
        } else {
            let all = self.update::<Entity>().col_expr(column, Expr::val(0_i64));
            all.exec(&self.write_executor()).await?;
        }
        of_clusters.exec(&self.write_executor()).await?;
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

    async fn subtract(&self, cluster: ClusterId, columns: Vec<Column>) -> Result<(), StoreError> {
        // Reports lock the cluster first, so none adds to either table meanwhile.
        self.select_with_hidden::<cluster::Entity>()
            .select_only()
            .column(cluster::Column::Id)
            .filter(cluster::Column::Id.eq(cluster))
            .lock_exclusive()
            .into_tuple::<ClusterId>()
            .one(&self.write_executor())
            .await?;
        let mut update = self.update::<Entity>();
        for column in columns {
            let mut of_cluster = self.rows_of(cluster);
            of_cluster.column((cluster_ingest_day::Entity, Alias::new(column_name(&column)))).and_where(
                Expr::col((cluster_ingest_day::Entity, cluster_ingest_day::Column::Day))
                    .equals((Entity, Column::Day)),
            );
            let of_cluster = SubQueryStatement::SelectStatement(of_cluster);
            let of_cluster = Expr::SubQuery(None, Box::new(of_cluster));
            update = update.col_expr(column, Expr::col((Entity, column)).sub(of_cluster));
        }
        update
            .filter(Column::Part.eq(part_of(Some(cluster))))
            .filter(Column::Day.in_subquery(self.days_of(cluster)))
            .exec(&self.write_executor())
            .await?;
        Ok(())
    }

    /// Selects the days on which a cluster stored data.
    fn days_of(&self, cluster: ClusterId) -> SelectStatement {
        let mut days = self.rows_of(cluster);
        days.column((cluster_ingest_day::Entity, cluster_ingest_day::Column::Day)).take()
    }

    fn rows_of(&self, cluster: ClusterId) -> SelectStatement {
        self.select_with_hidden::<cluster_ingest_day::Entity>()
            .select_only()
            .filter(cluster_ingest_day::Column::ClusterId.eq(cluster))
            .into_query()
    }
}
