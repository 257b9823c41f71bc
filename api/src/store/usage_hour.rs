//! What clusters used, by the hour: written with reports, and summed for single clusters.

use std::collections::{BTreeMap, HashMap};

use entity::{
    cluster, function_usage_hour,
    ids::ClusterId,
    usage_hour::{Column, Entity, Model},
};
use sea_orm::{
    ColumnTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    sea_query::{Expr, Func, IntoColumnRef},
};

use super::{cluster_filter::ClusterFilter, error::StoreError, scoped::AccountStore, upsert::newest_wins};
use crate::domain::{
    bounded::Seconds,
    report::{FunctionUsageReport, UsageReport},
    usage::Usage,
};

/// Hours of a day.
pub(super) const DAY_HOURS: i64 = 24;

/// The day of an hour. As text, because PostgreSQL takes two bound values for different ones and would not group by it.
pub(super) const DAY: &str = "hour / 24";

/// The columns of what was used, which hours and days share.
pub(super) const SUMS: [&str; 19] = [
    "thread_us",
    "worker_us",
    "memory_gib_us",
    "compute_us",
    "transfer_us",
    "cpu_us",
    "noncpu_us",
    "serialize_us",
    "spill_us",
    "overhead_us",
    "failed_us",
    "idle_us",
    "tasks",
    "tasks_erred",
    "retries",
    "errors",
    "bytes",
    "spilled_bytes",
    "workers",
];

/// From a row that has these columns.
macro_rules! usage_of {
    ($row:expr) => {{
        let row = $row;
        Usage {
            thread_us: row.thread_us,
            worker_us: row.worker_us,
            memory_gib_us: row.memory_gib_us,
            compute_us: row.compute_us,
            transfer_us: row.transfer_us,
            cpu_us: row.cpu_us,
            noncpu_us: row.noncpu_us,
            serialize_us: row.serialize_us,
            spill_us: row.spill_us,
            overhead_us: row.overhead_us,
            failed_us: row.failed_us,
            idle_us: row.idle_us,
            tasks: row.tasks,
            tasks_erred: row.tasks_erred,
            retries: row.retries,
            errors: row.errors,
            bytes: row.bytes,
            spilled_bytes: row.spilled_bytes,
            workers: row.workers,
        }
    }};
}

/// The columns as a statement sums them.
#[derive(Debug, FromQueryResult)]
pub(super) struct Sums {
    thread_us: i64,
    worker_us: i64,
    memory_gib_us: i64,
    compute_us: i64,
    transfer_us: i64,
    cpu_us: Option<i64>,
    noncpu_us: Option<i64>,
    serialize_us: Option<i64>,
    spill_us: Option<i64>,
    overhead_us: Option<i64>,
    failed_us: Option<i64>,
    idle_us: Option<i64>,
    tasks: i64,
    tasks_erred: i64,
    retries: i64,
    errors: i64,
    bytes: i64,
    spilled_bytes: i64,
    workers: i64,
}

impl From<Sums> for Usage {
    fn from(sums: Sums) -> Self {
        usage_of!(sums)
    }
}

/// The sum of a column, as the integer it is: PostgreSQL would widen it.
pub(super) fn sum_of(column: impl IntoColumnRef) -> Expr {
    Func::cast_as(Func::sum(Expr::col(column)), "bigint").into()
}

#[derive(Debug, FromQueryResult)]
struct ClusterDay {
    cluster_id: ClusterId,
    day: i64,
    #[sea_orm(nested)]
    sums: Sums,
}

#[derive(Debug, FromQueryResult)]
struct Day {
    day: i64,
    #[sea_orm(nested)]
    sums: Sums,
}

/// Clusters whose hours are summed at once, at the most: an hour of each is a row.
const MAX_CLUSTERS: u64 = 10_000;

impl AccountStore {
    /// What the clusters that a filter passes used together, by day (UTC).
    ///
    /// # Errors
    /// When the database does not answer, and [`StoreError::TooMuch`] when they are very many.
    #[tracing::instrument(name = "store.usage_hour.by_day", skip_all)]
    pub async fn usage_by_day(&self, filter: &ClusterFilter) -> Result<BTreeMap<i64, Usage>, StoreError> {
        let passing = self.filtered_clusters(filter).select_only().column(cluster::Column::Id);
        if self.count_to(passing.clone(), MAX_CLUSTERS + 1).await? > MAX_CLUSTERS {
            return Err(StoreError::TooMuch(
                "the usage of more than 10,000 clusters is too much for one answer: narrow 'filter'",
            ));
        }
        let day = Expr::cust(DAY);
        let mut select = self
            .select::<Entity>()
            .select_only()
            .expr_as(day.clone(), "day")
            .filter(Column::ClusterId.in_subquery(passing.into_query()))
            .group_by(day);
        for column in SUMS {
            select = select.expr_as(sum_of(column), column);
        }
        let days: Vec<Day> = select.into_model().all(&self.reads()).await?;
        Ok(days.into_iter().map(|row| (row.day, row.sums.into())).collect())
    }

    /// What each cluster used, by day (UTC); clusters that never told are missing.
    ///
    /// # Errors
    /// When the database does not answer.
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
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .group_by(day);
        for column in SUMS {
            select = select.expr_as(sum_of(column), column);
        }
        let rows: Vec<ClusterDay> = select.into_model().all(&self.reads()).await?;
        let mut found: HashMap<ClusterId, BTreeMap<i64, Usage>> = HashMap::new();
        for row in rows {
            found.entry(row.cluster_id).or_default().insert(row.day, row.sums.into());
        }
        Ok(found)
    }

    /// The same as far as it is paid for, which is less to read.
    ///
    /// # Errors
    /// When the database does not answer.
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
            .expr_as(sum_of(Column::ThreadUs), "thread_us")
            .expr_as(sum_of(Column::WorkerUs), "worker_us")
            .expr_as(sum_of(Column::MemoryGibUs), "memory_gib_us")
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .group_by(Column::ClusterId)
            .group_by(day)
            .into_tuple()
            .all(&self.reads())
            .await?;
        let mut found: HashMap<ClusterId, BTreeMap<i64, Usage>> = HashMap::new();
        for (cluster, day, thread_us, worker_us, memory_gib_us) in rows {
            let usage = Usage { thread_us, worker_us, memory_gib_us, ..Usage::default() };
            found.entry(cluster).or_default().insert(day, usage);
        }
        Ok(found)
    }

    /// What clusters used in the hours from `from` to before `to`, at most `limit` hours in all.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.usage_hour.hours", skip_all)]
    pub async fn usage_hours(
        &self,
        clusters: &[ClusterId],
        (from, to): (i64, i64),
        limit: u64,
    ) -> Result<Vec<(ClusterId, i64, Usage)>, StoreError> {
        let rows = self
            .select::<Entity>()
            .filter(Column::ClusterId.is_in(clusters.iter().copied()))
            .filter(Column::Hour.gte(from))
            .filter(Column::Hour.lt(to))
            .order_by_asc(Column::ClusterId)
            .order_by_asc(Column::Hour)
            .limit(limit)
            .all(&self.reads())
            .await?;
        Ok(rows.into_iter().map(|row| (row.cluster_id, row.hour, usage_of!(&row))).collect())
    }

    /// Writes what a report says of hours. The days they belong to are due again.
    pub(crate) async fn record_usage(
        &self,
        cluster: ClusterId,
        sequence: i64,
        reports: &[UsageReport],
    ) -> Result<(), StoreError> {
        // By hour: a statement must not meet a row twice, and transactions must lock in one order.
        let reports: BTreeMap<_, _> = reports.iter().map(|report| (report.hour, report)).collect();
        let hours = reports.values().map(|report| self.hour(cluster, sequence, report));
        self.insert::<Entity>(hours.collect(), &newest_wins::<Entity>(Column::Sequence)).await?;
        let functions = reports.values().flat_map(|report| {
            let functions: BTreeMap<_, _> =
                report.functions.iter().map(|function| (function.prefix.as_str(), function)).collect();
            functions.into_values().map(|function| self.function(cluster, report, sequence, function))
        });
        let keep_newest = newest_wins::<function_usage_hour::Entity>(function_usage_hour::Column::Sequence);
        self.insert::<function_usage_hour::Entity>(functions.collect(), &keep_newest).await?;
        Ok(())
    }

    fn hour(&self, cluster: ClusterId, sequence: i64, report: &UsageReport) -> Model {
        let some = |seconds: Option<Seconds>| seconds.map(Seconds::microseconds);
        Model {
            account_id: self.account_id(),
            cluster_id: cluster,
            hour: report.hour.get(),
            sequence,
            folded: false,
            thread_us: report.thread_seconds.microseconds(),
            worker_us: report.worker_seconds.microseconds(),
            memory_gib_us: report.memory_gib_seconds.microseconds(),
            compute_us: report.compute_seconds.microseconds(),
            transfer_us: report.transfer_seconds.microseconds(),
            cpu_us: some(report.cpu_seconds),
            noncpu_us: some(report.noncpu_seconds),
            serialize_us: some(report.serialize_seconds),
            spill_us: some(report.spill_seconds),
            overhead_us: some(report.overhead_seconds),
            failed_us: some(report.failed_seconds),
            idle_us: some(report.idle_seconds),
            tasks: report.tasks.get(),
            tasks_erred: report.tasks_erred.get(),
            retries: report.retries.get(),
            errors: report.errors.get(),
            bytes: report.bytes.get(),
            spilled_bytes: report.spilled_bytes.get(),
            workers: report.workers.get(),
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
            transfer_us: report.transfer_seconds.microseconds(),
            tasks: report.tasks.get(),
            tasks_erred: report.tasks_erred.get(),
            bytes: report.bytes.get(),
        }
    }
}
