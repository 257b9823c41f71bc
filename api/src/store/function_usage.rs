//! The resources that functions used, of clusters by the hour and of the account by the day, and the paid
//! resources behind them.

use std::collections::HashMap;

use entity::{
    function_usage_day, function_usage_hour,
    ids::{ClusterId, UserId},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, FromQueryResult, JoinType, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait, Func, Order, Query, SelectStatement},
};

use super::{
    composite_in::{IsOneOf, expression_is_one_of},
    error::StoreError,
    page,
    scoped::AccountStore,
    usage_hour::{DAY_HOURS, sum_of},
};

/// The columns with sums of a function's usage, which the tables of hours and days share.
pub(super) const FUNCTION_SUMS: [&str; 5] = ["compute_us", "transfer_us", "tasks", "tasks_erred", "bytes"];

/// The number of rows that a search for functions examines: days of users and functions, the newest first.
const ROWS_PER_NAME: u64 = 50_000;

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
    pub fn add_usage(self, more: &Self) -> Self {
        Self {
            prefix: self.prefix,
            compute_us: self.compute_us.saturating_add(more.compute_us),
            transfer_us: self.transfer_us.saturating_add(more.transfer_us),
            tasks: self.tasks.saturating_add(more.tasks),
            tasks_erred: self.tasks_erred.saturating_add(more.tasks_erred),
            bytes: self.bytes.saturating_add(more.bytes),
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
    /// Returns the usage of the account's functions in the days from `from` to before `to`, the most
    /// compute time first.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.of_days", skip_all)]
    pub async fn function_usage(
        &self,
        (from, to): (i64, i64),
        user: Option<UserId>,
        limit: u64,
    ) -> Result<Vec<FunctionUsage>, StoreError> {
        use function_usage_day::Column;
        let mut select = self
            .select::<function_usage_day::Entity>()
            .select_only()
            .column(Column::Prefix)
            .filter(Column::Day.gte(from))
            .filter(Column::Day.lt(to))
            .group_by(Column::Prefix)
            .order_by_desc(real_sum(Expr::col("compute_us")))
            .order_by_asc(Column::Prefix)
            .limit(limit);
        if let Some(user) = user {
            select = select.filter(Column::UserId.eq(user));
        }
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

    /// Returns the functions of each cluster, at most `limit` per cluster, the most compute time first.
    /// Clusters without any are missing.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.of_clusters", skip_all)]
    pub async fn functions_of_clusters(
        &self,
        clusters: &[ClusterId],
        limit: i64,
    ) -> Result<HashMap<ClusterId, Vec<FunctionUsage>>, StoreError> {
        use function_usage_hour::Column::{ClusterId as OfCluster, Prefix};
        let place = "ROW_NUMBER() OVER (PARTITION BY cluster_id \
                     ORDER BY SUM(CAST(compute_us AS double precision)) DESC, prefix)";
        let mut functions = self
            .select::<function_usage_hour::Entity>()
            .select_only()
            .columns([OfCluster, Prefix])
            .expr_as(Expr::cust(place), page::RANK)
            .filter(OfCluster.is_one_of(clusters.iter().copied()))
            .group_by(OfCluster)
            .group_by(Prefix);
        for column in FUNCTION_SUMS {
            functions = functions.expr_as(sum_of(self.backend(), column), column);
        }
        let mut found: HashMap<ClusterId, Vec<FunctionUsage>> = HashMap::new();
        for row in
            self.read_executor().query_all(&page::filter_top_ranked(functions.into_query(), limit)).await?
        {
            let usage = FunctionUsage::from_query_result(&row, "")?;
            found.entry(row.try_get("", "cluster_id")?).or_default().push(usage);
        }
        for functions in found.values_mut() {
            functions.sort_by(|a, b| b.compute_us.cmp(&a.compute_us).then_with(|| a.prefix.cmp(&b.prefix)));
        }
        Ok(found)
    }

    /// Returns the paid resources of functions of the account in the days from `from` to before `to`.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.paid_in_days", skip_all)]
    pub async fn load_paid_resources(
        &self,
        (from, to): (i64, i64),
        user: Option<UserId>,
        prefixes: &[String],
    ) -> Result<Vec<PaidResources>, StoreError> {
        let day = Expr::col(("functions", "day"));
        let mut select = self.paid_for("function_usage_days", "usage_days", ["user_id", "day"], day.clone());
        select
            .and_where(expression_is_one_of(
                Expr::col(("functions", "prefix")),
                "text",
                prefixes.iter().map(String::as_str),
            ))
            .and_where(day.clone().gte(from))
            .and_where(day.lt(to));
        if let Some(user) = user {
            select.and_where(Expr::col(("functions", "user_id")).eq(user.0));
        }
        Ok(self.read_paid_for(&select).await?.into_iter().map(|(_, paid)| paid).collect())
    }

    /// Returns the paid resources of functions of some clusters.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.function_usage.paid_in_clusters", skip_all)]
    pub async fn load_cluster_paid_resources(
        &self,
        clusters: &[ClusterId],
    ) -> Result<Vec<(ClusterId, PaidResources)>, StoreError> {
        let cluster = ("functions", "cluster_id");
        let day = Expr::col(("functions", "hour")).div(DAY_HOURS);
        let mut select = self.paid_for("function_usage_hours", "usage_hours", ["cluster_id", "hour"], day);
        select
            .column(cluster)
            .and_where(expression_is_one_of(
                Expr::col(cluster),
                "bigint",
                clusters.iter().map(|cluster| cluster.0),
            ))
            .group_by_col(cluster);
        let rows = self.read_paid_for(&select).await?;
        rows.into_iter().map(|(row, paid)| Ok((row.try_get("", "cluster_id")?, paid))).collect()
    }

    /// Selects the paid resources by function and by the rate of the day. Each row of the table `functions`
    /// is joined with the row of `whole` with the same `keys`. A function's share of memory and workers is
    /// its share of the thread time.
    fn paid_for(
        &self,
        functions: &'static str,
        whole: &'static str,
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
            let real = Func::cast_as(Expr::col(("whole", name)), "double precision");
            column("compute_us").mul(Expr::expr(real).div(Expr::col(("whole", "thread_us")))).sum()
        };
        let of_account = keys.iter().fold(same("account_id"), |all, key| all.and(same(key)));
        Query::select()
            .column(("functions", "prefix"))
            .expr_as(Expr::SubQuery(None, Box::new(rate_from.into())), "rate_from")
            .expr_as(real_sum(column("compute_us")), "thread_us")
            .expr_as(share("memory_gib_us"), "memory_gib_us")
            .expr_as(share("worker_us"), "worker_us")
            .from_as(functions, "functions")
            .join_as(JoinType::InnerJoin, whole, "whole", of_account)
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
