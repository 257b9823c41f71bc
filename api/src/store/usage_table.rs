//! Usage of an account as a table: by user, by day or hour, and by function, one statement each.

use entity::{
    AccountOwned, Timestamp, function_usage_day, function_usage_hour, ids::UserId, usage_day, usage_hour,
    user::Model as User,
};
use sea_orm::{
    ColumnTrait, FromQueryResult, QueryFilter, QuerySelect, Select,
    sea_query::{Expr, ExprTrait, Func},
};
use uuid::Uuid;

use super::{
    error::StoreError,
    function_usage::{FUNCTION_SUMS, FunctionUsage},
    scoped::AccountStore,
    usage_hour::{DAY_HOURS, SUMS, Sums, sum_of},
};
use crate::domain::usage::Usage;

/// What has cells of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellsBy {
    /// Each user, or all together.
    pub user: bool,
    /// Each step of time, or all of it.
    pub step: UsageStep,
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
        let AtRow { time, user_id, user_name, user_created_at } = row;
        let user_id = user_id.filter(|user| !user.0.is_nil());
        let user = match (user_id, user_name, user_created_at) {
            (Some(id), Some(name), Some(created_at)) => Some(User { id, name, created_at }),
            _ => None,
        };
        Self { time, user_id, user }
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
        by: CellsBy,
        limit: u64,
    ) -> Result<Vec<UsageCell>, StoreError> {
        let rows: Vec<UsageRow> = if by.step == UsageStep::Hour {
            let clusters = Expr::col(("usage_hours", "cluster_id")).count();
            let select =
                with_sums(self.cells::<usage_hour::Entity>("usage_hours", days, by), "usage_hours", &SUMS);
            select.expr_as(clusters, "clusters").limit(limit).into_model().all(&self.reads()).await?
        } else {
            let clusters = sum_of(("usage_days", "clusters"));
            let select =
                with_sums(self.cells::<usage_day::Entity>("usage_days", days, by), "usage_days", &SUMS);
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
        by: CellsBy,
        limit: u64,
    ) -> Result<Vec<FunctionCell>, StoreError> {
        let rows: Vec<FunctionRow> = if by.step == UsageStep::Hour {
            let table = "function_usage_hours";
            let select = self.cells::<function_usage_hour::Entity>(table, days, by);
            by_prefix(select, table).limit(limit).into_model().all(&self.reads()).await?
        } else {
            let table = "function_usage_days";
            let select = self.cells::<function_usage_day::Entity>(table, days, by);
            by_prefix(select, table).limit(limit).into_model().all(&self.reads()).await?
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
    fn cells<E: AccountOwned>(&self, table: &'static str, (from, to): (i64, i64), by: CellsBy) -> Select<E> {
        let (time, hours) = if by.step == UsageStep::Hour { ("hour", DAY_HOURS) } else { ("day", 1) };
        let column = |column: &'static str| Expr::col((table, column));
        let mut select = self
            .select::<E>()
            .select_only()
            .filter(column(time).gte(from * hours))
            .filter(column(time).lt(to * hours));
        select = if by.step == UsageStep::Whole {
            select.expr_as(Expr::cust("NULL"), "time")
        } else {
            select.expr_as(column(time), "time").group_by(column(time))
        };
        if !by.user {
            // Without groups, nothing would be a row, too.
            select = select.having(Expr::cust("COUNT(*) > 0"));
            return ["user_id", "user_name", "user_created_at"]
                .into_iter()
                .fold(select, |select, name| select.expr_as(Expr::cust("NULL"), name));
        }
        let user = if by.step == UsageStep::Hour {
            let of_hour = Expr::col(("clusters", "account_id"))
                .equals((table, "account_id"))
                .and(Expr::col(("clusters", "id")).equals((table, "cluster_id")));
            QuerySelect::query(&mut select).inner_join("clusters", of_hour);
            ("clusters", "user_id")
        } else {
            (table, "user_id")
        };
        // Through the membership: of those who left, nobody learns the name.
        let member = Expr::col(("memberships", "account_id"))
            .equals((table, "account_id"))
            .and(Expr::col(("memberships", "user_id")).equals(user));
        let of_member = Expr::col(("users", "id")).equals(("memberships", "user_id"));
        QuerySelect::query(&mut select).left_join("memberships", member).left_join("users", of_member);
        let columns = [
            (user, "user_id"),
            (("users", "name"), "user_name"),
            (("users", "created_at"), "user_created_at"),
        ];
        columns.into_iter().fold(select, |select, (column, name)| {
            select.expr_as(Expr::col(column), name).group_by(Expr::col(column))
        })
    }
}

fn with_sums<E: AccountOwned>(select: Select<E>, table: &'static str, sums: &[&'static str]) -> Select<E> {
    sums.iter().fold(select, |select, column| select.expr_as(sum_of((table, *column)), *column))
}

fn by_prefix<E: AccountOwned>(select: Select<E>, table: &'static str) -> Select<E> {
    let prefix = || Expr::col((table, "prefix"));
    with_sums(select.expr_as(prefix(), "prefix").group_by(prefix()), table, &FUNCTION_SUMS)
}
