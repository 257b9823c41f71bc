//! Usage by the day: sums of hours, made again whenever one of the hours has changed.
//!
//! A report writes its hours as not folded. Folding a day marks its hours and replaces the day's rows by sums over
//! all of them, in one transaction. A report that writes an hour at the same time either comes first: its row lock
//! makes the marking wait, and the sums include it; or it comes later, and leaves the hour not folded again. Folds of
//! one account wait for each other, which the lock on the account's row sees to (on SQLite, its only writer does).

use std::collections::BTreeMap;

use entity::{
    account, function_usage_day,
    ids::AccountId,
    usage_day::{Column, Entity},
    usage_hour,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
    QuerySelect, TransactionTrait,
    sea_query::{Expr, ExprTrait, Func, LockType, Query, SelectStatement},
};
use uuid::Uuid;

use super::{
    connect::IMMEDIATE,
    error::StoreError,
    function_usage::FUNCTION_SUMS,
    identity::SystemStore,
    scoped::AccountStore,
    usage_hour::{DAY, DAY_HOURS, SUMS, Sums, sum_of},
};
use crate::domain::usage::Usage;

/// Days that are looked up at once.
pub(crate) const MAX_DUE: u64 = 1_000;

/// A day of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, FromQueryResult)]
pub struct AccountDay {
    /// The account.
    pub account_id: AccountId,
    /// Whole days since 1970-01-01 UTC.
    pub day: i64,
}

#[expect(clippy::disallowed_methods, reason = "days are folded for all accounts")]
impl SystemStore {
    /// Days with hours that are not folded, at most a thousand, behind the day `after`.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.usage_day.due", skip_all)]
    pub async fn usage_days_due(&self, after: Option<AccountDay>) -> Result<Vec<AccountDay>, StoreError> {
        let mut select = usage_hour::Entity::find()
            .select_only()
            .distinct()
            .column(usage_hour::Column::AccountId)
            .expr_as(Expr::cust(DAY), "day")
            .filter(Expr::cust("NOT folded"))
            .order_by_asc(usage_hour::Column::AccountId)
            .order_by_asc(Expr::cust(DAY))
            .limit(MAX_DUE);
        if let Some(AccountDay { account_id, day }) = after {
            let of_account = usage_hour::Column::AccountId.eq(account_id);
            let later = of_account.and(Expr::cust(DAY).gt(day));
            select = select.filter(usage_hour::Column::AccountId.gt(account_id).or(later));
        }
        Ok(select.into_model().all(&self.pools.reader).await?)
    }

    /// All days with hours or sums, of one account or of all.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.usage_day.all", skip_all)]
    pub async fn usage_days_of(&self, account: Option<AccountId>) -> Result<Vec<AccountDay>, StoreError> {
        let mut hours = usage_hour::Entity::find()
            .select_only()
            .distinct()
            .column(usage_hour::Column::AccountId)
            .expr_as(Expr::cust(DAY), "day");
        let mut days = Entity::find().select_only().distinct().column(Column::AccountId).column(Column::Day);
        if let Some(account) = account {
            hours = hours.filter(usage_hour::Column::AccountId.eq(account));
            days = days.filter(Column::AccountId.eq(account));
        }
        let mut found: Vec<AccountDay> = hours.into_model().all(&self.pools.reader).await?;
        found.extend(days.into_model::<AccountDay>().all(&self.pools.reader).await?);
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Replaces the sums of a day by those of its hours.
    ///
    /// # Errors
    /// When the database does not answer; nothing is changed then.
    #[tracing::instrument(name = "store.usage_day.fold", skip_all)]
    pub async fn fold_usage_day(&self, day: AccountDay) -> Result<(), StoreError> {
        let transaction = self.pools.writer.begin_with_options(IMMEDIATE).await?;
        fold(&transaction, day).await?;
        transaction.commit().await?;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "days are folded for all accounts")]
async fn fold(
    transaction: &DatabaseTransaction,
    AccountDay { account_id, day }: AccountDay,
) -> Result<(), StoreError> {
    // Not FOR UPDATE, for which every report would wait that refers to the account.
    let lock = account::Entity::find_by_id(account_id).lock(LockType::NoKeyUpdate);
    lock.one(transaction).await?;
    let hours = |column: usage_hour::Column| {
        Expr::col(column).gte(day * DAY_HOURS).and(Expr::col(column).lt((day + 1) * DAY_HOURS))
    };
    usage_hour::Entity::update_many()
        .col_expr(usage_hour::Column::Folded, Expr::val(true))
        .filter(usage_hour::Column::AccountId.eq(account_id))
        .filter(hours(usage_hour::Column::Hour))
        .filter(Expr::cust("NOT folded"))
        .exec(transaction)
        .await?;
    Entity::delete_many()
        .filter(Column::AccountId.eq(account_id))
        .filter(Column::Day.eq(day))
        .exec(transaction)
        .await?;
    function_usage_day::Entity::delete_many()
        .filter(function_usage_day::Column::AccountId.eq(account_id))
        .filter(function_usage_day::Column::Day.eq(day))
        .exec(transaction)
        .await?;

    let clusters = Func::count_distinct(Expr::col(("hours", "cluster_id")));
    let mut days = hours_by_user("usage_hours", account_id, day);
    days.expr_as(clusters, "clusters");
    insert_sums(transaction, "usage_days", &["account_id", "day", "user_id", "clusters"], days, &SUMS)
        .await?;

    let mut functions = hours_by_user("function_usage_hours", account_id, day);
    functions.column(("hours", "prefix")).group_by_col(("hours", "prefix"));
    let keys = ["account_id", "day", "user_id", "prefix"];
    insert_sums(transaction, "function_usage_days", &keys, functions, &FUNCTION_SUMS).await
}

/// The hours of a day with the user of their cluster; columns are to be added.
fn hours_by_user(table: &'static str, account: AccountId, day: i64) -> SelectStatement {
    let user = Func::coalesce([Expr::col(("clusters", "user_id")), Expr::val(Uuid::nil())]);
    let hour = || Expr::col(("hours", "hour"));
    Query::select()
        .column(("hours", "account_id"))
        .expr_as(Expr::val(day), "day")
        .expr_as(user, "user_id")
        .from_as(table, "hours")
        .inner_join(
            "clusters",
            Expr::col(("clusters", "account_id"))
                .equals(("hours", "account_id"))
                .and(Expr::col(("clusters", "id")).equals(("hours", "cluster_id"))),
        )
        .and_where(Expr::col(("hours", "account_id")).eq(account.0))
        .and_where(hour().gte(day * DAY_HOURS))
        .and_where(hour().lt((day + 1) * DAY_HOURS))
        .group_by_col(("hours", "account_id"))
        .group_by_col(("clusters", "user_id"))
        .take()
}

/// `INSERT INTO table (keys, sums) SELECT keys, SUM(..) ..`
async fn insert_sums(
    transaction: &DatabaseTransaction,
    table: &'static str,
    keys: &[&'static str],
    mut select: SelectStatement,
    sums: &'static [&'static str],
) -> Result<(), StoreError> {
    for column in sums {
        select.expr_as(sum_of(("hours", *column)), *column);
    }
    let columns = keys.iter().chain(sums).copied();
    let insert = Query::insert()
        .into_table(table)
        .columns(columns)
        .select_from(select)
        .expect("the statement selects what it names")
        .take();
    transaction.execute(&insert).await?;
    Ok(())
}

#[derive(Debug, FromQueryResult)]
struct DayRow {
    day: i64,
    #[sea_orm(nested)]
    sums: Sums,
}

impl AccountStore {
    /// What the account used in the days from `from` to before `to`, by day.
    ///
    /// # Errors
    /// When the database does not answer.
    #[tracing::instrument(name = "store.usage_day.days", skip_all)]
    pub async fn usage_days(&self, (from, to): (i64, i64)) -> Result<BTreeMap<i64, Usage>, StoreError> {
        let mut select = self
            .select::<Entity>()
            .select_only()
            .column(Column::Day)
            .filter(Column::Day.gte(from))
            .filter(Column::Day.lt(to))
            .group_by(Column::Day);
        for column in SUMS {
            select = select.expr_as(sum_of(column), column);
        }
        let rows: Vec<DayRow> = select.into_model().all(&self.reads()).await?;
        Ok(rows.into_iter().map(|row| (row.day, row.sums.into())).collect())
    }
}
