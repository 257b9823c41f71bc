//! Hourly usage of clusters: written by reports, and summed for single clusters.

use std::collections::{BTreeMap, HashMap};

use entity::{
    Row, function_usage_hour,
    ids::ClusterId,
    usage_hour::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, DatabaseBackend, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait, Func, IntoColumnRef},
};

use super::usage_columns::UsageColumns;
use crate::{
    domain::{
        report::{FunctionUsageReport, UsageReport},
        usage::{SATURATED, Usage},
        validated::{HourSeconds, WorkSeconds},
    },
    store::core::{
        composite_in::IsOneOf,
        error::StoreError,
        read_rows::{ReadRows, ReadSelect},
        scoped::AccountStore,
        upsert::keep_newest_row,
    },
};

/// The number of hours of a day.
pub(crate) const DAY_HOURS: i64 = 24;

/// The SQL expression for the day of an hour. It is text, because PostgreSQL treats two bound values as
/// different and would not group by the expression.
pub(crate) const DAY: &str = "hour / 24";

/// Returns the sum of a column as a 64-bit integer, which PostgreSQL would widen. A sum that exceeds the
/// type becomes the largest integer.
pub(crate) fn sum_of(backend: DatabaseBackend, column: impl IntoColumnRef) -> Expr {
    sum_of_values(backend, Expr::col(column))
}

/// The same as [`sum_of`] for an expression.
pub(crate) fn sum_of_values(backend: DatabaseBackend, value: Expr) -> Expr {
    if backend == DatabaseBackend::Postgres {
        let sum = Expr::from(Func::sum(value));
        // LEAST would ignore the NULL sum of no rows and return the bound.
        let bounded = Expr::case(sum.clone().gt(SATURATED), SATURATED).finally(sum);
        return Func::cast_as(bounded, "bigint").into();
    }
    // SQLite refuses a sum that overflows. The sums of the high and low halves do not overflow. Their
    // combination becomes a real number if it exceeds an integer, and the cast turns that into the
    // largest integer.
    let half = |half: Expr| Expr::from(Func::sum(half));
    let high = half(value.clone().div(HALF)).mul(HALF);
    Func::cast_as(high.add(half(value.modulo(HALF))), "bigint").into()
}

/// The factor that splits an integer into halves.
const HALF: i64 = 1 << 32;

/// The number of hours with a clamped value, in a table of this name.
pub(crate) fn cut_hours(table: &str) -> Expr {
    let is_cut = format!("{table}.is_cut OR {table}.reported_compute_us IS NOT NULL");
    Expr::cust(format!("COALESCE(SUM(CASE WHEN {is_cut} THEN 1 ELSE 0 END), 0)"))
}

/// The number of days with a clamped value.
pub(crate) fn cut_days() -> Expr {
    Expr::cust("COALESCE(SUM(CASE WHEN usage_days.is_cut THEN 1 ELSE 0 END), 0)")
}

/// The same as [`cut_days`] for a single row.
pub(crate) fn cut_day() -> Expr {
    Expr::cust("CAST(CASE WHEN usage_days.is_cut THEN 1 ELSE 0 END AS bigint)")
}

impl AccountStore {
    /// Returns the usage of each cluster by day (UTC). Clusters that never reported usage are missing
    /// from the map.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_hour.by_cluster_and_day", skip_all)]
    pub async fn usage_by_cluster_and_day(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, BTreeMap<i64, Usage>>, StoreError> {
        let day = Expr::cust(DAY);
        let mut select = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .expr_as(day.clone(), "day")
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .group_by(day);
        for column in UsageColumns::ALL.names() {
            select = select.expr_as(sum_of(self.backend(), column), column);
        }
        select = select.expr_as(cut_hours("usage_hours"), "cut_rows");
        let mut usage_by_cluster: HashMap<ClusterId, BTreeMap<i64, Usage>> = HashMap::new();
        let decode =
            |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, UsageColumns::ALL.decode(row, &mut (2..))?));
        for (cluster, day, usage) in
            self.read_executor().read_rows(select.build(self.backend()), decode).await?
        {
            usage_by_cluster.entry(cluster).or_default().insert(day, usage);
        }
        Ok(usage_by_cluster)
    }

    /// Returns only the billed part of the same usage, which reads fewer columns.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_hour.paid_by_cluster_and_day", skip_all)]
    pub async fn paid_usage_by_cluster_and_day(
        &self,
        clusters: &[ClusterId],
    ) -> Result<HashMap<ClusterId, BTreeMap<i64, Usage>>, StoreError> {
        let day = Expr::cust(DAY);
        let rows: Vec<(ClusterId, i64, i64, i64, i64)> = self
            .select::<Entity>()
            .select_only()
            .column(Column::ClusterId)
            .expr_as(day.clone(), "day")
            .expr_as(sum_of(self.backend(), Column::ThreadUs), "thread_us")
            .expr_as(sum_of(self.backend(), Column::WorkerUs), "worker_us")
            .expr_as(sum_of(self.backend(), Column::MemoryGibUs), "memory_gib_us")
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .group_by(day)
            .read_tuples(&self.read_executor())
            .await?;
        let mut usage_by_cluster: HashMap<ClusterId, BTreeMap<i64, Usage>> = HashMap::new();
        for (cluster, day, thread_us, worker_us, memory_gib_us) in rows {
            let usage = Usage { thread_us, worker_us, memory_gib_us, ..Usage::default() };
            usage_by_cluster.entry(cluster).or_default().insert(day, usage);
        }
        Ok(usage_by_cluster)
    }

    /// Returns the usage of clusters by hour, from the hour `from` to before `to`, at most `limit` rows
    /// in total.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_hour.hours", skip_all)]
    pub async fn usage_hours(
        &self,
        clusters: &[ClusterId],
        (from, to): (i64, i64),
        limit: u64,
    ) -> Result<Vec<(ClusterId, i64, Usage)>, StoreError> {
        let rows = self
            .select::<Entity>()
            .filter(Column::ClusterId.is_one_of(clusters.iter().copied()))
            .filter(Column::Hour.gte(from))
            .filter(Column::Hour.lt(to))
            .order_by_asc(Column::ClusterId)
            .order_by_asc(Column::Hour)
            .limit(limit)
            .all(&self.read_executor())
            .await?;
        Ok(rows.iter().map(|row| (row.cluster_id, row.hour, row.into())).collect())
    }

    /// Upserts the usage hours of a report. Their days become due for folding again.
    pub(crate) async fn record_usage(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[UsageReport],
    ) -> Result<(), StoreError> {
        // The rows are sorted by hour, since a statement must not contain a row twice and all
        // transactions must lock in the same order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.hour, report)).collect();
        let hours = reports.values().map(|report| self.hour(cluster, sequence, report));
        self.insert::<Entity>(hours.collect(), &keep_newest_row::<Entity>(Column::Sequence)).await?;
        let functions = reports.values().flat_map(|report| {
            let functions: BTreeMap<_, _> =
                report.functions.iter().map(|function| (function.prefix.as_str(), function)).collect();
            functions.into_values().map(|function| self.function(cluster, report, sequence, function))
        });
        let keep_newest =
            keep_newest_row::<function_usage_hour::Entity>(function_usage_hour::Column::Sequence);
        self.insert::<function_usage_hour::Entity>(functions.collect(), &keep_newest).await?;
        Ok(())
    }

    fn hour(&self, cluster: ClusterId, sequence: i64, report: &UsageReport) -> Model {
        let optional_us = |seconds: Option<WorkSeconds>| seconds.map(WorkSeconds::microseconds);
        let thread_us = report.thread_seconds.microseconds();
        let observed_us = report.observed_seconds.map_or(thread_us, HourSeconds::microseconds);
        Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            hour: report.hour.get(),
            sequence,
            folded: false,
            thread_us,
            unobserved_us: Ord::max(thread_us - observed_us, 0),
            worker_us: report.worker_seconds.microseconds(),
            memory_gib_us: report.memory_gib_seconds.microseconds(),
            compute_us: report.compute_seconds.microseconds(),
            reported_compute_us: None,
            transfer_us: report.transfer_seconds.microseconds(),
            cpu_us: optional_us(report.cpu_seconds),
            noncpu_us: optional_us(report.noncpu_seconds),
            serialize_us: optional_us(report.serialize_seconds),
            spill_us: optional_us(report.spill_seconds),
            overhead_us: optional_us(report.overhead_seconds),
            failed_us: optional_us(report.failed_seconds),
            idle_us: report.idle_seconds.map(HourSeconds::microseconds),
            tasks: report.tasks.get(),
            tasks_erred: report.tasks_erred.get(),
            retries: report.retries.get(),
            errors: report.errors.get(),
            bytes: report.bytes.get(),
            spilled_bytes: report.spilled_bytes.get(),
            workers: report.workers.get(),
            is_cut: report.is_cut,
        }
    }

    fn function(
        &self,
        cluster: ClusterId,
        hour: &UsageReport,
        sequence: i64,
        report: &FunctionUsageReport,
    ) -> function_usage_hour::Model {
        function_usage_hour::Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            hour: hour.hour.get(),
            prefix: report.prefix.as_str().to_owned(),
            sequence,
            compute_us: report.compute_seconds.microseconds(),
            reported_compute_us: None,
            transfer_us: report.transfer_seconds.microseconds(),
            tasks: report.tasks.get(),
            tasks_erred: report.tasks_erred.get(),
            bytes: report.bytes.get(),
        }
    }
}
