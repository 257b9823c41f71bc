//! The resources that functions used, of clusters by the hour and of the account by the day, and the paid
//! resources behind them.

use std::collections::HashMap;

use entity::{AccountOwned, function_usage_day, function_usage_hour, ids::ClusterId};
use sea_orm::{
    ColumnTrait, ConnectionTrait, FromQueryResult, JoinType, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, QueryTrait, Select,
    sea_query::{Expr, ExprTrait, Func, Order, Query, SelectStatement},
};

use super::{
    usage_filter::{UsageClusters, hours_in},
    usage_hour::{DAY_HOURS, sum_of},
};
use crate::store::{
    clusters::cross_cluster::lies_in,
    core::{
        composite_in::{IsOneOf, expression_is_one_of},
        error::StoreError,
        page,
        scoped::AccountStore,
    },
};

/// The columns with sums of a function's usage, which the tables of hours and days share.
pub(crate) const FUNCTION_SUMS: [&str; 5] = ["compute_us", "transfer_us", "tasks", "tasks_erred", "bytes"];

/// The number of rows that a search for functions examines: days of users and functions, the newest first.
const ROWS_PER_NAME: u64 = 50_000;

/// A range from an hour to before an hour, in hours since 1970. `None` leaves an end open.
pub type HourRange = (Option<i64>, Option<i64>);

/// The resources that the tasks of one function used in some time.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct FunctionUsage {
    /// The function or operation.
    pub prefix: String,
    /// The time spent computing tasks that succeeded, in microseconds.
    pub compute_us: i64,
    /// The time spent fetching inputs, in microseconds.
    pub transfer_us: i64,
    /// The number of times that a task's result came to be in memory.
    pub tasks: i64,
    /// The number of tasks that erred themselves.
    pub tasks_erred: i64,
    /// The size of results, in bytes.
    pub bytes: i64,
}

impl FunctionUsage {
    /// Returns the sums of both usages.
    #[must_use]
    pub fn add_usage(self, other: &Self) -> Self {
        Self {
            prefix: self.prefix,
            compute_us: self.compute_us.saturating_add(other.compute_us),
            transfer_us: self.transfer_us.saturating_add(other.transfer_us),
            tasks: self.tasks.saturating_add(other.tasks),
            tasks_erred: self.tasks_erred.saturating_add(other.tasks_erred),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// The paid resources while a function computed, at one rate: its own thread time, and the same share of
/// memory and workers as its share of the thread time.
#[derive(Clone, Debug, PartialEq, FromQueryResult)]
pub struct PaidResources {
    /// The function or operation.
    pub prefix: String,
    /// The first day of the rate. `None` if the account has no rate for that time.
    pub rate_from: Option<i64>,
    /// The thread time, in microseconds.
    pub thread_us: f64,
    /// The memory limits in GiB, times microseconds.
    pub memory_gib_us: f64,
    /// The workers, times microseconds.
    pub worker_us: f64,
}

/// Returns a sum that may exceed an integer.
fn real_sum(value: Expr) -> Expr {
    Func::sum(Func::cast_as(value, "double precision")).into()
}

impl AccountStore {
    /// Returns the usage of the functions of selected clusters in a range of days, the last one exclusive,
    /// the most compute time first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.of_days", skip_all)]
    pub async fn function_usage(
        &self,
        days: (i64, i64),
        clusters: &UsageClusters,
        limit: u64,
    ) -> Result<Vec<FunctionUsage>, StoreError> {
        if let Some(filter) = clusters.filter_of_hours() {
            use function_usage_hour::{Column, Entity};
            let hours = self
                .select::<Entity>()
                .filter(hours_in(Expr::col(Column::Hour), days))
                .filter(Column::ClusterId.in_subquery(self.passing_ids(filter, days)));
            return self.top_functions(hours, limit).await;
        }
        use function_usage_day::{Column, Entity};
        let mut select =
            self.select::<Entity>().filter(Column::Day.gte(days.0)).filter(Column::Day.lt(days.1));
        if let Some(users) = clusters.users() {
            select = select.filter(Column::UserId.is_one_of(users.iter().copied()));
        }
        self.top_functions(select, limit).await
    }

    /// Returns the sums by function of the rows of a statement, the most compute time first.
    async fn top_functions<E: AccountOwned>(
        &self,
        rows: Select<E>,
        limit: u64,
    ) -> Result<Vec<FunctionUsage>, StoreError> {
        let prefix = || Expr::col("prefix");
        let mut select = rows
            .select_only()
            .expr_as(prefix(), "prefix")
            .group_by(prefix())
            .order_by_desc(real_sum(Expr::col("compute_us")))
            .order_by_asc(prefix())
            .limit(limit);
        for column in FUNCTION_SUMS {
            select = select.expr_as(sum_of(self.backend(), column), column);
        }
        Ok(select.into_model().all(&self.read_executor()).await?)
    }

    /// Returns functions whose name contains a text, each with the last day on which it was used, the most
    /// recently used first. Searches the newest `ROWS_PER_NAME` rows.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.find", skip_all)]
    pub async fn find_functions(&self, text: &str, limit: u64) -> Result<Vec<(String, i64)>, StoreError> {
        use function_usage_day::{Column, Entity};
        let newest = self
            .select::<Entity>()
            .select_only()
            .columns([Column::Prefix, Column::Day])
            .order_by_desc(Column::Day)
            .limit(ROWS_PER_NAME)
            .into_query();
        let prefix = r#""functions"."prefix""#;
        let statement = Query::select()
            .column(("functions", "prefix"))
            .expr_as(Expr::col(("functions", "day")).max(), "last_day")
            .from_subquery(newest, "functions")
            .and_where(self.contains(prefix, text))
            .group_by_col(("functions", "prefix"))
            .order_by("last_day", Order::Desc)
            .order_by_expr(self.by_bytes(prefix), Order::Asc)
            .limit(limit)
            .take();
        let rows = self.read_executor().query_all(&statement).await?;
        rows.iter().map(|row| Ok((row.try_get("", "prefix")?, row.try_get("", "last_day")?))).collect()
    }

    /// Returns the functions of each cluster in some hours, at most `limit` per cluster, the most compute
    /// time first. Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.of_clusters", skip_all)]
    pub async fn functions_of_clusters(
        &self,
        clusters: &[ClusterId],
        hours: HourRange,
        limit: i64,
    ) -> Result<HashMap<ClusterId, Vec<FunctionUsage>>, StoreError> {
        use function_usage_hour::Column::{ClusterId as OfCluster, Hour, Prefix};
        let rank = "ROW_NUMBER() OVER (PARTITION BY cluster_id \
                     ORDER BY SUM(CAST(compute_us AS double precision)) DESC, prefix)";
        let mut functions = self
            .select::<function_usage_hour::Entity>()
            .select_only()
            .columns([OfCluster, Prefix])
            .expr_as(Expr::cust(rank), page::RANK)
            .filter(OfCluster.is_one_of(clusters.iter().copied()))
            .filter(lies_in(Hour, hours))
            .group_by(OfCluster)
            .group_by(Prefix);
        for column in FUNCTION_SUMS {
            functions = functions.expr_as(sum_of(self.backend(), column), column);
        }
        let mut usage_by_cluster: HashMap<ClusterId, Vec<FunctionUsage>> = HashMap::new();
        for row in
            self.read_executor().query_all(&page::filter_top_ranked(functions.into_query(), limit)).await?
        {
            let usage = FunctionUsage::from_query_result(&row, "")?;
            usage_by_cluster.entry(row.try_get("", "cluster_id")?).or_default().push(usage);
        }
        for functions in usage_by_cluster.values_mut() {
            functions.sort_by(|a, b| b.compute_us.cmp(&a.compute_us).then_with(|| a.prefix.cmp(&b.prefix)));
        }
        Ok(usage_by_cluster)
    }

    /// Returns the paid resources of functions of selected clusters in a range of days, the last one
    /// exclusive.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.paid_in_days", skip_all)]
    pub async fn load_paid_resources(
        &self,
        days: (i64, i64),
        clusters: &UsageClusters,
        prefixes: &[String],
    ) -> Result<Vec<PaidResources>, StoreError> {
        let column = |name: &'static str| Expr::col(("functions", name));
        let mut select = if let Some(filter) = clusters.filter_of_hours() {
            let mut select = self.paid_hours();
            select
                .and_where(hours_in(column("hour"), days))
                .and_where(column("cluster_id").in_subquery(self.passing_ids(filter, days)));
            select
        } else {
            let day = column("day");
            let mut select =
                self.paid_for("function_usage_days", "usage_days", ["user_id", "day"], day.clone());
            select.and_where(day.clone().gte(days.0)).and_where(day.lt(days.1));
            if let Some(users) = clusters.users() {
                let users = users.iter().map(|user| user.0);
                select.and_where(expression_is_one_of(column("user_id"), "uuid", users));
            }
            select
        };
        let prefixes = prefixes.iter().map(String::as_str);
        select.and_where(expression_is_one_of(column("prefix"), "text", prefixes));
        Ok(self.read_paid_for(&select).await?.into_iter().map(|(_, paid)| paid).collect())
    }

    /// Returns the paid resources of functions of some clusters in some hours.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.paid_in_clusters", skip_all)]
    pub async fn load_cluster_paid_resources(
        &self,
        clusters: &[ClusterId],
        (from, to): HourRange,
    ) -> Result<Vec<(ClusterId, PaidResources)>, StoreError> {
        let cluster = ("functions", "cluster_id");
        let hour = || Expr::col(("functions", "hour"));
        let mut select = self.paid_hours();
        select
            .column(cluster)
            .and_where(expression_is_one_of(
                Expr::col(cluster),
                "bigint",
                clusters.iter().map(|cluster| cluster.0),
            ))
            .group_by_col(cluster);
        if let Some(from) = from {
            select.and_where(hour().gte(from));
        }
        if let Some(to) = to {
            select.and_where(hour().lt(to));
        }
        let rows = self.read_paid_for(&select).await?;
        rows.into_iter().map(|(row, paid)| Ok((row.try_get("", "cluster_id")?, paid))).collect()
    }

    /// Selects the paid resources of the hours of clusters.
    fn paid_hours(&self) -> SelectStatement {
        let day = Expr::col(("functions", "hour")).div(DAY_HOURS);
        self.paid_for("function_usage_hours", "usage_hours", ["cluster_id", "hour"], day)
    }

    /// Selects the paid resources by function and by the rate of the day. Each row of the table `functions`
    /// is joined with the row of `whole` with the same `keys`. A function's share of memory and workers is
    /// its share of the thread time.
    fn paid_for(
        &self,
        functions: &'static str,
        totals: &'static str,
        keys: [&'static str; 2],
        day: Expr,
    ) -> SelectStatement {
        let column = |name: &'static str| Expr::col(("functions", name));
        let same = |name: &'static str| column(name).equals(("whole", name));
        let rate_from = Query::select()
            .expr(Expr::col(("rates", "valid_from")).max())
            .from_as("cost_rates", "rates")
            .and_where(Expr::col(("rates", "account_id")).eq(self.account_id().0))
            .and_where(Expr::col(("rates", "valid_from")).lte(day))
            .take();
        // The quotient comes first, because the product of two times may exceed an integer.
        let share = |name: &'static str| {
            let total = Func::cast_as(Expr::col(("whole", name)), "double precision");
            column("compute_us").mul(Expr::expr(total).div(Expr::col(("whole", "thread_us")))).sum()
        };
        let has_same_keys = keys.iter().fold(same("account_id"), |condition, key| condition.and(same(key)));
        Query::select()
            .column(("functions", "prefix"))
            .expr_as(Expr::SubQuery(None, Box::new(rate_from.into())), "rate_from")
            .expr_as(real_sum(column("compute_us")), "thread_us")
            .expr_as(share("memory_gib_us"), "memory_gib_us")
            .expr_as(share("worker_us"), "worker_us")
            .from_as(functions, "functions")
            .join_as(JoinType::InnerJoin, totals, "whole", has_same_keys)
            .and_where(column("account_id").eq(self.account_id().0))
            // Without threads, nothing was paid.
            .and_where(Expr::col(("whole", "thread_us")).gt(0))
            .group_by_col(("functions", "prefix"))
            .group_by_col("rate_from")
            .take()
    }

    async fn read_paid_for(
        &self,
        select: &SelectStatement,
    ) -> Result<Vec<(QueryResult, PaidResources)>, StoreError> {
        let rows = self.read_executor().query_all(select).await?;
        rows.into_iter()
            .map(|row| {
                let paid = PaidResources::from_query_result(&row, "")?;
                Ok((row, paid))
            })
            .collect()
    }
}
