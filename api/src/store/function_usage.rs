//! What functions used, of clusters by the hour and of the account by the day, and what was paid for meanwhile.

use std::collections::HashMap;

use entity::{
    function_usage_day, function_usage_hour,
    ids::{ClusterId, UserId},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, FromQueryResult, JoinType, QueryFilter, QueryOrder, QueryResult,
    QuerySelect, QueryTrait,
    sea_query::{Expr, ExprTrait, Func, Query, SelectStatement},
};

use super::{
    error::StoreError,
    page,
    scoped::AccountStore,
    usage_hour::{DAY_HOURS, sum_of},
};

/// The columns that tell how much a function used, which hours and days share.
pub(super) const FUNCTION_SUMS: [&str; 5] = ["compute_us", "transfer_us", "tasks", "tasks_erred", "bytes"];

/// What the tasks of one function used in some time.
#[derive(Clone, Debug, PartialEq, Eq, FromQueryResult)]
pub struct FunctionUsage {
    /// The function or operation.
    pub prefix: String,
    /// Computing tasks that succeeded, in microseconds.
    pub compute_us: i64,
    /// Fetching their inputs, in microseconds.
    pub transfer_us: i64,
    /// Times one of them came to be in memory.
    pub tasks: i64,
    /// Those that erred themselves.
    pub tasks_erred: i64,
    /// Bytes of results.
    pub bytes: i64,
}

impl FunctionUsage {
    /// Both together.
    #[must_use]
    pub fn plus(self, more: &Self) -> Self {
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

/// What was paid for while a function computed, at one rate: its own thread-time, and as large a share of memory and
/// workers as it had of the threads.
#[derive(Clone, Debug, PartialEq, FromQueryResult)]
pub struct PaidFor {
    /// The function or operation.
    pub prefix: String,
    /// The day from which the rate holds; none where the account has set no rate for that time.
    pub rate_from: Option<i64>,
    /// Thread-time, in microseconds.
    pub thread_us: f64,
    /// Memory limits in GiB, over microseconds.
    pub memory_gib_us: f64,
    /// Workers, over microseconds.
    pub worker_us: f64,
}

impl AccountStore {
    /// What the functions of the account used in the days from `from` to before `to`, the most compute time first.
    ///
    /// # Errors
    /// When the database does not answer.
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
            .order_by_desc(Expr::col("compute_us").sum())
            .order_by_asc(Column::Prefix)
            .limit(limit);
        if let Some(user) = user {
            select = select.filter(Column::UserId.eq(user));
        }
        for column in FUNCTION_SUMS {
            select = select.expr_as(sum_of(column), column);
        }
        Ok(select.into_model().all(&self.reads()).await?)
    }

    /// The functions of each cluster, at most `limit` of each, those that computed longest first; clusters without any
    /// are missing.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.function_usage.of_clusters", skip_all)]
    pub async fn functions_of_clusters(
        &self,
        clusters: &[ClusterId],
        limit: i64,
    ) -> Result<HashMap<ClusterId, Vec<FunctionUsage>>, StoreError> {
        use function_usage_hour::Column::{ClusterId as OfCluster, Prefix};
        let place = "ROW_NUMBER() OVER (PARTITION BY cluster_id ORDER BY SUM(compute_us) DESC, prefix)";
        let mut functions = self
            .select::<function_usage_hour::Entity>()
            .select_only()
            .columns([OfCluster, Prefix])
            .expr_as(Expr::cust(place), page::PLACE)
            .filter(OfCluster.is_in(clusters.iter().copied()))
            .group_by(OfCluster)
            .group_by(Prefix);
        for column in FUNCTION_SUMS {
            functions = functions.expr_as(sum_of(column), column);
        }
        let mut found: HashMap<ClusterId, Vec<FunctionUsage>> = HashMap::new();
        for row in self.reads().query_all(&page::first_places(functions.into_query(), limit)).await? {
            let usage = FunctionUsage::from_query_result(&row, "")?;
            found.entry(row.try_get("", "cluster_id")?).or_default().push(usage);
        }
        for functions in found.values_mut() {
            functions.sort_by(|a, b| b.compute_us.cmp(&a.compute_us).then_with(|| a.prefix.cmp(&b.prefix)));
        }
        Ok(found)
    }

    /// What was paid for while functions of the account computed, in the days from `from` to before `to`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.function_usage.paid_in_days", skip_all)]
    pub async fn paid_for_functions(
        &self,
        (from, to): (i64, i64),
        user: Option<UserId>,
        prefixes: &[String],
    ) -> Result<Vec<PaidFor>, StoreError> {
        let day = Expr::col(("functions", "day"));
        let mut select = self.paid_for("function_usage_days", "usage_days", ["user_id", "day"], day.clone());
        select
            .and_where(Expr::col(("functions", "prefix")).is_in(prefixes))
            .and_where(day.clone().gte(from))
            .and_where(day.lt(to));
        if let Some(user) = user {
            select.and_where(Expr::col(("functions", "user_id")).eq(user.0));
        }
        Ok(self.read_paid_for(&select).await?.into_iter().map(|(_, paid)| paid).collect())
    }

    /// What was paid for while functions of some clusters computed.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.function_usage.paid_in_clusters", skip_all)]
    pub async fn paid_for_functions_of_clusters(
        &self,
        clusters: &[ClusterId],
    ) -> Result<Vec<(ClusterId, PaidFor)>, StoreError> {
        let cluster = ("functions", "cluster_id");
        let day = Expr::col(("functions", "hour")).div(DAY_HOURS);
        let mut select = self.paid_for("function_usage_hours", "usage_hours", ["cluster_id", "hour"], day);
        select
            .column(cluster)
            .and_where(Expr::col(cluster).is_in(clusters.iter().map(|cluster| cluster.0)))
            .group_by_col(cluster);
        let rows = self.read_paid_for(&select).await?;
        rows.into_iter().map(|(row, paid)| Ok((row.try_get("", "cluster_id")?, paid))).collect()
    }

    /// Sums over `functions`, the rows of one table, each with the row of `whole` of the same `keys`, whose share of
    /// memory and workers is that of its threads. By function and by the rate of the day.
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
            .and_where(Expr::col(("rates", "account_id")).equals(("functions", "account_id")))
            .and_where(Expr::col(("rates", "valid_from")).lte(day))
            .take();
        // The quotient first: the product of two times may be too large for an integer.
        let share = |name: &'static str| {
            let real = Func::cast_as(Expr::col(("whole", name)), "double precision");
            column("compute_us").mul(Expr::expr(real).div(Expr::col(("whole", "thread_us")))).sum()
        };
        let of_account = keys.iter().fold(same("account_id"), |all, key| all.and(same(key)));
        Query::select()
            .column(("functions", "prefix"))
            .expr_as(Expr::SubQuery(None, Box::new(rate_from.into())), "rate_from")
            .expr_as(Func::cast_as(column("compute_us").sum(), "double precision"), "thread_us")
            .expr_as(share("memory_gib_us"), "memory_gib_us")
            .expr_as(share("worker_us"), "worker_us")
            .from_as(functions, "functions")
            .join_as(JoinType::InnerJoin, whole, "whole", of_account)
            .and_where(column("account_id").eq(self.account_id().0))
            // Where there were no threads, nothing was paid for.
            .and_where(Expr::col(("whole", "thread_us")).gt(0))
            .group_by_col(("functions", "prefix"))
            .group_by_col("rate_from")
            .take()
    }

    async fn read_paid_for(
        &self,
        select: &SelectStatement,
    ) -> Result<Vec<(QueryResult, PaidFor)>, StoreError> {
        let rows = self.reads().query_all(select).await?;
        rows.into_iter()
            .map(|row| {
                let paid = PaidFor::from_query_result(&row, "")?;
                Ok((row, paid))
            })
            .collect()
    }
}
