//! Usage of an account as a table, grouped by user, day or hour, function, tag and version. Each table
//! is one statement.
//!
//! Daily sums are kept by user only. Groupings by a property of single clusters, a tag or a version,
//! groupings by hour, and filters of clusters read the hourly rows.

use std::ops::RangeFrom;

use entity::{
    AccountOwned, Row, function_usage_day, function_usage_hour, ids::UserId, usage_day, usage_hour,
};
use sea_orm::{
    ConnectionTrait, DatabaseBackend, DbErr, FromQueryResult, JoinType, QueryFilter, QueryResult,
    QuerySelect, QueryTrait, Select,
    sea_query::{Expr, ExprTrait, Func, Query},
};

use super::{
    function_usage::{FUNCTION_SUMS, FunctionUsage},
    usage_columns::UsageColumns,
    usage_filter::UsageClusters,
    usage_hour::{DAY, DAY_HOURS, cut_day, cut_days, cut_hours, sum_of},
};
use crate::{
    domain::{tag::Tag, usage::Usage},
    store::core::{
        composite_in::expression_is_one_of, error::StoreError, read_rows::ReadRows, scoped::AccountStore,
    },
};

/// The dimensions that a table is grouped by.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupBy {
    /// The clusters whose usage counts.
    pub clusters: UsageClusters,
    /// True to group by user.
    pub user: bool,
    /// The time step to group by.
    pub step: UsageStep,
    /// The tags to group by. The usage of a cluster counts in the cell of each of its tags.
    pub tags: Option<TagGrouping>,
    /// The package whose version to group by, as installed on the schedulers of the clusters.
    pub package: Option<String>,
}

/// The tags that a table is grouped by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagGrouping {
    /// All tags.
    All,
    /// The tags with this key. A cluster has at most one of them.
    OfKey(String),
}

impl GroupBy {
    /// True if the daily sums do not have a dimension, so that hourly rows are needed.
    fn needs_hourly_rows(&self) -> bool {
        self.step == UsageStep::Hour
            || self.tags.is_some()
            || self.package.is_some()
            || self.clusters.filter_of_hours().is_some()
    }

    /// True if a cell is exactly one stored row of a day, so that there is nothing to sum.
    fn is_stored(&self) -> bool {
        self.user && self.step == UsageStep::Day && !self.needs_hourly_rows()
    }

    /// The expression for a cell's value of one column.
    fn sum(&self, backend: DatabaseBackend, column: (&'static str, &'static str)) -> Expr {
        if self.is_stored() { Expr::col(column) } else { sum_of(backend, column) }
    }

    /// The expression for the number of a cell's rows with a clamped value.
    fn cut_rows(&self) -> Expr {
        if self.needs_hourly_rows() {
            cut_hours("usage_hours")
        } else if self.is_stored() {
            cut_day()
        } else {
            cut_days()
        }
    }

    /// Selects a column and groups by it. Selects NULL if there is no column.
    fn group_by_column<E: AccountOwned>(
        &self,
        select: Select<E>,
        name: &'static str,
        column: Option<Expr>,
    ) -> Select<E> {
        match column {
            Some(column) if self.is_stored() => select.expr_as(column, name),
            Some(column) => select.expr_as(column.clone(), name).group_by(column),
            None => select.expr_as(Expr::cust("NULL"), name),
        }
    }
}

/// The time steps of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageStep {
    /// The whole range as one step.
    Whole,
    /// Days, which are stored as sums.
    Day,
    /// Hours, which are read from one row per cluster and hour.
    Hour,
}

/// The coordinates of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellKey {
    /// The number of whole days or hours, by the step, since 1970-01-01 UTC. `None` if the table has one
    /// step.
    pub time: Option<i64>,
    /// The user of the clusters. `None` if the table is not grouped by user, and for clusters whose user
    /// was deleted.
    pub user_id: Option<UserId>,
    /// The tag. `None` if the table is not grouped by tag, and for clusters without a tag.
    pub tag: Option<Tag>,
    /// The version. `None` if the table is not grouped by version, and if it is unknown.
    pub version: Option<String>,
}

/// The usage of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCell {
    /// The coordinates.
    pub at: CellKey,
    /// The number of clusters in use. Each one counts once per day, or once per cell if hourly rows are
    /// read.
    pub clusters: i64,
    /// The usage.
    pub usage: Usage,
}

/// The usage of the tasks of one function in one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCell {
    /// The coordinates.
    pub at: CellKey,
    /// The usage.
    pub usage: FunctionUsage,
}

impl CellKey {
    /// Decodes the coordinates from the first columns of a row.
    fn decode(row: &Row<'_>, columns: &mut RangeFrom<usize>) -> Result<Self, DbErr> {
        // The range is endless.
        let mut next_column = || columns.next().unwrap_or(usize::MAX);
        let time = row.get(next_column())?;
        let user_id: Option<UserId> = row.get(next_column())?;
        let (key, value) = (row.get(next_column())?, row.get(next_column())?);
        Ok(Self {
            time,
            user_id: user_id.filter(|user| !user.0.is_nil()),
            tag: Option::zip(key, value).map(|(key, value)| Tag::stored(key, value)),
            version: row.get(next_column())?,
        })
    }
}

impl AccountStore {
    /// Returns some columns of the account's usage from the day `from` to before `to`, in no particular
    /// order, at most `limit` cells.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_table.cells", skip_all)]
    pub async fn usage_cells(
        &self,
        days: (i64, i64),
        grouping: &GroupBy,
        usage_columns: UsageColumns,
        limit: u64,
    ) -> Result<Vec<UsageCell>, StoreError> {
        let names: Vec<_> = usage_columns.names().collect();
        let statement = if grouping.needs_hourly_rows() {
            let clusters = Expr::col(("usage_hours", "cluster_id")).count_distinct();
            let cells = self.cells::<usage_hour::Entity>("usage_hours", days, grouping);
            let select = select_sums(cells, self.backend(), "usage_hours", grouping, &names)
                .expr_as(grouping.cut_rows(), "cut_rows");
            select.expr_as(clusters, "clusters").limit(limit).build(self.backend())
        } else {
            let clusters = grouping.sum(self.backend(), ("usage_days", "clusters"));
            let cells = self.cells::<usage_day::Entity>("usage_days", days, grouping);
            let select = select_sums(cells, self.backend(), "usage_days", grouping, &names)
                .expr_as(grouping.cut_rows(), "cut_rows");
            select.expr_as(clusters, "clusters").limit(limit).build(self.backend())
        };
        let decode = |row: &Row<'_>| {
            let mut columns = 0..;
            let at = CellKey::decode(row, &mut columns)?;
            let usage = usage_columns.decode(row, &mut columns)?;
            Ok(UsageCell { at, usage, clusters: row.get(columns.start)? })
        };
        Ok(self.read_executor().read_rows(statement, decode).await?)
    }

    /// Returns the same by function: each prefix of a cell is a cell of its own.
    ///
    /// # Errors
    /// Returns an error if the database does not answer.
    #[tracing::instrument(name = "store.usage_table.function_cells", skip_all)]
    pub async fn function_cells(
        &self,
        days: (i64, i64),
        grouping: &GroupBy,
        limit: u64,
    ) -> Result<Vec<FunctionCell>, StoreError> {
        let statement = if grouping.needs_hourly_rows() {
            let table = "function_usage_hours";
            let select = self.cells::<function_usage_hour::Entity>(table, days, grouping);
            group_by_prefix(select, self.backend(), table, grouping).limit(limit).build(self.backend())
        } else {
            let table = "function_usage_days";
            let select = self.cells::<function_usage_day::Entity>(table, days, grouping);
            group_by_prefix(select, self.backend(), table, grouping).limit(limit).build(self.backend())
        };
        let decode = |row: &QueryResult| {
            let at = CellKey::decode(&Row::Sqlx(row), &mut (0..))?;
            Ok(FunctionCell { at, usage: FunctionUsage::from_query_result(row, "")? })
        };
        self.read_executor().query_all_raw(statement).await?.iter().map(decode).collect()
    }

    /// Selects the grouped rows of a usage table with their coordinates. The caller adds the sums.
    fn cells<E: AccountOwned>(
        &self,
        table: &'static str,
        (from, to): (i64, i64),
        grouping: &GroupBy,
    ) -> Select<E> {
        let (time, hours) = if grouping.needs_hourly_rows() { ("hour", DAY_HOURS) } else { ("day", 1) };
        let column = |column: &'static str| Expr::col((table, column));
        let mut select = self
            .select::<E>()
            .select_only()
            .filter(column(time).gte(from * hours))
            .filter(column(time).lt(to * hours));
        // The expression is text for the reason given at [`DAY`].
        let time = match grouping.step {
            UsageStep::Whole => None,
            UsageStep::Day if grouping.needs_hourly_rows() => Some(Expr::cust(format!("{table}.{DAY}"))),
            UsageStep::Day | UsageStep::Hour => Some(column(time)),
        };
        select = grouping.group_by_column(select, "time", time);
        let users = grouping.clusters.users();
        if grouping.needs_hourly_rows() && (grouping.user || grouping.package.is_some() || users.is_some()) {
            let is_cluster_of_hour = Expr::col(("clusters", "account_id"))
                .equals((table, "account_id"))
                .and(Expr::col(("clusters", "id")).equals((table, "cluster_id")));
            QuerySelect::query(&mut select).inner_join("clusters", is_cluster_of_hour);
        }
        if let Some(users) = users {
            let user = Expr::col(user_column(table, grouping));
            select = select.filter(expression_is_one_of(user, "uuid", users.iter().map(|user| user.0)));
        }
        if let Some(filter) = grouping.clusters.filter_of_hours() {
            select = select.filter(column("cluster_id").in_subquery(self.passing_ids(filter, (from, to))));
        }
        select = group_by_user(select, table, grouping);
        select = group_by_tag(select, table, grouping);
        select = self.group_by_version(select, grouping);
        // Without GROUP BY, an empty range would still produce a row.
        if grouping.is_stored() { select } else { select.having(Expr::cust("COUNT(*) > 0")) }
    }

    /// Groups by the version of a package on the schedulers of the clusters.
    fn group_by_version<E: AccountOwned>(&self, mut select: Select<E>, grouping: &GroupBy) -> Select<E> {
        let Some(package) = grouping.package.as_deref() else {
            return grouping.group_by_column(select, "version", None);
        };
        let environment_column = |column: &'static str| Expr::col(("environments", column));
        let mut versions = Query::select()
            // DISTINCT makes the database parse each environment once, and not once per hour.
            .distinct()
            .columns([("environments", "account_id"), ("environments", "cluster_id"), ("environments", "id")])
            .from("environments")
            .and_where(environment_column("account_id").eq(self.account_id()))
            .take();
        if package == "python" {
            versions.expr_as(environment_column("python"), "version");
        } else {
            let package_rows = Func::cust(self.package_rows_function()).arg(environment_column("packages"));
            versions
                .from_function(package_rows, "package")
                .expr_as(Expr::col(("package", "value")), "version")
                .and_where(Expr::col(("package", "key")).eq(package));
        }
        let is_of_scheduler = Expr::col(("versions", "account_id"))
            .equals(("clusters", "account_id"))
            .and(Expr::col(("versions", "cluster_id")).equals(("clusters", "id")))
            .and(Expr::col(("versions", "id")).equals(("clusters", "environment_id")));
        QuerySelect::query(&mut select).join_subquery(
            JoinType::LeftJoin,
            versions,
            "versions",
            is_of_scheduler,
        );
        grouping.group_by_column(select, "version", Some(Expr::col(("versions", "version"))))
    }
}

/// Returns the column with the user of a row's clusters.
fn user_column(table: &'static str, grouping: &GroupBy) -> (&'static str, &'static str) {
    if grouping.needs_hourly_rows() { ("clusters", "user_id") } else { (table, "user_id") }
}

fn group_by_user<E: AccountOwned>(select: Select<E>, table: &'static str, grouping: &GroupBy) -> Select<E> {
    let user = grouping.user.then(|| Expr::col(user_column(table, grouping)));
    grouping.group_by_column(select, "user_id", user)
}

fn group_by_tag<E: AccountOwned>(
    mut select: Select<E>,
    table: &'static str,
    grouping: &GroupBy,
) -> Select<E> {
    let tags = grouping.tags.as_ref();
    let column = |column: &'static str| Expr::col(("cluster_tags", column));
    if let Some(tags) = tags {
        let mut is_tag_of_cluster = column("account_id")
            .equals((table, "account_id"))
            .and(column("cluster_id").equals((table, "cluster_id")));
        if let TagGrouping::OfKey(key) = tags {
            is_tag_of_cluster = is_tag_of_cluster.and(column("key").eq(key.as_str()));
        }
        QuerySelect::query(&mut select).left_join("cluster_tags", is_tag_of_cluster);
    }
    let select = grouping.group_by_column(select, "tag_key", tags.map(|_| column("key")));
    grouping.group_by_column(select, "tag_value", tags.map(|_| column("value")))
}

fn select_sums<E: AccountOwned>(
    select: Select<E>,
    backend: DatabaseBackend,
    table: &'static str,
    grouping: &GroupBy,
    sums: &[&'static str],
) -> Select<E> {
    sums.iter()
        .fold(select, |select, column| select.expr_as(grouping.sum(backend, (table, *column)), *column))
}

fn group_by_prefix<E: AccountOwned>(
    select: Select<E>,
    backend: DatabaseBackend,
    table: &'static str,
    grouping: &GroupBy,
) -> Select<E> {
    let select = grouping.group_by_column(select, "prefix", Some(Expr::col((table, "prefix"))));
    select_sums(select, backend, table, grouping, &FUNCTION_SUMS)
}
