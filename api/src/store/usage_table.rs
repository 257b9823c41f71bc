//! Usage of an account as a table: by user, by day or hour, by function, by tag and by version, one statement each.
//!
//! Days are summed up by user alone. Who asks by what single clusters have, a tag or a version, is answered from the hours
//! that clusters told of, like who asks by the hour.

use entity::{
    AccountOwned, Timestamp, function_usage_day, function_usage_hour, ids::UserId, usage_day, usage_hour,
    user::Model as User,
};
use sea_orm::{
    ColumnTrait, FromQueryResult, JoinType, QueryFilter, QuerySelect, Select,
    sea_query::{Expr, ExprTrait, Func, Query},
};
use uuid::Uuid;

use super::{
    error::StoreError,
    function_usage::{FUNCTION_SUMS, FunctionUsage},
    scoped::AccountStore,
    usage_hour::{DAY, DAY_HOURS, SUMS, Sums, sum_of},
};
use crate::domain::{tag::Tag, usage::Usage};

/// What has cells of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellsBy {
    /// Each user, or all together.
    pub user: bool,
    /// Each step of time, or all of it.
    pub step: UsageStep,
    /// Each tag: what a cluster used is in the cell of each of its tags.
    pub tags: Option<Tags>,
    /// Each version of this package, as the schedulers of clusters have it.
    pub package: Option<String>,
}

/// Which tags are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    /// All.
    All,
    /// Those with this key, of which a cluster has one at the most.
    OfKey(String),
}

impl CellsBy {
    /// Whether days do not know it.
    fn is_of_clusters(&self) -> bool {
        self.step == UsageStep::Hour || self.tags.is_some() || self.package.is_some()
    }

    /// Whether a cell is one row of days as they are stored, so that there is nothing to add up.
    fn is_stored(&self) -> bool {
        self.user && self.step == UsageStep::Day && !self.is_of_clusters()
    }

    /// What the rows of a cell come to in one column.
    fn sum(&self, column: (&'static str, &'static str)) -> Expr {
        if self.is_stored() { Expr::col(column) } else { sum_of(column) }
    }

    /// Each value of a column has cells of its own, if there is one.
    fn told_apart<E: AccountOwned>(
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

/// Steps of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageStep {
    /// All of it is one.
    Whole,
    /// Days, which are sums.
    Day,
    /// Hours, which are not: as many rows are read as clusters told of them.
    Hour,
}

/// Where a cell stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellAt {
    /// Whole days or hours since 1970-01-01 UTC, as the step is.
    pub time: Option<i64>,
    /// Whose clusters used it; none where users are together, and for clusters whose user is gone.
    pub user_id: Option<UserId>,
    /// The same user, if still a member.
    pub user: Option<User>,
    /// The tag; none where tags are together, and for clusters without one.
    pub tag: Option<Tag>,
    /// The version; none where versions are together, and where it is not known.
    pub version: Option<String>,
}

/// What was used in one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCell {
    /// Where it stands.
    pub at: CellAt,
    /// Clusters that were there: each counts once a day, or an hour.
    pub clusters: i64,
    /// What they used.
    pub usage: Usage,
}

/// What the tasks of one function used in one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCell {
    /// Where it stands.
    pub at: CellAt,
    /// What they used.
    pub usage: FunctionUsage,
}

#[derive(FromQueryResult)]
struct AtRow {
    time: Option<i64>,
    user_id: Option<UserId>,
    user_name: Option<String>,
    user_created_at: Option<Timestamp>,
    tag_key: Option<String>,
    tag_value: Option<String>,
    version: Option<String>,
}

#[derive(FromQueryResult)]
struct UsageRow {
    #[sea_orm(nested)]
    at: AtRow,
    clusters: i64,
    #[sea_orm(nested)]
    sums: Sums,
}

#[derive(FromQueryResult)]
struct FunctionRow {
    #[sea_orm(nested)]
    at: AtRow,
    #[sea_orm(nested)]
    usage: FunctionUsage,
}

impl From<AtRow> for CellAt {
    fn from(row: AtRow) -> Self {
        let AtRow { time, user_id, user_name, user_created_at, tag_key, tag_value, version } = row;
        let user_id = user_id.filter(|user| !user.0.is_nil());
        let user = match (user_id, user_name, user_created_at) {
            (Some(id), Some(name), Some(created_at)) => Some(User { id, name, created_at }),
            _ => None,
        };
        let tag = tag_key.zip(tag_value).map(|(key, value)| Tag::stored(key, value));
        Self { time, user_id, user, tag, version }
    }
}

impl AccountStore {
    /// What the account used in the days from `from` to before `to`, in no particular order, at most `limit` cells.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.usage_table.cells", skip_all)]
    pub async fn usage_cells(
        &self,
        days: (i64, i64),
        by: &CellsBy,
        limit: u64,
    ) -> Result<Vec<UsageCell>, StoreError> {
        let rows: Vec<UsageRow> = if by.is_of_clusters() {
            let clusters = Expr::col(("usage_hours", "cluster_id")).count_distinct();
            let cells = self.cells::<usage_hour::Entity>("usage_hours", days, by);
            let select = with_sums(cells, "usage_hours", by, &SUMS);
            select.expr_as(clusters, "clusters").limit(limit).into_model().all(&self.reads()).await?
        } else {
            let clusters = by.sum(("usage_days", "clusters"));
            let cells = self.cells::<usage_day::Entity>("usage_days", days, by);
            let select = with_sums(cells, "usage_days", by, &SUMS);
            select.expr_as(clusters, "clusters").limit(limit).into_model().all(&self.reads()).await?
        };
        let cells = rows.into_iter();
        Ok(cells
            .map(|row| UsageCell { at: row.at.into(), clusters: row.clusters, usage: row.sums.into() })
            .collect())
    }

    /// The same by function: each prefix of a cell is a cell.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.usage_table.function_cells", skip_all)]
    pub async fn function_cells(
        &self,
        days: (i64, i64),
        by: &CellsBy,
        limit: u64,
    ) -> Result<Vec<FunctionCell>, StoreError> {
        let rows: Vec<FunctionRow> = if by.is_of_clusters() {
            let table = "function_usage_hours";
            let select = self.cells::<function_usage_hour::Entity>(table, days, by);
            by_prefix(select, table, by).limit(limit).into_model().all(&self.reads()).await?
        } else {
            let table = "function_usage_days";
            let select = self.cells::<function_usage_day::Entity>(table, days, by);
            by_prefix(select, table, by).limit(limit).into_model().all(&self.reads()).await?
        };
        Ok(rows.into_iter().map(|row| FunctionCell { at: row.at.into(), usage: row.usage }).collect())
    }

    /// How many users' clusters used something in the days from `from` to before `to`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.usage_table.user_count", skip_all)]
    pub async fn usage_user_count(&self, (from, to): (i64, i64)) -> Result<i64, StoreError> {
        use usage_day::Column;
        let users = Func::count_distinct(Expr::col(Column::UserId));
        let count: Option<i64> = self
            .select::<usage_day::Entity>()
            .select_only()
            .expr_as(users, "users")
            .filter(Column::Day.gte(from))
            .filter(Column::Day.lt(to))
            .filter(Column::UserId.ne(UserId(Uuid::nil())))
            .into_tuple()
            .one(&self.reads())
            .await?;
        Ok(count.unwrap_or(0))
    }

    /// The rows of a table of usage by what has cells of its own, with where they stand; sums are to be added.
    fn cells<E: AccountOwned>(&self, table: &'static str, (from, to): (i64, i64), by: &CellsBy) -> Select<E> {
        let (time, hours) = if by.is_of_clusters() { ("hour", DAY_HOURS) } else { ("day", 1) };
        let column = |column: &'static str| Expr::col((table, column));
        let mut select = self
            .select::<E>()
            .select_only()
            .filter(column(time).gte(from * hours))
            .filter(column(time).lt(to * hours));
        // As text: see the day of `usage_hour.rs`.
        let time = match by.step {
            UsageStep::Whole => None,
            UsageStep::Day if by.is_of_clusters() => Some(Expr::cust(format!("{table}.{DAY}"))),
            UsageStep::Day | UsageStep::Hour => Some(column(time)),
        };
        select = by.told_apart(select, "time", time);
        if by.is_of_clusters() && (by.user || by.package.is_some()) {
            let of_hour = Expr::col(("clusters", "account_id"))
                .equals((table, "account_id"))
                .and(Expr::col(("clusters", "id")).equals((table, "cluster_id")));
            QuerySelect::query(&mut select).inner_join("clusters", of_hour);
        }
        select = by_user(select, table, by);
        select = by_tag(select, table, by);
        select = self.by_version(select, by);
        // Without groups, nothing would be a row, too.
        if by.is_stored() { select } else { select.having(Expr::cust("COUNT(*) > 0")) }
    }

    /// Each version of a package, as the schedulers of clusters have it.
    fn by_version<E: AccountOwned>(&self, mut select: Select<E>, by: &CellsBy) -> Select<E> {
        let Some(package) = by.package.as_deref() else { return by.told_apart(select, "version", None) };
        let of_environment = |column: &'static str| Expr::col(("environments", column));
        let mut versions = Query::select()
            // Told apart, so that the database looks into each environment once, and not for each hour.
            .distinct()
            .columns([("environments", "account_id"), ("environments", "cluster_id"), ("environments", "id")])
            .from("environments")
            .and_where(of_environment("account_id").eq(self.account_id()))
            .take();
        if package == "python" {
            versions.expr_as(of_environment("python"), "version");
        } else {
            let each = Func::cust(self.each_package()).arg(of_environment("packages"));
            versions
                .from_function(each, "package")
                .expr_as(Expr::col(("package", "value")), "version")
                .and_where(Expr::col(("package", "key")).eq(package));
        }
        let of_scheduler = Expr::col(("versions", "account_id"))
            .equals(("clusters", "account_id"))
            .and(Expr::col(("versions", "cluster_id")).equals(("clusters", "id")))
            .and(Expr::col(("versions", "id")).equals(("clusters", "environment_id")));
        QuerySelect::query(&mut select).join_subquery(JoinType::LeftJoin, versions, "versions", of_scheduler);
        by.told_apart(select, "version", Some(Expr::col(("versions", "version"))))
    }
}

fn by_user<E: AccountOwned>(mut select: Select<E>, table: &'static str, by: &CellsBy) -> Select<E> {
    let names = ["user_id", "user_name", "user_created_at"];
    if !by.user {
        return names.into_iter().fold(select, |select, name| by.told_apart(select, name, None));
    }
    let user = if by.is_of_clusters() { ("clusters", "user_id") } else { (table, "user_id") };
    // Through the membership: of those who left, nobody learns the name.
    let member = Expr::col(("memberships", "account_id"))
        .equals((table, "account_id"))
        .and(Expr::col(("memberships", "user_id")).equals(user));
    let of_member = Expr::col(("users", "id")).equals(("memberships", "user_id"));
    QuerySelect::query(&mut select).left_join("memberships", member).left_join("users", of_member);
    let columns = [user, ("users", "name"), ("users", "created_at")];
    names
        .into_iter()
        .zip(columns)
        .fold(select, |select, (name, column)| by.told_apart(select, name, Some(Expr::col(column))))
}

fn by_tag<E: AccountOwned>(mut select: Select<E>, table: &'static str, by: &CellsBy) -> Select<E> {
    let tags = by.tags.as_ref();
    let column = |column: &'static str| Expr::col(("cluster_tags", column));
    if let Some(tags) = tags {
        let mut of_hour = column("account_id")
            .equals((table, "account_id"))
            .and(column("cluster_id").equals((table, "cluster_id")));
        if let Tags::OfKey(key) = tags {
            of_hour = of_hour.and(column("key").eq(key.as_str()));
        }
        QuerySelect::query(&mut select).left_join("cluster_tags", of_hour);
    }
    let select = by.told_apart(select, "tag_key", tags.map(|_| column("key")));
    by.told_apart(select, "tag_value", tags.map(|_| column("value")))
}

fn with_sums<E: AccountOwned>(
    select: Select<E>,
    table: &'static str,
    by: &CellsBy,
    sums: &[&'static str],
) -> Select<E> {
    sums.iter().fold(select, |select, column| select.expr_as(by.sum((table, *column)), *column))
}

fn by_prefix<E: AccountOwned>(select: Select<E>, table: &'static str, by: &CellsBy) -> Select<E> {
    let select = by.told_apart(select, "prefix", Some(Expr::col((table, "prefix"))));
    with_sums(select, table, by, &FUNCTION_SUMS)
}
